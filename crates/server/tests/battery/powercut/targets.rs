//! The servers whose power is cut, and their processes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use forebay_sim::Dice;

use super::super::forebay::{scratch, signal};
use super::super::peer::Peer;
use super::super::ports::free_port;

/// A server that prints nothing for so long, or does not end, fails its test.
const PATIENCE: Duration = Duration::from_secs(600);

/// A server that can run on a mounted file system.
pub trait Target {
    /// Where its file system is mounted.
    fn point(&self) -> &Path;
    /// Makes its directory there.
    fn init(&self);
    /// Starts it with settings by chance.
    fn start(&self, dice: &mut Dice, fsync: bool) -> Process;
    /// Checks the checksums of a server at rest; what is wrong with them.
    fn bad_checksums(&self) -> Option<String>;
}

fn any<'s>(dice: &mut Dice, of: &[&'s str]) -> &'s str {
    of[dice.below(of.len() as u64) as usize]
}

const SYNC_METHODS: [&str; 4] = ["fdatasync", "fsync", "open_datasync", "open_sync"];
const BUFFERS: [&str; 3] = ["1MB", "4MB", "16MB"];

/// `forebay serve`.
pub struct Own {
    folder: tempfile::TempDir,
    point: PathBuf,
}

impl Own {
    pub fn new(name: &str) -> Own {
        let folder = scratch(name);
        let point = folder.path().join("disk");
        fs::create_dir(&point).expect("a scratch folder can be written");
        Own { folder, point }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.args(arguments).arg("-D").arg(self.point.join("data"));
        command
    }

    fn serve(&self, settings: &[String]) -> Process {
        let port = free_port();
        let mut command = self.command(&["serve"]);
        // Sockets are outside the file system under test.
        let sockets = format!("unix_socket_directories={}", self.folder.path().display());
        command.args(["-p", &port.to_string(), "-c", &sockets]);
        settings.iter().for_each(|setting| {
            command.args(["-c", setting]);
        });
        Process::spawn(command, port, false)
    }
}

impl Target for Own {
    fn point(&self) -> &Path {
        &self.point
    }

    fn init(&self) {
        let mut process = self.serve(&[]);
        process.ready().unwrap_or_else(|log| panic!("forebay makes its directory:\n{log}"));
        process.stop().unwrap_or_else(|log| panic!("forebay stops:\n{log}"));
    }

    fn start(&self, dice: &mut Dice, _fsync: bool) -> Process {
        let settings = [
            format!("io_method={}", any(dice, &["sync", "worker", "io_uring", "posix_aio"])),
            format!("io_direct={}", any(dice, &["", "data", "data,wal", "data,wal,wal_init"])),
            format!("wal_sync_method={}", any(dice, &SYNC_METHODS)),
            format!("shared_buffers={}", any(dice, &BUFFERS)),
            format!("wal_init_zero={}", any(dice, &["on", "off"])),
            format!("wal_recycle={}", any(dice, &["on", "off"])),
            format!("checkpoint_verify_writes={}", any(dice, &["on", "off", "off"])),
            format!("bgwriter_delay={}", any(dice, &["10ms", "200ms"])),
            "min_wal_size=32MB".into(),
            "max_wal_size=32MB".into(),
        ];
        println!("  {}", settings.join(" "));
        self.serve(&settings)
    }

    fn bad_checksums(&self) -> Option<String> {
        let output = self.command(&["checksums", "--check"]).output().expect("forebay runs");
        complaint(&output)
    }
}

/// The output of a program that failed.
fn complaint(output: &std::process::Output) -> Option<String> {
    let said = [&output.stdout[..], &output.stderr].concat();
    (!output.status.success()).then(|| String::from_utf8_lossy(&said).into_owned())
}

/// PostgreSQL 18, on a file system that is mounted inside its tree.
pub struct Postgres {
    peer: Peer,
    point: PathBuf,
    /// The data directory as seen inside the tree.
    data: String,
}

impl Postgres {
    pub fn find(test: &str) -> Option<Postgres> {
        let peer = Peer::find(test)?;
        let tree =
            PathBuf::from(std::env::var_os("FOREBAY_PG18_ROOT").expect("set with the runner"));
        let inside = format!("mnt/{test}-{}", std::process::id());
        let point = tree.join(&inside);
        fs::create_dir(&point).expect("the tree has a folder mnt");
        Some(Postgres { peer, point, data: format!("/{inside}/data") })
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        fs::remove_dir(&self.point)
            .unwrap_or_else(|e| println!("{} stays: {e}", self.point.display()));
    }
}

impl Target for Postgres {
    fn point(&self) -> &Path {
        &self.point
    }

    fn init(&self) {
        self.peer
            .run_as("root", &["install", "-d", "-o", "postgres", "-g", "postgres", &self.data]);
        self.peer.run(
            "initdb",
            &["-D", &self.data, "-k", "-U", "postgres", "-A", "trust", "-E", "UTF8"],
        );
    }

    fn start(&self, dice: &mut Dice, fsync: bool) -> Process {
        let settings = [
            format!("fsync={}", if fsync { "on" } else { "off" }),
            format!("io_method={}", any(dice, &["sync", "worker", "io_uring"])),
            format!(
                "debug_io_direct={}",
                any(dice, &["", "data", "data,wal", "data,wal,wal_init"])
            ),
            format!("wal_sync_method={}", any(dice, &SYNC_METHODS)),
            format!("shared_buffers={}", any(dice, &BUFFERS)),
            format!("wal_init_zero={}", any(dice, &["on", "off"])),
            format!("wal_recycle={}", any(dice, &["on", "off"])),
            "min_wal_size=32MB".into(),
            "max_wal_size=32MB".into(),
            "max_connections=20".into(),
            "listen_addresses=127.0.0.1".into(),
            "unix_socket_directories=".into(),
        ];
        println!("  {}", settings.join(" "));
        let port = free_port();
        // A process namespace of its own: all of its processes die with the first.
        let mut command = Command::new("unshare");
        let server = self.peer.command("postgres");
        command.args(["--pid", "--fork"]).arg(server.get_program()).args(server.get_args());
        command.args(["-D", &self.data, "-p", &port.to_string()]);
        settings.iter().for_each(|setting| {
            command.args(["-c", setting]);
        });
        Process::spawn(command, port, true)
    }

    fn bad_checksums(&self) -> Option<String> {
        let check = self.peer.command("pg_checksums").args(["--check", "-D", &self.data]).output();
        complaint(&check.expect("pg_checksums runs"))
    }
}

/// A server's process; killed when dropped.
pub struct Process {
    child: Child,
    /// The TCP port on loopback.
    pub port: u16,
    /// Whether the server is the child's child.
    wrapped: bool,
    log: Receiver<String>,
    said: Vec<String>,
}

impl Process {
    fn spawn(mut command: Command, port: u16, wrapped: bool) -> Process {
        let mut child =
            command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the server starts");
        let stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let (send, log) = channel();
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                // The receiver goes away when the test is done with the server.
                let _ = send.send(line);
            }
        });
        Process { child, port, wrapped, log, said: Vec::new() }
    }

    /// Waits until it accepts connections, or returns its log if it ends first.
    pub fn ready(&mut self) -> Result<(), String> {
        while let Ok(line) = self.log.recv_timeout(PATIENCE) {
            let ready = line.contains("ready to accept connections");
            self.said.push(line);
            if ready {
                return Ok(());
            }
        }
        Err(self.said.join("\n"))
    }

    /// Waits for as long as given, or until it accepts connections or ends.
    pub fn ready_within(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            match self.log.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains("ready to accept connections") => return,
                Ok(line) => self.said.push(line),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn signal(&self, which: &str) {
        let child = self.child.id();
        let children = format!("/proc/{child}/task/{child}/children");
        let server = if self.wrapped {
            // Empty once the server has ended.
            fs::read_to_string(children).unwrap_or_default().trim().to_owned()
        } else {
            child.to_string()
        };
        if !server.is_empty() {
            signal(which, &server);
        }
    }

    /// Waits until no process has the log open any more; all of the log.
    fn ended(&mut self) -> String {
        loop {
            match self.log.recv_timeout(PATIENCE) {
                Ok(line) => self.said.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("the server does not end: {}", self.said.join("\n"))
                }
            }
        }
        self.child.wait().expect("the server can be waited for");
        self.said.join("\n")
    }

    /// `kill -9` of all of its processes; returns its log when they are gone.
    pub fn kill(mut self) -> String {
        self.signal("-KILL");
        self.ended()
    }

    /// A clean, fast stop, or its log.
    pub fn stop(mut self) -> Result<(), String> {
        self.signal("-INT");
        let log = self.ended();
        let status = self.child.wait().expect("it has been waited for");
        if status.success() { Ok(()) } else { Err(format!("{status}\n{log}")) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.signal("-KILL");
            let _ = self.child.wait();
        }
    }
}
