//! Stores a WAL file in the archive.
//!
//! ```text
//!   is there a manifest?
//!        │ no        └─ yes ──▶ hash the file ──▶ same contents? sync the stored copy: Identical
//!        │                                        else Different
//!   is there a stored file?
//!        │ no        └─ yes ──▶ hash both ──▶ same contents? sync it, store the manifest
//!        │                                    else Different
//!   read, hash, compress, encrypt, store, sync ──▶ name taken meanwhile? as above
//!        │
//!   store the manifest ──▶ another one is there meanwhile? our stored file is removed;
//!                          same contents: Identical, else Different
//! ```

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::PathBuf;

use forebay_aio::IoBackend;
use forebay_aio::sync::{SystemTime, UNIX_EPOCH};

use super::codec::{Codec, Encoder};
use super::depot::Upload;
use super::fetch::{ReadBack, WithoutManifest};
use super::layout::LayoutKind;
use super::manifest::{Manifest, Marker, WalOrigin};
use super::repository::Repository;
use crate::digest::{Digest, Hasher};
use crate::durable_dir::StoreOutcome;
use crate::error::{ArchiveError, Result};
use crate::module::Archived;
use crate::pipe::Piece;
use crate::source::Source;

/// Attempts to store a file that others store and remove at the same time.
const MOST_ATTEMPTS: usize = 3;

/// A stored file that was written.
struct Written {
    outcome: StoreOutcome,
    size: u64,
    sha256: Digest,
}

impl Repository {
    /// Stores a file durably. `system` is its cluster's system identifier, unless the file itself
    /// tells.
    pub fn put(
        &self,
        io: &mut IoBackend,
        source: &mut Source,
        system: Option<u64>,
    ) -> Result<Archived> {
        let stored = self.try_put(io, source, system);
        source.close(io);
        stored
    }

    fn try_put(
        &self,
        io: &mut IoBackend,
        source: &mut Source,
        system: Option<u64>,
    ) -> Result<Archived> {
        // The first piece tells the cluster. It is checked before anything is created.
        let mut first = source.next(io)?;
        let system = source.facts().map(|facts| facts.system_id).or(system);
        let marker = self.prepare(io, system, &source.path().to_string_lossy())?;
        let layout = marker.layout;
        let codec = Codec {
            compression: self.options.compression,
            key: self.options.key.as_ref().map(|key| key.id()),
        };
        let key =
            format!("{}{}{}", layout.dir(source.name().as_str()), source.name(), codec.ending());
        for attempt in 0..MOST_ATTEMPTS {
            if let Some(manifest) = self.manifest(io, layout, source.name())? {
                drain(io, source, first.take())?;
                return self.same(io, layout, source, &manifest);
            }
            if self.cleans_first && attempt == 0 {
                self.clean_beside(io, &layout.dir(source.name().as_str()));
            }
            let found = match self.without_manifest(io, layout, source.name())? {
                Some(found) => found,
                None => {
                    if attempt > 0 {
                        source.rewind(io);
                    }
                    self.check_encrypts(&marker)?;
                    let written = self.write(io, source, first.take(), codec, &key)?;
                    if written.outcome == StoreOutcome::Stored {
                        return self.store_manifest(io, layout, source, system, codec, &written);
                    }
                    let file = format!("{}{}", source.name(), codec.ending());
                    let (compression, sealed) = (codec.compression, codec.key.is_some());
                    WithoutManifest { key: key.clone(), file, compression, sealed }
                }
            };
            drain(io, source, first.take())?;
            if let Some(archived) = self.adopt(io, layout, source, system, &found)? {
                return Ok(archived);
            }
            // Another writer stored the file, found another manifest, and removed its file.
        }
        Err(self.missing(&key))
    }

    /// Refuses to store unencrypted files in an archive that was begun with a key.
    fn check_encrypts(&self, marker: &Marker) -> Result<()> {
        match (marker.key, &self.options.key) {
            (Some(key), None) => Err(self.no_key(Marker::NAME, Some(key))),
            _ => Ok(()),
        }
    }

    /// Writes the stored file.
    fn write(
        &self,
        io: &mut IoBackend,
        source: &mut Source,
        first: Option<Piece>,
        codec: Codec,
        key: &str,
    ) -> Result<Written> {
        let secret = self.options.key.as_ref();
        let encoder = match codec.is_plain() {
            true => None,
            false => Some(Encoder::new(codec.compression, secret, source.name().as_str())?),
        };
        let mut upload = self.depot.create(io, key)?;
        let copied = match encoder {
            None => copy(io, source, first, upload.as_mut()),
            Some(encoder) => encode(io, source, first, upload.as_mut(), encoder),
        };
        match copied.and_then(|copied| source.check_stop().map(|()| copied)) {
            Ok((size, sha256)) => {
                let outcome = upload.finish(io, Ok(()))?;
                Ok(Written { outcome, size, sha256 })
            }
            Err(error) => match upload.finish(io, Err(error)) {
                Err(error) => Err(error),
                Ok(_) => unreachable!("an upload that failed is not stored"),
            },
        }
    }

    /// Stores the manifest of a file that this process has just stored, unless another writer's is
    /// there already.
    fn store_manifest(
        &self,
        io: &mut IoBackend,
        layout: LayoutKind,
        source: &Source,
        system: Option<u64>,
        codec: Codec,
        written: &Written,
    ) -> Result<Archived> {
        let manifest = describe(source, system, codec, written.size, written.sha256)?;
        let key = layout.manifest(source.name().as_str());
        match self.store_text(io, &key, manifest.to_text())? {
            StoreOutcome::Stored => Ok(Archived::Stored),
            StoreOutcome::Exists => {
                let winner = self.winner(io, layout, source)?;
                if winner.stored != manifest.stored {
                    // Our file was not acknowledged, and the manifest names another one.
                    let dir = layout.dir(source.name().as_str());
                    self.depot.remove(io, &format!("{dir}{}", manifest.stored))?;
                }
                self.same(io, layout, source, &winner)
            }
        }
    }

    /// Stores the manifest of a file without one, if its contents are the same. A crash or another
    /// program left it. None: it is gone.
    fn adopt(
        &self,
        io: &mut IoBackend,
        layout: LayoutKind,
        source: &Source,
        system: Option<u64>,
        found: &WithoutManifest,
    ) -> Result<Option<Archived>> {
        let codec = self.codec_of(found)?;
        // Before it is read, so that it is read from the medium.
        if !self.depot.make_durable(io, &found.key)? {
            return Ok(None);
        }
        let read =
            self.read_back(io, source.name(), &found.key, codec, u64::MAX, &mut |_, _| Ok(()))?;
        let Some(ReadBack { size, sha256, stored_size, stored_sha256 }) = read else {
            return Ok(None);
        };
        self.compare(source, &found.key, size, sha256)?;
        let mut manifest = describe(source, system, codec, stored_size, stored_sha256)?;
        manifest.stored.clone_from(&found.file);
        let key = layout.manifest(source.name().as_str());
        match self.store_text(io, &key, manifest.to_text())? {
            StoreOutcome::Stored => Ok(Some(Archived::Identical)),
            StoreOutcome::Exists => {
                let winner = self.winner(io, layout, source)?;
                self.same(io, layout, source, &winner).map(Some)
            }
        }
    }

    /// The manifest that was stored first.
    fn winner(&self, io: &mut IoBackend, layout: LayoutKind, source: &Source) -> Result<Manifest> {
        let missing = || self.missing(&layout.manifest(source.name().as_str()));
        self.manifest(io, layout, source.name())?.ok_or_else(missing)
    }

    /// Compares the file with a manifest in the archive. If the contents are the same, makes the
    /// stored copy durable.
    fn same(
        &self,
        io: &mut IoBackend,
        layout: LayoutKind,
        source: &Source,
        manifest: &Manifest,
    ) -> Result<Archived> {
        let key = format!("{}{}", layout.dir(&manifest.name), manifest.stored);
        self.check_sealed(&key, manifest.codec.key)?;
        self.compare(source, &key, manifest.size, manifest.sha256)?;
        let (size, stored) = (self.depot.size(io, &key)?, manifest.stored_size);
        let size = size.ok_or_else(|| self.missing(&key))?;
        if size != stored {
            let reason = format!("it has {size} bytes, but was stored with {stored}");
            return Err(self.damaged(&key, reason));
        }
        self.depot.make_durable(io, &key)?;
        self.depot.make_durable(io, &layout.manifest(&manifest.name))?;
        Ok(Archived::Identical)
    }

    fn compare(&self, source: &Source, key: &str, stored_len: u64, stored: Digest) -> Result<()> {
        let (offered, offered_len) = (raw_digest(source)?, source.len());
        if (stored, stored_len) == (offered, offered_len) {
            return Ok(());
        }
        let file = PathBuf::from(self.depot.describe(key));
        Err(ArchiveError::Different { file, stored, stored_len, offered, offered_len })
    }
}

/// Reads the rest of a file, for its hash.
fn drain(io: &mut IoBackend, source: &mut Source, first: Option<Piece>) -> Result<()> {
    if let Some(piece) = first {
        source.give_back(piece.buf);
    }
    source.read_to_end(io).map(drop)
}

/// The first piece, which is read unless it was already.
fn or_next(io: &mut IoBackend, source: &mut Source, first: Option<Piece>) -> Result<Option<Piece>> {
    match first {
        Some(piece) => Ok(Some(piece)),
        None => source.next(io),
    }
}

/// Stores a file unchanged. Returns its length and hash.
fn copy(
    io: &mut IoBackend,
    source: &mut Source,
    first: Option<Piece>,
    upload: &mut dyn Upload,
) -> Result<(u64, Digest)> {
    let mut next = or_next(io, source, first)?;
    while let Some(piece) = next {
        upload.put(io, piece.buf, piece.len)?;
        next = source.next(io)?;
    }
    Ok((source.len(), raw_digest(source)?))
}

/// Stores a file compressed or encrypted. Returns the length and hash of the stored file.
fn encode(
    io: &mut IoBackend,
    source: &mut Source,
    first: Option<Piece>,
    upload: &mut dyn Upload,
    mut encoder: Encoder,
) -> Result<(u64, Digest)> {
    let (mut size, mut hasher, mut out) = (0, Hasher::new(), Vec::new());
    let mut store = |io: &mut IoBackend, out: &mut Vec<u8>| {
        hasher.update(out);
        size += out.len() as u64;
        let written = upload.write(io, out);
        out.clear();
        written
    };
    let mut next = or_next(io, source, first)?;
    while let Some(piece) = next {
        encoder.push(piece.bytes(), &mut out)?;
        source.give_back(piece.buf);
        store(io, &mut out)?;
        next = source.next(io)?;
    }
    encoder.finish(&mut out)?;
    store(io, &mut out)?;
    Ok((size, hasher.finish()))
}

/// The hash of a file that was read to its end.
fn raw_digest(source: &Source) -> Result<Digest> {
    source.digest().ok_or_else(|| ArchiveError::Vanished { file: source.path().to_path_buf() })
}

fn describe(
    source: &Source,
    system: Option<u64>,
    codec: Codec,
    stored_size: u64,
    stored_sha256: Digest,
) -> Result<Manifest> {
    let name = source.name().to_string();
    let facts = source.facts();
    let origin = WalOrigin {
        system: facts.map(|facts| facts.system_id).or(system),
        timeline: Some(source.name().timeline()),
        segment_size: facts.map(|facts| facts.segment_size.get()),
    };
    Ok(Manifest {
        stored: format!("{name}{}", codec.ending()),
        name,
        size: source.len(),
        sha256: raw_digest(source)?,
        stored_size,
        stored_sha256,
        codec,
        origin,
        archived: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
    })
}
