//! What a short statement costs without network and disk: microseconds for each, by kind.
//!
//! ```text
//! cargo run -p forebay-sql --example statements -- [statements [connections]]
//! ```
//!
//! Compare two builds in turns, several times: a single figure of a busy machine says little.

#[path = "../tests/support/mod.rs"]
mod support;

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Instant;

use forebay_engine::{Engine, EngineConfig, InitOptions, IoMethod, ShutdownMode};
use forebay_sql::{Connection, Executed};

/// A kind of statement: its name, and how to run one.
type Kind = (&'static str, fn(&mut Connection));

const KINDS: [Kind; 4] = [
    ("prepared select", |conn| execute(conn, "read")),
    ("simple select", |conn| {
        support::run(conn, "select 1 from t limit 1");
    }),
    // One transaction of many: what is measured is the statement, not the commit.
    ("prepared insert in a block", |conn| execute(conn, "write")),
    // Each in a transaction of its own: every 33rd commit writes to the log.
    ("prepared nextval", |conn| execute(conn, "next")),
];

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().expect("a number"));
    let (statements, connections) = (args.next().unwrap_or(100_000), args.next().unwrap_or(1));
    let dir = tempfile::tempdir().expect("directory");
    Engine::init(
        dir.path(),
        &InitOptions { sync: false, templates: false, ..InitOptions::default() },
    )
    .expect("init");
    let config = EngineConfig { io_method: IoMethod::Sync, ..EngineConfig::default() };
    let engine = Engine::open(dir.path(), config).expect("open");
    support::run(
        &mut connect(&engine),
        "create table t (a int); create table u (a int); create sequence s; \
         insert into t values (1)",
    );
    for (name, run) in KINDS {
        let start = Arc::new(Barrier::new(connections + 1));
        let threads: Vec<_> = (0..connections)
            .map(|_| {
                let (engine, start) = (Arc::clone(&engine), Arc::clone(&start));
                thread::spawn(move || measure(&engine, &start, name, run, statements))
            })
            .collect();
        start.wait();
        let begun = Instant::now();
        threads.into_iter().for_each(|thread| thread.join().expect("join"));
        let micros = begun.elapsed().as_secs_f64() * 1e6 / statements as f64;
        println!("{name:30}{micros:8.3}");
    }
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
}

fn connect(engine: &Arc<Engine>) -> Connection {
    let session = engine.session().expect("session");
    Connection::new(session, Box::new(support::FewSettings::new()), support::identity())
}

fn measure(
    engine: &Arc<Engine>,
    start: &Barrier,
    name: &str,
    run: fn(&mut Connection),
    statements: usize,
) {
    let mut conn = connect(engine);
    conn.parse("read", "select 1 from t limit 1", &[]).expect("parse");
    conn.parse("write", "insert into u values (1)", &[]).expect("parse");
    conn.parse("next", "select nextval('s')", &[]).expect("parse");
    conn.sync().expect("sync");
    if name.ends_with("block") {
        support::run(&mut conn, "begin");
    }
    (0..100).for_each(|_| run(&mut conn));
    start.wait();
    (0..statements).for_each(|_| run(&mut conn));
    conn.close();
}

fn execute(conn: &mut Connection, statement: &str) {
    let mut sink = support::Recorder::default();
    conn.bind("", statement, &[], &[], &[]).expect("bind");
    let done = conn.execute("", 0, &mut sink).expect("execute");
    assert!(matches!(done, Executed::Completed(_)));
    conn.sync().expect("sync");
}
