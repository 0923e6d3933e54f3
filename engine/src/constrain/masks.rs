//! Masks that were computed before, by what may follow.
//!
//! The matcher's own state has no name to find it by. But the text is followed a second time, through the shapes of the
//! type ([`super::shortest`]), and where it stands there decides what may follow, whatever was written before: the same
//! frames, the same masks. Where earlier keys or items matter there is no such name, and nothing is kept.

use crate::backend::Mask;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of the masks of one type and vocabulary.
const MAX_BYTES: usize = 2 << 20;

/// What may follow, as numbers.
pub(crate) type Place = Vec<u32>;

/// The masks of one type and vocabulary; clones share them.
#[derive(Clone, Default)]
pub(super) struct Masks(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    masks: HashMap<Place, Mask>,
    bytes: usize,
}

impl Masks {
    pub fn find(&self, place: &Place) -> Option<Mask> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).masks.get(place).cloned()
    }

    /// Keeps a mask while there is room: the first places of a value are those that come again.
    pub fn keep(&self, place: Place, mask: &Mask) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = 4 * (mask.words.len() + place.len()) + 100;
        if kept.bytes + bytes <= MAX_BYTES && kept.masks.insert(place, mask.clone()).is_none() {
            kept.bytes += bytes;
        }
    }
}
