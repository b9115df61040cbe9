//! The processor's time of a process with its children.

use std::fs;

/// Clock ticks a second, which Linux fixes for what it tells programs.
const TICKS: f64 = 100.0;

/// Seconds that a process has worked, with the children that have ended and those that run.
///
/// # Errors
/// When there is no such process.
pub fn seconds_of(process: u32) -> Result<f64, String> {
    let mut ticks = own_and_ended(process)?;
    for child in children(process)? {
        // One that has ended meanwhile counts at its parent.
        ticks += own_and_ended(child).unwrap_or(0);
    }
    Ok(ticks as f64 / TICKS)
}

/// Numbers of the processes that its first thread has started and that run.
///
/// # Errors
/// When there is no such process.
pub fn children(process: u32) -> Result<Vec<u32>, String> {
    let path = format!("/proc/{process}/task/{process}/children");
    let children = fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    Ok(children.split_whitespace().filter_map(|child| child.parse().ok()).collect())
}

/// User and system time of a process, and of its children that it has waited for.
fn own_and_ended(process: u32) -> Result<u64, String> {
    let path = format!("/proc/{process}/stat");
    let stat = fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    ticks(&stat).ok_or_else(|| format!("{path}: {stat}"))
}

/// Fields 14 to 17, counted from 1; the second is a name in parentheses that may have blanks.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let times = rest.split(' ').skip(11).take(4).map(|field| field.parse::<u64>().ok());
    times.sum()
}

#[cfg(test)]
mod tests {
    use super::{seconds_of, ticks};

    #[test]
    fn times_stand_behind_a_name_with_blanks() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 5";
        assert_eq!(ticks(stat), Some(100));
        assert_eq!(ticks("7 (a"), None);
        assert!(seconds_of(std::process::id()).is_ok_and(|seconds| seconds >= 0.0));
    }
}
