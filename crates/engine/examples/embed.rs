//! Embeds the engine: makes a data directory, writes rows in a transaction, and reads them after a
//! restart.
//!
//!     cargo run -p forebay-engine --example embed -- DIRECTORY

use std::error::Error;
use std::path::Path;

use forebay_engine::types::oids;
use forebay_engine::{
    ColumnDef, Datum, Engine, EngineConfig, InitOptions, LockMode, RowBatch, ShutdownMode,
};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os().nth(1).ok_or("usage: embed DIRECTORY")?;
    run(Path::new(&dir))
}

/// Makes the directory, writes, and reads.
pub fn run(dir: &Path) -> Result<(), Box<dyn Error>> {
    Engine::init(dir, &InitOptions::default())?;
    write(dir)?;
    for (id, name) in read(dir)? {
        println!("{id}: {name}");
    }
    Ok(())
}

fn write(dir: &Path) -> Result<(), Box<dyn Error>> {
    let engine = Engine::open(dir, EngineConfig::default())?;
    let mut session = engine.session()?;

    let mut tx = session.transaction()?;
    let columns = [ColumnDef::new("id", oids::INT4), ColumnDef::new("name", oids::TEXT)];
    tx.statement()?.create_table(None, "rivers", &columns)?;
    let mut insert = tx.statement()?;
    let table = insert.open_table(None, "rivers", LockMode::RowExclusive)?;
    let mut rows = RowBatch::new(&table);
    rows.push(&[Datum::Int4(1), Datum::text("Danube")])?;
    rows.push(&[Datum::Int4(2), Datum::text("Yangtze")])?;
    assert_eq!(insert.insert_batch(&table, &mut rows)?, 2);
    tx.commit()?;

    // A transaction that is dropped is aborted: nobody sees its rows.
    let mut tx = session.transaction()?;
    let mut insert = tx.statement()?;
    let table = insert.open_table(None, "rivers", LockMode::RowExclusive)?;
    rows.push(&[Datum::Int4(3), Datum::text("Styx")])?;
    insert.insert_batch(&table, &mut rows)?;
    drop(tx);

    drop(session);
    engine.shutdown(ShutdownMode::Fast)?;
    Ok(())
}

fn read(dir: &Path) -> Result<Vec<(i32, String)>, Box<dyn Error>> {
    let engine = Engine::open(dir, EngineConfig::default())?;
    let mut session = engine.session()?;
    let mut tx = session.transaction()?;
    let mut select = tx.statement()?;
    let table = select.open_table(None, "rivers", LockMode::AccessShare)?;
    let mut scan = select.scan(&table)?;
    let mut found = Vec::new();
    while let Some(row) = scan.next_row()? {
        let values = row.decode()?;
        let [Datum::Int4(id), Datum::Text(name)] = values.as_slice() else {
            return Err("the table has other columns".into());
        };
        found.push((*id, name.to_string()));
    }
    drop(scan);
    tx.commit()?;
    drop(session);
    engine.shutdown(ShutdownMode::Fast)?;
    assert_eq!(found, [(1, "Danube".to_owned()), (2, "Yangtze".to_owned())]);
    Ok(found)
}
