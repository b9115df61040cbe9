//! What crash recovery makes durable before it trusts it.

mod common;

use std::sync::Arc;

use common::*;
use forebay_aio::fault::{Call, Effect, FaultPlan, Ops, Rule};
use forebay_aio::{AioConfig, Errno, MethodKind, PosixNamespace};
use forebay_engine::{Engine, IoMethod, ShutdownMode};

#[test]
fn all_of_a_directory_is_synced_before_redo_wherever_it_lies() {
    let scratch = scratch();
    let dir = scratch.path().join("data");
    init(&dir);
    // initdb --waldir makes such a link.
    let elsewhere = scratch.path().join("log");
    std::fs::rename(dir.join("pg_wal"), &elsewhere).expect("rename");
    std::os::unix::fs::symlink(&elsewhere, dir.join("pg_wal")).expect("link");
    std::os::unix::fs::symlink("/nowhere", dir.join("dangling")).expect("link");
    let config = config(IoMethod::Sync, false);
    let engine = open(&dir, &config);
    let mut session = engine.session().expect("session");
    create(&mut session, "t");
    insert(&mut session, "t", 0..100);
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, engine));
    // A certificate, say, that belongs to somebody else.
    let foreign = dir.join("server.crt");
    std::fs::write(&foreign, "certificate").expect("write");
    let plan = FaultPlan::new();
    let to_change = |call: &Call| call.write || call.direct;
    plan.add(Rule::on(Ops::OPEN).path("/server.crt").when(to_change), Effect::Fail(Errno(13)));
    plan.record();
    let sizes = AioConfig { max_backends: 20, handles_per_backend: 16, ..AioConfig::default() };
    let aio = plan.open(Arc::new(PosixNamespace), MethodKind::Sync, sizes).expect("aio");
    let engine = Engine::open_on(&dir, config, aio).expect("open");
    let calls = plan.take_calls();
    let has_synced = |path: &std::path::Path| {
        calls.iter().any(|call| (Ops::SYNC_FILE | Ops::SYNC_DIR).contains(call.op) && call.path == path)
    };
    for name in
        ["", "base/5", "base/5/1259", "global/pg_control", "pg_wal", "pg_wal/000000010000000000000001"]
    {
        let path = if name.is_empty() { dir.clone() } else { dir.join(name) };
        assert!(has_synced(&path), "{name}");
    }
    assert!(has_synced(&foreign));
    // After a failed sync the kernel's cache holds what the disk does not: it is not asked what the log says.
    let segment = dir.join("pg_wal/000000010000000000000001");
    let read_direct = |call: &Call| call.op == Ops::OPEN && call.direct && !call.write;
    assert!(calls.iter().any(|call| read_direct(call) && call.path == segment));
    let mut session = engine.session().expect("session");
    assert_eq!(count(&mut session, "t").expect("count"), 100);
}
