//! ALTER TABLE: SET TABLESPACE, SET LOGGED, SET UNLOGGED; `default_tablespace`.

use super::state::Connection;
use crate::error::{Result, SqlError, state};
use crate::parse::AlterAction;
use forebay_engine::{Oid, Table};
use std::sync::Arc;

/// Refuses what a statement may say once only.
pub(super) fn check_files(actions: &[AlterAction]) -> Result<()> {
    let count = |is: fn(&AlterAction) -> bool| actions.iter().filter(|action| is(action)).count();
    if count(|action| matches!(action, AlterAction::Logged(_))) > 1 {
        let message = "cannot change persistence setting twice";
        return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
    }
    if count(|action| matches!(action, AlterAction::Tablespace(_))) > 1 {
        let message = "cannot have multiple SET TABLESPACE subcommands";
        return Err(SqlError::new(state::SYNTAX_ERROR, message));
    }
    Ok(())
}

impl Connection {
    /// Refuses a `default_tablespace` that does not exist.
    pub(super) fn check_tablespace_setting(
        &mut self,
        name: &str,
        value: Option<&str>,
    ) -> Result<()> {
        let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(()) };
        if !name.eq_ignore_ascii_case("default_tablespace") {
            return Ok(());
        }
        self.ensure_transaction()?;
        match self.host.call(|session| session.tablespace_named(value)) {
            Err(error) if error.sqlstate == state::UNDEFINED_OBJECT => {
                let message =
                    format!("invalid value for parameter \"default_tablespace\": \"{value}\"");
                let detail = format!("Tablespace \"{value}\" does not exist.");
                Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message).detail(detail))
            }
            found => found.map(drop),
        }
    }

    /// Gives a table new files, as the actions say.
    pub(super) fn alter_files(&mut self, (table, actions): (Oid, &[AlterAction])) -> Result<()> {
        for action in actions {
            if let AlterAction::Tablespace(name) = action {
                let table = self.table_now(table)?;
                let to = self.host.call(|session| session.tablespace_to_use(name))?;
                self.host.call(|session| session.set_table_tablespace(&table, to))?;
            }
        }
        for action in actions {
            if let AlterAction::Logged(logged) = action {
                let table = self.table_now(table)?;
                self.set_logged(&table, *logged)?;
            }
        }
        Ok(())
    }

    /// Lets a table be logged, or not, if it is not so already.
    fn set_logged(&mut self, table: &Arc<Table>, logged: bool) -> Result<()> {
        if table.is_temporary() {
            let message = format!(
                "cannot change logged status of table \"{}\" because it is temporary",
                table.name
            );
            return Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message));
        }
        if logged != table.is_unlogged() {
            return Ok(());
        }
        self.check_logged_keys(table, logged)?;
        self.host.call(|session| session.set_table_logged(table, logged))
    }

    /// Refuses a foreign key of a logged table to an unlogged one.
    fn check_logged_keys(&mut self, table: &Arc<Table>, logged: bool) -> Result<()> {
        let others: Vec<Oid> = match logged {
            true => {
                let keys = self.host.call(|session| session.foreign_keys_of(table))?;
                keys.iter().flatten().map(|key| key.parent).collect()
            }
            false => self.host.call(|session| session.tables_referring_to(table))?,
        };
        for oid in others.into_iter().filter(|oid| *oid != table.oid) {
            let Some(other) = self.host.table_by_oid(oid)? else { continue };
            if other.is_unlogged() != logged {
                continue;
            }
            let (to, kind) = if logged { ("logged", "unlogged") } else { ("unlogged", "logged") };
            let message = format!(
                "could not change table \"{}\" to {to} because it references {kind} table \"{}\"",
                table.name, other.name
            );
            return Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message));
        }
        Ok(())
    }
}
