//! The extended protocol: parameter types against answers recorded from PostgreSQL 18; portals;
//! formats; errors.

use std::sync::Arc;

use crate::support::{self, Recorder};
use forebay_engine::{Engine, EngineConfig, InitOptions, IoMethod, ShutdownMode};
use forebay_sql::{Connection, Executed, SqlError, TransactionStatus};

/// A scratch engine with a connection.
struct Scratch {
    engine: Arc<Engine>,
    _dir: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Scratch {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("directory");
        let options = InitOptions {
            wal_segment_size: 1 << 20,
            sync: false,
            templates: false,
            ..InitOptions::default()
        };
        Engine::init(dir.path(), &options).expect("init");
        let config = EngineConfig {
            io_method: IoMethod::Sync,
            shared_buffers: 256.into(),
            ..EngineConfig::default()
        };
        Scratch { engine: Engine::open(dir.path(), config).expect("open"), _dir: dir }
    }

    fn connect(&self) -> Connection {
        let session = self.engine.session().expect("session");
        Connection::new(session, Box::new(support::FewSettings::new()), support::identity())
    }

    fn stop(self) {
        self.engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    }
}

fn describe(conn: &mut Connection, sql: &str) -> Vec<String> {
    let mut sink = Recorder::default();
    let described = conn.parse("", sql, &[]).and_then(|()| conn.describe_statement(""));
    match described {
        Ok((types, columns)) => {
            let types: Vec<String> = types.iter().map(u32::to_string).collect();
            sink.lines.push(format!("$ {}", types.join(" ")));
            sink.lines.push(match columns {
                None => "# none".into(),
                Some(columns) => {
                    let shown = |c: &forebay_sql::ColumnDesc| {
                        format!("{}:{}:{}:{}", c.name, c.type_oid(), c.attnum, c.type_len())
                    };
                    format!("# {}", columns.iter().map(shown).collect::<Vec<_>>().join(" "))
                }
            });
        }
        Err(e) => sink.report(&e),
    }
    conn.sync().expect("sync");
    sink.lines.push(format!("Z {}", char::from(conn.transaction_status().as_byte())));
    sink.lines
}

#[test]
fn parameter_types_are_found_as_postgresql_does() {
    let scratch = Scratch::new();
    let mut conn = scratch.connect();
    let golden = include_str!("../golden/params.txt");
    let set_up = golden.lines().find_map(|l| l.strip_prefix("S ")).expect("a set-up statement");
    support::run(&mut conn, set_up);
    let cases = support::cases(golden);
    assert!(cases.len() > 45, "too few cases were read");
    let mut wrong = Vec::new();
    for case in cases {
        let got = describe(&mut conn, &case.query);
        if got != case.expected {
            wrong.push(format!("Q {}\n  want {:#?}\n  got  {:#?}", case.query, case.expected, got));
        }
    }
    conn.close();
    scratch.stop();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Executes a portal; its rows, and how it ended.
fn execute(
    conn: &mut Connection,
    portal: &str,
    max: u32,
) -> Result<(Vec<String>, String), SqlError> {
    let mut sink = Recorder::default();
    let end = match conn.execute(portal, max, &mut sink)? {
        Executed::Completed(tag) => tag.0,
        Executed::Suspended => "suspended".into(),
        Executed::EmptyQuery => "empty".into(),
        Executed::CopyIn(_) => "copy".into(),
    };
    Ok((sink.lines, end))
}

#[test]
fn portals_rest_and_go_on() {
    let scratch = Scratch::new();
    let mut conn = scratch.connect();
    support::run(&mut conn, "create table t (a int, b text)");
    support::run(&mut conn, "insert into t select x, 'row ' || x from generate_series(1, 1000) x");
    for (sql, formats) in [
        ("select a from t where a > $1", vec![]),
        ("select a from t where a > $1 order by a", vec![0]),
    ] {
        conn.parse("s", sql, &[]).expect("parse");
        conn.bind("p", "s", &formats, &[Some(b"3")], &[]).expect("bind");
        assert_eq!(
            execute(&mut conn, "p", 2).expect("run"),
            (vec!["| 4".into(), "| 5".into()], "suspended".into())
        );
        // Another portal's statement may run in between.
        conn.parse("", "insert into t values (5000, 'new')", &[]).expect("parse");
        conn.bind("", "", &[], &[], &[]).expect("bind");
        assert_eq!(execute(&mut conn, "", 0).expect("run").1, "INSERT 0 1");
        assert_eq!(
            execute(&mut conn, "p", 1).expect("run"),
            (vec!["| 6".into()], "suspended".into())
        );
        let (rows, end) = execute(&mut conn, "p", 0).expect("run");
        assert_eq!(
            (rows.len(), end.as_str()),
            (994, "SELECT 994"),
            "the scan's snapshot does not move"
        );
        assert_eq!(execute(&mut conn, "p", 0).expect("run"), (vec![], "SELECT 0".into()));
        conn.fail();
        conn.sync().expect("sync");
        conn.close_statement("s").expect("close");
    }
    conn.close();
    scratch.stop();
}

#[test]
fn a_table_is_not_dropped_under_a_portal() {
    let scratch = Scratch::new();
    let mut conn = scratch.connect();
    support::run(
        &mut conn,
        "create table t (a int); insert into t values (1), (2); create table other (a int)",
    );
    for rows in [0, 1, 9] {
        support::run(&mut conn, "begin");
        conn.parse("", "select a from t", &[]).expect("parse");
        conn.bind("p", "", &[], &[], &[]).expect("bind");
        if rows > 0 {
            execute(&mut conn, "p", rows).expect("run");
        }
        assert_eq!(
            support::run(&mut conn, "drop table other")[0],
            "= DROP TABLE",
            "no portal reads it"
        );
        let refused = support::run(&mut conn, "drop table t").join("; ");
        assert!(
            refused.contains("55006")
                && refused
                    .contains("\"t\" because it is being used by active queries in this session"),
            "{refused}"
        );
        support::run(&mut conn, "rollback");
    }
    // A query string ends the unnamed portal, and who closes a portal may drop its table.
    support::run(&mut conn, "begin");
    conn.parse("", "select a from t", &[]).expect("parse");
    for portal in ["p", ""] {
        conn.bind(portal, "", &[], &[], &[]).expect("bind");
    }
    conn.close_portal("p").expect("close");
    assert_eq!(support::run(&mut conn, "drop table t")[0], "= DROP TABLE");
    assert!(conn.bind("", "", &[], &[], &[]).is_err(), "the unnamed statement is gone as well");
    conn.close();
    scratch.stop();
}

/// In binary form a regclass is its OID, in text form its name.
#[test]
fn names_of_rows_are_oids_in_binary_form() {
    let scratch = Scratch::new();
    let mut conn = scratch.connect();
    let query = "select 'pg_class'::regclass, 23::regtype, typinput from pg_type where oid = 23";
    conn.parse("", query, &[]).expect("parse");
    for (formats, expected) in [
        (&[1_i16][..], "| \\x00\\x00\\x04\\xeb\t\\x00\\x00\\x00\\x17\t\\x00\\x00\\x00*"),
        (&[0, 1, 0], "| pg_class\t\\x00\\x00\\x00\\x17\tint4in"),
        (&[], "| pg_class\tinteger\tint4in"),
    ] {
        conn.bind("", "", &[], &[], formats).expect("bind");
        let (rows, _) = execute(&mut conn, "", 0).expect("run");
        assert_eq!(rows, [expected]);
    }
    support::run(&mut conn, "begin");
    let declare = "declare c binary cursor for select 'pg_class'::regclass";
    assert_eq!(support::run(&mut conn, declare)[0], "= DECLARE CURSOR");
    assert_eq!(support::run(&mut conn, "fetch c")[1], "| \\x00\\x00\\x04\\xeb");
    support::run(&mut conn, "create table named (a regclass)");
    support::run(&mut conn, "insert into named values ('pg_class')");
    for (copy, data) in [
        ("copy named to stdout", "pg_class"),
        ("copy named to stdout (format binary)", "\\x00\\x00\\x00\\x04\\x00\\x00\\x04\\xeb"),
        ("copy (select * from named) to stdout (format binary)", "\\x00\\x00\\x04\\xeb"),
    ] {
        let lines = support::run(&mut conn, copy);
        assert!(lines.iter().any(|line| line.contains(data)), "{copy}: {lines:?}");
    }
    conn.close();
    scratch.stop();
}

#[test]
fn sync_commits_and_errors_abort() {
    let scratch = Scratch::new();
    let mut conn = scratch.connect();
    let mut other = scratch.connect();
    support::run(&mut conn, "create table t (a int)");
    let count = |conn: &mut Connection| support::run(conn, "select count(*) from t")[1].clone();
    conn.parse("ins", "insert into t values ($1)", &[]).expect("parse");
    conn.bind("", "ins", &[1], &[Some(&7i32.to_be_bytes())], &[]).expect("bind");
    execute(&mut conn, "", 0).expect("run");
    assert_eq!(count(&mut other), "| 0", "not committed before Sync");
    conn.sync().expect("sync");
    assert_eq!(count(&mut other), "| 1");
    conn.bind("", "ins", &[], &[Some(b"8")], &[]).expect("bind");
    execute(&mut conn, "", 0).expect("run");
    let e = conn.bind("", "ins", &[], &[Some(b"x")], &[]).expect_err("no number");
    assert_eq!(e.sqlstate, "22P02");
    assert_eq!(e.context.as_deref(), Some("unnamed portal parameter $1 = '...'"));
    conn.sync().expect("sync");
    assert_eq!(count(&mut other), "| 1", "the error took the other row back");
    let e = execute(&mut conn, "", 0).expect_err("portals end with their transaction");
    assert_eq!((e.sqlstate, e.message.as_str()), ("34000", "portal \"\" does not exist"));
    let e = conn.bind("", "nosuch", &[], &[], &[]).expect_err("no statement");
    assert_eq!(
        (e.sqlstate, e.message.as_str()),
        ("26000", "prepared statement \"nosuch\" does not exist")
    );
    let e = conn.bind("", "ins", &[], &[], &[]).expect_err("no parameter");
    assert_eq!(e.sqlstate, "08P01");
    let e = conn.bind("", "ins", &[1], &[Some(b"xyz")], &[]).expect_err("three bytes");
    assert_eq!((e.sqlstate, e.message.as_str()), ("08P01", "insufficient data left in message"));
    let e = conn.bind("", "ins", &[1], &[Some(b"vwxyz")], &[]).expect_err("five bytes");
    let message = "incorrect binary data format in bind parameter 1";
    assert_eq!((e.sqlstate, e.message.as_str()), ("22P03", message));
    let e = conn.parse("ins", "select 1", &[]).expect_err("taken");
    assert_eq!(e.sqlstate, "42P05");
    conn.close();
    other.close();
    scratch.stop();
}

#[test]
fn arrays_come_as_text_and_as_binary() {
    let scratch = Scratch::new();
    let mut conn = scratch.connect();
    support::run(&mut conn, "create table t (a int primary key, b text)");
    support::run(&mut conn, "insert into t select x, 'row ' || x from generate_series(1, 1000) x");
    support::run(&mut conn, "analyze t");
    let array = |element: u32, items: &[Option<&[u8]>]| {
        let head = [1, 1, element as i32, items.len() as i32, 1];
        let mut bytes: Vec<u8> = head.iter().flat_map(|n: &i32| n.to_be_bytes()).collect();
        for item in items {
            let size = item.map_or(-1, |item| item.len() as i32);
            bytes.extend(size.to_be_bytes());
            bytes.extend(item.unwrap_or_default());
        }
        bytes
    };
    let ints = array(23, &[Some(&7i32.to_be_bytes()), None, Some(&900i32.to_be_bytes())]);
    let texts = array(25, &[Some(b"row 7"), Some(b"x,\"y")]);
    let by_key = "select a from t where a = any($1) order by a";
    let others = "select count(*) from t where b <> all($1)";
    for (sql, format, value, expected) in [
        (by_key, 0, &b"{900,7,null,7}"[..], vec!["| 7", "| 900"]),
        (by_key, 1, &ints, vec!["| 7", "| 900"]),
        (by_key, 0, b"{}", vec![]),
        ("select a from t where b = any($1)", 1, &texts, vec!["| 7"]),
        (others, 0, b"{row 7,\"row 8\"}", vec!["| 998"]),
        (others, 0, b"{row 7,null}", vec!["| 0"]),
    ] {
        conn.parse("", sql, &[]).expect("parse");
        conn.bind("", "", &[format], &[Some(value)], &[]).expect("bind");
        assert_eq!(execute(&mut conn, "", 0).expect("run").0, expected, "{sql}");
    }
    conn.parse("", by_key, &[]).expect("parse");
    conn.bind("", "", &[], &[None], &[]).expect("bind");
    assert!(execute(&mut conn, "", 0).expect("run").0.is_empty(), "NULL is no array");
    let e = conn.bind("", "", &[1], &[Some(&texts)], &[]).expect_err("an array of texts");
    assert_eq!(e.sqlstate, "42804");
    conn.sync().expect("sync");
    conn.parse("", by_key, &[]).expect("parse");
    conn.bind("", "", &[0], &[Some(b"{{1},{2}}")], &[]).expect("two dimensions");
    assert_eq!(execute(&mut conn, "", 0).expect("run").0, ["| 1", "| 2"]);
    conn.sync().expect("sync");
    conn.close();
    scratch.stop();
}

#[test]
fn a_failed_block_takes_only_its_end() {
    let scratch = Scratch::new();
    let mut conn = scratch.connect();
    conn.parse("roll", "rollback", &[]).expect("parse");
    conn.parse("one", "select 1", &[]).expect("parse");
    conn.sync().expect("sync");
    support::run(&mut conn, "begin");
    support::run(&mut conn, "select 1/0");
    assert_eq!(conn.transaction_status(), TransactionStatus::Failed);
    assert_eq!(conn.parse("", "select 1", &[]).expect_err("failed").sqlstate, "25P02");
    assert_eq!(conn.bind("", "one", &[], &[], &[]).expect_err("failed").sqlstate, "25P02");
    conn.sync().expect("sync");
    assert_eq!(conn.transaction_status(), TransactionStatus::Failed);
    conn.bind("", "roll", &[], &[], &[]).expect("bind");
    assert_eq!(execute(&mut conn, "", 0).expect("run").1, "ROLLBACK");
    assert_eq!(conn.transaction_status(), TransactionStatus::Idle);
    conn.close();
    scratch.stop();
}

#[test]
fn a_plan_follows_its_table() {
    let scratch = Scratch::new();
    let mut conn = scratch.connect();
    support::run(&mut conn, "create table t (a int); insert into t values (1)");
    conn.parse("s", "select * from t", &[]).expect("parse");
    conn.parse("c", "select count(*) from t", &[]).expect("parse");
    conn.sync().expect("sync");
    support::run(&mut conn, "drop table t; create table t (a int); insert into t values (2), (3)");
    conn.bind("", "s", &[], &[], &[]).expect("bind");
    assert_eq!(execute(&mut conn, "", 0).expect("run").0, ["| 2", "| 3"]);
    conn.sync().expect("sync");
    support::run(
        &mut conn,
        "drop table t; create table t (a int, b int); insert into t values (4)",
    );
    conn.bind("", "c", &[], &[], &[]).expect("bind");
    assert_eq!(execute(&mut conn, "", 0).expect("run").0, ["| 1"]);
    let e = conn.bind("", "s", &[], &[], &[]).expect_err("other columns");
    assert_eq!(e.message, "cached plan must not change result type");
    conn.sync().expect("sync");
    support::run(&mut conn, "drop table t");
    let e = conn.bind("", "c", &[], &[], &[]).expect_err("gone");
    assert_eq!((e.sqlstate, e.position), ("42P01", Some(22)));
    conn.close();
    scratch.stop();
}

#[test]
fn types_are_named_for_clients() {
    let mut conn = support::without_tables();
    let got = support::run(
        &mut conn,
        "select format_type(23, -1), format_type(1184, -1), format_type(1, -1)",
    );
    assert_eq!(got[1], "| integer\ttimestamp with time zone\t???");
}

/// The messages a sink got, but for rows and columns.
fn notices(sink: &Recorder) -> Vec<&str> {
    sink.lines.iter().filter(|line| line.contains("WARNING")).map(String::as_str).collect()
}

#[test]
fn io_left_open_is_warned_of() {
    let scratch = Scratch::new();
    let mut conn = scratch.connect();
    let leak = |conn: &mut Connection| {
        drop(conn.session().expect("session").io().acquire().expect("a handle"))
    };
    let leaked = "leaked AIO handle";

    // What its functions are has been looked up.
    support::run_with_data(&mut conn, "SELECT 1 / 0", &[]);
    // Simple: at the end of the statement, in a block or not, before its CommandComplete; once.
    for sql in ["SELECT 1", "BEGIN", "SELECT 1", "ROLLBACK"] {
        leak(&mut conn);
        let lines = support::run_with_data(&mut conn, sql, &[]);
        let at = lines
            .iter()
            .position(|line| line.contains(leaked))
            .unwrap_or_else(|| panic!("{sql}: {lines:?}"));
        assert!(lines[at].contains("WARNING") && lines[at].contains("01000"), "{lines:?}");
        assert!(lines[at + 1].starts_with("= "), "{lines:?}");
        let again = support::run_with_data(&mut conn, "SELECT 2", &[]);
        assert!(!again.concat().contains(leaked), "{again:?}");
    }

    // A batch: where the transaction ends.
    conn.session().expect("session").io().begin_batch();
    let lines = support::run_with_data(&mut conn, "SELECT 1", &[]);
    assert!(lines.concat().contains("open AIO batch at end of (sub-)transaction"), "{lines:?}");

    // After an error there was no time to close anything.
    leak(&mut conn);
    conn.session().expect("session").io().begin_batch();
    let lines = support::run_with_data(&mut conn, "SELECT 1 / 0", &[]);
    assert!(!lines.concat().contains("AIO"), "{lines:?}");
    assert!(!conn.session().expect("session").io().in_batch());
    assert!(!support::run_with_data(&mut conn, "SELECT 1", &[]).concat().contains("AIO"));

    // Extended: with the Execute; the batch after the Sync.
    let mut sink = Recorder::default();
    leak(&mut conn);
    conn.session().expect("session").io().begin_batch();
    conn.parse("", "SELECT 1", &[]).expect("parse");
    conn.bind("", "", &[], &[], &[]).expect("bind");
    conn.execute("", 0, &mut sink).map(drop).expect("execute");
    assert!(matches!(notices(&sink)[..], [one] if one.contains(leaked)), "{:?}", sink.lines);
    conn.sync().expect("sync");
    conn.send_warnings(&mut sink).expect("warnings");
    assert!(
        matches!(notices(&sink)[..], [_, two] if two.contains("open AIO batch")),
        "{:?}",
        sink.lines
    );
    drop(conn);
    scratch.stop();
}

/// Binds and executes the prepared statement: its rows, or its error.
fn run_prepared(conn: &mut Connection) -> Result<Vec<String>, (String, String)> {
    let run = |conn: &mut Connection| {
        conn.bind("", "s", &[], &[], &[])?;
        execute(conn, "", 0)
    };
    let result = run(conn);
    if result.is_err() {
        conn.fail();
    }
    conn.sync().expect("sync");
    result.map(|(rows, _)| rows).map_err(|e| (e.sqlstate.to_string(), e.message.to_string()))
}

#[test]
fn a_prepared_statement_follows_checks_and_names() {
    let scratch = Scratch::new();
    let mut conn = scratch.connect();
    support::run(&mut conn, "create table t (a int primary key, b int default 1)");
    conn.parse("s", "insert into t (a) values (1) returning b", &[]).expect("parse");
    conn.sync().expect("sync");
    assert_eq!(run_prepared(&mut conn).expect("run"), ["| 1"]);
    let refused = |code: &str, message: &str| Err((code.to_owned(), message.to_owned()));
    support::run(&mut conn, "alter table t rename constraint t_pkey to k");
    let message = "duplicate key value violates unique constraint \"k\"";
    assert_eq!(run_prepared(&mut conn), refused("23505", message));
    support::run(&mut conn, "delete from t; alter table t add constraint c check (a > 1)");
    let message = "new row for relation \"t\" violates check constraint \"c\"";
    assert_eq!(run_prepared(&mut conn), refused("23514", message));
    support::run(&mut conn, "alter table t drop constraint c; alter table t alter b set default 2");
    assert_eq!(run_prepared(&mut conn).expect("run"), ["| 2"]);
    conn.close();
    scratch.stop();
}

#[test]
fn a_prepared_statement_follows_the_names_of_relations() {
    let scratch = Scratch::new();
    let mut conn = scratch.connect();
    support::run(&mut conn, "create sequence s; create table t (a int default nextval('s'))");
    conn.parse("s", "select nextval('s')", &[]).expect("parse");
    conn.sync().expect("sync");
    assert_eq!(run_prepared(&mut conn).expect("run"), ["| 1"]);
    support::run(&mut conn, "alter sequence s rename to old; create sequence s start 100");
    assert_eq!(run_prepared(&mut conn).expect("run"), ["| 100"]);
    // A stored default keeps the sequence that it was made for.
    assert_eq!(support::run(&mut conn, "insert into t values (default) returning a")[1], "| 2");
    support::run(&mut conn, "drop sequence s");
    let missing = "relation \"s\" does not exist".to_owned();
    assert_eq!(run_prepared(&mut conn), Err(("42P01".to_owned(), missing)));
    support::run(&mut conn, "create sequence s start 7");
    assert_eq!(run_prepared(&mut conn).expect("run"), ["| 7"]);
    conn.close();
    scratch.stop();
}
