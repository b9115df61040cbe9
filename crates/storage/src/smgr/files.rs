//! One fork of a relation: its size, its extension lock, its segment files.

use super::line::Line;
use crate::error::StorageError;
use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_aio::sync::{Arc, Mutex, RwLock, RwLockWriteGuard};
use forebay_aio::{Aio, File, VirtualFile, WaitRef};
use forebay_format::{BlockNumber, Fork, RelFileLocator};

/// What identifies a fork.
pub(crate) type ForkKey = (RelFileLocator, Fork);

/// The size was not read from the file system yet.
pub(crate) const UNKNOWN_SIZE: u64 = u64::MAX;

/// What is known of a fork.
pub(crate) struct RelFork {
    /// Held by whoever changes the size. The holder waits for nothing but the file system.
    pub(crate) extending: Mutex<()>,
    size: AtomicU64,
    /// Space is set aside for blocks below this number; only under the extension lock.
    reserved: AtomicU64,
    /// Those who want pages at the fork's end: with zeroed buffers of their own, which they get
    /// back as those pages.
    pub(crate) line: Line<Vec<u32>, Result<Vec<u32>, StorageError>>,
    pub(super) transfers: Transfers,
    files: RwLock<Files>,
}

/// Transfers that the pool knows nothing of.
#[derive(Default)]
pub(super) struct Transfers {
    /// Read-locked while one is being started, write-locked while the files are cut or removed.
    starting: RwLock<()>,
    /// In flight, or ended not long ago.
    waits: Mutex<Vec<WaitRef>>,
}

impl Transfers {
    /// So many may have ended before a look at which have.
    const KEPT: usize = 64;

    /// Starts one, which is submitted when this returns.
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

    /// Waits for those in flight, and lets none start while the guard lives.
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
    /// The fork was removed: whoever still has this entry opens no file by it.
    removed: bool,
}

impl Default for RelFork {
    fn default() -> Self {
        RelFork {
            extending: Mutex::new(()),
            size: AtomicU64::new(UNKNOWN_SIZE),
            reserved: AtomicU64::new(0),
            line: Line::default(),
            transfers: Transfers::default(),
            files: RwLock::default(),
        }
    }
}

impl RelFork {
    /// Blocks, if known.
    pub(crate) fn known_size(&self) -> Option<BlockNumber> {
        u32::try_from(self.size.load(Ordering::Acquire)).ok()
    }

    /// Publishes the size; only under the extension lock.
    pub(crate) fn set_size(&self, blocks: u64) {
        self.size.store(blocks, Ordering::Release);
    }

    /// Up to which block space is set aside beyond the file's end.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Notes that space is set aside, or with 0 that it is not any more.
    pub(crate) fn set_reserved(&self, blocks: u64) {
        self.reserved.store(blocks, Ordering::Relaxed);
    }

    /// A segment's file, if it is open.
    pub(crate) fn file(&self, segment: u32) -> Option<File> {
        self.files.read().segments.get(segment as usize)?.as_ref()?.get()
    }

    /// A segment's entry; `make` makes it when first asked for. None: the fork was removed.
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

    /// Forgets a segment that is about to be unlinked.
    pub(crate) fn forget(&self, segment: u32) {
        let entry = self.files.write().segments.get_mut(segment as usize).and_then(Option::take);
        if let Some(entry) = entry {
            entry.forget();
        }
    }

    /// Forgets all segments: the fork's files are about to be unlinked.
    pub(crate) fn remove(&self) {
        let segments = {
            let mut files = self.files.write();
            files.removed = true;
            std::mem::take(&mut files.segments)
        };
        segments.iter().flatten().for_each(|entry| entry.forget());
    }
}
