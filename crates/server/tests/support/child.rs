//! Programs that tests start. Their output is read while they run, every wait for them is bounded,
//! and none outlives its test.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use signal_hook::consts::{SIGINT, SIGQUIT};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, Once};
use std::time::Duration;

/// How long a program may take to end: more than it needs on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// Lines that were read, and how many pipes are still open.
#[derive(Default)]
struct Lines {
    state: Mutex<(Vec<String>, usize)>,
    changed: Condvar,
}

/// A running program; killed when dropped.
pub struct Child {
    process: std::process::Child,
    name: String,
    lines: Arc<Lines>,
}

impl Child {
    /// Starts a program. Its standard error, and its standard output if that is piped, are read
    /// from now on.
    pub fn spawn(command: &mut Command) -> Child {
        Child::spawn_with(command, Stdio::piped())
    }

    /// Like [`Child::spawn`], with its standard error redirected.
    pub fn spawn_with(command: &mut Command, errors: Stdio) -> Child {
        default_signals();
        let name = format!("{command:?}");
        let started = command.stderr(errors).spawn();
        let mut process = started.unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        let lines = Arc::new(Lines::default());
        if let Some(errors) = process.stderr.take() {
            drain(errors, &lines);
        }
        if let Some(output) = process.stdout.take() {
            drain(output, &lines);
        }
        Child { process, name, lines }
    }

    /// The process's number.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// What it has printed so far.
    pub fn printed(&self) -> String {
        self.lines.state.lock().expect("no panic").0.join("\n")
    }

    /// Waits for a line that contains `text`. The error, if the program ends without one, is
    /// everything it has printed.
    pub fn wait_for_line(&self, text: &str) -> Result<String, String> {
        self.wait_until(|lines| lines.iter().find(|line| line.contains(text)).cloned())
    }

    /// Waits until `found` finds something in its lines. The error, if the program ends before, is
    /// everything it has printed.
    pub fn wait_until<T>(
        &self,
        mut found: impl FnMut(&[String]) -> Option<T>,
    ) -> Result<T, String> {
        let mut state = self.lines.state.lock().expect("no panic");
        loop {
            if let Some(found) = found(&state.0) {
                return Ok(found);
            }
            if state.1 == 0 {
                return Err(state.0.join("\n"));
            }
            let (locked, waited) =
                self.lines.changed.wait_timeout(state, PATIENCE).expect("no panic");
            state = locked;
            let printed = &state.0;
            assert!(!waited.timed_out(), "{} prints nothing more: {printed:#?}", self.name);
        }
    }

    /// Sends a signal, by its name with a dash.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.id().to_string()]).status();
        assert!(status.expect("kill runs").success(), "{name} is sent to {}", self.name);
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        self.process.try_wait().expect("it can be waited for").is_none()
    }

    /// Waits until it has ended. One that does not end is killed, and the test fails.
    pub fn wait(&mut self) -> ExitStatus {
        let running = if self.is_running() { pidfd(self.id()) } else { None };
        if running.is_some_and(|process| !ends_in_time(&process)) {
            let _ = self.process.kill();
            panic!("{} does not end; it has printed\n{}", self.name, self.printed());
        }
        self.process.wait().expect("it can be waited for")
    }
}

/// A process, if it is there.
pub fn pidfd(pid: u32) -> Option<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Waits until a process has ended; false if it takes too long.
pub fn ends_in_time(pidfd: &OwnedFd) -> bool {
    let bound = Timespec::try_from(PATIENCE).expect("it fits");
    loop {
        match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&bound)) {
            Err(rustix::io::Errno::INTR) => {}
            ready => return ready.expect("poll works") > 0,
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn drain(pipe: impl Read + Send + 'static, lines: &Arc<Lines>) {
    let lines = Arc::clone(lines);
    lines.state.lock().expect("no panic").1 += 1;
    std::thread::spawn(move || {
        // Not `lines()`: text that is not UTF-8 would end it.
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            lines.state.lock().expect("no panic").0.push(line);
            lines.changed.notify_all();
        }
        lines.state.lock().expect("no panic").1 -= 1;
        lines.changed.notify_all();
    });
}

/// Restores the default of SIGINT and SIGQUIT in children. A shell ignores these signals in its
/// background jobs, which children would inherit. A signal with a handler here has its default in a
/// child, and the handler does what the default does.
fn default_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in [SIGINT, SIGQUIT] {
            let always = Arc::new(AtomicBool::new(true));
            signal_hook::flag::register_conditional_default(signal, always).expect("a handler");
        }
    });
}
