//! The threads of an archiver in interleavings that shuttle chooses: announcements, parallel
//! transfers, acknowledgements, a replaced module, stops, a final failure.
//!
//! These tests need a build of their own:
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p forebay-archive --test interleavings \
//!     --target-dir target/shuttle
//! ```
//!
//! FOREBAY_SHUTTLE_ROUNDS sets how many interleavings of each scenario are run. A failing one
//! prints a schedule, which `shuttle::replay` repeats. The files are real ones in memory. Time does
//! not pass: a thread that only a timeout would wake is reported as a deadlock.
#![cfg(shuttle)]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use forebay_aio::fault::{Effect, FaultPlan, Ops, Rule};
use forebay_aio::sync::{Arc, Mutex, thread};
use forebay_aio::{Aio, AioConfig, Errno, IoBackend, MethodKind, PosixNamespace};
use forebay_archive::archiver::Threads;
use forebay_archive::{
    ArchiveError, ArchiveModule, Archived, Archiver, ArchiverConfig, Mark, Source, StopMode,
    WalName,
};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};

/// The calls that a module has had.
#[derive(Default)]
struct Life {
    starts: usize,
    ends: usize,
    in_flight: usize,
    most: usize,
    stored: Vec<String>,
    /// Violated expectations. (A panic in a module would be caught.)
    wrong: Vec<String>,
}

/// A module that yields several times, and checks for a stop.
#[derive(Default)]
struct Slow(Mutex<Life>);

impl Slow {
    fn check(&self) {
        let life = self.0.lock();
        assert_eq!(life.wrong, [""; 0]);
        assert_eq!(life.in_flight, 0);
        let names: BTreeSet<&String> = life.stored.iter().collect();
        assert_eq!(names.len(), life.stored.len(), "stored twice: {:?}", life.stored);
    }
}

impl ArchiveModule for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn startup(&self) -> Result<(), ArchiveError> {
        thread::yield_now();
        self.0.lock().starts += 1;
        Ok(())
    }

    fn archive(&self, _: &mut IoBackend, file: &mut Source) -> Result<Archived, ArchiveError> {
        let name = file.name().to_string();
        {
            let mut life = self.0.lock();
            if (life.starts, life.ends) != (1, 0) {
                let wrong = format!("{name} after {} starts and {} ends", life.starts, life.ends);
                life.wrong.push(wrong);
            }
            life.in_flight += 1;
            life.most = life.most.max(life.in_flight);
        }
        // Long enough for another thread to come here, too.
        for _ in 0..40 {
            thread::yield_now();
        }
        let stopped = file.check_stop();
        thread::yield_now();
        let mut life = self.0.lock();
        life.in_flight -= 1;
        stopped?;
        life.stored.push(name);
        Ok(Archived::Stored)
    }

    fn transfers(&self) -> usize {
        2
    }

    fn shutdown(&self) {
        let mut life = self.0.lock();
        if (life.starts, life.ends, life.in_flight) != (1, 0, 0) {
            let wrong = format!(
                "ended after {} starts and {} ends with {} in flight",
                life.starts, life.ends, life.in_flight
            );
            life.wrong.push(wrong);
        }
        life.ends += 1;
    }
}

fn name(n: u64) -> WalName {
    WalName::parse(&format!("0000000100000000{n:08X}")).expect("a name")
}

struct Fixture {
    dir: tempfile::TempDir,
    plan: Arc<FaultPlan>,
    archiver: Arc<Archiver>,
}

impl Fixture {
    /// A log with `count` empty segments.
    fn new(segments: u64) -> Arc<Fixture> {
        let memory = std::path::Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let dir = dir.expect("a directory");
        std::fs::create_dir(dir.path().join("archive_status")).expect("a directory");
        (1..=segments).for_each(|n| {
            std::fs::write(dir.path().join(name(n).as_str()), "").expect("a segment")
        });
        let plan = FaultPlan::new();
        let config = AioConfig { max_backends: 4, handles_per_backend: 2, ..AioConfig::default() };
        let aio: Arc<Aio> =
            plan.open(Arc::new(PosixNamespace::new()), MethodKind::Sync, config).expect("aio");
        let archiver = Archiver::new(&aio, dir.path(), ArchiverConfig::default());
        Arc::new(Fixture { dir, plan, archiver })
    }

    fn status(&self) -> PathBuf {
        self.dir.path().join("archive_status")
    }

    /// The number of files that are marked as archived, and of those that wait.
    fn marks(&self) -> (Vec<String>, Vec<String>) {
        let entries = std::fs::read_dir(self.status()).expect("a directory");
        let (mut done, mut ready) = (Vec::new(), Vec::new());
        for entry in entries {
            match Mark::parse(&entry.expect("an entry").file_name().to_string_lossy()) {
                Mark::Done(name) => done.push(name.to_string()),
                Mark::Ready(name) => ready.push(name.to_string()),
                Mark::Junk => panic!("junk"),
            }
        }
        (done.sort(), ready.sort());
        (done, ready)
    }

    /// Announces files in a thread of its own.
    fn announcing(
        self: &Arc<Self>,
        numbers: std::ops::RangeInclusive<u64>,
    ) -> thread::JoinHandle<()> {
        let fixture = Arc::clone(self);
        thread::spawn(move || {
            for n in numbers {
                fixture.archiver.announce(&name(n)).expect("a mark");
                thread::yield_now();
            }
        })
    }
}

fn all(numbers: std::ops::RangeInclusive<u64>) -> Vec<String> {
    numbers.map(|n| name(n).to_string()).collect()
}

fn rounds() -> usize {
    forebay_testkit::env::shuttle_rounds(150)
}

/// In random interleavings, and in ones with few, well-placed preemptions.
fn each(scenario: fn()) {
    check(RandomScheduler::new(rounds()), scenario);
    check(PctScheduler::new(3, rounds()), scenario);
}

fn check(scheduler: impl Scheduler + 'static, scenario: fn()) {
    let mut config = shuttle::Config::default();
    config.stack_size = 1 << 20;
    shuttle::Runner::new(scheduler, config).run(scenario);
}

#[test]
fn each_file_is_archived_once_and_acknowledged_without_a_gap() {
    each(|| {
        let (fixture, module) = (Fixture::new(4), Arc::new(Slow::default()));
        fixture.archiver.set_module(Some(module.clone()));
        let threads = Threads::start(&fixture.archiver, 3).expect("threads");
        let announcing = fixture.announcing(1..=4);
        for _ in 0..3 {
            let (done, _) = fixture.marks();
            assert_eq!(done, all(1..=done.len() as u64), "in order, and without a gap");
            thread::yield_now();
        }
        announcing.join().expect("announced");
        threads.stop(StopMode::Drain).expect("no failure");
        assert_eq!(fixture.marks(), (all(1..=4), Vec::new()));
        assert_eq!(fixture.archiver.stats().archived_count, 4);
        assert_eq!(fixture.archiver.backlog().files, 0);
        module.check();
        let life = module.0.lock();
        assert_eq!((life.starts, life.ends, life.stored.len()), (1, 1, 4));
        assert!(life.most <= 2, "{} at once", life.most);
    });
}

#[test]
fn a_stop_during_a_transfer_acknowledges_nothing_else() {
    each(|| {
        let (fixture, module) = (Fixture::new(3), Arc::new(Slow::default()));
        fixture.archiver.set_module(Some(module.clone()));
        let threads = Threads::start(&fixture.archiver, 3).expect("threads");
        fixture.announcing(1..=3).join().expect("announced");
        threads.stop(StopMode::Now).expect("no failure");
        assert!(fixture.archiver.is_ended());
        let (done, ready) = fixture.marks();
        assert_eq!([done.clone(), ready].concat(), all(1..=3));
        module.check();
        let life = module.0.lock();
        assert!(
            done.iter().all(|name| life.stored.contains(name)),
            "{done:?} of {:?}",
            life.stored
        );
        assert_eq!(life.starts, life.ends);
        assert_eq!(fixture.archiver.stats().failed_count, 0, "a stop is no failure");
        assert_eq!(fixture.archiver.stats().archived_count as usize, done.len());
    });
}

#[test]
fn a_drain_that_is_interrupted() {
    each(|| {
        let (fixture, module) = (Fixture::new(3), Arc::new(Slow::default()));
        fixture.archiver.set_module(Some(module.clone()));
        let threads = Threads::start(&fixture.archiver, 2).expect("threads");
        let announcing = fixture.announcing(1..=3);
        let impatient = {
            let archiver = Arc::clone(&fixture.archiver);
            thread::spawn(move || {
                thread::yield_now();
                archiver.stop(StopMode::Now);
            })
        };
        threads.stop(StopMode::Drain).expect("no failure");
        impatient.join().expect("stopped");
        announcing.join().expect("announced");
        let (done, ready) = fixture.marks();
        assert_eq!([done.clone(), ready].concat(), all(1..=3));
        module.check();
        assert!(done.iter().all(|name| module.0.lock().stored.contains(name)));
        // The next archiver archives the rest.
        let archiver = Archiver::new(
            &Aio::new(
                Arc::new(PosixNamespace::new()),
                MethodKind::Sync,
                AioConfig { max_backends: 2, handles_per_backend: 2, ..AioConfig::default() },
            )
            .expect("aio"),
            fixture.dir.path(),
            ArchiverConfig::default(),
        );
        archiver.set_module(Some(Arc::new(Slow::default())));
        archiver.scan().expect("listed");
        Threads::start(&archiver, 1).expect("threads").stop(StopMode::Drain).expect("no failure");
        assert_eq!(fixture.marks(), (all(1..=3), Vec::new()));
    });
}

#[test]
fn a_module_is_replaced_when_no_transfer_is_in_flight() {
    each(|| {
        let (fixture, one, two) =
            (Fixture::new(4), Arc::new(Slow::default()), Arc::new(Slow::default()));
        fixture.archiver.set_module(Some(one.clone()));
        let threads = Threads::start(&fixture.archiver, 3).expect("threads");
        let announcing = fixture.announcing(1..=4);
        thread::yield_now();
        fixture.archiver.set_module(Some(two.clone()));
        announcing.join().expect("announced");
        threads.stop(StopMode::Drain).expect("no failure");
        assert_eq!(fixture.marks(), (all(1..=4), Vec::new()));
        for module in [&one, &two] {
            module.check();
            let life = module.0.lock();
            assert_eq!(life.starts, life.ends);
        }
        let mut stored = [one.0.lock().stored.clone(), two.0.lock().stored.clone()].concat();
        stored.sort();
        assert_eq!(stored, all(1..=4), "each by one of them");
    });
}

/// Whether the status files are durable is unknown then: all threads end, and one returns the
/// error.
#[test]
fn a_failed_sync_of_the_status_files_ends_all_threads() {
    each(|| {
        let (fixture, module) = (Fixture::new(3), Arc::new(Slow::default()));
        fixture
            .plan
            .add(Rule::on(Ops::SYNC_DIR).path("archive_status").times(1), Effect::Fail(Errno::IO));
        fixture.archiver.set_module(Some(module.clone()));
        let threads = Threads::start(&fixture.archiver, 3).expect("threads");
        fixture.announcing(1..=3).join().expect("announced");
        let error = threads.stop(StopMode::Drain).expect_err("one of them says it");
        assert!(error.is_fatal(), "{error}");
        assert!(fixture.archiver.is_ended());
        assert_eq!(fixture.archiver.stats().archived_count, 0, "nothing was acknowledged");
        assert_eq!(module.0.lock().wrong, [""; 0]);
    });
}

/// The scenarios do have parallel transfers.
#[test]
fn parallel_transfers_occur() {
    static MOST: AtomicUsize = AtomicUsize::new(0);
    check(RandomScheduler::new(rounds()), || {
        let (fixture, module) = (Fixture::new(3), Arc::new(Slow::default()));
        (1..=3).for_each(|n| fixture.archiver.announce(&name(n)).expect("a mark"));
        fixture.archiver.set_module(Some(module.clone()));
        Threads::start(&fixture.archiver, 3)
            .expect("threads")
            .stop(StopMode::Drain)
            .expect("no failure");
        MOST.fetch_max(module.0.lock().most, SeqCst);
    });
    assert_eq!(MOST.load(SeqCst), 2);
}
