//! Scans of a table by several threads: a session, the leader, and workers beside it.
//!
//! ```text
//!   Session::share_scan ─▶ SharedScan: the snapshot, the blocks that nobody has taken yet
//!     SharedScan::run   ─▶ a thread for each job, with a ScanPart and a Sender
//!     Session::scan_part ─▶ the leader's own part
//!   Handoff::wait       ◀─ what the workers send
//! ```
//!
//! A worker has a backend of its own: I/O handles, a ring, pins, counters. It sees what the
//! leader's statement sees, the transaction's own changes included, and shares the leader's
//! interrupt. A second backend reads values that are stored out of line. It takes no locks: the
//! leader holds the table's lock, and cannot end its transaction before all workers have ended.
//!
//! A worker that cannot be started, since there are too many, or no I/O handles or threads are
//! left, is done without. When the leader returns, early or by a panic, no blocks are handed out
//! any more, and workers that wait for it end.

use std::sync::Arc;

use forebay_access::heap::{self, SharedBlocks};
use forebay_access::toast::ToastTable;
use forebay_aio::BackendType;
use forebay_aio::sync::{Mutex, thread};
use forebay_catalog::{Table, TableIndex};
use forebay_format::Fork;
use forebay_format::ids::BLOCK_SIZE;
use forebay_storage::{Backend, ReadPolicy};
use forebay_txn::ReadCounter;
use forebay_txn::locks::{Interrupt, LockMode};
use forebay_types::{Datum, Repr};

use super::counting::counted;
use super::handoff::{Handoff, Sender};
use super::parts::{Part, Source, fetched};
use super::scan::{HeapScan, Reading};
use super::state::{Session, check_interrupt};
use super::stored::RowView;
use super::toast::pointer_of;
use crate::core::InDatabase;
use crate::error::EngineError;
use crate::warning::Warning;

/// Bytes of a worker's stack: as a session's, with room for deeply nested expressions.
const STACK: usize = 8 << 20;

/// A scan of a table that threads share.
#[derive(Clone, Debug)]
pub struct SharedScan(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    core: Arc<InDatabase>,
    table: Arc<Table>,
    /// Where its values are that are stored out of line.
    toast: Option<ToastTable>,
    reading: Reading,
    blocks: Arc<SharedBlocks>,
    policy: ReadPolicy,
    interrupt: Interrupt,
    /// Where the rows of workers are counted.
    reads: Arc<ReadCounter>,
    /// max_parallel_workers.
    most_workers: usize,
    /// Warnings of workers that have ended.
    warnings: Mutex<Vec<Warning>>,
}

/// A worker's part of a scan.
#[derive(Debug)]
pub struct ScanPart {
    // Dropped in this order: the backend waits for its I/O.
    scan: heap::HeapScan,
    backend: Backend,
    values: Option<SharedValues>,
    place: Place,
}

/// Reads values that are stored out of line, for a worker.
#[derive(Debug)]
pub struct SharedValues {
    shared: Arc<Shared>,
    backend: Backend,
}

/// A worker's place among those that may run.
#[derive(Debug)]
struct Place(Arc<Shared>);

impl Session {
    /// Number of blocks of a table, which the transaction has locked.
    pub fn table_blocks(&mut self, table: &Table) -> Result<u32, EngineError> {
        self.check_locked(table, LockMode::AccessShare)?;
        self.call(|session, core| {
            Ok(session.pool_of(core, table)?.nblocks(table.locator, Fork::Main)?)
        })
    }

    /// Blocks of an index of a table, which the transaction must have locked.
    pub fn index_blocks(&mut self, table: &Table, index: &TableIndex) -> Result<u32, EngineError> {
        self.check_locked(table, LockMode::AccessShare)?;
        self.call(|session, core| {
            Ok(session.pool_of(core, table)?.nblocks(index.locator, Fork::Main)?)
        })
    }

    /// Prepares a scan of a table, not a temporary one, that workers take part in. The transaction
    /// must have locked the table.
    pub fn share_scan(&mut self, table: &Arc<Table>) -> Result<SharedScan, EngineError> {
        self.call(|session, core| {
            if table.is_temporary() {
                return Err(EngineError::internal("threads cannot share a temporary table"));
            }
            let reading = session.reading(core, table)?;
            let open = |oid| session.toast_table(core, oid, LockMode::AccessShare);
            let toast = table.toasting.relation.map(open).transpose()?;
            let (blocks, start) = reading.heap.scan_start()?;
            let start = if reading.synchronized { start } else { 0 };
            let combined = reading.combine_limit() as u32;
            let reads = session.running()?.tx.count_reads(counted(table));
            Ok(SharedScan(Arc::new(Shared {
                core: Arc::clone(&session.core),
                table: Arc::clone(table),
                toast,
                reading,
                blocks: Arc::new(SharedBlocks::new(blocks, start, combined)),
                policy: session.backend.policy,
                interrupt: session.interrupt.clone(),
                reads,
                most_workers: session.settings.parallel.max_workers,
                warnings: Mutex::default(),
            })))
        })
    }

    /// The leader's part of a scan.
    pub fn scan_part(&mut self, shared: &SharedScan) -> Result<HeapScan, EngineError> {
        let Shared { table, reading, blocks, .. } = &*shared.0;
        let scan = self.call(|_, core| reading.clone().begin(core, Some(blocks)))?;
        self.heap_scan(table, scan)
    }

    /// Takes over the warnings of a scan's workers, which have ended.
    pub fn end_shared_scan(&mut self, shared: &SharedScan) {
        self.warnings.append(&mut shared.0.warnings.lock());
    }
}

impl SharedScan {
    /// Runs each job in a thread of its own, as far as workers may be started, and `lead` in this
    /// one, with their number. Returns when all have ended.
    ///
    /// # Panics
    /// If a job does.
    pub fn run<M, J, T>(&self, jobs: Vec<J>, lead: impl FnOnce(usize, &Handoff<M>) -> T) -> T
    where
        M: Send,
        J: FnOnce(ScanPart, &Sender<'_, M>) + Send,
    {
        let counters = &self.0.core.counters;
        counters.workers_wanted.add(jobs.len() as u64);
        let queue = Handoff::new(jobs.len());
        // All have their places before the first may end and give its own to another.
        let parts = std::iter::from_fn(|| ScanPart::begin(&self.0)).take(jobs.len());
        let parts: Vec<ScanPart> = parts.collect();
        thread::scope(|scope| {
            let _end = End { blocks: &self.0.blocks, queue: &queue };
            let mut started = 0;
            for (part, job) in parts.into_iter().zip(jobs) {
                let sender = queue.sender();
                let worker = thread::Builder::new().name("parallel worker".to_owned());
                let worker = worker.stack_size(STACK);
                match worker.spawn_scoped(scope, move || job(part, &sender)) {
                    Ok(_) => started += 1,
                    Err(error) => tracing::warn!("could not start a parallel worker: {error}"),
                }
            }
            counters.workers_started.add(started as u64);
            lead(started, &queue)
        })
    }
}

/// The leader's end, which is the workers' as well.
struct End<'s, M> {
    blocks: &'s SharedBlocks,
    queue: &'s Handoff<M>,
}

impl<M> Drop for End<'_, M> {
    fn drop(&mut self) {
        self.blocks.end();
        self.queue.close();
    }
}

impl ScanPart {
    /// None: no worker can be started.
    fn begin(shared: &Arc<Shared>) -> Option<ScanPart> {
        let Shared { core, reading, blocks, toast, .. } = &**shared;
        let place = Place::take(shared)?;
        let begin = || {
            let backend = shared.backend()?;
            let values = match toast {
                Some(_) => {
                    Some(SharedValues { shared: Arc::clone(shared), backend: shared.backend()? })
                }
                None => None,
            };
            Ok::<_, EngineError>((reading.clone().begin(core, Some(blocks))?, backend, values))
        };
        match begin() {
            Ok((scan, backend, values)) => Some(ScanPart { scan, backend, values, place }),
            Err(error) => {
                tracing::warn!("could not start a parallel worker: {error}");
                None
            }
        }
    }

    /// What reads the values of its rows that are stored out of line. None: there are none.
    pub fn take_values(&mut self) -> Option<SharedValues> {
        self.values.take()
    }

    /// Moves to the next page with visible rows. Returns their number, or None at the end, which is
    /// also that of the leader.
    pub fn next_page(&mut self) -> Result<Option<usize>, EngineError> {
        if self.place.0.blocks.has_ended() {
            return Ok(None);
        }
        let rows = self.call(|scan, backend, _| Ok(scan.next_page(backend)?))?;
        self.place.0.reads.returned(rows.unwrap_or(0));
        Ok(rows)
    }

    /// A row of the current page.
    ///
    /// # Panics
    /// If the page has no row of this index.
    pub fn row(&self, index: usize) -> RowView<'_> {
        RowView::new(&self.place.0.table, self.scan.tuple(index), self.scan.tuple_id(index))
    }

    /// Counts the rows that are left, without decoding them.
    pub fn count(&mut self) -> Result<u64, EngineError> {
        let rows = self.call(|scan, backend, interrupt| Ok(scan.count(backend, interrupt)?))?;
        self.place.0.reads.returned(rows as usize);
        Ok(rows)
    }

    /// What [`Session::call`] is for the leader.
    fn call<T>(
        &mut self,
        body: impl FnOnce(&mut heap::HeapScan, &mut Backend, &Interrupt) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let Shared { core, interrupt, .. } = &*self.place.0;
        check_interrupt(core, interrupt)?;
        let _activity = core.activity.enter()?;
        body(&mut self.scan, &mut self.backend, interrupt).map_err(|error| core.fatal.check(error))
    }
}

impl Drop for ScanPart {
    fn drop(&mut self) {
        self.place.0.keep_warnings(&mut self.backend);
    }
}

impl SharedValues {
    /// What [`Session::fetch_value`] is for the leader, of values that are out of line.
    pub fn fetch(
        &mut self,
        value: &Datum<'_>,
        repr: Repr,
        part: Part,
    ) -> Result<Datum<'static>, EngineError> {
        let pointer = pointer_of(value)?;
        let Shared { core, interrupt, toast, .. } = &*self.shared;
        let lost = || EngineError::internal("a table without a TOAST table has a pointer");
        let toast = toast.as_ref().ok_or_else(lost)?;
        check_interrupt(core, interrupt)?;
        let _activity = core.activity.enter()?;
        let source = Source::Table(toast, &mut self.backend, pointer);
        let value = fetched(source, (repr, part), core.database.encoding);
        value.map_err(|error| core.fatal.check(error))
    }
}

impl Drop for SharedValues {
    fn drop(&mut self) {
        self.shared.keep_warnings(&mut self.backend);
    }
}

impl Shared {
    /// A backend for a worker.
    fn backend(&self) -> Result<Backend, EngineError> {
        let mut io = self.core.aio.backend(BackendType::BackgroundWorker)?;
        io.set_combine_limit(self.reading.combine_limit() * BLOCK_SIZE);
        let mut backend = Backend::new(io);
        backend.policy = self.policy;
        Ok(backend)
    }

    fn keep_warnings(&self, backend: &mut Backend) {
        let warnings = backend.take_read_warnings();
        self.warnings.lock().extend(warnings.into_iter().map(Warning::from));
    }
}

impl Place {
    /// None: all are taken.
    fn take(shared: &Arc<Shared>) -> Option<Place> {
        let free = shared.core.workers.enter(shared.most_workers);
        free.then(|| Place(Arc::clone(shared)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.core.workers.leave();
    }
}
