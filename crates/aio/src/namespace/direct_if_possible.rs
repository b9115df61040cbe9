//! A namespace in which direct I/O is a wish: file systems without it are buffered.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{DirEntry, FileStat, Namespace, PosixNamespace};
use crate::direct::DirectAlignment;
use crate::error::AioError;
use crate::file::{File, OpenOptions};
use crate::refusal::DirectRefusal;
use crate::sync::Mutex;

/// The operating system's files. One that is opened for writing with direct I/O is buffered if its
/// file system has none, or only pretends to; the first such file of each file system is logged.
///
/// A file that is opened only for reading is direct or refused: what reads a file past the kernel's
/// cache to verify it must not get the cache instead.
#[derive(Default)]
pub struct DirectIfPossible {
    /// Whether a file system has direct I/O, by its device.
    known: Mutex<BTreeMap<u64, bool>>,
}

impl DirectIfPossible {
    /// The namespace. Nothing is known yet of any file system.
    pub fn new() -> DirectIfPossible {
        DirectIfPossible::default()
    }

    /// Whether files in this directory are opened for direct I/O. Where nothing can be found out,
    /// opening the file tells what is wrong.
    fn can(&self, dir: &Path) -> bool {
        let Some(device) = device(dir) else { return true };
        if let Some(can) = self.known.lock().get(&device) {
            return *can;
        }
        let why = match PosixNamespace.probe_direct(dir) {
            // It only pretends to.
            Ok(DirectAlignment { note: Some(reason), filesystem, .. }) => {
                Some(DirectRefusal { dir: dir.to_owned(), filesystem, reason }.to_string())
            }
            Ok(_) => None,
            Err(refusal) => Some(refusal.to_string()),
        };
        // Several threads may find it out at the same time; one of them says it.
        let first = self.known.lock().insert(device, why.is_none()).is_none();
        if let (true, Some(why)) = (first, &why) {
            tracing::info!("files are buffered by the kernel: {why}");
        }
        why.is_none()
    }
}

/// The device of the file system that holds `dir`.
fn device(dir: &Path) -> Option<u64> {
    std::fs::metadata(dir).ok().map(|found| found.dev())
}

/// Calls of the same name on the system's namespace.
macro_rules! forward {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(fn $name(&self, $($argument: $type),*) -> Result<$result, AioError> {
            PosixNamespace.$name($($argument),*)
        })*
    };
}

impl Namespace for DirectIfPossible {
    fn open(&self, path: &Path, options: &OpenOptions) -> Result<File, AioError> {
        let wished = options.direct && options.write;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let direct = options.direct && (!wished || self.can(dir.unwrap_or(Path::new("."))));
        PosixNamespace.open(path, &options.direct(direct))
    }

    fn probe_direct(&self, dir: &Path) -> Result<DirectAlignment, DirectRefusal> {
        let told = PosixNamespace.probe_direct(dir);
        if let Some(device) = device(dir) {
            let can = told.as_ref().is_ok_and(|told| told.note.is_none());
            self.known.lock().insert(device, can);
        }
        told
    }

    forward! {
        mkdir(path: &Path) -> ();
        rename(from: &Path, to: &Path) -> ();
        rename_noreplace(from: &Path, to: &Path) -> ();
        unlink(path: &Path) -> ();
        rmdir(path: &Path) -> ();
        symlink(target: &Path, path: &Path) -> ();
        read_link(path: &Path) -> PathBuf;
        link_count(path: &Path) -> u64;
        list(path: &Path) -> Vec<DirEntry>;
        stat(path: &Path) -> Option<FileStat>;
        file_len(file: &File) -> u64;
        set_len(file: &File, len: u64) -> ();
        allocate(file: &File, offset: u64, len: u64) -> ();
        reserve(file: &File, offset: u64, len: u64) -> ();
        sync_file(file: &File) -> ();
        forget_cached(file: &File) -> ();
        sync_dir(path: &Path) -> ();
        sync_file_system(path: &Path) -> ();
        try_lock(file: &File) -> bool;
    }
}
