//! Indexes: both servers on the same rows, with direct and with buffered I/O.
//!
//! - [`wide`]: a table whose order by index has nothing to do with the order of its pages: ranges
//!   beside fio's random reads, LIMIT, look-ups by key, ANALYZE, VACUUM, checks
//! - [`build`]: CREATE INDEX of numbers and texts
//! - [`setup`]: how much is measured, and the servers' settings
//!
//! Autovacuum is off, and no scan has workers: an index scan of Forebay's has none.

use std::fs;
use std::path::Path;

use super::cold::Caches;
use super::servers::{Subject, order};
use super::table::{Table, printed};
use super::{fio, work};
use crate::peers::Peer;

mod build;
mod setup;
mod wide;

pub use setup::Extent;

use wide::Wide;

/// Size of fio's file.
const FIO_BYTES: u64 = 1 << 30;

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
    let folder = root.join("target/measure");
    let (rows, narrow, device) = (folder.join("wide"), folder.join("narrow"), folder.join("fio"));
    work::write_input(&postgres, &wide::source(extent.rows / 5), "binary", &rows)?;
    work::write_input(&postgres, &build::source(extent.rows), "binary", &narrow)?;
    fio::fill(&device, FIO_BYTES)?;
    let program = root.join("target/release/forebay");
    let wide = Wide { peer, program: &program, caches, extent, input: &rows, device: &device };
    let (mut scans, mut builds) = (wide::Tables::new(), build::table());
    for round in 0..extent.rounds {
        println!("round {} of {}", round + 1, extent.rounds);
        for (n, direct) in [true, false].into_iter().enumerate() {
            for subject in order(&forebay, &postgres, round + n) {
                wide.measure(subject, direct, &mut scans)?;
                build::measure(subject, direct, &narrow, &mut builds)?;
            }
        }
    }
    let tables = printed(scans.all().into_iter().chain([builds]).collect());
    forebay.remove();
    postgres.remove();
    for file in [&rows, &narrow, &device] {
        fs::remove_file(file).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(tables)
}
