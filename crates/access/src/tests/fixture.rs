//! What tests of the heap and of redo run on: the real layers below, in a temporary directory.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use forebay_aio::sync::Mutex;
use forebay_aio::{Aio, BackendType, IoObject, IoOp, MethodKind};
use forebay_format::tuple::{AttrLayout, deform, form_tuple};
use forebay_format::{Fork, FullXid, ItemPointer, Lsn, PageBytes, RelFileLocator};
use forebay_storage::{Backend, BufferPool, WriteScope};
use forebay_testkit::files::copy_tree;
use forebay_testkit::io::open;
use forebay_txn::locks::Interrupt;
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord};
use forebay_txn::{Clog, MultiCounters, MultiUse, MultiXacts, Transaction};
use tempfile::TempDir;

use super::layers::pool;
pub(crate) use super::layers::{FIRST_XID, TABLE, WAL_START, checkpoint, reader};
use crate::error::AccessError;
use crate::heap::{
    Attempt, Author, Changer, Heap, Outcomes, PageFailure, ReadAhead, SpaceMap, TupleBatch,
};
use crate::redo::Registry;

/// The counters of MultiXacts before the first one.
const NO_SETS: MultiCounters = MultiCounters { next: 1, next_offset: 0, oldest: 1, oldest_db: 1 };

/// The layers below the heap, and what the heap needs beside them.
pub(crate) struct Fixture {
    layers: super::layers::Fixture,
    pub(crate) multis: Arc<MultiXacts>,
    /// Stands for those of all transactions, which would keep theirs to their end.
    _sets: MultiUse,
    pub(crate) space: SpaceMap,
    pub(crate) failures: Arc<Failures>,
}

impl Deref for Fixture {
    type Target = super::layers::Fixture;

    fn deref(&self) -> &Self::Target {
        &self.layers
    }
}

/// Collects the failures for which an engine would stop.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<Vec<String>>);

impl Failures {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

impl PageFailure for Failures {
    fn stop(&self, what: &str, error: Option<&AccessError>) {
        let error = error.map_or("panicked".to_owned(), ToString::to_string);
        self.0.lock().push(format!("{what}: {error}"));
    }
}

/// A pool over the files of a directory, without a log: what recovery sees.
pub(crate) struct Recovered {
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) clog: Arc<Clog>,
    pub(crate) multis: Arc<MultiXacts>,
    pub(crate) backend: Backend,
    pub(crate) aio: Arc<Aio>,
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        Fixture::with(MethodKind::Sync, 256)
    }

    pub(crate) fn with(method: MethodKind, buffers: usize) -> Fixture {
        Fixture::over(open(method), buffers)
    }

    /// On an I/O layer of the test's own.
    pub(crate) fn over(aio: Arc<Aio>, buffers: usize) -> Fixture {
        let layers = super::layers::Fixture::over(aio, buffers);
        for name in ["pg_multixact/offsets", "pg_multixact/members"] {
            std::fs::create_dir_all(layers.dir.path().join(name)).unwrap();
        }
        let multis = Arc::new(MultiXacts::beside(&layers.clog, NO_SETS));
        multis.set_recovering(true);
        multis.finish_recovery(&mut layers.backend().io, NO_SETS).unwrap();
        multis.set_recovering(false);
        let _sets = MultiUse::begin(multis.clone());
        Fixture { layers, multis, _sets, space: SpaceMap::new(), failures: Arc::default() }
    }

    /// The heap of a relation, whose file is made.
    pub(crate) fn heap(&self, locator: RelFileLocator) -> Heap {
        self.pool.smgr().create(locator, Fork::Main, true).unwrap();
        Heap {
            logged: true,
            locator,
            pool: self.pool.clone(),
            wal: self.wal.clone(),
            outcomes: self.outcomes(),
            space: self.space.relation(locator),
            fill_factor: 100,
            failure: self.failures.clone(),
        }
    }

    pub(crate) fn outcomes(&self) -> Outcomes {
        Outcomes::new(self.xacts.clone(), self.multis.clone())
    }

    /// Lets a transaction change rows.
    pub(crate) fn change<T>(
        &self,
        backend: &mut Backend,
        tx: &mut Transaction,
        change: impl FnOnce(&mut Backend, &mut Changer<'_>) -> Result<T, AccessError>,
    ) -> T {
        let author = self.author(backend, tx);
        let sets = &mut self.outcomes().sets();
        change(backend, &mut Changer { xacts: &self.xacts, tx, author, sets, queues: None })
            .unwrap()
    }

    /// Lets a transaction delete a row.
    pub(crate) fn delete(
        &self,
        backend: &mut Backend,
        heap: &Heap,
        tx: &mut Transaction,
        place: ItemPointer,
    ) -> Attempt<()> {
        self.change(backend, tx, |backend, changer| heap.delete(backend, changer, place))
    }

    pub(crate) fn author(&self, backend: &mut Backend, tx: &mut Transaction) -> Author {
        let xid = self.xacts.assign(&mut backend.io, tx).unwrap();
        Author { xid, command: tx.use_command() }
    }

    /// Inserts numbers and commits.
    pub(crate) fn load(
        &self,
        backend: &mut Backend,
        heap: &Heap,
        numbers: impl IntoIterator<Item = i64>,
    ) {
        let mut tx = Transaction::new();
        let author = self.author(backend, &mut tx);
        let batch = batch_of(numbers);
        heap.insert_batch(backend, author, &batch, forebay_storage::Strategy::Normal, None)
            .unwrap();
        self.xacts.commit(&mut backend.io, &mut tx).unwrap();
    }

    /// The numbers that a transaction sees, in order of their places.
    pub(crate) fn numbers(&self, backend: &mut Backend, heap: &Heap, tx: &Transaction) -> Vec<i64> {
        let mut scan = heap.scan(self.xacts.snapshot(tx), ReadAhead::default()).unwrap();
        let mut numbers = Vec::new();
        while let Some((_, tuple)) = scan.next(backend).unwrap() {
            numbers.push(number_of(tuple));
        }
        let mut again = heap.scan(self.xacts.snapshot(tx), ReadAhead::default()).unwrap();
        let count = again.count(backend, &Interrupt::new()).unwrap();
        assert_eq!(count, numbers.len() as u64, "counting and scanning agree");
        numbers
    }

    /// Pages that were looked at, in memory or not.
    pub(crate) fn looks(&self) -> u64 {
        let rows = self.aio.stats().snapshot();
        let counts = rows.iter().filter(|row| row.object == IoObject::Relation);
        counts.map(|row| row.get(IoOp::Hit).count + row.get(IoOp::Read).count).sum()
    }

    /// All pages of a relation, as they are in memory.
    pub(crate) fn pages(&self, backend: &mut Backend, rel: RelFileLocator) -> Vec<PageBytes> {
        pages(&self.pool, backend, rel, Fork::Main)
    }

    /// The pages of its visibility map.
    pub(crate) fn map_pages(&self, backend: &mut Backend, rel: RelFileLocator) -> Vec<PageBytes> {
        pages(&self.pool, backend, rel, Fork::Vm)
    }

    /// Writes `pg_xact` and all pages.
    pub(crate) fn write_all(&self, backend: &mut Backend) {
        self.clog.flush(&mut backend.io).unwrap();
        self.pool.write_dirty(backend, WriteScope::All).unwrap();
        self.pool.sync_pending(backend).unwrap();
    }

    /// Replays the log from its beginning over a copy of the files as they are on disk now.
    pub(crate) fn recover_copy(&self, times: usize) -> (Recovered, TempDir) {
        self.recover_copy_from(WAL_START, times)
    }

    /// Replays the log from a redo pointer.
    pub(crate) fn recover_copy_from(&self, redo: Lsn, times: usize) -> (Recovered, TempDir) {
        let copy = TempDir::new().unwrap();
        copy_tree(self.dir.path(), copy.path());
        let mut recovered = Recovered::open(copy.path());
        for _ in 0..times {
            recovered.replay_from(redo, copy.path()).unwrap();
        }
        (recovered, copy)
    }
}

impl Recovered {
    pub(crate) fn open(dir: &Path) -> Recovered {
        let aio = open(MethodKind::Sync);
        let pool = pool(&aio, dir, 256);
        let clog = Arc::new(Clog::new(aio.clone(), dir, false));
        clog.set_recovering(true);
        let multis = Arc::new(MultiXacts::beside(&clog, NO_SETS));
        multis.set_recovering(true);
        let backend = Backend::new(aio.backend(BackendType::Startup).unwrap());
        Recovered { pool, clog, multis, backend, aio }
    }

    /// Replays the whole log; the next transaction id.
    pub(crate) fn replay(&mut self, dir: &Path) -> Result<FullXid, RedoError> {
        self.replay_from(WAL_START, dir)
    }

    /// Replays the log from a redo pointer.
    pub(crate) fn replay_from(&mut self, redo: Lsn, dir: &Path) -> Result<FullXid, RedoError> {
        let mut io = self.aio.backend(BackendType::Startup).unwrap();
        let mut reader = reader(&self.aio, dir, redo);
        let registry = Registry::new();
        let checkpoint = checkpoint();
        let (pool, clog, multis) = (&self.pool, &self.clog, &self.multis);
        let mut ctx = RedoContext::new(&mut self.backend, pool, clog, multis, &checkpoint);
        while let Some(record) = reader.next(&mut io).unwrap() {
            let decoded = record.decode().unwrap();
            let record = RedoRecord { start: record.start, end: record.end, record: &decoded };
            registry.redo(&record, &mut ctx)?;
        }
        ctx.check_missing()?;
        Ok(ctx.counters.next_xid)
    }

    /// Replays the log, and calls `each` after each record. It ends the replay by returning false.
    pub(crate) fn replay_each(
        &mut self,
        dir: &Path,
        mut each: impl FnMut(&mut Recovered, &RedoRecord<'_>) -> bool,
    ) {
        let mut io = self.aio.backend(BackendType::Startup).unwrap();
        let mut reader = reader(&self.aio, dir, WAL_START);
        let (registry, checkpoint) = (Registry::new(), checkpoint());
        while let Some(record) = reader.next(&mut io).unwrap() {
            let decoded = record.decode().unwrap();
            let record = RedoRecord { start: record.start, end: record.end, record: &decoded };
            let (pool, clog, multis) = (&self.pool, &self.clog, &self.multis);
            let mut ctx = RedoContext::new(&mut self.backend, pool, clog, multis, &checkpoint);
            registry.redo(&record, &mut ctx).unwrap();
            drop(ctx);
            if !each(self, &record) {
                break;
            }
        }
    }

    pub(crate) fn pages(&mut self, rel: RelFileLocator) -> Vec<PageBytes> {
        pages(&self.pool, &mut self.backend, rel, Fork::Main)
    }

    pub(crate) fn map_pages(&mut self, rel: RelFileLocator) -> Vec<PageBytes> {
        pages(&self.pool, &mut self.backend, rel, Fork::Vm)
    }
}

/// The pages of a fork; none if it does not exist.
fn pages(
    pool: &Arc<BufferPool>,
    backend: &mut Backend,
    rel: RelFileLocator,
    fork: Fork,
) -> Vec<PageBytes> {
    if !pool.smgr().exists(rel, fork).unwrap() {
        return Vec::new();
    }
    let blocks = pool.nblocks(rel, fork).unwrap();
    let read = |block| {
        let tag = forebay_format::PageTag::new(rel, fork, block);
        let pin = pool.read(backend, tag, forebay_storage::Strategy::Normal).unwrap();
        let mut bytes: PageBytes = *pin.lock_shared().copy();
        forebay_format::PageMut(&mut bytes).set_checksum(0);
        bytes
    };
    (0..blocks).map(read).collect()
}

/// A table of one int8 column.
pub(crate) fn tuple_of(number: i64) -> Vec<u8> {
    form_tuple(&[AttrLayout::INT8], &[Some(&number.to_le_bytes())]).unwrap()
}

pub(crate) fn batch_of(numbers: impl IntoIterator<Item = i64>) -> TupleBatch {
    let mut batch = TupleBatch::new();
    let push = |number| batch.push(&tuple_of(number));
    numbers.into_iter().try_for_each(push).unwrap();
    batch
}

pub(crate) fn number_of(tuple: &[u8]) -> i64 {
    let tuple = forebay_format::HeapTuple::new(tuple).unwrap();
    let mut values = [None];
    deform(tuple, &[AttrLayout::INT8], &mut values).unwrap();
    i64::from_le_bytes(values[0].unwrap().try_into().unwrap())
}

/// For `map_err` of results that tests look at.
pub(crate) fn sqlstate<T: std::fmt::Debug>(result: Result<T, AccessError>) -> &'static str {
    result.unwrap_err().sqlstate()
}
