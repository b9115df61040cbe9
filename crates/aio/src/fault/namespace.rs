//! The plan for calls of the namespace.

use std::path::{Path, PathBuf};

use super::call::{Call, Ops};
use super::plan::{Effect, FaultPlan};
use crate::direct::DirectAlignment;
use crate::error::{AioError, Errno};
use crate::file::{File, OpenOptions};
use crate::namespace::{DirEntry, FileStat, Namespace};
use crate::refusal::DirectRefusal;
use crate::sync::Arc;

/// A namespace that applies a plan to another one. Links and probes for direct I/O are not
/// affected.
pub struct FaultyNamespace {
    inner: Arc<dyn Namespace>,
    plan: Arc<FaultPlan>,
}

impl FaultyNamespace {
    /// Applies `plan` to `inner`.
    pub fn new(inner: Arc<dyn Namespace>, plan: Arc<FaultPlan>) -> FaultyNamespace {
        FaultyNamespace { inner, plan }
    }

    /// Lets a call pass, or fails it. `part` does the given number of bytes of a call that can be
    /// done in part.
    fn pass(
        &self,
        action: &'static str,
        call: &Call,
        part: impl FnOnce(u64) -> Result<(), AioError>,
    ) -> Result<(), AioError> {
        let verdict = self.plan.judge(call);
        self.plan.wait_while_held(&verdict);
        let fail = |errno: Errno| Err(AioError::os(action, &call.path, errno));
        match verdict.effect {
            None => Ok(()),
            Some(Effect::Fail(errno)) => fail(errno),
            Some(Effect::FailAfter(n, errno)) => part((n as u64).min(call.len)).and(fail(errno)),
            Some(Effect::Panic) => panic!("a fault: panic on purpose"),
            Some(Effect::AtMost(_) | Effect::ShortBy(_) | Effect::Cut) => {
                unreachable!("the plan takes these for transfers only")
            }
        }
    }

    fn whole(&self, action: &'static str, call: &Call) -> Result<(), AioError> {
        self.pass(action, call, |_| Ok(()))
    }
}

impl Namespace for FaultyNamespace {
    fn open(&self, path: &Path, options: &OpenOptions) -> Result<File, AioError> {
        let call =
            Call { direct: options.direct, write: options.write, ..Call::new(Ops::OPEN, path) };
        self.whole("open file", &call)?;
        self.inner.open(path, options)
    }

    fn mkdir(&self, path: &Path) -> Result<(), AioError> {
        self.whole("create directory", &Call::new(Ops::MKDIR, path))?;
        self.inner.mkdir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), AioError> {
        self.whole("rename file", &Call { to: Some(to.into()), ..Call::new(Ops::RENAME, from) })?;
        self.inner.rename(from, to)
    }

    fn rename_noreplace(&self, from: &Path, to: &Path) -> Result<(), AioError> {
        self.whole("rename file", &Call { to: Some(to.into()), ..Call::new(Ops::RENAME, from) })?;
        self.inner.rename_noreplace(from, to)
    }

    fn unlink(&self, path: &Path) -> Result<(), AioError> {
        self.whole("remove file", &Call::new(Ops::UNLINK, path))?;
        self.inner.unlink(path)
    }

    fn rmdir(&self, path: &Path) -> Result<(), AioError> {
        self.whole("remove directory", &Call::new(Ops::RMDIR, path))?;
        self.inner.rmdir(path)
    }

    fn symlink(&self, target: &Path, path: &Path) -> Result<(), AioError> {
        self.inner.symlink(target, path)
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, AioError> {
        self.inner.read_link(path)
    }

    fn link_count(&self, path: &Path) -> Result<u64, AioError> {
        self.whole("stat file", &Call::new(Ops::STAT, path))?;
        self.inner.link_count(path)
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>, AioError> {
        self.whole("read directory", &Call::new(Ops::LIST, path))?;
        self.inner.list(path)
    }

    fn stat(&self, path: &Path) -> Result<Option<FileStat>, AioError> {
        self.whole("stat file", &Call::new(Ops::STAT, path))?;
        self.inner.stat(path)
    }

    fn file_len(&self, file: &File) -> Result<u64, AioError> {
        self.whole("stat file", &Call::on(Ops::STAT, file, 0, 0))?;
        self.inner.file_len(file)
    }

    fn set_len(&self, file: &File, len: u64) -> Result<(), AioError> {
        self.pass("truncate file", &Call::on(Ops::SET_LEN, file, 0, len), |n| {
            self.inner.set_len(file, n)
        })?;
        self.inner.set_len(file, len)
    }

    fn allocate(&self, file: &File, offset: u64, len: u64) -> Result<(), AioError> {
        let part = |n| if n > 0 { self.inner.allocate(file, offset, n) } else { Ok(()) };
        self.pass("allocate space in file", &Call::on(Ops::ALLOCATE, file, offset, len), part)?;
        self.inner.allocate(file, offset, len)
    }

    fn reserve(&self, file: &File, offset: u64, len: u64) -> Result<(), AioError> {
        let part = |n| if n > 0 { self.inner.reserve(file, offset, n) } else { Ok(()) };
        self.pass("reserve space in file", &Call::on(Ops::RESERVE, file, offset, len), part)?;
        self.inner.reserve(file, offset, len)
    }

    fn sync_file(&self, file: &File) -> Result<(), AioError> {
        self.whole(AioError::SYNC_FILE, &Call::on(Ops::SYNC_FILE, file, 0, 0))?;
        self.inner.sync_file(file)
    }

    fn forget_cached(&self, file: &File) -> Result<(), AioError> {
        self.whole("drop the cached pages of file", &Call::on(Ops::FORGET, file, 0, 0))?;
        self.inner.forget_cached(file)
    }

    fn sync_dir(&self, path: &Path) -> Result<(), AioError> {
        self.whole("open directory", &Call::new(Ops::OPEN, path))?;
        self.whole(AioError::SYNC_DIRECTORY, &Call::new(Ops::SYNC_DIR, path))?;
        self.inner.sync_dir(path)
    }

    fn sync_file_system(&self, path: &Path) -> Result<(), AioError> {
        self.whole("synchronize file system for file", &Call::new(Ops::SYNC_FS, path))?;
        self.inner.sync_file_system(path)
    }

    fn try_lock(&self, file: &File) -> Result<bool, AioError> {
        self.whole("lock file", &Call::on(Ops::LOCK, file, 0, 0))?;
        self.inner.try_lock(file)
    }

    fn probe_direct(&self, dir: &Path) -> Result<DirectAlignment, DirectRefusal> {
        self.inner.probe_direct(dir)
    }
}
