//! The module `basic_archive`: one directory, as PostgreSQL's module of that name, but durable.

use std::path::PathBuf;

use forebay_aio::sync::Arc;
use forebay_aio::{Aio, IoBackend};

use crate::durable_dir::DurableDir;
use crate::error::ArchiveError;
use crate::module::{ArchiveModule, Archived};
use crate::source::Source;

/// Stores each file under its name in one directory.
#[derive(Debug)]
pub struct Basic {
    /// None: the setting is empty.
    dir: Option<DurableDir>,
}

impl Basic {
    /// The directory `dir` (basic_archive.archive_directory; empty: not set), with direct I/O if
    /// `direct`.
    pub fn new(aio: &Arc<Aio>, dir: impl Into<PathBuf>, direct: bool) -> Basic {
        let dir = dir.into();
        Basic { dir: (!dir.as_os_str().is_empty()).then(|| DurableDir::new(aio, &dir, direct)) }
    }
}

const NOT_SET: &str = "\"basic_archive.archive_directory\" is not set.";

impl ArchiveModule for Basic {
    fn name(&self) -> &'static str {
        "basic_archive"
    }

    fn startup(&self) -> Result<(), ArchiveError> {
        // If the directory is missing, `check_configured` says so.
        let Some(dir) = self.dir.as_ref().filter(|dir| dir.check().is_ok()) else { return Ok(()) };
        let removed = dir.clean()?;
        if removed > 0 {
            tracing::info!(
                "removed {removed} temporary files that were left in \"{}\"",
                dir.dir().display()
            );
        }
        Ok(())
    }

    fn check_configured(&self) -> Result<(), String> {
        self.dir.as_ref().ok_or_else(|| NOT_SET.to_owned())?.check()
    }

    fn archive(&self, io: &mut IoBackend, file: &mut Source) -> Result<Archived, ArchiveError> {
        let dir = self.dir.as_ref().ok_or_else(|| ArchiveError::refused(NOT_SET))?;
        let name = file.name().to_string();
        let archived = dir.store(io, &name, file)?;
        if archived == Archived::Identical {
            tracing::debug!("archive file \"{name}\" already exists with identical contents");
        } else {
            tracing::debug!("archived \"{name}\" via basic_archive");
        }
        Ok(archived)
    }
}
