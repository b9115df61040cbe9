//! An archive with manifests, compressed and encrypted as wished, in a directory: what archive-push stores into.

use forebay_aio::Backend;
use forebay_aio::sync::Arc;

use crate::error::ArchiveError;
use crate::module::{ArchiveModule, Archived};
use crate::source::Source;
use crate::store::{Repository, StoreOptions};

/// Stores each file in an archive.
pub struct Archive {
    /// Err: why there is none.
    repository: Result<Repository, String>,
    system: Option<u64>,
}

impl Archive {
    /// The archive at `location` (see [`Repository::open`]), of the cluster `system`.
    pub fn new(
        aio: &Arc<forebay_aio::Aio>,
        location: &str,
        options: StoreOptions,
        system: Option<u64>,
    ) -> Archive {
        let repository = match location {
            "" => Err("No archive is set.".to_owned()),
            location => Repository::open(aio, location, options).map_err(|error| format!("{error}.")),
        };
        Archive { repository, system }
    }

    fn repository(&self) -> Result<&Repository, ArchiveError> {
        self.repository.as_ref().map_err(|reason| ArchiveError::Configuration(reason.clone()))
    }
}

impl ArchiveModule for Archive {
    fn name(&self) -> &'static str {
        "forebay_archive"
    }

    fn check_configured(&self) -> Result<(), String> {
        self.repository.as_ref().map(drop).map_err(Clone::clone)
    }

    fn archive(&self, io: &mut Backend, file: &mut Source) -> Result<Archived, ArchiveError> {
        self.repository()?.put(io, file, self.system)
    }
}
