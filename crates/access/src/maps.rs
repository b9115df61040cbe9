//! Pages of a table's maps. What a map says is a hint or errs on the safe side, and not every
//! change of it has a record, so a crash may leave a torn page. A damaged page reads as zeros.

use std::sync::Arc;

use forebay_format::PageTag;
use forebay_storage::{Backend, BufferPool, Pinned, StorageError, Strategy};

/// Reads a page of a map.
pub(crate) fn read(
    pool: &Arc<BufferPool>,
    backend: &mut Backend,
    tag: PageTag,
) -> Result<Pinned, StorageError> {
    zero_on_error(backend, |backend| pool.read(backend, tag, Strategy::Normal))
}

/// Reads a page of a map in recovery. A file that is missing or too short is extended by zeros.
pub(crate) fn read_for_redo(
    pool: &Arc<BufferPool>,
    backend: &mut Backend,
    tag: PageTag,
) -> Result<Pinned, StorageError> {
    zero_on_error(backend, |backend| pool.read_for_redo(backend, tag))
}

fn zero_on_error<T>(backend: &mut Backend, read: impl FnOnce(&mut Backend) -> T) -> T {
    let policy = backend.policy;
    backend.policy.zero_on_error = true;
    let page = read(backend);
    backend.policy = policy;
    page
}
