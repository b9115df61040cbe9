//! A `forebay serve` process under test.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use super::child::Child;
use super::ports::free_port;

/// A running server. It is killed when dropped.
pub struct Forebay {
    child: Child,
    /// The TCP port on loopback.
    pub port: u16,
    /// The data directory.
    pub directory: PathBuf,
}

impl Forebay {
    /// Starts the server and returns when it accepts connections.
    pub fn start(directory: &Path, settings: &[&str]) -> Forebay {
        Forebay::start_under(&[], directory, settings)
    }

    /// Like [`Forebay::start`], as the child of a tracing program.
    pub fn start_under(wrapper: &[&str], directory: &Path, settings: &[&str]) -> Forebay {
        let port = free_port();
        let program = env!("CARGO_BIN_EXE_forebay");
        let mut words = wrapper.to_vec();
        words.push(program);
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .arg("serve")
            .arg("-D")
            .arg(directory)
            .args(["-p", &port.to_string()]);
        let sockets = directory.parent().expect("a data directory has a parent");
        command.arg("-c").arg(format!("unix_socket_directories={}", sockets.display()));
        for setting in settings {
            command.args(["-c", setting]);
        }
        let child = Child::spawn(command.stdin(Stdio::null()));
        let ready = child.wait_for_line("ready to accept connections");
        ready.unwrap_or_else(|log| panic!("the server ended instead of being ready:\n{log}"));
        Forebay { child, port, directory: directory.to_path_buf() }
    }

    /// The server's own process id (not a wrapper's), from its lock file.
    pub fn pid(&self) -> String {
        let file = self.directory.join("postmaster.pid");
        let text = std::fs::read_to_string(&file).expect("a running server has a lock file");
        text.lines().next().expect("the first line is the process id").trim().to_string()
    }

    /// A clean, fast stop.
    pub fn stop(mut self) {
        signal("-INT", &self.pid());
        let status = self.child.wait();
        assert!(status.success(), "a clean stop exits with 0, not {status}");
    }

    /// `kill -9`, then waits until the process is gone.
    pub fn kill(mut self) {
        signal("-KILL", &self.pid());
        let status = self.child.wait();
        assert_eq!(status.signal(), Some(9), "it had ended by itself: {status}");
    }

    /// Runs SQL by the host's psql and returns its unaligned output.
    pub fn query(&self, sql: &str) -> String {
        let output = self.psql().args(["-c", sql]).output().expect("psql runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{sql}: {errors}");
        String::from_utf8(output.stdout).expect("psql prints UTF-8").trim_end().to_string()
    }

    /// The host's psql, pointed at this server.
    pub fn psql(&self) -> Command {
        psql_for(self.port)
    }
}

impl Drop for Forebay {
    fn drop(&mut self) {
        // The child may be a wrapper.
        if let (true, Ok(text)) = (
            self.child.is_running(),
            std::fs::read_to_string(self.directory.join("postmaster.pid")),
        ) {
            signal("-KILL", text.lines().next().unwrap_or_default().trim());
        }
    }
}

/// The host's psql: no start-up file, tuples only, unaligned, stop on errors.
pub fn psql_for(port: u16) -> Command {
    let mut psql = Command::new("psql");
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
    psql.args(["-p", &port.to_string(), "-d", "postgres"]).stdin(Stdio::null());
    psql
}

/// Runs a client to its end with `input` on its standard input.
pub fn feed(mut client: Command, input: &[u8]) -> std::process::Output {
    client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = client.spawn().expect("the client starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    thread::scope(|scope| {
        // A server that is killed breaks this pipe, as the client's status shows.
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().expect("the client ends")
    })
}

/// A folder on the build's own file system (direct I/O does not work on every temporary one).
pub fn scratch(name: &str) -> tempfile::TempDir {
    let prefix = format!("battery-{name}-");
    tempfile::Builder::new()
        .prefix(&prefix)
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .expect("a scratch folder")
}

/// Sends a signal by its name.
pub fn signal(which: &str, pid: &str) {
    // Fails when the process has ended meanwhile.
    let _ = Command::new("kill").args([which, pid]).status();
}
