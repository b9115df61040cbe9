//! The oldest ids that rows of tables and databases may have: how far new ids may go, and what is
//! needed of pg_xact and pg_multixact, follows from them.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_types::Oid;

use crate::check::{DATABASE_COLUMNS, INVALID};
use crate::error::CatalogError;
use crate::reader::{Reader, Rows};
use crate::row::Row;
use crate::rows::OldestIds;
use crate::schema::{PG_CLASS, PG_DATABASE};

/// A database of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseIds {
    /// pg_database.oid
    pub oid: Oid,
    /// pg_database.datname
    pub name: String,
    /// Of all its tables.
    pub oldest: OldestIds,
}

impl Reader<'_> {
    /// The databases of the cluster, without those whose DROP was cut short: their rows are lost
    /// anyway.
    pub fn databases(&mut self) -> Result<Vec<DatabaseIds>, CatalogError> {
        let mut found = Vec::new();
        self.read(Rows::All(&PG_DATABASE), DATABASE_COLUMNS, &mut |_, row, _| {
            let row = Row(row, PG_DATABASE.name);
            if row.int4(8)? != INVALID {
                let oldest = OldestIds { xid: row.xid(9)?, multi: row.xid(10)? };
                found.push(DatabaseIds { oid: row.oid(0)?, name: row.name(1)?.to_owned(), oldest });
            }
            Ok(true)
        })?;
        Ok(found)
    }

    /// The oldest ids of each relation of the database that has rows: tables, TOAST tables,
    /// materialized views. 0 stands for none.
    pub fn oldest_of_tables(&mut self) -> Result<Vec<OldestIds>, CatalogError> {
        let mut found = Vec::new();
        self.read(Rows::All(&PG_CLASS), 31, &mut |_, row, _| {
            let class = Row(row, PG_CLASS.name);
            if matches!(class.char(17)?, b'r' | b't' | b'm') {
                found.push(OldestIds { xid: class.xid(29)?, multi: class.xid(30)? });
            }
            Ok(true)
        })?;
        Ok(found)
    }
}
