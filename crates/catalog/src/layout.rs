//! How a type's values lie in a row.

use forebay_format::AttrLayout;
use forebay_types::Oid;

use crate::error::CatalogError;

/// The layout of a type's values in a row. 42704 if the type is not known.
pub(crate) fn layout_of(oid: Oid) -> Result<AttrLayout, CatalogError> {
    forebay_access::layout_of(oid).ok_or_else(|| {
        CatalogError::refused("42704", format!("type with OID {oid} does not exist"))
    })
}
