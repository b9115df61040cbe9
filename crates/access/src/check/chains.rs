//! How the versions of rows follow each other on a page.

use forebay_format::{BlockNumber, HeapTuple, OffsetNumber};

use super::finding::Report;
use super::items::Item;
use super::tuple::Fact;

/// What a line pointer is for the entries of indexes that lead there.
#[derive(Clone, Copy)]
pub enum Root<'a> {
    /// No row begins there.
    Nothing,
    /// A row that is gone, or of which that is not known.
    Gone,
    /// A row, in the version that exists for a transaction that begins now.
    Live(HeapTuple<'a>),
}

/// Line pointers of a page, with what is known of their tuples.
pub(super) struct Versions<'a> {
    pub block: BlockNumber,
    pub items: &'a [Item<'a>],
    /// One for each item; `None` if it has no tuple.
    pub facts: &'a [Option<Fact>],
}

impl Versions<'_> {
    fn fact(&self, number: OffsetNumber) -> Option<&Fact> {
        self.facts.get(usize::from(number).checked_sub(1)?)?.as_ref()
    }

    fn numbered(&self) -> impl Iterator<Item = (OffsetNumber, (&Item<'_>, &Option<Fact>))> {
        (1..).zip(self.items.iter().zip(self.facts))
    }

    /// The newer version on this page that a tuple's ctid seems to name.
    fn successor(&self, number: OffsetNumber, fact: &Fact) -> Option<(OffsetNumber, &Fact)> {
        let to = fact.ctid.offset;
        let here = fact.ctid.block == self.block && to != number;
        let next = self.fact(to).filter(|_| here)?;
        (fact.xmax != 0 && fact.xmax == next.xmin).then_some((to, next))
    }
}

/// Checks where redirects and updates lead, and that no heap-only tuple is out of reach.
pub(super) fn check_chains(versions: &Versions<'_>, report: &mut Report<'_>) {
    // For each tuple the item that leads to it, or 0.
    let mut before: Vec<OffsetNumber> = vec![0; versions.items.len()];
    let mut lead = |from: OffsetNumber, to: OffsetNumber| {
        let place = before.get_mut(usize::from(to).wrapping_sub(1))?;
        let taken = Some(*place).filter(|&other| other != 0);
        if taken.is_none() {
            *place = from;
        }
        taken
    };
    for (number, (item, fact)) in versions.numbered() {
        report.at(number);
        match (item, fact) {
            (Item::Redirect(to), _) => {
                if let Some(next) = versions.fact(*to) {
                    if !next.heap_only {
                        report.say(format!(
                            "redirected line pointer points to a non-heap-only tuple at offset {to}"
                        ));
                    }
                    if let Some(other) = lead(number, *to) {
                        report.say(format!(
                            "redirect line pointer points to offset {to}, but offset {other} also \
                             points there"
                        ));
                    }
                }
            }
            (_, Some(fact)) => match versions.successor(number, fact) {
                Some((to, next)) => match lead(number, to) {
                    Some(other) => report.say(format!(
                        "tuple points to new version at offset {to}, but offset {other} also \
                         points there"
                    )),
                    None => check_update(fact, to, next, report),
                },
                None => check_lost(fact, report),
            },
            _ => {}
        }
    }
    for ((number, (_, fact)), before) in versions.numbered().zip(before) {
        if let Some(fact) = fact
            && before == 0
            && fact.heap_only
            && fact.inserted == Some(true)
        {
            report.at(number).say("tuple is root of chain but is marked as heap-only tuple");
        }
    }
}

fn check_update(fact: &Fact, to: OffsetNumber, next: &Fact, report: &mut Report<'_>) {
    if !fact.hot_flag && next.heap_only {
        report.say(format!("non-heap-only update produced a heap-only tuple at offset {to}"));
    }
    if fact.hot_flag && !next.heap_only {
        report.say(format!("heap-only update produced a non-heap only tuple at offset {to}"));
    }
    if fact.inserted == Some(false) && next.inserted == Some(true) {
        report.say(format!(
            "tuple with aborted xmin {} was updated to produce a tuple at offset {to} with \
             committed xmin {}",
            fact.xmin, next.xmin
        ));
    }
}

/// A committed HOT update has its newer version on the page: pruning removes the older one first.
fn check_lost(fact: &Fact, report: &mut Report<'_>) {
    if fact.hot_updated && fact.inserted == Some(true) && fact.updated == Some(true) {
        report.say(format!(
            "tuple has been HOT updated by {}, but its new version is not at {}",
            fact.xmax, fact.ctid
        ));
    }
}

/// What each line pointer is for indexes.
pub(super) fn roots<'b>(items: &[Item<'b>], versions: &Versions<'_>) -> Vec<Root<'b>> {
    let root = |(number, item): (OffsetNumber, &Item<'b>)| match item {
        Item::Empty => Root::Nothing,
        Item::Dead => Root::Gone,
        Item::Redirect(to) => live(items, versions, *to),
        Item::Tuple(tuple) if tuple.is_heap_only() => Root::Nothing,
        Item::Tuple(_) => live(items, versions, number),
    };
    (1..).zip(items).map(root).collect()
}

/// The version of a row that exists, by following its HOT chain from one version.
fn live<'b>(items: &[Item<'b>], versions: &Versions<'_>, first: OffsetNumber) -> Root<'b> {
    let mut number = first;
    for _ in items {
        let item = items.get(usize::from(number).wrapping_sub(1));
        let (Some(Item::Tuple(tuple)), Some(fact)) = (item, versions.fact(number)) else { break };
        if fact.inserted == Some(true) && fact.updated == Some(false) {
            return Root::Live(*tuple);
        }
        match versions.successor(number, fact) {
            Some((to, next)) if fact.hot_flag && next.heap_only => number = to,
            _ => break,
        }
    }
    Root::Gone
}
