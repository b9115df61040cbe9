#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod archive;
mod checksum;
mod device;
mod error;
mod io;
mod measure;
mod methods;
mod pool;
mod replacement;
mod report;
mod scratch;
mod stats;
mod table;
mod threads;
mod wal;

pub use archive::{ArchiveBench, bench_archive};
pub use checksum::{ChecksumBench, bench_checksum};
pub use error::BenchError;
pub use io::{IoBench, IoTable, bench_io};
pub use methods::{MAX_COMBINE, MAX_DEPTH, all_methods};
pub use pool::{PoolBench, PoolTask, bench_pool};
pub use replacement::{ReplacementBench, bench_replacement};
pub use report::Report;
pub use wal::{WAL_SYNC_METHODS, WalBench, WalTable, bench_wal};
