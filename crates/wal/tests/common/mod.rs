//! A log in a temporary directory, and helpers for the tests.
#![allow(dead_code, reason = "each test binary uses a part")]

pub mod crash;
pub mod defects;

use std::path::PathBuf;
use std::sync::Arc;

use forebay_aio::fault::FaultPlan;
use forebay_aio::{Aio, AioConfig, BackendType, IoBackend, MethodKind, Namespace, PosixNamespace};
use forebay_format::{Lsn, SegmentSize, wal::Rmgr};
use forebay_wal::position::Positions;
use forebay_wal::{
    EndOfWal, Inserted, ReaderConfig, Record, Resume, Wal, WalConfig, WalReadError, WalReader,
    WalRecord,
};

pub use forebay_testkit::Dice;
pub use forebay_testkit::files::names;
pub use forebay_testkit::io::{direct_choices, has_direct, methods};

/// The smallest segment size.
pub const SEGMENT: u64 = 1 << 20;
pub const SYSTEM_ID: u64 = 0x1234_5678_9abc_def0;

/// The logs of the tests begin with segment 1.
pub const BEGIN: Lsn = Lsn(SEGMENT);

/// An aio, a backend and a temporary directory.
pub struct Rig {
    pub dir: tempfile::TempDir,
    pub aio: Arc<Aio>,
    pub io: IoBackend,
    pub config: WalConfig,
}

impl Rig {
    pub fn new(method: MethodKind) -> Rig {
        Rig::over(Arc::new(PosixNamespace), method)
    }

    pub fn over(namespace: Arc<dyn Namespace>, method: MethodKind) -> Rig {
        Rig::with(Aio::new(namespace, method, AioConfig::default()).expect("aio"))
    }

    /// With a disk that fails as the plan says.
    pub fn faulty(method: MethodKind) -> (Rig, Arc<FaultPlan>) {
        let plan = FaultPlan::new();
        let aio = plan.open(Arc::new(PosixNamespace), method, AioConfig::default());
        (Rig::with(aio.expect("aio")), plan)
    }

    pub fn with(aio: Arc<Aio>) -> Rig {
        let dir = tempfile::tempdir().expect("temporary directory");
        Rig::in_dir(aio, dir)
    }

    pub fn in_dir(aio: Arc<Aio>, dir: tempfile::TempDir) -> Rig {
        let io = aio.backend(BackendType::Client).expect("backend");
        let dir_path = dir.path().to_owned();
        let config =
            WalConfig { buffers: 16, ..WalConfig::new(dir_path, segment_size(), SYSTEM_ID) };
        Rig { dir, aio, io, config }
    }

    pub fn start(&mut self, resume: Resume) -> Wal {
        Wal::start(Arc::clone(&self.aio), &mut self.io, self.config.clone(), resume).expect("start")
    }

    /// A log that begins at [`BEGIN`].
    pub fn fresh(&mut self) -> Wal {
        self.start(from_scratch())
    }

    /// Reads to the end of the log, and resumes there.
    pub fn recover(&mut self) -> (Vec<WalRecord>, Wal) {
        let (records, end) = self.read_all(BEGIN);
        let wal = self.start(end.resume(BEGIN));
        (records, wal)
    }

    pub fn reader(&self, start: Lsn) -> WalReader {
        let config = ReaderConfig {
            dir: self.config.dir.clone(),
            segment_size: self.config.segment_size,
            timeline: 1,
            system_id: Some(SYSTEM_ID),
            direct: self.config.direct,
        };
        WalReader::new(Arc::clone(&self.aio), config, start)
    }

    pub fn read_all(&mut self, start: Lsn) -> (Vec<WalRecord>, EndOfWal) {
        self.try_read_all(start).expect("readable log")
    }

    pub fn try_read_all(&mut self, start: Lsn) -> Result<(Vec<WalRecord>, EndOfWal), WalReadError> {
        let reader = self.reader(start);
        self.drain(reader)
    }

    /// Reads to the end.
    pub fn drain(
        &mut self,
        mut reader: WalReader,
    ) -> Result<(Vec<WalRecord>, EndOfWal), WalReadError> {
        let mut records = Vec::new();
        while let Some(record) = reader.next(&mut self.io)? {
            records.push(record);
        }
        Ok((records, reader.end().expect("an end").clone()))
    }

    pub fn backend(&self) -> IoBackend {
        self.aio.backend(BackendType::Client).expect("backend")
    }

    pub fn segment_path(&self, number: u64) -> PathBuf {
        self.config.dir.join(segment_size().file_name(1, number))
    }

    /// Changes bytes of the log on disk.
    pub fn patch(&self, at: Lsn, change: impl FnOnce(&mut [u8])) {
        let path = self.segment_path(segment_size().number(at));
        let mut bytes = std::fs::read(&path).expect("segment");
        change(&mut bytes[segment_size().offset(at) as usize..]);
        std::fs::write(&path, bytes).expect("segment");
    }

    /// Names in the directory, sorted.
    pub fn names(&self) -> Vec<String> {
        names(&self.config.dir)
    }
}

pub fn segment_size() -> SegmentSize {
    SegmentSize::new(SEGMENT as u32).expect("size")
}

pub fn from_scratch() -> Resume {
    Resume { insert_at: BEGIN, prev: Lsn(0), redo: Lsn(0), aborted: None }
}

/// A record with only main data.
pub fn plain(main: &[u8]) -> Record<'_> {
    // XLOG_NOOP: pg_waldump and recovery accept any payload.
    Record { rmgr: Rmgr::XLOG, info: 0x20, xid: 7, main, blocks: &[] }
}

pub fn insert(wal: &Wal, io: &mut IoBackend, main: &[u8]) -> Inserted {
    wal.insert(io, &plain(main)).expect("insert")
}

/// The main data of a record of exactly `total` bytes, at least 27.
pub fn main_for(total: usize, fill: u8) -> Vec<u8> {
    let header = if total - 24 - 2 < 256 { 26 } else { 29 };
    vec![fill; total - header]
}

/// Inserts one record that ends exactly at `end`, at least 32 bytes from here.
pub fn fill_up_to(wal: &Wal, io: &mut IoBackend, end: Lsn, fill: u8) -> Inserted {
    let positions = Positions::new(SEGMENT);
    let pos = |lsn| positions.byte_pos(lsn).expect("not in a page header");
    let at = insert(wal, io, &main_for((pos(end) - pos(wal.end_lsn())) as usize, fill));
    assert_eq!(at.end, end);
    at
}

pub fn mains(records: &[WalRecord]) -> Vec<Vec<u8>> {
    records.iter().map(|record| record.decode().expect("decodable").main.to_vec()).collect()
}
