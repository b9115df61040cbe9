//! The visibility map: two bits for each block of a table, all-visible and all-frozen.
//!
//! Vacuum sets bits, with a record. A change of such a page must clear them. That has no record of
//! its own: the record of the change says that it happened.

use std::sync::Arc;

use forebay_format::{BlockNumber, Fork, PageTag, RelFileLocator, visibility_map as map};
use forebay_storage::{Backend, BufferPool, PageWriteGuard, Pinned, StorageError};

use crate::maps;

/// Pins the page of the map that has a block's bits. None if the map does not have that page: then
/// no bits are set.
pub(crate) fn pin(
    pool: &Arc<BufferPool>,
    backend: &mut Backend,
    rel: RelFileLocator,
    block: BlockNumber,
) -> Result<Option<Pinned>, StorageError> {
    let map_block = map::map_block(block);
    if !pool.smgr().exists(rel, Fork::Vm)? || map_block >= pool.nblocks(rel, Fork::Vm)? {
        return Ok(None);
    }
    maps::read(pool, backend, PageTag::new(rel, Fork::Vm, map_block)).map(Some)
}

/// Pins the page of the map that has a block's bits. It is made if there is none.
pub(crate) fn pin_or_make(
    pool: &Arc<BufferPool>,
    backend: &mut Backend,
    rel: RelFileLocator,
    block: BlockNumber,
) -> Result<Pinned, StorageError> {
    maps::read_or_make(pool, backend, PageTag::new(rel, Fork::Vm, map::map_block(block)))
}

/// The bits of a block in its page of the map.
pub(crate) fn bits(pin: &Pinned, block: BlockNumber) -> u8 {
    let guard = pin.lock_shared();
    if guard.page().is_new() { 0 } else { map::get(guard.page(), block) }
}

/// Numbers of all-visible and of all-frozen blocks.
pub(crate) fn count(
    pool: &Arc<BufferPool>,
    backend: &mut Backend,
    rel: RelFileLocator,
) -> Result<(u32, u32), StorageError> {
    if !pool.smgr().exists(rel, Fork::Vm)? {
        return Ok((0, 0));
    }
    let mut counts = (0, 0);
    for block in 0..pool.nblocks(rel, Fork::Vm)? {
        let pin = maps::read(pool, backend, PageTag::new(rel, Fork::Vm, block))?;
        let (visible, frozen) = map::count(pin.lock_shared().page());
        counts = (counts.0 + visible, counts.1 + frozen);
    }
    Ok(counts)
}

/// Clears bits of a block in its locked page of the map. Returns whether one was set.
pub(crate) fn clear_locked(guard: &mut PageWriteGuard<'_>, block: BlockNumber, bits: u8) -> bool {
    if guard.page().is_new() || map::get(guard.page(), block) & bits == 0 {
        return false;
    }
    guard.mark_dirty();
    map::clear(&mut guard.page_mut(), block, bits)
}

/// Clears bits of a block, if they are set.
pub(crate) fn clear_bits(
    pool: &Arc<BufferPool>,
    backend: &mut Backend,
    rel: RelFileLocator,
    block: BlockNumber,
    bits: u8,
) -> Result<(), StorageError> {
    if let Some(pin) = pin(pool, backend, rel, block)? {
        clear_locked(&mut pin.lock_exclusive(), block, bits);
    }
    Ok(())
}

/// Clears the bits of block `blocks` and all later blocks of its page of the map. Returns the
/// number of map pages that a table of `blocks` blocks needs.
pub(crate) fn clear_from(
    pool: &Arc<BufferPool>,
    backend: &mut Backend,
    rel: RelFileLocator,
    blocks: BlockNumber,
) -> Result<BlockNumber, StorageError> {
    let map_block = map::map_block(blocks);
    if blocks.is_multiple_of(map::BLOCKS_PER_PAGE) {
        return Ok(map_block);
    }
    if pool.smgr().exists(rel, Fork::Vm)? && map_block < pool.nblocks(rel, Fork::Vm)? {
        let pin = maps::read(pool, backend, PageTag::new(rel, Fork::Vm, map_block))?;
        let mut guard = pin.lock_exclusive();
        if !guard.page().is_new() {
            guard.mark_dirty();
            map::truncate(&mut guard.page_mut(), blocks);
        }
    }
    Ok(map_block + 1)
}
