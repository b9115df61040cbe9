//! What tests of transactions run on: the real layers below, in a temporary directory. The tests
//! of forebay-access include this file too.

use std::path::Path;
use std::sync::Arc;

use forebay_aio::{Aio, BackendType, HugePages, MethodKind};
use forebay_format::wal::xlog::CheckPoint;
use forebay_format::{FullXid, Lsn, RelFileLocator, SegmentSize};
use forebay_storage::{Backend, BufferPool, PoolConfig, Smgr, SmgrConfig};
use forebay_testkit::io::open;
use forebay_txn::{Clog, XactManager};
use forebay_wal::{ReaderConfig, Resume, Wal, WalConfig, WalReader};
use tempfile::TempDir;

pub(crate) const SYSTEM_ID: u64 = 77;
pub(crate) const WAL_START: Lsn = Lsn(0x0100_0028);
pub(crate) const FIRST_XID: u32 = 3;
pub(crate) const TABLE: RelFileLocator = RelFileLocator::in_default(5, 16_384);

/// A log, a buffer pool and transactions over an empty directory.
pub(crate) struct Fixture {
    pub(crate) aio: Arc<Aio>,
    #[allow(dead_code, reason = "for the tests of forebay-access")]
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) wal: Arc<Wal>,
    pub(crate) clog: Arc<Clog>,
    pub(crate) xacts: Arc<XactManager>,
    pub(crate) dir: Arc<TempDir>,
}

pub(crate) fn pool(aio: &Arc<Aio>, dir: &Path, buffers: usize) -> Arc<BufferPool> {
    let smgr = Smgr::new(aio.clone(), dir, SmgrConfig::default());
    let config = PoolConfig { buffers, huge_pages: HugePages::Off, ..PoolConfig::default() };
    BufferPool::new(config, aio.clone(), smgr).unwrap()
}

impl Fixture {
    #[allow(dead_code, reason = "not for the tests of forebay-access")]
    pub(crate) fn new() -> Fixture {
        Fixture::with(MethodKind::Sync, 256)
    }

    pub(crate) fn with(method: MethodKind, buffers: usize) -> Fixture {
        Fixture::over(open(method), buffers)
    }

    pub(crate) fn over(aio: Arc<Aio>, buffers: usize) -> Fixture {
        let dir = Arc::new(TempDir::new().unwrap());
        for name in ["base/5", "global", "pg_wal", "pg_xact"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let mut io = aio.backend(BackendType::Client).unwrap();
        let config = WalConfig::new(dir.path().join("pg_wal"), SegmentSize::DEFAULT, SYSTEM_ID);
        let resume = Resume { insert_at: WAL_START, prev: Lsn(0), redo: WAL_START, aborted: None };
        let wal = Arc::new(Wal::start(aio.clone(), &mut io, config, resume).unwrap());
        let pool = pool(&aio, dir.path(), buffers);
        pool.attach_wal(wal.clone());
        let clog = Arc::new(Clog::new(aio.clone(), dir.path(), false));
        clog.zero_page(0);
        clog.flush(&mut io).unwrap();
        let next = FullXid::new(0, FIRST_XID);
        let xacts = Arc::new(XactManager::new(clog.clone(), wal.clone(), next, FIRST_XID));
        Fixture { aio, pool, wal, clog, xacts, dir }
    }

    pub(crate) fn backend(&self) -> Backend {
        Backend::new(self.aio.backend(BackendType::Client).unwrap())
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

/// The checkpoint at which the log begins.
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
