//! The door to the disk, over every method. One program of many files; beside it are those that a
//! process must be given to alone, for its limits (`full`, `limits`), its threads or its locked
//! memory, and those that shuttle and Miri run.
//!
//! - [`backend_stats`]: the rows of pg_stat_aio_backends
//! - [`completions`]: Completions: several on one I/O, their shared and local halves, and what the
//!   local ones may do
//! - [`continued`]: Short transfers and interruptions, by way of an executor that plays a script
//!   before it does what it is asked
//! - [`deferred`]: The deferring method alone: it holds what it is given, and lets go of it in an
//!   order of its own
//! - [`files`]: The cache of open descriptors
//! - [`handles`]: Handles taken beforehand, given back, leaked; batches left open; the ends of
//!   statements and transactions
//! - [`merge`]: Merging of staged neighbours: what leaves as one I/O, and that nobody can tell
//!   otherwise
//! - [`merge_model`]: Random batches with merging and without: the same bytes in file and memory,
//!   and the same end of each I/O, with short reads at the end of the file and blocks that can't be
//!   read or written
//! - [`methods`]: One suite over all methods, buffered and direct: what one backend can expect
//! - [`namespace`]: Names, modes, locks, and the probe for direct I/O
//! - [`ranges`]: Operations on a range of a file without memory: allocation, and the start of
//!   write-out
//! - [`stats`]: the rows of pg_stat_io
//! - [`worker`]: The worker method: its queue, its workers' lives, and what pg_aios shows meanwhile

#[path = "../common/mod.rs"]
mod common;

mod backend_stats;
mod completions;
mod continued;
mod deferred;
mod files;
mod handles;
mod merge;
mod merge_model;
mod methods;
mod namespace;
mod ranges;
mod stats;
mod worker;
