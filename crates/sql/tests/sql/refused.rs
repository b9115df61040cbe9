//! What PostgreSQL can and this server cannot is refused by name, with SQLSTATE 0A000.

use crate::support;

#[test]
fn unsupported_statements_are_named() {
    for (query, message) in [
        ("select 1 union select 2", "UNION is not supported"),
        ("select (select 1)", "a subquery in an expression is not supported"),
        ("select 1 where exists (select 1)", "a subquery in an expression is not supported"),
        ("select 1 from generate_series(1,2) x, generate_series(1,2) y", "a join is not supported"),
        (
            "select 1 from generate_series(1,2) x join generate_series(1,2) y on true",
            "a join is not supported",
        ),
        ("select distinct 1", "SELECT DISTINCT is not supported"),
        ("select distinct on (1) 1", "SELECT DISTINCT ON is not supported"),
        ("with x as (select 1) select 1", "WITH is not supported"),
        (
            "select count(distinct x) from generate_series(1,2) x",
            "count(DISTINCT ...) is not supported",
        ),
        ("select sum(x) over () from generate_series(1,2) x", "a window function is not supported"),
        ("select 'x' similar to 'y'", "SIMILAR TO is not supported"),
        (
            "alter table all in tablespace x set tablespace y",
            "ALTER TABLE ALL IN TABLESPACE is not supported",
        ),
        ("alter table t alter constraint c", "ALTER TABLE ... ALTER CONSTRAINT is not supported"),
        ("alter index i attach partition j", "ALTER INDEX ... ATTACH is not supported"),
        ("explain verbose select 1", "EXPLAIN VERBOSE is not supported"),
        ("explain (settings) select 1", "EXPLAIN (SETTINGS) is not supported"),
        ("explain (format json) select 1", "EXPLAIN (FORMAT) other than text is not supported"),
        ("explain create table t (a int)", "EXPLAIN of this statement is not supported"),
        ("begin isolation level serializable", "isolation level SERIALIZABLE is not supported"),
        (
            "set transaction_isolation = serializable",
            "isolation level SERIALIZABLE is not supported",
        ),
        ("set transaction snapshot 'x'", "SET TRANSACTION SNAPSHOT is not supported"),
        ("begin; lock pg_locks", "LOCK TABLE of a view is not supported"),
        ("copy t from '/tmp/x'", "COPY with a file on the server is not supported"),
        ("copy t to program 'x'", "COPY with a program on the server is not supported"),
    ] {
        check_refused(query, message);
    }
}

#[test]
fn unsupported_definitions_are_named() {
    for (query, message) in [
        ("create view v as select 1", "CREATE VIEW is not supported"),
        ("reindex (verbose) table t", "REINDEX (VERBOSE) is not supported"),
        ("create table t as execute p", "CREATE TABLE AS EXECUTE is not supported"),
        (
            "alter table t alter constraint c deferrable",
            "ALTER TABLE ... ALTER CONSTRAINT is not supported",
        ),
        (
            "alter table t add constraint k unique using index i deferrable",
            "a deferrable constraint USING INDEX is not supported",
        ),
        (
            "alter table t alter a set statistics 3",
            "this form of ALTER TABLE ... ALTER COLUMN is not supported",
        ),
        (
            "create table t (a int, foreign key (a, period b) references u)",
            "a FOREIGN KEY constraint with PERIOD is not supported",
        ),
        ("drop view v", "DROP VIEW is not supported"),
    ] {
        check_refused(query, message);
    }
}

fn check_refused(query: &str, message: &str) {
    let mut conn = support::without_tables();
    let got = support::run(&mut conn, query);
    let first = got.iter().find(|l| l.starts_with('!')).cloned().unwrap_or_default();
    assert_eq!(first, format!("! ERROR 0A000 {message}"), "{query}");
}

#[test]
fn deep_nesting_is_refused_without_harm() {
    let mut conn = support::without_tables();
    for query in [
        format!("select {}1{}", "(".repeat(5000), ")".repeat(5000)),
        format!("select 1{}", "+1".repeat(50_000)),
        format!("select {}true", "not ".repeat(50_000)),
        format!("select {}1", "- ".repeat(50_000)),
        format!("select 1{}", "::int".repeat(50_000)),
        format!("select true{}", " and true".repeat(50_000)),
        format!("select {}1{}", "case when true then ".repeat(3000), " end".repeat(3000)),
        format!("select {}1{}", "abs(".repeat(3000), ")".repeat(3000)),
        format!("{}select 1{}", "select * from (".repeat(3000), ") s".repeat(3000)),
    ] {
        let got = support::run(&mut conn, &query);
        assert!(got[0].starts_with("! ERROR 54001"), "{:.60}: {:?}", query, got);
    }
    let wide = format!("select {}1", "1,".repeat(1000));
    assert!(support::run(&mut conn, &wide).iter().any(|l| l == "= SELECT 1"));
    let long = format!("select 1{}", "+1".repeat(900));
    assert!(support::run(&mut conn, &long).iter().any(|l| l == "| 901"));
}
