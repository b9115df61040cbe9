//! ALTER TABLE ... SET TABLESPACE, SET LOGGED, SET UNLOGGED: relations get new files, page by page
//! what is in the old ones. Those go when the transaction has committed. Indexes of a table that
//! becomes logged or unlogged are built anew.

use std::sync::Arc;

use forebay_access::AccessError;
use forebay_access::heap::{ForkCopier, Heap};
use forebay_catalog::ddl;
use forebay_catalog::{self as catalog, FilePlace, Reader, Table, TableIndex};
use forebay_format::{Fork, RelFileLocator};
use forebay_storage::StreamSettings;
use forebay_txn::locks::{LockMode, LockTag};
use forebay_types::Oid;

use super::state::Session;
use crate::core::InDatabase;
use crate::error::EngineError;

/// The forks that move. The init fork is made anew.
const MOVED: [Fork; 3] = [Fork::Main, Fork::Fsm, Fork::Vm];

impl Session {
    /// Moves a table with its TOAST table, but not its indexes, to a tablespace.
    pub fn set_table_tablespace(
        &mut self,
        table: &Arc<Table>,
        tablespace: Oid,
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            session.check_movable(core, table, &table.name)?;
            if table.locator.spc == tablespace {
                return Ok(());
            }
            session.move_table_file(core, table, table.place_in(tablespace))?;
            let Some(toast) = table.toasting.relation else { return Ok(()) };
            let toast = session.locked_toast(core, toast, LockMode::AccessExclusive)?;
            let place = toast.place_in(tablespace);
            session.move_table_file(core, &toast, place)?;
            for index in &toast.indexes {
                session.move_index_file(core, &toast, index, place)?;
            }
            Ok(())
        })
    }

    /// Moves an index to a tablespace.
    pub fn set_index_tablespace(
        &mut self,
        (schema, name): (Option<&str>, &str),
        tablespace: Oid,
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            let mode = LockMode::AccessExclusive;
            let (table, _, index) = session.lock_index(core, (schema, name), mode)?;
            let index = index.ok_or_else(|| {
                let message = format!("cannot move index \"{name}\": it is being dropped");
                EngineError::statement("0A000", message)
            })?;
            session.check_movable(core, &table, name)?;
            if index.locator.spc == tablespace {
                return Ok(());
            }
            session.move_index_file(core, &table, &index, table.place_in(tablespace))
        })
    }

    /// Lets the changes of a table and of all that belongs to it be logged, or not. Its foreign
    /// keys allow that. The transaction has locked it in mode `AccessExclusive`.
    pub fn set_table_logged(
        &mut self,
        table: &Arc<Table>,
        logged: bool,
    ) -> Result<(), EngineError> {
        let persistence = if logged { b'p' } else { b'u' };
        let sequences = self.call(|session, core| {
            session.check_movable(core, table, &table.name)?;
            if !logged {
                session.check_unpublished(core, table)?;
            }
            session.set_logged(core, table, persistence)?;
            if let Some(toast) = table.toasting.relation {
                let toast = session.locked_toast(core, toast, LockMode::AccessExclusive)?;
                session.set_logged(core, &toast, persistence)?;
            }
            session.sequences_of(core, table.oid)
        })?;
        sequences.iter().try_for_each(|(oid, _)| self.set_sequence_logged(*oid, logged))
    }

    /// Refuses a table of a publication: what is not logged can't be replicated.
    fn check_unpublished(&mut self, core: &InDatabase, table: &Table) -> Result<(), EngineError> {
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        if !reader.is_published(table.oid)? {
            return Ok(());
        }
        let message = format!(
            "cannot change table \"{}\" to unlogged because it is part of a publication",
            table.name
        );
        let error = EngineError::statement("55000", message);
        Err(error.with_detail("Unlogged relations cannot be replicated."))
    }

    fn set_logged(
        &mut self,
        core: &InDatabase,
        table: &Arc<Table>,
        persistence: u8,
    ) -> Result<(), EngineError> {
        self.move_table_file(core, table, FilePlace { persistence, ..table.place() })?;
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        let lost = || EngineError::internal("the table is gone");
        let moved = Arc::new(reader.table_by_oid(table.oid)?.ok_or_else(lost)?);
        for index in &moved.indexes {
            let tag = LockTag::Relation { database: core.database.oid, relation: index.oid };
            self.lock(core, tag, LockMode::AccessExclusive)?;
            self.rebuild(core, &moved, index)?;
        }
        Ok(())
    }

    /// Refuses what cannot get new files.
    fn check_movable(
        &mut self,
        core: &InDatabase,
        table: &Table,
        name: &str,
    ) -> Result<(), EngineError> {
        self.check_own_to("move", table)?;
        core.database.check_event_triggers()?;
        table.check_alterable(name)?;
        table.check_heap("move")?;
        self.check_locked(table, LockMode::AccessExclusive)
    }

    fn move_table_file(
        &mut self,
        core: &InDatabase,
        table: &Arc<Table>,
        place: FilePlace,
    ) -> Result<(), EngineError> {
        let heap = self.heap(core, table)?;
        self.move_file(core, &heap, (table.oid, table.locator), place).map(drop)
    }

    fn move_index_file(
        &mut self,
        core: &InDatabase,
        table: &Arc<Table>,
        index: &TableIndex,
        place: FilePlace,
    ) -> Result<(), EngineError> {
        if let Some(why) = &index.unknown {
            let message = format!("cannot move index \"{}\": {why}", index.name);
            return Err(EngineError::statement("0A000", message));
        }
        let heap = self.heap(core, table)?;
        let new = self.move_file(core, &heap, (index.oid, index.locator), place)?;
        if place.persistence == b'u' {
            let moved = index.at(new, core.database.trees.tree(new));
            moved.open(&heap).create_init(&mut self.backend)?;
        }
        Ok(())
    }

    /// Copies a relation, whose pages are in the pool of a heap, into a new file, which becomes its
    /// own.
    fn move_file(
        &mut self,
        core: &InDatabase,
        heap: &Heap,
        (oid, old): (Oid, RelFileLocator),
        place: FilePlace,
    ) -> Result<RelFileLocator, EngineError> {
        let new = self.with_files(core, place, |session, files| {
            let (tx, backend) = session.changing()?;
            Ok(catalog::create_new_file(&core.database, backend, tx, files)?)
        })?;
        let copier = ForkCopier { pool: &heap.pool, wal: &heap.wal, failure: &heap.failure };
        let mut logged = place.persistence == b'p';
        forebay_aio::planted_bug!(core.aio, MovedPagesNotLogged, logged = false);
        for fork in MOVED {
            if fork != Fork::Main {
                if !heap.pool.smgr().exists(old, fork)? {
                    continue;
                }
                heap.pool.smgr().create(new, fork, false)?;
                if logged {
                    let xid = self.assigned(core)?;
                    ddl::log_file(&core.database, &mut self.backend, (new, fork), xid)?;
                }
            }
            self.copy_fork(copier, (old, new), (fork, logged))?;
        }
        self.with_files(core, place, |session, files| {
            let (tx, backend) = session.changing()?;
            let (of, to) = ((oid, old), (files, new));
            Ok(catalog::replace_file(&core.database, backend, tx, of, to)?)
        })?;
        self.note_temp_emptied(oid, new);
        Ok(new)
    }

    /// Copies a fork. A cancel ends that.
    pub(super) fn copy_fork(
        &mut self,
        copier: ForkCopier<'_>,
        files: (RelFileLocator, RelFileLocator),
        fork: (Fork, bool),
    ) -> Result<(), EngineError> {
        self.check_cancel()?;
        let ahead = self.read_ahead();
        let settings = StreamSettings::new(ahead.io_concurrency, ahead.combine_limit);
        let interrupt = self.interrupt.clone();
        let check = || match interrupt.pending() {
            Some(_) => Err(AccessError::Internal("interrupted".to_owned())),
            None => Ok(()),
        };
        let copied = copier.copy(&mut self.backend, files, fork, settings, &check);
        if copied.is_err() {
            self.check_cancel()?;
        }
        Ok(copied?)
    }
}
