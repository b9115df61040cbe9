//! Shrinking: cutting a fork's files, and removing them.
//!
//! Nothing that is in flight on a file reaches one of the same name that is made later. Pages' I/O
//! is waited for by the pool, which forgets the pages first; other transfers are waited for here.
//! What else may be under way (a sync, a hint to write back) holds the old file open and has no
//! effect on a new one; and who comes by an entry of a fork that was removed opens nothing.
//!
//! Segments that a cut leaves empty are removed, but for the first, and no sync of theirs stays
//! wanted: the directory is synced instead, so that a crash doesn't bring them back behind a
//! relation that has grown again.

use super::files::UNKNOWN_SIZE;
use super::{BLOCK, RelFork, Smgr, file_error};
use crate::error::StorageError;
use forebay_aio::OpenOptions;
use forebay_format::{BlockNumber, Fork, RelFileLocator};
use std::path::Path;

impl Smgr {
    /// Cuts a fork to `n` blocks. Its later pages must be gone from the pool already.
    pub(crate) fn truncate_locked(
        &self,
        entry: &RelFork,
        rel: RelFileLocator,
        fork: Fork,
        n: BlockNumber,
    ) -> Result<(), StorageError> {
        let old = self.size_locked(entry, rel, fork)?;
        if n >= old {
            return Ok(());
        }
        let _none_in_flight = entry.transfers.close(&self.aio);
        entry.set_reserved(0);
        self.written.cut(rel, fork, n);
        let per_segment = self.config.segment_blocks;
        // From the end, so that a crash or an error leaves no gap, and it can be done again.
        for segment in (n / per_segment..self.segments(rel, fork)?).rev() {
            let keep = n.saturating_sub(segment * per_segment);
            entry.set_size(UNKNOWN_SIZE);
            if keep == 0 && segment > 0 {
                self.remove_segment(entry, rel, fork, segment)?;
            } else {
                self.cut_segment(entry, rel, fork, segment, keep)?;
                self.sync.request_segment(rel, fork, segment);
            }
        }
        entry.set_size(u64::from(n));
        Ok(())
    }

    /// Cuts a segment to its first `keep` blocks.
    pub(super) fn cut_segment(
        &self,
        entry: &RelFork,
        rel: RelFileLocator,
        fork: Fork,
        segment: u32,
        keep: u32,
    ) -> Result<(), StorageError> {
        let (file, _) = self.open_segment(entry, rel, fork, segment, false)?;
        let cut = self.namespace().set_len(&file, u64::from(keep) * BLOCK);
        cut.map_err(|e| file_error("truncate", file.path(), &e))
    }

    /// Removes a segment behind a fork's new end. None being there is no error.
    pub(super) fn remove_segment(
        &self,
        entry: &RelFork,
        rel: RelFileLocator,
        fork: Fork,
        segment: u32,
    ) -> Result<(), StorageError> {
        let path = self.segment_path(rel, fork, segment);
        // Before the file is gone: a sync that is about to open it finds that it isn't wanted.
        self.sync.forget_segment(rel, fork, segment);
        entry.forget(segment);
        match self.remove_file(&path) {
            Ok(()) => {
                self.sync.request_directory(&path);
                Ok(())
            }
            Err(error) => {
                self.sync.request_segment(rel, fork, segment);
                Err(error)
            }
        }
    }

    /// Removes all files of a relation; missing ones are no error. Its pages must be gone from the
    /// pool already. The caller has no I/O staged.
    pub fn unlink(&self, rel: RelFileLocator) -> Result<(), StorageError> {
        for fork in Fork::ALL {
            let entry = self.fork(rel, fork);
            let _lock = entry.extending.lock();
            let _none_in_flight = entry.transfers.close(&self.aio);
            self.sync.forget(rel, fork);
            self.written.forget(rel, fork);
            entry.set_size(UNKNOWN_SIZE);
            entry.set_reserved(0);
            entry.remove();
            self.shard(rel).write().remove(&(rel, fork));
            // From the end here too: who tries again after an error finds what is left.
            for segment in (0..self.segments(rel, fork)?).rev() {
                self.remove_file(&self.segment_path(rel, fork, segment))?;
            }
        }
        Ok(())
    }

    /// How many segments a fork has, empty ones too.
    fn segments(&self, rel: RelFileLocator, fork: Fork) -> Result<u32, StorageError> {
        let mut n = 0;
        loop {
            let path = self.segment_path(rel, fork, n);
            match self.namespace().exists(&path) {
                Ok(true) => n += 1,
                Ok(false) => return Ok(n),
                Err(e) => return Err(file_error("stat", &path, &e)),
            }
        }
    }

    /// Empties and unlinks a file. None being there is no error.
    fn remove_file(&self, path: &Path) -> Result<(), StorageError> {
        // An I/O handle that has not been used again keeps its last file open: emptied, the file
        // takes no space however long that lasts. Should it fail, the space comes back later.
        let _ = self.namespace().open(path, &OpenOptions::READ_WRITE.truncate());
        match self.namespace().unlink(path) {
            Err(e) if !e.is_not_found() => Err(file_error("remove", path, &e)),
            _ => Ok(()),
        }
    }
}
