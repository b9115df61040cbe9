//! The trait that an archive module implements.

use forebay_aio::IoBackend;

use crate::error::ArchiveError;
use crate::source::Source;

/// Why the archive has a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Archived {
    /// It was stored.
    Stored,
    /// It was there already with the same contents, and is now known to be durable.
    Identical,
}

/// Stores files of the log. Several threads may call it at the same time, each with another file.
///
/// Every module must guarantee:
///
/// - When [`ArchiveModule::archive`] returns Ok, the file is stored whole and durably under its
///   name. The server then removes its own copy.
/// - A stored file of that name with other contents is never changed. It is an error.
/// - A stored file of that name with the same contents is a success, once it is known to be
///   durable: after a crash the server archives every file again that may not be archived.
/// - After an error, nothing that is left of the attempt prevents the next one.
pub trait ArchiveModule: Send + Sync {
    /// Its name, for messages.
    fn name(&self) -> &'static str;

    /// Called once, before anything is archived.
    fn startup(&self) -> Result<(), ArchiveError> {
        Ok(())
    }

    /// Whether it is configured. The error is the detail of a message.
    fn check_configured(&self) -> Result<(), String> {
        Ok(())
    }

    /// Stores a file durably. Read it with [`Source::next`], which also checks it; otherwise read
    /// it from [`Source::path`].
    fn archive(&self, io: &mut IoBackend, file: &mut Source) -> Result<Archived, ArchiveError>;

    /// How many files at a time suit it, unless the configuration says otherwise.
    fn transfers(&self) -> usize {
        4
    }

    /// Whether it must be given one file at a time, whatever the configuration says.
    fn works_alone(&self) -> bool {
        false
    }

    /// Asks it to end what it is doing soon. Called from another thread, perhaps more than once.
    fn interrupt(&self) {}

    /// Called once, when nothing more will be archived.
    fn shutdown(&self) {}
}
