//! Reads and writes of one file by every I/O method.
//!
//! - `plan`: the options, and the runs that follow from them
//! - `run`: opens methods and files, makes the runs
//! - `workload`: one run: a window of reads or writes that is kept full
//! - `align`: reads into memory that is not aligned
//! - `report`: the figures

mod align;
mod plan;
mod report;
mod run;
mod workload;

pub use plan::{IoBench, IoTable};
pub use run::bench_io;
