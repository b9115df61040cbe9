//! A disk that fails: which failures stop the engine, and that none of them loses what was
//! acknowledged.

use std::path::Path;
use std::sync::Arc;

use crate::common::*;
use forebay_aio::fault::{Effect, FaultPlan, Ops, Rule};
use forebay_aio::{Errno, MethodKind, WorkerLimits};
use forebay_engine::{
    CleanerOptions, Engine, EngineConfig, EngineError, IoMethod, ShutdownMode, WritingSettings,
};

const EIO: Effect = Effect::Fail(Errno::IO);

/// The I/O that changes what is on the disk, or says that it is there.
fn changes() -> Ops {
    Ops::WRITE | Ops::SYNCS
}

/// A configuration whose fatal action is to take the reason down.
fn recording() -> (EngineConfig, Reasons) {
    let (action, reasons) = noting();
    let config = EngineConfig {
        on_fatal: Some(action),
        shared_buffers: 64.into(),
        writing: WritingSettings {
            cleaner: CleanerOptions { max_pages: 0, ..CleanerOptions::default() },
            ..WritingSettings::default()
        },
        ..config(IoMethod::Worker, false)
    };
    (config, reasons)
}

fn open_on(
    dir: &Path,
    plan: &Arc<FaultPlan>,
    config: &EngineConfig,
) -> Result<Arc<Engine>, EngineError> {
    let workers = MethodKind::Worker(WorkerLimits::fixed(2));
    let aio = io::open_faulty(plan, workers);
    Engine::open_on(dir, config.clone(), aio)
}

#[test]
fn a_failed_sync_stops_the_engine_and_is_told_with_its_file() {
    let cases = [
        (Ops::SYNCS, "/pg_wal/", false),
        (Ops::WRITE, "/pg_wal/", false),
        (Ops::SYNCS, "/base/5/", true),
        (Ops::SYNCS, "/pg_xact/", true),
        (Ops::SYNCS, "/global/pg_control", true),
        (Ops::WRITE, "/global/pg_control", true),
    ];
    for (ops, part, at_checkpoint) in cases {
        let fault = format!("{ops:?} of {part}");
        let (_scratch, dir) = new_dir();
        let plan = FaultPlan::new();
        let (config, reasons) = recording();
        let engine = open_on(&dir, &plan, &config).expect("open");
        let mut session = engine.session().expect("session");
        create(&mut session, "t");
        insert(&mut session, "t", 0..500);
        plan.add(Rule::on(ops).path(part), EIO);
        let result = if at_checkpoint {
            session.checkpoint()
        } else {
            transaction(&mut session, |s| {
                let table = s.open_table(None, "t", forebay_engine::LockMode::RowExclusive)?;
                insert_open(s, &table, 500..600)
            })
        };
        assert!(result.is_err(), "{fault}");
        let told = reasons.lock().expect("reasons").clone();
        assert_eq!(told.len(), 1, "{fault}: {told:?}");
        assert!(told[0].contains(part.trim_matches('/')), "{fault}: {told:?}");
        assert_eq!(count(&mut session, "t").expect_err("stopped").sqlstate(), "57P02", "{fault}");
        assert_eq!(engine.session().expect_err("stopped").sqlstate(), "57P02");
        plan.mend();
        // Even with the disk well again a stop writes nothing more.
        assert!(engine.shutdown(ShutdownMode::Fast).is_err(), "{fault}");
        drop((session, engine));
        let (_engine, mut session) = open_session(&dir, &config);
        let rows = count(&mut session, "t").expect("count");
        let allowed: &[u64] = if at_checkpoint { &[500] } else { &[500, 600] };
        assert!(allowed.contains(&rows), "{fault}: {rows} rows");
    }
}

/// A short life of an engine. Returns the acknowledged rows, and how many more may have been
/// committed.
fn life(dir: &Path, plan: &Arc<FaultPlan>) -> (u64, u64) {
    let (config, _) = recording();
    let mut acknowledged = 0;
    let Ok(engine) = open_on(dir, plan, &config) else { return (0, 0) };
    let Ok(mut session) = engine.session() else { return (0, 0) };
    let mut made = false;
    for round in 0..6_i64 {
        let result = transaction(&mut session, |s| {
            if !made {
                s.create_table(None, "t", &columns())?;
                s.start_command()?;
            }
            let table = s.open_table(None, "t", forebay_engine::LockMode::RowExclusive)?;
            insert_open(s, &table, round * 2_000..round * 2_000 + 1_500)
        });
        match result {
            Ok(()) => {
                made = true;
                acknowledged += 1_500;
            }
            Err(_) => return (acknowledged, 1_500),
        }
        if round % 2 == 1 && session.checkpoint().is_err() {
            return (acknowledged, 0);
        }
    }
    drop(session);
    let _ = engine.shutdown(ShutdownMode::Fast);
    (acknowledged, 0)
}

#[test]
fn whichever_write_or_sync_fails_nothing_acknowledged_is_lost() {
    let scratch = scratch();
    let fresh = scratch.path().join("fresh");
    init(&fresh);
    let dir = scratch.path().join("data");
    let copy = || {
        let _ = std::fs::remove_dir_all(&dir);
        let status = std::process::Command::new("cp").arg("-a").arg(&fresh).arg(&dir).status();
        assert!(status.expect("cp").success());
    };
    copy();
    let plan = FaultPlan::new();
    assert_eq!(life(&dir, &plan), (9_000, 0));
    let total = plan.calls(changes());
    assert!(total > 40, "{total} writes and syncs");
    let step = (total / 40).max(1);
    let mut fired = 0;
    for nth in (0..total).step_by(usize::try_from(step).expect("step")) {
        copy();
        let plan = FaultPlan::new();
        let fault = plan.add(Rule::on(changes()).nth(nth), EIO);
        let (acknowledged, perhaps) = life(&dir, &plan);
        fired += plan.fired(fault);
        let (config, _) = recording();
        let (_engine, mut session) = open_session(&dir, &config);
        let rows = match count(&mut session, "t") {
            Err(error) if error.sqlstate() == "42P01" => 0,
            rows => rows.expect("count"),
        };
        assert!(
            rows == acknowledged || rows == acknowledged + perhaps,
            "operation {nth}: {rows} rows, {acknowledged} acknowledged"
        );
    }
    println!("{fired} failures fired among {total} writes and syncs");
    assert!(fired >= 20, "{fired}");
}
