//! Lives of an engine whose rows change: several sessions with transactions, savepoints and row
//! locks in an order that a seed chooses.
//!
//! - `committed`: the rows that committed transactions have left, and which of them may be lost
//! - `client`: a session, its transaction, and what the model knows of it
//! - `clients`: all clients; each call of the engine is compared with what the model expects
//! - `life`: the clients on a running engine, with checkpoints and background work
//! - `writer`: a client that is told what to do
//! - `long`: a table with long values, which one session changes
//! - `indexes`: checks of the rows to which indexes lead, and of their pages
//! - `tree_pages`: checks of the pages of an index on the disk
//! - `pages`: checks of a table's pages, its map, `pg_xact` and `pg_multixact` on the disk
//!
//! Everything runs in one thread, so no client may wait for another. The model says beforehand
//! whether a client would have to wait for a row. If so, the client asks for the row's lock with
//! NOWAIT, and must be told that the row is held.

mod client;
mod clients;
mod committed;
mod indexes;
mod life;
pub(crate) mod long;
mod pages;
mod tree_pages;
mod writer;

pub(crate) use committed::Committed;
pub(crate) use indexes::{OpenScan, check_indexes, check_trees};
pub(crate) use life::{RowLife, found, table_of};
pub use life::{indexed_rows_disk, rows_disk};
pub use long::{indexed_long_values_disk, long_values_disk};
pub(crate) use pages::check_pages;
pub(crate) use writer::{Act, Writer, keep, keep_writing};
