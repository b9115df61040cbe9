//! Programs that tests start. Their output is read while they run, every wait for them is bounded,
//! and none outlives its test. A program that can't be started, or hangs, panics.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use signal_hook::consts::{SIGINT, SIGQUIT};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, Once};
use std::thread;
use std::time::{Duration, Instant};

/// How long a program may take to end: more than it needs on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);
/// What the log of either server says when clients can connect.
const READY: &str = "ready to accept connections";

/// A command that runs `forebay serve` on a data directory, with its sockets in a folder.
pub fn serve(
    program: impl AsRef<OsStr>,
    data: &Path,
    port: u16,
    sockets: &Path,
    settings: &[&str],
) -> Command {
    let mut command = Command::new(program);
    command.arg("serve").arg("-D").arg(data).args(["-p", &port.to_string()]);
    command.arg("-c").arg(format!("unix_socket_directories={}", sockets.display()));
    command.args(settings.iter().flat_map(|setting| ["-c", setting])).stdin(Stdio::null());
    command
}

/// The command as arguments of another one: of a tracing program or a shell, for instance.
pub fn under(words: &[&str], command: &Command) -> Command {
    let Some((program, arguments)) = words.split_first() else { panic!("no program is named") };
    let mut outer = Command::new(program);
    outer.args(arguments).arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    outer
}

/// Runs a command to its end, which must be a success; its standard output.
pub fn must(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    succeeded(&output, &format!("{command:?}"))
}

/// The standard output of a program, which must have succeeded.
pub fn succeeded(output: &Output, program: &str) -> String {
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {}\n{said}\n{errors}", output.status);
    said.into_owned()
}

/// Runs a client to its end with `input` on its standard input.
pub fn feed(mut client: Command, input: &[u8]) -> Output {
    client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = client.spawn().expect("the client starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    thread::scope(|scope| {
        // A server that is killed breaks this pipe, as the client's status shows.
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().expect("the client ends")
    })
}

/// Sends a signal to a process, by its name with a dash.
pub fn signal(which: &str, pid: &str) {
    // Fails when the process has ended meanwhile.
    let _ = Command::new("kill").args([which, pid]).status();
}

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
    pub fn wait_until<T>(&self, found: impl FnMut(&[String]) -> Option<T>) -> Result<T, String> {
        self.wait_within(|| PATIENCE, found).unwrap_or_else(|| {
            panic!("{} prints nothing more:\n{}", self.name, self.printed());
        })
    }

    /// Like [`Child::wait_until`]; `None` if as much time as `silence` says passes without a line.
    fn wait_within<T>(
        &self,
        silence: impl Fn() -> Duration,
        mut found: impl FnMut(&[String]) -> Option<T>,
    ) -> Option<Result<T, String>> {
        let mut state = self.lines.state.lock().expect("no panic");
        loop {
            if let Some(found) = found(&state.0) {
                return Some(Ok(found));
            }
            if state.1 == 0 {
                return Some(Err(state.0.join("\n")));
            }
            let (locked, waited) =
                self.lines.changed.wait_timeout(state, silence()).expect("no panic");
            state = locked;
            if waited.timed_out() {
                return None;
            }
        }
    }

    /// Waits until a server's log says that it accepts connections.
    pub fn wait_until_ready(&self) {
        let ready = self.wait_for_line(READY);
        ready.unwrap_or_else(|log| panic!("{} is not ready, but says:\n{log}", self.name));
    }

    /// Waits until a server that must not start has ended; its log.
    pub fn wait_for_refusal(&self) -> String {
        self.wait_for_line(READY).expect_err("it must not start")
    }

    /// Waits for as long as given, or until a server accepts connections or ends.
    pub fn wait_for_start(&self, time: Duration) {
        let end = Instant::now() + time;
        let ready = |lines: &[String]| lines.iter().any(|line| line.contains(READY)).then_some(());
        let _ = self.wait_within(|| end.saturating_duration_since(Instant::now()), ready);
    }

    /// Waits until neither the program nor one that it started can print any more, and has ended;
    /// all that was printed.
    pub fn wait_for_all(&mut self) -> (ExitStatus, String) {
        let printed = self.wait_until(|_| None::<()>).err().unwrap_or_default();
        (self.wait(), printed)
    }

    /// Sends a signal, by its name with a dash.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.id().to_string()]).status();
        assert!(status.expect("kill runs").success(), "{name} is sent to {}", self.name);
    }

    /// A clean, fast stop of a server, whose process may be the program's child.
    pub fn stop(&mut self, pid: &str) {
        signal("-INT", pid);
        let status = self.wait();
        assert!(status.success(), "a clean stop exits with 0, not {status}");
    }

    /// `kill -9` of a server, then waits until the process is gone.
    pub fn kill(&mut self, pid: &str) {
        signal("-KILL", pid);
        let status = self.wait();
        assert_eq!(status.signal(), Some(9), "it had ended by itself: {status}");
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
pub(crate) fn pidfd(pid: u32) -> Option<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Waits until a process has ended; false if it takes too long.
pub(crate) fn ends_in_time(pidfd: &OwnedFd) -> bool {
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
    thread::spawn(move || {
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
