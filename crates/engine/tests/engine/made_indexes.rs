//! Tables and indexes that are made in a cluster of PostgreSQL's: their rows in the catalogs are
//! those that PostgreSQL writes, and it works with them.

use std::sync::Arc;

use crate::common::*;
use forebay_engine::types::oids;
use forebay_engine::{
    ChangedParameters, ColumnDef, ConstraintKind, Datum, EngineError, IndexDef, IndexKey, IoMethod,
    LockMode, RowBatch, Session, ShutdownMode, StorageParameter, Table, storage_texts,
};
use forebay_testkit::made::CATALOGS;
use forebay_testkit::peer::{Peer, Postgres};

/// The statements that Forebay's calls stand for.
const STATEMENTS: &str = "\
    create table t (a int8 not null, b name, c int4, d text);
    insert into t select i, 'n' || i % 10, nullif(i % 7, 0), 'text ' || i
        from generate_series(1, 1000) i;
    alter table t add primary key (a);
    create unique index on t (b desc, a) include (c) nulls not distinct
        with (fillfactor = 70, deduplicate_items = off);
    create index on t (c);
    create index on t (c);
    create index \"d index\" on t (d desc nulls last, c nulls first);
    alter table t add unique (c, a);
    create table p (x int4, y int4);
    alter table p add primary key (x, y);
    create table _p (x int4);
    create table gone (x int4 primary key, y text);
    drop table gone;
    create table e (a int4 primary key);
    insert into e values (1), (2);
    truncate e;
    create index e_gone on e (a);
    drop index e_gone;
    create table bounded (a varchar(501), b varchar);
    drop table bounded;
    create table bounded (a varchar(501));
    create table toasted (a varchar(502), b numeric(10,2));
    create table emptied (a bytea);
    truncate emptied;
    create table params (a text) with (fillfactor = 70, toast.autovacuum_enabled = off,
        autovacuum_enabled = off);
    alter table params set (toast.vacuum_truncate = off, parallel_workers = 3);
    alter table params set (parallel_workers = 2, fillfactor = 50, vacuum_truncate);
    alter table params reset (autovacuum_enabled, nosuch, toast.autovacuum_enabled);
    create index params_a on params (a) with (fillfactor = 70);
    alter index params_a set (deduplicate_items = off, fillfactor = 60);
    create index params_b on params (a) with (fillfactor = 70);
    alter index params_b reset (deduplicate_items, fillfactor);";

fn key(attnum: i16) -> IndexKey {
    IndexKey::new(attnum)
}

/// Opens a table, to give it an index.
fn index(session: &mut Session, table: &str, def: &IndexDef) -> Result<u32, EngineError> {
    let table = session.open_table(None, table, LockMode::AccessExclusive)?;
    session.create_index(&table, def)
}

fn insert<const N: usize>(
    session: &mut Session,
    table: &Arc<Table>,
    rows: impl Iterator<Item = [Datum<'static>; N]>,
) -> Result<(), EngineError> {
    let mut batch = RowBatch::new(table);
    for row in rows {
        batch.push(&row)?;
    }
    session.insert_batch(table, &mut batch).map(drop)
}

fn primary(keys: &[i16]) -> IndexDef {
    let keys = keys.iter().copied().map(key).collect();
    IndexDef { keys, constraint: Some(ConstraintKind::Primary), ..IndexDef::default() }
}

/// A row of `t`.
fn row(n: i64) -> [Datum<'static>; 4] {
    let c = if n % 7 == 0 { Datum::Null } else { Datum::Int4((n % 7) as i32) };
    [Datum::Int8(n), Datum::string(format!("n{}", n % 10)), c, Datum::string(format!("text {n}"))]
}

fn make_t(session: &mut Session) -> Result<(), EngineError> {
    let not_null = |name, of| ColumnDef { not_null: true, ..ColumnDef::new(name, of) };
    let columns = [
        not_null("a", oids::INT8),
        ColumnDef::new("b", oids::NAME),
        ColumnDef::new("c", oids::INT4),
        ColumnDef::new("d", oids::TEXT),
    ];
    transaction(session, |s| s.create_table(None, "t", &columns))?;
    transaction(session, |s| {
        let table = s.open_table(None, "t", LockMode::RowExclusive)?;
        insert(s, &table, (1..=1000).map(row))
    })?;
    let descending =
        |attnum, nulls_first| IndexKey { descending: true, nulls_first, ..key(attnum) };
    let defs = [
        primary(&[1]),
        IndexDef {
            keys: vec![descending(2, true), key(1)],
            included: vec![3],
            unique: true,
            nulls_not_distinct: true,
            fill_factor: Some(70),
            deduplicate: Some(false),
            ..IndexDef::default()
        },
        IndexDef { keys: vec![key(3)], ..IndexDef::default() },
        IndexDef { keys: vec![key(3)], ..IndexDef::default() },
        IndexDef {
            name: Some("d index".to_owned()),
            keys: vec![descending(4, false), IndexKey { nulls_first: true, ..key(3) }],
            ..IndexDef::default()
        },
        IndexDef {
            keys: vec![key(3), key(1)],
            constraint: Some(ConstraintKind::Unique),
            ..IndexDef::default()
        },
    ];
    defs.iter().try_for_each(|def| transaction(session, |s| index(s, "t", def)).map(drop))
}

/// Does what [`STATEMENTS`] says.
fn make_all(session: &mut Session) -> Result<(), EngineError> {
    make_t(session)?;
    let int4 = |name| ColumnDef::new(name, oids::INT4);
    transaction(session, |s| s.create_table(None, "p", &[int4("x"), int4("y")]))?;
    transaction(session, |s| index(s, "p", &primary(&[1, 2])))?;
    transaction(session, |s| s.create_table(None, "_p", &[int4("x")]))?;
    transaction(session, |s| {
        s.create_table(None, "gone", &[int4("x"), ColumnDef::new("y", oids::TEXT)])?;
        index(s, "gone", &primary(&[1]))
    })?;
    transaction(session, |s| {
        let table = s.open_table(None, "gone", LockMode::AccessExclusive)?;
        s.drop_table(&table)
    })?;
    transaction(session, |s| s.create_table(None, "e", &[int4("a")]))?;
    transaction(session, |s| {
        let table = s.open_table(None, "e", LockMode::RowExclusive)?;
        insert(s, &table, [[Datum::Int4(1)], [Datum::Int4(2)]].into_iter())
    })?;
    transaction(session, |s| index(s, "e", &primary(&[1])))?;
    transaction(session, |s| {
        let table = s.open_table(None, "e", LockMode::AccessExclusive)?;
        s.truncate(&table)
    })?;
    let name = Some("e_gone".to_owned());
    let def = IndexDef { name, keys: vec![key(1)], ..IndexDef::default() };
    transaction(session, |s| index(s, "e", &def))?;
    transaction(session, |s| s.drop_index(None, "e_gone"))?;
    make_toasted(session)
}

/// Makes tables that have TOAST tables, and one that has none.
fn make_toasted(session: &mut Session) -> Result<(), EngineError> {
    let typed = |name, of, typmod| ColumnDef { typmod, ..ColumnDef::new(name, of) };
    let bounded = typed("a", oids::VARCHAR, 4 + 501);
    let both = [bounded.clone(), ColumnDef::new("b", oids::VARCHAR)];
    transaction(session, |s| s.create_table(None, "bounded", &both))?;
    transaction(session, |s| {
        let table = s.open_table(None, "bounded", LockMode::AccessExclusive)?;
        s.drop_table(&table)
    })?;
    transaction(session, |s| s.create_table(None, "bounded", &[bounded]))?;
    let toasted =
        [typed("a", oids::VARCHAR, 4 + 502), typed("b", oids::NUMERIC, 4 + (10 << 16 | 2))];
    transaction(session, |s| s.create_table(None, "toasted", &toasted))?;
    let emptied = [ColumnDef::new("a", oids::BYTEA)];
    transaction(session, |s| s.create_table(None, "emptied", &emptied))?;
    transaction(session, |s| {
        let table = s.open_table(None, "emptied", LockMode::AccessExclusive)?;
        s.truncate(&table)
    })?;
    make_parameters(session)
}

/// `namespace.name=value`
fn parameter(text: &str) -> StorageParameter {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    let (namespace, name) = match name.split_once('.') {
        Some((namespace, name)) => (Some(namespace.to_owned()), name),
        None => (None, name),
    };
    StorageParameter { namespace, name: name.to_owned(), value }
}

/// Makes a table and indexes whose storage parameters are set and reset.
fn make_parameters(session: &mut Session) -> Result<(), EngineError> {
    let columns = [ColumnDef::new("a", oids::TEXT)];
    let options = ["fillfactor=70", "toast.autovacuum_enabled=off", "autovacuum_enabled=off"];
    let options = storage_texts(&options.map(parameter)).map_err(EngineError::from)?;
    transaction(session, |s| s.create_table_with(None, "params", &columns, &options))?;
    for (given, reset) in [
        (&["toast.vacuum_truncate=off", "parallel_workers=3"][..], false),
        (&["parallel_workers=2", "fillfactor=50", "vacuum_truncate"], false),
        (&["autovacuum_enabled", "nosuch", "toast.autovacuum_enabled"], true),
    ] {
        let given: Vec<_> = given.iter().map(|text| parameter(text)).collect();
        transaction(session, |s| {
            let table = s.open_table(None, "params", LockMode::ShareUpdateExclusive)?;
            s.change_parameters(&table, ChangedParameters { given: &given, reset })
        })?;
    }
    for (name, given, reset) in [
        ("params_a", ["deduplicate_items=off", "fillfactor=60"], false),
        ("params_b", ["deduplicate_items", "fillfactor"], true),
    ] {
        let def = IndexDef {
            name: Some(name.to_owned()),
            keys: vec![key(1)],
            fill_factor: Some(70),
            ..IndexDef::default()
        };
        transaction(session, |s| index(s, "params", &def))?;
        let given = given.map(parameter);
        let change = ChangedParameters { given: &given, reset };
        transaction(session, |s| s.change_index_parameters((None, name), change))?;
    }
    Ok(())
}

/// Checks all B-trees of a cluster, those of the catalogs included.
fn check_trees(server: &Postgres<'_>) {
    server.query("create extension if not exists amcheck");
    let checked = server.query(
        "select count(bt_index_parent_check(c.oid, true, true)) > 100 from pg_class c \
         where relkind = 'i' and relam = 403",
    );
    assert_eq!(checked, "t");
    let heaps = server
        .query("select count(*) from pg_class c, lateral verify_heapam(c.oid) where relkind = 'r'");
    assert_eq!(heaps, "0");
}

#[test]
fn postgresql_finds_what_it_would_have_written() {
    let Some(peer) = Peer::find("postgresql_finds_what_it_would_have_written") else { return };
    peer.init("theirs");
    peer.init("ours");
    // Without autovacuum it would not store how many rows a table has when it builds an index.
    let server = peer.start("theirs", "-c autovacuum_naptime=1d");
    STATEMENTS.split_inclusive(';').for_each(|statement| drop(server.query(statement)));
    let expected = CATALOGS.map(|(_, query)| server.query(query));
    drop(server);

    let scratch = scratch();
    let dir = scratch.path().join("data");
    peer.fetch("ours", &dir);
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    make_all(&mut session).expect("made");
    drop(session);
    // PostgreSQL recovers it from the log.
    engine.shutdown(ShutdownMode::Immediate).expect("stop");

    peer.adopt(&dir, "made");
    let server = peer.start("made", "-c autovacuum=off");
    for ((catalog, query), expected) in CATALOGS.into_iter().zip(expected) {
        let found = server.query(query);
        let differs: Vec<_> = found.lines().zip(expected.lines()).filter(|(a, b)| a != b).collect();
        assert_eq!(differs, [], "{catalog}");
        assert_eq!(
            found.lines().count(),
            expected.lines().count(),
            "{catalog}:\n{found}\n\n{expected}"
        );
    }
    check_trees(&server);
    let found = server.query(
        "set enable_seqscan = off; select a, b, c, d from t where a = 500; \
         select count(*) from t where c = 3; select count(*) from t where b < 'n3'; \
         insert into e values (7); insert into p values (1, 2); \
         insert into t values (1001, null, 4, repeat('long ', 3)); select max(a) from t; \
         drop table p; drop table t; create table t (a int4); create table gone (a int4); \
         insert into emptied select string_agg(sha256(i::text::bytea), '') \
             from generate_series(1, 500) i; \
         update toasted set a = a; truncate emptied; drop table emptied; drop table toasted",
    );
    assert_eq!(found, "500|n0|3|text 500\n143\n300\n1001");
    check_trees(&server);
}
