//! Indexes in statements, against answers recorded from PostgreSQL 18: how they are made and
//! dropped, and that rows are the same through them and without them.

use std::thread;

use crate::fixture::{Fixture, open, open_made, rows, wait_for_wait};
use crate::support::{self, Recorder};
use forebay_engine::ShutdownMode;
use forebay_sql::Connection;
use forebay_testkit::peer::Peer;

const GOLDEN: [&str; 3] = [
    include_str!("../golden/indexes.txt"),
    include_str!("../golden/concurrently.txt"),
    include_str!("../golden/reindex.txt"),
];

fn check(mut fixture: Fixture) {
    let mut wrong = Vec::new();
    for golden in GOLDEN {
        assert!(support::cases(golden).len() > 60, "too few cases were read");
        wrong.extend(support::differences(&mut fixture.conn, golden));
    }
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn answers_as_postgresql_does() {
    check(open(""));
}

#[test]
fn answers_as_postgresql_does_in_a_cluster_of_postgresqls() {
    let Some(peer) = Peer::find("answers_in_a_cluster_of_postgresqls") else { return };
    peer.init("data");
    check(open_made(|dir| peer.fetch("data", dir)));
}

#[test]
fn plans_are_explained_as_postgresql_explains_them() {
    let mut fixture = open("");
    let golden = include_str!("../golden/explain.txt");
    assert!(support::cases(golden).len() > 50, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    let refused = support::run(&mut fixture.conn, "explain explain select 1");
    assert!(refused[0].starts_with("! ERROR 42601"), "{refused:?}");
    let mut doubled = "select 'x' || random() as x".to_owned();
    for level in 0..50 {
        doubled = format!("select x || x as x from ({doubled}) as s{level} where x || x > ''");
    }
    let shown = fixture.rows(&format!("explain {doubled}"));
    assert!(shown.iter().map(String::len).sum::<usize>() < 20_000, "{shown:?}");
    fixture.rows("create table u (a int primary key, b text)");
    fixture.rows("insert into u select x, x from generate_series(1, 3000) x");
    let plan =
        "explain (analyze, costs off, timing off, summary off, io) select b from u where a > 0";
    fixture.rows("set enable_seqscan = off");
    let lines = fixture.rows(plan);
    assert_eq!(lines[0], "Index Scan using u_pkey on u (actual rows=3000.00 loops=1)");
    assert!(lines[3].starts_with("  Prefetch: avg="), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("  Leaves: count=")), "{lines:?}");
    fixture.close();
}

#[test]
fn pages_are_counted_where_they_are_used() {
    let mut fixture = open("");
    fixture.rows("create table u (a int primary key, b text)");
    fixture.rows("insert into u select x, repeat('x', 100) from generate_series(1, 1000) x");
    fixture.rows("checkpoint");
    let pages = fixture.rows("select pg_relation_size('u') / 8192").swap_remove(0);
    let plan = |options: &str, query: &str| {
        format!("explain (analyze, costs off, timing off, summary off{options}) {query}")
    };
    let counted = plan("", "select count(b) from u");
    let of_scan = |lines: &[String]| lines[3].clone();
    let warm = fixture.rows(&counted);
    assert_eq!(of_scan(&warm), format!("        Buffers: shared hit={pages}"), "{warm:?}");
    assert_eq!(warm[1], format!("  Buffers: shared hit={pages}"), "{warm:?}");
    let mut fixture = fixture.restart(ShutdownMode::Fast);
    let cold = fixture.rows(&counted);
    assert_eq!(of_scan(&cold), format!("        Buffers: shared read={pages}"), "{cold:?}");
    assert!(cold.iter().any(|line| line == "Planning:"), "catalogs were read: {cold:?}");
    fixture.rows("set enable_seqscan = off");
    fixture.rows("set enable_indexscan = off");
    let query = plan("", "select b from u where a < 10");
    fixture.rows(&query);
    let bitmap = fixture.rows(&query);
    let at = |what: &str| bitmap.iter().filter(|line| line.contains(what)).count();
    assert_eq!((at("Bitmap Index Scan"), at("  Buffers: shared ")), (1, 2), "{bitmap:?}");
    fixture.rows("create temp table v (a int)");
    fixture.rows("insert into v select x from generate_series(1, 1000) x");
    let local = fixture.rows(&plan("", "select a from v"));
    assert!(local[2].starts_with("  Buffers: local hit="), "{local:?}");
    let none = fixture.rows(&plan(", buffers off", "select a from v"));
    assert_eq!(none.len(), 2, "{none:?}");
    fixture.close();
}

#[test]
fn an_index_is_used_once_it_is_there_and_no_more_once_it_is_gone() {
    let mut fixture = open("");
    fixture.rows("create table t (a int, b int)");
    fixture.rows("insert into t select x, x from generate_series(1, 5000) x");
    fixture.rows("set enable_bitmapscan = off");
    let plan = "explain (costs off) select b from t where a = 7";
    assert!(fixture.rows(plan)[0].starts_with("Seq Scan"));
    fixture.rows("create index i on t (a)");
    assert_eq!(fixture.rows(plan), ["Index Scan using i on t", "  Index Cond: (a = 7)"]);
    fixture.rows("begin");
    fixture.rows("drop index i");
    assert!(fixture.rows(plan)[0].starts_with("Seq Scan"));
    fixture.rows("rollback");
    assert_eq!(fixture.rows(plan)[0], "Index Scan using i on t");
    fixture.rows("reindex index i");
    assert_eq!(fixture.rows("select b from t where a = 7"), ["7"]);
    fixture.rows("begin");
    fixture.rows("declare c cursor for select b from t where a > 1 and a < 10 order by a");
    assert_eq!(fixture.rows("fetch 2 from c"), ["2", "3"]);
    let refused = support::run(&mut fixture.conn, "drop index i");
    let message =
        "cannot DROP INDEX \"i\" because it is being used by active queries in this session";
    assert_eq!(refused[0], format!("! ERROR 55006 {message}"));
    fixture.rows("rollback");
    fixture.close();
}

/// Runs the prepared statement.
fn insert_prepared(conn: &mut Connection, value: i32) {
    let value = value.to_string();
    conn.bind("", "insertion", &[], &[Some(value.as_bytes())], &[]).expect("bind");
    conn.execute("", 0, &mut Recorder::default()).expect("execute");
    conn.sync().expect("sync");
}

#[test]
fn a_prepared_insert_keeps_an_index_that_was_not_ready_when_it_was_planned() {
    let mut fixture = open("");
    fixture.rows("create table t (a int, b int)");
    fixture.rows("insert into t select x, x from generate_series(1, 10) x");
    let mut maker = fixture.connect();
    let statements = ["create index concurrently i on t (b)", "reindex index concurrently i"];
    for (n, statement) in (0..).zip(statements) {
        let mut writer = fixture.connect();
        fixture.rows("begin");
        fixture.rows("insert into t values (11, 11)");
        thread::scope(|scope| {
            let making = scope.spawn(|| rows(&mut maker, statement));
            wait_for_wait(&fixture.engine, &making);
            // The index, or its twin, is in the catalogs.
            writer.parse("insertion", "insert into t values ($1, $1)", &[]).expect("parse");
            insert_prepared(&mut writer, 100 + n);
            rows(&mut fixture.conn, "commit");
            making.join().expect("join");
        });
        insert_prepared(&mut writer, 200 + n);
        assert_eq!(fixture.rows("select bt_index_check('i', true)"), [""], "{statement}");
        let found = fixture.rows(&format!("select a from t where b = {}", 200 + n));
        assert_eq!(found, [(200 + n).to_string()], "{statement}");
        writer.close();
    }
    maker.close();
    fixture.close();
}

#[test]
fn indexes_of_catalogs_stay() {
    let mut fixture = open("");
    let rebuild = "! ERROR 0A000 cannot rebuild index \"pg_class_oid_index\": indexes of system \
         catalogs stay where they are";
    let drop = "! ERROR 42501 permission denied: \"pg_class_oid_index\" is a system catalog";
    for (sql, expected) in [
        ("reindex index pg_catalog.pg_class_oid_index", rebuild),
        ("reindex table pg_catalog.pg_class", rebuild),
        ("drop index pg_catalog.pg_class_oid_index", drop),
    ] {
        let answer = support::run(&mut fixture.conn, sql);
        assert_eq!(answer[0], expected, "{sql}");
    }
    fixture.rows("create table t (a text)");
    let toast = fixture.rows("select relname from pg_class where relname like 'pg_toast%index'");
    let sql = format!("drop index pg_toast.{}", toast.last().expect("an index"));
    assert!(support::run(&mut fixture.conn, &sql)[0].starts_with("! ERROR 42501"), "{sql}");
    assert_eq!(fixture.rows("select bt_index_check('pg_class_oid_index', true)"), [""]);
    fixture.close();
}

/// Numbers that differ from run to run of a loop, but not of the test.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn one_of<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }
}

/// A condition on the columns of the table below.
fn condition(numbers: &mut Numbers) -> String {
    let number = |numbers: &mut Numbers| numbers.below(60).to_string();
    let operator = numbers.one_of(&["=", "<", "<=", ">", ">=", "<>"]);
    match numbers.below(9) {
        0 => format!("a {operator} {}", number(numbers)),
        1 => format!("{} {operator} b", number(numbers)),
        2 => format!("c {operator} 'row {}'", number(numbers)),
        3 => format!("a between {} and {}", number(numbers), number(numbers)),
        4 => format!("b in ({}, {}, null)", number(numbers), number(numbers)),
        5 => format!("a = {}::int8", number(numbers)),
        6 => format!("d {operator} {}.5", number(numbers)),
        7 => numbers.one_of(&["b is null", "b is not null", "e", "not e", "c is null"]).to_owned(),
        _ => format!("a * 2 > {}", number(numbers)),
    }
}

const ORDERS: [&str; 8] = [
    "a, id",
    "a desc, id desc",
    "b nulls first, a, id",
    "b desc, a desc, id",
    "c, id",
    "e, d, id",
    "id desc",
    "d desc nulls last, id",
];

#[test]
fn rows_are_the_same_through_indexes_and_without_them() {
    let mut fixture = open("");
    for statement in [
        "create table t (id int primary key, a int2, b int8, c text, d float8, e bool)",
        "insert into t select x, x * 7 % 50, case when x % 11 > 0 then x * 3 % 60 end, \
             case when x % 13 > 0 then 'row ' || x * 5 % 70 end, x % 40 + 0.5, x % 3 = 0 \
             from generate_series(1, 2000) x",
        "create index on t (a, id)",
        "create index on t (b desc, a desc) include (id)",
        "create index on t (c, a)",
        "create index on t (e, d)",
        "create unique index on t (d desc nulls last, id)",
        "update t set b = b + 1 where id % 9 = 0",
        "delete from t where id % 17 = 0",
    ] {
        fixture.rows(statement);
    }
    let mut numbers = Numbers(1);
    for round in 0..400 {
        let conditions: Vec<String> =
            (0..1 + numbers.below(3)).map(|_| condition(&mut numbers)).collect();
        let filter = conditions.join(if numbers.below(8) == 0 { " or " } else { " and " });
        let columns = numbers.one_of(&["id, a", "*", "a, id", "b, a, id", "d, id"]);
        let order = numbers.one_of(&ORDERS);
        let limit = numbers.one_of(&["", " limit 7", " limit 3 offset 5"]);
        let query = match numbers.below(4) {
            0 => format!("select count(*), min(a), max(b) from t where {filter}"),
            1 => format!("select max(a) from t where {filter}"),
            2 => format!("select min(d) from t where {filter}"),
            // The order is one of whole rows, so that it is the same in all plans.
            _ => format!("select {columns} from t where {filter} order by {order}, id{limit}"),
        };
        let mut answers = Vec::new();
        for off in ["enable_indexscan", "enable_seqscan", "enable_sort", "enable_bitmapscan"] {
            fixture.rows(&format!("set {off} = off"));
            answers.push(fixture.rows(&query));
            fixture.rows(&format!("reset {off}"));
        }
        assert_eq!(answers[0], answers[1], "{round}: {query}");
        assert_eq!(answers[0], answers[2], "{round}: {query}");
        assert_eq!(answers[0], answers[3], "{round}: {query}");
    }
    fixture.close();
}

/// An index is used only for comparisons that take trailing blanks as it does.
#[test]
fn trailing_blanks_count_as_the_comparison_says() {
    let mut fixture = open("");
    fixture.rows("create table t (b char(5), v varchar(10))");
    fixture.rows("create index on t (b); create index on t (v)");
    fixture.rows("insert into t values ('abc','abc'), ('abc','abc '), ('abd ','abd')");
    let cases = [
        ("v = 'abc'::bpchar", 2),
        ("v = 'abc'", 1),
        ("v in ('abc'::bpchar, 'abd')", 2),
        ("v = any(array['abc'::bpchar, 'abd'])", 3),
        ("v > 'abc'::bpchar", 1),
        ("row(v, b) = row('abc'::bpchar, 'abc')", 2),
        ("b = 'abc   '", 2),
        ("b in ('abc   ', 'x')", 2),
        ("b::text = 'abc   '", 0),
        ("b::text < 'abc '", 2),
        ("b::text = any(array['abc '])", 0),
    ];
    for (condition, expected) in cases {
        for off in ["enable_indexscan, enable_bitmapscan", "enable_seqscan"] {
            for name in off.split(", ") {
                fixture.rows(&format!("set {name} = off"));
            }
            let found = fixture.rows(&format!("select count(*) from t where {condition}"));
            assert_eq!(found, [expected.to_string()], "{condition} without {off}");
            for name in off.split(", ") {
                fixture.rows(&format!("set {name} = on"));
            }
        }
    }
    fixture.rows("set enable_seqscan = off");
    let plan = fixture.rows("explain (costs off) select * from t where b = 'abc '");
    assert!(plan.iter().any(|line| line.contains("t_b_idx")), "{plan:?}");
    fixture.close();
}
