//! A tokenizer from Hugging Face's `tokenizer.json`.

use super::added::{Added, AddedToken};
use super::bpe::{Bpe, BpeBuilder};
use super::bytelevel::unspell;
use super::json_pieces;
use super::pretokenize::Words;
use super::vocab::{Kind, Vocab};
use super::{Parts, Tokenizer};
use crate::error::{try_zeroed, Error, Result};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::Deserialize;
use serde_json::Value;

/// A hole costs a few bytes, so ids may be far apart, but not arbitrarily.
const MAX_ID: u32 = (1 << 22) - 1;

#[derive(Deserialize)]
pub(super) struct File {
    #[serde(default)]
    added_tokens: Vec<Added_>,
    #[serde(default)]
    pub(super) normalizer: Value,
    #[serde(default)]
    pub(super) pre_tokenizer: Value,
    #[serde(default)]
    post_processor: Value,
    pub(super) model: Model,
}

/// An entry of `added_tokens`.
#[derive(Deserialize)]
struct Added_ {
    id: u32,
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    normalized: bool,
    #[serde(default)]
    special: bool,
}

#[derive(Deserialize)]
pub(super) struct Model {
    #[serde(rename = "type")]
    kind: Option<String>,
    dropout: Option<f32>,
    pub(super) unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    pub(super) ignore_merges: bool,
    #[serde(default)]
    pub(super) vocab: Entries,
    #[serde(default)]
    pub(super) merges: Vec<Pair>,
}

/// Both ways to write a merge.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Pair {
    Line(String),
    Two(String, String),
}

impl Pair {
    pub(super) fn parts(&self) -> Option<(&str, &str)> {
        match self {
            Pair::Line(line) => line.split_once(' '),
            Pair::Two(l, r) => Some((l.as_str(), r.as_str())),
        }
    }
}

/// `{"token": id, ...}` in file order.
#[derive(Default)]
pub(super) struct Entries(pub(super) Vec<(String, u32)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct ListVisitor;
        impl<'de> Visitor<'de> for ListVisitor {
            type Value = Entries;
            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("an object from token to id (only BPE vocabularies are supported)")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Entries, A::Error> {
                let mut list = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    list.push(entry);
                }
                Ok(Entries(list))
            }
        }
        deserializer.deserialize_map(ListVisitor)
    }
}

pub(super) fn tokenizer(json: &[u8]) -> Result<Tokenizer> {
    let file: File = serde_json::from_slice(json).map_err(|e| Error::bad_model("tokenizer.json", e))?;
    check_model(&file.model)?;
    let Cutting { vocab, bpe, words } = match file.model.byte_fallback {
        true => json_pieces::cutting(&file)?,
        false => byte_level(&file)?,
    };
    let mut added = Vec::new();
    for token in file.added_tokens {
        // Looked for in normalised text, so it is compared in that form as well.
        let content = match token.normalized {
            true => words.normalize(&token.content)?.into_owned(),
            false => token.content,
        };
        added.push(AddedToken {
            id: token.id,
            content,
            control: token.special,
            lstrip: token.lstrip,
            rstrip: token.rstrip,
            single_word: token.single_word,
            normalized: token.normalized,
        });
    }
    let bos = bos(&file.post_processor, &vocab, &added);
    let added = Added::new(&added)?;
    Tokenizer::from_parts(Parts {
        vocab,
        bpe,
        words,
        added,
        bos,
        add_bos: bos.is_some(),
        end_ids: Vec::new(),
    })
}

/// How text becomes ids, in either kind of tokenizer.
pub(super) struct Cutting {
    pub(super) vocab: Vocab,
    pub(super) bpe: Bpe,
    pub(super) words: Words,
}

fn byte_level(file: &File) -> Result<Cutting> {
    if file.model.unk_token.is_some() {
        let reason = "only vocabularies of pieces, with byte_fallback, have one";
        return Err(Error::unsupported("tokenizer.json: model.unk_token", reason));
    }
    let bad = |e| Error::bad_model("tokenizer.json", e);
    let words = Words::new(
        Deserialize::deserialize(&file.normalizer).map_err(bad)?,
        Deserialize::deserialize(&file.pre_tokenizer).map_err(bad)?,
    )?;
    let vocab = vocabulary(file, |_| Kind::Normal, Vocab::push_spelled)?;
    let mut bpe = BpeBuilder::new(&vocab, file.model.merges.len())?;
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for (i, merge) in file.model.merges.iter().enumerate() {
        left.clear();
        right.clear();
        let parts = merge.parts().filter(|(l, r)| unspell(l, &mut left) && unspell(r, &mut right));
        if parts.is_none() || left.is_empty() || right.is_empty() {
            return Err(not_two(i));
        }
        bpe.merge(i, &left, &right)?;
    }
    let bpe = bpe.build(file.model.ignore_merges)?;
    Ok(Cutting { vocab, bpe, words })
}

/// What a merge is called that cannot be read.
pub(super) fn not_two(merge: usize) -> Error {
    Error::bad_model(format!("tokenizer.json: merge {merge}"), "it is not two tokens")
}

fn check_model(model: &Model) -> Result<()> {
    let unsupported = |what: &str| {
        Err(Error::unsupported(
            format!("tokenizer.json: model.{what}"),
            "only byte-level BPE and SentencePiece's are supported",
        ))
    };
    let set = |text: &Option<String>| text.as_ref().is_some_and(|t| !t.is_empty());
    match model {
        m if m.kind.as_deref().is_some_and(|kind| kind != "BPE") => unsupported("type"),
        m if m.dropout.is_some_and(|d| d != 0.0) => unsupported("dropout"),
        m if set(&m.continuing_subword_prefix) => unsupported("continuing_subword_prefix"),
        m if set(&m.end_of_word_suffix) => unsupported("end_of_word_suffix"),
        _ => Ok(()),
    }
}

/// Every id's token; `kind` tells what an entry of the model's vocabulary is.
pub(super) fn vocabulary(
    file: &File,
    kind: fn(&str) -> Kind,
    push: fn(&mut Vocab, Kind, &str) -> Result<()>,
) -> Result<Vocab> {
    let (entries, added) = (&file.model.vocab.0, &file.added_tokens);
    let ids = entries.iter().map(|e| e.1).chain(added.iter().map(|a| a.id));
    let Some(last) = ids.max() else { return Err(Error::bad_model("tokenizer.json", "it has no tokens")) };
    if last > MAX_ID {
        return Err(Error::bad_model("tokenizer.json", format!("token id {last} is larger than {MAX_ID}")));
    }
    let mut slots: Vec<Option<(&str, Kind)>> = try_zeroed(last as usize + 1, "vocabulary")?;
    for (token, id) in entries {
        if let Some((other, _)) = slots[*id as usize].replace((token, kind(token))) {
            return Err(Error::bad_model(
                "tokenizer.json",
                format!("{other:?} and {token:?} both have id {id}"),
            ));
        }
    }
    for token in added {
        let kind = if token.special { Kind::Control } else { Kind::UserDefined };
        let slot = &mut slots[token.id as usize];
        match slot.replace((&token.content, kind)) {
            Some((other, _)) if other != token.content => {
                let reason = format!("{other:?} and {:?} both have id {}", token.content, token.id);
                return Err(Error::bad_model("tokenizer.json", reason));
            }
            _ => {}
        }
    }
    let mut vocab = Vocab::with_capacity(slots.len())?;
    for slot in slots {
        let (token, kind) = slot.unwrap_or(("", Kind::Unused));
        push(&mut vocab, kind, token)?;
    }
    vocab.shrink();
    Ok(vocab)
}

/// The special token that the post-processor puts before a single text, if any.
fn bos(post_processor: &Value, vocab: &Vocab, added: &[AddedToken]) -> Option<u32> {
    let steps = match post_processor["processors"].as_array() {
        Some(steps) => steps.as_slice(),
        None => std::slice::from_ref(post_processor),
    };
    let template = steps.iter().find(|step| step["type"] == "TemplateProcessing")?;
    let name = template["single"][0]["SpecialToken"]["id"].as_str()?;
    let id = template["special_tokens"][name]["ids"][0].as_u64().and_then(|id| u32::try_from(id).ok());
    let id = id.or_else(|| added.iter().find(|token| token.content == name).map(|token| token.id))?;
    (vocab.kind(id) == Some(Kind::Control)).then_some(id)
}
