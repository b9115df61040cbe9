//! The options of `forebay bench io`, and the runs that follow from them.

use std::path::PathBuf;

use forebay_aio::sync::Duration;
use forebay_aio::{IoBackend, MethodKind};
use forebay_format::BLOCK_SIZE;
use serde::Serialize;

use crate::error::BenchError;
use crate::methods::{MAX_COMBINE, MAX_DEPTH, all_methods, method_name};

/// A table of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IoTable {
    /// Sequential reads, by combine limit.
    Read,
    /// Random reads of single blocks, by depth.
    ReadDepth,
    /// Sequential reads with and without verification of checksums.
    Checksums,
    /// Sequential writes, by combine limit.
    Write,
    /// Random writes of single blocks, by depth.
    WriteDepth,
    /// Memory that is not aligned.
    Alignment,
}

impl IoTable {
    /// All tables, in the order of their runs.
    pub const ALL: [IoTable; 6] = [
        IoTable::Read,
        IoTable::ReadDepth,
        IoTable::Checksums,
        IoTable::Write,
        IoTable::WriteDepth,
        IoTable::Alignment,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    pub(super) fn title(self) -> &'static str {
        self.words().1
    }

    /// Name and title.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            IoTable::Read => ("read", "Sequential reads, by combine limit"),
            IoTable::ReadDepth => ("read-depth", "Random reads of single blocks, by depth"),
            IoTable::Checksums => {
                ("checksums", "Sequential reads without and with verification of checksums")
            }
            IoTable::Write => ("write", "Sequential writes, by combine limit, to durable"),
            IoTable::WriteDepth => {
                ("write-depth", "Random writes of single blocks, by depth, to durable")
            }
            IoTable::Alignment => {
                ("alignment", "Reads of single blocks into memory at an offset, one at a time")
            }
        }
    }

    fn writes(self) -> bool {
        matches!(self, IoTable::Write | IoTable::WriteDepth)
    }
}

/// Direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Operation {
    Read,
    /// The run ends with a sync.
    Write,
}

/// Order of the offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Pattern {
    Sequential,
    Random,
}

/// What to measure, and where.
#[derive(Clone, Debug)]
pub struct IoBench {
    /// A directory for a private file, or a file that is only read.
    pub path: PathBuf,
    /// Bytes of the private file.
    pub size: u64,
    /// Length of a run.
    pub run_time: Duration,
    /// How often each run is made.
    pub rounds: usize,
    /// Methods to try.
    pub methods: Vec<MethodKind>,
    /// Buffered, direct or both.
    pub direct: Vec<bool>,
    /// Combine limits in blocks.
    pub combine: Vec<u32>,
    /// Depths of the tables by depth.
    pub depths: Vec<u32>,
    /// Depth of the other tables.
    pub depth: u32,
    /// Tables wanted.
    pub tables: Vec<IoTable>,
}

impl IoBench {
    /// All tables, with a private file of 1 GB if `path` is a directory.
    pub fn new(path: PathBuf) -> IoBench {
        IoBench {
            path,
            size: 1 << 30,
            run_time: Duration::from_millis(250),
            rounds: 3,
            methods: all_methods(),
            direct: vec![false, true],
            combine: vec![1, 2, 4, 8, 16, 32],
            depths: vec![1, 2, 4, 8, 16, 32, 64],
            depth: 32,
            tables: IoTable::ALL.to_vec(),
        }
    }

    /// Refuses what makes no sense.
    pub(super) fn check(&self) -> Result<(), BenchError> {
        let refuse = |what: String| Err(BenchError::Options(what));
        let within = |values: &[u32], most| values.iter().all(|value| (1..=most).contains(value));
        if !within(&self.combine, MAX_COMBINE) {
            return refuse(format!("combine limits must be in range 1..{MAX_COMBINE} blocks"));
        }
        if !within(&self.depths, MAX_DEPTH) || !within(&[self.depth], MAX_DEPTH) {
            return refuse(format!("depths must be in range 1..{MAX_DEPTH}"));
        }
        if self.rounds == 0 {
            return refuse("there must be at least one round".to_owned());
        }
        if self.size < self.least_size() {
            return refuse(format!("a file of at least {} bytes is needed", self.least_size()));
        }
        Ok(())
    }

    /// Four times the largest I/O.
    fn least_size(&self) -> u64 {
        let most = self.combine.iter().copied().fold(COMBINED, u32::max);
        4 * u64::from(most) * BLOCK_SIZE as u64
    }

    /// The runs, in order; only reads, if the file is not to be written.
    pub(super) fn cases(
        &self,
        methods: &[MethodKind],
        direct: &[bool],
        read_only: bool,
    ) -> Vec<Case> {
        let mut cases = Vec::new();
        for &table in self.tables.iter().filter(|table| !(read_only && table.writes())) {
            for &method in methods {
                for &direct in direct {
                    self.rows(table, Case::new(table, method, direct), &mut cases);
                }
            }
        }
        cases
    }

    fn rows(&self, table: IoTable, base: Case, cases: &mut Vec<Case>) {
        let depth = self.depth;
        match table {
            IoTable::Read | IoTable::Write => {
                cases.extend(self.combine.iter().map(|&combine| Case { combine, depth, ..base }));
            }
            IoTable::ReadDepth | IoTable::WriteDepth => {
                // A method that executes at once has one I/O in flight, whatever the depth.
                let depths = self
                    .depths
                    .iter()
                    .filter(|depth| base.method != MethodKind::Sync || **depth == 1);
                cases.extend(depths.map(|&depth| Case { depth, pattern: Pattern::Random, ..base }));
            }
            IoTable::Checksums => {
                let combine = COMBINED;
                cases.extend([false, true].map(|checksums| Case {
                    checksums,
                    combine,
                    depth,
                    ..base
                }));
            }
            IoTable::Alignment => {}
        }
    }
}

/// PostgreSQL's default io_combine_limit.
pub(super) const COMBINED: u32 = 16;

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Case {
    /// The table that shows it.
    pub(super) table: IoTable,
    pub(super) operation: Operation,
    pub(super) pattern: Pattern,
    #[serde(serialize_with = "method_name")]
    pub(super) method: MethodKind,
    /// Without the kernel's page cache.
    pub(super) direct: bool,
    /// Blocks in one I/O.
    #[serde(rename = "blocks")]
    pub(super) combine: u32,
    /// I/Os in flight.
    pub(super) depth: u32,
    /// Checksums are verified after reading, or set before writing.
    pub(super) checksums: bool,
}

impl Case {
    pub(super) fn new(table: IoTable, method: MethodKind, direct: bool) -> Case {
        Case {
            table,
            operation: if table.writes() { Operation::Write } else { Operation::Read },
            pattern: Pattern::Sequential,
            method,
            direct,
            combine: 1,
            depth: 1,
            checksums: false,
        }
    }

    /// Bytes of one I/O.
    pub(super) fn io_bytes(&self) -> usize {
        self.combine as usize * BLOCK_SIZE
    }
}

/// Handles that a backend needs for the deepest run.
pub(super) fn handles(bench: &IoBench) -> usize {
    let deepest = bench.depths.iter().copied().fold(bench.depth, u32::max) as usize;
    deepest.max(IoBackend::MAX_STAGED)
}
