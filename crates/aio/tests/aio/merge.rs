//! Merging of staged neighbours: what is submitted as one I/O, and that nothing else changes.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use forebay_aio::execute::{Executor, PosixExecutor, Request};
use forebay_aio::*;
use smallvec::SmallVec;

use crate::common::{Setup, bytes, config, each_case, fill, pattern};

const BLOCK: usize = 8192;

fn row(backend: &IoBackend) -> BackendStatsRow {
    backend
        .aio()
        .backend_stats()
        .into_iter()
        .find(|r| r.pid == backend.id())
        .expect("a living backend has a row")
}

fn io(write: bool, file: &File, region: &Arc<Region>, block: usize) -> Io {
    let memory = IoMemory::new(region.clone(), block * BLOCK, BLOCK);
    let offset = (block * BLOCK) as u64;
    let op = if write { Op::Writev { offset, memory } } else { Op::Readv { offset, memory } };
    Io::new(file.clone(), op, Target::File)
}

fn prepared(s: &Setup, blocks: usize) -> (File, Arc<Region>) {
    let file = s.create("data");
    let region = Region::new(blocks * BLOCK).unwrap();
    fill(&region, 0, region.len(), 9);
    let mut backend = s.backend();
    backend
        .run(Io::write(
            file.clone(),
            0,
            IoMemory::new(region.clone(), 0, region.len()),
            Target::File,
        ))
        .unwrap();
    // SAFETY: inside the region; no I/O is in flight on it.
    unsafe { region.ptr(0).write_bytes(0xEE, region.len()) };
    (file, region)
}

fn assert_block(region: &Region, block: usize) {
    let got = bytes(region, block * BLOCK, BLOCK);
    assert!((0..BLOCK).all(|n| got[n] == pattern(block * BLOCK + n, 9)), "block {block}");
}

#[test]
fn adjacent_blocks_leave_as_one_io() {
    for (write, order) in [
        (false, [0, 1, 2, 3, 4, 5, 6, 7]),
        (false, [5, 4, 6, 7, 0, 3, 1, 2]),
        (true, [7, 6, 5, 4, 3, 2, 1, 0]),
    ] {
        each_case(|s| {
            let (file, region) = prepared(s, 8);
            if write {
                fill(&region, 0, region.len(), 9);
            }
            let mut backend = s.backend();
            backend.begin_batch();
            let refs = order.map(|b| backend.start(io(write, &file, &region, b)));
            backend.end_batch();
            for r in refs {
                assert_eq!(backend.wait(r).check().unwrap(), BLOCK);
            }
            (0..8).for_each(|b| assert_block(&region, b));
            let got = row(&backend);
            assert_eq!((got.staged, got.submissions, got.issued, got.merged), (8, 1, 1, 7));
            assert_eq!((got.completed_self + got.completed_other, got.in_flight), (8, 0));
            assert_eq!((got.latency_count, got.errors, got.retries), (8, 0, 0));
        });
    }
}

/// Records what the executor was asked for; some of it fails.
#[derive(Default)]
struct Watched {
    attempts: Mutex<Vec<(OpKind, u64, u64)>>,
    /// Blocks that can't be read or written.
    bad: HashSet<u64>,
    /// Panics instead.
    panics: bool,
    /// The block at whose execution the thread waits until it is released.
    held: Option<(u64, Mutex<mpsc::Receiver<()>>)>,
}

impl Executor for Watched {
    fn execute(&self, r: &Request<'_>) -> Result<usize, Errno> {
        self.attempts.lock().unwrap().push((r.op(), r.offset(), r.length()));
        let blocks = r.offset() / BLOCK as u64..(r.offset() + r.length()).div_ceil(BLOCK as u64);
        if let Some((block, go)) = &self.held
            && blocks.contains(block)
        {
            go.lock().unwrap().recv().unwrap();
        }
        if r.length() > 0 && blocks.clone().any(|b| self.bad.contains(&b)) {
            assert!(!self.panics, "told to");
            return Err(Errno::IO);
        }
        PosixExecutor.execute(r)
    }
}

struct Fixture {
    watched: Arc<Watched>,
    aio: Arc<Aio>,
    file: File,
    region: Arc<Region>,
    _dir: tempfile::TempDir,
}

/// An `Aio` with workers over a watched executor, and a file of eight blocks.
fn fixture(watched: Watched, dsync: bool) -> Fixture {
    let watched = Arc::new(watched);
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("data");
    let aio = Aio::with_workers(
        Arc::new(PosixNamespace),
        watched.clone(),
        config(),
        WorkerLimits::fixed(1),
    )
    .unwrap();
    let region = Region::new(8 * BLOCK).unwrap();
    fill(&region, 0, region.len(), 9);
    std::fs::write(&path, bytes(&region, 0, region.len())).unwrap();
    let file = aio.namespace().open(&path, &OpenOptions::READ_WRITE.dsync(dsync)).unwrap();
    Fixture { watched, aio, file, region, _dir: dir }
}

impl Fixture {
    fn start(&self, backend: &mut IoBackend, write: bool, blocks: &[usize]) -> Vec<WaitRef> {
        backend.begin_batch();
        let refs =
            blocks.iter().map(|&b| backend.start(io(write, &self.file, &self.region, b))).collect();
        backend.end_batch();
        refs
    }

    fn attempts(&self) -> Vec<(OpKind, u64, u64)> {
        self.watched.attempts.lock().unwrap().clone()
    }
}

fn block_bytes(blocks: u64) -> u64 {
    blocks * BLOCK as u64
}

#[test]
fn the_executor_sees_one_attempt() {
    let f = fixture(Watched::default(), false);
    let mut backend = f.aio.backend(BackendType::Client).unwrap();
    for r in f.start(&mut backend, false, &[3, 1, 2, 6]) {
        backend.wait(r).check().unwrap();
    }
    let mut attempts = f.attempts();
    attempts.sort_by_key(|a| a.1);
    assert_eq!(
        attempts,
        [
            (OpKind::Readv, block_bytes(1), block_bytes(3)),
            (OpKind::Readv, block_bytes(6), block_bytes(1))
        ]
    );
}

#[test]
fn only_the_guilty_one_fails() {
    for panics in [false, true] {
        for write in [false, true] {
            let watched = Watched { bad: HashSet::from([2]), panics, ..Watched::default() };
            let f = fixture(watched, false);
            let mut backend = f.aio.backend(BackendType::Client).unwrap();
            let refs = f.start(&mut backend, write, &[0, 1, 2, 3]);
            for (block, r) in refs.into_iter().enumerate() {
                let report = backend.wait(r).report().unwrap();
                assert_eq!(report.errno(), (block == 2).then_some(Errno::IO), "block {block}");
                if block == 2 {
                    let AioError::Io { offset, len, .. } = *report.error.unwrap() else {
                        panic!("no I/O error")
                    };
                    assert_eq!((offset, len), (block_bytes(2), block_bytes(1)), "its own bytes");
                } else {
                    assert_eq!(report.transferred, BLOCK);
                    assert_block(&f.region, block);
                }
            }
            let got = row(&backend);
            // An attempt that panics is not counted.
            assert_eq!((got.issued, got.errors, got.retries), (1, 1, if panics { 3 } else { 4 }));
            assert_eq!(f.attempts().len(), 5, "the whole, then each alone");
        }
    }
}

#[test]
fn a_write_that_includes_a_sync_is_never_repeated() {
    let f = fixture(Watched { bad: HashSet::from([2]), ..Watched::default() }, true);
    let mut backend = f.aio.backend(BackendType::WalWriter).unwrap();
    for r in f.start(&mut backend, true, &[0, 1, 2, 3]) {
        assert_eq!(backend.wait(r).report().unwrap().errno(), Some(Errno::IO));
    }
    assert_eq!(f.attempts(), [(OpKind::Writev, 0, block_bytes(4))]);
    // Reads may be merged there.
    let failed = f
        .start(&mut backend, false, &[0, 1, 2, 3])
        .into_iter()
        .filter(|&r| backend.wait(r).check().is_err());
    assert_eq!(failed.count(), 1);
}

#[test]
fn the_smaller_limit_counts() {
    each_case(|s| {
        let (file, region) = prepared(s, 8);
        let mut backend = s.backend();
        for (of_all, own, expected) in [(8, 4, 2), (2, 4, 4), (0, 8, 8), (8, 1, 8), (8, 8, 1)] {
            s.aio.set_combine_limit(of_all * BLOCK);
            backend.set_combine_limit(own * BLOCK);
            s.aio.reset_backend_stats();
            backend.begin_batch();
            let refs: Vec<_> =
                (0..8).map(|b| backend.start(io(false, &file, &region, b))).collect();
            backend.end_batch();
            for r in refs {
                backend.wait(r).check().unwrap();
            }
            assert_eq!(row(&backend).issued, expected);
        }
    });
}

#[test]
fn past_the_end_of_the_file_each_gets_what_it_would_have_got_alone() {
    each_case(|s| {
        let end = 2 * BLOCK + IO_ALIGN + if s.case.direct { 0 } else { 100 };
        let (file, region) = prepared(s, 5);
        s.aio.namespace().set_len(&file, end as u64).unwrap();
        let mut backend = s.backend();
        for limit in [128 * 1024, 0] {
            backend.set_combine_limit(limit);
            s.aio.reset_backend_stats();
            backend.begin_batch();
            let refs = [4, 3, 2, 1, 0].map(|b| backend.start(io(false, &file, &region, b)));
            backend.end_batch();
            let got: Vec<(usize, Status)> = refs
                .into_iter()
                .map(|r| backend.wait(r).report().unwrap())
                .map(|r| (r.transferred, r.outcome.status))
                .collect();
            use Status::{Ok, Partial};
            let part = end - 2 * BLOCK;
            assert_eq!(
                got,
                [(0, Partial), (0, Partial), (part, Partial), (BLOCK, Ok), (BLOCK, Ok)]
            );
            assert_eq!(row(&backend).issued, if limit == 0 { 5 } else { 1 });
        }
    });
}

#[test]
fn an_io_that_is_executed_at_once_comes_after_what_is_staged() {
    let f = fixture(Watched::default(), false);
    let in_order = Aio::with_method(Arc::new(PosixNamespace), f.watched.clone(), config(), |_| {
        Ok(Box::new(InOrder) as Box<dyn method::Method>)
    })
    .unwrap();
    let mut backend = in_order.backend(BackendType::Client).unwrap();
    backend.begin_batch();
    let w = backend.start(io(true, &f.file, &f.region, 0));
    assert!(f.attempts().is_empty());
    backend.fsync(&f.file).unwrap();
    assert_eq!(f.attempts(), [(OpKind::Writev, 0, block_bytes(1)), (OpKind::Fsync, 0, 0)]);
    backend.end_batch();
    backend.wait(w).check().unwrap();
}

/// Executes in the order of submission.
struct InOrder;

impl method::Method for InOrder {
    fn name(&self) -> &'static str {
        "in order"
    }
    fn submit(&self, table: &table::HandleTable, _slot: u32, staged: &[u32], _in_flight: usize) {
        for &index in staged {
            table.begin(index);
            table.execute(index);
        }
    }
    fn wait(&self, table: &table::HandleTable, index: u32, seen: handle::Word) {
        table.wait_change(index, seen);
    }
}

#[test]
fn each_member_shows_and_completes_for_itself() {
    let (go, gone) = mpsc::channel();
    let f = fixture(Watched { held: Some((3, Mutex::new(gone))), ..Watched::default() }, false);
    let mut backend = f.aio.backend(BackendType::Client).unwrap();
    let seen: Arc<Mutex<Vec<(u64, u32, usize)>>> = Arc::default();
    backend.begin_batch();
    let refs: Vec<_> = [3, 2, 4]
        .map(|b| {
            let seen = seen.clone();
            let completion = Arc::new(move |io: &Completed<'_>| {
                seen.lock().unwrap().push((io.offset, io.data[0], io.result.unwrap()));
                Outcome::new(Status::Warning, io.offset)
            });
            backend.start(
                io(false, &f.file, &f.region, b)
                    .completion(completion, SmallVec::from_slice(&[b as u32])),
            )
        })
        .into();
    backend.end_batch();
    let rows = f.aio.snapshot();
    let mut offsets: Vec<_> = rows.iter().map(|r| (r.state, r.offset, r.length)).collect();
    offsets.sort_by_key(|r| r.1);
    let row = |b| (HandleState::Submitted, Some(block_bytes(b)), Some(block_bytes(1)));
    assert_eq!(offsets, [row(2), row(3), row(4)]);
    go.send(()).unwrap();
    for (r, block) in refs.into_iter().zip([3, 2, 4]) {
        let report = backend.wait(r).report().unwrap();
        assert_eq!(report.outcome, Outcome::new(Status::Warning, block_bytes(block)));
    }
    let mut seen = seen.lock().unwrap().clone();
    seen.sort_unstable();
    assert_eq!(seen, [2, 3, 4].map(|b| (block_bytes(b), b as u32, BLOCK)));
}

/// Other threads wait for members of chains, each in its own order, while others reap, and while
/// the issuer takes its reports and uses the handles again at once.
#[test]
fn no_waiter_sleeps_through_a_member() {
    const BLOCKS: usize = 12;
    const WAITERS: usize = 3;
    each_case(|s| {
        let (file, region) = prepared(s, BLOCKS);
        let done = Arc::new(AtomicUsize::new(0));
        let rounds = 120;
        thread::scope(|scope| {
            let senders: Vec<mpsc::Sender<Vec<WaitRef>>> = (0..WAITERS)
                .map(|turn| {
                    let (send, receive) = mpsc::channel::<Vec<WaitRef>>();
                    let aio = &s.aio;
                    scope.spawn(move || {
                        for refs in receive {
                            for n in 0..refs.len() {
                                aio.wait_done(refs[(n * 5 + turn * 4) % refs.len()]);
                            }
                        }
                    });
                    send
                })
                .collect();
            let mut backend = s.backend();
            for round in 0..rounds {
                backend.begin_batch();
                let refs: Vec<_> = (0..BLOCKS)
                    .map(|n| {
                        let done = done.clone();
                        let count = Arc::new(move |io: &Completed<'_>| {
                            done.fetch_add(1, SeqCst);
                            io.transfer_outcome()
                        });
                        let block = (n * 7 + round) % BLOCKS;
                        backend.start(
                            io(false, &file, &region, block).completion(count, SmallVec::new()),
                        )
                    })
                    .collect();
                backend.end_batch();
                for send in &senders {
                    send.send(refs.clone()).unwrap();
                }
                for &r in refs.iter().rev() {
                    assert_eq!(backend.wait(r).check().unwrap(), BLOCK);
                }
            }
            let got = row(&backend);
            let bytes = (BLOCKS * BLOCK) as u64;
            assert_eq!((got.staged, got.issued), ((rounds * BLOCKS) as u64, rounds as u64));
            assert_eq!(got.read_bytes, rounds as u64 * bytes);
        });
        assert_eq!(done.load(SeqCst), rounds * BLOCKS, "each completion runs once");
        (0..BLOCKS).for_each(|b| assert_block(&region, b));
    });
}

#[test]
fn a_foreign_thread_finishes_a_chain_whose_issuer_is_gone() {
    each_case(|s| {
        let (file, region) = prepared(s, 4);
        let refs = {
            let (mut backend, file, region) = (s.backend(), file.clone(), region.clone());
            thread::spawn(move || {
                backend.begin_batch();
                let refs = [2, 1, 3].map(|b| backend.start(io(false, &file, &region, b)));
                backend.end_batch();
                std::mem::forget(backend);
                refs
            })
            .join()
            .unwrap()
        };
        // A member that is not the head first.
        for r in refs {
            s.aio.wait_done(r);
        }
        (1..4).for_each(|b| assert_block(&region, b));
    });
}
