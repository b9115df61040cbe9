//! Makes a data directory durable before recovery trusts it. It follows links as PostgreSQL does
//! ([`follows`]).
//!
//! Pages that the dead process wrote may be only in the kernel's cache, and redo skips pages that
//! look new enough. So every file is synced, many at once, and then dropped from the cache: after a
//! failed sync the kernel still holds, as clean, pages that are not on the disk.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::{
    Errno, File, FileKind, Io, IoBackend, Namespace, Op, OpenOptions, Target, WaitRef,
};

use crate::disk::follows;
use crate::error::EngineError;

/// Most syncs in flight.
const DEPTH: usize = 32;

/// Syncs every file and directory below `dir`. Returns the number of files.
pub(super) fn sync_everything(io: &mut IoBackend, dir: &Path) -> Result<u64, EngineError> {
    let namespace = Arc::clone(io.aio().namespace());
    let mut syncs = Syncs { namespace: namespace.as_ref(), under_way: VecDeque::new(), files: 0 };
    let mut directories: Vec<PathBuf> = vec![dir.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in namespace.list(&directory)? {
            let path = directory.join(&entry.name);
            match entry.kind {
                FileKind::Directory => directories.push(path),
                FileKind::File => syncs.start(io, &path)?,
                FileKind::Symlink
                    if follows(dir, &directory, &entry)
                        && is_directory(namespace.as_ref(), &path)? =>
                {
                    directories.push(path);
                }
                FileKind::Symlink | FileKind::Other => {}
            }
        }
        namespace.sync_dir(&directory)?;
    }
    while syncs.finish_oldest(io)? {}
    Ok(syncs.files)
}

/// Syncs in flight, the oldest first. If this is dropped after an error, they end by themselves.
struct Syncs<'a> {
    namespace: &'a dyn Namespace,
    under_way: VecDeque<(WaitRef, File)>,
    files: u64,
}

impl Syncs<'_> {
    /// Starts to sync a file. A file that cannot be opened for writing was not written by this
    /// server, and is skipped.
    fn start(&mut self, io: &mut IoBackend, path: &Path) -> Result<(), EngineError> {
        let opened = match self.namespace.open(path, &OpenOptions::READ_WRITE) {
            Err(error) if error.errno() == Some(Errno::ACCES) => {
                self.namespace.open(path, &OpenOptions::READ)
            }
            opened => opened,
        };
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) if error.errno() == Some(Errno::ACCES) => {
                tracing::info!("could not sync: {error}");
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        if self.under_way.len() >= DEPTH {
            self.finish_oldest(io)?;
        }
        let wait = io.start(Io::new(file.clone(), Op::Fsync, Target::File));
        self.under_way.push_back((wait, file));
        self.files += 1;
        Ok(())
    }

    /// Waits for the oldest sync. False if there was none.
    fn finish_oldest(&mut self, io: &mut IoBackend) -> Result<bool, EngineError> {
        let Some((wait, file)) = self.under_way.pop_front() else { return Ok(false) };
        io.wait(wait).check()?;
        forebay_aio::planted_bug!(io.aio(), RecoveryTrustsKernelCache, return Ok(true));
        self.namespace.forget_cached(&file)?;
        Ok(true)
    }
}

fn is_directory(namespace: &dyn Namespace, path: &Path) -> Result<bool, EngineError> {
    Ok(namespace.stat(path)?.is_some_and(|stat| stat.kind == FileKind::Directory))
}
