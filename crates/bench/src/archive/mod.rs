//! The archiver: many `.ready` marks, segments stored in a directory or in an object store.
//!
//! - `plan`: the options
//! - `files`: a private log with its marks, and an archive
//! - `store`: one run; `objects`: one run with an archive in an object store
//! - `run`: makes all runs
//! - `report`: the figures
//!
//! A run is like a restart: the archiver knows only what is on the disk. A file counts as archived
//! when its `.done` mark is durable.

mod files;
mod objects;
mod plan;
mod report;
mod run;
mod store;

pub use plan::ArchiveBench;
pub use run::bench_archive;
