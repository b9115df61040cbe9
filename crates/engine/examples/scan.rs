//! Scans a table that is larger than the buffer pool, with two I/O methods.
//!
//! The engine reads ahead: it keeps several large reads in flight while the program looks at rows.
//! How many is the session's `effective_io_concurrency`, how large its `io_combine_limit`.
//!
//!     cargo run --release -p forebay-engine --example scan -- DIRECTORY

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use forebay_engine::types::oids;
use forebay_engine::{
    ColumnDef, Datum, Engine, EngineConfig, EngineError, InitOptions, IoMethod, LockMode, RowBatch,
    Session, ShutdownMode,
};

const ROWS: i64 = 50_000;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os().nth(1).ok_or("usage: scan DIRECTORY")?;
    run(Path::new(&dir))
}

/// Makes the directory, fills a table, and scans it.
pub fn run(dir: &Path) -> Result<(), Box<dyn Error>> {
    Engine::init(dir, &InitOptions::default())?;
    for (first, io_method) in [(true, IoMethod::Sync), (false, IoMethod::Worker)] {
        // 256 pages of 8 kB.
        let config =
            EngineConfig { io_method, shared_buffers: 256.into(), ..EngineConfig::default() };
        let engine = Engine::open(dir, config)?;
        let mut session = engine.session()?;
        if first {
            fill(&mut session)?;
        }
        session.settings_mut().effective_io_concurrency = 32;
        let begun = Instant::now();
        let sum = sum(&mut session)?;
        println!("{}: {sum} in {:.3} s", engine.io_method_name(), begun.elapsed().as_secs_f64());
        assert_eq!(sum, ROWS * (ROWS - 1) / 2);
        drop(session);
        engine.shutdown(ShutdownMode::Fast)?;
    }
    Ok(())
}

fn fill(session: &mut Session) -> Result<(), EngineError> {
    let mut tx = session.transaction()?;
    let columns = [ColumnDef::new("number", oids::INT8), ColumnDef::new("filler", oids::TEXT)];
    tx.statement()?.create_table(None, "numbers", &columns)?;
    let mut insert = tx.statement()?;
    let table = insert.open_table(None, "numbers", LockMode::RowExclusive)?;
    let mut batch = RowBatch::new(&table);
    let filler = "x".repeat(100);
    for number in 0..ROWS {
        batch.push(&[Datum::Int8(number), Datum::text(&filler)])?;
    }
    insert.insert_batch(&table, &mut batch)?;
    tx.commit()
}

fn sum(session: &mut Session) -> Result<i64, EngineError> {
    let mut tx = session.transaction()?;
    let mut select = tx.statement()?;
    let table = select.open_table(None, "numbers", LockMode::AccessShare)?;
    let mut scan = select.scan(&table)?;
    let mut sum = 0;
    while let Some(row) = scan.next_row()? {
        let mut values = Vec::with_capacity(1);
        // Only the first column is decoded.
        row.decode_into(1, &mut values)?;
        if let [Datum::Int8(number)] = values[..] {
            sum += number;
        }
    }
    drop(scan);
    tx.commit()?;
    Ok(sum)
}
