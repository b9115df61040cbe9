//! Long values of a table, with crashes at the calls.
//!
//! Most values lie in the TOAST table. Transactions insert, replace, keep and delete them; some are
//! rolled back, whole or in part, and some commits do not wait for the log. A value that a row has
//! is there, whole. A value that no row has is deleted.

use std::collections::{BTreeMap, BTreeSet};

use forebay_aio::PlantedBug;
use forebay_aio::sync::Arc;
use forebay_engine::types::oids;
use forebay_engine::{
    ColumnDef, Datum, EngineError, ItemPointer, LockMode, Part, RowBatch, RowOutcome, Session,
    Table, VacuumOptions,
};
use forebay_format::varlena::ToastPointer;
use forebay_testkit::Dice;

use super::Tally;
use super::cut_short::CutShort;
use super::random::writes_whole_pages;
use crate::disk::SimDisk;
use crate::rows::Committed;
use crate::workload::{Life, Setup, disk_after};

const TABLE: &str = "long";
/// Transactions of a life.
const TRANSACTIONS: usize = 10;
/// Rows beyond which none are inserted.
const MOST_ROWS: usize = 12;

/// A row as it was found.
struct Found {
    id: i64,
    version: i64,
    /// The version whose text it has.
    of: i64,
    place: ItemPointer,
    /// The text, perhaps a pointer.
    text: Datum<'static>,
}

/// The text of a version. Half of them are compressible.
fn text_of(version: i64) -> String {
    let mut dice = Dice::new(version.unsigned_abs());
    let len = if dice.chance(700) { 2000 + dice.below(12_000) } else { dice.below(2000) };
    let noise = dice.chance(500);
    let char = |n| b' ' + (if noise { dice.below(90) } else { n / 300 % 90 }) as u8;
    (0..len).map(char).map(char::from).collect()
}

/// A life of a seed on a copy of a disk that [`long_values_disk`] made, crashed at every
/// `stride`-th call. Each time the unsynced changes are lost, kept, and torn.
///
/// # Errors
/// What contradicts the model, with the number of the call and what survived.
pub fn long_values_cut_short(
    template: &SimDisk,
    seed: u64,
    stride: usize,
    bug: Option<PlantedBug>,
) -> Result<Tally, String> {
    let template = template.copy(seed);
    let mut dice = Dice::new(seed);
    let whole = writes_whole_pages(&template, dice.chance(250));
    let setup = Setup { full_page_writes: !whole, ..Setup::random(&mut dice) };
    let cut = CutShort { template: &template, setup, seed, stride, bug };
    cut.run(
        |mut life, committed| work(&mut life, committed, &mut Dice::new(seed)),
        |left, committed| go_on(left, setup, committed),
    )
}

/// A disk with a new data directory and an empty table with a text column, all of it durable.
///
/// # Errors
/// As the engine.
pub fn long_values_disk() -> Result<SimDisk, EngineError> {
    disk_after(|session| {
        let number = |name| ColumnDef::new(name, oids::INT8);
        let text = ColumnDef::new("text", oids::TEXT);
        let columns = [number("id"), number("version"), number("of"), text];
        session.create_table(None, TABLE, &columns).map(drop)
    })
}

/// What is done before the crash.
fn work(life: &mut Life, committed: &mut Committed, dice: &mut Dice) -> Result<(), String> {
    for _ in 0..TRANSACTIONS {
        change(life.session(), committed, dice).map_err(|error| error.to_string())?;
        compare(life.session(), committed)?;
        match dice.below(6) {
            0 => {
                life.session().checkpoint().map_err(|error| error.to_string())?;
                committed.durable(committed.commits());
            }
            1 => vacuum(life.session())?,
            _ => {}
        }
    }
    Ok(())
}

/// Compares what a crash has left, and goes on with it.
fn go_on(disk: &SimDisk, setup: Setup, committed: &Committed) -> Result<(), String> {
    let (mut committed, mut dice) = (committed.clone(), Dice::new(setup.order));
    let mut life = Life::begin(disk, setup).map_err(|error| error.to_string())?;
    committed.settle(&found(life.session())?)?;
    change(life.session(), &mut committed, &mut dice)
        .map_err(|error| format!("afterwards: {error}"))?;
    vacuum(life.session())?;
    compare(life.session(), &committed)?;
    life.end().map_err(|error| format!("the stop failed: {error}"))
}

/// Vacuums the table and its TOAST table.
fn vacuum(session: &mut Session) -> Result<(), String> {
    let table = in_transaction(session, |_, table| Ok(Arc::clone(table)))?;
    let options = VacuumOptions { truncate: Some(true), ..VacuumOptions::default() };
    let vacuumed = session.vacuum(&table, &options, &mut Vec::new());
    vacuumed.map_err(|error| format!("vacuum: {error}"))
}

fn in_transaction<T>(
    session: &mut Session,
    body: impl FnOnce(&mut Session, &Arc<Table>) -> Result<T, EngineError>,
) -> Result<T, String> {
    let run = || -> Result<T, EngineError> {
        session.begin()?;
        session.start_command()?;
        let table = session.open_table(None, TABLE, LockMode::AccessShare)?;
        let done = body(session, &table)?;
        session.commit()?;
        Ok(done)
    };
    run().map_err(|error| error.to_string())
}

/// The rows of the table. Nothing that lies elsewhere is fetched.
fn rows(session: &mut Session, table: &Arc<Table>) -> Result<Vec<Found>, EngineError> {
    let (mut scan, mut rows) = (session.scan(table)?, Vec::new());
    while let Some(row) = scan.next(session)? {
        let place = row.place();
        match &row.decode()?[..] {
            [Datum::Int8(id), Datum::Int8(version), Datum::Int8(of), text] => {
                let text = text.clone().into_owned();
                rows.push(Found { id: *id, version: *version, of: *of, place, text });
            }
            other => panic!("a row that was never written: {other:?}"),
        }
    }
    Ok(rows)
}

/// Compares the rows with those that are committed.
fn compare(session: &mut Session, committed: &Committed) -> Result<(), String> {
    let (found, expected) = (found(session)?, committed.now());
    match found.iter().copied().collect::<BTreeMap<_, _>>() == *expected {
        true => Ok(()),
        false => Err(format!("found {found:?} instead of {expected:?}")),
    }
}

/// The versions of the rows, whose texts are compared with them, and the values in the TOAST table
/// with those that rows have.
fn found(session: &mut Session) -> Result<Vec<(i64, i64)>, String> {
    let read = |session: &mut Session, table: &Arc<Table>| -> Result<_, EngineError> {
        let (mut found, mut stored) = (Vec::new(), BTreeSet::new());
        for Found { id, version, of, text, .. } in rows(session, table)? {
            let text = match &text {
                Datum::Toasted(bytes) => {
                    stored.extend(ToastPointer::decode(bytes).map(|pointer| pointer.value_id));
                    session.fetch_value(&text, table.columns[3].repr, Part::Whole)?
                }
                _ => text,
            };
            if text != Datum::string(text_of(of)) {
                return Ok(Err(format!("row {id} does not have the text of version {of}")));
            }
            found.push((id, version));
        }
        let name = format!("pg_toast_{}", table.oid);
        let toast = session.open_table(Some("pg_toast"), &name, LockMode::AccessShare)?;
        let mut scan = session.scan(&toast)?;
        while let Some(chunk) = scan.next(session)? {
            if let Datum::Oid(value) = chunk.decode()?[0]
                && !stored.contains(&value)
            {
                return Ok(Err(format!("no row has value {value} of the TOAST table")));
            }
        }
        Ok(Ok(found))
    };
    in_transaction(session, read)?
}

/// A transaction that changes rows.
fn change(
    session: &mut Session,
    committed: &mut Committed,
    dice: &mut Dice,
) -> Result<(), EngineError> {
    session.begin()?;
    session.start_command()?;
    let table = session.open_table(None, TABLE, LockMode::RowExclusive)?;
    let found = rows(session, &table)?;
    let room = MOST_ROWS.saturating_sub(found.len());
    let mut changes = BTreeMap::new();
    for Found { id, of, place, text, .. } in found {
        let version = committed.fresh();
        let (new, done) = match dice.below(8) {
            0 => (None, session.delete_row(&table, place)?),
            1 | 2 => {
                let text = Datum::string(text_of(version));
                let row = values(id, version, version, text);
                (Some(version), session.update_row(&table, place, &row)?)
            }
            3 => {
                let row = values(id, version, of, text);
                (Some(version), session.update_row(&table, place, &row)?)
            }
            _ => continue,
        };
        assert!(matches!(done, RowOutcome::Done(_)), "nobody else changes rows: {done:?}");
        changes.insert(id, new);
    }
    if dice.chance(200) {
        session.begin_subtransaction()?;
        session.start_command()?;
        insert(session, &table, committed)?;
        session.abort_subtransaction()?;
        session.start_command()?;
    }
    for _ in 0..room.min(dice.below(4) as usize) {
        let id = insert(session, &table, committed)?;
        changes.insert(id, Some(id));
    }
    if dice.chance(150) {
        return session.abort();
    }
    let waits = dice.chance(600);
    session.settings_mut().synchronous_commit = waits;
    committed.commit(changes);
    session.commit()?;
    if waits {
        committed.durable(committed.commits());
    }
    Ok(())
}

/// Inserts a row, whose id is its version. Returns that.
fn insert(
    session: &mut Session,
    table: &Arc<Table>,
    committed: &mut Committed,
) -> Result<i64, EngineError> {
    let id = committed.fresh();
    let mut batch = RowBatch::new(table);
    batch.push(&values(id, id, id, Datum::string(text_of(id))))?;
    session.insert_batch(table, &mut batch)?;
    Ok(id)
}

fn values(id: i64, version: i64, of: i64, text: Datum<'static>) -> [Datum<'static>; 4] {
    [Datum::Int8(id), Datum::Int8(version), Datum::Int8(of), text]
}
