//! Short transfers and interruptions, with an executor that follows a script before it executes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use forebay_aio::execute::{Executor, PosixExecutor, Request};
use forebay_aio::*;
use proptest::prelude::*;
use tempfile::TempDir;

use crate::common::{bytes, config, fill};

/// One attempt.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Fails.
    Fail(Errno),
    /// Transfers at most this many bytes.
    AtMost(usize),
    /// Reports this many bytes without a transfer.
    Claim(usize),
}

#[derive(Default)]
struct Scripted {
    script: Mutex<VecDeque<Act>>,
    attempts: Mutex<Vec<(OpKind, u64, usize)>>,
}

impl Executor for Scripted {
    fn execute(&self, r: &Request<'_>) -> Result<usize, Errno> {
        let asked: usize = r.vectors().iter().map(|v| v.len()).sum();
        self.attempts.lock().unwrap().push((r.op(), r.offset(), asked));
        let act = self.script.lock().unwrap().pop_front();
        match act {
            None => PosixExecutor.execute(r),
            Some(Act::Fail(e)) => Err(e),
            Some(Act::Claim(n)) => Ok(n),
            Some(Act::AtMost(most)) => {
                let mut room = most;
                let mut some = Vec::new();
                for v in r.vectors() {
                    let len = v.len().min(room);
                    room -= len;
                    if len > 0 {
                        some.push(execute::Vector::new(v.ptr(), len));
                    }
                }
                PosixExecutor.execute(&r.with_vectors(&some))
            }
        }
    }
}

struct Fixture {
    script: Arc<Scripted>,
    backend: IoBackend,
    region: Arc<Region>,
    file: File,
    dir: TempDir,
}

const BLOCKS: usize = 6;
const LEN: usize = BLOCKS * IO_ALIGN;

fn fixture(direct: bool) -> Fixture {
    let script = Arc::new(Scripted::default());
    let aio = Aio::with_workers(
        Arc::new(PosixNamespace),
        script.clone(),
        config(),
        WorkerLimits::fixed(1),
    )
    .unwrap();
    let dir = TempDir::new().unwrap();
    let file = aio
        .namespace()
        .open(&dir.path().join("f"), &OpenOptions::READ_WRITE.create().direct(direct))
        .unwrap();
    let region = Region::new(2 * LEN).unwrap();
    fill(&region, 0, LEN, 6);
    let backend = aio.backend(BackendType::Client).unwrap();
    Fixture { script, backend, region, file, dir }
}

impl Fixture {
    /// Runs an operation on three ranges under a script; returns its report and the attempts.
    fn run(
        &mut self,
        write: bool,
        base: usize,
        script: &[Act],
    ) -> (IoReport, Vec<(OpKind, u64, usize)>) {
        let mut memory = IoMemory::empty(self.region.clone());
        for (at, blocks) in [(0, 1), (1, 3), (4, 2)] {
            memory.slices.push(IoSlice { offset: base + at * IO_ALIGN, len: blocks * IO_ALIGN });
        }
        let op =
            if write { Op::Writev { offset: 0, memory } } else { Op::Readv { offset: 0, memory } };
        self.run_op(op, script)
    }

    fn run_op(&mut self, op: Op, script: &[Act]) -> (IoReport, Vec<(OpKind, u64, usize)>) {
        *self.script.script.lock().unwrap() = script.iter().copied().collect();
        self.script.attempts.lock().unwrap().clear();
        let r = self.backend.start(Io::new(self.file.clone(), op, Target::File));
        let report = self.backend.wait(r).report().unwrap();
        let attempts = self.script.attempts.lock().unwrap().clone();
        (report, attempts)
    }

    fn on_disk(&self) -> Vec<u8> {
        std::fs::read(self.dir.path().join("f")).unwrap()
    }
}

fn kinds() -> Vec<bool> {
    let direct = probe_direct(TempDir::new().unwrap().path()).is_ok();
    if direct { vec![false, true] } else { vec![false] }
}

#[test]
fn short_and_interrupted_transfers_are_carried_on() {
    use Act::*;
    for direct in kinds() {
        let mut f = fixture(direct);
        let script = [
            Fail(Errno::INTR),
            AtMost(IO_ALIGN),
            Fail(Errno::AGAIN),
            AtMost(2 * IO_ALIGN),
            Fail(Errno::CANCELED),
            AtMost(IO_ALIGN),
        ];
        let steps = [(0, 6), (0, 6), (1, 5), (1, 5), (3, 3), (3, 3), (4, 2)];
        for write in [true, false] {
            let op = if write { OpKind::Writev } else { OpKind::Readv };
            let (report, attempts) = f.run(write, if write { 0 } else { LEN }, &script);
            assert_eq!(report.check().unwrap(), LEN);
            let expected =
                steps.map(|(from, blocks)| (op, (from * IO_ALIGN) as u64, blocks * IO_ALIGN));
            assert_eq!(attempts, expected);
        }
        assert!(f.on_disk() == bytes(&f.region, 0, LEN));
        assert!(bytes(&f.region, LEN, LEN) == bytes(&f.region, 0, LEN));
    }
}

#[test]
fn an_error_after_a_part_is_an_error() {
    let mut f = fixture(false);
    let (report, attempts) = f.run(true, 0, &[Act::AtMost(IO_ALIGN), Act::Fail(Errno::IO)]);
    assert_eq!((report.errno(), attempts.len()), (Some(Errno::IO), 2));
}

#[test]
fn a_write_that_makes_no_progress_found_a_full_disk() {
    let mut f = fixture(false);
    let (report, attempts) = f.run(true, 0, &[Act::AtMost(IO_ALIGN), Act::Claim(0)]);
    assert_eq!((report.errno(), attempts.len()), (Some(Errno::NOSPC), 2));
}

#[test]
fn a_direct_write_goes_on_from_the_last_whole_block() {
    for direct in kinds() {
        let mut f = fixture(direct);
        let (report, attempts) = f.run(true, 0, &[Act::Claim(IO_ALIGN + 512)]);
        let from = if direct { IO_ALIGN } else { IO_ALIGN + 512 };
        assert_eq!(attempts[1], (OpKind::Writev, from as u64, LEN - from));
        assert_eq!(report.check().unwrap(), LEN);
        // A write that only ever transfers less than a block ends.
        let (report, attempts) = f.run(true, 0, &[Act::Claim(512), Act::Claim(0)]);
        assert_eq!(report.errno(), Some(Errno::NOSPC));
        assert_eq!(attempts.len(), if direct { 1 } else { 2 });
    }
}

#[test]
fn a_direct_read_ends_where_the_file_does() {
    for direct in kinds() {
        let mut f = fixture(direct);
        let (_, attempts) = f.run(false, LEN, &[Act::Claim(IO_ALIGN + 100)]);
        assert_eq!(
            attempts.len(),
            if direct { 1 } else { 2 },
            "an unaligned count is the end of a direct file"
        );
    }
}

#[test]
fn a_failed_sync_is_final() {
    let mut f = fixture(false);
    for op in [Op::Fsync, Op::Fdatasync] {
        let (report, attempts) = f.run_op(op.clone(), &[Act::Fail(Errno::IO)]);
        assert_eq!((report.errno(), attempts.len()), (Some(Errno::IO), 1));
        let (report, attempts) =
            f.run_op(op, &[Act::Fail(Errno::INTR), Act::Fail(Errno::CANCELED)]);
        assert_eq!(
            (report.errno(), attempts.len()),
            (None, 3),
            "what never ran is attempted again"
        );
    }
}

#[test]
fn operations_on_a_range_are_made_whole_or_fail() {
    let mut f = fixture(false);
    let (offset, len) = (IO_ALIGN as u64, 3 * IO_ALIGN as u64);
    for op in [Op::Allocate { offset, len }, Op::SyncFileRange { offset, len }] {
        let kind = op.kind();
        let interrupted = [Errno::INTR, Errno::AGAIN, Errno::CANCELED].map(Act::Fail);
        let (report, attempts) = f.run_op(op.clone(), &interrupted);
        assert_eq!(report.check().unwrap(), 0);
        assert_eq!(
            attempts,
            [(kind, offset, 0); 4],
            "what was interrupted is attempted again, whole"
        );
        for refusal in [Errno::OPNOTSUPP, Errno::NOSPC, Errno::IO] {
            let (report, attempts) = f.run_op(op.clone(), &[Act::Fail(refusal)]);
            assert_eq!(
                (report.errno(), attempts.len()),
                (Some(refusal), 1),
                "and nothing else is tried instead"
            );
        }
    }
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        Just(Act::Fail(Errno::INTR)),
        Just(Act::Fail(Errno::AGAIN)),
        Just(Act::Fail(Errno::CANCELED)),
        (1usize..LEN).prop_map(Act::AtMost),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// All bytes arrive, however a buffered transfer is split.
    #[test]
    fn any_cut_carries_all_bytes(cuts in prop::collection::vec(act(), 0..12)) {
        let mut f = fixture(false);
        prop_assert_eq!(f.run(true, 0, &cuts).0.check().unwrap(), LEN);
        prop_assert_eq!(f.run(false, LEN, &cuts).0.check().unwrap(), LEN);
        prop_assert!(f.on_disk() == bytes(&f.region, 0, LEN));
        prop_assert!(bytes(&f.region, LEN, LEN) == bytes(&f.region, 0, LEN));
    }
}
