//! Finding, locking, creating and dropping tables.

use std::sync::Arc;

use forebay_format::RelFileLocator;

use super::Session;
use super::temp::PG_TEMP;
use crate::catalog::bootstrap::{PG_CATALOG, POSTGRES_DB, PUBLIC};
use crate::catalog::ddl::{self, Persistence};
use crate::catalog::limits::not_a_table;
use crate::catalog::reader::Reader;
use crate::core::Core;
use crate::error::EngineError;
use crate::locks::{LockError, LockMode, LockTag, OwnerId};
use crate::table::{ColumnDef, Table};
use crate::types::Oid;

/// What a table's lock is filed under.
fn lock_tag(table: &Table) -> LockTag {
    let database = if table.locator.db == 0 { 0 } else { POSTGRES_DB };
    LockTag { database, relation: table.oid }
}

impl Session {
    /// Finds a table; without a schema among the session's temporary ones, then in pg_catalog, then public. No lock is taken.
    pub fn table(&mut self, schema: Option<&str>, name: &str) -> Result<Option<Arc<Table>>, EngineError> {
        self.check_cancel()?;
        let core = Arc::clone(&self.core);
        let _activity = core.activity.enter()?;
        self.find(&core, schema, name).map_err(|error| core.fatal.check(error))
    }

    fn find(
        &mut self,
        core: &Core,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<Table>>, EngineError> {
        if schema.is_none_or(|schema| schema == PG_TEMP) {
            let found = self.find_temporary(core, name)?;
            if found.is_some() || schema.is_some() {
                return Ok(found);
            }
        }
        let Some(schema) = schema else {
            let found = self.find_in(core, PG_CATALOG, "pg_catalog", name)?;
            return match found {
                Some(table) => Ok(Some(table)),
                None => self.find_in(core, PUBLIC, "public", name),
            };
        };
        match self.namespace(core, schema)? {
            Some(namespace) => self.find_in(core, namespace, schema, name),
            None => Ok(None),
        }
    }

    fn find_temporary(&mut self, core: &Core, name: &str) -> Result<Option<Arc<Table>>, EngineError> {
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
        core: &Core,
        namespace: Oid,
        schema: &str,
        name: &str,
    ) -> Result<Option<Arc<Table>>, EngineError> {
        let open = self.transaction()?;
        let shared = !open.changed_catalogs;
        let version = core.catalogs.cache.version();
        if shared {
            if let Some(known) = core.catalogs.cache.table(namespace, name) {
                return Ok(known);
            }
        } else if let Some(table) = open.own_tables.get(&(schema.to_owned(), name.to_owned())) {
            return Ok(Some(Arc::clone(table)));
        }
        let snapshot = core.xacts.snapshot(&open.tx);
        let mut reader = Reader::new(core, &mut self.be, snapshot);
        let Some(class) = reader.class_named(namespace, name)? else {
            if shared {
                core.catalogs.cache.put_absent(version, namespace, name);
            }
            return Ok(None);
        };
        if let Some(refusal) = not_a_table(class.kind, name) {
            return Err(refusal);
        }
        let table = Arc::new(reader.table(&class)?);
        if shared {
            core.catalogs.cache.put(version, &table);
        } else {
            let key = (schema.to_owned(), name.to_owned());
            self.transaction()?.own_tables.insert(key, Arc::clone(&table));
        }
        Ok(Some(table))
    }

    /// Whether there is a schema of that name.
    pub fn schema_exists(&mut self, name: &str) -> Result<bool, EngineError> {
        self.check_cancel()?;
        let core = Arc::clone(&self.core);
        let _activity = core.activity.enter()?;
        Ok(self.namespace(&core, name)?.is_some())
    }

    pub(super) fn namespace(&mut self, core: &Core, name: &str) -> Result<Option<Oid>, EngineError> {
        if let Some(oid) = core.catalogs.cache.namespace(name) {
            return Ok(Some(oid));
        }
        let version = core.catalogs.cache.version();
        let snapshot = core.xacts.snapshot(&self.transaction()?.tx);
        let found = Reader::new(core, &mut self.be, snapshot).namespace(name);
        let found = found.map_err(|error| core.fatal.check(error))?;
        if let Some(oid) = found.filter(|_| self.open.as_ref().is_some_and(|open| !open.changed_catalogs)) {
            core.catalogs.cache.put_namespace(version, name, oid);
        }
        Ok(found)
    }

    /// Finds and locks a table (42P01 if there is none), seeing changes committed while waiting for the lock.
    pub fn open_table(
        &mut self,
        schema: Option<&str>,
        name: &str,
        mode: LockMode,
    ) -> Result<Arc<Table>, EngineError> {
        let undefined = || EngineError::UndefinedTable {
            name: schema.map_or_else(|| name.to_owned(), |schema| format!("{schema}.{name}")),
        };
        loop {
            let version = self.core.catalogs.cache.version();
            let table = self.table(schema, name)?.ok_or_else(undefined)?;
            self.lock_table(&table, mode)?;
            if version.is_some() && self.core.catalogs.cache.version() == version {
                return Ok(table);
            }
            // The catalogs changed meanwhile: with the lock held, what is found now stays.
            let again = self.table(schema, name)?.ok_or_else(undefined)?;
            if again.oid == table.oid {
                return Ok(again);
            }
        }
    }

    /// The tables of the database as the transaction sees them now, catalogs included.
    pub fn tables(&mut self) -> Result<Vec<Arc<Table>>, EngineError> {
        self.check_cancel()?;
        let core = Arc::clone(&self.core);
        let _activity = core.activity.enter()?;
        let snapshot = core.xacts.snapshot(&self.transaction()?.tx);
        let mut reader = Reader::new(&core, &mut self.be, snapshot);
        let tables = reader.tables().map_err(|error| core.fatal.check(error))?;
        Ok(tables.into_iter().map(Arc::new).collect())
    }

    /// Locks a table until the transaction ends.
    pub fn lock_table(&mut self, table: &Table, mode: LockMode) -> Result<(), EngineError> {
        self.lock(lock_tag(table), mode)
    }

    fn lock(&mut self, tag: LockTag, mode: LockMode) -> Result<(), EngineError> {
        self.check_cancel()?;
        self.transaction()?;
        let core = Arc::clone(&self.core);
        let _activity = core.activity.enter()?;
        self.be.io.submit();
        core.locks.acquire(OwnerId(self.id), tag, mode, &self.interrupt).map_err(|error| {
            if matches!(error, LockError::Deadlock { .. }) {
                core.counters.deadlocks.count();
            }
            error.into()
        })
    }

    /// Creates a table (schema None: public). 42P07 if the name is taken.
    pub fn create_table(
        &mut self,
        schema: Option<&str>,
        name: &str,
        columns: &[ColumnDef],
    ) -> Result<Oid, EngineError> {
        self.check_cancel()?;
        let core = Arc::clone(&self.core);
        let _activity = core.activity.enter()?;
        let namespace = match schema {
            None => PUBLIC,
            Some(schema) => self.namespace(&core, schema)?.ok_or_else(|| {
                EngineError::statement("3F000", format!("schema \"{schema}\" does not exist"))
            })?,
        };
        Ok(self.create_in(&core, namespace, name, columns, Persistence::Permanent)?.rel)
    }

    /// Creates a table in a namespace.
    pub(super) fn create_in(
        &mut self,
        core: &Core,
        namespace: Oid,
        name: &str,
        columns: &[ColumnDef],
        persistence: Persistence<'_>,
    ) -> Result<RelFileLocator, EngineError> {
        ddl::check_definition(namespace, name, columns)?;
        self.lock(ddl::name_lock(namespace, name), LockMode::AccessExclusive)?;
        let snapshot = core.xacts.snapshot(&self.transaction()?.tx);
        let mut reader = Reader::new(core, &mut self.be, snapshot);
        let taken = reader.refuse_indexed_catalogs().and_then(|()| reader.class_named(namespace, name));
        if taken.map_err(|error| core.fatal.check(error))?.is_some() {
            return Err(EngineError::DuplicateTable { name: name.to_owned() });
        }
        let Session { open: Some(open), be, .. } = self else {
            return Err(EngineError::internal("the transaction is gone"));
        };
        open.changed_catalogs = true;
        open.own_tables.clear();
        let created = ddl::create_table(core, be, &mut open.tx, namespace, name, columns, persistence);
        let locator = created.map_err(|error| core.fatal.check(error))?;
        let tag = LockTag { database: POSTGRES_DB, relation: locator.rel };
        self.lock(tag, LockMode::AccessExclusive)?;
        Ok(locator)
    }

    /// Drops a table: its file goes when the transaction has committed.
    pub fn drop_table(&mut self, table: &Table) -> Result<(), EngineError> {
        self.check_own(table)?;
        let core = Arc::clone(&self.core);
        let _activity = core.activity.enter()?;
        self.lock_table(table, LockMode::AccessExclusive)?;
        let snapshot = core.xacts.snapshot(&self.transaction()?.tx);
        let refused = Reader::new(&core, &mut self.be, snapshot).refuse_indexed_catalogs();
        refused.map_err(|error| core.fatal.check(error))?;
        let Session { open: Some(open), be, .. } = self else {
            return Err(EngineError::internal("the transaction is gone"));
        };
        open.changed_catalogs = true;
        open.own_tables.clear();
        ddl::drop_table(&core, be, &mut open.tx, table).map_err(|error| core.fatal.check(error))?;
        self.temp.note_dropped(table.oid);
        Ok(())
    }
}
