//! Temporary tables: a session's own, in a namespace of its slot, until it ends.
//!
//! They are in the catalogs like any table, so creating and dropping them is transactional. Their
//! rows are not logged. Their pages are in buffers of the session (`temp_buffers`), made with its
//! first temporary table, over files named for its slot (`base/5/t3_16384`). The session keeps a
//! list of them with their ON COMMIT actions. At a transaction's end it removes the files of tables
//! that are not in the list.
//!
//! The next start of the engine removes what a stop or a crash left: rows of the catalogs
//! (`Database::drop_stale_temporary`) and files.

use std::sync::Arc;

use forebay_catalog::Reader;
use forebay_catalog::ddl::{self, NewFiles, NewTable, Persistence};
use forebay_catalog::{CheckDef, ColumnDef, FilePlace, Table, of_table};
use forebay_format::{Fork, RelFileLocator};
use forebay_storage::{BufferPool, TempRelations};
use forebay_types::Oid;

use super::state::Session;
use super::temp_tables::{OnCommit, PG_TEMP, TempTable, TempTables, owner_number};
use crate::core::{InDatabase, Phase};
use crate::error::EngineError;

impl Session {
    /// Creates a temporary table. 42P07 if the session has one of that name.
    pub fn create_temp_table(
        &mut self,
        name: &str,
        columns: &[ColumnDef],
        on_commit: OnCommit,
    ) -> Result<Oid, EngineError> {
        self.create_temp_table_with(name, columns, &[], on_commit)
    }

    /// Creates a temporary table with storage parameters as
    /// [`storage_texts`](forebay_catalog::storage_texts) makes them.
    pub fn create_temp_table_with(
        &mut self,
        name: &str,
        columns: &[ColumnDef],
        options: &[String],
        on_commit: OnCommit,
    ) -> Result<Oid, EngineError> {
        self.create_temp_table_full(name, (columns, &[]), options, (on_commit, None))
    }

    /// The same for a table with checks, in a tablespace.
    pub fn create_temp_table_full(
        &mut self,
        name: &str,
        (columns, checks): (&[ColumnDef], &[CheckDef]),
        options: &[String],
        (on_commit, tablespace): (OnCommit, Option<Oid>),
    ) -> Result<Oid, EngineError> {
        self.call(|session, core| {
            let namespace = session.own_namespace(core, &session.temp.namespace())?;
            let [own, of_toast] = [false, true].map(|toast| of_table(options, toast));
            let new = NewTable { namespace, name, columns, checks, options: &own };
            let place = FilePlace { persistence: b't', tablespace: tablespace.unwrap_or(0) };
            let locator = session
                .with_files(core, place, |session, files| session.create_in(core, new, files))?;
            session.note_temp_made((None, name), locator, on_commit);
            session.create_toast(core, (locator.rel, place), columns, &of_toast)?;
            Ok(locator.rel)
        })
    }

    /// Notes that the running transaction has made a temporary table, or a part of one.
    pub(super) fn note_temp_made(
        &mut self,
        (part_of, name): (Option<Oid>, &str),
        locator: RelFileLocator,
        on_commit: OnCommit,
    ) {
        let (name, oid) = (name.to_owned(), locator.rel);
        let made = Some(self.subtransaction_depth());
        let (earlier, dropped) = (Vec::new(), None);
        let table = TempTable { oid, part_of, name, locator, earlier, on_commit, made, dropped };
        self.temp.tables.push(table);
    }

    /// Whether a name means one of the session's temporary tables, or an index of one.
    pub fn has_temporary(&self, schema: Option<&str>, name: &str) -> bool {
        schema.is_none_or(|schema| schema == PG_TEMP) && self.temp.may_have(name)
    }

    /// Makes files at a place.
    pub(super) fn with_files<T>(
        &mut self,
        core: &InDatabase,
        FilePlace { persistence, tablespace }: FilePlace,
        make: impl FnOnce(&mut Session, NewFiles<'_>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let files = |persistence| NewFiles { persistence, tablespace };
        match persistence {
            b't' => {}
            b'u' => return make(self, files(Persistence::Unlogged)),
            _ => return make(self, files(Persistence::Permanent)),
        }
        // Taken out of the session while it is borrowed, and put back in any case.
        let pool = self.take_temp_pool(core)?;
        let made = make(self, NewFiles { persistence: Persistence::Temporary(&pool), tablespace });
        self.temp.pool = Some(pool);
        made
    }

    /// A namespace of the session's temporary tables. Created if there is none.
    pub(super) fn own_namespace(
        &mut self,
        core: &InDatabase,
        name: &str,
    ) -> Result<Oid, EngineError> {
        if let Some(oid) = self.namespace(core, name)? {
            return Ok(oid);
        }
        let (tx, backend) = self.changing()?;
        Ok(ddl::create_namespace(&core.database, backend, tx, name)?)
    }

    /// Does the ON COMMIT actions of a transaction that is about to commit.
    pub(super) fn before_commit(&mut self, core: &InDatabase) -> Result<(), EngineError> {
        let of = |tables: &TempTables, what| -> Vec<TempTable> {
            tables.live().filter(|table| table.on_commit == what).cloned().collect()
        };
        let doomed = of(&self.temp, OnCommit::Drop);
        let emptied = of(&self.temp, OnCommit::DeleteRows);
        self.drop_temp(core, doomed)?;
        for table in emptied {
            let Some(relations) = &self.temp.pool else { break };
            let pool = Arc::clone(relations.pool());
            if pool.nblocks(table.locator, Fork::Main)? == 0 {
                continue;
            }
            pool.truncate(&mut self.backend, table.locator, Fork::Main, 0)?;
            core.database.forget(table.locator);
            if self.temp.tables.iter().any(|part| part.part_of == Some(table.oid)) {
                self.empty_parts(core, table.oid)?;
            }
        }
        Ok(())
    }

    /// Empties the indexes of a temporary table that was emptied, and its TOAST table.
    fn empty_parts(&mut self, core: &InDatabase, oid: Oid) -> Result<(), EngineError> {
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        let Some(table) = reader.table_by_oid(oid)? else { return Ok(()) };
        let toast = table.toasting.relation.map(|toast| reader.table_by_oid(toast)).transpose()?;
        let toast = toast.flatten();
        if let Some(toast) = &toast {
            let pool = self.pool_of(core, toast)?;
            pool.truncate(&mut self.backend, toast.locator, Fork::Main, 0)?;
            core.database.forget(toast.locator);
        }
        let heap = self.heap(core, &table)?;
        let indexes = table.indexes.iter().chain(toast.iter().flat_map(|toast| &toast.indexes));
        for index in indexes {
            heap.pool.truncate(&mut self.backend, index.locator, Fork::Main, 0)?;
            index.open(&heap).create(&mut self.backend)?;
        }
        Ok(())
    }

    /// Drops temporary tables within the running transaction.
    fn drop_temp(&mut self, core: &InDatabase, doomed: Vec<TempTable>) -> Result<(), EngineError> {
        if doomed.is_empty() {
            return Ok(());
        }
        let doomed: Vec<Oid> = doomed.into_iter().map(|table| table.oid).collect();
        let (tx, backend) = self.changing()?;
        // All at once: some depend on others.
        let gone = forebay_catalog::drop_temporary(&core.database, backend, tx, &doomed)?;
        gone.into_iter().for_each(|relation| self.note_temp_dropped(relation));
        Ok(())
    }

    /// OIDs and names of the session's temporary tables.
    pub fn temp_tables(&self) -> impl Iterator<Item = (Oid, &str)> {
        self.temp.live().map(|table| (table.oid, table.name.as_str()))
    }

    /// Drops all temporary tables of the session within the running transaction: DISCARD TEMP. No
    /// cancel prevents it: a session that ends does it too, and whatever ended it is pending then.
    pub fn discard_temp(&mut self) -> Result<(), EngineError> {
        self.call_to_the_end(|session, core| {
            let doomed = session.temp.live().cloned().collect();
            session.drop_temp(core, doomed)
        })
    }

    /// The session's pool for temporary tables. Created if there is none.
    pub(super) fn take_temp_pool(
        &mut self,
        core: &InDatabase,
    ) -> Result<TempRelations, EngineError> {
        match self.temp.pool.take() {
            Some(pool) => Ok(pool),
            None => Ok(TempRelations::new(
                &core.pool,
                owner_number(self.temp.slot),
                self.settings.temp_buffers,
            )?),
        }
    }

    /// The pool that a table's pages are in. Another session's temporary table is refused.
    pub(super) fn pool_of(
        &mut self,
        core: &InDatabase,
        table: &Table,
    ) -> Result<Arc<BufferPool>, EngineError> {
        self.check_own(table)?;
        if !table.is_temporary() {
            return Ok(Arc::clone(&core.pool));
        }
        self.temp_pool(core)
    }

    /// The pages of its temporary relations, in as many buffers as temp_buffers says.
    pub(super) fn temp_pool(&mut self, core: &InDatabase) -> Result<Arc<BufferPool>, EngineError> {
        let mut pool = self.take_temp_pool(core)?;
        let wanted = self.settings.temp_buffers;
        let resized = if pool.pool().buffers() == wanted { Ok(()) } else { pool.resize(wanted) };
        let found = Arc::clone(pool.pool());
        self.temp.pool = Some(pool);
        resized?;
        Ok(found)
    }

    /// How many buffers its temporary tables have, once one was needed: temp_buffers has no say
    /// from then on.
    pub fn temp_buffers_in_use(&self) -> Option<usize> {
        self.temp.pool.as_ref().filter(|pool| pool.is_used()).map(|pool| pool.pool().buffers())
    }

    /// Ends what the transaction did with temporary tables, and removes their files.
    pub(super) fn end_temp(&mut self, committed: bool) {
        self.temp.end(committed);
        self.remove_temp_files();
    }

    /// Notes that a table is dropped, if it is one of the session's temporary tables.
    pub(super) fn note_temp_dropped(&mut self, oid: Oid) {
        let depth = self.subtransaction_depth();
        self.temp.note_dropped(oid, depth);
    }

    /// Notes the new name of a relation, if it is one of the session's temporary ones.
    pub(super) fn note_temp_renamed(&mut self, oid: Oid, name: &str) {
        if self.temp.tables.iter().any(|table| table.oid == oid) && !self.temp.may_have(name) {
            self.temp.renamed.push(name.to_owned());
        }
    }

    /// Removes the files of temporary tables that are not in the list any more.
    pub(super) fn remove_temp_files(&mut self) {
        let TempTables { tables, pool: Some(pool), .. } = &self.temp else { return };
        for rel in pool.relations() {
            if tables.iter().any(|table| table.has_file(rel)) {
                continue;
            }
            self.core.database.forget(rel);
            if let Err(error) = pool.drop_relation(&mut self.backend, rel) {
                tracing::warn!("{error}");
            }
        }
    }

    /// The session ends: its temporary tables and their files go. At a stop of the engine they go
    /// otherwise.
    pub(super) fn leave_temp(&mut self) {
        self.drop_all_temp();
        let Some(pool) = self.temp.pool.take() else { return };
        let core = Arc::clone(&self.core);
        let Ok(_activity) = core.activity.enter() else { return };
        for rel in pool.relations() {
            core.database.forget(rel);
        }
        if core.phase() != Phase::Stopped
            && !core.fatal.has_stopped()
            && let Err(error) = pool.clear(&mut self.backend)
        {
            tracing::warn!("{error}");
        }
    }

    /// Drops all temporary tables in a transaction of its own.
    fn drop_all_temp(&mut self) {
        if self.temp.tables.is_empty() || self.core.check_running().is_err() {
            return;
        }
        let dropped = self.begin().and_then(|()| self.discard_temp()).and_then(|()| self.commit());
        if let Err(error) = dropped {
            tracing::warn!("temporary tables stay in the catalogs until the next start: {error}");
            let _ = self.abort();
        }
    }
}
