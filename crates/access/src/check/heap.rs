//! All checks of one page of a heap.

use forebay_format::multixact::MultiXactId;
use forebay_format::{AttrLayout, BlockNumber, Fork, HeapTuple, OffsetNumber, Oid, PageBytes, Xid};

use super::bounds::Bounds;
use super::chains::{Root, Versions, check_chains, roots};
use super::finding::{Finding, Report};
use super::items::{Item, check_items};
use super::page::{PageKind, check_header};
use super::toast::{StoredValue, values_of_tuple};
use super::transactions::{Counters, Transactions};
use super::tuple::{Fact, check_tuple};
use super::values::check_values;
use super::visible::check_visible;

/// What the catalogs say of a table that is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapTable {
    /// Its columns, dropped ones included. `None`: attributes can't be checked.
    pub columns: Option<Vec<AttrLayout>>,
    /// Its TOAST table.
    pub toast: Option<Oid>,
    /// pg_class.relfrozenxid; 0 if it has none.
    pub frozen_xid: Xid,
    /// pg_class.relminmxid; 0 if it has none.
    pub min_multi: MultiXactId,
    /// It is a sequence.
    pub is_sequence: bool,
}

/// Takes the values out of line of tuples whose chunks must be there.
pub struct ValueTaker<'t> {
    /// Whether vacuum may remove what a transaction has deleted.
    pub removable: &'t mut dyn FnMut(Xid) -> bool,
    /// The values.
    pub values: &'t mut Vec<StoredValue>,
}

/// Checks the pages of a table.
pub struct HeapCheck<'t, 'p> {
    table: &'t HeapTable,
    checksums: bool,
    bounds: Bounds,
    transactions: Option<&'t mut Transactions<'p>>,
    taker: Option<ValueTaker<'t>>,
}

impl<'t, 'p> HeapCheck<'t, 'p> {
    /// Checks a table whose pages have checksums, or have none.
    pub fn new(
        table: &'t HeapTable,
        checksums: bool,
        transactions: &'t mut Transactions<'p>,
    ) -> HeapCheck<'t, 'p> {
        let bounds = Bounds::new(&transactions.counters, table.frozen_xid, table.min_multi);
        HeapCheck { table, checksums, bounds, transactions: Some(transactions), taker: None }
    }

    /// The same check, which takes values out of line too.
    pub fn taking(self, taker: ValueTaker<'t>) -> HeapCheck<'t, 'p> {
        HeapCheck { taker: Some(taker), ..self }
    }

    /// Checks a table of a cluster that has crashed: its pages are of different moments, and some
    /// are newer than the counters. So what transactions did is not looked at.
    pub fn after_crash(
        table: &'t HeapTable,
        checksums: bool,
        counters: &Counters,
    ) -> HeapCheck<'t, 'p> {
        let bounds = Bounds::new(counters, table.frozen_xid, table.min_multi);
        HeapCheck { table, checksums, bounds, transactions: None, taker: None }
    }

    /// Checks a page. `bits` are those of the visibility map.
    pub fn page(
        &mut self,
        block: BlockNumber,
        bytes: &PageBytes,
        bits: u8,
        sink: &mut dyn FnMut(Finding),
    ) {
        self.page_with_roots(block, bytes, bits, sink);
    }

    /// Checks a page, and tells what its line pointers are for indexes. `None` if that is not
    /// known: the page is damaged, or nothing is known of transactions.
    pub fn page_with_roots<'b>(
        &mut self,
        block: BlockNumber,
        bytes: &'b PageBytes,
        bits: u8,
        sink: &mut dyn FnMut(Finding),
    ) -> Option<Vec<Root<'b>>> {
        let kind = if self.table.is_sequence { PageKind::Sequence } else { PageKind::Heap };
        let mut report = Report::new(Fork::Main, block, sink);
        let Some(page) = check_header(kind, self.checksums, block, bytes, &mut report) else {
            if bits != 0 && self.transactions.is_some() && page_is_empty(bytes) {
                report.say("page is not marked all-visible but visibility map bit is set");
            }
            return page_is_empty(bytes).then(Vec::new);
        };
        let items = check_items(page, &mut report);
        let mut facts = Vec::with_capacity(items.len());
        for (number, item) in (1..).zip(&items) {
            let Item::Tuple(tuple) = *item else {
                facts.push(None);
                continue;
            };
            report.at(number);
            let transactions = self.transactions.as_deref_mut();
            let (fact, readable) = check_tuple(tuple, &self.bounds, transactions, &mut report);
            if let (true, Some(columns)) = (readable, &self.table.columns) {
                check_values(tuple, columns, self.table.toast, &mut report);
                self.take_values(tuple, &fact, (block, number));
            }
            facts.push(Some(fact));
        }
        self.transactions.as_ref()?;
        let versions = Versions { block, items: &items, facts: &facts };
        check_chains(&versions, &mut report);
        let mut report = Report::new(Fork::Main, block, sink);
        check_visible(page, bits, &versions, &mut report);
        Some(roots(&items, &versions))
    }

    fn take_values(
        &mut self,
        tuple: HeapTuple<'_>,
        fact: &Fact,
        place: (BlockNumber, OffsetNumber),
    ) {
        let Some(ValueTaker { removable, values }) = &mut self.taker else { return };
        let (Some(columns), Some(toast)) = (&self.table.columns, self.table.toast) else { return };
        if fact.updated != Some(true) || !removable(fact.xmax) {
            values_of_tuple(tuple, columns, toast, place, values);
        }
    }
}

fn page_is_empty(bytes: &PageBytes) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}
