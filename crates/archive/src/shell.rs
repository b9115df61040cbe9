//! Runs the shell commands that the administrator configures.
//!
//! archive_command, restore_command, archive_cleanup_command and recovery_end_command are run in
//! the same way: by `/bin/sh -c`, in the data directory, with a process group of their own, so that
//! the processes they start can be stopped with them. They share the server's output.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::{fmt, io};

use forebay_aio::sync::Mutex;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// A command has an invalid placeholder.
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

/// Replaces each `%` and letter by its value, and `%%` by a percent sign.
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
    /// It exited with this status.
    Exit(i32),
    /// This signal killed it.
    Signal(i32),
}

impl Ended {
    /// Whether it exited with status 0.
    pub fn is_success(self) -> bool {
        self == Ended::Exit(0)
    }

    /// Whether a signal killed it or its status is above 125. A shell exits so if it found no
    /// command, could not run it, or if a signal killed the command. That says nothing about the
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
        match status.code() {
            Some(code) => Ended::Exit(code),
            None => Ended::Signal(status.signal().expect("a child without a status was killed")),
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

/// The C library's text for a signal.
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
    /// No command may start any more.
    stopped: bool,
    /// Process groups of the running commands.
    groups: Vec<Pid>,
}

/// Runs commands in a directory.
#[derive(Debug)]
pub struct Shell {
    dir: PathBuf,
    running: Mutex<Running>,
}

impl Shell {
    /// `dir` is the working directory of the commands.
    pub fn new(dir: &Path) -> Shell {
        Shell { dir: dir.to_path_buf(), running: Mutex::default() }
    }

    /// Runs a command to its end. Fails with ECANCELED after [`Shell::stop`].
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
            // Without WNOWAIT the process id could be reused before the group is removed from the
            // list, and `stop` would signal another process.
            let exited = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(waitid(WaitId::Pid(pid), exited), Err(rustix::io::Errno::INTR)) {}
            self.running.lock().groups.retain(|group| *group != pid);
        }
        child.wait().map(Ended::from)
    }

    /// Terminates the running commands and prevents further ones. A second call kills them.
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
    fn exits_and_signals_are_distinguished() {
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
    fn a_stop_ends_a_command_and_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let shell = Arc::new(Shell::new(dir.path()));
        let fifo = dir.path().join("fifo");
        assert!(shell.run("mkfifo fifo").unwrap().is_success());
        let runner = Arc::clone(&shell);
        // The echo waits for a reader of `fifo`; the cat waits for ever, as nobody writes to
        // `never`.
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
