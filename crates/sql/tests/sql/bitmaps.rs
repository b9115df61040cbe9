//! Bitmap scans against answers recorded from PostgreSQL 18; lossy ones; and what other sessions'
//! changes and vacuums make of them

use crate::fixture::{Fixture, open, rows, wait_for_wait};
use crate::support;
use std::thread;

#[test]
fn bitmaps_are_planned_and_read_as_postgresql_does_it() {
    let mut fixture = open("");
    let golden = include_str!("../golden/bitmaps.txt");
    assert!(support::cases(golden).len() > 55, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// A table of many pages with two indexes that find rows of each of them.
fn scattered() -> Fixture {
    let mut fixture = open("");
    fixture.rows("create table w (a int, b int, filler text)");
    fixture
        .rows("insert into w select x, x % 10, repeat('x', 500) from generate_series(1, 30000) x");
    fixture.rows("create index wa on w (a)");
    fixture.rows("create index wb on w (b)");
    fixture.rows("set enable_seqscan = off");
    fixture.rows("set enable_indexscan = off");
    fixture
}

/// The number behind a word in a plan's lines. None: it is not there.
fn number(lines: &[String], word: &str) -> Option<u64> {
    let behind = lines.iter().find_map(|line| line.split_once(word))?.1;
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    Some(digits.parse().expect("a number"))
}

#[test]
fn an_arm_that_an_index_tests_in_part_stays_a_filter() {
    let mut fixture = open("");
    fixture.rows("create table c (a int, b int, c int)");
    fixture.rows("insert into c select x / 10, x % 10, x from generate_series(1, 30000) x");
    fixture.rows("create index ca on c (a)");
    fixture.rows("create index cc on c (c)");
    fixture.rows("analyze c");
    fixture.rows("set enable_seqscan = off");
    let asked = "select count(*), min(c) from c where (a, b) > (2990, 5) or c = 7";
    let plan = fixture.rows(&format!("explain (costs off) {asked}"));
    assert!(plan.iter().any(|line| line.contains("BitmapOr")), "{plan:?}");
    assert_eq!(fixture.rows(asked), ["96\t7"]);
    fixture.close();
}

#[test]
fn a_bitmap_that_outgrows_its_memory_tests_rows_again() {
    let mut fixture = scattered();
    let counted = "select count(*), sum(a) from w where b = 3";
    let explained = format!("explain (analyze, costs off, timing off, summary off) {counted}");
    let expected = fixture.rows(counted);
    assert_eq!(expected, ["3000\t44994000"]);
    let exact = fixture.rows(&explained);
    assert_eq!((number(&exact, "lossy="), number(&exact, "Recheck: ")), (None, None), "{exact:?}");
    fixture.rows("set work_mem = '64kB'");
    let lossy = fixture.rows(&explained);
    let removed = number(&lossy, "Rows Removed by Index Recheck: ").expect("some are tested");
    assert!(number(&lossy, "lossy=").is_some_and(|pages| pages > 100), "{lossy:?}");
    assert!(removed > 1000, "{lossy:?}");
    for (sql, answer) in [
        (counted, "3000\t44994000"),
        ("select count(*), sum(a) from w where b = 3 and a < 20000", "2000\t19996000"),
        ("select count(*), sum(a) from w where b = 3 or a < 10", "3008\t44994042"),
        ("select count(*), sum(a) from w where b in (3, 4) and a > 100", "5980\t89990030"),
        ("select count(*), sum(a) from w where (a, b) < (1000, 0) and b = 3", "100\t49800"),
    ] {
        assert_eq!(fixture.rows(sql), [answer], "{sql}");
    }
    assert_eq!(
        fixture.rows("update w set filler = '' where b = 3 and a < 5000 returning 1").len(),
        500
    );
    assert_eq!(fixture.rows(counted), expected);
    fixture.close();
}

#[test]
fn rows_that_changed_meanwhile_are_tested_again() {
    let mut fixture = scattered();
    let mut other = fixture.connect();
    for sql in ["set enable_seqscan = off", "set enable_indexscan = off"] {
        rows(&mut other, sql);
    }
    fixture.rows("begin");
    fixture.rows("update w set b = 4 where a = 13");
    fixture.rows("update w set filler = 'new' where a = 23");
    let engine = std::sync::Arc::clone(&fixture.engine);
    thread::scope(|scope| {
        let select = "select a, filler from w where b = 3 and a < 30 or a = 100000 for update";
        let waiting = scope.spawn(move || rows(&mut other, select));
        wait_for_wait(&engine, &waiting);
        fixture.rows("commit");
        let long = "x".repeat(500);
        let found = waiting.join().expect("join");
        assert_eq!(found, [format!("3\t{long}"), "23\tnew".to_owned()]);
    });
    fixture.close();
}

#[test]
fn a_vacuum_between_index_and_table_hides_and_shows_nothing() {
    let mut fixture = scattered();
    let mut other = fixture.connect();
    // The cursor's bitmap names the places of all rows with b = 3. It rests on the first pages.
    fixture.rows("begin");
    fixture.rows("declare c cursor for select a from w where b = 3");
    assert_eq!(fixture.rows("fetch 2 from c"), ["3", "13"]);
    // Rows deleted after the snapshot stay for it, whatever vacuum does.
    rows(&mut other, "delete from w where b = 3 and a > 20000");
    rows(&mut other, "vacuum w");
    rows(&mut other, "insert into w select x, 3, '' from generate_series(100001, 105000) x");
    let rest = fixture.rows("fetch all from c");
    let expected: Vec<String> = (2..3000).map(|n| (n * 10 + 3).to_string()).collect();
    assert_eq!(rest, expected);
    fixture.rows("commit");
    assert_eq!(fixture.rows("select count(*) from w where b = 3"), ["7000"]);
    // Places that became free before the snapshot may be taken between index and table.
    rows(&mut other, "delete from w where b = 5");
    fixture.rows("begin");
    fixture.rows("declare c cursor for select a from w where b in (5, 6) and a <= 30000");
    assert_eq!(fixture.rows("fetch 1 from c"), ["6"]);
    rows(&mut other, "vacuum w");
    rows(&mut other, "insert into w select x, 5, '' from generate_series(200001, 203000) x");
    assert_eq!(fixture.rows("fetch all from c").len(), 2999);
    fixture.rows("commit");
    assert_eq!(fixture.rows("select count(*) from w where b = 5"), ["3000"]);
    fixture.close();
}
