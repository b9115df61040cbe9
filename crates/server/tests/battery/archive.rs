//! PostgreSQL with `forebay archive-push` and `archive-get` as its commands: recovery to a time, a
//! position and a name, under pgbench. A store that is down ends no recovery.
//!
//! PostgreSQL 18 is the peer; 15 is Debian's package, where the machine has it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::child::Child;
use super::forebay::psql_for;
use super::peer::{Peer, stop};
use super::ports::free_port;

const HOST_PROGRAMS: &str = "/usr/lib/postgresql/15/bin";
const PEER_PROGRAMS: &str = "/usr/lib/postgresql/18/bin";

/// PostgreSQL, and a folder that both it and this test see.
pub(super) enum World {
    /// Of the machine itself.
    Host(tempfile::TempDir),
    Peer(Peer),
}

impl World {
    pub(super) fn fifteen(test: &str) -> Option<World> {
        if !Path::new(HOST_PROGRAMS).exists() || !run_quietly(Command::new("id").arg("postgres")) {
            println!("skipped: {test} needs PostgreSQL 15 in {HOST_PROGRAMS} and its user");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let world = World::Host(folder);
        world.give_to_postgres();
        Some(world)
    }

    pub(super) fn eighteen(test: &str) -> Option<World> {
        Peer::find(test).map(World::Peer)
    }

    pub(super) fn outside(&self, name: &str) -> PathBuf {
        match self {
            World::Host(folder) => folder.path().join(name),
            World::Peer(peer) => peer.outside(name),
        }
    }

    pub(super) fn inside(&self, name: &str) -> String {
        match self {
            World::Host(folder) => folder.path().join(name).display().to_string(),
            World::Peer(peer) => peer.inside(name),
        }
    }

    pub(super) fn give_to_postgres(&self) {
        match self {
            World::Host(folder) => {
                assert!(run_quietly(
                    Command::new("chown").args(["-R", "postgres:postgres"]).arg(folder.path())
                ));
            }
            World::Peer(peer) => peer.give_to_postgres(),
        }
    }

    /// A command of the user postgres; its first word is a path inside the tree.
    fn command(&self, program: &str) -> Command {
        match self {
            World::Host(_) => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", program]);
                command.stdin(Stdio::null());
                command
            }
            World::Peer(peer) => peer.command_as("postgres", &[program]),
        }
    }

    fn postgres(&self, program: &str) -> Command {
        let programs = if matches!(self, World::Host(_)) { HOST_PROGRAMS } else { PEER_PROGRAMS };
        self.command(&format!("{programs}/{program}"))
    }

    /// Runs one of PostgreSQL's programs; it must succeed.
    pub(super) fn run(&self, program: &str, arguments: &[&str]) {
        let output = self.postgres(program).args(arguments).output().expect("it runs");
        let (out, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{program} {arguments:?}: {out}{errors}{}", self.log());
    }

    fn log(&self) -> String {
        fs::read_to_string(self.outside("log")).unwrap_or_default()
    }

    /// The forebay program, where PostgreSQL can run it.
    fn forebay(&self) -> String {
        let to = self.outside("forebay");
        if !to.exists() {
            fs::copy(env!("CARGO_BIN_EXE_forebay"), to).expect("the program is copied");
        }
        self.inside("forebay")
    }

    /// Starts PostgreSQL on a directory. Err: it did not start.
    pub(super) fn start(&self, name: &str, settings: &str) -> Result<Postgres<'_>, String> {
        let port = free_port();
        let options =
            format!("-p {port} -k {} -c listen_addresses=127.0.0.1 {settings}", self.inside(""));
        let (data, log) = (self.inside(name), self.inside("log"));
        let words = ["-D", &data, "-w", "-s", "-t", "120", "-l", &log, "-o", &options, "start"];
        let started = self.postgres("pg_ctl").args(words).output().expect("pg_ctl runs");
        match started.status.success() {
            true => Ok(Postgres { world: self, name: name.to_owned(), port }),
            false => Err(self.log()),
        }
    }
}

fn run_quietly(command: &mut Command) -> bool {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// A running server, stopped when dropped.
pub(super) struct Postgres<'world> {
    world: &'world World,
    name: String,
    pub(super) port: u16,
}

impl Postgres<'_> {
    pub(super) fn query(&self, sql: &str) -> String {
        let output = psql_for(self.port).args(["-c", sql]).output().expect("psql runs");
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("psql prints UTF-8").trim_end().to_string()
    }

    pub(super) fn pgbench(&self, arguments: &[&str]) {
        let output = self.pgbench_command(arguments).output().expect("it runs");
        assert!(
            output.status.success(),
            "pgbench {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// pgbench, not started yet.
    pub(super) fn pgbench_command(&self, arguments: &[&str]) -> Command {
        let mut command = self.world.postgres("pgbench");
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "postgres", "-n"]);
        command.args(arguments).arg("postgres").stdout(Stdio::null());
        command
    }

    /// Repeats a query until its result is "t".
    pub(super) fn wait_for(&self, question: &str) {
        let begun = Instant::now();
        while self.query(question) != "t" {
            assert!(
                begun.elapsed() < Duration::from_secs(600),
                "{question} stays false: {}",
                self.world.log()
            );
        }
    }

    /// All that pgbench has done, in one line.
    fn state(&self) -> String {
        self.query(
            "select (select sum(abalance) from pgbench_accounts), (select sum(bbalance) from \
             pgbench_branches), \
             (select sum(tbalance) from pgbench_tellers), (select count(*) || ' ' || sum(delta) \
             from pgbench_history)",
        )
    }
}

impl Drop for Postgres<'_> {
    fn drop(&mut self) {
        let mut pg_ctl = self.world.postgres("pg_ctl");
        pg_ctl.args(["-D", &self.world.inside(&self.name)]);
        stop(pg_ctl, &self.world.outside(&self.name));
    }
}

/// A running archiverd. It is killed when dropped: nothing may depend on its memory.
fn start_archiverd(world: &World, data: &str, archive: &[&str]) -> Child {
    let mut command = world.command(&world.forebay());
    let started =
        Child::spawn(command.args(["archiverd", "-D", &world.inside(data)]).args(archive));
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
    if let Some(world) = World::fifteen("archive15") {
        there_and_back(&world, true, &["--compress", "zstd"]);
    }
}

#[test]
#[ignore = "run by cargo xtask test"]
fn postgresql_18_back_to_a_time_a_position_and_a_name() {
    if let Some(world) = World::eighteen("archive18") {
        there_and_back(&world, false, &["--layout", "hashed", "--compress", "lz4", "--direct"]);
    }
}

fn there_and_back(world: &World, resident: bool, options: &[&str]) {
    fs::create_dir(world.outside("archive")).expect("a directory");
    fs::write(world.outside("key"), "5a".repeat(32)).expect("written");
    assert!(run_quietly(Command::new("chmod").arg("600").arg(world.outside("key"))));
    let forebay = world.forebay();
    world.give_to_postgres();
    let (place, key) = (world.inside("archive"), world.inside("key"));
    let archive: Vec<&str> =
        ["--archive", &place, "--encrypt", &key].iter().chain(options).copied().collect();
    world.run(
        "initdb",
        &[
            "-D",
            &world.inside("data"),
            "-U",
            "postgres",
            "-A",
            "trust",
            "--no-sync",
            "--wal-segsize=1",
        ],
    );
    let words = archive.join(" ");
    let settings = format!(
        "archive_mode = on\narchive_command = '{forebay} archive-push %p {words}'\n\
         restore_command = '{forebay} archive-get %f %p {words}'\nmax_wal_size = '16MB'\n"
    );
    fs::write(world.outside("data/settings"), settings).expect("written");
    let mut conf = fs::read_to_string(world.outside("data/postgresql.conf")).expect("it is there");
    conf.push_str("include 'settings'\n");
    fs::write(world.outside("data/postgresql.conf"), conf).expect("written");
    world.give_to_postgres();

    let points = live(world, resident, &archive);
    let verified =
        world.command(&forebay).arg("archive-verify").args(&archive).output().expect("it runs");
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    for (n, point) in points.iter().enumerate() {
        recover(world, &format!("back{n}"), resident && n != 1, &archive, point);
    }
    store_down(world, &points[0]);
}

/// Runs a server from a base backup on, and takes points to recover to.
fn live(world: &World, resident: bool, archive: &[&str]) -> Vec<Point> {
    let archiverd = resident.then(|| start_archiverd(world, "data", archive));
    let server = world.start("data", "").unwrap_or_else(|log| panic!("{log}"));
    server.pgbench(&["-i", "-s", "1", "-q"]);
    let port = server.port.to_string();
    let base = world.inside("base");
    world.run(
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
        server.pgbench(&["-c", "4", "-t", "300"]);
        let state = server.state();
        let value = match kind {
            "time" => server.query("select clock_timestamp()"),
            "lsn" => server.query("select pg_current_wal_insert_lsn()"),
            _ => server.query("select 'there' from pg_create_restore_point('there')"),
        };
        points.push(Point { setting: format!("recovery_target_{kind} = '{value}'"), state });
    }
    server.pgbench(&["-c", "4", "-t", "300"]);
    points.push(Point { setting: String::new(), state: server.state() });
    let last = server.query("select pg_walfile_name(pg_switch_wal())");
    server.wait_for(&format!("select last_archived_wal >= '{last}' from pg_stat_archiver"));
    assert_eq!(server.query("select failed_count from pg_stat_archiver"), "0", "{}", world.log());
    drop((server, archiverd));
    points
}

fn prepare(world: &World, name: &str, point: &Point) {
    let copied =
        Command::new("cp").arg("-a").arg(world.outside("base")).arg(world.outside(name)).status();
    assert!(copied.expect("cp runs").success());
    let mut conf =
        fs::read_to_string(world.outside(&format!("{name}/postgresql.conf"))).expect("it is there");
    // What the recovered server archives does not matter here.
    conf.push_str(&format!(
        "{}\nrecovery_target_action = 'promote'\narchive_mode = off\n",
        point.setting
    ));
    fs::write(world.outside(&format!("{name}/postgresql.conf")), conf).expect("written");
    fs::write(world.outside(&format!("{name}/recovery.signal")), "").expect("written");
    world.give_to_postgres();
}

/// Recovers a copy of the base backup to the point.
fn recover(world: &World, name: &str, resident: bool, archive: &[&str], point: &Point) {
    prepare(world, name, point);
    let archiverd = resident.then(|| start_archiverd(world, name, archive));
    let server = world.start(name, "").unwrap_or_else(|log| panic!("{log}"));
    server.wait_for("select not pg_is_in_recovery()");
    assert_eq!(server.state(), point.state, "{}", point.setting);
    drop((server, archiverd));
}

/// While the archive is unavailable the server does not start; afterwards it recovers everything.
fn store_down(world: &World, point: &Point) {
    prepare(world, "down", point);
    let away = world.outside("away");
    fs::rename(world.outside("archive"), &away).expect("renamed");
    let log = world.start("down", "").err().expect("it does not come up");
    assert!(log.contains("could not restore file") || log.contains("archive-get"), "{log}");
    // A file system that is not mounted looks like this.
    fs::create_dir(world.outside("archive")).expect("a directory");
    world.give_to_postgres();
    assert!(world.start("down", "").is_err());
    fs::remove_dir(world.outside("archive")).expect("removed");
    fs::rename(&away, world.outside("archive")).expect("renamed");
    let server = world.start("down", "").unwrap_or_else(|log| panic!("{log}"));
    server.wait_for("select not pg_is_in_recovery()");
    assert_eq!(server.state(), point.state, "after the store was down");
}
