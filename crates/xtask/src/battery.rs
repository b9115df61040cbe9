//! The battery on the simulated disk (crates/sim), as large as a change must pass it, and the
//! planted bugs that it must catch.
//!
//! It runs optimized, with a thread for each processor. docs/reliability.md says what each part
//! does, what it assumes, and what was found.

use std::ffi::OsString;
use std::path::Path;

use crate::harness::Counts;
use crate::suite::{TESTS, cargo_test};

/// Random lives in a usual run.
pub const SEEDS: u64 = 10_000;

/// The other parts: the variable that sets a part's size, and how many random lives there are for
/// each of its runs.
const PARTS: [(&str, u64); 11] = [
    // Workloads crashed at every call: 50 for 10,000 lives.
    ("FOREBAY_SIM_WORKLOADS", 200),
    // Workloads whose recovery is crashed.
    ("FOREBAY_SIM_RECOVERIES", 200),
    // Workloads of which each call fails, for each kind of failure.
    ("FOREBAY_SIM_FAILING", 2_000),
    // Logs whose last page is damaged, byte by byte.
    ("FOREBAY_SIM_ROT", 10_000),
    // Lives on disks that lie.
    ("FOREBAY_SIM_LIES", 20),
    // Lives of an archiver, and short ones crashed at every call.
    ("FOREBAY_SIM_ARCHIVE_RUNS", 50),
    ("FOREBAY_SIM_ARCHIVE_CRASHES", 500),
    // Lives of an engine that archives; interrupted recoveries from an archive, backups and
    // restores.
    ("FOREBAY_SIM_ARCHIVED", 150),
    ("FOREBAY_SIM_PITR", 600),
    ("FOREBAY_SIM_BACKUPS", 250),
    // Seeds for each planted bug.
    ("FOREBAY_SIM_BUG_SEEDS", 10),
];

/// Runs the battery with `seeds` random lives, from seed `first` on, and the other parts in
/// proportion.
///
/// # Errors
/// As [`cargo_test`].
pub fn run(root: &Path, seeds: u64, first: u64, counts: &mut Counts) -> Result<(), String> {
    let mut set = vec![
        ("FOREBAY_SIM_SEED", OsString::from(first.to_string())),
        ("FOREBAY_SIM_RUNS", OsString::from(seeds.to_string())),
        ("FOREBAY_SIM_SUBSETS", OsString::from("8")),
        ("FOREBAY_SIM_STRIDE", OsString::from("1")),
        ("FOREBAY_SIM_ARCHIVE_STRIDE", OsString::from("5")),
        ("FOREBAY_SIM_BYTES", OsString::from("1")),
    ];
    set.extend(PARTS.map(|(name, per)| (name, OsString::from((seeds / per).max(1).to_string()))));
    let sim = ["test", "--profile", "battery", "-p", "forebay-sim"];
    let bounds = TESTS.times(seeds.div_ceil(SEEDS));
    // One test at a time: each starts threads of its own.
    let alone = ["--", "--test-threads=1"];
    let battery = ["--test", "battery", "--no-fail-fast"];
    cargo_test(root, &set, &[&sim[..], &battery, &alone].concat(), &bounds, counts)?;
    let planted = ["--features", "planted-bugs", "--test", "planted"];
    cargo_test(root, &set[2..], &[&sim[..], &planted, &alone].concat(), &bounds, counts)
}
