//! Counts live tuples by line pointers and header bits alone, without a snapshot or pg_xact. The
//! count is exact for what was frozen and not touched since.

use forebay_format::Page;
use forebay_format::tuple::{
    HEADER_SIZE, HEAP_XMAX_INVALID, HEAP_XMIN_FROZEN, HEAP_XMIN_INVALID, xmax_is_locked_only,
};

/// Tuples of a heap page whose inserter is not known to have failed, and that no transaction has
/// marked as deleted.
pub(super) fn live_tuples(page: Page<'_>) -> u64 {
    let live = page.items().filter(|(_, item)| {
        let Some(header) = item.first_chunk::<HEADER_SIZE>() else { return false };
        let mask = u16::from_le_bytes([header[20], header[21]]);
        let xmax = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        let inserted = mask & HEAP_XMIN_FROZEN != HEAP_XMIN_INVALID;
        let deleted = mask & HEAP_XMAX_INVALID == 0 && xmax != 0 && !xmax_is_locked_only(mask);
        inserted && !deleted
    });
    live.count() as u64
}
