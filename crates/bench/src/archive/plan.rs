//! The options of `forebay bench archive`.

use std::path::PathBuf;

use forebay_aio::MethodKind;

use crate::methods::best_method;

/// What to measure, and where.
#[derive(Clone, Debug)]
pub struct ArchiveBench {
    /// A directory, in which the log and the archive get a private one.
    pub dir: PathBuf,
    /// Numbers of marked files, for a module that stores nothing. Empty: not measured.
    pub marks: Vec<u64>,
    /// Segments of 16 MB that are stored. 0: not measured.
    pub segments: u64,
    /// Numbers of segments that are stored at a time.
    pub transfers: Vec<usize>,
    /// The URL of an object store that stores them instead of a directory. Each run removes what it
    /// has stored.
    pub archive: Option<String>,
    /// Buffered, direct or both.
    pub direct: Vec<bool>,
    /// io_method.
    pub method: MethodKind,
    /// How often each run is made.
    pub rounds: usize,
    /// fio is not run.
    pub alone: bool,
}

impl ArchiveBench {
    /// Most marks of a run.
    pub const MOST_MARKS: u64 = 10_000_000;
    /// Most segments.
    pub const MOST_SEGMENTS: u64 = 100_000;
    /// Most transfers at a time.
    pub const MOST_TRANSFERS: usize = 64;

    /// 12,000 and 120,000 marks, and 64 segments, with `io_uring` where the kernel allows it.
    pub fn new(dir: PathBuf) -> ArchiveBench {
        ArchiveBench {
            dir,
            marks: vec![12_000, 120_000],
            segments: 64,
            transfers: vec![1, 2, 4],
            archive: None,
            direct: vec![false, true],
            method: best_method(),
            rounds: 3,
            alone: false,
        }
    }
}
