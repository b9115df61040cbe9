//! The line pointers of a heap page.

use forebay_format::page::{ItemId, ItemState};
use forebay_format::tuple::HEADER_SIZE as TUPLE_HEADER;
use forebay_format::{BLOCK_SIZE, HeapTuple, OffsetNumber, Page};

use super::finding::Report;

/// The shortest tuple: a header, aligned.
const LEAST_TUPLE: u16 = (TUPLE_HEADER as u16).next_multiple_of(8);
const UNIT: u16 = 8;
const UNITS: usize = BLOCK_SIZE / UNIT as usize;

/// A line pointer that was checked.
#[derive(Clone, Copy)]
pub(super) enum Item<'a> {
    /// Unused, or damaged.
    Empty,
    Dead,
    /// Leads to a tuple or to a damaged line pointer.
    Redirect(OffsetNumber),
    Tuple(HeapTuple<'a>),
}

/// Which units of the page belong to an item.
struct Space([bool; UNITS]);

impl Space {
    /// Takes an item's units. Returns whether they were free.
    fn take(&mut self, id: ItemId) -> bool {
        let first = usize::from(id.offset / UNIT);
        let end = usize::from(id.offset.saturating_add(id.len).div_ceil(UNIT));
        let units = self.0.get_mut(first..end.min(UNITS)).unwrap_or_default();
        let free = !units.contains(&true);
        units.fill(true);
        free
    }
}

/// Checks all line pointers. The result has one item for each.
pub(super) fn check_items<'a>(page: Page<'a>, report: &mut Report<'_>) -> Vec<Item<'a>> {
    let mut space = Space([false; UNITS]);
    let count = page.item_count();
    let mut items = Vec::with_capacity(usize::from(count));
    for number in 1..=count {
        let id = page.item_id(number).unwrap_or(ItemId::UNUSED);
        report.at(number);
        items.push(match id.state {
            ItemState::Redirect => check_redirect(page, id, report),
            ItemState::Normal => check_tuple(page, number, id, &mut space, report),
            ItemState::Dead if id.len == 0 => Item::Dead,
            ItemState::Unused if id.len == 0 => Item::Empty,
            ItemState::Dead | ItemState::Unused => {
                let state = if id.state == ItemState::Dead { "dead" } else { "unused" };
                report.say(format!(
                    "{state} line pointer has an item of length {} at page offset {}",
                    id.len, id.offset
                ));
                Item::Empty
            }
        });
    }
    items
}

fn check_redirect<'a>(page: Page<'_>, id: ItemId, report: &mut Report<'_>) -> Item<'a> {
    let (target, last) = (id.offset, page.item_count());
    if id.len != 0 {
        report.say(format!("redirected line pointer has length {}", id.len));
    }
    let to = "line pointer redirection to item at offset";
    let problem = match page.item_id(target).map(|id| id.state) {
        None if target == 0 => format!("{to} {target} precedes minimum offset 1"),
        None => format!("{to} {target} exceeds maximum offset {last}"),
        Some(ItemState::Unused) => {
            format!("redirected line pointer points to an unused item at offset {target}")
        }
        Some(ItemState::Dead) => {
            format!("redirected line pointer points to a dead item at offset {target}")
        }
        Some(ItemState::Redirect) => format!(
            "redirected line pointer points to another redirected line pointer at offset {target}"
        ),
        Some(ItemState::Normal) => return Item::Redirect(target),
    };
    report.say(problem);
    Item::Empty
}

fn check_tuple<'a>(
    page: Page<'a>,
    number: OffsetNumber,
    id: ItemId,
    space: &mut Space,
    report: &mut Report<'_>,
) -> Item<'a> {
    let ItemId { offset, len, .. } = id;
    let (start, end) = (usize::from(offset), usize::from(offset) + usize::from(len));
    if offset % UNIT != 0 {
        report.say(format!("line pointer to page offset {offset} is not maximally aligned"));
    } else if len < LEAST_TUPLE {
        report.say(format!(
            "line pointer length {len} is less than the minimum tuple header size {LEAST_TUPLE}"
        ));
    } else if end > page.special() {
        report.say(format!(
            "line pointer to page offset {offset} with length {len} ends beyond maximum page \
             offset {}",
            page.special()
        ));
    } else if start < page.upper() {
        report.say(format!(
            "line pointer to page offset {offset} with length {len} begins before the items at {}",
            page.upper()
        ));
    } else if let Some(tuple) = page.item(number).and_then(|bytes| HeapTuple::new(bytes).ok()) {
        if !space.take(id) {
            report.say(format!("line pointer to page offset {offset} overlaps another item"));
        }
        return Item::Tuple(tuple);
    }
    Item::Empty
}
