//! A PostgreSQL 18 to try things with. FOREBAY_PG18_ROOT is its tree, FOREBAY_PG18_RUN the script
//! that runs programs in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

const BIN: &str = "/usr/lib/postgresql/18/bin";

/// A PostgreSQL 18 tree, with a folder in it for one test.
pub struct Peer {
    runner: PathBuf,
    root: PathBuf,
    /// The folder as seen inside.
    inside: PathBuf,
    server: Option<PathBuf>,
}

impl Peer {
    pub fn find(test: &str) -> Option<Peer> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let variable = |name| std::env::var_os(name).map(PathBuf::from);
        let (Some(root), Some(runner)) =
            (variable("FOREBAY_PG18_ROOT"), variable("FOREBAY_PG18_RUN"))
        else {
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
    pub fn outside(&self, name: &str) -> PathBuf {
        self.root.join(self.inside.strip_prefix("/").expect("absolute")).join(name)
    }

    /// A path in the folder, from inside.
    pub fn path(&self, name: &str) -> String {
        self.inside.join(name).display().to_string()
    }

    /// Gives a path to the peer's user postgres.
    pub fn own(&self, name: &str) {
        let passwd = std::fs::read_to_string(self.root.join("etc/passwd")).expect("passwd");
        let line = passwd.lines().find(|l| l.starts_with("postgres:")).expect("user postgres");
        let fields: Vec<&str> = line.split(':').collect();
        let owner = format!("{}:{}", fields[2], fields[3]);
        check(Command::new("chown").arg("-R").arg(owner).arg(self.outside(name)));
    }

    /// Copies a data directory in.
    pub fn bring(&self, dir: &Path, name: &str) {
        check(Command::new("cp").arg("-a").arg(dir).arg(self.outside(name)));
        self.own(name);
    }

    /// Copies a data directory out, for this user.
    pub fn fetch(&self, name: &str, to: &Path) {
        check(Command::new("cp").arg("-r").arg(self.outside(name)).arg(to));
    }

    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(&self.runner);
        command.arg("postgres").arg(format!("{BIN}/{program}"));
        command
    }

    pub fn run(&self, program: &str, args: &[&str]) -> Output {
        self.command(program).args(args).output().expect("the runner")
    }

    /// What a program prints; the test fails if the program does.
    pub fn prints(&self, program: &str, args: &[&str]) -> String {
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

    /// Starts the server on a directory of the folder; it is reached through a socket in the
    /// folder.
    pub fn start(&mut self, name: &str, options: &str) -> String {
        let data = self.path(name);
        let options = format!(
            "-c listen_addresses='' -c unix_socket_directories={} {options}",
            self.path("")
        );
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

    pub fn stop(&mut self) {
        self.end("fast");
    }

    /// Stops the server as a crash of its processes does.
    pub fn crash(&mut self) {
        self.end("immediate");
    }

    fn end(&mut self, mode: &str) {
        if let Some(data) = self.server.take() {
            let output =
                self.run("pg_ctl", &["stop", "-w", "-m", mode, "-D", &data.display().to_string()]);
            if !std::thread::panicking() {
                assert!(output.status.success(), "{output:?}");
            }
        }
    }

    pub fn sql(&self, statement: &str) -> String {
        self.prints(
            "psql",
            &["-h", &self.path(""), "-U", "postgres", "-AtXc", statement, "postgres"],
        )
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
