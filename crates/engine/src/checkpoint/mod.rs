//! Checkpoints: everything up to a point in the log is made durable in the files, so that recovery
//! may begin there and older WAL can go.
//!
//! - `requests`: who wants one, and who waits for it
//! - `state`: what sessions share with the checkpointer
//! - `run`: making one
//! - `step`: a round of the checkpointer's thread
//! - `pace`: how fast its pages are written
//! - `report`: counters and log lines

mod pace;
pub(crate) mod report;
pub(crate) mod requests;
pub(crate) mod run;
mod state;
mod step;

pub(crate) use state::Checkpointer;
pub(crate) use step::step;
