//! Errors of the storage layer. Each names the operation, the relation's file and the block.

use forebay_aio::{AioError, Errno};
use forebay_format::{BlockNumber, Fork, PageTag, RelFileLocator};
use forebay_wal::WalError;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An error of the storage layer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// A page that was read has a bad header or checksum.
    #[error(
        "invalid page in block {block} of relation \"{relation}\"",
        block = tag.block,
        relation = relation_path(tag.rel, tag.fork, *owner)
    )]
    InvalidPage {
        /// The page.
        tag: PageTag,
        /// The backend that owns the relation, if it is temporary.
        owner: Option<i32>,
    },
    /// Several pages of one read have bad headers or checksums.
    #[error(
        "{invalid} invalid pages among blocks {}..{} of relation \"{relation}\"",
        blocks.start(),
        blocks.end(),
        relation = relation_path(*rel, *fork, *owner)
    )]
    InvalidPages {
        /// The relation.
        rel: RelFileLocator,
        /// The relation's fork.
        fork: Fork,
        /// The backend that owns the relation, if it is temporary.
        owner: Option<i32>,
        /// The read's blocks.
        blocks: RangeInclusive<BlockNumber>,
        /// The number of invalid pages.
        invalid: u32,
        /// The first invalid page.
        first: BlockNumber,
    },
    /// A read failed.
    #[error("could not read block {block} in file \"{file}\": {errno}")]
    Read {
        /// The segment file, relative to the data directory.
        file: String,
        /// The block.
        block: BlockNumber,
        /// The system's reason.
        errno: Errno,
    },
    /// The file ends before the block.
    #[error("could not read block {block} in file \"{file}\": read only {got} of {wanted} bytes")]
    ShortRead {
        /// The segment file, relative to the data directory.
        file: String,
        /// The block.
        block: BlockNumber,
        /// Bytes that were read.
        got: u32,
        /// Bytes that were wanted.
        wanted: u32,
    },
    /// A write failed; the pages stay dirty.
    #[error(
        "could not write {blocks} in file \"{file}\": {errno}",
        blocks = block_range(*block, *count)
    )]
    Write {
        /// The segment file, relative to the data directory.
        file: String,
        /// The first block.
        block: BlockNumber,
        /// The number of blocks in the write.
        count: u32,
        /// The system's reason.
        errno: Errno,
    },
    /// The file that should contain a block could not be opened.
    #[error("could not open file \"{file}\" (target block {block}): {errno}")]
    OpenSegment {
        /// The segment file, relative to the data directory.
        file: String,
        /// The block.
        block: BlockNumber,
        /// The system's reason.
        errno: Errno,
    },
    /// A write beyond a relation's end. Only an extension may move the end.
    #[error("could not write block {block} in file \"{file}\": the relation has {size} blocks")]
    WritePastEnd {
        /// The segment file, relative to the data directory.
        file: String,
        /// The first block that the relation does not have.
        block: BlockNumber,
        /// The relation's size in blocks.
        size: BlockNumber,
    },
    /// A relation could not be extended; it keeps its size.
    #[error("could not extend file \"{file}\" at block {block}: {errno}")]
    Extend {
        /// The segment file, relative to the data directory.
        file: String,
        /// The first block that could not be added.
        block: BlockNumber,
        /// The system's reason.
        errno: Errno,
    },
    /// A relation would exceed the largest block number.
    #[error("cannot extend relation \"{relation}\" beyond {} blocks", u32::MAX)]
    TooManyBlocks {
        /// The relation's path.
        relation: String,
    },
    /// The pool has a page with data beyond the end of the file: another size was known before.
    #[error("unexpected data beyond EOF in block {block} of relation \"{relation}\"")]
    DataBeyondEnd {
        /// The relation's path.
        relation: String,
        /// The block.
        block: BlockNumber,
    },
    /// An operation on a file failed (open, create, truncate, unlink, stat).
    #[error("could not {operation} file \"{file}\": {errno}")]
    File {
        /// The operation.
        operation: &'static str,
        /// The file.
        file: PathBuf,
        /// The system's reason.
        errno: Errno,
    },
    /// A transfer of a temporary file failed.
    #[error("could not {operation} file \"{file}\" at offset {offset}: {errno}")]
    TempFile {
        /// "read from" or "write to".
        operation: &'static str,
        /// The file, relative to the data directory.
        file: String,
        /// The transfer's first byte.
        offset: u64,
        /// The system's reason.
        errno: Errno,
    },
    /// A temporary file is shorter than what was written into it.
    #[error(
        "could not read from file \"{file}\" at offset {offset}: read only {got} of {wanted} bytes"
    )]
    TempShort {
        /// The file, relative to the data directory.
        file: String,
        /// The read's first byte.
        offset: u64,
        /// Bytes that were read.
        got: u64,
        /// Bytes that were wanted.
        wanted: u64,
    },
    /// The session's temporary files would exceed temp_file_limit.
    #[error("temporary file size exceeds \"temp_file_limit\" ({kilobytes}kB)")]
    TempLimit {
        /// The limit in kB.
        kilobytes: i64,
    },
    /// A sync failed. Data written before may be lost, and a second sync would not report it. The
    /// process must stop.
    #[error("could not fsync file \"{file}\": {errno}")]
    Sync {
        /// The file or directory.
        file: PathBuf,
        /// The system's reason.
        errno: Errno,
    },
    /// The disk does not contain the page that was last written and synced. The process must stop,
    /// and recover the page from the log.
    #[error(
        "lost write of block {block} in file \"{file}\": on disk is not what was written there"
    )]
    LostWrite {
        /// The segment file, relative to the data directory.
        file: String,
        /// The block.
        block: BlockNumber,
    },
    /// The WAL could not be flushed ahead of a page, which stays dirty. The cause decides whether
    /// it is fatal.
    #[error("could not flush write-ahead log ahead of a page: {0}")]
    Wal(WalFailure),
    /// A thread already waits for the cleanup lock of the page.
    #[error(
        "another backend waits already to be alone with block {block} of relation \"{relation}\"",
        block = tag.block,
        relation = relation_path(tag.rel, tag.fork, None)
    )]
    CleanupWanted {
        /// The page.
        tag: PageTag,
    },
    /// All buffers are pinned, and all holders of pins wait for another one; or no pin was released
    /// for a long time.
    #[error("no unpinned buffers available")]
    NoUnpinnedBuffers,
    /// The I/O layer refused to start an operation.
    #[error("{0}")]
    Aio(Arc<AioError>),
}

/// An error of the WAL, shared so that a [`StorageError`] can be cloned.
pub type WalFailure = Arc<dyn std::error::Error + Send + Sync>;

impl StorageError {
    /// Whether the process must stop, because data that was reported durable may not be.
    pub fn is_fatal(&self) -> bool {
        match self {
            StorageError::Sync { .. } | StorageError::LostWrite { .. } => true,
            // A page with an impossible LSN, or a full disk, does not stop the server.
            StorageError::Wal(failure) => failure.downcast_ref().is_none_or(WalError::is_fatal),
            StorageError::Aio(error) => error.is_failed_sync(),
            StorageError::InvalidPage { .. }
            | StorageError::InvalidPages { .. }
            | StorageError::Read { .. }
            | StorageError::ShortRead { .. }
            | StorageError::Write { .. }
            | StorageError::OpenSegment { .. }
            | StorageError::WritePastEnd { .. }
            | StorageError::Extend { .. }
            | StorageError::TooManyBlocks { .. }
            | StorageError::DataBeyondEnd { .. }
            | StorageError::File { .. }
            | StorageError::TempFile { .. }
            | StorageError::TempShort { .. }
            | StorageError::TempLimit { .. }
            | StorageError::CleanupWanted { .. }
            | StorageError::NoUnpinnedBuffers => false,
        }
    }

    /// Returns PostgreSQL's DETAIL line.
    pub fn detail(&self) -> Option<String> {
        match self {
            StorageError::InvalidPages { first, .. } => {
                Some(format!("Block {first} held the first invalid page."))
            }
            _ => None,
        }
    }

    /// Returns PostgreSQL's HINT line.
    pub fn hint(&self) -> Option<String> {
        match self {
            StorageError::InvalidPages { invalid, .. } => {
                Some(format!("See server log for the other {} invalid block(s).", invalid - 1))
            }
            StorageError::LostWrite { .. } => Some(
                "Restart the server: recovery makes the page again from the write-ahead log. \
                 The write may have gone elsewhere: check the disk, and then all page checksums."
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// Returns PostgreSQL's SQLSTATE for the error.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            StorageError::InvalidPage { .. }
            | StorageError::LostWrite { .. }
            | StorageError::InvalidPages { .. }
            | StorageError::ShortRead { .. }
            | StorageError::WritePastEnd { .. }
            | StorageError::DataBeyondEnd { .. } => "XX001",
            StorageError::TooManyBlocks { .. } => "54000",
            StorageError::NoUnpinnedBuffers => "53000",
            StorageError::CleanupWanted { .. } => "XX000",
            StorageError::TempShort { .. } => "58030",
            StorageError::TempLimit { .. } => "53400",
            StorageError::Extend { errno, .. }
            | StorageError::OpenSegment { errno, .. }
            | StorageError::Write { errno, .. }
            | StorageError::Read { errno, .. }
            | StorageError::File { errno, .. }
            | StorageError::TempFile { errno, .. }
            | StorageError::Sync { errno, .. } => sqlstate_of(*errno),
            StorageError::Aio(error) => error.errno().map_or("58030", sqlstate_of),
            StorageError::Wal(failure) => match failure.downcast_ref() {
                Some(WalError::NoSpace { .. }) => "53100",
                Some(WalError::BeyondEnd { .. }) => "XX001",
                Some(error) => error.errno().map_or("58030", sqlstate_of),
                None => "58030",
            },
        }
    }
}

/// Returns PostgreSQL's SQLSTATE for a file operation that failed with this error.
pub fn sqlstate_of(errno: Errno) -> &'static str {
    match errno {
        Errno::NOENT => "58P01",
        Errno::EXIST => "58P02",
        Errno::NOSPC => "53100",
        Errno::MFILE | Errno::NFILE => "53000",
        Errno::NOMEM => "53200",
        _ => "58030",
    }
}

impl From<AioError> for StorageError {
    fn from(error: AioError) -> Self {
        StorageError::Aio(Arc::new(error))
    }
}
/// Returns the system's error code. An error without one, such as a short transfer, is EIO.
pub(crate) fn errno_of(error: &AioError) -> Errno {
    error.errno().unwrap_or(Errno::IO)
}

/// Adds the operation and the file to an error of the I/O layer.
pub(crate) fn file_error(operation: &'static str, path: &Path, error: &AioError) -> StorageError {
    StorageError::File { operation, file: path.to_path_buf(), errno: errno_of(error) }
}

/// "block 7" or "blocks 7..22".
pub(crate) fn block_range(first: BlockNumber, count: u32) -> String {
    if count == 1 {
        format!("block {first}")
    } else {
        format!("blocks {first}..{}", first + count.max(1) - 1)
    }
}

/// "base/5/16384" with the fork's suffix; "base/5/t3_16384" for a temporary relation of backend 3.
pub(crate) fn relation_path(rel: RelFileLocator, fork: Fork, owner: Option<i32>) -> String {
    match owner {
        None => rel.path(fork),
        Some(owner) => format!("{}/t{owner}_{}{}", rel.directory(), rel.rel, fork.suffix()),
    }
}
