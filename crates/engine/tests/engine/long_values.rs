//! Values that are compressed or stored out of line, in tables that PostgreSQL made or Forebay:
//! read, written, replaced and deleted in turns with PostgreSQL.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use crate::common::*;
use crate::kept_indexes::{Numbers, made_by, transactions};
use forebay_engine::types::oids;
use forebay_engine::{
    ColumnDef, ConstraintKind, Datum, EngineError, IndexCheckOptions, IndexDef, IndexKey, Inserted,
    IoMethod, ItemPointer, LockMode, Part, RowBatch, RowOutcome, Session, ShutdownMode, Table,
};
use forebay_format::PageMut;
use forebay_format::checksum::page_checksum;
use forebay_format::crc::crc32c;
use forebay_format::ids::BLOCK_SIZE;
use forebay_testkit::peer::{Peer, Postgres};
use forebay_txn::locks::LockTag;

/// A column of each storage and method. The last two are a number that changes alone, and one with
/// an index.
const TABLE: &str = "create table t (id int4 primary key, x text, e text, m text, p text, \
     l text compression lz4, b bytea, n int4, k text); \
     alter table t alter e set storage external, alter m set storage main, \
         alter p set storage plain; \
     create index t_k on t (k)";
/// Its text columns with long values, by number; the last is bytea.
const LONG: [usize; 6] = [1, 2, 3, 4, 5, 6];

impl Numbers {
    /// A text that is not compressible.
    fn text_of(&mut self, len: usize) -> String {
        (0..len).map(|_| char::from(33 + self.below(90) as u8)).collect()
    }

    /// A text: short or long, compressible or not; None is NULL.
    fn text(&mut self, most: u64) -> Option<String> {
        let len = match self.below(6) {
            0 => return None,
            1 => self.below(40),
            2 => self.below(most.min(3000)),
            3 => self.below(most.min(9000)),
            _ => self.below(most),
        };
        let noise = self.below(2) == 0;
        let begin = self.below(1000);
        let char = |n: u64, numbers: &mut Numbers| match noise {
            true => char::from(33 + numbers.below(90) as u8),
            false => char::from(b'a' + ((n + begin) % 23 + n / 700 % 3) as u8),
        };
        Some((0..len).map(|n| char(n, self)).collect())
    }
}

/// The values of a row of t.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    id: i32,
    long: [Option<String>; 6],
    n: i32,
    k: String,
}

impl Row {
    fn random(id: i32, numbers: &mut Numbers) -> Row {
        let long = [60_000, 20_000, 3000, 1200, 90_000, 30_000].map(|most| numbers.text(most));
        Row { id, long, n: 0, k: format!("key {}", numbers.below(50)) }
    }

    fn values(&self) -> Vec<Datum<'_>> {
        let mut values = vec![Datum::Int4(self.id)];
        for (number, text) in LONG.into_iter().zip(&self.long) {
            values.push(match text.as_deref() {
                None => Datum::Null,
                Some(text) if number == 6 => Datum::bytes(text.as_bytes()),
                Some(text) => Datum::text(text),
            });
        }
        values.extend([Datum::Int4(self.n), Datum::text(&self.k)]);
        values
    }

    /// What [`digests`] says of it.
    fn digest(&self) -> String {
        let one = |text: &Option<String>| match text {
            None => "-".to_owned(),
            Some(text) => format!("{}:{}", text.len(), crc32c(text.as_bytes())),
        };
        let all: Vec<String> = self.long.iter().map(one).collect();
        format!("{} {} {} {}", self.id, all.join(" "), self.n, self.k)
    }
}

type Rows = BTreeMap<i32, (Row, ItemPointer)>;

/// Reads t, and fetches what is stored out of line. Returns how many values were.
fn read(session: &mut Session) -> (Rows, usize) {
    let mut fetched = 0;
    let rows = transaction(session, |s| {
        let table = s.open_table(None, "t", LockMode::AccessShare)?;
        let mut scan = s.scan(&table)?;
        let mut rows = Rows::new();
        while let Some(row) = scan.next(s)? {
            let (place, mut values) = (row.place(), row.decode()?);
            for (value, column) in values.iter_mut().zip(&table.columns) {
                if matches!(value, Datum::Toasted(_)) {
                    fetched += 1;
                    *value = s.fetch_value(value, column.repr, Part::Whole)?;
                }
            }
            let text = |n: usize| match &values[n] {
                Datum::Text(text) => Some(text.to_string()),
                Datum::Bytes(bytes) => Some(String::from_utf8(bytes.to_vec()).expect("a text")),
                _ => None,
            };
            let (Datum::Int4(id), Datum::Int4(n)) = (&values[0], &values[7]) else {
                panic!("{values:?}")
            };
            let row = Row { id: *id, long: LONG.map(text), n: *n, k: text(8).expect("a key") };
            assert!(rows.insert(*id, (row, place)).is_none(), "row {id} twice");
        }
        Ok(rows)
    });
    (rows.expect("rows"), fetched)
}

/// The stored values of a row, pointers among them.
fn stored(session: &mut Session, table: &Arc<Table>, place: ItemPointer) -> Vec<Datum<'static>> {
    let row = session.fetch_row(table, place).expect("read").expect("a row");
    let values = row.view().decode().expect("values");
    values.into_iter().map(Datum::into_owned).collect()
}

/// Does something with t in a command of its own.
fn act(session: &mut Session, numbers: &mut Numbers, next: &mut i32, rows: &mut Rows) {
    session.start_command().expect("command");
    let table = session.open_table(None, "t", LockMode::RowExclusive).expect("t");
    let kind = numbers.below(10);
    if kind < 3 || rows.is_empty() {
        *next += 1;
        let row = Row::random(*next, numbers);
        let place = session.insert_row(&table, &row.values()).expect("inserted");
        rows.insert(row.id, (row, place));
        return;
    }
    let id = *rows.keys().nth(numbers.below(rows.len() as u64) as usize).expect("an id");
    let (mut row, place) = rows[&id].clone();
    match kind {
        3 => {
            let outcome = session.delete_row(&table, place).expect("deleted");
            assert!(matches!(outcome, RowOutcome::Done(_)), "{outcome:?}");
            rows.remove(&id);
        }
        4..8 => {
            // Values that stay are handed on as they are stored.
            let mut values = stored(session, &table, place);
            row.n += 1;
            values[7] = Datum::Int4(row.n);
            if kind == 4 {
                row.k = format!("another {}", numbers.below(50));
                values[8] = Datum::string(row.k.clone());
            }
            let replaced = row.long[1].clone().filter(|_| kind == 5);
            if replaced.is_some() {
                // A value of another column, which lies elsewhere.
                row.long[0] = replaced;
                values[1] = values[2].clone();
            }
            let outcome = session.update_row(&table, place, &values);
            let Ok(RowOutcome::Done(place)) = outcome else { panic!("{outcome:?}") };
            rows.insert(id, (row, place));
        }
        8 => {
            row = Row::random(id, numbers);
            let outcome = session.update_row(&table, place, &row.values());
            let Ok(RowOutcome::Done(place)) = outcome else { panic!("{outcome:?}") };
            rows.insert(id, (row, place));
        }
        _ => {
            let mut batch = RowBatch::new(&table);
            for _ in 0..numbers.below(12) {
                *next += 1;
                batch.push(&Row::random(*next, numbers).values()).expect("a row");
            }
            session.insert_batch(&table, &mut batch).expect("a batch");
        }
    }
}

/// Transactions that change t, most of which commit.
fn change(session: &mut Session, numbers: &mut Numbers, next: &mut i32) {
    let read = |session: &mut Session| read(session).0;
    transactions(session, numbers, (25, 8, 4), read, |session, numbers, rows| {
        act(session, numbers, next, rows);
    });
}

/// What PostgreSQL says of the rows of t.
fn digests(server: &Postgres<'_>) -> Vec<String> {
    let one = |column: &str, bytes: &str| {
        format!("coalesce(length({column}) || ':' || crc32c({bytes}), '-')")
    };
    let mut columns: Vec<String> =
        ["x", "e", "m", "p", "l"].map(|c| one(c, &format!("convert_to({c}, 'UTF8')"))).into();
    columns.push(one("b", "b"));
    let all = columns.join(", ");
    let sql = format!("select concat_ws(' ', id, {all}, n, k) from t order by id");
    server.query(&sql).lines().map(str::to_owned).collect()
}

/// Lets PostgreSQL check t, its TOAST table and both indexes; no chunk may be left of a value that
/// no row has, once vacuum has removed what is dead.
fn assert_sound(server: &Postgres<'_>, rows: &Rows) {
    server.query("vacuum (disable_page_skipping) t");
    let toast = server.query("select reltoastrelid::regclass from pg_class where relname = 't'");
    server.query(&format!(
        "select bt_index_parent_check(indexrelid, true, true) from pg_index \
         where indrelid in ('t'::regclass, '{toast}'::regclass)"
    ));
    for sql in ["verify_heapam('t', check_toast := true)", &format!("verify_heapam('{toast}')")] {
        assert_eq!(server.query(&format!("select * from {sql}")), "", "{sql}");
    }
    let of_rows = ["x", "e", "m", "p", "l", "b"]
        .map(|column| format!("select pg_column_toast_chunk_id({column}) as id from t"))
        .join(" union all ");
    let lost = server.query(&format!(
        "select count(*) from {toast} where chunk_id not in \
         (select id from ({of_rows}) of_rows where id is not null)"
    ));
    assert_eq!(lost, "0", "chunks without a row");
    let expected: Vec<String> = rows.values().map(|(row, _)| row.digest()).collect();
    assert_eq!(digests(server), expected);
}

#[test]
fn long_values_come_and_go_in_turns_with_postgresql() {
    let Some(peer) = Peer::find("long_values_come_and_go") else { return };
    let filled = "insert into t select g, repeat(md5(g::text), g * 20), \
         (select string_agg(md5((g * i)::text), '') from generate_series(1, g * 5) i), \
         (select string_agg(md5((g + i)::text), '') from generate_series(1, g % 60) i), \
         md5(g::text), repeat('lz4' || g, g * 100), \
         convert_to(repeat(md5((-g)::text), g * 3), 'UTF8'), 0, 'key ' || g % 50 \
         from generate_series(1, 100) g; \
         update t set x = null where id % 7 = 0; delete from t where id % 10 = 0";
    let (scratch, mut dir) = made_by(&peer, &format!("{TABLE}; {filled}"));
    let (mut numbers, mut next) = (Numbers(1), 1000);
    for (round, stop) in
        [ShutdownMode::Fast, ShutdownMode::Immediate, ShutdownMode::Fast].into_iter().enumerate()
    {
        let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
        assert!(read(&mut session).1 > 50, "many values are out of line");
        change(&mut session, &mut numbers, &mut next);
        let rows = read(&mut session).0;
        // A transaction that a crash ends, in the middle of its values.
        start(&mut session);
        for _ in 0..5 {
            act(&mut session, &mut numbers, &mut next, &mut rows.clone());
        }
        engine.shutdown(stop).expect("stop");
        drop((session, engine));
        let name = format!("data-{round}");
        peer.adopt(&dir, &name);
        let server = peer.start(&name, "-c autovacuum=off");
        assert_sound(&server, &rows);
        for sql in [
            "delete from t where id % 11 = 0",
            "update t set x = e, l = repeat(coalesce(l, 'l'), 2) where id % 3 = 0",
            "update t set n = n + 1",
        ] {
            server.query(sql);
        }
        let expected = digests(&server);
        drop(server);
        dir = scratch.path().join(&name);
        peer.fetch(&name, &dir);
        let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
        let rows = read(&mut session).0;
        let found: Vec<String> = rows.values().map(|(row, _)| row.digest()).collect();
        assert_eq!(found, expected);
        engine.shutdown(ShutdownMode::Fast).expect("stop");
        drop(session);
    }
}

/// The number of values of t that are out of line, without fetching any.
fn pointers(values: &[Datum<'_>]) -> usize {
    values.iter().filter(|value| matches!(value, Datum::Toasted(_))).count()
}

#[test]
fn a_value_that_stays_is_neither_read_nor_written() {
    let Some(peer) = Peer::find("a_value_that_stays") else { return };
    let filled = "insert into t (id, e, n, k) values (1, repeat('e', 500000), 0, 'k')";
    let (_scratch, dir) = made_by(&peer, &format!("{TABLE}; {filled}"));
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    let place = read(&mut session).0[&1].1;
    start(&mut session);
    let table = session.open_table(None, "t", LockMode::RowExclusive).expect("t");
    let before = stored(&mut session, &table, place);
    assert_eq!(pointers(&before), 1);
    let mut values = before.clone();
    values[7] = Datum::Int4(9);
    let written = session.wal_insert_lsn().0;
    let outcome = session.update_row(&table, place, &values);
    let Ok(RowOutcome::Done(place)) = outcome else { panic!("{outcome:?}") };
    assert!(session.wal_insert_lsn().0 - written < 60_000, "the value is not written");
    session.start_command().expect("command");
    assert_eq!(stored(&mut session, &table, place)[2], before[2], "the same pointer");
    session.commit().expect("commit");
    let rows = read(&mut session).0;
    assert_eq!(rows[&1].0.long[1].as_deref().map(str::len), Some(500_000));
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}

#[test]
fn who_loses_a_race_for_a_row_leaves_no_values_behind() {
    let Some(peer) = Peer::find("who_loses_a_race") else { return };
    let filled = "insert into t (id, e, n, k) values (1, repeat('e', 50000), 0, 'k')";
    let (_scratch, dir) = made_by(&peer, &format!("{TABLE}; {filled}"));
    let (engine, mut first) = open_session(&dir, &config(IoMethod::Sync, false));
    let mut second = engine.session().expect("a session");
    let (mut row, place) = read(&mut first).0[&1].clone();
    start(&mut second);
    let table = second.open_table(None, "t", LockMode::RowExclusive).expect("t");
    let _seen = second.scan(&table).expect("a snapshot");
    start(&mut first);
    let of_first = first.open_table(None, "t", LockMode::RowExclusive).expect("t");
    row.long[1] = Some("f".repeat(70_000));
    let outcome = first.update_row(&of_first, place, &row.values());
    assert!(matches!(outcome, Ok(RowOutcome::Done(_))), "{outcome:?}");
    first.commit().expect("commit");
    row.long[1] = Some("g".repeat(90_000));
    let outcome = second.update_row(&table, place, &row.values()).expect("an outcome");
    let RowOutcome::Changed(newest) = outcome else { panic!("{outcome:?}") };
    let pointer = newest.view().decode().expect("values")[2].clone();
    let value = second.fetch_value(&pointer, table.columns[2].repr, Part::Whole).expect("a value");
    assert_eq!(value, Datum::string("f".repeat(70_000)), "of a transaction that it does not see");
    second.commit().expect("commit");
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    drop((first, second, engine));
    peer.adopt(&dir, "after");
    let server = peer.start("after", "-c autovacuum=off");
    let toast = server.query("select reltoastrelid::regclass from pg_class where relname = 't'");
    let values = server.query(&format!("select count(distinct chunk_id) from {toast}"));
    assert_eq!(values, "1", "that of the first session");
}

/// Takes the first chunk of the TOAST table away, and leaves its entry in the index.
fn remove_first_chunk(file: &std::path::Path) {
    let mut bytes = fs::read(file).expect("the file");
    let page: &mut [u8; BLOCK_SIZE] = bytes.first_chunk_mut().expect("a page");
    // The first line pointer: unused.
    page[24..28].fill(0);
    PageMut(page).set_checksum(0);
    let checksum = page_checksum(page, 0);
    PageMut(page).set_checksum(checksum);
    fs::write(file, bytes).expect("written");
}

#[test]
fn a_missing_chunk_is_an_error_of_its_row_alone() {
    let Some(peer) = Peer::find("a_missing_chunk") else { return };
    let filled = "insert into t (id, e, n, k) select g, repeat('e', 9000), 0, 'k' \
         from generate_series(1, 3) g";
    let (_scratch, dir) = made_by(&peer, &format!("{TABLE}; {filled}"));
    let server = peer.start("data", "");
    let ask =
        |what: &str| server.query(&format!("select {what} from pg_class where relname = 't'"));
    let (file, toast) =
        (ask("pg_relation_filepath(reltoastrelid)"), ask("reltoastrelid::regclass"));
    let value = server.query("select pg_column_toast_chunk_id(e) from t where id = 1");
    drop(server);
    remove_first_chunk(&dir.join(file));
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    start(&mut session);
    let table = session.open_table(None, "t", LockMode::RowExclusive).expect("t");
    let mut scan = session.scan(&table).expect("a scan");
    let (mut good, mut places) = (0, Vec::new());
    while let Some(row) = scan.next(&mut session).expect("the rows are sound") {
        places.push(row.place());
        let pointer = row.decode().expect("values")[2].clone().into_owned();
        match session.fetch_value(&pointer, table.columns[2].repr, Part::Whole) {
            Ok(value) => {
                assert_eq!(value, Datum::string("e".repeat(9000)));
                good += 1;
            }
            Err(error) => {
                let name = toast.trim_start_matches("pg_toast.");
                assert_eq!(
                    (error.sqlstate(), error.to_string()),
                    (
                        "XX001",
                        format!(
                            "unexpected chunk number 1 (expected 0) for toast value {value} in \
                             {name}"
                        )
                    )
                );
            }
        }
    }
    assert_eq!((good, places.len()), (2, 3));
    // It can be deleted, with what there is of its value.
    let gone: Result<RowOutcome, EngineError> = session.delete_row(&table, places[0]);
    assert!(matches!(gone, Ok(RowOutcome::Done(_))), "{gone:?}");
    session.commit().expect("commit");
    assert_eq!(read(&mut session).0.len(), 2);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}

/// Creates t with its indexes, and one of long values, in the transaction that fills it.
fn make_t(session: &mut Session, numbers: &mut Numbers) {
    let names = ["id", "x", "e", "m", "p", "l", "b", "n", "k"];
    let types = [oids::INT4, oids::TEXT, oids::TEXT, oids::TEXT, oids::TEXT, oids::TEXT];
    let types = types.into_iter().chain([oids::BYTEA, oids::INT4, oids::TEXT]);
    let columns = names.into_iter().zip(types).map(|(name, of)| ColumnDef::new(name, of));
    let columns: Vec<ColumnDef> = columns.collect();
    let filled = transaction(session, |s| {
        s.create_table(None, "t", &columns)?;
        let table = s.open_table(None, "t", LockMode::AccessExclusive)?;
        let mut batch = RowBatch::new(&table);
        for id in 1..=60 {
            batch.push(&Row::random(id, numbers).values())?;
        }
        s.insert_batch(&table, &mut batch)?;
        let key = |number| vec![IndexKey::new(number)];
        let primary = Some(ConstraintKind::Primary);
        let def = IndexDef { keys: key(1), constraint: primary, ..IndexDef::default() };
        s.create_index(&table, &def)?;
        let table = s.open_table(None, "t", LockMode::AccessExclusive)?;
        s.create_index(&table, &IndexDef { keys: key(9), ..IndexDef::default() })
    });
    filled.expect("filled");
}

#[test]
fn tables_that_are_made_here_have_toast_tables() {
    let Some(peer) = Peer::find("tables_that_are_made_here") else { return };
    let (scratch, dir) = made_by(&peer, "select 1");
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    let (mut numbers, mut next) = (Numbers(5), 1000);
    make_t(&mut session, &mut numbers);
    assert!(read(&mut session).1 > 50, "many values are out of line");
    change(&mut session, &mut numbers, &mut next);
    let rows = read(&mut session).0;
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, engine));
    peer.adopt(&dir, "made");
    let server = peer.start("made", "-c autovacuum=off");
    assert_sound(&server, &rows);
    server.query("update t set x = e, e = x where id % 2 = 0");
    let expected = digests(&server);
    drop(server);
    let dir = scratch.path().join("made");
    peer.fetch("made", &dir);
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    let rows = read(&mut session).0;
    let found: Vec<String> = rows.values().map(|(row, _)| row.digest()).collect();
    assert_eq!(found, expected);
    // TRUNCATE empties the TOAST table, and DROP TABLE takes it along.
    let emptied = transaction(&mut session, |s| {
        let table = s.open_table(None, "t", LockMode::AccessExclusive)?;
        s.truncate(&table)?;
        let toast = table.toasting.relation.expect("a TOAST table");
        s.create_table(None, "gone", &[ColumnDef::new("x", oids::TEXT)])?;
        let gone = s.open_table(None, "gone", LockMode::AccessExclusive)?;
        s.insert_row(&gone, &[Datum::string("long ".repeat(90_000))])?;
        s.drop_table(&gone)?;
        Ok(toast)
    });
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    drop((session, engine));
    peer.adopt(&dir, "emptied");
    let server = peer.start("emptied", "-c autovacuum=off");
    let toast = emptied.expect("emptied");
    let left = format!(
        "select pg_relation_size(reltoastrelid), reltoastrelid = {toast} from pg_class \
         where relname = 't'; select count(*) from pg_class where relkind = 't' and oid >= 16384"
    );
    assert_eq!(server.query(&left), "0|t\n1");
    server.query(
        "insert into t (id, x) select 1, string_agg(i::text, ' ') \
         from generate_series(1, 9000) i",
    );
    assert_eq!(server.query("select count(*) from t"), "1");
}

/// Checks the indexes of t, with all rows.
fn check_indexes(session: &mut Session) {
    let checked = transaction(session, |s| {
        let table = s.open_table(None, "t", LockMode::AccessShare)?;
        let options = IndexCheckOptions { parents: false, all_rows: true, distinct: true };
        table.indexes.iter().try_for_each(|index| s.check_index(index.oid, options))
    });
    checked.expect("the indexes have the values of the rows");
}

/// A key that is compressible, and one that is not. An index compresses values of more than 510
/// bytes; a row does that if it would be longer than 2 kB.
fn key(id: i32) -> String {
    let len = 400 + (id as usize * 67) % 2100;
    format!("{id:05} ").chars().chain("compressible ".chars().cycle()).take(len).collect()
}

#[test]
fn keys_that_rows_or_indexes_compress_are_the_same_keys() {
    let Some(peer) = Peer::find("keys_that_rows_or_indexes_compress") else { return };
    let sql = "create table t (id int4 primary key, k text); \
         insert into t select g, rpad(lpad(g::text, 5, '0') || ' ', 400 + g * 67 % 2100, \
             'compressible ') from generate_series(1, 150) g; \
         create unique index t_k on t (k)";
    let (scratch, dir) = made_by(&peer, sql);
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    let made = transaction(&mut session, |s| {
        let table = s.open_table(None, "t", LockMode::AccessExclusive)?;
        let mut batch = RowBatch::new(&table);
        for id in 151..=300 {
            batch.push(&[Datum::Int4(id), Datum::string(key(id))])?;
        }
        s.insert_batch(&table, &mut batch)?;
        let keys = vec![IndexKey::new(2), IndexKey::new(1)];
        s.create_index(&table, &IndexDef { keys, ..IndexDef::default() })
    });
    made.expect("made");
    check_indexes(&mut session);
    // A key that PostgreSQL has inserted.
    let again = transaction(&mut session, |s| {
        let table = s.open_table(None, "t", LockMode::RowExclusive)?;
        s.insert_row(&table, &[Datum::Int4(1000), Datum::string(key(20))])
    });
    assert_eq!(state(again), "23505");
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    drop((session, engine));
    assert_undamaged(&dir);
    peer.adopt(&dir, "compressed");
    let server = peer.start("compressed", "-c autovacuum=off");
    let both = "select count(*) filter (where pg_column_compression(k) is null) > 50, \
         count(*) filter (where pg_column_compression(k) is not null) > 20 from t";
    assert_eq!(server.query(both), "t|t", "some rows have compressed keys");
    server.query(
        "insert into t select g, rpad(lpad(g::text, 5, '0') || ' ', 400 + g * 67 % 2100, \
             'compressible ') from generate_series(301, 450) g",
    );
    server.query(
        "select bt_index_parent_check(indexrelid, true, true, true) from pg_index \
         where indrelid = 't'::regclass",
    );
    drop(server);
    let dir = scratch.path().join("compressed");
    peer.fetch("compressed", &dir);
    assert_undamaged(&dir);
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    check_indexes(&mut session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}

#[test]
fn a_number_that_stays_out_of_line_is_not_null() {
    let Some(peer) = Peer::find("a_number_that_stays_out_of_line") else { return };
    let sql = "create table t (id int4 primary key, x numeric not null, n int4); \
         alter table t alter x set storage external; create index t_n on t (n); \
         insert into t values (1, (select string_agg((g % 7 + 1)::text, '') \
             from generate_series(1, 20000) g)::numeric, 0)";
    let (_scratch, dir) = made_by(&peer, sql);
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    start(&mut session);
    let table = session.open_table(None, "t", LockMode::RowExclusive).expect("t");
    let mut scan = session.scan(&table).expect("a scan");
    let place = scan.next(&mut session).expect("read").expect("a row").place();
    drop(scan);
    let mut values = stored(&mut session, &table, place);
    assert_eq!(pointers(&values), 1);
    values[2] = Datum::Int4(1);
    let outcome = session.update_row(&table, place, &values).expect("updated");
    let RowOutcome::Done(place) = outcome else { panic!("{outcome:?}") };
    session.start_command().expect("command");
    assert_eq!(stored(&mut session, &table, place), values);
    session.commit().expect("commit");
    check_indexes(&mut session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    drop((session, engine));
    peer.adopt(&dir, "numbers");
    let server = peer.start("numbers", "-c autovacuum=off");
    assert_eq!(server.query("select length(x::text), n from t"), "20000|1");
}

/// What t's TOAST table is called, and its OID.
fn toast_of(session: &mut Session) -> (String, u32) {
    let open = |s: &mut Session| s.open_table(None, "t", LockMode::AccessShare);
    let table = transaction(session, open).expect("t");
    (format!("pg_toast_{}", table.oid), table.toasting.relation.expect("a TOAST table"))
}

fn create_texts(session: &mut Session) {
    let columns = [ColumnDef::new("id", oids::INT4), ColumnDef::new("x", oids::TEXT)];
    let made = transaction(session, |s| {
        s.create_table(None, "t", &columns)?;
        let table = s.open_table(None, "t", LockMode::AccessExclusive)?;
        let keys = vec![IndexKey::new(1)];
        s.create_index(&table, &IndexDef { keys, unique: true, ..IndexDef::default() })
    });
    made.expect("made");
}

#[test]
fn who_empties_or_drops_a_table_locks_its_toast_table() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    create_texts(&mut session);
    let (_, toast) = toast_of(&mut session);
    for drops in [false, true] {
        start(&mut session);
        let table = session.open_table(None, "t", LockMode::AccessExclusive).expect("t");
        match drops {
            true => session.drop_table(&table).expect("dropped"),
            false => session.truncate(&table).expect("emptied"),
        }
        let locks = engine.locks();
        let mut of_toast = locks.iter().filter(
            |lock| matches!(lock.tag, LockTag::Relation { relation, .. } if relation == toast),
        );
        assert!(of_toast.any(|lock| lock.mode == LockMode::AccessExclusive), "{locks:?}");
        session.abort().expect("abort");
    }
}

#[test]
fn who_loses_a_race_for_a_key_takes_long_values_back() {
    const ROUNDS: i32 = 40;
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    create_texts(&mut session);
    let noise = Numbers(3).text_of(200_000);
    let begin = std::sync::Barrier::new(3);
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let inserters = [(); 3].map(|()| {
            let mut session = engine.session().expect("session");
            let (begin, noise) = (&begin, &noise);
            scope.spawn(move || {
                let race = |id| {
                    let values = [Datum::Int4(id), Datum::text(noise)];
                    begin.wait();
                    transaction(&mut session, |s| {
                        let table = s.open_table(None, "t", LockMode::RowExclusive)?;
                        s.insert_unless_conflict(&table, &values, &[table.indexes[0].oid])
                    })
                };
                (0..ROUNDS).map(race).collect::<Vec<_>>()
            })
        });
        inserters.into_iter().flat_map(|inserter| inserter.join().expect("a thread")).collect()
    });
    let lost = outcomes.iter().filter(|outcome| matches!(outcome, Ok(Inserted::Conflict(_))));
    assert_eq!(lost.count(), 2 * ROUNDS as usize, "{outcomes:?}");
    let (name, _) = toast_of(&mut session);
    let mut values = std::collections::BTreeSet::new();
    let scanned = transaction(&mut session, |s| {
        let toast = s.open_table(Some("pg_toast"), &name, LockMode::AccessShare)?;
        let mut scan = s.scan(&toast)?;
        while let Some(chunk) = scan.next(s)? {
            let Datum::Oid(value) = chunk.decode()?[0] else { panic!("chunk_id") };
            values.insert(value);
        }
        Ok(())
    });
    scanned.expect("read");
    assert_eq!(values.len(), ROUNDS as usize, "one value of each row");
}

#[test]
fn keys_that_are_stored_out_of_line_are_indexed() {
    let Some(peer) = Peer::find("keys_that_are_stored_out_of_line") else { return };
    let (_scratch, dir) = made_by(&peer, "select 1");
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    let mut numbers = Numbers(9);
    let mut noise = || Datum::string(numbers.text_of(900));
    // Three such values are too much for a row: the first two go out of line.
    let rows: Vec<[Datum<'_>; 4]> =
        (0..80).map(|id| [noise(), noise(), noise(), Datum::Int4(id)]).collect();
    let texts = ["a", "b", "c"].map(|name| ColumnDef::new(name, oids::TEXT));
    let columns = [&texts[..], &[ColumnDef::new("id", oids::INT4)]].concat();
    let made = transaction(&mut session, |s| {
        s.create_table(None, "t", &columns)?;
        let table = s.open_table(None, "t", LockMode::AccessExclusive)?;
        let mut batch = RowBatch::new(&table);
        rows[..70].iter().try_for_each(|row| batch.push(row))?;
        s.insert_batch(&table, &mut batch)?;
        for keys in [&[1][..], &[2, 4], &[4]] {
            let table = s.open_table(None, "t", LockMode::AccessExclusive)?;
            let keys = keys.iter().map(|&key| IndexKey::new(key)).collect();
            s.create_index(&table, &IndexDef { keys, unique: true, ..IndexDef::default() })?;
        }
        let table = s.open_table(None, "t", LockMode::RowExclusive)?;
        rows[70..].iter().try_for_each(|row| s.insert_row(&table, row).map(drop))
    });
    made.expect("made");
    // A key that fits on a page of the index because it is compressed there.
    let long = [Datum::string("key ".repeat(5000)), Datum::Null, Datum::Null, Datum::Int4(81)];
    let inserted = transaction(&mut session, |s| {
        let table = s.open_table(None, "t", LockMode::RowExclusive)?;
        s.insert_row(&table, &long)
    });
    inserted.expect("inserted");
    // A key that a row has out of line.
    let mut again = rows[7].clone();
    again[3] = Datum::Int4(1000);
    let refused = transaction(&mut session, |s| {
        let table = s.open_table(None, "t", LockMode::RowExclusive)?;
        s.insert_row(&table, &again)
    });
    let refused = refused.expect_err("the key is in use");
    assert_eq!(refused.sqlstate(), "23505");
    assert!(refused.to_string().contains("\"t_a_idx\""), "{refused}");
    check_indexes(&mut session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    drop((session, engine));
    peer.adopt(&dir, "indexed");
    let server = peer.start("indexed", "-c autovacuum=off");
    let stored = "select count(pg_column_toast_chunk_id(a)) from t";
    assert_eq!(server.query(stored), "80", "the first key is out of line");
    server.query(
        "select bt_index_parent_check(indexrelid, true, true, true) from pg_index \
         where indrelid = 't'::regclass",
    );
}
