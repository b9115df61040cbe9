//! ALTER TABLE and ALTER INDEX of storage parameters, against answers recorded from PostgreSQL 18;
//! and a table's own number of parallel workers.

use crate::fixture::{Fixture, open};
use crate::support;

#[test]
fn storage_parameters_are_changed_as_postgresql_does_it() {
    let mut fixture = open("");
    let golden = include_str!("../golden/parameters.txt");
    assert!(support::cases(golden).len() > 25, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_tables_own_number_of_workers_counts() {
    let mut fixture = open("");
    fixture.rows("create table t (a int4, b text)");
    fixture.rows("insert into t select i, repeat('x', 50) from generate_series(1, 10000) i");
    fixture.rows("set parallel_setup_cost = 0");
    for (parameters, expected) in [
        // Smaller than min_parallel_table_scan_size.
        ("reset (parallel_workers)", 0),
        ("set (parallel_workers = 1)", 1),
        // Bounded by max_parallel_workers_per_gather.
        ("set (parallel_workers = 5)", 2),
        ("set (parallel_workers = 0)", 0),
    ] {
        fixture.rows(&format!("alter table t {parameters}"));
        let started = |fixture: &Fixture| fixture.engine.database_stats().workers_started;
        let before = started(&fixture);
        assert_eq!(fixture.rows("select count(*), sum(a) from t"), ["10000\t50005000"]);
        assert_eq!(started(&fixture) - before, expected, "{parameters}");
    }
    fixture.close();
}

#[test]
fn relations_that_ddl_leaves_alone_are_refused() {
    let mut fixture = open("");
    let mut other = fixture.connect();
    fixture.rows("create temp table t (a text)");
    for change in ["set (fillfactor = 50)", "reset (fillfactor)", "alter a set storage plain"] {
        let refused = support::run(&mut other, &format!("alter table pg_temp_0.t {change}"));
        let message = "! ERROR 0A000 cannot alter temporary tables of other sessions";
        assert_eq!(refused[0], message, "{change}");
    }
    fixture.rows("create table u (a text)");
    let oid = &fixture.rows("select 'u'::regclass::oid")[0];
    let (toast, index) = (format!("pg_toast_{oid}"), format!("pg_toast_{oid}_index"));
    for (what, name) in [("table", toast), ("index", index)] {
        let query = format!("alter {what} pg_toast.{name} set (fillfactor = 50)");
        let refused = support::run(&mut other, &query);
        let message = format!("! ERROR 42501 permission denied: \"{name}\" is a system catalog");
        assert_eq!(refused[0], message);
    }
    let parameter = "alter table u set (user_catalog_table = true)";
    let refused = support::run(&mut other, parameter);
    let message = "storage parameter \"user_catalog_table\" is not supported";
    assert_eq!(refused[0], format!("! ERROR 0A000 {message}"));
    other.close();
    fixture.close();
}
