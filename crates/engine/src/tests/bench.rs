//! What the tests of transactions, heap and redo stand on: the real layers below, in a temporary
//! directory.

use std::path::Path;
use std::sync::Arc;

use forebay_aio::{Aio, AioConfig, BackendType, HugePages, MethodKind, PosixNamespace};
use forebay_format::tuple::{AttrLayout, deform, form_tuple};
use forebay_format::wal::xlog::CheckPoint;
use forebay_format::{Fork, FullXid, Lsn, PageBytes, RelFileLocator, SegmentSize};
use forebay_storage::{Backend, BufferPool, PoolConfig, Smgr, SmgrConfig, WriteScope};
use forebay_wal::{ReaderConfig, Resume, SyncMethod, Wal, WalConfig, WalReader};
use tempfile::TempDir;

use crate::EngineError;
use crate::config::FatalAction;
use crate::fatal::Fatal;
use crate::heap::{Author, Heap, ReadAhead, SpaceMap, TupleBatch};
use crate::redo::{RedoContext, RedoError, RedoRecord, Registry};
use crate::xact::{Clog, Transaction, XactManager};

pub(crate) const SYSTEM_ID: u64 = 77;
pub(crate) const WAL_START: Lsn = Lsn(0x0100_0028);
pub(crate) const FIRST_XID: u32 = 3;
pub(crate) const TABLE: RelFileLocator = RelFileLocator::in_default(5, 16_384);

/// The layers of an engine, without the engine.
pub(crate) struct Bench {
    pub(crate) aio: Arc<Aio>,
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) wal: Arc<Wal>,
    pub(crate) clog: Arc<Clog>,
    pub(crate) xacts: Arc<XactManager>,
    pub(crate) space: SpaceMap,
    pub(crate) fatal: Arc<Fatal>,
    pub(crate) dir: Arc<TempDir>,
}

/// A pool over the files of a directory, without a log: what recovery sees.
pub(crate) struct Recovered {
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) clog: Arc<Clog>,
    pub(crate) be: Backend,
    pub(crate) aio: Arc<Aio>,
}

fn aio(method: MethodKind) -> Arc<Aio> {
    Aio::new(Arc::new(PosixNamespace), method, AioConfig::default()).unwrap()
}

fn pool(aio: &Arc<Aio>, dir: &Path, buffers: usize) -> Arc<BufferPool> {
    let smgr = Smgr::new(aio.clone(), dir, SmgrConfig::default());
    let config = PoolConfig { buffers, huge_pages: HugePages::Off, ..PoolConfig::default() };
    BufferPool::new(config, aio.clone(), smgr).unwrap()
}

impl Bench {
    pub(crate) fn new() -> Bench {
        Bench::with(MethodKind::Sync, 256)
    }

    pub(crate) fn with(method: MethodKind, buffers: usize) -> Bench {
        let dir = Arc::new(TempDir::new().unwrap());
        for name in ["base/5", "global", "pg_wal", "pg_xact"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let aio = aio(method);
        let mut io = aio.backend(BackendType::Client).unwrap();
        let config = WalConfig {
            dir: dir.path().join("pg_wal"),
            segment_size: SegmentSize::DEFAULT,
            timeline: 1,
            system_id: SYSTEM_ID,
            sync_method: SyncMethod::Fdatasync,
            direct: false,
            init_direct: false,
            buffers: 64,
            full_page_writes: true,
            gather: true,
            writes_in_flight: WalConfig::WRITES_IN_FLIGHT,
        };
        let resume = Resume { insert_at: WAL_START, prev: Lsn(0), redo: WAL_START, aborted: None };
        let wal = Arc::new(Wal::start(aio.clone(), &mut io, config, resume).unwrap());
        let pool = pool(&aio, dir.path(), buffers);
        pool.attach_wal(wal.clone());
        let clog = Arc::new(Clog::new(aio.clone(), dir.path(), false));
        clog.zero_page(0);
        clog.flush(&mut io).unwrap();
        let xacts = Arc::new(XactManager::new(
            clog.clone(),
            wal.clone(),
            FullXid::new(0, FIRST_XID),
            FIRST_XID,
        ));
        // Nothing here may abort the test program; who expects a stop asks `has_stopped`.
        let fatal = Arc::new(Fatal::new(Some(FatalAction(Arc::new(|_| {})))));
        Bench { aio, pool, wal, clog, xacts, space: SpaceMap::new(), fatal, dir }
    }

    pub(crate) fn backend(&self) -> Backend {
        Backend::new(self.aio.backend(BackendType::Client).unwrap())
    }

    /// The heap of a relation, whose file is made.
    pub(crate) fn heap(&self, locator: RelFileLocator) -> Heap {
        self.pool.smgr().create(locator, Fork::Main, true).unwrap();
        Heap {
            logged: true,
            locator,
            pool: self.pool.clone(),
            wal: self.wal.clone(),
            clog: self.clog.clone(),
            space: self.space.relation(locator),
            fatal: self.fatal.clone(),
        }
    }

    pub(crate) fn author(&self, be: &mut Backend, tx: &mut Transaction) -> Author {
        let xid = self.xacts.assign(&mut be.io, tx).unwrap();
        Author { xid, command: tx.use_command() }
    }

    /// Inserts numbers and commits.
    pub(crate) fn load(
        &self,
        be: &mut Backend,
        heap: &Heap,
        numbers: impl IntoIterator<Item = i64>,
    ) {
        let mut tx = Transaction::new();
        let author = self.author(be, &mut tx);
        let batch = batch_of(numbers);
        heap.insert_batch(be, author, &batch, forebay_storage::Strategy::Normal).unwrap();
        self.xacts.commit(&mut be.io, &mut tx).unwrap();
    }

    /// The numbers that a transaction sees, in order of their places.
    pub(crate) fn numbers(&self, be: &mut Backend, heap: &Heap, tx: &Transaction) -> Vec<i64> {
        let mut scan = heap.scan(self.xacts.snapshot(tx), ReadAhead::default()).unwrap();
        let mut numbers = Vec::new();
        while let Some((_, tuple)) = scan.next(be).unwrap() {
            numbers.push(number_of(tuple));
        }
        let mut again = heap.scan(self.xacts.snapshot(tx), ReadAhead::default()).unwrap();
        let count = again.count(be, &crate::Interrupt::new()).unwrap();
        assert_eq!(count, numbers.len() as u64, "counting and scanning agree");
        numbers
    }

    /// All pages of a relation, as they are in memory.
    pub(crate) fn pages(&self, be: &mut Backend, rel: RelFileLocator) -> Vec<PageBytes> {
        pages(&self.pool, be, rel)
    }

    /// Writes `pg_xact` and all pages.
    pub(crate) fn write_all(&self, be: &mut Backend) {
        self.clog.flush(&mut be.io).unwrap();
        self.pool.write_dirty(be, WriteScope::All).unwrap();
        self.pool.sync_pending(be).unwrap();
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
        let aio = aio(MethodKind::Sync);
        let pool = pool(&aio, dir, 256);
        let clog = Arc::new(Clog::new(aio.clone(), dir, false));
        clog.set_recovering(true);
        let be = Backend::new(aio.backend(BackendType::Startup).unwrap());
        Recovered { pool, clog, be, aio }
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
        let mut ctx = RedoContext::new(&mut self.be, &self.pool, &self.clog, &checkpoint);
        while let Some(record) = reader.next(&mut io).unwrap() {
            let decoded = record.decode().unwrap();
            let record = RedoRecord { start: record.start, end: record.end, record: &decoded };
            registry.redo(&record, &mut ctx)?;
        }
        ctx.check_missing()?;
        Ok(ctx.counters.next_xid)
    }

    pub(crate) fn pages(&mut self, rel: RelFileLocator) -> Vec<PageBytes> {
        pages(&self.pool, &mut self.be, rel)
    }
}

/// A reader of a directory's log.
pub(crate) fn reader(aio: &Arc<Aio>, dir: &Path, start: Lsn) -> WalReader {
    let config = ReaderConfig {
        dir: dir.join("pg_wal"),
        segment_size: SegmentSize::DEFAULT,
        timeline: 1,
        system_id: Some(SYSTEM_ID),
        direct: false,
    };
    WalReader::new(aio.clone(), config, start)
}

fn pages(pool: &Arc<BufferPool>, be: &mut Backend, rel: RelFileLocator) -> Vec<PageBytes> {
    let blocks = pool.nblocks(rel, Fork::Main).unwrap();
    let read = |block| {
        let tag = forebay_format::PageTag::new(rel, Fork::Main, block);
        let pin = pool.read(be, tag, forebay_storage::Strategy::Normal).unwrap();
        let mut bytes: PageBytes = *pin.lock_shared().copy();
        forebay_format::PageMut(&mut bytes).set_checksum(0);
        bytes
    };
    (0..blocks).map(read).collect()
}

/// Where the log of a bench begins.
pub(crate) fn checkpoint() -> CheckPoint {
    CheckPoint {
        redo: WAL_START,
        timeline: 1,
        prev_timeline: 1,
        full_page_writes: true,
        wal_level: 1,
        next_xid: FullXid::new(0, FIRST_XID),
        next_oid: 16_384,
        next_multi: 1,
        next_multi_offset: 0,
        oldest_xid: FIRST_XID,
        oldest_xid_db: 1,
        oldest_multi: 1,
        oldest_multi_db: 1,
        time: 0,
        oldest_commit_ts_xid: 0,
        newest_commit_ts_xid: 0,
        oldest_active_xid: 0,
    }
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

pub(crate) fn copy_tree(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// For `map_err` of results that tests look at.
pub(crate) fn sqlstate<T: std::fmt::Debug>(result: Result<T, EngineError>) -> &'static str {
    result.unwrap_err().sqlstate()
}
