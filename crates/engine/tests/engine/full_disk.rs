//! A disk that is full while something grows: the statement fails with 53100, the engine goes on,
//! and nothing that was committed is lost.

use std::path::PathBuf;
use std::sync::Arc;

use crate::common::*;
use crate::ids::dir_at;
use crate::row_fixture::{committed, make_table, opened, row};
use forebay_aio::fault::{Call, Effect, FaultId, FaultPlan, Ops, Rule};
use forebay_aio::{Errno, MethodKind};
use forebay_engine::{
    Background, CleanerOptions, Engine, EngineConfig, EngineError, FirstIds, FullXid, IoMethod,
    ItemPointer, LockMode, LockStrength, OldestIds, RowOutcome, RowWait, Session, ShutdownMode,
    VacuumOptions, WritingSettings,
};

/// An engine on a disk of its own.
pub struct Life {
    pub dir: PathBuf,
    pub plan: Arc<FaultPlan>,
    reasons: Reasons,
    pub engine: Arc<Engine>,
    pub session: Session,
    _scratch: tempfile::TempDir,
}

/// Makes a file longer, or makes one.
fn grows(call: &Call) -> bool {
    let ops = Ops::WRITE | Ops::FALLOCATE | Ops::ALLOCATE | Ops::SET_LEN | Ops::RESERVE;
    ops.contains(call.op)
}

impl Life {
    fn on((scratch, dir): (tempfile::TempDir, PathBuf)) -> Life {
        let plan = FaultPlan::new();
        let (action, reasons) = noting();
        let cleaner = CleanerOptions { max_pages: 0, ..CleanerOptions::default() };
        let config = EngineConfig {
            background: Background::Stepped,
            on_fatal: Some(action),
            writing: WritingSettings { cleaner, ..WritingSettings::default() },
            ..config(IoMethod::Sync, false)
        };
        let aio = io::open_faulty(&plan, MethodKind::Sync);
        let engine = Engine::open_on(&dir, config, aio).expect("open");
        let session = engine.session().expect("session");
        Life { dir, plan, reasons, engine, session, _scratch: scratch }
    }

    pub fn new() -> Life {
        Life::on(new_dir())
    }

    /// From now on files whose path contains `part` cannot grow.
    fn fill(&self, part: &str) -> FaultId {
        self.plan.add(Rule::on(Ops::ALL).path(part).when(grows), Effect::Fail(Errno::NOSPC))
    }

    /// The same, once they have grown so many times.
    pub fn fill_after(&self, part: &str, times: u64) -> FaultId {
        let rule = Rule::on(Ops::ALL).path(part).when(grows).skip(times);
        self.plan.add(rule, Effect::Fail(Errno::NOSPC))
    }

    /// The same of the log: no segment can be made.
    fn fill_log(&self) -> FaultId {
        let rule = Rule::on(Ops::ALL).path("/pg_wal/xlogtemp").when(grows);
        self.plan.add(rule, Effect::Fail(Errno::NOSPC))
    }

    fn vacuum(&mut self, name: &str) -> Result<(), EngineError> {
        let table = transaction(&mut self.session, |s| s.table(None, name))?.expect("a table");
        self.session.vacuum(&table, &VacuumOptions::default(), &mut Vec::new())
    }

    /// Ends the shortage, which has not stopped the engine.
    pub fn mend(&self) {
        self.plan.mend();
        let reasons = self.reasons.lock().expect("reasons");
        assert!(reasons.is_empty(), "{reasons:?}");
    }

    /// What a crash leaves, opened again on a disk with room.
    pub fn reopened(self) -> (tempfile::TempDir, Session) {
        let Life { dir, engine, session, _scratch: scratch, .. } = self;
        drop(session);
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        drop(engine);
        let (_engine, session) = open_session(&dir, &config(IoMethod::Sync, false));
        (scratch, session)
    }
}

pub fn is_full<T: std::fmt::Debug>(result: Result<T, EngineError>) {
    let error = result.expect_err("the disk is full");
    assert_eq!(error.sqlstate(), "53100", "{error}");
}

pub fn delete_even(session: &mut Session, name: &str) {
    transaction(session, |s| {
        let table = s.open_table(None, name, LockMode::RowExclusive)?;
        let (mut scan, mut places) = (s.scan(&table)?, Vec::new());
        while let Some(row) = scan.next(s)? {
            places.push(row.place());
        }
        places.iter().step_by(2).try_for_each(|place| s.delete_row(&table, *place).map(drop))
    })
    .expect("delete");
}

#[test]
fn a_map_that_cannot_grow_fails_the_vacuum() {
    for map in ["base/5/16384_vm", "base/5/16384_fsm"] {
        let mut life = Life::new();
        create(&mut life.session, "t");
        insert(&mut life.session, "t", 0..5_000);
        delete_even(&mut life.session, "t");
        let fault = life.fill(map);
        is_full(life.vacuum("t"));
        assert!(life.plan.fired(fault) > 0, "{map}");
        assert_eq!(count(&mut life.session, "t").expect("count"), 2_500, "{map}");
        insert(&mut life.session, "t", 5_000..5_100);
        life.mend();
        life.vacuum("t").expect("vacuum");
        assert_eq!(count(&mut life.session, "t").expect("count"), 2_600, "{map}");
        let (_scratch, mut session) = life.reopened();
        assert_eq!(count(&mut session, "t").expect("count"), 2_600, "{map}");
    }
}

/// Ids at the ends of their files: 32 pages of each kind.
fn ids_at_ends() -> FirstIds {
    let [xids, multis, members] = [32 * 32_768, 32 * 2048, 32 * 1636];
    let multi = multis - 2;
    let oldest = OldestIds { multi, ..FirstIds::default().oldest };
    FirstIds { xid: FullXid::new(0, xids - 8), multi, member: members - 3, oldest }
}

/// Two sessions lock a row at once, which takes a MultiXact.
fn lock_by_two(life: &mut Life) {
    let mut other = life.engine.session().expect("session");
    for session in [&mut life.session, &mut other] {
        start(session);
        let table = session.open_table(None, "v", LockMode::RowShare).expect("table");
        let first = ItemPointer::new(0, 1);
        let locked = session.lock_row(&table, first, LockStrength::Share, RowWait::Wait);
        assert!(matches!(locked, Ok(RowOutcome::Done(_))), "{locked:?}");
    }
    life.session.commit().expect("commit");
    other.commit().expect("commit");
}

/// Inserts a row in a subtransaction.
fn insert_in_sub(session: &mut Session, id: i64) {
    transaction(session, |s| {
        s.begin_subtransaction()?;
        let table = s.open_table(None, "v", LockMode::RowExclusive)?;
        s.insert_row(&table, &row(id, id))?;
        s.commit_subtransaction()
    })
    .expect("insert");
}

#[test]
fn a_status_file_that_cannot_be_made_fails_the_checkpoint() {
    let files = ["pg_xact/0001", "pg_multixact/offsets/0001", "pg_multixact/members/0001"];
    let mut life = Life::on(dir_at(ids_at_ends()));
    make_table(&mut life.session, 1..=3);
    for n in 0..4 {
        lock_by_two(&mut life);
        insert_in_sub(&mut life.session, 10 + n);
    }
    let mut rows = committed(&mut life.session);
    assert_eq!(rows.len(), 7);
    for file in files {
        let fault = life.fill(file);
        assert_eq!(state(life.session.checkpoint()), "XX000", "as PostgreSQL: see the log");
        assert!(life.plan.fired(fault) > 0, "{file}");
        life.plan.end(fault);
        lock_by_two(&mut life);
        assert_eq!(committed(&mut life.session), rows, "{file}");
    }
    insert_in_sub(&mut life.session, 20);
    rows.push((20, 20));
    let fault = life.fill("/pg_subtrans/");
    let done = life.session.checkpoint();
    assert!(life.plan.fired(fault) > 0, "{done:?}");
    assert_eq!(committed(&mut life.session), rows);
    life.mend();
    life.session.checkpoint().expect("checkpoint");
    files.iter().for_each(|file| assert!(life.dir.join(file).exists(), "{file}"));
    lock_by_two(&mut life);
    let (_scratch, mut session) = life.reopened();
    assert_eq!(committed(&mut session), rows);
}

#[test]
fn pages_are_read_unpruned_while_the_log_has_no_room() {
    let mut life = Life::new();
    create(&mut life.session, "t");
    create(&mut life.session, "u");
    insert(&mut life.session, "t", 0..5_000);
    delete_even(&mut life.session, "t");
    let fault = life.fill_log();
    let mut rows = 0;
    let full = loop {
        let inserted = transaction(&mut life.session, |s| {
            let table = s.open_table(None, "u", LockMode::RowExclusive)?;
            insert_open(s, &table, rows..rows + 500)
        });
        match inserted {
            Ok(()) => rows += 500,
            Err(error) => break error,
        }
        assert!(rows < 1_000_000, "the log does not run full");
    };
    is_full::<()>(Err(full));
    // Deletions and pruning may use what the log keeps in reserve for them, as long as it lasts.
    let mut deleted = 0;
    let full = loop {
        let done = transaction(&mut life.session, |s| {
            let table = s.open_table(None, "u", LockMode::RowExclusive)?;
            let mut scan = s.scan(&table)?;
            let mut places = Vec::new();
            while places.len() < 100
                && let Some(row) = scan.next(s)?
            {
                places.push(row.place());
            }
            places.iter().try_for_each(|place| s.delete_row(&table, *place).map(drop))?;
            Ok(places.len() as i64)
        });
        match done {
            Ok(0) => panic!("the reserve does not run out"),
            Ok(more) => deleted += more,
            Err(error) => break error,
        }
    };
    is_full::<()>(Err(full));
    let before = life.plan.fired(fault);
    assert_eq!(count(&mut life.session, "t").expect("count"), 2_500);
    assert!(life.plan.fired(fault) > before, "pruning found no room");
    is_full(life.vacuum("t"));
    life.mend();
    assert_eq!(count(&mut life.session, "t").expect("count"), 2_500);
    life.vacuum("t").expect("vacuum");
    let (_scratch, mut session) = life.reopened();
    assert_eq!(count(&mut session, "t").expect("count"), 2_500);
    assert_eq!(count(&mut session, "u").expect("count"), (rows - deleted) as u64);
}

#[test]
fn an_update_that_needs_a_new_page_fails_and_leaves_the_row() {
    let mut life = Life::new();
    make_table(&mut life.session, 1..=185 * 2);
    let fault = life.fill("base/5/16384");
    let update = |session: &mut Session, id: u16| {
        let table = opened(session);
        let place = ItemPointer::new(0, id);
        match session.update_row(&table, place, &row(id.into(), 7)) {
            Ok(outcome) => {
                assert!(matches!(outcome, RowOutcome::Done(_)), "{outcome:?}");
                session.commit()
            }
            Err(error) => session.abort().and(Err(error)),
        }
    };
    let mut updated = 0;
    let full = loop {
        match update(&mut life.session, updated + 1) {
            Ok(()) => updated += 1,
            Err(error) => break error,
        }
        assert!(updated < 185, "the table does not have to grow");
    };
    is_full::<()>(Err(full));
    assert!(life.plan.fired(fault) > 0);
    let expected = |updated: u16| -> Vec<(i64, i64)> {
        let value = |id| if id <= i64::from(updated) { 7 } else { 10 * id };
        (1..=185 * 2).map(|id| (id, value(id))).collect()
    };
    // The row was locked while a page for its new version was looked for. Another session may take
    // it.
    let mut other = life.engine.session().expect("session");
    assert_eq!(committed(&mut other), expected(updated));
    is_full(update(&mut other, updated + 1));
    life.mend();
    update(&mut other, updated + 1).expect("update");
    drop(other);
    let (_scratch, mut session) = life.reopened();
    assert_eq!(committed(&mut session), expected(updated + 1));
}
