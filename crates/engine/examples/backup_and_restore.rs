//! Takes a base backup of a running engine, and restores it into another directory.
//!
//!     cargo run -p forebay-engine --example backup_and_restore -- DIRECTORY

use std::error::Error;
use std::path::Path;

use forebay_engine::archive::backup::{BackupOptions, RestoreOptions, Silent};
use forebay_engine::types::oids;
use forebay_engine::{
    ColumnDef, Datum, Engine, EngineConfig, EngineError, InitOptions, IoMethod, LockMode, RowBatch,
    Session, ShutdownMode, backup,
};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os().nth(1).ok_or("usage: backup_and_restore DIRECTORY")?;
    run(Path::new(&dir))
}

/// Makes a cluster, an archive and a restored cluster in `dir`.
pub fn run(dir: &Path) -> Result<(), Box<dyn Error>> {
    let (data, archive, restored) = (dir.join("data"), dir.join("archive"), dir.join("restored"));
    std::fs::create_dir_all(&archive)?;
    Engine::init(&data, &InitOptions::default())?;
    let engine = Engine::open(&data, EngineConfig::default())?;
    let mut session = engine.session()?;
    let mut tx = session.transaction()?;
    tx.statement()?.create_table(None, "t", &[ColumnDef::new("a", oids::INT8)])?;
    tx.commit()?;
    insert(&mut session, 0..1000)?;

    // A session begins and ends the backup. Without a WAL archive it brings along its WAL.
    let (options, method) = (BackupOptions::default(), IoMethod::Sync);
    let mut source = engine.session()?;
    let about = backup::backup(&data, &archive, Some(&mut source), &options, method, &mut Silent)?;
    println!("backed up {} pages", about.pages);
    insert(&mut session, 1000..1500)?;
    drop((session, source));
    engine.shutdown(ShutdownMode::Fast)?;

    let options = RestoreOptions {
        backup: None,
        recovery: None,
        tablespaces: Vec::new(),
        allow_damaged: false,
        jobs: 2,
        direct: false,
    };
    backup::restore(&archive, &restored, &options, method, &mut Silent)?;
    // Opening it recovers to the end of the backup: later rows are not there.
    assert_eq!((count(&restored)?, count(&data)?), (1000, 1500));
    Ok(())
}

fn insert(session: &mut Session, numbers: std::ops::Range<i64>) -> Result<(), EngineError> {
    let mut tx = session.transaction()?;
    let mut insert = tx.statement()?;
    let table = insert.open_table(None, "t", LockMode::RowExclusive)?;
    let mut rows = RowBatch::new(&table);
    numbers.into_iter().try_for_each(|number| rows.push(&[Datum::Int8(number)]))?;
    insert.insert_batch(&table, &mut rows)?;
    tx.commit()
}

fn count(dir: &Path) -> Result<u64, EngineError> {
    let engine = Engine::open(dir, EngineConfig::default())?;
    let mut session = engine.session()?;
    let mut tx = session.transaction()?;
    let mut select = tx.statement()?;
    let table = select.open_table(None, "t", LockMode::AccessShare)?;
    let rows = select.count_rows(&table)?;
    tx.commit()?;
    drop(session);
    engine.shutdown(ShutdownMode::Fast)?;
    Ok(rows)
}
