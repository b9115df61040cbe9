//! Handles and batches when I/O fails. (`tests/aio/handles.rs` has leaks without errors.)

use forebay_aio::fault::{Effect, Ops, Rule};
use forebay_aio::*;

use crate::common::{bytes, each_faulty_case};
use crate::{BLOCK, filled, pattern, read, report};

const BLOCKS: usize = 4;

/// A statement fails on an injected error with a handle acquired and a batch open. The leftovers
/// are cleaned up and reported, and the next statement finds every handle idle.
#[test]
fn recovery_after_an_error() {
    each_faulty_case(|s, plan| {
        let (file, region) = filled(s, "data", BLOCKS);
        let mut backend = s.backend();
        let bad = plan.add(Rule::on(Ops::READ).bytes(BLOCK..2 * BLOCK), Effect::Fail(Errno::IO));
        for round in 1..=2 {
            backend.begin_batch();
            let refs: Vec<_> =
                (0..BLOCKS).map(|n| backend.start(read(&file, &region, n, 1))).collect();
            assert_eq!(backend.wait(refs[1]).report().expect("a report").errno(), Some(Errno::IO));
            // The error is raised here: no code asks for the other reports, ends the batch, or
            // starts the acquired handle.
            let again = backend.start(read(&file, &region, 1, 1));
            let leaked = backend.acquire().unwrap();
            let unsubmitted = backend.staged();
            drop(leaked);
            let left = backend.drain();
            assert_eq!((left.leaked_handle, left.open_batch), (true, true));
            assert_eq!(
                (left.unsubmitted, left.failed),
                (unsubmitted, 1),
                "the second failure went unasked"
            );
            assert!(matches!(backend.wait(again), IoResult::Finished));
            assert!(s.aio.snapshot().is_empty());
            assert_eq!(backend.idle_handles(), s.aio.handles_per_backend());
            assert!(plan.fired(bad) >= 2 * round);
            assert_eq!(backend.drain(), Leftovers::default(), "paired: silent");
        }
        plan.mend();
        assert_eq!(
            report(&mut backend, read(&file, &region, 0, BLOCKS)).check().unwrap(),
            BLOCKS * IO_ALIGN
        );
        assert!(bytes(&region, 0, region.len()) == pattern(BLOCKS));
    });
}

/// An acquired handle whose I/O fails is as good as new afterwards.
#[test]
fn an_acquired_handle_survives_the_failure_of_its_io() {
    each_faulty_case(|s, plan| {
        let (file, region) = filled(s, "data", BLOCKS);
        let mut backend = s.backend();
        plan.add(Rule::on(Ops::READ).times(2), Effect::Fail(Errno::IO));
        for expected in [Some(Errno::IO), Some(Errno::IO), None] {
            let handle = backend.acquire().unwrap();
            let r = backend.start_acquired(handle, read(&file, &region, 0, BLOCKS)).unwrap();
            assert_eq!(backend.wait(r).report().expect("a report").errno(), expected);
            assert_eq!(backend.end_of_statement(), Leftovers::default());
        }
    });
}
