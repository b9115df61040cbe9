//! The statistics views, against answers recorded from PostgreSQL 18.

use crate::fixture::{self, open};
use crate::support;

#[test]
fn answers_as_postgresql_does() {
    let mut fixture = open("");
    let golden = include_str!("../golden/statistics.txt");
    assert!(support::cases(golden).len() > 9, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn checkpoints_and_transactions_are_counted() {
    let mut fixture = open("");
    let commits = "select xact_commit, xact_rollback, blks_read + blks_hit from pg_stat_database \
                   where datid = 5";
    let numbers = |rows: Vec<String>| -> Vec<u64> {
        rows.iter().flat_map(|r| r.split('\t')).map(|n| n.parse().expect("a number")).collect()
    };
    let before = numbers(fixture.rows(commits));
    fixture.rows("create table t (a int)");
    fixture.rows("begin");
    fixture.rows("rollback");
    let after = numbers(fixture.rows(commits));
    assert_eq!((after[0] - before[0], after[1] - before[1]), (2, 1));
    assert!(after[2] > before[2]);

    let checkpoints = "select num_requested, num_done, buffers_written from pg_stat_checkpointer";
    let before = numbers(fixture.rows(checkpoints));
    fixture.rows("insert into t values (1)");
    fixture.rows("checkpoint");
    let after = numbers(fixture.rows(checkpoints));
    assert_eq!((after[0] - before[0], after[1] - before[1]), (1, 1));
    assert!(after[2] > before[2]);
    fixture.close();
}

#[test]
fn allocations_are_counted_and_set_to_zero() {
    let mut fixture = open("");
    fixture.rows("create table t (a int, b text)");
    let counted = |fixture: &mut fixture::Fixture| -> u64 {
        fixture.rows("select buffers_alloc from pg_stat_bgwriter")[0].parse().expect("a number")
    };
    let reset =
        |fixture: &mut fixture::Fixture| fixture.rows("select stats_reset from pg_stat_bgwriter");
    let (before, since) = (counted(&mut fixture), reset(&mut fixture));
    fixture.rows(
        "insert into t select generate_series, repeat('x', 1000) from generate_series(1, 2000)",
    );
    assert!(counted(&mut fixture) >= before + 200);
    for other in ["checkpointer", "io", "wal"] {
        fixture.rows(&format!("select pg_stat_reset_shared('{other}')"));
    }
    assert!(counted(&mut fixture) >= before + 200);
    assert_eq!(reset(&mut fixture), since);
    fixture.rows("select pg_stat_reset_shared('bgwriter')");
    assert!(counted(&mut fixture) < 100);
    assert_ne!(reset(&mut fixture), since);
    fixture.close();
}

#[test]
fn the_log_is_counted_and_set_to_zero() {
    let mut fixture = open("");
    fixture.rows("create table t (a int, b text)");
    let counted = |fixture: &mut fixture::Fixture| -> Vec<u64> {
        let rows = fixture.rows("select wal_records, wal_fpi, wal_bytes from pg_stat_wal");
        rows[0].split('\t').map(|n| n.parse().expect("a number")).collect()
    };
    let since =
        |fixture: &mut fixture::Fixture| fixture.rows("select stats_reset from pg_stat_wal");
    let (before, reset) = (counted(&mut fixture), since(&mut fixture));
    // The first change of a page after a checkpoint has the page's image with it.
    fixture.rows("insert into t values (1, 'one')");
    fixture.rows("checkpoint");
    fixture.rows("insert into t values (2, 'two')");
    let after = counted(&mut fixture);
    assert!(
        after[0] >= before[0] + 4 && after[1] > before[1] && after[2] > before[2] + 100,
        "{before:?} {after:?}"
    );
    for other in ["bgwriter", "checkpointer", "io", "archiver"] {
        fixture.rows(&format!("select pg_stat_reset_shared('{other}')"));
    }
    assert!(counted(&mut fixture)[0] >= after[0]);
    assert_eq!(since(&mut fixture), reset);
    fixture.rows("select pg_stat_reset_shared('wal')");
    assert!(counted(&mut fixture)[0] < 10);
    assert_ne!(since(&mut fixture), reset);
    fixture.close();
}
