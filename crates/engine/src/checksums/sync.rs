//! Makes a whole data directory durable: an interrupted run may have written without a sync.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use forebay_aio::{
    AioError, Errno, FileKind, Io, IoBackend, Namespace, Op, OpenOptions, Target, WaitRef,
};

use super::options::SyncMethod;
use crate::disk::{TABLESPACES, WAL, follows};
use crate::error::EngineError;

/// Most syncs in flight.
const DEPTH: usize = 32;

/// Syncs every file and directory, or the file systems they are on.
pub(super) fn sync_cluster(
    io: &mut IoBackend,
    dir: &Path,
    how: SyncMethod,
) -> Result<(), EngineError> {
    let names = Arc::clone(io.aio().namespace());
    match how {
        SyncMethod::Fsync => sync_files(io, &*names, dir),
        SyncMethod::SyncFs => {
            names.sync_file_system(dir)?;
            let links = may_fail(names.list(&dir.join(TABLESPACES)))?.unwrap_or_default();
            let links = links.iter().map(|entry| dir.join(TABLESPACES).join(&entry.name));
            for link in links.chain([dir.join(WAL)]) {
                may_fail(names.sync_file_system(&link))?;
            }
            Ok(())
        }
    }
}

fn sync_files(io: &mut IoBackend, names: &dyn Namespace, dir: &Path) -> Result<(), EngineError> {
    let mut directories = vec![dir.to_path_buf()];
    let mut under_way: VecDeque<WaitRef> = VecDeque::new();
    while let Some(directory) = directories.pop() {
        let Some(entries) = may_fail(names.list(&directory))? else { continue };
        for entry in entries {
            let path = directory.join(&entry.name);
            match entry.kind {
                FileKind::File => {
                    let Some(file) = may_fail(names.open(&path, &OpenOptions::READ_WRITE))? else {
                        continue;
                    };
                    if under_way.len() == DEPTH
                        && let Some(oldest) = under_way.pop_front()
                    {
                        io.wait(oldest).check()?;
                    }
                    under_way.push_back(io.start(Io::new(file, Op::Fsync, Target::File)));
                }
                FileKind::Directory => directories.push(path),
                FileKind::Symlink if follows(dir, &directory, &entry) => directories.push(path),
                FileKind::Symlink | FileKind::Other => {}
            }
        }
        names.sync_dir(&directory)?;
    }
    for sync in under_way {
        io.wait(sync).check()?;
    }
    Ok(())
}

/// Whether the error means that the file was not written: all files with pages were opened for
/// writing before. A failed sync never means that.
fn may_fail<T>(result: Result<T, AioError>) -> Result<Option<T>, EngineError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) => match error.errno() {
            Some(Errno::NOENT | Errno::ACCES | Errno::NOTDIR) => Ok(None),
            _ => Err(error.into()),
        },
    }
}
