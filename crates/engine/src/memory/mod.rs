//! The machine's memory: how much there is, and what a size of the buffer pool comes to.
//!
//! - `read`: what the system tells
//! - `size`: the pool's size at the start

mod read;
mod size;

pub(crate) use read::{Gauge, read};
pub(crate) use size::{blocks, bytes};

/// The machine's memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Readings {
    /// What the process may use in all: the machine's memory, or the lowest limit.
    pub(crate) total: u64,
    /// What it could take without swapping and without taking from others: MemAvailable, or what
    /// the tightest limit leaves.
    pub(crate) room: u64,
    /// Percent of the last ten seconds in which some task waited for memory.
    pub(crate) stalled: f64,
}
