//! A data directory with WAL files, and an archive beside it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::{Aio, AioConfig, Backend, BackendType, MethodKind, PosixNamespace};
use forebay_archive::error::ArchiveError;
use forebay_archive::store::codec::Compression;
use forebay_archive::store::layout::LayoutKind;
use forebay_archive::store::seal::Key;
use forebay_archive::store::{Repository, StoreOptions};
use forebay_archive::{Archived, SourceOptions, WalName, get, push};
use forebay_format::wal::page_header::{LongHeader, PageHeader};
use forebay_format::{Lsn, SegmentSize};

pub const SYSTEM: u64 = 7_418_000_000_000_000_001;
/// Small ones, so that tests are quick.
pub const SIZE: SegmentSize = match SegmentSize::new(1 << 20) {
    Some(size) => size,
    None => panic!("a size"),
};

pub struct Bed {
    pub dir: tempfile::TempDir,
    pub aio: Arc<Aio>,
    pub be: Backend,
}

/// A door to the disk.
pub fn door() -> Arc<Aio> {
    let config = AioConfig { max_backends: 64, handles_per_backend: 16, ..AioConfig::default() };
    Aio::new(Arc::new(PosixNamespace::new()), MethodKind::Sync, config).expect("a door")
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
                    direct: key_parity(compression),
                    ..StoreOptions::default()
                });
            }
        }
    }
    all
}

/// Some of them go past the kernel's cache.
fn key_parity(compression: Compression) -> bool {
    compression != Compression::Lz4
}

impl Bed {
    pub fn new() -> Bed {
        // On the build's own file system: direct I/O does not work on every temporary one.
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        for name in ["data/pg_wal/archive_status", "data/global", "archive"] {
            fs::create_dir_all(dir.path().join(name)).expect("a directory");
        }
        let aio = door();
        let be = aio.backend(BackendType::Standalone).expect("a backend");
        let bed = Bed { dir, aio, be };
        bed.set_system(SYSTEM);
        bed
    }

    /// The control file says so.
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

    /// The archive, used so.
    pub fn repository(&self, options: StoreOptions) -> Repository {
        Repository::open(&self.aio, &self.archive().to_string_lossy(), options).expect("opens")
    }

    pub fn plain(&self) -> Repository {
        self.repository(StoreOptions::default())
    }

    /// Writes a segment; its name.
    pub fn segment(&self, timeline: u32, number: u64) -> String {
        let name = SIZE.file_name(timeline, number);
        fs::write(self.wal(&name), segment_bytes(timeline, number, SYSTEM)).expect("written");
        name
    }

    pub fn push(&mut self, repository: &Repository, name: &str) -> Result<Archived, ArchiveError> {
        let path = self.wal(name);
        push::push(&self.aio, &mut self.be, repository, &path, &SourceOptions::default())
    }

    /// Restores a file; its bytes if it is there.
    pub fn get(
        &mut self,
        repository: &Repository,
        name: &str,
    ) -> Result<Option<Vec<u8>>, ArchiveError> {
        let path = self.data().join("pg_wal/RECOVERYXLOG");
        let _ = fs::remove_file(&path);
        let found = get::get(&self.aio, &mut self.be, repository, &wal_name(name), &path)?;
        assert_eq!(path.exists(), found);
        Ok(found.then(|| fs::read(&path).expect("it can be read")))
    }

    /// Everything in the archive.
    pub fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        walk(&self.archive(), &mut found);
        found
    }

    /// The one file whose name ends so.
    pub fn stored(&self, ending: &str) -> PathBuf {
        let found: Vec<PathBuf> = self
            .contents()
            .into_keys()
            .filter(|path| path.to_string_lossy().ends_with(ending))
            .collect();
        assert_eq!(found.len(), 1, "{ending}: {found:?}");
        found[0].clone()
    }

    /// No temporary file is left, in the archive or in pg_wal.
    pub fn check_tidy(&self) {
        for path in self.contents().keys() {
            assert!(!path.to_string_lossy().contains("forebay-temp"), "{} is left", path.display());
        }
        for entry in fs::read_dir(self.data().join("pg_wal")).expect("a directory") {
            let name = entry.expect("an entry").file_name();
            assert!(!name.to_string_lossy().starts_with("xlogtemp"), "{name:?} is left");
        }
    }
}

pub fn wal_name(name: &str) -> WalName {
    WalName::parse(name).expect("a name")
}

/// A segment: its first page has a header that says what it is, the rest is bytes that compress
/// somewhat.
pub fn segment_bytes(timeline: u32, number: u64, system: u64) -> Vec<u8> {
    let mut state = number * 1000 + u64::from(timeline);
    let mut bytes: Vec<u8> = (0..SIZE.bytes())
        .map(|n| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            if n % 3 == 0 { (state >> 56) as u8 } else { 0 }
        })
        .collect();
    let long = LongHeader { system_id: system, segment_size: SIZE.get(), block_size: 8192 };
    let page_addr = Lsn(number * SIZE.bytes());
    PageHeader { info: 0, timeline, page_addr, rem_len: 0, long: Some(long) }.encode(&mut bytes);
    bytes
}

/// Changes one byte of a file.
pub fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("it can be read");
    bytes[at] ^= 1;
    fs::write(path, bytes).expect("written");
}

fn walk(dir: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            walk(&path, found);
        } else {
            found.insert(path.clone(), fs::read(&path).expect("it can be read"));
        }
    }
}
