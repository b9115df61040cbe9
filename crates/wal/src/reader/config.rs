//! What a reader must know about a log.

use std::path::PathBuf;

use forebay_format::SegmentSize;

/// Fixed properties of the log to read.
#[derive(Debug, Clone)]
pub struct ReaderConfig {
    /// The `pg_wal` directory.
    pub dir: PathBuf,
    /// Size of a segment file.
    pub segment_size: SegmentSize,
    /// The timeline to read.
    pub timeline: u32,
    /// System identifier that segments must state; `None` accepts any.
    pub system_id: Option<u64>,
    /// Whether to read with direct I/O (`io_direct` has `wal`).
    pub direct: bool,
}

/// How far a reader reads ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookAhead {
    /// Bytes of one read, a multiple of a page.
    pub chunk: usize,
    /// Most reads in flight, that of the chunk in use included.
    pub depth: usize,
}

impl Default for LookAhead {
    fn default() -> LookAhead {
        LookAhead { chunk: 256 << 10, depth: 8 }
    }
}
