//! Cutting text into words before BPE, as each family's Hugging Face tokenizer does.

use super::sentencepiece::Spaces;
use crate::error::{Error, Result};
use tokenizers::normalizers::{NormalizerWrapper, NFC};
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::tokenizer::{
    NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
    SplitDelimiterBehavior,
};

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// What a name in `tokenizer.ggml.pre` stands for.
pub(super) struct Family {
    /// The value of `tokenizer.ggml.pre`.
    pub(super) name: &'static str,
    regex: &'static str,
    /// Every digit is a word of its own.
    digits: bool,
    /// Text is brought to Unicode's composed form first.
    nfc: bool,
    /// A word that is a token is not merged.
    pub(super) ignore_merges: bool,
    /// Whether BOS starts a context when the file does not say.
    pub(super) add_bos: bool,
}

const fn family(name: &'static str, regex: &'static str) -> Family {
    Family { name, regex, digits: false, nfc: false, ignore_merges: false, add_bos: false }
}

/// All known names.
pub(super) const FAMILIES: &[Family] = &[
    family("default", GPT2),
    family("gpt-2", GPT2),
    Family { digits: true, ..family("smollm", GPT2) },
    Family { ignore_merges: true, add_bos: true, ..family("llama-bpe", LLAMA3) },
    Family { ignore_merges: true, add_bos: true, ..family("lfm2", LLAMA3) },
    Family { nfc: true, ..family("qwen2", QWEN2) },
];

impl Family {
    /// By its name in `tokenizer.ggml.pre`.
    pub(super) fn named(name: &str) -> Result<&'static Family> {
        FAMILIES.iter().find(|f| f.name == name).ok_or_else(|| {
            let known: Vec<_> = FAMILIES.iter().map(|f| f.name).collect();
            Error::unsupported(
                "tokenizer.ggml.pre",
                format!("pre-tokenizer {name:?} is not known; known are {}", known.join(", ")),
            )
        })
    }

    /// Its cutting rules.
    pub(super) fn words(&self) -> Result<Words> {
        let mut steps = Vec::new();
        if self.digits {
            steps.push(PreTokenizerWrapper::Digits(Digits::new(true)));
        }
        steps.push(split(self.regex)?);
        let normalizer = self.nfc.then_some(NormalizerWrapper::NFC(NFC));
        Ok(Words { spaces: None, normalizer, steps, spelled: false })
    }
}

fn split(regex: &str) -> Result<PreTokenizerWrapper> {
    Split::new(SplitPattern::Regex(regex.into()), SplitDelimiterBehavior::Isolated, false)
        .map(PreTokenizerWrapper::Split)
        .map_err(|e| Error::unsupported("pre-tokenizer", e))
}

/// Text to words.
pub(super) struct Words {
    /// For vocabularies of pieces: a text is one word, in which spaces are written another way.
    pub(super) spaces: Option<Spaces>,
    normalizer: Option<NormalizerWrapper>,
    steps: Vec<PreTokenizerWrapper>,
    /// Words come out spelled in the byte alphabet instead of as text.
    pub(super) spelled: bool,
}

impl Words {
    /// For a vocabulary of pieces.
    pub(super) fn pieces(spaces: Spaces) -> Self {
        Words { spaces: Some(spaces), normalizer: None, steps: Vec::new(), spelled: false }
    }

    /// From the parts of a `tokenizer.json`.
    pub(super) fn new(
        normalizer: Option<NormalizerWrapper>,
        pre: Option<PreTokenizerWrapper>,
    ) -> Result<Self> {
        let mut words = Words { spaces: None, normalizer, steps: Vec::new(), spelled: false };
        if let Some(normalizer) = &words.normalizer {
            check_normalizer(normalizer)?;
        }
        let mut byte_level = false;
        let mut list = Vec::new();
        if let Some(pre) = pre {
            flatten(pre, &mut list);
        }
        let last = list.len().saturating_sub(1);
        for (i, step) in list.into_iter().enumerate() {
            match step {
                // Its spelling of bytes is undone at once, so the last step only has to cut.
                PreTokenizerWrapper::ByteLevel(b) if i == last && !b.add_prefix_space => {
                    byte_level = true;
                    if b.use_regex {
                        words.steps.push(split(GPT2)?);
                    }
                }
                step @ PreTokenizerWrapper::ByteLevel(_) if i == last => {
                    byte_level = true;
                    words.spelled = true;
                    words.steps.push(step);
                }
                step @ (PreTokenizerWrapper::Split(_) | PreTokenizerWrapper::Digits(_)) => {
                    words.steps.push(step)
                }
                _ => {
                    let reason = "only Split, Digits and, last, ByteLevel are supported";
                    return Err(Error::unsupported("tokenizer.json: pre_tokenizer", reason));
                }
            }
        }
        if !byte_level {
            return Err(Error::unsupported(
                "tokenizer.json: pre_tokenizer",
                "only byte-level tokenizers are supported",
            ));
        }
        Ok(words)
    }

    /// The text in the form that is cut; borrowed when nothing changes.
    pub(super) fn normalize<'t>(&self, text: &'t str) -> Result<std::borrow::Cow<'t, str>> {
        if let Some(spaces) = self.spaces {
            return Ok(spaces.apply(text).into());
        }
        let Some(normalizer) = &self.normalizer else { return Ok(text.into()) };
        // Every normal form leaves ASCII alone.
        if matches!(normalizer, NormalizerWrapper::NFC(_)) && text.is_ascii() {
            return Ok(text.into());
        }
        let mut normalized = NormalizedString::from(text);
        normalizer.normalize(&mut normalized).map_err(|e| Error::invalid("text", e))?;
        Ok(normalized.get().to_owned().into())
    }

    /// Calls `each` with every word of a normalised text, in order.
    pub(super) fn cut(&self, text: &str, mut each: impl FnMut(&str)) -> Result<()> {
        if self.steps.is_empty() {
            each(text);
            return Ok(());
        }
        let mut pieces = PreTokenizedString::from(text);
        for step in &self.steps {
            step.pre_tokenize(&mut pieces).map_err(|e| Error::invalid("text", e))?;
        }
        for (word, ..) in pieces.get_splits(OffsetReferential::Original, OffsetType::None) {
            each(word);
        }
        Ok(())
    }
}

/// Unicode's normal forms need no data from the file; other normalizers are refused.
fn check_normalizer(normalizer: &NormalizerWrapper) -> Result<()> {
    match normalizer {
        NormalizerWrapper::NFC(_)
        | NormalizerWrapper::NFD(_)
        | NormalizerWrapper::NFKC(_)
        | NormalizerWrapper::NFKD(_) => Ok(()),
        NormalizerWrapper::Sequence(list) => list.as_ref().iter().try_for_each(check_normalizer),
        _ => Err(Error::unsupported(
            "tokenizer.json: normalizer",
            "only NFC, NFD, NFKC and NFKD are supported",
        )),
    }
}

/// The steps of a sequence, inner sequences opened; how deep they go is bounded by the JSON reader.
fn flatten(step: PreTokenizerWrapper, steps: &mut Vec<PreTokenizerWrapper>) {
    match step {
        PreTokenizerWrapper::Sequence(inner) => inner.into_iter().for_each(|s| flatten(s, steps)),
        one => steps.push(one),
    }
}
