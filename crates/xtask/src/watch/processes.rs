//! Processes below this one, as /proc shows them: finds them, shows what they do, kills them.
//!
//! This process adopts what its children leave behind ([`adopt`]), so it also finds a server that
//! detached itself from the test that started it. Only processes below this one are ever signalled.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_open, set_child_subreaper,
    waitpid,
};
use signal_hook::consts::{SIGCHLD, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

/// How many processes' stacks are printed at most, and how many characters of each.
const MOST: usize = 60;
const MOST_TEXT: usize = 20_000;

/// How often to look whether killed processes are gone, once a second. Those that the kernel holds
/// longer are given up.
const ROUNDS: usize = 60;
const SECOND: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// A line of /proc/PID/stat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    name: String,
    state: char,
    parent: i32,
    session: i32,
    /// Its own processor time and that of children it has waited for, in clock ticks.
    own: u64,
    waited: u64,
}

impl Process {
    /// A process, unless it is gone.
    pub fn find(pid: i32) -> Option<Process> {
        Process::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// "PID (NAME) STATE PPID PGRP SESSION ...": the name may hold anything.
    fn parse(stat: &str) -> Option<Process> {
        let (pid, rest) = stat.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Process {
            pid: pid.parse().ok()?,
            name: name.to_owned(),
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            own: number(11)? + number(12)?,
            waited: number(13)? + number(14)?,
        })
    }

    /// Seconds of processor time, with those of children it has waited for.
    pub fn cpu_seconds(&self) -> f64 {
        (self.own + self.waited) as f64 / rustix::param::clock_ticks_per_second() as f64
    }

    fn command_line(&self) -> String {
        let bytes = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_owned()
    }
}

/// A process and all below it, parents first.
pub fn tree(root: i32) -> Vec<Process> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    for process in pids.filter_map(Process::find) {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found: Vec<Process> = Process::find(root).into_iter().collect();
    let mut next = 0;
    while let Some(process) = found.get(next) {
        found.extend(children.remove(&process.pid).unwrap_or_default());
        next += 1;
    }
    found
}

/// Kills a process and all below it, but not this process itself.
pub fn kill_tree(root: i32) {
    let own = getpid().as_raw_nonzero().get();
    for _ in 0..ROUNDS {
        // A killed process may just have started another.
        let alive = |process: &Process| process.pid != own && process.state != 'Z';
        let alive: Vec<Process> = tree(root).into_iter().filter(alive).collect();
        if alive.is_empty() {
            return;
        }
        for pid in alive.iter().filter_map(|process| Pid::from_raw(process.pid)) {
            // Fails if it has ended.
            let _ = kill_process(pid, Signal::KILL);
        }
        // It is gone when the kernel has released what it held.
        let pidfd =
            Pid::from_raw(alive[0].pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        if let Some(pidfd) = pidfd {
            let _ = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&SECOND));
        }
    }
}

/// Held by what ends this process.
static ENDING: Mutex<()> = Mutex::new(());

/// Whether [`adopt`] was called.
static ADOPTS: AtomicBool = AtomicBool::new(false);

/// Numbers of the programs that this process has started and waits for.
static STEPS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn steps() -> MutexGuard<'static, BTreeSet<i32>> {
    STEPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program that runs under watch, until this is dropped. It is no process left behind.
pub struct Step(i32);

impl Step {
    /// Notes that a program runs.
    pub fn begin(pid: i32) -> Step {
        steps().insert(pid);
        Step(pid)
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        steps().remove(&self.0);
    }
}

/// Kills the processes that children have left behind, if this process adopts them, and all below
/// them. Programs that run under watch go on. Returns a line for each process.
pub fn kill_adopted() -> Vec<String> {
    let own = getpid().as_raw_nonzero().get();
    let roots = adopted(&tree(own), own, &steps());
    roots.into_iter().flat_map(kill_and_name).collect()
}

/// Kills everything below this process, if it adopts what its children leave behind. Returns a line
/// for each process.
pub fn kill_all() -> Vec<String> {
    kill_and_name(getpid().as_raw_nonzero().get())
}

/// The children of this process that it did not start as a step.
fn adopted(all: &[Process], own: i32, steps: &BTreeSet<i32>) -> Vec<i32> {
    let left = |process: &&Process| process.parent == own && process.state != 'Z';
    let pids = all.iter().filter(left).map(|process| process.pid);
    pids.filter(|pid| !steps.contains(pid)).collect()
}

/// Kills a process and all below it, but not this process itself, if this process adopts.
fn kill_and_name(root: i32) -> Vec<String> {
    if !ADOPTS.load(Ordering::SeqCst) {
        return Vec::new();
    }
    let own = getpid().as_raw_nonzero().get();
    let left = tree(root).into_iter().filter(|process| process.pid != own && process.state != 'Z');
    let left = left.map(|process| format!("{} {}", process.pid, process.command_line())).collect();
    kill_tree(root);
    left
}

/// The same at the end of a task. Does not return if a signal is ending this process: the task ends
/// because its children were killed.
pub fn end() -> Vec<String> {
    let _ending = ENDING.lock();
    kill_all()
}

/// Makes this process the parent of what its children leave behind, and kills everything below it
/// when it gets SIGINT, SIGQUIT or SIGTERM.
///
/// The handlers have another effect: signals that this process was started with as ignored get the
/// default action in its children. A shell starts background jobs with SIGINT ignored, and a test
/// that sends it would wait for ever.
///
/// # Errors
/// When the system can't do it.
pub fn adopt() -> Result<(), String> {
    set_child_subreaper(Some(getpid())).map_err(|e| format!("PR_SET_CHILD_SUBREAPER: {e}"))?;
    let signals = Signals::new([SIGCHLD, SIGINT, SIGQUIT, SIGTERM]);
    let mut signals = signals.map_err(|e| format!("signal handlers: {e}"))?;
    ADOPTS.store(true, Ordering::SeqCst);
    thread::spawn(move || {
        for signal in signals.forever() {
            if signal == SIGCHLD {
                reap();
            } else {
                let _ending = ENDING.lock();
                kill_all();
                std::process::exit(128 + signal);
            }
        }
    });
    Ok(())
}

/// Waits for adopted servers that have ended. Else their numbers would stay in use, and a lock file
/// with such a number would look as if its server lived. Servers have a session of their own;
/// children that this process started are in its own session, and are waited for elsewhere.
fn reap() {
    let own = getpid().as_raw_nonzero().get();
    let all = tree(own);
    let session = all.first().map(|process| process.session);
    for process in &all {
        if process.parent == own && process.state == 'Z' && Some(process.session) != session {
            // It fails if another thread has waited for it.
            let _ = Pid::from_raw(process.pid).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
        }
    }
}

/// What the processes from `root` down are doing: the command line of each, where in the kernel its
/// threads wait, and their stacks, by `debugger` if there is one.
pub fn stacks(root: i32, debugger: Option<&Path>) -> String {
    let mut text = String::new();
    let all = tree(root);
    for process in all.iter().filter(|process| process.state != 'Z').take(MOST) {
        let (pid, state, name) = (process.pid, process.state, &process.name);
        // Writing to a string can't fail.
        let _ = writeln!(
            text,
            "-- {pid} ({name}) {state}, {:.1} s: {}",
            process.cpu_seconds(),
            process.command_line()
        );
        let mut threads: Vec<_> =
            fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten().collect();
        threads.sort_by_key(std::fs::DirEntry::file_name);
        for thread in threads {
            let read = |name| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
            let (name, wait, call) = (read("comm"), read("wchan"), read("syscall"));
            let (name, call) = (name.trim_end(), call.trim_end());
            let _ = writeln!(
                text,
                "   {} {name}: waits in {wait}, system call {call}",
                thread.file_name().display()
            );
            read("stack").lines().for_each(|line| text.push_str(&format!("      {line}\n")));
        }
        if let Some(debugger) = debugger {
            text.push_str(&backtraces(debugger, pid));
        }
    }
    if all.len() > MOST {
        let _ = writeln!(text, "-- and {} processes more", all.len() - MOST);
    }
    text
}

fn backtraces(debugger: &Path, pid: i32) -> String {
    // A debugger that hangs must not keep this process from looking at the others.
    let mut gdb = Command::new("timeout");
    gdb.args(["-k", "5", "60"]).arg(debugger).args(["-p", &pid.to_string(), "-batch", "-ex"]);
    gdb.args(["thread apply all bt", "-iex", "set debuginfod enabled off"]);
    match gdb.stdin(Stdio::null()).stderr(Stdio::null()).output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).chars().take(MOST_TEXT).collect(),
        Err(error) => format!("   no backtraces: {}: {error}\n", debugger.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::{BTreeSet, Process, adopted};

    #[test]
    fn steps_are_not_left_behind() {
        let process = |pid: i32, state: char, parent: i32| {
            let stat = format!("{pid} (a) {state} {parent} 8 9 0 -1 0 1 2 3 4 1 2 3 4 20 0 1");
            Process::parse(&stat).expect("a process")
        };
        let all = [process(2, 'S', 1), process(3, 'S', 1), process(4, 'Z', 1), process(5, 'S', 3)];
        assert_eq!(adopted(&all, 1, &BTreeSet::from([2])), [3]);
    }

    #[test]
    fn a_name_may_hold_anything() {
        let rest = "S 7 8 9 0 -1 4194560 1 2 3 4 100 20 3 4 20 0 1";
        let process = Process::parse(&format!("12 (a) (b c) {rest}")).expect("a process");
        assert_eq!((process.pid, process.name.as_str(), process.parent), (12, "a) (b c", 7));
        assert_eq!((process.session, process.own, process.waited), (9, 120, 7));
        assert_eq!(Process::parse("12 (gone"), None);
    }
}
