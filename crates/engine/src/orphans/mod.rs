//! What transactions have left that a crash cut off: files of relations, directories of databases,
//! tablespaces. The end of a recovery removes it, also where PostgreSQL was the one that crashed.
//!
//! - `evidence`: what is surely left
//! - `files`: the files of relations
//! - `directories`: databases and tablespaces
//!
//! Nothing is removed because no row names it: a lost page of a catalog takes rows with it. There
//! must be evidence, of one of these kinds:
//!
//! | Evidence | What it shows |
//! |---|---|
//! | its creation was redone by this recovery | so would be the rows of whoever made it, had they committed |
//! | its number was handed out behind the redo pointer | the same; its record may be lost |
//! | a version of a row names it, whose insertion did not commit or whose deletion did | its owner is gone |
//!
//! The rest is told in the log and stays. That is what PostgreSQL has left in earlier recoveries.
//!
//! ```text
//!   redo ends ─ evidence ─ abort record of a new transaction, with the files ─ flush ─ files go
//!             ─ checkpoint, which makes that durable
//! ```
//!
//! A recovery that is cut short is begun again, and may redo changes of pages that are gone. The
//! record is what tells it, and PostgreSQL, that they were dropped later; databases and tablespaces
//! have records of their own.

mod directories;
mod evidence;
mod files;

use forebay_storage::Backend;

use crate::core::Core;
use crate::error::EngineError;

pub(crate) use evidence::MadeSince;

/// Removes what is surely left. `since`: what recovery knows; nothing after a clean stop, when only
/// directories are looked for.
pub(crate) fn remove(
    core: &Core,
    backend: &mut Backend,
    since: &MadeSince,
    recovered: bool,
) -> Result<(), EngineError> {
    forebay_aio::planted_bug!(core.aio, OrphansStay, return Ok(()));
    let databases = directories::remove_databases(core, backend, since)?;
    directories::remove_tablespaces(core, backend, since)?;
    if recovered {
        files::remove(core, backend, &databases, since)?;
    }
    Ok(())
}
