//! The visibility map: two bits for each block of a table, all-visible and all-frozen.
//!
//! Nothing here sets a bit. PostgreSQL's vacuum sets them, and a change of such a page must clear
//! them. The clearing has no record of its own: the record of the change says that it happened.

use std::sync::Arc;

use forebay_format::{BlockNumber, Fork, PageTag, RelFileLocator, page::HEADER_SIZE};
use forebay_storage::{Backend, BufferPool, Pinned, StorageError, Strategy};

/// Table blocks for each byte of the map.
const BLOCKS_PER_BYTE: u32 = 4;
/// Bytes of a map page behind its header.
const MAP_BYTES: u32 = (forebay_format::BLOCK_SIZE - HEADER_SIZE) as u32;
/// Both bits.
const VALID_BITS: u8 = 3;

/// The place of a block's bits: block of the map, byte of that block, shift.
fn position(block: BlockNumber) -> (BlockNumber, usize, u32) {
    let per_page = MAP_BYTES * BLOCKS_PER_BYTE;
    let byte = HEADER_SIZE + (block % per_page / BLOCKS_PER_BYTE) as usize;
    (block / per_page, byte, block % BLOCKS_PER_BYTE * 2)
}

/// Reads a page of the map. A damaged page reads as zeros, which is always safe. A crash of
/// PostgreSQL may tear such a page: clearing bits has no record, so the log may have no image of
/// it.
fn read(
    pool: &Arc<BufferPool>,
    backend: &mut Backend,
    rel: RelFileLocator,
    map_block: BlockNumber,
) -> Result<Pinned, StorageError> {
    let policy = backend.policy;
    backend.policy.zero_on_error = true;
    let page = pool.read(backend, PageTag::new(rel, Fork::Vm, map_block), Strategy::Normal);
    backend.policy = policy;
    page
}

/// Clears the bits of a block, if they are set.
pub(crate) fn clear(
    pool: &Arc<BufferPool>,
    backend: &mut Backend,
    rel: RelFileLocator,
    block: BlockNumber,
) -> Result<(), StorageError> {
    let (map_block, byte, shift) = position(block);
    if !pool.smgr().exists(rel, Fork::Vm)? || map_block >= pool.nblocks(rel, Fork::Vm)? {
        return Ok(());
    }
    let pin = read(pool, backend, rel, map_block)?;
    let mut guard = pin.lock_exclusive();
    if guard.page().is_new() || (guard[byte] >> shift) & VALID_BITS == 0 {
        return Ok(());
    }
    guard.mark_dirty();
    guard[byte] &= !(VALID_BITS << shift);
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
    let (map_block, byte, shift) = position(blocks);
    if byte == HEADER_SIZE && shift == 0 {
        return Ok(map_block);
    }
    if pool.smgr().exists(rel, Fork::Vm)? && map_block < pool.nblocks(rel, Fork::Vm)? {
        let pin = read(pool, backend, rel, map_block)?;
        let mut guard = pin.lock_exclusive();
        if !guard.page().is_new() {
            guard.mark_dirty();
            guard[byte] &= !(0xff << shift);
            guard[byte + 1..].fill(0);
        }
    }
    Ok(map_block + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_where_postgresql_puts_them() {
        assert_eq!(position(0), (0, 24, 0));
        assert_eq!(position(3), (0, 24, 6));
        assert_eq!(position(4), (0, 25, 0));
        assert_eq!(position(32_671), (0, 8191, 6));
        assert_eq!(position(32_672), (1, 24, 0));
    }
}
