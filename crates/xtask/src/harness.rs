//! Reads what Rust's test harness prints, while it runs: counts outcomes, decides what is shown,
//! and knows which tests still run.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::watch::Progress;

/// Outcome counts over all test binaries.
#[derive(Default)]
pub struct Counts {
    /// Tests that passed; skipped ones count too.
    pub passed: usize,
    /// Tests that failed.
    pub failed: usize,
    /// What was skipped, and why.
    pub skipped: Vec<String>,
    /// For each test that failed its name and what it printed from its panic on, in part.
    pub failures: Vec<String>,
}

/// Lines and bytes of a failed test's output that are printed once more at the end of a run.
const LINES_OF_A_FAILURE: usize = 12;
const BYTES_OF_A_FAILURE: usize = 1500;

impl Counts {
    /// Adds others.
    pub fn add(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped.extend(other.skipped);
        self.failures.extend(other.failures);
    }
}

/// The tests that run now.
pub struct Running {
    state: Mutex<Tests>,
}

struct Tests {
    last: Instant,
    /// Tests that the harness has called slow, and that have not ended.
    slow: BTreeSet<String>,
    /// How many have ended of how many, in this binary.
    ended: usize,
    announced: usize,
    /// An incomplete line: with one thread, the name of the test that runs.
    partial: String,
}

impl Default for Running {
    fn default() -> Running {
        let (slow, partial) = (BTreeSet::new(), String::new());
        let state = Tests { last: Instant::now(), slow, ended: 0, announced: 0, partial };
        Running { state: Mutex::new(state) }
    }
}

impl Running {
    fn change(&self, change: impl FnOnce(&mut Tests)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.last = Instant::now();
        change(&mut state);
    }

    fn line(&self, line: &str) {
        self.change(|state| {
            state.partial.clear();
            if let Some(rest) = line.strip_prefix("running ") {
                (state.ended, state.announced) = (0, count_before(rest, " test"));
                state.slow.clear();
            } else if line.starts_with("test result: ") {
                (state.ended, state.announced) = (0, 0);
                state.slow.clear();
            } else if let Some(rest) = line.strip_prefix("test ") {
                if let Some(name) = rest.split_once(" has been running for over") {
                    state.slow.insert(name.0.to_owned());
                } else if let Some((name, _)) = rest.rsplit_once(" ... ") {
                    state.ended += 1;
                    // "NAME - should panic": the harness adds to some names when they end.
                    state
                        .slow
                        .retain(|slow| name != slow && !name.starts_with(&format!("{slow} - ")));
                }
            }
        });
    }
}

impl Progress for Running {
    fn last(&self) -> Instant {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).last
    }

    fn at(&self) -> Vec<String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut at: Vec<String> =
            state.slow.iter().map(|name| format!("test {name} has not ended")).collect();
        if !state.partial.is_empty() {
            at.push(format!("it has begun: {}", state.partial.trim_end()));
        }
        if state.announced > 0 {
            at.push(format!("{} of {} tests have ended", state.ended, state.announced));
        }
        at
    }
}

/// Counts the outcomes in a test run's output, and prints the output. What passing tests printed is
/// left out, except for figures (`battery: ...`). The output is read to its end even if it can't be
/// printed.
pub fn follow(mut output: impl Read, print: &mut impl Write, running: &Running) -> Counts {
    let mut counts = Counts::default();
    let (mut part, mut rest) = (Part::Outcomes, Vec::new());
    let mut chunk = vec![0; 1 << 16];
    loop {
        let read = match output.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        rest.extend_from_slice(&chunk[..read]);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line[..end]);
            running.line(&line);
            if shown(&line, &mut part, &mut counts) {
                let _ = writeln!(print, "{line}");
            }
        }
        running.change(|state| state.partial = String::from_utf8_lossy(&rest).into_owned());
    }
    counts
}

/// The parts of what a test program prints.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Each test's outcome.
    Outcomes,
    /// What passing tests printed.
    Successes,
    /// What failing tests printed.
    Failures,
    /// The same, behind the panic of one of them.
    Panic,
}

/// Counts a line, and tells whether to print it.
fn shown(line: &str, part: &mut Part, counts: &mut Counts) -> bool {
    if let Some(skipped) = line.strip_prefix("skipped: ") {
        counts.skipped.push(skipped.to_string());
    }
    if let Some(result) = line.strip_prefix("test result: ") {
        *part = Part::Outcomes;
        counts.passed += count_before(result, " passed");
        counts.failed += count_before(result, " failed");
    }
    match line {
        "successes:" => *part = Part::Successes,
        "failures:" => *part = Part::Failures,
        _ if matches!(part, Part::Failures | Part::Panic) => keep_failure(line, part, counts),
        _ => {}
    }
    line.starts_with("battery: ") || *part != Part::Successes && !line.is_empty()
}

/// Keeps what is printed again of a failure.
fn keep_failure(line: &str, part: &mut Part, counts: &mut Counts) {
    let name = line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----"));
    if let Some(name) = name {
        *part = Part::Failures;
        return counts.failures.push(name.to_owned());
    }
    if line.starts_with("thread '") && line.contains(" panicked at ") {
        *part = Part::Panic;
    }
    let Some(kept) = counts.failures.last_mut().filter(|_| *part == Part::Panic) else { return };
    let room = BYTES_OF_A_FAILURE.saturating_sub(kept.len());
    if room > 0 && kept.lines().count() <= LINES_OF_A_FAILURE {
        kept.push('\n');
        kept.extend(line.char_indices().take_while(|(at, _)| *at < room).map(|(_, char)| char));
    }
}

fn count_before(text: &str, word: &str) -> usize {
    let end = text.find(word).unwrap_or(0);
    text[..end].rsplit([' ', ';']).next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Progress, Running, follow};

    #[test]
    fn counts_results_and_names_what_was_skipped() {
        let output = b"running 2 tests\ntest a ... ok\n\nsuccesses:\n\n---- b stdout ----\n\
                      skipped: b needs PostgreSQL 18\n\xff\nbattery: b: 7 runs\n\n\
                      successes:\n    a\n    b\n\n\
                      test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured\n";
        let mut printed = Vec::new();
        let counts = follow(&output[..], &mut printed, &Running::default());
        assert!(
            !String::from_utf8_lossy(&printed).contains("skipped: b"),
            "what passing tests print is left out"
        );
        assert!(
            String::from_utf8_lossy(&printed).contains("battery: b: 7 runs"),
            "but for figures"
        );
        assert_eq!((counts.passed, counts.failed), (12, 3));
        assert_eq!(counts.skipped, ["b needs PostgreSQL 18"]);
    }

    #[test]
    fn a_failure_is_kept_from_its_panic_on() {
        let output = "running 2 tests\ntest a::b ... FAILED\ntest c ... FAILED\n\n\
                      failures:\n\n---- a::b stdout ----\nround 1\n\n\
                      thread 'a::b' (7) panicked at tests/a.rs:1:2:\nassertion failed\n\n\
                      ---- c stdout ----\nthread 'c' (8) panicked at tests/c.rs:3:4:\n";
        let output = output.to_owned() + &"x".repeat(5000) + "\n\n" + &"y\n".repeat(50);
        let end = "failures:\n    a::b\n    c\n\ntest result: FAILED. 0 passed; 2 failed\n";
        let output = output + end;
        let counts = follow(output.as_bytes(), &mut Vec::new(), &Running::default());
        assert_eq!(counts.failed, 2);
        let [first, second] = &counts.failures[..] else { panic!("{:?}", counts.failures) };
        let panicked = "thread 'a::b' (7) panicked at tests/a.rs:1:2:\nassertion failed";
        assert_eq!(first.trim_end(), format!("a::b\n{panicked}"));
        assert!(second.starts_with("c\nthread 'c' (8) panicked at tests/c.rs:3:4:\nxxx"));
        assert!(second.len() <= super::BYTES_OF_A_FAILURE + super::LINES_OF_A_FAILURE);
    }

    #[test]
    fn tests_that_still_run_are_known() {
        let running = Running::default();
        let output = "running 4 tests\ntest a ... ok\n\
                      test b::c has been running for over 60 seconds\n\
                      test d has been running for over 60 seconds\ntest d ... FAILED\n\
                      test e::f ... ";
        follow(output.as_bytes(), &mut Vec::new(), &running);
        assert_eq!(
            running.at(),
            ["test b::c has not ended", "it has begun: test e::f ...", "2 of 4 tests have ended"]
        );
        follow(&b"test result: ok. 4 passed; 0 failed\n"[..], &mut Vec::new(), &running);
        assert_eq!(running.at(), Vec::<String>::new());
    }
}
