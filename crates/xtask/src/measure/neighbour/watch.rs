//! Watches a cgroup each second, and lets the neighbour come and go.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::measure::cgroup::{Group, Memory};
use crate::measure::ticks;

/// How much the neighbour takes, as a percentage of the memory.
const TAKEN: u64 = 60;
/// It holds the memory for the second half of each minute.
const MINUTE: u64 = 60;
const SECOND: Duration = Duration::from_secs(1);

/// A second.
#[derive(Clone, Copy, Default)]
pub struct Second {
    /// Whether the neighbour had the memory.
    pub taken: bool,
    /// Bytes of the server's own memory.
    pub server: f64,
    /// Bytes that the group uses, with the kernel's cache.
    pub group: f64,
    /// How often the bound was hit in this second.
    pub failures: u64,
    /// Percentage of the second in which something waited for memory.
    pub waited: f64,
}

/// What a run has shown.
pub struct Seen {
    /// Transactions of each second.
    pub rates: Vec<f64>,
    /// Each second.
    pub seconds: Vec<Second>,
    /// How often the bound was hit.
    pub failures: u64,
    /// Processes that the kernel has killed.
    pub oom_kills: u64,
    /// Neighbours that were killed.
    pub neighbours_killed: u64,
    /// The most bytes that were swapped out.
    pub swapped: u64,
    /// Why the load ended before its time.
    pub failed: Option<String>,
}

/// Watches.
pub struct Watch<'w> {
    group: &'w Group,
    /// Takes the memory, in the group.
    neighbour: Command,
    running: Option<Child>,
    period: u64,
    /// Times that the neighbour has come.
    came: u64,
    killed: u64,
    failures: u64,
    waited: u64,
    swapped: u64,
    seconds: Vec<Second>,
}

/// Seconds from one coming of the neighbour to the next: a minute, less in a short trial.
pub fn period(seconds: u64) -> u64 {
    (seconds / 3).clamp(4, MINUTE)
}

impl<'w> Watch<'w> {
    /// Nothing runs yet. The memory is in MB.
    ///
    /// # Errors
    /// When this program can't be found, or the group can't be read.
    pub fn new(group: &'w Group, memory: u64, seconds: u64) -> Result<Watch<'w>, String> {
        let period = period(seconds);
        let mut neighbour = Command::new(std::env::current_exe().map_err(|e| e.to_string())?);
        let taken = (memory * TAKEN / 100).to_string();
        neighbour.args(["occupy", &taken, &(period / 2).to_string()]);
        let mut neighbour = group.command(&neighbour);
        neighbour.stdout(Stdio::null());
        Ok(Watch {
            group,
            neighbour,
            running: None,
            period,
            came: 0,
            killed: 0,
            failures: group.memory()?.failures,
            waited: group.waited().unwrap_or(0),
            swapped: 0,
            seconds: Vec::new(),
        })
    }

    /// Watches while something runs.
    ///
    /// # Errors
    /// Its error, or when the group can't be read.
    pub fn beside<T>(&mut self, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        let result = ticks::beside(SECOND, |at| self.tick(at.as_secs()), work);
        self.end();
        result
    }

    /// What was seen.
    ///
    /// # Errors
    /// When the group can't be read.
    pub fn seen(mut self, before: &Memory, rates: Vec<f64>) -> Result<Seen, String> {
        let now = self.group.memory()?;
        Ok(Seen {
            rates,
            seconds: std::mem::take(&mut self.seconds),
            failures: now.failures.saturating_sub(before.failures),
            oom_kills: now.oom_kills.saturating_sub(before.oom_kills),
            neighbours_killed: self.killed,
            swapped: self.swapped.max(now.swapped),
            failed: None,
        })
    }

    /// Looks at the second that has passed.
    fn tick(&mut self, at: u64) -> Result<(), String> {
        let taken = self.is_taken()?;
        let memory = self.group.memory()?;
        let waited = self.group.waited().unwrap_or(0);
        let neighbour = self.running.as_ref().map(Child::id);
        let processes = self.group.processes()?;
        let server = processes.into_iter().filter(|process| Some(*process) != neighbour);
        let second = Second {
            taken,
            server: resident(server.filter_map(status)),
            group: memory.used as f64,
            failures: memory.failures.saturating_sub(self.failures),
            // Microseconds of a second.
            waited: waited.saturating_sub(self.waited) as f64 / 1e4,
        };
        (self.failures, self.waited) = (memory.failures, waited);
        self.swapped = self.swapped.max(memory.swapped);
        // Seconds that were missed were like this one.
        let missing = usize::try_from(at).map_err(|e| e.to_string())?.max(self.seconds.len() + 1);
        self.seconds.resize(missing, second);
        if comes(at, self.period) > self.came {
            self.came = comes(at, self.period);
            self.end();
            let started = self.neighbour.spawn();
            self.running = Some(started.map_err(|e| format!("the neighbour: {e}"))?);
        }
        Ok(())
    }

    /// Whether the neighbour is there. One that did not end by itself was killed.
    fn is_taken(&mut self) -> Result<bool, String> {
        let Some(running) = &mut self.running else { return Ok(false) };
        let Some(status) = running.try_wait().map_err(|e| format!("the neighbour: {e}"))? else {
            return Ok(true);
        };
        self.killed += u64::from(!status.success());
        self.running = None;
        Ok(false)
    }

    /// Ends the neighbour.
    fn end(&mut self) {
        if let Some(mut running) = self.running.take() {
            // Both fail only if it has ended.
            let _ = running.kill();
            let _ = running.wait();
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// How often the neighbour has come until a second: in the middle of each period.
fn comes(second: u64, period: u64) -> u64 {
    (second + period - period / 2) / period
}

fn status(process: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{process}/status")).ok()
}

/// Bytes of the memory of processes, with what they share counted once.
fn resident(processes: impl Iterator<Item = String>) -> f64 {
    let (mut own, mut shared) = (0.0, 0.0_f64);
    for status in processes {
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix(" kB")?.parse().ok().map(|kib: f64| kib * 1024.0)
        };
        own += bytes("RssAnon:").unwrap_or(0.0);
        shared = shared.max(bytes("RssShmem:").unwrap_or(0.0));
    }
    own + shared
}

#[cfg(test)]
mod tests {
    use super::{comes, period, resident};

    #[test]
    fn the_neighbour_comes_in_the_middle_of_each_minute() {
        let came = [0, 29, 30, 59, 89, 90, 1199].map(|second| comes(second, 60));
        assert_eq!(came, [0, 0, 1, 1, 1, 2, 20]);
        assert_eq!([9, 30, 180, 1200].map(period), [4, 10, 60, 60]);
    }

    #[test]
    fn shared_memory_counts_once() {
        let process = |own: u32, shared: u32| {
            format!("Name:\tx\nRssAnon:\t{own} kB\nRssFile:\t9 kB\nRssShmem:\t {shared} kB\n")
        };
        let all = [process(10, 100), process(5, 70), "Name:\tgone\n".to_owned()];
        assert_eq!(resident(all.into_iter()), 115.0 * 1024.0);
    }
}
