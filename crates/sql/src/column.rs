//! Columns of results.

use forebay_types::{Oid, SqlType};

/// A column of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDesc {
    /// The name the client sees.
    pub name: String,
    /// OID of the table the column comes from, or 0.
    pub table_oid: u32,
    /// Its attribute number there, or 0.
    pub attnum: i16,
    /// The type.
    pub ty: SqlType,
    /// Type modifier, -1 for none.
    pub typmod: i32,
    /// The collation, 0 for none.
    pub collation: Oid,
}

impl ColumnDesc {
    /// OID of the type, for a RowDescription.
    pub fn type_oid(&self) -> u32 {
        self.ty.oid()
    }

    /// Length of the type, for a RowDescription.
    pub fn type_len(&self) -> i16 {
        self.ty.typlen()
    }
}
