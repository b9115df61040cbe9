//! A removal of old segments that fails halfway: the names that did change are made durable.

mod common;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use common::*;
use forebay_aio::{
    AioError, DirEntry, DirectAlignment, DirectRefusal, Errno, File, FileStat, MethodKind, Namespace,
    OpenOptions, PosixNamespace,
};

/// Takes down renames and syncs of directories; refuses to remove anything when told so.
#[derive(Default)]
struct Stubborn {
    refuses: Mutex<bool>,
    seen: Mutex<Vec<(&'static str, PathBuf)>>,
}

impl Stubborn {
    fn note(&self, what: &'static str, path: &Path) {
        self.seen.lock().expect("seen").push((what, path.to_path_buf()));
    }
}

impl Namespace for Stubborn {
    fn open(&self, path: &Path, options: &OpenOptions) -> Result<File, AioError> {
        PosixNamespace.open(path, options)
    }
    fn mkdir(&self, path: &Path) -> Result<(), AioError> {
        PosixNamespace.mkdir(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<(), AioError> {
        PosixNamespace.rename(from, to)
    }
    fn rename_noreplace(&self, from: &Path, to: &Path) -> Result<(), AioError> {
        self.note("rename", to);
        PosixNamespace.rename_noreplace(from, to)
    }
    fn unlink(&self, path: &Path) -> Result<(), AioError> {
        if *self.refuses.lock().expect("refuses") {
            return Err(AioError::os("remove file", path, Errno::IO));
        }
        PosixNamespace.unlink(path)
    }
    fn rmdir(&self, path: &Path) -> Result<(), AioError> {
        PosixNamespace.rmdir(path)
    }
    fn link_count(&self, path: &Path) -> Result<u64, AioError> {
        PosixNamespace.link_count(path)
    }
    fn list(&self, path: &Path) -> Result<Vec<DirEntry>, AioError> {
        PosixNamespace.list(path)
    }
    fn stat(&self, path: &Path) -> Result<Option<FileStat>, AioError> {
        PosixNamespace.stat(path)
    }
    fn file_len(&self, file: &File) -> Result<u64, AioError> {
        PosixNamespace.file_len(file)
    }
    fn set_len(&self, file: &File, len: u64) -> Result<(), AioError> {
        PosixNamespace.set_len(file, len)
    }
    fn allocate(&self, file: &File, offset: u64, len: u64) -> Result<(), AioError> {
        PosixNamespace.allocate(file, offset, len)
    }
    fn sync_file(&self, file: &File) -> Result<(), AioError> {
        PosixNamespace.sync_file(file)
    }
    fn sync_dir(&self, path: &Path) -> Result<(), AioError> {
        self.note("sync", path);
        PosixNamespace.sync_dir(path)
    }
    fn try_lock(&self, file: &File) -> Result<bool, AioError> {
        PosixNamespace.try_lock(file)
    }
    fn probe_direct(&self, dir: &Path) -> Result<DirectAlignment, DirectRefusal> {
        PosixNamespace.probe_direct(dir)
    }
}

#[test]
fn a_removal_that_fails_halfway_makes_new_names_durable() {
    let namespace = Arc::new(Stubborn::default());
    let mut rig = Rig::over(namespace.clone(), MethodKind::Sync);
    let wal = rig.fresh();
    for _ in 0..5 {
        insert(&wal, &mut rig.io, &vec![1; 1_000_000]);
    }
    let end = wal.flush_all(&mut rig.io).expect("flush");
    *namespace.refuses.lock().expect("refuses") = true;
    namespace.seen.lock().expect("seen").clear();
    // One old segment gets a future name; the next one is to go.
    let error = wal.remove_old_segments(end, SEGMENT).expect_err("not removed");
    assert!(!error.is_fatal(), "{error}");
    let seen = namespace.seen.lock().expect("seen").clone();
    assert_eq!(seen.iter().filter(|(what, _)| *what == "rename").count(), 1, "{seen:?}");
    assert_eq!(seen.last(), Some(&("sync", rig.config.dir.clone())), "{seen:?}");
}
