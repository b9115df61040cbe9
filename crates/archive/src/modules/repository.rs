//! The module `forebay_archive`: an archive with manifests, in a directory or an object store, the
//! same that archive-push stores in.

use std::path::PathBuf;

use forebay_aio::sync::{Arc, Mutex};
use forebay_aio::{Aio, BackendType, IoBackend};

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
    /// Opened when it is first needed, since its key must be read from a file.
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

    /// An archive that is open already, of the cluster `system`.
    pub fn of(aio: &Arc<Aio>, repository: Repository, system: Option<u64>) -> Archive {
        let (location, options) = (repository.depot().describe(""), repository.options().clone());
        let repository = Mutex::new(Some(Arc::new(repository)));
        Archive { aio: Arc::clone(aio), location, options, key_file: None, system, repository }
    }

    /// Sets the file with the key, which is read when the archive is first used.
    pub fn with_key_file(mut self, file: Option<PathBuf>) -> Archive {
        self.key_file = file;
        self
    }

    /// Opens the archive once.
    fn open(&self, io: &mut IoBackend) -> Result<Arc<Repository>> {
        if let Some(repository) = &*self.repository.lock() {
            return Ok(Arc::clone(repository));
        }
        if self.location.is_empty() {
            return Err(ArchiveError::refused(NOT_SET));
        }
        let mut options = self.options.clone();
        if let Some(file) = &self.key_file {
            options.key = Some(Key::read(io, file)?);
        }
        let repository = Arc::new(Repository::open(&self.aio, &self.location, options)?);
        // If two threads open it at once, both use the first one, which remembers the layout.
        Ok(Arc::clone(self.repository.lock().get_or_insert(repository)))
    }

    /// Opens the archive with a temporary backend.
    fn open_with_backend(&self) -> Result<(IoBackend, Arc<Repository>)> {
        let io = self.aio.backend(BackendType::BackgroundWorker);
        let mut io = io.map_err(ArchiveError::io("open", self.location.as_ref()))?;
        let repository = self.open(&mut io)?;
        Ok((io, repository))
    }
}

const NOT_SET: &str = "\"forebay_archive.location\" is not set";

impl ArchiveModule for Archive {
    fn name(&self) -> &'static str {
        "forebay_archive"
    }

    /// If the archive can't be opened, `check_configured` reports the reason.
    fn startup(&self) -> Result<()> {
        let Ok((mut io, repository)) = self.open_with_backend() else { return Ok(()) };
        match repository.clean(&mut io) {
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
        let opened = self.open_with_backend();
        let checked = opened.and_then(|(mut io, repository)| repository.check(&mut io));
        checked.map_err(|error| format!("{error}."))
    }

    fn archive(&self, io: &mut IoBackend, file: &mut Source) -> Result<Archived> {
        self.open(io)?.put(io, file, self.system)
    }

    fn interrupt(&self) {
        let repository = self.repository.lock().clone();
        if let Some(repository) = repository {
            repository.depot().interrupt();
        }
    }
}
