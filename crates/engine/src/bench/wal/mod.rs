//! The write-ahead log: commits by several committers, insertion alone, bulk insertion.
//!
//! - `log`: a private log, opened for each run where the run before ended
//! - `commit`: committers, each of whom inserts a record and waits until it is durable
//! - `insert`: insertion that nothing is written of; bulk insertion that is flushed now and then
//! - `latency`: percentiles
//! - `report`: what the runs gave
//!
//! Runs take turns, round after round, and in each round the device is asked first what it gives
//! (by whom, the caller says). The log's segments are made before the clock starts, and those that
//! are full are recycled behind a run.

mod commit;
mod insert;
mod latency;
mod log;
mod report;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::sync::Duration;
use forebay_aio::{Aio, AioConfig, MethodKind, Namespace, PosixNamespace, probe_io_uring};
use forebay_wal::{SyncMethod, WalConfig};
use latency::Latencies;
use log::Log;

use super::file::Place;
use super::{BenchError, IoBench, MethodChoice};

pub use report::{BulkRow, CommitRow, DeviceRow, InsertRow, WalReport};

/// A table of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalTable {
    /// Commits, each waited for.
    Commit,
    /// Insertion into memory alone.
    Insert,
    /// Insertion of much, flushed now and then.
    Bulk,
}

impl WalTable {
    /// All, in the order they are run.
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
    /// A directory; the log gets one of its own in there, for the time of the run.
    pub dir: PathBuf,
    /// Tables wanted.
    pub tables: Vec<WalTable>,
    /// wal_sync_method.
    pub sync_methods: Vec<SyncMethod>,
    /// Buffered, direct or both.
    pub direct: Vec<bool>,
    /// Whether one write takes all blocks that are ready, or each block is a write of its own.
    pub gather: Vec<bool>,
    /// io_method.
    pub methods: Vec<MethodChoice>,
    /// How many commit at a time.
    pub committers: Vec<u32>,
    /// Bytes of a committer's record in the log, multiples of 8. [`WalBench::WHOLE_BLOCK`] fills a
    /// block.
    pub record_sizes: Vec<u32>,
    /// Threads that insert, of the other tables.
    pub inserters: Vec<u32>,
    /// Bytes of their records.
    pub insert_sizes: Vec<u32>,
    /// Most pieces on their way at once, each written by one committer. None: as many as the server
    /// has, but as many as there are committers where each block is durable by a write of its own.
    pub in_flight: Option<u32>,
    /// wal_buffers in bytes.
    pub wal_buffers: u64,
    /// Bytes of segments that are there before a run.
    pub size: u64,
    /// Length of a run.
    pub run_time: Duration,
    /// How often each run is made.
    pub rounds: usize,
}

/// A question to the device, answered beside the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceJob {
    /// Durable writes of 8 KiB a second, so many in flight.
    Commits(u32),
    /// Bytes a second of durable writes of 128 KiB, 16 in flight.
    Bulk,
    /// Bytes a second of storing: the files of the directory's `pg_wal` are read and as many new
    /// ones of their size written at the same time, by 512 KiB: 4 reads in flight, and by each of 4
    /// who write, 2 writes. New files are reserved, and each is synced.
    Store,
}

impl DeviceJob {
    /// Writes in flight of [`DeviceJob::Bulk`].
    pub const BULK_DEPTH: u32 = 16;
    /// Writes in flight of [`DeviceJob::Store`], of all who write.
    pub const STORE_DEPTH: u32 = 8;
}

/// Answers: what the device gives, asked in this directory, within such a time (storing takes its
/// own); None: nobody knows.
pub type AskDevice<'a> = dyn FnMut(&Path, DeviceJob, Duration) -> Result<Option<f64>, String> + 'a;

impl WalBench {
    /// A record that fills a block: all of it but the page's header.
    pub const WHOLE_BLOCK: u32 = 8192 - 24;
    /// Most committers or inserters.
    pub const MOST_THREADS: u32 = 512;
    /// Largest record.
    pub const MOST_BYTES: u32 = 1 << 20;
    /// Smallest record: its header, and some data.
    pub const LEAST_BYTES: u32 = 32;

    /// What the table of commits is about, with io_uring where it can be had.
    pub fn new(dir: PathBuf) -> WalBench {
        let method = match probe_io_uring() {
            Ok(()) => MethodKind::IoUring,
            Err(_) => MethodKind::Worker(forebay_aio::WorkerLimits::default()),
        };
        WalBench {
            dir,
            tables: WalTable::ALL.to_vec(),
            sync_methods: SyncMethod::NAMES.map(|(_, method)| method).to_vec(),
            direct: vec![false, true],
            gather: vec![false, true],
            methods: vec![method],
            committers: vec![1, 2, 4, 8, 16, 32, 64],
            record_sizes: vec![128, WalBench::WHOLE_BLOCK],
            inserters: vec![1, 2, 4],
            insert_sizes: vec![64, 256, 1024, WalBench::WHOLE_BLOCK],
            in_flight: None,
            wal_buffers: 16 << 20,
            size: 256 << 20,
            run_time: Duration::from_millis(250),
            rounds: 3,
        }
    }

    /// Refuses what makes no sense.
    fn check(&self) -> Result<(), BenchError> {
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
        if self.in_flight.is_some_and(|n| !(1..=IoBench::MAX_DEPTH).contains(&n)) {
            return refuse(format!("writes in flight must be in range 1..{}", IoBench::MAX_DEPTH));
        }
        if self.rounds == 0 {
            return refuse("there must be at least one round".to_owned());
        }
        if self.size < LEAST_SIZE {
            return refuse(format!("the log needs room for at least {} MB", LEAST_SIZE >> 20));
        }
        Ok(())
    }

    fn wants(&self, table: WalTable) -> bool {
        self.tables.contains(&table)
    }

    /// Most threads of a run.
    fn most_threads(&self) -> u32 {
        self.committers.iter().chain(&self.inserters).copied().max().unwrap_or(1)
    }
}

/// Four segments.
const LEAST_SIZE: u64 = 64 << 20;

/// wal_sync_method: names and methods.
pub const WAL_SYNC_METHODS: [(&str, SyncMethod); 4] = SyncMethod::NAMES;

/// One way of making the log durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalWay {
    /// io_method.
    pub method: MethodKind,
    /// wal_sync_method.
    pub sync: SyncMethod,
    /// Past the kernel's page cache.
    pub direct: bool,
    /// One write takes all blocks that are ready.
    pub gather: bool,
    /// Most pieces on their way at once.
    pub in_flight: u32,
}

impl WalWay {
    /// Most pieces on their way at once, unless it was said. Where each block is durable by a write
    /// of its own, nobody's waits for another's.
    fn pieces_in_flight(&self, committers: u32) -> u32 {
        let is_alone = !self.gather && self.sync.opens_synchronous();
        if is_alone { self.in_flight.max(committers) } else { self.in_flight }
    }
}

/// What a run gave.
#[derive(Clone, Debug, Default)]
struct Sample {
    seconds: f64,
    cpu_seconds: f64,
    /// Records that were inserted, and the bytes they take in the log.
    records: u64,
    record_bytes: u64,
    writes: u64,
    write_bytes: u64,
    syncs: u64,
    /// The time of all writes and syncs together.
    io_seconds: f64,
    /// How often an inserter had to make room in the buffers.
    buffers_full: u64,
    /// How often one who had something to insert waited for a segment to be made.
    segment_waits: u64,
    latencies: Latencies,
    /// What the device gave in the same round: writes a second, or bytes.
    device: Option<f64>,
}

/// Measures. `progress` is told how many runs of how many are done.
pub fn bench_wal(
    bench: &WalBench,
    ask: &mut AskDevice<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<WalReport, BenchError> {
    bench.check()?;
    let place = match Place::find(&bench.dir)? {
        place @ Place::Directory(_) => place,
        Place::File(path, _) => {
            return Err(BenchError::Path { path, reason: "is not a directory".to_owned() });
        }
    };
    // Its segments, those that a fast run makes beyond them, and the file of the device's figures.
    place.check_space(bench.size.saturating_mul(3))?;
    let (doors, direct, notes) = open(bench)?;
    let mut plan = Plan::new(bench, &doors, &direct);
    let mut log = Log::make(&bench.dir, bench.size)?;
    let total = plan.runs() * bench.rounds as u64;
    let mut done = 0;
    for _ in 0..bench.rounds {
        plan.round(&mut log, ask, &mut || {
            done += 1;
            progress(done, total);
        })?;
    }
    Ok(plan.report(notes))
}

/// A method's door.
struct Door {
    method: MethodKind,
    aio: Arc<Aio>,
}

type Doors = (Vec<Door>, Vec<bool>, Vec<String>);

/// The methods and modes that can be had here, and what is to be said of the others.
fn open(bench: &WalBench) -> Result<Doors, BenchError> {
    let mut notes = Vec::new();
    let mut doors = Vec::new();
    let config =
        AioConfig { max_backends: bench.most_threads() as usize + 4, ..AioConfig::default() };
    for &method in &bench.methods {
        match Aio::new(Arc::new(PosixNamespace::new()), method, config) {
            Ok(aio) => doors.push(Door { method, aio }),
            Err(why) => notes.push(format!("No {}: {why}.", method.name())),
        }
    }
    if doors.is_empty() {
        return Err(BenchError::Options(notes.join(" ")));
    }
    let refusal = PosixNamespace::new().probe_direct(&bench.dir).err();
    let mut direct = bench.direct.clone();
    if let Some(why) = refusal.filter(|_| direct.contains(&true)) {
        notes.push(format!("No direct I/O: {why}."));
        direct.retain(|direct| !direct);
    }
    Ok((doors, direct, notes))
}

/// One run of the table of commits.
#[derive(Clone, Copy)]
struct CommitCase {
    way: WalWay,
    record_size: u32,
    committers: u32,
}

/// One run of the other tables.
#[derive(Clone, Copy)]
struct InsertCase {
    way: WalWay,
    record_size: u32,
    inserters: u32,
}

/// All runs with what they gave so far.
struct Plan<'a> {
    bench: &'a WalBench,
    doors: &'a [Door],
    device: Vec<(DeviceJob, Vec<f64>)>,
    commits: Vec<(CommitCase, Vec<Sample>)>,
    inserts: Vec<(InsertCase, Vec<Sample>)>,
    bulks: Vec<(InsertCase, Vec<Sample>)>,
}

impl<'a> Plan<'a> {
    fn new(bench: &'a WalBench, doors: &'a [Door], direct: &[bool]) -> Plan<'a> {
        let mut ways = Vec::new();
        for door in doors {
            for &sync in &bench.sync_methods {
                for &direct in direct {
                    for &gather in &bench.gather {
                        let in_flight =
                            bench.in_flight.unwrap_or(WalConfig::WRITES_IN_FLIGHT as u32);
                        ways.push(WalWay { method: door.method, sync, direct, gather, in_flight });
                    }
                }
            }
        }
        let mut plan =
            Plan { bench, doors, device: vec![], commits: vec![], inserts: vec![], bulks: vec![] };
        if bench.wants(WalTable::Commit) {
            for &committers in &bench.committers {
                plan.device.push((DeviceJob::Commits(committers), Vec::new()));
                for &record_size in &bench.record_sizes {
                    let cases = ways.iter().map(|&way| {
                        let in_flight = bench.in_flight.unwrap_or(way.pieces_in_flight(committers));
                        CommitCase { way: WalWay { in_flight, ..way }, record_size, committers }
                    });
                    plan.commits.extend(cases.map(|case| (case, Vec::new())));
                }
            }
        }
        if bench.wants(WalTable::Insert) {
            // Nothing is written: one way is as good as another.
            plan.inserts = insert_cases(bench, ways.first());
        }
        if bench.wants(WalTable::Bulk) {
            plan.device.push((DeviceJob::Bulk, Vec::new()));
            let gathering = ways.iter().filter(|way| way.gather || !bench.gather.contains(&true));
            let most = bench.inserters.iter().copied().max().unwrap_or(1);
            for &way in gathering {
                let case = InsertCase { way, record_size: WalBench::WHOLE_BLOCK, inserters: most };
                plan.bulks.push((case, Vec::new()));
            }
        }
        plan
    }

    fn runs(&self) -> u64 {
        (self.commits.len() + self.inserts.len() + self.bulks.len()) as u64
    }

    fn round(
        &mut self,
        log: &mut Log,
        ask: &mut AskDevice<'_>,
        tick: &mut dyn FnMut(),
    ) -> Result<(), BenchError> {
        let bench = self.bench;
        for (job, rates) in &mut self.device {
            let rate = ask(log.dir(), *job, bench.run_time).map_err(BenchError::Options)?;
            rates.extend(rate);
            if let DeviceJob::Commits(depth) = *job {
                for (case, samples) in
                    self.commits.iter_mut().filter(|(it, _)| it.committers == depth)
                {
                    let sample =
                        log.run(aio(self.doors, case.way), case.way, bench.wal_buffers, |run| {
                            commit::run(run, case, bench.run_time)
                        })?;
                    samples.push(Sample { device: rate, ..sample });
                    tick();
                }
            }
        }
        for (case, samples) in &mut self.inserts {
            let ring = insert::RING.min(bench.size / 2);
            samples.push(log.run(aio(self.doors, case.way), case.way, ring, |run| {
                insert::alone(run, case, ring)
            })?);
            tick();
        }
        let rate = self.device.iter().find(|(job, _)| *job == DeviceJob::Bulk);
        let rate = rate.and_then(|(_, rates)| rates.last().copied());
        for (case, samples) in &mut self.bulks {
            let sample =
                log.run(aio(self.doors, case.way), case.way, bench.wal_buffers, |run| {
                    insert::bulk(run, case, bench.run_time)
                })?;
            samples.push(Sample { device: rate, ..sample });
            tick();
        }
        Ok(())
    }

    fn report(&self, notes: Vec<String>) -> WalReport {
        WalReport {
            bench: self.bench.clone(),
            filesystem: forebay_aio::direct::filesystem_name(&self.bench.dir),
            notes,
            device: self
                .device
                .iter()
                .filter_map(|(job, rates)| DeviceRow::of(*job, rates))
                .collect(),
            commits: self
                .commits
                .iter()
                .map(|(case, samples)| CommitRow::of(case, samples))
                .collect(),
            inserts: self
                .inserts
                .iter()
                .map(|(case, samples)| InsertRow::of(case, samples))
                .collect(),
            bulks: self.bulks.iter().map(|(case, samples)| BulkRow::of(case, samples)).collect(),
            pg_test_fsync: Vec::new(),
        }
    }
}

fn insert_cases(bench: &WalBench, way: Option<&WalWay>) -> Vec<(InsertCase, Vec<Sample>)> {
    let mut cases = Vec::new();
    for &record_size in &bench.insert_sizes {
        for &inserters in &bench.inserters {
            cases.extend(way.map(|&way| (InsertCase { way, record_size, inserters }, Vec::new())));
        }
    }
    cases
}

/// The door of a way.
fn aio(doors: &[Door], way: WalWay) -> &Arc<Aio> {
    let door = doors.iter().find(|door| door.method == way.method);
    &door.expect("a way goes through a door that is open").aio
}
