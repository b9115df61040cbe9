//! Files that are closed, emptied or unlinked with I/O staged and in flight on them.

use std::path::Path;
use std::thread;

use forebay_aio::fault::{Ops, Rule};
use forebay_aio::*;

use crate::common::{bytes, each_case, each_faulty_case, until};
use crate::{filled, pattern, patterned, read, write};

const BLOCKS: usize = 8;

/// Descriptors of files below `dir` that this process has open.
fn open_below(dir: &Path) -> usize {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = entries.filter_map(|e| std::fs::read_link(e.ok()?.path()).ok());
    targets.filter(|target| target.starts_with(dir)).count()
}

#[test]
fn all_files_are_closed_in_mid_batch() {
    each_case(|s| {
        for waited in [true, false] {
            let (first, into_first) = filled(s, "first", BLOCKS);
            let (second, into_second) = filled(s, "second", BLOCKS);
            let mut backend = s.backend();
            backend.begin_batch();
            let mut refs = Vec::new();
            for n in 0..BLOCKS / 2 {
                refs.push(backend.start(read(&first, &into_first, 2 * n, 2)));
                refs.push(backend.start(read(&second, &into_second, 2 * n, 2)));
            }
            drop((first, second));
            for name in ["first", "second"] {
                s.aio.namespace().unlink(&s.path(name)).unwrap();
            }
            if waited {
                assert!(refs.into_iter().all(|r| backend.wait(r).check().is_ok()));
                assert!(backend.in_batch());
                backend.end_batch();
            } else {
                assert_eq!(backend.drain().failed, 0);
            }
            assert_eq!(open_below(s.dir.path()), 0, "the last report closes the file");
            for region in [into_first, into_second] {
                assert!(bytes(&region, 0, region.len()) == pattern(BLOCKS));
            }
        }
    });
}

#[test]
fn settling_a_file_submits_and_waits_for_what_is_on_it() {
    each_case(|s| {
        let (first, into_first) = filled(s, "first", BLOCKS);
        let (second, into_second) = filled(s, "second", BLOCKS);
        let again = s.open("first", OpenOptions::READ_WRITE);
        let mut backend = s.backend();
        backend.begin_batch();
        let reads: Vec<_> =
            (0..BLOCKS).map(|n| backend.start(read(&first, &into_first, n, 1))).collect();
        let staged = backend.staged();
        backend.settle_file(&second);
        backend.settle_file(&again);
        assert_eq!(
            backend.staged(),
            staged,
            "nothing is on these two: one of them is another opening of the file"
        );
        let other = backend.start(read(&second, &into_second, 0, BLOCKS));
        backend.settle_file(&first);
        assert_eq!((backend.staged(), backend.in_batch()), (0, true));
        assert!(bytes(&into_first, 0, into_first.len()) == pattern(BLOCKS));
        assert!(reads.iter().all(|&r| s.aio.is_done(r)));
        // A settled file can be truncated, and the reports are still there.
        s.aio.namespace().set_len(&first, 0).unwrap();
        assert!(
            reads.into_iter().all(|r| backend.wait(r).report().expect("a report").check().is_ok())
        );
        assert!(backend.wait(other).check().is_ok());
        backend.settle_file(&first);
        backend.end_batch();
    });
}

#[test]
fn settling_outwaits_a_slow_write() {
    each_faulty_case(|s, plan| {
        let file = s.create("new");
        let region = patterned(BLOCKS);
        let mut backend = s.backend();
        let held = plan.hold(Rule::on(Ops::WRITE));
        let io = write(&file, &region, 0, BLOCKS);
        let closer = thread::spawn(move || {
            let r = backend.start(io);
            backend.settle_file(&file);
            (backend.is_done(r), backend.wait(r).check())
        });
        held.await_count(1);
        until("an I/O in flight", || {
            s.aio.snapshot().iter().any(|h| h.state == HandleState::Submitted)
                && !closer.is_finished()
        });
        assert_eq!(std::fs::metadata(s.path("new")).unwrap().len(), 0);
        held.release();
        let (done, written) = closer.join().unwrap();
        assert!(done && written.unwrap() == BLOCKS * IO_ALIGN);
        assert!(std::fs::read(s.path("new")).unwrap() == pattern(BLOCKS));
    });
}

/// A backend that ends closes its files after its I/O, not before.
#[test]
fn a_backend_ends_with_its_io_held() {
    each_faulty_case(|s, plan| {
        let file = s.create("new");
        let region = patterned(BLOCKS);
        let mut backend = s.backend();
        let held = plan.hold(Rule::on(Ops::WRITE));
        let ending = thread::spawn(move || {
            backend.begin_batch();
            backend.start(write(&file, &region, 0, BLOCKS));
            drop(file);
            drop(backend);
        });
        held.await_count(1);
        assert_eq!(open_below(s.dir.path()), 1);
        assert!(!ending.is_finished());
        held.release();
        ending.join().unwrap();
        assert_eq!(open_below(s.dir.path()), 0);
        assert!(std::fs::read(s.path("new")).unwrap() == pattern(BLOCKS));
    });
}
