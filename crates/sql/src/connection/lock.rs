//! LOCK TABLE.

use super::sink::CommandTag;
use super::state::Connection;
use crate::error::{Result, SqlError, state};
use crate::parse::{LockTables, QualifiedName};
use crate::plan::Catalog;
use crate::views::View;
use forebay_engine::{EngineError, Table, wrong_kind};
use std::sync::Arc;

/// The name of a session's own schema.
pub(super) const PG_TEMP: &str = "pg_temp";

impl Connection {
    /// Locks the tables one after the other.
    pub(super) fn lock_tables_for(&mut self, lock: &LockTables) -> Result<CommandTag> {
        self.require_block("LOCK TABLE")?;
        for name in &lock.names {
            let schema = name.schema.as_deref();
            if let Some(table) = self.host.table(schema, &name.name)?.filter(is_no_table) {
                let message = format!("cannot lock relation \"{}\"", table.name);
                return Err(EngineError::from(wrong_kind(table.kind, message)).into());
            }
            let found = if lock.nowait {
                self.host
                    .call(|session| session.open_table_nowait(schema, &name.name, lock.mode))
                    .map_err(|error| not_available(error, name))?
            } else {
                self.host.open_table(schema, &name.name, lock.mode)?
            };
            if found.is_none() {
                let view = is_view(name).then(|| SqlError::unsupported("LOCK TABLE of a view"));
                return Err(view.map_or_else(|| self.no_table(name), Ok)?);
            }
        }
        Ok(CommandTag("LOCK TABLE".to_owned()))
    }

    /// The error of a name that means no table, nor anything else.
    pub(super) fn no_table(&mut self, name: &QualifiedName) -> Result<SqlError> {
        let schema = name.schema.as_deref();
        // Every session has that schema, whether it was made or not.
        if let Some(schema) = schema.filter(|schema| *schema != PG_TEMP)
            && !self.host.call(|session| session.schema_exists(schema))?
        {
            let message = format!("schema \"{schema}\" does not exist");
            return Ok(SqlError::new(state::INVALID_SCHEMA_NAME, message));
        }
        let message = format!("relation \"{}\" does not exist", name.display());
        Ok(SqlError::new(state::UNDEFINED_TABLE, message))
    }
}

/// Whether LOCK TABLE refuses a relation that has rows.
fn is_no_table(relation: &Arc<Table>) -> bool {
    matches!(relation.kind, b'S' | b'm')
}

/// Whether a name means a view.
pub(super) fn is_view(name: &QualifiedName) -> bool {
    let schema = name.schema.as_deref();
    View::by_name(&name.name)
        .is_some_and(|view| schema.is_none_or(|schema| schema == view.schema()))
}

/// NOWAIT's error names the table.
fn not_available(error: SqlError, name: &QualifiedName) -> SqlError {
    if error.sqlstate != state::LOCK_NOT_AVAILABLE {
        return error;
    }
    let message = format!("could not obtain lock on relation \"{}\"", name.display());
    SqlError::new(state::LOCK_NOT_AVAILABLE, message)
}
