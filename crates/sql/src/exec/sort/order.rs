//! Which of two rows comes first.

use crate::error::Result;
use crate::plan::SortKey;
use forebay_types::{Datum, compare};
use std::cmp::Ordering;

/// Which of two rows comes first.
///
/// # Panics
/// If a row has no column of a key.
pub(super) fn order(keys: &[SortKey], a: &[Datum<'_>], b: &[Datum<'_>]) -> Result<Ordering> {
    for key in keys {
        let (a, b) = (&a[key.column], &b[key.column]);
        let order = match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if key.nulls_first => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if key.nulls_first => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) if key.descending => compare(b, a)?,
            (false, false) => compare(a, b)?,
        };
        if order != Ordering::Equal {
            return Ok(order);
        }
    }
    Ok(Ordering::Equal)
}
