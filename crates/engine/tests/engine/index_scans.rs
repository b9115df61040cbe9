//! Tables read through indexes that PostgreSQL made and aged: the answers are PostgreSQL's.

use std::sync::Arc;

use crate::common::*;
use forebay_engine::{
    Condition, Direction, IndexScanOptions, IoMethod, LockMode, Operator, Session, ShutdownMode,
    Table, TableIndex,
};
use forebay_engine::{Datum, EngineError};
use forebay_testkit::peer::Peer;

/// Rows that were updated, deleted and vacuumed, with all-visible pages and others.
const TABLE: &str = "\
    create table t (id int8, a int4, b int2, s text, n numeric) with (fillfactor = 90); \
    insert into t select i, nullif(i * 7919 % 500, 3), (i % 40)::int2, \
        'text ' || (i * 31 % 1000), (i % 97)::numeric / 4 \
        from generate_series(1, 20000) i; \
    create unique index t_id on t (id); \
    create index t_ab on t (a, b desc nulls last); \
    create index t_a on t (a nulls first) include (b, id) with (deduplicate_items = off); \
    create index t_ba on t (b, a); \
    create index t_s on t (s desc, id); \
    create index t_n on t (n); \
    update t set s = s where id % 9 = 0; \
    update t set a = a + 1 where id % 10 = 1; \
    delete from t where id % 7 = 2 or id between 3000 and 4500; \
    vacuum t; \
    insert into t select i, i % 500, null, null, null from generate_series(20001, 21000) i; \
    update t set b = 1 where id % 300 = 5; \
    delete from t where id % 400 = 8;";

/// The indexes, with their key columns as the table's, and what a scan by each finds.
const INDEXES: [(&str, &[&str]); 6] = [
    ("t_id", &["id"]),
    ("t_ab", &["a", "b"]),
    ("t_a", &["a"]),
    ("t_ba", &["b", "a"]),
    ("t_s", &["s", "id"]),
    ("t_n", &["n"]),
];

const COMPARISONS: [(Operator, &str); 5] = [
    (Operator::Less, "<"),
    (Operator::LessOrEqual, "<="),
    (Operator::Equal, "="),
    (Operator::GreaterOrEqual, ">="),
    (Operator::Greater, ">"),
];

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % limit
    }
}

/// A value of a column, and as SQL.
fn value(random: &mut Random, column: &str) -> (Datum<'static>, String) {
    match column {
        "s" => {
            let text = format!("text {}", random.below(1000));
            let sql = format!("'{text}'");
            (Datum::string(text), sql)
        }
        "n" => {
            let quarters = random.below(100);
            let numeric = forebay_engine::types::Numeric::Finite {
                digits: (i64::try_from(quarters).expect("few") * 25).into(),
                scale: 2,
            };
            (Datum::numeric(numeric), format!("{quarters}::numeric / 4"))
        }
        _ => {
            let limit = [("id", 22_000), ("a", 505), ("b", 42)];
            let limit = limit.iter().find(|(name, _)| *name == column).expect("a number").1;
            let number = match random.below(30) {
                0 => 1 << 40,
                1 => -(1 << 40),
                _ => i64::try_from(random.below(limit)).expect("small") - 1,
            };
            (Datum::Int8(number), format!("{number}"))
        }
    }
}

/// A condition on one of an index's columns at random, and as SQL.
fn condition(
    random: &mut Random,
    index: &TableIndex,
    columns: &[&str],
) -> (Vec<Condition>, String) {
    let column = usize::try_from(random.below(columns.len() as u64)).expect("few");
    let name = columns[column];
    let shape = &index.shape;
    match random.below(8) {
        0 | 1 => {
            let values: Vec<_> = (0..1 + random.below(8)).map(|_| value(random, name)).collect();
            let sql: Vec<_> = values.iter().map(|value| value.1.as_str()).collect();
            let sql = format!("{name} in ({})", sql.join(", "));
            let values: Vec<Datum<'_>> = values.into_iter().map(|value| value.0).collect();
            (vec![Condition::any_of(shape, column, &values).expect("values")], sql)
        }
        2 if columns.len() > 1 => {
            let (operator, sign) = [COMPARISONS[0], COMPARISONS[1], COMPARISONS[3], COMPARISONS[4]]
                [usize::try_from(random.below(4)).expect("few")];
            let values: Vec<_> = columns.iter().map(|name| value(random, name)).collect();
            let sql: Vec<_> = values.iter().map(|value| value.1.as_str()).collect();
            let sql = format!("({}) {sign} ({})", columns.join(", "), sql.join(", "));
            let values: Vec<Datum<'_>> = values.into_iter().map(|value| value.0).collect();
            let all: Vec<usize> = (0..columns.len()).collect();
            (Condition::row(shape, &all, operator, &values).expect("a row"), sql)
        }
        3 => {
            let (operator, sql) = match random.below(2) {
                0 => (Operator::IsNull, "is null"),
                _ => (Operator::IsNotNull, "is not null"),
            };
            let condition = Condition::new(shape, column, operator, &Datum::Null);
            (vec![condition.expect("no value")], format!("{name} {sql}"))
        }
        _ => {
            let (operator, sign) = COMPARISONS[usize::try_from(random.below(5)).expect("few")];
            let (with, sql) = value(random, name);
            let condition = Condition::new(shape, column, operator, &with);
            (vec![condition.expect("a value")], format!("{name} {sign} {sql}"))
        }
    }
}

/// The numbers of rows, as PostgreSQL's query shows them.
fn shown(mut ids: Vec<i64>) -> String {
    ids.sort_unstable();
    let ids: Vec<_> = ids.iter().map(i64::to_string).collect();
    if ids.is_empty() { "none".to_owned() } else { ids.join(",") }
}

/// Reads the numbers of the rows that satisfy conditions, in every way.
fn read(
    session: &mut Session,
    table: &Arc<Table>,
    index: &Arc<TableIndex>,
    conditions: &[Condition],
) -> Result<String, EngineError> {
    let id = |row: &forebay_engine::RowView<'_>| match row.decode()?[0] {
        Datum::Int8(id) => Ok::<_, EngineError>(id),
        _ => panic!("no number"),
    };
    let options = IndexScanOptions::default();
    let mut scan = session.index_scan(table, index, conditions.to_vec(), options)?;
    let (mut forward, mut backward, mut by_bitmap) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(row) = scan.next(session, Direction::Forward)? {
        forward.push(id(&row)?);
    }
    while let Some(row) = scan.next(session, Direction::Backward)? {
        backward.push(id(&row)?);
    }
    backward.reverse();
    assert_eq!(forward, backward, "in both directions");
    let bitmap = session.index_bitmap(table, index, conditions.to_vec())?;
    let mut scan = session.bitmap_scan(bitmap)?;
    while let Some((row, recheck)) = scan.next(session)? {
        assert!(!recheck, "there is room for all rows");
        by_bitmap.push(id(&row)?);
    }
    let forward = shown(forward);
    assert_eq!(shown(by_bitmap), forward, "by a bitmap");
    // The number is the last column of some indexes.
    let last = index.columns.len() - 1;
    if index.columns[last] == 1 {
        let options = IndexScanOptions { entries_only: true, limit: None };
        let mut scan = session.index_scan(table, index, conditions.to_vec(), options)?;
        let mut alone = Vec::new();
        while let Some(entry) = scan.next_entry(session, Direction::Forward)? {
            let mut values = Vec::new();
            entry.decode_into(last + 1, &mut values)?;
            let Datum::Int8(id) = values[last] else { panic!("no number") };
            alone.push(id);
        }
        assert_eq!(shown(alone), forward, "by entries alone");
    }
    Ok(forward)
}

/// Indexes that lack rows which the snapshot sees are refused.
fn refuses(session: &mut Session, table: &Arc<Table>) {
    let with = |valid: bool, check_xmin: Option<u32>| {
        let index = &table.indexes[0];
        Arc::new(TableIndex {
            name: index.name.clone(),
            columns: index.columns.clone(),
            trees: Arc::clone(&index.trees),
            computed: index.computed.clone(),
            shape: Arc::clone(&index.shape),
            known: Arc::clone(&index.known),
            shared: Arc::clone(&index.shared),
            unknown: None,
            valid,
            check_xmin,
            ..**index
        })
    };
    let mut begin = |index: Arc<TableIndex>| {
        let can = session.can_use_index(&index).expect("a snapshot");
        let options = IndexScanOptions::default();
        let scan = session.index_scan(table, &index, Vec::new(), options);
        assert_eq!(scan.is_ok(), can);
        scan.map(drop).map_err(|error| error.sqlstate())
    };
    assert_eq!(begin(with(true, Some(3))), Ok(()));
    assert_eq!(begin(with(true, Some(1 << 30))), Err("55000"), "made after the snapshot");
    assert_eq!(begin(with(false, None)), Err("55000"), "not complete");
}

#[test]
fn indexes_that_postgres_made_and_aged_give_its_answers() {
    let name = "indexes_that_postgres_made_and_aged_give_its_answers";
    let Some(peer) = Peer::find(name) else { return };
    peer.init("data");
    let server = peer.start("data", "-c autovacuum=off -c fsync=off");
    for statement in TABLE.split_terminator(';') {
        server.query(statement);
    }
    drop(server);
    let scratch = scratch();
    let dir = scratch.path().join("data");
    peer.fetch("data", &dir);
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Worker, false));
    let mut random = Random(18);
    let mut queries = Vec::new();
    transaction(&mut session, |session| {
        let table = session.open_table(None, "t", LockMode::AccessShare)?;
        for round in 0..180 {
            let (name, columns) = INDEXES[round % INDEXES.len()];
            let index = table.indexes.iter().find(|index| index.name == name);
            let index = Arc::clone(index.expect("the index"));
            let (mut conditions, mut texts) = (Vec::new(), vec!["true".to_owned()]);
            for _ in 0..random.below(4) {
                let (more, sql) = condition(&mut random, &index, columns);
                conditions.extend(more);
                texts.push(sql);
            }
            let found = read(session, &table, &index, &conditions)?;
            queries.push((texts.join(" and "), found));
        }
        refuses(session, &table);
        Ok(())
    })
    .expect("all scans");
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    let server = peer.start("data", "-c autovacuum=off");
    for some in queries.chunks(40) {
        let text: Vec<_> = some
            .iter()
            .map(|(condition, _)| {
                format!(
                    "select coalesce(string_agg(id::text, ',' order by id), 'none') \
                     from t where {condition};"
                )
            })
            .collect();
        let answers = server.query(&text.concat());
        assert_eq!(answers.lines().count(), some.len());
        for ((condition, found), wanted) in some.iter().zip(answers.lines()) {
            assert_eq!(found, wanted, "{condition}");
        }
    }
}
