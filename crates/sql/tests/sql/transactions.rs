//! Savepoints, modes, LOCK TABLE and advisory locks, against answers recorded from PostgreSQL 18;
//! and what several sessions make of them.

use crate::fixture::{Fixture, open, rows};
use crate::support::{self, Recorder};
use forebay_engine::Engine;
use forebay_sql::{Connection, Executed};
use std::thread;

#[test]
fn answers_as_postgresql_does() {
    let mut fixture = open("");
    let golden = include_str!("../golden/transactions.txt");
    assert!(support::cases(golden).len() > 300, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn fixture() -> Fixture {
    let mut fixture = open("");
    fixture.rows("create table t (a int)");
    fixture
}

/// What a query string comes to, without the transaction's status.
fn answer(conn: &mut Connection, sql: &str) -> Vec<String> {
    let mut lines = support::run(conn, sql);
    lines.pop();
    lines
}

/// Until as many sessions wait for locks.
fn wait_for_waits(engine: &Engine, waits: usize) {
    while engine.lock_waits() < waits {
        thread::yield_now();
    }
}

fn pid(conn: &mut Connection) -> i32 {
    conn.session().expect("session").id()
}

#[test]
fn a_table_that_is_locked_is_not_waited_for_with_nowait() {
    let mut fixture = fixture();
    let mut other = fixture.connect();
    rows(&mut other, "begin; lock t in share mode");
    rows(&mut fixture.conn, "begin; savepoint a");
    let refused = "! ERROR 55P03 could not obtain lock on relation \"t\"";
    assert_eq!(answer(&mut fixture.conn, "lock t nowait"), [refused]);
    rows(&mut fixture.conn, "rollback to a; lock t in share mode nowait");
    let refused = "! ERROR 55P03 could not obtain lock on relation \"public.t\"";
    assert_eq!(answer(&mut fixture.conn, "lock public.t nowait"), [refused]);
    rows(&mut fixture.conn, "rollback; begin");
    rows(&mut other, "rollback");
    rows(&mut fixture.conn, "lock t nowait; rollback");
    other.close();
    fixture.close();
}

#[test]
fn a_savepoint_gives_its_locks_back() {
    let mut fixture = fixture();
    let mut other = fixture.connect();
    rows(&mut fixture.conn, "begin; lock t in access share mode; savepoint a; lock t");
    rows(&mut other, "begin");
    let refused = "! ERROR 55P03 could not obtain lock on relation \"t\"";
    assert_eq!(answer(&mut other, "lock t in row exclusive mode nowait"), [refused]);
    // A failed statement gives up what its subtransaction had locked, at once.
    answer(&mut fixture.conn, "select 1/0");
    rows(&mut other, "rollback; begin; lock t in row exclusive mode nowait");
    rows(&mut fixture.conn, "rollback to a; select a from t; commit");
    rows(&mut other, "rollback");
    other.close();
    fixture.close();
}

#[test]
fn lock_timeout_ends_a_wait() {
    let mut fixture = fixture();
    let mut other = fixture.connect();
    rows(&mut other, "begin; lock t; select pg_advisory_lock(1)");
    rows(&mut fixture.conn, "set lock_timeout = 10");
    let refused = "! ERROR 55P03 canceling statement due to lock timeout";
    for sql in ["begin; lock t", "insert into t values (1)", "select pg_advisory_lock(1)"] {
        let lines = answer(&mut fixture.conn, sql);
        assert!(lines.iter().any(|line| line == refused), "{sql}: {lines:?}");
        rows(&mut fixture.conn, "rollback");
    }
    other.close();
    fixture.close();
}

#[test]
fn a_wait_is_shown_and_can_be_attributed() {
    let mut fixture = fixture();
    let (mut holder, mut waiter) = (fixture.connect(), fixture.connect());
    let (held_by, waits) = (pid(&mut holder), pid(&mut waiter));
    rows(&mut holder, "begin; lock t in share row exclusive mode; select pg_advisory_lock(7)");
    let engine = fixture.engine.clone();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| rows(&mut waiter, "begin; insert into t values (1); commit"));
        wait_for_waits(&engine, 1);
        let shown = |fixture: &mut Fixture, of: &str| {
            fixture.rows(&format!(
                "select pid, mode, granted, fastpath, waitstart is null from pg_locks where {of} \
                 order by pid"
            ))
        };
        let of_table = "locktype = 'relation' and relation = 't'::regclass";
        let expected = [
            format!("{held_by}\tShareRowExclusiveLock\tt\tf\tt"),
            format!("{waits}\tRowExclusiveLock\tf\tf\tf"),
        ];
        assert_eq!(shown(&mut fixture, of_table), expected);
        let blocking = format!("select pg_blocking_pids({waits}), pg_blocking_pids({held_by})");
        assert_eq!(fixture.rows(&blocking), [format!("{{{held_by}}}\t{{}}")]);
        let blocked =
            |by: i32| format!("select pg_isolation_test_session_is_blocked({waits}, '{{0,{by}}}')");
        assert_eq!(fixture.rows(&blocked(held_by)), ["t"]);
        assert_eq!(fixture.rows(&blocked(waits)), ["f"]);
        rows(&mut holder, "commit");
        waiting.join().expect("join");
    });
    // A lock of the session outlives its transaction.
    let advisory = "select pid, virtualtransaction from pg_locks where locktype = 'advisory'";
    assert_eq!(fixture.rows(advisory), [format!("{held_by}\t\\N")]);
    holder.close();
    assert!(fixture.rows(advisory).is_empty());
    waiter.close();
    fixture.close();
}

#[test]
fn another_session_can_end_a_wait() {
    let mut fixture = fixture();
    let mut other = fixture.connect();
    let waits = pid(&mut other);
    rows(&mut fixture.conn, "begin; lock t");
    let engine = fixture.engine.clone();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| answer(&mut other, "select a from t"));
        wait_for_waits(&engine, 1);
        assert_eq!(fixture.rows(&format!("select pg_cancel_backend({waits})")), ["t"]);
        let canceled = "! ERROR 57014 canceling statement due to user request";
        assert_eq!(waiting.join().expect("join"), [canceled]);
    });
    other.close();
    let expected = [
        "# pg_cancel_backend:16".to_owned(),
        format!("~ WARNING 01000 PID {waits} is not a PostgreSQL backend process"),
        "| f".to_owned(),
        "= SELECT 1".to_owned(),
    ];
    let gone = answer(&mut fixture.conn, &format!("select pg_cancel_backend({waits})"));
    assert_eq!(gone, expected);
    fixture.close();
}

#[test]
fn ids_of_transactions_are_locks() {
    let mut fixture = fixture();
    let mut writer = fixture.connect();
    let owner = pid(&mut writer);
    rows(&mut writer, "begin; insert into t values (1); savepoint a; insert into t values (2)");
    let of = format!(
        "select locktype, mode, granted from pg_locks where pid = {owner} and locktype <> \
         'relation' order by locktype"
    );
    let own = |kind| format!("{kind}\tExclusiveLock\tt");
    let expected = ["transactionid", "transactionid", "virtualxid"].map(own);
    assert_eq!(fixture.rows(&of), expected);
    rows(&mut writer, "rollback to a");
    assert_eq!(fixture.rows(&of), ["transactionid", "virtualxid"].map(own));
    rows(&mut writer, "commit");
    assert!(fixture.rows(&of).is_empty());
    writer.close();
    fixture.close();
}

#[test]
fn advisory_locks_wait_and_find_deadlocks() {
    let mut fixture = fixture();
    let mut other = fixture.connect();
    let (first, second) = (pid(&mut fixture.conn), pid(&mut other));
    rows(&mut fixture.conn, "set deadlock_timeout = 1");
    rows(&mut fixture.conn, "select pg_advisory_lock(1)");
    rows(&mut other, "select pg_advisory_lock(2)");
    assert_eq!(rows(&mut other, "select pg_try_advisory_lock(1)"), ["f"]);
    assert_eq!(rows(&mut other, "select pg_try_advisory_lock(0, 1)"), ["t"]);
    let engine = fixture.engine.clone();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| rows(&mut other, "select pg_advisory_lock(1)"));
        wait_for_waits(&engine, 1);
        let lines = answer(&mut fixture.conn, "select pg_advisory_lock(2)");
        let expected = [
            "# pg_advisory_lock:2278".to_owned(),
            "! ERROR 40P01 deadlock detected".to_owned(),
            format!(
                "  detail: Process {first} waits for ExclusiveLock on advisory lock [5,0,2,1]; \
                 blocked by process {second}.\\nProcess {second} waits for ExclusiveLock on \
                 advisory lock [5,0,1,1]; blocked by process {first}."
            ),
            "  hint: See server log for query details.".to_owned(),
        ];
        // An error does not give up a lock of the session.
        assert_eq!(engine.lock_waits(), 1);
        rows(&mut fixture.conn, "select pg_advisory_unlock_all()");
        waiting.join().expect("join");
        assert_eq!(lines, expected);
    });
    other.close();
    fixture.close();
}

#[test]
fn repeatable_read_sees_what_had_committed_before_its_first_query() {
    let mut fixture = fixture();
    let mut other = fixture.connect();
    for (begin, query, sees) in [
        ("begin isolation level repeatable read", "select 1", "0"),
        ("begin isolation level repeatable read; lock t in access share mode", "show all", "1"),
        ("begin", "select 1", "1"),
    ] {
        rows(&mut fixture.conn, begin);
        rows(&mut fixture.conn, query);
        rows(&mut other, "insert into t values (1)");
        assert_eq!(fixture.rows("select count(*) from t"), [sees], "{begin}; {query}");
        rows(&mut fixture.conn, "savepoint a; select 1; rollback to a");
        assert_eq!(fixture.rows("select count(*) from t"), [sees], "{begin}; {query}");
        rows(&mut fixture.conn, "commit; drop table t; create table t (a int)");
    }
    rows(
        &mut fixture.conn,
        "set session characteristics as transaction isolation level repeatable read",
    );
    rows(&mut fixture.conn, "begin; select 1");
    rows(&mut other, "insert into t values (1)");
    assert_eq!(fixture.rows("select count(*) from t"), ["0"]);
    rows(&mut fixture.conn, "commit");
    assert_eq!(fixture.rows("select count(*) from t"), ["1"]);
    other.close();
    fixture.close();
}

/// Parses and binds a statement under a name of its own.
fn bound(conn: &mut Connection, name: &str, sql: &str) {
    conn.parse(name, sql, &[]).expect("parsed");
    conn.bind(name, name, &[], &[], &[]).expect("bound");
}

/// Fetches rows from a portal.
fn fetch(conn: &mut Connection, portal: &str, rows: u32) -> Vec<String> {
    let mut sink = Recorder::default();
    match conn.execute(portal, rows, &mut sink) {
        Ok(Executed::Completed(tag)) => sink.lines.push(format!("= {}", tag.0)),
        Ok(_) => {}
        Err(error) => sink.report(&error),
    }
    sink.lines
}

#[test]
fn portals_live_as_long_as_the_subtransaction_they_were_made_in() {
    let mut fixture = fixture();
    let conn = &mut fixture.conn;
    rows(conn, "insert into t values (1), (2), (3), (4)");
    let query = "select a from t";
    rows(conn, "begin");
    bound(conn, "outer", query);
    assert_eq!(fetch(conn, "outer", 1), ["| 1"]);
    rows(conn, "savepoint a");
    bound(conn, "inner", query);
    assert_eq!(fetch(conn, "inner", 1), ["| 1"]);
    assert_eq!(fetch(conn, "outer", 1), ["| 2"]);
    rows(conn, "savepoint b");
    bound(conn, "innermost", query);
    bound(conn, "kept", query);
    rows(conn, "release b");
    assert_eq!(fetch(conn, "innermost", 1), ["| 1"]);
    answer(conn, "select 1/0");
    rows(conn, "rollback to a");
    for portal in ["inner", "innermost", "kept"] {
        let gone = format!("! ERROR 34000 portal \"{portal}\" does not exist");
        assert_eq!(fetch(conn, portal, 1), [gone]);
        rows(conn, "rollback to a");
    }
    assert_eq!(fetch(conn, "outer", 0), ["| 3", "| 4", "= SELECT 2"]);
    // Prepared statements stay.
    rows(conn, "release a");
    conn.bind("again", "inner", &[], &[], &[]).expect("bound");
    rows(conn, "savepoint a; release a");
    assert_eq!(fetch(conn, "again", 1), ["| 1"]);
    rows(conn, "commit");
    fixture.close();
}

#[test]
fn the_extended_protocol_has_savepoints() {
    let mut fixture = fixture();
    let conn = &mut fixture.conn;
    let mut run = |sql: &str| {
        let name = "";
        let bound = conn.parse(name, sql, &[]).and_then(|()| conn.bind(name, name, &[], &[], &[]));
        let mut lines = match bound {
            Ok(()) => fetch(conn, name, 0),
            Err(error) => {
                let mut sink = Recorder::default();
                sink.report(&error);
                sink.lines
            }
        };
        conn.sync().expect("sync");
        lines.push(format!("Z {}", char::from(conn.transaction_status().as_byte())));
        lines
    };
    for (sql, expected) in [
        ("savepoint a", ["! ERROR 25P01 SAVEPOINT can only be used in transaction blocks", "Z I"]),
        ("begin", ["= BEGIN", "Z T"]),
        ("savepoint a", ["= SAVEPOINT", "Z T"]),
        ("insert into t values (1)", ["= INSERT 0 1", "Z T"]),
        ("select 1/0", ["! ERROR 22012 division by zero", "Z E"]),
        ("rollback to b", ["! ERROR 3B001 savepoint \"b\" does not exist", "Z E"]),
        ("rollback to a", ["= ROLLBACK", "Z T"]),
        ("insert into t values (2)", ["= INSERT 0 1", "Z T"]),
        ("release a", ["= RELEASE", "Z T"]),
        ("lock t", ["= LOCK TABLE", "Z T"]),
        ("commit", ["= COMMIT", "Z I"]),
        ("lock t", ["! ERROR 25P01 LOCK TABLE can only be used in transaction blocks", "Z I"]),
    ] {
        assert_eq!(run(sql), expected, "{sql}");
    }
    // In a failed block nothing else is parsed.
    run("begin");
    run("select 1/0");
    for sql in ["savepoint a", "release a", "begin", "lock t"] {
        let lines = run(sql);
        assert!(lines[0].starts_with("! ERROR 25P02"), "{sql}: {lines:?}");
    }
    run("rollback");
    assert_eq!(fixture.rows("select a from t"), ["2"]);
    // What follows in a pipeline is in an implicit block.
    let conn = &mut fixture.conn;
    bound(conn, "one", "select 1");
    assert_eq!(fetch(conn, "one", 0), ["| 1", "= SELECT 1"]);
    bound(conn, "lock", "lock t");
    assert_eq!(fetch(conn, "lock", 0), ["= LOCK TABLE"]);
    bound(conn, "savepoint", "savepoint a");
    let refused = "! ERROR 25P01 SAVEPOINT can only be used in transaction blocks";
    assert_eq!(fetch(conn, "savepoint", 0), [refused]);
    conn.sync().expect("sync");
    fixture.close();
}

#[test]
fn savepoints_may_be_deep() {
    const DEPTH: usize = 20_000;
    let mut fixture = fixture();
    let conn = &mut fixture.conn;
    for end in ["commit", "rollback to a; commit", "release first; commit", "rollback to first"] {
        rows(conn, "begin; insert into t values (0); savepoint first");
        for _ in 0..DEPTH / 1000 {
            rows(conn, &"savepoint a;".repeat(1000));
        }
        rows(conn, "insert into t values (1)");
        rows(conn, end);
        rows(conn, "commit");
    }
    assert_eq!(fixture.rows("select a, count(*) from t group by a order by a"), ["0\t4", "1\t2"]);
    fixture.close();
}
