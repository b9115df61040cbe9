//! The battery on the simulated disk (crates/sim), as large as a change must pass it, and the
//! planted bugs that it must catch.
//!
//! It runs optimized, with a thread for each processor. docs/reliability.md says what each part
//! does, what it assumes, and what was found.

use std::ffi::OsString;
use std::path::Path;

use crate::harness::Counts;
use crate::suite::{Suite, TESTS, WORKSPACE};
use crate::watch::Bounds;
use crate::watch::steps::stage;

/// Random lives in a usual run.
pub const SEEDS: u64 = 600;

/// The other parts: the variable that sets a part's size, and how many random lives there are for
/// each of its runs.
const PARTS: [(&str, u64); 15] = [
    // Seeds of four lives in which rows of a table with indexes change.
    ("FOREBAY_SIM_INDEXED_ROWS", 8),
    // Lives of trees, crashed at their calls.
    ("FOREBAY_SIM_TREES", 2_000),
    // Lives in which autovacuum looks after tables, or VACUUM FULL rewrites one, likewise.
    ("FOREBAY_SIM_AUTOVACUUMS", 1_000),
    ("FOREBAY_SIM_REWRITES", 1_000),
    // Lives of DDL in SQL, and recoveries of such, crashed at some of their calls.
    ("FOREBAY_SIM_DDL", 125),
    // Workloads crashed at every call.
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
];

/// The battery, and the planted bugs.
pub struct Battery {
    simulated: Suite<'static>,
    planted: Suite<'static>,
    bounds: Bounds,
}

impl Battery {
    /// With `seeds` random lives, from seed `first` on, and the other parts in proportion.
    pub fn new(seeds: u64, first: u64) -> Battery {
        // A longer run crashes at all calls, and changes all bytes. Nothing has a period of these.
        let (calls, bytes) = if seeds > SEEDS { (1, 1) } else { (3, 7) };
        let own = [
            ("FOREBAY_SIM_SEED", first),
            ("FOREBAY_SIM_RUNS", seeds),
            ("FOREBAY_SIM_STRIDE", calls),
            ("FOREBAY_SIM_BYTES", bytes),
        ];
        let more = (seeds * 5 / 3).max(1);
        let shared = [
            ("FOREBAY_SIM_SUBSETS", 8),
            ("FOREBAY_SIM_ARCHIVE_STRIDE", 5),
            // Seeds of four lives in which rows change, 4,000 lives in a usual run; and seeds for
            // each planted bug.
            ("FOREBAY_SIM_ROWS", more),
            ("FOREBAY_SIM_BUG_SEEDS", (seeds * 4).max(1)),
        ];
        let parts = PARTS.map(|(name, per)| (name, (seeds / per).max(1)));
        let shared = shared.into_iter().chain(parts);
        let text = |(name, value): (&'static str, u64)| (name, OsString::from(value.to_string()));
        // One test at a time: each starts threads of its own.
        let of_tests = vec!["--test-threads=1", "--include-ignored"];
        let simulated = Suite {
            set: own.into_iter().chain(shared.clone()).map(text).collect(),
            of_cargo: [&WORKSPACE[..], &["--test", "simulated"]].concat(),
            of_tests: of_tests.clone(),
        };
        let planted = ["--features", "forebay-sim/planted-bugs", "--test", "planted"];
        let planted = Suite {
            set: shared.map(text).collect(),
            of_cargo: [&WORKSPACE[..], &planted].concat(),
            of_tests,
        };
        Battery { simulated, planted, bounds: TESTS.times(seeds.div_ceil(SEEDS)) }
    }

    /// Builds both.
    ///
    /// # Errors
    /// As [`Suite::build`].
    pub fn build(&self, root: &Path) -> Result<(), String> {
        self.simulated.build(root)?;
        self.planted.build(root)
    }

    /// Runs both.
    ///
    /// # Errors
    /// As [`Suite::run`].
    pub fn run(&self, root: &Path, counts: &mut Counts) -> Result<(), String> {
        stage("simulated disk", || self.simulated.run(root, &self.bounds, counts))?;
        stage("planted bugs", || self.planted.run(root, &self.bounds, counts))
    }
}
