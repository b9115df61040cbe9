//! Long values: compressed in their row, or in chunks in the table's TOAST table.
//!
//! | file | holds |
//! |---|---|
//! | `plan.rs` | [`Toasting`], [`Plan`]: which values of a row are compressed, which go out of line |
//! | `relation.rs` | [`ToastTable`]: a TOAST table with its index; the rows in it |
//! | `store.rs` | [`Storer`]: putting values into a TOAST table |
//! | `fetch.rs` | reading a value, a part of it, or all of it piece by piece |
//! | `mover.rs` | moving values to a new file, when the table is rewritten |
//! | `remove.rs` | deleting the chunks of a value |
//!
//! A value is immutable: an update stores a new one under a new id, and deletes the old one's
//! chunks. Chunks are never updated. So they need no snapshot: whoever sees a row's version may
//! read the chunks of its values, deleted or not, since vacuum keeps both as long.

mod fetch;
mod mover;
mod plan;
mod relation;
mod remove;
mod store;
#[cfg(test)]
mod tests;

pub use fetch::Show;
pub(crate) use mover::Mover;
pub use plan::{Plan, Storage, THRESHOLD, ToastColumn, Toasting, has_pointers, is_wide, pointers};
pub use relation::ToastTable;
pub(crate) use relation::{CHUNK_SIZE, LAYOUTS};
pub use store::Storer;
