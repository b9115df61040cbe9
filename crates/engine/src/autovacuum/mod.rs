//! Autovacuum: vacuums and analyzes the tables that need it, by what the statistics and pg_class
//! say of them.
//!
//! - `state`: what all of it shares: settings, tables that are taken
//! - `balance`: the cost limit that workers share
//! - `decide`: whether a table needs it
//! - `worker`: a round over all tables, in a session of its own
//! - `launcher`: the thread that starts workers
//!
//! ```text
//!   launcher ─ for each database every naptime, unless all workers are busy ─▶ worker
//!     chooses a database: one with old ids, or the one not visited for longest
//!     for each table that needs it, TOAST tables last:
//!       taken by another worker, or its lock is not free ─▶ the next one
//!       VACUUM, ANALYZE ─ somebody waits for its lock ─▶ cancelled, the next one
//!     the oldest ids of the database move on
//! ```
//!
//! A vacuum whose table has ids near the limit waits for its lock and is not cancelled. It happens
//! even if autovacuum is off.

pub(crate) mod balance;
mod decide;
mod launcher;
pub(crate) mod state;
mod worker;

pub use worker::AutovacuumRound;
