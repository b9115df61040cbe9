//! What rows of the catalogs can be read from, for those that know no database: a
//! [`crate::Reader`].

use std::sync::Arc;

use forebay_collation::Collation;
use forebay_types::{Datum, Encoding, Oid};

use crate::error::CatalogError;
use crate::schema::CatalogIndex;

/// Gets the values of a row.
pub type ValuesSink<'a> = dyn FnMut(&[Datum<'_>]) -> Result<(), CatalogError> + 'a;

/// Reads rows of the catalogs.
pub trait RowSource {
    /// Decodes the first `columns` of the rows with these values in the first columns of an index,
    /// and shows them to `row`.
    ///
    /// # Errors
    /// When the catalog can't be read, or that of `row`.
    fn rows_of(
        &mut self,
        index: &'static CatalogIndex,
        key: &[Datum<'_>],
        columns: usize,
        row: &mut ValuesSink<'_>,
    ) -> Result<(), CatalogError>;

    /// The encoding of the database.
    fn encoding(&self) -> Encoding;

    /// A collation that expressions of indexes use, by its OID.
    ///
    /// # Errors
    /// When it must not be used in indexes, or the catalog can't be read.
    fn collation(&mut self, oid: Oid) -> Result<Arc<Collation>, CatalogError>;
}
