//! Creating, truncating and dropping tables, alone and beside others.

use std::sync::Arc;
use std::thread;

use crate::common::*;
use forebay_aio::fault::{Effect, FaultPlan, Ops, Rule};
use forebay_aio::{Errno, MethodKind};
use forebay_catalog::schema::CATALOGS;
use forebay_engine::types::{Numeric, oids};
use forebay_engine::{
    ColumnDef, Datum, Engine, InterruptKind, IoMethod, LockMode, OnCommit, Session, ShutdownMode,
};

/// The relation files of the database, by number.
fn files(engine: &Engine) -> Vec<u32> {
    let mut files: Vec<u32> = std::fs::read_dir(engine.data_dir().join("base/5"))
        .expect("directory")
        .filter_map(|entry| entry.expect("entry").file_name().to_str()?.parse().ok())
        .filter(|number| *number >= 16_384)
        .collect();
    files.sort_unstable();
    files
}

#[test]
fn names_are_taken_once_and_unknown_ones_are_refused() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    create(&mut session, "t");
    let again = transaction(&mut session, |s| s.create_table(None, "t", &columns()));
    let error = again.expect_err("taken");
    assert_eq!(
        (error.sqlstate(), error.to_string().as_str()),
        ("42P07", "relation \"t\" already exists")
    );
    assert_eq!(state(count(&mut session, "nothing")), "42P01");
    let elsewhere = transaction(&mut session, |s| s.create_table(Some("nowhere"), "t", &columns()));
    assert_eq!(state(elsewhere), "3F000");
    let catalog =
        transaction(&mut session, |s| s.create_table(Some("pg_catalog"), "x", &columns()));
    assert_eq!(state(catalog), "42501");
    let missing =
        transaction(&mut session, |s| s.open_table(Some("public"), "u", LockMode::AccessShare));
    assert_eq!(missing.expect_err("missing").to_string(), "relation \"public.u\" does not exist");
}

#[test]
fn a_transaction_sees_its_own_tables_and_others_do_not() {
    let (_scratch, engine) = fresh();
    let mut maker = engine.session().expect("session");
    let mut other = engine.session().expect("session");
    start(&mut maker);
    maker.create_table(None, "t", &columns()).expect("create");
    maker.start_command().expect("command");
    let table = maker.open_table(None, "t", LockMode::RowExclusive).expect("own table");
    insert_open(&mut maker, &table, 0..10).expect("insert");
    assert_eq!(state(count(&mut other, "t")), "42P01");
    maker.start_command().expect("command");
    assert_eq!(maker.count_rows(&table).expect("count"), 10);
    maker.commit().expect("commit");
    assert_eq!(count(&mut other, "t").expect("count"), 10);
}

#[test]
fn an_aborted_creation_leaves_nothing() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    start(&mut session);
    session.create_table(None, "t", &columns()).expect("create");
    session.start_command().expect("command");
    let table = session.open_table(None, "t", LockMode::RowExclusive).expect("table");
    insert_open(&mut session, &table, 0..1_000).expect("insert");
    // The table's, its TOAST table's, and that of the index of that.
    assert_eq!(files(&engine).len(), 3);
    session.abort().expect("abort");
    assert_eq!(files(&engine), Vec::<u32>::new());
    assert_eq!(state(count(&mut session, "t")), "42P01");
    create(&mut session, "t");
    assert_eq!(count(&mut session, "t").expect("count"), 0);
}

#[test]
fn a_dropped_table_comes_back_if_the_transaction_aborts() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    create(&mut session, "t");
    insert(&mut session, "t", 0..100);
    for commit in [false, true] {
        start(&mut session);
        let table = session.open_table(None, "t", LockMode::AccessExclusive).expect("table");
        session.drop_table(&table).expect("drop");
        assert!(session.table(None, "t").expect("lookup").is_none());
        if commit {
            session.commit().expect("commit");
            assert_eq!(state(count(&mut session, "t")), "42P01");
            assert_eq!(files(&engine), Vec::<u32>::new());
        } else {
            session.abort().expect("abort");
            assert_eq!(count(&mut session, "t").expect("count"), 100);
        }
    }
    // The name is free again, under another number.
    create(&mut session, "t");
    assert_eq!(count(&mut session, "t").expect("count"), 0);
}

#[test]
fn create_and_drop_in_one_transaction() {
    let (scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    for commit in [false, true] {
        start(&mut session);
        session.create_table(None, "t", &columns()).expect("create");
        session.start_command().expect("command");
        let table = session.open_table(None, "t", LockMode::AccessExclusive).expect("table");
        session.drop_table(&table).expect("drop");
        session.start_command().expect("command");
        session.create_table(None, "t", &columns()[..1]).expect("create again");
        if commit {
            session.commit().expect("commit");
        } else {
            session.abort().expect("abort");
        }
        assert_eq!(files(&engine).len(), usize::from(commit));
    }
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, engine));
    let engine = open(&scratch.path().join("data"), &config(IoMethod::Sync, false));
    assert_eq!(files(&engine).len(), 1);
    let mut session = engine.session().expect("session");
    let columns =
        transaction(&mut session, |s| Ok(s.table(None, "t")?.expect("table").columns.len()));
    assert_eq!(columns.expect("lookup"), 1);
}

#[test]
fn one_of_many_who_create_the_same_name_succeeds() {
    let (_scratch, engine) = fresh();
    let makers: Vec<_> = (0..4)
        .map(|_| {
            let engine = Arc::clone(&engine);
            thread::spawn(move || {
                let mut session = engine.session().expect("session");
                transaction(&mut session, |s| s.create_table(None, "t", &columns()))
                    .map_err(|e| e.sqlstate())
            })
        })
        .collect();
    let results: Vec<_> = makers.into_iter().map(|m| m.join().expect("join")).collect();
    assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1, "{results:?}");
    assert!(results.iter().all(|r| r.is_ok() || *r == Err("42P07")), "{results:?}");
    assert_eq!(files(&engine).len(), 3);
}

#[test]
fn drop_waits_for_readers_and_readers_find_the_table_gone() {
    let (_scratch, engine) = fresh();
    let mut reader = engine.session().expect("session");
    create(&mut reader, "t");
    insert(&mut reader, "t", 0..10);
    start(&mut reader);
    let table = reader.open_table(None, "t", LockMode::AccessShare).expect("table");

    let mut dropper = engine.session().expect("session");
    let asks = dropper.interrupt().clone();
    let waiting = thread::spawn(move || {
        let result = transaction(&mut dropper, |s| {
            let table = s.open_table(None, "t", LockMode::AccessExclusive)?;
            s.drop_table(&table)
        });
        (dropper, result)
    });
    // A cancelled wait gives up, and the table is still there.
    asks.request(InterruptKind::Cancel);
    let (mut dropper, result) = waiting.join().expect("join");
    assert_eq!(state(result), "57014");
    asks.clear_cancel();
    assert_eq!(reader.count_rows(&table).expect("count"), 10);
    let waiting = thread::spawn(move || {
        transaction(&mut dropper, |s| {
            let table = s.open_table(None, "t", LockMode::AccessExclusive)?;
            s.drop_table(&table)
        })
    });
    reader.commit().expect("commit");
    waiting.join().expect("join").expect("dropped");
    assert_eq!(state(count(&mut reader, "t")), "42P01");
}

#[test]
fn catalogs_are_tables_that_can_be_read_and_not_written() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    create(&mut session, "t");
    let (names, kinds) = transaction(&mut session, |s| {
        let class = s.open_table(None, "pg_class", LockMode::AccessShare)?;
        let (name, kind) = (
            class.column("relname").expect("relname").0,
            class.column("relkind").expect("relkind").0,
        );
        let mut scan = s.scan(&class)?;
        let (mut names, mut kinds) = (Vec::new(), Vec::new());
        while let Some(row) = scan.next(s)? {
            let row = row.decode()?;
            let Datum::Text(text) = &row[name] else { panic!("{:?}", row[name]) };
            names.push(text.to_string());
            kinds.push(row[kind].clone().into_owned());
        }
        Ok((names, kinds))
    })
    .expect("scan");
    let of_kind =
        |kind: u8| names.iter().zip(&kinds).filter(move |(_, k)| **k == Datum::Char(kind));
    let catalogs = CATALOGS.iter().map(|catalog| catalog.name);
    assert!(of_kind(b'r').map(|(name, _)| name).eq(catalogs.chain(["t"])), "{names:?}");
    let (toast, indexes) = (of_kind(b't').count(), of_kind(b'i').count());
    assert_eq!(names.len(), CATALOGS.len() + 1 + toast + indexes);
    assert!(toast > 30 && indexes > 150);
    let error = transaction(&mut session, |s| {
        let class = s.open_table(None, "pg_class", LockMode::AccessExclusive)?;
        s.drop_table(&class)
    });
    assert_eq!(state(error), "42501");
    let listed = transaction(&mut session, Session::tables).expect("tables");
    assert_eq!(listed.len(), names.len() - indexes);
}

#[test]
fn rows_are_checked_before_they_are_taken() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    create(&mut session, "t");
    transaction(&mut session, |s| {
        let table = s.open_table(None, "t", LockMode::RowExclusive)?;
        let mut batch = forebay_engine::RowBatch::new(&table);
        assert_eq!(state(batch.push(&[Datum::Null, Datum::Null])), "23502");
        assert_eq!(state(batch.push(&[Datum::Int4(1), Datum::Null])), "42804");
        assert_eq!(state(batch.push(&[Datum::Int8(1)])), "XX000");
        let long = "x".repeat(9_000);
        assert!(batch.is_empty());
        batch.push(&[Datum::Int8(1), Datum::text(&long)])?;
        assert_eq!(s.insert_batch(&table, &mut batch)?, 1);
        Ok(())
    })
    .expect("transaction");
    assert_eq!(count(&mut session, "t").expect("count"), 1);
    // Every type that has a representation goes in and comes out again.
    let all = [
        (oids::BOOL, Datum::Bool(true)),
        (oids::INT2, Datum::Int2(-7)),
        (oids::INT4, Datum::Int4(i32::MAX)),
        (oids::FLOAT4, Datum::Float4(1.5)),
        (oids::FLOAT8, Datum::Float8(-2.25)),
        (oids::OID, Datum::Oid(77)),
        (oids::XID, Datum::Xid(3)),
        (oids::CHAR, Datum::Char(b'z')),
        (oids::NAME, Datum::text("relname")),
        (oids::VARCHAR, Datum::text("grün")),
        (oids::INT8, Datum::Null),
        (oids::TEXT, Datum::text("")),
        (oids::TIMESTAMPTZ, Datum::Timestamptz(i64::MIN)),
        (oids::BYTEA, Datum::bytes(&[0, 128])),
        (oids::NUMERIC, Datum::numeric(Numeric::from_int(-12_345_678))),
        (oids::PG_LSN, Datum::Lsn(0)),
    ];
    let columns: Vec<ColumnDef> = all
        .iter()
        .enumerate()
        .map(|(n, (oid, _))| ColumnDef::new(&format!("c{n}"), *oid))
        .collect();
    transaction(&mut session, |s| s.create_table(None, "types", &columns)).expect("create");
    transaction(&mut session, |s| {
        let table = s.open_table(None, "types", LockMode::RowExclusive)?;
        let mut batch = forebay_engine::RowBatch::new(&table);
        let row: Vec<Datum<'_>> = all.iter().map(|(_, v)| v.clone()).collect();
        batch.push(&row)?;
        s.insert_batch(&table, &mut batch)?;
        s.start_command()?;
        let mut scan = s.scan(&table)?;
        let view = scan.next(s)?.expect("row");
        assert_eq!(view.decode()?, row);
        let mut wanted = Vec::new();
        view.decode_wanted(&[false, true, false], &[], &mut wanted)?;
        assert_eq!(wanted, [Datum::Null, Datum::Int2(-7), Datum::Null]);
        Ok(())
    })
    .expect("transaction");
}

/// A cancel that came when nothing ran any more, or the order to leave, is pending when a session
/// is dropped.
#[test]
fn temporary_tables_go_with_a_session_that_was_interrupted() {
    let (_scratch, engine) = fresh();
    for kind in [InterruptKind::Cancel, InterruptKind::Terminate] {
        let mut session = engine.session().expect("session");
        transaction(&mut session, |s| s.create_temp_table("t", &columns(), OnCommit::PreserveRows))
            .expect("the name is free");
        session.interrupt().request(kind);
    }
    // It has the slot, and so the namespace, of those before it.
    let mut session = engine.session().expect("session");
    let tables = transaction(&mut session, Session::tables).expect("tables");
    assert!(tables.iter().all(|table| table.name != "t"));
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
}

/// A transaction with changes of its own has found a table without locking it; then another drops
/// the table and makes it anew.
#[test]
fn a_table_is_looked_up_again_when_it_is_locked() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    let mut other = engine.session().expect("session");
    create(&mut other, "t");
    transaction(&mut session, |s| {
        s.create_table(None, "own", &columns())?;
        let before = s.table(None, "t")?.expect("there").oid;
        transaction(&mut other, |s| {
            let table = s.open_table(None, "t", LockMode::AccessExclusive)?;
            s.drop_table(&table)
        })?;
        create(&mut other, "t");
        assert_ne!(s.open_table(None, "t", LockMode::AccessShare)?.oid, before);
        Ok(())
    })
    .expect("commit");
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
}

/// Empties a table in the running transaction.
fn truncate(session: &mut Session, name: &str) {
    session.start_command().expect("command");
    let table = session.open_table(None, name, LockMode::AccessExclusive).expect("table");
    session.truncate(&table).expect("truncate");
}

#[test]
fn a_truncated_table_has_its_rows_back_if_the_transaction_aborts() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    create(&mut session, "t");
    insert(&mut session, "t", 0..100);
    let before = files(&engine);
    start(&mut session);
    truncate(&mut session, "t");
    session.start_command().expect("command");
    let table = session.open_table(None, "t", LockMode::RowExclusive).expect("table");
    insert_open(&mut session, &table, 0..7).expect("insert");
    assert_eq!(files(&engine).len(), 6);
    // What a subtransaction does is gone with it.
    session.begin_subtransaction().expect("savepoint");
    truncate(&mut session, "t");
    assert_eq!(files(&engine).len(), 9);
    session.abort_subtransaction().expect("rollback");
    assert_eq!(files(&engine).len(), 6);
    session.start_command().expect("command");
    let table = session.open_table(None, "t", LockMode::AccessShare).expect("table");
    assert_eq!(session.count_rows(&table).expect("count"), 7);
    session.abort().expect("abort");
    assert_eq!(files(&engine), before);
    assert_eq!(count(&mut session, "t").expect("count"), 100);
    start(&mut session);
    truncate(&mut session, "t");
    session.commit().expect("commit");
    let after = files(&engine);
    assert!(after.len() == 3 && after != before);
    assert_eq!(count(&mut session, "t").expect("count"), 0);
}

#[test]
fn truncation_is_checked() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    create(&mut session, "t");
    start(&mut session);
    let table = session.open_table(None, "t", LockMode::RowExclusive).expect("table");
    assert_eq!(state(session.truncate(&table)), "55000");
    let class = session.open_table(None, "pg_class", LockMode::AccessShare).expect("table");
    assert_eq!(state(session.truncate(&class)), "42501");
}

/// The commit's record empties the table, and removes the old file if the crash came before that.
#[test]
fn a_truncation_that_committed_outlives_a_crash() {
    for leftover in [false, true] {
        let (_scratch, dir) = new_dir();
        let config = config(IoMethod::Sync, false);
        let plan = FaultPlan::new();
        let aio = io::open_faulty(&plan, MethodKind::Sync);
        let engine = Engine::open_on(&dir, config.clone(), aio).expect("open");
        let mut session = engine.session().expect("session");
        create(&mut session, "t");
        insert(&mut session, "t", 0..1_000);
        create(&mut session, "u");
        insert(&mut session, "u", 0..1_000);
        session.checkpoint().expect("checkpoint");
        let before = files(&engine);
        if leftover {
            let path = format!("/{}", before[0]);
            for ops in [Ops::UNLINK, Ops::SET_LEN] {
                plan.add(Rule::on(ops).path(&path), Effect::Fail(Errno(5)));
            }
        }
        start(&mut session);
        truncate(&mut session, "t");
        session.commit().expect("commit");
        assert_eq!(files(&engine).contains(&before[0]), leftover);
        insert(&mut session, "t", 0..3);
        // This one does not commit.
        start(&mut session);
        truncate(&mut session, "u");
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        drop((session, engine));
        let (engine, mut session) = open_session(&dir, &config);
        assert_eq!(count_and_sum(&mut session, "t"), (3, 3));
        assert_eq!(count(&mut session, "u").expect("count"), 1_000);
        assert!(!files(&engine).contains(&before[0]));
        engine.shutdown(ShutdownMode::Fast).expect("stop");
    }
}
