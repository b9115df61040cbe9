//! PostgreSQL 18, prepared by `cargo xtask peers`.
//!
//! `FOREBAY_PG18_RUN` names the script that runs a program inside its tree; the folder `x` beside
//! the script is `/x` in there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::child::{ends_in_time, pidfd};
use super::ports::free_port;

const PROGRAMS: &str = "/usr/lib/postgresql/18/bin";

/// A folder shared with the PostgreSQL 18 tree, removed when dropped.
pub struct Peer {
    runner: PathBuf,
    name: String,
}

impl Peer {
    /// The peer, or `None` after saying that `test` was skipped.
    pub fn find(test: &str) -> Option<Peer> {
        let Some(runner) = std::env::var_os("FOREBAY_PG18_RUN").map(PathBuf::from) else {
            println!("skipped: {test} needs PostgreSQL 18 (cargo xtask peers)");
            return None;
        };
        let peer = Peer { runner, name: format!("{test}-{}", std::process::id()) };
        fs::create_dir_all(peer.outside("")).expect("the shared folder can be made");
        peer.give_to_postgres();
        Some(peer)
    }

    /// The path of `name` in the shared folder, as seen by the host.
    pub fn outside(&self, name: &str) -> PathBuf {
        self.runner
            .parent()
            .expect("the runner lies in a folder")
            .join("x")
            .join(&self.name)
            .join(name)
    }

    /// The path of `name` in the shared folder, as seen inside the tree.
    pub fn inside(&self, name: &str) -> String {
        format!("/x/{}/{name}", self.name)
    }

    /// Copies a directory into the shared folder and gives it to the user postgres.
    pub fn adopt(&self, directory: &Path, name: &str) {
        let copied = Command::new("cp").arg("-a").arg(directory).arg(self.outside(name)).status();
        assert!(copied.expect("cp runs").success(), "{} is copied", directory.display());
        self.give_to_postgres();
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
        self.run_as("root", &["chown", "-R", "postgres:postgres", &self.inside("")]);
    }

    /// Takes it back: Forebay serves no directory of another user.
    pub fn take_back(&self) {
        self.run_as("root", &["chown", "-R", "root:root", &self.inside("")]);
    }

    /// Runs a program of the tree, which must succeed.
    pub fn run_as(&self, user: &str, words: &[&str]) -> Output {
        let output = self.command_as(user, words).output().expect("the runner runs");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }

    /// A command that runs a program of the tree.
    pub fn command_as(&self, user: &str, words: &[&str]) -> Command {
        let mut command = Command::new(&self.runner);
        command.arg(user).args(words).stdin(Stdio::null());
        command
    }

    /// A command that runs one of PostgreSQL's programs as user postgres.
    pub fn command(&self, program: &str) -> Command {
        self.command_as("postgres", &[&format!("{PROGRAMS}/{program}")])
    }

    /// Runs one of PostgreSQL's programs and returns what it printed; it must succeed.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        let path = format!("{PROGRAMS}/{program}");
        let words: Vec<&str> =
            [path.as_str()].into_iter().chain(arguments.iter().copied()).collect();
        String::from_utf8_lossy(&self.run_as("postgres", &words).stdout).into_owned()
    }

    /// PostgreSQL 18's psql, pointed at a server on loopback.
    pub fn psql(&self, port: u16) -> Command {
        let mut psql = self.command("psql");
        psql.args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            "127.0.0.1",
            "-U",
            "postgres",
        ]);
        psql.args(["-d", "postgres", "-p", &port.to_string()]);
        psql
    }

    /// Starts PostgreSQL on a directory of the shared folder and waits until it would accept
    /// connections (which pg_ctl learns from the lock file: it needs no session).
    pub fn start(&self, name: &str, options: &str) -> Postgres<'_> {
        let port = free_port();
        let options =
            format!("-p {port} -k {} -c listen_addresses=127.0.0.1 {options}", self.inside(""));
        let (data, log) = (self.inside(name), self.inside("log"));
        self.run_as(
            "postgres",
            &[
                &format!("{PROGRAMS}/pg_ctl"),
                "-D",
                &data,
                "-w",
                "-s",
                "-l",
                &log,
                "-o",
                &options,
                "start",
            ],
        );
        Postgres { peer: self, name: name.to_owned(), port }
    }

    /// Makes a fresh cluster with checksums.
    pub fn init(&self, name: &str) {
        self.run(
            "initdb",
            &[
                "-D",
                &self.inside(name),
                "-k",
                "-U",
                "postgres",
                "-A",
                "trust",
                "--no-sync",
                "--no-locale",
                "-EUTF8",
            ],
        );
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let folder = self.outside("");
        fs::remove_dir_all(&folder).unwrap_or_else(|e| println!("{} stays: {e}", folder.display()));
    }
}

/// A running PostgreSQL 18 server, stopped fast when dropped.
pub struct Postgres<'peer> {
    peer: &'peer Peer,
    name: String,
    /// The TCP port on loopback.
    pub port: u16,
}

impl Drop for Postgres<'_> {
    fn drop(&mut self) {
        let mut pg_ctl = self.peer.command("pg_ctl");
        pg_ctl.args(["-D", &self.peer.inside(&self.name)]);
        stop(pg_ctl, &self.peer.outside(&self.name));
    }
}

/// Stops the PostgreSQL of a directory, fast, and returns when its last process has ended: pg_ctl
/// by itself returns before the log says that the database system is shut down.
pub(super) fn stop(mut pg_ctl: Command, directory: &Path) {
    let lock_file = fs::read_to_string(directory.join("postmaster.pid")).unwrap_or_default();
    let server = lock_file.lines().next().and_then(|line| pidfd(line.trim().parse().ok()?));
    let stopped =
        pg_ctl.args(["-s", "-m", "fast", "stop"]).status().is_ok_and(|status| status.success());
    if !stopped || !server.is_some_and(|server| ends_in_time(&server)) {
        println!("PostgreSQL in {} could not be stopped", directory.display());
    }
}
