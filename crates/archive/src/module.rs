//! What an archive module is: a Rust trait away from someone else's.

use forebay_aio::Backend;

use crate::error::ArchiveError;
use crate::source::Source;

/// How a file came to be in the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Archived {
    /// It was stored.
    Stored,
    /// It was there, with the same contents, and is known to be durable.
    Identical,
}

/// Stores files of the log, one at a time, from several threads at once.
///
/// What holds for any module:
///
/// - When [`ArchiveModule::archive`] returns Ok, the file is stored durably and whole, under its
///   name: the server will remove its own copy.
/// - A file of that name that has other contents is never changed. That is an error.
/// - A file of that name that has the same contents is a success, once it is known to be durable:
///   after a crash the server archives again what it does not know to be archived.
/// - After an error nothing of the attempt is in the way of the next one.
pub trait ArchiveModule: Send + Sync {
    /// Its name, for messages.
    fn name(&self) -> &'static str;

    /// Called once, before anything is archived.
    fn startup(&self) -> Result<(), ArchiveError> {
        Ok(())
    }

    /// Whether it can archive at all; else why not, as the detail of a message.
    fn check_configured(&self) -> Result<(), String> {
        Ok(())
    }

    /// Stores a file durably. Its contents come from [`Source::next`], which reads it once and
    /// checks it, or it is read otherwise from [`Source::path`].
    fn archive(&self, io: &mut Backend, file: &mut Source) -> Result<Archived, ArchiveError>;

    /// How many files at a time suit it, where nobody says so.
    fn transfers(&self) -> usize {
        4
    }

    /// Whether it must be given one file at a time, whatever anybody says.
    fn works_alone(&self) -> bool {
        false
    }

    /// What it is doing is to end soon, if it can. Called from other threads, perhaps more than
    /// once.
    fn interrupt(&self) {}

    /// Called once, when nothing will be archived any more.
    fn shutdown(&self) {}
}
