//! VACUUM (PARALLEL): several indexes at once, and pages that are read eagerly.

use std::sync::Arc;

use crate::common::*;
use crate::full_disk::{Life, delete_even};
use crate::rewritten_tables::assert_sound;
use forebay_aio::Errno;
use forebay_aio::fault::{Effect, Ops, Rule};
use forebay_aio::sync::Duration;
use forebay_engine::{
    Datum, EngineError, IndexDef, IndexKey, LockMode, Session, ShutdownMode, Table, VacuumOptions,
};

pub const ROWS: u64 = 20_000;

/// CREATE TABLE t with four indexes; every second row is dead.
pub fn make(session: &mut Session) {
    create(session, "t");
    insert(session, "t", 0..ROWS as i64);
    transaction(session, |s| {
        for keys in [&[1][..], &[2], &[1, 2], &[2, 1]] {
            let table = s.open_table(None, "t", LockMode::Share)?;
            let keys = keys.iter().copied().map(IndexKey::new).collect();
            s.create_index(&table, &IndexDef { keys, ..IndexDef::default() })?;
            s.start_command()?;
        }
        Ok(())
    })
    .expect("indexes");
    delete_even(session, "t");
}

pub fn table(session: &mut Session) -> Arc<Table> {
    transaction(session, |s| s.table(None, "t")).expect("look").expect("a table")
}

fn vacuum(session: &mut Session, parallel: Option<u32>) -> Result<String, EngineError> {
    let table = table(session);
    let options = VacuumOptions { verbose: true, parallel, ..VacuumOptions::default() };
    let mut told = Vec::new();
    session.vacuum(&table, &options, &mut told).map(|()| told.join("\n"))
}

fn assert_whole(session: &mut Session) {
    for index in ["t_id_idx", "t_note_idx", "t_id_note_idx", "t_note_id_idx"] {
        assert_sound(session, index);
    }
    assert_eq!(count(session, "t").expect("count"), ROWS / 2);
}

/// What the indexes' lines of VERBOSE tell.
fn indexes(report: &str) -> Vec<&str> {
    report.lines().filter(|line| line.starts_with("index \"")).collect()
}

#[test]
fn workers_vacuum_an_index_each() {
    let mut lines = Vec::new();
    for (parallel, most, least, launched) in [
        (Some(0), 8, 0, None),
        (None, 0, 0, None),
        (None, 8, 1_000_000, None),
        (None, 8, 0, Some("launched 3 parallel vacuum workers for index vacuuming (planned: 3)")),
        (None, 2, 0, Some("launched 2 parallel vacuum workers for index vacuuming (planned: 2)")),
        (Some(1), 8, 0, Some("launched 1 parallel vacuum worker for index vacuuming (planned: 1)")),
        (
            Some(9),
            8,
            0,
            Some("launched 3 parallel vacuum workers for index vacuuming (planned: 3)"),
        ),
    ] {
        let (_scratch, engine) = fresh();
        let mut session = engine.session().expect("session");
        make(&mut session);
        let settings = &mut session.settings_mut().vacuum;
        (settings.parallel_workers, settings.min_parallel_index_blocks) = (most, least);
        // All threads rest for what they cost together.
        settings.cost_delay = Duration::from_micros(100);
        let report = vacuum(&mut session, parallel).expect("vacuum");
        match launched {
            Some(text) => assert!(report.contains(text), "{text} in {report}"),
            None => assert!(!report.contains("launched"), "{report}"),
        }
        assert!(!report.contains("index cleanup"), "entries were removed: {report}");
        lines.push(indexes(&report).join("\n"));
        assert_whole(&mut session);
        engine.shutdown(ShutdownMode::Fast).expect("stop");
    }
    assert_eq!(lines[0].lines().count(), 4);
    lines.iter().for_each(|of_one| assert_eq!(*of_one, lines[0]));
}

#[test]
fn workers_that_cannot_be_started_are_done_without() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    make(&mut session);
    session.settings_mut().vacuum.min_parallel_index_blocks = 0;
    session.settings_mut().parallel.max_workers = 1;
    let report = vacuum(&mut session, Some(3)).expect("vacuum");
    // No more than max_parallel_maintenance_workers are planned.
    let text = "launched 1 parallel vacuum worker for index vacuuming (planned: 2)";
    assert!(report.contains(text), "{report}");
    assert_whole(&mut session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}

/// The number before a text in a report.
fn number_before(report: &str, text: &str) -> u32 {
    let (before, _) = report.split_once(text).unwrap_or_else(|| panic!("{text} in {report}"));
    let number = before.trim_end().rsplit([' ', ',']).next().expect("a word");
    number.parse().unwrap_or_else(|_| panic!("{number} before {text} in {report}"))
}

#[test]
fn a_fifth_of_the_visible_pages_is_frozen_eagerly() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    create(&mut session, "t");
    let wide = "wide".repeat(490);
    transaction(&mut session, |s| {
        let table = s.open_table(None, "t", LockMode::RowExclusive)?;
        let rows = (0..34_400).map(|id| [Datum::Int8(id), Datum::text(&wide)]);
        rows.into_iter().try_for_each(|row| s.insert_row(&table, &row).map(drop))
    })
    .expect("rows");
    let report = vacuum(&mut session, None).expect("vacuum");
    let pages = number_before(&report, "remain");
    assert!(pages >= 8500, "{report}");
    assert_eq!(number_before(&report, "eagerly scanned"), 0);
    // Nothing must be frozen yet, so nothing is read for that.
    let report = vacuum(&mut session, None).expect("vacuum");
    assert_eq!(number_before(&report, "eagerly scanned"), 0, "{report}");

    session.settings_mut().vacuum.freeze_min_age = 0;
    session.settings_mut().vacuum.max_eager_freeze_failure_rate = 0.0;
    let report = vacuum(&mut session, None).expect("vacuum");
    assert_eq!(number_before(&report, "eagerly scanned"), 0, "{report}");

    session.settings_mut().vacuum.max_eager_freeze_failure_rate = 0.03;
    let report = vacuum(&mut session, None).expect("vacuum");
    let fifth = number_before(&report, "eagerly scanned blocks of relation");
    // The last page was frozen before: it is always read.
    assert!((pages - 6) / 5 <= fifth && fifth <= pages / 5, "{report}");
    let read = number_before(&report, "eagerly scanned\n");
    // Pages that were read ahead by then count, too.
    assert!(fifth <= read && read < fifth + 300, "{report}");
    assert!(number_before(&report, "pages set all-frozen") >= fifth, "{report}");
    let (of_table, _of_toast) = report.split_once("pg_toast").expect("a TOAST table");
    assert!(!of_table.contains("new relfrozenxid"), "{report}");
    assert_eq!(count(&mut session, "t").expect("count"), 34_400);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}

#[test]
fn an_index_that_cannot_be_read_fails_the_vacuum() {
    let mut life = Life::new();
    make(&mut life.session);
    life.session.checkpoint().expect("checkpoint");
    let damaged = table(&mut life.session).indexes[1].locator;
    let buffers = life.engine.buffers();
    let held = buffers.filter(|held| held.page.is_some_and(|page| page.tag.rel == damaged));
    for buffer in held.map(|held| held.buffer).collect::<Vec<_>>() {
        life.session.evict_buffer(buffer).expect("evict");
    }
    life.session.settings_mut().vacuum.min_parallel_index_blocks = 0;
    let rule = Rule::on(Ops::READ).path(format!("base/5/{}", damaged.rel));
    let fault = life.plan.add(rule, Effect::Fail(Errno::IO));
    let error = vacuum(&mut life.session, Some(2)).expect_err("an index cannot be read");
    assert_eq!(error.sqlstate(), "58030", "{error}");
    assert!(life.plan.fired(fault) > 0);
    life.mend();
    let report = vacuum(&mut life.session, Some(2)).expect("vacuum");
    assert!(report.contains("index scan needed"), "{report}");
    assert_whole(&mut life.session);
}
