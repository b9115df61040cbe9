//! Values as rows store them. The values themselves, and the facts about their types, are
//! `forebay-types`'.
//!
//! - `codec`: rows of values to tuples

pub(crate) mod codec;

use forebay_format::{Align, AttrLayout};
pub use forebay_types::{Datum, Oid, TypeInfo, all_types, oids, type_by_name, type_info};

use crate::error::EngineError;

/// How a type's values lie in a row.
pub(crate) fn layout_of(oid: Oid) -> Result<AttrLayout, EngineError> {
    let unknown = || EngineError::statement("42704", format!("type with OID {oid} does not exist"));
    let info = type_info(oid).ok_or_else(unknown)?;
    let align = Align::from_code(info.align).ok_or_else(unknown)?;
    Ok(AttrLayout { len: info.len, align, by_val: info.by_val, plain: info.storage == b'p' })
}

impl From<forebay_types::ValueError> for EngineError {
    fn from(error: forebay_types::ValueError) -> EngineError {
        let detail = error.detail();
        let (sqlstate, message) = (error.sqlstate(), error.to_string());
        EngineError::Statement { sqlstate, message, detail, hint: None }
    }
}
