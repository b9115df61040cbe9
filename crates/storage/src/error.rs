//! What can go wrong in storage; each error names the relation's file, the block and the operation.

use forebay_aio::{AioError, Errno};
use forebay_format::{BlockNumber, Fork, PageTag, RelFileLocator};
use forebay_wal::WalError;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

/// An error of the storage layer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// A page that was read is not a page: bad header or checksum.
    #[error("invalid page in block {block} of relation \"{relation}\"", block = tag.block, relation = relation_path(tag.rel, tag.fork, *owner))]
    InvalidPage {
        /// The page.
        tag: PageTag,
        /// Of a temporary relation: the backend that its files are named for.
        owner: Option<i32>,
    },
    /// Several pages of one read are no pages.
    #[error("{invalid} invalid pages among blocks {}..{} of relation \"{relation}\"", blocks.start(), blocks.end(), relation = relation_path(*rel, *fork, *owner))]
    InvalidPages {
        /// The relation.
        rel: RelFileLocator,
        /// Its fork.
        fork: Fork,
        /// Of a temporary relation: the backend that its files are named for.
        owner: Option<i32>,
        /// The read's blocks.
        blocks: RangeInclusive<BlockNumber>,
        /// How many are invalid.
        invalid: u32,
        /// The first one that is.
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
        /// Bytes that were there.
        got: u32,
        /// Bytes wanted.
        wanted: u32,
    },
    /// A write failed; the pages stay dirty.
    #[error("could not write {blocks} in file \"{file}\": {errno}", blocks = block_range(*block, *count))]
    Write {
        /// The segment file, relative to the data directory.
        file: String,
        /// The first block.
        block: BlockNumber,
        /// How many blocks the write was for.
        count: u32,
        /// The system's reason.
        errno: Errno,
    },
    /// The file that should have a block could not be opened.
    #[error("could not open file \"{file}\" (target block {block}): {errno}")]
    OpenSegment {
        /// The segment file, relative to the data directory.
        file: String,
        /// The block.
        block: BlockNumber,
        /// The system's reason.
        errno: Errno,
    },
    /// A write past a relation's end, which only an extension may move.
    #[error("could not write block {block} in file \"{file}\": the relation has {size} blocks")]
    WritePastEnd {
        /// The segment file, relative to the data directory.
        file: String,
        /// The first block that the relation does not have.
        block: BlockNumber,
        /// How many it has.
        size: BlockNumber,
    },
    /// A relation could not be extended; its size is what it was.
    #[error("could not extend file \"{file}\" at block {block}: {errno}")]
    Extend {
        /// The segment file, relative to the data directory.
        file: String,
        /// The first block of it that there should have been.
        block: BlockNumber,
        /// The system's reason.
        errno: Errno,
    },
    /// A relation would grow past the largest block number.
    #[error("cannot extend relation \"{relation}\" beyond {} blocks", u32::MAX)]
    TooManyBlocks {
        /// The relation's path.
        relation: String,
    },
    /// The pool has a page where the file is about to grow: another size was known before.
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
        /// What was tried.
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
    /// A temporary file ends before what was written into it.
    #[error(
        "could not read from file \"{file}\" at offset {offset}: read only {got} of {wanted} bytes"
    )]
    TempShort {
        /// The file, relative to the data directory.
        file: String,
        /// The read's first byte.
        offset: u64,
        /// Bytes that were there.
        got: u64,
        /// Bytes wanted.
        wanted: u64,
    },
    /// The session's temporary files would become larger than they may.
    #[error("temporary file size exceeds \"temp_file_limit\" ({kilobytes}kB)")]
    TempLimit {
        /// The limit.
        kilobytes: i64,
    },
    /// A sync failed: what was written may be lost, and a second sync would not tell. The process
    /// must stop.
    #[error("could not fsync file \"{file}\": {errno}")]
    Sync {
        /// The file or directory.
        file: PathBuf,
        /// The system's reason.
        errno: Errno,
    },
    /// What is on the disk is not what was written there last, with success. The log can make it
    /// again: the process must stop, and recover.
    #[error(
        "lost write of block {block} in file \"{file}\": on disk is not what was written there"
    )]
    LostWrite {
        /// The segment file, relative to the data directory.
        file: String,
        /// The block.
        block: BlockNumber,
    },
    /// The WAL could not be flushed ahead of a page, which stays dirty. What it means is the WAL's
    /// to say.
    #[error("could not flush write-ahead log ahead of a page: {0}")]
    Wal(WalFailure),
    /// Two threads wait to be the only one with a page.
    #[error("another backend waits already to be alone with block {block} of relation \"{relation}\"", block = tag.block, relation = relation_path(tag.rel, tag.fork, None))]
    CleanupWanted {
        /// The page.
        tag: PageTag,
    },
    /// All buffers are pinned, and everyone who has a pin waits for another one; or none was given
    /// back for a long time.
    #[error("no unpinned buffers available")]
    NoUnpinnedBuffers,
    /// The layer below refused to start an operation.
    #[error("{0}")]
    Aio(Arc<AioError>),
}

/// A cause from the log, kept by value so that errors can be cloned.
pub type WalFailure = Arc<dyn std::error::Error + Send + Sync>;

impl StorageError {
    /// True if the process must stop: something that was promised durable may not be.
    pub fn is_fatal(&self) -> bool {
        match self {
            StorageError::Sync { .. } | StorageError::LostWrite { .. } => true,
            // A page with an impossible LSN, or a full disk, is no reason to stop everyone.
            StorageError::Wal(failure) => failure.downcast_ref().is_none_or(WalError::is_fatal),
            StorageError::Aio(error) => error.is_failed_sync(),
            _ => false,
        }
    }

    /// PostgreSQL's DETAIL line.
    pub fn detail(&self) -> Option<String> {
        match self {
            StorageError::InvalidPages { first, .. } => {
                Some(format!("Block {first} held the first invalid page."))
            }
            _ => None,
        }
    }

    /// PostgreSQL's HINT line.
    pub fn hint(&self) -> Option<String> {
        match self {
            StorageError::InvalidPages { invalid, .. } => {
                Some(format!("See server log for the other {} invalid block(s).", invalid - 1))
            }
            StorageError::LostWrite { .. } => Some(
                "Restart the server: recovery makes the page again from the write-ahead log. The write may have gone elsewhere: check \
                 the disk, and then all page checksums."
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// PostgreSQL's code for the error.
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

/// PostgreSQL's code for a file operation that failed so.
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

/// "block 7" or "blocks 7..22".
pub(crate) fn block_range(first: BlockNumber, count: u32) -> String {
    if count == 1 {
        format!("block {first}")
    } else {
        format!("blocks {first}..{}", first + count.max(1) - 1)
    }
}

/// "base/5/16384", with the fork's suffix; "base/5/t3_16384" for a temporary relation of backend 3.
pub(crate) fn relation_path(rel: RelFileLocator, fork: Fork, owner: Option<i32>) -> String {
    match owner {
        None => rel.path(fork),
        Some(owner) => format!("{}/t{owner}_{}{}", rel.directory(), rel.rel, fork.suffix()),
    }
}
