//! A data directory with WAL files, and an archive beside it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use forebay_aio::{Aio, BackendType, IoBackend, MethodKind};
use forebay_archive::store::codec::Compression;
use forebay_archive::store::layout::LayoutKind;
use forebay_archive::store::seal::Key;
use forebay_archive::store::{Repository, StoreOptions};
use forebay_archive::{ArchiveError, Archived, SourceOptions, get, push};
use forebay_testkit::files;
use forebay_testkit::io::open;

use super::segments::{SIZE, SYSTEM, segment_bytes, wal_name};

pub struct Fixture {
    pub dir: tempfile::TempDir,
    pub aio: Arc<Aio>,
    pub io: IoBackend,
}

/// All ways to store.
pub fn all_options() -> Vec<StoreOptions> {
    let mut all = Vec::new();
    for layout in [LayoutKind::Plain, LayoutKind::Hashed] {
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd(1)] {
            for key in [None, Some(Key::from_bytes([7; 32]))] {
                all.push(StoreOptions {
                    layout: Some(layout),
                    compression,
                    key,
                    // Direct I/O for some of them.
                    direct: compression != Compression::Lz4,
                    ..StoreOptions::default()
                });
            }
        }
    }
    all
}

impl Fixture {
    pub fn new() -> Fixture {
        // On the build's own file system: direct I/O does not work on every temporary one.
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        for name in ["data/pg_wal/archive_status", "data/global", "archive"] {
            fs::create_dir_all(dir.path().join(name)).expect("a directory");
        }
        let aio = open(MethodKind::Sync);
        let io = aio.backend(BackendType::Standalone).expect("a backend");
        let fixture = Fixture { dir, aio, io };
        fixture.set_system(SYSTEM);
        fixture
    }

    /// Writes a control file with this system identifier.
    pub fn set_system(&self, system: u64) {
        let control =
            [system.to_le_bytes().as_slice(), &1800_u32.to_le_bytes(), &[0; 100]].concat();
        fs::write(self.data().join("global/pg_control"), control).expect("written");
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn archive(&self) -> PathBuf {
        self.dir.path().join("archive")
    }

    pub fn wal(&self, name: &str) -> PathBuf {
        self.data().join("pg_wal").join(name)
    }

    /// The archive, opened with these options.
    pub fn repository(&self, options: StoreOptions) -> Repository {
        Repository::open(&self.aio, &self.archive().to_string_lossy(), options).expect("opens")
    }

    pub fn plain(&self) -> Repository {
        self.repository(StoreOptions::default())
    }

    /// Writes a segment to pg_wal. Returns its name.
    pub fn segment(&self, timeline: u32, number: u64) -> String {
        let name = SIZE.file_name(timeline, number);
        fs::write(self.wal(&name), segment_bytes(timeline, number, SYSTEM)).expect("written");
        name
    }

    pub fn push(&mut self, repository: &Repository, name: &str) -> Result<Archived, ArchiveError> {
        let path = self.wal(name);
        push::push(&self.aio, &mut self.io, repository, &path, &SourceOptions::default())
    }

    /// Restores a file. Returns its contents if the archive has it.
    pub fn get(
        &mut self,
        repository: &Repository,
        name: &str,
    ) -> Result<Option<Vec<u8>>, ArchiveError> {
        let path = self.data().join("pg_wal/RECOVERYXLOG");
        let _ = fs::remove_file(&path);
        let found = get::get(&self.aio, &mut self.io, repository, &wal_name(name), &path)?;
        assert_eq!(path.exists(), found);
        Ok(found.then(|| fs::read(&path).expect("it can be read")))
    }

    /// The files in the archive, with their contents.
    pub fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let archive = self.archive();
        let files = files::contents(&archive).into_iter();
        files.map(|(path, bytes)| (archive.join(path), bytes)).collect()
    }

    /// The only file whose name has this ending.
    pub fn stored(&self, ending: &str) -> PathBuf {
        let found: Vec<PathBuf> = self
            .contents()
            .into_keys()
            .filter(|path| path.to_string_lossy().ends_with(ending))
            .collect();
        assert_eq!(found.len(), 1, "{ending}: {found:?}");
        found[0].clone()
    }

    /// Checks that no temporary file is left in the archive or in pg_wal.
    pub fn check_no_temporary(&self) {
        for path in self.contents().keys() {
            assert!(!path.to_string_lossy().contains("forebay-temp"), "{} is left", path.display());
        }
        for entry in fs::read_dir(self.data().join("pg_wal")).expect("a directory") {
            let name = entry.expect("an entry").file_name();
            assert!(!name.to_string_lossy().starts_with("xlogtemp"), "{name:?} is left");
        }
    }
}

/// Whether an error says what is wrong with a stored file or its depot.
pub fn is_of_stored_file(error: &ArchiveError) -> bool {
    matches!(
        error,
        ArchiveError::Manifest { .. }
            | ArchiveError::Damaged { .. }
            | ArchiveError::Missing { .. }
            | ArchiveError::NoArchive { .. }
            | ArchiveError::NoKey { .. }
            | ArchiveError::OtherKey { .. }
            | ArchiveError::Unsealed { .. }
            | ArchiveError::Forged { .. }
            | ArchiveError::Store { .. }
    )
}
