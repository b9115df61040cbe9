#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod clog;
mod combo;
mod error;
mod gate;
pub mod locks;
mod manager;
mod procarray;
mod readback;
pub mod redo;
mod snapshot;
mod transaction;

pub use clog::{Clog, Outcome, Prepared};
pub use combo::ComboCommands;
pub use error::{TxnError, disk_sqlstate, wal_sqlstate};
pub use gate::{CommitGate, CommitPass};
pub use manager::{CommitOptions, Finished, XactManager};
pub use procarray::{LastRunning, ProcArray, Running};
pub use readback::ReadBack;
pub use snapshot::Snapshot;
pub use transaction::Transaction;
