//! The checksum and the header of a page.

use forebay_format::checksum::page_checksum;
use forebay_format::page::{HEADER_SIZE, ITEM_ID_SIZE, MAX_HEAP_TUPLES, PD_VALID_FLAGS};
use forebay_format::page::{SIZE_AND_VERSION, stored_checksum};
use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, Page, PageBytes};

use super::finding::{Finding, Report};

/// Special space of a sequence's page: its magic number, and padding.
const SEQUENCE_SPECIAL: usize = BLOCK_SIZE - 8;
const SEQUENCE_MAGIC: u32 = 0x1717;

/// What a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// A table.
    Heap,
    /// A sequence: a table of one row, with a magic number in the special space.
    Sequence,
    /// The visibility map, or the free-space map: there are no line pointers.
    Map,
    /// Anything else, such as an index.
    Other,
}

/// Checks a page's checksum, if pages have any, and its header.
pub fn check_page(
    kind: PageKind,
    checksums: bool,
    fork: Fork,
    block: BlockNumber,
    bytes: &PageBytes,
    sink: &mut dyn FnMut(Finding),
) {
    check_header(kind, checksums, block, bytes, &mut Report::new(fork, block, sink));
}

/// Returns the page if its header allows looking at what is behind it. An empty page does not.
pub(super) fn check_header<'a>(
    kind: PageKind,
    checksums: bool,
    block: BlockNumber,
    bytes: &'a PageBytes,
    report: &mut Report<'_>,
) -> Option<Page<'a>> {
    let page = Page::new(bytes);
    if page.is_new() {
        if !(page.is_all_zeros() && stored_checksum(bytes) == 0) {
            report.say("page is marked as new, but is not empty");
        }
        return None;
    }
    if checksums {
        let (calculated, found) = (page_checksum(bytes, block), stored_checksum(bytes));
        if calculated != found {
            report.say(format!(
                "page verification failed, calculated checksum {calculated} but expected {found}"
            ));
        }
    }
    if page.size_and_version() != SIZE_AND_VERSION {
        report.say(format!(
            "page has size and layout version {:#06x} instead of {SIZE_AND_VERSION:#06x}",
            page.size_and_version()
        ));
        return None;
    }
    if page.flags() & !PD_VALID_FLAGS != 0 {
        report.say(format!("page has invalid flags {:#06x}", page.flags()));
    }
    let (lower, upper, special) = (page.lower(), page.upper(), page.special());
    let in_order = HEADER_SIZE <= lower && lower <= upper && upper <= special;
    if !in_order || special > BLOCK_SIZE || special % 8 != 0 {
        report.say(format!(
            "page header is damaged: lower {lower}, upper {upper}, special {special}"
        ));
        return None;
    }
    check_kind(kind, page, report).then_some(page)
}

fn check_kind(kind: PageKind, page: Page<'_>, report: &mut Report<'_>) -> bool {
    let expected = match kind {
        PageKind::Other => return true,
        PageKind::Heap | PageKind::Map => BLOCK_SIZE,
        PageKind::Sequence => SEQUENCE_SPECIAL,
    };
    if page.special() != expected {
        report.say(format!("special space begins at {} instead of {expected}", page.special()));
        return false;
    }
    let pointers = page.lower() - HEADER_SIZE;
    if kind == PageKind::Map {
        if pointers != 0 {
            report.say(format!("page of a map has line pointers up to {}", page.lower()));
        }
        return true;
    }
    if kind == PageKind::Sequence
        && page.special_bytes().first_chunk() != Some(&SEQUENCE_MAGIC.to_le_bytes())
    {
        report.say("page of a sequence has a bad magic number");
    }
    if !pointers.is_multiple_of(ITEM_ID_SIZE) {
        report.say(format!("line pointers end at {}, inside of one", page.lower()));
    }
    if pointers / ITEM_ID_SIZE > MAX_HEAP_TUPLES {
        report.say(format!(
            "page has {} line pointers, and a heap page at most {MAX_HEAP_TUPLES}",
            pointers / ITEM_ID_SIZE
        ));
    }
    true
}
