//! An issuer that sleeps where nothing wakes it, with I/O in flight that others wait for.
//!
//! The kernel posts a ring's completions by work on the submitting thread. A thread in an
//! uninterruptible sleep (in a plain fdatasync of a stalled disk) does not do that work, so waiters
//! of its I/O would wait as long.
//!
//! - [`fuse`]: a file that stalls
#![cfg(target_os = "linux")]

use std::io::{PipeWriter, Write};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use forebay_aio::*;
use forebay_testkit::io::has_io_uring;

#[path = "../common/mod.rs"]
mod common;
mod fuse;

use common::{Case, Setup, config};
use fuse::StallingFile;

/// Longer than any wait that can end.
const NEVER: Duration = Duration::from_secs(20);

/// Reads in flight.
const DEPTH: usize = 6;

fn setup() -> Option<Setup> {
    let case = Case { method: MethodKind::IoUring, direct: false };
    has_io_uring().then(|| Setup::new(case, config()))
}

/// A file whose read ends when the pipe is fed.
fn pipe() -> (File, PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    (File::from_fd("pipe".into(), FileFlags::default(), reader.into()), writer)
}

fn read_pipe(file: &File, region: &Arc<Region>, n: usize) -> Io {
    Io::read(file.clone(), 0, IoMemory::new(region.clone(), n * IO_ALIGN, IO_ALIGN), Target::File)
}

/// Starts a read of each pipe and then calls `stall`, in a separate thread. While `stall` is held,
/// the pipes are fed and another thread waits for the reads.
fn others_finish_while(
    s: &Setup,
    stalling: &StallingFile,
    stall: fn(&mut IoBackend, &File) -> Result<(), AioError>,
) {
    let region = Region::new(DEPTH * IO_ALIGN).unwrap();
    let (pipes, mut feeds): (Vec<_>, Vec<_>) = (0..DEPTH).map(|_| pipe()).unzip();
    let (tell_started, started) = mpsc::channel();
    let issuer = {
        let (mut backend, file) = (s.backend(), stalling.file.clone());
        thread::spawn(move || {
            backend.begin_batch();
            let reads = pipes
                .iter()
                .enumerate()
                .map(|(n, pipe)| backend.start(read_pipe(pipe, &region, n)));
            let reads: Vec<_> = reads.collect();
            backend.end_batch();
            tell_started.send(reads.clone()).unwrap();
            stall(&mut backend, &file).unwrap();
            reads.into_iter().for_each(|r| assert_eq!(backend.wait(r).check().unwrap(), IO_ALIGN));
        })
    };
    let reads = started.recv().unwrap();
    stalling.wait_held();
    feeds.iter_mut().for_each(|feed| feed.write_all(&[1; IO_ALIGN]).unwrap());
    let (tell_finished, finished) = mpsc::channel();
    let waiter = {
        let aio = s.aio.clone();
        thread::spawn(move || {
            reads.into_iter().for_each(|r| aio.wait_done(r));
            let _ = tell_finished.send(());
        })
    };
    finished
        .recv_timeout(NEVER)
        .expect("the reads wait for the issuer, which sleeps in a stalled call");
    assert!(!issuer.is_finished(), "the call was held all the time");
    stalling.release();
    issuer.join().unwrap();
    waiter.join().unwrap();
}

fn with_stalling_file(name: &str, test: impl FnOnce(&Setup, &StallingFile)) {
    let Some(s) = setup() else { return };
    match StallingFile::new(s.dir.path()) {
        Err(e) => eprintln!("skipped: {name} needs /dev/fuse: {e}"),
        Ok(stalling) => {
            test(&s, &stalling);
            stalling.close();
        }
    }
}

fn row(aio: &Aio, backend: &IoBackend) -> BackendStatsRow {
    aio.backend_stats()
        .into_iter()
        .find(|r| r.pid == backend.id())
        .expect("a living backend has a row")
}

/// One system call executes an operation of a backend that has nothing in flight, so a single
/// commit does not pay for the ring.
#[test]
fn with_nothing_in_flight_calls_are_direct() {
    let Some(s) = setup() else { return };
    let region = Region::new(IO_ALIGN).unwrap();
    let (file, buf) = (s.create("data"), AlignedBuf::zeroed(IO_ALIGN).unwrap());
    let (pipe, mut feed) = pipe();
    let mut backend = s.backend();
    let commit = |backend: &mut IoBackend| {
        let before = row(&s.aio, backend);
        backend.write_all_at(&file, 0, &buf).unwrap();
        backend.fdatasync(&file).unwrap();
        let after = row(&s.aio, backend);
        (after.immediate - before.immediate, after.submissions - before.submissions)
    };
    assert_eq!(commit(&mut backend), (2, 0));
    let pending = backend.start(read_pipe(&pipe, &region, 0));
    assert_eq!(commit(&mut backend), (0, 2), "by the ring, while a read is in flight");
    feed.write_all(&[1; IO_ALIGN]).unwrap();
    s.aio.wait_done(pending);
    assert_eq!(
        commit(&mut backend),
        (2, 0),
        "a report that nobody has asked for is nothing in flight"
    );
    assert_eq!(backend.wait(pending).check().unwrap(), IO_ALIGN);
    assert_eq!(commit(&mut backend), (2, 0));
}

/// A thread that is about to start a process leaves nothing behind that others would wait for.
#[test]
fn after_quiesce_nothing_needs_the_issuer() {
    let Some(s) = setup() else { return };
    let region = Region::new(DEPTH * IO_ALIGN).unwrap();
    let (pipes, mut feeds): (Vec<_>, Vec<_>) = (0..DEPTH).map(|_| pipe()).unzip();
    let mut backend = s.backend();
    backend.begin_batch();
    let reads: Vec<_> = pipes
        .iter()
        .enumerate()
        .map(|(n, pipe)| backend.start(read_pipe(pipe, &region, n)))
        .collect();
    let feeder = thread::spawn(move || {
        feeds.iter_mut().for_each(|feed| feed.write_all(&[1; IO_ALIGN]).unwrap());
        feeds
    });
    backend.quiesce();
    assert!(reads.iter().all(|&r| backend.is_known_done(r)));
    assert!(backend.in_batch());
    backend.end_batch();
    reads.into_iter().for_each(|r| assert_eq!(backend.wait(r).check().unwrap(), IO_ALIGN));
    feeder.join().unwrap();
}

macro_rules! stalled_calls {
    ($($(#[$doc:meta])* $name:ident: $call:expr;)+) => {
        $($(#[$doc])* #[test] fn $name() {
            with_stalling_file(stringify!($name), |s, file| others_finish_while(s, file, $call));
        })+
    };
}

stalled_calls! {
    a_stalled_fsync_holds_nobody_up: |backend, file| backend.fsync(file);
    a_stalled_fdatasync_holds_nobody_up: |backend, file| backend.fdatasync(file);
    a_stalled_allocation_holds_nobody_up:
        |backend, file| backend.allocate(file, 0, IO_ALIGN as u64);
    a_stalled_write_holds_nobody_up: |backend, file| {
        backend.write_all_at(file, 0, &AlignedBuf::zeroed(IO_ALIGN)?)
    };
    a_stalled_read_holds_nobody_up: |backend, file| {
        backend.read_exact_at(file, 0, &mut AlignedBuf::zeroed(IO_ALIGN)?)
    };
    /// Within a batch: what is staged is submitted first.
    a_stalled_call_in_a_batch_holds_nobody_up: |backend, file| {
        backend.begin_batch();
        let synced = backend.fdatasync(file);
        backend.end_batch();
        synced
    };
}
