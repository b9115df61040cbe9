#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod clog;
mod combo;
mod commit_ts;
mod counts;
mod error;
mod gate;
mod horizon;
mod limits;
pub mod locks;
mod manager;
mod multixact;
mod notes;
mod procarray;
mod readback;
pub mod redo;
mod shortage;
mod slru;
mod snapshot;
mod status_cache;
mod subtrans;
mod subxact;
mod subxids;
mod transaction;

pub use clog::{Clog, Outcome, Prepared};
pub use combo::ComboCommands;
pub use commit_ts::CommitTimes;
pub use counts::{CountedRelation, Counts, ReadCounter, RelationCounts};
pub use error::{TxnError, disk_sqlstate, wal_sqlstate};
pub use gate::{CommitGate, CommitPass};
pub use horizon::{HorizonKind, RemovableTest};
pub use manager::{CommitOptions, Finished, XactManager};
pub use multixact::{MultiCounters, MultiUse, MultiXacts};
pub use procarray::{Horizons, LastRunning, ProcArray, Running};
pub use readback::ReadBack;
pub use shortage::{DatabaseName, IdKind, IdWarning};
pub use snapshot::Snapshot;
pub use subtrans::Subtrans;
pub use transaction::Transaction;
