//! Creates, drops and rebuilds indexes.
//!
//! ```text
//!   create:  rows in the catalogs, an empty file ─▶ build ─▶ figures in the catalogs
//!   rebuild: a new file, the old one goes at the commit ─▶ build ─▶ figures
//! ```

use std::sync::Arc;

use forebay_access::heap::{Author, Changer, Visibility};
use forebay_access::progress::{self as create_index, BuildPhase, Phase, Statement};
use forebay_access::{Built, RowSource, SortResources, build_index};
use forebay_catalog::ddl;
use forebay_catalog::schema::BTREE_AM;
use forebay_catalog::{
    self as catalog, BuiltFigures, CatalogError, Constraint, FilePlace, Going, IndexDef, IndexStep,
    Reader, RelationFigures, Table, TableIndex,
};
use forebay_format::Fork;
use forebay_storage::Backend;
use forebay_storage::progress::{self, Command, Progress};
use forebay_txn::Transaction;
use forebay_txn::locks::{LockMode, LockTag};
use forebay_types::Oid;

use super::index_entries::{failed, key_of, object};
use super::scan::horizon_of;
use super::state::{Session, no_transaction};
use super::temp_tables::{OnCommit, PG_TEMP};
use crate::core::InDatabase;
use crate::error::EngineError;
use crate::warning::Warning;

/// An index by its OID, behind its table. None: it is dead.
pub(super) type FoundIndex = (Arc<Table>, Oid, Option<Arc<TableIndex>>);

/// The rows that a new index has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// All that anybody can see: nobody else changes the table.
    All,
    /// What a snapshot sees, taken once all is locked, while others change the table; and they
    /// keep the index from then on.
    Seen,
}

impl Session {
    /// Creates an index of a table, which the transaction has locked in mode `Share` or a stronger
    /// one, and `AccessExclusive` for a constraint. Returns its OID.
    ///
    /// # Errors
    /// PostgreSQL's: 42P07, 42701, 42703, 54011, 42704, 42P16, 23505, 23502.
    pub fn create_index(&mut self, table: &Arc<Table>, def: &IndexDef) -> Result<Oid, EngineError> {
        check_indexable(table)?;
        catalog::check_index(table, def)?;
        self.call(|session, core| {
            session.check_own(table)?;
            session.check_locked(table, LockMode::Share)?;
            // As in PostgreSQL, the view does not name an index that others can't see yet.
            let _shown = session.show_building(table, Statement::CreateIndex, 0);
            session.lock_collations(core, def.collations())?;
            let name = session.lock_index_name(core, table, def)?;
            let place = session.place_of_index(core, table, def)?;
            let made = session.with_files(core, place, |session, files| {
                let (tx, backend) = session.changing()?;
                let (database, of) = (&core.database, (def, name.as_str()));
                Ok(catalog::create_index(database, backend, tx, table, of, files)?)
            });
            let (index, not_null) = made?;
            if table.is_temporary() {
                let of = (Some(table.oid), name.as_str());
                session.note_temp_made(of, index.locator, OnCommit::PreserveRows);
            }
            let tag = LockTag::Relation { database: core.database.oid, relation: index.oid };
            session.lock(core, tag, LockMode::AccessExclusive)?;
            session.build(core, table, &index, (&not_null, Rows::All))?;
            Ok(index.oid)
        })
    }

    /// Where the file of a new index goes.
    pub(super) fn place_of_index(
        &mut self,
        core: &InDatabase,
        table: &Table,
        def: &IndexDef,
    ) -> Result<FilePlace, EngineError> {
        let tablespace = match (def.tablespace, table.is_temporary()) {
            (None, true) => 0,
            (given, _) => self.tablespace_for_new(core, given)?,
        };
        Ok(table.place_in(tablespace))
    }

    /// Shows in pg_stat_progress_create_index what it does to an index of a table, until the result
    /// is dropped.
    pub(super) fn show_building(
        &self,
        table: &Table,
        statement: Statement,
        index: Oid,
    ) -> progress::Started {
        let started = Progress::start(&self.backend.progress, Command::CreateIndex, table.oid);
        self.show_index(statement, index);
        started
    }

    /// Shows on which index of that table.
    pub(super) fn show_index(&self, statement: Statement, index: Oid) {
        self.backend.progress.set_all(&[
            (create_index::STATEMENT, statement as u64),
            (create_index::INDEX, index.into()),
            (create_index::ACCESS_METHOD, BTREE_AM.into()),
        ]);
    }

    /// Locks the name of a new index, and chooses it if it is not given.
    pub(super) fn lock_index_name(
        &mut self,
        core: &InDatabase,
        table: &Table,
        def: &IndexDef,
    ) -> Result<String, EngineError> {
        self.lock_chosen_name(core, table.namespace, |backend, tx| {
            catalog::index_name(&core.database, backend, tx, table, def)
        })
    }

    /// Locks a name that is chosen for a relation in a namespace.
    pub(super) fn lock_chosen_name(
        &mut self,
        core: &InDatabase,
        namespace: Oid,
        choose: impl Fn(&mut Backend, &mut Transaction) -> Result<String, CatalogError>,
    ) -> Result<String, EngineError> {
        core.database.check_event_triggers()?;
        let mut locked = None;
        loop {
            let (tx, backend) = self.changing()?;
            let name = choose(backend, tx)?;
            if locked.as_ref() == Some(&name) {
                return Ok(name);
            }
            let tag = ddl::name_lock(core.database.oid, namespace, &name);
            self.lock(core, tag, LockMode::AccessExclusive)?;
            // Somebody may have taken it meanwhile.
            locked = Some(name);
        }
    }

    /// Builds an index whose file is empty, and stores figures of it and of its table. The columns
    /// in `not_null`, by number, must have no NULL.
    pub(super) fn build(
        &mut self,
        core: &InDatabase,
        table: &Arc<Table>,
        index: &TableIndex,
        (not_null, which): (&[i16], Rows),
    ) -> Result<(), EngineError> {
        self.backend.progress.set_all(&[
            (create_index::PHASE, Phase::Build as u64),
            (create_index::BUILD_PHASE, BuildPhase::Begin as u64),
            (create_index::BLOCKS_TOTAL, 0),
            (create_index::BLOCKS_DONE, 0),
            (create_index::TUPLES_TOTAL, 0),
            (create_index::TUPLES_DONE, 0),
        ]);
        let heap = self.heap(core, table)?;
        let (ahead, mut resources) = (self.read_ahead(), self.sort_resources(core));
        if let Some(own) = table.parallel_workers {
            resources.threads = resources.threads.min(1 + usize::from(own));
        }
        let source = self.source_of(core, table, index, not_null)?;
        let open_index = index.open(&heap);
        if table.is_unlogged() && heap.pool.nblocks(index.locator, Fork::Init)? == 0 {
            open_index.create_init(&mut self.backend)?;
        }
        let Session { open: Some(open), backend, .. } = self else { return Err(no_transaction()) };
        // After the wait for the TOAST table's lock: what it sees must not go meanwhile.
        let seen = (which == Rows::Seen).then(|| core.xacts.snapshot(&open.tx));
        let xid = core.xacts.assign(&mut backend.io, &mut open.tx)?;
        let author = Author { xid, command: open.tx.use_command() };
        let (own, sets) = (open.tx.full_xid(), &mut open.sets);
        let changer = Changer { xacts: &core.xacts, tx: &open.tx, author, sets, queues: None };
        let mut rows =
            heap.indexable(changer, (horizon_of(table), core.database.oid, own), ahead)?;
        let stays_invalid = which == Rows::Seen || is_left_over(table, index);
        if let Some(snapshot) = seen {
            rows = rows.seen_by(Visibility::new(snapshot, core.heaps.outcomes.clone()));
        }
        let unique = index.unique;
        let built = build_index(backend, rows, &source, &open_index, unique, &resources);
        let report = match built.map_err(|error| failed(table, index, error))? {
            Built::Done(report) => report,
            Built::Duplicate(tuple) => return Err(duplicate(table, index, &tuple)),
            Built::Null(column) => return Err(contains_null(table, column)),
        };
        let marked = heap.marked_pages(backend)?;
        let tables = RelationFigures {
            has_index: true,
            pages: report.blocks,
            tuples: report.live as f32,
            marked,
        };
        let pages = heap.pool.nblocks(index.locator, Fork::Main)?;
        let tuples = report.entries as f32;
        let figures = BuiltFigures {
            table: tables,
            index: RelationFigures { pages, tuples, ..RelationFigures::default() },
            step: match stays_invalid {
                true => IndexStep::Ready,
                false => IndexStep::Rebuilt { check_xmin: report.broken_chain },
            },
        };
        let (tx, backend) = self.changing()?;
        let of = (table.oid, index.oid);
        catalog::store_built(&core.database, backend, tx, of, &figures)?;
        Ok(())
    }

    /// Where the index's values are in rows of its table, long ones included. The columns in
    /// `not_null` must have no NULL.
    pub(super) fn source_of(
        &mut self,
        core: &InDatabase,
        table: &Table,
        index: &TableIndex,
        not_null: &[i16],
    ) -> Result<RowSource, EngineError> {
        let mut source = row_source(table, index, not_null)?;
        if let Some(toast) = table.toasting.relation
            && source
                .columns
                .iter()
                .any(|(n, _)| table.layouts.get(*n).is_some_and(|l| l.len == -1))
        {
            // A vacuum could remove values of dead rows that the build still reads.
            let mode = LockMode::ShareUpdateExclusive;
            source.toast = Some(self.toast_table(core, toast, mode)?);
        }
        Ok(source)
    }

    pub(super) fn sort_resources(&mut self, core: &InDatabase) -> SortResources {
        self.limit_temp_space();
        SortResources {
            files: Arc::clone(&core.temp_files),
            owner: self.id(),
            space: Arc::clone(&self.temp_space),
            options: self.temp_options(),
            memory: self.settings.maintenance_work_mem.saturating_mul(1024),
            threads: 1 + self.settings.vacuum.parallel_workers,
            interrupt: self.interrupt.clone(),
        }
    }

    /// Drops an index. 42704 if there is none of that name, 2BP01 if a constraint needs it.
    pub fn drop_index(&mut self, schema: Option<&str>, name: &str) -> Result<(), EngineError> {
        self.call(|session, core| {
            core.database.check_event_triggers()?;
            let (table, index, _) =
                session.lock_index(core, (schema, name), LockMode::AccessExclusive)?;
            let (tx, backend) = session.changing()?;
            catalog::drop_index(&core.database, backend, tx, (index, name), &table)?;
            session.note_temp_dropped(index);
            Ok(())
        })
    }

    /// Drops a constraint of a table, which the transaction has locked in mode `AccessExclusive`:
    /// a key with its index, a foreign key, a check or a NOT NULL; with `cascade` foreign keys to
    /// it. 42704 if there is none of that name. Returns what goes along, in words.
    pub fn drop_constraint(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        cascade: bool,
    ) -> Result<Vec<String>, EngineError> {
        self.call(|session, core| {
            core.database.check_event_triggers()?;
            session.check_own(table)?;
            session.check_locked(table, LockMode::AccessExclusive)?;
            let snapshot = core.xacts.snapshot(&session.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut session.backend, snapshot);
            let found = reader.constraint(table.oid, name)?;
            let owns = |constraint: &Constraint| constraint.index != 0 && constraint.kind != b'f';
            let index = found.filter(owns).map(|constraint| constraint.index);
            if let Some(relation) = index {
                let tag = LockTag::Relation { database: core.database.oid, relation };
                session.lock(core, tag, LockMode::AccessExclusive)?;
            }
            if let Some(constraint) = found {
                session.lock_what_goes(core, Going::Constraint(constraint.oid))?;
            }
            let path = session.visible_namespaces(core)?;
            let (tx, backend) = session.changing()?;
            let what = (name, cascade, path);
            let dropped = catalog::drop_constraint(&core.database, backend, tx, table, what)?;
            index.into_iter().for_each(|index| session.note_temp_dropped(index));
            Ok(dropped.0)
        })
    }

    /// Builds an index anew, in a new file.
    pub fn reindex_index(&mut self, schema: Option<&str>, name: &str) -> Result<(), EngineError> {
        self.call(|session, core| {
            // Readers hold no lock of an index, only their table's.
            let mode = LockMode::AccessExclusive;
            let (table, _, index) = session.lock_index(core, (schema, name), mode)?;
            let index = index.ok_or_else(|| {
                let message = format!("cannot rebuild index \"{name}\": it is being dropped");
                EngineError::statement("0A000", message)
            })?;
            if is_left_over(&table, &index) {
                let message = "cannot reindex invalid index on TOAST table";
                return Err(EngineError::statement("0A000", message));
            }
            let _shown = session.show_building(&table, Statement::Reindex, index.oid);
            session.rebuild(core, &table, &index)
        })
    }

    /// Builds all indexes of a table and of its TOAST table anew. The transaction has locked it in
    /// mode `AccessExclusive`. False if there are none.
    pub fn reindex_table(&mut self, table: &Arc<Table>) -> Result<bool, EngineError> {
        self.call(|session, core| {
            session.check_locked(table, LockMode::AccessExclusive)?;
            session.rebuild_all(core, table)?;
            let Some(toast) = table.toasting.relation else { return Ok(!table.indexes.is_empty()) };
            let toast = session.locked_toast(core, toast, LockMode::AccessExclusive)?;
            session.rebuild_all(core, &toast)?;
            Ok(!(table.indexes.is_empty() && toast.indexes.is_empty()))
        })
    }

    fn rebuild_all(&mut self, core: &InDatabase, table: &Arc<Table>) -> Result<(), EngineError> {
        for index in &table.indexes {
            let tag = LockTag::Relation { database: core.database.oid, relation: index.oid };
            self.lock(core, tag, LockMode::AccessExclusive)?;
            if is_left_over(table, index) {
                let (schema, name) = (&table.schema, &index.name);
                self.warnings.push(Warning {
                    sqlstate: "0A000",
                    message: format!(
                        "cannot reindex invalid index \"{schema}.{name}\" on TOAST table, skipping"
                    ),
                    detail: None,
                    hint: None,
                });
                continue;
            }
            let _shown = self.show_building(table, Statement::Reindex, index.oid);
            self.rebuild(core, table, index)?;
        }
        Ok(())
    }

    /// Builds an index anew, in a new file. It is locked, and its table against changes.
    pub(super) fn rebuild(
        &mut self,
        core: &InDatabase,
        table: &Arc<Table>,
        index: &Arc<TableIndex>,
    ) -> Result<(), EngineError> {
        check_indexable(table)?;
        if table.is_catalog() {
            let message = format!(
                "cannot rebuild index \"{}\": indexes of system catalogs stay where they are",
                index.name
            );
            return Err(EngineError::statement("0A000", message));
        }
        if let Some(why) = &index.unknown {
            let message = format!("cannot rebuild index \"{}\": {why}", index.name);
            return Err(EngineError::statement("0A000", message));
        }
        let place = table.place_in(index.locator.spc);
        let locator = self.with_files(core, place, |session, files| {
            let (tx, backend) = session.changing()?;
            let of = (index.oid, index.locator);
            Ok(catalog::empty_index(&core.database, backend, tx, of, files)?)
        })?;
        self.note_temp_emptied(index.oid, locator);
        let rebuilt = index.at(locator, core.database.trees.tree(locator));
        self.build(core, table, &rebuilt, (&[], Rows::All))
    }

    /// Finds an index with its table, and locks both in a mode, the table first. The index itself
    /// is None if it is dead: a DROP INDEX CONCURRENTLY has not come to its end.
    pub(super) fn lock_index(
        &mut self,
        core: &InDatabase,
        (schema, name): (Option<&str>, &str),
        mode: LockMode,
    ) -> Result<FoundIndex, EngineError> {
        let own = self.temp.namespace();
        let schema = match schema {
            None | Some(PG_TEMP) if self.temp.may_have(name) => Some(own.as_str()),
            schema => schema,
        };
        let namespaces = match schema {
            None => self.visible_namespaces(core)?,
            Some(schema) => vec![self.namespace(core, schema)?.ok_or_else(|| no_index(name))?],
        };
        let mut locked = None;
        loop {
            let snapshot = core.xacts.snapshot(&self.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
            let mut found = namespaces.iter().map(|namespace| reader.class_named(*namespace, name));
            let class =
                found.find_map(Result::transpose).transpose()?.ok_or_else(|| no_index(name))?;
            if class.kind != b'i' {
                let message = format!("\"{name}\" is not an index");
                return Err(EngineError::statement("42809", message));
            }
            let of = reader.table_of_index(&class)?.ok_or_else(|| no_index(name))?;
            let table = reader.table_by_oid(of)?.map(Arc::new).ok_or_else(|| no_index(name))?;
            if locked == Some((table.oid, class.oid)) {
                let index = table.indexes.iter().find(|index| index.oid == class.oid).cloned();
                return Ok((table, class.oid, index));
            }
            self.check_own(&table)?;
            self.lock_table(core, &table, mode)?;
            let tag = LockTag::Relation { database: core.database.oid, relation: class.oid };
            self.lock(core, tag, mode)?;
            // The catalogs may have changed meanwhile.
            locked = Some((table.oid, class.oid));
        }
    }
}

/// Whether it is an index of a TOAST table that a REINDEX CONCURRENTLY has left. If it were made
/// valid it could not be dropped.
fn is_left_over(table: &Table, index: &TableIndex) -> bool {
    table.kind == b't' && !index.valid
}

fn no_index(name: &str) -> EngineError {
    EngineError::statement("42704", format!("index \"{name}\" does not exist"))
}

/// Refuses tables whose indexes cannot be built.
pub(super) fn check_indexable(table: &Table) -> Result<(), EngineError> {
    table.check_heap("index")?;
    let why = if !matches!(table.kind, b'r' | b't') {
        "it is not an ordinary table"
    } else {
        return Ok(());
    };
    let message = format!("cannot index relation \"{}\": {why}", table.name);
    Err(EngineError::statement("0A000", message))
}

/// Where the index's values are in rows of its table.
pub(super) fn row_source(
    table: &Table,
    index: &TableIndex,
    not_null: &[i16],
) -> Result<RowSource, EngineError> {
    let lost = || EngineError::internal("an index has a column that its table has not");
    let read: Vec<usize> = match &index.computed {
        None => index.table_columns().collect(),
        Some(_) => index.columns_read().into_iter().collect(),
    };
    let mut columns = Vec::with_capacity(read.len());
    for column in read {
        let missing = table.columns.get(column).ok_or_else(lost)?.missing.clone();
        columns.push((column, missing));
    }
    let not_null = columns.iter().map(|(column, _)| {
        table.columns.get(*column).is_some_and(|column| not_null.contains(&column.attnum))
    });
    let not_null = not_null.collect();
    let (layouts, computed) = (table.layouts.clone(), index.computed.clone());
    Ok(RowSource { layouts, columns, computed, not_null, toast: None })
}

/// Two rows have the same key in an index that is to be unique.
#[cold]
fn duplicate(table: &Table, index: &TableIndex, tuple: &[u8]) -> EngineError {
    let message = format!("could not create unique index \"{}\"", index.name);
    let refused = EngineError::statement("23505", message).about(object(table, index));
    match key_of(table, index, tuple) {
        Some(key) => refused.with_detail(format!("Key {key} is duplicated.")),
        None => refused.with_detail("Duplicate keys exist."),
    }
}

/// A column of a new primary key has a NULL.
#[cold]
pub(super) fn contains_null(table: &Table, column: usize) -> EngineError {
    let name = table.columns.get(column).map_or("", |column| column.name.as_str());
    let message = format!("column \"{name}\" of relation \"{}\" contains null values", table.name);
    EngineError::statement("23502", message)
}
