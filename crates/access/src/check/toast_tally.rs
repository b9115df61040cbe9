//! The values out of line of a table, compared with all rows of its TOAST table.
//!
//! ```text
//!   pages of the table, in any order  ─ the values of live rows ─┐
//!                                                                ├─ sorted by value id
//!   pages of its TOAST table, then    ─ a look-up for each chunk ┘
//! ```
//!
//! Both are read once, and in the order in which they lie. A value whose chunks come one after the
//! other needs 32 bytes; chunks that come out of order are kept as spans. If that is more than the
//! memory allows, half of the values are put off, by a bit of their ids: both tables are read again
//! for those.

use forebay_format::varlena::ToastPointer;
use forebay_format::{ItemPointer, Oid};

use super::finding::Finding;
use super::toast::{Chunk, ChunkRow, StoredValue, check_chunk, chunk_count};

/// Which values a tally looks at: those whose ids end with these bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToastShare {
    bits: u32,
    residue: Oid,
}

impl ToastShare {
    fn has(self, value: Oid) -> bool {
        let mask = 1_u32.checked_shl(self.bits).map_or(u32::MAX, |bit| bit - 1);
        value & mask == self.residue
    }

    /// The two halves of it.
    fn halves(self) -> Option<[ToastShare; 2]> {
        let bit = 1_u32.checked_shl(self.bits)?;
        let bits = self.bits + 1;
        Some([0, bit].map(|bit| ToastShare { bits, residue: self.residue | bit }))
    }
}

/// Values that no row has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Orphans {
    /// How many there are, by their first chunks.
    pub values: u64,
    /// Bytes of their chunks.
    pub bytes: u64,
}

/// A value with the chunks that came in order.
#[derive(Clone, Copy, Debug)]
struct Entry {
    value: Oid,
    raw_size: u32,
    ext_info: u32,
    block: u32,
    offset: u16,
    attribute: u16,
    /// The number of the chunk that is expected next.
    next: u32,
    /// A row of it was seen that does not exist any more.
    gone: bool,
}

impl Entry {
    fn stored(&self, toast_rel: Oid) -> StoredValue {
        let Entry { value, raw_size, ext_info, block, offset, attribute, .. } = *self;
        let pointer = ToastPointer { raw_size, ext_info, value_id: value, toast_rel };
        StoredValue { pointer, block, offset, attribute }
    }
}

/// Chunks that came out of order, and follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    value: Oid,
    first: u32,
    end: u32,
}

/// Collects values of a table and chunks of its TOAST table.
#[derive(Debug)]
pub struct ToastTally {
    toast: Oid,
    memory: usize,
    share: ToastShare,
    /// The values that other tallies have to look at.
    put_off: Vec<ToastShare>,
    values: Vec<Entry>,
    sorted: bool,
    /// Where a value was found last.
    last: usize,
    spans: Vec<Span>,
    problems: Vec<(Oid, Finding)>,
    /// By the bit that would put them off: the lowest one that is set, of those not in the share.
    orphans: [Orphans; 33],
}

impl ToastTally {
    /// For a share of the values in a TOAST table, with some bytes of memory.
    pub fn new(toast: Oid, share: ToastShare, memory: usize) -> ToastTally {
        ToastTally {
            toast,
            memory,
            share,
            put_off: Vec::new(),
            values: Vec::new(),
            sorted: false,
            last: 0,
            spans: Vec::new(),
            problems: Vec::new(),
            orphans: [Orphans::default(); 33],
        }
    }

    /// Adds values of rows. No chunk may have been added.
    pub fn add_values(&mut self, values: &[StoredValue]) {
        assert!(!self.sorted, "values come before chunks");
        let own = values.iter().filter(|value| self.share.has(value.pointer.value_id));
        self.values.extend(own.map(|stored| Entry {
            value: stored.pointer.value_id,
            raw_size: stored.pointer.raw_size,
            ext_info: stored.pointer.ext_info,
            block: stored.block,
            offset: stored.offset,
            attribute: stored.attribute,
            next: 0,
            gone: false,
        }));
        self.fit();
    }

    /// Adds rows of the TOAST table. All values must have been added.
    pub fn add_chunks(&mut self, rows: &[ChunkRow]) {
        self.sort();
        let share = self.share;
        for row in rows.iter().filter(|row| share.has(row.value)) {
            match (self.find(row.value), &row.chunk) {
                (Some(at), Ok(chunk)) if row.live => self.add_chunk(at, *chunk),
                (Some(at), Err(problem)) if row.live => self.complain(at, problem.clone()),
                (Some(at), _) => {
                    if let Some(entry) = self.values.get_mut(at) {
                        entry.gone = true;
                    }
                }
                (None, chunk) if row.live => self.add_orphan(row.value, chunk.as_ref().ok()),
                (None, _) => {}
            }
        }
        self.fit();
    }

    fn sort(&mut self) {
        if !std::mem::replace(&mut self.sorted, true) {
            self.values.sort_unstable_by_key(|e| (e.value, e.block, e.offset, e.attribute));
        }
    }

    /// The first entry of a value.
    fn find(&mut self, value: Oid) -> Option<usize> {
        // Chunks of a value, and values stored together, lie together.
        let is_there = |at: usize| self.values.get(at).is_some_and(|entry| entry.value == value);
        let is_first = |at: usize| is_there(at) && at.checked_sub(1).is_none_or(|n| !is_there(n));
        let near = [self.last, self.last + 1].into_iter().find(|at| is_first(*at));
        let at = near.unwrap_or_else(|| self.values.partition_point(|entry| entry.value < value));
        let found = is_first(at).then_some(at);
        self.last = at;
        found
    }

    fn add_chunk(&mut self, at: usize, chunk: Chunk) {
        let Some(entry) = self.values.get_mut(at) else { return };
        match check_chunk(entry.stored(self.toast).pointer, chunk) {
            Err(problem) => self.complain(at, problem),
            Ok(problem) => {
                let number = chunk.number as u32;
                let last = self.spans.last_mut();
                if number == entry.next {
                    entry.next += 1;
                } else if let Some(span) =
                    last.filter(|span| span.value == entry.value && span.end == number)
                {
                    span.end += 1;
                } else {
                    self.spans.push(Span { value: entry.value, first: number, end: number + 1 });
                }
                problem.into_iter().for_each(|problem| self.complain(at, problem));
            }
        }
    }

    fn complain(&mut self, at: usize, problem: String) {
        if let Some(entry) = self.values.get(at) {
            self.problems.push((entry.value, entry.stored(self.toast).finding(problem)));
        }
    }

    fn add_orphan(&mut self, value: Oid, chunk: Option<&Chunk>) {
        let level = self.level(value);
        let (Some(orphans), Some(chunk)) = (self.orphans.get_mut(level), chunk) else { return };
        orphans.values += u64::from(chunk.number == 0);
        orphans.bytes += u64::from(chunk.size);
    }

    /// Which halving puts a value off; 32: none.
    fn level(&self, value: Oid) -> usize {
        let rest = u64::from(value) >> self.share.bits;
        (rest.trailing_zeros().min(32) + self.share.bits).min(32) as usize
    }

    /// Puts values off until what is kept fits the memory.
    fn fit(&mut self) {
        let size = |tally: &ToastTally| {
            tally.values.capacity() * size_of::<Entry>()
                + tally.spans.capacity() * size_of::<Span>()
                + tally.problems.len() * 4 * size_of::<Finding>()
        };
        while size(self) > self.memory && self.values.len() > 1 {
            let Some([kept, other]) = self.share.halves() else { return };
            if let Some(orphans) = self.orphans.get_mut(self.share.bits as usize) {
                *orphans = Orphans::default();
            }
            self.share = kept;
            self.put_off.push(other);
            self.values.retain(|entry| kept.has(entry.value));
            self.spans.retain(|span| kept.has(span.value));
            self.problems.retain(|(value, _)| kept.has(*value));
            self.values.shrink_to_fit();
            self.spans.shrink_to_fit();
            self.last = 0;
        }
    }

    /// Tells what is wrong with the values, once all chunks were added. Returns how many values
    /// there were, and those that no row has.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Finding)) -> (u64, Orphans) {
        self.sort();
        self.spans.sort_unstable();
        let count = self.values.len() as u64;
        let mut spans = self.spans.as_slice();
        for entries in self.values.chunk_by(|a, b| a.value == b.value) {
            let [first, others @ ..] = entries else { continue };
            let own = spans.partition_point(|span| span.value <= first.value);
            let (of_value, rest) = spans.split_at(own);
            spans = rest;
            let stored = first.stored(self.toast);
            let mut say = |message| sink(stored.finding(message));
            check_spans(first, chunk_count(stored.pointer), of_value, &mut say);
            for other in others {
                let (value, at) = (first.value, ItemPointer::new(first.block, first.offset));
                let message = format!("toast value {value} is that of the row at {at} too");
                sink(other.stored(self.toast).finding(message));
            }
        }
        self.problems.drain(..).for_each(|(_, finding)| sink(finding));
        let sum = |a: Orphans, b: &Orphans| Orphans {
            values: a.values + b.values,
            bytes: a.bytes + b.bytes,
        };
        (count, self.orphans.iter().fold(Orphans::default(), sum))
    }

    /// The shares that other tallies must look at.
    pub fn put_off(&mut self) -> Vec<ToastShare> {
        std::mem::take(&mut self.put_off)
    }
}

/// Tells which chunks of a value are missing, and which are there twice. Spans are sorted.
fn check_spans(entry: &Entry, count: u32, spans: &[Span], say: &mut dyn FnMut(String)) {
    let value = entry.value;
    let dead = if entry.gone { " (but rows of it that are deleted)" } else { "" };
    if entry.next == 0 && spans.is_empty() {
        return say(format!("toast value {value} not found in toast table{dead}"));
    }
    let range = |first: u32, end: u32| match end - first {
        1 => format!("chunk {first}"),
        _ => format!("chunks {first} to {}", end - 1),
    };
    let mut expected = entry.next;
    for span in spans {
        if span.first > expected {
            let missing = range(expected, span.first);
            say(format!("toast value {value} lacks {missing} of {count}{dead}"));
        } else if span.first < expected {
            let twice = range(span.first, span.end.min(expected));
            say(format!("toast value {value} has {twice} more than once"));
        }
        expected = expected.max(span.end);
    }
    if expected < count {
        say(format!(
            "toast value {value} was expected to end at chunk {}, but ended while expecting chunk \
             {expected}{dead}",
            count - 1
        ));
    }
}
