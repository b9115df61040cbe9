//! A connection to an engine in a directory of its own.

use forebay_engine::{Engine, EngineConfig, InitOptions, IoDirect, IoMethod, ShutdownMode};
use forebay_sql::Connection;
use std::sync::Arc;

/// A connection to an engine of its own.
pub struct Bed {
    _dir: tempfile::TempDir,
    pub engine: Arc<Engine>,
    pub conn: Connection,
}

/// A connection to an engine with this much direct I/O.
pub fn open(direct: &str) -> Bed {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("directory");
    let options = InitOptions { wal_segment_size: 1 << 20, sync: false };
    Engine::init(dir.path(), &options).expect("init");
    let config = EngineConfig {
        io_method: IoMethod::Sync,
        io_direct: IoDirect::parse(direct).expect("a list"),
        shared_buffers: 256,
        ..EngineConfig::default()
    };
    let engine = Engine::open(dir.path(), config).expect("open");
    let session = engine.session().expect("session");
    let conn =
        Connection::new(session, Box::new(crate::support::FewSettings::new()), crate::support::identity());
    Bed { _dir: dir, engine, conn }
}

impl Bed {
    /// The rows of a statement that succeeds.
    pub fn rows(&mut self, sql: &str) -> Vec<String> {
        let lines = crate::support::run(&mut self.conn, sql);
        let row = |l: &String| l.strip_prefix("| ").map(str::to_owned);
        assert!(!lines.iter().any(|l| l.starts_with('!')), "{sql}: {lines:?}");
        lines.iter().filter_map(row).collect()
    }

    /// Ends all.
    pub fn close(self) {
        self.conn.close();
        self.engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    }
}
