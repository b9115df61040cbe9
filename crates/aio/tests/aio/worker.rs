//! The worker method: its queue, its workers, and what pg_aios shows.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, ThreadId};

use forebay_aio::*;
use smallvec::SmallVec;

use crate::common::{Case, Setup, config};

fn setup(workers: usize) -> Setup {
    let case = Case { method: MethodKind::Worker(WorkerLimits::fixed(workers)), direct: false };
    Setup::new(case, AioConfig { handles_per_backend: 200, ..config() })
}

fn read(file: &File, region: &Arc<Region>, n: usize) -> Io {
    let memory = IoMemory::new(region.clone(), n * IO_ALIGN, IO_ALIGN);
    Io::read(
        file.clone(),
        (n * IO_ALIGN) as u64,
        memory,
        Target::Other(format!("block {n}").into()),
    )
}

/// A completion that holds its thread until the gate opens. (Only a test may block in a
/// completion.)
struct Gate {
    entered: Mutex<mpsc::Sender<()>>,
    open: Mutex<mpsc::Receiver<()>>,
}

impl SharedCompletion for Gate {
    fn complete(&self, io: &Completed<'_>) -> Outcome {
        self.entered.lock().unwrap().send(()).unwrap();
        self.open.lock().unwrap().recv().unwrap();
        io.transfer_outcome()
    }
}

/// Keeps the only worker busy; returns the key, and the I/O it is busy with.
fn occupy(
    backend: &mut IoBackend,
    file: &File,
    region: &Arc<Region>,
) -> (mpsc::Sender<()>, WaitRef) {
    let (entered, wait_entered) = mpsc::channel();
    let (key, open) = mpsc::channel();
    let gate = Arc::new(Gate { entered: Mutex::new(entered), open: Mutex::new(open) });
    let r = backend.start(read(file, region, 0).completion(gate, SmallVec::new()));
    wait_entered.recv().unwrap();
    (key, r)
}

#[test]
fn a_full_queue_makes_the_submitter_execute() {
    let s = setup(1);
    let file = s.create("data");
    s.aio.namespace().set_len(&file, 200 * IO_ALIGN as u64).unwrap();
    let region = Region::new(200 * IO_ALIGN).unwrap();
    let mut backend = s.backend();
    let (key, blocker) = occupy(&mut backend, &file, &region);

    let threads: Arc<Mutex<HashSet<ThreadId>>> = Arc::default();
    let mut refs = Vec::new();
    for n in 1..=100 {
        let seen = threads.clone();
        let completion = Arc::new(move |io: &Completed<'_>| {
            seen.lock().unwrap().insert(thread::current().id());
            io.transfer_outcome()
        });
        refs.push(backend.start(read(&file, &region, n).completion(completion, SmallVec::new())));
    }
    let done = refs.iter().filter(|&&r| s.aio.is_done(r)).count();
    assert_eq!(done, 100 - 64, "64 are queued; the submitter executed the others");
    let rows = s.aio.snapshot();
    assert_eq!(rows.iter().filter(|h| h.state == HandleState::Submitted).count(), 64);
    assert_eq!(rows.iter().filter(|h| h.state == HandleState::CompletedIo).count(), 1);

    // The worker is stuck, but everything queued can be finished: the waiter takes it.
    for &r in refs.iter().rev() {
        assert_eq!(backend.wait(r).check().unwrap(), IO_ALIGN);
    }
    assert_eq!(*threads.lock().unwrap(), HashSet::from([thread::current().id()]));
    assert!(!s.aio.is_done(blocker));
    key.send(()).unwrap();
    assert!(backend.wait(blocker).check().is_ok());
}

#[test]
fn pg_aios_shows_what_is_in_use() {
    let s = setup(1);
    let file = s.create("data");
    s.aio.namespace().set_len(&file, 8 * IO_ALIGN as u64).unwrap();
    let region = Region::new(8 * IO_ALIGN).unwrap();
    let mut backend = s.aio.backend_with_id(BackendType::Client, 4711).unwrap();
    assert!(s.aio.snapshot().is_empty());
    let (key, blocker) = occupy(&mut backend, &file, &region);
    let smgr =
        Target::Smgr { spc: 1664, db: 0, rel: 1262, fork: "_vm", block: 3, count: 1, temp: false };
    let mut io =
        read(&file, &region, 3).flags(IoFlags { local_memory: true, ..IoFlags::default() });
    io.target = smgr;
    io.data = SmallVec::from_slice(&[1, 2, 3]);
    let queued = backend.start(io);
    backend.begin_batch();
    let staged = backend.start(Io::new(file.clone(), Op::Fdatasync, Target::File));
    let rows = s.aio.snapshot();
    assert_eq!(rows.len(), 3);
    let row = |r: WaitRef| rows.iter().find(|h| h.io_id == r.index).unwrap();

    let h = row(blocker);
    assert_eq!(
        (h.backend_id, h.generation, h.state),
        (4711, blocker.generation, HandleState::CompletedIo)
    );
    assert_eq!((h.raw_result, h.result), (Some(IO_ALIGN as i64), "UNKNOWN"));
    let h = row(queued);
    assert_eq!((h.state.name(), h.operation.name()), ("SUBMITTED", "readv"));
    assert_eq!((h.offset, h.length), (Some(3 * IO_ALIGN as u64), Some(IO_ALIGN as u64)));
    assert_eq!(
        (h.target, h.target_desc.as_deref()),
        (Some("smgr"), Some("block 3 in file \"global/1262_vm\""))
    );
    assert_eq!((h.handle_data_len, h.f_localmem, h.f_sync, h.f_buffered), (3, true, false, true));
    assert_eq!((h.raw_result, h.result), (None, "UNKNOWN"));
    let h = row(staged);
    assert_eq!(
        (h.state.name(), h.operation.name(), h.target),
        ("STAGED", "fdatasync", Some("file"))
    );
    assert_eq!((h.offset, h.length), (None, None));

    key.send(()).unwrap();
    backend.end_batch();
    s.aio.wait_done(queued);
    let h = s.aio.snapshot().into_iter().find(|h| h.io_id == queued.index).unwrap();
    assert_eq!((h.state.name(), h.result), ("COMPLETED_SHARED", "OK"));
    assert_eq!(backend.drain(), Leftovers::default());
    assert!(s.aio.snapshot().is_empty());
}

#[test]
fn the_number_of_workers_changes() {
    let s = setup(1);
    for bad in [0, 33] {
        let e = s.aio.set_worker_limits(WorkerLimits::fixed(bad)).unwrap_err().to_string();
        assert_eq!(e, format!("{bad} is outside the valid range for io_workers (1 .. 32)"));
    }
    let file = s.create("data");
    s.aio.namespace().set_len(&file, 100 * IO_ALIGN as u64).unwrap();
    let region = Region::new(100 * IO_ALIGN).unwrap();
    let mut backend = s.backend();
    for workers in [32, 1, 7, 2, 3, 1, 32] {
        s.aio.set_worker_limits(WorkerLimits::fixed(workers)).unwrap();
        backend.begin_batch();
        let refs: Vec<_> = (0..100).map(|n| backend.start(read(&file, &region, n))).collect();
        backend.end_batch();
        assert!(refs.into_iter().all(|r| backend.wait(r).check().is_ok()));
    }
}

/// Workers finish I/O that nobody waits for.
#[test]
fn workers_work_unasked() {
    let s = setup(2);
    let file = s.create("data");
    s.aio.namespace().set_len(&file, IO_ALIGN as u64).unwrap();
    let region = Region::new(IO_ALIGN).unwrap();
    let mut backend = s.backend();
    for _ in 0..200 {
        let (tell, told) = mpsc::channel();
        let tell = Mutex::new(tell);
        let completion = Arc::new(move |io: &Completed<'_>| {
            tell.lock().unwrap().send(thread::current().name().unwrap_or("").to_string()).unwrap();
            io.transfer_outcome()
        });
        let mut io = read(&file, &region, 0).completion(completion, SmallVec::new());
        io.flags.detached = true;
        backend.start(io);
        assert!(told.recv().unwrap().starts_with("io worker "));
    }
}
