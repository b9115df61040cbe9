//! Modules that come with the crate.
//!
//! - `basic`: a directory
//! - `command`: a command for each file (archive_command)
//! - `null`: nothing, to measure what is around it

mod basic;
mod command;
mod null;

pub use basic::Basic;
pub use command::Command;
pub use null::Null;
