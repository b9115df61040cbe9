//! Loads many rows in one transaction.
//!
//! Rows go into a batch in their on-disk form. A large batch is inserted page by page as bulk work,
//! so that a load does not evict what others use.
//!
//!     cargo run --release -p forebay-engine --example bulk_load -- DIRECTORY [ROWS]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use forebay_engine::types::oids;
use forebay_engine::{
    ColumnDef, Datum, Engine, EngineConfig, InitOptions, LockMode, RowBatch, ShutdownMode,
};

/// Bytes of rows in one batch.
const BATCH: usize = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().ok_or("usage: bulk_load DIRECTORY [ROWS]")?;
    let rows = arguments.next().map_or(Ok(1_000_000), |rows| rows.parse())?;
    run(Path::new(&dir), rows)
}

/// Makes the directory, and loads so many rows.
pub fn run(dir: &Path, rows: i64) -> Result<(), Box<dyn Error>> {
    Engine::init(dir, &InitOptions::default())?;
    let engine = Engine::open(dir, EngineConfig::default())?;
    let mut session = engine.session()?;
    let begun = Instant::now();

    let mut tx = session.transaction()?;
    let columns = [ColumnDef::new("number", oids::INT8), ColumnDef::new("note", oids::TEXT)];
    tx.statement()?.create_table(None, "loaded", &columns)?;
    let mut insert = tx.statement()?;
    let table = insert.open_table(None, "loaded", LockMode::RowExclusive)?;
    let mut batch = RowBatch::new(&table);
    let mut inserted = 0;
    for number in 0..rows {
        batch.push(&[Datum::Int8(number), Datum::text(&format!("row number {number}"))])?;
        if batch.bytes() >= BATCH {
            // Empties the batch, whose memory is used again.
            inserted += insert.insert_batch(&table, &mut batch)?;
        }
    }
    inserted += insert.insert_batch(&table, &mut batch)?;
    tx.commit()?;
    println!("loaded {inserted} rows in {:.2} s", begun.elapsed().as_secs_f64());

    let mut tx = session.transaction()?;
    let mut select = tx.statement()?;
    let table = select.open_table(None, "loaded", LockMode::AccessShare)?;
    assert_eq!(select.count_rows(&table)?, inserted);
    assert_eq!(inserted, rows.unsigned_abs());
    tx.commit()?;
    drop(session);
    engine.shutdown(ShutdownMode::Fast)?;
    Ok(())
}
