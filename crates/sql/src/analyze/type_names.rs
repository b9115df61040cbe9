//! Types as messages name them: PostgreSQL's format_type without a modifier.

use super::lookups::Names;
use crate::error::Result;
use forebay_types::{Oid, type_info};

/// The name of a type in messages.
pub fn type_name(names: &mut dyn Names, oid: Oid) -> Result<String> {
    if let Some(info) = type_info(oid) {
        return Ok(info.sql_name.to_owned());
    }
    let Some(row) = names.type_by_oid(oid)? else { return Ok("???".to_owned()) };
    if row.is_array() {
        return Ok(format!("{}[]", type_name(names, row.elem)?));
    }
    let name = forebay_engine::quoted(&row.name);
    if names.sees_type(&row)? {
        return Ok(name.into_owned());
    }
    match names.namespace_name(row.namespace)? {
        Some(schema) => Ok(format!("{}.{name}", forebay_engine::quoted(&schema))),
        None => Ok(name.into_owned()),
    }
}
