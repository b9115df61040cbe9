//! TRUNCATE.

use super::lock::is_view;
use super::sink::{CommandTag, RowSink};
use super::state::Connection;
use crate::error::{Result, SqlError, state};
use crate::parse::{QualifiedName, Truncate};
use crate::plan::Catalog;
use forebay_engine::{LockMode, Oid, Table};
use std::sync::Arc;

impl Connection {
    /// Empties tables. All are locked and checked before the first of them is emptied.
    pub(super) fn truncate(
        &mut self,
        truncate: &Truncate,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        self.check_writable("TRUNCATE TABLE")?;
        let mut tables: Vec<Arc<Table>> = Vec::with_capacity(truncate.names.len());
        for name in &truncate.names {
            let table = self.table_to_truncate(name)?;
            if !tables.iter().any(|other| other.oid == table.oid) {
                tables.push(table);
            }
        }
        match truncate.cascade {
            true => self.add_referring(&mut tables, sink)?,
            false => self.refuse_referred(&tables)?,
        }
        if truncate.restart {
            for table in &tables {
                self.restart_sequences(table)?;
            }
        }
        for table in tables {
            self.host.call(|session| session.truncate(&table))?;
        }
        Ok(CommandTag("TRUNCATE TABLE".to_owned()))
    }

    /// Refuses tables to which others refer by foreign keys.
    fn refuse_referred(&mut self, tables: &[Arc<Table>]) -> Result<()> {
        for table in tables.iter().filter(|table| !table.triggers.is_empty()) {
            let referring = self.host.call(|session| session.tables_referring_to(table))?;
            let others = |oid: &Oid| tables.iter().all(|table| table.oid != *oid);
            let Some(oid) = referring.into_iter().find(others) else { continue };
            let name = self.host.table_by_oid(oid)?.map(|table| table.name.clone());
            let (name, to) = (name.unwrap_or_else(|| oid.to_string()), &table.name);
            let message = "cannot truncate a table referenced in a foreign key constraint";
            return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message)
                .detail(format!("Table \"{name}\" references \"{to}\"."))
                .hint(format!(
                    "Truncate table \"{name}\" at the same time, or use TRUNCATE ... CASCADE."
                )));
        }
        Ok(())
    }

    /// Adds the tables that refer to these by foreign keys, and those that refer to them.
    fn add_referring(
        &mut self,
        tables: &mut Vec<Arc<Table>>,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        let mut place = 0;
        while let Some(table) = tables.get(place).cloned() {
            place += 1;
            for oid in self.host.call(|session| session.tables_referring_to(&table))? {
                if tables.iter().any(|table| table.oid == oid) {
                    continue;
                }
                let mode = LockMode::AccessExclusive;
                let found = self.host.call(|session| session.lock_table_by_oid(oid, mode))?;
                let found = found.ok_or_else(|| {
                    SqlError::unsupported("TRUNCATE ... CASCADE to a partitioned table")
                })?;
                let message = format!("truncate cascades to table \"{}\"", found.name);
                sink.notice(&SqlError::notice(state::SUCCESSFUL_COMPLETION, message))?;
                self.check_not_in_use("TRUNCATE", found.oid, &found.name)?;
                tables.push(found);
            }
        }
        Ok(())
    }

    /// Lets the sequences of a table's columns begin again.
    fn restart_sequences(&mut self, table: &Table) -> Result<()> {
        self.host.call(|session| {
            let owned = session.owned_sequences(table.oid)?;
            owned.into_iter().try_for_each(|(sequence, _)| session.restart_sequence(sequence))
        })
    }

    fn table_to_truncate(&mut self, name: &QualifiedName) -> Result<Arc<Table>> {
        let locked = self.lock_exclusively(name)?;
        let no_table = || {
            let message = format!("\"{}\" is not a table", name.name);
            SqlError::new(state::WRONG_OBJECT_TYPE, message)
        };
        let Some(table) = locked else {
            return Err(if is_view(name) { no_table() } else { self.no_table(name)? });
        };
        if table.kind != b'r' {
            return Err(no_table());
        }
        self.check_not_in_use("TRUNCATE", table.oid, &table.name)?;
        Ok(table)
    }

    /// Finds a table that is to be dropped or emptied, and locks it. Catalogs are refused.
    pub(super) fn lock_exclusively(&mut self, name: &QualifiedName) -> Result<Option<Arc<Table>>> {
        let schema = name.schema.as_deref();
        match self.host.table(schema, &name.name)? {
            Some(table) if table.is_catalog() => {
                let message = format!("permission denied: \"{}\" is a system catalog", table.name);
                Err(SqlError::new(state::INSUFFICIENT_PRIVILEGE, message))
            }
            Some(_) => self.host.open_table(schema, &name.name, LockMode::AccessExclusive),
            None => Ok(None),
        }
    }

    /// Refuses what cannot be done to a table that a portal of the session reads.
    pub(super) fn check_not_in_use(&self, command: &str, table: Oid, name: &str) -> Result<()> {
        if self.portals.read(table) {
            return Err(in_use(command, name));
        }
        if self.host.session()?.has_key_events_of(table) {
            let message =
                format!("cannot {command} \"{name}\" because it has pending trigger events");
            return Err(SqlError::new(state::OBJECT_IN_USE, message));
        }
        Ok(())
    }
}

/// A portal of the session reads what is to be changed.
pub(super) fn in_use(command: &str, name: &str) -> SqlError {
    let message = format!(
        "cannot {command} \"{name}\" because it is being used by active queries in this session"
    );
    SqlError::new(state::OBJECT_IN_USE, message)
}
