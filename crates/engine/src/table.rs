//! What the catalog knows of a table.

use std::sync::Arc;

use forebay_format::{AttrLayout, RelFileLocator};

use crate::error::EngineError;
use crate::types::Oid;
use crate::types::codec::Repr;

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
    /// Whether rows that give no value for it get another one than NULL: a default or an identity.
    pub has_default: bool,
    /// Of an identity column, whether it is GENERATED ALWAYS.
    pub always_identity: bool,
    /// Its value in rows that are older than the column, as stored; None: NULL.
    pub(crate) missing: Option<Arc<[u8]>>,
    /// How its values lie in a row.
    pub(crate) layout: AttrLayout,
    /// What its values are.
    pub(crate) repr: Repr,
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
    /// Of a temporary table: the number of the session slot it belongs to.
    pub(crate) temp: Option<u32>,
    /// What PostgreSQL would do that can't be done here yet.
    pub(crate) limits: Limits,
    /// Its file.
    pub(crate) locator: RelFileLocator,
    /// The columns' layouts, as forming and deforming rows wants them.
    pub(crate) layouts: Vec<AttrLayout>,
}

/// Why a table can't be worked on, if so: what it has that is not understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Rows, or their values, would be wrong.
    pub read: Option<String>,
    /// New rows would lack something, or break a rule.
    pub insert: Option<&'static str>,
}

impl Table {
    /// Fails (0A000) if its rows can't be read as PostgreSQL would.
    pub fn check_readable(&self) -> Result<(), EngineError> {
        match &self.limits.read {
            None => Ok(()),
            Some(why) => Err(self.refusal("read", why)),
        }
    }

    /// Fails (0A000) if rows can't be inserted as PostgreSQL would. Columns with defaults are the
    /// caller's to check.
    pub fn check_insertable(&self) -> Result<(), EngineError> {
        match self.limits.insert {
            None => Ok(()),
            Some(why) => Err(self.refusal("insert into", why)),
        }
    }

    fn refusal(&self, verb: &str, why: &str) -> EngineError {
        EngineError::statement("0A000", format!("cannot {verb} relation \"{}\": {why}", self.name))
    }

    /// The column with this name, with its index in `columns`.
    pub fn column(&self, name: &str) -> Option<(usize, &Column)> {
        self.columns.iter().enumerate().find(|(_, c)| !c.dropped && c.name == name)
    }

    /// Its file.
    pub fn locator(&self) -> RelFileLocator {
        self.locator
    }

    /// Whether it is temporary.
    pub fn is_temporary(&self) -> bool {
        self.temp.is_some()
    }

    /// Whether it belongs to pg_catalog, and so can be read only.
    pub fn is_catalog(&self) -> bool {
        self.namespace == 11
    }
}

#[cfg(test)]
impl Table {
    /// A table of public without columns.
    pub(crate) fn for_tests(oid: Oid, name: &str) -> Table {
        Table {
            oid,
            name: name.to_owned(),
            namespace: 2200,
            schema: "public".to_owned(),
            kind: b'r',
            temp: None,
            columns: Vec::new(),
            limits: Limits::default(),
            locator: RelFileLocator::in_default(5, oid),
            layouts: Vec::new(),
        }
    }
}
