//! Finds, locks, creates and drops tables.

use std::sync::Arc;

use forebay_catalog::Reader;
use forebay_catalog::ddl::{self, NewFiles, NewTable};
use forebay_catalog::not_a_table;
use forebay_catalog::{CheckDef, ColumnDef, FilePlace, Going, Table, of_table};
use forebay_format::RelFileLocator;
use forebay_txn::locks::{LockMode, LockTag};
use forebay_types::Oid;

use super::known_path::PathEntry;
use super::state::Session;
use super::temp_tables::PG_TEMP;
use crate::core::InDatabase;
use crate::error::EngineError;
use crate::warning::Warning;

/// What CREATE TABLE says of a table's files.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableFiles {
    /// UNLOGGED: recovery empties it.
    pub unlogged: bool,
    /// TABLESPACE. None: the session's default.
    pub tablespace: Option<Oid>,
}

impl Session {
    /// Finds a table; without a schema by the search path. It takes no lock, so the table may be
    /// dropped at any time.
    pub fn table(
        &mut self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<Table>>, EngineError> {
        self.call(|session, core| session.find(core, schema, name))
    }

    fn find(
        &mut self,
        core: &InDatabase,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<Table>>, EngineError> {
        let cache = &core.database.cache;
        let open = self.running()?;
        if open.changed_catalogs {
            let moved = cache.moved();
            if open.found_at != moved {
                open.own_tables.clear();
                open.found_at = moved;
            }
            return self.resolve(core, schema, name);
        }
        let path = schema.is_none().then(|| self.path(core)).transpose()?;
        if let Some(path) = path.filter(|path| !Arc::ptr_eq(path, &self.known_in)) {
            self.known.clear();
            self.known_in = path;
        }
        if let Some(table) = self.known.get(cache.moved(), schema, name) {
            return Ok(Some(Arc::clone(table)));
        }
        let version = cache.version();
        let found = self.resolve(core, schema, name)?;
        if let (Some(version), Some(table)) = (version, &found) {
            self.known.put(version, schema, name, table);
        }
        Ok(found)
    }

    /// Follows the search path.
    fn resolve(
        &mut self,
        core: &InDatabase,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<Table>>, EngineError> {
        match schema {
            Some(PG_TEMP) => return self.find_temporary(core, name),
            Some(schema) => {
                return match self.namespace(core, schema)? {
                    Some(namespace) => self.find_in(core, namespace, schema, name),
                    None => Ok(None),
                };
            }
            None => {}
        }
        for PathEntry { namespace, name: schema, .. } in self.path(core)?.iter() {
            let found = match namespace {
                None => self.find_temporary(core, name)?,
                Some(namespace) => self.find_in(core, *namespace, schema, name)?,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn find_temporary(
        &mut self,
        core: &InDatabase,
        name: &str,
    ) -> Result<Option<Arc<Table>>, EngineError> {
        if !self.temp.may_have(name) {
            return Ok(None);
        }
        let own = self.temp.namespace();
        match self.namespace(core, &own)? {
            Some(namespace) => self.find_in(core, namespace, PG_TEMP, name),
            None => Ok(None),
        }
    }

    fn find_in(
        &mut self,
        core: &InDatabase,
        namespace: Oid,
        schema: &str,
        name: &str,
    ) -> Result<Option<Arc<Table>>, EngineError> {
        let open = self.running()?;
        let shared = !open.changed_catalogs;
        let version = core.database.cache.version();
        if shared {
            if let Some(known) = core.database.cache.table(namespace, name) {
                return Ok(known);
            }
        } else if let Some(table) = open.own_tables.get(&(schema.to_owned(), name.to_owned())) {
            return Ok(Some(Arc::clone(table)));
        }
        let snapshot = core.xacts.snapshot(&open.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        let Some(class) = reader.class_named(namespace, name)? else {
            if shared {
                core.database.cache.put_absent(version, namespace, name);
            }
            return Ok(None);
        };
        if let Some(refusal) = not_a_table(class.kind, name) {
            return Err(refusal.into());
        }
        let table = Arc::new(reader.table(&class)?);
        if shared {
            core.database.cache.put(version, &table);
        } else {
            let key = (schema.to_owned(), name.to_owned());
            self.running()?.own_tables.insert(key, Arc::clone(&table));
        }
        Ok(Some(table))
    }

    /// Whether there is a schema of that name.
    pub fn schema_exists(&mut self, name: &str) -> Result<bool, EngineError> {
        self.call(|session, core| Ok(session.namespace(core, name)?.is_some()))
    }

    pub(super) fn namespace(
        &mut self,
        core: &InDatabase,
        name: &str,
    ) -> Result<Option<Oid>, EngineError> {
        let open = self.running()?;
        // What all sessions know is not what a transaction has made of its schemas.
        let shared = !open.changed_catalogs;
        if shared && let Some(known) = core.database.cache.namespace(name) {
            return Ok(known);
        }
        let version = core.database.cache.version();
        let snapshot = core.xacts.snapshot(&open.tx);
        let found = Reader::new(&core.database, &mut self.backend, snapshot).namespace(name)?;
        if shared {
            core.database.cache.put_namespace(version, name, found);
        }
        Ok(found)
    }

    /// Finds and locks a table (42P01 if there is none). Sees changes that were committed while it
    /// waited for the lock.
    pub fn open_table(
        &mut self,
        schema: Option<&str>,
        name: &str,
        mode: LockMode,
    ) -> Result<Arc<Table>, EngineError> {
        self.open_table_if_exists(schema, name, mode)?.ok_or_else(|| {
            let schema = schema.map_or_else(String::new, |schema| format!("{schema}."));
            let message = format!("relation \"{schema}{name}\" does not exist");
            EngineError::statement("42P01", message)
        })
    }

    /// The same; None if there is no such table.
    pub fn open_table_if_exists(
        &mut self,
        schema: Option<&str>,
        name: &str,
        mode: LockMode,
    ) -> Result<Option<Arc<Table>>, EngineError> {
        self.call(|session, core| {
            let mut locked = None;
            loop {
                let before = core.database.cache.moved();
                let Some(table) = session.find(core, schema, name)? else { return Ok(None) };
                session.check_table_owned(&table)?;
                if locked == Some(table.oid) {
                    return Ok(Some(table));
                }
                session.lock_table(core, &table, mode)?;
                if core.database.cache.moved() == before {
                    return Ok(Some(table));
                }
                // The catalogs have changed: the name may mean another table now, or the table may
                // have other columns. With its lock held, what is found now does not change.
                session.running()?.own_tables.clear();
                locked = Some(table.oid);
            }
        })
    }

    /// A table by its OID, as the transaction sees it now.
    pub fn table_by_oid(&mut self, oid: Oid) -> Result<Option<Arc<Table>>, EngineError> {
        self.call(|session, core| session.find_by_oid(core, oid))
    }

    pub(super) fn find_by_oid(
        &mut self,
        core: &InDatabase,
        oid: Oid,
    ) -> Result<Option<Arc<Table>>, EngineError> {
        let (open, cache) = (self.running()?, &core.database.cache);
        let shared = !open.changed_catalogs;
        if shared && let Some(known) = cache.table_by_oid(oid) {
            return Ok(Some(known));
        }
        let version = cache.version();
        let snapshot = core.xacts.snapshot(&open.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        let found = reader.table_by_oid(oid)?.map(Arc::new);
        if let Some(table) = found.as_ref().filter(|_| shared) {
            cache.put(version, table);
        }
        Ok(found)
    }

    /// The tables of the database as the transaction sees them now, catalogs included.
    pub fn tables(&mut self) -> Result<Vec<Arc<Table>>, EngineError> {
        self.tables_named(|_| true)
    }

    /// The tables whose names `wanted` accepts, as the transaction sees them now. A warning tells
    /// of one that is left out because the catalogs contradict each other about it.
    pub fn tables_named(
        &mut self,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<Arc<Table>>, EngineError> {
        self.call(|session, core| {
            let snapshot = core.xacts.snapshot(&session.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut session.backend, snapshot);
            let (tables, broken) = reader.tables(&wanted)?;
            session.warnings.extend(broken.into_iter().map(|error| Warning {
                sqlstate: error.sqlstate(),
                message: error.to_string(),
                detail: None,
                hint: None,
            }));
            Ok(tables.into_iter().map(Arc::new).collect())
        })
    }

    /// Creates a table (schema None: the first of the search path). 42P07 if the name is taken.
    pub fn create_table(
        &mut self,
        schema: Option<&str>,
        name: &str,
        columns: &[ColumnDef],
    ) -> Result<Oid, EngineError> {
        self.create_table_with(schema, name, columns, &[])
    }

    /// Creates a table with storage parameters as
    /// [`storage_texts`](forebay_catalog::storage_texts) makes them.
    pub fn create_table_with(
        &mut self,
        schema: Option<&str>,
        name: &str,
        columns: &[ColumnDef],
        options: &[String],
    ) -> Result<Oid, EngineError> {
        self.create_table_full(schema, name, (columns, &[]), options, TableFiles::default())
    }

    /// The same for a table with checks, which may be unlogged or in a tablespace.
    pub fn create_table_full(
        &mut self,
        schema: Option<&str>,
        name: &str,
        (columns, checks): (&[ColumnDef], &[CheckDef]),
        options: &[String],
        files: TableFiles,
    ) -> Result<Oid, EngineError> {
        self.call(|session, core| {
            let namespace = session.namespace_for_new(core, schema)?;
            let [own, of_toast] = [false, true].map(|toast| of_table(options, toast));
            let new = NewTable { namespace, name, columns, checks, options: &own };
            let persistence = if files.unlogged { b'u' } else { b'p' };
            let tablespace = session.tablespace_for_new(core, files.tablespace)?;
            let place = FilePlace { persistence, tablespace };
            let made = session
                .with_files(core, place, |session, files| session.create_in(core, new, files))?;
            session.create_toast(core, (made.rel, place), columns, &of_toast)?;
            Ok(made.rel)
        })
    }

    /// Creates a table in a namespace.
    pub(super) fn create_in(
        &mut self,
        core: &InDatabase,
        new: NewTable<'_>,
        files: NewFiles<'_>,
    ) -> Result<RelFileLocator, EngineError> {
        let NewTable { namespace, name, columns, .. } = new;
        core.database.check_event_triggers()?;
        ddl::check_definition((namespace, name), columns, core.database.encoding)?;
        self.lock(
            core,
            ddl::name_lock(core.database.oid, namespace, name),
            LockMode::AccessExclusive,
        )?;
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        if reader.class_named(namespace, name)?.is_some() {
            let message = format!("relation \"{name}\" already exists");
            return Err(EngineError::statement("42P07", message));
        }
        self.lock_collations(core, columns.iter().filter_map(|column| column.collation))?;
        let expressions = columns.iter().filter_map(|column| column.default.as_ref());
        let conditions = new.checks.iter().map(|check| &check.condition);
        self.lock_sequences_of(core, expressions.chain(conditions))?;
        let (tx, backend) = self.changing()?;
        let locator = ddl::create_table(&core.database, backend, tx, new, files)?;
        let tag = LockTag::Relation { database: core.database.oid, relation: locator.rel };
        self.lock(core, tag, LockMode::AccessExclusive)?;
        Ok(locator)
    }

    /// Drops a table. Its file is removed when the transaction has committed.
    pub fn drop_table(&mut self, table: &Table) -> Result<(), EngineError> {
        self.drop_tables(&[Arc::new(table.clone())], false).map(drop)
    }

    /// Drops tables, which may refer to one another; with `cascade` also what depends on them:
    /// foreign keys of other tables. Returns what goes along, in words.
    pub fn drop_tables(
        &mut self,
        tables: &[Arc<Table>],
        cascade: bool,
    ) -> Result<Vec<String>, EngineError> {
        tables.iter().try_for_each(|table| self.check_own(table))?;
        self.call(|session, core| {
            core.database.check_event_triggers()?;
            let mut gone = Vec::new();
            for table in tables {
                session.lock_table(core, table, LockMode::AccessExclusive)?;
                if let Some(toast) = table.toasting.relation {
                    let toast = session.toast_relation(core, toast)?;
                    session.lock_table(core, &toast, LockMode::AccessExclusive)?;
                }
                session.lock_what_goes(core, Going::Relation(table.oid))?;
                gone.push(table.oid);
                let owned = session.sequences_of(core, table.oid)?;
                gone.extend(owned.into_iter().map(|(sequence, _)| sequence));
            }
            let path = session.visible_namespaces(core)?;
            let (tx, backend) = session.changing()?;
            let how = (cascade, path);
            let dropped = forebay_catalog::drop_tables(&core.database, backend, tx, tables, how)?;
            gone.into_iter().for_each(|relation| session.note_temp_dropped(relation));
            Ok(dropped.0)
        })
    }
}
