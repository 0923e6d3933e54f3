//! Follows one value through the grammar of its type.

use super::keys::Keys;
use super::masks::{Masks, Place};
use super::unique::Unique;
use super::vocabulary::Vocabulary;
use super::{shortest, Type};
use crate::backend::Mask;
use crate::error::{Error, Result};
use llguidance::toktrie::SimpleVob;

/// Follows one value through the grammar of its type. Its state is the type and the tokens so far: consuming
/// the same tokens again restores it. A clone goes its own way, but shares what the lexer has worked out.
#[derive(Clone)]
pub struct Matcher {
    inner: llguidance::Matcher,
    vocabulary: Vocabulary,
    /// Whether an EOS token was consumed.
    ended: bool,
    /// Only for types with keys that they do not name.
    keys: Option<Keys>,
    /// Only for types with arrays whose items differ.
    unique: Option<Unique>,
    /// The mask of this place, once computed.
    mask: Option<Mask>,
    /// Masks of this type that were computed before, and this place's name among them, if it has one.
    masks: Masks,
    place: Option<Place>,
    /// What finds such names, where nobody else does.
    namer: Option<shortest::Place>,
}

impl Matcher {
    /// At the start of a value.
    ///
    /// # Errors
    /// [`Error::Type`] if the type is too large for the matcher.
    pub fn new(ty: &Type, vocabulary: &Vocabulary) -> Result<Self> {
        let parser = vocabulary.factory().create_parser_from_init_default(ty.0.emitted.grammar.clone());
        let mut inner = llguidance::Matcher::new(parser);
        // Kept by the parser until they are asked for: a type that is too large fails here, before any token.
        inner.compute_ff_tokens();
        match inner.get_error() {
            Some(e) => Err(too_complex(&e)),
            None => {
                let keys = (ty.0.emitted.open_keys && !ty.is_reply()).then(Keys::default);
                let unique = Unique::of(ty)?;
                let vocabulary = vocabulary.clone();
                let (mask, masks, place, namer) = (None, Masks::default(), None, None);
                Ok(Matcher { inner, vocabulary, ended: false, keys, unique, mask, masks, place, namer })
            }
        }
    }

    /// A copy that shares nothing, so that the limits of a value are its own.
    pub(crate) fn apart(&self) -> Self {
        Matcher { inner: self.inner.deep_clone(), ..self.clone() }
    }

    /// After tokens that were consumed before, by a matcher of the same type and vocabulary.
    ///
    /// # Errors
    /// As [`Matcher::new`] and [`Matcher::consume`].
    pub fn replay(ty: &Type, vocabulary: &Vocabulary, tokens: &[u32]) -> Result<Self> {
        let mut matcher = Self::new(ty, vocabulary)?;
        for &id in tokens {
            matcher.consume(id)?;
        }
        Ok(matcher)
    }

    /// From here on keeps masks by what may follow, and uses those that were kept, as a generation does. Matchers that a
    /// model gives out for one type share them. Only at the start of a value.
    ///
    /// # Errors
    /// [`Error::Type`] for a pattern that is too complex.
    pub fn keep_masks(&mut self, ty: &Type) -> Result<()> {
        self.namer = Some(shortest::Place::new(ty)?);
        Ok(())
    }

    /// Tokens that may come next; EOS ids are in it exactly when the value may end here. Where a run of tokens
    /// is forced (see [`Matcher::forced`]) only its first one is allowed. Empty after EOS.
    ///
    /// # Errors
    /// [`Error::Type`] if the type turns out too complex here.
    pub fn mask(&mut self) -> Result<Mask> {
        if let Some(mask) = &self.mask {
            return Ok(mask.clone());
        }
        if let Some(namer) = &self.namer {
            self.place = namer.name()?;
        }
        let known = self.place.as_ref().and_then(|place| self.masks.find(place));
        let mask = match known {
            Some(mask) => mask,
            None => {
                let mask = self.compute_mask()?;
                if let Some(place) = self.place.take() {
                    self.masks.keep(place, &mask);
                }
                mask
            }
        };
        self.mask = Some(mask.clone());
        Ok(mask)
    }

    /// Names this place until the next token: where the same may follow the name is the same.
    pub(crate) fn name_place(&mut self, place: Option<Place>) {
        self.place = place;
    }

    /// Whether the mask of this place is known already.
    pub(crate) fn has_mask(&self) -> bool {
        self.mask.is_some()
    }

    /// The mask, with what items must differ in found the long way.
    #[cfg(test)]
    pub(super) fn slow_mask(&mut self) -> Result<Mask> {
        let mut slow = Matcher { unique: None, mask: None, place: None, namer: None, ..self.clone() };
        let mut mask = slow.compute_mask()?;
        if let Some(unique) = self.unique.as_mut().filter(|_| !self.ended) {
            unique.clone().restrict_slowly(&mut mask, &self.vocabulary)?;
        }
        Ok(mask)
    }

    fn compute_mask(&mut self) -> Result<Mask> {
        let mut mask = Mask { words: vec![0; self.vocabulary.size().div_ceil(32)] };
        if self.ended {
            return Ok(mask);
        }
        if self.inner.is_stopped() {
            self.check_stop()?;
            for &id in self.vocabulary.eos_ids() {
                mask.words[id as usize / 32] |= 1 << (id % 32);
            }
            return Ok(mask);
        }
        let allowed = self.inner.compute_mask().map_err(|e| self.failed(e))?;
        copy(&allowed, &mut mask, self.vocabulary.size());
        if let Some(keys) = self.keys.as_ref().filter(|k| k.matter()) {
            let quoting = self.vocabulary.quoting().iter().copied();
            self.vocabulary.strike(&mut mask, quoting, |bytes| Ok(keys.allow(bytes)))?;
        }
        if let Some(unique) = &mut self.unique {
            unique.restrict(&mut mask, &self.vocabulary)?;
        }
        Ok(mask)
    }

    /// Tokens that must come next whatever the model says (canonical tokenisation), possibly none.
    ///
    /// # Errors
    /// As [`Matcher::mask`].
    pub fn forced(&mut self) -> Result<Vec<u32>> {
        if self.ended || self.inner.is_stopped() {
            return Ok(Vec::new());
        }
        let ids = self.inner.compute_ff_tokens();
        match self.inner.get_error() {
            Some(e) => Err(self.failed(e)),
            None => Ok(ids),
        }
    }

    /// Moves on by one token.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a token that cannot come here; the matcher stays where it is.
    pub fn consume(&mut self, id: u32) -> Result<()> {
        let refused = || Err(Error::invalid(format!("token {id}"), "the type does not allow it here"));
        if self.ended || id as usize >= self.vocabulary.size() {
            return refused();
        }
        if self.vocabulary.eos_ids().contains(&id) {
            if !self.is_accepting()? {
                return refused();
            }
            self.ended = true;
            (self.mask, self.place) = (None, None);
            return Ok(());
        }
        if self.inner.is_stopped() {
            self.check_stop()?;
            return refused();
        }
        if self.inner.validate_tokens(&[id]).map_err(|e| self.failed(e))? == 0 {
            return refused();
        }
        if self.keys.as_ref().is_some_and(|k| k.matter() && !k.allow(self.vocabulary.bytes(id))) {
            return refused();
        }
        if let Some(unique) = &mut self.unique {
            if !unique.allows(self.vocabulary.bytes(id))? {
                return refused();
            }
        }
        self.inner.consume_token(id).map_err(|e| self.failed(e))?;
        if let Some(unique) = &mut self.unique {
            unique.advance(self.vocabulary.bytes(id))?;
        }
        if let Some(keys) = &mut self.keys {
            keys.advance(self.vocabulary.bytes(id));
        }
        if let Some(namer) = &mut self.namer {
            namer.advance(self.vocabulary.bytes(id))?;
        }
        (self.mask, self.place) = (None, None);
        Ok(())
    }

    /// Whether the text so far is a whole value.
    ///
    /// # Errors
    /// As [`Matcher::mask`].
    pub fn is_accepting(&mut self) -> Result<bool> {
        if self.ended {
            return Ok(true);
        }
        if self.inner.is_stopped() {
            self.check_stop()?;
            return Ok(true);
        }
        self.inner.is_accepting().map_err(|e| self.failed(e))
    }

    /// Whether nothing but the end may follow.
    ///
    /// # Errors
    /// As [`Matcher::mask`].
    pub fn is_done(&mut self) -> Result<bool> {
        if self.ended || self.inner.is_stopped() {
            self.check_stop()?;
            return Ok(true);
        }
        if !self.is_accepting()? {
            return Ok(false);
        }
        // The matcher sees some ends by itself, but not those that only an intersection knows of.
        let mut mask = self.mask()?;
        for &id in self.vocabulary.eos_ids() {
            mask.words[id as usize / 32] &= !(1 << (id % 32));
        }
        Ok(mask.words.iter().all(|w| *w == 0))
    }

    /// Tokens of a text that completes the value from here: those that are forced anyway, and the longest that
    /// fit.
    ///
    /// # Errors
    /// [`Error::Internal`] if the text does not complete the value; as [`Matcher::mask`].
    pub(super) fn path(&self, mut text: &[u8]) -> Result<Vec<u32>> {
        let no_way = || Error::Internal("the shortest completion is not one".into());
        let (mut ahead, mut path) = (self.clone(), Vec::new());
        while !text.is_empty() {
            let mut ids = ahead.forced()?;
            if ids.is_empty() {
                ids.push(ahead.consume_longest(text)?.ok_or_else(no_way)?);
            } else {
                ids.iter().try_for_each(|&id| ahead.consume(id))?;
            }
            for id in ids {
                text = text.strip_prefix(self.vocabulary.bytes(id)).ok_or_else(no_way)?;
                path.push(id);
            }
        }
        match ahead.is_accepting()? {
            true => Ok(path),
            false => Err(no_way()),
        }
    }

    /// The longest token that a text begins with and that may come here.
    fn consume_longest(&mut self, text: &[u8]) -> Result<Option<u32>> {
        for len in (1..=self.vocabulary.longest_prefix(text)).rev() {
            let Some(id) = self.vocabulary.id(&text[..len]) else { continue };
            match self.consume(id) {
                Ok(()) => return Ok(Some(id)),
                Err(Error::InvalidArgument { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    }

    /// A stop is the end of the value, or a failure.
    fn check_stop(&self) -> Result<()> {
        match self.inner.stop_reason() {
            reason if reason.is_ok() => Ok(()),
            _ => Err(self.failed(self.inner.get_error().unwrap_or_default())),
        }
    }

    fn failed(&self, e: impl std::fmt::Display) -> Error {
        too_complex(&e.to_string())
    }
}

/// The matcher fails for want of room only: whatever else a type may have was refused when it was made.
fn too_complex(e: &str) -> Error {
    let text = e.lines().next().unwrap_or_default();
    Error::ty("", "schema", format!("the type is too complex for the matcher here: {text}"))
}

/// Copies the bits below `vocab`.
fn copy(from: &SimpleVob, to: &mut Mask, vocab: usize) {
    for (word, bits) in to.words.iter_mut().zip(from.as_slice()) {
        *word = *bits;
    }
    if vocab % 32 != 0 {
        if let Some(last) = to.words.last_mut() {
            *last &= (1 << (vocab % 32)) - 1;
        }
    }
}
