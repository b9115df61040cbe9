//! Temporary tables, against answers recorded from PostgreSQL 18; and what other sessions and stops
//! make of them.

use crate::fixture::{Fixture, open, rows};
use crate::support;
use forebay_engine::ShutdownMode;

#[test]
fn answers_as_postgresql_does() {
    let mut fixture = open("");
    let golden = include_str!("../golden/temporary.txt");
    assert!(support::cases(golden).len() > 80, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Files of relations, but for the catalogs'.
fn files(fixture: &Fixture) -> Vec<String> {
    let names = std::fs::read_dir(fixture.dir().join("base/5")).expect("directory");
    let mut names: Vec<String> = names
        .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    let number = |name: &str| name.rsplit('_').next().and_then(|n| n.parse::<u32>().ok());
    names.retain(|name| name.starts_with('t') || number(name).is_some_and(|n| n >= 16_384));
    names.sort();
    names
}

const TEMPORARY: &str =
    "select relname from pg_class where relpersistence = 't' and relkind = 'r' order by relname";

#[test]
fn other_sessions_neither_see_nor_reach_them() {
    let mut fixture = open("");
    let mut other = fixture.connect();
    fixture.rows("create temp table t (a int)");
    fixture.rows("insert into t values (1)");
    rows(&mut other, "create temp table t (b text)");
    rows(&mut other, "insert into t values ('theirs')");
    assert_eq!(fixture.rows("select * from t"), ["1"]);
    assert_eq!(rows(&mut other, "select * from t"), ["theirs"]);
    assert_eq!(fixture.rows(TEMPORARY), ["t", "t"]);
    let refused = ["! ERROR 0A000 cannot access temporary tables of other sessions", "Z I"];
    for sql in ["select * from pg_temp_0.t", "copy pg_temp_0.t to stdout"] {
        assert_eq!(support::run(&mut other, sql)[1..], refused, "{sql}");
    }
    for sql in ["insert into pg_temp_0.t values (2)", "drop table pg_temp_0.t"] {
        assert_eq!(support::run(&mut other, sql), refused, "{sql}");
    }
    other.close();
    assert_eq!(fixture.rows(TEMPORARY), ["t"]);
    assert_eq!(fixture.rows("select * from t"), ["1"]);
    // The next session of that slot finds its schema there, and empty.
    let mut other = fixture.connect();
    rows(&mut other, "create temp table t (c int)");
    assert!(rows(&mut other, "select * from pg_temp_1.t").is_empty());
    other.close();
    assert_eq!(files(&fixture).len(), 1);
    fixture.close();
}

#[test]
fn a_table_beyond_the_buffers_is_read_back() {
    for direct in ["", "data"] {
        if direct == "data"
            && let Err(why) =
                forebay_aio::probe_direct(std::path::Path::new(env!("CARGO_TARGET_TMPDIR")))
        {
            println!("direct I/O is left out: {why}");
            continue;
        }
        let mut fixture = open(direct);
        fixture.rows("create temp table t (a int, b text)");
        let fill = "insert into t select generate_series, repeat('x', 1000) \
                    from generate_series(1, 20000)";
        fixture.rows(fill);
        let sums = "select count(*), sum(a), min(b) = repeat('x', 1000), \
                    max(b) = repeat('x', 1000) from t";
        for _ in 0..2 {
            assert_eq!(fixture.rows(sums), ["20000\t200010000\tt\tt"]);
        }
        assert_eq!(fixture.rows("select a from t where a > 19997"), ["19998", "19999", "20000"]);
        fixture.rows("begin");
        fixture.rows(fill);
        assert_eq!(fixture.rows("select count(*) from t"), ["40000"]);
        fixture.rows("rollback");
        assert_eq!(fixture.rows(sums), ["20000\t200010000\tt\tt"]);
        fixture.rows("discard temp");
        assert!(fixture.rows(TEMPORARY).is_empty());
        assert!(files(&fixture).is_empty());
        fixture.close();
    }
}

#[test]
fn nothing_is_left_after_the_session_or_a_stop() {
    for mode in [None, Some(ShutdownMode::Fast), Some(ShutdownMode::Immediate)] {
        let mut fixture = open("");
        fixture.rows("create table kept (a int)");
        fixture.rows("create temp table t (a int)");
        fixture.rows("create temp table u (a int) on commit delete rows");
        fixture.rows("insert into t select generate_series from generate_series(1, 5000)");
        fixture.rows("checkpoint");
        fixture.rows("begin");
        fixture.rows("create temp table v (a int)");
        fixture.rows("insert into v values (1)");
        assert_eq!((fixture.rows(TEMPORARY).len(), files(&fixture).len()), (3, 4));
        let mut fixture = match mode {
            Some(mode) => fixture.restart(mode),
            None => {
                let conn = fixture.connect();
                std::mem::replace(&mut fixture.conn, conn).close();
                fixture
            }
        };
        assert!(fixture.rows(TEMPORARY).is_empty(), "{mode:?}");
        assert_eq!(files(&fixture).len(), 1, "{mode:?}");
        fixture.rows("create temp table t (b text)");
        assert!(fixture.rows("select * from t").is_empty());
        fixture.close();
    }
}

#[test]
fn they_leave_no_rows_in_the_log() {
    let mut fixture = open("");
    fixture.rows("create temp table t (a int, b text)");
    // Not what makes segments ahead, which happens at any time.
    let written =
        "select sum(write_bytes) from pg_stat_io where object = 'wal' and context = 'normal'";
    let before = fixture.rows(written);
    fixture.rows("begin");
    fixture.rows(
        "insert into t select generate_series, repeat('x', 1000) from generate_series(1, 5000)",
    );
    fixture.rows("rollback");
    fixture.rows("checkpoint");
    let grown = |rows: Vec<String>| rows[0].parse::<u64>().expect("a number");
    let log = grown(fixture.rows(written)) - grown(before);
    assert!(log < 1_000_000, "{log} bytes of log for 5 MB that are not logged");
    fixture.close();
}

/// Files of temporary tables, with their sizes in blocks.
fn temp_files(fixture: &Fixture) -> Vec<(String, u64)> {
    let temporary = files(fixture).into_iter().filter(|name| name.starts_with('t'));
    let size = |name: &String| {
        let path = fixture.dir().join("base/5").join(name);
        std::fs::metadata(path).expect("a file").len() / 8192
    };
    temporary.map(|name| (name.clone(), size(&name))).collect()
}

#[test]
fn files_are_named_for_the_session_and_follow_its_transactions() {
    let mut fixture = open("");
    let mut other = fixture.connect();
    fixture.rows("create temp table t (a int)");
    rows(&mut other, "create temp table u (a int)");
    rows(&mut other, "insert into u values (1)");
    let node = |rows: Vec<String>| rows[0].clone();
    let t = node(fixture.rows("select relfilenode from pg_class where relname = 't'"));
    let u = node(fixture.rows("select relfilenode from pg_class where relname = 'u'"));
    assert_eq!(temp_files(&fixture), [(format!("t0_{t}"), 0), (format!("t1_{u}"), 1)]);
    // Others see the size, though not the rows.
    assert_eq!(fixture.rows(&format!("select pg_relation_size({u})")), ["8192"]);

    // Neither what was made in vain stays, nor what was dropped; what was dropped in vain does.
    fixture.rows("insert into t values (1)");
    fixture.rows("begin");
    fixture.rows("create temp table v (a int)");
    fixture.rows("insert into v values (1)");
    fixture.rows("drop table t");
    assert_eq!(temp_files(&fixture).len(), 3);
    fixture.rows("rollback");
    assert_eq!(temp_files(&fixture), [(format!("t0_{t}"), 1), (format!("t1_{u}"), 1)]);
    assert_eq!(fixture.rows("select a from t"), ["1"]);
    // A statement that fails has its transaction aborted.
    fixture.rows("begin");
    fixture.rows("create temp table v (a int)");
    assert!(
        support::run(&mut fixture.conn, "select 1 / 0").iter().any(|line| line.starts_with('!'))
    );
    fixture.rows("rollback");
    fixture.rows("drop table t");
    assert_eq!(temp_files(&fixture), [(format!("t1_{u}"), 1)]);
    other.close();
    assert_eq!(temp_files(&fixture), []);
    fixture.close();
}

#[test]
fn at_a_commit_rows_or_files_go_as_the_table_was_made() {
    let mut fixture = open("");
    fixture.rows("begin");
    fixture.rows("create temp table gone (a int) on commit drop");
    fixture.rows("create temp table emptied (a int) on commit delete rows");
    fixture.rows("create temp table kept (a int) on commit preserve rows");
    for table in ["gone", "emptied", "kept"] {
        fixture.rows(&format!(
            "insert into {table} select generate_series from generate_series(1, 1000)"
        ));
    }
    assert_eq!(temp_files(&fixture).iter().map(|(_, size)| *size).collect::<Vec<_>>(), [5, 5, 5]);
    fixture.rows("commit");
    assert_eq!(temp_files(&fixture).iter().map(|(_, size)| *size).collect::<Vec<_>>(), [0, 5]);
    assert_eq!(fixture.rows("select count(*) from emptied"), ["0"]);
    assert_eq!(fixture.rows("select sum(a) from kept"), ["500500"]);
    fixture.rows("insert into emptied values (7)");
    assert_eq!(
        fixture.rows("select count(*) from emptied"),
        ["0"],
        "each statement is a transaction"
    );
    fixture.rows("begin");
    fixture.rows("insert into emptied values (8)");
    assert_eq!(fixture.rows("select a from emptied"), ["8"]);
    fixture.rows("commit");
    assert_eq!(fixture.rows("select count(*) from emptied"), ["0"]);
    fixture.close();
}

#[test]
fn their_pages_are_the_sessions_own() {
    let mut fixture = open("");
    let io = "select sum(reads), sum(hits), sum(writes), sum(extends), sum(evictions) \
              from pg_stat_io \
              where object = 'temp relation' and backend_type = 'client backend' \
              and context = 'normal'";
    let numbers = |rows: Vec<String>| -> Vec<u64> {
        rows[0].split('\t').map(|n| n.parse().expect("a number")).collect()
    };
    assert_eq!(numbers(fixture.rows(io)), [0; 5]);
    fixture.rows("create temp table t (a int, b text)");
    fixture.rows(
        "insert into t select generate_series, repeat('x', 1000) from generate_series(1, 20000)",
    );
    assert_eq!(fixture.rows("select count(*) from t"), ["20000"]);
    assert_eq!(fixture.rows("select count(*) from t where a = 20000"), ["1"]);
    let counted = numbers(fixture.rows(io));
    assert!(counted.iter().all(|n| *n > 0), "{counted:?}");
    let node = fixture.rows("select relfilenode from pg_class where relname = 't'");
    let shared = format!("select count(*) from pg_buffercache where relfilenode = {}", node[0]);
    assert_eq!(fixture.rows(&shared), ["0"]);
    // A checkpoint leaves them alone.
    let before = numbers(fixture.rows(io));
    fixture.rows("checkpoint");
    assert_eq!(numbers(fixture.rows(io)), before);
    assert_eq!(
        fixture.rows("select pg_prewarm('t')"),
        fixture.rows("select pg_relation_size('t') / 8192")
    );
    assert_eq!(
        fixture.rows("select pg_prewarm('t', 'read')"),
        fixture.rows("select pg_prewarm('t', 'prefetch')")
    );
    fixture.close();
}
