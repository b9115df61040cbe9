//! The protocols that threads share, in interleavings that shuttle chooses: handles and their
//! waiters, the workers' queue, the deferring method, merged I/Os.
//!
//! Only a checked build has these tests:
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p forebay-aio --test interleavings \
//!     --target-dir target/shuttle
//! ```
//!
//! FOREBAY_SHUTTLE_ROUNDS sets how many interleavings each scenario is run in. A failing one prints
//! a schedule, which `shuttle::replay` repeats. Files are pieces of memory here, so nothing waits
//! for the kernel, and a thread that nobody wakes is found as a deadlock.
#![cfg(shuttle)]

use std::path::PathBuf;

use forebay_aio::execute::{Executor, Request};
use forebay_aio::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use forebay_aio::sync::{Arc, Mutex, thread};
use forebay_aio::{
    Aio, AioConfig, BackendType, Completed, Deferred, Errno, File, FileFlags, IO_ALIGN, Io,
    IoBackend, IoMemory, Op, OpKind, Outcome, PosixNamespace, Region, Target, WaitRef,
    WorkerLimits,
};

const BLOCKS: usize = 8;

/// A file in memory: each block is one byte many times.
struct Memory(Mutex<[u8; BLOCKS]>);

struct MemoryExecutor;

impl Executor for MemoryExecutor {
    fn execute(&self, request: &Request<'_>) -> Result<usize, Errno> {
        let object = request.file().object().ok_or(Errno::BADF)?;
        let memory = object.downcast_ref::<Memory>().ok_or(Errno::BADF)?;
        let mut done = 0;
        for vector in request.vectors() {
            for block in 0..vector.len() / IO_ALIGN {
                let at = request.offset() as usize / IO_ALIGN + done / IO_ALIGN;
                let mut blocks = memory.0.lock();
                let Some(byte) = blocks.get_mut(at) else { return Ok(done) };
                let here = vector.ptr().wrapping_add(block * IO_ALIGN);
                // SAFETY: the request's memory is valid until the attempt returns, and a block lies
                // within its vector.
                unsafe {
                    match request.op() {
                        OpKind::Writev => *byte = here.read(),
                        _ => here.write_bytes(*byte, IO_ALIGN),
                    }
                }
                done += IO_ALIGN;
            }
        }
        Ok(done)
    }
}

#[derive(Clone, Copy, Debug)]
enum Who {
    Workers(usize),
    Deferred,
    Cutting,
}

struct Fixture {
    aio: Arc<Aio>,
    file: File,
    region: Arc<Region>,
}

fn fixture(who: Who, handles_per_backend: usize) -> Fixture {
    let config = AioConfig { max_backends: 2, handles_per_backend, ..AioConfig::default() };
    let names = Arc::new(PosixNamespace::new());
    let executor = Arc::new(MemoryExecutor);
    let aio = match who {
        Who::Workers(n) => Aio::with_workers(names, executor, config, WorkerLimits::fixed(n)),
        Who::Deferred => {
            Aio::with_method(names, executor, config, |t| Ok(Deferred::new(seed()).over(t)))
        }
        Who::Cutting => {
            Aio::with_method(names, executor, config, |t| Ok(Deferred::cutting(seed()).over(t)))
        }
    };
    let memory = Memory(Mutex::new(std::array::from_fn(|n| n as u8 + 1)));
    let file = File::from_object(
        PathBuf::from("memory"),
        FileFlags::default(),
        std::sync::Arc::new(memory),
    );
    Fixture { aio: aio.unwrap(), file, region: Region::new(BLOCKS * IO_ALIGN).unwrap() }
}

impl Fixture {
    fn backend(&self) -> IoBackend {
        self.aio.backend(BackendType::Client).unwrap()
    }

    fn memory(&self, block: usize) -> IoMemory {
        IoMemory::new(Arc::clone(&self.region), block * IO_ALIGN, IO_ALIGN)
    }

    /// A read of one block, whose completion counts.
    fn read(&self, block: usize, completed: &Arc<AtomicUsize>) -> Io {
        let completed = Arc::clone(completed);
        let count = move |done: &Completed<'_>| {
            completed.fetch_add(1, SeqCst);
            Outcome::of_transfer(done.result, done.expected)
        };
        let offset = (block * IO_ALIGN) as u64;
        Io::read(self.file.clone(), offset, self.memory(block), Target::File)
            .completion(Arc::new(count), Default::default())
    }

    fn first_byte(&self, block: usize) -> u8 {
        // SAFETY: inside the region, and the block's I/O is finished.
        unsafe { self.region.ptr(block * IO_ALIGN).read() }
    }
}

/// The scheduler's choice, so that it is repeated with the schedule.
fn seed() -> u64 {
    use shuttle::rand::Rng;
    shuttle::rand::thread_rng().r#gen()
}

fn rounds() -> usize {
    forebay_testkit::env::shuttle_rounds(300)
}

/// Runs a scenario over each method, in random interleavings and in ones with few, well-placed
/// preemptions.
fn each(scenario: fn(Who)) {
    for who in [Who::Workers(1), Who::Workers(2), Who::Deferred, Who::Cutting] {
        eprintln!("over {who:?}");
        shuttle::check_random(move || scenario(who), rounds());
        shuttle::check_pct(move || scenario(who), rounds(), 3);
    }
}

#[test]
fn every_waiter_is_woken() {
    each(|who| {
        let fixture = Arc::new(fixture(who, 4));
        let completed = Arc::new(AtomicUsize::new(0));
        let mut issuer = fixture.backend();
        issuer.begin_batch();
        // 0, 1 and 2 are neighbours, so they may be merged.
        let refs: Vec<WaitRef> =
            [0, 1, 2, 5].map(|n| issuer.start(fixture.read(n, &completed))).to_vec();
        issuer.end_batch();
        let waiters: Vec<_> = (0..2)
            .map(|n| {
                let (fixture, refs) = (Arc::clone(&fixture), refs.clone());
                thread::spawn(move || {
                    for turn in 0..refs.len() {
                        let r = refs[(turn * (n + 1) + n) % refs.len()];
                        fixture.aio.wait_done(r);
                        assert!(fixture.aio.is_done(r));
                    }
                })
            })
            .collect();
        for &r in &refs {
            assert_eq!(issuer.wait(r).check().unwrap(), IO_ALIGN);
        }
        waiters.into_iter().for_each(|w| w.join().unwrap());
        assert_eq!(completed.load(SeqCst), refs.len());
        assert_eq!([0, 1, 2, 5].map(|n| fixture.first_byte(n)), [1, 2, 3, 6]);
    });
}

#[test]
fn a_blocked_or_dead_issuer_delays_no_waiter() {
    each(|who| {
        let fixture = Arc::new(fixture(who, 2));
        let completed = Arc::new(AtomicUsize::new(0));
        let lock = Arc::new(Mutex::new(()));
        let (told, hears) = shuttle::sync::mpsc::channel();
        let issuer = {
            let (fixture, completed, lock) =
                (Arc::clone(&fixture), Arc::clone(&completed), Arc::clone(&lock));
            thread::spawn(move || {
                let mut backend = fixture.backend();
                let r = backend.start(fixture.read(3, &completed));
                told.send(r).unwrap();
                // The waiter may hold this while it waits for the I/O.
                drop(lock.lock());
                // Dropping the backend waits for its I/O.
            })
        };
        {
            let _held = lock.lock();
            fixture.aio.wait_done(hears.recv().unwrap());
        }
        issuer.join().unwrap();
        assert_eq!(completed.load(SeqCst), 1);
        assert_eq!(fixture.first_byte(3), 4);
    });
}

#[test]
fn a_stale_reference_is_never_waited_for() {
    each(|who| {
        let fixture = Arc::new(fixture(who, 1));
        let completed = Arc::new(AtomicUsize::new(0));
        let mut issuer = fixture.backend();
        // One handle: each start takes it from the I/O before.
        let first = issuer.start(fixture.read(0, &completed));
        let waiter = {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || fixture.aio.wait_done(first))
        };
        for n in 1..4 {
            issuer.start(fixture.read(n, &completed));
        }
        waiter.join().unwrap();
        assert!(fixture.aio.is_done(first));
        drop(issuer);
        assert_eq!(completed.load(SeqCst), 4);
    });
}

#[test]
fn what_a_read_sees_was_written_before() {
    each(|who| {
        let fixture = Arc::new(fixture(who, 4));
        let completed = Arc::new(AtomicUsize::new(0));
        let writer = {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || {
                let mut backend = fixture.backend();
                // SAFETY: inside the region; nobody else uses this block.
                unsafe { fixture.region.ptr(7 * IO_ALIGN).write_bytes(77, IO_ALIGN) };
                let op = Op::Writev { offset: 4 * IO_ALIGN as u64, memory: fixture.memory(7) };
                let r = backend.start(Io::new(fixture.file.clone(), op, Target::File));
                assert_eq!(backend.wait(r).check().unwrap(), IO_ALIGN);
                let r = backend.start(fixture.read(4, &completed));
                backend.wait(r).check().unwrap();
                assert_eq!(fixture.first_byte(4), 77);
            })
        };
        let other = Arc::new(AtomicUsize::new(0));
        let mut backend = fixture.backend();
        for n in 0..3 {
            let r = backend.start(fixture.read(n, &other));
            backend.wait(r).check().unwrap();
            assert_eq!(fixture.first_byte(n), n as u8 + 1);
        }
        writer.join().unwrap();
    });
}
