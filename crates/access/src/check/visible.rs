//! What a page and the visibility map say of the page's tuples. A set bit must never be wrong.

use forebay_format::Page;
use forebay_format::visibility_map::{ALL_FROZEN, VALID_BITS};

use super::chains::Versions;
use super::finding::Report;
use super::items::Item;

/// Checks the page's flag and the map's bits.
pub(super) fn check_visible(
    page: Page<'_>,
    bits: u8,
    versions: &Versions<'_>,
    report: &mut Report<'_>,
) {
    let marked = page.is_all_visible();
    if bits & VALID_BITS != 0 && !marked {
        report.say("page is not marked all-visible but visibility map bit is set");
    }
    if !marked && bits & ALL_FROZEN == 0 {
        return;
    }
    for ((number, item), fact) in (1..).zip(versions.items).zip(versions.facts) {
        report.at(number);
        if marked && matches!(item, Item::Dead) {
            report.say("page containing LP_DEAD items is marked as all-visible");
        }
        let Some(fact) = fact else { continue };
        if marked && (fact.inserted == Some(false) || fact.updated == Some(true)) {
            report.say("tuple is not visible to all, but its page is marked as all-visible");
        }
        if bits & ALL_FROZEN != 0 && fact.unfrozen {
            report.say("tuple is not frozen, but visibility map bit all-frozen is set");
        }
    }
}
