//! The battery on the simulated disk, as one program: linking the engine takes long.
//!
//! - [`engine`]: the engine's lives and crashes
//! - [`archive`]: the archiver's
//! - [`pitr`]: archives, base backups, and recovery from them
//! - [`rows`]: rows that change
//! - [`runs`]: runs each over its seeds

#[path = "../common/mod.rs"]
mod common;

mod archive;
mod engine;
mod pitr;
mod rows;
mod runs;
