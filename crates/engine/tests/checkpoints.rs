//! Checkpoints over disks that fail, and checkpoints that take their time until someone is in a
//! hurry.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::*;
use forebay_aio::fault::{Call, Effect, FaultPlan, Ops, Rule};
use forebay_aio::{Errno, MethodKind};
use forebay_engine::{
    CleanerOptions, Engine, EngineConfig, InterruptKind, IoMethod, Session, ShutdownMode,
    VacuumOptions, WritingSettings,
};

const EIO: Effect = Effect::Fail(Errno::IO);
/// Less than a spread checkpoint of so many pages takes (they rest a tenth of a second each), far
/// more than a fast one.
const MANY: u64 = 700;
const SOON: Duration = Duration::from_secs(60);

/// An engine over a disk that fails by plan, without a background writer; what would have stopped
/// the process.
fn open_on(
    dir: &Path,
    plan: &Arc<FaultPlan>,
    method: MethodKind,
    config: EngineConfig,
) -> (Arc<Engine>, Reasons) {
    let (action, reasons) = noting();
    let writing = WritingSettings {
        cleaner: CleanerOptions { max_pages: 0, ..CleanerOptions::default() },
        ..config.writing
    };
    let config = EngineConfig { on_fatal: Some(action), writing, ..config };
    let aio = io::open_faulty(plan, method);
    (Engine::open_on(dir, config, aio).expect("open"), reasons)
}

/// Runs a test over every method, buffered and direct, in a new directory with a table of 4000
/// rows, none of them on disk.
fn each(test: impl Fn(&Path, &Arc<FaultPlan>, &Arc<Engine>, Session, &Reasons)) {
    let methods = io::methods().into_iter();
    let real = |method: &MethodKind| !matches!(method, MethodKind::Deferred { .. });
    for method in methods.filter(real) {
        for direct in [false, true] {
            eprintln!("method {}, direct {direct}", method.name());
            let (_scratch, dir) = new_dir();
            let plan = FaultPlan::new();
            let (engine, reasons) = open_on(&dir, &plan, method, config(IoMethod::Sync, direct));
            let mut session = engine.session().expect("session");
            create(&mut session, "t");
            insert(&mut session, "t", 0..4000);
            test(&dir, &plan, &engine, session, &reasons);
        }
    }
}

fn rows_after_reopening(dir: &Path) -> u64 {
    let (_engine, mut session) = open_session(dir, &config(IoMethod::Sync, false));
    let (rows, _) = count_and_sum(&mut session, "t");
    rows
}

#[test]
fn a_checkpoint_that_cannot_write_fails_and_the_next_one_does_not() {
    each(|dir, plan, engine, mut session, reasons| {
        for (errno, words) in
            [(Errno::IO, "Input/output error"), (Errno::NOSPC, "No space left on device")]
        {
            plan.add(Rule::on(Ops::WRITE).path("base/5/"), Effect::Fail(errno));
            let error = session.checkpoint().expect_err("nothing can be written");
            let detail = error.detail().unwrap_or_default();
            assert!(
                detail.contains("could not write block") && detail.contains("base/5/"),
                "{detail}"
            );
            assert!(detail.contains(words), "{detail}");
            plan.mend();
        }
        assert_eq!(engine.checkpointer_stats().num_done, 0);
        // It goes on, and nothing is durable that is not.
        insert(&mut session, "t", 4000..5000);
        session.checkpoint().expect("the disk is well again");
        assert_eq!(engine.checkpointer_stats().num_done, 1);
        insert(&mut session, "t", 5000..5100);
        assert_eq!(*reasons.lock().expect("reasons"), Vec::<String>::new());
        drop(session);
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        assert_eq!(rows_after_reopening(dir), 5100);
    });
}

#[test]
fn a_failed_checkpoint_moves_nothing_and_a_stop_on_a_bad_disk_ends() {
    each(|dir, plan, engine, mut session, _| {
        plan.add(Rule::on(Ops::WRITE).path("base/5/"), EIO);
        session.checkpoint().expect_err("nothing can be written");
        insert(&mut session, "t", 4000..4500);
        drop(session);
        // There can be no shutdown checkpoint: the stop says so, and recovery has the log from
        // before.
        let error = engine.shutdown(ShutdownMode::Fast).expect_err("the disk is bad");
        assert!(error.to_string().contains("base/5/"), "{error}");
        plan.mend();
        assert_eq!(rows_after_reopening(dir), 4500);
    });
}

#[test]
fn files_are_synced_when_all_is_written_and_pg_control_comes_last() {
    each(|_, plan, _, mut session, _| {
        plan.record();
        session.checkpoint().expect("checkpoint");
        let calls = plan.take_calls();
        let of = |ops: Ops, part: &'static str| {
            let is = move |call: &Call| {
                ops.contains(call.op) && call.path.to_string_lossy().contains(part)
            };
            calls.iter().enumerate().filter(move |(_, call)| is(call))
        };
        let (last_write, _) = of(Ops::WRITE, "/base/").next_back().expect("pages are written");
        let (first_sync, _) = of(Ops::SYNCS, "/base/").next().expect("files are synced");
        assert!(last_write < first_sync, "a file was synced before all was written");
        for (_, written) in of(Ops::WRITE, "/base/") {
            assert!(
                of(Ops::SYNCS, "/base/").any(|(_, sync)| sync.path == written.path),
                "{written:?}"
            );
        }
        let (last_sync, _) = of(Ops::SYNCS, "/base/").next_back().expect("files are synced");
        let (control, _) =
            of(Ops::WRITE, "/global/pg_control").next_back().expect("pg_control is written");
        let (logged, _) = of(Ops::WRITE | Ops::SYNCS, "/pg_wal/")
            .rfind(|&(at, _)| at < control)
            .expect("a record");
        assert!(last_sync < logged && logged < control);
    });
}

/// Settings with which a checkpoint is due when many pages are dirty.
fn much_wal() -> WritingSettings {
    let cleaner = CleanerOptions { max_pages: 0, ..CleanerOptions::default() };
    WritingSettings { max_wal_size: 24 << 20, cleaner, ..little_wal() }
}

/// Inserts until the log makes a checkpoint due, which then has all the time that
/// checkpoint_timeout gives.
fn begin_spread(engine: &Arc<Engine>, session: &mut Session, next: &mut i64) {
    let before = engine.checkpointer_stats().num_requested;
    while engine.checkpointer_stats().num_requested == before {
        insert(session, "t", *next..*next + 500);
        *next += 500;
    }
}

#[test]
fn who_is_in_a_hurry_speeds_up_a_checkpoint_that_takes_its_time() {
    let (_scratch, dir) = new_dir();
    let config = EngineConfig {
        writing: much_wal(),
        shared_buffers: 4096.into(),
        ..config(IoMethod::Worker, false)
    };
    let (engine, mut session) = open_session(&dir, &config);
    create(&mut session, "t");
    let mut next = 0;
    let mut done = 0;
    let written = || engine.checkpointer_stats().buffers_written;
    let spread = |session: &mut Session, next: &mut i64, done: u64| {
        begin_spread(&engine, session, next);
        assert_eq!(engine.checkpointer_stats().num_done, done, "it takes its time");
        Instant::now()
    };
    // A request for a fast one.
    let began = spread(&mut session, &mut next, done);
    session.checkpoint().expect("checkpoint");
    assert!(began.elapsed() < SOON);
    done = engine.checkpointer_stats().num_done;
    assert_eq!(done, 2, "the one under way, and the one asked for");
    let first = written();
    assert!(first >= MANY, "{first} pages");
    // Other settings.
    let began = spread(&mut session, &mut next, done);
    engine.change_writing(&WritingSettings { checkpoint_completion_target: 0.0, ..much_wal() });
    while engine.checkpointer_stats().num_done == done {
        assert!(began.elapsed() < SOON);
        std::thread::yield_now();
    }
    assert!(written() - first >= MANY);
    engine.change_writing(&much_wal());
    done += 1;
    // A stop.
    let began = spread(&mut session, &mut next, done);
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    assert!(began.elapsed() < SOON);
    drop(engine);
    assert_eq!(rows_after_reopening(&dir), u64::try_from(next).expect("rows"));
}

/// A VACUUM that rests after each page is cancelled once a checkpoint was requested.
#[test]
fn a_long_command_requests_a_checkpoint_before_its_end() {
    let (_scratch, dir) = new_dir();
    let config = EngineConfig { writing: little_wal(), ..config(IoMethod::Sync, false) };
    let (engine, mut session) = open_session(&dir, &config);
    create(&mut session, "t");
    insert(&mut session, "t", 0..200_000);
    session.checkpoint().expect("checkpoint");
    let before = engine.checkpointer_stats().num_requested;
    let settings = session.settings_mut();
    (settings.vacuum.cost_delay, settings.vacuum.cost_limit) = (Duration::from_millis(1), 1);
    let interrupt = session.interrupt().clone();
    let command = std::thread::spawn(move || {
        let table = transaction(&mut session, |s| s.table(None, "t")).expect("table");
        let options = VacuumOptions { freeze: true, ..VacuumOptions::default() };
        session.vacuum(&table.expect("there is one"), &options, &mut Vec::new())
    });
    let began = Instant::now();
    while engine.checkpointer_stats().num_requested == before {
        assert!(began.elapsed() < SOON, "no checkpoint was requested");
        std::thread::yield_now();
    }
    interrupt.request(InterruptKind::Cancel);
    assert_eq!(state(command.join().expect("joined")), "57014");
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}

#[test]
fn a_checkpoint_by_time_that_failed_is_made_again() {
    let (_scratch, dir) = new_dir();
    let plan = FaultPlan::new();
    let writing = WritingSettings {
        checkpoint_timeout: Duration::from_millis(20),
        ..WritingSettings::default()
    };
    let config = EngineConfig { writing, ..config(IoMethod::Sync, false) };
    let (engine, reasons) = open_on(&dir, &plan, MethodKind::Sync, config);
    let mut session = engine.session().expect("session");
    create(&mut session, "t");
    let fault = plan.add(Rule::on(Ops::WRITE).path("base/5/").times(1), EIO);
    insert(&mut session, "t", 0..100);
    let began = Instant::now();
    let wait = |until: &dyn Fn() -> bool| {
        while !until() {
            assert!(began.elapsed() < SOON, "{:?}", engine.checkpointer_stats());
            std::thread::yield_now();
        }
    };
    wait(&|| plan.fired(fault) == 1);
    let done = engine.checkpointer_stats().num_done;
    wait(&|| engine.checkpointer_stats().num_done > done);
    assert_eq!(*reasons.lock().expect("reasons"), Vec::<String>::new());
    assert_eq!(count(&mut session, "t").expect("count"), 100);
}
