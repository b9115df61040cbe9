//! What the integration tests share: the ways to do I/O, and small things to do with tables.
#![allow(dead_code, reason = "each test program uses some of it")]

pub mod log;
pub mod peer;

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_engine::types::oids;
use forebay_engine::{
    ColumnDef, Datum, Engine, EngineConfig, EngineError, InitOptions, IoDirect, IoMethod, LockMode,
    RowBatch, Session, Table, WritingSettings,
};

/// Every way to do I/O: three methods, buffered and direct.
pub fn ways() -> Vec<(String, EngineConfig)> {
    let mut ways = Vec::new();
    for method in [IoMethod::Sync, IoMethod::Worker, IoMethod::IoUring] {
        for direct in [false, true] {
            let name = format!("{method:?}, {}", if direct { "direct" } else { "buffered" });
            ways.push((name, config(method, direct)));
        }
    }
    ways
}

/// A small engine.
pub fn config(method: IoMethod, direct: bool) -> EngineConfig {
    EngineConfig {
        shared_buffers: 1024,
        io_method: method,
        io_direct: IoDirect { data: direct, wal: direct, wal_init: direct },
        io_workers: forebay_aio::WorkerLimits::fixed(2),
        max_connections: 10,
        ..EngineConfig::default()
    }
}

/// Settings with which little WAL makes a checkpoint due.
pub fn little_wal() -> WritingSettings {
    WritingSettings { max_wal_size: 4 << 20, min_wal_size: 2 << 20, ..WritingSettings::default() }
}

/// A scratch directory on a file system that does direct I/O.
pub fn scratch() -> tempfile::TempDir {
    let base = Path::new(env!("CARGO_TARGET_TMPDIR"));
    tempfile::Builder::new().prefix("engine-").tempdir_in(base).expect("scratch directory")
}

/// Makes a directory that a data directory can be copied into: its owner's alone.
pub fn private_dir(path: &Path) {
    std::fs::DirBuilder::new().mode(0o700).create(path).expect("directory");
}

/// A new data directory.
pub fn init(dir: &Path) {
    let options = InitOptions { wal_segment_size: 1 << 20, ..InitOptions::default() };
    Engine::init(dir, &options).expect("init");
}

/// Opens, or fails the test.
pub fn open(dir: &Path, config: &EngineConfig) -> Arc<Engine> {
    Engine::open(dir, config.clone()).expect("open")
}

/// Runs in a transaction of its own.
pub fn transaction<R>(
    session: &mut Session,
    body: impl FnOnce(&mut Session) -> Result<R, EngineError>,
) -> Result<R, EngineError> {
    session.begin()?;
    match session.start_command().and_then(|()| body(session)) {
        Ok(value) => session.commit().map(|()| value),
        Err(error) => {
            session.abort()?;
            Err(error)
        }
    }
}

/// CREATE TABLE name (id int8 NOT NULL, note text)
pub fn create(session: &mut Session, name: &str) {
    transaction(session, |s| s.create_table(None, name, &columns())).expect("create table");
}

/// The columns of the tables here.
pub fn columns() -> [ColumnDef; 2] {
    let id = ColumnDef { not_null: true, ..ColumnDef::new("id", oids::INT8) };
    [id, ColumnDef::new("note", oids::TEXT)]
}

/// Inserts rows with these ids, in the running transaction.
pub fn insert_open(
    session: &mut Session,
    table: &Arc<Table>,
    ids: std::ops::Range<i64>,
) -> Result<(), EngineError> {
    let mut batch = RowBatch::new(table);
    for id in ids {
        let note = format!("row number {id}");
        batch.push(&[
            Datum::Int8(id),
            if id % 10 == 0 { Datum::Null } else { Datum::text(&note) },
        ])?;
        if batch.bytes() > 256 << 10 {
            session.insert_batch(table, &mut batch)?;
        }
    }
    session.insert_batch(table, &mut batch)?;
    Ok(())
}

/// Inserts rows with these ids, in a transaction of its own.
pub fn insert(session: &mut Session, name: &str, ids: std::ops::Range<i64>) {
    transaction(session, |s| {
        let table = s.open_table(None, name, LockMode::RowExclusive)?;
        insert_open(s, &table, ids)
    })
    .expect("insert");
}

/// The number of rows.
pub fn count(session: &mut Session, name: &str) -> Result<u64, EngineError> {
    transaction(session, |s| {
        let table = s.open_table(None, name, LockMode::AccessShare)?;
        s.count_rows(&table)
    })
}

/// The number of rows and the sum of their ids, with every row's note checked.
pub fn count_and_sum(session: &mut Session, name: &str) -> (u64, i64) {
    transaction(session, |s| {
        let table = s.open_table(None, name, LockMode::AccessShare)?;
        let mut scan = s.scan(&table)?;
        let (mut count, mut sum) = (0, 0);
        while let Some(row) = scan.next(s)? {
            let values = row.decode()?;
            let Datum::Int8(id) = values[0] else { panic!("id is {:?}", values[0]) };
            let note = format!("row number {id}");
            let expected = if id % 10 == 0 { Datum::Null } else { Datum::text(&note) };
            assert_eq!(values[1], expected);
            count += 1;
            sum += id;
        }
        Ok((count, sum))
    })
    .expect("scan")
}

/// Every file and its bytes.
pub fn snapshot(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut left = vec![dir.to_path_buf()];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(dir).expect("directory") {
            let path = entry.expect("entry").path();
            if path.is_dir() {
                left.push(path);
            } else if path.file_name().is_some_and(|name| name != "postmaster.pid") {
                files.insert(path.clone(), std::fs::read(&path).expect("file"));
            }
        }
    }
    files
}

/// Fails the test if a file has changed, come or gone since a snapshot.
pub fn assert_unchanged(before: &BTreeMap<PathBuf, Vec<u8>>, dir: &Path, what: &str) {
    let after = snapshot(dir);
    for (path, bytes) in before {
        assert!(after.get(path) == Some(bytes), "{what}: {} has changed", path.display());
    }
    assert_eq!(before.len(), after.len(), "{what}: files came or went");
}
