//! io_uring alone: which thread sleeps in the kernel, and which is woken. Pipes serve as files
//! whose reads end when the test feeds them.
#![cfg(target_os = "linux")]

use std::io::Write;
use std::sync::{Arc, mpsc};
use std::thread;

use forebay_aio::*;
use forebay_testkit::io::has_io_uring;

mod common;
use common::{Case, Setup, config};

fn setup() -> Option<Setup> {
    let case = Case { method: MethodKind::IoUring, direct: false };
    has_io_uring().then(|| Setup::new(case, config()))
}

fn pipe() -> (File, std::io::PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    (File::from_fd("pipe".into(), FileFlags::default(), reader.into()), writer)
}

fn read(file: &File, region: &Arc<Region>, n: usize) -> Io {
    Io::read(file.clone(), 0, IoMemory::new(region.clone(), n * IO_ALIGN, IO_ALIGN), Target::File)
}

/// One waiter sleeps in the kernel as leader, for A. B arrives; the waiters of B and A both end.
#[test]
fn the_sleeper_reaps_for_others() {
    let Some(s) = setup() else { return };
    let region = Region::new(2 * IO_ALIGN).unwrap();
    let ((a, mut feed_a), (b, mut feed_b)) = (pipe(), pipe());
    let mut backend = s.backend();
    for _ in 0..50 {
        let ra = backend.start(read(&a, &region, 0));
        let rb = backend.start(read(&b, &region, 1));
        let (tell, told) = mpsc::channel();
        let wait = |r: WaitRef, name: &'static str| {
            let (aio, tell) = (s.aio.clone(), tell.clone());
            thread::spawn(move || {
                tell.send("begun").unwrap();
                aio.wait_done(r);
                tell.send(name).unwrap();
            })
        };
        let waiters = [wait(ra, "a"), wait(rb, "b")];
        assert_eq!([told.recv(), told.recv()], [Ok("begun"); 2]);
        feed_b.write_all(&[1; IO_ALIGN]).unwrap();
        assert_eq!(told.recv(), Ok("b"));
        assert!(!s.aio.is_done(ra));
        feed_a.write_all(&[2; IO_ALIGN]).unwrap();
        assert_eq!(told.recv(), Ok("a"));
        for w in waiters {
            w.join().unwrap();
        }
        assert!(backend.wait(ra).check().is_ok() && backend.wait(rb).check().is_ok());
    }
}

/// A thread that waits for any I/O is not delayed by the oldest.
#[test]
fn any_arrival_ends_a_wait_for_any() {
    let Some(s) = setup() else { return };
    let region = Region::new(2 * IO_ALIGN).unwrap();
    let ((a, mut feed_a), (b, mut feed_b)) = (pipe(), pipe());
    let mut backend = s.backend();
    for _ in 0..50 {
        let ra = backend.start(read(&a, &region, 0));
        let rb = backend.start(read(&b, &region, 1));
        feed_b.write_all(&[1; IO_ALIGN]).unwrap();
        assert_eq!(backend.wait_any().as_slice(), [rb]);
        assert!(backend.wait(rb).check().is_ok());
        feed_a.write_all(&[2; IO_ALIGN]).unwrap();
        assert_eq!(backend.wait_any().as_slice(), [ra]);
        assert!(backend.wait(ra).check().is_ok());
    }
}

/// A thread that waits for the oldest I/O learns that another was executed, before any thread has
/// finished that one.
#[test]
fn an_arrival_is_told_before_it_is_taken() {
    let Some(s) = setup() else { return };
    let region = Region::new(2 * IO_ALIGN).unwrap();
    let ((a, mut feed_a), (b, mut feed_b)) = (pipe(), pipe());
    let mut backend = s.backend();
    for _ in 0..50 {
        let ra = backend.start(read(&a, &region, 0));
        let rb = backend.start(read(&b, &region, 1));
        assert_eq!(backend.arrived(), 0);
        feed_b.write_all(&[1; IO_ALIGN]).unwrap();
        backend.wait_for_arrival(ra);
        assert_eq!(backend.arrived(), 1);
        assert!(!backend.is_known_done(rb), "nobody has looked");
        assert!(backend.is_done(rb) && backend.is_known_done(rb) && !backend.is_done(ra));
        assert_eq!(backend.arrived(), 0);
        feed_a.write_all(&[2; IO_ALIGN]).unwrap();
        while !backend.is_done(ra) {
            backend.wait_for_arrival(ra);
        }
        backend.wait_for_arrival(ra); // that has finished: no wait
        assert!(backend.wait(ra).check().is_ok() && backend.wait(rb).check().is_ok());
    }
}

/// The owner continues to submit to a ring on which another thread sleeps.
#[test]
fn submission_does_not_wait_for_a_sleeping_reaper() {
    let Some(s) = setup() else { return };
    let region = Region::new(2 * IO_ALIGN).unwrap();
    let ((a, mut feed_a), (b, mut feed_b)) = (pipe(), pipe());
    let mut backend = s.backend();
    let ra = backend.start(read(&a, &region, 0));
    let (tell, told) = mpsc::channel();
    let waiter = {
        let aio = s.aio.clone();
        thread::spawn(move || {
            tell.send(()).unwrap();
            aio.wait_done(ra);
        })
    };
    told.recv().unwrap();
    for _ in 0..200 {
        let rb = backend.start(read(&b, &region, 1));
        assert!(!backend.is_done(rb));
        feed_b.write_all(&[1; IO_ALIGN]).unwrap();
        assert!(backend.wait(rb).check().is_ok());
    }
    feed_a.write_all(&[2; IO_ALIGN]).unwrap();
    waiter.join().unwrap();
    assert!(backend.wait(ra).check().is_ok());
}

/// What the issuer's thread executes never shows up in the ring, so its waiters must not look for
/// it there.
#[test]
fn synchronous_io_is_not_awaited_in_the_ring() {
    let Some(s) = setup() else { return };
    let file = s.create("data");
    s.aio.namespace().set_len(&file, IO_ALIGN as u64).unwrap();
    let region = Region::new(IO_ALIGN).unwrap();
    let (tell, told) = mpsc::channel::<WaitRef>();
    let aio = s.aio.clone();
    let waiter = thread::spawn(move || told.into_iter().for_each(|r| aio.wait_done(r)));
    let mut backend = s.backend();
    // The reference becomes known before the I/O runs: a completion announces it.
    for _ in 0..500 {
        let tell = std::sync::Mutex::new(tell.clone());
        let aio = s.aio.clone();
        let completion = Arc::new(move |io: &Completed<'_>| {
            let h =
                aio.snapshot().into_iter().find(|h| h.state == HandleState::CompletedIo).unwrap();
            tell.lock()
                .unwrap()
                .send(WaitRef { index: h.io_id, generation: h.generation })
                .unwrap();
            io.transfer_outcome()
        });
        let io = read(&file, &region, 0).completion(completion, Default::default());
        backend.run(io).unwrap();
    }
    drop(tell);
    waiter.join().unwrap();
}

/// A read that its thread's exit cancels is executed by its waiter. (A pipe can't be read at an
/// offset: the error shows that the attempt was made.)
#[test]
fn a_pending_read_of_an_exited_thread_ends() {
    let Some(s) = setup() else { return };
    let region = Region::new(IO_ALIGN).unwrap();
    let (a, mut feed) = pipe();
    let mut backend = s.backend();
    let io = read(&a, &region, 0);
    let (backend, r) = thread::spawn(move || {
        let r = backend.start(io);
        (backend, r)
    })
    .join()
    .unwrap();
    feed.write_all(&[1; IO_ALIGN]).unwrap();
    s.aio.wait_done(r);
    assert!(s.aio.is_done(r));
    drop(backend);
}

#[test]
fn buffered_depth_beyond_the_threshold_works() {
    let Some(s) = setup() else { return };
    let file = s.create("data");
    let region = Region::new(16 * IO_ALIGN).unwrap();
    common::fill(&region, 0, region.len(), 4);
    let mut backend = s.backend();
    backend.begin_batch();
    for n in 0..16 {
        let memory = IoMemory::new(region.clone(), n * IO_ALIGN, IO_ALIGN);
        backend.start(Io::write(file.clone(), (n * IO_ALIGN) as u64, memory, Target::File));
    }
    backend.end_batch();
    assert_eq!(backend.drain(), Leftovers::default());
    assert_eq!(std::fs::read(s.path("data")).unwrap(), common::bytes(&region, 0, region.len()));
}
