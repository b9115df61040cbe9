//! Which runs there are.

use std::path::PathBuf;

use forebay_aio::sync::Duration;
use forebay_aio::{Backend, MethodKind, WorkerLimits};
use forebay_format::BLOCK_SIZE;

use super::BenchError;

/// A table of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// All, in the order they are run.
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
        match self {
            IoTable::Read => "read",
            IoTable::ReadDepth => "read-depth",
            IoTable::Checksums => "checksums",
            IoTable::Write => "write",
            IoTable::WriteDepth => "write-depth",
            IoTable::Alignment => "alignment",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            IoTable::Read => "Sequential reads, by combine limit",
            IoTable::ReadDepth => "Random reads of single blocks, by depth",
            IoTable::Checksums => "Sequential reads without and with verification of checksums",
            IoTable::Write => "Sequential writes, by combine limit, to durable",
            IoTable::WriteDepth => "Random writes of single blocks, by depth, to durable",
            IoTable::Alignment => "Reads of single blocks into memory at an offset, one at a time",
        }
    }

    fn writes(self) -> bool {
        matches!(self, IoTable::Write | IoTable::WriteDepth)
    }
}

/// Direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// From the file.
    Read,
    /// To the file, and at the end to durable.
    Write,
}

/// Order of the offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One after the other.
    Sequential,
    /// Anywhere.
    Random,
}

/// A method, and how it is set up.
pub type MethodChoice = MethodKind;

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
    pub methods: Vec<MethodChoice>,
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
    /// Everything, in this place.
    pub fn new(path: PathBuf) -> IoBench {
        IoBench {
            path,
            size: 1 << 30,
            run_time: Duration::from_millis(250),
            rounds: 3,
            methods: IoBench::all_methods(),
            direct: vec![false, true],
            combine: vec![1, 2, 4, 8, 16, 32],
            depths: vec![1, 2, 4, 8, 16, 32, 64],
            depth: 32,
            tables: IoTable::ALL.to_vec(),
        }
    }

    /// Every method there is, as the server sets it up by default.
    pub fn all_methods() -> Vec<MethodChoice> {
        let worker = MethodKind::Worker(WorkerLimits::default());
        vec![MethodKind::Sync, worker, MethodKind::IoUring, MethodKind::PosixAio]
    }

    /// Most blocks in one I/O.
    pub const MAX_COMBINE: u32 = 128;
    /// Most I/Os at a time.
    pub const MAX_DEPTH: u32 = 1024;

    /// Refuses what makes no sense.
    pub(super) fn check(&self) -> Result<(), BenchError> {
        let refuse = |what: String| Err(BenchError::Options(what));
        let within = |values: &[u32], most| values.iter().all(|value| (1..=most).contains(value));
        if !within(&self.combine, IoBench::MAX_COMBINE) {
            return refuse(format!(
                "combine limits must be in range 1..{} blocks",
                IoBench::MAX_COMBINE
            ));
        }
        if !within(&self.depths, IoBench::MAX_DEPTH) || !within(&[self.depth], IoBench::MAX_DEPTH) {
            return refuse(format!("depths must be in range 1..{}", IoBench::MAX_DEPTH));
        }
        if self.rounds == 0 {
            return refuse("there must be at least one round".to_owned());
        }
        if self.size < self.least_size() {
            return refuse(format!("a file of at least {} bytes is needed", self.least_size()));
        }
        Ok(())
    }

    /// The largest I/O a few times over.
    fn least_size(&self) -> u64 {
        let most = self.combine.iter().copied().max().unwrap_or(1).max(COMBINED);
        4 * u64::from(most) * BLOCK_SIZE as u64
    }

    /// The runs, in order. A file of the user's is only read.
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
                // A method that executes at once has one I/O under way, whatever the window.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The table it is shown in.
    pub table: IoTable,
    /// Direction.
    pub operation: Operation,
    /// Order of offsets.
    pub pattern: Pattern,
    /// Who executes.
    pub method: MethodChoice,
    /// Past the kernel's page cache.
    pub direct: bool,
    /// Blocks in one I/O.
    pub combine: u32,
    /// I/Os under way at a time.
    pub depth: u32,
    /// Checksums verified after reading, or set before writing.
    pub checksums: bool,
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
    pub fn io_bytes(&self) -> usize {
        self.combine as usize * BLOCK_SIZE
    }
}

/// Handles that a backend needs for the deepest run.
pub(super) fn handles(bench: &IoBench) -> usize {
    let deepest = bench.depths.iter().copied().max().unwrap_or(1).max(bench.depth) as usize;
    deepest.max(Backend::MAX_STAGED)
}
