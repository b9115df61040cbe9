//! Commands of the administrator's: their placeholders, their end.
//!
//! archive_command, restore_command, archive_cleanup_command and recovery_end_command are run
//! alike: by `/bin/sh -c`, in the data directory, with their own process group, so that what they
//! start can be stopped with them. Output goes where the server's goes.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::{fmt, io};

use forebay_aio::sync::Mutex;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// What is wrong with the placeholders of a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid value for parameter \"{parameter}\": \"{command}\"")]
pub struct PlaceholderError {
    /// The setting.
    pub parameter: &'static str,
    /// Its value.
    pub command: String,
    /// PostgreSQL's detail.
    pub detail: String,
}

/// Puts values in the places of `%` and a letter; `%%` is a percent sign.
pub fn substitute(
    command: &str,
    parameter: &'static str,
    values: &[(char, &str)],
) -> Result<String, PlaceholderError> {
    let wrong = |detail| PlaceholderError { parameter, command: command.to_owned(), detail };
    let mut out = String::with_capacity(command.len() + 64);
    let mut rest = command.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match rest.next() {
            Some('%') => out.push('%'),
            Some(letter) => match values.iter().find(|(known, _)| *known == letter) {
                Some((_, value)) => out.push_str(value),
                None => {
                    return Err(wrong(format!(
                        "String contains unexpected placeholder \"%{letter}\"."
                    )));
                }
            },
            None => {
                return Err(wrong(
                    "String ends unexpectedly after escape character \"%\".".to_owned(),
                ));
            }
        }
    }
    Ok(out)
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this status.
    Exit(i32),
    /// By a signal.
    Signal(i32),
}

impl Ended {
    /// With status 0.
    pub fn is_success(self) -> bool {
        self == Ended::Exit(0)
    }

    /// By a signal, or with a status above 125: a shell says so that it found no command, could not
    /// run it, or that it was ended by a signal. That tells of trouble here, and nothing about the
    /// archive.
    pub fn is_fatal(self) -> bool {
        match self {
            Ended::Exit(code) => code > 125,
            Ended::Signal(_) => true,
        }
    }
}

impl From<ExitStatus> for Ended {
    fn from(status: ExitStatus) -> Ended {
        match (status.code(), status.signal()) {
            (Some(code), _) => Ended::Exit(code),
            (None, signal) => Ended::Signal(signal.unwrap_or(0)),
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Ended::Exit(code) => write!(f, "failed with exit code {code}"),
            Ended::Signal(signal) => {
                write!(f, "was terminated by signal {signal}: {}", signal_text(signal))
            }
        }
    }
}

/// The C library's text.
fn signal_text(signal: i32) -> &'static str {
    match signal {
        1 => "Hangup",
        2 => "Interrupt",
        3 => "Quit",
        6 => "Aborted",
        9 => "Killed",
        11 => "Segmentation fault",
        13 => "Broken pipe",
        14 => "Alarm clock",
        15 => "Terminated",
        _ => "unrecognized signal",
    }
}

#[derive(Debug, Default)]
struct Running {
    /// Nothing is run any more.
    stopped: bool,
    /// Process groups, each that of its leader.
    groups: Vec<Pid>,
}

/// Runs commands in a directory.
#[derive(Debug)]
pub struct Shell {
    dir: PathBuf,
    running: Mutex<Running>,
}

impl Shell {
    /// Commands see `dir` as their working directory.
    pub fn new(dir: &Path) -> Shell {
        Shell { dir: dir.to_path_buf(), running: Mutex::default() }
    }

    /// Runs a command to its end. ECANCELED after [`Shell::stop`].
    pub fn run(&self, command: &str) -> io::Result<Ended> {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(command).current_dir(&self.dir).stdin(Stdio::null()).process_group(0);
        let mut running = self.running.lock();
        if running.stopped {
            return Err(rustix::io::Errno::CANCELED.into());
        }
        let mut child = shell.spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        running.groups.extend(pid);
        drop(running);
        if let Some(pid) = pid {
            // The number stays the child's until its end is taken note of, so nobody else is hit by
            // a signal.
            let exited = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(waitid(WaitId::Pid(pid), exited), Err(rustix::io::Errno::INTR)) {}
            self.running.lock().groups.retain(|group| *group != pid);
        }
        child.wait().map(Ended::from)
    }

    /// Ends what is running; nothing is run from now on. Called again, it does so without asking.
    pub fn stop(&self) {
        let mut running = self.running.lock();
        let signal =
            if std::mem::replace(&mut running.stopped, true) { Signal::KILL } else { Signal::TERM };
        for group in &running.groups {
            // It may have ended by itself.
            let _ = kill_process_group(*group, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_aio::sync::{Arc, thread};

    #[test]
    fn placeholders() {
        let put =
            |command| substitute(command, "archive_command", &[('p', "pg_wal/A"), ('f', "A")]);
        assert_eq!(put("cp %p /a/%f").unwrap(), "cp pg_wal/A /a/A");
        assert_eq!(put("date +%%Y-%%m; true").unwrap(), "date +%Y-%m; true");
        assert_eq!(put("").unwrap(), "");
        let wrong = put("cp %p %x").unwrap_err();
        assert_eq!(
            wrong.to_string(),
            "invalid value for parameter \"archive_command\": \"cp %p %x\""
        );
        assert_eq!(wrong.detail, "String contains unexpected placeholder \"%x\".");
        assert_eq!(
            put("true %").unwrap_err().detail,
            "String ends unexpectedly after escape character \"%\"."
        );
    }

    #[test]
    fn ends_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let shell = Shell::new(dir.path());
        let ended = |command| shell.run(command).unwrap();
        assert!(ended("true").is_success());
        assert_eq!(ended("exit 3"), Ended::Exit(3));
        assert!(!ended("exit 125").is_fatal());
        assert!(ended("/no/such/command 2>/dev/null").is_fatal());
        assert_eq!(ended("kill -9 $$"), Ended::Signal(9));
        assert_eq!(Ended::Signal(9).to_string(), "was terminated by signal 9: Killed");
        assert!(ended("test \"$(pwd -P)\" = \"$(cd . && pwd -P)\" && touch here").is_success());
        assert!(dir.path().join("here").exists(), "it runs in the directory");
    }

    #[test]
    fn a_stop_ends_what_runs_and_what_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let shell = Arc::new(Shell::new(dir.path()));
        let fifo = dir.path().join("fifo");
        assert!(shell.run("mkfifo fifo").unwrap().is_success());
        let runner = Arc::clone(&shell);
        // Writing to it waits for a reader, and nobody else ever writes to what the reader waits
        // for.
        let run =
            thread::spawn(move || runner.run("mkfifo never; (echo ready > fifo; cat never); true"));
        assert_eq!(std::fs::read_to_string(&fifo).unwrap(), "ready\n");
        shell.stop();
        assert_eq!(run.join().unwrap().unwrap(), Ended::Signal(15));
        assert_eq!(
            shell.run("true").unwrap_err().raw_os_error(),
            Some(rustix::io::Errno::CANCELED.raw_os_error())
        );
    }
}
