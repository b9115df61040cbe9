//! Room, descriptors or memory are short at any call of a commit or a checkpoint: what is asked for
//! fails at worst, the engine lives, nothing acknowledged is lost, and all goes on when the
//! shortage is over.

use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::common::*;
use forebay_aio::fault::{Call, Effect, FaultPlan, Ops, Rule};
use forebay_aio::{Errno, MethodKind};
use forebay_engine::{
    Background, CleanerOptions, Engine, EngineConfig, IoMethod, LockMode, Session, ShutdownMode,
    WritingSettings,
};

const SHORTAGES: [(&str, Errno); 3] =
    [("ENOSPC", Errno::NOSPC), ("EMFILE", Errno(24)), ("ENOMEM", Errno(12))];

/// Not a sync, and not a write into the log or pg_control, which leaves them unknown.
fn is_harmless(call: &Call) -> bool {
    let path = call.path.to_string_lossy();
    let syncs = Ops::SYNCS | Ops::SYNC_FILE | Ops::SYNC_DIR | Ops::SYNC_FS;
    let in_place = path.ends_with("pg_control") || path.contains("/pg_wal/0000");
    !(syncs.contains(call.op) || call.op == Ops::WRITE && in_place)
}

struct Life {
    plan: Arc<FaultPlan>,
    reasons: Arc<Mutex<Vec<String>>>,
    engine: Arc<Engine>,
    session: Session,
}

impl Life {
    fn new(dir: &Path) -> Life {
        init(dir);
        let plan = FaultPlan::new();
        let (action, reasons) = noting();
        let cleaner = CleanerOptions { max_pages: 0, ..CleanerOptions::default() };
        let config = EngineConfig {
            background: Background::Stepped,
            on_fatal: Some(action),
            writing: WritingSettings { cleaner, ..little_wal() },
            ..config(IoMethod::Sync, false)
        };
        let aio = io::open_faulty(&plan, MethodKind::Sync);
        let engine = Engine::open_on(dir, config, aio).expect("open");
        let mut session = engine.session().expect("session");
        create(&mut session, "t");
        Life { plan, reasons, engine, session }
    }

    /// Runs `work` again and again, each time with another of its calls failing, until none is left
    /// to fail; after each time once more, without the shortage.
    fn at_each_call(
        &mut self,
        what: &str,
        least: u64,
        errno: Errno,
        mut prepare: impl FnMut(&mut Life, u64),
        mut work: impl FnMut(&mut Life, u64, bool),
    ) {
        for nth in 0.. {
            assert!(nth < 2_000, "{what} makes fewer calls");
            prepare(self, nth);
            let fault =
                self.plan.add(Rule::on(Ops::ALL).when(is_harmless).nth(nth), Effect::Fail(errno));
            work(self, nth, true);
            let told = self.reasons.lock().expect("reasons").clone();
            assert!(told.is_empty(), "{what}, call {nth}, {errno}: {told:?}");
            let fired = self.plan.fired(fault) > 0;
            self.plan.end(fault);
            work(self, nth, false);
            if !fired {
                assert!(nth >= least, "{what} makes {nth} calls");
                return;
            }
        }
    }
}

fn acknowledged(dir: &Path) -> u64 {
    let engine = open(dir, &config(IoMethod::Sync, false));
    count(&mut engine.session().expect("session"), "t").expect("count")
}

#[test]
fn no_shortage_at_any_call_of_a_checkpoint_stops_the_engine() {
    for (name, errno) in SHORTAGES {
        let scratch = scratch();
        let dir = scratch.path().join("data");
        let mut life = Life::new(&dir);
        let mut next = 0_i64;
        let pg_xact = dir.join("pg_xact/0000");
        // Pages, a name in base/5 and one in pg_xact, and a segment that can go.
        let prepare = |life: &mut Life, nth| {
            insert(&mut life.session, "t", next..next + 400);
            next += 400;
            create(&mut life.session, &format!("t{nth}"));
            life.session.switch_wal().expect("switch");
            let _ = std::fs::remove_file(&pg_xact);
        };
        life.at_each_call("a checkpoint", 10, errno, prepare, |life, nth, faulty| {
            let done = life.session.checkpoint();
            if !faulty {
                done.unwrap_or_else(|e| panic!("{name}, call {nth}: {e}: {:?}", e.detail()));
                assert!(pg_xact.exists(), "{name}, call {nth}");
            }
        });
        let Life { engine, session, .. } = life;
        drop(session);
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        assert_eq!(acknowledged(&dir), next as u64, "{name}");
    }
}

#[test]
fn no_shortage_at_any_call_of_a_commit_stops_the_engine() {
    for (name, errno) in SHORTAGES {
        let scratch = scratch();
        let dir = scratch.path().join("data");
        let mut life = Life::new(&dir);
        let mut next = 0_i64;
        life.at_each_call(
            "a commit",
            3,
            errno,
            |_, _| (),
            |life, nth, faulty| {
                let ids = next..next + 1_000;
                let result = transaction(&mut life.session, |s| {
                    s.create_table(None, &format!("t{nth}_{faulty}"), &columns())?;
                    s.start_command()?;
                    let table = s.open_table(None, "t", LockMode::RowExclusive)?;
                    insert_open(s, &table, ids)
                });
                match result {
                    Ok(()) => next += 1_000,
                    Err(error) => {
                        assert!(faulty, "{name}, call {nth}: {error}");
                        assert!(
                            ["53100", "53200", "53000"].contains(&error.sqlstate()),
                            "{name}, call {nth}: {error}"
                        );
                    }
                }
                assert!(!life.session.in_transaction());
            },
        );
        let Life { engine, mut session, .. } = life;
        assert_eq!(count(&mut session, "t").expect("count"), next as u64, "{name}");
        drop(session);
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        assert_eq!(acknowledged(&dir), next as u64, "{name}");
    }
}
