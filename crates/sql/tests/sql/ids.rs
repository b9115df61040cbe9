//! Warnings of transaction ids that run short, and their refusal, as a client gets them.

use crate::support;
use forebay_aio::MethodKind;
use forebay_engine::{
    Engine, EngineConfig, FirstIds, FullXid, InitOptions, IoMethod, ShutdownMode,
};
use forebay_sql::Connection;
use forebay_testkit::io;

#[test]
fn a_client_is_warned_until_ids_are_refused_and_vacuum_ends_that() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("directory");
    let options = InitOptions {
        wal_segment_size: 1 << 20,
        sync: false,
        templates: false,
        ..InitOptions::default()
    };
    // The fourth id is the first one that is refused.
    let stop = 3 + (u32::MAX >> 1) - 3_000_000;
    let ids = FirstIds { xid: FullXid::new(0, stop - 3), ..FirstIds::default() };
    Engine::init_at(dir.path(), &options, ids, &io::open(MethodKind::Sync)).expect("init");
    let config = EngineConfig {
        io_method: IoMethod::Sync,
        shared_buffers: 256.into(),
        ..EngineConfig::default()
    };
    let engine = Engine::open(dir.path(), config).expect("open");
    let session = engine.session().expect("session");
    let mut conn =
        Connection::new(session, Box::new(support::FewSettings::new()), support::identity());
    let also = "\\nYou might also need to commit or roll back old prepared transactions, or drop \
                stale replication slots.";
    let warning = |left: u32| {
        let avoid = "To avoid transaction ID assignment failures, execute a database-wide VACUUM \
                     in that database.";
        let message = format!("database \"postgres\" must be vacuumed within {left} transactions");
        [format!("~ WARNING 01000 {message}"), format!("  hint: {avoid}{also}")]
    };
    let mut run = |sql: &str| support::run(&mut conn, sql);
    let [warned, hint] = warning(3_000_003);
    assert_eq!(run("create table t (a int)"), [&warned, &hint, "= CREATE TABLE", "Z I"]);
    let [warned, hint] = warning(3_000_002);
    assert_eq!(run("insert into t values (3), (1)"), [&warned, &hint, "= INSERT 0 2", "Z I"]);
    // A statement that fails warns too.
    let [warned, hint] = warning(3_000_001);
    let failed = run("delete from t where 1 / (a - 1) = 0");
    assert_eq!(failed[..2], [warned, hint]);
    assert!(failed[2].starts_with("! ERROR 22012"), "{failed:?}");
    let refused = run("insert into t values (1)");
    let message = "database is not accepting commands that assign new transaction IDs to avoid \
                   wraparound data loss in database \"postgres\"";
    let hint = "Execute a database-wide VACUUM in that database.";
    assert_eq!(
        refused,
        [&format!("! ERROR 54000 {message}"), &format!("  hint: {hint}{also}"), "Z I"]
    );
    assert_eq!(run("select count(*) from t")[1..], ["| 2", "= SELECT 1", "Z I"]);
    assert_eq!(run("vacuum (freeze)").last().map(String::as_str), Some("Z I"));
    assert_eq!(run("insert into t values (1)"), ["= INSERT 0 1", "Z I"]);
    conn.close();
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
}
