//! Transactions: who runs, who sees what, and what became of everyone.
//!
//! | file | holds |
//! |---|---|
//! | `clog.rs` | `pg_xact`: the outcome of each transaction, cached in pages, written at checkpoints |
//! | `procarray.rs` | transaction ids handed out and still running; what a snapshot is made of |
//! | `snapshot.rs` | [`Snapshot`]: which transactions, and which commands of its own, a statement sees |
//! | `combo.rs` | pairs of commands for rows inserted and deleted by one transaction |
//! | `gate.rs` | [`CommitGate`]: commits on their way, which a checkpoint waits out |
//! | `transaction.rs` | [`Transaction`]: what a session carries from begin to commit |
//! | `manager.rs` | [`XactManager`]: assigning ids, commit and abort with their WAL |
//!
//! Order of a commit: record into the WAL, WAL flushed, `pg_xact`, out of the running set. Nobody
//! can see a change whose commit is not durable, unless it did not care to wait (synchronous_commit
//! = off); and a transaction that is in nobody's running set has its outcome in `pg_xact`.

mod clog;
mod combo;
mod files;
mod gate;
mod manager;
mod procarray;
mod snapshot;
#[cfg(test)]
mod tests;
mod transaction;

pub use clog::{Clog, Outcome, Prepared};
pub use combo::ComboCommands;
pub use files::drop_files;
pub use gate::{CommitGate, CommitPass};
pub use manager::{CommitWay, Finished, XactManager};
pub use procarray::{LastRunning, ProcArray, Running};
pub use snapshot::Snapshot;
pub use transaction::Transaction;
