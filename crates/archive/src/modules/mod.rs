//! Modules that come with the crate.
//!
//! - `basic`: a directory
//! - `command`: a command for each file (archive_command)
//! - `repository`: an archive with manifests, compressed and encrypted as wished
//!   (`forebay_archive`)
//! - `null`: nothing, to measure what is around it

mod basic;
mod command;
mod null;
mod repository;

pub use basic::Basic;
pub use command::Command;
pub use null::Null;
pub use repository::Archive;
