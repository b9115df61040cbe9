//! INSERT ... ON CONFLICT, against answers recorded from PostgreSQL 18; and what several sessions
//! make of it.

use crate::fixture::{Fixture, across, open, rows, wait_for_wait};
use crate::support;
use forebay_engine::ShutdownMode;
use std::thread;

#[test]
fn answers_as_postgresql_does() {
    let mut fixture = open("");
    let golden = include_str!("../golden/conflicts.txt");
    assert!(support::cases(golden).len() > 100, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

const ONE_AGAIN: &str = "insert into t values (1, 10) on conflict (a) do update set b = t.b + 1 \
                         returning a, old.b, b";

/// A table with a key and one row.
fn one_row() -> Fixture {
    let mut fixture = open("");
    fixture.rows("create table t (a int primary key, b int)");
    fixture.rows("insert into t values (1, 0)");
    fixture
}

/// What a statement comes to if it has to wait for a transaction that runs `change`, and commits;
/// and what is in the table afterwards.
fn after(change: &str, sql: &str) -> Vec<String> {
    let mut fixture = one_row();
    let mut conn = fixture.connect();
    let mut lines = across(&mut fixture, change, || support::run(&mut conn, sql));
    lines.retain(|line| !line.starts_with("Z ") && !line.starts_with("# "));
    lines.extend(fixture.rows("select a, b from t order by a, b"));
    conn.close();
    fixture.close();
    lines
}

#[test]
fn the_other_row_is_waited_for_and_its_newest_version_is_updated() {
    let nothing = "insert into t values (1, 10), (2, 10) on conflict do nothing returning a";
    let two = "insert into t values (2, 10) on conflict (a) do update set b = 11 returning a, b";
    for (change, sql, expected) in [
        ("update t set b = 5", ONE_AGAIN, &["| 1\t5\t6", "= INSERT 0 1", "1\t6"][..]),
        (
            "update t set b = 5; update t set b = 7",
            ONE_AGAIN,
            &["| 1\t7\t8", "= INSERT 0 1", "1\t8"],
        ),
        ("delete from t", ONE_AGAIN, &["| 1\t\\N\t10", "= INSERT 0 1", "1\t10"]),
        ("update t set a = 3", ONE_AGAIN, &["| 1\t\\N\t10", "= INSERT 0 1", "1\t10", "3\t0"]),
        (
            "delete from t; insert into t values (1, 9)",
            ONE_AGAIN,
            &["| 1\t9\t10", "= INSERT 0 1", "1\t10"],
        ),
        ("insert into t values (2, 2)", two, &["| 2\t11", "= INSERT 0 1", "1\t0", "2\t11"]),
        ("insert into t values (2, 2)", nothing, &["= INSERT 0 0", "1\t0", "2\t2"]),
        ("delete from t", nothing, &["| 1", "| 2", "= INSERT 0 2", "1\t10", "2\t10"]),
    ] {
        assert_eq!(after(change, sql), expected, "{change} -- {sql}");
    }
}

#[test]
fn a_row_of_an_aborted_transaction_is_no_conflict() {
    let mut fixture = one_row();
    let mut conn = fixture.connect();
    rows(&mut fixture.conn, "begin");
    rows(&mut fixture.conn, "insert into t values (2, 2)");
    let got = thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            support::run(&mut conn, "insert into t values (2, 3) on conflict do nothing")
        });
        wait_for_wait(&fixture.engine, &waiting);
        rows(&mut fixture.conn, "rollback");
        waiting.join().expect("join")
    });
    assert_eq!(got, ["= INSERT 0 1", "Z I"]);
    assert_eq!(fixture.rows("select * from t order by a"), ["1\t0", "2\t3"]);
    conn.close();
    fixture.close();
}

#[test]
fn a_repeatable_read_transaction_does_not_touch_what_it_does_not_see() {
    let update = "! ERROR 40001 could not serialize access due to concurrent update";
    let delete = "! ERROR 40001 could not serialize access due to concurrent delete";
    let nothing = "insert into t values (2, 10) on conflict do nothing";
    let two = "insert into t values (2, 10) on conflict (a) do update set b = 11";
    for (change, sql, expected) in [
        ("insert into t values (2, 2)", nothing, update),
        ("insert into t values (2, 2)", two, update),
        ("update t set b = 5", ONE_AGAIN, update),
        ("update t set b = 5", nothing, "= INSERT 0 1"),
    ] {
        let mut fixture = one_row();
        let mut conn = fixture.connect();
        rows(&mut conn, "begin isolation level repeatable read");
        rows(&mut conn, "select * from t");
        fixture.rows(change);
        assert_eq!(support::run(&mut conn, sql)[0], expected, "{change} -- {sql}");
        conn.close();
        fixture.close();
    }
    // The row goes away while its lock is waited for.
    let mut fixture = one_row();
    let mut conn = fixture.connect();
    rows(&mut fixture.conn, "begin");
    rows(&mut fixture.conn, "select * from t for key share");
    rows(&mut conn, "begin isolation level repeatable read");
    let changed = "insert into t values (1, 1) on conflict (a) do update set a = 2";
    let got = thread::scope(|scope| {
        let waiting = scope.spawn(|| support::run(&mut conn, changed));
        wait_for_wait(&fixture.engine, &waiting);
        rows(&mut fixture.conn, "delete from t");
        rows(&mut fixture.conn, "commit");
        waiting.join().expect("join")
    });
    assert_eq!(got[0], delete);
    conn.close();
    fixture.close();
}

#[test]
fn what_is_not_understood_of_a_target_is_refused_by_name() {
    let mut fixture = one_row();
    for (target, what) in
        [("(b, a collate \"C\")", "COLLATE"), ("(a int4_ops)", "an operator class")]
    {
        let sql = format!("insert into t values (1, 1) on conflict {target} do nothing");
        let got = support::run(&mut fixture.conn, &sql);
        let expected = format!("! ERROR 0A000 {what} in ON CONFLICT is not supported");
        assert_eq!(got[0], expected, "{sql}");
    }
    fixture.close();
}

#[test]
fn many_sessions_count_in_few_rows() {
    const SESSIONS: usize = 4;
    const ROUNDS: usize = 150;
    const KEYS: usize = 3;
    let mut fixture = open("");
    fixture.rows("create table t (a int primary key, b text unique, n int)");
    let mut sessions: Vec<_> = (0..SESSIONS).map(|_| fixture.connect()).collect();
    thread::scope(|scope| {
        for (number, conn) in sessions.iter_mut().enumerate() {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let key = (round + number) % KEYS;
                    let target = ["(a)", "(b)"][round % 2];
                    let upsert = format!(
                        "insert into t values ({key}, 'key {key}', 1) on conflict {target} do \
                         update set n = t.n + 1"
                    );
                    // The key of the other index may be met first: then nothing was counted.
                    loop {
                        let got = support::run(conn, &upsert);
                        match got[0].as_str() {
                            "= INSERT 0 1" => break,
                            other => assert!(other.contains("23505"), "{got:?}"),
                        }
                    }
                    // Rows that come and go.
                    let key = 100 + round % 5;
                    let once =
                        format!("insert into t values ({key}, null, 0) on conflict do nothing");
                    let got = support::run(conn, &once);
                    assert!(got[0].starts_with("= INSERT 0 "), "{got:?}");
                    rows(conn, &format!("delete from t where a = {key}"));
                }
            });
        }
    });
    sessions.into_iter().for_each(|conn| conn.close());
    let mut fixture = check_counts(fixture, SESSIONS * ROUNDS).restart(ShutdownMode::Immediate);
    fixture.rows("vacuum t");
    check_counts(fixture, SESSIONS * ROUNDS).close();
}

/// The same numbers by scans of the table and of its index.
fn check_counts(mut fixture: Fixture, total: usize) -> Fixture {
    for off in ["enable_indexscan", "enable_seqscan"] {
        fixture.rows(&format!("set {off} = off"));
        let found = fixture.rows("select count(*), sum(n) from t where a >= 0 and a < 1000");
        assert_eq!(found, [format!("3\t{total}")], "{off}");
        fixture.rows(&format!("reset {off}"));
    }
    fixture
}
