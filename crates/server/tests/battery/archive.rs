//! PostgreSQL with `forebay archive-push` and `archive-get` as its commands: recovery to a time, a
//! position and a name, under pgbench. A store that is down ends no recovery.
//!
//! PostgreSQL 18 is the peer; 15 is Debian's package, where the machine has it.

use std::fs;
use std::path::Path;
use std::process::Command;

use forebay_testkit::peer::{Peer, Postgres};
use forebay_testkit::process::{Child, must};

use super::forebay::PROGRAM;

/// All that pgbench has done, in one line.
fn state(postgres: &Postgres<'_>) -> String {
    postgres.query(
        "select (select sum(abalance) from pgbench_accounts), (select sum(bbalance) from \
         pgbench_branches), \
         (select sum(tbalance) from pgbench_tellers), (select count(*) || ' ' || sum(delta) from \
         pgbench_history)",
    )
}

/// A running archiverd. It is killed when dropped: nothing may depend on its memory.
fn start_archiverd(peer: &Peer, data: &str, archive: &[&str]) -> Child {
    let mut command = peer.command_as("postgres", &[&peer.inside("forebay"), "archiverd"]);
    let started = Child::spawn(command.args(["-D", &peer.inside(data)]).args(archive));
    started
        .wait_for_line("archiverd serves")
        .unwrap_or_else(|log| panic!("archiverd ended: {log}"));
    started
}

/// A point to recover to.
struct Point {
    setting: String,
    state: String,
}

#[test]
#[ignore = "run by cargo xtask test"]
fn postgresql_15_back_to_a_time_a_position_and_a_name() {
    if let Some(peer) = Peer::fifteen("archive15") {
        there_and_back(&peer, true, &["--compress", "zstd"]);
    }
}

#[test]
#[ignore = "run by cargo xtask test"]
fn postgresql_18_back_to_a_time_a_position_and_a_name() {
    if let Some(peer) = Peer::find("archive18") {
        there_and_back(&peer, false, &["--layout", "hashed", "--compress", "lz4", "--direct"]);
    }
}

fn there_and_back(peer: &Peer, resident: bool, options: &[&str]) {
    fs::create_dir(peer.outside("archive")).expect("a directory");
    fs::write(peer.outside("key"), "5a".repeat(32)).expect("written");
    must(Command::new("chmod").arg("600").arg(peer.outside("key")));
    let forebay = peer.carry(Path::new(PROGRAM));
    peer.give_to_postgres();
    let (place, key) = (peer.inside("archive"), peer.inside("key"));
    let archive: Vec<&str> =
        ["--archive", &place, "--encrypt", &key].iter().chain(options).copied().collect();
    peer.init_with("data", &["--wal-segsize=1"]);
    let words = archive.join(" ");
    let settings = format!(
        "archive_mode = on\narchive_command = '{forebay} archive-push %p {words}'\n\
         restore_command = '{forebay} archive-get %f %p {words}'\nmax_wal_size = '16MB'\n"
    );
    fs::write(peer.outside("data/settings"), settings).expect("written");
    let mut conf = fs::read_to_string(peer.outside("data/postgresql.conf")).expect("it is there");
    conf.push_str("include 'settings'\n");
    fs::write(peer.outside("data/postgresql.conf"), conf).expect("written");
    peer.give_to_postgres();

    let points = live(peer, resident, &archive);
    must(peer.command_as("postgres", &[&forebay, "archive-verify"]).args(&archive));
    for (n, point) in points.iter().enumerate() {
        recover(peer, &format!("back{n}"), resident && n != 1, &archive, point);
    }
    store_down(peer, &points[0]);
}

/// Runs a server from a base backup on, and takes points to recover to.
fn live(peer: &Peer, resident: bool, archive: &[&str]) -> Vec<Point> {
    let archiverd = resident.then(|| start_archiverd(peer, "data", archive));
    let server = peer.start("data", "");
    must(&mut server.pgbench(&["-i", "-s", "1", "-q"]));
    let port = server.port.to_string();
    let base = peer.inside("base");
    peer.run(
        "pg_basebackup",
        &[
            "-h",
            "127.0.0.1",
            "-p",
            &port,
            "-U",
            "postgres",
            "-D",
            &base,
            "-X",
            "none",
            "-c",
            "fast",
            "--no-sync",
        ],
    );
    let mut points = Vec::new();
    for kind in ["time", "lsn", "name"] {
        // Under load, which stops while the point and the rows are taken.
        must(&mut server.pgbench(&["-c", "4", "-t", "300"]));
        let state = state(&server);
        let value = match kind {
            "time" => server.query("select clock_timestamp()"),
            "lsn" => server.query("select pg_current_wal_insert_lsn()"),
            _ => server.query("select 'there' from pg_create_restore_point('there')"),
        };
        points.push(Point { setting: format!("recovery_target_{kind} = '{value}'"), state });
    }
    must(&mut server.pgbench(&["-c", "4", "-t", "300"]));
    points.push(Point { setting: String::new(), state: state(&server) });
    let last = server.query("select pg_walfile_name(pg_switch_wal())");
    server.wait_for(&format!("select last_archived_wal >= '{last}' from pg_stat_archiver"));
    assert_eq!(server.query("select failed_count from pg_stat_archiver"), "0", "{}", peer.log());
    drop((server, archiverd));
    points
}

fn prepare(peer: &Peer, name: &str, point: &Point) {
    must(Command::new("cp").arg("-a").arg(peer.outside("base")).arg(peer.outside(name)));
    let mut conf =
        fs::read_to_string(peer.outside(&format!("{name}/postgresql.conf"))).expect("it is there");
    // What the recovered server archives does not matter here.
    conf.push_str(&format!(
        "{}\nrecovery_target_action = 'promote'\narchive_mode = off\n",
        point.setting
    ));
    fs::write(peer.outside(&format!("{name}/postgresql.conf")), conf).expect("written");
    fs::write(peer.outside(&format!("{name}/recovery.signal")), "").expect("written");
    peer.give_to_postgres();
}

/// Recovers a copy of the base backup to the point.
fn recover(peer: &Peer, name: &str, resident: bool, archive: &[&str], point: &Point) {
    prepare(peer, name, point);
    let archiverd = resident.then(|| start_archiverd(peer, name, archive));
    let server = peer.start(name, "");
    server.wait_for("select not pg_is_in_recovery()");
    assert_eq!(state(&server), point.state, "{}", point.setting);
    drop((server, archiverd));
}

/// While the archive is unavailable the server does not start; afterwards it recovers everything.
fn store_down(peer: &Peer, point: &Point) {
    prepare(peer, "down", point);
    let away = peer.outside("away");
    fs::rename(peer.outside("archive"), &away).expect("renamed");
    let log = peer.try_start("down", "").err().expect("it does not come up");
    assert!(log.contains("could not restore file") || log.contains("archive-get"), "{log}");
    // A file system that is not mounted looks like this.
    fs::create_dir(peer.outside("archive")).expect("a directory");
    peer.give_to_postgres();
    assert!(peer.try_start("down", "").is_err());
    fs::remove_dir(peer.outside("archive")).expect("removed");
    fs::rename(&away, peer.outside("archive")).expect("renamed");
    let server = peer.start("down", "");
    server.wait_for("select not pg_is_in_recovery()");
    assert_eq!(state(&server), point.state, "after the store was down");
}
