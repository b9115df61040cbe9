//! ANALYZE: what it says and stores, and that PostgreSQL 18 stores the same.

use crate::fixture::{Fixture, open, open_made, rows};
use crate::index_checks::damaged;
use crate::support;
use forebay_engine::ShutdownMode;
use forebay_testkit::peer::Peer;

/// What pg_statistic has of a table, without its arrays.
fn stored(fixture: &mut Fixture, table: &str) -> Vec<String> {
    let oid = fixture.rows(&format!("select oid from pg_class where relname = '{table}'"));
    fixture.rows(&format!(
        "select staattnum, stanullfrac, stawidth, stadistinct, stakind1, stakind2, stakind3 from \
         pg_statistic where starelid = {} order by staattnum",
        oid[0]
    ))
}

#[test]
fn options_are_refused_as_postgresql_refuses_them() {
    let mut fixture = open("");
    fixture.rows("create table t (a int8, b text)");
    let limit = "22023 BUFFER_USAGE_LIMIT option must be 0 or between 128 kB and 16777216 kB";
    for (sql, error) in [
        ("analyze (nothing) t", "42601 unrecognized ANALYZE option \"nothing\""),
        ("analyze (freeze) t", "42601 unrecognized ANALYZE option \"freeze\""),
        ("analyze (verbose maybe) t", "42601 verbose requires a Boolean value"),
        ("analyze (buffer_usage_limit 127) t", limit),
        ("analyze nothere", "42P01 relation \"nothere\" does not exist"),
        ("analyze t (c)", "42703 column \"c\" of relation \"t\" does not exist"),
        ("analyze t (a, a)", "42701 column \"a\" of relation \"t\" appears more than once"),
        (
            "vacuum (only_database_stats, analyze)",
            "0A000 ONLY_DATABASE_STATS cannot be specified with other VACUUM options",
        ),
    ] {
        let lines = support::run(&mut fixture.conn, sql);
        assert_eq!(lines[0], format!("! ERROR {error}"), "{sql}");
    }
    for (sql, tag) in [
        ("analyze", "ANALYZE"),
        ("analyse t", "ANALYZE"),
        ("analyze t, t (a)", "ANALYZE"),
        ("analyze (skip_locked, verbose off, buffer_usage_limit '1 MB') t (b, a)", "ANALYZE"),
        ("analyze pg_class, pg_statistic, pg_authid", "ANALYZE"),
        ("vacuum analyze", "VACUUM"),
        ("vacuum (analyze, freeze) t (a), t", "VACUUM"),
    ] {
        assert_eq!(support::run(&mut fixture.conn, sql), [format!("= {tag}"), "Z I".to_owned()]);
    }
    let lines = support::run(&mut fixture.conn, "analyze pg_stat_wal");
    let skipped = "skipping \"pg_stat_wal\" --- cannot analyze non-tables or special system tables";
    assert_eq!(lines[0], format!("~ WARNING 01000 {skipped}"));
    fixture.close();
}

#[test]
fn rows_are_counted_and_sampled() {
    let mut fixture = open("");
    fixture.rows("create table t (a int8 primary key, b text, c int4)");
    fixture.rows("insert into t select g, 'b' || g % 3, null from generate_series(1, 5000) g");
    fixture.rows("delete from t where a > 4000");
    let lines = support::run(&mut fixture.conn, "analyze verbose t");
    assert_eq!(lines[0], "~ INFO 00000 analyzing \"public.t\"");
    let pages = fixture.rows("select relpages from pg_class where relname = 't'");
    let pages = &pages[0];
    assert_eq!(
        lines[1],
        format!(
            "~ INFO 00000 \"t\": scanned {pages} of {pages} pages, containing 4000 live rows and \
             1000 dead rows; 4000 rows in sample, 4000 estimated total rows"
        )
    );
    assert!(lines[2].starts_with("~ INFO 00000 finished analyzing table \"postgres.public.t\""));
    let figures = "select relname, reltuples from pg_class where relname like 't%' order by 1";
    assert_eq!(fixture.rows(figures), ["t\t4000", "t_pkey\t4000"]);
    let all = ["1\t0\t8\t-1\t2\t3\t0", "2\t0\t3\t3\t1\t3\t0", "3\t1\t4\t0\t0\t0\t0"];
    assert_eq!(stored(&mut fixture, "t"), all);
    // Those of other columns stay.
    fixture.rows("update t set b = 'same', c = a");
    fixture.rows("analyze t (c)");
    assert_eq!(stored(&mut fixture, "t"), [all[0], all[1], "3\t0\t4\t-1\t2\t3\t0"]);
    // More rows than the sample has.
    fixture.rows("insert into t select g, 'same' from generate_series(10001, 40000) g");
    let lines = support::run(&mut fixture.conn, "analyze verbose t");
    assert!(lines[1].contains("containing 34000 live rows"), "{lines:?}");
    assert!(lines[1].contains("; 30000 rows in sample, 34000 estimated"), "{lines:?}");
    assert_eq!(stored(&mut fixture, "t")[1], "2\t0\t5\t1\t1\t3\t0");
    fixture.rows("drop table t");
    assert_eq!(fixture.rows("select count(*) from pg_statistic where starelid >= 16384"), ["0"]);
    fixture.close();
}

#[test]
fn in_a_block_it_is_part_of_the_transaction() {
    let mut fixture = open("");
    fixture.rows("begin");
    fixture.rows("create table t (a int4)");
    fixture.rows("insert into t select g from generate_series(1, 100) g");
    fixture.rows("delete from t where a > 90");
    let lines = support::run(&mut fixture.conn, "analyze verbose t");
    assert!(lines[1].contains("90 live rows and 10 dead rows"), "{lines:?}");
    fixture.rows("savepoint s");
    fixture.rows("insert into t values (1)");
    fixture.rows("analyze t");
    assert_eq!(stored(&mut fixture, "t")[0].split('\t').nth(3), Some("-0.989011"));
    fixture.rows("rollback to s");
    assert_eq!(stored(&mut fixture, "t")[0].split('\t').nth(3), Some("-1"));
    fixture.rows("commit");
    assert_eq!(stored(&mut fixture, "t").len(), 1);
    fixture.rows("begin");
    fixture.rows("lock table t in share update exclusive mode");
    let mut other = fixture.connect();
    let lines = support::run(&mut other, "analyze (skip_locked) t");
    let skipped = "skipping analyze of \"t\" --- lock not available";
    assert_eq!(lines[0], format!("~ WARNING 55P03 {skipped}"));
    // Rows that others insert are counted by those.
    fixture.rows("rollback");
    fixture.rows("begin");
    fixture.rows("insert into t values (1000)");
    fixture.rows("delete from t where a = 1");
    let lines = support::run(&mut other, "analyze verbose t");
    assert!(lines[1].contains("90 live rows and "), "{lines:?}");
    fixture.rows("commit");
    let lines = support::run(&mut other, "analyze verbose t; select 1");
    assert!(lines[1].contains("90 live rows and "), "{lines:?}");
    other.close();
    fixture.close();
}

#[test]
fn statistics_of_wide_values_fit_on_a_page() {
    let mut fixture = open("");
    fixture.rows("create table t (a text, b text)");
    fixture.rows(
        "insert into t select repeat('x', 300) || g, repeat('y', 1500) || g from \
         generate_series(1, 1000) g",
    );
    fixture.rows("analyze t");
    // Of the second column all values are too wide to be looked at.
    assert_eq!(stored(&mut fixture, "t"), ["1\t0\t306\t-1\t2\t3\t0", "2\t0\t1506\t-1\t0\t0\t0"]);
    fixture.close();
}

#[test]
fn temporary_tables_are_analyzed_by_their_session() {
    let mut fixture = open("");
    fixture.rows("create temp table t (a int8)");
    fixture.rows("insert into t select g from generate_series(1, 5000) g");
    fixture.rows("analyze");
    assert_eq!(rows(&mut fixture.conn, "select count(*) from t"), ["5000"]);
    assert_eq!(stored(&mut fixture, "t"), ["1\t0\t8\t-1\t2\t3\t0"]);
    let mut other = fixture.connect();
    let report = support::run(&mut other, "analyze verbose").join("\n");
    assert!(!report.contains("pg_temp"), "{report}");
    other.close();
    fixture.close();
}

/// Columns of many types, most of which are ordered.
const TABLE: &str = "create table t (i int4, l int8 primary key, h int2, s text, n numeric, \
     b bool, f float8, g float4, d date, ts timestamptz, tm timestamp, u uuid, v varchar(20), \
     c char(5), nm name, by bytea, o oid, ch \"char\", td tid, none int4, wide text, more text); \
     insert into t select nullif(x % 50, 7), x, x % 11, 'text ' || (x * 7919 % 300), \
     (x % 97) / 10.0, x % 3 = 0, sqrt(x % 1000), (x % 13) / 7.0, '2024-01-01'::date + x % 400, \
     '2024-01-01 UTC'::timestamptz + x * interval '1 minute', \
     '2024-01-01'::timestamp + (x % 77) * interval '1 hour', md5((x % 200)::text)::uuid, \
     'v' || x % 5, 'c' || x % 7, ('n' || x % 20)::name, decode(md5((x % 1500)::text), 'hex'), \
     x % 9, chr(97 + x % 6)::\"char\", ('(' || x % 40 || ',1)')::tid, null, \
     case when x % 100 = 0 then repeat(md5(x::text), 100) else 'narrow' || x % 3 end, \
     case when x < 100 then 'common' when x % 2 = 0 then 'more ' || x end \
     from generate_series(1, 5000) x; \
     delete from t where l > 4900; update t set h = 100 where l % 10 = 0; \
     create index t_s on t (s); create table empty (a int4); \
     create table others (j jsonb, a int4[]); \
     insert into others select '{}', '{1}' from generate_series(1, 10)";

#[test]
fn postgresql_finds_the_same_statistics() {
    let Some(peer) = Peer::find("postgresql_finds_the_same_statistics") else { return };
    peer.init("data");
    let server = peer.start("data", "-c autovacuum=off");
    server.query(TABLE);
    drop(server);
    let mut fixture = open_made(|dir| peer.fetch("data", dir));
    // Twice: the second time the rows are updated.
    fixture.rows("analyze t (i, s)");
    fixture.rows("analyze");
    let fixture = fixture.restart_after(ShutdownMode::Fast, |dir| peer.adopt(dir, "after"));
    fixture.close();
    let server = peer.start("after", "-c autovacuum=off");
    let columns = "select attname, null_frac, avg_width, n_distinct, most_common_vals, \
                   most_common_freqs, histogram_bounds, correlation from pg_stats where tablename \
                   in ('t', 'empty', 'pg_amop') order by tablename, attname";
    let slots = "select staattnum, stakind1, stakind2, stakind3, staop1, staop2, staop3, stacoll1, \
                 stacoll2, stacoll3 from pg_statistic where starelid = 't'::regclass order by 1";
    let figures = "select relname, relpages, reltuples, relallvisible from pg_class where relname \
                   in ('t', 't_pkey', 't_s', 'empty', 'others') order by relname";
    let all = [columns, slots, figures].map(|sql| server.query(sql));
    assert!(all[0].lines().count() > 25, "{}", all[0]);
    let others = "select attname, null_frac, avg_width, n_distinct from pg_stats where tablename = \
                  'others' order by 1";
    assert_eq!(server.query(others), "a|0|25|0\nj|0|5|0");
    server.query("analyze t, empty, others, pg_amop");
    for (sql, ours) in [columns, slots, figures].into_iter().zip(&all) {
        let theirs = server.query(sql);
        for (our, their) in ours.lines().zip(theirs.lines()) {
            assert_eq!(our, their);
        }
        assert_eq!(ours.lines().count(), theirs.lines().count());
    }
    server.query(
        "create extension amcheck; \
                  select bt_index_check('pg_statistic_relid_att_inh_index', true)",
    );
    assert_eq!(server.query("select count(*) from verify_heapam('pg_statistic')"), "0");
}

/// Conditions on the table, of which PostgreSQL and Forebay estimate the rows alike.
const CONDITIONS: [&str; 34] = [
    "i = 3",
    "i = 1234",
    "i is null",
    "i is not null",
    "i <> 3",
    "i < 10",
    "i >= 45",
    "i < 10 or i > 40",
    "i between 10 and 20 and b",
    "l = 17",
    "l < 1000",
    "l <= 1",
    "l between 1000 and 2000",
    "l > 4000 and l < 100",
    "l > 3000 and s = 'text 5'",
    "l in (1, 2, 3, 40000)",
    "h = 100",
    "h not in (1, 2, 100)",
    "s = 'text 5'",
    "s > 'text 2'",
    "s >= 'text 1' and s < 'text 25'",
    "n > 5",
    "n = 1.5",
    "b",
    "not b",
    "f < 10.5",
    "f > 31",
    "v in ('v1', 'v2', 'nothere')",
    "v not in ('v1', 'v2')",
    "by < by",
    "more = 'common'",
    "more is null and none is null",
    "more > 'more 3'",
    "o = 5 and nm = 'n5'",
];

/// The first line of a plan, with its numbers of rows.
fn estimated(line: &str) -> (i64, &str) {
    let rows = line.split_once("rows=").and_then(|(_, rest)| rest.split(' ').next());
    (rows.and_then(|rows| rows.parse().ok()).expect("a number of rows"), line)
}

#[test]
fn rows_are_estimated_as_postgresql_estimates_them() {
    let Some(peer) = Peer::find("rows_are_estimated_as_postgresql_estimates_them") else { return };
    peer.init("data");
    let server = peer.start("data", "-c autovacuum=off");
    server.query(TABLE);
    drop(server);
    let mut fixture = open_made(|dir| peer.fetch("data", dir));
    fixture.rows("analyze t");
    let mut plans: Vec<String> =
        CONDITIONS.iter().map(|c| format!("explain select * from t where {c}")).collect();
    for keys in ["i", "i, b", "s, v"] {
        plans.push(format!("explain select {keys}, count(*) from t group by {keys}"));
    }
    plans.push("explain select i, count(*) from t where l < 200 group by i".to_owned());
    let ours: Vec<String> = plans.iter().map(|sql| fixture.rows(sql).swap_remove(0)).collect();
    // Scans of indexes in the order of the rows, and in another one.
    let scans = [
        "explain select l from t where l < 1000",
        "explain select i from t where l < 1000",
        "explain select i, v from t where s > 'text 25'",
    ];
    fixture.rows("set enable_seqscan = off");
    fixture.rows("set enable_bitmapscan = off");
    let ways: Vec<String> = scans.iter().map(|sql| fixture.rows(sql).swap_remove(0)).collect();
    let fixture = fixture.restart_after(ShutdownMode::Fast, |dir| peer.adopt(dir, "after"));
    fixture.close();
    let server = peer.start("after", "-c autovacuum=off -c jit=off -c enable_bitmapscan=off");
    let theirs = |sql: &String| server.query(sql).lines().next().expect("a plan").to_owned();
    let mut wrong = Vec::new();
    for (sql, our) in plans.iter().zip(&ours) {
        let their = theirs(sql);
        let (our, their) = (estimated(our), estimated(&their));
        if (our.0 - their.0).abs() > 1 {
            wrong.push(format!("{sql}\n  {}\n  {}", our.1, their.1));
        }
    }
    for (sql, our) in scans.iter().zip(&ways) {
        let their = theirs(&format!("set enable_seqscan = off; {sql}"));
        if *our != their {
            wrong.push(format!("{sql}\n  {our}\n  {their}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_way_to_read_a_table_is_chosen_by_statistics() {
    let mut fixture = open("");
    fixture.rows("create table t (a int4, b int4, c text)");
    fixture.rows(
        "insert into t select case when x > 9900 then x else 1 end, x, 'text' from \
         generate_series(1, 10000) x",
    );
    fixture.rows("create index t_a on t (a)");
    fixture.rows("set enable_bitmapscan = off");
    let plan = |fixture: &mut Fixture, a: i32| {
        fixture.rows(&format!("explain (costs off) select c from t where a = {a}")).swap_remove(0)
    };
    let scan = "Index Scan using t_a on t";
    assert_eq!((plan(&mut fixture, 1).as_str(), plan(&mut fixture, 9950).as_str()), (scan, scan));
    fixture.rows("analyze t");
    assert_eq!(plan(&mut fixture, 1), "Seq Scan on t");
    assert_eq!(plan(&mut fixture, 9950), scan);
    // Plans that are kept are made anew.
    let conn = &mut fixture.conn;
    conn.parse("kept", "select c from t where b = 5", &[]).expect("parse");
    rows(conn, "create index t_b on t (b)");
    rows(conn, "analyze t (b)");
    conn.bind("", "kept", &[], &[], &[]).expect("bind");
    assert!(conn.execute("", 0, &mut support::Recorder::default()).is_ok());
    conn.sync().expect("sync");
    // VACUUM counts rows for the planner too.
    rows(conn, "delete from t where b > 100");
    rows(conn, "vacuum t");
    let shown = rows(conn, "explain select b from t").swap_remove(0);
    assert!(shown.contains(" rows=100 "), "{shown}");
    rows(conn, "insert into t select 1, x, 'text' from generate_series(101, 10000) x");
    rows(conn, "analyze t");
    // Another session and a later one know it too.
    let mut other = fixture.connect();
    let plan = "explain (costs off) select c from t where a = 1";
    assert_eq!(rows(&mut other, plan)[0], "Seq Scan on t");
    other.close();
    let mut fixture = fixture.restart(ShutdownMode::Fast);
    assert_eq!(fixture.rows(plan)[0], "Seq Scan on t");
    fixture.close();
}

/// The places of some bytes.
fn places(bytes: &[u8], wanted: &[u8]) -> Vec<usize> {
    let found = bytes.windows(wanted.len()).enumerate().filter(|(_, some)| *some == wanted);
    found.map(|(at, _)| at).collect()
}

#[test]
fn damaged_statistics_leave_a_table_readable() {
    let mut fixture = open("");
    fixture.rows("create table t (a int4, b int4)");
    fixture.rows("insert into t select x % 10, x from generate_series(1, 1000) x");
    fixture.rows("analyze t");
    let estimate = |fixture: &mut Fixture| {
        fixture.rows("explain select a, b from t where a = 5").swap_remove(0)
    };
    let sound = estimate(&mut fixture);
    assert!(sound.ends_with(" rows=100 width=8)"), "{sound}");
    // The arrays of both columns have seven dimensions.
    let dimensions =
        |count: u8| [[count, 0, 0, 0, 0, 0, 0, 0], [23, 0, 0, 0, 10, 0, 0, 0]].concat();
    let mut fixture = damaged(fixture, "2619", |bytes| {
        let found = places(bytes, &dimensions(1));
        assert!(!found.is_empty(), "the most common values of a");
        found.into_iter().for_each(|at| bytes[at] = 7);
    });
    let guess = estimate(&mut fixture);
    assert!(guess.ends_with(" rows=5 width=8)"), "as without statistics: {guess}");
    assert_eq!(fixture.rows("select count(*) from t where a = 5"), ["100"]);
    fixture.rows("analyze t");
    assert_eq!(estimate(&mut fixture), sound);
    fixture.close();
}

#[test]
fn a_width_below_zero_is_that_of_the_type() {
    let mut fixture = open("");
    fixture.rows("create table t (a int4, b text)");
    fixture.rows("insert into t select x, 'some text' from generate_series(1, 1000) x");
    fixture.rows("analyze t");
    let oid: u32 = fixture.rows("select 't'::regclass::oid")[0].parse().expect("an OID");
    let widths = |fixture: &mut Fixture| {
        let plans = ["a", "b"]
            .map(|column| fixture.rows(&format!("explain select {column} from t")).swap_remove(0));
        plans.map(|plan| plan.rsplit("width=").next().expect("a width").to_owned())
    };
    assert_eq!(widths(&mut fixture), ["4)", "10)"]);
    let mut fixture = damaged(fixture, "2619", |bytes| {
        for column in [1, 2] {
            // starelid, staattnum, stainherit; then stanullfrac, stawidth
            let row = [&oid.to_le_bytes()[..], &[column, 0, 0]].concat();
            let found = places(bytes, &row);
            assert!(!found.is_empty(), "a row");
            for at in found {
                bytes[at + 12..at + 16].copy_from_slice(&(-5000_i32).to_le_bytes());
            }
        }
    });
    assert_eq!(widths(&mut fixture), ["4)", "32)"], "as PostgreSQL takes them");
    fixture.close();
}
