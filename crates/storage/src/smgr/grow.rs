//! Growth: appending many blocks of zeros with one system call, and taking them back if the disk is
//! full.
//!
//! Space is allocated, not written, so that a new page is written first when it contains data.
//! Zeros are written if file_extend_method says so or if the file system cannot allocate.
//!
//! An allocation waits until all I/O on the file has ended. To allocate rarely, a large relation
//! reserves more space than requested beyond the end of its file.

use super::extend_method::ExtendMethod;
use super::fork::RelFork;
use super::manager::{BLOCK, Smgr};
use crate::error::{StorageError, errno_of};
use forebay_aio::sync::atomic::Ordering;
use forebay_aio::{self as aio, AioError, Errno, File};
use forebay_format::{BlockNumber, Fork, RelFileLocator};

/// Bytes in one write of zeros.
const ZEROS_AT_ONCE: u64 = 1 << 20;
/// A growing relation reserves this fraction of its size ...
const RESERVE_SHARE: u32 = 8;
/// ... but at most this many blocks (16 MB).
const RESERVE_MOST: u32 = 2048;

impl Smgr {
    /// Sets how files grow from now on, also those of temporary relations.
    pub fn set_extend_method(&self, method: ExtendMethod) {
        self.growing.zeros.store(method == ExtendMethod::WriteZeros, Ordering::Relaxed);
    }

    /// Appends `n` blocks of zeros and returns the number of the first. Only for files without
    /// pages in the pool.
    pub fn extend(
        &self,
        io: &mut aio::IoBackend,
        rel: RelFileLocator,
        fork: Fork,
        n: u32,
    ) -> Result<BlockNumber, StorageError> {
        io.submit();
        let entry = self.fork(rel, fork);
        let _lock = entry.extending.lock();
        let first = self.size_locked(&entry)?;
        self.grow_locked(io, &entry, first, n)?;
        entry.set_size(u64::from(first) + u64::from(n));
        Ok(first)
    }

    /// Grows the files by blocks `first..first + n`, which read as zeros. The caller holds the
    /// extension lock, and publishes the new size with [`RelFork::set_size`]. After an error the
    /// files have their old sizes.
    pub(crate) fn grow_locked(
        &self,
        io: &mut aio::IoBackend,
        entry: &RelFork,
        first: BlockNumber,
        n: u32,
    ) -> Result<(), StorageError> {
        if u64::from(first) + u64::from(n) >= u64::from(u32::MAX) {
            return Err(StorageError::TooManyBlocks { relation: entry.rel.path(entry.fork) });
        }
        let mut at = first;
        while at < first + n {
            let count = self.room_in_segment(at).min(first + n - at);
            if let Err(error) = self.grow_segment(io, entry, at, count) {
                self.take_back(entry, first, at + count);
                return Err(error);
            }
            at += count;
        }
        Ok(())
    }

    fn grow_segment(
        &self,
        io: &mut aio::IoBackend,
        entry: &RelFork,
        at: BlockNumber,
        count: u32,
    ) -> Result<(), StorageError> {
        let segment = self.segment_of(at);
        let (file, created) = self.open_segment(entry, segment, segment > 0)?;
        let grown = if self.growing.allocates() {
            self.allocate(io, entry, &file, at, count)
        } else {
            self.write_zeros(io, &file, at, count)
        };
        grown.map_err(|error| StorageError::Extend {
            file: self.segment_name(entry.rel, entry.fork, segment),
            block: at,
            errno: errno_of(&error),
        })?;
        self.sync.request_segment(entry.rel, entry.fork, segment);
        if created {
            self.sync.request_directory(file.path());
        }
        Ok(())
    }

    /// Appends blocks to a file from the reserved space. If that is used up, reserves more.
    fn allocate(
        &self,
        io: &mut aio::IoBackend,
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
        // The call below waits for direct I/O on the file. While it sleeps nobody could complete
        // this backend's own I/O, so that is finished first.
        io.quiesce();
        let ahead = (at / RESERVE_SHARE).min(RESERVE_MOST).min(self.room_in_segment(at));
        if ahead > count {
            match names.reserve(file, offset, u64::from(ahead) * BLOCK) {
                Ok(()) => {
                    entry.set_reserved(u64::from(at) + u64::from(ahead));
                    return names.set_len(file, offset + len);
                }
                // Frees the part that may have been reserved.
                Err(e) if e.errno() == Some(Errno::NOSPC) => names.set_len(file, offset)?,
                // A reservation only saves time; the allocation below decides.
                Err(_) => {}
            }
        }
        match names.allocate(file, offset, len) {
            Err(e) if e.errno() == Some(Errno::OPNOTSUPP) => {
                self.growing.refused.store(true, Ordering::Relaxed);
                self.write_zeros(io, file, at, count)
            }
            // Some file systems refuse single files only.
            Err(e) if e.errno() == Some(Errno::INVAL) => self.write_zeros(io, file, at, count),
            allocated => allocated,
        }
    }

    fn write_zeros(
        &self,
        io: &mut aio::IoBackend,
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

    /// Undoes a growth that failed half-way: the files end at block `keep` again.
    fn take_back(&self, entry: &RelFork, keep: BlockNumber, end: BlockNumber) {
        let per_segment = self.config.segment_blocks;
        // Truncating a file also frees the space reserved beyond its end.
        entry.set_reserved(0);
        for segment in (keep / per_segment..=(end - 1) / per_segment).rev() {
            let start = segment * per_segment;
            let undone = if start >= keep && segment > 0 {
                self.remove_segment(entry, segment)
            } else {
                self.cut_segment(entry, segment, keep - start)
            };
            if let Err(error) = undone {
                tracing::warn!(%error, "could not take back a failed extension");
            }
        }
    }
}
