//! Rewriting a table into a new file: VACUUM FULL.
//!
//! ```text
//!   heap: OldRows ─▶ row formed anew ─▶ chains: has its next version a place? ─▶ heap: NewPages
//!                                                              long values ─▶ toast: Mover
//! ```
//!
//! - `chains`: versions that lead to others
//!
//! All versions that someone may still see go to the new file, with their transactions; ids are
//! frozen as far as they can be. Rows lose the values of dropped columns, and get those of columns
//! that are younger than they are. Each version gets a place that its indexes will lead to: there
//! are no HOT chains in the new file. It has no maps.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod chains;

use forebay_format::ids::xid_precedes;
use forebay_format::tuple::{Deform, HeapTuple, HeapTupleMut, TupleBuilder, TupleError};
use forebay_format::varlena::{Method, ToastPointer, Varlena};
use forebay_format::{AttrLayout, BlockNumber, ItemPointer, Oid};
use forebay_storage::Backend;
use forebay_txn::locks::Interrupt;

use self::chains::{Chains, Next, Version};
use crate::cluster_progress::{self as shown, Phase};
use crate::error::AccessError;
use crate::heap::{Author, FrozenHeader, Heap, NewPages, OldRow, VacuumJob};
use crate::toast::{Mover, Plan, Storage, ToastTable, Toasting, is_wide, pointers};

/// The columns of a table that is rewritten.
#[derive(Debug)]
pub struct RewrittenColumns<'a> {
    /// Their layouts.
    pub layouts: &'a [AttrLayout],
    /// Whether each was dropped.
    pub dropped: Vec<bool>,
    /// Their values in rows that are older than they are.
    pub missing: Vec<Option<&'a [u8]>>,
    /// How long values are stored, and compressed by default.
    pub toasting: (&'a Toasting, Method),
}

/// A table that is rewritten.
#[derive(Debug)]
pub struct Rewrite<'a> {
    /// Its rows.
    pub old: &'a Heap,
    /// Its new file, which is empty.
    pub new: &'a Heap,
    /// Its columns.
    pub columns: RewrittenColumns<'a>,
    /// Its TOAST table, and the new file of that.
    pub toast: Option<(&'a ToastTable, &'a Heap)>,
    /// The transaction that rewrites it.
    pub author: Author,
    /// Whose snapshots count, and which ids are frozen.
    pub job: VacuumJob,
    /// Ends it.
    pub interrupt: Interrupt,
}

/// What was rewritten.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RewriteReport {
    /// Pages of the old file.
    pub old_pages: BlockNumber,
    /// Versions that nobody sees.
    pub removed: u64,
    /// Versions in the new file.
    pub kept: u64,
    /// Those of them that were updated or deleted.
    pub recently_dead: u64,
    /// Pages of the new file.
    pub pages: BlockNumber,
    /// Pages and chunks of the TOAST table's new file.
    pub toast: Option<(BlockNumber, u64)>,
}

/// A row for the new file.
#[derive(Debug)]
struct NewRow {
    /// Its header but for ctid, its values, and pointers into the old TOAST table.
    tuple: Vec<u8>,
    /// Whether it may share long values with another version.
    shares: bool,
    /// Whether an older version may lead to it.
    has_older: bool,
}

/// A rewrite in progress.
struct Rewriter<'a, 'n> {
    columns: &'a RewrittenColumns<'a>,
    chains: Chains<NewRow>,
    pages: NewPages<'a>,
    mover: Option<Mover<'a>>,
    next_id: &'n mut dyn FnMut(&mut Backend) -> Result<Oid, AccessError>,
    job: &'a VacuumJob,
    report: RewriteReport,
}

impl Rewrite<'_> {
    /// Rewrites the table, which the caller has locked with its TOAST table against everybody.
    /// `next_id` proposes ids for long values.
    pub fn run(
        &self,
        backend: &mut Backend,
        next_id: &mut dyn FnMut(&mut Backend) -> Result<Oid, AccessError>,
    ) -> Result<RewriteReport, AccessError> {
        let mut rows = self.old.old_rows(&self.job)?;
        let mut rewriter = Rewriter {
            columns: &self.columns,
            chains: Chains::new(),
            pages: self.new.new_pages(),
            mover: self.toast.map(|(old, new)| Mover::new(old, new.new_pages(), self.author)),
            next_id,
            job: &self.job,
            report: RewriteReport { old_pages: rows.blocks, ..RewriteReport::default() },
        };
        backend.progress.set_all(&[
            (shown::PHASE, Phase::ScanTable as u64),
            (shown::BLOCKS_TOTAL, rows.blocks.into()),
        ]);
        while rows.next_page(backend)? {
            if let Some(kind) = self.interrupt.pending() {
                return Err(AccessError::Interrupted(kind));
            }
            for row in rows.found() {
                let moved = rewriter.take(backend, row, rows.tuple(row)?);
                moved.map_err(|error| error.in_row(self.old.locator, row.place))?;
            }
            backend.progress.add(shown::BLOCKS_SCANNED, 1);
            backend.progress.set_all(&[
                (shown::ROWS_SCANNED, rewriter.report.kept),
                (shown::ROWS_WRITTEN, rewriter.report.kept),
            ]);
        }
        rewriter.finish(backend)
    }
}

impl Rewriter<'_, '_> {
    /// A version of the old file.
    fn take(
        &mut self,
        backend: &mut Backend,
        row: &OldRow,
        tuple: HeapTuple<'_>,
    ) -> Result<(), AccessError> {
        let version = (tuple.xmin(), row.place);
        let Some(header) = row.kept else {
            self.report.removed += 1;
            if self.chains.dead(version).is_some() {
                self.report.removed += 1;
                self.report.kept -= 1;
                self.report.recently_dead -= 1;
            }
            return Ok(());
        };
        self.report.kept += 1;
        self.report.recently_dead += u64::from(row.recently_dead);
        // The one before was replaced by the inserter, so it is dead if everybody sees that.
        let has_older = tuple.is_updated()
            && !header.xmin_frozen()
            && !xid_precedes(tuple.xmin(), self.job.cutoffs.oldest_xid);
        let mut new = NewRow {
            tuple: self.columns.reform(tuple)?,
            shares: row.recently_dead || has_older,
            has_older,
        };
        header.stamp(tuple, &mut HeapTupleMut::new(&mut new.tuple)?);
        match row.successor {
            None => self.put(backend, version, new, None),
            Some(next) => match self.chains.replaced(version, next, new) {
                Next::Known(new, place) => self.put(backend, version, new, Some(place)),
                Next::Waits => Ok(()),
            },
        }
    }

    /// Puts a version into the new file, and the older ones that wait for it.
    fn put(
        &mut self,
        backend: &mut Backend,
        mut version: Version,
        mut row: NewRow,
        mut newer: Option<ItemPointer>,
    ) -> Result<(), AccessError> {
        loop {
            let place = self.add(backend, &row, newer)?;
            if !row.has_older {
                return Ok(());
            }
            match self.chains.placed(version, place) {
                Some(before) => ((version, row), newer) = (before, Some(place)),
                None => return Ok(()),
            }
        }
    }

    fn add(
        &mut self,
        backend: &mut Backend,
        row: &NewRow,
        newer: Option<ItemPointer>,
    ) -> Result<ItemPointer, AccessError> {
        if !is_wide(&row.tuple) {
            return self.pages.add(backend, &row.tuple, newer);
        }
        let tuple = self.toasted(backend, row)?;
        self.pages.add(backend, &tuple, newer)
    }

    /// A wide row, its long values stored anew.
    fn toasted(&mut self, backend: &mut Backend, row: &NewRow) -> Result<Vec<u8>, AccessError> {
        let Rewriter { columns, mover, next_id, .. } = self;
        let (toasting, method) = columns.toasting;
        let old = HeapTuple::new(&row.tuple)?;
        let pointers = pointers(old, columns.layouts)?;
        let stored = columns.fetched(backend, mover.as_ref(), &pointers)?;
        let mut values = columns.values(old)?;
        for ((column, pointer), bytes) in pointers.iter().zip(&stored) {
            let (Some(value), Some(mover)) = (values.get_mut(*column), mover.as_ref()) else {
                continue;
            };
            *value = Some(match columns.is_plain(*column) {
                true => Varlena::Plain(bytes),
                false => mover.old.view(*pointer, bytes)?,
            });
        }
        let plan = Plan::of_values(values, columns.layouts, toasting, method)?;
        let mut tuple = Vec::new();
        let store = |column, value: Varlena<'_>| {
            let mover = mover.as_mut().ok_or_else(no_toast)?;
            let old = pointers.iter().find(|(of, _)| *of == column).map(|(_, old)| *old);
            mover.store(backend, value, (old, row.shares), next_id)
        };
        plan.form(store, &mut tuple)?;
        FrozenHeader::of(old).stamp(old, &mut HeapTupleMut::new(&mut tuple)?);
        Ok(tuple)
    }

    fn finish(mut self, backend: &mut Backend) -> Result<RewriteReport, AccessError> {
        // The version that each leads to was dead for all, and came by before or is gone. So nobody
        // sees them either: a snapshot that does would see the later one's deleter as running.
        let left = std::mem::replace(&mut self.chains, Chains::new()).left().count() as u64;
        let Rewriter { pages, mover, mut report, .. } = self;
        report.removed += left;
        report.kept -= left;
        report.recently_dead -= left;
        report.pages = pages.finish(backend)?;
        if let Some(mover) = mover {
            let chunks = mover.chunks;
            report.toast = Some((mover.finish(backend)?, chunks));
        }
        Ok(report)
    }
}

impl RewrittenColumns<'_> {
    fn values<'t>(&self, tuple: HeapTuple<'t>) -> Result<Vec<Option<Varlena<'t>>>, TupleError> {
        let mut walk = Deform::new(tuple)?;
        self.layouts.iter().map(|layout| walk.next(*layout)).collect()
    }

    fn is_plain(&self, column: usize) -> bool {
        let (toasting, _) = self.toasting;
        toasting.columns.get(column).is_some_and(|column| column.storage == Storage::Plain)
    }

    /// Forms a row as a new one would be.
    fn reform(&self, tuple: HeapTuple<'_>) -> Result<Vec<u8>, TupleError> {
        let mut values: Vec<Option<Varlena<'_>>> = Vec::with_capacity(self.layouts.len());
        let (stored, mut walk) = (tuple.attribute_count(), Deform::new(tuple)?);
        let of_columns = self.layouts.iter().zip(&self.dropped).zip(&self.missing);
        for (number, ((layout, dropped), missing)) in of_columns.enumerate() {
            let found = walk.next(*layout)?;
            let is_younger = number >= stored;
            let missing = missing.filter(|_| is_younger).map(Varlena::Plain);
            values.push(found.or(missing).filter(|_| !dropped));
        }
        let (mut out, has_null) = (Vec::new(), values.iter().any(Option::is_none));
        let mut new = TupleBuilder::new(values.len(), has_null, &mut out)?;
        for (layout, value) in self.layouts.iter().zip(values) {
            match value {
                None => new.null(),
                Some(value) => new.varlena(*layout, value)?,
            }
        }
        new.finish()?;
        Ok(out)
    }

    /// The bytes of values that are stored out of line.
    fn fetched(
        &self,
        backend: &mut Backend,
        mover: Option<&Mover<'_>>,
        pointers: &[(usize, ToastPointer)],
    ) -> Result<Vec<Vec<u8>>, AccessError> {
        let fetched = pointers.iter().map(|(column, pointer)| {
            let toast = mover.ok_or_else(no_toast)?.old;
            match self.is_plain(*column) {
                true => toast.fetch(backend, *pointer),
                false => toast.fetch_stored(backend, *pointer),
            }
        });
        fetched.collect()
    }
}

/// A row has a long value, and its table has no place for that.
#[cold]
fn no_toast() -> AccessError {
    AccessError::Corrupt("a row has a toasted value, and its table has no TOAST table".to_owned())
}
