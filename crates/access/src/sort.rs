//! Sorting the tuples of a new index: in memory up to maintenance_work_mem, beyond that as sorted
//! runs in temporary files that are merged.
//!
//! ```text
//!   push() ─▶ arena of tuples, array of keys ─ full: sorted ─▶ runs ─ merged ─▶ next()
//! ```
//!
//! A key is the first column's value as a number that orders as the column does, so that most
//! comparisons need not look at the tuples: all of an integer, eight bytes of a text, behind those
//! that all texts begin with. Tuples with equal keys are ordered by all columns, then by heap TID.
//! Threads sort a part of the memory each.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Display;
use std::sync::Arc;

use forebay_aio as aio;
use forebay_aio::sync::{Mutex, thread};
use forebay_format::varlena::{Varlena, decompress};
use forebay_format::{IndexTuple, index_tuple};
use forebay_storage::{
    Backend, Merge, RunHost, RunItems, Runs, StorageError, TempFiles, TempOptions, TempReader,
    TempSpace, TempWriter,
};
use forebay_txn::locks::Interrupt;
use forebay_types::{Datum, Encoding, Repr};

use crate::error::AccessError;
use crate::nbtree::{IndexShape, KeyColumn, KeyOrder};

/// What a sort may use.
#[derive(Debug, Clone)]
pub struct SortResources {
    /// Makes temporary files.
    pub files: Arc<TempFiles>,
    /// The session that they are named for.
    pub owner: i32,
    /// What the session's files may take.
    pub space: Arc<TempSpace>,
    /// How they are written and read.
    pub options: TempOptions,
    /// Bytes of memory (maintenance_work_mem).
    pub memory: usize,
    /// Threads that sort, with the session's own.
    pub threads: usize,
    /// Ends the sort.
    pub interrupt: Interrupt,
}

/// A sort with the backend that does its I/O.
pub(crate) struct SortHost<'a> {
    pub(crate) backend: &'a mut Backend,
    pub(crate) resources: &'a SortResources,
}

impl RunHost for SortHost<'_> {
    type Error = AccessError;

    fn run_io<T>(
        &mut self,
        body: impl FnOnce(&mut aio::IoBackend) -> Result<T, StorageError>,
    ) -> Result<T, AccessError> {
        Ok(body(&mut self.backend.io)?)
    }

    fn run_file(&mut self, options: TempOptions) -> Result<TempWriter, AccessError> {
        let SortResources { files, owner, space, .. } = self.resources;
        Ok(files.create(*owner, space, options)?)
    }

    fn step(&mut self) -> Result<(), AccessError> {
        self.resources.check()
    }
}

impl SortResources {
    /// Fails if the sort is to end.
    pub(crate) fn check(&self) -> Result<(), AccessError> {
        self.interrupt.pending().map_or(Ok(()), |kind| Err(AccessError::Interrupted(kind)))
    }
}

/// The first column of a tuple as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// Places NULLs before or behind all values.
    rank: u8,
    number: u64,
}

/// A tuple in memory.
#[derive(Debug, Clone, Copy)]
struct Entry {
    key: u64,
    /// Where it is in the arena, in units of eight bytes.
    at: u32,
    rank: u8,
    live: bool,
}

const _: () = assert!(size_of::<Entry>() == 16);

/// Bytes of memory that an [`Entry`] can point into.
const MOST_MEMORY: usize = (u32::MAX as usize).saturating_mul(ALIGN);
const ALIGN: usize = 8;
/// The least memory for tuples, however small maintenance_work_mem is.
const LEAST_MEMORY: usize = 64 << 10;
/// Entries that are worth a thread.
const LEAST_PART: usize = 1 << 12;

/// A tuple in a run.
#[derive(Debug)]
pub(crate) struct Item {
    key: Key,
    live: bool,
    bytes: Vec<u8>,
}

/// The order of an index's tuples.
#[derive(Debug, Clone)]
pub(crate) struct TupleOrder {
    shape: Arc<IndexShape>,
    /// Whether equal keys mean that the first column is equal.
    whole: bool,
    /// Bytes with which all values of the first column begin: keys are made of those behind them.
    shared: usize,
}

/// The first column, and a tuple's value of it.
type FirstValue<'o, 't> = (&'o KeyColumn, Option<Cow<'t, [u8]>>);

/// Takes tuples in.
#[derive(Debug)]
pub struct IndexSorter {
    order: TupleOrder,
    arena: Vec<u8>,
    /// Their keys know nothing of shared bytes until they are sorted.
    entries: Vec<Entry>,
    memory: usize,
    runs: Option<Runs<TupleOrder>>,
    /// What all texts begin with, if there were any.
    prefix: Option<Vec<u8>>,
    /// How many tuples it took.
    count: u64,
}

/// Gives them out in order.
#[derive(Debug)]
pub struct SortedTuples {
    tuples: Tuples,
}

#[derive(Debug)]
enum Tuples {
    Memory { arena: Vec<u8>, entries: std::vec::IntoIter<Entry> },
    Merged { merge: Box<Merge<TupleOrder, Item>>, current: Option<Item> },
}

/// A tuple in order, and whether its row is live.
#[derive(Debug, Clone, Copy)]
pub struct SortedTuple<'a> {
    /// The index tuple.
    pub bytes: &'a [u8],
    /// Whether its row is live.
    pub live: bool,
}

impl TupleOrder {
    pub(crate) fn new(shape: Arc<IndexShape>) -> TupleOrder {
        let whole = shape.keys.first().is_some_and(|key| is_whole(&key.order));
        TupleOrder { shape, whole, shared: 0 }
    }

    /// The first column, and a tuple's value of it.
    fn first<'t>(&self, tuple: IndexTuple<'t>) -> Result<FirstValue<'_, 't>, AccessError> {
        let IndexShape { keys, layouts, .. } = &*self.shape;
        let (Some(column), Some(layout)) = (keys.first(), layouts.first()) else {
            return Err(AccessError::Internal("an index has no key".to_owned()));
        };
        let value = tuple.values(layouts.len()).next(*layout)?;
        Ok((column, value.map(plain).transpose()?))
    }

    /// The key of a tuple.
    fn key(&self, tuple: IndexTuple<'_>) -> Result<Key, AccessError> {
        let (column, value) = self.first(tuple)?;
        self.key_of(column, value.as_deref())
    }

    /// The key of a tuple with this value of the first column.
    fn key_of(&self, column: &KeyColumn, value: Option<&[u8]>) -> Result<Key, AccessError> {
        let Some(value) = value else {
            let rank = if column.nulls_first { 0 } else { 2 };
            return Ok(Key { rank, number: 0 });
        };
        let number = number_of(&column.order, value.get(self.shared..).unwrap_or_default())?;
        Ok(Key { rank: 1, number: if column.descending { !number } else { number } })
    }

    /// Orders tuples with equal keys.
    fn rest(&self, a: &[u8], b: &[u8]) -> Result<Ordering, AccessError> {
        let [a, b] = [IndexTuple::new(a)?, IndexTuple::new(b)?];
        let skip = usize::from(self.whole);
        if skip < self.shape.keys.len() {
            let order = self.columns(a, b, skip)?;
            if order.is_ne() {
                return Ok(order);
            }
        }
        Ok(a.tid().cmp(&b.tid()))
    }

    /// Orders tuples by their key columns from `skip` on.
    pub(crate) fn columns(
        &self,
        a: IndexTuple<'_>,
        b: IndexTuple<'_>,
        skip: usize,
    ) -> Result<Ordering, AccessError> {
        let IndexShape { keys, layouts, .. } = &*self.shape;
        let (mut ours, mut theirs) = (a.values(layouts.len()), b.values(layouts.len()));
        for (n, (column, layout)) in keys.iter().zip(layouts).enumerate() {
            let (a, b) = (ours.next(*layout)?, theirs.next(*layout)?);
            if n < skip {
                continue;
            }
            match compare(column, a, b)? {
                Ordering::Equal => {}
                order => return Ok(order),
            }
        }
        Ok(Ordering::Equal)
    }
}

impl TupleOrder {
    /// Whether a key column of a tuple is NULL.
    pub(crate) fn has_null_key(&self, tuple: IndexTuple<'_>) -> Result<bool, AccessError> {
        let IndexShape { keys, layouts, .. } = &*self.shape;
        let mut values = tuple.values(layouts.len());
        for (_, layout) in keys.iter().zip(layouts) {
            if values.next(*layout)?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Orders two values of a column.
fn compare(
    column: &KeyColumn,
    a: Option<Varlena<'_>>,
    b: Option<Varlena<'_>>,
) -> Result<Ordering, AccessError> {
    let (a, b) = (a.map(plain).transpose()?, b.map(plain).transpose()?);
    Ok(column.compare(a.as_deref(), b.as_deref())?)
}

/// The bytes of a value. No index has values out of line.
fn plain(value: Varlena<'_>) -> Result<Cow<'_, [u8]>, AccessError> {
    let damaged = |what: &dyn Display| AccessError::Corrupt(format!("a key's value: {what}"));
    match value {
        Varlena::Plain(bytes) => Ok(Cow::Borrowed(bytes)),
        Varlena::Compressed { raw_size, method, data } => {
            decompress(raw_size, method, data).map(Cow::Owned).map_err(|error| damaged(&error))
        }
        Varlena::External { .. } => Err(damaged(&"it is stored out of line")),
    }
}

/// Whether values are equal whose numbers are.
fn is_whole(order: &KeyOrder) -> bool {
    use KeyOrder::{Int2, Int4, Int8, Word4, Word8};
    matches!(order, Int2 | Int4 | Int8 | Word4 | Word8)
}

/// A number that orders as the values do, as far as it goes.
fn number_of(order: &KeyOrder, value: &[u8]) -> Result<u64, AccessError> {
    // Two's complement becomes unsigned.
    let signed = |n: i64| n as u64 ^ 1 << 63;
    let bytes = |value: &[u8]| {
        let mut first = [0; 8];
        first.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
        u64::from_be_bytes(first)
    };
    // Damage is found here, before tuples are compared.
    order.compare(value, value)?;
    Ok(match (order, value) {
        (KeyOrder::Int2, &[a, b]) => signed(i16::from_le_bytes([a, b]).into()),
        (KeyOrder::Int4, &[a, b, c, d]) => signed(i32::from_le_bytes([a, b, c, d]).into()),
        (KeyOrder::Word4, &[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]).into(),
        (KeyOrder::Int8, _) => signed(value.first_chunk().map_or(0, |b| i64::from_le_bytes(*b))),
        (KeyOrder::Word8, _) => value.first_chunk().map_or(0, |b| u64::from_le_bytes(*b)),
        (KeyOrder::Bytes, _) => bytes(value),
        (KeyOrder::Padded, _) => {
            let end = value.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
            bytes(value.get(..end).unwrap_or(value))
        }
        (KeyOrder::Value(repr @ (Repr::Float4 | Repr::Float8)), _) => {
            match repr.decode(value, Encoding::Utf8)? {
                Datum::Float4(n) => float(n.into()),
                Datum::Float8(n) => float(n),
                _ => 0,
            }
        }
        _ => 0,
    })
}

/// A float as a number: both zeros are equal, and NaN is the greatest.
fn float(value: f64) -> u64 {
    if value.is_nan() {
        return u64::MAX;
    }
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

impl RunItems<SortHost<'_>> for TupleOrder {
    type Item = Item;

    fn order(&self, a: &Item, b: &Item) -> Result<Ordering, AccessError> {
        match a.key.cmp(&b.key) {
            Ordering::Equal => self.rest(&a.bytes, &b.bytes),
            order => Ok(order),
        }
    }

    fn write(
        &mut self,
        item: &Item,
        writer: &mut TempWriter,
        host: &mut SortHost<'_>,
    ) -> Result<(), AccessError> {
        let io = &mut host.backend.io;
        writer.write_all(io, &[u8::from(item.live)])?;
        Ok(writer.write_all(io, &item.bytes)?)
    }

    fn read(
        &mut self,
        reader: &mut TempReader,
        host: &mut SortHost<'_>,
    ) -> Result<Option<Item>, AccessError> {
        const PREFIX: usize = 1 + index_tuple::HEADER_SIZE;
        if reader.left() == 0 {
            return Ok(None);
        }
        let io = &mut host.backend.io;
        let mut prefix = [0; PREFIX];
        reader.read_exact(io, &mut prefix)?;
        let [live, header @ ..] = prefix;
        let size = usize::from(u16::from_le_bytes([header[6], header[7]]))
            & usize::from(index_tuple::INDEX_SIZE_MASK);
        let mut bytes = header.to_vec();
        bytes.resize(size.max(header.len()), 0);
        let (_, rest) = bytes.split_at_mut(header.len());
        reader.read_exact(io, rest)?;
        let key = self.key(IndexTuple::new(&bytes)?)?;
        Ok(Some(Item { key, live: live != 0, bytes }))
    }
}

impl IndexSorter {
    /// A sort of an index's tuples, with this much memory.
    pub fn new(shape: &Arc<IndexShape>, memory: usize) -> IndexSorter {
        IndexSorter {
            order: TupleOrder::new(Arc::clone(shape)),
            arena: Vec::new(),
            entries: Vec::new(),
            memory: memory.clamp(LEAST_MEMORY, MOST_MEMORY),
            runs: None,
            prefix: None,
            count: 0,
        }
    }

    /// How many tuples it took.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Takes the tuple that `form` appends to a buffer. It must lead to a place of its own.
    pub(crate) fn push(
        &mut self,
        host: &mut SortHost<'_>,
        live: bool,
        form: impl FnOnce(&mut Vec<u8>) -> Result<(), AccessError>,
    ) -> Result<(), AccessError> {
        if self.used(host.resources.threads) >= self.memory {
            self.spill(host)?;
        }
        grow(&mut self.arena, usize::from(index_tuple::INDEX_SIZE_MASK) + 1, self.memory);
        grow(&mut self.entries, 1, self.memory / size_of::<Entry>());
        let start = self.arena.len();
        form(&mut self.arena)?;
        let tuple = IndexTuple::new(self.arena.get(start..).unwrap_or_default())?;
        let (column, value) = self.order.first(tuple)?;
        let Key { rank, number: key } = self.order.key_of(column, value.as_deref())?;
        self.order.check(tuple)?;
        if let (KeyOrder::Bytes, Some(value)) = (&column.order, value) {
            shorten(&mut self.prefix, &value);
        }
        let at = u32::try_from(start / ALIGN).expect("no more memory than entries point into");
        self.entries.push(Entry { key, at, rank, live });
        self.count += 1;
        Ok(())
    }

    /// The memory in use. Merging what threads have sorted takes half of the entries' once more.
    fn used(&self, threads: usize) -> usize {
        let entries = self.entries.len() * size_of::<Entry>();
        self.arena.len() + if threads > 1 { entries * 3 / 2 } else { entries }
    }

    /// How many bytes all texts so far begin with.
    fn shared(&self) -> usize {
        self.prefix.as_ref().map_or(0, Vec::len)
    }

    fn sort(&mut self, threads: usize) -> Result<(), AccessError> {
        let order = &TupleOrder { shared: self.shared(), ..self.order.clone() };
        let IndexSorter { arena, entries, .. } = self;
        let arena = arena.as_slice();
        let part = entries.len().div_ceil(threads.max(1)).max(LEAST_PART);
        let parts: Vec<_> = entries.chunks_mut(part).collect();
        let count = parts.len();
        let parts = Mutex::new(parts);
        let work = || -> Result<(), AccessError> {
            loop {
                let next = parts.lock().pop();
                let Some(part) = next else { return Ok(()) };
                sort_part(order, arena, part)?;
            }
        };
        thread::scope(|scope| {
            // A thread that can't be started is done without.
            let start = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
            let others: Vec<_> = (1..count).filter_map(start).collect();
            let own = work();
            others.into_iter().fold(own, |all, one| all.and(one.join().expect("no sort panics")))
        })?;
        // A stable sort finds the sorted parts, and only merges them.
        if count > 1 { sort_by_order(order, arena, |by| entries.sort_by(by)) } else { Ok(()) }
    }

    /// Writes the tuples in memory as a run.
    fn spill(&mut self, host: &mut SortHost<'_>) -> Result<(), AccessError> {
        let SortResources { options, memory, threads, .. } = *host.resources;
        self.sort(threads)?;
        let runs = self.runs.get_or_insert_with(|| Runs::new(self.order.clone(), memory, options));
        // What all runs so far share: keys are made anew when a run is read.
        runs.items_mut().shared = self.prefix.as_ref().map_or(0, Vec::len);
        let arena = &self.arena;
        let items = self.entries.iter().map(|entry| Item {
            key: Key { rank: entry.rank, number: entry.key },
            live: entry.live,
            bytes: tuple_at(arena, entry.at).to_vec(),
        });
        runs.add(items, host)?;
        self.entries.clear();
        self.arena.clear();
        Ok(())
    }

    /// No more tuples come.
    pub(crate) fn finish(mut self, host: &mut SortHost<'_>) -> Result<SortedTuples, AccessError> {
        if self.runs.is_some() && !self.entries.is_empty() {
            self.spill(host)?;
        }
        let tuples = match self.runs.take() {
            Some(runs) => {
                // The memory is the readers' now.
                (self.arena, self.entries) = (Vec::new(), Vec::new());
                Tuples::Merged { merge: Box::new(runs.merge(host)?), current: None }
            }
            None => {
                self.sort(host.resources.threads)?;
                Tuples::Memory { arena: self.arena, entries: self.entries.into_iter() }
            }
        };
        Ok(SortedTuples { tuples })
    }
}

/// Sorts a thread's part of the memory.
fn sort_part(order: &TupleOrder, arena: &[u8], part: &mut [Entry]) -> Result<(), AccessError> {
    if order.shared > 0 {
        for entry in part.iter_mut() {
            entry.key = order.key(IndexTuple::new(at(arena, entry.at))?)?.number;
        }
    }
    sort_by_order(order, arena, |by| part.sort_unstable_by(by))
}

/// Runs a sort with the order of entries. Fails if two of them could not be compared.
fn sort_by_order(
    order: &TupleOrder,
    arena: &[u8],
    sort: impl FnOnce(&mut dyn FnMut(&Entry, &Entry) -> Ordering),
) -> Result<(), AccessError> {
    let mut failed = Ok(());
    sort(&mut |a, b| {
        let by_key = (a.rank, a.key).cmp(&(b.rank, b.key));
        by_key.then_with(|| {
            order.rest(at(arena, a.at), at(arena, b.at)).unwrap_or_else(|error| {
                failed = Err(error);
                a.at.cmp(&b.at)
            })
        })
    });
    failed
}

/// Cuts what values have shown to share down to what this one shares with them.
fn shorten(prefix: &mut Option<Vec<u8>>, value: &[u8]) {
    match prefix {
        None => *prefix = Some(value.to_vec()),
        Some(prefix) if value.starts_with(prefix) => {}
        Some(prefix) => {
            let same = prefix.iter().zip(value).take_while(|(a, b)| a == b).count();
            prefix.truncate(same);
        }
    }
}

/// Makes room for `need` more, by steps: doubling would take more memory than there is.
fn grow<T>(vec: &mut Vec<T>, need: usize, most: usize) {
    if vec.capacity() - vec.len() < need {
        let left = most.saturating_sub(vec.len());
        vec.reserve_exact(vec.len().clamp(4096, left.max(4096)).max(need));
    }
}

/// What begins at a place of the arena.
fn at(arena: &[u8], place: u32) -> &[u8] {
    arena.get(place as usize * ALIGN..).unwrap_or_default()
}

/// The tuple at a place of the arena.
fn tuple_at(arena: &[u8], place: u32) -> &[u8] {
    let tuple = IndexTuple::new(at(arena, place)).expect("the arena holds tuples");
    tuple.bytes()
}

impl TupleOrder {
    /// Finds damage in columns behind the first one, before tuples are compared: a sort needs a
    /// total order.
    fn check(&self, tuple: IndexTuple<'_>) -> Result<(), AccessError> {
        match self.shape.keys.len() {
            1 => Ok(()),
            _ => self.columns(tuple, tuple, 1).map(drop),
        }
    }
}

impl SortedTuples {
    /// The next tuple.
    pub(crate) fn next(
        &mut self,
        host: &mut SortHost<'_>,
    ) -> Result<Option<SortedTuple<'_>>, AccessError> {
        match &mut self.tuples {
            Tuples::Memory { arena, entries } => {
                host.step()?;
                let next = entries.next();
                Ok(next
                    .map(|Entry { at, live, .. }| SortedTuple { bytes: tuple_at(arena, at), live }))
            }
            Tuples::Merged { merge, current } => {
                *current = merge.next(host)?;
                Ok(current
                    .as_ref()
                    .map(|Item { bytes, live, .. }| SortedTuple { bytes, live: *live }))
            }
        }
    }
}
