//! The log on real directories. One program of many files; `interleavings`, built for shuttle, is
//! another.
//!
//! - [`archive`]: Completed segments are marked for the archive, and stay until it has them
//! - [`commit`]: Concurrent committers: whatever was acknowledged is there after a crash at any
//!   moment
//! - [`corruption`]: Damage of every kind around the end of the log: the reader stops before it,
//!   and the log goes on there
//! - [`end_of_wal`]: The defects that PostgreSQL's own tests make by hand at the end of a log: each
//!   ends it at the right place, with the right reason, and the log goes on there
//! - [`faults`]: A write or a sync that fails ends the log: everybody hears of it, nothing is
//!   acknowledged
//! - [`fetch`]: Segments that are brought when they are wanted, and the first segment of a new
//!   timeline
//! - [`flights`]: Writes side by side: how far the log counts as durable, and what is left to the
//!   WAL writer
//! - [`images`]: Full-page images: which pages get one, and how the redo pointer moves
//! - [`names`]: A removal of old segments that fails halfway: the names that did change are made
//!   durable
//! - [`pg_waldump`]: PostgreSQL 18's own pg_waldump reads what this crate writes
//! - [`prepare`]: Segments are there before they are needed; each has one name
//! - [`probe`]: The choice of a sync method by measurement
//! - [`reader`]: The reader's look-ahead, damage in the middle, and timelines
//! - [`resume`]: A log goes on where it ended, wherever that is, and what follows is what a reader
//!   finds
//! - [`roundtrip`]: What is written is read back, whatever the method, the sync method, and the way
//!   around the page cache
//! - [`segments`]: Segment files: made ahead, recycled, removed; want of room
//! - [`switch`]: The switch to the next segment

#[path = "../common/mod.rs"]
mod common;

mod archive;
mod commit;
mod corruption;
mod end_of_wal;
mod faults;
mod fetch;
mod flights;
mod images;
mod names;
mod pg_waldump;
mod prepare;
mod probe;
mod reader;
mod resume;
mod roundtrip;
mod segments;
mod switch;
