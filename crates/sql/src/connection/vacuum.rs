//! VACUUM and ANALYZE: each table in a transaction of its own. In a block ANALYZE runs in the
//! block's transaction.

use super::lock::is_view;
use super::sink::{CommandTag, RowSink};
use super::state::Connection;
use crate::error::{Result, Severity, SqlError, state};
use crate::parse::Vacuum;
use crate::plan::Catalog;
use forebay_engine::{AnalyzeOptions, EngineError, Session, Table, Told, VacuumOptions};
use std::sync::Arc;

/// A table, with the columns to be analyzed; None: all.
type Target = (Arc<Table>, Option<Vec<String>>);

impl Connection {
    /// Runs VACUUM or ANALYZE.
    pub(super) fn vacuum(&mut self, vacuum: &Vacuum, sink: &mut dyn RowSink) -> Result<CommandTag> {
        if vacuum.options.is_some() {
            self.refuse_in_block("VACUUM")?;
        }
        let tables = match (vacuum.only_database_stats, vacuum.tables.is_empty()) {
            (true, _) => Vec::new(),
            (false, true) => self.all_tables(vacuum, sink)?,
            (false, false) => self.named_tables(vacuum, sink)?,
        };
        let own = !self.in_any_block();
        if own {
            self.end_implicit()?;
        }
        for (table, columns) in &tables {
            match &vacuum.options {
                Some(options) if vacuum.full && !stays(table) => {
                    self.rewrite_table(table, options, sink)?;
                }
                Some(options) => self.vacuum_table(table, options, sink)?,
                None => {}
            }
            if let Some(options) = &vacuum.analyze {
                self.analyze_table((table, columns.as_deref()), options, own, sink)?;
            }
        }
        if !vacuum.skip_database_stats {
            self.host.call(Session::advance_oldest_ids)?;
        }
        let tag = if vacuum.options.is_some() { "VACUUM" } else { "ANALYZE" };
        Ok(CommandTag(tag.to_owned()))
    }

    fn vacuum_table(
        &mut self,
        table: &Arc<Table>,
        options: &VacuumOptions,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        let mut told = Vec::new();
        let done = self.host.call(|session| session.vacuum(table, options, &mut told));
        tell(told, sink)?;
        done
    }

    /// VACUUM FULL of a table.
    fn rewrite_table(
        &mut self,
        table: &Arc<Table>,
        options: &VacuumOptions,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        let mut told = Vec::new();
        let done = self.host.call(|session| session.vacuum_full(table, options, &mut told));
        for Told { message, detail } in told {
            let report = SqlError::report(Severity::Info, state::SUCCESSFUL_COMPLETION, message);
            sink.notice(&match detail {
                Some(detail) => report.detail(detail),
                None => report,
            })?;
        }
        done
    }

    fn analyze_table(
        &mut self,
        (table, columns): (&Arc<Table>, Option<&[String]>),
        options: &AnalyzeOptions,
        own: bool,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        let mut told = Vec::new();
        let done = self.host.call(|session| match own {
            true => session.analyze_alone(table, columns, options, &mut told),
            false => session.analyze(table, columns, options, &mut told),
        });
        tell(told, sink)?;
        done
    }

    fn named_tables(&mut self, vacuum: &Vacuum, sink: &mut dyn RowSink) -> Result<Vec<Target>> {
        let verb = if vacuum.options.is_some() { "vacuum" } else { "analyze" };
        let mut tables = Vec::with_capacity(vacuum.tables.len());
        for (name, columns) in &vacuum.tables {
            match self.host.table(name.schema.as_deref(), &name.name)? {
                Some(table) if table.kind != b'S' => tables.push((table, columns.clone())),
                found if found.is_some() || is_view(name) => {
                    let message = format!(
                        "skipping \"{}\" --- cannot {verb} non-tables or special system tables",
                        name.name
                    );
                    sink.notice(&SqlError::warning(state::WARNING, message))?;
                }
                _ => return Err(self.no_table(name)?),
            }
        }
        // What cannot be vacuumed or analyzed is refused before the first table is.
        for (table, _) in &tables {
            if vacuum.full {
                table.check_rewritable().map_err(EngineError::from)?;
            }
            check(vacuum, table)?;
        }
        Ok(tables)
    }

    /// All tables that can be vacuumed or analyzed, without those of other sessions.
    fn all_tables(&mut self, vacuum: &Vacuum, sink: &mut dyn RowSink) -> Result<Vec<Target>> {
        let mut tables = self.host.call(Session::tables)?;
        let session = self.host.session()?;
        tables.retain(|table| table.kind != b't' && session.owns(table));
        let found = tables.len();
        tables.retain(|table| check(vacuum, table).is_ok());
        let left = found - tables.len();
        if left > 0 {
            let message = match (&vacuum.options, &vacuum.analyze) {
                (Some(_), None) => format!(
                    "skipping {left} tables that have another access method or an \
                     index that VACUUM does not support"
                ),
                (Some(_), Some(_)) => {
                    format!("skipping {left} tables that cannot be vacuumed and analyzed")
                }
                (None, _) => format!("skipping {left} tables that cannot be read"),
            };
            sink.notice(&SqlError::warning(state::FEATURE_NOT_SUPPORTED, message))?;
        }
        let catalogs = tables.iter().filter(|table| vacuum.full && stays(table)).count();
        if catalogs > 0 {
            let message = format!(
                "vacuuming {catalogs} system catalogs without FULL, which is not supported for them"
            );
            sink.notice(&SqlError::warning(state::FEATURE_NOT_SUPPORTED, message))?;
        }
        Ok(tables.into_iter().map(|table| (table, None)).collect())
    }
}

/// Whether VACUUM FULL of all tables does not rewrite this one.
fn stays(table: &Table) -> bool {
    table.is_catalog()
}

/// Refuses what cannot be vacuumed or analyzed.
fn check(vacuum: &Vacuum, table: &Table) -> std::result::Result<(), EngineError> {
    if vacuum.options.is_some() {
        match vacuum.full && !stays(table) {
            true => table.check_rewritable()?,
            false => table.check_vacuumable()?,
        }
    }
    if vacuum.analyze.is_some() {
        table.check_readable()?;
    }
    Ok(())
}

/// Tells what was done.
fn tell(told: Vec<String>, sink: &mut dyn RowSink) -> Result<()> {
    for text in told {
        let code = state::SUCCESSFUL_COMPLETION;
        sink.notice(&SqlError::report(Severity::Info, code, text))?;
    }
    Ok(())
}
