//! Injected results.

use forebay_aio::fault::{Effect, Ops, Rule};
use forebay_aio::*;

use crate::common::{bytes, each_faulty_case};
use crate::{BLOCK, filled, part, pattern, patterned, read, report, write};

const BLOCKS: usize = 6;
const LEN: usize = BLOCKS * IO_ALIGN;
const ROFS: Errno = Errno(libc::EROFS);

#[test]
fn the_exact_size_is_all_well() {
    each_faulty_case(|s, plan| {
        let (file, region) = filled(s, "data", BLOCKS);
        let mut backend = s.backend();
        for op in [Ops::READ, Ops::WRITE] {
            let exact = plan.add(Rule::on(op), Effect::AtMost(LEN));
            let io = if op == Ops::READ { read } else { write };
            assert_eq!(report(&mut backend, io(&file, &region, 0, BLOCKS)).check().unwrap(), LEN);
            assert_eq!(
                (plan.fired(exact), plan.calls(op)),
                (1, 1),
                "one attempt, and it was struck"
            );
        }
        assert!(bytes(&region, 0, LEN) == pattern(BLOCKS));
    });
}

/// Seventeen bytes of a block, and then no more, are an error for a caller that wanted the block. A
/// buffered read is continued first; a direct read ends unaligned only at the end of the file.
#[test]
fn seventeen_bytes_are_not_a_block() {
    each_faulty_case(|s, plan| {
        let (file, region) = filled(s, "data", BLOCKS);
        let mut backend = s.backend();
        let short = plan.add(Rule::on(Ops::READ).nth(0), Effect::AtMost(17));
        let nothing = plan.add(Rule::on(Ops::READ).nth(1), Effect::AtMost(0));
        let target = Target::Smgr {
            spc: 1663,
            db: 5,
            rel: 16384,
            fork: "",
            block: 2,
            count: 1,
            temp: false,
        };
        let io = || Io::read(file.clone(), 2 * BLOCK, part(&region, 2, 1), target.clone());
        let got = report(&mut backend, io());
        assert_eq!((got.outcome.status, got.transferred), (Status::Partial, 17));
        let text = got.check().unwrap_err().to_string();
        assert_eq!(
            text,
            "could not read block 2 in file \"base/5/16384\": read only 17 of 4096 bytes"
        );
        assert_eq!(plan.fired(short), 1);
        assert_eq!(plan.fired(nothing), u64::from(!s.case.direct));
        plan.mend();
        assert_eq!(report(&mut backend, io()).check().unwrap(), IO_ALIGN);
    });
}

#[test]
fn seventeen_bytes_of_a_buffered_block_are_a_beginning() {
    each_faulty_case(|s, plan| {
        if s.case.direct {
            return;
        }
        let (file, region) = filled(s, "data", BLOCKS);
        let mut backend = s.backend();
        plan.add(Rule::on(Ops::READ).times(1), Effect::AtMost(17));
        plan.record();
        assert_eq!(report(&mut backend, read(&file, &region, 2, 1)).check().unwrap(), IO_ALIGN);
        let calls: Vec<_> = plan.take_calls().iter().map(|c| (c.offset, c.len)).collect();
        assert_eq!(calls, [(2 * BLOCK, BLOCK), (2 * BLOCK + 17, BLOCK - 17)]);
        assert!(
            bytes(&region, 2 * IO_ALIGN, IO_ALIGN) == pattern(BLOCKS)[2 * IO_ALIGN..3 * IO_ALIGN]
        );
    });
}

#[test]
fn a_short_transfer_of_several_blocks_is_carried_on() {
    each_faulty_case(|s, plan| {
        let (file, region) = filled(s, "data", BLOCKS);
        let new = s.create("new");
        let mut backend = s.backend();
        for (op, file) in [(Ops::READ, &file), (Ops::WRITE, &new)] {
            plan.add(Rule::on(op).nth(0), Effect::AtMost(2 * IO_ALIGN));
            plan.add(Rule::on(op).nth(1), Effect::ShortBy(3 * IO_ALIGN));
            plan.record();
            let io = if op == Ops::READ { read } else { write };
            assert_eq!(report(&mut backend, io(file, &region, 0, BLOCKS)).check().unwrap(), LEN);
            let calls: Vec<_> =
                plan.take_calls().iter().map(|c| (c.offset / BLOCK, c.len / BLOCK)).collect();
            assert_eq!(calls, [(0, 6), (2, 4), (3, 3)]);
        }
        assert!(std::fs::read(s.path("new")).unwrap() == pattern(BLOCKS));
    });
}

#[test]
fn two_errors_and_then_recovery() {
    each_faulty_case(|s, plan| {
        let (file, region) = filled(s, "data", BLOCKS);
        let mut backend = s.backend();
        for errno in [Errno::IO, ROFS, Errno::NOSPC] {
            let kinds: [(Ops, &dyn Fn() -> Io); 4] = [
                (Ops::READ, &|| read(&file, &region, 1, 3)),
                (Ops::WRITE, &|| write(&file, &region, 1, 3)),
                (Ops::FSYNC, &|| Io::new(file.clone(), Op::Fsync, Target::File)),
                (Ops::FDATASYNC, &|| Io::new(file.clone(), Op::Fdatasync, Target::File)),
            ];
            for (op, io) in kinds {
                let calls = plan.calls(op);
                let fault = plan.add(Rule::on(op).times(2), Effect::Fail(errno));
                for _ in 0..2 {
                    let failed = report(&mut backend, io());
                    assert_eq!(
                        (failed.outcome.status, failed.errno()),
                        (Status::Error, Some(errno))
                    );
                    let expected = format!(
                        "could not {} file \"{}\": {errno}",
                        op.name(),
                        s.path("data").display()
                    );
                    assert_eq!(failed.check().unwrap_err().to_string(), expected);
                }
                assert!(report(&mut backend, io()).check().is_ok(), "{op:?} recovers from {errno}");
                assert_eq!(
                    (plan.fired(fault), plan.calls(op) - calls),
                    (2, 3),
                    "no error is tried again"
                );
            }
        }
        assert_eq!(backend.in_flight(), 0);
    });
}

#[test]
fn errors_strike_what_is_executed_in_the_issuers_thread_too() {
    each_faulty_case(|s, plan| {
        let (file, region) = filled(s, "data", BLOCKS);
        let mut backend = s.backend();
        plan.add(Rule::on(Ops::IO).times(2), Effect::Fail(Errno::IO));
        assert_eq!(backend.run(read(&file, &region, 0, 1)).unwrap_err().errno(), Some(Errno::IO));
        assert_eq!(backend.fsync(&file).unwrap_err().errno(), Some(Errno::IO));
        backend.fsync(&file).unwrap();
    });
}

#[test]
fn interruptions_go_unnoticed() {
    each_faulty_case(|s, plan| {
        let (file, region) = filled(s, "data", BLOCKS);
        let mut backend = s.backend();
        let fault = |errno, times| plan.add(Rule::on(Ops::IO).times(times), Effect::Fail(errno));
        let faults = [fault(Errno::INTR, 3), fault(Errno::AGAIN, 2), fault(Errno::CANCELED, 1)];
        assert_eq!(report(&mut backend, read(&file, &region, 0, BLOCKS)).check().unwrap(), LEN);
        assert!(bytes(&region, 0, LEN) == pattern(BLOCKS));
        assert_eq!(faults.map(|f| plan.fired(f)), [3, 2, 1]);
        assert_eq!(plan.calls(Ops::READ), 7);
    });
}

#[test]
fn a_disk_fills_up_in_the_middle() {
    each_faulty_case(|s, plan| {
        let file = s.create("new");
        let region = patterned(BLOCKS);
        let mut backend = s.backend();
        plan.add(Rule::on(Ops::WRITE).times(1), Effect::FailAfter(2 * IO_ALIGN, Errno::NOSPC));
        assert_eq!(
            report(&mut backend, write(&file, &region, 0, BLOCKS)).errno(),
            Some(Errno::NOSPC)
        );
        assert!(std::fs::read(s.path("new")).unwrap() == pattern(2), "what fitted is there");
        // No progress without a reason means a full disk too.
        plan.add(Rule::on(Ops::WRITE).nth(0), Effect::AtMost(IO_ALIGN));
        plan.add(Rule::on(Ops::WRITE).nth(1), Effect::AtMost(0));
        assert_eq!(
            report(&mut backend, write(&file, &region, 0, BLOCKS)).errno(),
            Some(Errno::NOSPC)
        );
        assert_eq!(report(&mut backend, write(&file, &region, 0, BLOCKS)).check().unwrap(), LEN);
        assert!(std::fs::read(s.path("new")).unwrap() == pattern(BLOCKS));
    });
}

/// Of a batch of neighbours only the I/O on the bad block fails, whatever was merged.
#[test]
fn a_bad_block_fails_alone() {
    each_faulty_case(|s, plan| {
        let (file, region) = filled(s, "data", 16);
        let new = s.create("new");
        let mut backend = s.backend();
        for (op, file) in [(Ops::READ, &file), (Ops::WRITE, &new)] {
            let bad = plan
                .add(Rule::on(op).bytes(5 * BLOCK + 9..5 * BLOCK + 10), Effect::Fail(Errno::IO));
            let io = if op == Ops::READ { read } else { write };
            backend.begin_batch();
            let refs: Vec<_> = (0..16).map(|n| backend.start(io(file, &region, n, 1))).collect();
            backend.end_batch();
            for (n, r) in refs.into_iter().enumerate() {
                let errno = backend.wait(r).report().unwrap().errno();
                assert_eq!(errno, (n == 5).then_some(Errno::IO), "block {n}");
            }
            assert!(plan.fired(bad) >= 1);
        }
        let (got, want) = (bytes(&region, 0, 16 * IO_ALIGN), pattern(16));
        let written = std::fs::read(s.path("new")).unwrap();
        for n in (0..16).filter(|&n| n != 5) {
            let at = n * IO_ALIGN..(n + 1) * IO_ALIGN;
            assert!(
                got[at.clone()] == want[at.clone()] && written[at.clone()] == want[at],
                "block {n}"
            );
        }
    });
}

/// An executor that panics, in whatever thread, ends the I/O with an error: no thread waits
/// forever, and the next I/O works.
#[test]
fn a_panic_in_execution_is_an_error_of_the_io() {
    each_faulty_case(|s, plan| {
        let (file, region) = filled(s, "data", BLOCKS);
        let mut backend = s.backend();
        for synchronous in [false, true] {
            for (first, rest) in
                [(Effect::Panic, None), (Effect::AtMost(IO_ALIGN), Some(Effect::Panic))]
            {
                plan.add(Rule::on(Ops::READ).nth(0), first);
                if let Some(rest) = rest {
                    plan.add(Rule::on(Ops::READ).nth(1), rest);
                }
                let io =
                    read(&file, &region, 0, 2).flags(IoFlags { synchronous, ..IoFlags::default() });
                assert_eq!(report(&mut backend, io).errno(), Some(Errno::IO));
                plan.mend();
                assert_eq!(
                    report(&mut backend, read(&file, &region, 0, 2)).check().unwrap(),
                    2 * IO_ALIGN
                );
            }
        }
    });
}
