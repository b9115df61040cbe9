//! Rows that sessions update, delete and lock beside each other.

use std::time::Duration;

use crate::common::*;
use crate::row_fixture::*;
use forebay_engine::{
    Datum, EngineError, Fork, IoMethod, Isolation, LockMode, LockStrength, RowOutcome, RowWait,
    Session, ShutdownMode,
};

const STRENGTHS: [LockStrength; 4] = [
    LockStrength::KeyShare,
    LockStrength::Share,
    LockStrength::NoKeyExclusive,
    LockStrength::Exclusive,
];

/// Locks a row in a new command.
fn lock(
    session: &mut Session,
    id: i64,
    strength: LockStrength,
    wait: RowWait,
) -> Result<RowOutcome, EngineError> {
    let table = opened(session);
    let tid = place(session, &table, id);
    session.lock_row(&table, tid, strength, wait)
}

#[test]
fn a_transaction_sees_its_own_changes_from_the_next_command_on() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    make_table(&mut session, 1..=3);
    let table = opened(&mut session);
    let before = seen(&mut session, &table);
    let changed = session.update_row(&table, before[&1].1, &row(1, 11)).expect("update");
    let RowOutcome::Done(place) = changed else { panic!("{changed:?}") };
    assert!(matches!(session.delete_row(&table, before[&2].1), Ok(RowOutcome::Done(_))));
    assert_eq!(seen(&mut session, &table), before, "the command does not see them");
    // Nor does it change a row twice.
    let again = session.update_row(&table, before[&1].1, &row(1, 12)).expect("update");
    assert!(matches!(again, RowOutcome::Gone), "{again:?}");
    session.start_command().expect("command");
    let after = seen(&mut session, &table);
    assert_eq!(after, [(1, (11, place)), (3, before[&3])].into());
    let old = session.fetch_row(&table, before[&1].1).expect("fetch");
    assert!(old.is_none());
    let stored = session.fetch_row(&table, place).expect("fetch").expect("seen");
    let view = stored.view();
    assert_eq!(view.decode().expect("values"), row(1, 11));
    assert_eq!((Some(view.xmin()), view.xmax()), (session.transaction_id(), 0));
    assert_eq!((view.cmin(), view.cmax()), (0, 0));
    // Inserted and deleted by one transaction: the stored number stands for both commands.
    let outcome = session.delete_row(&table, place).expect("delete");
    assert!(matches!(outcome, RowOutcome::Done(_)));
    session.commit().expect("commit");
    assert_eq!(committed(&mut session), [(3, 30)]);
}

#[test]
fn an_update_waits_and_goes_on_at_the_newest_version() {
    let (_scratch, engine) = fresh();
    let mut first = engine.session().expect("session");
    make_table(&mut first, 1..=1);
    for commits in [true, false] {
        set(&mut first, 1, 11);
        // A second version on top: the row is followed to its end.
        set(&mut first, 1, 12);
        let second = engine.session().expect("session");
        let waiter = waiting(&engine, 1, second, |s| update(s, 1, 20));
        if commits {
            first.commit().expect("commit");
        } else {
            first.abort().expect("abort");
        }
        let (mut second, outcome) = joined(waiter);
        match outcome.expect("update") {
            RowOutcome::Changed(newest) if commits => {
                assert_eq!(newest.view().decode().expect("values"), row(1, 12));
                // It is locked: nobody comes in between.
                let held = lock(&mut first, 1, LockStrength::Share, RowWait::NoWait);
                assert!(matches!(held, Ok(RowOutcome::Held)), "{held:?}");
                first.commit().expect("commit");
                let table = second.open_table(None, "v", LockMode::RowExclusive).expect("table");
                let done = second.update_row(&table, newest.place(), &row(1, 13));
                assert!(matches!(done, Ok(RowOutcome::Done(_))), "{done:?}");
            }
            RowOutcome::Done(_) if !commits => {}
            other => panic!("{other:?}"),
        }
        second.commit().expect("commit");
        assert_eq!(committed(&mut first), [(1, if commits { 13 } else { 20 })]);
    }
}

#[test]
fn a_row_that_was_deleted_meanwhile_is_gone() {
    let (_scratch, engine) = fresh();
    let mut first = engine.session().expect("session");
    make_table(&mut first, 1..=3);
    type Body = fn(&mut Session, i64) -> Result<RowOutcome, EngineError>;
    let bodies: [Body; 3] = [
        |s, id| update(s, id, 0),
        delete,
        |s, id| lock(s, id, LockStrength::KeyShare, RowWait::Wait),
    ];
    for (id, body) in (1..).zip(bodies) {
        // Updated first: the end of a chain is what was deleted.
        set(&mut first, id, 0);
        delete(&mut first, id).expect("delete");
        let second = engine.session().expect("session");
        let waiter = waiting(&engine, 1, second, move |s| body(s, id));
        first.commit().expect("commit");
        let (mut second, outcome) = joined(waiter);
        assert!(matches!(outcome, Ok(RowOutcome::Gone)), "{outcome:?}");
        second.commit().expect("commit");
    }
    assert_eq!(committed(&mut first), []);
}

#[test]
fn repeatable_read_fails_on_a_row_that_has_changed_meanwhile() {
    let (_scratch, engine) = fresh();
    let mut first = engine.session().expect("session");
    make_table(&mut first, 1..=2);
    let update_message = "could not serialize access due to concurrent update";
    let delete_message = "could not serialize access due to concurrent delete";
    for deletes in [false, true] {
        let mut second = engine.session().expect("session");
        second.begin().expect("begin");
        second.set_isolation(Isolation::RepeatableRead).expect("nothing was read");
        assert!(!second.has_snapshot());
        let table = opened(&mut second);
        let before = seen(&mut second, &table);
        assert!(second.has_snapshot());
        assert_eq!(state(second.set_isolation(Isolation::ReadCommitted)), "25001");
        match deletes {
            true => drop(delete(&mut first, 1).expect("delete")),
            false => set(&mut first, 1, 11),
        }
        let (place, expected) =
            (before[&1].1, if deletes { delete_message } else { update_message });
        let same = table.clone();
        let waiter = waiting(&engine, 1, second, move |s| s.update_row(&same, place, &row(1, 0)));
        first.commit().expect("commit");
        let (mut second, outcome) = joined(waiter);
        let error = outcome.expect_err("it has changed");
        assert_eq!((error.sqlstate(), error.to_string().as_str()), ("40001", expected));
        second.start_command().expect("command");
        assert_eq!(seen(&mut second, &table), before, "the snapshot stays");
        let locked = second.lock_row(&table, place, LockStrength::Share, RowWait::Wait);
        assert_eq!(locked.expect_err("it has changed").to_string(), update_message);
        // Its own changes it sees.
        set(&mut second, 2, 21);
        let table = opened(&mut second);
        assert_eq!(seen(&mut second, &table)[&2].0, 21);
        second.abort().expect("abort");
        assert_eq!(second.isolation(), Isolation::ReadCommitted);
    }
}

#[test]
fn row_locks_conflict_as_their_strengths_say() {
    let (_scratch, engine) = fresh();
    let mut first = engine.session().expect("session");
    let mut second = engine.session().expect("session");
    make_table(&mut first, 1..=1);
    for held in STRENGTHS {
        for wanted in STRENGTHS {
            lock(&mut first, 1, held, RowWait::Wait).expect("lock");
            let outcome = lock(&mut second, 1, wanted, RowWait::NoWait).expect("lock");
            let expected = held.conflicts_with(wanted);
            assert_eq!(matches!(outcome, RowOutcome::Held), expected, "{held:?} {wanted:?}");
            assert_eq!(matches!(outcome, RowOutcome::Done(_)), !expected, "{held:?} {wanted:?}");
            first.commit().expect("commit");
            second.commit().expect("commit");
        }
    }
}

#[test]
fn rows_that_several_hold_are_read_back_after_a_restart() {
    let (_scratch, dir) = new_dir();
    for mode in [ShutdownMode::Fast, ShutdownMode::Immediate] {
        let (engine, mut first) = open_session(&dir, &config(IoMethod::Sync, false));
        if mode == ShutdownMode::Fast {
            make_table(&mut first, 1..=2);
        }
        let mut second = engine.session().expect("session");
        let mut third = engine.session().expect("session");
        let before = committed(&mut third);
        for id in [1, 2] {
            lock(&mut first, id, LockStrength::KeyShare, RowWait::Wait).expect("lock");
            lock(&mut second, id, LockStrength::KeyShare, RowWait::Wait).expect("lock");
        }
        // With an updater among them, while both hold it.
        set(&mut third, 1, 100);
        assert_eq!(committed(&mut engine.session().expect("session")), before);
        third.commit().expect("commit");
        let after = vec![(1, 100), (2, 20)];
        assert_eq!(committed(&mut third), after);
        let table = opened(&mut third);
        let place = seen(&mut third, &table)[&2].1;
        let xmax = third.fetch_row(&table, place).expect("fetch").expect("seen").view().xmax();
        assert!(![0, first.transaction_id().expect("id")].contains(&xmax), "a MultiXact");
        third.commit().expect("commit");
        // A deletion waits for both.
        let waiter = waiting(&engine, 1, third, |s| delete(s, 2));
        first.commit().expect("commit");
        second.commit().expect("commit");
        let (mut third, outcome) = joined(waiter);
        assert!(matches!(outcome, Ok(RowOutcome::Done(_))), "{outcome:?}");
        third.abort().expect("abort");
        drop((first, second, third));
        engine.shutdown(mode).expect("stop");
        drop(engine);
        let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
        assert_eq!(committed(&mut session), after);
        set(&mut session, 2, 20);
        set(&mut session, 1, 100);
        session.commit().expect("commit");
        drop(session);
        engine.shutdown(ShutdownMode::Fast).expect("stop");
    }
}

#[test]
fn of_two_that_wait_for_each_other_one_fails() {
    let (_scratch, engine) = fresh();
    let mut first = engine.session().expect("session");
    let mut second = engine.session().expect("session");
    make_table(&mut first, 1..=2);
    let deadlocks = engine.database_stats().deadlocks;
    first.settings_mut().deadlock_timeout = Duration::from_millis(1);
    second.settings_mut().deadlock_timeout = Duration::from_secs(86_400);
    set(&mut first, 1, 11);
    set(&mut second, 2, 22);
    let (one, two) = (first.id(), second.id());
    let waiter = waiting(&engine, 1, second, |s| update(s, 1, 12));
    let error = update(&mut first, 2, 21).expect_err("a deadlock");
    assert_eq!((error.sqlstate(), error.to_string().as_str()), ("40P01", "deadlock detected"));
    assert_eq!(error.context(), Some("while updating tuple (0,2) in relation \"v\""));
    let detail = error.detail().expect("who waits for whom");
    let lines: Vec<&str> = detail.lines().collect();
    let begins = |line: &str, id: i32| {
        line.starts_with(&format!("Process {id} waits for ShareLock on transaction "))
    };
    assert!(lines.len() == 2 && begins(lines[0], one) && begins(lines[1], two), "{detail}");
    assert_eq!(engine.database_stats().deadlocks, deadlocks + 1);
    first.abort().expect("abort");
    let (mut second, outcome) = joined(waiter);
    assert!(matches!(outcome, Ok(RowOutcome::Done(_))), "{outcome:?}");
    second.commit().expect("commit");
    assert_eq!(committed(&mut first), [(1, 12), (2, 22)]);
}

#[test]
fn a_wait_ends_with_lock_timeout() {
    let (_scratch, engine) = fresh();
    let mut first = engine.session().expect("session");
    let mut second = engine.session().expect("session");
    make_table(&mut first, 1..=1);
    set(&mut first, 1, 11);
    second.settings_mut().lock_timeout = Duration::from_millis(1);
    let error = update(&mut second, 1, 12).expect_err("held");
    let expected = ("55P03", "canceling statement due to lock timeout");
    assert_eq!((error.sqlstate(), error.to_string().as_str()), expected);
    assert_eq!(error.context(), Some("while updating tuple (0,1) in relation \"v\""));
    second.abort().expect("abort");
    start(&mut second);
    assert_eq!(state(second.open_table(None, "v", LockMode::AccessExclusive)), "55P03");
    second.abort().expect("abort");
    second.settings_mut().lock_timeout = Duration::ZERO;
    let waiter = waiting(&engine, 1, second, |s| update(s, 1, 12));
    first.abort().expect("abort");
    assert!(matches!(joined(waiter).1, Ok(RowOutcome::Done(_))));
}

#[test]
fn a_row_that_is_updated_often_stays_on_its_page() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    make_table(&mut session, 1..=1);
    for n in 0..1_000 {
        set(&mut session, 1, n);
        session.commit().expect("commit");
    }
    let table = opened(&mut session);
    assert_eq!(seen(&mut session, &table)[&1].0, 999);
    assert_eq!(session.fork_blocks(&table, Fork::Main).expect("size"), Some(1));
    session.commit().expect("commit");
}

#[test]
fn changes_need_a_lock_and_the_right_values() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    create(&mut session, "t");
    insert(&mut session, "t", 1..2);
    start(&mut session);
    let table = session.open_table(None, "t", LockMode::AccessShare).expect("table");
    let mut scan = session.scan(&table).expect("scan");
    let tid = scan.next(&mut session).expect("row").expect("a row").place();
    let values = [Datum::Int8(1), Datum::Null];
    assert_eq!(state(session.update_row(&table, tid, &values)), "55000");
    assert_eq!(state(session.delete_row(&table, tid)), "55000");
    assert_eq!(state(session.insert_row(&table, &values)), "55000");
    let locked = session.lock_row(&table, tid, LockStrength::Share, RowWait::Wait);
    assert_eq!(state(locked), "55000");
    let table = session.open_table(None, "t", LockMode::RowExclusive).expect("table");
    assert_eq!(state(session.update_row(&table, tid, &[Datum::Null, Datum::Null])), "23502");
    assert_eq!(state(session.update_row(&table, tid, &[Datum::Int4(1), Datum::Null])), "42804");
    assert_eq!(state(session.update_row(&table, tid, &values[..1])), "XX000");
    let catalog = session.open_table(None, "pg_class", LockMode::RowExclusive).expect("catalog");
    assert_eq!(state(session.delete_row(&catalog, tid)), "42501");
    let locked = session.lock_row(&catalog, tid, LockStrength::Share, RowWait::Wait);
    assert_eq!(state(locked), "0A000");
    session.commit().expect("commit");
}
