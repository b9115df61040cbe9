//! Base backups under load: of PostgreSQL under pgbench, of Forebay under COPY. pg_verifybackup
//! accepts them, and recovery from them gives a state that the server had between the backup's
//! start and its end.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_testkit::peer::{self, Peer};
use forebay_testkit::process::{Child, feed, must};

use super::forebay::{Forebay, forebay, scratch};

/// Rows of one COPY.
const ROWS: u64 = 5000;

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
    if let Some(peer) = Peer::fifteen("hot15") {
        under_pgbench(&peer);
    }
}

#[test]
#[ignore = "run by cargo xtask test"]
fn postgresql_18_under_pgbench() {
    if let Some(peer) = Peer::find("hot18") {
        under_pgbench(&peer);
    }
}

fn under_pgbench(peer: &Peer) {
    for name in ["archive", "wal"] {
        fs::create_dir(peer.outside(name)).expect("a directory");
    }
    peer.give_to_postgres();
    peer.init("data");
    let archiving =
        format!("-c archive_mode=on -c archive_command='cp %p {}/%f'", peer.inside("wal"));
    // Many pages are written from the small pool while files are copied.
    let postgres = peer.start("data", &format!("-c shared_buffers=1MB {archiving}"));
    must(&mut postgres.pgbench(&["-i", "-s", "4", "-q"]));
    let mut load = Child::spawn(&mut postgres.pgbench(&["-T", "600", "-c", "4"]));
    postgres.wait_for("select count(*) > 500 from pgbench_history");
    let before: u64 =
        postgres.query("select count(*) from pgbench_history").parse().expect("a number");
    let (data, archive) = (peer.outside("data"), peer.outside("archive"));
    let connection = format!("host=127.0.0.1 port={} user=postgres", postgres.port);
    forebay(&[
        "backup",
        "-D",
        text(&data),
        "-d",
        &connection,
        "--archive",
        text(&archive),
        "-j",
        "2",
    ]);
    load.signal("-KILL");
    load.wait();
    let after: u64 =
        postgres.query("select count(*) from pgbench_history").parse().expect("a number");
    drop(postgres);

    let backup = only_backup(&archive);
    let below = backup.strip_prefix(peer.outside("")).expect("in the shared folder").to_owned();
    peer.give_to_postgres();
    peer.run("pg_verifybackup", &["-w", &peer.inside("wal"), &peer.inside(text(&below))]);
    let fetch = format!("cp {}/%f %p", peer.inside("wal"));
    let restored = peer.outside("restored");
    let words =
        ["restore", "-D", text(&restored), "--archive", text(&archive), "--target-immediate"];
    forebay(&[&words[..], &["--restore-command", &fetch]].concat());
    peer.give_to_postgres();
    let postgres = peer.start("restored", "-c archive_mode=off");
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
    peer.run("pg_checksums", &["--check", "-D", &peer.inside("restored")]);
}

/// Loads rows into t, in a transaction of their own.
fn copy_in(port: u16, rows: &str) {
    let mut psql = peer::psql(port);
    psql.args(["-c", "COPY t FROM STDIN"]);
    assert!(feed(psql, rows.as_bytes()).status.success());
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
        forebay(&["backup", "-D", text(&data), "--archive", text(&archive), "-j", "2"]);
        done.store(true, Ordering::SeqCst);
        load.join().expect("the load ends")
    });
    server.stop();

    let backup = only_backup(&archive);
    let below = backup.strip_prefix(peer.outside("")).expect("in the shared folder").to_owned();
    peer.give_to_postgres();
    peer.run("pg_verifybackup", &[&peer.inside(text(&below))]);
    let restored = peer.outside("restored");
    forebay(&["restore", "-D", text(&restored), "--archive", text(&archive), "--standalone"]);
    peer.adopt(&restored, "for-postgres");
    drop(peer.start("for-postgres", "-c autovacuum=off"));
    let log = peer.log();
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
