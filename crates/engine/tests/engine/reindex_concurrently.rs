//! Indexes that are built anew beside readers and writers: what each step waits for, and what an
//! error or a crash in it leaves behind.

use std::sync::Arc;
use std::thread::JoinHandle;

use crate::common::*;
use crate::concurrent_indexes::{add, check, create_beside, flags, in_phase, insert_row};
use crate::concurrent_indexes::{keep_snapshot, with_table};
use crate::row_fixture::*;
use forebay_engine::types::oids;
use forebay_engine::views::create_index::{self, Phase, Statement};
use forebay_engine::{
    ColumnDef, ConstraintKind, Datum, Engine, EngineError, IndexCheckOptions, IndexDef, IndexKey,
    InterruptKind, IoMethod, LockMode, Part, Session, ShutdownMode,
};
use forebay_testkit::Dice;

/// The index.
const NAME: &str = "v_n_idx";

fn reindex(session: &mut Session) -> Result<(), EngineError> {
    session.reindex_index_concurrently(None, NAME)
}

/// The OID of an index of that name.
fn oid(session: &mut Session, name: &str) -> Option<u32> {
    transaction(session, |s| s.index_named(None, name)).expect("names")
}

/// The sessions that hold the steps of a REINDEX up, one after the other.
struct Holders {
    engine: Arc<Engine>,
    thread: JoinHandle<(Session, Result<(), EngineError>)>,
    writer: Session,
    late: Session,
    snapshot: Session,
    reader: Session,
    last: Session,
}

impl Holders {
    /// Begins to build the index anew.
    fn begin(engine: &Arc<Engine>, mut writer: Session) -> Holders {
        let session = || engine.session().expect("session");
        insert_row(&mut writer, 10, 1).expect("row");
        let thread = waiting(engine, 1, session(), reindex);
        Holders {
            engine: Arc::clone(engine),
            thread,
            writer,
            late: session(),
            snapshot: session(),
            reader: session(),
            last: session(),
        }
    }

    /// Lets it go on until it waits in a phase. Others change rows meanwhile.
    fn reach(&mut self, phase: Phase) {
        let holder = match phase {
            Phase::WaitForWriters => &self.writer,
            Phase::WaitForWritersAgain => {
                insert_row(&mut self.late, 12, 3).expect("row");
                update(&mut self.late, 1, 15).expect("update");
                self.writer.commit().expect("commit");
                &self.late
            }
            Phase::WaitForSnapshots => {
                keep_snapshot(&mut self.snapshot);
                self.late.commit().expect("commit");
                add(&mut self.writer, 13, 4).expect("row");
                &self.snapshot
            }
            Phase::WaitForReaders => {
                opened(&mut self.reader);
                self.snapshot.commit().expect("commit");
                &self.reader
            }
            Phase::WaitForReadersAgain => {
                opened(&mut self.last);
                self.reader.commit().expect("commit");
                &self.last
            }
            other => panic!("nobody waits in {other:?}"),
        };
        let shown = in_phase(&self.engine, &self.thread, phase, holder);
        assert_eq!(shown.get(create_index::STATEMENT), Statement::ReindexConcurrently as u64);
    }
}

const PHASES: [Phase; 5] = [
    Phase::WaitForWriters,
    Phase::WaitForWritersAgain,
    Phase::WaitForSnapshots,
    Phase::WaitForReaders,
    Phase::WaitForReadersAgain,
];

#[test]
fn an_index_gives_way_to_its_twin_and_no_row_is_lost() {
    let (_scratch, engine, mut session) = with_table();
    create_beside(&mut session, false).expect("made");
    let before = oid(&mut session, NAME).expect("the index");
    let mut other = engine.session().expect("session");
    let mut holders = Holders::begin(&engine, session);
    let valid = (true, true);
    // Valid and ready: of the index, and of its twin.
    for (phase, expected) in PHASES.into_iter().zip([
        vec![valid, (false, false)],
        vec![valid, (false, true)],
        vec![valid, (false, true)],
        vec![(false, true), valid],
        vec![valid],
    ]) {
        holders.reach(phase);
        assert_eq!(flags(&mut other), expected, "{phase:?}");
        let swapped = matches!(phase, Phase::WaitForReaders | Phase::WaitForReadersAgain);
        assert_eq!(oid(&mut other, NAME) == Some(before), !swapped, "{phase:?}");
        let twin = oid(&mut other, "v_n_idx_ccnew");
        assert_eq!(twin.is_some(), !swapped, "{phase:?}");
        let gone = oid(&mut other, "v_n_idx_ccold");
        assert_eq!(gone, swapped.then_some(before), "{phase:?}");
    }
    let Holders { mut last, thread, .. } = holders;
    last.commit().expect("commit");
    joined(thread).1.expect("done");
    assert_eq!(flags(&mut other), [valid]);
    assert_eq!(oid(&mut other, "v_n_idx_ccold"), None);
    assert!(engine.progress(forebay_engine::views::Command::CreateIndex).is_empty());
    check(&mut other);
    transaction(&mut other, |s| s.open_table(None, "v", LockMode::AccessExclusive).map(drop))
        .expect("no lock is left");
}

#[test]
fn a_crash_in_any_step_leaves_an_index_that_can_be_read_and_one_that_can_be_dropped() {
    for (n, phase) in PHASES.into_iter().enumerate() {
        let (_scratch, engine, mut session) = with_table();
        create_beside(&mut session, false).expect("made");
        let mut holders = Holders::begin(&engine, session);
        PHASES[..=n].iter().for_each(|phase| holders.reach(*phase));
        let dir = engine.data_dir().to_path_buf();
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        joined(holders.thread).1.expect_err("the engine stopped");
        drop((holders.writer, holders.late, holders.snapshot, holders.reader, holders.last));
        drop((holders.engine, engine));
        let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
        let valid =
            |session: &mut Session| flags(session).into_iter().filter(|(valid, _)| *valid).count();
        assert_eq!(valid(&mut session), 1, "{phase:?}");
        add(&mut session, 20, 200).expect("row");
        set(&mut session, 4, 45);
        session.commit().expect("commit");
        check(&mut session);
        reindex(&mut session).expect("again");
        check(&mut session);
        let label = if n < 3 { "ccnew" } else { "ccold" };
        let left = format!("{NAME}_{label}");
        session.drop_index_concurrently(None, &left).expect("what is left is dropped");
        assert_eq!(flags(&mut session), [(true, true)], "{phase:?}");
        drop(session);
        engine.shutdown(ShutdownMode::Fast).expect("stop");
        assert_undamaged(&dir);
    }
}

#[test]
fn equal_keys_leave_a_twin_that_is_skipped_then() {
    let (_scratch, _engine, mut session) = with_table();
    add(&mut session, 6, 50).expect("row");
    create_beside(&mut session, true).expect_err("5 and 6");
    let error = reindex(&mut session).expect_err("still");
    let message = "could not create unique index \"v_n_idx_ccnew\"";
    assert_eq!((error.sqlstate(), &*error.to_string()), ("23505", message));
    assert_eq!(flags(&mut session), [(false, false); 2]);
    delete(&mut session, 6).expect("delete");
    session.commit().expect("commit");
    reindex(&mut session).expect("done");
    assert_eq!(flags(&mut session), [(false, false), (true, true)]);
    check(&mut session);
    let table = transaction(&mut session, |s| s.open_table(None, "v", LockMode::AccessShare));
    let table = table.expect("table");
    session.take_warnings();
    assert!(session.reindex_table_concurrently(&table).expect("done"));
    let warnings = session.take_warnings();
    let [skipped] = &warnings[..] else { panic!("{warnings:?}") };
    let message = "skipping reindex of invalid index \"public.v_n_idx_ccnew\"";
    assert_eq!((skipped.sqlstate, &*skipped.message), ("55000", message));
    assert_eq!(add(&mut session, 8, 50).expect_err("it is kept").sqlstate(), "23505");
}

/// CREATE TABLE w (id int8 PRIMARY KEY, text), and what its TOAST index is called.
fn with_texts(session: &mut Session) -> String {
    let key = ColumnDef { not_null: true, ..ColumnDef::new("id", oids::INT8) };
    let columns = [key, ColumnDef::new("text", oids::TEXT)];
    transaction(session, |s| {
        s.create_table(None, "w", &columns)?;
        s.start_command()?;
        let table = s.open_table(None, "w", LockMode::AccessExclusive)?;
        let constraint = Some(ConstraintKind::Primary);
        let keys = vec![IndexKey::new(1)];
        s.create_index(&table, &IndexDef { keys, constraint, ..IndexDef::default() })?;
        Ok(format!("pg_toast_{}_index", table.oid))
    })
    .expect("table")
}

/// A text that cannot be compressed: it has two chunks, and an index can have it.
fn text(id: i64) -> String {
    let mut dice = Dice::new(id as u64);
    (0..2_400).map(|_| char::from(b'a' + dice.below(26) as u8)).collect()
}

fn put_text(session: &mut Session, id: i64) {
    session.start_command().expect("command");
    let table = session.open_table(None, "w", LockMode::RowExclusive).expect("table");
    let text = text(id);
    let row = [Datum::Int8(id), Datum::text(&text)];
    session.insert_row(&table, &row).expect("row");
}

/// The same in a transaction of its own.
fn add_text(session: &mut Session, id: i64) {
    session.begin().expect("begin");
    put_text(session, id);
    session.commit().expect("commit");
}

/// DELETE FROM w WHERE id = `id`
fn remove_text(session: &mut Session, id: i64) {
    transaction(session, |s| {
        let table = s.open_table(None, "w", LockMode::RowExclusive)?;
        let (mut scan, mut found) = (s.scan(&table)?, None);
        while let Some(row) = scan.next(s)? {
            if matches!(row.decode()?[..], [Datum::Int8(at), _] if at == id) {
                found = Some(row.place());
            }
        }
        drop(scan);
        s.delete_row(&table, found.expect("the row")).map(drop)
    })
    .expect("deleted");
}

fn texts(session: &mut Session) -> Vec<i64> {
    transaction(session, |s| {
        let table = s.open_table(None, "w", LockMode::AccessShare)?;
        let (mut scan, mut found) = (s.scan(&table)?, Vec::new());
        while let Some(row) = scan.next(s)? {
            let values = row.decode()?;
            let values: Vec<_> = values.into_iter().map(Datum::into_owned).collect();
            let [Datum::Int8(id), stored] = &values[..] else { panic!("{values:?}") };
            let whole = s.fetch_value(stored, table.columns[1].repr, Part::Whole)?;
            assert_eq!(whole, Datum::string(text(*id)), "row {id}");
            found.push(*id);
        }
        Ok(found)
    })
    .expect("texts")
}

/// Fails unless an index has each row of its table.
fn check_all(session: &mut Session, schema: Option<&str>, name: &str) {
    transaction(session, |s| {
        let oid = s.index_named(schema, name)?.expect("the index");
        s.check_index(oid, IndexCheckOptions { parents: true, all_rows: true, distinct: true })
    })
    .expect("checked");
}

#[test]
fn the_index_of_a_toast_table_gives_way_too() {
    let (_scratch, engine, mut session) = with_table();
    let index = with_texts(&mut session);
    add_text(&mut session, 1);
    let mut writer = engine.session().expect("session");
    writer.begin().expect("begin");
    put_text(&mut writer, 2);
    let maker = engine.session().expect("session");
    let thread = waiting(&engine, 1, maker, |s| {
        let table = transaction(s, |s| s.open_table(None, "w", LockMode::AccessShare));
        s.reindex_table_concurrently(&table.expect("table"))
    });
    in_phase(&engine, &thread, Phase::WaitForWriters, &writer);
    let mut late = engine.session().expect("session");
    late.begin().expect("begin");
    put_text(&mut late, 3);
    writer.commit().expect("commit");
    in_phase(&engine, &thread, Phase::WaitForWritersAgain, &late);
    // Both indexes get its chunks.
    add_text(&mut session, 4);
    late.commit().expect("commit");
    assert!(joined(thread).1.expect("done"));
    assert_eq!(texts(&mut session), [1, 2, 3, 4]);
    check_all(&mut session, Some("pg_toast"), &index);
    check_all(&mut session, None, "w_pkey");
    let dir = engine.data_dir().to_path_buf();
    drop((session, writer, late));
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    assert_undamaged(&dir);
}

#[test]
fn chunks_go_to_both_indexes_of_a_toast_table() {
    let (_scratch, engine, mut session) = with_table();
    let index = with_texts(&mut session);
    add_text(&mut session, 1);
    let new = || engine.session().expect("session");
    let (mut holder, mut reader) = (new(), new());
    keep_snapshot(&mut holder);
    let name = index.clone();
    let thread =
        waiting(&engine, 1, new(), move |s| s.reindex_index_concurrently(Some("pg_toast"), &name));
    // The twin got all that it lacked before: the writer has to add this to it.
    in_phase(&engine, &thread, Phase::WaitForSnapshots, &holder);
    add_text(&mut session, 2);
    reader.begin().expect("begin");
    put_text(&mut reader, 3);
    holder.commit().expect("commit");
    in_phase(&engine, &thread, Phase::WaitForReaders, &reader);
    // The index that goes stays: it is to be dropped by hand.
    add_text(&mut session, 4);
    let maker = engine.locks().into_iter().find(|lock| !lock.granted).expect("it waits");
    assert!(engine.interrupt_session(maker.session, InterruptKind::Cancel));
    assert_eq!(joined(thread).1.expect_err("cancelled").sqlstate(), "57014");
    reader.commit().expect("commit");
    assert_eq!(texts(&mut session), [1, 2, 3, 4]);
    check_all(&mut session, Some("pg_toast"), &index);
}

#[test]
fn long_values_that_an_index_build_reads_stay_while_their_index_gives_way() {
    let (_scratch, engine, mut session) = with_table();
    let toast_index = with_texts(&mut session);
    (1..=3).for_each(|id| add_text(&mut session, id));
    let new = || engine.session().expect("session");
    let (mut first, mut second) = (new(), new());
    first.begin().expect("begin");
    first.start_command().expect("command");
    first.open_table(None, "w", LockMode::RowExclusive).expect("table");
    let build = waiting(&engine, 1, new(), |s| {
        let table = transaction(s, |s| s.open_table(None, "w", LockMode::AccessShare))?;
        let keys = vec![IndexKey::new(2)];
        s.create_index_concurrently(&table, &IndexDef { keys, ..IndexDef::default() })
    });
    // It is not among those for which the build waits.
    second.begin().expect("begin");
    put_text(&mut second, 4);
    let replace = waiting(&engine, 2, new(), move |s| {
        s.reindex_index_concurrently(Some("pg_toast"), &toast_index)
    });
    first.commit().expect("commit");
    // The build waits for the lock of the TOAST table now.
    let builds = || {
        let rows = engine.progress(forebay_engine::views::Command::CreateIndex);
        rows.iter().any(|row| row.running.get(create_index::PHASE) == Phase::Build as u64)
    };
    while !builds() || engine.lock_waits() < 2 {
        assert!(!build.is_finished() && !replace.is_finished(), "they wait");
        std::thread::yield_now();
    }
    remove_text(&mut session, 2);
    second.commit().expect("commit");
    joined(replace).1.expect("the TOAST table's index");
    joined(build).1.expect("the other index");
    assert_eq!(texts(&mut session), [1, 3, 4]);
    check_all(&mut session, None, "w_text_idx");
}
