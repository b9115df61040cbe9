//! Building an index of a table that has rows.
//!
//! ```text
//!   heap: IndexableScan ─▶ index tuples ─▶ sort ─▶ duplicates? ─▶ nbtree: IndexBuild
//! ```
//!
//! The table is locked against changes. Versions that only old snapshots see get entries too, but
//! need not be unique.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::borrow::Cow;
use std::sync::Arc;

use forebay_format::tuple::{Deform, HeapTuple};
use forebay_format::varlena::{Varlena, decompress};
use forebay_format::{AttrLayout, BlockNumber, IndexTuple, TupleError};
use forebay_storage::Backend;
use forebay_storage::progress::Counter;
use smallvec::SmallVec;

use crate::error::AccessError;
use crate::heap::IndexableScan;
use crate::index_expressions::{ComputedEntries, EntrySource};
use crate::nbtree::{Index, append_entry};
use crate::progress::{self, BuildPhase};
use crate::sort::{IndexSorter, SortHost, SortResources, SortedTuples, TupleOrder};
use crate::toast::ToastTable;

/// Where an index's values are in the rows of its table.
#[derive(Debug, Clone)]
pub struct RowSource {
    /// The layouts of the table's columns.
    pub layouts: Vec<AttrLayout>,
    /// The index's columns: the table's column, from 0, and its value in rows that are older than
    /// it. The keys come first. With `computed`: the columns that are read.
    pub columns: Vec<(usize, Option<Arc<[u8]>>)>,
    /// How entries are made, unless they have those columns alone.
    pub computed: Option<ComputedEntries>,
    /// Which of them no live row may have as NULL.
    pub not_null: Vec<bool>,
    /// The table's TOAST table, if it has one.
    pub toast: Option<ToastTable>,
}

/// After how many entries pg_stat_progress_create_index shows a new number.
const SHOWN_EVERY: u64 = 1024;

/// The values that an index has of a row.
pub(crate) type Values<'a> = Vec<Option<Cow<'a, [u8]>>>;

/// What a build has done.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct BuildReport {
    /// Pages of the table.
    pub blocks: BlockNumber,
    /// Its live rows.
    pub live: u64,
    /// Entries of the index.
    pub entries: u64,
    /// Whether older snapshots see rows that have no entry.
    pub broken_chain: bool,
}

/// How a build ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Built {
    /// The index can be used.
    Done(BuildReport),
    /// Two live rows have this key, an index tuple, in an index that is to be unique.
    Duplicate(Vec<u8>),
    /// A live row has NULL in this column of the table, from 0, which is to have none.
    Null(usize),
}

/// Builds an index, whose file is empty.
pub fn build_index(
    backend: &mut Backend,
    mut rows: IndexableScan<'_>,
    source: &RowSource,
    index: &Index,
    unique: bool,
    resources: &SortResources,
) -> Result<Built, AccessError> {
    enter(backend, BuildPhase::ScanTable, &[(progress::BLOCKS_TOTAL, rows.blocks.into())]);
    let (sorter, null) = read_rows(backend, &mut rows, source, index, resources)?;
    let report = BuildReport {
        blocks: rows.blocks,
        live: rows.live,
        entries: sorter.count(),
        broken_chain: rows.broken_chain,
    };
    // The scan's buffers are free from here on.
    drop(rows);
    enter(backend, BuildPhase::Sort, &[(progress::TUPLES_TOTAL, report.entries)]);
    let mut tuples = sorter.finish(&mut SortHost { backend, resources })?;
    enter(backend, BuildPhase::Load, &[]);
    let duplicate = fill(backend, &mut tuples, index, unique, resources)?;
    Ok(match (duplicate, null) {
        (Some(tuple), _) => Built::Duplicate(tuple),
        (None, Some(column)) => Built::Null(column),
        (None, None) => Built::Done(report),
    })
}

/// A part of the build begins, with these counters.
fn enter(backend: &Backend, phase: BuildPhase, counters: &[(Counter, u64)]) {
    let phase = (progress::BUILD_PHASE, phase as u64);
    let counters: SmallVec<[_; 2]> = counters.iter().copied().chain([phase]).collect();
    backend.progress.set_all(&counters);
}

/// Reads the table into a sort. With a column that has a NULL and must not.
fn read_rows(
    backend: &mut Backend,
    rows: &mut IndexableScan<'_>,
    source: &RowSource,
    index: &Index,
    resources: &SortResources,
) -> Result<(IndexSorter, Option<usize>), AccessError> {
    let mut null = None;
    let mut sorter = IndexSorter::new(&index.shape, resources.memory);
    while rows.next_page(backend)? {
        resources.check()?;
        for row in rows.found() {
            let Some(values) = source.values(backend, rows.tuple(row)?)? else { continue };
            if row.live {
                null = null.or_else(|| source.wrong_null(&values));
            }
            let mut host = SortHost { backend, resources };
            let pushed = sorter.push(&mut host, row.live, |out| {
                append_entry(&index.shape, values.iter().map(Option::as_deref), row.root, out)
            });
            pushed.map_err(|error| error.in_row(rows.heap().locator, row.root))?;
        }
        backend.progress.add(progress::BLOCKS_DONE, 1);
    }
    Ok((sorter, null))
}

/// Fills the index with sorted tuples. Returns one whose key another live row has.
fn fill(
    backend: &mut Backend,
    tuples: &mut SortedTuples,
    index: &Index,
    unique: bool,
    resources: &SortResources,
) -> Result<Option<Vec<u8>>, AccessError> {
    let mut build = index.build(backend, unique)?;
    let (mut keys, mut loaded) = (LiveKeys::new(index), 0);
    while let Some(tuple) = tuples.next(&mut SortHost { backend, resources })? {
        if unique && tuple.live && !keys.add(tuple.bytes)? {
            return Ok(Some(tuple.bytes.to_vec()));
        }
        build.push(backend, tuple.bytes)?;
        loaded += 1;
        if loaded % SHOWN_EVERY == 0 {
            backend.progress.set(progress::TUPLES_DONE, loaded);
        }
    }
    backend.progress.set(progress::TUPLES_DONE, loaded);
    build.finish(backend)?;
    Ok(None)
}

/// The keys of live rows, as they come in order.
struct LiveKeys {
    order: TupleOrder,
    nulls_are_equal: bool,
    last: Vec<u8>,
}

impl LiveKeys {
    fn new(index: &Index) -> LiveKeys {
        let order = TupleOrder::new(Arc::clone(&index.shape));
        LiveKeys { order, nulls_are_equal: index.shape.nulls_are_equal, last: Vec::new() }
    }

    /// Adds a row. False if the one before has the same key.
    fn add(&mut self, tuple: &[u8]) -> Result<bool, AccessError> {
        let new = IndexTuple::new(tuple)?;
        if !self.last.is_empty() {
            let last = IndexTuple::new(&self.last)?;
            let equal = self.order.columns(last, new, 0)?.is_eq();
            if equal && (self.nulls_are_equal || !self.order.has_null_key(new)?) {
                return Ok(false);
            }
        }
        self.last.clear();
        self.last.extend_from_slice(tuple);
        Ok(true)
    }
}

impl RowSource {
    /// A column of the table that is NULL and must not be.
    fn wrong_null(&self, values: &Values<'_>) -> Option<usize> {
        let mut columns = self.columns.iter().zip(values).zip(&self.not_null);
        let null = columns.find(|((_, value), not_null)| value.is_none() && **not_null);
        null.map(|(((column, _), _), _)| *column)
    }

    /// The values that the index has of a row, none of them compressed or elsewhere. None: it has
    /// no entry of the row.
    pub(crate) fn values<'a>(
        &'a self,
        backend: &mut Backend,
        row: HeapTuple<'a>,
    ) -> Result<Option<Values<'a>>, AccessError> {
        let read = self.read(backend, row)?;
        let Some(ComputedEntries { sources, expressions }) = &self.computed else {
            return Ok(Some(read));
        };
        let place = |number| self.columns.iter().position(|(column, _)| *column == number);
        let value = |number| read.get(place(number)?)?.as_ref();
        let computed = expressions.evaluate(&|number| value(number).map(|value| &**value))?;
        let Some(computed) = computed else { return Ok(None) };
        let owned = |source: &EntrySource| match *source {
            EntrySource::Column(number) => value(number).cloned(),
            EntrySource::Expression(number) => {
                computed.get(number).cloned().flatten().map(Cow::Owned)
            }
        };
        Ok(Some(sources.iter().map(owned).collect()))
    }

    /// Whether the index has an entry of a row.
    pub fn has_entry(
        &self,
        backend: &mut Backend,
        row: HeapTuple<'_>,
    ) -> Result<bool, AccessError> {
        Ok(self.values(backend, row)?.is_some())
    }

    /// The values of the columns that are read.
    fn read<'a>(
        &'a self,
        backend: &mut Backend,
        row: HeapTuple<'a>,
    ) -> Result<Values<'a>, AccessError> {
        let mut values = vec![None; self.columns.len()];
        let last = self.columns.iter().map(|(column, _)| *column).max().unwrap_or(0);
        let stored = row.attribute_count();
        let mut walk = Deform::new(row)?;
        for (n, layout) in self.layouts.iter().enumerate().take(last + 1) {
            let found = walk.next(*layout)?;
            for ((column, missing), value) in self.columns.iter().zip(&mut values) {
                if *column != n {
                    continue;
                }
                *value = match found {
                    _ if n >= stored => missing.as_deref().map(Cow::Borrowed),
                    None => None,
                    Some(found) => Some(self.whole(backend, n, found)?),
                };
            }
        }
        Ok(values)
    }

    /// The bytes of a value that was found in a row.
    fn whole<'a>(
        &self,
        backend: &mut Backend,
        column: usize,
        found: Varlena<'a>,
    ) -> Result<Cow<'a, [u8]>, AccessError> {
        Ok(match found {
            Varlena::Plain(bytes) => Cow::Borrowed(bytes),
            Varlena::Compressed { raw_size, method, data } => {
                let whole = decompress(raw_size, method, data);
                Cow::Owned(whole.map_err(|error| AccessError::Corrupt(error.to_string()))?)
            }
            Varlena::External(pointer) => match &self.toast {
                Some(toast) => Cow::Owned(toast.fetch(backend, pointer)?),
                None => return Err(TupleError::Toasted { attr: column }.into()),
            },
        })
    }
}
