//! ALTER TABLE and ALTER INDEX: SET and RESET of storage parameters.

use std::sync::Arc;

use super::sink::{CommandTag, RowSink};
use super::state::Connection;
use crate::error::{Result, SqlError, state};
use crate::parse::{AlterAction, AlterTable, RenameAction};
use forebay_engine::{ChangedParameters, LockMode, Table};

/// The lock that ALTER TABLE takes. Storage parameters change while others read and write.
pub(super) fn alter_mode(alter: &AlterTable) -> LockMode {
    let mode = |action: &AlterAction| match action {
        AlterAction::Parameters { .. } | AlterAction::Cluster(_) | AlterAction::Validate(_) => {
            LockMode::ShareUpdateExclusive
        }
        AlterAction::AddForeignKey(_) => LockMode::ShareRowExclusive,
        _ => LockMode::AccessExclusive,
    };
    alter.actions.iter().map(mode).max().unwrap_or(LockMode::AccessExclusive)
}

impl Connection {
    /// Changes the storage parameters of a table, which may have got a TOAST table meanwhile.
    pub(super) fn change_parameters(
        &mut self,
        table: &Arc<Table>,
        actions: &[AlterAction],
    ) -> Result<()> {
        for action in actions {
            if let AlterAction::Parameters { given, reset } = action {
                let now = self.table_now(table.oid)?;
                let change = ChangedParameters { given, reset: *reset };
                self.host.call(|session| session.change_parameters(&now, change))?;
            }
        }
        Ok(())
    }

    /// Runs ALTER INDEX.
    pub(super) fn alter_index(
        &mut self,
        alter: &AlterTable,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        self.check_writable("ALTER INDEX")?;
        let (schema, name) = (alter.table.schema.as_deref(), alter.table.name.as_str());
        self.check_index_not_in_use("ALTER INDEX", name)?;
        for action in &alter.actions {
            let of = (schema, name);
            let changed = match action {
                AlterAction::Parameters { given, reset } => {
                    let change = ChangedParameters { given, reset: *reset };
                    self.host.call(|session| session.change_index_parameters(of, change))
                }
                AlterAction::Rename(RenameAction::Table(to)) => {
                    self.host.call(|session| session.rename_index(of, to))
                }
                AlterAction::Tablespace(tablespace) => {
                    let to = self.host.call(|session| session.tablespace_to_use(tablespace))?;
                    self.host.call(|session| session.set_index_tablespace(of, to))
                }
                _ => continue,
            };
            match changed {
                Err(error) if error.sqlstate == state::UNDEFINED_OBJECT && alter.if_exists => {
                    let message = format!("relation \"{name}\" does not exist, skipping");
                    sink.notice(&SqlError::notice(state::SUCCESSFUL_COMPLETION, message))?;
                    break;
                }
                Err(error) if error.sqlstate == state::UNDEFINED_OBJECT => {
                    return self.no_table(&alter.table).and_then(Err);
                }
                other => other?,
            }
        }
        Ok(CommandTag("ALTER INDEX".to_owned()))
    }
}
