//! VACUUM: each table in a transaction of its own.

use super::lock::is_view;
use super::sink::{CommandTag, RowSink};
use super::state::Connection;
use crate::error::{Result, Severity, SqlError, state};
use crate::parse::{QualifiedName, Vacuum};
use crate::plan::Catalog;
use forebay_engine::{EngineError, Session, Table};
use std::sync::Arc;

impl Connection {
    /// Runs VACUUM.
    pub(super) fn vacuum(&mut self, vacuum: &Vacuum, sink: &mut dyn RowSink) -> Result<CommandTag> {
        self.refuse_in_block("VACUUM")?;
        let tables = match (vacuum.only_database_stats, vacuum.names.is_empty()) {
            (true, _) => Vec::new(),
            (false, true) => self.all_tables(sink)?,
            (false, false) => self.named_tables(&vacuum.names, sink)?,
        };
        self.end_implicit()?;
        for table in &tables {
            let mut told = Vec::new();
            let done = self.host.call(|session| session.vacuum(table, &vacuum.options, &mut told));
            for text in told {
                let code = state::SUCCESSFUL_COMPLETION;
                sink.notice(&SqlError::report(Severity::Info, code, text))?;
            }
            done?;
        }
        if !vacuum.skip_database_stats {
            self.host.call(Session::advance_oldest_ids)?;
        }
        Ok(CommandTag("VACUUM".to_owned()))
    }

    fn named_tables(
        &mut self,
        names: &[QualifiedName],
        sink: &mut dyn RowSink,
    ) -> Result<Vec<Arc<Table>>> {
        let mut tables = Vec::with_capacity(names.len());
        for name in names {
            match self.host.table(name.schema.as_deref(), &name.name)? {
                Some(table) => tables.push(table),
                None if is_view(name) => {
                    let message = format!(
                        "skipping \"{}\" --- cannot vacuum non-tables or special system tables",
                        name.name
                    );
                    sink.notice(&SqlError::warning(state::WARNING, message))?;
                }
                None => return Err(self.no_table(name)?),
            }
        }
        // What cannot be vacuumed is refused before the first table is.
        tables.iter().try_for_each(|table| table.check_vacuumable().map_err(EngineError::from))?;
        Ok(tables)
    }

    /// All tables that can be vacuumed, without those of other sessions.
    fn all_tables(&mut self, sink: &mut dyn RowSink) -> Result<Vec<Arc<Table>>> {
        let mut tables = self.host.call(Session::tables)?;
        let session = self.host.session()?;
        tables.retain(|table| table.kind != b't' && session.owns(table));
        let found = tables.len();
        tables.retain(|table| table.check_vacuumable().is_ok());
        let left = found - tables.len();
        if left > 0 {
            let message = format!(
                "skipping {left} tables that have indexes, are unlogged or have another access \
                 method --- VACUUM does not support them"
            );
            sink.notice(&SqlError::warning(state::FEATURE_NOT_SUPPORTED, message))?;
        }
        Ok(tables)
    }
}
