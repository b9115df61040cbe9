//! A connection to an engine in a directory of its own.
#![allow(dead_code, reason = "each test program uses some of it")]

use forebay_engine::{Engine, EngineConfig, InitOptions, IoDirect, IoMethod, ShutdownMode};
use forebay_sql::Connection;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use tempfile::TempDir;

/// A connection to an engine of its own.
pub struct Fixture {
    dir: TempDir,
    method: IoMethod,
    direct: String,
    pub engine: Arc<Engine>,
    pub conn: Connection,
}

/// A connection to a new engine with this much direct I/O.
pub fn open(direct: &str) -> Fixture {
    open_with(IoMethod::Sync, direct)
}

/// The same, with this method of I/O.
pub fn open_with(method: IoMethod, direct: &str) -> Fixture {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("directory");
    let options = InitOptions {
        wal_segment_size: 1 << 20,
        sync: false,
        templates: false,
        ..InitOptions::default()
    };
    Engine::init(dir.path(), &options).expect("init");
    start(dir, method, direct.to_owned())
}

/// A connection to an engine in a directory that `make` makes.
pub fn open_made(make: impl FnOnce(&Path)) -> Fixture {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("directory");
    std::fs::remove_dir(dir.path()).expect("it is empty");
    make(dir.path());
    start(dir, IoMethod::Sync, String::new())
}

fn start(dir: TempDir, method: IoMethod, direct: String) -> Fixture {
    let config = EngineConfig {
        io_method: method,
        io_direct: IoDirect::parse(&direct).expect("a list").into(),
        shared_buffers: 256.into(),
        index_compiler: Some(Arc::new(forebay_sql::IndexCompiler)),
        ..EngineConfig::default()
    };
    let engine = Engine::open(dir.path(), config).expect("open");
    let conn = connect(&engine);
    Fixture { dir, method, direct, engine, conn }
}

fn connect(engine: &Arc<Engine>) -> Connection {
    let session = engine.session().expect("session");
    Connection::new(
        session,
        Box::new(crate::support::FewSettings::new()),
        crate::support::identity(),
    )
}

/// The rows of a statement that succeeds.
pub fn rows(conn: &mut Connection, sql: &str) -> Vec<String> {
    let lines = crate::support::run(conn, sql);
    let row = |l: &String| l.strip_prefix("| ").map(str::to_owned);
    assert!(!lines.iter().any(|l| l.starts_with('!')), "{sql}: {lines:?}");
    lines.iter().filter_map(row).collect()
}

impl Fixture {
    /// The rows of a statement that succeeds.
    pub fn rows(&mut self, sql: &str) -> Vec<String> {
        rows(&mut self.conn, sql)
    }

    /// One more connection.
    pub fn connect(&self) -> Connection {
        connect(&self.engine)
    }

    /// The data directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Stops the engine under the connection, and starts it again.
    pub fn restart(self, mode: ShutdownMode) -> Fixture {
        self.restart_after(mode, |_| {})
    }

    /// The same, with a change of the directory in between.
    pub fn restart_after(self, mode: ShutdownMode, change: impl FnOnce(&Path)) -> Fixture {
        let Fixture { dir, method, direct, engine, conn } = self;
        engine.shutdown(mode).expect("shutdown");
        conn.close();
        drop(engine);
        change(dir.path());
        start(dir, method, direct)
    }

    /// Ends all.
    pub fn close(self) {
        self.conn.close();
        self.engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    }
}

/// Until the thread waits for a lock; or has ended, where a test is about to fail.
pub fn wait_for_wait<R>(engine: &Engine, waiting: &thread::ScopedJoinHandle<'_, R>) {
    while engine.lock_waits() == 0 && !waiting.is_finished() {
        thread::yield_now();
    }
}

/// Runs `waiter` while another connection's transaction has run `change`; commits once the waiter
/// waits for a lock.
pub fn across<R: Send>(
    fixture: &mut Fixture,
    change: &str,
    waiter: impl FnOnce() -> R + Send,
) -> R {
    rows(&mut fixture.conn, "begin");
    rows(&mut fixture.conn, change);
    thread::scope(|scope| {
        let waiting = scope.spawn(waiter);
        wait_for_wait(&fixture.engine, &waiting);
        rows(&mut fixture.conn, "commit");
        waiting.join().expect("join")
    })
}
