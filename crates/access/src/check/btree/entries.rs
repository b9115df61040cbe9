//! The heap TIDs of an index, and the rows that they must lead to.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::HashMap;

use forebay_format::nbtree::Tuple;
use forebay_format::tuple::Deform;
use forebay_format::{AttrLayout, BlockNumber, Fork, HeapTuple, ItemPointer, OffsetNumber};

use super::shape::{BtreeShape, RowHash};
use crate::check::chains::Root;
use crate::check::finding::Finding;
use crate::nbtree::readable;

/// Most entries that are named if they lead beyond the end of the table.
const MOST_NAMED: usize = 1000;

/// An item, or a place of a posting list, that leads to a row: 16 bytes, as there may be many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    /// Block and line pointer of the row, and the item that leads to it.
    place: u64,
    /// The block of the index.
    block: BlockNumber,
    /// A hash of all columns.
    hash: u32,
}

impl Entry {
    pub(super) fn new(
        tid: ItemPointer,
        block: BlockNumber,
        item: OffsetNumber,
        hash: u32,
    ) -> Entry {
        let place = u64::from(tid.block) << 32 | u64::from(tid.offset) << 16 | u64::from(item);
        Entry { place, block, hash }
    }

    pub(super) fn tid(self) -> ItemPointer {
        ItemPointer::new((self.place >> 32) as u32, (self.place >> 16) as u16)
    }

    fn finding(self, message: String) -> Finding {
        let (block, item) = (self.block, self.place as u16);
        Finding { fork: Fork::Main, block, offset: Some(item), attribute: None, message }
    }
}

/// A row whose key may be there several times in a unique index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    /// A hash of the key.
    pub key: u64,
    pub tid: ItemPointer,
    pub block: BlockNumber,
    pub item: OffsetNumber,
}

/// How an index follows from the rows of its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedColumns {
    /// Its name, for findings about rows.
    pub name: String,
    /// The name of its table.
    pub table: String,
    /// The columns of the table, from 0; `None`: an expression, whose value is not known.
    pub columns: Vec<Option<usize>>,
    /// Whether each row must have an entry. Not in a partial index.
    pub has_all_rows: bool,
}

/// The heap TIDs of an index whose pages have all been read.
#[derive(Debug, Default)]
pub struct IndexEntries {
    pub(super) entries: Vec<Entry>,
    /// Whether they are all of them: no page of the index was damaged.
    pub(super) complete: bool,
}

/// Which keys of a unique index more than one live row has.
#[derive(Debug, Default)]
pub struct LiveKeys {
    /// Rows with keys that are there several times.
    candidates: HashMap<ItemPointer, Candidate>,
}

impl LiveKeys {
    /// Keeps the candidates whose keys are there several times.
    pub(super) fn new(mut all: Vec<Candidate>) -> LiveKeys {
        all.sort_unstable();
        all.dedup_by_key(|candidate| (candidate.key, candidate.tid));
        let groups = all.chunk_by(|a, b| a.key == b.key).filter(|group| group.len() > 1);
        let candidates = groups.flatten().map(|candidate| (candidate.tid, *candidate)).collect();
        LiveKeys { candidates }
    }

    /// Whether a row must be given to [`violations`](LiveKeys::violations) if it is live.
    pub fn may_repeat(&self, tid: ItemPointer) -> bool {
        self.candidates.contains_key(&tid)
    }

    /// Tells of the keys that more than one of the live rows have.
    pub fn violations(&self, name: &str, live: &[ItemPointer], sink: &mut dyn FnMut(Finding)) {
        let mut rows: Vec<&Candidate> =
            live.iter().filter_map(|tid| self.candidates.get(tid)).collect();
        rows.sort_unstable();
        rows.dedup();
        for pair in rows.windows(2) {
            let [first, second] = pair else { continue };
            if first.key == second.key {
                let message = format!(
                    "index uniqueness is violated for index \"{name}\": the rows at {} and {} are \
                     live and have equal keys",
                    first.tid, second.tid
                );
                let (block, offset) = (second.block, Some(second.item));
                sink(Finding { fork: Fork::Main, block, offset, attribute: None, message });
            }
        }
    }
}

impl IndexEntries {
    /// Compares the rows of a block with the entries that lead there. `roots` has one element for
    /// each line pointer. `rows` is told of the table, `items` of the index; `live` of each row
    /// that is live and has an entry.
    pub fn compare(
        &self,
        (shape, indexed): (&BtreeShape, &IndexedColumns),
        columns: &[AttrLayout],
        (block, roots): (BlockNumber, &[Root<'_>]),
        rows: &mut dyn FnMut(Finding),
        items: &mut dyn FnMut(Finding),
        live: &mut dyn FnMut(ItemPointer),
    ) {
        let mut entries = self.of_block(block);
        for (number, root) in (1..).zip(roots) {
            let tid = ItemPointer::new(block, number);
            let count = entries.partition_point(|entry| entry.tid() <= tid);
            let (own, rest) = entries.split_at_checked(count).unwrap_or_default();
            entries = rest;
            match root {
                Root::Nothing => nothing(own, items),
                Root::Gone => {}
                Root::Live(tuple) => {
                    let expected = indexed.hash(*tuple, columns, shape);
                    if matching(own, tid, expected, items) {
                        live(tid);
                    } else if indexed.has_all_rows && self.complete {
                        let IndexedColumns { name, table, .. } = indexed;
                        let message = format!(
                            "heap tuple {tid} from table \"{table}\" lacks matching index tuple \
                             within index \"{name}\""
                        );
                        let (fork, offset, attribute) = (Fork::Main, Some(number), None);
                        rows(Finding { fork, block, offset, attribute, message });
                    }
                }
            }
        }
        nothing(entries, items);
    }

    /// Whether there is an entry for an index tuple's row, with the same values.
    pub fn have(&self, shape: &BtreeShape, tuple: &[u8]) -> bool {
        let Ok(tuple) = Tuple::new(tuple) else { return false };
        let (Some(tid), Ok((_, hash))) = (tuple.heap_tid(), shape.hashes(&tuple)) else {
            return false;
        };
        let first = self.entries.partition_point(|entry| entry.tid() < tid);
        let rest = self.entries.get(first..).unwrap_or_default();
        rest.iter().take_while(|entry| entry.tid() == tid).any(|entry| entry.hash == hash)
    }

    /// Whether all pages of the index could be read.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Tells of entries that lead to blocks which the table does not have. Of very many only the
    /// first are named: the table's file may be missing.
    pub fn beyond(&self, blocks: BlockNumber, items: &mut dyn FnMut(Finding)) {
        let first = self.entries.partition_point(|entry| entry.tid().block < blocks);
        let beyond = self.entries.get(first..).unwrap_or_default();
        let (named, others) = beyond.split_at(beyond.len().min(MOST_NAMED));
        nothing(named, items);
        if let Some(entry) = others.first() {
            let count = others.len();
            let what = "point beyond the end of the table, as those before";
            items(entry.finding(format!("{count} more index tuples {what}")));
        }
    }

    fn of_block(&self, block: BlockNumber) -> &[Entry] {
        let first = self.entries.partition_point(|entry| entry.tid().block < block);
        let rest = self.entries.get(first..).unwrap_or_default();
        let count = rest.partition_point(|entry| entry.tid().block == block);
        rest.get(..count).unwrap_or_default()
    }
}

/// Tells of entries that lead to places where no row begins.
fn nothing(entries: &[Entry], items: &mut dyn FnMut(Finding)) {
    for entry in entries {
        let tid = entry.tid();
        items(entry.finding(format!("index tuple points to heap TID {tid}, where no row begins")));
    }
}

/// Whether one of the entries for a live row has its values. `None`: they are not known. Tells of
/// all other entries.
fn matching(
    own: &[Entry],
    tid: ItemPointer,
    expected: Option<u32>,
    items: &mut dyn FnMut(Finding),
) -> bool {
    let mut found = false;
    for entry in own {
        if expected.is_some_and(|expected| expected != entry.hash) {
            items(entry.finding(format!("index tuple does not have the values of its row {tid}")));
        } else if std::mem::replace(&mut found, true) {
            items(entry.finding(format!("index has more than one tuple for its row {tid}")));
        }
    }
    found
}

impl IndexedColumns {
    /// A hash of the values that the index has of a row; `None` if they can't be known from it.
    fn hash(
        &self,
        tuple: HeapTuple<'_>,
        columns: &[AttrLayout],
        shape: &BtreeShape,
    ) -> Option<u32> {
        let last = self.columns.iter().copied().collect::<Option<Vec<usize>>>()?;
        let count = last.into_iter().max()? + 1;
        // A column that was added after this row was stored: pg_attribute has its value.
        if count > tuple.attribute_count() {
            return None;
        }
        let mut walk = Deform::new(tuple).ok()?;
        let mut values = Vec::with_capacity(count);
        for column in columns.get(..count)? {
            values.push(walk.next(*column).ok()?);
        }
        let mut hash = RowHash::default();
        for (column, layout) in self.columns.iter().zip(&shape.layouts) {
            let value = values.get((*column)?)?;
            let value = readable(*value, 0).ok()?;
            let trimmed = value.as_deref().map(|bytes| {
                // A name that an index keeps without the zeros that fill it.
                let is_name = layout.len == AttrLayout::CSTRING.len;
                let end = bytes.iter().position(|&byte| is_name && byte == 0);
                bytes.get(..end.unwrap_or(bytes.len())).unwrap_or(bytes)
            });
            hash.add(trimmed);
        }
        Some(hash.row())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_very_many_entries_beyond_the_table_only_the_first_are_named() {
        let entry = |block| Entry::new(ItemPointer::new(block, 1), 1, 2, 0);
        for (count, expected) in [(MOST_NAMED, MOST_NAMED), (MOST_NAMED + 500, MOST_NAMED + 1)] {
            let entries = (0..10 + count as u32).map(entry).collect();
            let mut findings = Vec::new();
            let all = IndexEntries { entries, complete: true };
            all.beyond(10, &mut |finding| findings.push(finding.message));
            assert_eq!(findings.len(), expected);
            let last = findings.last().expect("a finding");
            if count > MOST_NAMED {
                assert!(last.starts_with("500 more index tuples point beyond"), "{last}");
            } else {
                assert!(last.ends_with("heap TID (1009,1), where no row begins"), "{last}");
            }
        }
    }
}
