//! Functions, by their OIDs in pg_proc. What none of these files has is refused by name.
//!
//! - `table.rs`: all of them
//! - `arguments.rs`: arguments, as analysis has cast them
//! - `datetime.rs`: dates, times and intervals; `moments.rs`: comparisons of dates and timestamps
//! - `lengths.rs`: casts to type modifiers; `encodings.rs`: encodings
//! - `arrays.rs`: arrays; `bytes.rs`: bytea, bit strings, networks, UUIDs; `json.rs`: JSON
//! - `math.rs`: numbers; `strings.rs`: texts, `text.rs`: such that can be long
//! - `system.rs`: the session, settings; `locks.rs`: advisory locks, waits, transaction ids;
//!   `log.rs`: the write-ahead log; `relations.rs`: sizes and checks of tables and indexes
//! - `definitions.rs`: trees, indexes and constraints as SQL; `descriptions.rs`: comments
//! - `reg.rs`: types whose values are OIDs of rows, and what is visible; `reg_input.rs`: from
//!   texts; `named.rs`: what names can mean
//! - `sequences.rs`: sequences
//! - `values.rs`: CURRENT_DATE and its like
//! - `own.rs`: functions that pg_proc does not have: those of contrib modules, and Forebay's own
//!
//! A function that is strict by its row is not called with NULL.

pub(super) mod arguments;
mod arrays;
mod bytes;
mod datetime;
mod definitions;
mod descriptions;
mod encodings;
mod json;
mod lengths;
mod locks;
mod log;
mod math;
mod moments;
mod named;
pub(super) mod own;
mod reg;
pub mod reg_input;
mod relations;
mod sequences;
mod strings;
mod system;
mod table;
pub(super) mod text;
mod values;

pub(super) use strings::substr_range;
pub(super) use table::{call, find};
pub(super) use values::value;

use super::host::Host;
use crate::error::Result;
use crate::plan::Function;
use forebay_types::{Datum, Oid};

/// The code of a function.
type Call = for<'a> fn(&Function, &[Datum<'a>], &mut Host) -> Result<Datum<'a>>;

/// Functions of one area: OIDs, and their code.
type Area = &'static [(Oid, Call)];
