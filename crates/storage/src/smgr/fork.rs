//! One fork of a relation: its size, extension lock and segment files.

use super::extension_queue::ExtensionQueue;
use crate::error::StorageError;
use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_aio::sync::{Arc, Mutex, RwLock, RwLockWriteGuard};
use forebay_aio::{Aio, File, VirtualFile, WaitRef};
use forebay_format::{BlockNumber, Fork, PageTag, RelFileLocator};

/// Identifies a fork.
pub(crate) type ForkKey = (RelFileLocator, Fork);

/// The size while it was not yet read from the file system.
pub(crate) const UNKNOWN_SIZE: u64 = u64::MAX;

/// What the storage manager knows about a fork.
pub(crate) struct RelFork {
    pub(super) rel: RelFileLocator,
    pub(super) fork: Fork,
    /// The extension lock: its holder may change the size, and waits for the file system only.
    pub(crate) extending: Mutex<()>,
    size: AtomicU64,
    /// Space is reserved for blocks below this number; changed under the extension lock.
    reserved: AtomicU64,
    /// Backends that wait to extend the fork. A request is a list of zeroed buffers; the answer is
    /// the buffers of the new pages.
    pub(crate) extension_queue: ExtensionQueue<Vec<u32>, Result<Vec<u32>, StorageError>>,
    pub(super) transfers: Transfers,
    files: RwLock<Files>,
}

/// Reads and writes of the fork that do not go through the buffer pool.
#[derive(Default)]
pub(super) struct Transfers {
    /// Read-locked while a transfer starts, write-locked while files are truncated or removed.
    starting: RwLock<()>,
    /// Transfers in flight, and some that have ended.
    waits: Mutex<Vec<WaitRef>>,
}

impl Transfers {
    /// The list's length from which on ended transfers are removed.
    const KEPT: usize = 64;

    /// Starts a transfer; `start` returns once it is submitted.
    pub(super) fn start<E>(
        &self,
        aio: &Aio,
        start: impl FnOnce() -> Result<WaitRef, E>,
    ) -> Result<WaitRef, E> {
        let _open = self.starting.read();
        let wait = start()?;
        let mut waits = self.waits.lock();
        if waits.len() >= Self::KEPT {
            waits.retain(|&wait| !aio.is_done(wait));
        }
        waits.push(wait);
        Ok(wait)
    }

    /// Waits for all transfers in flight, and keeps new ones from starting while the guard lives.
    pub(super) fn close(&self, aio: &Aio) -> RwLockWriteGuard<'_, ()> {
        let closed = self.starting.write();
        let waits = std::mem::take(&mut *self.waits.lock());
        waits.into_iter().for_each(|wait| aio.wait_done(wait));
        closed
    }
}

#[derive(Default)]
struct Files {
    segments: Vec<Option<Arc<VirtualFile>>>,
    /// The fork was removed: holders of this entry open no more files through it.
    removed: bool,
}

impl RelFork {
    pub(super) fn new(rel: RelFileLocator, fork: Fork) -> RelFork {
        RelFork {
            rel,
            fork,
            extending: Mutex::new(()),
            size: AtomicU64::new(UNKNOWN_SIZE),
            reserved: AtomicU64::new(0),
            extension_queue: ExtensionQueue::default(),
            transfers: Transfers::default(),
            files: RwLock::default(),
        }
    }

    /// Returns the tag of a block.
    pub(crate) fn page(&self, block: BlockNumber) -> PageTag {
        PageTag::new(self.rel, self.fork, block)
    }

    /// Returns the number of blocks, if it is known.
    pub(crate) fn known_size(&self) -> Option<BlockNumber> {
        u32::try_from(self.size.load(Ordering::Acquire)).ok()
    }

    /// Publishes the size in blocks. The caller holds the extension lock.
    pub(crate) fn set_size(&self, blocks: u64) {
        self.size.store(blocks, Ordering::Release);
    }

    /// Returns the end of the reserved space, in blocks.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Records the end of the reserved space; 0 means that nothing is reserved.
    pub(crate) fn set_reserved(&self, blocks: u64) {
        self.reserved.store(blocks, Ordering::Relaxed);
    }

    /// Returns a segment's file if it is open.
    pub(crate) fn file(&self, segment: u32) -> Option<File> {
        self.files.read().segments.get(segment as usize)?.as_ref()?.get()
    }

    /// Returns a segment's entry, which `make` makes at the first call. None: the fork was removed.
    pub(crate) fn segment(
        &self,
        segment: u32,
        make: impl FnOnce() -> VirtualFile,
    ) -> Option<Arc<VirtualFile>> {
        let at = segment as usize;
        let known = |files: &Files| files.segments.get(at).cloned().flatten();
        if let Some(entry) = known(&self.files.read()) {
            return Some(entry);
        }
        let mut files = self.files.write();
        if files.removed {
            return None;
        }
        if files.segments.len() <= at {
            files.segments.resize(at + 1, None);
        }
        Some(Arc::clone(files.segments[at].get_or_insert_with(|| Arc::new(make()))))
    }

    /// Drops the entry of a segment that is about to be unlinked.
    pub(crate) fn forget(&self, segment: u32) {
        let entry = self.files.write().segments.get_mut(segment as usize).and_then(Option::take);
        if let Some(entry) = entry {
            entry.forget();
        }
    }

    /// Drops all segments, as the fork's files are about to be unlinked.
    pub(crate) fn remove(&self) {
        let segments = {
            let mut files = self.files.write();
            files.removed = true;
            std::mem::take(&mut files.segments)
        };
        segments.iter().flatten().for_each(|entry| entry.forget());
    }
}
