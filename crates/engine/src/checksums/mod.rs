//! Page checksums of a cluster at rest: check, enable, disable, as PostgreSQL's pg_checksums does.
//!
//! - `options`: what to do, what was found
//! - `run`: the three modes
//! - `cluster`: what pg_control says, and refusals
//! - `walk`: which files there are
//! - `scan`: reads their pages, and writes those that change
//! - `sync`: makes a data directory durable
//!
//! PostgreSQL 15 to 18 and Forebay have the same pages, so clusters of all of them can be
//! processed. Checksums are ignored until pg_control says that pages have them. So after an
//! interrupted run the cluster starts as before. Only the two bytes of the checksum change in a
//! page, so a torn write does no harm.
//!
//! Enabling checks first that every file can be opened for writing and has whole pages. Then it
//! writes, then it syncs every file, also those that it did not write: an interrupted run may have
//! written them without a sync. Last it updates pg_control.

mod cluster;
mod options;
mod run;
mod scan;
mod sync;
mod walk;

pub(crate) use cluster::read_outline;
pub use options::{
    BadBlock, ChecksumCounts, ChecksumMode, ChecksumObserver, ChecksumOptions, SyncMethod,
};
pub use run::checksums;
