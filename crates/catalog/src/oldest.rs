//! The oldest ids that rows of tables and databases may have: how far new ids may go, and what is
//! needed of pg_xact and pg_multixact, follows from them.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_types::Oid;

use crate::cluster_rows::DatabaseRow;
use crate::error::CatalogError;
use crate::reader::{Reader, Rows};
use crate::row::Row;
use crate::rows::OldestIds;
use crate::schema::PG_CLASS;

/// A database of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseIds {
    /// pg_database.oid
    pub oid: Oid,
    /// pg_database.datname, as logs show it.
    pub name: String,
    /// Of all its tables.
    pub oldest: OldestIds,
}

impl Reader<'_> {
    /// The databases of the cluster, without those whose DROP was cut short: their rows are lost
    /// anyway.
    pub fn databases(&mut self) -> Result<Vec<DatabaseIds>, CatalogError> {
        let mut found = self.all_databases()?;
        found.retain(|database| !database.is_invalid());
        let encoding = self.database().encoding;
        let ids = |row: DatabaseRow| DatabaseIds {
            oid: row.oid,
            name: encoding.shown(&row.name),
            oldest: OldestIds { xid: row.frozen_xid, multi: row.min_multi },
        };
        Ok(found.into_iter().map(ids).collect())
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
