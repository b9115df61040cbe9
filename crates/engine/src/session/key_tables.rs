//! Foreign keys of tables: adding them, finding them, and what goes with a table or a constraint
//! that is dropped; and the second look at a key of a deferrable index.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_access::form_row;
use forebay_access::heap::Author;
use forebay_catalog::{self as catalog, ForeignKey, ForeignKeyDef, Going, Reader, Table};
use forebay_txn::locks::{LockMode, LockTag};
use forebay_types::{Datum, Oid};

use super::index_entries::Entries;
use super::key_changes::KeyEvent;
use super::parts::Part;
use super::state::{Session, no_transaction};
use super::temp_tables::OnCommit;
use crate::core::InDatabase;
use crate::error::EngineError;

impl Session {
    /// Adds a foreign key to a table (the child). The transaction has locked both in mode
    /// `ShareRowExclusive`. Whether the rows satisfy it is for the caller to see. Returns its OID.
    pub fn add_foreign_key(
        &mut self,
        (child, parent): (&Table, &Table),
        def: &ForeignKeyDef,
    ) -> Result<Oid, EngineError> {
        self.call(|session, core| {
            core.database.check_event_triggers()?;
            for table in [child, parent] {
                session.check_own_to("refer to", table)?;
                session.check_locked(table, LockMode::ShareRowExclusive)?;
            }
            let (tx, backend) = session.changing()?;
            let tables = (child, parent);
            Ok(catalog::add_foreign_key(&core.database, backend, tx, tables, def)?)
        })
    }

    /// A foreign key by its OID.
    pub fn foreign_key(&mut self, oid: Oid) -> Result<Option<ForeignKey>, EngineError> {
        self.call(|session, core| {
            let snapshot = core.xacts.snapshot(&session.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut session.backend, snapshot);
            Ok(reader.foreign_key(oid)?)
        })
    }

    /// The foreign keys of a table that refers to others. None: one that is not understood.
    pub fn foreign_keys_of(
        &mut self,
        child: &Table,
    ) -> Result<Vec<Option<ForeignKey>>, EngineError> {
        self.call(|session, core| {
            let snapshot = core.xacts.snapshot(&session.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut session.backend, snapshot);
            Ok(reader.foreign_keys_of(child.oid)?)
        })
    }

    /// The tables that refer to a table by foreign keys, enforced or not, by their OIDs.
    pub fn tables_referring_to(&mut self, parent: &Table) -> Result<Vec<Oid>, EngineError> {
        self.call(|session, core| {
            let snapshot = core.xacts.snapshot(&session.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut session.backend, snapshot);
            Ok(reader.tables_referring_to(parent.oid)?)
        })
    }

    /// Locks a table by its OID, and finds it as it is then. None: it is gone, or no table.
    pub fn lock_table_by_oid(
        &mut self,
        oid: Oid,
        mode: LockMode,
    ) -> Result<Option<Arc<Table>>, EngineError> {
        self.call(|session, core| session.lock_oid(core, oid, mode))?;
        let found = self.table_by_oid(oid)?;
        found.iter().try_for_each(|table| self.check_table_owned(table))?;
        Ok(found)
    }

    /// Whether a temporary table is emptied or dropped when the transaction commits.
    pub fn is_emptied_at_commit(&self, table: Oid) -> bool {
        let mut live = self.temp.live();
        live.any(|found| found.oid == table && found.on_commit != OnCommit::PreserveRows)
    }

    fn lock_oid(
        &mut self,
        core: &InDatabase,
        relation: Oid,
        mode: LockMode,
    ) -> Result<(), EngineError> {
        let tag = LockTag::Relation { database: core.database.oid, relation };
        self.lock(core, tag, mode)
    }

    /// Locks the relations that go with what is to be dropped, and those whose constraints,
    /// triggers and defaults go. While it waits others may come and go.
    pub(super) fn lock_what_goes(
        &mut self,
        core: &InDatabase,
        going: Going,
    ) -> Result<(), EngineError> {
        let mut locked = BTreeSet::new();
        loop {
            let (tx, backend) = self.changing()?;
            let found = catalog::relations_to_lock(&core.database, backend, tx, going)?;
            if found.iter().all(|oid| locked.contains(oid)) {
                return Ok(());
            }
            for oid in found {
                if locked.insert(oid) {
                    self.lock_oid(core, oid, LockMode::AccessExclusive)?;
                }
            }
        }
    }

    /// Does what the trigger of a deferrable PRIMARY KEY or UNIQUE says of a new row: 23505 if
    /// another live row has its key.
    pub fn recheck_key(&mut self, event: &KeyEvent) -> Result<(), EngineError> {
        let Some(new) = &event.new else { return Ok(()) };
        let table = &event.table;
        let mut values = new.view().decode()?;
        for (value, column) in values.iter_mut().zip(&table.columns) {
            if matches!(value, Datum::Toasted(_)) {
                *value = self.fetch_value(value, column.repr, Part::Whole)?;
            }
        }
        let mut tuple = Vec::new();
        form_row(&table.layouts, &values, table.encoding, &mut tuple)?;
        self.call(|session, core| {
            let heap = session.heap(core, table)?;
            let Session { open: Some(open), backend, locks, interrupt, .. } = session else {
                return Err(no_transaction());
            };
            let xid = core.xacts.assign(&mut backend.io, &mut open.tx)?;
            let author = Author { xid, command: open.tx.use_command() };
            let entries = Entries::new(core, (table, &heap), (open, author), (locks, interrupt));
            let Some(mut entries) = entries else { return Ok(()) };
            entries.recheck(backend, (new.place(), &tuple), event.trigger.index)
        })
    }

    /// Lets the running statement of a REPEATABLE READ transaction see what has committed by now:
    /// it is the action of a foreign key. Rows that the transaction does not see cannot be changed.
    pub fn see_newest(&mut self) -> Result<(), EngineError> {
        // The transaction's own snapshot stands first.
        self.snapshot()?;
        let snapshots = &mut self.running()?.snapshots;
        if snapshots.isolation == super::open::Isolation::RepeatableRead {
            snapshots.next_statement();
            snapshots.newest = true;
        }
        Ok(())
    }
}
