//! The tests of every method, in one program. The other files of `tests` need a process of their
//! own: for its limits (`full`, `limits`), its threads or its locked memory, or for shuttle and
//! Miri.
//!
//! - [`backend_stats`]: the rows of pg_stat_aio_backends
//! - [`completions`]: shared and local halves
//! - [`continued`]: short transfers and interruptions
//! - [`deferred`]: the deferring method
//! - [`files`]: the cache of open descriptors
//! - [`handles`]: acquired, released and leaked handles; the ends of statements and transactions
//! - [`merge`]: merging of staged neighbours
//! - [`merge_model`]: random batches with and without merging
//! - [`methods`]: what one backend can expect of every method
//! - [`namespace`]: names, modes, locks, and the probe for direct I/O
//! - [`ranges`]: operations on a range of a file
//! - [`stats`]: the rows of pg_stat_io
//! - [`worker`]: the worker method

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
