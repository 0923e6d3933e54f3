//! `tokenizer.json` and its companions to GGUF's tokenizer keys.

use super::config::Family;
use lean_engine::gguf::{Value as Pair, Writer};
use lean_engine::{Error, Result};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::path::Path;

const FILE: &str = "tokenizer.json";
/// GGUF's token types.
const NORMAL: i64 = 1;
const UNKNOWN: i64 = 2;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;
const UNUSED: i64 = 5;
const BYTE: i64 = 6;

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// SentencePiece's stand-in for the space.
const SPACE: &str = "\u{2581}";

fn unsupported(what: &str, reason: impl std::fmt::Display) -> Error {
    Error::unsupported(format_args!("{FILE}: {what}"), reason)
}

/// Writes the keys for a model whose embedding has `rows` rows. `config` is config.json.
pub fn write(w: &mut Writer, dir: &Path, config: &Value, family: Family, rows: u64) -> Result<()> {
    let json = super::read_json(&dir.join(FILE))?;
    let settings = match dir.join("tokenizer_config.json") {
        path if path.is_file() => super::read_json(&path)?,
        _ => Value::Null,
    };
    let model = &json["model"];
    if model["type"].as_str().is_some_and(|t| t != "BPE") || !model["vocab"].is_object() {
        return Err(unsupported("model.type", format_args!("{}; only BPE is supported", model["type"])));
    }
    let pieces = model["byte_fallback"].as_bool().unwrap_or(false);
    let mut vocab = Vocab::new(&json, rows, pieces)?;
    w.set("tokenizer.ggml.model", if pieces { "llama" } else { "gpt2" })?;
    w.set("tokenizer.ggml.pre", if pieces { "default" } else { pre(&json["pre_tokenizer"], family)? })?;
    let merges = merges(model)?;
    if pieces {
        vocab.set_unknown(model["unk_token"].as_str());
        let scores = scores(&vocab.tokens, &merges);
        vocab.spell_spaces();
        w.set("tokenizer.ggml.tokens", vocab.tokens)?;
        w.set("tokenizer.ggml.scores", scores)?;
        w.set("tokenizer.ggml.token_type", Pair::Ints(vocab.types))?;
    } else {
        w.set("tokenizer.ggml.tokens", vocab.tokens)?;
        w.set("tokenizer.ggml.token_type", Pair::Ints(vocab.types))?;
        let lines = merges.into_iter().map(|(l, r)| format!("{l} {r}")).collect::<Vec<_>>();
        w.set("tokenizer.ggml.merges", Pair::Strings(lines))?;
    }
    special_ids(w, &vocab.ids, &settings, config, model["unk_token"].as_str())?;
    if let Some(add) = add_bos(&json["post_processor"], &settings) {
        w.set("tokenizer.ggml.add_bos_token", add)?;
    }
    if pieces {
        w.set("tokenizer.ggml.add_space_prefix", space_prefix(&json))?;
    }
    templates(w, dir, &settings)
}

struct Vocab {
    tokens: Vec<String>,
    types: Vec<i64>,
    ids: HashMap<String, u64>,
}

impl Vocab {
    /// As many tokens as the embedding has rows; those without a name are padding.
    fn new(json: &Value, rows: u64, pieces: bool) -> Result<Self> {
        let rows =
            usize::try_from(rows).map_err(|_| unsupported("vocabulary", "too large for this machine"))?;
        let mut slots: Vec<Option<(String, i64)>> = vec![None; rows];
        let mut ids = HashMap::new();
        let mut put = |token: &str, id: Option<u64>, kind: i64| {
            let id = id.ok_or_else(|| Error::bad_model(FILE, format_args!("{token:?} has no id")))?;
            let slot = slots.get_mut(usize::try_from(id).unwrap_or(usize::MAX)).ok_or_else(|| {
                let reason = format!("{token:?} has id {id}, and the embedding has {rows} rows");
                Error::bad_model(FILE, reason)
            })?;
            *slot = Some((token.to_string(), kind));
            ids.insert(token.to_string(), id);
            Ok(())
        };
        for (token, id) in json["model"]["vocab"].as_object().into_iter().flatten() {
            let byte = pieces && token.len() == 6 && token.starts_with("<0x") && token.ends_with('>');
            put(token, id.as_u64(), if byte { BYTE } else { NORMAL })?;
        }
        for added in json["added_tokens"].as_array().into_iter().flatten() {
            let Some(content) = added["content"].as_str() else { continue };
            let control = added["special"].as_bool().unwrap_or(false) || looks_special(content);
            put(content, added["id"].as_u64(), if control { CONTROL } else { USER_DEFINED })?;
        }
        let pad = |(i, slot): (usize, Option<(String, i64)>)| slot.unwrap_or((format!("[PAD{i}]"), UNUSED));
        let (tokens, types) = slots.into_iter().enumerate().map(pad).unzip();
        Ok(Vocab { tokens, types, ids })
    }

    fn set_unknown(&mut self, token: Option<&str>) {
        if let Some(&id) = token.and_then(|t| self.ids.get(t)) {
            self.types[id as usize] = UNKNOWN;
        }
    }

    /// Tokens that are looked for in the text itself have plain spaces in GGUF.
    fn spell_spaces(&mut self) {
        for (token, kind) in self.tokens.iter_mut().zip(&self.types) {
            if *kind == USER_DEFINED {
                *token = token.replace(SPACE, " ");
            }
        }
    }
}

/// Tokens that mark structure although some files forget to say so; llama.cpp's converter has the same list.
fn looks_special(token: &str) -> bool {
    let between = |start: &str, end: &str| token.starts_with(start) && token.ends_with(end);
    matches!(token, "<pad>" | "<mask>" | "<2mass>" | "[@BOS@]")
        || between("<|", "|>")
        || between("<\u{ff5c}", "\u{ff5c}>")
        || between("<unused", ">")
}

/// Both ways to write a merge.
fn merges(model: &Value) -> Result<Vec<(&str, &str)>> {
    let mut out = Vec::new();
    for (i, merge) in model["merges"].as_array().into_iter().flatten().enumerate() {
        let found = match merge.as_array().map(Vec::as_slice) {
            Some([l, r]) => l.as_str().zip(r.as_str()),
            _ => merge.as_str().and_then(|m| m.split_once(' ')),
        };
        out.push(found.ok_or_else(|| Error::bad_model(FILE, format_args!("merge {i} is not two tokens")))?);
    }
    Ok(out)
}

/// SentencePiece merges by the score of the result, which is the (negative) place of the first merge that makes it.
fn scores(tokens: &[String], merges: &[(&str, &str)]) -> Vec<f32> {
    let mut rank: HashMap<String, usize> = HashMap::new();
    for (i, (l, r)) in merges.iter().enumerate() {
        rank.entry(format!("{l}{r}")).or_insert(i);
    }
    let score = |token: &String| rank.get(token).map_or(0.0, |&i| -(i as f32));
    tokens.iter().map(score).collect()
}

/// The name of the rule by which text is cut into words.
fn pre(value: &Value, family: Family) -> Result<&'static str> {
    let mut regexes = Vec::new();
    let mut kinds = HashSet::new();
    let mut digits = false;
    let list = std::slice::from_ref(value);
    for step in value["pretokenizers"].as_array().map_or(list, Vec::as_slice) {
        kinds.insert(step["type"].as_str().unwrap_or_default());
        digits |= step["individual_digits"].as_bool().unwrap_or(false);
        regexes.extend(step["pattern"]["Regex"].as_str());
    }
    let refused =
        || unsupported("pre_tokenizer", format_args!("{value} is none of those that GGUF readers know"));
    if !kinds.remove("ByteLevel") {
        return Err(refused());
    }
    match (regexes.as_slice(), digits) {
        ([], true) => Ok("smollm"),
        ([], false) if kinds.is_empty() => Ok("gpt-2"),
        ([LLAMA3], false) => Ok(if family == Family::Lfm2 { "lfm2" } else { "llama-bpe" }),
        ([QWEN2], false) => Ok("qwen2"),
        _ => Err(refused()),
    }
}

/// Ids of the tokens with a role: by their text in tokenizer_config.json, else by number in config.json.
fn special_ids(
    w: &mut Writer,
    ids: &HashMap<String, u64>,
    settings: &Value,
    config: &Value,
    unknown: Option<&str>,
) -> Result<()> {
    let text = &config["text_config"];
    for (role, key) in [("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")] {
        let token = &settings[format!("{role}_token")];
        let name = token.as_str().or(token["content"].as_str());
        let name = name.or(unknown.filter(|_| role == "unk"));
        let named = name.and_then(|t| ids.get(t).copied());
        let number = |c: &Value| {
            let id = &c[format!("{role}_token_id")];
            // The first of several is the one that ends a text.
            id.as_u64().or(id[0].as_u64()).filter(|&id| ids.values().any(|&n| n == id))
        };
        // A tokenizer that names its tokens and leaves one out has none; config.json may say something by default.
        let fallback =
            || if settings["eos_token"].is_null() { number(config).or(number(text)) } else { None };
        if let Some(id) = named.or_else(fallback) {
            w.set(&format!("tokenizer.ggml.{key}_token_id"), Pair::Uint(id))?;
        }
    }
    Ok(())
}

/// Whether a context starts with BOS: the template of the post-processor says so, or else the flag.
fn add_bos(post: &Value, settings: &Value) -> Option<bool> {
    let list = std::slice::from_ref(post);
    let steps = post["processors"].as_array().map_or(list, Vec::as_slice);
    match steps.iter().find(|s| s["type"] == "TemplateProcessing") {
        Some(template) => Some(template["single"][0].get("SpecialToken").is_some()),
        None => settings["add_bos_token"].as_bool(),
    }
}

/// Whether text gets a space in front.
fn space_prefix(json: &Value) -> bool {
    fn any(value: &Value, depth: usize) -> bool {
        let steps = ["normalizers", "pretokenizers"].iter().filter_map(|k| value[*k].as_array()).flatten();
        (value["type"] == "Prepend")
            || (value["type"] == "Metaspace"
                && value["prepend_scheme"].as_str().is_some_and(|s| s != "never"))
            || (depth > 0 && steps.into_iter().any(|step| any(step, depth - 1)))
    }
    any(&json["normalizer"], 4) || any(&json["pre_tokenizer"], 4)
}

/// The chat template: a file of its own, or in tokenizer_config.json, alone or as one of several with names.
fn templates(w: &mut Writer, dir: &Path, settings: &Value) -> Result<()> {
    const KEY: &str = "tokenizer.chat_template";
    let file = dir.join("chat_template.jinja");
    if file.is_file() {
        return w.set(KEY, crate::args::read_text(&file)?);
    }
    match &settings["chat_template"] {
        Value::String(template) => w.set(KEY, template.as_str()),
        Value::Array(list) => {
            let mut names = Vec::new();
            for entry in list {
                let (Some(name), Some(template)) = (entry["name"].as_str(), entry["template"].as_str())
                else {
                    continue;
                };
                match name {
                    "default" => w.set(KEY, template)?,
                    _ => {
                        w.set(&format!("{KEY}.{name}"), template)?;
                        names.push(name.to_string());
                    }
                }
            }
            match names.is_empty() {
                true => Ok(()),
                false => w.set("tokenizer.chat_templates", names),
            }
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_of_words_are_known_by_name() {
        for (name, family) in [
            ("gpt-2", Family::Llama),
            ("smollm", Family::Llama),
            ("llama-bpe", Family::Llama),
            ("lfm2", Family::Lfm2),
            ("qwen2", Family::Qwen3),
        ] {
            let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tokenizer");
            let json =
                super::super::read_json(&Path::new(root).join(format!("{name}.tokenizer.json"))).unwrap();
            assert_eq!(pre(&json["pre_tokenizer"], family).unwrap(), name);
        }
        let error = pre(&json!({"type": "Whitespace"}), Family::Llama).unwrap_err();
        assert!(error.to_string().contains("Whitespace"), "{error}");
    }

    #[test]
    fn tokens_get_their_types() {
        let json = json!({
            "model": {"vocab": {"a": 0, "<0x0A>": 1, "\u{2581}\u{2581}": 4}},
            "added_tokens": [
                {"id": 2, "content": "<|im_end|>", "special": false},
                {"id": 3, "content": "<think>", "special": false},
                {"id": 4, "content": "\u{2581}\u{2581}", "special": false},
            ],
        });
        let mut vocab = Vocab::new(&json, 6, true).unwrap();
        vocab.spell_spaces();
        assert_eq!(vocab.tokens, ["a", "<0x0A>", "<|im_end|>", "<think>", "  ", "[PAD5]"]);
        assert_eq!(vocab.types, [NORMAL, BYTE, CONTROL, USER_DEFINED, USER_DEFINED, UNUSED]);
        assert!(Vocab::new(&json, 4, true).err().unwrap().to_string().contains("has 4 rows"));
    }

    #[test]
    fn scores_are_places_of_merges() {
        let tokens = ["<s>", "a", "ab", "abc"].map(String::from);
        let merges = [("a", "b"), ("x", "y"), ("ab", "c"), ("a", "bc")];
        assert_eq!(scores(&tokens, &merges), [0.0, 0.0, 0.0, -2.0]);
    }

    #[test]
    fn bos_and_space_are_found_in_every_spelling() {
        let template = json!({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {}}]});
        let plain = json!({"type": "TemplateProcessing", "single": [{"Sequence": {}}]});
        assert_eq!(add_bos(&template, &Value::Null), Some(true));
        assert_eq!(
            add_bos(
                &json!({"type": "Sequence", "processors": [{"type": "ByteLevel"}, template]}),
                &Value::Null
            ),
            Some(true)
        );
        assert_eq!(add_bos(&plain, &json!({"add_bos_token": true})), Some(false));
        assert_eq!(add_bos(&Value::Null, &json!({"add_bos_token": true})), Some(true));
        assert_eq!(add_bos(&Value::Null, &Value::Null), None);
        assert!(space_prefix(
            &json!({"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend"}]}})
        ));
        assert!(!space_prefix(
            &json!({"normalizer": {"type": "Replace"}, "pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "never"}})
        ));
    }
}
