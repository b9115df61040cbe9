//! UPDATE, DELETE, RETURNING, row locks and system columns, against answers recorded from
//! PostgreSQL 18; and what portals and other sessions make of them.

use crate::fixture::{Fixture, across, open, rows};
use crate::support::{self, Recorder};
use forebay_sql::{Connection, Executed};

#[test]
fn answers_as_postgresql_does() {
    let mut fixture = open("");
    let golden = include_str!("../golden/changes.txt");
    assert!(support::cases(golden).len() > 200, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// A table of three rows, and a connection beside the fixture's own.
fn two_sessions() -> (Fixture, Connection) {
    let mut fixture = open("");
    fixture.rows("create table t (a int, b int)");
    fixture.rows("insert into t values (1, 0), (2, 0), (3, 0)");
    let conn = fixture.connect();
    (fixture, conn)
}

fn close(fixture: Fixture, conn: Connection) {
    conn.close();
    fixture.close();
}

/// What a statement comes to if it has to wait for a transaction that runs `change`, and commits.
fn after(change: &str, sql: &str) -> Vec<String> {
    let (mut fixture, mut conn) = two_sessions();
    let mut lines = across(&mut fixture, change, || support::run(&mut conn, sql));
    lines.retain(|line| !line.starts_with("Z ") && !line.starts_with("# "));
    lines.extend(fixture.rows("select a, b from t order by a, b"));
    close(fixture, conn);
    lines
}

#[test]
fn an_update_goes_on_with_the_version_it_waited_for() {
    let lines = after("update t set b = 5 where a = 1", "update t set b = b + 1 where a = 1");
    assert_eq!(lines, ["= UPDATE 1", "1\t6", "2\t0", "3\t0"]);
    // Several versions later.
    let change = "update t set b = 5 where a = 1; update t set b = 7 where a = 1";
    let lines = after(change, "update t set b = b + 1 where a < 3 returning a, old.b, b");
    assert_eq!(lines, ["| 1\t7\t8", "| 2\t0\t1", "= UPDATE 2", "1\t8", "2\t1", "3\t0"]);
}

#[test]
fn a_condition_is_checked_again() {
    let moved = "update t set a = 10 where a = 1";
    let lines = after(moved, "update t set b = 9 where a = 1");
    assert_eq!(lines, ["= UPDATE 0", "2\t0", "3\t0", "10\t0"]);
    let lines = after(moved, "delete from t where a < 3 returning a");
    assert_eq!(lines, ["| 2", "= DELETE 1", "3\t0", "10\t0"]);
    // A row that meets the condition only now was not seen.
    let lines = after("update t set a = a + 1 where a < 3", "delete from t where a = 2");
    assert_eq!(lines, ["= DELETE 0", "2\t0", "3\t0", "3\t0"]);
    let lines = after(moved, "select a, b from t where a = 1 for update");
    assert_eq!(lines, ["= SELECT 0", "2\t0", "3\t0", "10\t0"]);
}

#[test]
fn a_place_is_a_condition_too() {
    let change = "update t set b = 5 where a = 1";
    let lines = after(change, "update t set b = 9 where ctid = '(0,1)'");
    assert_eq!(lines, ["= UPDATE 0", "1\t5", "2\t0", "3\t0"]);
}

#[test]
fn a_deleted_row_is_left_out() {
    let deleted = "delete from t where a = 1";
    let lines = after(deleted, "update t set b = 1 where a < 3");
    assert_eq!(lines, ["= UPDATE 1", "2\t1", "3\t0"]);
    let lines = after(deleted, "select a from t for share");
    assert_eq!(lines, ["| 2", "| 3", "= SELECT 2", "2\t0", "3\t0"]);
}

#[test]
fn a_lock_shows_the_newest_version_in_the_order_of_the_old_ones() {
    let change = "update t set a = 9, b = 4 where a = 1";
    let lines = after(change, "select b, -a from t order by a for no key update");
    assert_eq!(lines, ["| 4\t-9", "| 0\t-2", "| 0\t-3", "= SELECT 3", "2\t0", "3\t0", "9\t4"]);
    let lines = after(change, "select a from t where b = 0 order by a limit 1 for update");
    assert_eq!(lines, ["| 2", "= SELECT 1", "2\t0", "3\t0", "9\t4"]);
}

#[test]
fn a_query_that_locks_can_be_inserted() {
    let change = "update t set b = 3 where a = 1";
    let lines = after(change, "insert into t select a + 100, b from t where a < 3 for share");
    assert_eq!(lines, ["= INSERT 0 2", "1\t3", "2\t0", "3\t0", "101\t3", "102\t0"]);
}

#[test]
fn repeatable_read_refuses_what_has_changed() {
    for (change, what) in [("update t set b = 1", "update"), ("delete from t", "delete")] {
        let (mut fixture, mut conn) = two_sessions();
        rows(&mut conn, "begin isolation level repeatable read");
        assert_eq!(rows(&mut conn, "select count(*) from t"), ["3"]);
        let waits = || support::run(&mut conn, "update t set b = 2 where a = 3");
        let lines = across(&mut fixture, change, waits);
        let message = format!("could not serialize access due to concurrent {what}");
        assert_eq!(lines, [format!("! ERROR 40001 {message}"), "Z E".to_owned()]);
        close(fixture, conn);
    }
}

#[test]
fn locks_that_would_wait_are_refused_or_skipped() {
    let (mut fixture, mut conn) = two_sessions();
    fixture.rows("begin");
    fixture.rows("select a from t where a = 2 for no key update");
    let refused = |conn: &mut Connection, sql: &str| {
        let lines = support::run(conn, sql);
        let message = "! ERROR 55P03 could not obtain lock on row in relation \"t\"";
        lines.iter().any(|line| line == message)
    };
    assert!(refused(&mut conn, "select a from t for update nowait"));
    assert!(refused(&mut conn, "select a from t for share skip locked for share nowait"));
    assert!(!refused(&mut conn, "select a from t where a = 1 for update nowait"));
    assert_eq!(rows(&mut conn, "select a from t for update skip locked"), ["1", "3"]);
    let queue = "select a from t where a > 1 order by a limit 1 for update skip locked";
    assert_eq!(rows(&mut conn, queue), ["3"]);
    assert_eq!(rows(&mut conn, "select a from t for key share nowait"), ["1", "2", "3"]);
    fixture.rows("rollback; begin");
    fixture.rows("select a from t for share");
    assert_eq!(rows(&mut conn, "select a from t for share nowait"), ["1", "2", "3"]);
    assert!(refused(&mut conn, "select a from t for no key update nowait"));
    close(fixture, conn);
}

#[test]
fn a_row_that_was_inserted_by_its_reader_is_its_own_version() {
    let (mut fixture, conn) = two_sessions();
    fixture.rows("begin");
    let xids = fixture.rows("insert into t values (4, 0) returning xmin, cmin, xmax");
    assert_eq!(fixture.rows("select xmin, cmin, xmax from t where a = 4"), xids);
    let changed = "update t set b = 1 where a = 4 \
                   returning xmin = old.xmin, old.xmax = xmin, cmin > 0::text::cid";
    let lines = support::run(&mut fixture.conn, changed);
    assert!(lines[0].starts_with("! ERROR 42883"), "cid has no order: {lines:?}");
    close(fixture, conn);
}

fn execute(conn: &mut Connection, max: u32) -> Vec<String> {
    let mut sink = Recorder::default();
    match conn.execute("p", max, &mut sink) {
        Ok(Executed::Completed(tag)) => sink.lines.push(format!("= {}", tag.0)),
        Ok(_) => sink.lines.push("suspended".to_owned()),
        Err(error) => sink.report(&error),
    }
    sink.lines
}

#[test]
fn a_portal_changes_all_rows_before_it_returns_the_first() {
    let (mut fixture, mut other) = two_sessions();
    let conn = &mut fixture.conn;
    conn.parse("s", "update t set b = $1 where a >= $2 returning a, b", &[]).expect("parse");
    let (types, columns) = conn.describe_statement("s").expect("describe");
    assert_eq!((types, columns.expect("columns").len()), (vec![23, 23], 2));
    conn.bind("p", "s", &[], &[Some(b"7"), Some(b"1")], &[]).expect("bind");
    assert_eq!(conn.describe_portal("p").expect("describe").expect("columns").0[1].name, "b");
    assert_eq!(execute(conn, 1), ["| 1\t7", "suspended"]);
    conn.parse("", "select b from t where a = 3", &[]).expect("parse");
    assert_eq!(execute(conn, 1), ["| 2\t7", "suspended"]);
    // As in PostgreSQL, the tag counts the rows of the last Execute.
    assert_eq!(execute(conn, 0), ["| 3\t7", "= UPDATE 1"]);
    assert_eq!(execute(conn, 0), ["= UPDATE 0"]);
    assert_eq!(rows(&mut other, "select sum(b) from t"), ["0"]);
    conn.sync().expect("sync");
    assert_eq!(rows(&mut other, "select sum(b) from t"), ["21"]);
    // Without RETURNING.
    conn.parse("d", "delete from t where a = $1", &[]).expect("parse");
    assert!(conn.describe_statement("d").expect("describe").1.is_none());
    conn.bind("p", "d", &[], &[Some(b"2")], &[]).expect("bind");
    assert_eq!(execute(conn, 0), ["= DELETE 1"]);
    assert_eq!(execute(conn, 0)[0], "! ERROR 55000 portal \"p\" cannot be run");
    conn.sync().expect("sync");
    close(fixture, other);
}

#[test]
fn a_portal_that_locks_rows_locks_those_that_it_has_returned() {
    let (mut fixture, mut other) = two_sessions();
    fixture.conn.parse("s", "select a from t for update", &[]).expect("parse");
    fixture.conn.bind("p", "s", &[], &[], &[]).expect("bind");
    assert_eq!(execute(&mut fixture.conn, 2), ["| 1", "| 2", "suspended"]);
    assert_eq!(rows(&mut other, "select a from t for update skip locked"), ["3"]);
    fixture.conn.sync().expect("sync");
    close(fixture, other);
}

#[test]
fn a_plan_that_changes_rows_follows_its_table() {
    let (mut fixture, other) = two_sessions();
    let conn = &mut fixture.conn;
    conn.parse("u", "update t set b = 1 where a = $1", &[]).expect("parse");
    conn.parse("r", "delete from t returning *", &[]).expect("parse");
    conn.sync().expect("sync");
    rows(conn, "drop table t; create table t (b int, a int, c int); insert into t values (0, 1)");
    conn.bind("p", "u", &[], &[Some(b"1")], &[]).expect("bind");
    assert_eq!(execute(conn, 0), ["= UPDATE 1"]);
    conn.sync().expect("sync");
    assert_eq!(rows(conn, "select * from t"), ["1\t1\t\\N"]);
    let error = conn.bind("p", "r", &[], &[], &[]).expect_err("other columns");
    assert_eq!(error.message, "cached plan must not change result type");
    conn.sync().expect("sync");
    close(fixture, other);
}

#[test]
fn what_returning_returns_may_be_more_than_work_mem() {
    let (mut fixture, conn) = two_sessions();
    fixture.conn.session().expect("session").settings_mut().work_mem = 64 << 10;
    let inserted =
        fixture.rows("insert into t select x, -x from generate_series(1, 20000) x returning a");
    assert!(inserted.iter().map(|a| a.parse()).eq((1..=20_000).map(Ok::<i32, _>)));
    assert_eq!(fixture.rows("delete from t where a > 10 returning b").len(), 19_990);
    close(fixture, conn);
}

#[test]
fn an_error_in_the_middle_takes_all_changes_back() {
    let (mut fixture, conn) = two_sessions();
    let lines = support::run(&mut fixture.conn, "update t set b = 10 / (a - 2) returning a");
    assert_eq!(lines, ["! ERROR 22012 division by zero", "Z I"]);
    assert_eq!(fixture.rows("select sum(b) from t"), ["0"]);
    close(fixture, conn);
}

#[test]
fn what_is_not_planned_is_refused_by_name() {
    let (mut fixture, conn) = two_sessions();
    for (sql, message) in [
        ("update t set a = 1 from t x", "UPDATE with FROM"),
        ("update t set a = 1 from generate_series(1, 2) x where a = x", "UPDATE with FROM"),
        ("delete from t using t x", "DELETE with USING"),
        ("update t join t x on true set a = 1", "a join"),
        ("update t as x (y) set y = 1", "this form of alias"),
        ("update t set (a, b) = (select 1, 2)", "a subquery in an expression"),
        ("update t set a = (select 1)", "a subquery in an expression"),
        ("with x as (select 1) update t set a = 1", "WITH"),
        ("delete from t returning t", "a whole-row reference"),
        ("update t set a = 1 returning new", "a whole-row reference"),
        ("select a from (select a from t for update) s", "a locking clause in a subquery"),
        ("select a from (select a from t) s for update", "locking rows of a subquery"),
        ("insert into t with x as (select 1) values (1)", "WITH"),
    ] {
        let lines = support::run(&mut fixture.conn, sql);
        assert_eq!(lines[0], format!("! ERROR 0A000 {message} is not supported"), "{sql}");
    }
    for sql in ["update pg_class set relname = 'x'", "delete from pg_class returning relname"] {
        let lines = support::run(&mut fixture.conn, sql);
        let message = "! ERROR 42501 permission denied: \"pg_class\" is a system catalog";
        assert_eq!(lines[0], message, "{sql}");
    }
    let lines = support::run(&mut fixture.conn, "select relname from pg_class for share");
    assert!(lines[0].starts_with("! ERROR 0A000"), "{lines:?}");
    assert_eq!(fixture.rows("select count(*), sum(a), sum(b) from t"), ["3\t6\t0"]);
    close(fixture, conn);
}

#[test]
fn where_current_of_is_the_only_condition() {
    for query in [
        "update t set a = 1 where current of c where a = 2",
        "update t set a = 1 where a = 2 where current of c",
        "delete from t where current of c where current of d",
        "delete where current of c from t",
    ] {
        let got = support::run(&mut support::without_tables(), query);
        assert!(got[0].starts_with("! ERROR 42601 syntax error at or near"), "{query}: {got:?}");
    }
}

#[test]
fn a_read_only_transaction_copies_into_temporary_tables_alone() {
    let mut fixture = open("");
    fixture.rows("create temp table own (a int)");
    fixture.rows("create table t (a int)");
    fixture.rows("begin read only");
    let refused = support::run(&mut fixture.conn, "copy t from stdin");
    let expected = "! ERROR 25006 cannot execute COPY FROM in a read-only transaction";
    assert!(refused.iter().any(|line| line == expected), "{refused:?}");
    fixture.rows("rollback");
    fixture.rows("begin read only");
    let data = ["1\n".to_owned()];
    let taken = support::run_with_data(&mut fixture.conn, "copy own from stdin", &data);
    assert!(taken.iter().any(|line| line == "= COPY 1"), "{taken:?}");
    fixture.rows("rollback");
    fixture.close();
}

#[test]
fn an_update_that_moves_a_value_out_of_line_leaves_no_lock() {
    let mut fixture = open("");
    fixture.rows("create table t (a int4 primary key, b text, c int4)");
    fixture.rows("insert into t values (1, 'short', 0)");
    let long = "repeat('some text ', 100000)";
    fixture.rows("begin");
    fixture.rows(&format!("update t set b = {long}"));
    assert_eq!(fixture.rows("select xmax, octet_length(b) from t"), ["0\t1000000"]);
    fixture.rows("commit");
    // Another session's lock goes on.
    let mut other = fixture.connect();
    rows(&mut other, "begin");
    rows(&mut other, "select a from t for key share");
    fixture.rows(&format!("update t set b = {long} || 'more', c = 1"));
    assert_ne!(fixture.rows("select xmax from t"), ["0"]);
    rows(&mut other, "commit");
    other.close();
    fixture.close();
}
