//! ANALYZE: statistics of a table's columns, from a random sample of its rows.
//!
//! - `values`: the values of a column in the sample
//! - `compute`: what they say of the whole table
//!
//! The table is locked as by VACUUM. Rows of pg_statistic are written as any other, while pg_class
//! is changed in place. A column whose type has no order that is known here gets only the part of
//! NULLs and the average width.

mod compute;
mod values;

use std::sync::Arc;

use forebay_access::analyze_progress::{self as shown, Phase};
use forebay_access::heap::{Author, Changer, Heap, Sample, SampleJob};
use forebay_access::nbtree::KeyOrder;
use forebay_aio::sync::{Duration, Instant};
use forebay_catalog::schema::PG_STATISTIC;
use forebay_catalog::{
    ClassFigures, ColumnStatistics, ColumnTarget, Reader, Table, TableIndex, TableStatistics,
    store_statistics,
};
use forebay_format::ids::INVALID_XID;
use forebay_format::{CommandId, Fork, HeapTuple};
use forebay_storage::progress::{Command, Progress};
use forebay_storage::{Backend, Strategy};
use forebay_txn::locks::LockMode;

use self::compute::statistics;
use self::values::ColumnValues;
use super::counting::counted;
use super::state::{Session, no_transaction};
use super::vacuum::{Found, KB_PER_BUFFER, Rests};
use crate::core::InDatabase;
use crate::error::EngineError;
use crate::id_limits::next_ids;
use crate::relation_stats::Maintained;
use crate::warning::Warning;

/// Rows of a sample for each value or bound that may be kept of a column.
const ROWS_PER_TARGET: usize = 300;
/// Fewest rows of a sample that is wanted.
const FEWEST_ROWS: usize = 100;

/// How tables are analyzed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AnalyzeOptions {
    /// Tells what was done.
    pub verbose: bool,
    /// Leaves out a table whose lock is not free.
    pub skip_locked: bool,
    /// kB of pages that it lets lie before it writes them; 0: it is not bulk work for the pool;
    /// None: as the setting vacuum_buffer_usage_limit says.
    pub buffer_usage_limit: Option<u32>,
    /// A vacuum has just counted the entries of the indexes.
    pub vacuumed: bool,
}

/// A column that is analyzed: its index, how, and how many values or bounds may be kept of it.
struct Analyzed {
    index: usize,
    how: ColumnTarget,
    target: usize,
    /// How its values are ordered. None: they have no order, or one that is not known.
    order: Option<KeyOrder>,
}

impl Session {
    /// Analyzes a table, or some of its columns, in a transaction of its own. There must be none
    /// running. What it has done is added to `told`, if the options ask for that.
    pub fn analyze_alone(
        &mut self,
        table: &Arc<Table>,
        columns: Option<&[String]>,
        options: &AnalyzeOptions,
        told: &mut Vec<String>,
    ) -> Result<(), EngineError> {
        self.begin()?;
        self.running()?.alone = true;
        let begun = self.start_command();
        match begun.and_then(|()| self.analyze(table, columns, options, told)) {
            Ok(()) => {
                self.end_command();
                self.commit()
            }
            Err(error) => {
                self.abort()?;
                Err(error)
            }
        }
    }

    /// The same in the running transaction.
    pub fn analyze(
        &mut self,
        table: &Arc<Table>,
        columns: Option<&[String]>,
        options: &AnalyzeOptions,
        told: &mut Vec<String>,
    ) -> Result<(), EngineError> {
        if !self.owns(table) {
            return Ok(());
        }
        self.call(|session, core| {
            let found = session.find_locked(core, "analyze", table, options.skip_locked)?;
            let Some(Found { table, figures, .. }) = found else { return Ok(()) };
            if !matches!(table.kind, b'r' | b'm') {
                let message = format!(
                    "skipping \"{}\" --- cannot analyze non-tables or special system tables",
                    table.name
                );
                session.warnings.push(Warning::new(message));
                return Ok(());
            }
            // Its own rows change meanwhile.
            if table.oid == PG_STATISTIC.oid {
                return Ok(());
            }
            table.check_readable()?;
            session.analyze_locked(core, (&table, &figures), columns, options, told)
        })
    }

    fn analyze_locked(
        &mut self,
        core: &InDatabase,
        (table, figures): (&Arc<Table>, &ClassFigures),
        columns: Option<&[String]>,
        options: &AnalyzeOptions,
        told: &mut Vec<String>,
    ) -> Result<(), EngineError> {
        let begun = Instant::now();
        let _shown = Progress::start(&self.backend.progress, Command::Analyze, table.oid);
        let Table { schema, name, .. } = &**table;
        if options.verbose {
            told.push(format!("analyzing \"{schema}.{name}\""));
        }
        let analyzed = self.analyzed_columns(core, table, columns)?;
        let target = analyzed.iter().map(|column| column.target).max().unwrap_or(0);
        let rows = (target * ROWS_PER_TARGET).max(FEWEST_ROWS);
        let heap = self.heap(core, table)?;
        let sample = self.sample(core, (table, &heap), rows, options)?;
        let total = sample.in_table(sample.live);
        if options.verbose {
            told.push(format!(
                "\"{name}\": scanned {} of {} pages, containing {} live rows and {} dead rows; {} \
                 rows in sample, {total} estimated total rows",
                sample.scanned,
                sample.blocks,
                sample.live,
                sample.dead,
                sample.rows.len(),
            ));
        }
        self.backend.progress.set(shown::PHASE, Phase::Compute as u64);
        let mut all = Vec::with_capacity(analyzed.len());
        for column in analyzed {
            self.check_cancel()?;
            if let Some(found) = column_statistics(table, &column, &sample, total)? {
                all.push((column.index, column.how, found));
            }
        }
        self.backend.progress.set(shown::PHASE, Phase::Finalize as u64);
        if !all.is_empty() {
            let (tx, backend) = self.changing_figures()?;
            store_statistics(&core.database, backend, tx, table, &all)?;
        }
        self.store_sampled(core, (table, &heap), figures, &sample, options)?;
        self.report_analyzed(core, table, &sample, (columns.is_none(), begun.elapsed()))?;
        if options.verbose {
            let database = &core.database_name;
            told.push(format!(
                "finished analyzing table \"{database}.{schema}.{name}\"\n{}system usage: \
                 elapsed: {:.2} s",
                self.delay_line(shown::DELAY),
                begun.elapsed().as_secs_f64()
            ));
        }
        Ok(())
    }

    /// Tells the statistics how many rows a table has. Those that the transaction has changed
    /// itself are told at its end.
    fn report_analyzed(
        &mut self,
        core: &InDatabase,
        table: &Table,
        sample: &Sample,
        (all_columns, took): (bool, Duration),
    ) -> Result<(), EngineError> {
        if !self.settings.track_counts {
            return Ok(());
        }
        let relation = counted(table);
        let own = self.running()?.tx.counts().unreported(relation);
        let known = |rows: u64, own: i64| {
            (sample.in_table(rows) as u64).saturating_add_signed(own.saturating_neg())
        };
        let (live, dead) = (known(sample.live, own.0), known(sample.dead, own.1));
        let automatic = self.is_autovacuum();
        let done = Maintained { relation, live, dead, took, automatic };
        core.statistics.analyzed(&done, all_columns);
        Ok(())
    }

    /// The columns whose statistics are made: those that are named, or all.
    fn analyzed_columns(
        &mut self,
        core: &InDatabase,
        table: &Table,
        names: Option<&[String]>,
    ) -> Result<Vec<Analyzed>, EngineError> {
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        let targets = reader.column_targets(table)?;
        let chosen: Vec<usize> = match names {
            None => (0..table.columns.len()).filter(|n| !table.columns[*n].dropped).collect(),
            Some(names) => named_columns(table, names)?,
        };
        let default = self.settings.statistics_target;
        let mut analyzed = Vec::with_capacity(chosen.len());
        for index in chosen {
            let (how, column) = (targets[index], &table.columns[index]);
            let order = match how.is_ordered() {
                true => reader.order_of(column)?,
                false => None,
            };
            let target = how.target.map_or(Some(default), |own| usize::try_from(own).ok());
            analyzed.push(Analyzed { index, how, target: target.unwrap_or(default), order });
        }
        // What is generated when it is read is not stored.
        let is_stored = |column: &Analyzed| table.columns[column.index].generated != b'v';
        analyzed.retain(|column| column.target > 0 && is_stored(column));
        Ok(analyzed)
    }

    /// Samples a table.
    fn sample(
        &mut self,
        core: &InDatabase,
        (table, heap): (&Table, &Heap),
        rows: usize,
        options: &AnalyzeOptions,
    ) -> Result<Sample, EngineError> {
        let settings = self.settings.vacuum;
        let limit = options.buffer_usage_limit.unwrap_or(settings.buffer_usage_limit);
        let job = SampleJob {
            rows,
            // Another sample after each change, and the same one when a run is repeated.
            seed: u64::from(table.oid) << 32 | u64::from(next_ids(core).xid),
            stream: self.vacuum_stream(),
            strategy: Strategy::Vacuum { buffers: limit / KB_PER_BUFFER },
        };
        let interrupt = self.interrupt.clone();
        let rests = Rests::new(settings, interrupt, &self.backend);
        let mut rests = rests.of_worker(self.costs.clone());
        let mut rest = |backend: &mut Backend, page| rests.after(backend, page);
        let Session { open: Some(open), backend, .. } = self else { return Err(no_transaction()) };
        let author = Author { xid: INVALID_XID, command: CommandId::MAX };
        let sets = &mut core.heaps.outcomes.sets();
        let mut changer = Changer { xacts: &core.xacts, tx: &open.tx, author, sets, queues: None };
        Ok(heap.sample(backend, &mut changer, &job, &mut rest)?)
    }

    /// Stores the estimated number of rows of a table and its indexes in pg_class.
    fn store_sampled(
        &mut self,
        core: &InDatabase,
        (table, heap): (&Arc<Table>, &Heap),
        before: &ClassFigures,
        sample: &Sample,
        options: &AnalyzeOptions,
    ) -> Result<(), EngineError> {
        let (next, tuples) = (next_ids(core), sample.in_table(sample.live) as f32);
        let (visible, frozen) = heap.marked_pages(&mut self.backend)?;
        let all_visible = visible.min(sample.blocks);
        let figures = ClassFigures {
            pages: sample.blocks,
            tuples,
            all_visible,
            all_frozen: frozen.min(all_visible),
            frozen_xid: 0,
            min_multi: 0,
            ..*before
        };
        // Sessions know it with the figures before.
        self.changing_figures()?;
        self.update_class(core, table.oid, &figures, next)?;
        let indexes = table.indexes.iter().filter(|index| index.ready && !options.vacuumed);
        for index in indexes {
            let pages = heap.pool.nblocks(index.locator, Fork::Main)?;
            let part = self.part_in_index(core, table, index, sample)?;
            let tuples = (f64::from(tuples) * part).ceil() as f32;
            let figures = ClassFigures { pages, tuples, all_visible: 0, all_frozen: 0, ..figures };
            self.update_class(core, index.oid, &figures, next)?;
        }
        Ok(())
    }

    /// The part of a table's rows that an index has.
    fn part_in_index(
        &mut self,
        core: &InDatabase,
        table: &Table,
        index: &TableIndex,
        sample: &Sample,
    ) -> Result<f64, EngineError> {
        if index.trees.predicate.is_none() || sample.rows.is_empty() {
            return Ok(1.0);
        }
        let source = self.source_of(core, table, index, &[])?;
        let mut entries = 0_u32;
        for row in &sample.rows {
            self.check_cancel()?;
            let tuple = HeapTuple::new(&row.tuple)?;
            entries += u32::from(source.has_entry(&mut self.backend, tuple)?);
        }
        Ok(f64::from(entries) / sample.rows.len() as f64)
    }

    /// The statistics of a table's columns. Damaged ones are left out, with a warning in the log.
    pub fn statistics(&mut self, table: &Table) -> Result<Arc<TableStatistics>, EngineError> {
        if let Some(known) = table.statistics.get() {
            return Ok(Arc::clone(known));
        }
        self.check_locked(table, LockMode::AccessShare)?;
        self.call(|session, core| {
            let snapshot = core.xacts.snapshot(&session.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut session.backend, snapshot);
            let found = Arc::new(reader.statistics(table, &mut |column, error| {
                let (table, column) = (&table.name, &column.name);
                tracing::warn!("statistics of column \"{column}\" of \"{table}\" ignored: {error}");
            })?);
            Ok(Arc::clone(table.statistics.get_or_init(|| found)))
        })
    }
}

/// The columns of these names, by index.
fn named_columns(table: &Table, names: &[String]) -> Result<Vec<usize>, EngineError> {
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        let of = &table.name;
        let Some((index, _)) = table.column(name) else {
            let message = format!("column \"{name}\" of relation \"{of}\" does not exist");
            return Err(EngineError::statement("42703", message));
        };
        if found.contains(&index) {
            let message = format!("column \"{name}\" of relation \"{of}\" appears more than once");
            return Err(EngineError::statement("42701", message));
        }
        found.push(index);
    }
    Ok(found)
}

/// The statistics of a column. If they do not fit on a page, fewer values and bounds are kept.
fn column_statistics(
    table: &Table,
    of: &Analyzed,
    sample: &Sample,
    total: f64,
) -> Result<Option<ColumnStatistics>, EngineError> {
    let values = ColumnValues::read(table, of.index, of.order.as_ref(), sample)?;
    let mut target = of.target;
    loop {
        let found = statistics(&values, target, total);
        match found {
            Some(found) if target > 1 && !found.fits(table.columns[of.index].layout) => {
                target = target.div_ceil(2);
            }
            found => return Ok(found),
        }
    }
}
