//! The cache of open descriptors.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use forebay_aio::*;
use tempfile::TempDir;

struct Fixture {
    dir: TempDir,
    cache: Arc<FileCache>,
}

impl Fixture {
    fn new(limit: usize) -> Fixture {
        Fixture::over(Arc::new(PosixNamespace::new()), limit)
    }

    fn over(namespace: Arc<dyn Namespace>, limit: usize) -> Fixture {
        Fixture { dir: TempDir::new().unwrap(), cache: FileCache::new(namespace, limit) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn file(&self, name: &str) -> VirtualFile {
        self.cache.file(self.path(name), OpenOptions::READ_WRITE)
    }

    fn made(&self, name: &str) -> VirtualFile {
        std::fs::write(self.path(name), name).unwrap();
        self.file(name)
    }

    /// Descriptors that the process has for files of this directory.
    fn descriptors(&self) -> usize {
        std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(|e| std::fs::read_link(e.ok()?.path()).ok())
            .filter(|target| target.starts_with(self.dir.path()))
            .count()
    }
}

#[test]
fn the_least_recently_used_file_is_closed() {
    let fixture = Fixture::new(4);
    let files: Vec<VirtualFile> =
        ["a", "b", "c", "d", "e", "f"].iter().map(|name| fixture.made(name)).collect();
    let open = || -> String {
        // The open files, by the process's own list, without a use of the cache.
        let mut names: Vec<String> = std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(|e| std::fs::read_link(e.ok()?.path()).ok())
            .filter(|target| target.starts_with(fixture.dir.path()))
            .map(|target| target.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names.concat()
    };
    for file in &files[..4] {
        file.open().unwrap();
    }
    assert_eq!((open().as_str(), fixture.cache.len()), ("abcd", 4));
    files[0].get().unwrap();
    files[4].open().unwrap();
    assert_eq!(open(), "acde");
    files[2].open().unwrap();
    files[5].open().unwrap();
    assert_eq!(open(), "acef");
    fixture.cache.set_limit(2);
    assert_eq!(open(), "cf");
    drop(files);
    assert_eq!((open().as_str(), fixture.cache.len()), ("", 0));
}

#[test]
fn a_file_in_use_stays_open_until_its_last_clone_goes() {
    let fixture = Fixture::new(1);
    let (a, b) = (fixture.made("a"), fixture.made("b"));
    let aio =
        Aio::new(Arc::new(PosixNamespace::new()), MethodKind::Sync, AioConfig::default()).unwrap();
    let mut io = aio.backend(BackendType::Client).unwrap();
    let held = a.open().unwrap();
    b.open().unwrap();
    assert!(a.get().is_none() && fixture.cache.len() == 1);
    assert_eq!(fixture.descriptors(), 2);
    let memory = Region::new(4096).unwrap();
    let read = Io::read(held.clone(), 0, IoMemory::new(memory, 0, 1), Target::File);
    assert_eq!(io.run(read).unwrap(), 1);
    drop(held);
    assert_eq!(fixture.descriptors(), 1);
    a.open().unwrap();
    assert_eq!((fixture.descriptors(), b.get().is_none()), (1, true));
}

#[test]
fn creating() {
    let fixture = Fixture::new(4);
    let file = fixture.file("new");
    assert!(file.open().unwrap_err().is_not_found());
    let first = file.create(false).unwrap();
    assert!(file.open().unwrap().same(&first));
    assert_eq!(file.create(true).unwrap_err().errno(), Some(Errno::EXIST));
    assert!(file.get().unwrap().same(&first));
    // Opening an open file again leaves one entry.
    file.create(false).unwrap();
    drop(first);
    assert_eq!((fixture.cache.len(), fixture.descriptors()), (1, 1));
    file.close();
    assert_eq!((fixture.cache.is_empty(), fixture.descriptors()), (true, 0));
    assert!(fixture.path("new").exists() && file.open().is_ok());
}

#[test]
fn a_forgotten_file_is_not_confused_with_a_new_one_of_its_name() {
    let fixture = Fixture::new(4);
    let old = fixture.made("a");
    old.open().unwrap();
    old.forget();
    assert_eq!(fixture.descriptors(), 0);
    std::fs::remove_file(fixture.path("a")).unwrap();
    let new = fixture.made("a");
    assert!(
        old.open().unwrap_err().is_not_found() && old.create(false).unwrap_err().is_not_found()
    );
    assert!(new.open().is_ok() && old.get().is_none());
}

/// What a namespace does before or instead of opening.
type AtOpen = Box<dyn Fn(&Path) -> Option<AioError> + Send + Sync>;

/// The operating system's namespace, with a hook at each open.
struct Hooked {
    before: AtOpen,
    after: AtOpen,
}

impl Hooked {
    fn new(
        before: impl Fn(&Path) -> Option<AioError> + Send + Sync + 'static,
        after: impl Fn(&Path) -> Option<AioError> + Send + Sync + 'static,
    ) -> Arc<Hooked> {
        Arc::new(Hooked { before: Box::new(before), after: Box::new(after) })
    }
}

impl Namespace for Hooked {
    fn open(&self, path: &Path, options: &OpenOptions) -> Result<File, AioError> {
        if let Some(e) = (self.before)(path) {
            return Err(e);
        }
        let file = PosixNamespace.open(path, options)?;
        (self.after)(path).map_or(Ok(file), Err)
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
        PosixNamespace.sync_file(file)
    }
    fn sync_dir(&self, path: &Path) -> Result<(), AioError> {
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
fn without_descriptors_files_are_closed_until_one_can_be_opened() {
    for errno in [Errno(libc::EMFILE), Errno(libc::ENFILE)] {
        // The process has only five descriptors for these files, though the limit is a hundred.
        let refused = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&refused);
        let namespace = Hooked::new(
            move |path| {
                let folder = path.parent().unwrap().to_path_buf();
                let open = std::fs::read_dir("/proc/self/fd")
                    .unwrap()
                    .filter_map(|e| std::fs::read_link(e.ok()?.path()).ok())
                    .filter(|target| target.starts_with(&folder))
                    .count();
                if open < 5 {
                    return None;
                }
                counter.fetch_add(1, Ordering::Relaxed);
                Some(AioError::os("open file", path, errno))
            },
            |_| None,
        );
        let fixture = Fixture::over(namespace, 100);
        let files: Vec<VirtualFile> = (0..20).map(|n| fixture.made(&n.to_string())).collect();
        for file in &files {
            file.open().unwrap();
        }
        assert!(fixture.descriptors() <= 5 && refused.load(Ordering::Relaxed) > 0);
        // With all of them in use there is nothing to close, and the caller gets the error.
        let held: Vec<File> = files[..5].iter().map_while(|f| f.open().ok()).collect();
        fixture.cache.close_all();
        let room = 5 - fixture.descriptors();
        let more: Vec<File> = files[5..5 + room].iter().map(|f| f.open().unwrap()).collect();
        assert_eq!(files[19].open().unwrap_err().errno(), Some(errno));
        drop((held, more));
        files[19].open().unwrap();
    }
}

#[test]
fn a_file_forgotten_while_it_is_opened_is_not_kept() {
    let victim: Arc<Mutex<Option<Arc<VirtualFile>>>> = Arc::default();
    let forgets = Arc::clone(&victim);
    let namespace = Hooked::new(
        |_| None,
        move |path| {
            // Another thread drops the file after open(2), before the cache has noted it.
            if let Some(file) = forgets.lock().unwrap().take() {
                file.forget();
                std::fs::remove_file(path).unwrap();
            }
            None
        },
    );
    let fixture = Fixture::over(namespace, 4);
    let file = Arc::new(fixture.made("a"));
    *victim.lock().unwrap() = Some(Arc::clone(&file));
    assert!(file.open().unwrap_err().is_not_found());
    assert_eq!((fixture.cache.len(), fixture.descriptors()), (0, 0));
}

#[test]
fn nobody_waits_for_anothers_open() {
    // The open of "slow" does not end before "quick" has been opened, used and closed, and new
    // files too.
    let (in_open, is_in_open) = std::sync::mpsc::channel::<()>();
    let (let_go, go) = std::sync::mpsc::channel::<()>();
    let go = Mutex::new(go);
    let namespace = Hooked::new(
        move |path| {
            if path.ends_with("slow") {
                in_open.send(()).unwrap();
                go.lock().unwrap().recv().unwrap();
            }
            None
        },
        |_| None,
    );
    let fixture = Fixture::over(namespace, 2);
    let (slow, quick) = (fixture.made("slow"), fixture.made("quick"));
    std::thread::scope(|scope| {
        let opening = scope.spawn(|| slow.open().map(|f| f.path().to_path_buf()));
        is_in_open.recv().unwrap();
        quick.open().unwrap();
        quick.get().unwrap();
        quick.close();
        fixture.made("other").open().unwrap();
        assert!(slow.get().is_none());
        let_go.send(()).unwrap();
        assert_eq!(opening.join().unwrap().unwrap(), fixture.path("slow"));
    });
    assert!(slow.get().is_some());
}

#[test]
fn many_threads_over_few_descriptors() {
    let fixture = Fixture::new(8);
    let files: Vec<VirtualFile> = (0..32).map(|n| fixture.made(&n.to_string())).collect();
    let aio =
        Aio::new(Arc::new(PosixNamespace::new()), MethodKind::Sync, AioConfig::default()).unwrap();
    std::thread::scope(|scope| {
        for seed in 0..4u64 {
            let (files, fixture, aio) = (&files, &fixture, &aio);
            scope.spawn(move || {
                let mut io = aio.backend(BackendType::Client).unwrap();
                let memory = Region::new(4096).unwrap();
                let mut state = seed * 2 + 1;
                for round in 0..2000 {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    let at = (state >> 33) as usize % files.len();
                    let file = files[at].open().unwrap();
                    let read = Io::read(file, 0, IoMemory::new(memory.clone(), 0, 1), Target::File);
                    assert_eq!(io.run(read).unwrap(), 1);
                    // SAFETY: the read has ended, and nobody else knows this memory.
                    let first = unsafe { *memory.ptr(0) };
                    assert_eq!(first, at.to_string().as_bytes()[0]);
                    if round % 7 == 0 {
                        files[at].close();
                    }
                    assert!(fixture.cache.len() <= 8);
                }
            });
        }
    });
    assert!(fixture.descriptors() <= 8);
    // The cache's list is what is open.
    assert_eq!(fixture.cache.len(), fixture.descriptors());
    assert_eq!(files.iter().filter(|f| f.get().is_some()).count(), fixture.cache.len());
}
