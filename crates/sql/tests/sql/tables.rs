//! Tables, transactions over them and COPY in all formats, against answers recorded from PostgreSQL
//! 18.

use crate::support;
use forebay_engine::{Engine, EngineConfig, InitOptions, IoMethod, ShutdownMode};
use forebay_sql::Connection;

#[test]
fn answers_as_postgresql_does() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("directory");
    let options = InitOptions { wal_segment_size: 1 << 20, sync: false };
    Engine::init(dir.path(), &options).expect("init");
    let config =
        EngineConfig { io_method: IoMethod::Sync, shared_buffers: 256, ..EngineConfig::default() };
    let engine = Engine::open(dir.path(), config).expect("open");
    let session = engine.session().expect("session");
    let mut conn =
        Connection::new(session, Box::new(support::FewSettings::new()), support::identity());
    let golden = include_str!("../golden/tables.txt");
    assert!(support::cases(golden).len() > 150, "too few cases were read");
    let wrong = support::differences(&mut conn, golden);
    conn.close();
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
