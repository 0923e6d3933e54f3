//! A `tokenizer.json` of SentencePiece's kind: BPE with byte fallback, spaces written as `▁`.

use super::bpe::{Alphabet, Bpe, Merge};
use super::json::{not_two, vocabulary, Cutting, File};
use super::pretokenize::Words;
use super::sentencepiece::{self, Chars, Spaces, SPACE};
use super::vocab::Kind;
use crate::error::{Error, Result};
use serde_json::Value;
use std::collections::HashSet;

pub(super) fn cutting(file: &File) -> Result<Cutting> {
    let words = Words::pieces(spaces(file)?);
    if file.model.ignore_merges {
        let reason = "not supported together with byte_fallback";
        return Err(Error::unsupported("tokenizer.json: model.ignore_merges", reason));
    }
    let kind = |piece: &str| match sentencepiece::byte(piece) {
        Some(_) => Kind::Byte,
        None => Kind::Normal,
    };
    let vocab = vocabulary(file, kind, sentencepiece::push)?;
    let index = sentencepiece::index(&vocab)?;
    // Text never becomes one of these, so merges that lead to them are left out.
    let is_text = |id| matches!(vocab.kind(id), Some(Kind::Normal | Kind::UserDefined));
    let entries = file.model.vocab.0.iter();
    let structure: HashSet<&str> = entries.filter(|e| !is_text(e.1)).map(|e| e.0.as_str()).collect();
    let mut merges = Vec::new();
    merges.try_reserve_exact(file.model.merges.len()).map_err(|_| Error::OutOfMemory {
        wanted: (file.model.merges.len() as u64).saturating_mul(std::mem::size_of::<Merge>() as u64),
        what: "merges".into(),
    })?;
    for (i, merge) in file.model.merges.iter().enumerate() {
        let parts = merge.parts().filter(|(l, r)| !l.is_empty() && !r.is_empty());
        let (left, right) = parts.ok_or_else(|| not_two(i))?;
        let find = |piece: &str| match index.get(&vocab, piece.replace(SPACE, " ").as_bytes()) {
            Some(id) => Ok(Some(id)),
            None if structure.contains(piece) => Ok(None),
            None => {
                Err(Error::bad_model(format!("tokenizer.json: merge {i}"), format!("no token is {piece:?}")))
            }
        };
        let (left, right, into) = (find(left)?, find(right)?, find(&format!("{left}{right}"))?);
        if let (Some(left), Some(right), Some(into)) = (left, right, into) {
            merges.push(Merge { left, right, rank: i as u32, into });
        }
    }
    let unknown = match &file.model.unk_token {
        Some(name) => file.model.vocab.0.iter().find(|e| e.0 == *name).map(|e| e.1),
        None => None,
    };
    let bpe = Bpe::new(merges, vocab.len(), Alphabet::Chars(Chars::new(&vocab, unknown)), None)?;
    Ok(Cutting { vocab, bpe, words })
}

/// What the normalizer does: spaces become `▁`, after one was put in front or not. Nothing may cut the text then.
fn spaces(file: &File) -> Result<Spaces> {
    let steps = match file.normalizer["normalizers"].as_array() {
        Some(steps) => steps.as_slice(),
        None => std::slice::from_ref(&file.normalizer),
    };
    let space = SPACE.to_string();
    let replaces = |step: &Value| {
        step["type"] == "Replace" && step["pattern"]["String"] == " " && step["content"] == *space
    };
    let prepends = |step: &Value| step["type"] == "Prepend" && step["prepend"] == *space;
    let spaces = match steps {
        [one] if replaces(one) => Spaces { prefix: false },
        [one, two] if prepends(one) && replaces(two) => Spaces { prefix: true },
        _ => {
            let reason =
                "with byte_fallback, only Replace of \" \" by \"▁\", after Prepend or not, is supported";
            return Err(Error::unsupported("tokenizer.json: normalizer", reason));
        }
    };
    // Gemma's cuts at spaces, of which there are none left.
    let pre = &file.pre_tokenizer;
    if pre.is_null() || pre["type"] == "Split" && pre["pattern"]["String"] == " " {
        return Ok(spaces);
    }
    let reason = "with byte_fallback, none but a Split at \" \" is supported";
    Err(Error::unsupported("tokenizer.json: pre_tokenizer", reason))
}
