//! A module that stores nothing, to measure what archiving costs besides the storing. It loses
//! every file.

use forebay_aio::IoBackend;

use crate::error::ArchiveError;
use crate::module::{ArchiveModule, Archived};
use crate::source::Source;

/// Stores nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Null;

impl ArchiveModule for Null {
    fn name(&self) -> &'static str {
        "null"
    }

    fn archive(&self, _io: &mut IoBackend, _file: &mut Source) -> Result<Archived, ArchiveError> {
        Ok(Archived::Stored)
    }

    fn transfers(&self) -> usize {
        1
    }
}
