//! Inserters, committers and checkpoints in interleavings that shuttle chooses: reservation,
//! copying, concurrent writes and syncs, too few buffers, a segment boundary, a redo pointer that
//! moves, a disk that fails.
//!
//! Only a build for shuttle has these tests:
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p forebay-wal --test interleavings \
//!     --target-dir target/shuttle
//! ```
//!
//! FOREBAY_SHUTTLE_ROUNDS sets the number of interleavings of each scenario. A failing one prints a
//! schedule, which `shuttle::replay` repeats. The files are real ones in memory. A thread that is
//! not woken shows as a deadlock. The disk checks that no block is in two writes at once, and that
//! no block changes while it is written. It records durable blocks apart from written ones, so that
//! a test can check that what was acknowledged is durable.
#![cfg(shuttle)]

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use forebay_aio::execute::{Executor, PosixExecutor, Request};
use forebay_aio::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use forebay_aio::sync::{Arc, thread};
use forebay_aio::{
    Aio, AioConfig, BackendType, Errno, IoBackend, MethodKind, OpKind, PosixNamespace,
};
use forebay_format::wal::{
    PageHeader, Rmgr,
    page_header::{LONG_SIZE, LongHeader},
};
use forebay_format::{
    BLOCK_SIZE, Fork, Lsn, PageBytes, PageMut, PageTag, RelFileLocator, SegmentSize,
};
use shuttle::rand::{Rng as _, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};

use forebay_wal::{
    BlockFlags, BlockRef, CheckpointKind, Inserted, ReaderConfig, Record, Resume, SyncMethod, Wal,
    WalConfig, WalReader, WalRecord,
};

const SEGMENT: u64 = 1 << 20;
const BLOCK: u64 = 8192;
/// The log begins this many blocks before the end of segment 1.
const LAST_BLOCKS: u64 = 3;
const BEGIN: Lsn = Lsn(2 * SEGMENT - LAST_BLOCKS * BLOCK);
/// Length of the main data of a record that fills a block: the headers of the page, the record and
/// the data have 24, 24 and 5 bytes.
const WHOLE_BLOCK: usize = BLOCK as usize - 24 - 24 - 5;
/// Most times that a write or sync yields to other threads: enough for an insertion and a write by
/// another thread.
const MAX_YIELDS: u32 = 200;

/// The contents of the log's blocks, by position.
#[derive(Default)]
struct Blocks {
    written: BTreeMap<u64, Vec<u8>>,
    durable: BTreeMap<u64, Vec<u8>>,
    in_flight: Vec<(u64, u64)>,
    /// Most writes that were in flight at the same time.
    max_in_flight: usize,
}

/// A disk that records and checks writes.
#[derive(Default)]
struct WatchedDisk {
    blocks: Mutex<Blocks>,
    /// If it is n, the nth write or sync from now on fails.
    failing: AtomicUsize,
}

impl WatchedDisk {
    /// Not a lock that shuttle schedules: no thread yields while it holds it.
    fn blocks(&self) -> std::sync::MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, request: &Request<'_>, at: u64) -> Result<usize, Errno> {
        let before = bytes(request);
        let end = at + before.len() as u64;
        {
            let mut blocks = self.blocks();
            for &(from, upto) in &blocks.in_flight {
                assert!(end <= from || upto <= at, "{at:x} to {end:x} beside {from:x} to {upto:x}");
            }
            blocks.in_flight.push((at, end));
            blocks.max_in_flight = blocks.max_in_flight.max(blocks.in_flight.len());
        }
        take_time();
        let done = PosixExecutor.execute(request);
        take_time();
        assert!(before == bytes(request), "a block was changed while it was written");
        let mut blocks = self.blocks();
        blocks.in_flight.retain(|&(from, _)| from != at);
        for (n, block) in before.chunks(BLOCK as usize).enumerate() {
            let at = at + n as u64 * BLOCK;
            blocks.written.insert(at, block.to_vec());
            if request.file().is_dsync() {
                blocks.durable.insert(at, block.to_vec());
            }
        }
        done
    }
}

impl Executor for WatchedDisk {
    fn execute(&self, request: &Request<'_>) -> Result<usize, Errno> {
        let path = request.file().path().to_owned();
        let name = path.file_name().expect("name").to_string_lossy().into_owned();
        let Some((1, number)) = size().parse_file_name(&name) else {
            // A new segment, which is filled with zeros.
            return PosixExecutor.execute(request);
        };
        let start = number * SEGMENT;
        match request.op() {
            OpKind::Readv => PosixExecutor.execute(request),
            _ if self.failing.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)) == Ok(1) => {
                Err(Errno::IO)
            }
            OpKind::Writev => self.write(request, start + request.offset()),
            _ => {
                // The blocks that were written when the sync started.
                let synced: Vec<_> = {
                    let blocks = self.blocks();
                    let of_file = blocks.written.range(start..start + SEGMENT);
                    of_file.map(|(at, block)| (*at, block.clone())).collect()
                };
                take_time();
                self.blocks().durable.extend(synced);
                Ok(0)
            }
        }
    }
}

/// Yields as often as shuttle chooses, so that writes complete in any order.
fn take_time() {
    (0..thread_rng().gen_range(1..=MAX_YIELDS)).for_each(|_| thread::yield_now());
}

fn bytes(request: &Request<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for vector in request.vectors() {
        // SAFETY: the request's memory is valid until the attempt returns, and the log does not
        // change bytes that are being written.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(vector.ptr(), vector.len()) });
    }
    bytes
}

fn size() -> SegmentSize {
    SegmentSize::new(SEGMENT as u32).expect("size")
}

#[derive(Clone, Copy, Debug)]
struct Durability {
    sync: SyncMethod,
    direct: bool,
    gather: bool,
}

struct Fixture {
    dir: tempfile::TempDir,
    aio: Arc<Aio>,
    disk: Arc<WatchedDisk>,
    wal: Wal,
}

impl Fixture {
    fn new(durability: Durability, buffers: usize) -> Arc<Fixture> {
        let memory = std::path::Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let dir = dir.expect("directory");
        for number in [1, 2, 3] {
            let mut bytes = vec![0; SEGMENT as usize];
            if number == 1 {
                // Readers check the first page's header, wherever they start.
                let long = LongHeader {
                    system_id: 7,
                    segment_size: SEGMENT as u32,
                    block_size: BLOCK as u32,
                };
                let page_addr = Lsn(SEGMENT);
                PageHeader { info: 0, timeline: 1, page_addr, rem_len: 0, long: Some(long) }
                    .encode((&mut bytes[..LONG_SIZE]).try_into().expect("a header's length"));
            }
            std::fs::write(dir.path().join(size().file_name(1, number)), bytes).expect("segment");
        }
        let disk = Arc::new(WatchedDisk::default());
        let executor: Arc<dyn Executor> = Arc::<WatchedDisk>::clone(&disk);
        let config = AioConfig { max_backends: 6, handles_per_backend: 4, ..AioConfig::default() };
        let names = Arc::new(PosixNamespace::new());
        let start = |table| MethodKind::Sync.start(&table, &config);
        let aio = Aio::with_method(names, executor, config, start).expect("aio");
        let mut io = aio.backend(BackendType::Client).expect("backend");
        let config = WalConfig {
            dir: dir.path().to_owned(),
            segment_size: size(),
            timeline: 1,
            system_id: 7,
            sync_method: durability.sync,
            direct: durability.direct,
            init_direct: false,
            buffers,
            full_page_writes: true,
            gather: durability.gather,
            writes_in_flight: 4,
        };
        let resume = Resume { insert_at: BEGIN, prev: Lsn(0), redo: Lsn(0), aborted: None };
        let wal = Wal::start(Arc::clone(&aio), &mut io, config, resume).expect("start");
        wal.ensure_room(&mut io, 1).expect("room");
        Arc::new(Fixture { dir, aio, disk, wal })
    }

    fn io(&self) -> IoBackend {
        self.aio.backend(BackendType::Client).expect("backend")
    }

    /// Inserts and flushes a record, and checks that it is durable.
    fn commit(&self, io: &mut IoBackend, main: &[u8]) -> Inserted {
        let at = self.wal.insert(io, &plain(main)).expect("insert");
        self.wal.flush(io, at.end).expect("flush");
        assert!(self.wal.flushed_lsn() >= at.end);
        self.assert_durable(at);
        at
    }

    /// Checks that all blocks of a record are durable, as far as the record goes.
    fn assert_durable(&self, at: Inserted) {
        let blocks = self.disk.blocks();
        let (first, last) = (at.start.0 / BLOCK, (at.end.0 - 1) / BLOCK);
        for block in first..=last {
            let from = if block == first { at.start.0 % BLOCK } else { 0 } as usize;
            let upto = if block == last { (at.end.0 - 1) % BLOCK + 1 } else { BLOCK } as usize;
            let durable = blocks.durable.get(&(block * BLOCK)).expect("a durable block");
            let written = &blocks.written[&(block * BLOCK)];
            assert_eq!(durable[from..upto], written[from..upto], "{at:?} was acknowledged");
            assert!(durable[from..upto].iter().any(|&byte| byte != 0));
        }
    }

    /// Reads the log back, and checks that it has exactly the expected records.
    fn read(&self, io: &mut IoBackend, expected: &[Inserted]) -> Vec<WalRecord> {
        let config = ReaderConfig {
            dir: self.dir.path().to_owned(),
            segment_size: size(),
            timeline: 1,
            system_id: Some(7),
            direct: false,
        };
        let mut reader = WalReader::new(Arc::clone(&self.aio), config, BEGIN);
        let mut records = Vec::new();
        while let Some(record) = reader.next(io).expect("readable") {
            records.push(record);
        }
        let mut expected: Vec<_> = expected.iter().map(|at| (at.start, at.end)).collect();
        expected.sort_unstable();
        let found: Vec<_> = records.iter().map(|record| (record.start, record.end)).collect();
        assert_eq!(found, expected, "{:?}", reader.end());
        records
    }
}

fn plain(main: &[u8]) -> Record<'_> {
    Record { rmgr: Rmgr::XLOG, info: 0x20, xid: 7, main, blocks: &[] }
}

fn rounds() -> usize {
    forebay_testkit::env::shuttle_rounds(150)
}

/// Runs a scenario with each kind of durability, in random interleavings and in ones with few
/// preemptions.
fn each(buffers: usize, scenario: fn(Arc<Fixture>)) {
    let durabilities = [
        Durability { sync: SyncMethod::Fdatasync, direct: false, gather: true },
        Durability { sync: SyncMethod::Fdatasync, direct: true, gather: true },
        Durability { sync: SyncMethod::Fdatasync, direct: true, gather: false },
        Durability { sync: SyncMethod::OpenDatasync, direct: false, gather: true },
        Durability { sync: SyncMethod::OpenDatasync, direct: true, gather: true },
        Durability { sync: SyncMethod::OpenDatasync, direct: true, gather: false },
    ];
    for durability in durabilities {
        eprintln!("{durability:?}");
        check(RandomScheduler::new(rounds()), move || scenario(Fixture::new(durability, buffers)));
        check(PctScheduler::new(3, rounds()), move || scenario(Fixture::new(durability, buffers)));
    }
}

fn check(scheduler: impl Scheduler + 'static, scenario: impl Fn() + Send + Sync + 'static) {
    // Blocks and a backend are on the stack, which need more than shuttle's 60 kB.
    let mut config = shuttle::Config::default();
    config.stack_size = 1 << 20;
    shuttle::Runner::new(scheduler, config).run(scenario);
}

/// Runs `threads` threads, and collects the records that they inserted.
fn run_threads(
    fixture: &Arc<Fixture>,
    threads: u8,
    body: fn(&Fixture, &mut IoBackend, u8) -> Vec<Inserted>,
) -> Vec<Inserted> {
    let handles: Vec<_> = (0..threads)
        .map(|n| {
            let fixture = Arc::clone(fixture);
            thread::spawn(move || body(&fixture, &mut fixture.io(), n))
        })
        .collect();
    handles.into_iter().flat_map(|handle| handle.join().expect("thread")).collect()
}

#[test]
fn committers_share_a_block() {
    each(16, |fixture| {
        let all = run_threads(&fixture, 3, |fixture, io, n| {
            vec![fixture.commit(io, &[n + 1; 30]), fixture.commit(io, &[n + 1; 300])]
        });
        fixture.read(&mut fixture.io(), &all);
    });
}

#[test]
fn committers_cross_blocks_and_a_segment_boundary() {
    each(16, |fixture| {
        let all = run_threads(&fixture, 3, |fixture, io, n| {
            vec![fixture.commit(io, &[n + 1; 9000]), fixture.commit(io, &[n + 1; 2000])]
        });
        assert!(fixture.wal.end_lsn().0 > 2 * SEGMENT);
        fixture.read(&mut fixture.io(), &all);
    });
}

#[test]
fn inserters_wait_for_buffers() {
    each(4, |fixture| {
        let mut all = run_threads(&fixture, 3, |fixture, io, n| {
            // The first is longer than all buffers. Writes happen only because buffers are full.
            let len = if n == 0 { 40_000 } else { 9_000 };
            let insert = |io: &mut IoBackend, len: usize| {
                fixture.wal.insert(io, &plain(&vec![n + 1; len])).expect("insert")
            };
            vec![insert(io, len), insert(io, 5000)]
        });
        all.push(fixture.commit(&mut fixture.io(), &[9; 10]));
        assert!(fixture.wal.stats().buffers_full > 0);
        fixture.read(&mut fixture.io(), &all);
    });
}

#[test]
fn the_wal_writer_flushes_while_others_commit() {
    each(16, |fixture| {
        let mut all = run_threads(&fixture, 3, |fixture, io, n| {
            if n == 0 {
                let at = fixture.wal.insert(io, &plain(&[1; 20_000])).expect("insert");
                fixture.wal.note_async_commit(at.end);
                fixture.wal.step(io).expect("step");
                return vec![at];
            }
            vec![fixture.commit(io, &[n + 1; 4000])]
        });
        let mut io = fixture.io();
        fixture.wal.flush_async_commits(&mut io).expect("flush");
        all.iter().for_each(|&at| fixture.assert_durable(at));
        all.push(fixture.commit(&mut io, &[9; 10]));
        fixture.read(&mut io, &all);
    });
}

#[test]
fn a_page_gets_an_image_only_behind_the_redo_pointer() {
    each(16, |fixture| {
        let redo = Arc::new(Mutex::new(Lsn(0)));
        let checkpoint = {
            let (fixture, redo) = (Arc::clone(&fixture), Arc::clone(&redo));
            thread::spawn(move || {
                let kind = CheckpointKind::Online { wal_level: 1 };
                let at = fixture.wal.begin_checkpoint(&mut fixture.io(), kind).expect("checkpoint");
                *redo.lock().unwrap_or_else(PoisonError::into_inner) = at;
            })
        };
        let mut all = run_threads(&fixture, 2, |fixture, io, n| {
            let mut page: PageBytes = [0; BLOCK_SIZE];
            PageMut(&mut page).init(0);
            // Last changed behind the first redo pointer, which is 0, and before the next.
            PageMut(&mut page).set_lsn(Lsn(8));
            let tag = PageTag::new(RelFileLocator::in_default(5, 16_384), Fork::Main, u32::from(n));
            let blocks = [BlockRef {
                id: 0,
                tag,
                page: Some(&page),
                flags: BlockFlags::STANDARD,
                data: &[n],
            }];
            let record =
                Record { rmgr: Rmgr::XLOG, info: 0x20, xid: 7, main: &[n], blocks: &blocks };
            (0..2).map(|_| fixture.wal.insert(io, &record).expect("insert")).collect()
        });
        checkpoint.join().expect("checkpoint");
        let redo = *redo.lock().unwrap_or_else(PoisonError::into_inner);
        // Its record has a header of 24 bytes, 2 bytes of data header, and 4 of data.
        all.push(Inserted { start: redo, end: redo.add(32) });
        let mut io = fixture.io();
        fixture.wal.flush_all(&mut io).expect("flush");
        for record in fixture.read(&mut io, &all) {
            let decoded = record.decode().expect("decodable");
            if let [block] = &decoded.blocks[..] {
                assert_eq!(
                    block.image.is_some(),
                    record.start > redo,
                    "{} and redo {redo}",
                    record.start
                );
            }
        }
    });
}

#[test]
fn a_disk_failure_ends_the_log_for_all() {
    each(16, |fixture| {
        // The second write or sync fails.
        fixture.disk.failing.store(2, SeqCst);
        run_threads(&fixture, 3, |fixture, io, n| {
            for len in [300, 9000] {
                let Ok(at) = fixture.wal.insert(io, &plain(&vec![n + 1; len])) else { break };
                match fixture.wal.flush(io, at.end) {
                    Ok(()) => fixture.assert_durable(at),
                    Err(error) => {
                        assert!(error.is_fatal(), "{error}");
                        break;
                    }
                }
            }
            Vec::new()
        });
        assert!(fixture.wal.poisoned().is_some());
        let mut io = fixture.io();
        assert!(fixture.wal.insert(&mut io, &plain(&[1])).is_err_and(|error| error.is_fatal()));
        assert!(fixture.wal.flush_all(&mut io).is_err_and(|error| error.is_fatal()));
    });
}

/// Each thread commits a block of its own, then another, so that writes are concurrent.
fn whole_blocks(fixture: &Arc<Fixture>) {
    let all = run_threads(fixture, 3, |fixture, io, n| {
        (0..2).map(|_| fixture.commit(io, &[n + 1; WHOLE_BLOCK])).collect()
    });
    assert!(fixture.wal.end_lsn().0 > 2 * SEGMENT);
    fixture.read(&mut fixture.io(), &all);
}

#[test]
fn committers_write_whole_blocks() {
    each(16, |fixture| whole_blocks(&fixture));
}

/// The scenario above must have concurrent writes in some interleavings.
#[test]
fn the_disk_sees_concurrent_writes() {
    // Outlives the executions, and is not scheduled by shuttle.
    let times = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let seen = Arc::clone(&times);
    let durability = Durability { sync: SyncMethod::OpenDatasync, direct: true, gather: true };
    check(RandomScheduler::new(rounds()), move || {
        let fixture = Fixture::new(durability, 16);
        whole_blocks(&fixture);
        let concurrent = fixture.disk.blocks().max_in_flight > 1;
        seen.fetch_add(usize::from(concurrent), std::sync::atomic::Ordering::SeqCst);
    });
    assert!(times.load(std::sync::atomic::Ordering::SeqCst) > 0, "no writes were concurrent");
}
