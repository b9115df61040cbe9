//! How long each program took.

use std::sync::Mutex;
use std::time::Duration;

/// Programs that took less are not listed.
const LEAST: Duration = Duration::from_secs(2);

struct Step {
    shown: String,
    took: Duration,
    cpu_seconds: f64,
}

static STEPS: Mutex<Vec<Step>> = Mutex::new(Vec::new());

/// Notes a program that has ended.
pub fn add(shown: &str, took: Duration, cpu_seconds: f64) {
    let step = Step { shown: shown.to_owned(), took, cpu_seconds };
    STEPS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(step);
}

/// The programs in the order in which they ended, with their seconds by the clock and of processor
/// time, and the sums.
pub fn table() -> String {
    let steps = STEPS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut text = "seconds processor\n".to_owned();
    for step in steps.iter().filter(|step| step.took >= LEAST) {
        text.push_str(&line(step.took, step.cpu_seconds, &step.shown));
    }
    let took = steps.iter().map(|step| step.took).sum();
    let cpu = steps.iter().map(|step| step.cpu_seconds).sum();
    text + &line(took, cpu, "in all, of programs side by side each")
}

fn line(took: Duration, cpu_seconds: f64, what: &str) -> String {
    let what: String = what.chars().take(120).collect();
    format!("{:>7.0} {cpu_seconds:>9.0}  {what}\n", took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::{Duration, add, table};

    #[test]
    fn what_takes_time_is_listed() {
        add("cargo a", Duration::from_secs(90), 170.0);
        add("cargo b", Duration::from_secs(1), 1.0);
        let table = table();
        assert!(table.contains("     90       170  cargo a\n"), "{table}");
        assert!(!table.contains("cargo b"), "{table}");
    }
}
