//! An archive with manifests, compressed and encrypted as wished, in a directory or an object
//! store: what archive-push stores into.

use std::path::PathBuf;

use forebay_aio::sync::{Arc, Mutex};
use forebay_aio::{Aio, Backend, BackendType};

use crate::error::{ArchiveError, Result};
use crate::module::{ArchiveModule, Archived};
use crate::source::Source;
use crate::store::seal::Key;
use crate::store::{Repository, StoreOptions};

/// Stores each file in an archive.
pub struct Archive {
    aio: Arc<Aio>,
    location: String,
    options: StoreOptions,
    key_file: Option<PathBuf>,
    system: Option<u64>,
    /// Opened when it is first needed: its key is in a file.
    repository: Mutex<Option<Arc<Repository>>>,
}

impl Archive {
    /// The archive at `location` (see [`Repository::open`]; empty: not set), of the cluster
    /// `system`.
    pub fn new(
        aio: &Arc<Aio>,
        location: &str,
        options: StoreOptions,
        system: Option<u64>,
    ) -> Archive {
        let (aio, location, repository) = (Arc::clone(aio), location.to_owned(), Mutex::default());
        Archive { aio, location, options, key_file: None, system, repository }
    }

    /// That archive, of the cluster `system`.
    pub fn of(aio: &Arc<Aio>, repository: Repository, system: Option<u64>) -> Archive {
        let (location, options) = (repository.depot().describe(""), repository.options().clone());
        let repository = Mutex::new(Some(Arc::new(repository)));
        Archive { aio: Arc::clone(aio), location, options, key_file: None, system, repository }
    }

    /// The key is in this file, which is read when the archive is used for the first time.
    pub fn with_key_file(mut self, file: Option<PathBuf>) -> Archive {
        self.key_file = file;
        self
    }

    /// The archive.
    fn open(&self, be: &mut Backend) -> Result<Arc<Repository>> {
        if let Some(repository) = &*self.repository.lock() {
            return Ok(Arc::clone(repository));
        }
        if self.location.is_empty() {
            return Err(ArchiveError::Configuration(NOT_SET.to_owned()));
        }
        let mut options = self.options.clone();
        if let Some(file) = &self.key_file {
            options.key = Some(Key::read(be, file)?);
        }
        let repository = Arc::new(Repository::open(&self.aio, &self.location, options)?);
        // Of two who open it at once the first counts: what each learns of the archive is for all.
        Ok(Arc::clone(self.repository.lock().get_or_insert(repository)))
    }

    /// Opens it, with I/O of its own for a moment.
    fn open_aside(&self) -> Result<(Backend, Arc<Repository>)> {
        let be = self.aio.backend(BackendType::BackgroundWorker);
        let mut be = be.map_err(ArchiveError::io("open", self.location.as_ref()))?;
        let repository = self.open(&mut be)?;
        Ok((be, repository))
    }
}

const NOT_SET: &str = "\"forebay_archive.location\" is not set";

impl ArchiveModule for Archive {
    fn name(&self) -> &'static str {
        "forebay_archive"
    }

    /// What can't be done now is told by `check_configured`, which is called again.
    fn startup(&self) -> Result<()> {
        let Ok((mut be, repository)) = self.open_aside() else { return Ok(()) };
        match repository.clean(&mut be) {
            Ok(0) => {}
            Ok(n) => tracing::info!(
                "removed {n} temporary files that were left in \"{}\"",
                self.location
            ),
            Err(error) => tracing::debug!("could not look for temporary files: {error}"),
        }
        Ok(())
    }

    fn check_configured(&self) -> Result<(), String> {
        let checked = self.open_aside().and_then(|(mut be, repository)| repository.check(&mut be));
        checked.map_err(|error| format!("{error}."))
    }

    fn archive(&self, io: &mut Backend, file: &mut Source) -> Result<Archived> {
        self.open(io)?.put(io, file, self.system)
    }

    fn interrupt(&self) {
        let repository = self.repository.lock().clone();
        if let Some(repository) = repository {
            repository.depot().interrupt();
        }
    }
}
