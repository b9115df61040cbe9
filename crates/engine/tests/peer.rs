//! PostgreSQL 18's own programs on directories that this engine made, and the engine on directories that PostgreSQL
//! recovered or made. FOREBAY_PG18_ROOT is a PostgreSQL 18 tree, FOREBAY_PG18_RUN the script that runs programs in it.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use common::*;
use forebay_engine::{IoMethod, LockMode, ShutdownMode};

const BIN: &str = "/usr/lib/postgresql/18/bin";

/// A PostgreSQL 18 tree, with a folder in it for one test.
struct Peer {
    runner: PathBuf,
    root: PathBuf,
    /// The folder as seen inside.
    inside: PathBuf,
    server: Option<PathBuf>,
}

impl Peer {
    fn find(test: &str) -> Option<Peer> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let variable = |name| std::env::var_os(name).map(PathBuf::from);
        let (Some(root), Some(runner)) = (variable("FOREBAY_PG18_ROOT"), variable("FOREBAY_PG18_RUN")) else {
            println!("skipped: {test} needs PostgreSQL 18 (cargo xtask peers)");
            return None;
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let inside = PathBuf::from(format!("/tmp/forebay-engine-{}-{number}", std::process::id()));
        let peer = Peer { runner, root, inside, server: None };
        std::fs::create_dir_all(peer.outside("")).expect("folder in the peer");
        peer.own("");
        Some(peer)
    }

    /// A path in the folder, from outside.
    fn outside(&self, name: &str) -> PathBuf {
        self.root.join(self.inside.strip_prefix("/").expect("absolute")).join(name)
    }

    /// A path in the folder, from inside.
    fn path(&self, name: &str) -> String {
        self.inside.join(name).display().to_string()
    }

    /// Gives a path to the peer's user postgres.
    fn own(&self, name: &str) {
        let passwd = std::fs::read_to_string(self.root.join("etc/passwd")).expect("passwd");
        let line = passwd.lines().find(|l| l.starts_with("postgres:")).expect("user postgres");
        let fields: Vec<&str> = line.split(':').collect();
        let owner = format!("{}:{}", fields[2], fields[3]);
        check(Command::new("chown").arg("-R").arg(owner).arg(self.outside(name)));
    }

    /// Copies a data directory in.
    fn bring(&self, dir: &Path, name: &str) {
        check(Command::new("cp").arg("-a").arg(dir).arg(self.outside(name)));
        self.own(name);
    }

    /// Copies a data directory out, for this user.
    fn fetch(&self, name: &str, to: &Path) {
        check(Command::new("cp").arg("-r").arg(self.outside(name)).arg(to));
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(&self.runner);
        command.arg("postgres").arg(format!("{BIN}/{program}"));
        command
    }

    fn run(&self, program: &str, args: &[&str]) -> Output {
        self.command(program).args(args).output().expect("the runner")
    }

    /// What a program prints; the test fails if the program does.
    fn prints(&self, program: &str, args: &[&str]) -> String {
        let output = self.run(program, args);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{program} {args:?}: {text}\n{}\n{}",
            String::from_utf8_lossy(&output.stderr),
            std::fs::read_to_string(self.outside("log")).unwrap_or_default(),
        );
        text
    }

    /// Starts the server on a directory of the folder; it is reached through a socket in the folder.
    fn start(&mut self, name: &str, options: &str) -> String {
        let data = self.path(name);
        let options =
            format!("-c listen_addresses='' -c unix_socket_directories={} {options}", self.path(""));
        let log = self.path("log");
        // pg_ctl's output would be kept open by the server.
        let mut command = self.command("pg_ctl");
        command.args(["start", "-w", "-D", &data, "-l", &log, "-o", &options]);
        let status = command.stdout(std::process::Stdio::null()).status().expect("the runner");
        let log = std::fs::read_to_string(self.outside("log")).unwrap_or_default();
        assert!(status.success(), "{log}");
        self.server = Some(PathBuf::from(data));
        log
    }

    fn stop(&mut self) {
        if let Some(data) = self.server.take() {
            let output = self.run("pg_ctl", &["stop", "-w", "-m", "fast", "-D", &data.display().to_string()]);
            if !std::thread::panicking() {
                assert!(output.status.success(), "{output:?}");
            }
        }
    }

    fn sql(&self, statement: &str) -> String {
        self.prints("psql", &["-h", &self.path(""), "-U", "postgres", "-AtXc", statement, "postgres"])
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(self.outside(""));
    }
}

fn check(command: &mut Command) {
    let status = command.status().expect("command");
    assert!(status.success(), "{command:?}");
}

#[test]
fn postgresql_s_tools_accept_a_stopped_directory() {
    let Some(peer) = Peer::find("postgresql_s_tools_accept_a_stopped_directory") else { return };
    let scratch = scratch();
    let dir = scratch.path().join("data");
    init(&dir);
    peer.bring(&dir, "fresh");
    peer.prints("pg_checksums", &["--check", "-D", &peer.path("fresh")]);

    let engine = open(&dir, &config(IoMethod::Sync, false));
    let mut session = engine.session().expect("session");
    create(&mut session, "t");
    insert(&mut session, "t", 0..20_000);
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    peer.bring(&dir, "data");

    let control = peer.prints("pg_controldata", &["-D", &peer.path("data")]);
    for line in
        ["shut down", "Data page checksum version:           1", "Database block size:                  8192"]
    {
        assert!(control.contains(line), "{control}");
    }
    assert!(!control.contains("WARNING"), "{control}");
    let checked = peer.prints("pg_checksums", &["--check", "-D", &peer.path("data")]);
    assert!(checked.contains("Bad checksums:  0"), "{checked}");
    let end = control.lines().find_map(|l| l.strip_prefix("Latest checkpoint location:")).expect("location");
    let first = format!("{}/pg_wal/000000010000000000000001", peer.path("data"));
    let dump = peer.prints("pg_waldump", &["-e", end.trim(), &first]);
    for kind in ["MULTI_INSERT+INIT", "COMMIT", "CREATE base/5/16384", "NEXTOID"] {
        assert!(
            dump.contains(kind),
            "no {kind} in\n{}",
            dump.lines().take(30).collect::<Vec<_>>().join("\n")
        );
    }
}

#[test]
fn postgresql_recovers_a_crashed_directory_to_the_same_rows() {
    let Some(mut peer) = Peer::find("postgresql_recovers_a_crashed_directory_to_the_same_rows") else {
        return;
    };
    let scratch = scratch();
    let dir = scratch.path().join("data");
    init(&dir);
    let config = config(IoMethod::Worker, true);
    let engine = open(&dir, &config);
    let mut session = engine.session().expect("session");
    create(&mut session, "t");
    create(&mut session, "gone");
    insert(&mut session, "gone", 0..1_000);
    insert(&mut session, "t", 0..10_000);
    session.checkpoint().expect("checkpoint");
    insert(&mut session, "t", 10_000..20_000);
    transaction(&mut session, |s| {
        let table = s.open_table(None, "gone", LockMode::AccessExclusive)?;
        s.drop_table(&table)
    })
    .expect("drop");
    session.begin().expect("begin");
    session.start_command().expect("command");
    let table = session.open_table(None, "t", LockMode::RowExclusive).expect("table");
    insert_open(&mut session, &table, 50_000..53_000).expect("insert");
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, engine));

    peer.bring(&dir, "data");
    let log = peer.start("data", "-c autovacuum=off");
    assert!(log.contains("redo done at"), "{log}");
    assert!(log.contains("ready to accept connections"), "{log}");
    peer.stop();
    let there = scratch.path().join("recovered");
    peer.fetch("data", &there);

    let sum: i64 = (0..20_000).sum();
    for dir in [&there, &dir] {
        let engine = open(dir, &config);
        let mut session = engine.session().expect("session");
        assert_eq!(count_and_sum(&mut session, "t"), (20_000, sum), "{}", dir.display());
        assert_eq!(count(&mut session, "gone").expect_err("dropped").sqlstate(), "42P01");
        create(&mut session, "after");
        insert(&mut session, "after", 0..100);
        drop(session);
        engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    }
}

#[test]
fn a_directory_made_by_postgresql_is_read() {
    let Some(mut peer) = Peer::find("a_directory_made_by_postgresql_is_read") else { return };
    peer.prints("initdb", &["-k", "--no-sync", "-D", &peer.path("data")]);
    peer.start("data", "-c autovacuum=off");
    peer.sql("create table t as select g::int8 as id, case when g % 10 <> 0 then 'row number ' || g end as note from generate_series(0, 9999) g");
    peer.sql("delete from t where id >= 9000");
    peer.sql("alter table t add column extra int4");
    peer.stop();
    let scratch = scratch();
    let dir = scratch.path().join("data");
    peer.fetch("data", &dir);

    let engine = open(&dir, &config(IoMethod::IoUring, false));
    let mut session = engine.session().expect("session");
    assert_eq!(count_and_sum(&mut session, "t"), (9_000, (0..9_000).sum()));
    assert_eq!(count(&mut session, "pg_namespace").expect("count"), 4);
    let error = transaction(&mut session, |s| s.create_table(None, "x", &columns())).expect_err("indexes");
    assert_eq!(error.sqlstate(), "0A000");

    // The first rows of our catalogs are PostgreSQL's own, where it has a fixed OID for all they mention.
    let own = scratch.path().join("own");
    init(&own);
    let ours = open(&own, &config(IoMethod::Sync, false));
    let mut other = ours.session().expect("session");
    for (catalog, except) in [("pg_attribute", &[][..]), ("pg_type", &["pg_database"][..])] {
        let theirs = rows(&mut session, catalog);
        let rows = rows(&mut other, catalog);
        assert!(rows.len() > 70, "{catalog}: {} rows", rows.len());
        for (key, row) in rows.iter().filter(|(key, _)| !except.iter().any(|e| key.contains(e))) {
            assert_eq!(Some(row), theirs.get(key), "{catalog} {key}");
        }
    }
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
}

/// The rows of a catalog under the text of their first columns.
fn rows(session: &mut forebay_engine::Session, catalog: &str) -> BTreeMap<String, String> {
    transaction(session, |s| {
        let table = s.open_table(None, catalog, LockMode::AccessShare)?;
        let mut scan = s.scan(&table)?;
        let mut rows = BTreeMap::new();
        while let Some(row) = scan.next(s)? {
            let values = row.decode()?;
            rows.insert(format!("{:?}", &values[..2]), format!("{values:?}"));
        }
        Ok(rows)
    })
    .expect("catalog")
}
