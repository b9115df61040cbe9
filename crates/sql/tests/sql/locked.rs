//! Statements that wait for a table's lock: what they see is what is there once they have it.
//!
//! In each test a transaction drops a table and makes it anew, and a statement of another
//! connection waits for that transaction to commit. PostgreSQL locks first, and takes the
//! statement's snapshot then.

use crate::fixture::{Fixture, across, open, rows, wait_for_wait};
use crate::support::{self, Recorder};
use forebay_engine::InterruptKind;
use forebay_sql::{Connection, Executed};
use std::thread;

/// The table before, and what an open transaction makes of it.
const BEFORE: &str = "create table t (a int); insert into t values (1)";
const SAME: &str = "drop table t; create table t (a int); insert into t values (2), (3)";
const WIDER: &str = "drop table t; create table t (b text, c int); insert into t values ('two', 2)";

/// A data directory with the table.
fn fixture() -> Fixture {
    let mut fixture = open("");
    rows(&mut fixture.conn, BEFORE);
    fixture
}

/// What a query string comes to, if its first statement waits.
fn script(change: &str, sql: &str) -> Vec<String> {
    let mut fixture = fixture();
    let mut conn = fixture.connect();
    let lines = across(&mut fixture, change, || support::run(&mut conn, sql));
    conn.close();
    fixture.close();
    lines
}

fn execute(conn: &mut Connection, portal: &str) -> Vec<String> {
    let mut sink = Recorder::default();
    match conn.execute(portal, 0, &mut sink) {
        Ok(Executed::Completed(tag)) => sink.lines.push(format!("= {}", tag.0)),
        Ok(_) => sink.lines.push("not completed".to_owned()),
        Err(error) => sink.report(&error),
    }
    sink.lines
}

#[test]
fn a_select_sees_the_rows_of_the_table_it_waited_for() {
    assert_eq!(script(SAME, "select a from t"), ["# a:23", "| 2", "| 3", "= SELECT 2", "Z I"]);
    assert_eq!(script(SAME, "select count(*) from t"), ["# count:20", "| 2", "= SELECT 1", "Z I"]);
    let ordered = script(SAME, "select a from t order by a desc limit 1");
    assert_eq!(ordered, ["# a:23", "| 3", "= SELECT 1", "Z I"]);
    let inner = script(SAME, "select a from (select a + 1 as a from t) s");
    assert_eq!(inner, ["# a:23", "| 3", "| 4", "= SELECT 2", "Z I"]);
}

#[test]
fn a_select_has_the_columns_of_the_table_it_waited_for() {
    let all = script(WIDER, "select * from t");
    assert_eq!(all, ["# b:25 c:23", "| two\t2", "= SELECT 1", "Z I"]);
    let gone = script(WIDER, "select a from t");
    assert_eq!(gone, ["! ERROR 42703 column \"a\" does not exist", "  position: 8", "Z I"]);
}

#[test]
fn every_statement_of_a_block_has_a_snapshot_of_its_own() {
    let mut fixture = fixture();
    let mut conn = fixture.connect();
    rows(&mut conn, "create table u (a int)");
    rows(&mut conn, "begin");
    assert_eq!(rows(&mut conn, "select a from u"), Vec::<String>::new());
    let waited = across(&mut fixture, SAME, || rows(&mut conn, "select a from t"));
    assert_eq!(waited, ["2", "3"]);
    rows(&mut conn, "insert into u values (7)");
    assert_eq!(rows(&mut conn, "select a from u"), ["7"]);
    rows(&mut fixture.conn, "insert into t values (4)");
    assert_eq!(rows(&mut conn, "select a from t"), ["2", "3", "4"]);
    rows(&mut conn, "commit");
    conn.close();
    fixture.close();
}

#[test]
fn a_block_with_a_table_of_its_own_sees_the_table_it_waited_for() {
    let mut fixture = fixture();
    let mut conn = fixture.connect();
    rows(&mut conn, "begin; create table u (a int)");
    let waited = across(&mut fixture, SAME, || rows(&mut conn, "select a from t"));
    assert_eq!(waited, ["2", "3"]);
    rows(&mut conn, "commit");
    conn.close();
    fixture.close();
}

#[test]
fn copy_out_sees_the_table_it_waited_for() {
    let table = script(SAME, "copy t to stdout");
    assert_eq!(table, ["> 0 1", "d 2\\n", "d 3\\n", "= COPY 2", "Z I"]);
    let query = script(SAME, "copy (select a from t where a > 2) to stdout");
    assert_eq!(query, ["> 0 1", "d 3\\n", "= COPY 1", "Z I"]);
    let wider = script(WIDER, "copy (select * from t) to stdout");
    assert_eq!(wider, ["> 0 2", "d two\\t2\\n", "= COPY 1", "Z I"]);
}

#[test]
fn copy_in_fills_the_table_it_waited_for() {
    let mut fixture = fixture();
    let mut conn = fixture.connect();
    let data = ["three\\t3\\n".to_owned()];
    let lines = across(&mut fixture, WIDER, || {
        support::run_with_data(&mut conn, "copy t from stdin", &data)
    });
    assert_eq!(lines, ["< 0 2", "= COPY 1", "Z I"]);
    assert_eq!(rows(&mut conn, "select * from t"), ["two\t2", "three\t3"]);
    conn.close();
    fixture.close();
}

#[test]
fn an_insert_of_a_query_sees_the_table_it_waited_for() {
    let mut fixture = fixture();
    let mut conn = fixture.connect();
    rows(&mut conn, "create table u (a int)");
    let lines =
        across(&mut fixture, SAME, || support::run(&mut conn, "insert into u select a from t"));
    assert_eq!(lines, ["= INSERT 0 2", "Z I"]);
    assert_eq!(rows(&mut conn, "select a from u"), ["2", "3"]);
    // The table it writes to is waited for as well, and what is read has its snapshot after that.
    rows(
        &mut fixture.conn,
        "begin; insert into u values (5); drop table t; create table t (x int)",
    );
    let lines = thread::scope(|scope| {
        let waiting =
            scope.spawn(|| support::run(&mut conn, "insert into t select a from u where a > 2"));
        wait_for_wait(&fixture.engine, &waiting);
        rows(&mut fixture.conn, "commit");
        waiting.join().expect("join")
    });
    assert_eq!(lines, ["= INSERT 0 2", "Z I"]);
    assert_eq!(rows(&mut conn, "select x from t"), ["3", "5"]);
    conn.close();
    fixture.close();
}

#[test]
fn an_insert_goes_into_the_table_it_waited_for() {
    let lines = script(WIDER, "insert into t values ('three', 3); select * from t");
    assert_eq!(
        lines,
        ["= INSERT 0 1", "# b:25 c:23", "| two\t2", "| three\t3", "= SELECT 2", "Z I"]
    );
}

#[test]
fn parse_describes_the_table_it_waited_for() {
    let mut fixture = fixture();
    let mut conn = fixture.connect();
    let columns = across(&mut fixture, WIDER, || {
        conn.parse("s", "select * from t", &[]).expect("parse");
        conn.describe_statement("s").expect("describe").1.expect("columns")
    });
    assert_eq!(columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    conn.bind("", "s", &[], &[], &[]).expect("bind");
    assert_eq!(execute(&mut conn, ""), ["| two\t2", "= SELECT 1"]);
    conn.sync().expect("sync");
    conn.close();
    fixture.close();
}

#[test]
fn a_prepared_statement_sees_the_table_it_waited_for() {
    let mut fixture = fixture();
    let mut conn = fixture.connect();
    rows(&mut conn, "create table u (a int)");
    conn.parse("read", "select a from t where a > $1", &[]).expect("parse");
    conn.parse("write", "insert into u select a from t", &[]).expect("parse");
    conn.parse("all", "select * from t", &[]).expect("parse");
    conn.sync().expect("sync");
    let lines = across(&mut fixture, SAME, || {
        conn.bind("", "read", &[], &[Some(b"2")], &[]).expect("bind");
        execute(&mut conn, "")
    });
    assert_eq!(lines, ["| 3", "= SELECT 1"]);
    conn.sync().expect("sync");
    let lines = across(&mut fixture, SAME, || {
        conn.bind("", "write", &[], &[], &[]).expect("bind");
        execute(&mut conn, "")
    });
    assert_eq!(lines, ["= INSERT 0 2"]);
    conn.sync().expect("sync");
    assert_eq!(rows(&mut conn, "select a from u"), ["2", "3"]);
    let refused = across(&mut fixture, WIDER, || conn.bind("", "all", &[], &[], &[]));
    let refused = refused.expect_err("other columns");
    assert_eq!(
        (refused.sqlstate, refused.message.as_str()),
        ("0A000", "cached plan must not change result type")
    );
    conn.sync().expect("sync");
    conn.close();
    fixture.close();
}

#[test]
fn a_bound_query_has_its_snapshot_from_then() {
    // As PostgreSQL's: exec_bind_message starts the portal of a query, with its snapshot.
    let mut fixture = fixture();
    let mut conn = fixture.connect();
    conn.parse("read", "select a from t", &[]).expect("parse");
    conn.parse("write", "insert into t values (8)", &[]).expect("parse");
    conn.bind("p", "read", &[], &[], &[]).expect("bind");
    rows(&mut fixture.conn, "insert into t values (9)");
    conn.bind("", "write", &[], &[], &[]).expect("bind");
    assert_eq!(execute(&mut conn, ""), ["= INSERT 0 1"]);
    conn.bind("q", "read", &[], &[], &[]).expect("bind");
    assert_eq!(execute(&mut conn, "p"), ["| 1", "= SELECT 1"]);
    assert_eq!(execute(&mut conn, "q"), ["| 1", "| 9", "| 8", "= SELECT 3"]);
    conn.sync().expect("sync");
    conn.close();
    fixture.close();
}

#[test]
fn a_bound_insert_does_not_fill_a_table_that_its_transaction_has_dropped() {
    let fixture = fixture();
    let mut conn = fixture.connect();
    for (name, sql) in [
        ("values", "insert into t values (7)"),
        ("query", "insert into t select 7"),
        ("drop", "drop table t"),
        ("create", "create table t (a int)"),
    ] {
        conn.parse(name, sql, &[]).expect("parse");
    }
    for insert in ["values", "query"] {
        conn.bind("p", insert, &[], &[], &[]).expect("bind");
        for statement in ["drop", "create"] {
            conn.bind("", statement, &[], &[], &[]).expect("bind");
            execute(&mut conn, "");
        }
        // As PostgreSQL has it.
        let refused = execute(&mut conn, "p");
        assert!(
            refused[0].starts_with("! ERROR XX000 could not open relation with OID "),
            "{refused:?}"
        );
        conn.sync().expect("sync");
    }
    assert_eq!(rows(&mut conn, "select a from t"), ["1"]);
    // One bound after the change goes into the new table.
    for statement in ["drop", "create", "values"] {
        conn.bind("", statement, &[], &[], &[]).expect("bind");
        execute(&mut conn, "");
    }
    conn.sync().expect("sync");
    assert_eq!(rows(&mut conn, "select a from t"), ["7"]);
    conn.close();
    fixture.close();
}

#[test]
fn a_table_that_a_bound_query_reads_is_not_dropped() {
    let fixture = fixture();
    let mut conn = fixture.connect();
    conn.parse("", "select a from (select a from (select a from t) r) s", &[]).expect("parse");
    conn.bind("p", "", &[], &[], &[]).expect("bind");
    conn.parse("", "drop table t", &[]).expect("parse");
    conn.bind("", "", &[], &[], &[]).expect("bind");
    let refused = execute(&mut conn, "");
    assert!(refused[0].starts_with("! ERROR 55006 cannot DROP TABLE \"t\""), "{refused:?}");
    conn.sync().expect("sync");
    conn.close();
    fixture.close();
}

#[test]
fn a_canceled_wait_points_at_nothing_and_a_deadlock_at_the_name() {
    let mut fixture = fixture();
    let mut conn = fixture.connect();
    let cancel = conn.session().expect("session").interrupt().clone();
    rows(&mut fixture.conn, "begin; drop table t");
    let lines = thread::scope(|scope| {
        let waiting = scope.spawn(|| support::run(&mut conn, "select * from t"));
        wait_for_wait(&fixture.engine, &waiting);
        cancel.request(InterruptKind::Cancel);
        waiting.join().expect("join")
    });
    assert_eq!(lines, ["! ERROR 57014 canceling statement due to user request", "Z I"]);
    rows(&mut fixture.conn, "rollback");
    rows(&mut fixture.conn, "create table u (a int)");
    rows(&mut fixture.conn, "begin; drop table u");
    rows(&mut conn, "set deadlock_timeout = 1; begin; select * from t");
    let lines = thread::scope(|scope| {
        let waiting = scope.spawn(|| support::run(&mut fixture.conn, "drop table t"));
        wait_for_wait(&fixture.engine, &waiting);
        let lines = support::run(&mut conn, "select * from u");
        rows(&mut conn, "rollback");
        assert_eq!(waiting.join().expect("join"), ["= DROP TABLE", "Z T"]);
        lines
    });
    assert_eq!(lines[0], "! ERROR 40P01 deadlock detected");
    assert_eq!(lines[lines.len() - 2..], ["  position: 15", "Z E"]);
    conn.close();
    fixture.close();
}

#[test]
fn drop_if_exists_skips_a_table_that_went_while_it_waited() {
    let lines = script("drop table t", "drop table if exists t");
    let skipped = "~ NOTICE 00000 table \"t\" does not exist, skipping";
    assert_eq!(lines, [skipped, "= DROP TABLE", "Z I"]);
    let lines = script("drop table t", "drop table t");
    assert_eq!(lines, ["! ERROR 42P01 table \"t\" does not exist", "Z I"]);
    let lines = script("drop table t", "select * from t");
    assert_eq!(lines, ["! ERROR 42P01 relation \"t\" does not exist", "  position: 15", "Z I"]);
}

/// What goes along with a table is locked, too.
#[test]
fn a_drop_waits_for_who_uses_what_goes_along() {
    let mut fixture = open("");
    fixture.rows("create table owner (id int); create sequence s owned by owner.id");
    let mut conn = fixture.connect();
    let lines =
        across(&mut fixture, "drop sequence s", || support::run(&mut conn, "drop table owner"));
    assert_eq!(lines, ["= DROP TABLE", "Z I"]);
    fixture.rows("create schema parents; create table parents.p (a int primary key, b int)");
    fixture.rows("create table p (a int primary key, b int); create table used (a serial)");
    fixture.rows("create table child (a int references p, b int references parents.p, c int)");
    fixture.rows("alter table child alter c set default nextval('used_a_seq')");
    for drop in [
        "alter table p drop column a cascade",
        "drop schema parents cascade",
        "drop sequence used_a_seq cascade",
    ] {
        let found = across(&mut fixture, "insert into child (a, c) values (null, 1)", || {
            support::run(&mut conn, drop);
            rows(&mut conn, "select count(*) from child")
        });
        assert_eq!(found, ["1"], "{drop} has not waited");
        fixture.rows("delete from child");
    }
    assert!(fixture.rows("select conname from pg_constraint where contype = 'f'").is_empty());
    conn.close();
    fixture.close();
}
