//! Files by what they are, however they are named.

use std::path::Path;

/// Whether both paths lead to one file that exists.
pub fn same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}
