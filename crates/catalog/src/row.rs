//! The values of a row of a catalog, as they are read.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::HeapTuple;
use forebay_format::tuple::Deform;
use forebay_format::varlena::Varlena;
use forebay_types::{Datum, Oid};

use crate::error::CatalogError;
use crate::schema::CatalogTable;

/// The values of a catalog row, and the catalog's name. A value of another type than the layout
/// says means that the catalog is damaged.
pub(crate) struct Row<'a, 'b>(pub(crate) &'a [Datum<'b>], pub(crate) &'static str);

macro_rules! getter {
    ($name:ident, $variant:ident, $type:ty) => {
        pub(crate) fn $name(&self, index: usize) -> Result<$type, CatalogError> {
            match self.0.get(index) {
                Some(Datum::$variant(value)) => Ok(*value),
                _ => Err(self.lacks(index)),
            }
        }
    };
}

impl<'a> Row<'a, '_> {
    getter!(oid, Oid, Oid);
    getter!(bool, Bool, bool);
    getter!(char, Char, u8);
    getter!(int2, Int2, i16);
    getter!(int4, Int4, i32);
    getter!(int8, Int8, i64);
    getter!(xid, Xid, u32);
    getter!(float4, Float4, f32);

    pub(crate) fn name(&self, index: usize) -> Result<&'a str, CatalogError> {
        self.text(index)?.ok_or_else(|| self.lacks(index))
    }

    /// A text that may be NULL.
    pub(crate) fn text(&self, index: usize) -> Result<Option<&'a str>, CatalogError> {
        match self.0.get(index) {
            Some(Datum::Text(text)) => Ok(Some(text)),
            Some(Datum::Null) => Ok(None),
            _ => Err(self.lacks(index)),
        }
    }

    /// The elements of a vector (oidvector, int2vector), each of `N` bytes.
    pub(crate) fn vector<const N: usize>(
        &self,
        index: usize,
    ) -> Result<impl Iterator<Item = [u8; N]> + use<'a, N>, CatalogError> {
        let Some(Datum::Array(array)) = self.0.get(index) else {
            return Err(self.lacks(index));
        };
        Ok(elements(array.bytes()).ok_or_else(|| self.lacks(index))?.iter().copied())
    }

    fn lacks(&self, index: usize) -> CatalogError {
        CatalogError::corrupt(format!("a row of {} has no column {}", self.1, index + 1))
    }
}

/// The elements of an array of one dimension without NULLs, as it is stored behind its length.
pub(crate) fn elements<const N: usize>(array: &[u8]) -> Option<&[[u8; N]]> {
    /// Dimensions, offset of data after a null bitmap, element type, length, lower bound.
    const HEADER: usize = 20;
    let (elements, rest) = array.get(HEADER..)?.as_chunks();
    rest.is_empty().then_some(elements)
}

/// The value of a column of a catalog's row, by its index, as stored.
pub(crate) fn value_at<'t>(
    tuple: HeapTuple<'t>,
    catalog: &CatalogTable,
    index: usize,
) -> Result<Option<Varlena<'t>>, CatalogError> {
    let mut walk = Deform::new(tuple)?;
    let mut value = None;
    for column in catalog.columns.iter().take(index + 1) {
        value = walk.next(column.layout)?;
    }
    Ok(value)
}
