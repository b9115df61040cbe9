//! Indexes on expressions and partial ones, against answers recorded from PostgreSQL 18; and that
//! rows are the same through them and without them.

use crate::fixture::{Fixture, open, open_made};
use crate::support;
use forebay_engine::ShutdownMode;
use forebay_testkit::peer::Peer;

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
            "select id from m where lower(s) > 'value 7' and id % 2 = 0",
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
    fixture.rows(
        "insert into m values (1, 1, 'VALUE 7', true, '') on conflict (id) do update \
         set s = excluded.s, live = true",
    );
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

/// A table that either server makes, with these rows and indexes.
const MADE: &str = "create table @ (id int8 primary key, n int4, s text, v varchar(30), f numeric, \
     live bool, d date); \
     insert into @ select x, x % 31, 'Text ' || x % 200, 'V' || x, x / 3.0, x % 4 = 0, \
     '2024-01-01'::date + x::int4 % 90 from generate_series(1, 2000) x; \
     create index @_lower on @ (lower(s) desc nulls last, n); \
     create unique index @_part on @ (lower(v), (n * 2)) include (f) where live and id > 10; \
     create index @_case on @ ((case when n > 5 then s else v end)); \
     create index @_sum on @ ((f + n)) where d is not null; \
     create index @_concat on @ ((s || '-' || v)) where n in (1, 2, 3) or s like 'Text 1%'; \
     create index @_date on @ (extract(month from d), coalesce(n, 0), nullif(n, 3)); \
     create index @_cast on @ ((n::text), (id::int4), substring(s from 1 for 4)) \
     with (fillfactor = 70)";

/// Changes that keep entries, make them, and take them away.
const CHANGES: [&str; 4] = [
    "update @ set live = not live where id % 7 = 0",
    "update @ set s = upper(s), n = n + 1 where id % 9 = 0",
    "delete from @ where id % 13 = 0",
    "insert into @ select x, x % 31, 'New ' || x, 'N' || x, x, true, null \
     from generate_series(3000, 3200) x",
];

/// What is asked of both servers about a table.
const QUESTIONS: [&str; 6] = [
    "select pg_get_indexdef(indexrelid) from pg_index where indrelid = '@'::regclass order by 1",
    "select pg_get_indexdef(indexrelid, 0, true) from pg_index where indrelid = '@'::regclass \
     order by 1",
    "select coalesce(pg_get_expr(indexprs, indrelid), ''), \
     coalesce(pg_get_expr(indpred, indrelid, true), '') from pg_index where \
     indrelid = '@'::regclass order by indexrelid",
    "select count(*) from @ where lower(s) = 'text 17' and n > 3",
    "select count(*), sum(id) from @ where live and id > 10 and lower(v) > 'v5'",
    "select count(*) from @ where f + n > 500 and d is not null",
];

#[test]
fn postgresql_and_this_server_keep_each_others_indexes() {
    let name = "postgresql_and_this_server_keep_each_others_indexes";
    let Some(peer) = Peer::find(name) else { return };
    peer.init("data");
    let server = peer.start("data", "-c autovacuum=off");
    server.query(&MADE.replace('@', "theirs"));
    server.query("create extension amcheck");
    drop(server);
    let mut fixture = open_made(|dir| peer.fetch("data", dir));
    for statement in MADE.replace('@', "ours").split(';') {
        fixture.rows(statement);
    }
    let indexes = ["lower", "part", "case", "sum", "concat", "date", "cast"];
    for table in ["theirs", "ours"] {
        CHANGES.iter().for_each(|change| drop(fixture.rows(&change.replace('@', table))));
        for index in indexes {
            let check = format!("select bt_index_parent_check('{table}_{index}', true, true)");
            fixture.rows(&check);
        }
    }
    fixture.rows("set enable_seqscan = off");
    let ask = |ask: &mut dyn FnMut(&str) -> Vec<String>| -> Vec<Vec<String>> {
        let tables = ["theirs", "ours"].into_iter();
        let all = tables.flat_map(|table| QUESTIONS.map(|sql| sql.replace('@', table)));
        all.map(|sql| ask(&sql)).collect()
    };
    let ours = ask(&mut |sql| fixture.rows(sql));
    let fixture = fixture.restart_after(ShutdownMode::Fast, |dir| peer.adopt(dir, "after"));
    fixture.close();
    let server = peer.start("after", "-c autovacuum=off");
    let theirs = ask(&mut |sql| {
        let found = server.query(sql);
        found.lines().map(str::to_owned).collect()
    });
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours.join("\n").replace("\\n", "\n").replace('\t', "|"), theirs.join("\n"));
    }
    for table in ["theirs", "ours"] {
        for index in indexes {
            server.query(&format!("select bt_index_parent_check('{table}_{index}', true, true)"));
        }
    }
    let rows = "select c.relname, refclassid::regclass, refobjsubid, deptype, refobjid = indrelid \
                from pg_depend join pg_class c on c.oid = objid join pg_index on indexrelid = \
                c.oid where indrelid = '@'::regclass order by 1, 2::text, 3, 4";
    let depends = |table: &str| server.query(&rows.replace('@', table)).replace(table, "");
    assert_eq!(depends("ours"), depends("theirs"));
    let trees = "select c.relname, indkey, indexprs, indpred, indcollation, indclass, indoption \
                 from pg_index join pg_class c on c.oid = indexrelid where indrelid = \
                 '@'::regclass order by 1";
    let trees = |table: &str| server.query(&trees.replace('@', table)).replace(table, "");
    assert_eq!(trees("ours"), trees("theirs"));
    let columns = "select c.relname, attname, attnum, atttypid, atttypmod, attlen, attalign, \
                   attbyval, attstorage, attcompression, attcollation, attndims, attislocal, \
                   attnotnull, attstattarget from pg_attribute join pg_class c on c.oid = attrelid \
                   join pg_index on indexrelid = c.oid where indrelid = '@'::regclass \
                   order by 1, 3";
    let columns = |table: &str| server.query(&columns.replace('@', table)).replace(table, "");
    assert_eq!(columns("ours"), columns("theirs"));
}
