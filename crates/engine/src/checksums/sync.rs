//! Makes a whole data directory durable: an interrupted run may have written without a sync.

use std::path::Path;
use std::sync::Arc;

use forebay_aio::{AioError, Errno, IoBackend};

use super::options::SyncMethod;
use crate::disk::{TABLESPACES, WAL};
use crate::error::EngineError;
use crate::sync_tree::sync_tree;

/// Syncs every file and directory, or the file systems they are on.
pub(super) fn sync_cluster(
    io: &mut IoBackend,
    dir: &Path,
    how: SyncMethod,
) -> Result<(), EngineError> {
    let names = Arc::clone(io.aio().namespace());
    match how {
        SyncMethod::Fsync => sync_tree(io, dir, false).map(drop),
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

/// None if the file system has nothing of the cluster, since all files with pages were opened for
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
