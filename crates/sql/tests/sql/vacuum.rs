//! VACUUM and COPY FREEZE, with PostgreSQL 18's answers.

use crate::fixture::{open, rows};
use crate::support;

const BLOCK: &str = "! ERROR 25001 VACUUM cannot run inside a transaction block";

#[test]
fn options_are_refused_as_postgresql_refuses_them() {
    let mut fixture = open("");
    fixture.rows("create table t (a int8, b text)");
    for (sql, error) in [
        ("vacuum (nothing) t", "42601 unrecognized VACUUM option \"nothing\""),
        ("vacuum (freeze maybe) t", "42601 freeze requires a Boolean value"),
        ("vacuum (freeze 2) t", "42601 freeze requires a Boolean value"),
        ("vacuum (parallel) t", "42601 parallel option requires a value between 0 and 1024"),
        ("vacuum (parallel -1)", "42601 parallel workers for vacuum must be between 0 and 1024"),
        ("vacuum (parallel 2000)", "42601 parallel workers for vacuum must be between 0 and 1024"),
        ("vacuum (index_cleanup maybe)", "42601 index_cleanup requires a Boolean value"),
        (
            "vacuum (only_database_stats) t",
            "0A000 ONLY_DATABASE_STATS cannot be specified with a list of tables",
        ),
        (
            "vacuum (only_database_stats, freeze)",
            "0A000 ONLY_DATABASE_STATS cannot be specified with other VACUUM options",
        ),
        ("vacuum t (a)", "0A000 ANALYZE option must be specified when a column list is provided"),
        ("vacuum nothere", "42P01 relation \"nothere\" does not exist"),
        ("vacuum nosuch.t", "3F000 schema \"nosuch\" does not exist"),
        ("vacuum () t", "42601 syntax error at or near \")\""),
        ("vacuum (full, parallel 1) t", "0A000 VACUUM FULL cannot be performed in parallel"),
        (
            "vacuum (full, buffer_usage_limit '1MB') t",
            "0A000 BUFFER_USAGE_LIMIT cannot be specified for VACUUM FULL",
        ),
        (
            "vacuum (full, disable_page_skipping) t",
            "0A000 VACUUM option DISABLE_PAGE_SKIPPING cannot be used with FULL",
        ),
        ("vacuum (full, process_toast off) t", "0A000 PROCESS_TOAST required with VACUUM FULL"),
        (
            "vacuum (full, only_database_stats)",
            "0A000 ONLY_DATABASE_STATS cannot be specified with other VACUUM options",
        ),
        // What PostgreSQL has besides.
        (
            "vacuum full pg_class",
            "0A000 cannot rewrite relation \"pg_class\": system catalogs stay where they are",
        ),
        (
            "vacuum (buffer_usage_limit 127) t",
            "22023 BUFFER_USAGE_LIMIT option must be 0 or between 128 kB and 16777216 kB",
        ),
        (
            "vacuum (buffer_usage_limit '17 GB') t",
            "22023 BUFFER_USAGE_LIMIT option must be 0 or between 128 kB and 16777216 kB",
        ),
        (
            "vacuum (buffer_usage_limit 'much') t",
            "22023 BUFFER_USAGE_LIMIT option must be 0 or between 128 kB and 16777216 kB",
        ),
        ("vacuum (buffer_usage_limit) t", "42601 buffer_usage_limit requires a parameter"),
    ] {
        let lines = support::run(&mut fixture.conn, sql);
        assert_eq!(lines[0], format!("! ERROR {error}"), "{sql}");
    }
    fixture.close();
}

#[test]
fn options_are_taken_as_postgresql_takes_them() {
    let mut fixture = open("");
    fixture.rows("create table t (a int8, b text)");
    for sql in [
        "vacuum",
        "vacuum freeze t",
        "vacuum full t",
        "vacuum full freeze analyze t",
        "vacuum (full, analyze, buffer_usage_limit '1MB', parallel 0, process_main off) t",
        "vacuum t, t",
        "vacuum (only_database_stats, verbose)",
        "vacuum (buffer_usage_limit '1MB') t",
        "vacuum (buffer_usage_limit 0, freeze) t",
        "vacuum (buffer_usage_limit 16777216) t",
        "vacuum (full off, analyze false, index_cleanup auto, parallel 2, process_toast 0) t",
        "vacuum (freeze on, freeze off, truncate 'off', skip_locked, skip_database_stats)",
    ] {
        assert_eq!(support::run(&mut fixture.conn, sql), ["= VACUUM", "Z I"], "{sql}");
    }
    fixture.close();
}

#[test]
fn it_runs_alone() {
    let mut fixture = open("");
    fixture.rows("create table t (a int8)");
    fixture.rows("begin");
    assert_eq!(support::run(&mut fixture.conn, "vacuum t")[0], BLOCK);
    fixture.rows("rollback");
    let lines = support::run(&mut fixture.conn, "select 1; vacuum t");
    assert!(lines.contains(&BLOCK.to_owned()), "{lines:?}");
    let lines = support::run(&mut fixture.conn, "vacuum t; select 1");
    assert_eq!(lines[0], BLOCK);
    fixture.close();
}

#[test]
fn full_gives_tables_new_files_and_says_so() {
    let mut fixture = open("");
    fixture.rows("create table t (a int8 primary key, b text)");
    fixture.rows("create temporary table own (a int8, b text)");
    let file = "select relfilenode, relpages from pg_class where relname = 't'";
    for table in ["t", "own"] {
        let long = "case when g % 100 = 0 then repeat('long', 5000) else 'some text' end";
        fixture
            .rows(&format!("insert into {table} select g, {long} from generate_series(1, 5000) g"));
        fixture.rows(&format!("delete from {table} where a > 1000"));
    }
    let before = fixture.rows(file);
    for table in ["t", "own"] {
        let lines = support::run(&mut fixture.conn, &format!("vacuum (full, verbose) {table}"));
        let schema = if table == "t" { "public" } else { "pg_temp_0" };
        assert_eq!(lines[0], format!("~ INFO 00000 vacuuming \"{schema}.{table}\""));
        let found = "found 4000 removable, 1000 nonremovable row versions in";
        assert!(lines[1].contains(found), "{lines:?}");
        let detail = "0 dead row versions cannot be removed yet.";
        assert!(lines[2].contains(detail), "{lines:?}");
        let sums = format!("select count(*), sum(a), sum(length(b)) from {table}");
        assert_eq!(fixture.rows(&sums), ["1000\t500500\t208910"]);
    }
    let after = fixture.rows(file);
    assert_ne!(before, after);
    assert!(after[0].ends_with("\t7"), "{after:?}");
    assert_eq!(fixture.rows("select b from t where a = 7"), ["some text"]);
    fixture.rows("insert into t values (5001, 'new')");
    // All of them; catalogs stay.
    let lines = support::run(&mut fixture.conn, "vacuum full");
    assert!(lines[0].contains("WARNING 0A000 vacuuming"), "{lines:?}");
    assert!(lines[0].contains("system catalogs without FULL"), "{lines:?}");
    assert_ne!(fixture.rows(file), after);
    assert_eq!(fixture.rows("select count(*), max(a) from t"), ["1001\t5001"]);
    // Somebody else uses the table.
    let mut other = fixture.connect();
    rows(&mut other, "begin");
    rows(&mut other, "select count(*) from t");
    let lines = support::run(&mut fixture.conn, "vacuum (full, skip_locked) t");
    assert_eq!(lines[0], "~ WARNING 55P03 skipping vacuum of \"t\" --- lock not available");
    rows(&mut other, "commit");
    fixture.rows("begin");
    assert_eq!(support::run(&mut fixture.conn, "vacuum full t")[0], BLOCK);
    fixture.rows("rollback");
    fixture.close();
}

#[test]
fn dead_rows_go_and_it_says_so() {
    let mut fixture = open("");
    fixture.rows("create table t (a int8, b text)");
    fixture.rows("insert into t select g, 'some text' from generate_series(1, 5000) g");
    fixture.rows("delete from t where a > 1000");
    let lines = support::run(&mut fixture.conn, "vacuum verbose t");
    let told = lines.iter().filter(|line| line.starts_with("~ INFO")).collect::<Vec<_>>();
    assert_eq!(told[0], "~ INFO 00000 vacuuming \"postgres.public.t\"");
    let report = lines.join("\n");
    for part in [
        "INFO 00000 table \"t\": truncated",
        "finished vacuuming \"postgres.public.t\": index scans: 0",
        "tuples: 4000 removed, 1000 remain, 0 are dead but not yet removable",
        "index scan not needed: 0 pages from table (0.00% of total) had 0 dead item identifiers",
    ] {
        assert!(report.contains(part), "{part} in\n{report}");
    }
    let figures = "select reltuples, relpages < 12, relallvisible = relpages from pg_class \
                   where relname = 't'";
    assert_eq!(fixture.rows(figures), ["1000\tt\tt"]);
    // An older snapshot keeps what it sees.
    let mut other = fixture.connect();
    rows(&mut other, "begin isolation level repeatable read");
    assert_eq!(rows(&mut other, "select count(*) from t"), ["1000"]);
    fixture.rows("delete from t");
    let report = support::run(&mut fixture.conn, "vacuum (verbose) t").join("\n");
    assert!(report.contains("1000 are dead but not yet removable"), "{report}");
    assert_eq!(rows(&mut other, "select count(*) from t"), ["1000"]);
    rows(&mut other, "commit");
    other.close();
    fixture.rows("vacuum t");
    assert_eq!(fixture.rows("select relpages from pg_class where relname = 't'"), ["0"]);
    fixture.close();
}

#[test]
fn dead_rows_go_from_indexes_before_their_places_are_used_again() {
    let mut fixture = open("");
    fixture.rows("create table t (a int8 primary key, b text)");
    fixture.rows("create index t_b on t (b)");
    fixture.rows("insert into t select g, 'text ' || g from generate_series(1, 10000) g");
    fixture.rows("delete from t where a % 2 = 0");
    let by_index = "select count(*), min(a), max(a) from t where a between 1 and 100000";
    let report = support::run(&mut fixture.conn, "vacuum verbose t").join("\n");
    for part in [
        "finished vacuuming \"postgres.public.t\": index scans: 1",
        "tuples: 5000 removed, 5000 remain, 0 are dead but not yet removable",
        "(100.00% of total) had 5000 dead item identifiers removed",
        "index \"t_pkey\": pages: ",
        "index \"t_b\": pages: ",
    ] {
        assert!(report.contains(part), "{part} in\n{report}");
    }
    let figures = "select relname, reltuples from pg_class where relname like 't%' order by 1";
    let figures = |fixture: &mut crate::fixture::Fixture| fixture.rows(figures);
    assert_eq!(figures(&mut fixture), ["t\t5000", "t_b\t5000", "t_pkey\t5000"]);
    fixture.rows("insert into t select g, 'new ' || g from generate_series(20002, 30000, 2) g");
    assert_eq!(fixture.rows("select b from t where a = 20002"), ["new 20002"]);
    assert_eq!(fixture.rows("select count(*) from t where a = 2"), ["0"]);
    assert_eq!(fixture.rows(by_index), ["10000\t1\t30000"]);
    // Of a few pages, they stay.
    fixture.rows("delete from t where a < 10");
    for (options, scans, words) in [
        ("verbose", 0, "index scan bypassed: 1 pages from table ("),
        ("verbose, index_cleanup off", 0, "index scan bypassed: 1 pages from table ("),
        ("verbose, index_cleanup", 0, ") have 5 dead item identifiers"),
        ("verbose, index_cleanup 'ON'", 1, ") had 5 dead item identifiers removed"),
    ] {
        let report = support::run(&mut fixture.conn, &format!("vacuum ({options}) t")).join("\n");
        let scans = format!("index scans: {scans}");
        assert!(report.contains(&scans) && report.contains(words), "{options}: {report}");
        assert_eq!(fixture.rows(by_index), ["9995\t11\t30000"]);
    }
    fixture.rows("insert into t select g, 'again' from generate_series(2, 10) g");
    assert_eq!(fixture.rows(by_index), ["10004\t2\t30000"]);
    fixture.rows("update t set b = 'same'");
    fixture.rows("vacuum t");
    assert_eq!(fixture.rows("select count(*) from t where b = 'same'"), ["10004"]);
    assert_eq!(figures(&mut fixture), ["t\t10004", "t_b\t10004", "t_pkey\t10004"]);
    fixture.close();
}

#[test]
fn a_table_has_parameters_of_its_own() {
    let mut fixture = open("");
    fixture.rows(
        "create table t (a int8 primary key) \
         with (vacuum_truncate = off, vacuum_index_cleanup = off)",
    );
    fixture.rows("insert into t select g from generate_series(1, 5000) g");
    fixture.rows("delete from t where a > 10");
    let pages = "select pg_relation_size('t') / 8192";
    let before = fixture.rows(pages);
    let report = support::run(&mut fixture.conn, "vacuum verbose t").join("\n");
    assert!(report.contains("index scan bypassed"), "{report}");
    assert_eq!(fixture.rows(pages), before);
    // What a statement says comes first.
    let report = support::run(&mut fixture.conn, "vacuum (verbose, index_cleanup on, truncate) t");
    assert!(report.join("\n").contains("index scans: 1"), "{report:?}");
    assert_eq!(fixture.rows(pages), ["1"]);
    fixture.close();
}

#[test]
fn copy_freezes_rows_of_its_own_table_only() {
    let mut fixture = open("");
    let conn = &mut fixture.conn;
    rows(conn, "create table t (a int8)");
    let created = "cannot perform COPY FREEZE because the table was not created or truncated in \
                   the current subtransaction";
    let lines = support::run(conn, "copy t from stdin (freeze)");
    assert_eq!(lines[0], format!("! ERROR 55000 {created}"));
    let lines = support::run(conn, "copy t to stdout (freeze)");
    assert_eq!(lines[0], "! ERROR 22023 COPY FREEZE cannot be used with COPY TO");
    let lines = support::run(conn, "copy t from stdin (freeze maybe)");
    assert_eq!(lines[0], "! ERROR 42601 freeze requires a Boolean value");
    for make in ["create table u (a int8)", "truncate u"] {
        rows(conn, "begin");
        rows(conn, make);
        let data = ["1\\n2\\n3\\n".to_owned()];
        let lines = support::run_with_data(conn, "copy u from stdin with (freeze)", &data);
        assert!(lines.contains(&"= COPY 3".to_owned()), "{lines:?}");
        rows(conn, "savepoint a");
        let lines = support::run(conn, "copy u from stdin with (freeze)");
        assert_eq!(lines[0], format!("! ERROR 55000 {created}"));
        rows(conn, "rollback to a");
        assert_eq!(rows(conn, "select count(*) from u"), ["3"]);
        rows(conn, "commit");
        let report = support::run(conn, "vacuum verbose u").join("\n");
        assert!(report.contains("visibility map: 0 pages set all-visible"), "{report}");
    }
    // A query that is open may have an older snapshot.
    rows(conn, "begin");
    rows(conn, "create table w (a int8)");
    rows(conn, "declare c cursor for select 1");
    let lines = support::run(conn, "copy w from stdin (freeze)");
    let prior = "cannot perform COPY FREEZE because of prior transaction activity";
    assert_eq!(lines[0], format!("! ERROR 25000 {prior}"));
    rows(conn, "rollback");
    fixture.close();
}

#[test]
fn temporary_tables_and_the_extended_protocol() {
    let mut fixture = open("");
    fixture.rows("create temp table t (a int8)");
    fixture.rows("insert into t select g from generate_series(1, 5000) g");
    fixture.rows("delete from t where a > 100");
    let report = support::run(&mut fixture.conn, "vacuum verbose t").join("\n");
    assert!(report.contains("tuples: 4900 removed, 100 remain"), "{report}");
    assert_eq!(fixture.rows("select count(*) from t"), ["100"]);
    // Another session leaves it alone.
    let mut other = fixture.connect();
    let report = support::run(&mut other, "vacuum verbose").join("\n");
    assert!(!report.contains("pg_temp"), "{report}");
    other.close();

    let mut sink = support::Recorder::default();
    let conn = &mut fixture.conn;
    conn.parse("", "vacuum t", &[]).expect("parse");
    conn.bind("", "", &[], &[], &[]).expect("bind");
    assert!(conn.execute("", 0, &mut sink).is_ok());
    conn.sync().expect("sync");
    assert_eq!(rows(conn, "select count(*) from t"), ["100"]);
    fixture.close();
}
