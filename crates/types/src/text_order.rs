//! Orders of texts: what a collation says, which this crate knows nothing of.

use std::cmp::Ordering;

/// Orders two texts.
pub type TextOrder<'t> = &'t dyn Fn(&str, &str) -> Ordering;

/// The order of collation C.
pub(crate) fn by_bytes(a: &str, b: &str) -> Ordering {
    a.as_bytes().cmp(b.as_bytes())
}
