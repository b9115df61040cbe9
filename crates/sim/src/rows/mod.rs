//! Lives of an engine whose rows change: several sessions with transactions, savepoints and row
//! locks in an order that a seed chooses.
//!
//! - `committed`: the rows that committed transactions have left, and which of them may be lost
//! - `client`: a session, its transaction, and what the model knows of it
//! - `clients`: all clients; each call of the engine is compared with what the model expects
//! - `life`: the clients on a running engine, with checkpoints and background work
//! - `pages`: checks of a table's pages, its map, `pg_xact` and `pg_multixact` on the disk
//!
//! Everything runs in one thread, so no client may wait for another. The model says beforehand
//! whether a client would have to wait for a row. If so, the client asks for the row's lock with
//! NOWAIT, and must be told that the row is held.

mod client;
mod clients;
mod committed;
mod life;
mod pages;

pub(crate) use committed::Committed;
pub use life::rows_disk;
pub(crate) use life::{RowLife, found, table_of};
pub(crate) use pages::check_pages;
