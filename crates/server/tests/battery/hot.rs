//! Base backups under load: of PostgreSQL under pgbench, of Forebay under COPY. pg_verifybackup
//! accepts them, and recovery from them gives a state that the server had between the backup's
//! start and its end.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use super::archive::World;
use super::child::Child;
use super::forebay::{Forebay, psql_for, scratch};
use super::peer::Peer;

/// Rows of one COPY.
const ROWS: u64 = 5000;

/// Runs a command of the program's that must succeed.
fn must(words: &[&str]) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_forebay")).args(words).output().expect("forebay runs");
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{words:?}: {said}{errors}");
}

/// The data directory of the only backup in an archive.
fn only_backup(archive: &Path) -> PathBuf {
    let backups = fs::read_dir(archive.join("backups")).expect("backups");
    let all: Vec<PathBuf> = backups.map(|entry| entry.expect("an entry").path()).collect();
    let [backup] = all.as_slice() else { panic!("{all:?}") };
    backup.join("data")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[test]
#[ignore = "run by cargo xtask test"]
fn postgresql_15_under_pgbench() {
    if let Some(world) = World::fifteen("hot15") {
        under_pgbench(&world);
    }
}

#[test]
#[ignore = "run by cargo xtask test"]
fn postgresql_18_under_pgbench() {
    if let Some(world) = World::eighteen("hot18") {
        under_pgbench(&world);
    }
}

fn under_pgbench(world: &World) {
    for name in ["archive", "wal"] {
        fs::create_dir(world.outside(name)).expect("a directory");
    }
    world.give_to_postgres();
    world.run(
        "initdb",
        &["-D", &world.inside("data"), "-k", "-U", "postgres", "-A", "trust", "--no-sync"],
    );
    let archiving =
        format!("-c archive_mode=on -c archive_command='cp %p {}/%f'", world.inside("wal"));
    // Many pages are written from the small pool while files are copied.
    let postgres =
        world.start("data", &format!("-c shared_buffers=1MB {archiving}")).expect("it starts");
    postgres.pgbench(&["-i", "-s", "4", "-q"]);
    let mut load = Child::spawn(&mut postgres.pgbench_command(&["-T", "600", "-c", "4"]));
    postgres.wait_for("select count(*) > 500 from pgbench_history");
    let before: u64 =
        postgres.query("select count(*) from pgbench_history").parse().expect("a number");
    let (data, archive) = (world.outside("data"), world.outside("archive"));
    let connection = format!("host=127.0.0.1 port={} user=postgres", postgres.port);
    must(&["backup", "-D", text(&data), "-d", &connection, "--archive", text(&archive), "-j", "2"]);
    load.signal("-KILL");
    load.wait();
    let after: u64 =
        postgres.query("select count(*) from pgbench_history").parse().expect("a number");
    drop(postgres);

    let backup = only_backup(&archive);
    let below = backup.strip_prefix(world.outside("")).expect("in the world").to_owned();
    world.give_to_postgres();
    world.run("pg_verifybackup", &["-w", &world.inside("wal"), &world.inside(text(&below))]);
    let fetch = format!("cp {}/%f %p", world.inside("wal"));
    let restored = world.outside("restored");
    let words =
        ["restore", "-D", text(&restored), "--archive", text(&archive), "--target-immediate"];
    must(&[&words[..], &["--restore-command", &fetch]].concat());
    world.give_to_postgres();
    let postgres = world.start("restored", "-c archive_mode=off").expect("it recovers");
    postgres.wait_for("select not pg_is_in_recovery()");
    // Each transaction changes all four alike.
    let sums = postgres.query(
        "select (select sum(abalance) from pgbench_accounts) = d and (select sum(bbalance) from \
         pgbench_branches) = d \
         and (select sum(tbalance) from pgbench_tellers) = d from (select sum(delta) d from \
         pgbench_history) x",
    );
    assert_eq!(sums, "t");
    let found: u64 =
        postgres.query("select count(*) from pgbench_history").parse().expect("a number");
    assert!((before..=after).contains(&found), "{found} is not within {before} and {after}");
    drop(postgres);
    world.run("pg_checksums", &["--check", "-D", &world.inside("restored")]);
}

/// Loads rows into t, in a transaction of their own.
fn copy_in(port: u16, rows: &str) {
    let mut psql = psql_for(port);
    let mut child =
        psql.args(["-c", "COPY t FROM STDIN"]).stdin(Stdio::piped()).spawn().expect("psql starts");
    let mut input = child.stdin.take().expect("stdin is piped");
    input.write_all(rows.as_bytes()).expect("rows are sent");
    drop(input);
    assert!(child.wait().expect("psql ends").success());
}

/// COPYs, one transaction each, run while the backup is made. PostgreSQL 18 and Forebay recover the
/// same rows from it.
#[test]
#[ignore = "needs PostgreSQL 18; run by cargo xtask test"]
fn forebay_under_copy() {
    let Some(peer) = Peer::find("forebay_under_copy") else { return };
    let folder = scratch("hot");
    let (data, archive) = (folder.path().join("data"), peer.outside("archive"));
    fs::create_dir(&archive).expect("a folder");
    let server = Forebay::start(&data, &["shared_buffers=2MB"]);
    server.query("CREATE TABLE t (id int8, note text)");
    let rows: String = (0..ROWS).map(|n| format!("{n}\tthe note of row {n}\n")).collect();
    let port = server.port;
    let copy = || copy_in(port, &rows);
    for _ in 0..4 {
        copy();
    }
    let done = AtomicBool::new(false);
    let copies = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut copies = 4;
            while !done.load(Ordering::SeqCst) {
                copy();
                copies += 1;
            }
            copies
        });
        must(&["backup", "-D", text(&data), "--archive", text(&archive), "-j", "2"]);
        done.store(true, Ordering::SeqCst);
        load.join().expect("the load ends")
    });
    server.stop();

    let backup = only_backup(&archive);
    let below = backup.strip_prefix(peer.outside("")).expect("in the shared folder").to_owned();
    peer.give_to_postgres();
    peer.run("pg_verifybackup", &[&peer.inside(text(&below))]);
    let restored = peer.outside("restored");
    must(&["restore", "-D", text(&restored), "--archive", text(&archive), "--standalone"]);
    peer.adopt(&restored, "for-postgres");
    drop(peer.start("for-postgres", "-c autovacuum=off"));
    let log = fs::read_to_string(peer.outside("log")).expect("PostgreSQL wrote its log");
    assert!(
        log.contains("completed backup recovery") && log.contains("database system is shut down"),
        "{log}"
    );
    peer.run("pg_checksums", &["--check", "-D", &peer.inside("for-postgres")]);
    peer.take_back();
    let count = |directory: &Path| {
        let server = Forebay::start(directory, &[]);
        let found = server.query("SELECT count(*), sum(id) FROM t");
        server.stop();
        let numbers: Vec<u64> = found.split('|').map(|n| n.parse().expect("a number")).collect();
        (numbers[0], numbers[1])
    };
    let (rows, sum) = count(&restored);
    assert_eq!(rows % ROWS, 0, "each COPY is there as a whole, or not at all");
    assert_eq!(sum, rows / ROWS * (ROWS * (ROWS - 1) / 2));
    assert!((4 * ROWS..=copies * ROWS).contains(&rows), "{rows} of {} rows", copies * ROWS);
    assert_eq!(count(&peer.outside("for-postgres")), (rows, sum), "PostgreSQL recovers the same");
}
