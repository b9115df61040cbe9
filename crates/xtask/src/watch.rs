//! Runs a program (a step) under watch: with bounds on its total time and on its time without a
//! sign of life.
//!
//! A program hangs in one of three cases:
//!
//! - It takes longer than [`Bounds::total`].
//! - Its output is followed, and it prints nothing for [`Bounds::silent`].
//! - For [`Bounds::idle`] it prints nothing, and its processes use hardly any processor time.
//!
//! Then what its processes are doing is printed, they are killed, and the step fails. Other steps
//! that run at the same time go on.
//!
//! - [`processes`]: the processes below this one
//! - [`steps`]:     how long each program took

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use processes::Process;

pub mod processes;
pub mod steps;

const MINUTE: Duration = Duration::from_secs(60);
/// A program that uses fewer seconds of processor time within [`Bounds::idle`] is idle. Servers
/// that wait use some; a program that works uses more, even beside many others.
const BUSY: f64 = 3.0;

/// How long a program may take.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// In total.
    pub total: Duration,
    /// Without output, where the output is followed.
    pub silent: Duration,
    /// Without output and without using the processor.
    pub idle: Duration,
}

impl Bounds {
    /// For a program that takes so many minutes at most, on a busy machine. Tests have shorter
    /// bounds for their own children, since they can say more about what went wrong.
    pub const fn minutes(total: u64) -> Bounds {
        let silent = Duration::from_secs(60 * 20);
        Bounds {
            total: Duration::from_secs(60 * total),
            silent,
            idle: Duration::from_secs(60 * 15),
        }
    }

    /// For a multiple of the usual work.
    pub fn times(self, times: u64) -> Bounds {
        let times = u32::try_from(times.max(1)).unwrap_or(u32::MAX);
        let (total, silent) = (self.total.saturating_mul(times), self.silent.saturating_mul(times));
        Bounds { total, silent, ..self }
    }
}

/// For programs of which nothing else is known.
pub const USUAL: Bounds = Bounds::minutes(30);

/// How far a running program has come, by its output.
pub trait Progress: Sync {
    /// When it last printed something.
    fn last(&self) -> Instant;
    /// What it seems to be doing, to be printed if it hangs.
    fn at(&self) -> Vec<String>;
}

/// Runs a program to its end; its output goes where `command` says.
///
/// # Errors
/// When it can't be started, or hangs.
pub fn status(command: &mut Command, bounds: &Bounds) -> Result<ExitStatus, String> {
    let shown = show(command);
    let mut child = command.spawn().map_err(|e| format!("{shown}: {e}"))?;
    attend(&mut child, &shown, bounds, None)
}

/// Runs a program to its end, and gives what it prints.
///
/// # Errors
/// As [`status`].
pub fn output(command: &mut Command, bounds: &Bounds) -> Result<Output, String> {
    let shown = show(command);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("{shown}: {e}"))?;
    let errors = child.stderr.take();
    let (done, all_errors) = channel();
    thread::spawn(move || {
        // The receiver is gone if the program hangs.
        let _ = done.send(read_all(errors));
    });
    let (status, stdout) =
        run_listened(&mut child, &shown, bounds, None, |output| read_all(Some(output)))?;
    let stderr = whole(&all_errors, &shown, status, bounds)?;
    Ok(Output { status, stdout, stderr })
}

/// Runs a program to its end while `listen` reads its output.
///
/// # Errors
/// As [`status`].
pub fn follow<T: Send>(
    command: &mut Command,
    bounds: &Bounds,
    progress: &dyn Progress,
    listen: impl FnOnce(ChildStdout) -> T + Send,
) -> Result<(ExitStatus, T), String> {
    let shown = show(command);
    command.stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("{shown}: {e}"))?;
    run_listened(&mut child, &shown, bounds, Some(progress), listen)
}

/// Waits for a program that was told to end.
///
/// # Errors
/// When it hangs.
pub fn wait(child: &mut Child, shown: &str) -> Result<ExitStatus, String> {
    attend(child, shown, &USUAL, None)
}

/// A command as one would type it.
pub fn show(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

/// A debugger, where there is one.
fn debugger() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("gdb")).find(|file| file.is_file())
}

fn read_all(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    // After an error, what was read so far is all there is.
    let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
    bytes
}

fn run_listened<T: Send>(
    child: &mut Child,
    shown: &str,
    bounds: &Bounds,
    progress: Option<&dyn Progress>,
    listen: impl FnOnce(ChildStdout) -> T + Send,
) -> Result<(ExitStatus, T), String> {
    let output = child.stdout.take().ok_or_else(|| format!("{shown}: its output is not piped"))?;
    thread::scope(|scope| {
        let (done, all_output) = channel();
        scope.spawn(move || {
            // The receiver is gone if the program hangs.
            let _ = done.send(listen(output));
        });
        let status = attend(child, shown, bounds, progress)?;
        Ok((status, whole(&all_output, shown, status, bounds)?))
    })
}

/// The output of a program that has ended. A process that it left behind may hold its output open:
/// then that process is killed.
fn whole<T>(
    output: &Receiver<T>,
    shown: &str,
    status: ExitStatus,
    bounds: &Bounds,
) -> Result<T, String> {
    match output.recv_timeout(bounds.idle.min(MINUTE)) {
        Ok(result) => Ok(result),
        Err(RecvTimeoutError::Timeout) => {
            let left = processes::kill_adopted().join("\n");
            Err(format!(
                "{shown}: it has ended ({status}), but its output is held open; killed:\n{left}"
            ))
        }
        Err(RecvTimeoutError::Disconnected) => Err(format!("{shown}: its output can't be read")),
    }
}

/// Waits for a child of this process within bounds.
fn attend(
    child: &mut Child,
    shown: &str,
    bounds: &Bounds,
    progress: Option<&dyn Progress>,
) -> Result<ExitStatus, String> {
    let failed = |e: &dyn std::fmt::Display| format!("{shown}: {e}");
    let begun = Instant::now();
    let number = i32::try_from(child.id()).map_err(|e| failed(&e))?;
    let _running = processes::Step::begin(number);
    let pid = Pid::from_raw(number).ok_or_else(|| failed(&"it has no number"))?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|e| failed(&e))?;
    let pause = (bounds.idle.min(bounds.total) / 8).min(Duration::from_secs(10));
    let pause = Timespec::try_from(pause).map_err(|e| failed(&e))?;
    let (mut used, mut sign) = (0.0, begun);
    loop {
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&pause)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => break,
            Err(error) => return Err(failed(&error)),
        }
        let now: f64 = processes::tree(number).iter().map(Process::cpu_seconds).sum();
        // The sum falls when processes end whose parents have not waited for them.
        if now < used || now >= used + BUSY {
            (used, sign) = (now, Instant::now());
        }
        let last = progress.map_or(begun, Progress::last);
        let why = if begun.elapsed() > bounds.total {
            format!("it has not ended after {:?}", bounds.total)
        } else if sign.max(last).elapsed() > bounds.idle {
            format!("it has done nothing for {:?}", bounds.idle)
        } else if progress.is_some() && last.elapsed() > bounds.silent {
            format!("it has printed nothing for {:?}", bounds.silent)
        } else {
            continue;
        };
        return Err(end(child, shown, &why, progress));
    }
    // Its times can be read until it is waited for.
    let cpu = Process::find(number).map_or(0.0, |process| process.cpu_seconds());
    steps::add(shown, begun.elapsed(), cpu);
    child.wait().map_err(|e| failed(&e))
}

/// Prints what a program that hangs is doing, and kills it and everything below it.
fn end(child: &mut Child, shown: &str, why: &str, progress: Option<&dyn Progress>) -> String {
    let mut message = format!("{shown} hangs: {why}");
    for at in progress.map(Progress::at).unwrap_or_default() {
        message.push_str("\n    ");
        message.push_str(&at);
    }
    println!("{message}");
    if let Ok(number) = i32::try_from(child.id()) {
        println!("{}", processes::stacks(number, debugger().as_deref()));
        processes::kill_tree(number);
    }
    let _ = child.wait();
    // Servers that detached themselves are children of this process now.
    for left in processes::kill_adopted() {
        println!("killed too: {left}");
    }
    message
}

#[cfg(test)]
mod tests {
    use super::{Bounds, Command, Duration, output};

    #[test]
    fn errors_that_are_held_open_are_not_waited_for() {
        let bounds = Bounds { idle: Duration::from_secs(1), ..Bounds::minutes(5) };
        let mut program = Command::new("sh");
        program.args(["-c", "sleep 30 >&- & echo done"]);
        let said = output(&mut program, &bounds).expect_err("it takes too long");
        assert!(said.contains("its output is held open"), "{said}");
    }
}
