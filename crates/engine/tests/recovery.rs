//! What crash recovery makes durable before it trusts it.

mod common;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use common::*;
use forebay_aio::{
    Aio, AioConfig, AioError, DirEntry, DirectAlignment, DirectRefusal, Errno, File, FileStat, MethodKind,
    Namespace, OpenOptions, PosixNamespace,
};
use forebay_engine::{Engine, IoMethod, ShutdownMode};

/// Takes down what is synced through it; refuses to open one file for writing.
#[derive(Default)]
struct Recording {
    synced: Mutex<Vec<PathBuf>>,
    /// Files opened for reading only, past the kernel's cache.
    read_direct: Mutex<Vec<PathBuf>>,
    read_only: Option<PathBuf>,
}

impl Recording {
    fn note(&self, path: &Path) {
        self.synced.lock().expect("synced").push(path.to_path_buf());
    }

    fn has_synced(&self, path: &Path) -> bool {
        self.synced.lock().expect("synced").iter().any(|synced| synced == path)
    }
}

impl Namespace for Recording {
    fn open(&self, path: &Path, options: &OpenOptions) -> Result<File, AioError> {
        if self.read_only.as_deref() == Some(path) && *options != OpenOptions::READ {
            return Err(AioError::os("open file", path, Errno(13)));
        }
        if options.direct && !options.write {
            self.read_direct.lock().expect("direct").push(path.to_path_buf());
        }
        PosixNamespace.open(path, options)
    }
    fn mkdir(&self, path: &Path) -> Result<(), AioError> {
        PosixNamespace.mkdir(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<(), AioError> {
        PosixNamespace.rename(from, to)
    }
    fn rename_noreplace(&self, from: &Path, to: &Path) -> Result<(), AioError> {
        PosixNamespace.rename_noreplace(from, to)
    }
    fn unlink(&self, path: &Path) -> Result<(), AioError> {
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
        self.note(file.path());
        PosixNamespace.sync_file(file)
    }
    fn sync_dir(&self, path: &Path) -> Result<(), AioError> {
        self.note(path);
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
fn all_of_a_directory_is_synced_before_redo_wherever_it_lies() {
    let scratch = scratch();
    let dir = scratch.path().join("data");
    init(&dir);
    // initdb --waldir makes such a link.
    let elsewhere = scratch.path().join("log");
    std::fs::rename(dir.join("pg_wal"), &elsewhere).expect("rename");
    std::os::unix::fs::symlink(&elsewhere, dir.join("pg_wal")).expect("link");
    std::os::unix::fs::symlink("/nowhere", dir.join("dangling")).expect("link");
    let config = config(IoMethod::Sync, false);
    let engine = open(&dir, &config);
    let mut session = engine.session().expect("session");
    create(&mut session, "t");
    insert(&mut session, "t", 0..100);
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, engine));
    // A certificate, say, that belongs to somebody else.
    let foreign = dir.join("server.crt");
    std::fs::write(&foreign, "certificate").expect("write");
    let recording = Arc::new(Recording { read_only: Some(foreign.clone()), ..Recording::default() });
    let sizes = AioConfig { max_backends: 20, handles_per_backend: 16, ..AioConfig::default() };
    let namespace: Arc<dyn Namespace> = recording.clone();
    let aio = Aio::new(namespace, MethodKind::Sync, sizes).expect("aio");
    let engine = Engine::open_on(&dir, config, aio).expect("open");
    for name in
        ["", "base/5", "base/5/1259", "global/pg_control", "pg_wal", "pg_wal/000000010000000000000001"]
    {
        let path = if name.is_empty() { dir.clone() } else { dir.join(name) };
        assert!(recording.has_synced(&path), "{name}");
    }
    assert!(recording.has_synced(&foreign));
    // After a failed sync the kernel's cache holds what the disk does not: it is not asked what the log says.
    let segment = dir.join("pg_wal/000000010000000000000001");
    assert!(recording.read_direct.lock().expect("direct").contains(&segment));
    let mut session = engine.session().expect("session");
    assert_eq!(count(&mut session, "t").expect("count"), 100);
}
