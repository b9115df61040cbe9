//! Crashes while databases are made, by both strategies, and dropped.
//!
//! Whatever is left: a database that was acknowledged is there, with all its tables; one that was
//! dropped is gone, with its files; one in between is whole, absent, or marked as one that can only
//! be dropped. No directory is left without a row.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_aio::PlantedBug;
use forebay_engine::types::oids;
use forebay_engine::{
    ColumnDef, CopyStrategy, Datum, Engine, EngineError, LockMode, NewDatabase, RowBatch, Session,
};
use forebay_testkit::Dice;

use super::Tally;
use super::cut_short::CutShort;
use crate::disk::SimDisk;
use crate::survival::Survival;
use crate::workload::{Life, Setup, data_dir, disk_with_templates};

/// Rows of the template's table.
const ROWS: usize = 400;

/// What is known of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It was made, and this many rows were put into its own table.
    Present(usize),
    Absent,
    /// A statement about it was under way.
    Unknown,
}

/// The databases by name.
#[derive(Clone, Debug, Default)]
struct Databases(BTreeMap<String, Known>);

/// A disk with template databases, of which template1 has a table.
///
/// # Errors
/// As init.
pub fn databases_disk() -> Result<SimDisk, EngineError> {
    let disk = disk_with_templates()?;
    let setup = Setup { buffers: 256, ..Setup::random(&mut Dice::new(0)) };
    let life = Life::begin(&disk, setup)?;
    let mut session = life.engine().session_as("template1", "postgres")?;
    put(&mut session, "t", ROWS)?;
    drop(session);
    life.end()?;
    Ok(disk.restart(Survival::none(), 0))
}

/// A life of a seed on a copy of a disk that [`databases_disk`] made, crashed at every `stride`-th
/// call. Each time the unsynced changes are lost, kept, and torn.
///
/// # Errors
/// What contradicts the model, with the number of the call and what survived.
pub fn databases_cut_short(
    template: &SimDisk,
    seed: u64,
    stride: usize,
    bug: Option<PlantedBug>,
) -> Result<Tally, String> {
    let mut dice = Dice::new(seed);
    let setup = Setup { buffers: 256, ..Setup::random(&mut dice) };
    let first = if dice.chance(500) { CopyStrategy::WalLog } else { CopyStrategy::FileCopy };
    let life = CutShort { template, setup, seed, stride, bug };
    life.run(
        |life, known: &mut Databases| work(life, known, first).map_err(|error| error.to_string()),
        |disk, known| look(disk, setup, known),
    )
}

fn in_transaction<T>(
    session: &mut Session,
    body: impl FnOnce(&mut Session) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    session.begin()?;
    session.start_command()?;
    match body(session) {
        Ok(done) => session.commit().map(|()| done),
        Err(error) => {
            session.abort()?;
            Err(error)
        }
    }
}

fn put(session: &mut Session, table: &str, rows: usize) -> Result<(), EngineError> {
    in_transaction(session, |session| {
        session.create_table(None, table, &[ColumnDef::new("a", oids::INT8)])?;
        let table = session.open_table(None, table, LockMode::RowExclusive)?;
        let mut batch = RowBatch::new(&table);
        for n in 0..rows {
            batch.push(&[Datum::Int8(n as i64)])?;
        }
        session.insert_batch(&table, &mut batch).map(drop)
    })
}

fn create(
    life: &mut Life,
    known: &mut Databases,
    name: &str,
    strategy: CopyStrategy,
) -> Result<(), EngineError> {
    let new = NewDatabase { name: name.to_owned(), strategy, ..NewDatabase::default() };
    known.0.insert(name.to_owned(), Known::Unknown);
    in_transaction(life.session(), |session| session.create_database(&new))?;
    known.0.insert(name.to_owned(), Known::Present(0));
    Ok(())
}

fn drop_it(life: &mut Life, known: &mut Databases, name: &str) -> Result<(), EngineError> {
    known.0.insert(name.to_owned(), Known::Unknown);
    in_transaction(life.session(), |session| session.drop_database(name, false, false))?;
    known.0.insert(name.to_owned(), Known::Absent);
    Ok(())
}

/// What is done before the crash.
fn work(mut life: Life, known: &mut Databases, first: CopyStrategy) -> Result<(), EngineError> {
    let second = match first {
        CopyStrategy::WalLog => CopyStrategy::FileCopy,
        CopyStrategy::FileCopy => CopyStrategy::WalLog,
    };
    create(&mut life, known, "a", first)?;
    let mut session = life.engine().session_as("a", "postgres")?;
    known.0.insert("a".to_owned(), Known::Unknown);
    put(&mut session, "own", 7)?;
    known.0.insert("a".to_owned(), Known::Present(7));
    drop(session);
    create(&mut life, known, "b", second)?;
    drop_it(&mut life, known, "a")?;
    create(&mut life, known, "a", second)?;
    drop_it(&mut life, known, "b")?;
    life.end()
}

/// Reads all tables of a database. The number of rows of one.
fn rows_of(session: &mut Session, name: &str) -> Result<Option<usize>, EngineError> {
    in_transaction(session, |session| {
        let mut found = None;
        for table in session.tables()? {
            let table =
                session.open_table(Some(&table.schema), &table.name, LockMode::AccessShare)?;
            let mut scan = session.scan(&table)?;
            let mut rows = 0;
            while scan.next(session)?.is_some() {
                rows += 1;
            }
            if table.name == name && table.schema == "public" {
                found = Some(rows);
            }
        }
        Ok(found)
    })
}

fn check(engine: &Arc<Engine>, name: &str, known: Known) -> Result<(), String> {
    let told = |error: EngineError| format!("database {name}: {error}");
    match engine.session_as(name, "postgres") {
        Err(error) if error.sqlstate() == "3D000" => match known {
            Known::Present(_) => Err(format!("database {name} is lost")),
            Known::Absent | Known::Unknown => Ok(()),
        },
        // Marked: its DROP was cut short.
        Err(error) if error.sqlstate() == "55000" && known == Known::Unknown => {
            let mut session = engine.session().map_err(told)?;
            let dropped = in_transaction(&mut session, |s| s.drop_database(name, false, false));
            dropped.map(drop).map_err(told)
        }
        Err(error) => Err(told(error)),
        Ok(_) if known == Known::Absent => Err(format!("database {name} has come back")),
        Ok(mut session) => {
            let rows = rows_of(&mut session, "t").map_err(told)?;
            if rows != Some(ROWS) {
                return Err(format!("database {name} has {rows:?} rows of its template"));
            }
            let own = rows_of(&mut session, "own").map_err(told)?;
            match known {
                Known::Present(rows) if rows > 0 && own != Some(rows) => {
                    Err(format!("database {name} has {own:?} rows of its own"))
                }
                _ => Ok(()),
            }
        }
    }
}

/// Directories of databases are those of rows of pg_database.
fn check_directories(life: &Life, disk: &SimDisk) -> Result<(), String> {
    let base = data_dir(disk).join("base");
    let listed = life.aio().namespace().list(&base).map_err(|error| error.to_string())?;
    let numbers = listed.iter().filter_map(|entry| entry.name.to_str()?.parse::<u32>().ok());
    let mut found: Vec<u32> = numbers.filter(|oid| *oid >= 16_384).collect();
    found.sort_unstable();
    let mut known: Vec<u32> = Vec::new();
    for name in ["a", "b", "c"] {
        if let Ok(session) = life.engine().session_as(name, "postgres") {
            known.push(session.database());
        }
    }
    known.sort_unstable();
    if found == known { Ok(()) } else { Err(format!("directories {found:?}, databases {known:?}")) }
}

/// Compares what a crash has left, and goes on with it.
fn look(disk: &SimDisk, setup: Setup, known: &Databases) -> Result<(), String> {
    let mut life = Life::begin(disk, setup).map_err(|error| error.to_string())?;
    for (name, known) in &known.0 {
        check(life.engine(), name, *known)?;
    }
    check_directories(&life, disk)?;
    let told = |error: EngineError| format!("afterwards: {error}");
    create(&mut life, &mut Databases::default(), "c", CopyStrategy::WalLog).map_err(told)?;
    check(life.engine(), "c", Known::Present(0))?;
    check_directories(&life, disk)?;
    life.end().map_err(told)
}
