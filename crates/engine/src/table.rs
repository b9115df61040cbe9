//! What the catalog knows of a table.

use crate::types::Oid;

/// A column of an existing table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type's OID.
    pub type_oid: Oid,
    /// The type modifier, or -1 (varchar(n): n + 4).
    pub typmod: i32,
    /// Whether NULL is refused.
    pub not_null: bool,
    /// Its number, from 1.
    pub attnum: i16,
    /// A dropped column stays in the rows but is not visible.
    pub dropped: bool,
}

/// A column of a table to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDef {
    /// Its name, at most 63 bytes.
    pub name: String,
    /// Its type's OID.
    pub type_oid: Oid,
    /// The type modifier, or -1.
    pub typmod: i32,
    /// Whether NULL is refused.
    pub not_null: bool,
}

impl ColumnDef {
    /// A nullable column without a type modifier.
    pub fn new(name: &str, type_oid: Oid) -> ColumnDef {
        ColumnDef { name: name.to_owned(), type_oid, typmod: -1, not_null: false }
    }
}

/// A table as a transaction sees it.
#[derive(Debug)]
pub struct Table {
    /// pg_class.oid
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// Its namespace's OID.
    pub namespace: Oid,
    /// Its namespace's name.
    pub schema: String,
    /// pg_class.relkind
    pub kind: u8,
    /// Its columns in attnum order, dropped ones included.
    pub columns: Vec<Column>,
}

impl Table {
    /// The column with this name, with its index in `columns`.
    pub fn column(&self, name: &str) -> Option<(usize, &Column)> {
        self.columns.iter().enumerate().find(|(_, c)| !c.dropped && c.name == name)
    }

    /// Whether it belongs to pg_catalog, and so can be read only.
    pub fn is_catalog(&self) -> bool {
        self.namespace == 11
    }
}
