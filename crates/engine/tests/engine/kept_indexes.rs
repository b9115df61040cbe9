//! Indexes that PostgreSQL made: what the catalogs say of them, and rows that come and go with
//! their entries.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::common::*;
use forebay_engine::{
    ChangedParameters, Datum, EngineError, IoMethod, ItemPointer, LockMode, RowBatch, RowOutcome,
    Session, ShutdownMode, StorageParameter, Table, TableIndex,
};
use forebay_testkit::Dice;
use forebay_testkit::peer::{Peer, Postgres};

#[test]
fn the_catalogs_tell_what_an_index_is() {
    let Some(peer) = Peer::find("the_catalogs_tell_what_an_index_is") else { return };
    peer.init("data");
    let server = peer.start("data", "-c autovacuum=off");
    server.query(
        "create table t (a int8, b text, c name, d int4, e jsonb, primary key (a)); \
         create unique index t_b on t (b desc, a) include (d) nulls not distinct \
             with (fillfactor = 70, deduplicate_items = off); \
         create index t_c on t (c desc nulls last); \
         create index t_hash on t using hash (a); \
         create index t_expression on t ((a + 1)); \
         create index t_some on t (a) where d > 0; \
         create index t_collated on t (b collate \"en-x-icu\"); \
         create index t_jsonb on t (e); \
         create index t_pattern on t (b text_pattern_ops); \
         alter table t add unique (d) deferrable; \
         alter table t add exclude using btree (d with =); \
         create table plain (a int4); create table was (a int4 primary key); \
         alter table was drop constraint was_pkey",
    );
    drop(server);
    let scratch = scratch();
    let dir = scratch.path().join("data");
    peer.fetch("data", &dir);
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    let mut indexes = |name: &str| {
        let open =
            |s: &mut forebay_engine::Session| s.open_table(None, name, LockMode::AccessShare);
        let table = transaction(&mut session, open).expect("a table");
        assert!(table.indexes.is_sorted_by_key(|index| index.oid));
        let of_all = transaction(&mut session, |s| s.tables()).expect("all tables");
        let again = of_all.iter().find(|other| other.oid == table.oid).expect("it is one of them");
        let described = |indexes: &[Arc<TableIndex>]| -> Vec<String> {
            indexes.iter().map(|index| describe_with_figures(index)).collect()
        };
        assert_eq!(described(&table.indexes), described(&again.indexes));
        table.indexes.iter().map(|index| describe(index)).collect::<Vec<_>>()
    };
    assert_eq!(
        indexes("t"),
        [
            "t_pkey [1] unique primary Int8",
            "t_b [2, 1, 4] unique Bytes desc nulls first, Int8; nulls equal 70% single",
            "t_c [3] Bytes desc",
            "t_hash [1] its access method (OID 405) is not supported",
            "t_expression [0] nothing evaluates its expressions or its predicate here",
            "t_some [1] nothing evaluates its expressions or its predicate here",
            "t_collated [2] Collated(CollatedOrder { repr: Text, padded: false, \
             collation: Collation(\"icu\", \"en\") })",
            "t_jsonb [5] its operator class ",
            "t_pattern [2] Bytes",
            "t_d_key [4] unique deferred Int4",
            "t_d_excl [4] it is for an exclusion constraint",
        ]
    );
    assert_eq!((indexes("plain").len(), indexes("was").len()), (0, 0));
    assert_eq!(
        indexes("pg_class"),
        [
            "pg_class_oid_index [1] unique primary Word4",
            "pg_class_relname_nsp_index [2, 3] unique Bytes, Word4",
            "pg_class_tblspc_relfilenode_index [9, 8] Word4, Word4",
        ]
    );
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}

/// The same, with all that does not change while other transactions run.
fn describe_with_figures(index: &TableIndex) -> String {
    let TableIndex { locator, trees, shape, figures, .. } = index;
    format!("{}: {locator:?} {trees:?} {shape:?} {figures:?}", describe(index))
}

/// What the catalogs say of an index, in one line.
fn describe(index: &TableIndex) -> String {
    let mut line = format!("{} {:?}", index.name, index.columns);
    for (is, what) in
        [(index.unique, " unique"), (index.primary, " primary"), (!index.immediate, " deferred")]
    {
        line += if is { what } else { "" };
    }
    assert!(index.valid && index.ready && index.check_xmin.is_none());
    if let Some(why) = &index.unknown {
        // initdb gives operator classes their OIDs.
        let (why, _) = why.split_once("(OID 1").unwrap_or((why, ""));
        return line + " " + why;
    }
    let shape = &index.shape;
    assert_eq!((shape.layouts.len(), &shape.name), (index.columns.len(), &index.name));
    let key = |key: &forebay_access::nbtree::KeyColumn| {
        let order = if key.descending { " desc" } else { "" };
        let nulls = if key.nulls_first { " nulls first" } else { "" };
        format!("{:?}{order}{nulls}", key.order)
    };
    line += " ";
    line += &shape.keys.iter().map(key).collect::<Vec<_>>().join(", ");
    if (shape.fill_factor, shape.deduplicate, shape.nulls_are_equal) != (90, true, false) {
        let equal = if shape.nulls_are_equal { "nulls equal " } else { "" };
        let single = if shape.deduplicate { "" } else { " single" };
        line += &format!("; {equal}{}%{single}", shape.fill_factor);
    }
    line
}

/// A table with indexes of several kinds, in a directory that PostgreSQL made.
const TABLE: &str = "create table t (id int8 primary key, a int4, b text, c name, d int4, e int4); \
     create index t_a on t (a desc nulls last); \
     create unique index t_ba on t (b, a) include (d) with (fillfactor = 60); \
     create index t_c on t (c, id); \
     create index t_b on t (b text_pattern_ops) with (deduplicate_items = off)";

/// Checks the indexes of t, and that each of them leads to the rows that a sequential scan finds.
fn assert_indexed(server: &Postgres<'_>) {
    server.query(
        "select bt_index_parent_check(indexrelid, true, true) from pg_index \
         where indrelid = 't'::regclass",
    );
    let problems = server.query("select count(*) from verify_heapam('t')");
    assert_eq!(problems, "0");
    let rows = |condition: &str, how: &str| {
        server.query(&format!(
            "{how}; select count(*), md5(string_agg(t::text, ' ' order by id)) from t where \
             {condition}"
        ))
    };
    for condition in
        ["id > -1", "a >= -1000", "a is null", "b >= ''", "b is null", "c >= ''", "c is null"]
    {
        let by_index = rows(condition, "set enable_seqscan = off; set enable_bitmapscan = off");
        let way = server.query(&format!(
            "set enable_seqscan = off; set enable_bitmapscan = off; \
             explain (costs off) select * from t where {condition}"
        ));
        assert!(way.starts_with("Index Scan"), "{condition}: {way}");
        assert_eq!(by_index, rows(condition, "set enable_indexscan = off"), "{condition}");
    }
}

/// Numbers that look random and are the same in each run.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The values of a row of t.
#[derive(Clone, Debug, PartialEq)]
struct Row(i64, Option<i32>, Option<String>, Option<String>, Option<i32>, i32);

impl Row {
    fn random(id: i64, numbers: &mut Numbers) -> Row {
        let mut some = |bound| Some(numbers.below(bound)).filter(|&number| number != 0);
        let (a, b, c, d) = (some(50), some(1000), some(40), some(9));
        let text = |number| "long ".repeat(number as usize % 40) + &format!("{number} of {id}");
        Row(
            id,
            a.map(|a| a as i32 - 25),
            b.map(text),
            c.map(|c| format!("name {c}")),
            d.map(|d| d as i32),
            0,
        )
    }

    fn with<T>(&self, body: impl FnOnce(&[Datum<'_>]) -> T) -> T {
        let Row(id, a, b, c, d, e) = self;
        let number = |n: &Option<i32>| n.map_or(Datum::Null, Datum::Int4);
        let text =
            |t: &'_ Option<String>| t.as_deref().map_or(Datum::Null, Datum::text).into_owned();
        let (b, c) = (text(b), text(c));
        body(&[Datum::Int8(*id), number(a), b, c, number(d), Datum::Int4(*e)])
    }
}

/// What a transaction knows of t: rows by id, with their places.
type Rows = BTreeMap<i64, (Row, ItemPointer)>;

fn insert_one(session: &mut Session, table: &Arc<Table>, row: Row, rows: &mut Rows) {
    let place = row.with(|values| session.insert_row(table, values)).expect("inserted");
    rows.insert(row.0, (row, place));
}

/// Does something with t in a command of its own.
fn act(session: &mut Session, numbers: &mut Numbers, next: &mut i64, rows: &mut Rows) {
    session.start_command().expect("command");
    let table = session.open_table(None, "t", LockMode::RowExclusive).expect("t");
    let mut new = |numbers: &mut Numbers| {
        *next += 1;
        Row::random(*next, numbers)
    };
    let kind = numbers.below(10);
    if kind < 3 || rows.is_empty() {
        let row = new(numbers);
        return insert_one(session, &table, row, rows);
    }
    let id = *rows.keys().nth(numbers.below(rows.len() as u64) as usize).expect("an id");
    let (mut row, place) = rows[&id].clone();
    match kind {
        3..5 => {
            let outcome = session.delete_row(&table, place).expect("deleted");
            assert!(matches!(outcome, RowOutcome::Done(_)), "{outcome:?}");
            rows.remove(&id);
        }
        // No index has this column.
        5..8 => row.5 += 1,
        8 => row = Row::random(id, numbers),
        _ => {
            let mut batch = RowBatch::new(&table);
            for _ in 0..numbers.below(40) {
                new(numbers).with(|values| batch.push(values)).expect("a row");
            }
            session.insert_batch(&table, &mut batch).expect("a batch");
        }
    }
    if let 5..9 = kind {
        let outcome = row.with(|values| session.update_row(&table, place, values));
        let Ok(RowOutcome::Done(place)) = outcome else { panic!("{outcome:?}") };
        rows.insert(id, (row, place));
    }
}

/// The rows of t, as a transaction of its own sees them.
fn read(session: &mut Session) -> Rows {
    transaction(session, |s| {
        let table = s.open_table(None, "t", LockMode::AccessShare)?;
        let mut scan = s.scan(&table)?;
        let mut rows = Rows::new();
        while let Some(row) = scan.next(s)? {
            let values = row.decode()?;
            let number = |n: usize| match values[n] {
                Datum::Int4(number) => Some(number),
                _ => None,
            };
            let text = |n: usize| match &values[n] {
                Datum::Text(text) => Some(text.to_string()),
                _ => None,
            };
            let Datum::Int8(id) = values[0] else { panic!("{values:?}") };
            let read = Row(id, number(1), text(2), text(3), number(4), number(5).unwrap_or(0));
            assert!(rows.insert(id, (read, row.place())).is_none(), "row {id} twice");
        }
        Ok(rows)
    })
    .expect("rows")
}

/// Transactions, most of which commit. Each reads the rows, and does fewer than `most` things; one
/// of `savepoints` has a savepoint that it rolls back to.
pub fn transactions<R: Clone>(
    session: &mut Session,
    numbers: &mut Numbers,
    (count, most, savepoints): (usize, u64, u64),
    read: impl Fn(&mut Session) -> R,
    mut act: impl FnMut(&mut Session, &mut Numbers, &mut R),
) {
    for _ in 0..count {
        let mut rows = read(session);
        session.begin().expect("begin");
        for _ in 0..numbers.below(most) {
            act(session, numbers, &mut rows);
        }
        if numbers.below(savepoints) == 0 {
            session.begin_subtransaction().expect("a savepoint");
            act(session, numbers, &mut rows.clone());
            session.abort_subtransaction().expect("rollback to it");
            act(session, numbers, &mut rows);
        }
        if numbers.below(5) == 0 { session.abort() } else { session.commit() }.expect("end");
    }
}

fn change(session: &mut Session, numbers: &mut Numbers, next: &mut i64) {
    transactions(session, numbers, (60, 12, 3), read, |session, numbers, rows| {
        act(session, numbers, next, rows);
    });
}

/// A directory of PostgreSQL's with t, stopped.
pub fn made_by(peer: &Peer, sql: &str) -> (tempfile::TempDir, PathBuf) {
    peer.init("data");
    let server = peer.start("data", "-c autovacuum=off");
    server.query("create extension amcheck");
    sql.split("; ").for_each(|sql| drop(server.query(sql)));
    drop(server);
    let scratch = scratch();
    let dir = scratch.path().join("data");
    peer.fetch("data", &dir);
    (scratch, dir)
}

#[test]
fn rows_come_and_go_with_their_entries() {
    let Some(peer) = Peer::find("rows_come_and_go_with_their_entries") else { return };
    let aged = "insert into t select g, g % 7, 'row ' || g, 'n' || g, g, 0 \
         from generate_series(-500, -1) g; delete from t where id % 3 = 0; vacuum t; \
         update t set e = 1 where id % 5 = 0; update t set a = 9 where id % 7 = 0";
    let (scratch, mut dir) = made_by(&peer, &format!("{TABLE}; {}", &aged));
    let (mut numbers, mut next) = (Numbers(1), 0);
    for (round, stop) in
        [ShutdownMode::Fast, ShutdownMode::Immediate, ShutdownMode::Fast].into_iter().enumerate()
    {
        let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
        change(&mut session, &mut numbers, &mut next);
        let rows = read(&mut session);
        // A transaction that a crash ends.
        start(&mut session);
        act(&mut session, &mut numbers, &mut next, &mut rows.clone());
        engine.shutdown(stop).expect("stop");
        drop((session, engine));
        let name = format!("data-{round}");
        peer.adopt(&dir, &name);
        let server = peer.start(&name, "-c autovacuum=off");
        assert_indexed(&server);
        assert_eq!(server.query("select count(*) from t"), rows.len().to_string());
        for sql in [
            "delete from t where id % 11 = 0",
            "vacuum t",
            "update t set b = b || 'x' where id % 2 = 0",
        ] {
            server.query(sql);
        }
        assert_indexed(&server);
        drop(server);
        dir = scratch.path().join(&name);
        peer.fetch(&name, &dir);
    }
}

#[test]
fn tables_whose_indexes_are_not_understood_are_not_written() {
    let Some(peer) = Peer::find("tables_whose_indexes_are_not_understood") else { return };
    let (_scratch, dir) = made_by(
        &peer,
        "create table hashed (a int4); create index on hashed using hash (a); \
         create table late (a int4 unique deferrable); insert into late values (1)",
    );
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    let error = transaction(&mut session, |s| {
        let table = s.open_table(None, "hashed", LockMode::RowExclusive)?;
        s.insert_row(&table, &[Datum::Int4(1)])
    });
    let error = error.expect_err("refused");
    let why = "index \"hashed_a_idx\": its access method (OID 405) is not supported";
    let message = format!("cannot insert into relation \"hashed\": {why}");
    assert_eq!((error.sqlstate(), error.to_string()), ("0A000", message));
    assert_eq!(count(&mut session, "late").expect("it is read"), 1);
    // A deferrable key is checked by whoever takes its event: without that there is no commit.
    let error = transaction(&mut session, |s| {
        let table = s.open_table(None, "late", LockMode::RowExclusive)?;
        s.insert_row(&table, &[Datum::Int4(1)])
    });
    let message = "checks of keys were left out before the commit";
    assert_eq!(error.expect_err("refused").to_string(), message);
    // Parameters mean the same in every B-tree, and something else in another index.
    let (name, value) = ("fillfactor".to_owned(), Some("50".to_owned()));
    let given = [StorageParameter { namespace: None, name, value }];
    let change = ChangedParameters { given: &given, reset: false };
    let mut changed =
        |name| transaction(&mut session, |s| s.change_index_parameters((None, name), change));
    changed("late_a_key").expect("a B-tree");
    let error = changed("hashed_a_idx").expect_err("refused");
    let message = "cannot alter index \"hashed_a_idx\": its access method is not supported";
    assert_eq!((error.sqlstate(), error.to_string().as_str()), ("0A000", message));
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}

/// Inserts a row of t as a transaction of its own.
fn insert_alone(session: &mut Session, values: &[Datum<'_>]) -> Result<ItemPointer, EngineError> {
    transaction(session, |s| {
        let table = s.open_table(None, "keyed", LockMode::RowExclusive)?;
        s.insert_row(&table, values)
    })
}

#[test]
fn a_key_in_use_is_named() {
    let Some(peer) = Peer::find("a_key_in_use_is_named") else { return };
    let (_scratch, dir) = made_by(
        &peer,
        "create table keyed (id int8 primary key, \"B\" text, \"user\" int4); \
         create unique index \"the keys\" on keyed (\"B\", \"user\") nulls not distinct",
    );
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    let row = |id, b: &'static str, user| [Datum::Int8(id), Datum::text(b), user];
    insert_alone(&mut session, &row(1, "x", Datum::Null)).expect("the first");
    let cases = [
        (row(1, "y", Datum::Null), "keyed_pkey", "Key (id)=(1) already exists."),
        (row(2, "x", Datum::Null), "the keys", "Key (\"B\", \"user\")=(x, null) already exists."),
    ];
    for (values, index, detail) in &cases {
        let error = insert_alone(&mut session, values).expect_err("the key is in use");
        let message = format!("duplicate key value violates unique constraint \"{index}\"");
        assert_eq!((error.sqlstate(), error.to_string()), ("23505", message));
        assert_eq!(error.detail().as_deref(), Some(*detail));
        let object = error.object().expect("what it is about");
        let names = [&object.schema, &object.table, &object.constraint];
        assert_eq!(names, ["public", "keyed", index]);
    }
    // Within a batch, too; and it tells which row it was.
    let error = transaction(&mut session, |s| {
        let table = s.open_table(None, "keyed", LockMode::RowExclusive)?;
        let mut batch = RowBatch::new(&table);
        for (id, b) in [(10, "a"), (11, "b"), (10, "c"), (12, "d")] {
            batch.push(&row(id, b, Datum::Int4(1)))?;
        }
        let refused = s.insert_batch(&table, &mut batch);
        assert_eq!(batch.failed_row(), Some(2));
        refused
    });
    assert_eq!(
        error.expect_err("10 twice").detail().as_deref(),
        Some("Key (id)=(10) already exists.")
    );

    // More than a third of a page, and not compressible.
    let mut dice = Dice::new(1);
    let endless: String = (0..9000).map(|_| char::from(b'!' + dice.below(90) as u8)).collect();
    let long = endless[..3000].to_owned();
    let values = [Datum::Int8(5), Datum::text(&long), Datum::Int4(1)];
    let error = insert_alone(&mut session, &values).expect_err("too long");
    assert_eq!(error.sqlstate(), "54000");
    assert_eq!(
        error.to_string(),
        "index row size 3016 exceeds btree version 4 maximum 2704 for index \"the keys\""
    );
    let detail = error.detail().expect("a detail");
    assert!(detail.starts_with("Index row references tuple (0,"), "{detail}");
    assert!(detail.ends_with(") in relation \"keyed\"."), "{detail}");
    assert!(error.hint().is_some_and(|hint| hint.contains("1/3 of a buffer page")));
    assert_eq!(error.object().map(|object| object.constraint.as_str()), Some("the keys"));
    let values = [Datum::Int8(5), Datum::text(&endless), Datum::Int4(1)];
    assert_eq!(insert_alone(&mut session, &values).expect_err("too long").sqlstate(), "54000");
    assert_eq!(count(&mut session, "keyed").expect("count"), 1);
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}
