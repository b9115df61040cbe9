//! What sessions share with the checkpointer.
//!
//! - `requests`: who wants a checkpoint, why, and who waits for it
//! - `report`: counters and log lines
//! - `state`: the checkpointer's state

mod report;
mod requests;
mod state;

pub(crate) use report::{Report, Sums};
pub(crate) use requests::{Causes, Work};
pub(crate) use state::{Checkpointer, Progress};
