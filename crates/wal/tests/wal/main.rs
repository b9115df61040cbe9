//! Tests of the log in real directories, as one program. `interleavings`, for shuttle, is another.
//!
//! - [`archive`]: marks for the archive, and keeping segments until they are archived
//! - [`commit`]: concurrent committers, and crashes at any moment
//! - [`concurrent_writes`]: how far the log is durable; the WAL writer
//! - [`corruption`]: all kinds of damage around the end of the log
//! - [`end_of_wal`]: the defects that PostgreSQL's own tests make at the end of a log
//! - [`faults`]: failed writes and syncs
//! - [`fetch`]: fetching segments; the first segment of a new timeline
//! - [`images`]: full-page images, and the redo pointer
//! - [`names`]: removing old segments fails halfway
//! - [`pg_waldump`]: PostgreSQL's pg_waldump reads what this crate writes
//! - [`prepare`]: preparing segments ahead of need
//! - [`probe`]: measuring sync methods
//! - [`reader`]: reading ahead, damage in the middle, timelines
//! - [`resume`]: resuming a log at any position
//! - [`roundtrip`]: records are read back as they were written
//! - [`segments`]: segment files, and a full disk
//! - [`switch`]: the switch to the next segment

#[path = "../common/mod.rs"]
mod common;

mod archive;
mod commit;
mod concurrent_writes;
mod corruption;
mod end_of_wal;
mod faults;
mod fetch;
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
