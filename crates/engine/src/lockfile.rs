//! postmaster.pid: one server for one data directory.
//!
//! The file has PostgreSQL's eight lines, so that its tools understand it and it refuses to start
//! beside us:
//!
//! ```text
//! 1  process id
//! 2  data directory
//! 3  start time, seconds since 1970
//! 4  port
//! 5  socket directory
//! 6  listen address
//! 7  (PostgreSQL's shared memory key: empty)
//! 8  status: "starting", "ready   ", "stopping"
//! ```
//!
//! A process id may have been reused by another process. So the data directory itself is locked as
//! well while the engine is open. The kernel releases that lock with the process.

use std::path::{Path, PathBuf};

use forebay_aio::{File, IfFound, IoBackend, Namespace, OpenOptions};

use crate::error::EngineError;

const NAME: &str = "postmaster.pid";
/// Name of the file until it is complete. A crash must not leave an incomplete lock file.
const UNFINISHED: &str = "postmaster.pid.tmp";

/// What the file says beside the process and the directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub port: u16,
    pub socket_dir: String,
    pub listen_addr: String,
}

/// The lock. [`LockFile::release`] removes the file. A lock that is merely dropped leaves a stale
/// file.
#[derive(Debug)]
pub(crate) struct LockFile {
    path: PathBuf,
    lines: [String; 7],
    _directory: File,
}

/// The server's state, in the words for which pg_ctl waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerStatus {
    Starting,
    Ready,
    Stopping,
}

impl ServerStatus {
    fn text(self) -> &'static str {
        match self {
            ServerStatus::Starting => "starting",
            ServerStatus::Ready => "ready   ",
            ServerStatus::Stopping => "stopping",
        }
    }
}

impl LockFile {
    /// Locks a data directory, or says who has it.
    pub(crate) fn take(
        io: &mut IoBackend,
        dir: &Path,
        told: &Told,
    ) -> Result<LockFile, EngineError> {
        let path = dir.join(NAME);
        let directory = io.aio().namespace().open(dir, &OpenOptions::READ)?;
        if !io.aio().namespace().try_lock(&directory)? {
            let holder = io.read_file_if_there(&path)?.and_then(|text| parse_pid(&text));
            return Err(taken(dir, holder));
        }
        if let Some(text) = io.read_file_if_there(&path)? {
            refuse_if_alive(dir, &text)?;
            io.aio().namespace().unlink(&path)?;
        }
        let started = forebay_aio::sync::SystemTime::now()
            .duration_since(forebay_aio::sync::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let lines = [
            std::process::id().to_string(),
            dir.display().to_string(),
            started.to_string(),
            told.port.to_string(),
            told.socket_dir.clone(),
            told.listen_addr.clone(),
            String::new(),
        ];
        let lock = LockFile { path, lines, _directory: directory };
        lock.appear(io, dir)?;
        Ok(lock)
    }

    /// Writes the file. It gets its name when it is complete and synced.
    fn appear(&self, io: &mut IoBackend, dir: &Path) -> Result<(), EngineError> {
        let unfinished = dir.join(UNFINISHED);
        io.aio().namespace().unlink(&unfinished).if_found()?;
        let written = io
            .write_new_file(&unfinished, self.text(ServerStatus::Starting).as_bytes())
            .and_then(|()| io.aio().namespace().rename_noreplace(&unfinished, &self.path));
        if let Err(error) = written {
            // If this fails, the file does no harm.
            let _ = io.aio().namespace().unlink(&unfinished);
            return Err(if io.aio().namespace().exists(&self.path)? {
                taken(dir, None)
            } else {
                error.into()
            });
        }
        if let Err(error) = io.aio().namespace().sync_dir(dir) {
            let _ = io.aio().namespace().unlink(&self.path);
            return Err(error.into());
        }
        Ok(())
    }

    /// Writes the server's state in place. The new contents are never shorter, so a reader finds
    /// old or new lines.
    pub(crate) fn set_status(
        &self,
        io: &mut IoBackend,
        status: ServerStatus,
    ) -> Result<(), EngineError> {
        let text = self.text(status);
        Ok(io.write_file_as(&self.path, &OpenOptions::READ_WRITE, text.as_bytes())?)
    }

    /// Removes the file, and unlocks the directory.
    pub(crate) fn release(self, namespace: &dyn Namespace) -> Result<(), EngineError> {
        namespace.unlink(&self.path).if_found()?;
        Ok(())
    }

    fn text(&self, status: ServerStatus) -> String {
        let mut text = self.lines.join("\n");
        text.push('\n');
        text.push_str(status.text());
        text.push('\n');
        text
    }
}

/// A server that runs on a data directory, as its lock file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningServer {
    /// Its process.
    pub pid: i32,
    /// Its port.
    pub port: u16,
    /// The directory of its Unix socket; empty if it has none.
    pub socket_dir: String,
    /// The address it listens on; empty if it has none.
    pub listen_addr: String,
}

/// The server that runs on a data directory, Forebay or PostgreSQL.
pub(crate) fn running(
    io: &mut IoBackend,
    dir: &Path,
) -> Result<Option<RunningServer>, EngineError> {
    let Some(text) = io.read_file_if_there(&dir.join(NAME))? else { return Ok(None) };
    Ok(parse_running(&text).filter(|server| is_alive(server.pid)))
}

fn parse_running(text: &[u8]) -> Option<RunningServer> {
    let pid = parse_pid(text)?;
    let text = String::from_utf8_lossy(text);
    let line = |n: usize| text.lines().nth(n).unwrap_or_default().trim().to_owned();
    // A file that is just being written has fewer lines.
    Some(RunningServer {
        pid,
        port: line(3).parse().unwrap_or(0),
        socket_dir: line(4),
        listen_addr: line(5),
    })
}

/// Locks a data directory without a lock file, for work on a cluster at rest, or says which server
/// has it. Forebay respects this lock; PostgreSQL does not.
pub(crate) fn hold_still(io: &mut IoBackend, dir: &Path) -> Result<File, EngineError> {
    let path = dir.join(NAME);
    let directory = io.aio().namespace().open(dir, &OpenOptions::READ)?;
    let held = io.aio().namespace().try_lock(&directory)?;
    let text = io.read_file_if_there(&path)?;
    if !held {
        return Err(taken(dir, text.and_then(|text| parse_pid(&text))));
    }
    if let Some(text) = text {
        refuse_if_alive(dir, &text)?;
    }
    Ok(directory)
}

fn parse_pid(text: &[u8]) -> Option<i32> {
    let line = text.split(|b| *b == b'\n').next()?;
    let pid: i32 = std::str::from_utf8(line).ok()?.trim().parse().ok()?;
    // PostgreSQL's stand-alone backend writes its id negated.
    pid.checked_abs().filter(|pid| *pid > 0)
}

/// Refuses if the file names a live process. Our own id cannot be another server's: the directory
/// was not locked.
fn refuse_if_alive(dir: &Path, text: &[u8]) -> Result<(), EngineError> {
    if text.is_empty() {
        return Err(EngineError::statement("F0001", format!("lock file \"{NAME}\" is empty"))
            .with_hint(
                "Either another server is starting, or the lock file is the remnant of a previous \
             server startup crash.",
            ));
    }
    let Some(pid) = parse_pid(text) else {
        let shown = String::from_utf8_lossy(text.split(|b| *b == b'\n').next().unwrap_or_default())
            .into_owned();
        return Err(EngineError::statement(
            "F0001",
            format!("bogus data in lock file \"{NAME}\": \"{shown}\""),
        ));
    };
    if u32::try_from(pid).is_ok_and(|pid| pid != std::process::id()) && is_alive(pid) {
        return Err(taken(dir, Some(pid)));
    }
    Ok(())
}

fn is_alive(pid: i32) -> bool {
    rustix::process::Pid::from_raw(pid)
        .is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

fn taken(dir: &Path, pid: Option<i32>) -> EngineError {
    let who = pid.map_or_else(String::new, |pid| format!(" (PID {pid})"));
    EngineError::statement("F0001", format!("lock file \"{NAME}\" already exists")).with_hint(
        format!("Is another postmaster{who} running in data directory \"{}\"?", dir.display()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_living_process_other_than_this_one_holds_the_file() {
        let dir = Path::new("/data");
        let own = format!("{}\n/data\n", std::process::id());
        refuse_if_alive(dir, own.as_bytes()).expect("our own remnant");
        let error = refuse_if_alive(dir, b"1\n/data\n").expect_err("process 1 lives");
        assert_eq!(error.to_string(), "lock file \"postmaster.pid\" already exists");
        let hint = "Is another postmaster (PID 1) running in data directory \"/data\"?";
        assert_eq!(error.hint().as_deref(), Some(hint));
        let error = refuse_if_alive(dir, b"hello\n").expect_err("no number");
        assert_eq!(error.to_string(), "bogus data in lock file \"postmaster.pid\": \"hello\"");
        refuse_if_alive(dir, b"").expect_err("empty");
        assert_eq!(parse_pid(b"-77\n"), Some(77));
    }

    #[test]
    fn the_file_tells_how_to_reach_the_server() {
        let text = b"77\n/data\n1795224099\n5433\n/run/sock\nlocalhost\n\nready   \n";
        let server = parse_running(text).expect("a server");
        assert_eq!((server.pid, server.port), (77, 5433));
        assert_eq!(
            (server.socket_dir.as_str(), server.listen_addr.as_str()),
            ("/run/sock", "localhost")
        );
        assert_eq!(parse_running(b"77\n").map(|server| server.port), Some(0));
        assert_eq!(parse_running(b""), None);
    }

    #[test]
    fn a_finished_process_is_not_alive() {
        let mut child = std::process::Command::new("true").spawn().expect("spawn");
        let pid = i32::try_from(child.id()).expect("pid");
        child.wait().expect("wait");
        assert!(!is_alive(pid));
        assert!(is_alive(i32::try_from(std::process::id()).expect("pid")));
    }
}
