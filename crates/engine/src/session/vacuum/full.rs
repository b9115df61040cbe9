//! VACUUM FULL: a table's rows move to a new file.
//!
//! ```text
//!   lock ─▶ new files ─▶ rows, long values ─▶ pg_class ─▶ indexes ─▶ commit: old files go
//! ```
//!
//! Nobody else uses the table meanwhile. The new files are logged page by page, so the commit makes
//! them durable; if the transaction aborts they are removed. The TOAST table keeps its OID, and
//! gets a new file with the values that rows still lead to.

use std::sync::Arc;

use forebay_access::cluster_progress::{self as shown, Phase};
use forebay_access::heap::{Author, VacuumJob};
use forebay_access::toast::ToastTable;
use forebay_access::{Rewrite, RewriteReport, RewrittenColumns};
use forebay_aio::sync::Instant;
use forebay_catalog::{self as catalog, ClassFigures, Table};
use forebay_format::RelFileLocator;
use forebay_storage::progress::{Command, Progress};
use forebay_storage::{Backend, Strategy};
use forebay_txn::locks::LockMode;

use super::VacuumOptions;
use super::cutoffs::{Decided, decide};
use super::table::Found;
use crate::core::InDatabase;
use crate::error::EngineError;
use crate::session::scan::horizon_of;
use crate::session::state::{Session, no_transaction};

/// Its number among the commands of pg_stat_progress_cluster.
const VACUUM_FULL: u64 = 2;

/// What VERBOSE tells of a table that was rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The message.
    pub message: String,
    /// DETAIL
    pub detail: Option<String>,
}

/// A relation that gets a new file.
struct Moved {
    /// As it was.
    old: Arc<Table>,
    /// With its new file.
    new: Table,
    figures: ClassFigures,
}

impl Session {
    /// Rewrites a table, with its TOAST table and all indexes, in a transaction of its own. There
    /// must be none running. Without `process_main` only its TOAST table is rewritten. What it has
    /// done is added to `told`, if the options ask for that.
    ///
    /// # Errors
    /// 0A000 for system catalogs and for what is not understood.
    pub fn vacuum_full(
        &mut self,
        table: &Arc<Table>,
        options: &VacuumOptions,
        told: &mut Vec<Told>,
    ) -> Result<(), EngineError> {
        let toast = self.alone(|session| session.rewrite_table(table, options, told))?;
        if let Some(toast) = toast.filter(|_| options.process_toast && !options.process_main) {
            let options = VacuumOptions { process_main: true, ..*options };
            self.alone(|session| session.rewrite_table(&toast, &options, told))?;
        }
        Ok(())
    }

    /// Returns its TOAST table, if it has one.
    fn rewrite_table(
        &mut self,
        table: &Arc<Table>,
        options: &VacuumOptions,
        told: &mut Vec<Told>,
    ) -> Result<Option<Arc<Table>>, EngineError> {
        self.check_own(table)?;
        self.call(|session, core| {
            let how = ("vacuum", LockMode::AccessExclusive);
            let found = session.find_locked_in(core, how, table, options.skip_locked)?;
            let Some(Found { table, figures, toast }) = found else { return Ok(None) };
            table.check_rewritable()?;
            if options.process_main {
                let begun = Instant::now();
                let slot = &session.backend.progress;
                let _shown = Progress::start(slot, Command::Cluster, table.oid);
                slot.set(shown::STATEMENT, VACUUM_FULL);
                let report = session.rewrite_locked(core, &table, figures)?;
                if options.verbose {
                    tell(&table, &report, begun, told);
                }
            }
            Ok(toast)
        })
    }

    fn rewrite_locked(
        &mut self,
        core: &InDatabase,
        table: &Arc<Table>,
        figures: ClassFigures,
    ) -> Result<RewriteReport, EngineError> {
        // A vacuum of the TOAST table alone could remove values of rows that stay.
        let toast = match table.toasting.relation {
            None => None,
            Some(oid) => {
                let opened = self.toast_table(core, oid, LockMode::AccessExclusive)?;
                Some((self.toast_relation(core, oid)?, opened))
            }
        };
        let in_use = self.ids_in_use(core, table);
        let decided = decide(&figures, &in_use, &self.settings.vacuum, true);
        self.warn_of_ids(&decided);
        let (frozen_xid, min_multi) = decided.oldest_left();
        let figures =
            ClassFigures { frozen_xid, min_multi, all_visible: 0, all_frozen: 0, ..figures };

        let mut moved = self.with_new_file(core, table, figures)?;
        let (toast, mut moved_toast) = match toast {
            None => (None, None),
            Some((old, opened)) => (Some(opened), Some(self.with_new_file(core, &old, figures)?)),
        };
        let files = (&moved, toast.as_ref().zip(moved_toast.as_ref()));
        let report = self.move_rows(core, files, &decided)?;
        (moved.figures.pages, moved.figures.tuples) = (report.pages, report.kept as f32);
        if let (Some(moved), Some((pages, chunks))) = (&mut moved_toast, report.toast) {
            (moved.figures.pages, moved.figures.tuples) = (pages, chunks as f32);
        }
        // The TOAST table first: the indexes may have long values.
        for moved in moved_toast.into_iter().chain([moved]) {
            self.use_new_file(core, moved)?;
        }
        Ok(report)
    }

    /// Makes a new file for a relation.
    fn with_new_file(
        &mut self,
        core: &InDatabase,
        table: &Arc<Table>,
        figures: ClassFigures,
    ) -> Result<Moved, EngineError> {
        let locator = self.with_files(core, table.place(), |session, files| {
            let (tx, backend) = session.changing()?;
            Ok(catalog::create_new_file(&core.database, backend, tx, files)?)
        })?;
        self.note_temp_emptied(table.oid, locator);
        let mut new = Table::clone(table);
        new.locator = locator;
        Ok(Moved { old: Arc::clone(table), new, figures })
    }

    /// Fills the new files of a table and its TOAST table.
    fn move_rows(
        &mut self,
        core: &InDatabase,
        (moved, toast): (&Moved, Option<(&ToastTable, &Moved)>),
        decided: &Decided,
    ) -> Result<RewriteReport, EngineError> {
        let table = &*moved.old;
        let [old, new] = [&moved.old, &moved.new].map(|table| self.heap(core, table));
        let (old, new) = (old?, new?);
        let toast = match toast {
            None => None,
            Some((opened, moved)) => Some((opened, self.heap(core, &moved.new)?)),
        };
        let job = VacuumJob {
            kind: horizon_of(table),
            database: core.database.oid,
            cutoffs: decided.cutoffs,
            aggressive: true,
            skip_pages: false,
            eager_failure_rate: 0.0,
            stream: self.vacuum_stream(),
            strategy: Strategy::BulkRead,
        };
        let columns = RewrittenColumns {
            layouts: &table.layouts,
            dropped: table.columns.iter().map(|column| column.dropped).collect(),
            missing: table.columns.iter().map(|column| column.missing.as_deref()).collect(),
            toasting: (&table.toasting, self.settings.default_toast_compression),
        };
        let interrupt = self.interrupt.clone();
        let Session { open: Some(open), backend, .. } = self else { return Err(no_transaction()) };
        let xid = core.xacts.assign(&mut backend.io, &mut open.tx)?;
        let author = Author { xid, command: open.tx.use_command() };
        let toast = toast.as_ref().map(|(opened, new)| (*opened, new));
        let rewrite = Rewrite { old: &old, new: &new, columns, toast, author, job, interrupt };
        let mut next_id = |backend: &mut Backend| Ok(core.database.next_oid(backend)?);
        Ok(rewrite.run(backend, &mut next_id)?)
    }

    /// A relation's new file has its rows. Its indexes are built anew.
    fn use_new_file(&mut self, core: &InDatabase, moved: Moved) -> Result<(), EngineError> {
        let Moved { old, new, figures } = moved;
        let locator: RelFileLocator = new.locator;
        self.backend.progress.set(shown::PHASE, Phase::SwapFiles as u64);
        self.with_files(core, old.place(), |session, files| {
            let (tx, backend) = session.changing()?;
            let to = (files, locator);
            Ok(catalog::move_table(&core.database, backend, tx, &old, to, &figures)?)
        })?;
        let new = Arc::new(new);
        self.backend.progress.set(shown::PHASE, Phase::RebuildIndexes as u64);
        for index in &new.indexes {
            self.rebuild(core, &new, index)?;
            self.backend.progress.add(shown::INDEXES_REBUILT, 1);
        }
        Ok(())
    }
}

fn tell(table: &Table, report: &RewriteReport, begun: Instant, told: &mut Vec<Told>) {
    let name = format!("\"{}.{}\"", table.schema, table.name);
    let RewriteReport { old_pages, removed, kept, recently_dead, .. } = *report;
    told.push(Told { message: format!("vacuuming {name}"), detail: None });
    told.push(Told {
        message: format!(
            "{name}: found {removed} removable, {kept} nonremovable row versions in {old_pages} \
             pages"
        ),
        detail: Some(format!(
            "{recently_dead} dead row versions cannot be removed yet.\nelapsed: {:.2} s.",
            begun.elapsed().as_secs_f64()
        )),
    });
}
