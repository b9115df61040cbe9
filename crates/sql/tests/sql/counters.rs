//! pg_stat_all_tables and its relatives: what statements and transactions count, against answers of
//! PostgreSQL 18.6; and what a stop keeps.

use crate::fixture::{Fixture, open};
use crate::support;
use forebay_engine::ShutdownMode;
use std::path::Path;

const COLUMNS: &str = "seq_scan, seq_tup_read, idx_scan, idx_tup_fetch, n_tup_ins, n_tup_upd, \
     n_tup_del, n_tup_hot_upd, n_tup_newpage_upd, n_live_tup, n_dead_tup, n_mod_since_analyze, \
     n_ins_since_vacuum, vacuum_count, autovacuum_count, analyze_count, autoanalyze_count, \
     last_vacuum is null, last_analyze is null, last_seq_scan is null, total_vacuum_time > 0, \
     total_analyze_time > 0";

/// Statements, and what PostgreSQL 18.6 shows after each. Empty strings are NULL.
const STEPS: &[(&str, &str)] = &[
    ("create table s (a int8, b text)", "0|0|||0|0|0|0|0|0|0|0|0|0|0|0|0|t|t|t|f|f"),
    (
        "insert into s select generate_series, 'x' from generate_series(1, 100)",
        "0|0|||100|0|0|0|0|100|0|100|100|0|0|0|0|t|t|t|f|f",
    ),
    (
        "begin; insert into s select generate_series, 'x' from generate_series(101, 110); rollback",
        "0|0|||110|0|0|0|0|100|10|100|110|0|0|0|0|t|t|t|f|f",
    ),
    (
        "begin; update s set b = 'y' where a <= 10; savepoint p; delete from s where a > 90; \
         rollback to p; commit",
        "2|200|||110|10|10|10|0|100|20|110|110|0|0|0|0|t|t|f|f|f",
    ),
    (
        "begin; savepoint p; insert into s values (200, 'z'); release p; commit",
        "2|200|||111|10|10|10|0|101|20|111|111|0|0|0|0|t|t|f|f|f",
    ),
    ("delete from s where a <= 5", "3|301|||111|10|15|10|0|96|25|116|111|0|0|0|0|t|t|f|f|f"),
    (
        "begin; truncate s; insert into s values (1, 'n'); rollback",
        "3|301|||111|10|15|10|0|96|25|116|111|0|0|0|0|t|t|f|f|f",
    ),
    ("select count(*) from s", "4|397|||111|10|15|10|0|96|25|116|111|0|0|0|0|t|t|f|f|f"),
    ("vacuum s", "4|397|||111|10|15|10|0|96|0|116|0|1|0|0|0|f|t|f|t|f"),
    ("analyze s", "4|397|||111|10|15|10|0|96|0|0|0|1|0|1|0|f|f|f|t|t"),
    ("update s set b = 'w' where a = 50", "5|493|||111|11|15|11|0|96|1|1|0|1|0|1|0|f|f|f|t|t"),
    ("analyze s (a)", "5|493|||111|11|15|11|0|96|1|1|0|1|0|2|0|f|f|f|t|t"),
    (
        "begin; truncate s; insert into s values (1, 'n'), (2, 'm'); commit",
        "5|493|||113|11|15|11|0|2|0|3|2|1|0|2|0|f|f|f|t|t",
    ),
    (
        "begin; insert into s values (3, 'n'); analyze s; rollback",
        "5|493|||114|11|15|11|0|2|1|0|3|1|0|3|0|f|f|f|t|t",
    ),
];

/// A row of numbers and booleans in psql's form.
fn shown(rows: &[String]) -> String {
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows[0].replace("\\N", "").replace('\t', "|")
}

fn one(fixture: &mut Fixture, sql: &str) -> String {
    shown(&fixture.rows(sql))
}

#[test]
fn transactions_are_counted_as_postgresql_counts_them() {
    let mut fixture = open("");
    for (sql, expected) in STEPS {
        for statement in sql.split("; ") {
            fixture.rows(statement);
        }
        let counted = one(
            &mut fixture,
            &format!("select {COLUMNS} from pg_stat_user_tables where relname = 's'"),
        );
        assert_eq!(&counted, expected, "after {sql}");
    }
    fixture.close();
}

#[test]
fn refused_rows_conflicts_and_entries_are_counted() {
    let mut fixture = open("");
    fixture.rows("create table k (a int8 primary key, b text)");
    fixture.rows("insert into k values (1, 'a'), (2, 'b')");
    let refused = support::run(&mut fixture.conn, "insert into k values (3, 'c'), (1, 'd')");
    assert!(refused[0].starts_with("! ERROR 23505"), "{refused:?}");
    fixture.rows("insert into k values (1, 'd'), (4, 'e') on conflict do nothing");
    fixture.rows("update k set a = 9 where b = 'b'");
    let sql = "select n_tup_ins, n_tup_upd, n_tup_del, n_tup_hot_upd, n_live_tup, n_dead_tup, \
               n_mod_since_analyze from pg_stat_user_tables where relname = 'k'";
    assert_eq!(one(&mut fixture, sql), "5|1|0|0|3|3|4");
    fixture.close();
}

#[test]
fn reads_through_an_index_are_counted() {
    let mut fixture = open("");
    fixture.rows("create table k (a int8 primary key, b text)");
    fixture.rows("insert into k select generate_series, 'x' from generate_series(1, 20000)");
    fixture.rows("vacuum analyze k");
    let plan = fixture.rows("explain select b from k where a = 77").join("\n");
    assert!(plan.contains("Index Scan"), "{plan}");
    fixture.rows("select b from k where a = 77");
    fixture.rows("select b from k where a between 100 and 109");
    let of_table = "select idx_scan, idx_tup_fetch, last_idx_scan is null from \
                    pg_stat_user_tables where relname = 'k'";
    assert_eq!(one(&mut fixture, of_table), "2|11|f");
    let of_index = "select relname, idx_scan, idx_tup_read, idx_tup_fetch, last_idx_scan is null \
                    from pg_stat_user_indexes where indexrelname = 'k_pkey'";
    assert_eq!(one(&mut fixture, of_index), "k|2|11|11|f");
    fixture.close();
}

#[test]
fn catalogs_and_toast_tables_are_counted() {
    let mut fixture = open("");
    let class = "select n_tup_ins from pg_stat_sys_tables where relname = 'pg_class'";
    let before: u64 = one(&mut fixture, class).parse().expect("a number");
    fixture.rows("create table w (a text)");
    // The table, its TOAST table, and the index of that.
    assert_eq!(one(&mut fixture, class).parse(), Ok(before + 3));
    let mut noise = 12_345_u64;
    let mut letter = || {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'!' + (noise >> 40) as u8 % 90)
    };
    let long: String = (0..20_000).map(|_| letter()).filter(|c| *c != '\'').collect();
    fixture.rows(&format!("insert into w values ('{long}')"));
    let of_chunks = "select n_tup_ins, n_tup_del, n_live_tup, n_dead_tup from pg_stat_all_tables \
                     where schemaname = 'pg_toast' and n_tup_ins > 0";
    let counted = one(&mut fixture, of_chunks);
    let chunks: u64 = counted.split('|').next().expect("first").parse().expect("a number");
    assert!(chunks > 8 && counted == format!("{chunks}|0|{chunks}|0"), "{counted}");
    fixture.rows("delete from w");
    assert_eq!(one(&mut fixture, of_chunks), format!("{chunks}|{chunks}|0|{chunks}"));
    fixture.close();
}

#[test]
fn counts_are_kept_over_a_clean_stop_and_dropped_after_a_crash() {
    let mut fixture = open("");
    fixture.rows("create table s (a int8)");
    fixture.rows("insert into s values (1), (2), (3)");
    fixture.rows("delete from s where a = 1");
    fixture.rows("vacuum s");
    let sql = "select seq_scan, n_tup_ins, n_live_tup, vacuum_count, last_vacuum from \
               pg_stat_user_tables where relname = 's'";
    let before = one(&mut fixture, sql);
    assert!(before.starts_with("1|3|2|1|2"), "{before}");
    let ours = |dir: &Path| dir.join("pg_stat/forebay.stat").exists();
    let foreign = |dir: &Path| dir.join("pg_stat/pgstat.stat").exists();
    let mut fixture = fixture.restart_after(ShutdownMode::Fast, |dir| {
        assert!(ours(dir));
        // As PostgreSQL would leave one.
        std::fs::write(dir.join("pg_stat/pgstat.stat"), b"stale").expect("write");
    });
    assert!(!ours(fixture.dir()) && !foreign(fixture.dir()));
    assert_eq!(one(&mut fixture, sql), before);
    let mut fixture = fixture.restart(ShutdownMode::Immediate);
    assert_eq!(one(&mut fixture, sql), "0|0|0|0|");
    fixture.rows("insert into s values (4)");
    let kept = |fixture: &Fixture| std::fs::read(fixture.dir().join("pg_stat/forebay.stat"));
    assert!(kept(&fixture).is_err());
    // A file of an earlier stop, and one that is damaged, are not believed.
    let mut old = None;
    let fixture = fixture.restart_after(ShutdownMode::Fast, |dir| {
        old = Some(std::fs::read(dir.join("pg_stat/forebay.stat")).expect("read"));
    });
    let old = old.expect("kept");
    let mut fixture = fixture.restart_after(ShutdownMode::Fast, |dir| {
        std::fs::write(dir.join("pg_stat/forebay.stat"), &old).expect("write");
    });
    assert_eq!(one(&mut fixture, sql), "0|0|0|0|");
    fixture.rows("insert into s values (5)");
    let mut fixture = fixture.restart_after(ShutdownMode::Fast, |dir| {
        let path = dir.join("pg_stat/forebay.stat");
        let mut bytes = std::fs::read(&path).expect("read");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, &bytes).expect("write");
    });
    assert_eq!(one(&mut fixture, sql), "0|0|0|0|");
    fixture.close();
}

#[test]
fn the_counts_of_a_dropped_table_go_with_it() {
    let mut fixture = open("");
    let known = |fixture: &Fixture| fixture.engine.relation_stats().len();
    fixture.rows("begin");
    fixture.rows("create table s (a int8 primary key)");
    fixture.rows("insert into s values (1)");
    fixture.rows("rollback");
    let before = known(&fixture);
    fixture.rows("create table s (a int8 primary key)");
    fixture.rows("insert into s values (1)");
    fixture.rows("select count(*) from s");
    assert!(known(&fixture) > before);
    fixture.rows("drop table s");
    // The catalogs' rows that were deleted are counted.
    let left = fixture.engine.relation_stats();
    assert!(left.keys().all(|of| of.rel < 16_384), "{:?}", left.keys());
    fixture.close();
}
