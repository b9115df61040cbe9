//! One fork of a relation: its size, its extension lock, its open segment files.

use forebay_aio::File;
use forebay_aio::sync::{Mutex, RwLock};
use forebay_format::{BlockNumber, Fork, RelFileLocator};
use std::sync::atomic::{AtomicU64, Ordering};

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
    files: RwLock<Files>,
}

#[derive(Default)]
struct Files {
    open: Vec<Option<File>>,
    /// The fork was removed: whoever still has this entry keeps no file in it.
    removed: bool,
}

impl Default for RelFork {
    fn default() -> Self {
        RelFork {
            extending: Mutex::new(()),
            size: AtomicU64::new(UNKNOWN_SIZE),
            reserved: AtomicU64::new(0),
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

    pub(crate) fn file(&self, segment: u32) -> Option<File> {
        self.files.read().open.get(segment as usize)?.clone()
    }

    /// Keeps an open file, and returns how many were closed for that: the one in its place, or the file itself.
    pub(crate) fn set_file(&self, segment: u32, file: File) -> usize {
        let mut files = self.files.write();
        if files.removed {
            return 1;
        }
        let at = segment as usize;
        if files.open.len() <= at {
            files.open.resize(at + 1, None);
        }
        usize::from(files.open[at].replace(file).is_some())
    }

    pub(crate) fn take_file(&self, segment: u32) -> Option<File> {
        self.files.write().open.get_mut(segment as usize)?.take()
    }

    /// Forgets all open files, and returns how many there were.
    pub(crate) fn close(&self) -> usize {
        self.files.write().open.drain(..).flatten().count()
    }

    /// Forgets all open files for good, and returns how many there were.
    pub(crate) fn remove(&self) -> usize {
        let mut files = self.files.write();
        files.removed = true;
        files.open.drain(..).flatten().count()
    }
}
