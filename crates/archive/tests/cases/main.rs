//! The archiver and its modules on real files, over every I/O method, buffered and direct.
//!
//! - `fixture`: a log, an archive, and a disk with planned faults
//! - `source`: files that do not match their names
//! - `durable_dir`: storing again, differently, by many at once, on a failing disk
//! - `archiver`: status files, order, failures, stops
//! - `command`: archive_command
//! - `faults`: an archive that fails for a time, many status files
//! - `killed`: SIGKILL at every call
//!
//! Power failures are in the tests of the crate sim.

mod archiver;
mod command;
#[path = "../common/mod.rs"]
mod common;
mod durable_dir;
mod faults;
mod fixture;
mod killed;
mod source;
