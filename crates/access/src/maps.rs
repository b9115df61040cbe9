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
    let policy = backend.policy;
    backend.policy.zero_on_error = true;
    let page = pool.read(backend, tag, Strategy::Normal);
    backend.policy = policy;
    page
}

/// Reads a page of a map, which is made if there is none.
pub(crate) fn read_or_make(
    pool: &Arc<BufferPool>,
    backend: &mut Backend,
    tag: PageTag,
) -> Result<Pinned, StorageError> {
    let PageTag { rel, fork, block } = tag;
    if !pool.smgr().exists(rel, fork)? {
        pool.smgr().create(rel, fork, true)?;
    }
    loop {
        match (block + 1).saturating_sub(pool.nblocks(rel, fork)?) {
            0 => return read(pool, backend, tag),
            missing => drop(pool.extend(backend, rel, fork, missing, Strategy::Normal)?),
        }
    }
}

/// Reads a page of a map in recovery. A page that does not exist is added as zeros.
pub(crate) fn read_for_redo(
    pool: &Arc<BufferPool>,
    backend: &mut Backend,
    tag: PageTag,
) -> Result<Pinned, StorageError> {
    let smgr = pool.smgr();
    if smgr.exists(tag.rel, tag.fork)? && tag.block < smgr.nblocks(tag.rel, tag.fork)? {
        return read(pool, backend, tag);
    }
    smgr.create(tag.rel, tag.fork, true)?;
    pool.zero_page(backend, tag)
}
