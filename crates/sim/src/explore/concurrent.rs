//! Crashes while indexes are created, built anew and dropped concurrently: in each of their
//! transactions, and between them.
//!
//! Whatever is left, the rows are those of the model, indexes that are valid lead to them, and the
//! others can be built anew or dropped.

use forebay_engine::{EngineError, IndexDef, IndexKey, Session};
use forebay_testkit::Dice;

use super::Tally;
use super::cut_short::CutShort;
use super::random::with_or_without_images;
use crate::disk::SimDisk;
use crate::rows::{
    Act, Committed, Writer, check_indexes, check_pages, check_trees, found, keep, keep_writing,
};
use crate::workload::{Life, Setup, data_dir};

/// Rows at the beginning.
const ROWS: usize = 60;

/// The index of the primary key.
const KEY: &str = "rows_pkey";

/// The indexes: their names, columns, and whether they are unique.
const INDEXES: [(&str, i16, bool); 2] = [("by_version", 2, true), ("by_text", 3, false)];

/// A life of a seed on a copy of a disk that [`indexed_rows_disk`](crate::indexed_rows_disk) made,
/// crashed at every `stride`-th call. Each time the unsynced changes are lost, kept, and torn.
///
/// # Errors
/// What contradicts the model, with the number of the call and what survived.
pub fn concurrent_indexes_cut_short(
    template: &SimDisk,
    seed: u64,
    stride: usize,
) -> Result<Tally, String> {
    let mut dice = Dice::new(seed);
    let template = template.copy(seed);
    let setup = with_or_without_images(&template, &mut dice, 250);
    let life = CutShort { template: &template, setup, seed, stride, bug: None };
    life.run(
        |life, committed| {
            let dice = &mut Dice::new(seed);
            keep_writing(life, committed, |writer| work(writer, dice))
        },
        |disk, committed| go_on(disk, setup, committed, seed),
    )
}

fn create(
    writer: &mut Writer,
    (name, column, unique): (&str, i16, bool),
) -> Result<(), EngineError> {
    let keys = vec![IndexKey::new(column)];
    let def = IndexDef { name: Some(name.to_owned()), keys, unique, ..IndexDef::default() };
    writer.life.session().create_index_concurrently(&writer.table, &def).map(drop)
}

/// Updates some rows, so that there are chains of versions.
fn change(writer: &mut Writer, dice: &mut Dice) -> Result<(), EngineError> {
    let changed = dice.below(3);
    let waits = dice.chance(500);
    writer.change(
        waits,
        (ROWS / 4, &|place| match u64::from(place.offset) % 3 {
            kind if kind == changed => Act::Update,
            _ => Act::Keep,
        }),
    )
}

/// What is done before the crash.
fn work(writer: &mut Writer, dice: &mut Dice) -> Result<(), EngineError> {
    writer.change(dice.chance(500), (ROWS, &keep))?;
    change(writer, dice)?;
    for index in INDEXES {
        create(writer, index)?;
        if dice.chance(300) {
            writer.checkpoint()?;
        }
        change(writer, dice)?;
    }
    build_anew(writer, dice)?;
    for (name, ..) in INDEXES {
        writer.life.session().drop_index_concurrently(None, name)?;
        change(writer, dice)?;
    }
    Ok(())
}

/// REINDEX CONCURRENTLY of the table, with its key and its TOAST table, or of single indexes.
fn build_anew(writer: &mut Writer, dice: &mut Dice) -> Result<(), EngineError> {
    if dice.chance(300) {
        writer.life.session().reindex_table_concurrently(&writer.table)?;
        return change(writer, dice);
    }
    for (name, ..) in INDEXES {
        if dice.chance(600) {
            writer.life.session().reindex_index_concurrently(None, name)?;
            change(writer, dice)?;
        }
    }
    Ok(())
}

fn in_transaction<T>(
    session: &mut Session,
    body: impl FnOnce(&mut Session) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    session.begin()?;
    session.start_command()?;
    let done = body(session)?;
    session.commit()?;
    Ok(done)
}

/// Builds the indexes that a crash has left invalid, or drops them. Dead ones can only be dropped.
fn mend(writer: &mut Writer, dice: &mut Dice) -> Result<(), EngineError> {
    let table = std::sync::Arc::clone(&writer.table);
    let session = writer.life.session();
    for (name, ..) in INDEXES {
        let is_there = in_transaction(session, |s| s.index_named(None, name))?.is_some();
        match table.indexes.iter().find(|index| index.name == name) {
            Some(index) if index.valid => {}
            Some(_) if dice.chance(500) => {
                in_transaction(session, |s| s.reindex_index(None, name))?;
            }
            None if !is_there => {}
            _ if dice.chance(500) => session.drop_index_concurrently(None, name)?,
            _ => in_transaction(session, |s| s.drop_index(None, name))?,
        }
    }
    Ok(())
}

/// Drops what REINDEX CONCURRENTLY has left: twins that were not valid yet, and indexes whose twins
/// are.
fn drop_left_over(writer: &mut Writer, dice: &mut Dice) -> Result<(), EngineError> {
    let of_toast = (Some("pg_toast"), format!("pg_toast_{}_index", writer.table.oid));
    let names = INDEXES.iter().map(|(name, ..)| *name).chain([KEY]);
    let indexes: Vec<_> = names.map(|name| (None, name.to_owned())).chain([of_toast]).collect();
    let session = writer.life.session();
    for (schema, index) in &indexes {
        for label in ["ccnew", "ccold"] {
            let name = &*format!("{index}_{label}");
            if in_transaction(session, |s| s.index_named(*schema, name))?.is_none() {
                continue;
            }
            match dice.chance(500) {
                true => session.drop_index_concurrently(*schema, name)?,
                false => in_transaction(session, |s| s.drop_index(*schema, name))?,
            }
        }
    }
    Ok(())
}

/// The key is there all the time, under its name.
fn check_key(writer: &Writer) -> Result<(), String> {
    let mut valid = writer.table.indexes.iter().filter(|index| index.valid);
    match valid.clone().find(|index| index.primary) {
        Some(index) if index.name == KEY && !valid.any(|other| other.name.contains("_cc")) => {
            Ok(())
        }
        _ => Err(format!("the key is not among {:?}", writer.table.indexes)),
    }
}

/// Compares what a crash has left, and goes on with it.
fn go_on(disk: &SimDisk, setup: Setup, committed: &Committed, seed: u64) -> Result<(), String> {
    let life = Life::begin(disk, setup).map_err(|error| error.to_string())?;
    let mut writer = Writer::open(life, committed.clone())?;
    let dir = data_dir(disk);
    check_pages(disk, &dir, writer.table.locator)?;
    writer.compare()?;
    let told = |error: EngineError| format!("afterwards: {error}");
    let dice = &mut Dice::new(seed);
    // Those that are kept and not valid get entries.
    change(&mut writer, dice).map_err(told)?;
    check_key(&writer)?;
    mend(&mut writer, dice).map_err(told)?;
    drop_left_over(&mut writer, dice).map_err(told)?;
    change(&mut writer, dice).map_err(told)?;
    let mut writer = Writer::begin(writer.life, writer.committed)?;
    if let Some(index) = writer.table.indexes.iter().find(|index| !index.valid) {
        return Err(format!("index {} is not valid", index.name));
    }
    let rows = found(&mut writer.life)?;
    check_indexes(&mut writer.life, &rows)?;
    let table = writer.table;
    writer.life.end().map_err(told)?;
    check_pages(disk, &dir, table.locator)?;
    check_trees(disk, &dir, &table)
}
