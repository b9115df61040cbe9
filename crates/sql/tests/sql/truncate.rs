//! TRUNCATE, against answers recorded from PostgreSQL 18; and what plans and portals make of it.

use crate::fixture::{open, rows};
use crate::support::{self, Recorder};

#[test]
fn answers_as_postgresql_does() {
    let mut fixture = open("");
    let golden = include_str!("../golden/truncate.txt");
    assert!(support::cases(golden).len() > 130, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn plans_follow_the_file() {
    let mut fixture = open("");
    let mut other = fixture.connect();
    fixture.rows("create table t (a int)");
    fixture.rows("insert into t values (1)");
    let run = |statement: &str, conn: &mut forebay_sql::Connection| {
        let mut sink = Recorder::default();
        conn.bind("", statement, &[], &[], &[]).expect("bind");
        conn.execute("", 0, &mut sink).map(drop).expect("execute");
        conn.sync().expect("sync");
        sink.lines
    };
    other.parse("read", "select a from t", &[]).expect("parse");
    other.parse("write", "insert into t values (3)", &[]).expect("parse");
    assert_eq!(run("read", &mut other), ["| 1"]);
    fixture.rows("truncate t");
    fixture.rows("insert into t values (2)");
    assert_eq!(run("read", &mut other), ["| 2"]);
    fixture.rows("truncate t");
    assert!(run("write", &mut other).is_empty());
    assert_eq!(fixture.rows("select a from t"), ["3"]);
    // Bound before, executed after.
    rows(&mut other, "begin");
    other.bind("p", "write", &[], &[], &[]).expect("bind");
    rows(&mut other, "truncate t");
    other.execute("p", 0, &mut Recorder::default()).map(drop).expect("execute");
    rows(&mut other, "commit");
    assert_eq!(fixture.rows("select a from t"), ["3"]);
    other.close();
    fixture.close();
}

#[test]
fn other_sessions_temporary_tables_are_refused() {
    let mut fixture = open("");
    let mut other = fixture.connect();
    fixture.rows("create temp table t (a int)");
    let refused = support::run(&mut other, "truncate pg_temp_0.t");
    assert_eq!(refused[0], "! ERROR 0A000 cannot truncate temporary tables of other sessions");
    other.close();
    fixture.close();
}
