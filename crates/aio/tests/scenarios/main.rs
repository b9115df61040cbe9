//! What PostgreSQL's tests of asynchronous I/O check, for every method, buffered and direct.
//!
//! | Module | Scenario |
//! |---|---|
//! | `handle` | handles and batches left open by an error; without errors: `tests/aio/handles.rs` |
//! | `inject` | exact sizes, short transfers, errors that come and go, at a place, in a batch |
//! | `foreign` | another thread completes the I/O of an issuer that sleeps, blocks or has ended |
//! | `close` | files closed with I/O staged and in flight |
//! | `worker` | unlinked files; errors of opening; a worker that panics |
//! | `isolation` | two `Aio`s in one process: faults of one don't reach the other |
//! | `names` | faults of the namespace |
//! | `random` | thousands of random I/Os with random faults, against a model |
//!
//! The number of workers is in `tests/aio/worker.rs`; limits of the real kernel are in
//! `tests/full.rs`.

use std::sync::Arc;

use forebay_aio::*;

#[path = "../common/mod.rs"]
mod common;

mod close;

mod foreign;
mod handle;
mod inject;
mod isolation;
mod names;
mod random;
mod worker;

use common::{Setup, fill};

const BLOCK: u64 = IO_ALIGN as u64;

/// Blocks `from..from + count` of a region, for the same blocks of a file.
fn part(region: &Arc<Region>, from: usize, count: usize) -> IoMemory {
    IoMemory::new(region.clone(), from * IO_ALIGN, count * IO_ALIGN)
}

fn read(file: &File, region: &Arc<Region>, from: usize, count: usize) -> Io {
    Io::read(file.clone(), from as u64 * BLOCK, part(region, from, count), Target::File)
}

fn write(file: &File, region: &Arc<Region>, from: usize, count: usize) -> Io {
    Io::write(file.clone(), from as u64 * BLOCK, part(region, from, count), Target::File)
}

/// A file of this many blocks of a pattern, made without aio, and an empty region of that size.
fn filled(s: &Setup, name: &str, blocks: usize) -> (File, Arc<Region>) {
    std::fs::write(s.path(name), pattern(blocks)).unwrap();
    (s.open(name, OpenOptions::READ_WRITE), Region::new(blocks * IO_ALIGN).unwrap())
}

fn pattern(blocks: usize) -> Vec<u8> {
    (0..blocks * IO_ALIGN).map(|n| common::pattern(n, 3)).collect()
}

/// A region of the pattern.
fn patterned(blocks: usize) -> Arc<Region> {
    let region = Region::new(blocks * IO_ALIGN).unwrap();
    fill(&region, 0, region.len(), 3);
    region
}

/// Starts an I/O, waits for it, and returns its report.
fn report(backend: &mut IoBackend, io: Io) -> IoReport {
    let r = backend.start(io);
    backend.wait(r).report().expect("the issuer's report")
}
