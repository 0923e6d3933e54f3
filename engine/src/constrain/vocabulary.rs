//! The vocabulary as the matcher sees it: a trie over the bytes of all tokens.

use crate::backend::Mask;
use crate::error::{Error, Result};
use crate::tokenizer::{Specials, Tokenizer};
use llguidance::toktrie::{
    InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv, INVALID_TOKEN,
};
use llguidance::ParserFactory;
use std::sync::Arc;

/// Tokens longer than this are never allowed: the trie counts a token's bytes in 10 bits.
const MAX_TOKEN_BYTES: usize = 1000;
/// Ids are 24 bits in the trie.
const MAX_VOCAB: usize = 0xff_ffff;
/// Bytes of all tokens together: the trie has at most 4 million nodes.
const MAX_TRIE_BYTES: usize = 4_000_000;
/// Work of the lexer for one mask, about 70 ns each.
const MASK_FUEL: u64 = 1_000_000;
/// Lexer states that one value may reach: about 2 kB each.
const MAX_LEXER_STATES: usize = 50_000;
/// Ways to go on at one place, about two for each property that may come.
const MAX_WAYS: usize = 20_000;
/// Parser items of one mask or one run of forced text, about 50 ns each.
const MAX_STEP_ITEMS: usize = 1_000_000;

/// What the matcher asks of a tokenizer.
pub(super) trait Tokens: Send + Sync {
    fn bytes(&self, id: u32) -> &[u8];
    fn is_control(&self, id: u32) -> bool;
    fn size(&self) -> usize;
    fn eos_ids(&self) -> &[u32];
    fn encode(&self, text: &str) -> Option<Vec<u32>>;
}

impl Tokens for Tokenizer {
    fn bytes(&self, id: u32) -> &[u8] {
        Tokenizer::bytes(self, id)
    }
    fn is_control(&self, id: u32) -> bool {
        Tokenizer::is_control(self, id)
    }
    fn size(&self) -> usize {
        self.vocab_size()
    }
    fn eos_ids(&self) -> &[u32] {
        Tokenizer::eos_ids(self)
    }
    fn encode(&self, text: &str) -> Option<Vec<u32>> {
        Tokenizer::encode(self, text, Specials::Text).ok()
    }
}

/// A tokenizer some of whose control tokens are text: those that a call of a tool is written with.
struct Marked {
    tokenizer: Arc<Tokenizer>,
    markers: Vec<(String, u32)>,
}

impl Tokens for Marked {
    fn bytes(&self, id: u32) -> &[u8] {
        self.tokenizer.bytes(id)
    }
    fn is_control(&self, id: u32) -> bool {
        self.tokenizer.is_control(id) && !self.markers.iter().any(|(_, m)| *m == id)
    }
    fn size(&self) -> usize {
        self.tokenizer.vocab_size()
    }
    fn eos_ids(&self) -> &[u32] {
        self.tokenizer.eos_ids()
    }
    fn encode(&self, mut text: &str) -> Option<Vec<u32>> {
        let mut ids = Vec::new();
        loop {
            let found = self.markers.iter().filter_map(|(name, id)| Some((text.find(name)?, name, id))).min();
            let (before, after) = match found {
                Some((at, name, _)) => (&text[..at], Some(&text[at + name.len()..])),
                None => (text, None),
            };
            if !before.is_empty() {
                ids.extend(self.tokenizer.encode(before, Specials::Text).ok()?);
            }
            match (found, after) {
                (Some((_, _, id)), Some(after)) => {
                    ids.push(*id);
                    text = after;
                }
                _ => return Some(ids),
            }
        }
    }
}

/// The vocabulary as the matcher sees it; made once a model, shared.
#[derive(Clone)]
pub struct Vocabulary(Arc<Inner>);

struct Inner {
    factory: ParserFactory,
    eos: Vec<u32>,
    /// Tokens with a quote in them: the only ones that can end a key.
    quoting: Vec<u32>,
    /// Tokens with a backslash in them.
    escaping: Vec<u32>,
    /// Tokens that may begin an array and write items at once.
    opening: Vec<u32>,
    /// All tokens, the longest first, and of each length how many are longer.
    by_length: Vec<u32>,
    longer: Vec<usize>,
    vocab: usize,
}

impl Vocabulary {
    /// From a tokenizer; `vocab` is the number of logits, at least the tokenizer's ids. Control tokens and ids
    /// without bytes are never part of a value.
    ///
    /// # Errors
    /// [`Error::UnsupportedModel`] for a vocabulary beyond the matcher's limits.
    pub fn new(tokenizer: Arc<Tokenizer>, vocab: usize) -> Result<Self> {
        Self::of(tokenizer, vocab)
    }

    /// The same in which some control tokens may be part of a value, by their names; `None` if the tokenizer has no
    /// such token.
    ///
    /// # Errors
    /// As [`Vocabulary::new`].
    pub(crate) fn with_markers(
        tokenizer: Arc<Tokenizer>,
        vocab: usize,
        names: &[&str],
    ) -> Result<Option<Self>> {
        let markers: Vec<(String, u32)> = (0..tokenizer.vocab_size() as u32)
            .filter(|&id| tokenizer.is_control(id))
            .filter_map(|id| {
                let name = names.iter().find(|name| name.as_bytes() == tokenizer.bytes(id))?;
                Some((name.to_string(), id))
            })
            .collect();
        if markers.is_empty() {
            return Ok(None);
        }
        Self::of(Arc::new(Marked { tokenizer, markers }), vocab).map(Some)
    }

    pub(super) fn of(tokens: Arc<dyn Tokens>, vocab: usize) -> Result<Self> {
        if vocab == 0 || vocab > MAX_VOCAB || vocab < tokens.size() {
            let reason = format!("{vocab} logits for {} tokens; at most {MAX_VOCAB}", tokens.size());
            return Err(Error::unsupported("vocabulary", reason));
        }
        let words: Vec<Vec<u8>> = (0..vocab as u32)
            .map(|id| match () {
                _ if id as usize >= tokens.size() || tokens.is_control(id) => Vec::new(),
                _ => tokens.bytes(id).to_vec(),
            })
            .map(|bytes| if bytes.len() > MAX_TOKEN_BYTES { Vec::new() } else { bytes })
            .collect();
        if words.iter().map(Vec::len).sum::<usize>() > MAX_TRIE_BYTES {
            return Err(Error::unsupported(
                "vocabulary",
                format!("more than {MAX_TRIE_BYTES} bytes of tokens"),
            ));
        }
        let mut eos: Vec<u32> =
            tokens.eos_ids().iter().copied().filter(|id| (*id as usize) < vocab).collect();
        eos.sort_unstable();
        eos.dedup();
        let those = |wanted: &dyn Fn(&[u8]) -> bool| -> Vec<u32> {
            (0u32..).zip(&words).filter(|(_, w)| wanted(w)).map(|(id, _)| id).collect()
        };
        let quoting = those(&|w| w.contains(&b'"'));
        let escaping = those(&|w| w.contains(&b'\\'));
        let opening = those(&|w| w.contains(&b'[') && w.last() != Some(&b'['));
        let mut by_length: Vec<u32> = (0..vocab as u32).collect();
        by_length.sort_by_key(|&id| std::cmp::Reverse(words[id as usize].len()));
        let longest = by_length.first().map_or(0, |&id| words[id as usize].len());
        let more_than = |n: usize| by_length.partition_point(|&id| words[id as usize].len() > n);
        let longer = (0..=longest).map(more_than).collect();
        let info = TokRxInfo::new(vocab as u32, eos.first().copied().unwrap_or(INVALID_TOKEN));
        let trie = TokTrie::from(&info, &words);
        let trie = if eos.is_empty() { trie } else { trie.with_eos_tokens(&eos) };
        let env: TokEnv = Arc::new(Env { tokens, trie });
        let caps = InferenceCapabilities { ff_tokens: true, ..Default::default() };
        let slices = llguidance::earley::SlicedBiasComputer::general_slices();
        let mut factory =
            ParserFactory::new(&env, caps, &slices).map_err(|e| Error::Internal(e.to_string()))?;
        factory.quiet();
        let limits = factory.limits_mut();
        limits.verbose_errors = false;
        limits.max_lexer_states = MAX_LEXER_STATES;
        limits.step_lexer_fuel = MASK_FUEL;
        limits.max_items_in_row = MAX_WAYS;
        limits.step_max_items = MAX_STEP_ITEMS;
        Ok(Vocabulary(Arc::new(Inner { factory, eos, quoting, escaping, opening, by_length, longer, vocab })))
    }

    /// Number of logits.
    pub fn size(&self) -> usize {
        self.0.vocab
    }

    /// Tokens that end a value.
    pub fn eos_ids(&self) -> &[u32] {
        &self.0.eos
    }

    /// Tokens with a `[` that is not their last byte.
    pub(super) fn opening(&self) -> &[u32] {
        &self.0.opening
    }

    /// Tokens with a backslash in them.
    pub(super) fn escaping(&self) -> &[u32] {
        &self.0.escaping
    }

    /// Tokens of more than `n` bytes.
    pub(super) fn longer(&self, n: usize) -> &[u32] {
        let count = self.0.longer.get(n).copied().unwrap_or(0);
        self.0.by_length.get(..count).unwrap_or_default()
    }

    /// Tokens with a quote in them.
    pub(super) fn quoting(&self) -> &[u32] {
        &self.0.quoting
    }

    /// Takes those of some tokens out of a mask with which the text may not go on; ends stay as they are.
    pub(super) fn strike(
        &self,
        mask: &mut Mask,
        ids: impl IntoIterator<Item = u32>,
        mut goes_on: impl FnMut(&[u8]) -> Result<bool>,
    ) -> Result<()> {
        for id in ids {
            if mask.allows(id) && !self.0.eos.contains(&id) && !goes_on(self.bytes(id))? {
                mask.words[id as usize / 32] &= !(1 << (id % 32));
            }
        }
        Ok(())
    }

    /// The bytes of a token as far as values are concerned: none for a control token.
    pub(super) fn bytes(&self, id: u32) -> &[u8] {
        self.0.factory.tok_env().tok_trie().token(id)
    }

    /// Bytes of the longest token that a text begins with; 0 if there is none.
    pub(super) fn longest_prefix(&self, text: &[u8]) -> usize {
        self.0.factory.tok_env().tok_trie().prefix_token_id(text).1
    }

    /// The token of exactly these bytes.
    pub(super) fn id(&self, bytes: &[u8]) -> Option<u32> {
        self.0.factory.tok_env().tok_trie().token_id(bytes)
    }

    pub(super) fn factory(&self) -> &ParserFactory {
        &self.0.factory
    }
}

/// The tokenizer behind the matcher's interface.
struct Env {
    tokens: Arc<dyn Tokens>,
    trie: TokTrie,
}

impl Env {
    /// The tokenizer's own ids for a text, if they stand for exactly that text: a tokenizer may add a space in
    /// front, or know no token for a byte.
    fn canonical(&self, text: &str) -> Option<Vec<TokenId>> {
        let ids = self.tokens.encode(text)?;
        let bytes: Vec<u8> = ids.iter().flat_map(|&id| self.trie.token(id).iter().copied()).collect();
        (bytes == text.as_bytes()).then_some(ids)
    }
}

impl TokenizerEnv for Env {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        // Forced bytes may begin or end inside a character; those have no canonical tokens.
        let mut ids = Vec::new();
        for chunk in bytes.utf8_chunks() {
            match self.canonical(chunk.valid()) {
                Some(canonical) => ids.extend(canonical),
                None => ids.extend(self.trie.greedy_tokenize(chunk.valid().as_bytes())),
            }
            ids.extend(self.trie.greedy_tokenize(chunk.invalid()));
        }
        ids
    }
}
