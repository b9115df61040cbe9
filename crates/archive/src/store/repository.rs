//! An archive: WAL files, each with its manifest, in a place.
//!
//! | Module | What |
//! |---|---|
//! | `depot` | where it lies: the [`Depot`] trait |
//! | `directory` | a directory as such a place |
//! | `objects` | object stores as such: S3, Google, Azure (the cargo feature `object-store`) |
//! | [`layout`] | where in it a file lies: plain or hashed |
//! | [`manifest`] | what a stored file is; what the archive is |
//! | `text` | the form of these |
//! | [`codec`] | compression, and reading back; [`seal`]: encryption; `auth`: manifests nobody else can make |
//! | `put` | a WAL file into the archive |
//! | `fetch` | a WAL file out of the archive |
//! | `inventory` | what is there |
//! | [`verify`] | gaps, damage, foreign files |
//! | [`expire`] | old WAL goes |
//! | `error` | what can be wrong with an archive |
//!
//! What holds whatever happens:
//!
//! 1. A file that was acknowledged is durable, with a manifest that says what it is.
//! 2. Nothing stored is ever replaced. A file is stored under a temporary name, made durable, and
//!    renamed without replacing; then its manifest is stored in the same way. The manifest decides:
//!    of two that store one name with different contents, or compressed differently, the one whose
//!    manifest is first has stored it, and the other takes its own away.
//! 3. A crash between the two leaves a file without a manifest. Who stores the same name again
//!    compares the contents, and makes the manifest where they are the same.
//! 4. That a file is absent is said only of an archive that is there: its own file
//!    `forebay-archive` could be read, before and after the file was looked for.
//! 5. With a key, only what its holder made is believed: encrypted files and authenticated
//!    manifests.

mod auth;
pub mod codec;
pub(crate) mod depot;
mod directory;
mod error;
pub mod expire;
mod fetch;
mod inventory;
pub mod layout;
pub mod manifest;
#[cfg(feature = "object-store")]
mod objects;
mod put;
pub mod seal;
pub(crate) mod text;
pub mod verify;

pub use depot::{Depot, Download, Object, Upload};
pub use directory::Directory;
pub use error::StoreError;
pub use fetch::Fetched;
pub use inventory::{Inventory, Stored, TimelineRange};
#[cfg(feature = "object-store")]
pub use objects::Bucket;

use forebay_aio::sync::{Arc, Mutex};
use forebay_aio::{Aio, Backend};
use std::path::Path;

use crate::error::Result;
use crate::names::WalName;
use crate::place::Placed;
use auth::Signature;
use codec::Compression;
use layout::LayoutKind;
use manifest::{Manifest, Marker};
use seal::{Key, KeyId};
use text::TextError;

/// How to use an archive.
#[derive(Debug, Clone, Default)]
pub struct StoreOptions {
    /// The layout it must have; a new one gets it. None: whichever it has, plain for a new one.
    pub layout: Option<LayoutKind>,
    /// How new files are compressed.
    pub compression: Compression,
    /// New files are encrypted and their manifests authenticated with it; what was not is refused.
    pub key: Option<Key>,
    /// With a key, files are read as well that are not encrypted, and manifests that are not
    /// authenticated with it: those of an archive that was begun without a key or with another one,
    /// or before manifests were authenticated.
    pub accept_unencrypted: bool,
    /// Past the kernel's cache, where the file system can.
    pub direct: bool,
}

/// An archive.
pub struct Repository {
    depot: Arc<dyn Depot>,
    options: StoreOptions,
    /// What is known of it.
    marker: Mutex<Option<Marker>>,
    /// What killed processes have left is looked for before something is stored.
    tidies: bool,
}

impl Repository {
    /// The archive at that place; nothing is read yet.
    pub fn new(depot: Arc<dyn Depot>, options: StoreOptions) -> Repository {
        Repository { depot, options, marker: Mutex::new(None), tidies: false }
    }

    /// The archive at "DIR", "file://DIR", "s3://BUCKET/PREFIX", "gs://BUCKET/PREFIX" or
    /// "az://CONTAINER/PREFIX". Endpoints and credentials of object stores come from the
    /// environment (`Bucket::open`).
    pub fn open(aio: &Arc<Aio>, location: &str, options: StoreOptions) -> Result<Repository> {
        let depot: Arc<dyn Depot> = match location.split_once("://") {
            None => Arc::new(Directory::new(aio, Path::new(location), options.direct)),
            Some(("file", path)) => Arc::new(Directory::new(aio, Path::new(path), options.direct)),
            Some(_) => bucket(location)?,
        };
        Ok(Repository::new(depot, options))
    }

    /// For a process that stores one file and ends: before it stores something new, it removes what
    /// was being stored beside it when its process was killed. Others do so once, when they start
    /// ([`Repository::clean`]).
    pub fn tidying(self) -> Repository {
        Repository { tidies: true, ..self }
    }

    /// Removes what was being stored when its process ended. How many files.
    pub fn clean(&self, be: &mut Backend) -> Result<usize> {
        self.depot.clean_all(be)
    }

    /// Whether it can be used: the place is there, and what it says of itself agrees with the
    /// options.
    pub fn check(&self, be: &mut Backend) -> Result<()> {
        if self.read_marker(be)?.is_none() {
            self.depot.names(be, "")?;
        }
        Ok(())
    }

    /// Removes what was left beside where a file of this directory is to be stored. That it can't
    /// be is told when the file is.
    fn tidy(&self, be: &mut Backend, dir: &str) {
        let beside = (!dir.is_empty()).then(|| self.depot.clean(be, dir));
        for cleaned in beside.into_iter().chain([self.depot.clean(be, "")]) {
            match cleaned {
                Ok(0) => {}
                Ok(n) => {
                    tracing::info!("removed {n} temporary files that were left in the archive")
                }
                Err(error) => tracing::debug!("could not look for temporary files: {error}"),
            }
        }
    }

    /// Where it lies.
    pub fn depot(&self) -> &Arc<dyn Depot> {
        &self.depot
    }

    /// How it is used.
    pub fn options(&self) -> &StoreOptions {
        &self.options
    }

    /// What the archive says of itself, read anew. None: it says nothing.
    pub fn read_marker(&self, be: &mut Backend) -> Result<Option<Marker>> {
        let Some(bytes) = self.read_text(be, Marker::NAME)? else { return Ok(None) };
        let marker = Marker::parse(&bytes).map_err(|source| self.bad_text(Marker::NAME, source))?;
        if let Some(wanted) = self.options.layout.filter(|wanted| *wanted != marker.layout) {
            let (place, found) = (self.depot.describe(""), marker.layout.name());
            return Err(StoreError::OtherLayout { place, found, wanted: wanted.name() }.into());
        }
        *self.marker.lock() = Some(marker);
        Ok(Some(marker))
    }

    /// What is known of the archive, read once. A directory of WAL files without the archive's own
    /// file, as `cp` makes it, is one in the plain layout.
    pub fn marker(&self, be: &mut Backend) -> Result<Marker> {
        if let Some(marker) = *self.marker.lock() {
            return Ok(marker);
        }
        self.ascertain(be)
    }

    /// The same, read anew: afterwards the archive was there a moment ago.
    pub(crate) fn ascertain(&self, be: &mut Backend) -> Result<Marker> {
        if let Some(marker) = self.read_marker(be)? {
            return Ok(marker);
        }
        let none = |reason: &str| {
            StoreError::NoArchive { place: self.depot.describe(""), reason: reason.to_owned() }
                .into()
        };
        if self.marker.lock().is_some() {
            return Err(none("its file \"forebay-archive\" has vanished"));
        }
        if self.needs_seal() {
            return Err(none("it has no file \"forebay-archive\", which a key authenticates"));
        }
        if self.options.layout == Some(LayoutKind::Hashed) || !self.holds_plain_files(be)? {
            return Err(none("it has neither a file \"forebay-archive\" nor WAL files"));
        }
        Ok(Marker { layout: LayoutKind::Plain, system: None, key: None })
    }

    /// Whether there are WAL files at its root.
    fn holds_plain_files(&self, be: &mut Backend) -> Result<bool> {
        let names = self.depot.names(be, "")?;
        Ok(names
            .iter()
            .any(|name| matches!(LayoutKind::Plain.classify(name), layout::Entry::Stored(_))))
    }

    /// The archive's own file, made if there is none. `system` is the cluster whose WAL is to be
    /// stored.
    fn prepare(&self, be: &mut Backend, system: Option<u64>, file: &str) -> Result<Marker> {
        let known = *self.marker.lock();
        let marker = match known {
            Some(marker) => marker,
            None => match self.read_marker(be)? {
                Some(marker) => marker,
                None => self.found(be, system)?,
            },
        };
        if let (Some(expected), Some(found)) = (marker.system, system)
            && expected != found
        {
            let (place, file) = (self.depot.describe(""), file.to_owned());
            return Err(StoreError::OtherSystem { place, expected, file, found }.into());
        }
        Ok(marker)
    }

    /// Makes the archive's own file; or somebody else has, meanwhile.
    fn found(&self, be: &mut Backend, system: Option<u64>) -> Result<Marker> {
        let layout = self.options.layout.unwrap_or_default();
        if layout != LayoutKind::Plain && self.holds_plain_files(be)? {
            let (place, found) = (self.depot.describe(""), LayoutKind::Plain.name());
            return Err(StoreError::OtherLayout { place, found, wanted: layout.name() }.into());
        }
        self.depot.check_new(be)?;
        let marker = Marker { layout, system, key: self.options.key.as_ref().map(Key::id) };
        match self.store_text(be, Marker::NAME, marker.to_text())? {
            Placed::Stored => {
                *self.marker.lock() = Some(marker);
                Ok(marker)
            }
            Placed::Exists => {
                self.depot.settle(be, Marker::NAME)?;
                let vanished = || StoreError::NoArchive {
                    place: self.depot.describe(""),
                    reason: "its file \"forebay-archive\" has vanished".to_owned(),
                };
                Ok(self.read_marker(be)?.ok_or_else(vanished)?)
            }
        }
    }

    /// The manifest of a file, if it has one.
    pub fn manifest(
        &self,
        be: &mut Backend,
        layout: LayoutKind,
        name: &WalName,
    ) -> Result<Option<Manifest>> {
        let key = layout.manifest(name.as_str());
        let Some(bytes) = self.read_text(be, &key)? else { return Ok(None) };
        let manifest = Manifest::parse(&bytes).map_err(|source| self.bad_text(&key, source))?;
        let right = manifest.name == name.as_str()
            && manifest.stored == format!("{}{}", manifest.name, manifest.codec.ending());
        if !right {
            let reason = "it is the manifest of another file".to_owned();
            return Err(StoreError::Damaged { file: self.depot.describe(&key), reason }.into());
        }
        Ok(Some(manifest))
    }

    /// Whether what no key has sealed is refused.
    fn needs_seal(&self) -> bool {
        self.options.key.is_some() && !self.options.accept_unencrypted
    }

    /// Refuses a file that is not encrypted, where only those are believed.
    fn check_sealed(&self, file: &str, key: Option<KeyId>) -> Result<()> {
        if key.is_none() && self.needs_seal() {
            let file = self.depot.describe(file);
            return Err(StoreError::Unsealed { file, lacks: "encrypted" }.into());
        }
        Ok(())
    }

    /// The key to read a file with.
    fn key_for(&self, file: &str, needed: Option<KeyId>) -> Result<Option<&Key>> {
        self.check_sealed(file, needed)?;
        let file = || self.depot.describe(file);
        let Some(needed) = needed else { return Ok(None) };
        match &self.options.key {
            None => Err(StoreError::NoKey { file: file(), key: Some(needed) }.into()),
            Some(key) if key.id() != needed => {
                Err(StoreError::OtherKey { file: file(), needed, given: key.id() }.into())
            }
            Some(key) => Ok(Some(key)),
        }
    }

    /// Stores a manifest or the archive's own file, authenticated where there is a key.
    fn store_text(&self, be: &mut Backend, key: &str, text: text::Writer) -> Result<Placed> {
        let text = match &self.options.key {
            Some(secret) => auth::sign(text, secret)?,
            None => text,
        };
        self.depot.store_small(be, key, text.finish().as_bytes())
    }

    /// Reads a manifest or the archive's own file. With a key, only one that its holder made.
    fn read_text(&self, be: &mut Backend, key: &str) -> Result<Option<Vec<u8>>> {
        let Some(bytes) = self.depot.read_small(be, key, text::LONGEST)? else { return Ok(None) };
        let file = || self.depot.describe(key);
        let Some(secret) = &self.options.key else { return Ok(Some(bytes)) };
        if !text::is_whole(&bytes) {
            return Err(self.bad_text(key, TextError::Check).into());
        }
        match Signature::find(&bytes) {
            None if self.needs_seal() => {
                Err(StoreError::Unsealed { file: file(), lacks: "authenticated" }.into())
            }
            Some(found) if found.key != secret.id() && self.needs_seal() => {
                Err(StoreError::OtherKey { file: file(), needed: found.key, given: secret.id() }
                    .into())
            }
            Some(found) if found.key == secret.id() && !found.is_of(secret) => {
                Err(StoreError::Forged { file: file() }.into())
            }
            _ => Ok(Some(bytes)),
        }
    }

    fn bad_text(&self, key: &str, source: TextError) -> StoreError {
        StoreError::Text { file: self.depot.describe(key), source }
    }
}

#[cfg(feature = "object-store")]
fn bucket(location: &str) -> Result<Arc<dyn Depot>> {
    // One that is not valid Unicode is none of those that are looked for.
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    Ok(Arc::new(Bucket::open(location, std::env::vars_os().filter_map(text))?))
}

#[cfg(not(feature = "object-store"))]
fn bucket(location: &str) -> Result<Arc<dyn Depot>> {
    let reason =
        "archives lie in directories; object stores were left out when this program was built";
    Err(StoreError::Option(format!("\"{location}\" can't be used: {reason}")).into())
}
