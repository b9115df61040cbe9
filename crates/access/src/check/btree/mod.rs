//! Checks of B-trees at rest: each page by itself, how the pages hang together, and the rows.
//!
//! - `shape`: [`BtreeShape`], what the catalogs say; comparing and hashing tuples
//! - `page`: one page: its header, its items and their order
//! - `tree`: levels, siblings, the parents' links to their children
//! - `entries`: the heap TIDs of an index, to compare them with the rows of its table
//! - `tally`: [`BtreeTally`], what is kept of all pages until the last one has been read
//!
//! Pages may come in any order, and from several threads. Of each page its links and two keys are
//! kept, of pages above the leaves all keys; and 16 bytes for each row that the index leads to.
//!
//! Nobody may have changed the index meanwhile.

mod entries;
mod page;
mod shape;
mod tally;
mod tree;

pub use entries::{IndexEntries, IndexedColumns, LiveKeys};
pub use shape::BtreeShape;
pub use tally::{BtreeTally, PageTally};
