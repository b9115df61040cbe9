//! The elements of arrays as values.

use crate::array::value::{Dims, count_of};
use crate::array::{Array, Dim, Shape};
use crate::datum::Datum;
use crate::encoding::Encoding;
use crate::error::{Result, ValueError};
use crate::facts::{Repr, type_info};
use crate::oid::Oid;

impl<'a> Shape<'a> {
    /// The elements in storage order: the last subscript changes first.
    pub fn values(&self) -> Result<impl Iterator<Item = Result<Datum<'a>>> + use<'a>> {
        let repr = Repr::of(self.element);
        Ok(self.raw()?.map(move |value| match value? {
            None => Ok(Datum::Null),
            // In memory texts are UTF-8, whatever the database.
            Some(bytes) => repr.decode(bytes, Encoding::Utf8),
        }))
    }
}

impl Array<'_> {
    /// All elements, in storage order.
    pub fn items(&self) -> Result<Vec<Datum<'_>>> {
        self.shape()?.values()?.collect()
    }

    /// Makes an array of its elements, in storage order.
    ///
    /// # Errors
    /// If an element is no value of the type, or if there are too many.
    pub fn of(element: Oid, dims: &[Dim], items: &[Datum<'_>]) -> Result<Array<'static>> {
        let info = type_info(element).ok_or_else(|| ValueError::carried("an array", element))?;
        if let Some(bad) = items.iter().find(|item| !info.repr.accepts(item)) {
            let message = format!("{bad:?} is no element of type {}", info.sql_name);
            return Err(ValueError::new("XX000", message));
        }
        if count_of(dims)? != items.len() {
            return Err(ValueError::new("XX000", "an array's dimensions do not fit its elements"));
        }
        let mut stored = Vec::with_capacity(items.len());
        for item in items {
            stored.push(match item {
                Datum::Null => None,
                item => Some(item.to_stored(info.len, Encoding::Utf8)?),
            });
        }
        Array::build(element, dims, stored.into_iter())
    }

    /// An array of one dimension that begins at 1, or the empty one.
    pub fn list(element: Oid, items: &[Datum<'_>]) -> Result<Array<'static>> {
        let len = i32::try_from(items.len()).map_err(|_| crate::array::value::too_large())?;
        let dims: Dims = (len > 0).then_some(Dim { len, lower: 1 }).into_iter().collect();
        Array::of(element, &dims, items)
    }
}
