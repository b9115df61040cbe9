//! Creates and drops indexes while others read and change their tables. `reindex_concurrently`
//! does both.
//!
//! ```text
//!   create:  rows in the catalogs ─▶ wait: all know of it, so HOT chains fit it
//!            ─▶ build from a snapshot, ready ─▶ wait: all keep it
//!            ─▶ add the rows it lacks ─▶ wait for older snapshots ─▶ valid
//!   drop:    not valid ─▶ wait: nobody reads it ─▶ dead ─▶ wait: nobody keeps it ─▶ gone
//! ```
//!
//! Each step is a transaction of its own. The session locks the table from the first to the last
//! against other DDL and vacuum. What fails, or a crash, leaves an index that is not valid: queries
//! don't use it, REINDEX mends it, DROP INDEX drops it.

use std::sync::Arc;

use forebay_access::heap::{Author, Changer, RowJudge, Visibility};
use forebay_access::progress::{self as shown, Phase, Statement};
use forebay_access::{RowsInIndex, add_missing};
use forebay_catalog::{self as catalog, IndexDef, IndexStep, Reader, Table, TableIndex};
use forebay_format::Xid;
use forebay_format::ids::INVALID_XID;
use forebay_storage::progress::Started;
use forebay_txn::locks::{LockMode, LockTag};
use forebay_types::Oid;

use super::index_entries::add_lacking;
use super::indexes::{Rows, check_indexable};
use super::locks::lock_tag;
use super::scan::horizon_of;
use super::state::{Session, no_transaction};
use crate::core::InDatabase;
use crate::error::EngineError;

/// The session's lock on a table while it works on an index.
pub(super) const MODE: LockMode = LockMode::ShareUpdateExclusive;

impl Session {
    /// Creates an index of a table beside writers. There must be no transaction running. Returns
    /// its OID. After an error there may be an index that is not valid.
    ///
    /// # Errors
    /// Those of [`Session::create_index`]; 42P01 if the table is gone.
    pub fn create_index_concurrently(
        &mut self,
        table: &Table,
        def: &IndexDef,
    ) -> Result<Oid, EngineError> {
        check_indexable(table)?;
        if table.is_temporary() {
            let message = "cannot create an index of a temporary table concurrently";
            return Err(EngineError::statement("0A000", message));
        }
        let def = IndexDef { concurrently: true, ..def.clone() };
        let _shown = self.show_building(table, Statement::CreateIndexConcurrently, 0);
        let made = self.alone_in(|session, core| session.announce_index(core, table, &def));
        let done = made.and_then(|index| {
            self.backend.progress.set(shown::INDEX, index.into());
            self.fill_indexes(&[(table, index)], None)?;
            self.alone_in(|session, core| session.step(core, index, IndexStep::Valid))?;
            Ok(index)
        });
        self.unlock_for_ddl(table);
        done
    }

    /// Makes the rows of an index in the catalogs. It has a file, which is empty.
    fn announce_index(
        &mut self,
        core: &InDatabase,
        table: &Table,
        def: &IndexDef,
    ) -> Result<Oid, EngineError> {
        let now = self.locked_now(core, table)?;
        catalog::check_index(&now, def)?;
        self.lock_collations(core, def.collations())?;
        let name = self.lock_index_name(core, &now, def)?;
        let place = self.place_of_index(core, &now, def)?;
        let index = self.with_files(core, place, |session, files| {
            let (tx, backend) = session.changing()?;
            let of = (def, name.as_str());
            Ok(catalog::create_index(&core.database, backend, tx, &now, of, files)?.0)
        })?;
        self.lock_for_ddl(core, table)?;
        Ok(index.oid)
    }

    /// Locks a table, which may have been changed since it was looked up. 42P01 if it is gone.
    pub(super) fn locked_now(
        &mut self,
        core: &InDatabase,
        table: &Table,
    ) -> Result<Table, EngineError> {
        self.lock_table(core, table, MODE)?;
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        reader.table_by_oid(table.oid)?.ok_or_else(|| {
            let message = format!("relation \"{}\" does not exist", table.name);
            EngineError::statement("42P01", message)
        })
    }

    /// Builds indexes that others know of by now, until they have all that anybody can see.
    /// REINDEX shows them one by one.
    pub(super) fn fill_indexes(
        &mut self,
        indexes: &[(&Table, Oid)],
        reindexed: Option<&Started>,
    ) -> Result<(), EngineError> {
        let tags = tags(indexes.iter().map(|(table, _)| *table));
        self.wait_in(Phase::WaitForWriters, &tags, LockMode::Share)?;
        for &(table, index) in indexes {
            self.show_next(reindexed, table, index);
            self.alone_in(|session, core| {
                let (table, index) = session.locked_index(core, index)?;
                session.build(core, &table, &index, (&[], Rows::Seen))
            })?;
        }
        self.wait_in(Phase::WaitForWritersAgain, &tags, LockMode::Share)?;
        for &(table, index) in indexes {
            self.show_next(reindexed, table, index);
            let limit = self.alone_in(|session, core| {
                let (table, index) = session.locked_index(core, index)?;
                session.add_missing_rows(core, &table, &index)
            })?;
            // Older snapshots see rows that were dead when the missing ones were looked for.
            self.enter_phase(Phase::WaitForSnapshots);
            self.call(|session, core| session.wait_for_snapshots(core, limit))?;
        }
        Ok(())
    }

    fn show_next(&self, reindexed: Option<&Started>, table: &Table, index: Oid) {
        if let Some(started) = reindexed {
            started.on_another(table.oid);
            self.show_index(Statement::ReindexConcurrently, index);
        }
    }

    /// Waits in a phase for those who hold one of these locks in a mode that conflicts with `mode`.
    pub(super) fn wait_in(
        &mut self,
        phase: Phase,
        tags: &[LockTag],
        mode: LockMode,
    ) -> Result<(), EngineError> {
        self.enter_phase(phase);
        self.call(|session, core| session.wait_for_lockers(core, tags, mode))
    }

    /// An index with its table, as they are now. The index is locked against being dropped.
    fn locked_index(
        &mut self,
        core: &InDatabase,
        index: Oid,
    ) -> Result<(Arc<Table>, Arc<TableIndex>), EngineError> {
        let tag = LockTag::Relation { database: core.database.oid, relation: index };
        self.lock(core, tag, LockMode::RowExclusive)?;
        self.find_index(core, index)
    }

    /// Adds the rows that a snapshot sees, taken now, and that an index lacks. Returns the oldest
    /// transaction that ran then.
    fn add_missing_rows(
        &mut self,
        core: &InDatabase,
        table: &Table,
        index: &TableIndex,
    ) -> Result<Xid, EngineError> {
        let heap = self.heap(core, table)?;
        let (ahead, resources) = (self.read_ahead(), self.sort_resources(core));
        // It may wait for the TOAST table's lock: what the snapshot sees must not go meanwhile.
        let source = self.source_of(core, table, index, &[])?;
        // Before the index is read: it has what is inserted from now on.
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let limit = snapshot.xmin();
        let open_index = index.open(&heap);
        let Session { open: Some(open), backend, locks, interrupt, .. } = self else {
            return Err(no_transaction());
        };
        let present = RowsInIndex::collect(backend, &open_index, ahead, &resources)?;
        let horizon = horizon_of(table);
        let (author, tx) = (Author { xid: INVALID_XID, command: 0 }, &open.tx);
        let (xacts, queues) = (&*core.xacts, None);
        let sets = &mut core.heaps.outcomes.sets();
        let changer = Changer { xacts, tx, author, sets, queues };
        let visibility = Visibility::new(snapshot, core.heaps.outcomes.clone());
        let rows = heap.indexable(changer, (horizon, core.database.oid, None), ahead)?;
        let rows = rows.seen_by(visibility);
        let changer = Changer { xacts, tx, author, sets: &mut open.sets, queues };
        let mut judge = RowJudge::new(&heap, changer, horizon, core.database.oid, None);
        let of = (table, index, &open_index);
        add_missing(backend, rows, (&source, &open_index), present, &resources, &mut |b, row| {
            add_lacking(core, b, of, (locks, interrupt), &mut judge, row)
        })?;
        Ok(limit)
    }

    /// Drops an index beside readers and writers. There must be no transaction running. 42704 if
    /// there is none of that name, 2BP01 if a constraint needs it. After an error there may be an
    /// index that is not valid.
    pub fn drop_index_concurrently(
        &mut self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<(), EngineError> {
        let mut locked = None;
        let hidden = self.alone_in(|session, core| {
            let (table, index, live) = session.lock_index(core, (schema, name), MODE)?;
            if table.is_temporary() {
                let message = "cannot drop an index of a temporary table concurrently";
                return Err(EngineError::statement("0A000", message));
            }
            let (tx, backend) = session.changing()?;
            let of = (index, name);
            catalog::check_index_free(&core.database, backend, tx, of, &table)?;
            if live.is_some() {
                session.step(core, index, IndexStep::Invalid)?;
            }
            session.lock_for_ddl(core, &table)?;
            locked = Some(Arc::clone(&table));
            Ok((table, index))
        });
        let done =
            hidden.and_then(|(table, index)| self.remove_indexes(&[(&table, (index, name))]));
        locked.iter().for_each(|table| self.unlock_for_ddl(table));
        done
    }

    /// Drops indexes that no new query reads.
    pub(super) fn remove_indexes(
        &mut self,
        indexes: &[(&Table, (Oid, &str))],
    ) -> Result<(), EngineError> {
        let (tags, all) = (tags(indexes.iter().map(|of| of.0)), LockMode::AccessExclusive);
        self.wait_in(Phase::WaitForReaders, &tags, all)?;
        self.alone_in(|session, core| {
            let mut indexes = indexes.iter();
            let step = IndexStep::Dead;
            indexes.try_for_each(|(_, (index, _))| session.step(core, *index, step))
        })?;
        self.wait_in(Phase::WaitForReadersAgain, &tags, all)?;
        self.alone_in(|session, core| {
            let (tx, backend) = session.changing()?;
            for &(table, of) in indexes {
                catalog::drop_index(&core.database, backend, tx, of, table)?;
            }
            Ok(())
        })
    }

    fn step(&mut self, core: &InDatabase, index: Oid, step: IndexStep) -> Result<(), EngineError> {
        let (tx, backend) = self.changing()?;
        Ok(catalog::step_index(&core.database, backend, tx, index, step)?)
    }

    fn enter_phase(&self, phase: Phase) {
        self.backend.progress.set(shown::PHASE, phase as u64);
    }

    /// Locks a table until [`Session::unlock_for_ddl`], across transactions.
    pub(super) fn lock_for_ddl(
        &mut self,
        core: &InDatabase,
        table: &Table,
    ) -> Result<(), EngineError> {
        let Session { locks, interrupt, .. } = self;
        Ok(core.locks.lock_session(locks, lock_tag(table), MODE, Some(interrupt))?)
    }

    /// Calls the engine in a transaction of its own. There must be none running.
    pub(super) fn alone_in<T>(
        &mut self,
        body: impl FnOnce(&mut Session, &InDatabase) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.alone(|session| session.call(body))
    }

    /// Gives up that lock, if the session has it.
    pub(super) fn unlock_for_ddl(&mut self, table: &Table) {
        self.core.locks.unlock_session(&mut self.locks, lock_tag(table), MODE);
    }
}

/// The lock tags of tables, each once.
fn tags<'t>(tables: impl Iterator<Item = &'t Table>) -> Vec<LockTag> {
    let mut tags: Vec<LockTag> = Vec::new();
    for tag in tables.map(lock_tag) {
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    tags
}
