//! Shrinking: truncating a fork's files, and removing them.
//!
//! No I/O in flight on a file reaches a later file of the same name. The pool forgets the pages
//! first and waits for their I/O. Transfers past the pool are waited for here. A sync or a
//! write-back hint may still run; it holds the old file open and has no effect on a new one. A
//! thread that still has the entry of a removed fork cannot open files through it.
//!
//! Truncation removes the segments that it leaves empty, except the first, and drops their sync
//! requests. It requests a sync of the directory instead: otherwise the removed segments could come
//! back after a crash, behind a relation that has grown again.

use super::fork::{RelFork, UNKNOWN_SIZE};
use super::manager::{BLOCK, Smgr};
use crate::error::{StorageError, file_error};
use forebay_aio::{IfFound, OpenOptions};
use forebay_format::{BlockNumber, Fork, RelFileLocator};
use std::path::Path;

impl Smgr {
    /// Truncates a fork to `n` blocks. The caller holds the extension lock and has removed the
    /// later pages from the pool.
    pub(crate) fn truncate_locked(
        &self,
        entry: &RelFork,
        n: BlockNumber,
    ) -> Result<(), StorageError> {
        let old = self.size_locked(entry)?;
        if n >= old {
            return Ok(());
        }
        let _none_in_flight = entry.transfers.close(&self.aio);
        entry.set_reserved(0);
        self.written.truncate(entry.rel, entry.fork, n);
        let per_segment = self.config.segment_blocks;
        // From the end, so that a crash or an error leaves no gap and the call can be repeated.
        for segment in (n / per_segment..self.segments(entry)?).rev() {
            let keep = n.saturating_sub(segment * per_segment);
            entry.set_size(UNKNOWN_SIZE);
            if keep == 0 && segment > 0 {
                self.remove_segment(entry, segment)?;
            } else {
                self.cut_segment(entry, segment, keep)?;
                self.sync.request_segment(entry.rel, entry.fork, segment);
            }
        }
        entry.set_size(u64::from(n));
        Ok(())
    }

    /// Truncates a segment to its first `keep` blocks.
    pub(super) fn cut_segment(
        &self,
        entry: &RelFork,
        segment: u32,
        keep: u32,
    ) -> Result<(), StorageError> {
        let (file, _) = self.open_segment(entry, segment, false)?;
        let cut = self.namespace().set_len(&file, u64::from(keep) * BLOCK);
        cut.map_err(|e| file_error("truncate", file.path(), &e))
    }

    /// Removes a segment beyond a fork's new end, if it exists.
    pub(super) fn remove_segment(&self, entry: &RelFork, segment: u32) -> Result<(), StorageError> {
        let (rel, fork) = (entry.rel, entry.fork);
        let path = self.segment_path(rel, fork, segment);
        // Before the unlink: a sync that fails to open the file then sees that it is not wanted.
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

    /// Removes all files of a relation; missing files are no error. The caller has removed the
    /// relation's pages from the pool, and has no staged I/O.
    pub fn unlink(&self, rel: RelFileLocator) -> Result<(), StorageError> {
        for fork in Fork::ALL {
            let entry = self.fork(rel, fork);
            let _lock = entry.extending.lock();
            let _none_in_flight = entry.transfers.close(&self.aio);
            self.sync.forget(rel, fork);
            self.written.remove_fork(rel, fork);
            entry.set_size(UNKNOWN_SIZE);
            entry.set_reserved(0);
            entry.remove();
            self.shard(rel).write().remove(&(rel, fork));
            // From the end, so that a second attempt after an error finds the rest.
            for segment in (0..self.segments(&entry)?).rev() {
                let path = self.segment_path(rel, fork, segment);
                self.remove_file(&path)?;
                forebay_aio::planted_bug!(self.aio(), DroppedNamesNotSynced, continue);
                // After the next checkpoint no recovery redoes the drop.
                self.sync.request_directory(&path);
            }
        }
        Ok(())
    }

    /// Returns the number of segments of a fork, empty ones included.
    fn segments(&self, entry: &RelFork) -> Result<u32, StorageError> {
        let mut n = 0;
        loop {
            let path = self.segment_path(entry.rel, entry.fork, n);
            match self.namespace().exists(&path) {
                Ok(true) => n += 1,
                Ok(false) => return Ok(n),
                Err(e) => return Err(file_error("stat", &path, &e)),
            }
        }
    }

    /// Empties and unlinks a file, if it exists.
    fn remove_file(&self, path: &Path) -> Result<(), StorageError> {
        // An idle I/O handle keeps its last file open. An empty file takes no space meanwhile; if
        // emptying fails, the space is freed when the handle is reused.
        let _ = self.namespace().open(path, &OpenOptions::READ_WRITE.truncate());
        let removed = self.namespace().unlink(path).if_found();
        removed.map(drop).map_err(|e| file_error("remove", path, &e))
    }
}
