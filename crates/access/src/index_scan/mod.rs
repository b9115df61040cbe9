//! Reading a table through its indexes: rows in an index's order, and rows by a bitmap.
//!
//! | file | holds |
//! |---|---|
//! | `leaves.rs` | [`Leaves`]: the batches of an index scan; leaves read ahead; the visibility map |
//! | `ahead.rs` | which items come next, handed to a read stream in chunks of one heap page |
//! | `rows.rs` | [`IndexRows`]: the rows behind an index scan, or its entries alone |
//! | `tid_bitmap.rs` | [`TidBitmap`]: a set of rows in bounded memory |
//! | `bitmap_rows.rs` | [`BitmapRows`]: the rows of a bitmap, in the order of their pages |
//! | `stats.rs` | [`ScanStats`]: what a scan has read, and how far ahead |
//!
//! Between calls only pages that were read ahead stay pinned. A leaf's items are copied; heap rows
//! are copied from their page; both are judged by an MVCC snapshot. So vacuum may remove items, and
//! rows that the snapshot does not see, whenever it likes. The scan
//! looks into the visibility map while the leaf is still pinned.

mod ahead;
mod bitmap_rows;
mod leaves;
mod rows;
mod stats;
#[cfg(test)]
mod tests;
mod tid_bitmap;

pub use bitmap_rows::BitmapRows;
pub use leaves::Leaves;
pub use rows::{IndexRows, RowRef, ScanOptions};
pub use stats::ScanStats;
pub use tid_bitmap::TidBitmap;
