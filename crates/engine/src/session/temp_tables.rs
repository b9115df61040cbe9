//! The temporary tables that a session has.

use forebay_catalog::temp_namespace;
use forebay_format::RelFileLocator;
use forebay_storage::TempRelations;
use forebay_types::Oid;

/// The name by which every session calls the namespace of its temporary tables.
pub(super) const PG_TEMP: &str = "pg_temp";

/// What happens to a temporary table at the end of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCommit {
    /// Nothing.
    #[default]
    PreserveRows,
    /// It loses its rows.
    DeleteRows,
    /// It is dropped.
    Drop,
}

/// A temporary table of the session.
#[derive(Clone, Debug)]
pub(super) struct TempTable {
    pub(super) oid: Oid,
    pub(super) name: String,
    pub(super) locator: RelFileLocator,
    pub(super) on_commit: OnCommit,
    /// Whether the running transaction created it.
    pub(super) made: bool,
    /// Whether the running transaction dropped it.
    pub(super) dropped: bool,
}

/// The temporary tables of a session.
#[derive(Debug)]
pub(super) struct TempTables {
    pub(super) slot: u32,
    pub(super) tables: Vec<TempTable>,
    /// Their pages, from the first one on.
    pub(super) pool: Option<TempRelations>,
}

/// The number that the files of a slot's session are named for.
pub(super) fn owner_number(slot: u32) -> i32 {
    i32::try_from(slot).unwrap_or(i32::MAX)
}

impl TempTables {
    /// None yet.
    pub(super) fn new(slot: u32) -> TempTables {
        TempTables { slot, tables: Vec::new(), pool: None }
    }

    /// Whether a table of this slot is the session's.
    pub(super) fn owns(&self, slot: u32) -> bool {
        slot == self.slot
    }

    /// Whether there may be one of this name.
    pub(super) fn may_have(&self, name: &str) -> bool {
        self.tables.iter().any(|table| table.name == name)
    }

    /// The name of the namespace they are in.
    pub(super) fn namespace(&self) -> String {
        temp_namespace(self.slot)
    }

    /// A table was dropped by the running transaction.
    pub(super) fn note_dropped(&mut self, oid: Oid) {
        if let Some(table) = self.tables.iter_mut().find(|table| table.oid == oid) {
            table.dropped = true;
        }
    }

    /// The transaction is over.
    pub(super) fn end(&mut self, committed: bool) {
        self.tables.retain(|table| if committed { !table.dropped } else { !table.made });
        for table in &mut self.tables {
            (table.made, table.dropped) = (false, false);
        }
    }
}
