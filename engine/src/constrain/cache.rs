//! Types that were compiled before: hosts send a type with every request.

use super::{Type, TypeSource};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Types kept; each may take some megabytes.
const MAX_TYPES: usize = 32;

/// Latest first. Compiled types do not depend on a model.
static TYPES: Mutex<VecDeque<Type>> = Mutex::new(VecDeque::new());

/// The type of a source, if it is among the last ones.
pub(super) fn find(source: &TypeSource) -> Option<Type> {
    let mut types = TYPES.lock().unwrap_or_else(PoisonError::into_inner);
    let at = types.iter().position(|ty| same(ty.source(), source))?;
    let ty = types.remove(at)?;
    types.push_front(ty.clone());
    Some(ty)
}

pub(super) fn keep(ty: &Type) {
    let mut types = TYPES.lock().unwrap_or_else(PoisonError::into_inner);
    types.push_front(ty.clone());
    types.truncate(MAX_TYPES);
}

/// Whether two sources are the same, the order of properties included: it is the order of generation.
fn same(a: &TypeSource, b: &TypeSource) -> bool {
    a == b && serde_json::to_string(a).ok() == serde_json::to_string(b).ok()
}
