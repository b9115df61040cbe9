//! The deferring method alone: it holds I/O, and releases it in random order.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use forebay_aio::execute::{Executor, PosixExecutor, Request};
use forebay_aio::*;
use smallvec::SmallVec;
use tempfile::TempDir;

use crate::common::config;

const BLOCKS: usize = 16;

struct Fixture {
    deferred: Deferred,
    aio: Arc<Aio>,
    file: File,
    region: Arc<Region>,
    /// The blocks whose I/O was completed, in order.
    order: Arc<Mutex<Vec<u32>>>,
    _dir: TempDir,
}

fn fixture(seed: u64, executor: Arc<dyn Executor>) -> Fixture {
    fixture_of(Deferred::new(seed), executor)
}

fn fixture_of(deferred: Deferred, executor: Arc<dyn Executor>) -> Fixture {
    let made = Aio::with_method(Arc::new(PosixNamespace), executor, config(), |table| {
        Ok(deferred.over(table))
    });
    let aio = made.unwrap();
    let dir = TempDir::new().unwrap();
    let file =
        aio.namespace().open(&dir.path().join("f"), &OpenOptions::READ_WRITE.create()).unwrap();
    let region = Region::new(BLOCKS * IO_ALIGN).unwrap();
    Fixture { deferred, aio, file, region, order: Arc::default(), _dir: dir }
}

impl Fixture {
    fn start(&self, backend: &mut IoBackend) -> Vec<WaitRef> {
        backend.begin_batch();
        let refs = (0..BLOCKS)
            .map(|n| {
                let order = self.order.clone();
                let note = Arc::new(move |io: &Completed<'_>| {
                    order.lock().unwrap().push(io.data[0]);
                    io.transfer_outcome()
                });
                let memory = IoMemory::new(self.region.clone(), n * IO_ALIGN, IO_ALIGN);
                // Not neighbours: each stays an I/O of its own.
                let io =
                    Io::write(self.file.clone(), (2 * n * IO_ALIGN) as u64, memory, Target::File);
                backend.start(io.completion(note, SmallVec::from_slice(&[n as u32])))
            })
            .collect();
        backend.end_batch();
        refs
    }

    fn order(&self) -> Vec<u32> {
        std::mem::take(&mut *self.order.lock().unwrap())
    }
}

fn orders(seed: u64) -> Vec<Vec<u32>> {
    let f = fixture(seed, Arc::new(PosixExecutor));
    let mut backend = f.aio.backend(BackendType::Client).unwrap();
    (0..4)
        .map(|_| {
            let refs = f.start(&mut backend);
            assert_eq!(
                (f.deferred.held(), f.order()),
                (BLOCKS, vec![]),
                "nothing happens by itself"
            );
            f.deferred.release();
            assert_eq!(f.deferred.held(), 0);
            assert!(refs.into_iter().all(|r| f.aio.is_done(r) && backend.wait(r).check().is_ok()));
            f.order()
        })
        .collect()
}

#[test]
fn the_order_follows_from_the_seed() {
    let one = orders(1);
    let submitted: Vec<u32> = (0..BLOCKS as u32).collect();
    for order in &one {
        assert_ne!(order, &submitted);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, submitted, "each once");
    }
    assert_ne!(one[0], one[1]);
    assert_eq!(one, orders(1));
    assert_ne!(one, orders(2));
}

#[test]
fn waiting_ends_one_io_and_perhaps_others() {
    let f = fixture(3, Arc::new(PosixExecutor));
    let mut backend = f.aio.backend(BackendType::Client).unwrap();
    let mut left = Vec::new();
    for _ in 0..20 {
        let refs = f.start(&mut backend);
        assert!(backend.wait(refs[0]).check().is_ok());
        left.push(f.deferred.held());
        assert_eq!(backend.drain().failed, 0);
        assert_eq!(f.order().len(), BLOCKS);
    }
    left.sort_unstable();
    assert!(left[0] < BLOCKS - 1 && left[19] > 0, "{left:?}");
}

#[test]
fn polling_ends_all_io_at_last() {
    let f = fixture(4, Arc::new(PosixExecutor));
    let mut backend = f.aio.backend(BackendType::Client).unwrap();
    let refs = f.start(&mut backend);
    assert!(!refs.iter().all(|&r| backend.is_done(r)), "not at once");
    while !refs.iter().all(|&r| backend.is_done(r)) {}
    assert_eq!(f.deferred.held(), 0);
}

/// While one thread executes an I/O, another waits for it. The first may put it back executed, and
/// the second completes it.
#[test]
fn a_waiter_completes_what_is_put_back() {
    struct Announced(Mutex<mpsc::Sender<()>>, Mutex<mpsc::Receiver<()>>);
    impl Executor for Announced {
        fn execute(&self, r: &Request<'_>) -> Result<usize, Errno> {
            self.0.lock().unwrap().send(()).unwrap();
            self.1.lock().unwrap().recv().unwrap();
            PosixExecutor.execute(r)
        }
    }
    for seed in 0..40 {
        let ((began, begun), (go, wait)) = (mpsc::channel(), mpsc::channel());
        let f = fixture(seed, Arc::new(Announced(Mutex::new(began), Mutex::new(wait))));
        let mut backend = f.aio.backend(BackendType::Client).unwrap();
        let memory = IoMemory::new(f.region.clone(), 0, IO_ALIGN);
        let r = backend.start(Io::write(f.file.clone(), 0, memory, Target::File));
        thread::scope(|scope| {
            scope.spawn(|| f.deferred.release());
            begun.recv().unwrap();
            let waiter = scope.spawn(|| f.aio.wait_done(r));
            go.send(()).unwrap();
            waiter.join().unwrap();
        });
        assert_eq!(backend.wait(r).check().unwrap(), IO_ALIGN);
    }
}

/// With short and lost attempts, every byte arrives.
#[test]
fn short_transfers_are_continued() {
    let f = fixture_of(Deferred::cutting(5), Arc::new(PosixExecutor));
    let mut backend = f.aio.backend(BackendType::Client).unwrap();
    let back = Region::new(BLOCKS * IO_ALIGN).unwrap();
    for round in 0..30 {
        crate::common::fill(&f.region, 0, f.region.len(), round);
        let memory = IoMemory::new(f.region.clone(), 0, BLOCKS * IO_ALIGN);
        let w = backend.start(Io::write(f.file.clone(), 0, memory, Target::File));
        assert_eq!(backend.wait(w).check().unwrap(), BLOCKS * IO_ALIGN);
        let memory = IoMemory::new(back.clone(), 0, BLOCKS * IO_ALIGN);
        let r = backend.start(Io::read(f.file.clone(), 0, memory, Target::File));
        assert_eq!(backend.wait(r).check().unwrap(), BLOCKS * IO_ALIGN);
        assert!(
            crate::common::bytes(&back, 0, back.len())
                == crate::common::bytes(&f.region, 0, back.len())
        );
    }
    let stats = f.aio.backend_stats();
    assert!(stats.iter().any(|row| row.retries > 0), "some were");
}

#[test]
fn a_panic_in_execution_is_an_error_of_the_io() {
    struct Bursting;
    impl Executor for Bursting {
        fn execute(&self, _: &Request<'_>) -> Result<usize, Errno> {
            panic!("on purpose")
        }
    }
    let f = fixture(1, Arc::new(Bursting));
    let mut backend = f.aio.backend(BackendType::Client).unwrap();
    let memory = IoMemory::new(f.region.clone(), 0, IO_ALIGN);
    let r = backend.start(Io::write(f.file.clone(), 0, memory, Target::File));
    assert_eq!(backend.wait(r).report().unwrap().errno(), Some(Errno::IO));
}
