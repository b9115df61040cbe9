//! The options of `forebay bench wal`, and the runs that follow from them.

use std::path::PathBuf;

use forebay_aio::MethodKind;
use forebay_aio::sync::Duration;
use forebay_wal::{SyncMethod, WalConfig};
use serde::{Serialize, Serializer};

use crate::error::BenchError;
use crate::methods::{MAX_DEPTH, best_method, method_name, mode};

/// A table of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalTable {
    /// Commits: insert a record, wait until it is durable.
    Commit,
    /// Insertion into memory alone.
    Insert,
    /// Bulk insertion, flushed at intervals.
    Bulk,
}

impl WalTable {
    /// All tables, in the order of their runs.
    pub const ALL: [WalTable; 3] = [WalTable::Commit, WalTable::Insert, WalTable::Bulk];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            WalTable::Commit => "commit",
            WalTable::Insert => "insert",
            WalTable::Bulk => "bulk",
        }
    }
}

/// What to measure, and where.
#[derive(Clone, Debug)]
pub struct WalBench {
    /// A directory, in which the log gets a private one.
    pub dir: PathBuf,
    /// Tables wanted.
    pub tables: Vec<WalTable>,
    /// wal_sync_method.
    pub sync_methods: Vec<SyncMethod>,
    /// Buffered, direct or both.
    pub direct: Vec<bool>,
    /// One write takes all blocks that are ready, or each block is a write of its own.
    pub gather: Vec<bool>,
    /// io_method.
    pub methods: Vec<MethodKind>,
    /// Numbers of committers.
    pub committers: Vec<u32>,
    /// Bytes of a committer's record in the log, multiples of 8. [`WalBench::WHOLE_BLOCK`] fills a
    /// block.
    pub record_sizes: Vec<u32>,
    /// Numbers of inserting threads, for the other tables.
    pub inserters: Vec<u32>,
    /// Bytes of an inserter's record.
    pub insert_sizes: Vec<u32>,
    /// Most log writes in flight. None: the server's number, or one for each committer where each
    /// block becomes durable by a write of its own.
    pub in_flight: Option<u32>,
    /// wal_buffers in bytes.
    pub wal_buffers: u64,
    /// Bytes of segments that exist before a run.
    pub size: u64,
    /// Length of a run.
    pub run_time: Duration,
    /// How often each run is made.
    pub rounds: usize,
    /// Neither fio nor pg_test_fsync is run.
    pub alone: bool,
    /// The command that runs pg_test_fsync. None: the one in PATH, or where Debian keeps it.
    pub pg_test_fsync: Option<String>,
}

impl WalBench {
    /// Bytes of a record that fills a block behind the page's header.
    pub const WHOLE_BLOCK: u32 = 8192 - 24;
    /// Most committers or inserters.
    pub const MOST_THREADS: u32 = 512;
    /// Bytes of the largest record.
    pub const MOST_BYTES: u32 = 1 << 20;
    /// Bytes of the smallest record: its header, and some data.
    pub const LEAST_BYTES: u32 = 32;

    /// All tables, with `io_uring` where the kernel allows it.
    pub fn new(dir: PathBuf) -> WalBench {
        WalBench {
            dir,
            tables: WalTable::ALL.to_vec(),
            sync_methods: SyncMethod::NAMES.map(|(_, method)| method).to_vec(),
            direct: vec![false, true],
            gather: vec![false, true],
            methods: vec![best_method()],
            committers: vec![1, 2, 4, 8, 16, 32, 64],
            record_sizes: vec![128, WalBench::WHOLE_BLOCK],
            inserters: vec![1, 2, 4],
            insert_sizes: vec![64, 256, 1024, WalBench::WHOLE_BLOCK],
            in_flight: None,
            wal_buffers: 16 << 20,
            size: 256 << 20,
            run_time: Duration::from_millis(250),
            rounds: 3,
            alone: false,
            pg_test_fsync: None,
        }
    }

    /// Refuses options that make no sense.
    pub(super) fn check(&self) -> Result<(), BenchError> {
        let refuse = |what: String| Err(BenchError::Options(what));
        let threads =
            |counts: &[u32]| counts.iter().all(|n| (1..=WalBench::MOST_THREADS).contains(n));
        if !threads(&self.committers) || !threads(&self.inserters) {
            return refuse(format!(
                "committers and inserters must be in range 1..{}",
                WalBench::MOST_THREADS
            ));
        }
        let (least, most) = (WalBench::LEAST_BYTES, WalBench::MOST_BYTES);
        let fits = |size: &u32| (least..=most).contains(size) && size.is_multiple_of(8);
        if !self.record_sizes.iter().chain(&self.insert_sizes).all(fits) {
            return refuse(format!("records have {least} to {most} bytes, a multiple of 8"));
        }
        if self.in_flight.is_some_and(|n| !(1..=MAX_DEPTH).contains(&n)) {
            return refuse(format!("writes in flight must be in range 1..{MAX_DEPTH}"));
        }
        if self.rounds == 0 {
            return refuse("there must be at least one round".to_owned());
        }
        if self.size < LEAST_SIZE {
            return refuse(format!("the log needs room for at least {} MB", LEAST_SIZE >> 20));
        }
        Ok(())
    }

    pub(super) fn wants(&self, table: WalTable) -> bool {
        self.tables.contains(&table)
    }

    /// Most threads of a run.
    pub(super) fn most_threads(&self) -> u32 {
        self.committers.iter().chain(&self.inserters).copied().fold(1, u32::max)
    }
}

/// Four segments.
const LEAST_SIZE: u64 = 64 << 20;

/// wal_sync_method: names and methods.
pub const WAL_SYNC_METHODS: [(&str, SyncMethod); 4] = SyncMethod::NAMES;

/// How a run makes the log durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct WalSetup {
    #[serde(serialize_with = "method_name")]
    pub(super) method: MethodKind,
    #[serde(rename = "wal_sync_method", serialize_with = "sync_name")]
    pub(super) sync: SyncMethod,
    /// Without the kernel's page cache.
    pub(super) direct: bool,
    /// One write takes all blocks that are ready.
    pub(super) gather: bool,
    /// Most log writes in flight.
    #[serde(rename = "most_in_flight")]
    pub(super) in_flight: u32,
}

fn sync_name<S: Serializer>(sync: &SyncMethod, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(sync.name())
}

impl WalSetup {
    pub(super) fn name(&self) -> String {
        format!("{}, {}", self.sync.name(), self.method.name())
    }

    pub(super) fn gathers(&self) -> String {
        if self.gather { "yes" } else { "no" }.to_owned()
    }

    pub(super) fn cells(&self) -> [String; 3] {
        [self.name(), mode(self.direct).to_owned(), self.gathers()]
    }
}

/// A run: of the table of commits, or of the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) setup: WalSetup,
    pub(super) record_size: u32,
    /// Committers or inserters.
    pub(super) threads: u32,
}

impl WalBench {
    /// All setups with these methods and modes.
    pub(super) fn setups(&self, methods: &[MethodKind], direct: &[bool]) -> Vec<WalSetup> {
        let in_flight = self.in_flight.unwrap_or(WalConfig::WRITES_IN_FLIGHT as u32);
        let mut setups = Vec::new();
        for &method in methods {
            for &sync in &self.sync_methods {
                for &direct in direct {
                    setups.extend(self.gather.iter().map(|&gather| WalSetup {
                        method,
                        sync,
                        direct,
                        gather,
                        in_flight,
                    }));
                }
            }
        }
        setups
    }

    /// The runs with this many committers.
    pub(super) fn commits(&self, setups: &[WalSetup], committers: u32) -> Vec<Case> {
        let case = |setup: WalSetup, record_size| {
            // Where each block becomes durable by a write of its own, no write waits for another.
            let own_writes = !setup.gather && setup.sync.opens_synchronous();
            let in_flight = match self.in_flight {
                None if own_writes => setup.in_flight.max(committers),
                _ => setup.in_flight,
            };
            Case { setup: WalSetup { in_flight, ..setup }, record_size, threads: committers }
        };
        let sizes = self.record_sizes.iter();
        sizes.flat_map(|&size| setups.iter().map(move |&setup| case(setup, size))).collect()
    }

    /// The runs of insertion alone. Nothing is written, so one setup is as good as another.
    pub(super) fn inserts(&self, setups: &[WalSetup]) -> Vec<Case> {
        let Some(&setup) = setups.first() else { return Vec::new() };
        let case = |record_size, threads| Case { setup, record_size, threads };
        let sizes = self.insert_sizes.iter();
        sizes.flat_map(|&size| self.inserters.iter().map(move |&n| case(size, n))).collect()
    }

    /// The runs of bulk insertion, which gather unless nothing else is wanted.
    pub(super) fn bulks(&self, setups: &[WalSetup]) -> Vec<Case> {
        let threads = self.inserters.iter().copied().fold(1, u32::max);
        let gathering = setups.iter().filter(|way| way.gather || !self.gather.contains(&true));
        let case = |&setup| Case { setup, record_size: WalBench::WHOLE_BLOCK, threads };
        gathering.map(case).collect()
    }
}
