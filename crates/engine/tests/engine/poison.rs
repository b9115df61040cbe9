//! An engine that had to stop: nothing of it becomes durable any more, and every call names the
//! first failure.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::common::*;
use forebay_aio::fault::{Effect, FaultPlan, Ops, Rule};
use forebay_aio::{Errno, MethodKind};
use forebay_engine::archive::{ArchiveError, ArchiveModule, Archived, Source};
use forebay_engine::{
    ArchiveMode, ArchiveModules, ArchiveSettings, Background, CheckpointStep, CheckpointWatch,
    CleanerOptions, Engine, EngineConfig, EngineError, IoMethod, LockMode, Session, ShutdownMode,
    WritingSettings,
};

const EIO: Effect = Effect::Fail(Errno::IO);

/// Everything that changes what is on the disk.
fn changes() -> Ops {
    let names =
        Ops::MKDIR | Ops::RENAME | Ops::UNLINK | Ops::RMDIR | Ops::SYNC_DIR | Ops::SYNC_FILE;
    names | Ops::WRITE | Ops::SYNCS | Ops::SET_LEN | Ops::ALLOCATE | Ops::FALLOCATE | Ops::RESERVE
}

/// An archive that takes all it is given.
struct Anywhere;

impl ArchiveModule for Anywhere {
    fn name(&self) -> &'static str {
        "anywhere"
    }

    fn archive(
        &self,
        _io: &mut forebay_aio::IoBackend,
        _file: &mut Source,
    ) -> Result<Archived, ArchiveError> {
        Ok(Archived::Stored)
    }
}

type Work = Box<dyn FnMut(CheckpointStep) + Send>;

/// What a test does at the steps of a checkpoint, once.
#[derive(Clone, Default)]
struct During(Arc<Mutex<Option<Work>>>);

impl During {
    fn set(&self, work: impl FnMut(CheckpointStep) + Send + 'static) {
        *self.0.lock().expect("no panic") = Some(Box::new(work));
    }

    fn watch(&self) -> CheckpointWatch {
        let work = Arc::clone(&self.0);
        CheckpointWatch(Arc::new(move |step| {
            // Taken out meanwhile: a checkpoint within it finds nothing.
            let taken = work.lock().expect("no panic").take();
            if let Some(mut taken) = taken {
                taken(step);
                *work.lock().expect("no panic") = Some(taken);
            }
        }))
    }
}

/// A stepped engine that archives, with a table of 500 rows in the files, on a disk that fails by
/// plan.
struct Rig {
    _scratch: tempfile::TempDir,
    dir: PathBuf,
    plan: Arc<FaultPlan>,
    during: During,
    engine: Arc<Engine>,
    session: Session,
}

impl Rig {
    fn new() -> Rig {
        let (scratch, dir) = new_dir();
        let (plan, during) = (FaultPlan::new(), During::default());
        let config = EngineConfig { on_checkpoint: Some(during.watch()), ..stepped() };
        let aio = io::open_faulty(&plan, MethodKind::Sync);
        let engine = Engine::open_on(&dir, config, aio).expect("open");
        let mut session = engine.session().expect("session");
        create(&mut session, "t");
        insert(&mut session, "t", 0..500);
        Rig { _scratch: scratch, dir, plan, during, engine, session }
    }

    fn control(&self) -> Vec<u8> {
        std::fs::read(self.dir.join("global/pg_control")).expect("pg_control")
    }
}

/// The default action: nobody stops the process. A little WAL makes a checkpoint due.
fn stepped() -> EngineConfig {
    let cleaner = CleanerOptions { max_pages: 0, ..CleanerOptions::default() };
    EngineConfig {
        background: Background::Stepped,
        archive_mode: ArchiveMode::On,
        archiving: ArchiveSettings { library: "anywhere".to_owned(), ..ArchiveSettings::default() },
        archive_modules: ArchiveModules(vec![Arc::new(Anywhere)]),
        writing: WritingSettings { cleaner, ..little_wal() },
        ..config(IoMethod::Sync, false)
    }
}

/// The rows there are when the directory is opened anew.
fn rows(dir: &Path) -> u64 {
    let engine = open(dir, &stepped());
    count(&mut engine.session().expect("session"), "t").expect("count")
}

/// Every call fails, and says what failed first.
fn assert_poisoned(rig: &mut Rig, names: &str) {
    let Rig { engine, session, .. } = rig;
    let errors: [(&str, EngineError); 5] = [
        ("begin", session.begin().expect_err("stopped")),
        ("count", count(session, "t").expect_err("stopped")),
        ("checkpoint", session.checkpoint().expect_err("stopped")),
        ("step", engine.step().expect_err("stopped")),
        ("session", engine.session().expect_err("stopped")),
    ];
    for (call, error) in errors {
        assert_eq!(error.sqlstate(), "57P02", "{call}: {error}");
        assert!(error.to_string().contains(names), "{call}: {error}");
    }
}

/// A sync that failed, whoever asked for it, is the end: of checkpoints, of the log and of the
/// archiver.
#[test]
fn nothing_becomes_durable_after_a_failed_sync() {
    for (ops, part) in [
        (Ops::SYNCS, "/base/5/"),
        (Ops::SYNC_DIR, "/base/5"),
        (Ops::SYNC_DIR, "/pg_xact"),
        (Ops::SYNCS, "/pg_xact/"),
    ] {
        let fault = format!("{ops:?} of {part}");
        let mut rig = Rig::new();
        if part == "/pg_xact" {
            // So that the checkpoint makes a name there.
            std::fs::remove_file(rig.dir.join("pg_xact/0000")).expect("remove");
        }
        // While the checkpoint is under way that fails, so much is written that the next one is
        // due.
        let mut other = rig.engine.session().expect("session");
        rig.during.set(move |step| {
            if step == CheckpointStep::Begun {
                insert(&mut other, "t", 500..40_000);
            }
        });
        rig.plan.add(Rule::on(ops).path(part).times(1), EIO);
        let error = rig.session.checkpoint().expect_err(&fault);
        assert!(
            error.detail().unwrap_or_default().contains(part.trim_matches('/')),
            "{fault}: {error:?}"
        );
        rig.during.set(|_| ());
        let control = rig.control();
        rig.plan.record();
        // What is due is not done, though the disk would do it.
        let _ = rig.engine.step();
        assert_poisoned(&mut rig, part.trim_matches('/'));
        rig.engine.shutdown(ShutdownMode::Fast).expect_err("no shutdown checkpoint");
        let made: Vec<_> = rig.plan.take_calls();
        let made: Vec<_> = made
            .iter()
            .filter(|call| changes().contains(call.op) && !call.path.ends_with("postmaster.pid"))
            .collect();
        assert!(made.is_empty(), "{fault}: {made:?}");
        assert!(rig.control() == control, "{fault}: pg_control has changed");
        let Rig { dir, engine, session, during, _scratch, .. } = rig;
        drop((session, engine, during));
        assert_eq!(rows(&dir), 40_000, "{fault}");
    }
}

/// So is that of a file or a name that the end of a base backup makes in the log's directory.
#[test]
fn a_failed_sync_at_the_end_of_a_backup_is_the_end() {
    let mut rig = Rig::new();
    rig.session.start_backup("b", true).expect("begin");
    rig.plan.add(Rule::on(Ops::SYNCS).path(".backup").times(1), EIO);
    rig.session.stop_backup(false).expect_err("the history file is not synced");
    assert_poisoned(&mut rig, ".backup");
}

/// A checkpoint that is under way when the engine stops comes to no end, and removes nothing.
#[test]
fn a_checkpoint_under_way_does_not_end_after_a_stop() {
    for at in CheckpointStep::ALL {
        let rig = Rig::new();
        let Rig { dir, plan, during, engine, mut session, _scratch } = rig;
        // Segments that could go.
        insert(&mut session, "t", 500..40_000);
        let mut other = engine.session().expect("session");
        let failing = Arc::clone(&plan);
        during.set(move |step| {
            if step == at {
                failing.add(Rule::on(Ops::SYNCS).path("/pg_wal/").times(1), EIO);
                transaction(&mut other, |s| {
                    let table = s.open_table(None, "t", LockMode::RowExclusive)?;
                    insert_open(s, &table, 40_000..40_010)
                })
                .expect_err("not durable");
                failing.record();
            }
        });
        let before = std::fs::read(dir.join("global/pg_control")).expect("pg_control");
        session.checkpoint().expect_err("stopped");
        // The other session goes.
        during.set(|_| ());
        let made = plan.take_calls();
        let made: Vec<_> = made.iter().filter(|call| changes().contains(call.op)).collect();
        assert!(made.is_empty(), "{at:?}: {made:?}");
        assert!(
            std::fs::read(dir.join("global/pg_control")).expect("pg_control") == before,
            "{at:?}"
        );
        drop((session, engine, during));
        let rows = rows(&dir);
        assert!(rows == 40_000 || rows == 40_010, "{at:?}: {rows}");
    }
}

/// With threads: the stop of a poisoned engine ends, writes nothing, and those who wait are told.
#[test]
fn a_poisoned_engine_with_threads_stops() {
    let (_scratch, dir) = new_dir();
    let plan = FaultPlan::new();
    let aio = io::open_faulty(&plan, MethodKind::Sync);
    let config = EngineConfig { background: Background::Threads, ..stepped() };
    let engine = Engine::open_on(&dir, config, aio).expect("open");
    let mut session = engine.session().expect("session");
    create(&mut session, "t");
    insert(&mut session, "t", 0..40_000);
    session.checkpoint().expect("checkpoint");
    insert(&mut session, "t", 40_000..40_500);
    let control = std::fs::read(dir.join("global/pg_control")).expect("pg_control");
    plan.add(Rule::on(Ops::SYNCS).path("/base/5/").times(1), EIO);
    session.checkpoint().expect_err("a failed sync");
    // The next one would be due at once.
    let writing = WritingSettings { checkpoint_timeout: std::time::Duration::ZERO, ..little_wal() };
    engine.change_writing(&writing);
    let error = count(&mut session, "t").expect_err("stopped");
    assert!(error.to_string().contains("could not fsync file"), "{error}");
    engine.shutdown(ShutdownMode::Fast).expect_err("no shutdown checkpoint");
    assert!(std::fs::read(dir.join("global/pg_control")).expect("pg_control") == control);
    drop((session, engine));
    assert_eq!(rows(&dir), 40_500);
}
