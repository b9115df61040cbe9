//! What a client can make long, deep or wide has a limit, and PostgreSQL's error where it has one.

use crate::fixture::open;
use crate::support;
use forebay_engine::{Interrupt, InterruptKind};
use forebay_sql::Connection;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first error of a query, and that the connection still works.
fn error(conn: &mut Connection, sql: &str) -> String {
    let lines = support::run(conn, sql);
    support::run(conn, "rollback");
    assert!(support::run(conn, "select 1").iter().any(|l| l == "| 1"));
    lines.into_iter().find(|l| l.starts_with('!')).unwrap_or_default()
}

/// The only row of a query.
fn row(conn: &mut Connection, sql: &str) -> String {
    let lines = support::run(conn, sql);
    lines
        .iter()
        .find_map(|l| l.strip_prefix("| "))
        .unwrap_or_else(|| panic!("{lines:?}"))
        .to_owned()
}

/// A list of `n` times the same.
fn list(item: &str, n: usize) -> String {
    vec![item; n].join(",")
}

#[test]
fn postfix_operators_without_end_are_refused() {
    let mut conn = support::without_tables();
    for postfix in [
        " notnull",
        " isnull",
        " is null",
        " is not null",
        " is not true",
        " is not distinct from 1",
        " notnull::bool",
        " collate \"C\" is null",
        " at time zone 'utc'",
        "[1]",
        " in (1, 2) or 1",
    ] {
        for n in [12_000, 100_000] {
            let got = error(&mut conn, &format!("select 1{}", postfix.repeat(n)));
            assert!(got.starts_with("! ERROR"), "{postfix} {n}: {got}");
        }
        let got = error(&mut conn, &format!("select 1{}", " notnull".repeat(12_000)));
        assert_eq!(got, "! ERROR 54001 stack depth limit exceeded");
    }
}

#[test]
fn other_nesting_without_end_is_refused() {
    let mut conn = support::without_tables();
    for (before, middle, after) in [
        ("", "select 1, 2", " except select 1, 2"),
        ("", "select 1, 2", " intersect select 1, 2"),
        ("", "select 1", " union all values (1)"),
        ("", "select * from a", " join b"),
        ("", "select * from a", " cross join b"),
        ("", "select null::int", "[]"),
        ("select cast(1 as ", "int", ""),
        ("select * from (", "select 1", ") s"),
        ("case when true then ", "1", " end"),
        ("select coalesce(1, ", "1", ")"),
        ("insert into t ", "select 1", ""),
        ("explain ", "select 1", ""),
        ("copy (", "select 1", ") to stdout"),
        ("select interval ", "'1'", ""),
        ("select array<", "int", ">"),
        ("select 1 in (", "1", ")"),
        ("select a[", "1", "]"),
        ("with a as (", "select 1", ") select 1"),
    ] {
        for n in [400, 12_000, 60_000] {
            let sql = format!("{}{middle}{}", before.repeat(n), after.repeat(n));
            let got = error(&mut conn, &sql);
            // Any number of dimensions is the type of the array.
            let allowed = after == "[]" && n == 400;
            assert!(allowed || got.starts_with("! ERROR"), "{before}{middle}{after} {n}: {got}");
        }
    }
}

/// A query of so many subqueries in FROM, each with every clause, around a deep expression.
fn nested(levels: usize) -> String {
    let deep = " + 0".repeat(900);
    let mut sql = format!("select g * 0 + 1{deep} as a, 2 as b from generate_series(1, 3) g");
    for _ in 0..levels {
        sql = format!(
            "select a, count(*) + max(b) as b from ({sql}) s where a > 0 and b is not null \
             group by a having count(*) > 0 order by b desc, a limit 10 offset 0"
        );
    }
    sql
}

#[test]
fn subqueries_with_all_clauses_nest_as_deep_as_they_are_parsed() {
    // Half of a session's.
    const STACK: usize = 4 << 20;
    let body = || {
        let mut conn = open("");
        let conn = &mut conn.conn;
        assert_eq!(error(conn, "create table t (a int8, b int8)"), "");
        for levels in [1, 60, 100, 120] {
            let sql = nested(levels);
            assert_eq!(row(conn, &format!("select a from ({sql}) x")), "1", "{levels}");
            conn.parse("p", &sql, &[]).expect("planned");
            conn.bind("", "p", &[], &[], &[]).expect("bound");
            conn.close_statement("p").expect("closed");
            conn.sync().expect("ended");
            assert_eq!(error(conn, &format!("insert into t {sql}")), "", "{levels}");
            assert_eq!(error(conn, &format!("copy ({sql}) to stdout")), "", "{levels}");
        }
        assert_eq!(row(conn, "select count(*) from t"), "4");
        for levels in [130, 400, 3000] {
            let refused = "! ERROR 54001 stack depth limit exceeded";
            assert_eq!(error(conn, &nested(levels)), refused, "{levels}");
        }
    };
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(body).expect("a thread");
    thread.join().expect("no panic");
}

#[test]
fn a_statement_that_is_read_again_and_again_is_refused() {
    let mut conn = support::without_tables();
    let sql = format!("select {}'a' in 'a'{}", "position(".repeat(100), ")".repeat(100));
    assert_eq!(error(&mut conn, &sql), "! ERROR 54001 stack depth limit exceeded");
    let joined =
        format!("{}select 1{}", "select * from ((".repeat(40), ") x join y on true)".repeat(40));
    assert!(error(&mut conn, &joined).starts_with("! ERROR"));
}

#[test]
fn long_chains_of_and_and_or_work() {
    let mut conn = support::without_tables();
    for n in [1000, 7000] {
        let sql = format!(
            "select count(*) from generate_series(1, 3) x where x = 0{}",
            " or x = 2".repeat(n)
        );
        assert_eq!(row(&mut conn, &sql), "1");
        let sql = format!(
            "select count(*) from generate_series(1, 3) x where x > 0{}",
            " and x < 3".repeat(n)
        );
        assert_eq!(row(&mut conn, &sql), "2");
    }
    let mixed = " or x = 2 and x > 1 and x < 3".repeat(1500);
    let sql = format!("select count(*) from generate_series(1, 3) x where x = 0{mixed}");
    assert_eq!(row(&mut conn, &sql), "1");
}

#[test]
fn a_list_of_any_length_is_no_depth() {
    let mut conn = support::without_tables();
    assert_eq!(row(&mut conn, &format!("select 1 in ({}, 1)", list("2", 30_000))), "t");
    assert_eq!(row(&mut conn, &format!("select coalesce({}, 1)", list("null", 30_000))), "1");
    let rows = list("(1 + 1, 'a' || 'b')", 20_000);
    assert_eq!(row(&mut conn, &format!("select count(*) from (values {rows}) v")), "20000");
}

#[test]
fn lists_of_columns_have_postgresqls_limits() {
    let mut conn = open("");
    let conn = &mut conn.conn;
    let wide = "! ERROR 54011 target lists can have at most 1664 entries";
    for sql in [
        format!("select {}", list("1", 1665)),
        format!("select * from (select {}) s", list("1", 1665)),
        format!("values ({})", list("1", 1665)),
        format!("select 1 from generate_series(1, 2) x order by {}", series("x + ", 1664)),
        format!("select 1 from generate_series(1, 2) x group by {}", series("x + ", 1665)),
        format!("create temp table u (a int); insert into u select {}", list("1", 1665)),
        format!("select {} from generate_series(1, 2) x", list("*", 1665)),
    ] {
        assert_eq!(error(conn, &sql), wide, "{sql:.60}");
    }
    let columns =
        format!("create temp table t ({})", series("a", 1601).replace(',', " int,") + " int");
    assert_eq!(error(conn, &columns), "! ERROR 54011 tables can have at most 1600 columns");
    assert_eq!(row(conn, &format!("select {}", list("1", 1664))).matches('1').count(), 1664);
    let most =
        format!("create temp table t ({})", series("a", 1600).replace(',', " int,") + " int");
    assert_eq!(error(conn, &most), "");
    let many = format!("select concat({})", list("1", 101));
    assert_eq!(
        error(conn, &many),
        "! ERROR 54023 cannot pass more than 100 arguments to a function"
    );
    assert_eq!(row(conn, &format!("select length(concat({}))", list("1", 100))), "100");
}

fn series(prefix: &str, n: usize) -> String {
    (0..n).map(|i| format!("{prefix}{i}")).collect::<Vec<_>>().join(",")
}

#[test]
fn a_parameter_description_has_at_most_65535_parameters() {
    let mut conn = support::without_tables();
    conn.parse("", "select $65535 + 1", &vec![23; 65_535]).expect("as many as Bind can give");
    let e = conn.parse("", "select $65536 + 1", &[]).expect_err("one too many");
    assert_eq!(e.sqlstate, "42P02");
}

#[test]
fn texts_have_postgresqls_limit() {
    let mut conn = support::without_tables();
    for sql in ["select repeat('x', 1073741820)", "select repeat('xy', 2147483647)"] {
        assert_eq!(error(&mut conn, sql), "! ERROR 54000 requested length too large");
    }
}

/// Cancels all the time until `stop`.
fn cancel_while<T>(interrupt: &Interrupt, run: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                interrupt.request(InterruptKind::Cancel);
                std::thread::yield_now();
            }
        });
        let result = run();
        done.store(true, Ordering::Relaxed);
        result
    })
}

/// Runs something until a cancel has met it.
fn cancelled(mut run: impl FnMut() -> Option<&'static str>) -> bool {
    (0..10_000).any(|_| run() == Some("57014"))
}

#[test]
fn operands_that_are_needed_twice_do_not_double_without_end() {
    let mut conn = support::without_tables();
    let mut case = "x".to_owned();
    let (mut between, mut concat) = (case.clone(), "x > 0".to_owned());
    for _ in 0..60 {
        between = format!("({between} between 1 and 2)::int");
        case = format!("case {case} when 1 then 1 when 2 then 2 else 3 end");
        concat = format!("concat({concat})::bool");
    }
    for e in [between, case] {
        let got = error(&mut conn, &format!("select {e} from generate_series(1, 1) x"));
        assert_eq!(got, "! ERROR 54001 stack depth limit exceeded", "{e}");
    }
    let once = format!("select {concat} from generate_series(1, 1) x");
    assert_eq!(row(&mut conn, &once), "t");
    let few = "select ((x between 0 and 2)::int between 1 and 1) from generate_series(1, 1) x";
    assert_eq!(row(&mut conn, few), "t");
}

#[test]
fn a_cancel_stops_parsing_planning_and_binding() {
    let mut fixture = open("");
    let interrupt = fixture.conn.session().expect("a session").interrupt().clone();
    let conn = &mut fixture.conn;
    // The mistake at the end shows that the cancel is not left until all is done.
    let mistake = format!("select {}, 1 +", list("f(1)", 40_000));
    let unknown = format!("select 1 in ({}, nothing(1))", list("2", 60_000));
    for sql in [&mistake, &unknown] {
        let met = cancel_while(&interrupt, || {
            cancelled(|| {
                conn.start_script(sql)
                    .err()
                    .map(|e| e.sqlstate)
                    .or_else(|| conn.parse("", sql, &[]).err().map(|e| e.sqlstate))
            })
        });
        assert!(met, "{sql:.40}");
        conn.sync().expect("ends");
    }
    conn.parse("p", &format!("select {}", series("$", 1001).replace("$0,", "")), &[25; 1000])
        .expect("parses");
    let values = vec![Some(&b"a long text, and one of many"[..]); 1000];
    let met = cancel_while(&interrupt, || {
        cancelled(|| {
            let bound = conn.bind("", "p", &[], &values, &[]);
            bound.err().map(|e| e.sqlstate)
        })
    });
    assert!(met, "a cancel during Bind is lost");
    fixture.close();
}

#[test]
fn a_cancel_while_nothing_runs_is_dropped() {
    let mut fixture = open("");
    let interrupt = fixture.conn.session().expect("a session").interrupt().clone();
    let conn = &mut fixture.conn;
    interrupt.request(InterruptKind::Cancel);
    conn.parse("", "select 1", &[]).expect("parses");
    interrupt.request(InterruptKind::Cancel);
    conn.bind("", "", &[], &[], &[]).expect("binds");
    interrupt.request(InterruptKind::Cancel);
    conn.execute("", 0, &mut support::Recorder::default()).map(drop).expect("runs");
    conn.sync().expect("ends");
    fixture.close();
}
