//! What of a table that PostgreSQL made is not understood. Such a table is refused by name.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use forebay_access::toast::ToastColumn;
use forebay_format::varlena::Varlena;
use forebay_types::Oid;

use crate::error::CatalogError;
use crate::schema::HEAP_AM;
use crate::table::{Column, Limits};

const OTHER_METHOD: &str = "its access method is not supported";

/// The parts of a pg_class row that may be limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassTraits {
    pub access_method: Oid,
    /// Its changes are not logged, and recovery empties it.
    pub unlogged: bool,
    pub checks: bool,
    pub rules: bool,
    /// It may have triggers; to [`of`]: some that are not understood.
    pub triggers: bool,
    pub children: bool,
    pub populated: bool,
    pub partition: bool,
    /// It is a table of a composite type, which has its columns.
    pub typed: bool,
}

/// A column's pg_attribute row.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub column: Column,
    /// Rows that are older than the column have a value for it (attmissingval).
    pub has_missing: bool,
    pub toast: ToastColumn,
}

/// What cannot be done with a relation. Row security is no limit: the one role is a superuser.
pub(crate) fn of(kind: u8, class: &ClassTraits) -> Limits {
    let other_method = class.access_method != HEAP_AM && kind != b'S';
    let insert = [
        (other_method, OTHER_METHOD),
        (kind == b'm', "it is a materialized view"),
        (kind == b't', "it is a TOAST table"),
        (class.triggers, "it has triggers"),
        (class.rules, "it has rules"),
        (class.partition, "it is a partition"),
    ];
    let insert = insert.into_iter().find_map(|(has, why)| has.then_some(why));
    let vacuum =
        [(kind == b'S', "it is a sequence"), (class.access_method != HEAP_AM, OTHER_METHOD)];
    let vacuum = vacuum.into_iter().find_map(|(has, why)| has.then_some(why));
    let read = unreadable(kind, class);
    let alter = [
        (other_method, OTHER_METHOD),
        (kind == b'm', "it is a materialized view"),
        (class.partition, "it is a partition"),
        (class.typed, "it is a table of a composite type"),
    ];
    let alter = alter.into_iter().find_map(|(has, why)| has.then_some(why));
    Limits { read, insert, vacuum, alter, other_method, unlogged: class.unlogged }
}

fn unreadable(kind: u8, class: &ClassTraits) -> Option<String> {
    if class.access_method != HEAP_AM && kind != b'S' {
        return Some(format!("its access method (OID {}) is not supported", class.access_method));
    }
    if class.children {
        return Some("it has child tables".to_owned());
    }
    if kind == b'm' && !class.populated {
        return Some("the materialized view has not been populated".to_owned());
    }
    None
}

/// The refusal (42809) of something that cannot be done with relations of a kind.
pub fn wrong_kind(kind: u8, message: String) -> CatalogError {
    let what = match kind {
        b'r' => "tables",
        b'i' => "indexes",
        b'I' => "partitioned indexes",
        b'S' => "sequences",
        b't' => "TOAST tables",
        b'v' => "views",
        b'm' => "materialized views",
        b'c' => "composite types",
        b'f' => "foreign tables",
        b'p' => "partitioned tables",
        _ => "relations of this kind",
    };
    let detail = format!("This operation is not supported for {what}.");
    CatalogError::refused("42809", message).with_detail(detail)
}

/// The refusal of a relation that has no rows of its own. None if it has.
pub fn not_a_table(kind: u8, name: &str) -> Option<CatalogError> {
    let what = match kind {
        b'r' | b't' | b'm' | b'S' => return None,
        b'p' => "partitioned tables",
        b'v' => "views",
        b'f' => "foreign tables",
        b'i' | b'I' | b'c' => {
            return Some(wrong_kind(kind, format!("cannot open relation \"{name}\"")));
        }
        _ => "relations of this kind",
    };
    let message = format!("cannot open relation \"{name}\": {what} are not supported");
    Some(CatalogError::refused("0A000", message))
}

/// The value in attmissingval, an array of one element. None if it is compressed.
pub(crate) fn missing_value(
    column: &Column,
    array: Varlena<'_>,
) -> Result<Option<Arc<[u8]>>, CatalogError> {
    /// Dimensions, offset of data after a null bitmap, element type, length, lower bound.
    const HEADER: usize = 20;
    let Varlena::Plain(array) = array else { return Ok(None) };
    let damaged =
        || CatalogError::corrupt(format!("attmissingval of column \"{}\" is damaged", column.name));
    let word = |n: usize| {
        array.get(n * 4..n * 4 + 4).and_then(|b| b.first_chunk()).map(|b| u32::from_le_bytes(*b))
    };
    let (Some(1), Some(0), Some(element), Some(1)) = (word(0), word(1), word(2), word(3)) else {
        return Err(damaged());
    };
    if element != column.type_oid {
        return Err(damaged());
    }
    let data = array.get(HEADER..).ok_or_else(damaged)?;
    let value = match usize::try_from(column.layout.len) {
        Ok(len) => data.get(..len),
        // In an array every value has a length word of four bytes.
        Err(_) if column.layout.len == -1 => match word(HEADER / 4) {
            Some(len) if len & 3 == 0 => data.get(4..(len >> 2) as usize),
            _ => None,
        },
        Err(_) => None,
    };
    value.map(|bytes| Some(Arc::from(bytes))).ok_or_else(damaged)
}
