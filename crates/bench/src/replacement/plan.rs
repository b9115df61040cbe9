//! The options of `forebay bench replacement`.

use std::path::PathBuf;

use super::policies::POLICIES;
use crate::error::BenchError;

/// Least buffers of a pool.
const LEAST_BUFFERS: usize = 256;
/// Most buffers of a pool that synthetic traces are made for, with dozens of references for each.
const MOST_BUFFERS: usize = 1 << 20;

/// What to replay, and against what.
#[derive(Clone, Debug)]
pub struct ReplacementBench {
    /// Traces that a pool has recorded (debug_buffer_trace).
    pub traces: Vec<PathBuf>,
    /// Buffers of the pool for synthetic traces, whose sizes follow it. 0: no such traces.
    pub buffers: usize,
    /// Sizes of pools for recorded traces, in percent of a trace's pages.
    pub percents: Vec<u32>,
    /// Names of policies; none: all.
    pub policies: Vec<String>,
}

impl Default for ReplacementBench {
    fn default() -> ReplacementBench {
        ReplacementBench {
            traces: Vec::new(),
            buffers: 4096,
            percents: vec![5, 10, 25, 50],
            policies: Vec::new(),
        }
    }
}

impl ReplacementBench {
    /// Refuses options that make no sense.
    pub(super) fn check(&self) -> Result<(), BenchError> {
        let refuse = |what: String| Err(BenchError::Options(what));
        if self.buffers != 0 && !(LEAST_BUFFERS..=MOST_BUFFERS).contains(&self.buffers) {
            let range = format!("{LEAST_BUFFERS}..{MOST_BUFFERS}");
            return refuse(format!("there must be no buffers, or a number in range {range}"));
        }
        let known = |name: &String| POLICIES.iter().any(|(known, _)| name == known);
        if let Some(name) = self.policies.iter().find(|name| !known(name)) {
            let names: Vec<&str> = POLICIES.iter().map(|(name, _)| *name).collect();
            return refuse(format!(
                "there is no policy \"{name}\"; there are {}",
                names.join("; ")
            ));
        }
        if self.buffers == 0 && self.traces.is_empty() {
            return refuse("there is no trace to replay".to_owned());
        }
        Ok(())
    }

    /// Whether the policy is to be tried. The optimum always is: the others are compared to it.
    pub(super) fn wants(&self, policy: &str) -> bool {
        policy == "optimum"
            || self.policies.is_empty()
            || self.policies.iter().any(|name| name == policy)
    }
}
