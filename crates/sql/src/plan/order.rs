//! The order of values: that of their type, and of a collation if they are texts or have some.

use forebay_collation::Collation;
use forebay_types::{Datum, SqlType, ValueError, compare_as, compare_by};
use std::cmp::Ordering;
use std::sync::Arc;

/// How values of an expression are ordered. Values that are equal are so in every collation: only
/// deterministic ones are supported.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueOrder {
    ty: SqlType,
    /// None: by the bytes.
    collation: Option<Arc<Collation>>,
}

impl ValueOrder {
    /// The order of a type, with texts in the order of a collation.
    pub fn new(ty: SqlType, collation: Option<Arc<Collation>>) -> ValueOrder {
        ValueOrder { ty, collation: collation.filter(|collation| !collation.is_c()) }
    }

    /// The collation, unless it has the order of bytes.
    pub fn collation(&self) -> Option<&Collation> {
        self.collation.as_deref()
    }

    /// Orders two values.
    #[inline]
    pub fn compare(&self, a: &Datum<'_>, b: &Datum<'_>) -> Result<Ordering, ValueError> {
        match &self.collation {
            None => compare_as(a, b, self.ty),
            Some(collation) => compare_by(a, b, self.ty, &|a, b| collation.compare(a, b)),
        }
    }
}
