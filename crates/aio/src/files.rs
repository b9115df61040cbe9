//! Virtual files: a bounded cache of open descriptors.
//!
//! A [`VirtualFile`] is a file that is opened when it is used. The [`FileCache`] keeps recently
//! used files open. It closes the least recently used ones when there are too many, or when the
//! process or the system has no descriptor left. An I/O in flight holds a clone of its [`File`], so
//! a file closed here really closes when its last I/O has ended. Files with I/O in flight therefore
//! come on top of the limit.
//!
//! - Using an open file costs a shared lock. No thread waits for another's open(2) or close(2).
//! - The list of open files is locked only when a file is opened or closed, and never during the
//!   system call.
//! - A file that is about to be unlinked is *forgotten* first. Opening it afterwards fails with
//!   ENOENT, even if a new file has its name: a virtual file stands for one file, not for a name.
//!
//! A clock that ticks when a file is opened tells the least recently used files, so a use needs no
//! shared counter. A sixteenth of the limit is closed at a time, so the search for the oldest costs
//! little.

use std::path::{Path, PathBuf};

use crate::error::{AioError, Errno};
use crate::file::{File, OpenOptions};
use crate::namespace::Namespace;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::sync::{Arc, Mutex, RwLock};

/// One part in this many of the limit is closed at a time.
const CLOSED_SHARE: usize = 16;

/// A bounded set of open files.
pub struct FileCache {
    namespace: Arc<dyn Namespace>,
    limit: AtomicUsize,
    /// Advances by two at each open; the odd number after it stands for later uses.
    clock: AtomicU64,
    /// The open files. Locked before a slot's own lock, never after.
    open: Mutex<Vec<Arc<Slot>>>,
}

/// A file that is opened when it is used. Dropping it closes it.
pub struct VirtualFile {
    cache: Arc<FileCache>,
    slot: Arc<Slot>,
}

struct Slot {
    path: PathBuf,
    options: OpenOptions,
    /// The clock at the last use.
    used: AtomicU64,
    state: RwLock<OpenState>,
}

#[derive(Default)]
struct OpenState {
    /// The open file, and its index in the list of open files.
    open: Option<(File, usize)>,
    forgotten: bool,
}

impl FileCache {
    /// A cache that keeps at most `limit` files open (at least one).
    pub fn new(namespace: Arc<dyn Namespace>, limit: usize) -> Arc<FileCache> {
        Arc::new(FileCache {
            namespace,
            limit: AtomicUsize::new(limit.max(1)),
            clock: AtomicU64::new(0),
            open: Mutex::default(),
        })
    }

    /// A file of the cache, not yet opened. `options` must not create; [`VirtualFile::create`]
    /// does.
    pub fn file(self: &Arc<Self>, path: PathBuf, options: OpenOptions) -> VirtualFile {
        debug_assert!(!options.create && !options.create_new && !options.truncate);
        let state = RwLock::default();
        let slot = Arc::new(Slot { path, options, used: AtomicU64::new(0), state });
        VirtualFile { cache: Arc::clone(self), slot }
    }

    /// The maximum number of files it keeps open.
    pub fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }

    /// Changes the limit, and closes the files above it.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit.max(1), Relaxed);
        let closed = {
            let mut open = self.open.lock();
            let excess = open.len().saturating_sub(limit.max(1));
            close_oldest(&mut open, excess)
        };
        drop(closed);
    }

    /// How many files are open now.
    pub fn len(&self) -> usize {
        self.open.lock().len()
    }

    /// Whether no file is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Closes all files; those with I/O in flight close when it has ended.
    pub fn close_all(&self) {
        let closed = {
            let mut open = self.open.lock();
            let all = open.len();
            close_oldest(&mut open, all)
        };
        drop(closed);
    }

    /// Opens a file. If there is no descriptor left, it closes other files and tries again.
    fn open_now(&self, path: &Path, options: &OpenOptions) -> Result<File, AioError> {
        loop {
            let error = match self.namespace.open(path, options) {
                Err(e) if e.errno().is_some_and(is_out_of_descriptors) => e,
                done => return done,
            };
            // The process has other descriptors too, and its limit may be lower than the cache's.
            let closed = {
                let mut open = self.open.lock();
                let half = open.len().div_ceil(2);
                close_oldest(&mut open, half)
            };
            if closed.is_empty() {
                return Err(error);
            }
            tracing::warn!(
                "out of file descriptors: {error}; closed {} files and tried again",
                closed.len()
            );
        }
    }
}

impl VirtualFile {
    /// The path it is opened by.
    pub fn path(&self) -> &Path {
        &self.slot.path
    }

    /// The file, if it is open.
    pub fn get(&self) -> Option<File> {
        let file = self.slot.state.read().open.as_ref()?.0.clone();
        let now = self.cache.clock.load(Relaxed) + 1;
        if self.slot.used.load(Relaxed) != now {
            self.slot.used.store(now, Relaxed);
        }
        Some(file)
    }

    /// The file, which is opened if it is not open.
    pub fn open(&self) -> Result<File, AioError> {
        match self.get() {
            Some(file) => Ok(file),
            None => self.open_as(&self.slot.options),
        }
    }

    /// Opens the file, and creates it if it does not exist. With `new`, an existing file is the
    /// error EEXIST.
    pub fn create(&self, new: bool) -> Result<File, AioError> {
        let options = self.slot.options;
        self.open_as(&if new { options.create_new() } else { options.create() })
    }

    /// Closes the file; it can be opened again.
    pub fn close(&self) {
        self.remove(false);
    }

    /// Closes the file for good: opening it fails with ENOENT from now on. Call it before the file
    /// is unlinked or renamed.
    pub fn forget(&self) {
        self.remove(true);
    }

    fn remove(&self, forget: bool) {
        let closed = {
            let mut open = self.cache.open.lock();
            let mut state = self.slot.state.write();
            state.forgotten |= forget;
            remove(&mut open, &mut state)
        };
        drop(closed);
    }

    fn open_as(&self, options: &OpenOptions) -> Result<File, AioError> {
        let (cache, slot) = (&*self.cache, &self.slot);
        let gone = || AioError::os("open file", &slot.path, Errno::NOENT);
        if slot.state.read().forgotten {
            return Err(gone());
        }
        let file = cache.open_now(&slot.path, options)?;
        let closed = {
            let mut open = cache.open.lock();
            // It was forgotten while it was being opened: another file may have the name by now.
            if slot.state.read().forgotten {
                return Err(gone());
            }
            let limit = cache.limit();
            let mut closed = Vec::new();
            if open.len() >= limit {
                let batch = (limit / CLOSED_SHARE).max(1) + open.len() - limit;
                closed = close_oldest(&mut open, batch);
            }
            slot.used.store(cache.clock.fetch_add(2, Relaxed) + 2, Relaxed);
            let mut state = slot.state.write();
            match &mut state.open {
                // Another thread was faster. Its file is as good, and closes with its last clone.
                Some((kept, _)) => closed.push(std::mem::replace(kept, file.clone())),
                none => {
                    *none = Some((file.clone(), open.len()));
                    open.push(Arc::clone(slot));
                }
            }
            closed
        };
        drop(closed);
        Ok(file)
    }
}

impl Drop for VirtualFile {
    fn drop(&mut self) {
        self.close();
    }
}

/// Whether the process or the system has no descriptor left.
fn is_out_of_descriptors(errno: Errno) -> bool {
    matches!(errno.0, libc::EMFILE | libc::ENFILE)
}

/// Takes the `n` least recently used files from the list. The caller unlocks it before it drops
/// them.
fn close_oldest(open: &mut Vec<Arc<Slot>>, n: usize) -> Vec<File> {
    let n = n.min(open.len());
    if n == 0 {
        return Vec::new();
    }
    let mut by_age: Vec<(u64, usize)> =
        open.iter().enumerate().map(|(at, slot)| (slot.used.load(Relaxed), at)).collect();
    by_age.select_nth_unstable(n - 1);
    let victims: Vec<Arc<Slot>> =
        by_age[..n].iter().map(|&(_, at)| Arc::clone(&open[at])).collect();
    victims.iter().filter_map(|slot| remove(open, &mut slot.state.write())).collect()
}

/// Takes a file from the list. The last file of the list moves to its index.
fn remove(open: &mut Vec<Arc<Slot>>, state: &mut OpenState) -> Option<File> {
    let (file, at) = state.open.take()?;
    open.swap_remove(at);
    if let Some(moved) = open.get(at)
        && let Some((_, place)) = &mut moved.state.write().open
    {
        *place = at;
    }
    Some(file)
}

impl std::fmt::Debug for FileCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileCache")
            .field("limit", &self.limit())
            .field("open", &self.len())
            .finish()
    }
}

impl std::fmt::Debug for VirtualFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VirtualFile").field("path", &self.slot.path).finish_non_exhaustive()
    }
}
