//! Checking an index of a running cluster, as amcheck's functions do.
//!
//! Each page is copied under its lock and checked by itself, beside readers and writers. How the
//! pages hang together, and which rows they lead to, is checked only where nobody changes them: the
//! caller has locked the table in mode `Share` at least.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::{BlockNumber, Fork};
use forebay_storage::{Backend, ReadStream, Strategy, StreamFlags, StreamSettings};
use forebay_txn::locks::Interrupt;

use crate::check::{BtreeShape, BtreeTally, Finding, IndexEntries, LiveKeys, PageTally};
use crate::error::AccessError;
use crate::heap::{IndexableScan, ReadAhead};
use crate::index_build::RowSource;
use crate::nbtree::{Index, append_entry};

/// What to check of an index.
pub struct IndexCheck<'a> {
    /// The index.
    pub index: &'a Index,
    /// Whether it is unique.
    pub unique: bool,
    /// The name of its table.
    pub table: &'a str,
    /// Whether nobody changes it, so that all of it can be checked.
    pub locked: bool,
    /// How far to read ahead.
    pub ahead: ReadAhead,
    /// Whether the check is to end.
    pub interrupt: &'a Interrupt,
}

impl IndexCheck<'_> {
    /// Checks the index, and that all live rows are in it, if they are given; then it must be
    /// locked. With `distinct`, also that no two of them have the same key in a unique index.
    ///
    /// # Errors
    /// [`AccessError::CorruptIndex`] for the first finding.
    pub fn run(
        &self,
        backend: &mut Backend,
        rows: Option<(IndexableScan<'_>, &RowSource)>,
        distinct: bool,
    ) -> Result<(), AccessError> {
        assert!(self.locked || rows.is_none(), "rows are compared where nobody changes them");
        let shape = self.shape();
        let tally = self.read_pages(backend, &shape, rows.is_some())?;
        if !self.locked {
            return Ok(());
        }
        let mut found = None;
        let (entries, keys) = tally.finish(&shape, &mut |finding| keep(&mut found, finding));
        self.fail(found)?;
        match rows {
            Some((rows, source)) => {
                let keys = (distinct && self.unique).then_some(&keys);
                self.compare(backend, rows, source, (&shape, &entries, keys))
            }
            None => Ok(()),
        }
    }

    fn shape(&self) -> BtreeShape {
        let shape = &self.index.shape;
        BtreeShape {
            layouts: shape.layouts.clone(),
            keys: shape.keys.len(),
            ordered: shape.keys.clone(),
            unique: self.unique,
            nulls_are_equal: shape.nulls_are_equal,
        }
    }

    fn read_pages(
        &self,
        backend: &mut Backend,
        shape: &BtreeShape,
        with_rows: bool,
    ) -> Result<BtreeTally, AccessError> {
        let Index { pool, locator, .. } = self.index;
        let blocks = pool.nblocks(*locator, Fork::Main)?;
        // Nothing of other pages is kept if they may change meanwhile.
        let mut tally = BtreeTally::new(if self.locked { blocks } else { 0 });
        let (all, mut next) = (0..BlockNumber::MAX, 0..blocks);
        let settings = StreamSettings::new(self.ahead.io_concurrency, self.ahead.combine_limit);
        let next_block = move || next.next();
        let mut stream = ReadStream::new(
            pool,
            *locator,
            Fork::Main,
            next_block,
            StreamFlags::FULL,
            Strategy::BulkRead,
            settings,
        );
        while let Some(pin) = stream.next(backend)? {
            self.check_interrupt()?;
            let (block, page) = (pin.tag().block, pin.lock_shared().copy());
            drop(pin);
            let mut found = None;
            let rows = with_rows.then_some(&all);
            let mut sink = |finding| keep(&mut found, finding);
            // The pool has verified the checksum.
            let told = PageTally::new(shape, false, (block, &page), rows, &mut sink);
            self.fail(found)?;
            tally.add(told);
        }
        Ok(tally)
    }

    /// Looks for each live row among the entries.
    fn compare(
        &self,
        backend: &mut Backend,
        mut rows: IndexableScan<'_>,
        source: &RowSource,
        (shape, entries, keys): (&BtreeShape, &IndexEntries, Option<&LiveKeys>),
    ) -> Result<(), AccessError> {
        let (mut tuple, mut live) = (Vec::new(), Vec::new());
        let (name, table) = (&self.index.shape.name, self.table);
        while rows.next_page(backend)? {
            self.check_interrupt()?;
            for row in rows.found().iter().filter(|row| row.live) {
                tuple.clear();
                let Some(values) = source.values(backend, rows.tuple(row)?)? else { continue };
                let fields = values.iter().map(Option::as_deref);
                append_entry(&self.index.shape, fields, row.root, &mut tuple)?;
                if !entries.have(shape, &tuple) {
                    return Err(AccessError::CorruptIndex(format!(
                        "heap tuple {} from table \"{table}\" lacks matching index tuple within \
                         index \"{name}\"",
                        row.root
                    )));
                }
                live.extend(keys.filter(|keys| keys.may_repeat(row.root)).map(|_| row.root));
            }
        }
        let mut found = None;
        if let Some(keys) = keys {
            keys.violations(name, &live, &mut |finding| keep(&mut found, finding));
        }
        self.fail(found)
    }

    fn check_interrupt(&self) -> Result<(), AccessError> {
        self.interrupt.pending().map_or(Ok(()), |kind| Err(AccessError::Interrupted(kind)))
    }

    /// The error for a finding.
    fn fail(&self, found: Option<Finding>) -> Result<(), AccessError> {
        let Some(finding) = found else { return Ok(()) };
        let name = &self.index.shape.name;
        Err(AccessError::CorruptIndex(format!("index \"{name}\" is corrupted: {finding}")))
    }
}

/// Keeps the first finding.
fn keep(found: &mut Option<Finding>, finding: Finding) {
    found.get_or_insert(finding);
}
