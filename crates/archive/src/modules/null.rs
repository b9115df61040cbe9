//! A module that says yes: for measuring what archiving costs beside the storing. It loses
//! everything.

use forebay_aio::Backend;

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

    fn archive(&self, _io: &mut Backend, _file: &mut Source) -> Result<Archived, ArchiveError> {
        Ok(Archived::Stored)
    }

    fn transfers(&self) -> usize {
        1
    }
}
