//! Any thread completes any I/O, whatever its issuer does.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use forebay_aio::*;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use smallvec::SmallVec;

mod common;
use common::{Setup, bytes, config, each_case, each_case_with, fill};

const BLOCKS: usize = 16;

fn prepared(s: &Setup) -> (File, Arc<Region>) {
    let file = s.create("data");
    let region = Region::new(BLOCKS * IO_ALIGN).unwrap();
    fill(&region, 0, region.len(), 5);
    let memory = IoMemory::new(region.clone(), 0, region.len());
    s.backend().run(Io::write(file.clone(), 0, memory, Target::File)).unwrap();
    (file, Region::new(BLOCKS * IO_ALIGN).unwrap())
}

fn read_all(
    backend: &mut IoBackend,
    file: &File,
    region: &Arc<Region>,
    done: &Arc<AtomicUsize>,
) -> Vec<WaitRef> {
    backend.begin_batch();
    let refs = (0..BLOCKS)
        .map(|n| {
            let done = done.clone();
            let completion = Arc::new(move |io: &Completed<'_>| {
                done.fetch_add(1, SeqCst);
                io.transfer_outcome()
            });
            let memory = IoMemory::new(region.clone(), n * IO_ALIGN, IO_ALIGN);
            let io = Io::read(file.clone(), (n * IO_ALIGN) as u64, memory, Target::File);
            backend.start(io.completion(completion, SmallVec::new()))
        })
        .collect();
    backend.end_batch();
    refs
}

fn assert_read(region: &Region) {
    let got = bytes(region, 0, region.len());
    assert!((0..region.len()).all(|n| got[n] == common::pattern(n, 5)));
}

#[test]
fn the_issuer_sleeps_on_a_lock_that_the_waiter_holds() {
    each_case(|s| {
        let (file, region) = prepared(s);
        let done = Arc::new(AtomicUsize::new(0));
        let lock = Arc::new(Mutex::new(()));
        let (tell, told) = mpsc::channel();
        let held = lock.lock().unwrap();
        let issuer = {
            let (mut backend, file, region, done, lock) =
                (s.backend(), file.clone(), region.clone(), done.clone(), lock.clone());
            thread::spawn(move || {
                let refs = read_all(&mut backend, &file, &region, &done);
                tell.send(refs.clone()).unwrap();
                let _slept = lock.lock().unwrap();
                refs.into_iter().all(|r| backend.wait(r).check().is_ok())
            })
        };
        let refs = told.recv().unwrap();
        let mut backend = s.backend();
        for &r in &refs {
            assert!(matches!(backend.wait(r), IoResult::Finished));
        }
        assert_eq!(done.load(SeqCst), BLOCKS);
        assert_read(&region);
        drop(held);
        assert!(issuer.join().unwrap(), "the issuer has its reports all the same");
    });
}

#[test]
fn the_issuing_thread_has_exited() {
    each_case(|s| {
        for leak in [false, true] {
            let (file, region) = prepared(s);
            let done = Arc::new(AtomicUsize::new(0));
            let issuer = {
                let (mut backend, file, region, done) =
                    (s.backend(), file.clone(), region.clone(), done.clone());
                thread::spawn(move || {
                    let refs = read_all(&mut backend, &file, &region, &done);
                    if leak {
                        std::mem::forget(backend);
                        (refs, None)
                    } else {
                        (refs, Some(backend))
                    }
                })
            };
            let (refs, mut backend) = issuer.join().unwrap();
            let mut other = s.backend();
            for &r in &refs {
                assert!(matches!(other.wait(r), IoResult::Finished));
            }
            assert_eq!(done.load(SeqCst), BLOCKS);
            assert_read(&region);
            for r in refs {
                if let Some(backend) = &mut backend {
                    assert!(
                        backend.wait(r).check().is_ok(),
                        "the backend works on in another thread"
                    );
                }
            }
            s.aio.namespace().unlink(&s.path("data")).unwrap();
        }
    });
}

#[test]
fn a_waiter_of_staged_io_sleeps_until_it_is_submitted() {
    each_case(|s| {
        let (file, region) = prepared(s);
        let mut backend = s.backend();
        backend.begin_batch();
        let r = backend.start(Io::read(
            file,
            0,
            IoMemory::new(region.clone(), 0, region.len()),
            Target::File,
        ));
        let aio = s.aio.clone();
        let (tell, told) = mpsc::channel();
        let waiter = thread::spawn(move || {
            tell.send(()).unwrap();
            aio.wait_done(r);
        });
        told.recv().unwrap();
        backend.end_batch();
        waiter.join().unwrap();
        assert!(backend.is_done(r));
        assert_read(&region);
    });
}

/// Many threads wait for the same I/Os; each runs its completion once.
#[test]
fn many_threads_wait() {
    each_case(|s| {
        let (file, region) = prepared(s);
        for _ in 0..30 {
            let done = Arc::new(AtomicUsize::new(0));
            let mut backend = s.backend();
            let refs = read_all(&mut backend, &file, &region, &done);
            thread::scope(|scope| {
                for turn in 0..4 {
                    let (aio, refs) = (&s.aio, &refs);
                    scope.spawn(move || {
                        for n in 0..refs.len() {
                            aio.wait_done(refs[(n + turn * 5) % refs.len()]);
                        }
                    });
                }
                for &r in &refs {
                    assert!(backend.wait(r).check().is_ok());
                }
            });
            assert_eq!(done.load(SeqCst), BLOCKS);
        }
    });
}

/// Each thread owns the blocks of its residue class. It writes and reads them in random order and
/// depth against a model, and sometimes waits for what others have in flight.
#[test]
fn random_io_against_a_model() {
    const THREADS: usize = 4;
    const OWN: usize = 24;
    each_case_with(AioConfig { handles_per_backend: 8, ..config() }, |s| {
        let file = s.create("model");
        s.aio.namespace().set_len(&file, (THREADS * OWN * IO_ALIGN) as u64).unwrap();
        let board: Arc<Vec<Mutex<Option<WaitRef>>>> =
            Arc::new((0..THREADS).map(|_| Mutex::new(None)).collect());
        let completions = AtomicU64::new(0);
        thread::scope(|scope| {
            for me in 0..THREADS {
                let (file, board, completions) = (file.clone(), board.clone(), &completions);
                scope.spawn(move || {
                    let mut backend = s.backend();
                    let n = random_thread(&mut backend, &file, &board, me, THREADS, OWN);
                    completions.fetch_add(n, SeqCst);
                });
            }
        });
        assert_eq!(completions.load(SeqCst), (THREADS * 400) as u64);
        assert!(s.aio.snapshot().is_empty());
    });
}

struct Pending {
    r: WaitRef,
    place: usize,
    /// What a read must find.
    expect: Option<u8>,
}

fn random_thread(
    backend: &mut IoBackend,
    file: &File,
    board: &[Mutex<Option<WaitRef>>],
    me: usize,
    threads: usize,
    own: usize,
) -> u64 {
    let mut rng = StdRng::seed_from_u64(0xF0B + me as u64);
    let region = Region::new(own * IO_ALIGN).unwrap();
    let mut model: HashMap<usize, u8> = HashMap::new();
    let mut pending: Vec<Pending> = Vec::new();
    let mut finished = 0;
    let settle = |backend: &mut IoBackend, p: Pending| {
        assert_eq!(backend.wait(p.r).check().unwrap(), IO_ALIGN);
        if let Some(byte) = p.expect {
            assert!(bytes(&region, p.place * IO_ALIGN, IO_ALIGN).iter().all(|&b| b == byte));
        }
        1
    };
    for step in 0..400u32 {
        let place = rng.random_range(0..own);
        if let Some(at) = pending.iter().position(|p| p.place == place) {
            finished += settle(backend, pending.swap_remove(at)); // one I/O on a block at a time
        }
        let offset = ((place * threads + me) * IO_ALIGN) as u64;
        let memory = IoMemory::new(region.clone(), place * IO_ALIGN, IO_ALIGN);
        if !backend.in_batch() && rng.random_bool(0.2) {
            backend.begin_batch();
        }
        let (io, expect) = if rng.random_bool(0.5) {
            let byte = (step % 251) as u8 + 1;
            // SAFETY: inside the region, and no I/O is in flight on this piece.
            unsafe { region.ptr(place * IO_ALIGN).write_bytes(byte, IO_ALIGN) };
            model.insert(place, byte);
            (Io::write(file.clone(), offset, memory, Target::File), None)
        } else {
            let expect = model.get(&place).copied().unwrap_or(0);
            (Io::read(file.clone(), offset, memory, Target::File), Some(expect))
        };
        let r = backend.start(io);
        pending.push(Pending { r, place, expect });
        if backend.in_batch() && rng.random_bool(0.4) {
            backend.end_batch();
        }
        if backend.staged() == 0 {
            *board[me].lock().unwrap() = Some(r);
            let other = *board[rng.random_range(0..threads)].lock().unwrap();
            if let Some(other) = other.filter(|_| rng.random_bool(0.3)) {
                backend.wait_anyones(other);
            }
        }
        while pending.len() > 12 || (!pending.is_empty() && rng.random_bool(0.3)) {
            let at = rng.random_range(0..pending.len());
            finished += settle(backend, pending.swap_remove(at));
        }
    }
    if backend.in_batch() {
        backend.end_batch();
    }
    for p in pending {
        finished += settle(backend, p);
    }
    finished
}

/// Waits for others' I/O without taking its own report.
trait WaitAny {
    fn wait_anyones(&mut self, r: WaitRef);
}

impl WaitAny for IoBackend {
    fn wait_anyones(&mut self, r: WaitRef) {
        self.aio().wait_done(r);
    }
}
