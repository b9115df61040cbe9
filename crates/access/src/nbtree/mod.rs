//! B-tree indexes, in PostgreSQL's pages and records.
//!
//! | file | holds |
//! |---|---|
//! | `order.rs` | [`KeyOrder`]: how stored values are compared, by operator class |
//! | `rows.rs` | [`TableRows`]: what an index must know of its table's rows |
//! | `relation.rs` | [`Index`], [`IndexShape`]: an index with what is needed to work on it |
//! | `compare.rs` | forming index tuples; comparing a search key with them |
//! | `shared.rs` | [`SharedIndexes`]: the transactions; which vacuums run |
//! | `entry.rs` | [`RowValues`]: forming the index tuples of a stored row |
//! | `log.rs` | the records, and what a change shares with its record |
//! | `create.rs` | a new index without rows |
//! | `search.rs` | the way from the root to a leaf |
//! | `split_point.rs` | where a full page is split |
//! | `free_pages.rs` | deleted pages used again; new ones |
//! | `inserter.rs` | putting an item on a page; parents, new roots, splits left incomplete |
//! | `split.rs` | splitting a page |
//! | `delete.rs` | removing items of rows that nobody sees any more from a full leaf |
//! | `dedup.rs` | merging equal tuples of a full leaf |
//! | `unique.rs` | [`Insertion`], [`UniqueCheck`]: whether a key exists already |
//! | `insert.rs` | [`NewRow`]: inserting a row |
//! | `pagedel.rs` | deleting empty leaves, and the pages above that lead only to them |
//! | `vacuum.rs` | [`IndexVacuumJob`]: removing the items of dead rows, page by page |
//! | `wanted.rs` | the values of a column that a scan wants; [`Direction`] |
//! | `scan_keys.rs` | [`Condition`]: where a scan begins, what it returns, when it ends |
//! | `scan.rs` | [`IndexScan`], [`Batch`]: the matching items of one leaf after the other |
//! | `leaves_behind.rs` | which leaves to read ahead |
//! | `build.rs` | [`IndexBuild`]: building an index from sorted rows |
//! | `build_pages.rs` | where its pages go: the buffer pool, or memory for a new cluster |
//! | `cursor.rs` | [`IndexCursor`]: a place in a scan, which moves item by item |
//!
//! A search locks one page at a time, shared; a page that was split meanwhile tells by its high key
//! that the search has to move right. An insertion locks pages exclusively, from left to right and
//! from a child to its parent. A change and its record are one critical section, as in the heap:
//! mark dirty, change, insert the record, set the pages' LSNs.
//!
//! Indexes that PostgreSQL made before version 12 are refused: in them equal keys have no order.

mod build;
mod build_pages;
mod compare;
mod create;
mod cursor;
mod dedup;
mod delete;
mod entry;
mod free_pages;
mod insert;
mod inserter;
mod leaves_behind;
mod log;
mod order;
mod pagedel;
mod relation;
mod rows;
mod scan;
mod scan_keys;
mod search;
mod shared;
mod split;
mod split_point;
#[cfg(test)]
pub(crate) mod tests;
mod unique;
mod vacuum;
mod wanted;

pub use build::IndexBuild;
pub use compare::{EntryValues, form_index_tuple};
pub(crate) use compare::{KeyError, Stored, readable, values_of};
pub use cursor::IndexCursor;
pub use entry::RowValues;
pub(crate) use entry::append_entry;
pub use insert::NewRow;
pub use order::KeyOrder;
pub use relation::{Index, IndexShape, KeyColumn, KnownTree};
pub use rows::TableRows;
pub use scan::{Batch, BatchOptions, IndexScan, Item};
pub use scan_keys::{Condition, Operator};
pub use shared::SharedIndexes;
pub use unique::{Insertion, UniqueCheck};
pub use vacuum::{IndexVacuumJob, IndexVacuumStats};
pub use wanted::Direction;
