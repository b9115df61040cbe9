//! A WAL file into the archive.
//!
//! ```text
//!   manifest there? ── yes ──▶ hash the file ──▶ the same? sync the stored copy: Identical. Else: Different
//!        │ no
//!   stored file there? ── yes ──▶ hash both ──▶ the same? sync it, store the manifest. Else: Different
//!        │ no
//!   read, hash, compress, encrypt, store, sync ──▶ its name is taken meanwhile? as above
//!        │
//!   store the manifest ──▶ there is one meanwhile? The same contents: Identical; else Different; ours goes
//! ```

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::PathBuf;

use forebay_aio::Backend;
use forebay_aio::sync::{SystemTime, UNIX_EPOCH};

use super::codec::{Codec, Encoder};
use super::depot::Upload;
use super::fetch::{ReadBack, Unlisted};
use super::layout::LayoutKind;
use super::manifest::{Manifest, Marker, Origin};
use super::{Repository, StoreError};
use crate::digest::{Digest, Hasher};
use crate::error::{ArchiveError, Result};
use crate::module::Archived;
use crate::pipe::Piece;
use crate::place::Placed;
use crate::source::Source;

/// Attempts at a file that others store and take away meanwhile.
const MOST_TURNS: usize = 3;

/// A file that was written, and its hashes.
struct Written {
    placed: Placed,
    size: u64,
    sha256: Digest,
}

impl Repository {
    /// Stores a file; when it returns Ok, the archive has it durably. `system` is the cluster it is
    /// of, where the file itself does not say.
    pub fn put(
        &self,
        be: &mut Backend,
        source: &mut Source,
        system: Option<u64>,
    ) -> Result<Archived> {
        let stored = self.try_put(be, source, system);
        source.close(be);
        stored
    }

    fn try_put(
        &self,
        be: &mut Backend,
        source: &mut Source,
        system: Option<u64>,
    ) -> Result<Archived> {
        // The first piece tells whose it is, before anything is made.
        let mut first = source.next(be)?;
        let system = source.facts().map(|facts| facts.system_id).or(system);
        let marker = self.prepare(be, system, &source.path().to_string_lossy())?;
        let layout = marker.layout;
        let codec = Codec {
            compression: self.options.compression,
            key: self.options.key.as_ref().map(|key| key.id()),
        };
        let key =
            format!("{}{}{}", layout.dir(source.name().as_str()), source.name(), codec.ending());
        for turn in 0..MOST_TURNS {
            if let Some(manifest) = self.manifest(be, layout, source.name())? {
                drain(be, source, first.take())?;
                return self.same(be, layout, source, &manifest);
            }
            if self.tidies && turn == 0 {
                self.tidy(be, &layout.dir(source.name().as_str()));
            }
            let found = match self.unlisted(be, layout, source.name())? {
                Some(found) => found,
                None => {
                    if turn > 0 {
                        source.rewind(be);
                    }
                    self.check_not_in_the_clear(&marker)?;
                    let written = self.write(be, source, first.take(), codec, &key)?;
                    if written.placed == Placed::Stored {
                        return self.enlist(be, layout, source, system, codec, &written);
                    }
                    let file = format!("{}{}", source.name(), codec.ending());
                    let (compression, sealed) = (codec.compression, codec.key.is_some());
                    Unlisted { key: key.clone(), file, compression, sealed }
                }
            };
            drain(be, source, first.take())?;
            if let Some(archived) = self.adopt(be, layout, source, system, &found)? {
                return Ok(archived);
            }
            // Somebody stored it, lost to another one, and took it away.
        }
        Err(StoreError::Missing { file: self.depot.describe(&key) }.into())
    }

    /// Refuses to store unencrypted files in an archive that was begun with a key.
    fn check_not_in_the_clear(&self, marker: &Marker) -> Result<()> {
        match (marker.key, &self.options.key) {
            (Some(key), None) => {
                let file = self.depot.describe(Marker::NAME);
                Err(StoreError::NoKey { file, key: Some(key) }.into())
            }
            _ => Ok(()),
        }
    }

    /// Writes the stored file.
    fn write(
        &self,
        be: &mut Backend,
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
        let mut upload = self.depot.create(be, key)?;
        let copied = match encoder {
            None => copy(be, source, first, upload.as_mut()).map(|()| (source.len(), None)),
            Some(encoder) => {
                encode(be, source, first, upload.as_mut(), encoder).map(|(n, hash)| (n, Some(hash)))
            }
        };
        let copied = copied.and_then(|copied| source.check_stop().map(|()| copied));
        let (so_far, copied) = match copied {
            Ok(copied) => (Ok(()), Some(copied)),
            Err(error) => (Err(error), None),
        };
        let placed = upload.finish(be, so_far)?;
        let (size, hash) = copied.unwrap_or_default();
        let sha256 = match hash {
            Some(hash) => hash,
            None => raw_digest(source)?,
        };
        Ok(Written { placed, size, sha256 })
    }

    /// Stores the manifest of a file that was just stored, by this one; unless somebody else's is
    /// there already.
    fn enlist(
        &self,
        be: &mut Backend,
        layout: LayoutKind,
        source: &Source,
        system: Option<u64>,
        codec: Codec,
        written: &Written,
    ) -> Result<Archived> {
        let manifest = describe(source, system, codec, written.size, written.sha256)?;
        let key = layout.manifest(source.name().as_str());
        match self.store_text(be, &key, manifest.to_text())? {
            Placed::Stored => Ok(Archived::Stored),
            Placed::Exists => {
                let winner = self.winner(be, layout, source)?;
                if winner.stored != manifest.stored {
                    // Nobody was told of it, and the manifest says that another one is the file of
                    // this name.
                    let dir = layout.dir(source.name().as_str());
                    self.depot.remove(be, &format!("{dir}{}", manifest.stored))?;
                }
                self.same(be, layout, source, &winner)
            }
        }
    }

    /// A stored file without a manifest: left by a crash, or put there by somebody else. It gets
    /// one if it is the same. None: it is gone.
    fn adopt(
        &self,
        be: &mut Backend,
        layout: LayoutKind,
        source: &Source,
        system: Option<u64>,
        found: &Unlisted,
    ) -> Result<Option<Archived>> {
        let codec = self.codec_of(found)?;
        // First, so that what is read comes from the medium.
        if !self.depot.settle(be, &found.key)? {
            return Ok(None);
        }
        let read =
            self.read_back(be, source.name(), &found.key, codec, u64::MAX, &mut |_, _| Ok(()))?;
        let Some(ReadBack { size, sha256, stored_size, stored_sha256 }) = read else {
            return Ok(None);
        };
        self.compare(source, &found.key, size, sha256)?;
        let mut manifest = describe(source, system, codec, stored_size, stored_sha256)?;
        manifest.stored.clone_from(&found.file);
        let key = layout.manifest(source.name().as_str());
        match self.store_text(be, &key, manifest.to_text())? {
            Placed::Stored => Ok(Some(Archived::Identical)),
            Placed::Exists => {
                let winner = self.winner(be, layout, source)?;
                self.same(be, layout, source, &winner).map(Some)
            }
        }
    }

    /// The manifest that was first.
    fn winner(&self, be: &mut Backend, layout: LayoutKind, source: &Source) -> Result<Manifest> {
        let key = layout.manifest(source.name().as_str());
        let vanished = || StoreError::Missing { file: self.depot.describe(&key) };
        Ok(self.manifest(be, layout, source.name())?.ok_or_else(vanished)?)
    }

    /// The archive says that it has this file: if so, it is made sure that it has it durably.
    fn same(
        &self,
        be: &mut Backend,
        layout: LayoutKind,
        source: &Source,
        manifest: &Manifest,
    ) -> Result<Archived> {
        let key = format!("{}{}", layout.dir(&manifest.name), manifest.stored);
        self.check_sealed(&key, manifest.codec.key)?;
        self.compare(source, &key, manifest.size, manifest.sha256)?;
        let size = self.depot.size(be, &key)?;
        let damaged = |reason| StoreError::Damaged { file: self.depot.describe(&key), reason };
        match size {
            None => return Err(StoreError::Missing { file: self.depot.describe(&key) }.into()),
            Some(size) if size != manifest.stored_size => {
                let stored = manifest.stored_size;
                return Err(
                    damaged(format!("it has {size} bytes, but was stored with {stored}")).into()
                );
            }
            Some(_) => {}
        }
        self.depot.settle(be, &key)?;
        self.depot.settle(be, &layout.manifest(&manifest.name))?;
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

/// Reads what is left of a file, for its hash.
fn drain(be: &mut Backend, source: &mut Source, first: Option<Piece>) -> Result<()> {
    if let Some(piece) = first {
        source.give_back(piece.buf);
    }
    source.read_to_end(be).map(drop)
}

/// The first piece, if it was not read yet.
fn or_next(be: &mut Backend, source: &mut Source, first: Option<Piece>) -> Result<Option<Piece>> {
    match first {
        Some(piece) => Ok(Some(piece)),
        None => source.next(be),
    }
}

/// Stores a file as it is.
fn copy(
    be: &mut Backend,
    source: &mut Source,
    first: Option<Piece>,
    upload: &mut dyn Upload,
) -> Result<()> {
    let mut next = or_next(be, source, first)?;
    while let Some(piece) = next {
        upload.put(be, piece.buf, piece.len)?;
        next = source.next(be)?;
    }
    Ok(())
}

/// Stores a file compressed or encrypted; bytes and hash of that.
fn encode(
    be: &mut Backend,
    source: &mut Source,
    first: Option<Piece>,
    upload: &mut dyn Upload,
    mut encoder: Encoder,
) -> Result<(u64, Digest)> {
    let (mut size, mut hasher, mut out) = (0, Hasher::new(), Vec::new());
    let mut store = |be: &mut Backend, out: &mut Vec<u8>| {
        hasher.update(out);
        size += out.len() as u64;
        let written = upload.write(be, out);
        out.clear();
        written
    };
    let mut next = or_next(be, source, first)?;
    while let Some(piece) = next {
        encoder.push(piece.bytes(), &mut out)?;
        source.give_back(piece.buf);
        store(be, &mut out)?;
        next = source.next(be)?;
    }
    encoder.finish(&mut out)?;
    store(be, &mut out)?;
    Ok((size, hasher.finish()))
}

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
    let origin = Origin {
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
