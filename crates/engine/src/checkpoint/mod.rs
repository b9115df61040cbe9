//! Checkpoints: everything up to a point in the log is made durable in the files, so that recovery
//! can begin there and older WAL can go.
//!
//! - `pace`: how fast pages are written
//! - `run`: making a checkpoint
//! - `step`: a round of the checkpointer's thread

mod pace;
mod run;
mod step;

pub(crate) use run::checkpoint;
pub(crate) use step::step;
