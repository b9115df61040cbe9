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

/// A temporary table of the session, or a part of one.
#[derive(Clone, Debug)]
pub(super) struct TempTable {
    pub(super) oid: Oid,
    /// The table of which it is an index, the TOAST table or the index of that.
    pub(super) part_of: Option<Oid>,
    pub(super) name: String,
    pub(super) locator: RelFileLocator,
    /// The files that it had before the running transaction truncated it, oldest first, and how
    /// deep in subtransactions that was.
    pub(super) earlier: Vec<(RelFileLocator, usize)>,
    pub(super) on_commit: OnCommit,
    /// How deep in subtransactions the running transaction created it, if it did. 0: not in one.
    pub(super) made: Option<usize>,
    /// How deep it dropped it, if it did.
    pub(super) dropped: Option<usize>,
}

impl TempTable {
    /// Whether the table has this file, or would have it again after a rollback.
    pub(super) fn has_file(&self, file: RelFileLocator) -> bool {
        self.locator == file || self.earlier.iter().any(|(earlier, _)| *earlier == file)
    }

    /// Takes back truncations that subtransactions deeper than `depth` made.
    fn go_back(&mut self, depth: usize) {
        while let Some((file, _)) = self.earlier.pop_if(|(_, at)| *at > depth) {
            self.locator = file;
        }
    }
}

/// The temporary tables of a session.
#[derive(Debug)]
pub(super) struct TempTables {
    pub(super) slot: u32,
    pub(super) tables: Vec<TempTable>,
    /// Names that were given to them later. After a rollback they may have none of these.
    pub(super) renamed: Vec<String>,
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
        TempTables { slot, tables: Vec::new(), renamed: Vec::new(), pool: None }
    }

    /// Whether a table of this slot is the session's.
    pub(super) fn owns(&self, slot: u32) -> bool {
        slot == self.slot
    }

    /// Whether there may be one of this name.
    pub(super) fn may_have(&self, name: &str) -> bool {
        self.tables.iter().any(|table| table.name == name)
            || self.renamed.iter().any(|renamed| renamed == name)
    }

    /// The name of the namespace they are in.
    pub(super) fn namespace(&self) -> String {
        temp_namespace(self.slot)
    }

    /// A table was dropped by the running transaction, this deep in subtransactions. Its parts
    /// went with it.
    pub(super) fn note_dropped(&mut self, oid: Oid, depth: usize) {
        for table in &mut self.tables {
            if (table.oid == oid || table.part_of == Some(oid)) && table.dropped.is_none() {
                table.dropped = Some(depth);
            }
        }
    }

    /// The tables that are not dropped.
    pub(super) fn live(&self) -> impl Iterator<Item = &TempTable> {
        self.tables.iter().filter(|table| table.dropped.is_none() && table.part_of.is_none())
    }

    /// A table was truncated by the running transaction, this deep in subtransactions. It has a new
    /// file.
    pub(super) fn note_truncated(&mut self, oid: Oid, new: RelFileLocator, depth: usize) {
        if let Some(table) = self.tables.iter_mut().find(|table| table.oid == oid) {
            let old = std::mem::replace(&mut table.locator, new);
            table.earlier.push((old, depth));
        }
    }

    /// The innermost subtransaction was released. `depth` are left.
    pub(super) fn release_sub(&mut self, depth: usize) {
        for table in &mut self.tables {
            let ends = [&mut table.made, &mut table.dropped].into_iter().flatten();
            for at in ends.chain(table.earlier.iter_mut().map(|(_, at)| at)) {
                *at = depth.min(*at);
            }
        }
    }

    /// The innermost subtransaction was rolled back. `depth` are left.
    pub(super) fn abort_sub(&mut self, depth: usize) {
        self.tables.retain(|table| table.made.is_none_or(|at| at <= depth));
        for table in &mut self.tables {
            table.dropped = table.dropped.filter(|at| *at <= depth);
            table.go_back(depth);
        }
    }

    /// The transaction is over.
    pub(super) fn end(&mut self, committed: bool) {
        let stays = |table: &TempTable| match committed {
            true => table.dropped.is_none(),
            false => table.made.is_none(),
        };
        self.tables.retain(stays);
        for table in &mut self.tables {
            (table.made, table.dropped) = (None, None);
            if !committed && let Some((file, _)) = table.earlier.first() {
                table.locator = *file;
            }
            table.earlier.clear();
        }
    }
}
