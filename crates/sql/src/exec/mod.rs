//! Running plans.
//!
//! - `cursor.rs`: a query being run: filter, group, sort, limit, rest and resume
//! - `sort/`: ORDER BY, in memory and beyond; `spill.rs`: rows in temporary files
//! - `input.rs`: sources of rows: scans, series, VALUES, views
//! - `eval.rs`: expressions over a row
//! - `cast.rs`, `like.rs`, `text.rs`, `functions.rs`: parts of that
//! - `aggregate.rs`: accumulators; `groups/`: GROUP BY, in memory and beyond
//! - `log.rs`: functions of the write-ahead log
//! - `views.rs`, `statistics.rs`: rows of the computed views
//! - `rowsets.rs`: functions whose result is a row, or several
//! - `catalog.rs`: the catalogs, for the planner
//! - `host.rs`: the engine's session and the settings, as statements reach them

mod aggregate;
mod cast;
mod catalog;
mod cursor;
mod eval;
mod functions;
mod groups;
mod host;
mod input;
mod like;
mod log;
mod rowsets;
mod sort;
mod spill;
mod statistics;
mod text;
mod views;

pub use cursor::Cursor;
pub use eval::{Row, eval};
pub use host::{Host, Identity};
pub use input::{Flow, eval_all};

use forebay_types::Datum;

/// A row that borrows nothing.
type OwnedRow = Vec<Datum<'static>>;
