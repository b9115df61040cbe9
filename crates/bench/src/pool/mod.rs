//! The buffer pool on relation files: scans, prewarming, random changes, a checkpoint.
//!
//! - `plan`: the options
//! - `relation`: the relation: one of a cluster at rest, which is only read, or a private one
//! - `lane`: the pool and the files of one run; `tasks`: what the run does; `live`: counts tuples
//! - `run`: makes all runs
//! - `report`: the figures
//!
//! A run begins with an empty pool whose memory has been touched and, unless it is to be warm, with
//! nothing of the relation in the kernel's cache.

mod lane;
mod live;
mod plan;
mod relation;
mod report;
mod run;
mod tasks;

pub use plan::{PoolBench, PoolTask};
pub use run::bench_pool;
