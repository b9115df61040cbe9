//! Sequences: numbers that are handed out once.
//!
//! | file | holds |
//! |---|---|
//! | `advance.rs` | [`SequenceRules`]: which values come next, and which of them are logged |
//! | `relation.rs` | [`Sequence`]: the page, its changes and their records |
//!
//! A record tells of 32 values more than are handed out, so that only every 33rd change of the page
//! is logged. After a crash the sequence goes on behind the values of its last record.
//!
//! ```text
//!   page:    last_value 7, log_cnt 26      values up to 33 may be handed out without a record
//!   record:  last_value 33                 recovery goes on with 34
//! ```
//!
//! Two things keep a value from being handed out twice:
//!
//! - The first change behind a checkpoint's redo pointer is logged whatever log_cnt says, since
//!   recovery will not see an earlier record. The buffer is marked dirty before the pointer is
//!   read, so a checkpoint whose pointer was not seen writes the change.
//! - A value comes with the page's LSN. The transaction that got it flushes the log up to there
//!   before its commit is acknowledged, whoever has inserted the record.

mod advance;
mod relation;

pub use advance::SequenceRules;
pub use relation::{Fetch, FetchedValues, Sequence};
