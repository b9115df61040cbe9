//! Creating, dropping and rebuilding indexes: their names, what is refused, and that nothing is
//! left of what failed.

use std::sync::Arc;

use crate::common::*;
use forebay_engine::types::oids;
use forebay_engine::{
    ColumnDef, ConstraintKind, Datum, Engine, EngineError, IndexDef, IndexKey, LockMode, OnCommit,
    RowBatch, Session, ShutdownMode, Table,
};

/// A session in a new cluster with a table: `t (a int4, b text)`.
fn with_table() -> (tempfile::TempDir, Arc<Engine>, Session) {
    let (scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    let columns = [ColumnDef::new("a", oids::INT4), ColumnDef::new("b", oids::TEXT)];
    transaction(&mut session, |s| s.create_table(None, "t", &columns)).expect("create");
    (scratch, engine, session)
}

fn fill(session: &mut Session, rows: impl IntoIterator<Item = (Datum<'static>, &'static str)>) {
    let filled = transaction(session, |s| {
        let table = s.open_table(None, "t", LockMode::RowExclusive)?;
        let mut batch = RowBatch::new(&table);
        for (a, b) in rows {
            batch.push(&[a, Datum::text(b)])?;
        }
        s.insert_batch(&table, &mut batch)
    });
    filled.expect("rows");
}

fn on(keys: &[i16]) -> IndexDef {
    let keys = keys.iter().copied().map(IndexKey::new).collect();
    IndexDef { keys, ..IndexDef::default() }
}

fn make(session: &mut Session, def: &IndexDef) -> Result<u32, EngineError> {
    transaction(session, |s| {
        let table = s.open_table(None, "t", LockMode::Share)?;
        s.create_index(&table, def)
    })
}

fn table(session: &mut Session) -> Arc<Table> {
    transaction(session, |s| s.open_table(None, "t", LockMode::AccessShare)).expect("t")
}

fn names(session: &mut Session) -> Vec<String> {
    table(session).indexes.iter().map(|index| index.name.clone()).collect()
}

/// Files of the database, and rows of the catalogs that tell of relations.
fn traces(engine: &Engine, session: &mut Session) -> Vec<u64> {
    let files = std::fs::read_dir(engine.data_dir().join("base/5")).expect("files").count();
    let catalogs =
        ["pg_class", "pg_attribute", "pg_index", "pg_constraint", "pg_depend", "pg_type"];
    let rows = catalogs.map(|catalog| count(session, catalog).expect("rows"));
    std::iter::once(files as u64).chain(rows).collect()
}

#[test]
fn indexes_get_the_names_that_postgresql_gives() {
    let (_scratch, engine, mut session) = with_table();
    let primary = IndexDef { constraint: Some(ConstraintKind::Primary), ..on(&[1]) };
    let unique = IndexDef { constraint: Some(ConstraintKind::Unique), ..on(&[2, 1]) };
    let included = IndexDef { included: vec![2], ..on(&[1]) };
    for def in [&on(&[1]), &on(&[1]), &unique, &unique, &included, &primary, &on(&[2, 2])] {
        make(&mut session, def).expect("made");
    }
    let expected =
        ["t_a_idx", "t_a_idx1", "t_b_a_key", "t_b_a_key1", "t_a_b_idx", "t_pkey", "t_b_b1_idx"];
    assert_eq!(names(&mut session), expected);
    assert!(table(&mut session).columns[0].not_null, "a column of the primary key");
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}

#[test]
fn what_cannot_be_made_leaves_nothing() {
    let (_scratch, engine, mut session) = with_table();
    let one = || Datum::Int4(1);
    fill(&mut session, [(one(), "x"), (Datum::Null, "y"), (one(), "z"), (Datum::Null, "q")]);
    make(&mut session, &on(&[1])).expect("made");
    let before = traces(&engine, &mut session);

    let named = |name: &str, def| IndexDef { name: Some(name.to_owned()), ..def };
    let unique = IndexDef { unique: true, ..on(&[1]) };
    let error = make(&mut session, &unique).expect_err("two rows have 1");
    assert_eq!(error.to_string(), "could not create unique index \"t_a_idx1\"");
    assert_eq!(error.sqlstate(), "23505");
    assert_eq!(error.detail().as_deref(), Some("Key (a)=(1) is duplicated."));
    let primary = IndexDef { constraint: Some(ConstraintKind::Primary), ..on(&[2]) };
    let nulls = IndexDef { constraint: Some(ConstraintKind::Primary), ..on(&[2, 1]) };
    let error = make(&mut session, &nulls).expect_err("there are NULLs");
    assert_eq!(error.to_string(), "column \"a\" of relation \"t\" contains null values");
    assert_eq!(error.sqlstate(), "23502");
    let equal = IndexDef { nulls_not_distinct: true, unique: true, ..on(&[1, 2]) };
    for (state, def) in [
        ("42P07", named("t_a_idx", on(&[2]))),
        ("42P07", named("t", on(&[2]))),
        ("42703", on(&[3])),
        ("54011", on(&[1; 33])),
        ("42622", named(&"x".repeat(64), on(&[1]))),
    ] {
        assert_eq!(make(&mut session, &def).expect_err("refused").sqlstate(), state);
    }
    assert_eq!(traces(&engine, &mut session), before);

    make(&mut session, &equal).expect("keys differ");
    make(&mut session, &primary).expect("made");
    let again = IndexDef { constraint: Some(ConstraintKind::Primary), ..on(&[2]) };
    let error = make(&mut session, &again).expect_err("a second one");
    assert_eq!(error.sqlstate(), "42P16");
    transaction(&mut session, |s| {
        let table = s.open_table(None, "t", LockMode::AccessExclusive)?;
        s.drop_table(&table)
    })
    .expect("dropped");
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}

#[test]
fn nulls_are_distinct_unless_they_are_said_not_to_be() {
    let (_scratch, engine, mut session) = with_table();
    fill(&mut session, [(Datum::Null, "x"), (Datum::Null, "y")]);
    make(&mut session, &IndexDef { unique: true, ..on(&[1]) }).expect("distinct");
    let equal = IndexDef { nulls_not_distinct: true, unique: true, ..on(&[1]) };
    let error = make(&mut session, &equal).expect_err("not distinct");
    assert_eq!(error.detail().as_deref(), Some("Key (a)=(null) is duplicated."));
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}

#[test]
fn an_index_goes_unless_a_constraint_needs_it() {
    let (_scratch, engine, mut session) = with_table();
    let before = traces(&engine, &mut session);
    make(&mut session, &on(&[1])).expect("made");
    let error = transaction(&mut session, |s| s.drop_index(None, "no")).expect_err("none");
    let refusal = |error: &EngineError| (error.sqlstate(), error.to_string());
    assert_eq!(refusal(&error), ("42704", "index \"no\" does not exist".to_owned()));
    let error = transaction(&mut session, |s| s.drop_index(None, "t")).expect_err("a table");
    assert_eq!(refusal(&error), ("42809", "\"t\" is not an index".to_owned()));
    transaction(&mut session, |s| s.drop_index(None, "t_a_idx")).expect("dropped");
    engine.session().expect("session").checkpoint().expect("checkpoint");
    assert_eq!(traces(&engine, &mut session), before);

    let unique = IndexDef { constraint: Some(ConstraintKind::Unique), ..on(&[1]) };
    make(&mut session, &unique).expect("made");
    let error = transaction(&mut session, |s| s.drop_index(None, "t_a_key")).expect_err("needed");
    let message = "cannot drop index t_a_key because constraint t_a_key on table t requires it";
    assert_eq!(refusal(&error), ("2BP01", message.to_owned()));
    let hint = "You can drop constraint t_a_key on table t instead.";
    assert_eq!(error.hint().as_deref(), Some(hint));
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}

#[test]
fn a_rebuilt_index_has_a_new_file() {
    let (_scratch, engine, mut session) = with_table();
    session.settings_mut().maintenance_work_mem = 64;
    fill(&mut session, (0..5000).map(|n| (Datum::Int4(n * 7919 % 5000), "row")));
    make(&mut session, &on(&[1, 2])).expect("made");
    let file = |session: &mut Session| table(session).indexes[0].locator;
    let (old, before) = (file(&mut session), traces(&engine, &mut session));
    session.begin().expect("begin");
    session.start_command().expect("command");
    session.reindex_index(None, "t_a_b_idx").expect("rebuilt");
    session.abort().expect("abort");
    assert_eq!(file(&mut session), old);
    assert_eq!(traces(&engine, &mut session), before);
    transaction(&mut session, |s| {
        let table = s.open_table(None, "t", LockMode::AccessExclusive)?;
        s.reindex_table(&table)
    })
    .expect("rebuilt");
    assert_ne!(file(&mut session), old);
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}

#[test]
fn temporary_tables_have_indexes_in_their_session() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    let columns = [ColumnDef::new("a", oids::INT4), ColumnDef::new("b", oids::TEXT)];
    let before = traces(&engine, &mut session);
    transaction(&mut session, |s| s.create_temp_table("t", &columns, OnCommit::DeleteRows))
        .expect("create");
    let primary = IndexDef { constraint: Some(ConstraintKind::Primary), ..on(&[1]) };
    make(&mut session, &primary).expect("made");
    make(&mut session, &on(&[2])).expect("made");
    assert_eq!(names(&mut session), ["t_pkey", "t_b_idx"]);
    for _ in 0..2 {
        // The commit empties the indexes too: the same keys are free again.
        fill(&mut session, (0..500).map(|n| (Datum::Int4(n), "row")));
        let taken = transaction(&mut session, |s| {
            let table = s.open_table(None, "t", LockMode::RowExclusive)?;
            s.insert_row(&table, &[Datum::Int4(7), Datum::Null])?;
            s.insert_row(&table, &[Datum::Int4(7), Datum::Null])
        });
        assert_eq!(state(taken), "23505");
    }
    transaction(&mut session, |s| {
        let table = s.open_table(None, "t", LockMode::AccessExclusive)?;
        s.insert_row(&table, &[Datum::Int4(7), Datum::Null])?;
        s.truncate(&table)?;
        s.start_command()?;
        let table = s.open_table(None, "t", LockMode::AccessExclusive)?;
        s.insert_row(&table, &[Datum::Int4(7), Datum::Null])
    })
    .expect("the key is free");
    transaction(&mut session, |s| s.drop_index(None, "t_b_idx")).expect("dropped");
    assert_eq!(names(&mut session), ["t_pkey"]);
    transaction(&mut session, |s| s.discard_temp()).expect("dropped");
    let after = traces(&engine, &mut session);
    assert_eq!((after[0], &after[2..]), (before[0], &before[2..]));
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}
