//! B-tree indexes, in PostgreSQL's pages and records.
//!
//! | file | holds |
//! |---|---|
//! | `order.rs` | [`KeyOrder`]: how stored values are compared, by operator class |
//! | `rows.rs` | [`TableRows`]: what an index must know of its table's rows |
//! | `relation.rs` | [`Index`], [`IndexShape`]: an index with what is needed to work on it |
//! | `compare.rs` | forming index tuples; comparing a search key with them |
//! | `log.rs` | the records, and what a change shares with its record |
//! | `create.rs` | a new index without rows |
//! | `search.rs` | the way from the root to a leaf |
//! | `split_point.rs` | where a full page is split |
//! | `inserter.rs` | putting an item on a page; parents, new roots, splits left incomplete |
//! | `split.rs` | splitting a page |
//! | `delete.rs` | removing killed items from a full leaf |
//! | `dedup.rs` | merging equal tuples of a full leaf |
//! | `unique.rs` | [`Insertion`]: whether a key exists already |
//! | `insert.rs` | [`NewRow`]: inserting a row |
//! | `scan_keys.rs` | [`Condition`]: where a scan begins, what it returns, when it ends |
//! | `scan.rs` | [`IndexScan`], [`Batch`]: the matching items of one leaf after the other |
//! | `build.rs` | [`IndexBuild`]: building an index from sorted rows |
//! | `cursor.rs` | [`IndexCursor`]: a place in a scan, which moves item by item |
//!
//! A search locks one page at a time, shared; a page that was split meanwhile tells by its high key
//! that the search has to move right. An insertion locks pages exclusively, from left to right and
//! from a child to its parent. A change and its record are one critical section, as in the heap:
//! mark dirty, change, insert the record, set the pages' LSNs.
//!
//! Indexes that PostgreSQL made before version 12 are refused: in them equal keys have no order.

mod build;
mod compare;
mod create;
mod cursor;
mod dedup;
mod delete;
mod insert;
mod inserter;
mod log;
mod order;
mod relation;
mod rows;
mod scan;
mod scan_keys;
mod search;
mod split;
mod split_point;
#[cfg(test)]
mod tests;
mod unique;

pub use build::IndexBuild;
pub use compare::form_index_tuple;
pub use cursor::IndexCursor;
pub use insert::NewRow;
pub use order::KeyOrder;
pub use relation::{Index, IndexShape, KeyColumn, KnownTree};
pub use rows::TableRows;
pub use scan::{Batch, BatchOptions, IndexScan, Item};
pub use scan_keys::{Condition, Direction, Operator};
pub use unique::Insertion;
