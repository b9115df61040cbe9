//! bt_index_check and bt_index_parent_check: sound indexes, damaged ones, what they lock, refusals.

use std::path::Path;

use crate::fixture::{Fixture, across, open};
use crate::support;
use forebay_engine::ShutdownMode;
use forebay_engine::checksums::{ChecksumMode, ChecksumObserver, ChecksumOptions, checksums};

const PAGE: usize = 8192;

/// All ways to call them.
const CALLS: [&str; 7] = [
    "bt_index_check('t_pkey')",
    "bt_index_check('public.t_pkey', true)",
    "bt_index_check('t_pkey'::regclass, false, true)",
    "bt_index_parent_check('t_pkey')",
    "bt_index_parent_check('t_pkey', true)",
    "bt_index_parent_check('t_pkey', false, true)",
    "bt_index_parent_check('t_pkey', true, true, true)",
];

/// Looks at no progress.
struct Quiet;

impl ChecksumObserver for Quiet {}

fn filled() -> Fixture {
    let mut fixture = open("");
    for sql in [
        "create table t (a int8 primary key, b text)",
        "insert into t select g, 'note ' || g % 10 from generate_series(1, 2000) g",
        "create index on t (b)",
        "update t set b = 'x' where a % 5 = 0",
        "delete from t where a between 500 and 900",
        "vacuum t",
        "insert into t select g, null from generate_series(3001, 3500) g",
    ] {
        fixture.rows(sql);
    }
    fixture
}

/// The row of a call, or its error.
fn answer_of(fixture: &mut Fixture, call: &str) -> String {
    let lines = support::run(&mut fixture.conn, &format!("select {call}"));
    lines.into_iter().find(|line| line.starts_with(['|', '!'])).expect("a row or an error")
}

/// Changes a relation's file while the engine is stopped. Pages have no checksums afterwards.
pub fn damaged(fixture: Fixture, file: &str, change: impl FnOnce(&mut [u8])) -> Fixture {
    fixture.restart_after(ShutdownMode::Fast, |dir: &Path| {
        let path = dir.join("base/5").join(file);
        let mut bytes = std::fs::read(&path).expect("readable");
        change(&mut bytes);
        std::fs::write(&path, &bytes).expect("writable");
        let mut options = ChecksumOptions::new(ChecksumMode::Disable);
        options.sync = None;
        if let Err(error) = checksums(dir, &options, &mut Quiet) {
            assert!(error.to_string().contains("already disabled"), "{error}");
        }
    })
}

#[test]
fn sound_indexes_pass() {
    let mut fixture = filled();
    for call in CALLS {
        assert_eq!(fixture.rows(&format!("select {call}")), [""], "{call}");
        let other = call.replace("t_pkey", "t_b_idx");
        assert_eq!(fixture.rows(&format!("select {other}")), [""], "{other}");
    }
    // What the own transaction has done counts.
    fixture.rows("begin; delete from t where a < 100; insert into t values (-1, 'own')");
    for call in CALLS {
        assert_eq!(fixture.rows(&format!("select {call}")), [""], "{call}");
    }
    fixture.rows("rollback");
    assert_eq!(fixture.rows("select bt_index_check(null)").len(), 1);
    let fixed = ["pg_class_oid_index", "pg_attribute_relid_attnum_index"];
    for index in fixed {
        let call = format!("select bt_index_parent_check('pg_catalog.{index}', true, true, true)");
        assert_eq!(fixture.rows(&call), [""], "{index}");
    }
    fixture.close();
}

#[test]
fn damage_is_an_error_that_names_the_place() {
    let mut fixture = filled();
    let oid = fixture.rows("select 't_pkey'::regclass::oid")[0].clone();
    // The first leaf: two line pointers are swapped.
    let mut fixture = damaged(fixture, &oid, |bytes| {
        let pointers = &mut bytes[PAGE + 24..];
        let (first, second) = (pointers[8..12].to_vec(), pointers[12..16].to_vec());
        pointers[8..12].copy_from_slice(&second);
        pointers[12..16].copy_from_slice(&first);
    });
    let expected = "! ERROR XX002 index \"t_pkey\" is corrupted: block 1, offset 4: item order \
        invariant violated: not above item 3";
    for call in CALLS {
        assert_eq!(answer_of(&mut fixture, call), expected, "{call}");
    }
    assert_eq!(fixture.rows("select bt_index_parent_check('t_b_idx', true)"), [""]);
    fixture.rows("reindex index t_pkey");
    for call in CALLS {
        assert_eq!(fixture.rows(&format!("select {call}")), [""], "{call}");
    }

    // A sibling link, which no page tells by itself.
    let file = fixture.rows("select relfilenode from pg_class where relname = 't_pkey'")[0].clone();
    let mut fixture = damaged(fixture, &file, |bytes| {
        bytes[2 * PAGE - 12..2 * PAGE - 8].copy_from_slice(&4_u32.to_le_bytes());
    });
    assert_eq!(answer_of(&mut fixture, CALLS[0]), "| ");
    let told = answer_of(&mut fixture, CALLS[3]);
    assert!(told.starts_with("! ERROR XX002 index \"t_pkey\" is corrupted: block "), "{told}");
    assert!(told.contains("left link/right link pair in index not in agreement"), "{told}");
    fixture.close();
}

#[test]
fn a_row_without_an_entry_is_named() {
    let mut fixture = filled();
    let oid = fixture.rows("select 't_pkey'::regclass::oid")[0].clone();
    // The first leaf's third item leads to another row.
    let mut fixture = damaged(fixture, &oid, |bytes| {
        let page = &mut bytes[PAGE..2 * PAGE];
        let pointer = u32::from_le_bytes([page[32], page[33], page[34], page[35]]);
        let at = (pointer & 0x7fff) as usize;
        page[at + 4] = 200;
    });
    for call in [CALLS[0], CALLS[3]] {
        assert_eq!(answer_of(&mut fixture, call), "| ", "{call}");
    }
    for call in [CALLS[1], CALLS[4], CALLS[6]] {
        let told = answer_of(&mut fixture, call);
        let expected = "from table \"t\" lacks matching index tuple within index \"t_pkey\"";
        assert!(told.starts_with("! ERROR XX002 heap tuple (0,"), "{told}");
        assert!(told.ends_with(expected), "{told}");
    }
    fixture.close();
}

#[test]
fn writers_go_on_beside_the_first_and_wait_for_the_second() {
    let mut fixture = filled();
    fixture.rows("begin; insert into t values (10000, 'new')");
    let mut other = fixture.connect();
    assert_eq!(crate::fixture::rows(&mut other, "select bt_index_check('t_pkey')"), [""]);
    fixture.rows("rollback");
    let told = across(&mut fixture, "insert into t values (10001, 'new')", || {
        crate::fixture::rows(&mut other, "select bt_index_parent_check('t_pkey', true)")
    });
    assert_eq!(told, [""]);
    other.close();
    fixture.close();
}

#[test]
fn other_relations_are_refused() {
    let mut fixture = filled();
    for (call, expected) in [
        ("bt_index_check('t')", "! ERROR 42809 \"t\" is not an index"),
        ("bt_index_check('nothere')", "! ERROR 42P01 relation \"nothere\" does not exist"),
        ("bt_index_check(4711)", "! ERROR 42P01 could not open relation with OID 4711"),
    ] {
        let told = answer_of(&mut fixture, call);
        assert!(told.starts_with(expected), "{call}: {told}");
    }
    fixture.close();
}
