//! PostgreSQL 18, prepared by `cargo xtask peers`, and PostgreSQL 15, where the machine has it.
//!
//! `FOREBAY_PG18_RUN` names the script that runs a program inside the tree of PostgreSQL 18; the
//! folder `x` beside the script is `/x` in there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::free_port;
use crate::process::{ends_in_time, feed, must, pidfd, succeeded};

const EIGHTEEN: &str = "/usr/lib/postgresql/18/bin";
const FIFTEEN: &str = "/usr/lib/postgresql/15/bin";

/// psql of the host for a server on loopback: no start-up file, tuples only, unaligned, stop on
/// errors.
pub fn psql(port: u16) -> Command {
    for_script(Command::new("psql"), port)
}

fn for_script(mut psql: Command, port: u16) -> Command {
    psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1"]);
    psql.args(["-U", "postgres", "-d", "postgres", "-p", &port.to_string()]).stdin(Stdio::null());
    psql
}

/// Runs SQL by the host's psql, which must succeed; its output.
pub fn query(port: u16, sql: &str) -> String {
    must(psql(port).args(["-c", sql])).trim_end().to_owned()
}

/// As many characters of a test's name go into its folder's: servers put sockets there, whose paths
/// have at most 107 bytes.
const LONGEST_NAME: usize = 24;

/// PostgreSQL's programs, and a folder that both they and a test see. The folder is removed when
/// this is dropped.
pub struct Peer {
    programs: &'static str,
    /// Runs a program inside a tree; `None`: programs of the machine itself.
    runner: Option<PathBuf>,
    outside: PathBuf,
    inside: PathBuf,
    environment: Vec<(&'static str, String)>,
}

impl Peer {
    /// PostgreSQL 18, or `None` after saying that `test` was skipped.
    pub fn find(test: &str) -> Option<Peer> {
        let Some(runner) = std::env::var_os("FOREBAY_PG18_RUN").map(PathBuf::from) else {
            println!("skipped: {test} needs PostgreSQL 18 (cargo xtask peers)");
            return None;
        };
        Some(Peer::run_by(&runner, test))
    }

    /// PostgreSQL 18 in the tree that belongs to a script.
    pub fn run_by(runner: &Path, test: &str) -> Peer {
        let shared = runner.with_file_name("x");
        Peer::new(test, EIGHTEEN, Some(runner.to_path_buf()), &shared, Path::new("/x"))
    }

    /// The machine's own PostgreSQL 15, or `None` after saying that `test` was skipped.
    pub fn fifteen(test: &str) -> Option<Peer> {
        let user = Command::new("id").arg("postgres").output();
        if !Path::new(FIFTEEN).exists() || !user.is_ok_and(|output| output.status.success()) {
            println!("skipped: {test} needs PostgreSQL 15 in {FIFTEEN} and its user");
            return None;
        }
        let shared = std::env::temp_dir();
        Some(Peer::new(test, FIFTEEN, None, &shared, &shared))
    }

    fn new(
        test: &str,
        programs: &'static str,
        runner: Option<PathBuf>,
        outside: &Path,
        inside: &Path,
    ) -> Peer {
        static FOUND: AtomicU32 = AtomicU32::new(0);
        let number = FOUND.fetch_add(1, Ordering::Relaxed);
        let short: String = test.chars().take(LONGEST_NAME).collect();
        let name = format!("{short}-{}-{number}", std::process::id());
        let (outside, inside) = (outside.join(&name), inside.join(&name));
        let peer = Peer { programs, runner, outside, inside, environment: Vec::new() };
        fs::create_dir_all(&peer.outside).expect("the shared folder can be made");
        peer.give_to_postgres();
        peer
    }

    /// Gives all programs that are run from here on a variable.
    pub fn set_variable(&mut self, name: &'static str, value: String) {
        self.environment.push((name, value));
    }

    /// The path of `name` in the shared folder, as seen by the host.
    pub fn outside(&self, name: &str) -> PathBuf {
        self.outside.join(name)
    }

    /// The path of `name` in the shared folder, as seen by PostgreSQL.
    pub fn inside(&self, name: &str) -> String {
        self.inside.join(name).display().to_string()
    }

    /// Copies a directory into the shared folder and gives it to the user postgres.
    pub fn adopt(&self, directory: &Path, name: &str) {
        must(Command::new("cp").arg("-a").arg(directory).arg(self.outside(name)));
        self.give_to_postgres();
    }

    /// Copies a directory out of the shared folder, for this user.
    pub fn fetch(&self, name: &str, to: &Path) {
        must(Command::new("cp").arg("-r").arg(self.outside(name)).arg(to));
    }

    /// Copies a program of this build into the shared folder; its path as seen inside the tree.
    pub fn carry(&self, program: &Path) -> String {
        let name =
            program.file_name().expect("a program has a name").to_string_lossy().into_owned();
        fs::copy(program, self.outside(&name)).expect("the program is copied");
        self.inside(&name)
    }

    /// Makes the user postgres own everything in the shared folder.
    pub fn give_to_postgres(&self) {
        self.own("postgres");
    }

    /// Takes it back: Forebay serves no directory of another user.
    pub fn take_back(&self) {
        self.own("root");
    }

    fn own(&self, user: &str) {
        let owner = format!("{user}:{user}");
        must(&mut self.command_as("root", &["chown", "-R", &owner, &self.inside("")]));
    }

    /// A command of a user. Its first word is a program's path as seen by PostgreSQL.
    pub fn command_as(&self, user: &str, words: &[&str]) -> Command {
        let mut command = Command::new(self.runner.as_deref().unwrap_or(Path::new("setpriv")));
        if self.runner.is_some() {
            command.arg(user);
        } else {
            let [user, group] = ["uid", "gid"].map(|id| format!("--re{id}={user}"));
            command.args([&user, &group, "--clear-groups"]);
        }
        command.args(words).stdin(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// A command that runs one of PostgreSQL's programs as user postgres.
    pub fn command(&self, name: &str) -> Command {
        self.command_as("postgres", &[&self.program(name)])
    }

    /// The path of one of PostgreSQL's programs, as seen by PostgreSQL.
    pub fn program(&self, name: &str) -> String {
        format!("{}/{name}", self.programs)
    }

    /// Runs one of PostgreSQL's programs, which must succeed; what it printed.
    pub fn run(&self, name: &str, arguments: &[&str]) -> String {
        must(self.command(name).args(arguments))
    }

    /// PostgreSQL 18's psql, pointed at a server on loopback.
    pub fn psql(&self, port: u16) -> Command {
        for_script(self.command("psql"), port)
    }

    /// Makes a fresh cluster with checksums.
    pub fn init(&self, name: &str) {
        self.init_with(name, &["-k"]);
    }

    /// Makes a fresh cluster; with checksums if these options of initdb, or PostgreSQL's version,
    /// ask for them.
    pub fn init_with(&self, name: &str, options: &[&str]) {
        let usual = ["-U", "postgres", "-A", "trust", "--no-sync", "--no-locale", "-EUTF8"];
        must(self.command("initdb").args(["-D", &self.inside(name)]).args(usual).args(options));
    }

    /// Starts PostgreSQL on a directory of the shared folder and waits until it would accept
    /// connections (which pg_ctl learns from the lock file: it needs no session).
    pub fn start(&self, name: &str, options: &str) -> Postgres<'_> {
        self.try_start(name, options).unwrap_or_else(|log| panic!("{name} does not start:\n{log}"))
    }

    /// Like [`Peer::start`]; the error, if it does not start, is its log.
    pub fn try_start(&self, name: &str, options: &str) -> Result<Postgres<'_>, String> {
        let port = free_port();
        let options =
            format!("-p {port} -k {} -c listen_addresses=127.0.0.1 {options}", self.inside(""));
        let (data, log) = (self.inside(name), self.inside("log"));
        let mut pg_ctl = self.command("pg_ctl");
        pg_ctl.args(["-D", &data, "-w", "-s", "-t", "120", "-l", &log, "-o", &options, "start"]);
        // The server would keep a pipe open.
        let status = pg_ctl.stdout(Stdio::null()).stderr(Stdio::null()).status();
        match status.expect("pg_ctl runs").success() {
            true => Ok(Postgres { peer: self, name: name.to_owned(), running: true, port }),
            false => Err(self.log()),
        }
    }

    /// What the servers of this folder have logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.outside("log")).unwrap_or_default()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let folder = self.outside("");
        fs::remove_dir_all(&folder).unwrap_or_else(|e| println!("{} stays: {e}", folder.display()));
    }
}

/// Linux takes arguments of 128 KiB; longer ones go to standard input.
const LONGEST_ARGUMENT: usize = 100_000;

/// A running PostgreSQL 18 server, stopped fast when dropped.
pub struct Postgres<'peer> {
    peer: &'peer Peer,
    name: String,
    running: bool,
    /// The TCP port on loopback.
    pub port: u16,
}

impl Postgres<'_> {
    /// Runs SQL by PostgreSQL's psql, which must succeed; its output.
    pub fn query(&self, sql: &str) -> String {
        let mut psql = self.peer.psql(self.port);
        let said = if sql.len() < LONGEST_ARGUMENT {
            must(psql.args(["-c", sql]))
        } else {
            psql.args(["-f", "-"]);
            succeeded(&feed(psql, sql.as_bytes()), "psql")
        };
        said.trim_end().to_owned()
    }

    /// Repeats a query until its result is "t".
    pub fn wait_for(&self, question: &str) {
        let begun = Instant::now();
        while self.query(question) != "t" {
            let in_time = begun.elapsed() < Duration::from_secs(600);
            assert!(in_time, "{question} stays false: {}", self.peer.log());
        }
    }

    /// pgbench on its database, not started yet.
    pub fn pgbench(&self, arguments: &[&str]) -> Command {
        let mut command = self.peer.command("pgbench");
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "postgres", "-n"]);
        command.args(arguments).arg("postgres").stdout(Stdio::null());
        command
    }

    /// Stops it as a crash of its processes does.
    pub fn crash(mut self) {
        self.running = false;
        self.end("immediate");
    }

    /// Returns when its last process has ended: pg_ctl by itself returns before the log says that
    /// the database system is shut down.
    fn end(&self, mode: &str) {
        let lock_file = fs::read_to_string(self.peer.outside(&self.name).join("postmaster.pid"))
            .unwrap_or_default();
        let server = lock_file.lines().next().and_then(|line| pidfd(line.trim().parse().ok()?));
        let mut pg_ctl = self.peer.command("pg_ctl");
        pg_ctl.args(["-D", &self.peer.inside(&self.name), "-s", "-m", mode, "stop"]);
        let stopped = pg_ctl.status().is_ok_and(|status| status.success());
        let ended = server.is_some_and(|server| ends_in_time(&server));
        let done = thread::panicking() || (stopped && ended);
        assert!(done, "PostgreSQL in {} could not be stopped", self.name);
    }
}

impl Drop for Postgres<'_> {
    fn drop(&mut self) {
        if self.running {
            self.end("fast");
        }
    }
}
