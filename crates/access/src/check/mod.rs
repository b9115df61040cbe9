//! Checks of tables and B-trees: every page by itself, and what it refers to.
//!
//! The checks read bytes and no files: who calls hands them a page, its bits of the visibility map,
//! and pages of `pg_xact` and `pg_multixact`, or what a running server knows, when they ask. They
//! go on after a finding, accept any bytes, and keep nothing of a page but the result of its check.
//!
//! - `finding`: [`Finding`], with the place
//! - `transactions`: what became of transactions, and who is in a MultiXact, by [`StatusPages`]
//! - `bounds`: which ids a table may have
//! - `page`: the checksum and the header of any page
//! - `items`: line pointers
//! - `values`: the attributes of a tuple
//! - `tuple`: a tuple's header, its inserter and its updater
//! - `chains`: how the versions of rows follow each other
//! - `visible`: what the page and the visibility map say of a page's tuples
//! - `maps`: pages of the visibility map
//! - `heap`: [`HeapCheck`], all of it for one page
//! - `toast`: a value out of line, and what each of its chunks must be
//! - `toast_tally`: [`ToastTally`], the values of a table and all rows of its TOAST table
//! - `btree`: B-trees, and whether they lead to the rows of their tables
//!
//! Where PostgreSQL's amcheck looks for the same, a finding has its words, and attributes count
//! from 0 as there. Beyond amcheck are: checksums, headers, overlapping items, hints that
//! contradict `pg_xact`, members of MultiXacts, values that end before their tuple does, lost HOT
//! updates, and the visibility map. Not here: what the free-space map says, which is a hint.

mod bounds;
mod btree;
mod chains;
mod finding;
mod heap;
mod items;
mod maps;
mod page;
#[cfg(test)]
mod tests;
mod toast;
mod toast_tally;
mod transactions;
mod tuple;
mod values;
mod visible;

pub use btree::{BtreeShape, BtreeTally, IndexEntries, IndexedColumns, LiveKeys, PageTally};
pub use chains::Root;
pub use finding::Finding;
pub use heap::{HeapCheck, HeapTable, ValueTaker};
pub use maps::check_visibility_map;
pub use page::{PageKind, check_page};
pub use toast::{ChunkRow, StoredValue, chunk_rows, stored_values};
pub(crate) use toast::{check_chunk, chunk_count};
pub use toast_tally::{Orphans, ToastShare, ToastTally};
pub use transactions::{
    Counters, Fate, RunningTransactions, StatusFiles, StatusPages, Transactions,
};
