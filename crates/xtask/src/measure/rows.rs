//! Rows that change: both servers, with the same durability.
//!
//! - [`extent`]: how much is measured
//! - [`hot`]: a table of few rows, each changed again and again: by key, in turns, and its size
//!   afterwards
//! - [`large`]: a table four times the pool: rows by ctid, a cold VACUUM beside fio; and its
//!   count(*)
//!
//! Neither table has an index. The servers run without autovacuum, except for one measurement of
//! the size.

use std::fs;
use std::path::Path;

use super::cold::Caches;
use super::servers::{Subject, order};
use super::table::{Table, printed};
use super::{fio, work};
use crate::peers::Peer;

mod extent;
mod hot;
mod large;

pub use extent::Extent;

use large::Large;

/// Size of fio's file.
const FIO_BYTES: u64 = 512 << 20;

/// Measures, prints the tables, and returns them.
///
/// # Errors
/// When something can't be made or run.
pub fn run(
    root: &Path,
    peer: &Peer,
    caches: &Caches,
    extent: Extent,
) -> Result<Vec<Table>, String> {
    let (forebay, postgres) = (Subject::forebay(root)?, Subject::postgres(peer)?);
    let input = work::make_input(&postgres, root, &[("binary", "binary", extent.rows)])?;
    let device = root.join("target/measure/fio");
    fio::fill(&device, FIO_BYTES)?;
    let large = Large { peer, caches, extent, input: input.file("binary"), device: &device };
    let (mut few, mut many) = (hot::Tables::new(), large::Tables::new());
    for round in 0..extent.rounds {
        println!("round {} of {}", round + 1, extent.rounds);
        hot::measure([&forebay, &postgres], peer, round, extent.seconds, &mut few)?;
        for (n, direct) in [true, false].into_iter().enumerate() {
            for subject in order(&forebay, &postgres, round + n) {
                large.measure(subject, direct, &mut many)?;
            }
        }
    }
    hot::bloat([&forebay, &postgres], peer, extent.updates, &mut few)?;
    let tables = printed(few.all().into_iter().chain(many.all()).collect());
    forebay.remove();
    postgres.remove();
    for file in [device, input.file("binary")] {
        fs::remove_file(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(tables)
}
