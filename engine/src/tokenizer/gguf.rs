//! A tokenizer from GGUF metadata alone.

use super::added::{Added, AddedToken};
use super::bpe::{Alphabet, Bpe, BpeBuilder};
use super::bytelevel::unspell;
use super::piece_merges;
use super::pretokenize::{Family, Words};
use super::sentencepiece::{self, Chars, Spaces, SPACE};
use super::vocab::{Kind, Vocab};
use super::{Parts, Tokenizer};
use crate::error::{Error, Result};
use crate::gguf::{Metadata, Value};

const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";
const SCORES: &str = "tokenizer.ggml.scores";
const UNKNOWN: &str = "tokenizer.ggml.unknown_token_id";

/// Ids that end a generation whenever the file names them.
const END_IDS: &[&str] =
    &["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"];
/// Ids that are structure even in a file without token types.
const STRUCTURE_IDS: &[&str] = &[
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.padding_token_id",
];

/// How text becomes ids, in either kind of tokenizer.
struct Cutting {
    vocab: Vocab,
    bpe: Bpe,
    words: Words,
    /// Whether BOS starts a context when the file does not say.
    add_bos: bool,
}

pub(super) fn tokenizer(metadata: &Metadata) -> Result<Tokenizer> {
    let model = string(metadata, "tokenizer.ggml.model")?
        .ok_or_else(|| Error::bad_model("tokenizer.ggml.model", "the file has no tokenizer"))?;
    let cutting = match model {
        "gpt2" => byte_level,
        "llama" => pieces,
        _ => {
            let known = "byte-level BPE (\"gpt2\") and SentencePiece's (\"llama\") are";
            let reason = format!("tokenizers of kind {model:?} are not supported; {known}");
            return Err(Error::unsupported("tokenizer.ggml.model", reason));
        }
    };
    let tokens = match metadata.pairs.get(TOKENS) {
        Some(Value::Strings(tokens)) => tokens,
        _ => return Err(Error::bad_model(TOKENS, "is not an array of strings")),
    };
    let Cutting { vocab, bpe, words, add_bos } = cutting(metadata, tokens)?;
    let added: Vec<AddedToken> = (0..vocab.len() as u32)
        .filter(|&id| matches!(vocab.kind(id), Some(Kind::Control | Kind::UserDefined)))
        .map(|id| AddedToken {
            id,
            content: content(&tokens[id as usize], &words),
            control: vocab.kind(id) == Some(Kind::Control),
            ..Default::default()
        })
        .collect();
    let end_ids = END_IDS.iter().filter_map(|key| token_id(metadata, key, &vocab).transpose());
    Tokenizer::from_parts(Parts {
        words,
        added: Added::new(&added)?,
        bos: token_id(metadata, "tokenizer.ggml.bos_token_id", &vocab)?,
        add_bos: boolean(metadata, "tokenizer.ggml.add_bos_token")?.unwrap_or(add_bos),
        end_ids: end_ids.collect::<Result<_>>()?,
        vocab,
        bpe,
    })
}

/// What an added token is found by. Converters write runs of `▁` as spaces; the reference does not cut text at those,
/// merges lead to them.
fn content(token: &str, words: &Words) -> String {
    match words.spaces {
        Some(_) if token.bytes().all(|b| b == b' ') => SPACE.to_string().repeat(token.len()),
        _ => token.to_owned(),
    }
}

/// Byte-level BPE, with the merges in the file.
fn byte_level(metadata: &Metadata, tokens: &[String]) -> Result<Cutting> {
    let family = Family::named(string(metadata, "tokenizer.ggml.pre")?.unwrap_or("default"))?;
    let vocab = vocabulary(metadata, tokens, Vocab::push_spelled)?;
    let merges = match metadata.pairs.get(MERGES) {
        Some(Value::Strings(merges)) => merges.as_slice(),
        Some(_) => return Err(Error::bad_model(MERGES, "is not an array of strings")),
        None => &[],
    };
    let mut bpe = BpeBuilder::new(&vocab, merges.len())?;
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for (i, merge) in merges.iter().enumerate() {
        left.clear();
        right.clear();
        // The space between the parts is the first one after the first character.
        let parts = merge.split_once(' ').filter(|(l, r)| unspell(l, &mut left) && unspell(r, &mut right));
        if parts.is_none() || left.is_empty() || right.is_empty() {
            return Err(Error::bad_model(format!("{MERGES}[{i}]"), format!("{merge:?} is not two tokens")));
        }
        bpe.merge(i, &left, &right)?;
    }
    let bpe = bpe.build(family.ignore_merges)?;
    Ok(Cutting { vocab, bpe, words: family.words()?, add_bos: family.add_bos })
}

/// SentencePiece's BPE: merges follow from the scores of the pieces.
fn pieces(metadata: &Metadata, tokens: &[String]) -> Result<Cutting> {
    let scores = match metadata.pairs.get(SCORES) {
        Some(Value::Floats(scores)) => scores,
        Some(_) => return Err(Error::bad_model(SCORES, "is not an array of numbers")),
        None => return Err(Error::bad_model(SCORES, "missing; a tokenizer of kind \"llama\" needs it")),
    };
    if scores.len() != tokens.len() {
        let reason = format!("{} scores for {} tokens", scores.len(), tokens.len());
        return Err(Error::bad_model(SCORES, reason));
    }
    let vocab = vocabulary(metadata, tokens, sentencepiece::push)?;
    let merges = piece_merges::merges(&vocab, scores)?;
    let unknown = token_id(metadata, UNKNOWN, &vocab)?;
    let bpe = Bpe::new(merges, vocab.len(), Alphabet::Chars(Chars::new(&vocab, unknown)), None)?;
    let prefix = boolean(metadata, "tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
    Ok(Cutting { vocab, bpe, words: Words::pieces(Spaces { prefix }), add_bos: true })
}

fn vocabulary(
    metadata: &Metadata,
    tokens: &[String],
    push: fn(&mut Vocab, Kind, &str) -> Result<()>,
) -> Result<Vocab> {
    let kinds = match metadata.pairs.get(TYPES) {
        None => None,
        Some(Value::Ints(v)) => Some(v.clone()),
        Some(Value::Uints(v)) => Some(v.iter().map(|&x| i64::try_from(x).unwrap_or(i64::MAX)).collect()),
        Some(_) => return Err(Error::bad_model(TYPES, "is not an array of integers")),
    };
    if let Some(kinds) = kinds.as_ref().filter(|k| k.len() != tokens.len()) {
        let reason = format!("{} types for {} tokens", kinds.len(), tokens.len());
        return Err(Error::bad_model(TYPES, reason));
    }
    let mut vocab = Vocab::with_capacity(tokens.len())?;
    for (i, token) in tokens.iter().enumerate() {
        let kind = match &kinds {
            None => Kind::Normal,
            Some(kinds) => Kind::from_gguf(kinds[i]).ok_or_else(|| {
                Error::bad_model(format!("{TYPES}[{i}]"), format!("{} is no token type", kinds[i]))
            })?,
        };
        push(&mut vocab, kind, token)?;
    }
    vocab.shrink();
    if kinds.is_none() {
        for key in STRUCTURE_IDS {
            if let Some(id) = token_id(metadata, key, &vocab)? {
                vocab.set_kind(id, Kind::Control);
            }
        }
    }
    Ok(vocab)
}

fn string<'m>(metadata: &'m Metadata, key: &str) -> Result<Option<&'m str>> {
    match metadata.pairs.get(key) {
        None => Ok(None),
        Some(Value::String(s)) => Ok(Some(s)),
        Some(_) => Err(Error::bad_model(key, "is not a string")),
    }
}

fn boolean(metadata: &Metadata, key: &str) -> Result<Option<bool>> {
    match metadata.pairs.get(key) {
        None => Ok(None),
        Some(Value::Bool(b)) => Ok(Some(*b)),
        Some(_) => Err(Error::bad_model(key, "is not a boolean")),
    }
}

fn token_id(metadata: &Metadata, key: &str, vocab: &Vocab) -> Result<Option<u32>> {
    let number = match metadata.pairs.get(key) {
        None => return Ok(None),
        Some(Value::Uint(n)) => *n,
        Some(Value::Int(n)) => match u64::try_from(*n) {
            Ok(n) => n,
            // Converters write -1 for "none".
            Err(_) => return Ok(None),
        },
        Some(_) => return Err(Error::bad_model(key, "is not an integer")),
    };
    match u32::try_from(number) {
        Ok(id) if (id as usize) < vocab.len() => Ok(Some(id)),
        // The same as an unsigned 32-bit number.
        Ok(u32::MAX) => Ok(None),
        _ => Err(Error::bad_model(key, format!("{number} is not the id of one of {} tokens", vocab.len()))),
    }
}
