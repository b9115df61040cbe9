//! Thousands of random I/Os with random faults, against a model: every success is true in the file,
//! and every error was injected.
//!
//! The seed decides the work and the faults, however threads interleave. `FOREBAY_FAULT_SEED=N`
//! repeats a run. Without it the seeds are fixed, and `FOREBAY_FAULT_RUNS=N` tries that many more.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use forebay_aio::fault::{Call, Effect, FaultPlan, Ops, Rule};
use forebay_aio::*;
use forebay_testkit::env::number;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::common::{Setup, bytes, cases, config, naming};
use crate::{read, write};

const BACKENDS: u64 = 2;
const BLOCKS: usize = 48;
const STEPS: usize = 700;

fn seeds() -> Vec<u64> {
    match number("FOREBAY_FAULT_SEED") {
        Some(seed) => vec![seed],
        None => (1..=2 + number("FOREBAY_FAULT_RUNS").unwrap_or(0)).collect(),
    }
}

/// A little of everything. Probabilities are per attempt.
fn misfortune(plan: &FaultPlan) {
    let add = |ops, chance, effect| plan.add(Rule::on(ops).chance(chance), effect);
    add(Ops::TRANSFERS, 0.02, Effect::Fail(Errno::IO));
    add(Ops::TRANSFERS, 0.06, Effect::Fail(Errno::INTR));
    add(Ops::TRANSFERS, 0.03, Effect::Fail(Errno::AGAIN));
    add(Ops::TRANSFERS, 0.02, Effect::Fail(Errno::CANCELED));
    add(Ops::TRANSFERS, 0.10, Effect::Cut);
    add(Ops::READ, 0.01, Effect::AtMost(17));
    add(Ops::WRITE, 0.02, Effect::FailAfter(5000, Errno::NOSPC));
    add(Ops::WRITE, 0.01, Effect::Fail(Errno(libc::EROFS)));
    add(Ops::WRITE, 0.02, Effect::ShortBy(1000));
    add(Ops::FSYNC | Ops::FDATASYNC, 0.05, Effect::Fail(Errno::IO));
    add(Ops::FSYNC | Ops::FDATASYNC, 0.05, Effect::Fail(Errno::INTR));
}

/// The faults so far, shared by the threads.
#[derive(Default)]
struct Struck(Mutex<Vec<(Call, Effect)>>);

impl Struck {
    /// Whether the plan injected this error.
    fn explains(&self, plan: &FaultPlan, file: &File, p: &Pending, report: &IoReport) -> bool {
        let mut all = self.0.lock().unwrap();
        all.extend(plan.take_struck());
        let bytes = (p.from * IO_ALIGN) as u64..((p.from + p.count) * IO_ALIGN) as u64;
        all.iter().any(|(call, effect)| {
            let here = call.path == file.path()
                && call.op == p.op
                && (p.count == 0
                    || (call.offset < bytes.end && bytes.start < call.offset + call.len));
            let so = match (*effect, report.errno()) {
                (Effect::Fail(e) | Effect::FailAfter(_, e), errno) => errno == Some(e),
                // A write that made no progress (direct: of no whole block) found a full disk.
                (Effect::ShortBy(_), Some(errno)) => errno == Errno::NOSPC,
                // A direct read that ends within a block is the end of the file.
                (Effect::AtMost(_), None) => {
                    file.is_direct() && report.outcome.status == Status::Partial
                }
                _ => false,
            };
            here && so
        })
    }
}

struct Pending {
    r: WaitRef,
    op: Ops,
    from: usize,
    count: usize,
    /// What a write writes.
    stamp: u8,
}

/// One backend with its own file, and the bytes that each block may have.
struct Life<'a> {
    backend: IoBackend,
    plan: &'a FaultPlan,
    struck: &'a Struck,
    file: File,
    region: Arc<Region>,
    may_be: Vec<Vec<u8>>,
    pending: Vec<Pending>,
    ended: BTreeMap<&'static str, u64>,
}

impl Life<'_> {
    fn settle(&mut self, at: usize) {
        let p = self.pending.swap_remove(at);
        let report = self.backend.wait(p.r).report().expect("the issuer's report");
        let how = match (&report.error, p.op) {
            (None, _) => "succeeded",
            (Some(_), Ops::READ) => "reads failed",
            (Some(_), Ops::WRITE) => "writes failed",
            (Some(_), _) => "syncs failed",
        };
        *self.ended.entry(how).or_default() += 1;
        let blocks = p.from..p.from + p.count;
        if let Some(error) = &report.error {
            assert!(
                self.struck.explains(self.plan, &self.file, &p, &report),
                "{:?} of blocks {blocks:?}: {error} was never injected",
                p.op
            );
            if p.op == Ops::WRITE {
                blocks.for_each(|b| self.may_be[b].push(p.stamp));
            }
            return;
        }
        for b in blocks {
            if p.op == Ops::WRITE {
                self.may_be[b] = vec![p.stamp];
            } else {
                self.check(b, &bytes(&self.region, b * IO_ALIGN, IO_ALIGN), "was read");
            }
        }
    }

    fn check(&self, block: usize, got: &[u8], how: &str) {
        let may_be = &self.may_be[block];
        let wrong = got.iter().position(|byte| !may_be.contains(byte));
        assert!(
            wrong.is_none(),
            "byte {wrong:?} of block {block} {how}; its block holds {may_be:?}"
        );
    }

    fn step(&mut self, rng: &mut StdRng) {
        let count = rng.random_range(1..=6);
        let from = rng.random_range(0..=BLOCKS - count);
        // One I/O on a block at a time.
        while let Some(at) =
            self.pending.iter().position(|p| p.from < from + count && from < p.from + p.count)
        {
            self.settle(at);
        }
        if !self.backend.in_batch() && rng.random_bool(0.3) {
            self.backend.begin_batch();
        }
        let stamp = rng.random_range(1..=250);
        let (io, op, from, count) = match rng.random_range(0..100) {
            0..48 => {
                // SAFETY: inside the region; no I/O is in flight on this piece.
                unsafe { self.region.ptr(from * IO_ALIGN).write_bytes(stamp, count * IO_ALIGN) };
                (write(&self.file, &self.region, from, count), Ops::WRITE, from, count)
            }
            48..96 => (read(&self.file, &self.region, from, count), Ops::READ, from, count),
            96..98 => (Io::new(self.file.clone(), Op::Fsync, Target::File), Ops::FSYNC, 0, 0),
            _ => (Io::new(self.file.clone(), Op::Fdatasync, Target::File), Ops::FDATASYNC, 0, 0),
        };
        let r = self.backend.start(io);
        self.pending.push(Pending { r, op, from, count, stamp });
        if self.backend.in_batch() && rng.random_bool(0.3) {
            self.backend.end_batch();
        }
        while self.pending.len() > 12 || (!self.pending.is_empty() && rng.random_bool(0.2)) {
            self.settle(rng.random_range(0..self.pending.len()));
        }
    }

    /// Ends, and compares the file with the model.
    fn end(mut self) -> BTreeMap<&'static str, u64> {
        if self.backend.in_batch() {
            self.backend.end_batch();
        }
        while !self.pending.is_empty() {
            self.settle(0);
        }
        let file = std::fs::read(self.file.path()).unwrap();
        for (block, got) in file.chunks(IO_ALIGN).enumerate() {
            self.check(block, got, "is in the file");
        }
        assert_eq!(file.len(), BLOCKS * IO_ALIGN);
        assert_eq!((self.backend.in_flight(), self.backend.drain().failed), (0, 0));
        self.ended
    }
}

/// One run: two backends with a file each, and a third thread that releases what is held.
fn run(s: &Setup, plan: &Arc<FaultPlan>, seed: u64) -> BTreeMap<&'static str, u64> {
    misfortune(plan);
    plan.record();
    let struck = Struck::default();
    let (living, over) = (AtomicUsize::new(BACKENDS as usize), AtomicBool::new(false));
    let held = plan.hold(Rule::on(Ops::IO).chance(0.03));
    thread::scope(|scope| {
        let lives: Vec<_> = (0..BACKENDS)
            .map(|n| {
                let name = format!("m{n}");
                let file = s.create(&name);
                std::fs::write(s.path(&name), vec![0; BLOCKS * IO_ALIGN]).unwrap();
                let (backend, struck, living, over) = (s.backend(), &struck, &living, &over);
                scope.spawn(move || {
                    let ended = Ended(living, over);
                    let region = Region::new(BLOCKS * IO_ALIGN).unwrap();
                    let may_be = vec![vec![0]; BLOCKS];
                    let (pending, counts) = (Vec::new(), BTreeMap::new());
                    let mut life = Life {
                        backend,
                        plan,
                        struck,
                        file,
                        region,
                        may_be,
                        pending,
                        ended: counts,
                    };
                    let mut rng = StdRng::seed_from_u64(seed << 8 | n);
                    (0..STEPS).for_each(|_| life.step(&mut rng));
                    let counts = life.end();
                    drop(ended);
                    counts
                })
            })
            .collect();
        while !over.load(SeqCst) {
            held.release_oldest(1);
            thread::yield_now();
        }
        held.release();
        let mut all = BTreeMap::new();
        for life in lives {
            let counts = life.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            counts.into_iter().for_each(|(how, n)| *all.entry(how).or_default() += n);
        }
        all
    })
}

/// Tells the releasing thread that no backend is left, also when one ends by a panic.
struct Ended<'a>(&'a AtomicUsize, &'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        if self.0.fetch_sub(1, SeqCst) == 1 || thread::panicking() {
            self.1.store(true, SeqCst);
        }
    }
}

#[test]
fn whatever_fails_successes_are_true_and_errors_were_injected() {
    let mut all = BTreeMap::new();
    for seed in seeds() {
        for case in cases() {
            naming(case, || {
                let hint = Hint(seed);
                let plan = FaultPlan::seeded(seed);
                let s = Setup::faulty(case, config(), &plan);
                let ended = run(&s, &plan, seed);
                println!("{case:?}, seed {seed}: {ended:?}");
                assert_eq!(ended.values().sum::<u64>(), BACKENDS * STEPS as u64);
                plan.fired_by_class()
                    .into_iter()
                    .for_each(|(class, n)| *all.entry(class).or_default() += n);
                std::mem::forget(hint);
            });
        }
    }
    println!("faults fired: {all:#?}");
    let classes = [
        "read: Input/output error",
        "write: Input/output error",
        "write: No space left on device after a part",
        "write: Read-only file system",
        "read: Interrupted system call",
        "write: Interrupted system call",
        "read: Resource temporarily unavailable",
        "read: Operation canceled",
        "read: short",
        "write: short",
        "fsync: Input/output error",
        "fdatasync: Input/output error",
        "read: held",
        "write: held",
    ];
    for class in classes {
        assert!(all.get(class).is_some_and(|n: &u64| *n > 0), "no {class}");
    }
}

/// Says how to repeat the run, unless it was forgotten.
struct Hint(u64);

impl Drop for Hint {
    fn drop(&mut self) {
        eprintln!("repeat with FOREBAY_FAULT_SEED={}", self.0);
    }
}
