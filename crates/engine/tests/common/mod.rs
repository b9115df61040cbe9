//! What the integration tests share: the ways to do I/O, and small things to do with tables.
#![allow(dead_code, reason = "each test program uses some of it")]

pub mod log;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use forebay_engine::check::{CheckObserver, CheckOptions, CheckedRelation, Finding, check};
use forebay_engine::types::oids;
use forebay_engine::{
    ColumnDef, Datum, Engine, EngineConfig, EngineError, FatalAction, InitOptions, IoDirect,
    IoDirectSetting, IoMethod, LockMode, RowBatch, Session, Table, WritingSettings,
};

pub use forebay_testkit::files::contents;
pub use forebay_testkit::io;

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
        shared_buffers: 1024.into(),
        io_method: method,
        io_direct: IoDirect { data: direct, wal: direct, wal_init: direct }.into(),
        io_workers: forebay_aio::WorkerLimits::fixed(2),
        max_connections: 10,
        ..EngineConfig::default()
    }
}

/// Whether a configuration asks for direct I/O of data files.
pub fn is_direct(config: &EngineConfig) -> bool {
    matches!(config.io_direct, IoDirectSetting::Only(direct) if direct.data)
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

/// A new data directory.
pub fn init(dir: &Path) {
    let options = InitOptions {
        wal_segment_size: 1 << 20,
        sync: false,
        templates: false,
        ..InitOptions::default()
    };
    Engine::init(dir, &options).expect("init");
}

/// A new data directory, in a scratch directory.
pub fn new_dir() -> (tempfile::TempDir, PathBuf) {
    let scratch = scratch();
    let dir = scratch.path().join("data");
    init(&dir);
    (scratch, dir)
}

/// A small engine on a new directory.
pub fn fresh() -> (tempfile::TempDir, Arc<Engine>) {
    let (scratch, dir) = new_dir();
    (scratch, open(&dir, &config(IoMethod::Sync, false)))
}

/// What would have stopped the process.
pub type Reasons = Arc<Mutex<Vec<String>>>;

/// An action that only notes why the process would have been stopped.
pub fn noting() -> (FatalAction, Reasons) {
    let reasons = Reasons::default();
    let seen = Arc::clone(&reasons);
    let note = move |reason: &str| seen.lock().expect("reasons").push(reason.to_owned());
    (FatalAction(Arc::new(note)), reasons)
}

/// The SQLSTATE of a refusal.
pub fn state<T: std::fmt::Debug>(result: Result<T, EngineError>) -> &'static str {
    result.expect_err("refused").sqlstate()
}

/// Opens, with a session.
pub fn open_session(dir: &Path, config: &EngineConfig) -> (Arc<Engine>, Session) {
    let engine = open(dir, config);
    let session = engine.session().expect("session");
    (engine, session)
}

/// Begins a transaction and its first command.
pub fn start(session: &mut Session) {
    session.begin().expect("begin");
    session.start_command().expect("command");
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

/// Fails the test if a file has changed, come or gone since a snapshot.
pub fn assert_unchanged(before: &BTreeMap<PathBuf, Vec<u8>>, dir: &Path, what: &str) {
    let after = contents(dir);
    for (path, bytes) in before {
        assert!(after.get(path) == Some(bytes), "{what}: {} has changed", path.display());
    }
    assert_eq!(before.len(), after.len(), "{what}: files came or went");
}

/// Notes what a check finds.
#[derive(Default)]
pub struct Findings(pub Vec<String>);

impl CheckObserver for Findings {
    fn found(&mut self, relation: &CheckedRelation, finding: &Finding) {
        self.0.push(format!("{}.{}: {finding}", relation.schema, relation.name));
    }
    fn file(&mut self, path: &Path, message: &str) {
        self.0.push(format!("{}: {message}", path.display()));
    }
}

/// Fails the test if a check of a directory at rest finds anything.
pub fn assert_undamaged(dir: &Path) {
    let mut findings = Findings::default();
    check(dir, &CheckOptions::default(), &mut findings).expect("a check");
    assert_eq!(findings.0, [""; 0]);
}
