//! The battery on the simulated disk (crates/sim), as large as a change must pass it; and the
//! planted bugs that it must catch.
//!
//! It is run optimized, by as many threads as there are processors. What each part does, what it
//! assumes and what it came to is in docs/reliability.md.

use std::ffi::OsString;
use std::path::Path;

use crate::heard::Counts;
use crate::test::{TESTS, cargo_test};

/// Lives by chance in a usual run.
pub const SEEDS: u64 = 10_000;

/// How large the parts are beside the lives by chance: what, and for how many lives one is run.
const PARTS: [(&str, u64); 11] = [
    // Workloads crashed at every call: 50 for 10,000 lives.
    ("FOREBAY_SIM_WORKLOADS", 200),
    // Workloads whose recovery is crashed.
    ("FOREBAY_SIM_RECOVERIES", 200),
    // Workloads of which each call fails, for each kind of failure.
    ("FOREBAY_SIM_FAILING", 2_000),
    // Logs whose last page rots, byte by byte.
    ("FOREBAY_SIM_ROT", 10_000),
    // Lives on disks that lie.
    ("FOREBAY_SIM_LIES", 20),
    // Lives of an archiver, and short ones crashed at every call.
    ("FOREBAY_SIM_ARCHIVE_RUNS", 50),
    ("FOREBAY_SIM_ARCHIVE_CRASHES", 500),
    // Lives of an engine that archives; recoveries from an archive, backups and restores, cut
    // short.
    ("FOREBAY_SIM_ARCHIVED", 150),
    ("FOREBAY_SIM_PITR", 600),
    ("FOREBAY_SIM_BACKUPS", 250),
    // Seeds that each planted bug is looked for with.
    ("FOREBAY_SIM_BUG_SEEDS", 10),
];

/// Runs the battery: `seeds` lives by chance, and of everything else in proportion, from seed
/// `first` on.
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
    // Each test has threads of its own.
    let alone = ["--", "--test-threads=1"];
    let battery = ["--test", "battery", "--no-fail-fast"];
    cargo_test(root, &set, &[&sim[..], &battery, &alone].concat(), &bounds, counts)?;
    let planted = ["--features", "planted-bugs", "--test", "planted"];
    cargo_test(root, &set[2..], &[&sim[..], &planted, &alone].concat(), &bounds, counts)
}
