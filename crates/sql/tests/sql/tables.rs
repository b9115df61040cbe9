//! Tables, transactions over them and COPY in all formats, against answers recorded from PostgreSQL
//! 18.

use crate::fixture::open;
use crate::support;
use forebay_engine::{Engine, EngineConfig, InitOptions, IoMethod, ShutdownMode};
use forebay_sql::Connection;

#[test]
fn answers_as_postgresql_does() {
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
    let engine = Engine::open(dir.path(), config).expect("open");
    let session = engine.session().expect("session");
    let mut conn =
        Connection::new(session, Box::new(support::FewSettings::new()), support::identity());
    let golden = include_str!("../golden/tables.txt");
    assert!(support::cases(golden).len() > 150, "too few cases were read");
    let wrong = support::differences(&mut conn, golden);
    conn.close();
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_fill_factor_leaves_room() {
    let mut fixture = open("");
    fixture.rows("create table half (a int) with (fillfactor = 50)");
    fixture.rows("create temp table tenth (a int) with (fillfactor = 10)");
    fixture.rows("create table full_ (a int)");
    let mut blocks = |table: &str| {
        fixture.rows(&format!("insert into {table} select x from generate_series(1, 20000) x"));
        let size = fixture.rows(&format!("select pg_relation_size('{table}') / 8192"));
        size[0].parse::<u64>().expect("a number")
    };
    let (half, tenth, full) = (blocks("half"), blocks("tenth"), blocks("full_"));
    fixture.close();
    assert_eq!(full, 89);
    assert!(half >= 2 * full - 2 && tenth > 9 * full, "{half} {tenth} {full}");
}

/// A check of a row for NULL is stored as PostgreSQL stores it, which looks at that when it checks
/// rows; what could not be checked is refused at once.
#[test]
fn checks_of_rows_are_stored_and_kept() {
    let mut fixture = open("");
    fixture.rows("create table t (a int, b int, constraint c check (row(a, b) is not null))");
    let stored = fixture.rows("select conbin::text from pg_constraint where conname = 'c'");
    assert!(stored[0].contains(":argisrow true"), "{stored:?}");
    fixture.rows("insert into t values (1, 1)");
    let refused = support::run(&mut fixture.conn, "insert into t values (1, null)");
    let expected = "! ERROR 23514 new row for relation \"t\" violates check constraint \"c\"";
    assert_eq!(refused[0], expected);
    for (column, what) in [
        ("a int check (row(a, row(a)) is null)", "a row constructor"),
        ("a int default case when row(row(1)) is null then 1 end", "a row constructor"),
        ("a int, b bool generated always as (row(row(a)) is null) stored", "a row constructor"),
    ] {
        let refused = support::run(&mut fixture.conn, &format!("create table u ({column})"));
        let expected = format!("! ERROR 0A000 {what} is not supported");
        assert_eq!(refused[0], expected, "{column}");
    }
    fixture.close();
}
