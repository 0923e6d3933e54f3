//! What a checkpoint shares with its parent: the whole pages at the beginning that hold the same bits.

use crate::backend::{StateImage, PAGE_TOKENS};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::hash::Hasher;
use std::sync::Arc;
use twox_hash::XxHash3_64;

/// How a delta names the part of its parent that it needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParentPages {
    /// Whole pages, from the first.
    pub pages: u32,
    /// xxh3-64 of their elements in file order.
    pub digest: u64,
}

/// The pages that `child` need not store. Compared bit by bit, since only equal bits continue equally.
pub fn shared(child: &StateImage, parent: &StateImage) -> ParentPages {
    let whole = child.len.min(parent.len) / PAGE_TOKENS;
    let same = |i: &usize| {
        Arc::ptr_eq(&child.pages[*i], &parent.pages[*i]) || equal_bits(&child.pages[*i], &parent.pages[*i])
    };
    let pages = (0..whole).take_while(same).count();
    ParentPages { pages: pages as u32, digest: digest(&child.pages[..pages]) }
}

/// The pages that `wanted` names, from the parent; [`Error::Incompatible`] where this parent does not have them.
pub fn take<'a>(wanted: &ParentPages, parent: &'a StateImage) -> Result<&'a [Arc<[f32]>]> {
    let pages = wanted.pages as usize;
    let whole = parent.len / PAGE_TOKENS;
    let found = parent.pages.get(..pages).filter(|_| pages <= whole).map(digest);
    if found != Some(wanted.digest) {
        return Err(Error::Incompatible {
            what: "parent of the delta".into(),
            expected: format!("{pages} pages with digest {:016x}", wanted.digest),
            found: match found {
                Some(digest) => format!("digest {digest:016x}"),
                None => format!("{whole} pages"),
            },
        });
    }
    Ok(&parent.pages[..pages])
}

fn equal_bits(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.to_bits() == y.to_bits())
}

fn digest(pages: &[Arc<[f32]>]) -> u64 {
    let mut hasher = XxHash3_64::new();
    for page in pages {
        if cfg!(target_endian = "little") {
            hasher.write(bytemuck::cast_slice(page));
        } else {
            page.iter().for_each(|x| hasher.write(&x.to_le_bytes()));
        }
    }
    hasher.finish()
}
