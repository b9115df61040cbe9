//! How a type's values lie in a row.

use forebay_format::{Align, AttrLayout};
use forebay_types::{Oid, type_info};

use crate::error::CatalogError;

/// The layout of a type's values in a row. 42704 if the type is not known.
pub fn layout_of(oid: Oid) -> Result<AttrLayout, CatalogError> {
    let unknown = || CatalogError::refused("42704", format!("type with OID {oid} does not exist"));
    let info = type_info(oid).ok_or_else(unknown)?;
    let align = Align::from_code(info.align).ok_or_else(unknown)?;
    Ok(AttrLayout { len: info.len, align, by_val: info.by_val, plain: info.storage == b'p' })
}
