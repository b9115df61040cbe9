//! Settings of the archive.

use std::path::PathBuf;
use std::sync::Arc;

use forebay_aio::named_enum;
use forebay_aio::sync::Duration;
use forebay_archive::store::codec::Compression;
use forebay_archive::store::layout::LayoutKind;

named_enum! {
    /// What is archived: PostgreSQL's archive_mode.
    #[derive(Default)]
    ArchiveMode {
        /// The log that this server has written, and what it fetched from an archive during
        /// recovery.
        Always = "always",
        /// The log that this server has written.
        On = "on",
        /// Nothing.
        #[default]
        Off = "off",
    }
}

/// An archive with manifests, and how it is used: what `forebay_archive` archives into and restores
/// from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveStore {
    /// Where it is: a directory, or a URL; empty: not set.
    pub location: String,
    /// How new files are compressed.
    pub compression: Compression,
    /// The layout that it must have, and a new one gets; None: whichever it has, plain for a new
    /// one.
    pub layout: Option<LayoutKind>,
    /// A file with the key to encrypt and decrypt with. With it, what was stored without is
    /// refused.
    pub key_file: Option<PathBuf>,
    /// With a key: files and manifests of an archive that was begun without one are accepted.
    pub accept_unencrypted: bool,
}

/// What archives completed WAL segments: PostgreSQL's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveSettings {
    /// A command for each file (archive_command).
    pub command: String,
    /// A module's name (archive_library): `basic_archive`, `forebay_archive`, or one of
    /// [`EngineConfig::archive_modules`](crate::EngineConfig::archive_modules).
    pub library: String,
    /// Where `basic_archive` stores files.
    pub directory: String,
    /// What `forebay_archive` stores files in.
    pub store: ArchiveStore,
    /// Files in flight at a time; 0: as many as suit the module, but not more than four. A command
    /// is always run alone.
    pub transfers: usize,
    /// A segment is completed after this time, if it holds any changes; zero: when it is full.
    pub timeout: Duration,
}

impl ArchiveSettings {
    /// What the module depends on.
    pub(crate) fn module(&self) -> (&str, &str, &str, &ArchiveStore) {
        (&self.command, &self.library, &self.directory, &self.store)
    }
}

/// Archive modules of an embedding program, which archive_library can name.
///
/// ```
/// use std::sync::{Arc, Mutex}; use forebay_engine::archive::{ArchiveError, ArchiveModule,
/// Archived, Source}; use forebay_engine::{ArchiveMode, ArchiveModules, ArchiveSettings, Engine,
/// EngineConfig, InitOptions, ShutdownMode};
///
/// /// Keeps what it is given in memory: not durable, so no archive.
/// #[derive(Default)]
/// struct Memory(Mutex<Vec<(String, Vec<u8>)>>);
///
/// impl ArchiveModule for Memory {
///     fn name(&self) -> &'static str {
///         "memory"
///     }
///
///     fn archive(
///         &self,
///         io: &mut forebay_aio::IoBackend,
///         file: &mut Source,
///     ) -> Result<Archived, ArchiveError> {
///         let mut bytes = Vec::new();
///         while let Some(piece) = file.next(io)? {
///             bytes.extend_from_slice(piece.bytes());
///             file.give_back(piece.buf);
///         }
///         self.0.lock().unwrap().push((file.name().to_string(), bytes));
///         Ok(Archived::Stored)
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let dir = folder.path().join("data");
/// # let dir = dir.as_path();
/// Engine::init(dir, &InitOptions::default())?;
/// let memory = Arc::new(Memory::default());
/// let engine = Engine::open(dir, EngineConfig {
///     archive_mode: ArchiveMode::On,
///     archiving: ArchiveSettings { library: "memory".to_owned(), ..ArchiveSettings::default() },
///     archive_modules: ArchiveModules(vec![memory.clone()]),
///     ..EngineConfig::default()
/// })?;
/// engine.session()?.switch_wal()?;
/// engine.shutdown(ShutdownMode::Fast)?;
/// let (name, segment) = &memory.0.lock().unwrap()[0];
/// assert_eq!((name.as_str(), segment.len()), ("000000010000000000000001", 16 << 20));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct ArchiveModules(pub Vec<Arc<dyn forebay_archive::ArchiveModule>>);

impl std::fmt::Debug for ArchiveModules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|module| module.name())).finish()
    }
}
