//! A directory: what PostgreSQL's module basic_archive is, durable.

use std::path::PathBuf;

use forebay_aio::Backend;
use forebay_aio::sync::Arc;

use crate::error::ArchiveError;
use crate::module::{ArchiveModule, Archived};
use crate::place::Place;
use crate::source::Source;

/// Stores each file under its name in one directory.
#[derive(Debug)]
pub struct Basic {
    /// None: the setting is empty.
    place: Option<Place>,
}

impl Basic {
    /// The directory `dir` (basic_archive.archive_directory; empty: not set), past the kernel's
    /// cache if `direct`.
    pub fn new(aio: &Arc<forebay_aio::Aio>, dir: impl Into<PathBuf>, direct: bool) -> Basic {
        let dir = dir.into();
        Basic { place: (!dir.as_os_str().is_empty()).then(|| Place::new(aio, &dir, direct)) }
    }

    fn place(&self) -> Result<&Place, ArchiveError> {
        self.place.as_ref().ok_or_else(|| ArchiveError::Configuration(NOT_SET.to_owned()))
    }
}

const NOT_SET: &str = "\"basic_archive.archive_directory\" is not set.";

impl ArchiveModule for Basic {
    fn name(&self) -> &'static str {
        "basic_archive"
    }

    fn startup(&self) -> Result<(), ArchiveError> {
        let Some(place) = &self.place else { return Ok(()) };
        if place.check().is_err() {
            return Ok(());
        }
        let removed = place.clean()?;
        if removed > 0 {
            tracing::info!(
                "removed {removed} temporary files that were left in \"{}\"",
                place.dir().display()
            );
        }
        Ok(())
    }

    fn check_configured(&self) -> Result<(), String> {
        self.place.as_ref().ok_or_else(|| NOT_SET.to_owned())?.check()
    }

    fn archive(&self, io: &mut Backend, file: &mut Source) -> Result<Archived, ArchiveError> {
        let place = self.place()?;
        let name = file.name().to_string();
        let archived = place.store(io, &name, file)?;
        if archived == Archived::Identical {
            tracing::debug!("archive file \"{name}\" already exists with identical contents");
        } else {
            tracing::debug!("archived \"{name}\" via basic_archive");
        }
        Ok(archived)
    }
}
