//! A `forebay serve` process under test.

use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_testkit::process::{Child, must, serve, signal, under};
use forebay_testkit::{free_port, peer};

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// Runs the program, which must succeed; what it printed.
pub fn forebay(words: &[&str]) -> String {
    must(Command::new(PROGRAM).args(words))
}

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
        let sockets = directory.parent().expect("a data directory has a parent");
        let server = serve(PROGRAM, directory, port, sockets, settings);
        let child = match wrapper {
            [] => Child::spawn(&mut { server }),
            words => Child::spawn(&mut under(words, &server)),
        };
        child.wait_until_ready();
        Forebay { child, port, directory: directory.to_path_buf() }
    }

    /// The server's own process id (not a wrapper's), from its lock file.
    pub fn pid(&self) -> String {
        let file = self.directory.join("postmaster.pid");
        let text = std::fs::read_to_string(&file).expect("a running server has a lock file");
        text.lines().next().expect("the first line is the process id").trim().to_string()
    }

    /// Waits for a line of the server's log with this text.
    pub fn wait_for_line(&self, text: &str) -> String {
        self.child.wait_for_line(text).unwrap_or_else(|printed| panic!("no \"{text}\": {printed}"))
    }

    /// A clean, fast stop.
    pub fn stop(mut self) {
        self.child.stop(&self.pid());
    }

    /// `kill -9`, then waits until the process is gone.
    pub fn kill(mut self) {
        self.child.kill(&self.pid());
    }

    /// Runs SQL by the host's psql and returns its unaligned output.
    pub fn query(&self, sql: &str) -> String {
        peer::query(self.port, sql)
    }

    /// The host's psql, pointed at this server.
    pub fn psql(&self) -> Command {
        peer::psql(self.port)
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

/// A folder on the build's own file system (direct I/O does not work on every temporary one).
pub fn scratch(name: &str) -> tempfile::TempDir {
    let prefix = format!("battery-{name}-");
    tempfile::Builder::new()
        .prefix(&prefix)
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .expect("a scratch folder")
}
