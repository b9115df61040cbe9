//! TRUNCATE.

use super::lock::is_view;
use super::sink::CommandTag;
use super::state::Connection;
use crate::error::{Result, SqlError, state};
use crate::parse::{QualifiedName, Truncate};
use crate::plan::Catalog;
use forebay_engine::{LockMode, Oid, Table};
use std::sync::Arc;

impl Connection {
    /// Empties tables. All are locked and checked before the first of them is emptied.
    pub(super) fn truncate(&mut self, truncate: &Truncate) -> Result<CommandTag> {
        self.check_writable("TRUNCATE TABLE")?;
        let mut tables: Vec<Arc<Table>> = Vec::with_capacity(truncate.names.len());
        for name in &truncate.names {
            let table = self.table_to_truncate(name)?;
            if !tables.iter().any(|other| other.oid == table.oid) {
                tables.push(table);
            }
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
        if self.portals.read(table) { Err(in_use(command, name)) } else { Ok(()) }
    }
}

/// A portal of the session reads what is to be changed.
pub(super) fn in_use(command: &str, name: &str) -> SqlError {
    let message = format!(
        "cannot {command} \"{name}\" because it is being used by active queries in this session"
    );
    SqlError::new(state::OBJECT_IN_USE, message)
}
