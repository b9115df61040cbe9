//! The servers whose power is cut, and their processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use forebay_testkit::peer::Peer;
use forebay_testkit::process::{Child, must, serve, signal, under};
use forebay_testkit::{Dice, free_port};

use super::super::forebay::{PROGRAM, scratch};

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

    fn serve(&self, settings: &[String]) -> Process {
        let port = free_port();
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        // Sockets are outside the file system under test.
        let (data, sockets) = (self.point.join("data"), self.folder.path());
        Process::spawn(serve(PROGRAM, &data, port, sockets, &settings), port, false)
    }
}

impl Target for Own {
    fn point(&self) -> &Path {
        &self.point
    }

    fn init(&self) {
        let process = self.serve(&[]);
        process.ready().unwrap_or_else(|log| panic!("forebay makes its directory:\n{log}"));
        process.stop().unwrap_or_else(|log| panic!("forebay stops:\n{log}"));
    }

    fn start(&self, dice: &mut Dice, _fsync: bool) -> Process {
        let settings = [
            format!("io_method={}", dice.pick(&["sync", "worker", "io_uring", "posix_aio"])),
            format!("io_direct={}", dice.pick(&["", "data", "data,wal", "data,wal,wal_init"])),
            format!("wal_sync_method={}", dice.pick(&SYNC_METHODS)),
            format!("shared_buffers={}", dice.pick(&BUFFERS)),
            format!("wal_init_zero={}", dice.pick(&["on", "off"])),
            format!("wal_recycle={}", dice.pick(&["on", "off"])),
            format!("checkpoint_verify_writes={}", dice.pick(&["on", "off", "off"])),
            format!("bgwriter_delay={}", dice.pick(&["10ms", "200ms"])),
            "min_wal_size=32MB".into(),
            "max_wal_size=32MB".into(),
        ];
        println!("  {}", settings.join(" "));
        self.serve(&settings)
    }

    fn bad_checksums(&self) -> Option<String> {
        let data = self.point.join("data");
        let output = Command::new(PROGRAM).args(["checksums", "--check", "-D"]).arg(data).output();
        let output = output.expect("forebay runs");
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
        let owned = ["install", "-d", "-o", "postgres", "-g", "postgres", &self.data];
        must(&mut self.peer.command_as("root", &owned));
        self.peer.run(
            "initdb",
            &["-D", &self.data, "-k", "-U", "postgres", "-A", "trust", "-E", "UTF8"],
        );
    }

    fn start(&self, dice: &mut Dice, fsync: bool) -> Process {
        let settings = [
            format!("fsync={}", if fsync { "on" } else { "off" }),
            format!("io_method={}", dice.pick(&["sync", "worker", "io_uring"])),
            format!(
                "debug_io_direct={}",
                dice.pick(&["", "data", "data,wal", "data,wal,wal_init"])
            ),
            format!("wal_sync_method={}", dice.pick(&SYNC_METHODS)),
            format!("shared_buffers={}", dice.pick(&BUFFERS)),
            format!("wal_init_zero={}", dice.pick(&["on", "off"])),
            format!("wal_recycle={}", dice.pick(&["on", "off"])),
            "min_wal_size=32MB".into(),
            "max_wal_size=32MB".into(),
            "max_connections=20".into(),
            "listen_addresses=127.0.0.1".into(),
            "unix_socket_directories=".into(),
        ];
        println!("  {}", settings.join(" "));
        let port = free_port();
        // A process namespace of its own: all of its processes die with the first.
        let mut server = self.peer.command("postgres");
        server.args(["-D", &self.data, "-p", &port.to_string()]);
        server.args(settings.iter().flat_map(|setting| ["-c", setting]));
        Process::spawn(under(&["unshare", "--pid", "--fork"], &server), port, true)
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
}

impl Process {
    fn spawn(mut command: Command, port: u16, wrapped: bool) -> Process {
        Process { child: Child::spawn(&mut command), port, wrapped }
    }

    /// Waits until it accepts connections, or returns its log if it ends first.
    pub fn ready(&self) -> Result<(), String> {
        self.child.wait_for_line("ready to accept connections").map(drop)
    }

    /// Waits for as long as given, or until it accepts connections or ends.
    pub fn ready_within(&self, time: Duration) {
        self.child.wait_for_start(time);
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

    /// `kill -9` of all of its processes; returns its log when they are gone.
    pub fn kill(mut self) -> String {
        self.signal("-KILL");
        self.child.wait_for_all().1
    }

    /// A clean, fast stop, or its log.
    pub fn stop(mut self) -> Result<(), String> {
        self.signal("-INT");
        let (status, log) = self.child.wait_for_all();
        if status.success() { Ok(()) } else { Err(format!("{status}\n{log}")) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.child.is_running() {
            self.signal("-KILL");
        }
    }
}
