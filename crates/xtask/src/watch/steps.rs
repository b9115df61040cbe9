//! How long each program took, and each stage of a run.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// Programs that took less are not listed.
const LEAST: Duration = Duration::from_secs(2);

struct Step {
    shown: String,
    /// The thread that ran it.
    thread: ThreadId,
    took: Duration,
    cpu_seconds: f64,
}

struct Stage {
    name: &'static str,
    took: Duration,
    cpu_seconds: f64,
}

struct Taken {
    steps: Vec<Step>,
    stages: Vec<Stage>,
}

static TAKEN: Mutex<Taken> = Mutex::new(Taken { steps: Vec::new(), stages: Vec::new() });

fn taken() -> MutexGuard<'static, Taken> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes a program that has ended.
pub fn add(shown: &str, took: Duration, cpu_seconds: f64) {
    let thread = thread::current().id();
    taken().steps.push(Step { shown: shown.to_owned(), thread, took, cpu_seconds });
}

/// Runs a part of a run, and notes how long it took, and the programs that this thread ran for it.
/// Other stages may run side by side, each in a thread of its own.
pub fn stage<T>(name: &'static str, work: impl FnOnce() -> T) -> T {
    let (begun, first) = (Instant::now(), taken().steps.len());
    let result = work();
    let (thread, mut taken) = (thread::current().id(), taken());
    let own = taken.steps[first..].iter().filter(|step| step.thread == thread);
    let cpu_seconds = own.map(|step| step.cpu_seconds).sum();
    taken.stages.push(Stage { name, took: begun.elapsed(), cpu_seconds });
    result
}

/// The programs in the order in which they ended, with their seconds by the clock and of processor
/// time. Then the stages, in minutes.
pub fn table(all: Duration) -> String {
    let taken = taken();
    let mut text = "seconds processor\n".to_owned();
    for step in taken.steps.iter().filter(|step| step.took >= LEAST) {
        let what: String = step.shown.chars().take(120).collect();
        let seconds = step.took.as_secs_f64();
        text.push_str(&format!("{seconds:>7.0} {:>9.0}  {what}\n", step.cpu_seconds));
    }
    text.push_str("\nminutes processor\n");
    for stage in &taken.stages {
        text.push_str(&minutes(stage.took, stage.cpu_seconds, stage.name));
    }
    let cpu_seconds = taken.steps.iter().map(|step| step.cpu_seconds).sum();
    text + &minutes(all, cpu_seconds, "in all")
}

fn minutes(took: Duration, cpu_seconds: f64, what: &str) -> String {
    format!("{:>7.1} {:>9.1}  {what}\n", took.as_secs_f64() / 60.0, cpu_seconds / 60.0)
}

#[cfg(test)]
mod tests {
    use super::{Duration, add, stage, table};

    #[test]
    fn what_takes_time_is_listed() {
        stage("builds", || {
            add("cargo a", Duration::from_secs(90), 150.0);
            add("cargo b", Duration::from_secs(1), 6.0);
        });
        let table = table(Duration::from_secs(120));
        assert!(table.contains("     90       150  cargo a\n"), "{table}");
        assert!(!table.contains("cargo b"), "{table}");
        assert!(table.contains("    0.0       2.6  builds\n"), "{table}");
        assert!(table.contains("    2.0 "), "{table}");
    }
}
