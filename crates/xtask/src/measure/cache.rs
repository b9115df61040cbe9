//! The pool as the only cache: Forebay with direct I/O, PostgreSQL with the kernel's cache behind a
//! small pool, and PostgreSQL with direct I/O, each in a memory cgroup of the same size.
//!
//! - [`scans`]:    count(*) again and again, over tables of a quarter to four times the memory
//! - [`look_ups`]: look-ups of preferred keys, alone, beside such scans, and beside COPY
//!
//! Every run begins with a new cgroup, an empty kernel's cache and a server that has just started.
//! Its table is then read again and again for ten seconds before anything is measured.

use std::path::Path;

use super::cgroup::Group;
use super::cold::Caches;
use super::contender::{Sizes, in_turn};
use super::keyed::Keyed;
use super::servers::Subject;
use super::table::{Table, printed};
use crate::peers::Peer;

mod look_ups;
mod scans;

use look_ups::LookUps;
use scans::{Scanned, Scans};

/// How much is measured.
pub struct Extent {
    /// Interleaved rounds.
    pub rounds: usize,
    /// Length of a run of pgbench.
    pub seconds: u64,
    /// The memory of each server.
    pub sizes: Sizes,
}

/// Sizes of the scanned table, in quarters of the memory.
const QUARTERS: [u64; 6] = [1, 2, 3, 4, 8, 16];
/// The size beside which keys are looked up.
const BESIDE: u64 = 8;

/// Measures, prints the tables, and returns them.
///
/// # Errors
/// When something can't be made or run.
pub fn run(
    root: &Path,
    peer: &Peer,
    caches: &Caches,
    extent: &Extent,
) -> Result<Vec<Table>, String> {
    let (forebay, postgres) = (Subject::forebay(root)?, Subject::postgres(peer)?);
    let folder = root.join("target/measure");
    let memory = extent.sizes.bytes();
    let keyed = Keyed::prepare(&postgres, &folder, memory, false)?;
    let scanned = Scanned::prepare(&postgres, &folder, memory / 4)?;
    let contenders = extent.sizes.contenders(&forebay, &postgres);
    let (mut scans, mut looked_up) = (Scans::new(&folder)?, look_ups::Tables::new());
    let mut have = 0;
    for quarters in QUARTERS {
        // PostgreSQL's two ways have one directory.
        for contender in &contenders[..2] {
            caches.drop()?;
            let group = Group::make(memory)?;
            let server = contender.start(&group, &[])?;
            if have == 0 {
                keyed.load(&server)?;
            }
            scanned.grow(&server, have, quarters)?;
        }
        have = quarters;
        for round in 0..extent.rounds {
            println!("{} of the memory, round {}", scans::part(quarters), round + 1);
            for contender in in_turn(&contenders, round) {
                scans.measure(contender, caches, (memory, quarters))?;
            }
            if quarters == BESIDE {
                let run = LookUps { peer, caches, memory, seconds: extent.seconds };
                for contender in in_turn(&contenders, round) {
                    run.measure(contender, &keyed, &scanned, &mut looked_up)?;
                }
            }
        }
    }
    let tables = scans.into_tables()?.into_iter().chain(looked_up.into_tables());
    let tables = printed(tables.collect());
    keyed.remove_input()?;
    scanned.remove_input()?;
    forebay.remove();
    postgres.remove();
    Ok(tables)
}
