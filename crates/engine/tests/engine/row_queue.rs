//! The order in which sessions get a row for which they wait. Each notes that it has the row while
//! it has it, so the notes are the order, and no clock is asked.

use std::sync::{Arc, Mutex};

use crate::common::*;
use crate::row_fixture::*;
use forebay_engine::{Datum, RowOutcome, Session};

/// Sessions that wait.
const WAITERS: usize = 8;

type Grants = Arc<Mutex<Vec<i32>>>;

/// UPDATE v SET n = n + 1 WHERE id = 1, in a new transaction, which is left open.
fn add_one(session: &mut Session, grants: &Grants) {
    let table = opened(session);
    let (mut n, mut tid) = seen(session, &table)[&1];
    loop {
        match session.update_row(&table, tid, &row(1, n + 1)).expect("update") {
            RowOutcome::Done(_) => break,
            RowOutcome::Changed(newest) => {
                let values = newest.view().decode().expect("values");
                let [Datum::Int8(1), Datum::Int8(now)] = values[..] else { panic!("{values:?}") };
                (n, tid) = (now, newest.place());
            }
            other => panic!("{other:?}"),
        }
    }
    grants.lock().expect("not poisoned").push(session.id());
}

fn end(session: &mut Session, commit: bool) {
    if commit { session.commit() } else { session.abort() }.expect("end");
}

/// How many others, who came later, were served before each of the sessions that waited.
fn overtakings(waited: &[i32], grants: &[i32]) -> Vec<usize> {
    let ahead = |index: usize, id: &i32| {
        let before = grants.iter().take_while(|granted| *granted != id);
        before.count().saturating_sub(index)
    };
    waited.iter().enumerate().map(|(index, id)| ahead(index, id)).collect()
}

/// A session has the row, and others wait for it. It ends its transaction and wants the row again
/// at once, and so do the others when they have had it.
fn take_turns(commit: bool) {
    let (_scratch, engine) = fresh();
    let mut first = engine.session().expect("session");
    make_table(&mut first, 1..=1);
    for round in 0..20 {
        let grants = Grants::default();
        add_one(&mut first, &grants);
        let mut waited = vec![first.id()];
        let waiters: Vec<_> = (0..WAITERS)
            .map(|n| {
                let (session, grants) = (engine.session().expect("session"), Arc::clone(&grants));
                waited.push(session.id());
                waiting(&engine, n + 1, session, move |session| {
                    for _ in 0..2 {
                        add_one(session, &grants);
                        end(session, commit);
                    }
                })
            })
            .collect();
        end(&mut first, commit);
        add_one(&mut first, &grants);
        end(&mut first, commit);
        waiters.into_iter().for_each(|waiter| drop(joined(waiter)));
        let grants = grants.lock().expect("not poisoned");
        assert_eq!(grants.len(), 2 * WAITERS + 2);
        assert_eq!(overtakings(&waited, &grants), [0; WAITERS + 1], "round {round}: {grants:?}");
        assert!(engine.locks().is_empty(), "nobody is left in the queue: {:?}", engine.locks());
    }
    let added = if commit { 20 * (2 * WAITERS as i64 + 2) } else { 0 };
    assert_eq!(committed(&mut first), [(1, 10 + added)], "no update is lost");
}

#[test]
fn a_session_that_updates_a_row_again_does_not_overtake_those_who_wait() {
    take_turns(true);
}

#[test]
fn nor_does_one_whose_update_was_rolled_back() {
    take_turns(false);
}
