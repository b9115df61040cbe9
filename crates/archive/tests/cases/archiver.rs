//! The archiver: status files, order, failures, stops.

use std::collections::BTreeSet;
use std::fs;

use forebay_aio::fault::{Effect, Ops, Rule};
use forebay_aio::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use forebay_aio::sync::{Arc, Condvar, Duration, Instant, Mutex};
use forebay_aio::{Errno, IoBackend};
use forebay_archive::archiver::Threads;
use forebay_archive::modules::Null;
use forebay_archive::{
    ArchiveError, ArchiveModule, Archived, Archiver, Backlog, Next, Source, StopMode, WalName,
};

use crate::fixture::*;

const SECOND: Duration = Duration::from_secs(1);

/// What the test's module does with a file.
type Deed = dyn Fn(&WalName) -> Result<Archived, ArchiveError> + Send + Sync;

/// A module that the test controls.
struct Chosen {
    deed: Box<Deed>,
    order: Mutex<Vec<String>>,
    starts: AtomicUsize,
    ends: AtomicUsize,
    transfers: usize,
    configured: AtomicBool,
}

impl Chosen {
    fn new(
        transfers: usize,
        deed: impl Fn(&WalName) -> Result<Archived, ArchiveError> + Send + Sync + 'static,
    ) -> Arc<Chosen> {
        Arc::new(Chosen {
            deed: Box::new(deed),
            order: Mutex::default(),
            starts: AtomicUsize::new(0),
            ends: AtomicUsize::new(0),
            transfers,
            configured: AtomicBool::new(true),
        })
    }
}

impl ArchiveModule for Chosen {
    fn name(&self) -> &'static str {
        "chosen"
    }
    fn startup(&self) -> Result<(), ArchiveError> {
        self.starts.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
    fn check_configured(&self) -> Result<(), String> {
        if self.configured.load(Ordering::SeqCst) { Ok(()) } else { Err("It is not.".to_owned()) }
    }
    fn archive(&self, _: &mut IoBackend, file: &mut Source) -> Result<Archived, ArchiveError> {
        assert!(self.starts.load(Ordering::SeqCst) == 1 && self.ends.load(Ordering::SeqCst) == 0);
        self.order.lock().push(file.name().to_string());
        (self.deed)(file.name())
    }
    fn transfers(&self) -> usize {
        self.transfers
    }
    fn shutdown(&self) {
        self.ends.fetch_add(1, Ordering::SeqCst);
    }
}

fn refusal(file: &WalName) -> ArchiveError {
    ArchiveError::Module { module: "chosen", file: file.to_string(), reason: "not now".to_owned() }
}

fn done(numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
    numbers.into_iter().map(|n| segment(1, n).done()).collect()
}

#[test]
fn ready_files_are_archived_in_order_and_marked_as_done() {
    each(|fixture| {
        for n in [3, 1, 2] {
            fixture.put_ready(1, n);
        }
        fixture.put(&name("00000002.history"), b"1\t0/5A0000\twhy\n");
        fixture.mark("00000002.history.ready");
        let archiver = fixture.archiver(None);
        archiver.set_module(Some(fixture.basic()));
        assert_eq!(archiver.scan().unwrap(), 4);
        assert_eq!(fixture.work(&archiver, Instant::now()), Next::Rest(None));
        let files: Vec<String> = fixture.marks();
        let mut expected = done(1..=3);
        expected.push("00000002.history.done".to_owned());
        expected.sort();
        assert_eq!(files, expected);
        for n in 1..=3 {
            assert!(
                fs::read(fixture.archive().join(segment(1, n).as_str())).unwrap() == contents(1, n)
            );
        }
        let stats = archiver.stats();
        assert_eq!((stats.archived_count, stats.failed_count), (4, 0));
        assert_eq!(stats.last_archived_wal, Some(segment(1, 3).to_string()));
        assert_eq!(archiver.backlog(), Backlog::default());
    });
}

#[test]
fn announced_files_are_archived_without_a_listing() {
    let mut fixture = Fixture::plain();
    let archiver = fixture.archiver(None);
    archiver.set_module(Some(fixture.basic()));
    archiver.scan().unwrap();
    let now = Instant::now();
    assert_eq!(fixture.work(&archiver, now), Next::Rest(None));
    fixture.put_ready(1, 7);
    archiver.announced(segment(1, 7).as_str());
    archiver.announced("junk");
    fixture.put(&segment(1, 8), &contents(1, 8));
    archiver.announce(&segment(1, 8)).unwrap();
    fixture.plan.record();
    assert_eq!(fixture.work(&archiver, now), Next::Rest(None));
    assert_eq!(fixture.marks(), done(7..=8));
    let calls = fixture.plan.take_calls();
    let status = fixture.wal().join("archive_status");
    assert!(
        !calls.iter().any(|call| call.op == Ops::LIST && call.path == status),
        "nothing is listed"
    );
    let synced =
        calls.iter().filter(|call| call.op == Ops::SYNC_DIR && call.path == status).count();
    assert_eq!(synced, 1, "both are noted by one sync");
}

#[test]
fn thousands_of_files_cost_few_syncs() {
    let mut fixture = Fixture::plain();
    for n in 1..=3000 {
        fixture.put(&segment(1, n), b"");
        fixture.mark(&segment(1, n).ready());
    }
    // The length does not matter to a module that stores nothing.
    let config = forebay_archive::ArchiverConfig::default();
    let archiver = Archiver::new(&fixture.aio, &fixture.wal(), config);
    archiver.set_module(Some(Arc::new(Null)));
    archiver.scan().unwrap();
    fixture.plan.record();
    fixture.work(&archiver, Instant::now());
    assert_eq!(fixture.marks(), done(1..=3000));
    assert_eq!(archiver.stats().archived_count, 3000);
    // One by one there would be 3000 syncs; the number of batches depends on the time they take.
    let syncs = fixture.plan.take_calls().iter().filter(|call| call.op == Ops::SYNC_DIR).count();
    assert!((1..=300).contains(&syncs), "{syncs} syncs");
}

#[test]
fn a_new_history_file_is_archived_before_waiting_files() {
    let mut fixture = Fixture::plain();
    (1..=200).for_each(|n| fixture.put(&segment(1, n), b""));
    (1..=200).for_each(|n| fixture.mark(&segment(1, n).ready()));
    let config = forebay_archive::ArchiverConfig::default();
    let archiver = Archiver::new(&fixture.aio, &fixture.wal(), config);
    let module = Chosen::new(1, |_| Ok(Archived::Stored));
    archiver.set_module(Some(module.clone()));
    archiver.scan().unwrap();
    let now = Instant::now();
    while module.order.lock().len() < 50 {
        assert_eq!(archiver.step(&mut fixture.io, now).unwrap(), Next::Worked);
    }
    fixture.put(&name("00000002.history"), b"");
    archiver.announce(&name("00000002.history")).unwrap();
    fixture.work(&archiver, now);
    let order = module.order.lock().clone();
    assert_eq!(order.len(), 201);
    assert_eq!(order[50], "00000002.history");
    assert!(order[51..].is_sorted() && order[..50].is_sorted());
    assert!(fixture.marks().iter().all(|mark| mark.ends_with(".done")));
}

#[test]
fn a_failing_first_segment_delays_no_transfer_but_all_acknowledgements() {
    let mut fixture = Fixture::plain();
    (1..=4).for_each(|n| drop(fixture.put_ready(1, n)));
    let mut poison = contents(1, 1);
    poison[24] ^= 1;
    fixture.put(&segment(1, 1), &poison);
    let archiver = fixture.archiver(None);
    archiver.set_module(Some(fixture.basic()));
    archiver.scan().unwrap();
    let mut now = Instant::now();
    for failures in 1..=8_u64 {
        let Next::Rest(Some(rest)) = fixture.work(&archiver, now) else {
            panic!("it is tried again")
        };
        assert_eq!(archiver.stats().failed_count, failures);
        assert_eq!(archiver.stats().last_failed_wal, Some(segment(1, 1).to_string()));
        assert!((failures < 3) == (rest <= 2 * SECOND), "{failures}: {rest:?}");
        assert!(rest <= 60 * SECOND);
        // The clock may have advanced a little since the pause began.
        now += rest + SECOND / 10;
        assert_eq!(fixture.stored().len(), 3, "the others are in the archive");
        assert!(
            fixture.marks().iter().all(|mark| mark.ends_with(".ready")),
            "and nobody says so yet"
        );
    }
    let backlog = archiver.backlog();
    assert_eq!((backlog.files, backlog.transferred, backlog.failing), (4, 3, 1));
    assert!(backlog.age.is_some());
    fixture.put(&segment(1, 1), &contents(1, 1));
    assert_eq!(fixture.work(&archiver, now), Next::Rest(None));
    assert_eq!(fixture.marks(), done(1..=4));
    assert_eq!(archiver.stats().archived_count, 4);
}

#[test]
fn orphaned_double_and_unknown_status_files() {
    let mut fixture = Fixture::plain();
    fixture.put_ready(1, 2);
    fixture.mark(&segment(1, 1).ready()); // there is no such file
    fixture.put_ready(1, 3);
    fixture.mark(&segment(1, 3).done()); // archived already, and perhaps about to be recycled
    for junk in [
        "junk.ready",
        "000000010000000000000004.done.ready",
        "0000000100000000000000.ready",
        "x.done",
    ] {
        fixture.mark(junk);
    }
    let archiver = fixture.archiver(None);
    let module = Chosen::new(2, |_| Ok(Archived::Stored));
    archiver.set_module(Some(module.clone()));
    assert_eq!(archiver.scan().unwrap(), 2);
    fixture.work(&archiver, Instant::now());
    assert_eq!(*module.order.lock(), [segment(1, 2).to_string()]);
    let mut left: BTreeSet<String> = fixture.marks().into_iter().collect();
    for n in [2, 3] {
        assert!(left.remove(&segment(1, n).done()), "{left:?}");
    }
    assert_eq!(left.len(), 4, "junk stays: {left:?}");
    assert!(
        left.iter().all(|mark| !mark.starts_with(segment(1, 1).as_str())),
        "an orphan's mark is removed"
    );
    assert_eq!(archiver.stats().archived_count, 1);
}

#[test]
fn status_files_that_the_administrator_removes_or_renames() {
    let mut fixture = Fixture::plain();
    (1..=3).for_each(|n| drop(fixture.put_ready(1, n)));
    let archiver = fixture.archiver(None);
    let status = fixture.wal().join("archive_status");
    let (removed, changed) =
        (status.join(segment(1, 1).ready()), status.join(segment(1, 2).ready()));
    archiver.scan().unwrap();
    fs::remove_file(removed).unwrap();
    fs::rename(changed, status.join(segment(1, 2).done())).unwrap();
    let gone = status.join(segment(1, 3).ready());
    // The third one is removed while its file is archived.
    let module = Chosen::new(1, move |_| {
        fs::remove_file(&gone).unwrap();
        Ok(Archived::Stored)
    });
    archiver.set_module(Some(module.clone()));
    assert_eq!(fixture.work(&archiver, Instant::now()), Next::Rest(None));
    assert_eq!(*module.order.lock(), [segment(1, 3).to_string()]);
    assert_eq!(fixture.marks(), done([2]));
    assert_eq!(archiver.backlog().files, 0);
}

#[test]
fn a_failed_sync_of_the_status_files_is_final() {
    let mut fixture = Fixture::plain();
    fixture.put_ready(1, 1);
    let archiver = fixture.archiver(None);
    archiver.set_module(Some(fixture.basic()));
    archiver.scan().unwrap();
    fixture
        .plan
        .add(Rule::on(Ops::SYNC_DIR).path("archive_status").times(1), Effect::Fail(Errno::IO));
    let error = loop {
        match archiver.step(&mut fixture.io, Instant::now()) {
            Ok(next) => assert_eq!(next, Next::Worked),
            Err(e) => break e,
        }
    };
    assert!(error.is_fatal(), "{error}");
    assert!(error.to_string().contains("archive_status"), "{error}");
    assert_eq!(archiver.step(&mut fixture.io, Instant::now()).unwrap(), Next::Ended);
    assert!(archiver.is_ended());
    assert_eq!(archiver.stats().archived_count, 0, "nothing was acknowledged");
}

#[test]
fn a_failed_renaming_is_retried_without_another_transfer() {
    for errno in [Errno::NOSPC, Errno::IO] {
        let mut fixture = Fixture::plain();
        (1..=3).for_each(|n| drop(fixture.put_ready(1, n)));
        let archiver = fixture.archiver(None);
        let module = Chosen::new(1, |_| Ok(Archived::Stored));
        archiver.set_module(Some(module.clone()));
        archiver.scan().unwrap();
        fixture
            .plan
            .add(Rule::on(Ops::RENAME).path(segment(1, 2).ready()).times(1), Effect::Fail(errno));
        let now = Instant::now();
        let Next::Rest(Some(rest)) = fixture.work(&archiver, now) else {
            panic!("it is tried again")
        };
        assert_eq!(
            fixture.marks(),
            [segment(1, 1).done(), segment(1, 2).ready(), segment(1, 3).ready()]
        );
        assert_eq!(archiver.stats().archived_count, 1);
        fixture.work(&archiver, now + rest);
        assert_eq!(fixture.marks(), done(1..=3));
        assert_eq!(module.order.lock().len(), 3);
    }
}

#[test]
fn files_wait_for_a_configured_module() {
    let mut fixture = Fixture::plain();
    fixture.put_ready(1, 1);
    let archiver = fixture.archiver(None);
    archiver.scan().unwrap();
    let mut now = Instant::now();
    assert_eq!(fixture.work(&archiver, now), Next::Rest(Some(60 * SECOND)));
    let module = Chosen::new(1, |_| Ok(Archived::Stored));
    module.configured.store(false, Ordering::SeqCst);
    archiver.set_module(Some(module.clone()));
    assert_eq!(
        fixture.work(&archiver, now),
        Next::Rest(Some(60 * SECOND)),
        "a new module is tried at once"
    );
    module.configured.store(true, Ordering::SeqCst);
    now += 59 * SECOND;
    assert_eq!(fixture.work(&archiver, now), Next::Rest(Some(SECOND)));
    assert_eq!(fixture.work(&archiver, now + SECOND), Next::Rest(None));
    assert_eq!(fixture.marks(), done([1]));
    assert_eq!(archiver.stats().failed_count, 0);
}

#[test]
fn a_reload_changes_the_module_between_two_files() {
    let mut fixture = Fixture::plain();
    (1..=4).for_each(|n| drop(fixture.put_ready(1, n)));
    let archiver = fixture.archiver(None);
    let (one, two) =
        (Chosen::new(1, |_| Ok(Archived::Stored)), Chosen::new(1, |_| Ok(Archived::Stored)));
    archiver.set_module(Some(one.clone()));
    archiver.scan().unwrap();
    let now = Instant::now();
    while one.order.lock().len() < 2 {
        archiver.step(&mut fixture.io, now).unwrap();
    }
    archiver.set_module(Some(two.clone()));
    fixture.work(&archiver, now);
    assert_eq!((one.order.lock().len(), two.order.lock().len()), (2, 2));
    assert_eq!((one.ends.load(Ordering::SeqCst), two.ends.load(Ordering::SeqCst)), (1, 0));
    archiver.stop(StopMode::Drain);
    assert_eq!(fixture.work(&archiver, now), Next::Ended);
    assert_eq!(two.ends.load(Ordering::SeqCst), 1);
}

#[test]
fn a_panic_of_a_module_is_a_failure() {
    let mut fixture = Fixture::plain();
    fixture.put_ready(1, 1);
    let archiver = fixture.archiver(None);
    let first = AtomicBool::new(true);
    let module = Chosen::new(1, move |_| {
        assert!(!first.swap(false, Ordering::SeqCst), "on purpose");
        Ok(Archived::Stored)
    });
    archiver.set_module(Some(module));
    archiver.scan().unwrap();
    let now = Instant::now();
    let Next::Rest(Some(rest)) = fixture.work(&archiver, now) else { panic!("it is tried again") };
    assert_eq!(archiver.stats().failed_count, 1);
    fixture.work(&archiver, now + rest + SECOND);
    assert_eq!(fixture.marks(), done([1]));
}

#[test]
fn a_drain_archives_waiting_and_failed_files() {
    let mut fixture = Fixture::plain();
    (1..=3).for_each(|n| drop(fixture.put_ready(1, n)));
    let archiver = fixture.archiver(None);
    let broken = Arc::new(AtomicBool::new(true));
    let state = Arc::clone(&broken);
    let module = Chosen::new(1, move |file| {
        if state.load(Ordering::SeqCst) { Err(refusal(file)) } else { Ok(Archived::Stored) }
    });
    archiver.set_module(Some(module.clone()));
    archiver.scan().unwrap();
    let mut now = Instant::now();
    for _ in 0..6 {
        let Next::Rest(Some(rest)) = fixture.work(&archiver, now) else {
            panic!("it is tried again")
        };
        now += rest + SECOND / 10;
    }
    broken.store(false, Ordering::SeqCst);
    archiver.stop(StopMode::Drain);
    assert_eq!(fixture.work(&archiver, now), Next::Ended, "nobody rests");
    assert_eq!(fixture.marks(), done(1..=3));
    assert_eq!(module.ends.load(Ordering::SeqCst), 1);
    assert!(archiver.is_ended());
}

#[test]
fn a_drain_ends_when_a_file_fails_three_times() {
    let mut fixture = Fixture::plain();
    (1..=3).for_each(|n| drop(fixture.put_ready(1, n)));
    let archiver = fixture.archiver(None);
    let module = Chosen::new(1, |file| {
        if file.as_str().ends_with('2') { Err(refusal(file)) } else { Ok(Archived::Stored) }
    });
    archiver.set_module(Some(module));
    archiver.scan().unwrap();
    archiver.stop(StopMode::Drain);
    let mut now = Instant::now();
    for _ in 0..2 {
        let Next::Rest(Some(rest)) = fixture.work(&archiver, now) else {
            panic!("it is tried again")
        };
        assert!(rest <= 2 * SECOND);
        now += rest + SECOND / 10;
    }
    assert_eq!(fixture.work(&archiver, now), Next::Ended);
    assert_eq!(
        fixture.marks(),
        [segment(1, 1).done(), segment(1, 2).ready(), segment(1, 3).ready()]
    );
    // The next archiver converges.
    let archiver = fixture.archiver(None);
    archiver.set_module(Some(Chosen::new(1, |_| Ok(Archived::Stored))));
    archiver.scan().unwrap();
    fixture.work(&archiver, now);
    assert_eq!(fixture.marks(), done(1..=3));
}

#[test]
fn a_stop_in_mid_transfer_leaves_nothing_half_done() {
    each(|fixture| {
        fixture.put_ready(1, 1);
        let archiver = fixture.archiver(None);
        archiver.set_module(Some(fixture.basic()));
        let threads = Threads::start(&archiver, 2).unwrap();
        let archive = fixture.archive();
        let held = fixture
            .plan
            .hold(Rule::on(Ops::WRITE).when(move |call| call.path.starts_with(&archive)).times(1));
        archiver.scan().unwrap();
        held.await_count(1);
        archiver.stop(StopMode::Now);
        held.release();
        threads.stop(StopMode::Now).unwrap();
        let (stored, marks) = (fixture.stored(), fixture.marks());
        // The stop may have come after its last check.
        if stored.is_empty() {
            assert_eq!(marks, [segment(1, 1).ready()]);
        } else {
            assert_eq!(stored, [segment(1, 1).as_str()], "no temporary file");
        }
        assert_eq!(archiver.stats().failed_count, 0, "a stop is no failure");
        let archiver = fixture.archiver(None);
        archiver.set_module(Some(fixture.basic()));
        archiver.scan().unwrap();
        fixture.work(&archiver, Instant::now());
        assert_eq!(fixture.marks(), done([1]));
        assert!(
            fs::read(fixture.archive().join(segment(1, 1).as_str())).unwrap() == contents(1, 1)
        );
    });
}

/// The module waits until all transfers are in flight at once.
#[test]
fn several_transfers_are_in_flight_at_once() {
    let fixture = Fixture::plain();
    (1..=40).for_each(|n| drop(fixture.put_ready(1, n)));
    let archiver = fixture.archiver(None);
    let meeting = Arc::new((Mutex::new(0_usize), Condvar::new()));
    let there = Arc::clone(&meeting);
    let module = Chosen::new(4, move |_| {
        let (count, all) = &*there;
        let mut count = count.lock();
        *count += 1;
        all.notify_all();
        while *count < 4 {
            all.wait(&mut count);
        }
        Ok(Archived::Stored)
    });
    archiver.set_module(Some(module.clone()));
    let threads = Threads::start(&archiver, 8).unwrap();
    archiver.scan().unwrap();
    threads.stop(StopMode::Drain).unwrap();
    assert_eq!(fixture.marks(), done(1..=40));
    assert_eq!(archiver.stats().archived_count, 40);
    assert_eq!(module.order.lock().iter().collect::<BTreeSet<_>>().len(), 40, "each once");
}

#[test]
fn threads_archive_to_a_directory_on_a_disk_with_errors() {
    let fixture = Fixture::plain();
    let count = 30;
    (1..=count).for_each(|n| drop(fixture.put_ready(1, n)));
    let archive = fixture.archive();
    let errors = Rule::on(Ops::WRITE | Ops::OPEN | Ops::RENAME)
        .when(move |call| call.path.starts_with(&archive));
    fixture.plan.add(errors.chance(0.1).times(10), Effect::Fail(Errno::IO));
    let archiver = fixture.archiver(Some(3));
    archiver.set_module(Some(fixture.basic()));
    archiver.scan().unwrap();
    let threads = Threads::start(&archiver, 3).unwrap();
    // A drain ends when a file fails three times. The next archiver finds the files that are
    // left.
    threads.stop(StopMode::Drain).unwrap();
    fixture.plan.mend();
    let archiver = fixture.archiver(Some(3));
    archiver.set_module(Some(fixture.basic()));
    archiver.scan().unwrap();
    Threads::start(&archiver, 3).unwrap().stop(StopMode::Drain).unwrap();
    assert_eq!(fixture.marks(), done(1..=count));
    assert_eq!(fixture.stored().len(), usize::try_from(count).unwrap(), "{:?}", fixture.stored());
    for n in 1..=count {
        assert!(
            fs::read(fixture.archive().join(segment(1, n).as_str())).unwrap() == contents(1, n)
        );
    }
}
