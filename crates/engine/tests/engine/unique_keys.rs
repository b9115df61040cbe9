//! Sessions that want the same key: who waits for whom, and what comes of it.

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use crate::kept_indexes::made_by;
use crate::row_fixture::{joined, waiting};
use forebay_engine::{
    Datum, Engine, EngineError, IoMethod, ItemPointer, LockMode, LockStrength, RowOutcome, RowWait,
    Session, Table,
};
use forebay_testkit::peer::Peer;

/// An engine on a directory that PostgreSQL made, with a table v (id int8 primary key, n int8).
fn keyed(peer: &Peer) -> (tempfile::TempDir, Arc<Engine>) {
    let sql = "create table v (id int8 primary key, n int8); create index v_n on v (n)";
    let (scratch, dir) = made_by(peer, sql);
    (scratch, open(&dir, &config(IoMethod::Sync, false)))
}

fn values(id: i64, n: i64) -> [Datum<'static>; 2] {
    [Datum::Int8(id), Datum::Int8(n)]
}

/// Opens the table in a new command, of a new transaction if none is open.
fn opened(session: &mut Session) -> Arc<Table> {
    if !session.in_transaction() {
        session.begin().expect("begin");
    }
    session.start_command().expect("command");
    session.open_table(None, "v", LockMode::RowExclusive).expect("table")
}

/// INSERT INTO v VALUES (id, n), in a new command.
fn insert(session: &mut Session, id: i64, n: i64) -> Result<ItemPointer, EngineError> {
    let table = opened(session);
    session.insert_row(&table, &values(id, n))
}

fn update(session: &mut Session, tid: ItemPointer, id: i64, n: i64) -> ItemPointer {
    let table = opened(session);
    match session.update_row(&table, tid, &values(id, n)) {
        Ok(RowOutcome::Done(place)) => place,
        other => panic!("{other:?}"),
    }
}

fn delete(session: &mut Session, tid: ItemPointer) {
    let table = opened(session);
    let outcome = session.delete_row(&table, tid).expect("delete");
    assert!(matches!(outcome, RowOutcome::Done(_)), "{outcome:?}");
}

/// What an inserter got in the end.
fn ended(session: &mut Session, result: Result<ItemPointer, EngineError>) -> Option<&'static str> {
    match result {
        Ok(_) => session.commit().expect("commit"),
        Err(error) => {
            session.abort().expect("abort");
            return Some(error.sqlstate());
        }
    }
    None
}

#[test]
fn the_second_of_two_who_insert_a_key_waits_for_the_first() {
    let Some(peer) = Peer::find("the_second_of_two_who_insert_a_key") else { return };
    let (_scratch, engine) = keyed(&peer);
    let mut first = engine.session().expect("session");
    for (id, commit) in [(1, true), (2, false)] {
        insert(&mut first, id, 0).expect("the first");
        let waiter = waiting(&engine, 1, engine.session().expect("session"), move |session| {
            let inserted = insert(session, id, 1);
            ended(session, inserted)
        });
        assert!(!waiter.is_finished(), "it waits");
        if commit { first.commit() } else { first.abort() }.expect("end");
        let expected = commit.then_some("23505");
        assert_eq!(joined(waiter).1, expected);
    }
    assert!(engine.locks().is_empty(), "{:?}", engine.locks());
}

#[test]
fn a_key_whose_row_goes_is_waited_for() {
    let Some(peer) = Peer::find("a_key_whose_row_goes_is_waited_for") else { return };
    let (_scratch, engine) = keyed(&peer);
    let mut first = engine.session().expect("session");
    // The row is deleted; its key changes; neither, as a subtransaction that did it has aborted.
    for (id, commit, free) in [(1, true, true), (2, false, false), (3, true, true)] {
        let tid = insert(&mut first, id, 0).expect("a row");
        first.commit().expect("commit");
        if id == 3 {
            update(&mut first, tid, 30, 0);
        } else {
            delete(&mut first, tid);
        }
        let waiter = waiting(&engine, 1, engine.session().expect("session"), move |session| {
            let inserted = insert(session, id, 1);
            ended(session, inserted)
        });
        assert!(!waiter.is_finished(), "it waits");
        if commit { first.commit() } else { first.abort() }.expect("end");
        assert_eq!(joined(waiter).1, (!free).then_some("23505"), "{id}");
    }
    // Who waits for a subtransaction goes on when that is rolled back.
    first.begin().expect("begin");
    first.begin_subtransaction().expect("a savepoint");
    insert(&mut first, 9, 0).expect("a row");
    let waiter = waiting(&engine, 1, engine.session().expect("session"), move |session| {
        let inserted = insert(session, 9, 1);
        ended(session, inserted)
    });
    first.abort_subtransaction().expect("rollback to it");
    assert_eq!(joined(waiter).1, None);
    first.commit().expect("commit");
}

#[test]
fn a_wait_for_a_key_ends_by_a_deadlock_or_lock_timeout() {
    let Some(peer) = Peer::find("a_wait_for_a_key_ends_by_a_deadlock") else { return };
    let (_scratch, engine) = keyed(&peer);
    let (mut first, mut second) =
        (engine.session().expect("session"), engine.session().expect("session"));
    first.settings_mut().deadlock_timeout = Duration::from_millis(1);
    second.settings_mut().deadlock_timeout = Duration::from_secs(86_400);
    insert(&mut first, 1, 0).expect("a row");
    insert(&mut second, 2, 0).expect("a row");
    let waiter = waiting(&engine, 1, second, |session| {
        let inserted = insert(session, 1, 1);
        ended(session, inserted)
    });
    let error = insert(&mut first, 2, 1).expect_err("a deadlock");
    assert_eq!(error.sqlstate(), "40P01");
    let expected = "while inserting index tuple (0,4) in relation \"v_pkey\"";
    assert_eq!(error.context(), Some(expected));
    first.abort().expect("abort");
    let told;
    (second, told) = joined(waiter);
    assert_eq!(told, None, "the key is free");

    insert(&mut first, 7, 0).expect("a row");
    second.settings_mut().lock_timeout = Duration::from_millis(1);
    let error = insert(&mut second, 7, 1).expect_err("it gave up");
    assert_eq!(error.sqlstate(), "55P03");
    let context = error.context().expect("a context").to_owned();
    assert!(context.ends_with("in relation \"v_pkey\""), "{context}");
    second.abort().expect("abort");
    first.commit().expect("commit");
}

#[test]
fn of_many_who_insert_the_same_keys_each_key_is_one_s() {
    let Some(peer) = Peer::find("of_many_who_insert_the_same_keys") else { return };
    let (_scratch, engine) = keyed(&peer);
    const SESSIONS: i64 = 4;
    const KEYS: i64 = 300;
    let inserters: Vec<_> = (0..SESSIONS)
        .map(|who| {
            let mut session = engine.session().expect("session");
            std::thread::spawn(move || {
                let mut mine = 0;
                for id in 0..KEYS {
                    let inserted = insert(&mut session, id, who);
                    let aborts = (id + who) % 5 == 0;
                    match (inserted, aborts) {
                        (Ok(_), true) => session.abort().expect("abort"),
                        (inserted, _) => match ended(&mut session, inserted) {
                            None => mine += 1,
                            other => assert_eq!(other, Some("23505")),
                        },
                    }
                }
                mine
            })
        })
        .collect();
    let inserted: i64 = inserters.into_iter().map(|thread| thread.join().expect("thread")).sum();
    let mut session = engine.session().expect("session");
    let found = count(&mut session, "v").expect("count");
    assert_eq!((inserted, found), (KEYS, KEYS as u64));
}

#[test]
fn an_update_locks_the_key_only_if_it_changes_it() {
    let Some(peer) = Peer::find("an_update_locks_the_key_only_if") else { return };
    let (_scratch, engine) = keyed(&peer);
    let (mut first, mut second) =
        (engine.session().expect("session"), engine.session().expect("session"));
    for (id, changed, outcome) in [(1, 1, "Done"), (2, 20, "Held")] {
        let tid = insert(&mut first, id, 0).expect("a row");
        first.commit().expect("commit");
        // n is indexed, but no key.
        update(&mut first, tid, changed, 5);
        let table = opened(&mut second);
        let locked = second.lock_row(&table, tid, LockStrength::KeyShare, RowWait::NoWait);
        let locked = format!("{:?}", locked.expect("an outcome"));
        assert!(locked.starts_with(outcome), "{id}: {locked}");
        second.abort().expect("abort");
        first.commit().expect("commit");
    }
}
