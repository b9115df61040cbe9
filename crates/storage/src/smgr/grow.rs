//! Growth: blocks of zeros at a fork's end, many by one system call, and taking them back where the
//! disk is full.
//!
//! Space is allocated, not written: a new page's first write is the one with data in it. Where the
//! file system does not allocate, or by setting, zeros are written. A relation of some size has
//! more space set aside than it asks for, which is no part of the file: an allocation waits until
//! all I/O on the file has ended, so it had better be rare while the file is being filled.

use super::{BLOCK, Smgr};
use crate::error::StorageError;
use crate::smgr::RelFork;
use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_aio::{self as aio, AioError, Errno, File};
use forebay_format::{BlockNumber, Fork, RelFileLocator};

/// Bytes of zeros in one write.
const ZEROS_AT_ONCE: u64 = 1 << 20;
/// Which part of its size a growing relation sets aside, and how many blocks at most (16 MB).
const RESERVE_SHARE: u32 = 8;
const RESERVE_MOST: u32 = 2048;

/// How files grow: PostgreSQL's file_extend_method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExtendMethod {
    /// Space is allocated; where the file system can't, zeros are written.
    #[default]
    PosixFallocate,
    /// Zeros are written.
    WriteZeros,
}

impl ExtendMethod {
    /// Every method, by its name.
    pub const NAMES: [(&'static str, ExtendMethod); 2] = [
        ("posix_fallocate", ExtendMethod::PosixFallocate),
        ("write_zeros", ExtendMethod::WriteZeros),
    ];

    /// The method of that name.
    pub fn by_name(name: &str) -> Option<ExtendMethod> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, method)| *method)
    }
}

/// How files grow at present.
#[derive(Debug)]
pub(super) struct Growing {
    /// Zeros are to be written.
    zeros: AtomicBool,
    /// The file system turned out not to allocate.
    refused: AtomicBool,
}

impl Growing {
    pub(super) fn new(method: ExtendMethod) -> Growing {
        let zeros = AtomicBool::new(method == ExtendMethod::WriteZeros);
        Growing { zeros, refused: AtomicBool::new(false) }
    }

    fn allocates(&self) -> bool {
        !self.zeros.load(Ordering::Relaxed) && !self.refused.load(Ordering::Relaxed)
    }
}

impl Smgr {
    /// How files grow from now on, those of temporary relations too.
    pub fn set_extend_method(&self, method: ExtendMethod) {
        self.growing.zeros.store(method == ExtendMethod::WriteZeros, Ordering::Relaxed);
    }

    /// Appends `n` blocks of zeros, and returns the first one's number. For files without pages in
    /// the pool.
    pub fn extend(
        &self,
        io: &mut aio::Backend,
        rel: RelFileLocator,
        fork: Fork,
        n: u32,
    ) -> Result<BlockNumber, StorageError> {
        io.submit();
        let entry = self.fork(rel, fork);
        let _lock = entry.extending.lock();
        let first = self.size_locked(&entry, rel, fork)?;
        self.grow_locked(io, &entry, rel, fork, first, n)?;
        entry.set_size(u64::from(first) + u64::from(n));
        Ok(first)
    }

    /// Makes room for blocks `first..first + n`, which read as zeros, under the extension lock. The
    /// new size is not published: the caller does, with [`RelFork::set_size`]. After an error the
    /// files have their old sizes.
    pub(crate) fn grow_locked(
        &self,
        io: &mut aio::Backend,
        entry: &RelFork,
        rel: RelFileLocator,
        fork: Fork,
        first: BlockNumber,
        n: u32,
    ) -> Result<(), StorageError> {
        if u64::from(first) + u64::from(n) >= u64::from(u32::MAX) {
            return Err(StorageError::TooManyBlocks { relation: rel.path(fork) });
        }
        let mut at = first;
        while at < first + n {
            let count = self.room_in_segment(at).min(first + n - at);
            if let Err(error) = self.grow_segment(io, entry, rel, fork, at, count) {
                self.take_back(entry, rel, fork, first, at + count);
                return Err(error);
            }
            at += count;
        }
        Ok(())
    }

    fn grow_segment(
        &self,
        io: &mut aio::Backend,
        entry: &RelFork,
        rel: RelFileLocator,
        fork: Fork,
        at: BlockNumber,
        count: u32,
    ) -> Result<(), StorageError> {
        let segment = self.segment_of(at);
        let (file, created) = self.open_segment(entry, rel, fork, segment, segment > 0)?;
        let grown = if self.growing.allocates() {
            self.allocate(io, entry, &file, at, count)
        } else {
            self.write_zeros(io, &file, at, count)
        };
        grown.map_err(|error| StorageError::Extend {
            file: self.segment_name(rel, fork, segment),
            block: at,
            errno: error.errno().unwrap_or(Errno::IO),
        })?;
        self.sync.request_segment(rel, fork, segment);
        if created {
            self.sync.request_directory(file.path());
        }
        Ok(())
    }

    /// Allocates blocks at a file's end, out of what is set aside or with more being set aside.
    fn allocate(
        &self,
        io: &mut aio::Backend,
        entry: &RelFork,
        file: &File,
        at: BlockNumber,
        count: u32,
    ) -> Result<(), AioError> {
        let names = self.namespace();
        let offset = self.offset_in_segment(at);
        let len = u64::from(count) * BLOCK;
        if entry.reserved() >= u64::from(at) + u64::from(count) {
            return names.set_len(file, offset + len);
        }
        // It will wait for direct I/O on the file anyhow, but in a sleep in which nobody could
        // finish ours.
        io.quiesce();
        let ahead = (at / RESERVE_SHARE).min(RESERVE_MOST).min(self.room_in_segment(at));
        if ahead > count {
            match names.reserve(file, offset, u64::from(ahead) * BLOCK) {
                Ok(()) => {
                    entry.set_reserved(u64::from(at) + u64::from(ahead));
                    return names.set_len(file, offset + len);
                }
                // Gives back what it may have got of it.
                Err(e) if e.errno() == Some(Errno::NOSPC) => names.set_len(file, offset)?,
                Err(_) => {}
            }
        }
        match names.allocate(file, offset, len) {
            Err(e) if e.errno() == Some(Errno::OPNOTSUPP) => {
                self.growing.refused.store(true, Ordering::Relaxed);
                self.write_zeros(io, file, at, count)
            }
            // Some file systems say so of single files.
            Err(e) if e.errno() == Some(Errno::INVAL) => self.write_zeros(io, file, at, count),
            allocated => allocated,
        }
    }

    fn write_zeros(
        &self,
        io: &mut aio::Backend,
        file: &File,
        at: BlockNumber,
        count: u32,
    ) -> Result<(), AioError> {
        let offset = self.offset_in_segment(at);
        let len = u64::from(count) * BLOCK;
        let zeros = aio::AlignedBuf::zeroed(len.min(ZEROS_AT_ONCE) as usize)?;
        let mut done = 0;
        while done + zeros.len() as u64 <= len {
            io.write_all_at(file, offset + done, &zeros)?;
            done += zeros.len() as u64;
        }
        if done < len {
            let rest = aio::AlignedBuf::zeroed((len - done) as usize)?;
            io.write_all_at(file, offset + done, &rest)?;
        }
        Ok(())
    }

    /// Takes back a growth that failed half-way: the files end at `keep` again.
    fn take_back(
        &self,
        entry: &RelFork,
        rel: RelFileLocator,
        fork: Fork,
        keep: BlockNumber,
        end: BlockNumber,
    ) {
        let per_segment = self.config.segment_blocks;
        // Cutting a file also gives back what was set aside behind its end.
        entry.set_reserved(0);
        for segment in (keep / per_segment..=(end - 1) / per_segment).rev() {
            let start = segment * per_segment;
            let undone = if start >= keep && segment > 0 {
                self.remove_segment(entry, rel, fork, segment)
            } else {
                self.cut_segment(entry, rel, fork, segment, keep - start)
            };
            if let Err(error) = undone {
                tracing::warn!(%error, "could not take back a failed extension");
            }
        }
    }
}
