//! What inserters, flushers and checkpoints share, in interleavings that shuttle chooses:
//! reservation, copying, writes and syncs side by side, buffers that run short, the border between
//! segments, a redo pointer that moves, a disk that fails.
//!
//! Only a checked build has these tests:
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p forebay-wal --test interleavings --target-dir target/shuttle
//! ```
//!
//! FOREBAY_SHUTTLE_ROUNDS sets how many interleavings each scenario is run in. A failing one prints
//! a schedule, which `shuttle::replay` repeats. The files are real ones in memory; a thread that
//! nobody wakes is found as a deadlock. The disk is watched: no block is in two writes at once,
//! nobody changes a block under a write, and what is durable is kept apart from what is written, so
//! that what was acknowledged can be looked for in it.
#![cfg(shuttle)]

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use forebay_aio::execute::{Executor, PosixExecutor, Request};
use forebay_aio::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use forebay_aio::sync::{Arc, thread};
use forebay_aio::{
    Aio, AioConfig, Backend, BackendType, Errno, MethodKind, OpKind, PosixNamespace,
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
/// Where the log begins: so many blocks before the end of segment 1.
const LAST_BLOCKS: u64 = 3;
const BEGIN: Lsn = Lsn(2 * SEGMENT - LAST_BLOCKS * BLOCK);
/// Main data of a record that fills a block: the page's header takes 24 bytes, the record's 24, and
/// its data's 5.
const WHOLE_BLOCK: usize = BLOCK as usize - 24 - 24 - 5;
/// A write or sync lets others run so many times at most: long enough for an insertion and a write
/// by somebody else.
const SLOWEST: u32 = 200;

/// What is known of the log's blocks.
#[derive(Default)]
struct Known {
    written: BTreeMap<u64, Vec<u8>>,
    durable: BTreeMap<u64, Vec<u8>>,
    under_way: Vec<(u64, u64)>,
    /// Most writes that were seen at once.
    most: usize,
}

/// The disk, watched. Writes and syncs fail as often as they should.
#[derive(Default)]
struct Watched {
    known: Mutex<Known>,
    failing: AtomicUsize,
}

impl Watched {
    /// The lock of the watch is no part of what is checked: nobody waits while it is held.
    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, request: &Request<'_>, at: u64) -> Result<usize, Errno> {
        let before = bytes(request);
        let end = at + before.len() as u64;
        {
            let mut known = self.known();
            for &(from, upto) in &known.under_way {
                assert!(end <= from || upto <= at, "{at:x} to {end:x} beside {from:x} to {upto:x}");
            }
            known.under_way.push((at, end));
            known.most = known.most.max(known.under_way.len());
        }
        take_a_while();
        let done = PosixExecutor.execute(request);
        take_a_while();
        assert!(before == bytes(request), "a block was changed while it was written");
        let mut known = self.known();
        known.under_way.retain(|&(from, _)| from != at);
        for (n, block) in before.chunks(BLOCK as usize).enumerate() {
            let at = at + n as u64 * BLOCK;
            known.written.insert(at, block.to_vec());
            if request.file().is_dsync() {
                known.durable.insert(at, block.to_vec());
            }
        }
        done
    }
}

impl Executor for Watched {
    fn execute(&self, request: &Request<'_>) -> Result<usize, Errno> {
        let path = request.file().path().to_owned();
        let name = path.file_name().expect("name").to_string_lossy().into_owned();
        let Some((1, number)) = size().parse_file_name(&name) else {
            // A segment that is being made, zeros.
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
                // What was written when the sync began.
                let synced: Vec<_> = {
                    let known = self.known();
                    let of_file = known.written.range(start..start + SEGMENT);
                    of_file.map(|(at, block)| (*at, block.clone())).collect()
                };
                take_a_while();
                self.known().durable.extend(synced);
                Ok(0)
            }
        }
    }
}

/// As long as shuttle chooses: so writes end in any order.
fn take_a_while() {
    (0..thread_rng().gen_range(1..=SLOWEST)).for_each(|_| thread::yield_now());
}

fn bytes(request: &Request<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for vector in request.vectors() {
        // SAFETY: the request's memory is valid until the attempt returns, and nobody changes what
        // is written.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(vector.ptr(), vector.len()) });
    }
    bytes
}

fn size() -> SegmentSize {
    SegmentSize::new(SEGMENT as u32).expect("size")
}

#[derive(Clone, Copy, Debug)]
struct Way {
    sync: SyncMethod,
    direct: bool,
    gather: bool,
}

struct Bed {
    dir: tempfile::TempDir,
    aio: Arc<Aio>,
    disk: Arc<Watched>,
    wal: Wal,
}

impl Bed {
    fn new(way: Way, buffers: usize) -> Arc<Bed> {
        let memory = std::path::Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let dir = dir.expect("directory");
        for number in [1, 2, 3] {
            let mut bytes = vec![0; SEGMENT as usize];
            if number == 1 {
                // Readers look at the first page's header, wherever they begin.
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
        let disk = Arc::new(Watched::default());
        let executor: Arc<dyn Executor> = Arc::<Watched>::clone(&disk);
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
            sync_method: way.sync,
            direct: way.direct,
            init_direct: false,
            buffers,
            full_page_writes: true,
            gather: way.gather,
            writes_in_flight: 4,
        };
        let resume = Resume { insert_at: BEGIN, prev: Lsn(0), redo: Lsn(0), aborted: None };
        let wal = Wal::start(Arc::clone(&aio), &mut io, config, resume).expect("start");
        wal.ensure_room(&mut io, 1).expect("room");
        Arc::new(Bed { dir, aio, disk, wal })
    }

    fn io(&self) -> Backend {
        self.aio.backend(BackendType::Client).expect("backend")
    }

    /// Inserts and flushes: then it is on the disk.
    fn commit(&self, io: &mut Backend, main: &[u8]) -> Inserted {
        let at = self.wal.insert(io, &plain(main)).expect("insert");
        self.wal.flush(io, at.end).expect("flush");
        assert!(self.wal.flushed_lsn() >= at.end);
        self.assert_durable(at);
        at
    }

    /// Every block of it is durable as far as it goes: as the log's end stands now, or a later one.
    fn assert_durable(&self, at: Inserted) {
        let known = self.disk.known();
        let (first, last) = (at.start.0 / BLOCK, (at.end.0 - 1) / BLOCK);
        for block in first..=last {
            let from = if block == first { at.start.0 % BLOCK } else { 0 } as usize;
            let upto = if block == last { (at.end.0 - 1) % BLOCK + 1 } else { BLOCK } as usize;
            let durable = known.durable.get(&(block * BLOCK)).expect("a durable block");
            let written = &known.written[&(block * BLOCK)];
            assert_eq!(durable[from..upto], written[from..upto], "{at:?} was acknowledged");
            assert!(durable[from..upto].iter().any(|&byte| byte != 0));
        }
    }

    /// Reads the log back: as many records as there should be, in their order.
    fn read(&self, io: &mut Backend, expected: &[Inserted]) -> Vec<WalRecord> {
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
    std::env::var("FOREBAY_SHUTTLE_ROUNDS").map_or(150, |n| n.parse().expect("a number"))
}

/// Runs a scenario by each way to durability, in random interleavings and in ones with few,
/// well-placed preemptions.
fn each(buffers: usize, scenario: fn(Arc<Bed>)) {
    let ways = [
        Way { sync: SyncMethod::Fdatasync, direct: false, gather: true },
        Way { sync: SyncMethod::Fdatasync, direct: true, gather: true },
        Way { sync: SyncMethod::Fdatasync, direct: true, gather: false },
        Way { sync: SyncMethod::OpenDatasync, direct: false, gather: true },
        Way { sync: SyncMethod::OpenDatasync, direct: true, gather: true },
        Way { sync: SyncMethod::OpenDatasync, direct: true, gather: false },
    ];
    for way in ways {
        eprintln!("by {way:?}");
        check(RandomScheduler::new(rounds()), move || scenario(Bed::new(way, buffers)));
        check(PctScheduler::new(3, rounds()), move || scenario(Bed::new(way, buffers)));
    }
}

fn check(scheduler: impl Scheduler + 'static, scenario: impl Fn() + Send + Sync + 'static) {
    // Blocks lie on the stack, and a backend: more than the 60 kB that a thread gets.
    let mut config = shuttle::Config::default();
    config.stack_size = 1 << 20;
    shuttle::Runner::new(scheduler, config).run(scenario);
}

/// Runs `threads` of them, and collects what they inserted.
fn together(
    bed: &Arc<Bed>,
    threads: u8,
    body: fn(&Bed, &mut Backend, u8) -> Vec<Inserted>,
) -> Vec<Inserted> {
    let handles: Vec<_> = (0..threads)
        .map(|n| {
            let bed = Arc::clone(bed);
            thread::spawn(move || body(&bed, &mut bed.io(), n))
        })
        .collect();
    handles.into_iter().flat_map(|handle| handle.join().expect("thread")).collect()
}

#[test]
fn committers_within_a_block() {
    each(16, |bed| {
        let all = together(&bed, 3, |bed, io, n| {
            vec![bed.commit(io, &[n + 1; 30]), bed.commit(io, &[n + 1; 300])]
        });
        bed.read(&mut bed.io(), &all);
    });
}

#[test]
fn committers_over_blocks_and_the_border_of_a_segment() {
    each(16, |bed| {
        let all = together(&bed, 3, |bed, io, n| {
            vec![bed.commit(io, &[n + 1; 9000]), bed.commit(io, &[n + 1; 2000])]
        });
        assert!(bed.wal.end_lsn().0 > 2 * SEGMENT);
        bed.read(&mut bed.io(), &all);
    });
}

#[test]
fn buffers_run_short() {
    each(4, |bed| {
        let mut all = together(&bed, 3, |bed, io, n| {
            // The first is longer than all buffers; nobody flushes but for want of one.
            let len = if n == 0 { 40_000 } else { 9_000 };
            let insert = |io: &mut Backend, len: usize| {
                bed.wal.insert(io, &plain(&vec![n + 1; len])).expect("insert")
            };
            vec![insert(io, len), insert(io, 5000)]
        });
        all.push(bed.commit(&mut bed.io(), &[9; 10]));
        assert!(bed.wal.stats().buffers_full > 0);
        bed.read(&mut bed.io(), &all);
    });
}

#[test]
fn the_writer_works_beside_committers() {
    each(16, |bed| {
        let mut all = together(&bed, 3, |bed, io, n| {
            if n == 0 {
                let at = bed.wal.insert(io, &plain(&[1; 20_000])).expect("insert");
                bed.wal.leave_to_writer(at.end);
                bed.wal.step(io).expect("step");
                return vec![at];
            }
            vec![bed.commit(io, &[n + 1; 4000])]
        });
        let mut io = bed.io();
        bed.wal.flush_unawaited(&mut io).expect("flush");
        all.iter().for_each(|&at| bed.assert_durable(at));
        all.push(bed.commit(&mut io, &[9; 10]));
        bed.read(&mut io, &all);
    });
}

#[test]
fn an_image_if_and_only_if_the_redo_pointer_came_first() {
    each(16, |bed| {
        let redo = Arc::new(Mutex::new(Lsn(0)));
        let checkpoint = {
            let (bed, redo) = (Arc::clone(&bed), Arc::clone(&redo));
            thread::spawn(move || {
                let kind = CheckpointKind::Online { wal_level: 1 };
                let at = bed.wal.begin_checkpoint(&mut bed.io(), kind).expect("checkpoint");
                *redo.lock().unwrap_or_else(PoisonError::into_inner) = at;
            })
        };
        let mut all = together(&bed, 2, |bed, io, n| {
            let mut page: PageBytes = [0; BLOCK_SIZE];
            PageMut(&mut page).init(0);
            // Changed behind the first redo pointer, which is 0, and before the next.
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
            (0..2).map(|_| bed.wal.insert(io, &record).expect("insert")).collect()
        });
        checkpoint.join().expect("checkpoint");
        let redo = *redo.lock().unwrap_or_else(PoisonError::into_inner);
        // Its record is 24 bytes, 2 for the header of its data, and 4 of data.
        all.push(Inserted { start: redo, end: redo.add(32) });
        let mut io = bed.io();
        bed.wal.flush_all(&mut io).expect("flush");
        for record in bed.read(&mut io, &all) {
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
fn a_disk_that_fails_is_the_end_for_all() {
    each(16, |bed| {
        // The second write or sync from now on.
        bed.disk.failing.store(2, SeqCst);
        together(&bed, 3, |bed, io, n| {
            for len in [300, 9000] {
                let Ok(at) = bed.wal.insert(io, &plain(&vec![n + 1; len])) else { break };
                match bed.wal.flush(io, at.end) {
                    Ok(()) => bed.assert_durable(at),
                    Err(error) => {
                        assert!(error.is_fatal(), "{error}");
                        break;
                    }
                }
            }
            Vec::new()
        });
        assert!(bed.wal.poisoned().is_some());
        let mut io = bed.io();
        assert!(bed.wal.insert(&mut io, &plain(&[1])).is_err_and(|error| error.is_fatal()));
        assert!(bed.wal.flush_all(&mut io).is_err_and(|error| error.is_fatal()));
    });
}

/// Each commits a block of its own, then another: whoever comes while one is on its way has his
/// written beside it.
fn whole_blocks(bed: &Arc<Bed>) {
    let all = together(bed, 3, |bed, io, n| {
        (0..2).map(|_| bed.commit(io, &[n + 1; WHOLE_BLOCK])).collect()
    });
    assert!(bed.wal.end_lsn().0 > 2 * SEGMENT);
    bed.read(&mut bed.io(), &all);
}

#[test]
fn committers_of_whole_blocks() {
    each(16, |bed| whole_blocks(&bed));
}

/// The watch itself sees what it should: several writes at once.
#[test]
fn writes_are_seen_side_by_side() {
    // Outlives the executions, and is nothing that shuttle schedules.
    let times = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let seen = Arc::clone(&times);
    let way = Way { sync: SyncMethod::OpenDatasync, direct: true, gather: true };
    check(RandomScheduler::new(rounds()), move || {
        let bed = Bed::new(way, 16);
        whole_blocks(&bed);
        let side_by_side = bed.disk.known().most > 1;
        seen.fetch_add(usize::from(side_by_side), std::sync::atomic::Ordering::SeqCst);
    });
    assert!(
        times.load(std::sync::atomic::Ordering::SeqCst) > 0,
        "writes were never under way side by side"
    );
}
