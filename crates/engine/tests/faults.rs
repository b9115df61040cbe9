//! A disk that fails: which failures stop the engine, and that none of them loses what was acknowledged.

mod common;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use common::*;
use forebay_aio::execute::{Executor, PosixExecutor, Request};
use forebay_aio::{Aio, AioConfig, Errno, OpKind, PosixNamespace};
use forebay_engine::{Engine, EngineConfig, EngineError, FatalAction, IoMethod, ShutdownMode};

/// When an operation fails.
#[derive(Clone, Debug)]
enum Fault {
    None,
    /// A sync of a file whose path has this in it.
    Sync(&'static str),
    /// A write to such a file.
    Write(&'static str),
    /// The write or sync with this number.
    Nth(u64),
}

struct Disk {
    fault: Mutex<Fault>,
    changes: AtomicU64,
    fired: AtomicU64,
}

impl Disk {
    fn healthy() -> Arc<Disk> {
        Arc::new(Disk {
            fault: Mutex::new(Fault::None),
            changes: AtomicU64::new(0),
            fired: AtomicU64::new(0),
        })
    }

    fn set(&self, fault: Fault) {
        *self.fault.lock().expect("fault") = fault;
    }

    fn fails(&self, request: &Request<'_>) -> bool {
        let syncs = matches!(request.op(), OpKind::Fsync | OpKind::Fdatasync);
        if !syncs && request.op() != OpKind::Writev {
            return false;
        }
        let number = self.changes.fetch_add(1, Ordering::SeqCst);
        let path = request.file().path().display().to_string();
        match &*self.fault.lock().expect("fault") {
            Fault::None => false,
            Fault::Sync(part) => syncs && path.contains(part),
            Fault::Write(part) => !syncs && path.contains(part),
            Fault::Nth(n) => number == *n,
        }
    }
}

struct Faulty(Arc<Disk>);

impl Executor for Faulty {
    fn execute(&self, request: &Request<'_>) -> Result<usize, Errno> {
        if self.0.fails(request) {
            self.0.fired.fetch_add(1, Ordering::SeqCst);
            return Err(Errno::IO);
        }
        PosixExecutor.execute(request)
    }
}

type Reasons = Arc<Mutex<Vec<String>>>;

/// A configuration whose fatal action is to take the reason down.
fn recording() -> (EngineConfig, Reasons) {
    let reasons = Reasons::default();
    let seen = Arc::clone(&reasons);
    let action =
        FatalAction(Arc::new(move |reason: &str| seen.lock().expect("reasons").push(reason.to_owned())));
    let config = EngineConfig {
        on_fatal: Some(action),
        shared_buffers: 64,
        bgwriter_lru_maxpages: 0,
        ..config(IoMethod::Worker, false)
    };
    (config, reasons)
}

fn open_on(dir: &Path, disk: &Arc<Disk>, config: &EngineConfig) -> Result<Arc<Engine>, EngineError> {
    let sizes = AioConfig { max_backends: 20, handles_per_backend: 16, ..AioConfig::default() };
    let executor = Arc::new(Faulty(Arc::clone(disk)));
    let aio = Aio::with_workers(
        Arc::new(PosixNamespace::new()),
        executor,
        sizes,
        forebay_aio::WorkerLimits::fixed(2),
    )
    .expect("aio");
    Engine::open_on(dir, config.clone(), aio)
}

#[test]
fn a_failed_sync_stops_the_engine_and_is_told_with_its_file() {
    let cases = [
        (Fault::Sync("/pg_wal/"), false),
        (Fault::Write("/pg_wal/"), false),
        (Fault::Sync("/base/5/"), true),
        (Fault::Sync("/pg_xact/"), true),
        (Fault::Sync("/global/pg_control"), true),
        (Fault::Write("/global/pg_control"), true),
    ];
    for (fault, at_checkpoint) in cases {
        let scratch = scratch();
        let dir = scratch.path().join("data");
        init(&dir);
        let disk = Disk::healthy();
        let (config, reasons) = recording();
        let engine = open_on(&dir, &disk, &config).expect("open");
        let mut session = engine.session().expect("session");
        create(&mut session, "t");
        insert(&mut session, "t", 0..500);
        disk.set(fault.clone());
        let result = if at_checkpoint {
            session.checkpoint()
        } else {
            transaction(&mut session, |s| {
                let table = s.open_table(None, "t", forebay_engine::LockMode::RowExclusive)?;
                insert_open(s, &table, 500..600)
            })
        };
        assert!(result.is_err(), "{fault:?}");
        let told = reasons.lock().expect("reasons").clone();
        let (Fault::Sync(part) | Fault::Write(part)) = &fault else { unreachable!("not among the cases") };
        assert_eq!(told.len(), 1, "{fault:?}: {told:?}");
        assert!(told[0].contains(part.trim_matches('/')), "{fault:?}: {told:?}");
        assert_eq!(count(&mut session, "t").expect_err("stopped").sqlstate(), "57P01", "{fault:?}");
        assert_eq!(engine.session().expect_err("stopped").sqlstate(), "57P01");
        disk.set(Fault::None);
        // Even with the disk well again a stop writes nothing more.
        assert!(engine.shutdown(ShutdownMode::Fast).is_err(), "{fault:?}");
        drop((session, engine));
        let engine = open(&dir, &config);
        let mut session = engine.session().expect("session");
        let rows = count(&mut session, "t").expect("count");
        let allowed: &[u64] = if at_checkpoint { &[500] } else { &[500, 600] };
        assert!(allowed.contains(&rows), "{fault:?}: {rows} rows");
    }
}

/// A short life of an engine. Returns the acknowledged rows, and how many more may have been committed.
fn life(dir: &Path, disk: &Arc<Disk>) -> (u64, u64) {
    let (config, _) = recording();
    let mut acknowledged = 0;
    let Ok(engine) = open_on(dir, disk, &config) else { return (0, 0) };
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
    let disk = Disk::healthy();
    assert_eq!(life(&dir, &disk), (9_000, 0));
    let total = disk.changes.load(Ordering::SeqCst);
    assert!(total > 40, "{total} writes and syncs");
    let step = (total / 40).max(1);
    let mut fired = 0;
    for nth in (0..total).step_by(usize::try_from(step).expect("step")) {
        copy();
        let disk = Disk::healthy();
        disk.set(Fault::Nth(nth));
        let (acknowledged, perhaps) = life(&dir, &disk);
        fired += disk.fired.load(Ordering::SeqCst);
        let (config, _) = recording();
        let engine = open(&dir, &config);
        let mut session = engine.session().expect("session");
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
