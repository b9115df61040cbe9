//! Reads the log back, and finds its end.
//!
//! - `records`: assembles records from pages, and decides where the log ends
//! - `pages`: reads pages from segment files, ahead and in large chunks, and checks their headers
//! - `segment`: finds and opens the segment files of a timeline and its ancestors
//! - `end`: where and why a log ends
//! - `config`: what a reader must know about a log
//! - `fetch`: brings segment files from an archive
//! - `history`: reads history files of timelines
//!
//! Nothing that a disk may hold makes the reader panic. Whatever is not a valid record is the end
//! of the log, and the reader states the reason. Errors say nothing about where the log ends: a
//! failed read, and what no crash leaves behind, such as a segment of the wrong length or of
//! another cluster.
//!
//! | Behind the last valid record | End at | Incomplete record |
//! |---|---|---|
//! | zeros; a missing or short segment; a page with another address or cluster | its end | - |
//! | a header with a bad length, prev link or resource manager | its end | - |
//! | a record within one page with a bad checksum | its end | - |
//! | a record whose next page is missing or does not continue it | its end | yes, at that page |
//! | a record over several pages with a bad checksum | its end | yes, at its last page |
//! | a record whose next page is flagged as overwritten | no end: continue there | - |
//!
//! What looks like the end may be damage in the middle. A segment is durable before the next one is
//! begun, so a later segment that was written to reveals damage ([`WalReader::check_end`]). Within
//! one segment the two cannot be distinguished, because its writes reach the disk in any order.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod config;
mod end;
mod fetch;
mod history;
mod pages;
mod records;
mod segment;

pub use config::{LookAhead, ReaderConfig};
pub use end::{EndOfWal, EndReason};
pub use fetch::Fetch;
pub use history::read_history;
pub use records::{WalReader, WalRecord};
