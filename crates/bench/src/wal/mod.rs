//! The write-ahead log: commits by several committers, insertion alone, bulk insertion.
//!
//! - `plan`: the options, and the runs that follow from them
//! - `run`: makes all runs, and asks fio and pg_test_fsync beside them
//! - `log`: a private log, opened for each run where the run before ended; `gate`: threads that
//!   begin together
//! - `commit`: committers, each of which inserts a record and waits until it is durable
//! - `insert`: insertion into memory alone; bulk insertion
//! - `report`: the figures
//!
//! The log's segments are made before the clock starts, and full ones are recycled during a run.

mod commit;
mod insert;
mod log;
mod plan;
mod report;
mod run;

pub use plan::{WAL_SYNC_METHODS, WalBench, WalTable};
pub use run::bench_wal;
