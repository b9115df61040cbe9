//! A log, an archive, and a disk with planned faults.

use std::fs;
use std::path::PathBuf;

use forebay_aio::fault::FaultPlan;
use forebay_aio::sync::{Arc, Instant};
use forebay_aio::{Aio, BackendType, IoBackend, MethodKind};
use forebay_archive::modules::Basic;
use forebay_archive::{
    Archiver, ArchiverConfig, DurableDir, Expected, Next, Source, SourceOptions, WalName,
};
use forebay_format::Lsn;
use forebay_testkit::files::names;
use forebay_testkit::io::{each_way, open_faulty};
use tempfile::TempDir;

use crate::common::segments::segment_bytes_of;
pub use crate::common::segments::{SIZE, SYSTEM, wal_name as name};

/// Name of a segment.
pub fn segment(timeline: u32, number: u64) -> WalName {
    name(&SIZE.file_name(timeline, number))
}

/// A segment's contents, which follow from its name.
pub fn contents(timeline: u32, number: u64) -> Vec<u8> {
    segment_bytes_of(SIZE, timeline, number, SYSTEM)
}

/// Where a segment begins.
pub fn start(number: u64) -> Lsn {
    SIZE.start(number)
}

pub struct Fixture {
    // Dropped before its directory.
    pub io: IoBackend,
    pub aio: Arc<Aio>,
    pub plan: Arc<FaultPlan>,
    pub direct: bool,
    pub dir: TempDir,
}

/// Runs a test with every I/O method, with and without direct I/O.
pub fn each(test: impl Fn(&mut Fixture)) {
    each_way(|method, direct| test(&mut Fixture::new(method, direct)));
}

impl Fixture {
    pub fn plain() -> Fixture {
        Fixture::new(MethodKind::Sync, false)
    }

    pub fn new(method: MethodKind, direct: bool) -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("pg_wal/archive_status")).unwrap();
        fs::create_dir(dir.path().join("archive")).unwrap();
        let plan = FaultPlan::new();
        let aio = open_faulty(&plan, method);
        let io = aio.backend(BackendType::Standalone).unwrap();
        Fixture { io, aio, plan, direct, dir }
    }

    pub fn wal(&self) -> PathBuf {
        self.dir.path().join("pg_wal")
    }

    pub fn archive(&self) -> PathBuf {
        self.dir.path().join("archive")
    }

    /// Puts a file into the log.
    pub fn put(&self, name: &WalName, bytes: &[u8]) {
        fs::write(self.wal().join(name.as_str()), bytes).unwrap();
    }

    /// Puts a segment into the log, with its `.ready`.
    pub fn put_ready(&self, timeline: u32, number: u64) -> WalName {
        let name = segment(timeline, number);
        self.put(&name, &contents(timeline, number));
        self.mark(&name.ready());
        name
    }

    pub fn mark(&self, mark: &str) {
        fs::write(self.wal().join("archive_status").join(mark), "").unwrap();
    }

    /// The status files, sorted.
    pub fn marks(&self) -> Vec<String> {
        names(&self.wal().join("archive_status"))
    }

    /// The names in the archive, sorted.
    pub fn stored(&self) -> Vec<String> {
        names(&self.archive())
    }

    pub fn options(&self) -> SourceOptions {
        SourceOptions { expected: expected(), direct: self.direct, ..SourceOptions::default() }
    }

    pub fn source(&self, name: &WalName) -> forebay_archive::Result<Source> {
        Source::open(&self.aio, &self.wal(), name, &self.options())
    }

    pub fn durable_dir(&self) -> DurableDir {
        DurableDir::new(&self.aio, &self.archive(), self.direct)
    }

    pub fn basic(&self) -> Arc<Basic> {
        Arc::new(Basic::new(&self.aio, self.archive(), self.direct))
    }

    pub fn archiver(&self, transfers: Option<usize>) -> Arc<Archiver> {
        let config = ArchiverConfig { expected: expected(), direct: self.direct, transfers };
        Archiver::new(&self.aio, &self.wal(), config)
    }

    /// Makes steps at the time `now` until there is nothing to do.
    pub fn work(&mut self, archiver: &Archiver, now: Instant) -> Next {
        loop {
            match archiver.step(&mut self.io, now).unwrap() {
                Next::Worked => {}
                rest => return rest,
            }
        }
    }
}

pub fn expected() -> Expected {
    Expected { system_id: Some(SYSTEM), segment_size: Some(SIZE), magic: None }
}
