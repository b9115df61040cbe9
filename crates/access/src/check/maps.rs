//! Pages of the visibility map.

use forebay_format::visibility_map::{self as vm, ALL_FROZEN, BLOCKS_PER_PAGE};
use forebay_format::{BlockNumber, Fork, PageBytes};

use super::finding::{Finding, Report};
use super::page::{PageKind, check_header};

/// Checks a page of the visibility map of a table with `heap_blocks` blocks.
pub fn check_visibility_map(
    checksums: bool,
    block: BlockNumber,
    heap_blocks: BlockNumber,
    bytes: &PageBytes,
    sink: &mut dyn FnMut(Finding),
) {
    let mut report = Report::new(Fork::Vm, block, sink);
    let Some(page) = check_header(PageKind::Map, checksums, block, bytes, &mut report) else {
        return;
    };
    let first = u64::from(block) * u64::from(BLOCKS_PER_PAGE);
    let blocks = (first..first + u64::from(BLOCKS_PER_PAGE)).map_while(|n| u32::try_from(n).ok());
    let mut beyond = false;
    for heap_block in blocks {
        let bits = vm::get(page, heap_block);
        if bits == ALL_FROZEN {
            report.say(format!("all-frozen bit of block {heap_block} is set without all-visible"));
        }
        if bits != 0 && heap_block >= heap_blocks && !std::mem::replace(&mut beyond, true) {
            report.say(format!(
                "bits are set of block {heap_block}, and the table has {heap_blocks} blocks"
            ));
        }
    }
}
