//! Lists and syncs a directory.

use std::path::Path;

use forebay_aio::{Aio, sync::Arc};

use crate::error::{FatalError, WalError};

/// The names in a directory. Skips those that are not valid UTF-8, which no file of a log has.
pub(super) fn list(aio: &Aio, dir: &Path) -> Result<Vec<String>, WalError> {
    let entries = aio.namespace().list(dir).map_err(|e| WalError::segment("list", dir, e))?;
    Ok(entries.into_iter().filter_map(|entry| entry.name.into_string().ok()).collect())
}

/// Syncs a directory. A failed sync is a fatal error.
pub(super) fn sync_dir(aio: &Aio, dir: &Path) -> Result<(), WalError> {
    aio.namespace().sync_dir(dir).map_err(|e| {
        if !e.is_failed_sync() {
            return WalError::segment("open directory", dir, e);
        }
        let (file, source) = (dir.to_path_buf(), Arc::new(e));
        WalError::Fatal(Arc::new(FatalError { file, operation: "sync", offset: 0, len: 0, source }))
    })
}
