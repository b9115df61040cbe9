//! The two servers under measurement.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use forebay_testkit::free_port;
use forebay_testkit::peer::psql;
use forebay_testkit::process::serve;

use super::cgroup::Group;
use super::processor;
use crate::peers::Peer;
use crate::run::{output, run};
use crate::watch;

/// Settings of both servers, unless a measurement has others: the size of the pool, room for the
/// log between checkpoints, and PostgreSQL's method of I/O. I/O is also buffered.
const COMMON: [&str; 4] =
    ["shared_buffers=1GB", "max_wal_size=4GB", "max_connections=50", "io_method=worker"];

/// For measurements that it would disturb.
pub const WITHOUT_AUTOVACUUM: &str = "autovacuum=off";

/// A server that can be measured, with a data directory of its own.
pub enum Subject {
    /// This project's release build.
    Forebay {
        /// The binary.
        program: PathBuf,
        /// The data directory.
        data: PathBuf,
    },
    /// The peer.
    Postgres {
        /// Runs programs inside its tree.
        runner: PathBuf,
        /// The folder shared with it, seen from outside.
        outside: PathBuf,
        /// The same folder seen from inside.
        inside: String,
    },
}

/// A running server; stopped when dropped.
pub struct Running<'s> {
    subject: &'s Subject,
    child: Option<Child>,
    /// The TCP port on loopback.
    pub port: u16,
}

impl Subject {
    /// Forebay with an empty directory under `target`.
    ///
    /// # Errors
    /// When the directory of an earlier run can't be removed.
    pub fn forebay(root: &Path) -> Result<Subject, String> {
        let data = root.join("target/measure/forebay");
        if data.exists() {
            fs::remove_dir_all(&data).map_err(|e| format!("{}: {e}", data.display()))?;
        }
        fs::create_dir_all(root.join("target/measure")).map_err(|e| e.to_string())?;
        Ok(Subject::Forebay { program: root.join("target/release/forebay"), data })
    }

    /// PostgreSQL 18 with a fresh cluster, checksums on.
    ///
    /// # Errors
    /// When initdb fails.
    pub fn postgres(peer: &Peer) -> Result<Subject, String> {
        let outside = peer.runner.with_file_name("x").join("measure");
        let inside = "/x/measure".to_string();
        let subject =
            Subject::Postgres { runner: peer.runner.clone(), outside, inside: inside.clone() };
        let script =
            format!("rm -rf {inside}; mkdir -p {inside} && chown postgres:postgres {inside}");
        run(Command::new(&peer.runner).args(["root", "sh", "-c", &script]))?;
        let data = format!("{inside}/data");
        let initdb = ["initdb", "-D", &data, "-k", "-U", "postgres", "-A", "trust", "-E", "UTF8"];
        run(subject.program(&initdb).stdout(Stdio::null()))?;
        Ok(subject)
    }

    /// The column of tables that it fills.
    pub fn column(&self) -> usize {
        match self {
            Subject::Forebay { .. } => 0,
            Subject::Postgres { .. } => 1,
        }
    }

    /// Its data directory.
    pub fn directory(&self) -> PathBuf {
        match self {
            Subject::Forebay { data, .. } => data.clone(),
            Subject::Postgres { outside, .. } => outside.join("data"),
        }
    }

    /// The setting that asks for direct I/O on data.
    pub fn direct_setting(&self, direct: bool) -> String {
        let name = if self.column() == 0 { "io_direct" } else { "debug_io_direct" };
        format!("{name}={}", if direct { "data" } else { "" })
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(&self, settings: &[&str]) -> Result<Running<'_>, String> {
        self.start_in(None, settings)
    }

    /// As [`Subject::start`], in a memory cgroup.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_in(
        &self,
        group: Option<&Group>,
        settings: &[&str],
    ) -> Result<Running<'_>, String> {
        let port = free_port();
        let buffered = self.direct_setting(false);
        let common = [&COMMON[..], &[&buffered]].concat();
        let placed = |command: Command| match group {
            Some(group) => group.command(&command),
            None => command,
        };
        let child = match self {
            Subject::Forebay { program, data } => {
                let folder = data.parent().unwrap_or(data);
                // Nothing is read before it is measured, as in PostgreSQL.
                let settings = [&common[..], &["pg_prewarm.autoprewarm=off"], settings].concat();
                let mut command = placed(serve(program, data, port, folder, &settings));
                let log =
                    fs::File::create(data.with_extension("log")).map_err(|e| e.to_string())?;
                let child = command.stderr(log).spawn();
                Some(child.map_err(|e| format!("{}: {e}", program.display()))?)
            }
            Subject::Postgres { inside, .. } => {
                let quoted: String = common
                    .iter()
                    .chain(settings)
                    .map(|s| format!(" -c {}", s.replace('=', "=\"") + "\""))
                    .collect();
                let options =
                    format!("-p {port} -k {inside} -c listen_addresses=127.0.0.1{quoted}");
                let data = format!("{inside}/data");
                let log = format!("{inside}/log");
                let start =
                    ["pg_ctl", "-D", &data, "-w", "-s", "-l", &log, "-o", &options, "start"];
                run(&mut placed(self.program(&start)))?;
                None
            }
        };
        let mut running = Running { subject: self, child, port };
        running.wait_until_it_answers()?;
        Ok(running)
    }

    /// One of PostgreSQL's own programs.
    pub fn program(&self, words: &[&str]) -> Command {
        let Subject::Postgres { runner, .. } = self else {
            unreachable!("only PostgreSQL runs in the tree")
        };
        let mut command = Command::new(runner);
        command
            .arg("postgres")
            .arg(format!("/usr/lib/postgresql/18/bin/{}", words[0]))
            .args(&words[1..]);
        command
    }

    /// The number of PostgreSQL's first process.
    fn postmaster(&self) -> Result<u32, String> {
        let file = self.directory().join("postmaster.pid");
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let number = text.lines().next().and_then(|line| line.trim().parse().ok());
        number.ok_or_else(|| format!("{}: no number", file.display()))
    }

    /// Removes the data directory.
    pub fn remove(&self) {
        let folder = match self {
            Subject::Forebay { data, .. } => data,
            Subject::Postgres { outside, .. } => outside,
        };
        if let Err(error) = fs::remove_dir_all(folder) {
            println!("{} stays: {error}", folder.display());
        }
    }
}

impl Running<'_> {
    /// The column of tables that the server fills.
    pub fn column(&self) -> usize {
        self.subject.column()
    }

    /// Creates the extensions pg_prewarm and pg_buffercache, whose functions Forebay has built in.
    ///
    /// # Errors
    /// The server's error.
    pub fn create_extensions(&self) -> Result<(), String> {
        let extensions = ["pg_prewarm", "pg_buffercache"].iter().filter(|_| self.column() == 1);
        for extension in extensions {
            self.query(&format!("CREATE EXTENSION IF NOT EXISTS {extension}"))?;
        }
        Ok(())
    }

    /// A psql command for this server.
    pub fn psql(&self, sql: &str) -> Command {
        let mut psql = psql(self.port);
        psql.args(["-c", sql]);
        psql
    }

    /// Runs SQL and returns its output.
    ///
    /// # Errors
    /// The server's error.
    pub fn query(&self, sql: &str) -> Result<String, String> {
        let output = output(&mut self.psql(sql))?;
        if !output.status.success() {
            return Err(format!("{sql}: {}", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
    }

    /// Runs SQL that returns one number.
    ///
    /// # Errors
    /// The server's error, or when it returns something else.
    pub fn number(&self, sql: &str) -> Result<f64, String> {
        let text = self.query(sql)?;
        text.parse().map_err(|e| format!("{sql}: {text}: {e}"))
    }

    /// Runs SQL in a session of its own. Returns its output, and the seconds it took without psql's
    /// start.
    ///
    /// # Errors
    /// The server's error.
    pub fn timed(&self, sql: &str) -> Result<(String, f64), String> {
        let output = output(self.psql("\\timing on").args(["-c", sql]))?;
        let said = String::from_utf8_lossy(&output.stdout);
        match timing(&said) {
            Some(timed) if output.status.success() => Ok(timed),
            _ => Err(format!("{sql}: {said}{}", String::from_utf8_lossy(&output.stderr))),
        }
    }

    /// Seconds that the processor has worked for the server so far, for sessions that have ended
    /// too.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn processor_time(&self) -> Result<f64, String> {
        processor::seconds_of(self.process()?)
    }

    /// The number of the server's first process.
    ///
    /// # Errors
    /// When PostgreSQL has not written it down.
    pub fn process(&self) -> Result<u32, String> {
        self.child.as_ref().map_or_else(|| self.subject.postmaster(), |child| Ok(child.id()))
    }

    fn wait_until_it_answers(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + Duration::from_secs(60);
        while Instant::now() < deadline {
            if let Some(Ok(Some(status))) = self.child.as_mut().map(Child::try_wait) {
                // Its number may soon be another program's.
                self.child = None;
                let log = self.subject.directory().with_extension("log");
                return Err(format!("the server has ended ({status}); see {}", log.display()));
            }
            // psql's start is the pause between attempts.
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok()
                && self.query("SELECT 1").is_ok()
            {
                return Ok(());
            }
        }
        Err(format!("no server answers on port {}", self.port))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        match &mut self.child {
            Some(child) => {
                // It fails only if the server has ended by itself; the next start reports that.
                let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
                watch::wait(child, "forebay serve").map_or_else(|error| println!("{error}"), drop);
            }
            None => {
                if let Subject::Postgres { inside, .. } = self.subject {
                    let data = format!("{inside}/data");
                    let stop = ["pg_ctl", "-D", &data, "-s", "-m", "fast", "stop"];
                    run(&mut self.subject.program(&stop))
                        .unwrap_or_else(|error| println!("{error}"));
                }
            }
        }
    }
}

/// The order alternates from turn to turn, so that drift falls on both.
pub fn order<T>(one: T, other: T, turn: usize) -> [T; 2] {
    if turn.is_multiple_of(2) { [one, other] } else { [other, one] }
}

/// What psql prints with \\timing: the output, then "Time: 1234.567 ms (00:01.235)".
fn timing(said: &str) -> Option<(String, f64)> {
    let (output, time) = said.rsplit_once("Time: ")?;
    let milliseconds: f64 = time.split_once(" ms")?.0.parse().ok()?;
    Some((output.trim().to_string(), milliseconds / 1e3))
}

#[cfg(test)]
mod tests {
    use super::timing;

    #[test]
    fn psqls_timing_is_read() {
        assert_eq!(timing("42\nTime: 1234.500 ms (00:01.235)\n"), Some(("42".to_string(), 1.2345)));
        assert_eq!(timing("Time: 0.500 ms\n"), Some((String::new(), 0.0005)));
        assert_eq!(timing("ERROR: no"), None);
    }
}
