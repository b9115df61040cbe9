//! [`Repository`]: an archive, and how it is used.

use std::path::Path;

use forebay_aio::sync::{Arc, Mutex};
use forebay_aio::{Aio, IoBackend};

use super::auth::{self, Signature};
use super::codec::Compression;
use super::depot::Depot;
use super::directory::Directory;
use super::layout::{Entry, LayoutKind};
use super::manifest::{Manifest, Marker};
#[cfg(feature = "object-store")]
use super::objects::Bucket;
use super::seal::{Key, KeyId};
use super::text;
use crate::durable_dir::StoreOutcome;
use crate::error::{ArchiveError, ManifestError, Result};
use crate::names::WalName;

/// How to use an archive.
#[derive(Debug, Clone, Default)]
pub struct StoreOptions {
    /// The layout that the archive must have, and that a new one gets. None: any; plain for a new
    /// one.
    pub layout: Option<LayoutKind>,
    /// How new files are compressed.
    pub compression: Compression,
    /// Encrypts new files and authenticates their manifests. Files stored without it are refused.
    pub key: Option<Key>,
    /// With a key, also accept files that are not encrypted and manifests that are not
    /// authenticated with it. An archive has such files if it was begun without a key or with
    /// another one, or before manifests were authenticated.
    pub accept_unencrypted: bool,
    /// Use direct I/O, where the file system has it.
    pub direct: bool,
}

/// An archive.
pub struct Repository {
    pub(super) depot: Arc<dyn Depot>,
    pub(super) options: StoreOptions,
    /// The marker, once it was read.
    marker: Mutex<Option<Marker>>,
    /// Remove temporary files of dead processes before a file is stored.
    pub(super) cleans_first: bool,
}

impl Repository {
    /// The archive in a depot. Nothing is read yet.
    pub fn new(depot: Arc<dyn Depot>, options: StoreOptions) -> Repository {
        Repository { depot, options, marker: Mutex::new(None), cleans_first: false }
    }

    /// The archive at "DIR", "file://DIR", "s3://BUCKET/PREFIX", "gs://BUCKET/PREFIX" or
    /// "az://CONTAINER/PREFIX". Endpoints and credentials of object stores come from the
    /// environment (`Bucket::open`). Nothing is read yet.
    pub fn open(aio: &Arc<Aio>, location: &str, options: StoreOptions) -> Result<Repository> {
        let depot: Arc<dyn Depot> = match location.split_once("://") {
            None => Arc::new(Directory::new(aio, Path::new(location), options.direct)),
            Some(("file", path)) => Arc::new(Directory::new(aio, Path::new(path), options.direct)),
            Some(_) => bucket(location)?,
        };
        Ok(Repository::new(depot, options))
    }

    /// For a process that stores one file and ends: before it stores a file, it removes temporary
    /// files of dead processes from the same directory. Other processes call [`Repository::clean`]
    /// once, when they start.
    pub fn cleaning_first(self) -> Repository {
        Repository { cleans_first: true, ..self }
    }

    /// Removes the temporary files of dead processes. Returns how many.
    pub fn clean(&self, io: &mut IoBackend) -> Result<usize> {
        self.depot.clean_all(io)
    }

    /// Checks that the archive can be used: its depot exists, and its marker agrees with the
    /// options.
    pub fn check(&self, io: &mut IoBackend) -> Result<()> {
        if self.read_marker(io)?.is_none() {
            self.depot.names(io, "")?;
        }
        Ok(())
    }

    /// Removes temporary files of dead processes from `dir` and from the root. If that fails,
    /// storing a file there will report the reason.
    pub(super) fn clean_beside(&self, io: &mut IoBackend, dir: &str) {
        let beside = (!dir.is_empty()).then(|| self.depot.clean(io, dir));
        for cleaned in beside.into_iter().chain([self.depot.clean(io, "")]) {
            match cleaned {
                Ok(0) => {}
                Ok(n) => {
                    tracing::info!("removed {n} temporary files that were left in the archive")
                }
                Err(error) => tracing::debug!("could not look for temporary files: {error}"),
            }
        }
    }

    /// Where the archive lies.
    pub fn depot(&self) -> &Arc<dyn Depot> {
        &self.depot
    }

    /// How the archive is used.
    pub fn options(&self) -> &StoreOptions {
        &self.options
    }

    /// Reads the marker file. None: there is none.
    fn read_marker(&self, io: &mut IoBackend) -> Result<Option<Marker>> {
        let Some(bytes) = self.read_text(io, Marker::NAME)? else { return Ok(None) };
        let marker =
            Marker::parse(&bytes).map_err(|source| self.bad_manifest(Marker::NAME, source))?;
        if let Some(wanted) = self.options.layout.filter(|wanted| *wanted != marker.layout) {
            return Err(self.other_layout(marker.layout, wanted));
        }
        *self.marker.lock() = Some(marker);
        Ok(Some(marker))
    }

    fn other_layout(&self, found: LayoutKind, wanted: LayoutKind) -> ArchiveError {
        let (location, found, wanted) = (self.depot.describe(""), found.name(), wanted.name());
        ArchiveError::OtherLayout { location, found, wanted }
    }

    /// Reads the marker file, which proves that the archive exists now. A directory of WAL files
    /// without a marker, as `cp` leaves it, is an archive in the plain layout.
    pub(super) fn require_marker(&self, io: &mut IoBackend) -> Result<Marker> {
        if let Some(marker) = self.read_marker(io)? {
            return Ok(marker);
        }
        if self.marker.lock().is_some() {
            return Err(self.no_archive("its file \"forebay-archive\" has vanished"));
        }
        if self.needs_seal() {
            let reason = "it has no file \"forebay-archive\", which a key authenticates";
            return Err(self.no_archive(reason));
        }
        if self.options.layout == Some(LayoutKind::Hashed) || !self.holds_plain_files(io)? {
            let reason = "it has neither a file \"forebay-archive\" nor WAL files";
            return Err(self.no_archive(reason));
        }
        Ok(Marker { layout: LayoutKind::Plain, system: None, key: None })
    }

    fn no_archive(&self, reason: &str) -> ArchiveError {
        ArchiveError::NoArchive { location: self.depot.describe(""), reason: reason.to_owned() }
    }

    /// Whether there are WAL files at the root.
    fn holds_plain_files(&self, io: &mut IoBackend) -> Result<bool> {
        let names = self.depot.names(io, "")?;
        let is_wal = |name: &String| matches!(LayoutKind::Plain.classify(name), Entry::Stored(_));
        Ok(names.iter().any(is_wal))
    }

    /// The archive's marker, which is created if there is none. The WAL of `system` is to be
    /// stored.
    pub(super) fn prepare(
        &self,
        io: &mut IoBackend,
        system: Option<u64>,
        file: &str,
    ) -> Result<Marker> {
        let known = *self.marker.lock();
        let marker = match known {
            Some(marker) => marker,
            None => match self.read_marker(io)? {
                Some(marker) => marker,
                None => self.create_marker(io, system)?,
            },
        };
        if let (Some(expected), Some(found)) = (marker.system, system)
            && expected != found
        {
            let (location, file) = (self.depot.describe(""), file.to_owned());
            return Err(ArchiveError::OtherSystem { location, expected, file, found });
        }
        Ok(marker)
    }

    /// Creates the marker file, unless another process does so at the same time.
    fn create_marker(&self, io: &mut IoBackend, system: Option<u64>) -> Result<Marker> {
        let layout = self.options.layout.unwrap_or_default();
        if layout != LayoutKind::Plain && self.holds_plain_files(io)? {
            return Err(self.other_layout(LayoutKind::Plain, layout));
        }
        self.depot.check_new(io)?;
        let marker = Marker { layout, system, key: self.options.key.as_ref().map(Key::id) };
        match self.store_text(io, Marker::NAME, marker.to_text())? {
            StoreOutcome::Stored => {
                *self.marker.lock() = Some(marker);
                Ok(marker)
            }
            StoreOutcome::Exists => {
                self.depot.make_durable(io, Marker::NAME)?;
                let vanished = || self.no_archive("its file \"forebay-archive\" has vanished");
                self.read_marker(io)?.ok_or_else(vanished)
            }
        }
    }

    /// The manifest of a WAL file, if it has one.
    pub(super) fn manifest(
        &self,
        io: &mut IoBackend,
        layout: LayoutKind,
        name: &WalName,
    ) -> Result<Option<Manifest>> {
        let key = layout.manifest(name.as_str());
        let Some(bytes) = self.read_text(io, &key)? else { return Ok(None) };
        let manifest = Manifest::parse(&bytes).map_err(|source| self.bad_manifest(&key, source))?;
        let right = manifest.name == name.as_str()
            && manifest.stored == format!("{}{}", manifest.name, manifest.codec.ending());
        if !right {
            return Err(self.damaged(&key, "it is the manifest of another file"));
        }
        Ok(Some(manifest))
    }

    /// The stored file `key` is not what it should be.
    pub(super) fn damaged(&self, key: &str, reason: impl Into<String>) -> ArchiveError {
        ArchiveError::damaged(self.depot.describe(key), reason)
    }

    /// The stored file `key` is missing.
    pub(super) fn missing(&self, key: &str) -> ArchiveError {
        ArchiveError::Missing { file: self.depot.describe(key) }
    }

    /// Whether files and manifests are refused that no key has sealed.
    fn needs_seal(&self) -> bool {
        self.options.key.is_some() && !self.options.accept_unencrypted
    }

    /// Refuses the file `file` if it should be encrypted and is not.
    pub(super) fn check_sealed(&self, file: &str, key: Option<KeyId>) -> Result<()> {
        if key.is_none() && self.needs_seal() {
            let file = self.depot.describe(file);
            return Err(ArchiveError::Unsealed { file, lacks: "encrypted" });
        }
        Ok(())
    }

    /// The key to read a file with that was encrypted with the key `needed`.
    pub(super) fn key_for(&self, file: &str, needed: Option<KeyId>) -> Result<Option<&Key>> {
        self.check_sealed(file, needed)?;
        let Some(needed) = needed else { return Ok(None) };
        match &self.options.key {
            None => Err(self.no_key(file, Some(needed))),
            Some(key) if key.id() != needed => Err(self.other_key(file, needed, key)),
            Some(key) => Ok(Some(key)),
        }
    }

    /// The file needs a key, and none was given.
    pub(super) fn no_key(&self, file: &str, key: Option<KeyId>) -> ArchiveError {
        let key = key.map(|key| key.to_string());
        ArchiveError::NoKey { file: self.depot.describe(file), key }
    }

    fn other_key(&self, file: &str, needed: KeyId, given: &Key) -> ArchiveError {
        let (needed, given) = (needed.to_string(), given.id().to_string());
        ArchiveError::OtherKey { file: self.depot.describe(file), needed, given }
    }

    /// Stores a manifest or the marker file, authenticated if there is a key.
    pub(super) fn store_text(
        &self,
        io: &mut IoBackend,
        key: &str,
        text: text::Writer,
    ) -> Result<StoreOutcome> {
        let text = match &self.options.key {
            Some(secret) => auth::sign(text, secret)?,
            None => text,
        };
        self.depot.store_small(io, key, text.finish().as_bytes())
    }

    /// Reads a manifest or the marker file. With a key, it must be authenticated.
    fn read_text(&self, io: &mut IoBackend, key: &str) -> Result<Option<Vec<u8>>> {
        let Some(bytes) = self.depot.read_small(io, key, text::LONGEST)? else { return Ok(None) };
        let file = || self.depot.describe(key);
        let Some(secret) = &self.options.key else { return Ok(Some(bytes)) };
        if !text::is_whole(&bytes) {
            return Err(self.bad_manifest(key, ManifestError::Check));
        }
        match Signature::find(&bytes) {
            None if self.needs_seal() => {
                Err(ArchiveError::Unsealed { file: file(), lacks: "authenticated" })
            }
            Some(found) if found.key != secret.id() && self.needs_seal() => {
                Err(self.other_key(key, found.key, secret))
            }
            Some(found) if found.key == secret.id() && !found.is_of(secret) => {
                Err(ArchiveError::Forged { file: file() })
            }
            _ => Ok(Some(bytes)),
        }
    }

    fn bad_manifest(&self, key: &str, source: ManifestError) -> ArchiveError {
        ArchiveError::Manifest { file: self.depot.describe(key), source }
    }
}

#[cfg(feature = "object-store")]
fn bucket(location: &str) -> Result<Arc<dyn Depot>> {
    // The variables that are looked for are valid Unicode.
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    Ok(Arc::new(Bucket::open(location, std::env::vars_os().filter_map(text))?))
}

#[cfg(not(feature = "object-store"))]
fn bucket(location: &str) -> Result<Arc<dyn Depot>> {
    let reason =
        "archives lie in directories; object stores were left out when this program was built";
    Err(ArchiveError::refused(format!("\"{location}\" can't be used: {reason}")))
}
