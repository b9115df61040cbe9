//! Makes a data directory durable. It follows links as PostgreSQL does ([`follows`]).
//!
//! Pages that a dead process wrote may be only in the kernel's cache, and redo skips pages that
//! look new enough. So every file is synced, many at once. Recovery then drops them from the cache:
//! after a failed sync the kernel still holds, as clean, pages that are not on the disk.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::{
    AioError, Errno, File, FileKind, IfFound, Io, IoBackend, Namespace, Op, OpenOptions, Target,
    WaitRef,
};

use crate::disk::follows;
use crate::error::EngineError;

/// Most syncs in flight.
const DEPTH: usize = 32;

/// Syncs every file and directory below `dir`, and may `forget` what the kernel has of them.
/// Returns the number of files.
pub(crate) fn sync_tree(io: &mut IoBackend, dir: &Path, forget: bool) -> Result<u64, EngineError> {
    let namespace = Arc::clone(io.aio().namespace());
    let names = namespace.as_ref();
    let mut syncs = Syncs { names, forget, under_way: VecDeque::new(), files: 0 };
    let mut directories: Vec<PathBuf> = vec![dir.to_path_buf()];
    while let Some(directory) = directories.pop() {
        let Some(entries) = unless_denied(names.list(&directory))? else { continue };
        for entry in entries {
            let path = directory.join(&entry.name);
            match entry.kind {
                FileKind::Directory => directories.push(path),
                FileKind::File => syncs.start(io, &path)?,
                FileKind::Symlink
                    if follows(dir, &directory, &entry) && is_directory(names, &path)? =>
                {
                    directories.push(path);
                }
                FileKind::Symlink | FileKind::Other => {}
            }
        }
        names.sync_dir(&directory)?;
    }
    while syncs.finish_oldest(io)? {}
    Ok(syncs.files)
}

/// Syncs in flight, the oldest first. If this is dropped after an error, they end by themselves.
struct Syncs<'a> {
    names: &'a dyn Namespace,
    forget: bool,
    under_way: VecDeque<(WaitRef, File)>,
    files: u64,
}

impl Syncs<'_> {
    /// Starts to sync a file.
    fn start(&mut self, io: &mut IoBackend, path: &Path) -> Result<(), EngineError> {
        let opened = match self.names.open(path, &OpenOptions::READ_WRITE) {
            Err(error) if is_denied(&error) => self.names.open(path, &OpenOptions::READ),
            opened => opened,
        };
        let Some(file) = unless_denied(opened)? else { return Ok(()) };
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
        if self.forget {
            forebay_aio::planted_bug!(io.aio(), RecoveryTrustsKernelCache, return Ok(true));
            self.names.forget_cached(&file)?;
        }
        Ok(true)
    }
}

/// None if the file or directory has gone, or is one that this user may not open: no server of this
/// user's has written it. PostgreSQL passes over it too.
fn unless_denied<T>(opened: Result<T, AioError>) -> Result<Option<T>, EngineError> {
    match opened.if_found() {
        Err(error) if is_denied(&error) => {
            tracing::info!("could not sync: {error}");
            Ok(None)
        }
        opened => Ok(opened?),
    }
}

fn is_denied(error: &AioError) -> bool {
    error.errno() == Some(Errno::ACCES)
}

fn is_directory(names: &dyn Namespace, path: &Path) -> Result<bool, EngineError> {
    Ok(names.stat(path)?.is_some_and(|stat| stat.kind == FileKind::Directory))
}
