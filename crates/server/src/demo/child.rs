//! The server of a demonstration, as a process of its own.

use crate::client::Client;
use forebay_aio::sync::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Why a demonstration ends early, in words.
pub(super) type Failure = Box<dyn std::error::Error>;

/// Cleans up: kills the server process and removes the directory.
#[derive(Debug)]
pub(super) struct Guard {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    dir: PathBuf,
    keep: bool,
    pid: Mutex<Option<Pid>>,
    /// The latest server's log.
    log: Mutex<Vec<String>>,
}

impl Inner {
    fn kill(&self) {
        if let Some(pid) = self.pid.lock().take() {
            // Fails if it has ended.
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    fn clean_up(&self) {
        self.kill();
        if !self.keep {
            // Files that are left over are no error.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

impl Guard {
    /// Guards a directory and the servers started in it, against SIGINT and SIGTERM too.
    pub(super) fn new(dir: PathBuf, keep: bool) -> Guard {
        let inner =
            Arc::new(Inner { dir, keep, pid: Mutex::new(None), log: Mutex::new(Vec::new()) });
        if let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) {
            let inner = Arc::clone(&inner);
            forebay_aio::sync::thread::spawn(move || {
                if signals.forever().next().is_some() {
                    inner.clean_up();
                    std::process::exit(130);
                }
            });
        }
        Guard { inner }
    }

    /// Kills a server that still runs.
    pub(super) fn stop_server(&self) {
        self.inner.kill();
    }

    /// Prints the last lines of the server's log.
    pub(super) fn show_log(&self) {
        let log = self.inner.log.lock();
        for line in log.iter().skip(log.len().saturating_sub(15)) {
            eprintln!("    {line}");
        }
    }

    fn data_dir(&self) -> PathBuf {
        self.inner.dir.join("data")
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.inner.clean_up();
    }
}

/// A running server.
#[derive(Debug)]
pub(super) struct Child {
    process: std::process::Child,
    guard: Arc<Inner>,
    port: u16,
}

impl Child {
    /// Starts a server and waits until it accepts connections. If it ends instead, the error is its
    /// last message.
    pub(super) fn start(guard: &Guard, settings: &[&str]) -> Result<Child, Failure> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("serve").arg("-D").arg(guard.data_dir()).args(["-p", &port.to_string()]);
        command.args(["-c", "unix_socket_directories="]);
        for setting in settings {
            command.args(["-c", setting]);
        }
        let mut process =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        *guard.inner.pid.lock() = Pid::from_raw(i32::try_from(process.id())?);
        guard.inner.log.lock().clear();
        let mut lines =
            BufReader::new(process.stderr.take().ok_or("no log")?).lines().map_while(Result::ok);
        let mut ready = false;
        for line in lines.by_ref() {
            ready = line.contains("ready to accept connections");
            guard.inner.log.lock().push(line);
            if ready {
                break;
            }
        }
        if !ready {
            process.wait()?;
            guard.inner.pid.lock().take();
            let log = guard.inner.log.lock();
            let said = log.iter().rposition(|l| l.contains("FATAL:  ")).map(|at| {
                // Its details follow, indented.
                let first = log[at].split_once("FATAL:  ").map_or("", |(_, text)| text).to_owned();
                let more = log.iter().skip(at + 1).take_while(|l| l.starts_with('\t'));
                more.fold(first, |text, line| format!("{text}; {}", line.trim()))
            });
            return Err(said
                .unwrap_or_else(|| "the server ended while it started".to_owned())
                .into());
        }
        // The log must be read, or the server would wait for room in the pipe.
        let inner = Arc::clone(&guard.inner);
        forebay_aio::sync::thread::spawn(move || {
            lines.for_each(|line| inner.log.lock().push(line))
        });
        Ok(Child { process, guard: Arc::clone(&guard.inner), port })
    }

    /// Connects.
    pub(super) fn client(&self) -> Result<Client, Failure> {
        Ok(Client::tcp(self.port)?)
    }

    /// Rows of the table.
    pub(super) fn count(&self) -> Result<u64, Failure> {
        let answer = self.client()?.query("SELECT count(*) FROM demo")?;
        Ok(answer.value().ok_or("count(*) gave no value")?.parse()?)
    }

    /// Stops it cleanly.
    pub(super) fn stop(self) -> Result<(), Failure> {
        let status = self.end(Signal::INT)?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("the server stopped with {status}").into())
        }
    }

    /// Kills it.
    pub(super) fn kill(self) -> Result<(), Failure> {
        self.end(Signal::KILL).map(|_| ())
    }

    fn end(mut self, signal: Signal) -> Result<std::process::ExitStatus, Failure> {
        kill_process(
            Pid::from_raw(i32::try_from(self.process.id())?).ok_or("no process")?,
            signal,
        )?;
        let status = self.process.wait()?;
        self.guard.pid.lock().take();
        Ok(status)
    }
}
