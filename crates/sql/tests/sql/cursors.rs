//! Cursors: DECLARE, FETCH, MOVE, CLOSE against answers recorded from PostgreSQL 18; what they
//! share with the protocol's portals; rows that are held over the end of a transaction.

use crate::fixture::{Fixture, open, rows};
use crate::support::{self, Recorder};
use forebay_sql::{Connection, Executed, SqlError};

#[test]
fn answers_as_postgresql_does() {
    let mut fixture = open("");
    let golden = include_str!("../golden/cursors.txt");
    assert!(support::cases(golden).len() > 280, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// A table of the numbers from 1 to 9.
fn numbers() -> Fixture {
    let mut fixture = open("");
    fixture.rows("create table t (a int)");
    fixture.rows("insert into t select x from generate_series(1, 9) x");
    fixture
}

/// Executes a portal: its rows, and how it ended.
fn execute(conn: &mut Connection, portal: &str, max: u32) -> Result<Vec<String>, SqlError> {
    let mut sink = Recorder::default();
    let end = match conn.execute(portal, max, &mut sink)? {
        Executed::Completed(tag) => tag.0,
        Executed::Suspended => "suspended".to_owned(),
        Executed::EmptyQuery | Executed::CopyIn(_) => unreachable!("neither is executed here"),
    };
    sink.lines.push(format!("= {end}"));
    Ok(sink.lines)
}

fn error(result: Result<impl Sized, SqlError>) -> (&'static str, String) {
    let error = result.err().expect("refused");
    (error.sqlstate, error.message.clone())
}

#[test]
fn portals_and_cursors_are_the_same_kind_of_thing() {
    let mut fixture = numbers();
    let conn = &mut fixture.conn;
    rows(conn, "begin");
    conn.parse("s", "select a from t where a > $1", &[]).expect("parse");
    conn.bind("p", "s", &[], &[Some(b"2")], &[]).expect("bind");
    assert_eq!(rows(conn, "fetch 2 p"), ["3", "4"]);
    assert_eq!(execute(conn, "p", 2).expect("run"), ["| 5", "| 6", "= suspended"]);
    rows(conn, "move p");
    assert_eq!(rows(conn, "fetch p"), ["8"]);
    rows(conn, "declare c cursor for select a from t where a > 4");
    assert_eq!(execute(conn, "c", 1).expect("run"), ["| 5", "= suspended"]);
    assert_eq!(rows(conn, "fetch prior c"), Vec::<String>::new());
    assert_eq!(rows(conn, "fetch 2 c"), ["5", "6"]);
    let columns = conn.describe_portal("c").expect("describe").expect("columns").0;
    assert_eq!((columns.len(), columns[0].name.as_str()), (1, "a"));
    assert_eq!(execute(conn, "c", 0).expect("run"), ["| 7", "| 8", "| 9", "= SELECT 3"]);
    assert_eq!(rows(conn, "fetch prior c"), ["9"]);
    conn.close_portal("c").expect("close");
    assert_eq!(rows(conn, "select name from pg_cursors"), ["p"]);
    let refused = support::run(conn, "fetch prior p");
    assert!(refused[0].starts_with("! ERROR 55000 cursor can only scan forward"), "{refused:?}");
    rows(conn, "rollback");
    rows(conn, "begin");
    rows(conn, "declare c cursor for select 1");
    conn.parse("", "select 2", &[]).expect("parse");
    let refused = error(conn.bind("c", "", &[], &[], &[]));
    assert_eq!(refused, ("42P03", "cursor \"c\" already exists".to_owned()));
    fixture.close();
}

#[test]
fn statements_about_cursors_are_prepared() {
    let mut fixture = numbers();
    let conn = &mut fixture.conn;
    conn.parse("d", "declare c cursor for select a from t where a > $1", &[]).expect("parse");
    assert_eq!(conn.describe_statement("d").expect("describe"), (vec![23], None));
    conn.parse("f", "fetch 2 from c", &[]).expect("parse");
    assert_eq!(conn.describe_statement("f").expect("describe"), (vec![], None));
    conn.sync().expect("sync");
    conn.bind("", "d", &[], &[Some(b"6")], &[]).expect("bind");
    let refused = error(execute(conn, "", 0));
    let message = "DECLARE CURSOR can only be used in transaction blocks";
    assert_eq!(refused, ("25P01", message.to_owned()));
    conn.sync().expect("sync");
    rows(conn, "begin");
    conn.bind("", "d", &[], &[Some(b"6")], &[]).expect("bind");
    assert_eq!(execute(conn, "", 0).expect("run"), ["= DECLARE CURSOR"]);
    conn.bind("", "f", &[], &[], &[]).expect("bind");
    let (columns, _) = conn.describe_portal("").expect("describe").expect("columns");
    assert_eq!(columns[0].name, "a");
    assert_eq!(execute(conn, "", 0).expect("run"), ["| 7", "| 8", "= FETCH 2"]);
    // The portal that looks is among those it sees.
    conn.parse("", "select name, is_scrollable from pg_cursors order by name", &[]).expect("parse");
    conn.bind("", "", &[], &[], &[]).expect("bind");
    assert_eq!(execute(conn, "", 0).expect("run"), ["| \tf", "| c\tt", "= SELECT 2"]);
    rows(conn, "commit");
    // After the first statement of a pipeline a block is begun.
    conn.bind("", "f", &[], &[], &[]).expect("bind");
    assert_eq!(error(execute(conn, "", 0)).0, "34000");
    conn.sync().expect("sync");
    conn.parse("one", "select 1", &[]).expect("parse");
    conn.bind("", "one", &[], &[], &[]).expect("bind");
    execute(conn, "", 0).expect("run");
    conn.bind("", "d", &[], &[Some(b"8")], &[]).expect("bind");
    assert_eq!(execute(conn, "", 0).expect("run"), ["= DECLARE CURSOR"]);
    conn.bind("", "f", &[], &[], &[]).expect("bind");
    assert_eq!(execute(conn, "", 0).expect("run"), ["| 9", "= FETCH 1"]);
    conn.sync().expect("sync");
    assert!(rows(conn, "select name from pg_cursors").is_empty());
    fixture.close();
}

#[test]
fn what_is_held_stays_as_it_was() {
    let mut fixture = numbers();
    let mut other = fixture.connect();
    fixture.rows("declare c scroll cursor with hold for select a from t where a > 5");
    assert_eq!(fixture.rows("fetch c"), ["6"]);
    rows(&mut other, "insert into t values (10)");
    rows(&mut other, "drop table t");
    assert_eq!(fixture.rows("fetch all c"), ["7", "8", "9"]);
    // A failure that is not its own leaves it where it is.
    assert_eq!(fixture.rows("fetch prior c"), ["9"]);
    support::run(&mut fixture.conn, "select 1/0");
    assert_eq!(fixture.rows("fetch prior c"), ["8"]);
    fixture.rows("begin");
    assert_eq!(fixture.rows("fetch first c"), ["6"]);
    support::run(&mut fixture.conn, "select 1/0");
    fixture.rows("rollback");
    assert_eq!(fixture.rows("fetch c"), ["7"]);
    other.close();
    fixture.close();
}

#[test]
fn a_cursor_outlives_the_rollback_of_what_fetched_from_it_first() {
    let mut fixture = open("");
    fixture.rows("create table t (a int)");
    // More than a page.
    fixture.rows("insert into t select x from generate_series(1, 1000) x");
    fixture.rows("begin");
    fixture.rows("declare c cursor for select a from t");
    fixture.rows("savepoint s");
    assert_eq!(fixture.rows("fetch 2 c"), ["1", "2"]);
    fixture.rows("rollback to s");
    assert_eq!(fixture.rows("fetch c"), ["3"]);
    assert_eq!(fixture.rows("fetch all c").len(), 997);
    fixture.rows("rollback");
    fixture.close();
}
