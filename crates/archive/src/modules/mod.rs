//! The archive modules of this crate.
//!
//! - [`Basic`]: a directory without manifests (`basic_archive`)
//! - [`Archive`]: an archive with manifests, compressed and encrypted if wished
//!   (`forebay_archive`)
//! - [`Command`]: a command for each file (archive_command)
//! - [`Null`]: stores nothing, to measure the archiver alone

mod basic;
mod command;
mod null;
mod repository;

pub use basic::Basic;
pub use command::Command;
pub use null::Null;
pub use repository::Archive;
