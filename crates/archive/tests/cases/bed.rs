//! A log, an archive, and a disk that fails as a plan says.

use std::fs;
use std::path::{Path, PathBuf};

use forebay_aio::fault::FaultPlan;
use forebay_aio::sync::{Arc, Instant};
use forebay_aio::{
    Aio, AioConfig, Backend, BackendType, MethodKind, PosixNamespace, WorkerLimits, probe_direct,
    probe_io_uring,
};
use forebay_archive::modules::Basic;
use forebay_archive::{
    Archiver, ArchiverConfig, Expected, Next, Place, Source, SourceOptions, WalName,
};
use forebay_format::wal::page_header::{LongHeader, PageHeader};
use forebay_format::{Lsn, SegmentSize};
use tempfile::TempDir;

/// The cluster of the tests.
pub const SYSTEM: u64 = 7_000_000_000_000_000_001;

/// The smallest segments there are.
pub fn size() -> SegmentSize {
    SegmentSize::new(1 << 20).expect("a size")
}

/// Name of a segment.
pub fn segment(timeline: u32, number: u64) -> WalName {
    WalName::parse(&size().file_name(timeline, number)).expect("a name")
}

/// Any name.
pub fn name(text: &str) -> WalName {
    WalName::parse(text).expect("a name")
}

/// A segment's contents, which follow from its name.
pub fn contents(timeline: u32, number: u64) -> Vec<u8> {
    contents_of(size(), timeline, number)
}

/// The same, for segments of some size.
pub fn contents_of(size: SegmentSize, timeline: u32, number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes: Vec<u8> = Vec::with_capacity(size.bytes() as usize);
    while bytes.len() < size.bytes() as usize {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    let long = LongHeader { system_id: SYSTEM, segment_size: size.get(), block_size: 8192 };
    let start = size.start(number);
    PageHeader { info: 0, timeline, page_addr: start, rem_len: 0, long: Some(long) }
        .encode(&mut bytes);
    bytes
}

/// Where a segment begins.
pub fn start(number: u64) -> Lsn {
    size().start(number)
}

pub struct Bed {
    // Dropped before the directory that it works in.
    pub io: Backend,
    pub aio: Arc<Aio>,
    pub plan: Arc<FaultPlan>,
    pub direct: bool,
    pub dir: TempDir,
}

/// Runs a test over every method, buffered and direct.
pub fn each(test: impl Fn(&mut Bed)) {
    let mut methods = vec![
        MethodKind::Sync,
        MethodKind::Worker(WorkerLimits::fixed(2)),
        MethodKind::PosixAio,
        MethodKind::Deferred { seed: 1 },
    ];
    match probe_io_uring() {
        Ok(()) => methods.push(MethodKind::IoUring),
        Err(why) => eprintln!("io_uring is left out: {why}"),
    }
    let direct = probe_direct(tempfile::tempdir().unwrap().path());
    for method in methods {
        test(&mut Bed::new(method, false));
        match &direct {
            Ok(_) => test(&mut Bed::new(method, true)),
            Err(why) => eprintln!("direct I/O is left out: {why}"),
        }
    }
}

impl Bed {
    pub fn plain() -> Bed {
        Bed::new(MethodKind::Sync, false)
    }

    pub fn new(method: MethodKind, direct: bool) -> Bed {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("pg_wal/archive_status")).unwrap();
        fs::create_dir(dir.path().join("archive")).unwrap();
        let plan = FaultPlan::new();
        let config =
            AioConfig { max_backends: 24, handles_per_backend: 16, ..AioConfig::default() };
        let aio = plan.open(Arc::new(PosixNamespace), method, config).unwrap();
        let io = aio.backend(BackendType::Standalone).unwrap();
        Bed { io, aio, plan, direct, dir }
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

    /// Puts a segment into the log, and marks it.
    pub fn put_ready(&self, timeline: u32, number: u64) -> WalName {
        let name = segment(timeline, number);
        self.put(&name, &contents(timeline, number));
        self.mark(&name.ready());
        name
    }

    pub fn mark(&self, mark: &str) {
        fs::write(self.wal().join("archive_status").join(mark), "").unwrap();
    }

    /// The marks there are, sorted.
    pub fn marks(&self) -> Vec<String> {
        list(&self.wal().join("archive_status"))
    }

    /// The names in the archive, sorted.
    pub fn stored(&self) -> Vec<String> {
        list(&self.archive())
    }

    pub fn options(&self) -> SourceOptions {
        SourceOptions { expected: expected(), direct: self.direct, ..SourceOptions::default() }
    }

    pub fn source(&self, name: &WalName) -> forebay_archive::error::Result<Source> {
        Source::open(&self.aio, &self.wal(), name, &self.options())
    }

    pub fn place(&self) -> Place {
        Place::new(&self.aio, &self.archive(), self.direct)
    }

    pub fn basic(&self) -> Arc<Basic> {
        Arc::new(Basic::new(&self.aio, self.archive(), self.direct))
    }

    pub fn archiver(&self, transfers: Option<usize>) -> Arc<Archiver> {
        let config = ArchiverConfig { expected: expected(), direct: self.direct, transfers };
        Archiver::new(&self.aio, &self.wal(), config)
    }

    /// Steps at one moment, until there is nothing to do.
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
    Expected { system_id: Some(SYSTEM), segment_size: Some(size()), magic: None }
}

/// The names in a directory, sorted.
pub fn list(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
