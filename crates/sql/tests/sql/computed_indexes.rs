//! Indexes on expressions and partial ones, against answers recorded from PostgreSQL 18; and that
//! rows are the same through them and without them.

use crate::fixture::{Fixture, open};
use crate::support;
use forebay_engine::ShutdownMode;

#[test]
fn answers_as_postgresql_does() {
    let mut fixture = open("");
    let golden = include_str!("../golden/computed.txt");
    assert!(support::cases(golden).len() > 100, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// The answers to queries, through indexes and without them.
fn same_answers(fixture: &mut Fixture, queries: &[&str]) {
    for query in queries {
        let mut answers = Vec::new();
        for (seqscan, indexscan, bitmapscan) in
            [("on", "off", "off"), ("off", "on", "off"), ("off", "off", "on")]
        {
            fixture.rows(&format!("set enable_seqscan = {seqscan}"));
            fixture.rows(&format!("set enable_indexscan = {indexscan}"));
            fixture.rows(&format!("set enable_indexonlyscan = {indexscan}"));
            fixture.rows(&format!("set enable_bitmapscan = {bitmapscan}"));
            let mut rows = fixture.rows(query);
            rows.sort();
            answers.push(rows);
        }
        assert!(!answers[0].is_empty(), "{query} finds rows");
        assert_eq!(answers[0], answers[1], "{query}: by an index");
        assert_eq!(answers[0], answers[2], "{query}: by a bitmap");
    }
    for setting in ["seqscan", "indexscan", "indexonlyscan", "bitmapscan"] {
        fixture.rows(&format!("reset enable_{setting}"));
    }
}

const CHECKS: [&str; 4] = ["m_lower", "m_sum", "m_part", "m_long"];

fn check(fixture: &mut Fixture) {
    for index in CHECKS {
        fixture.rows(&format!("select bt_index_parent_check('{index}', true, true, true)"));
    }
    same_answers(
        fixture,
        &[
            "select id from m where lower(s) = 'value 7'",
            "select id from m where lower(s) > 'value 8' and id % 2 = 0",
            "select id, n from m where id + n = 140",
            "select id from m where n is not null and id + n between 50 and 90",
            "select id, n from m where live and n = 3",
            "select id from m where live and n > 3 or live and n = 1",
            "select n from m where live",
            "select count(*) from m where live and length(s) > 3",
            "select id from m where md5(long) = md5(repeat('long value 12 ', 400))",
        ],
    );
}

#[test]
fn entries_follow_all_changes_of_rows() {
    let mut fixture = open("");
    fixture.rows("create table m (id int primary key, n int, s text, live bool, long text)");
    fixture.rows("create index m_lower on m (lower(s))");
    fixture.rows("create index m_sum on m ((id + n)) include (n)");
    fixture.rows("create index m_part on m (n) where live");
    fixture.rows("create index m_long on m (md5(long))");
    fixture.rows(
        "insert into m select g, g % 7, 'Value ' || g % 20, g % 3 = 0, repeat('long value ' || g \
         || ' ', 400) from generate_series(1, 300) g",
    );
    check(&mut fixture);
    // None of these may be HOT: the column is read by an expression or the predicate alone.
    fixture.rows("update m set live = not live where id % 5 = 0");
    fixture.rows("update m set s = upper(s) || '!' where id % 4 = 0");
    fixture.rows("update m set n = null where id % 11 = 0");
    fixture.rows("update m set long = long || 'x' where id = 13");
    fixture.rows("delete from m where id % 13 = 0");
    fixture.rows("insert into m values (1, 1, 'VALUE 7', true, '') on conflict (id) do update set s = excluded.s, live = true");
    fixture.rows("begin");
    fixture
        .rows("insert into m select g, 1, 'gone', true, 'gone' from generate_series(1000, 1100) g");
    fixture.rows("rollback");
    check(&mut fixture);
    fixture.rows("vacuum m");
    check(&mut fixture);
    fixture.rows("reindex table m");
    check(&mut fixture);
    fixture.rows("reindex table concurrently m");
    check(&mut fixture);
    fixture.rows("vacuum full m");
    fixture.rows("analyze m");
    check(&mut fixture);
    let mut fixture = fixture.restart(ShutdownMode::Immediate);
    check(&mut fixture);
    fixture.close();
}
