//! Reads a WAL file from the archive: decrypts and decompresses it, and compares it with its
//! manifest.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::cell::RefCell;
use std::io::{self, Read};

use forebay_aio::IoBackend;

use super::codec::{self, Codec, Compression};
use super::depot::Download;
use super::layout::LayoutKind;
use super::manifest::Manifest;
use super::repository::Repository;
use super::seal::Key;
use crate::digest::{Digest, Hasher};
use crate::error::{ArchiveError, Result};
use crate::names::WalName;

/// Length limit of a WAL file.
const LONGEST: u64 = 1 << 30;
/// Bytes decoded at a time.
const STEP: usize = 512 << 10;

/// Receives a file piece by piece.
type Sink<'s> = &'s mut dyn FnMut(&mut IoBackend, &[u8]) -> Result<()>;

/// A file that was read from the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Length of the WAL file in bytes.
    pub size: u64,
    /// Hash of its contents.
    pub sha256: Digest,
    /// The manifest that it matches. Files that other programs stored have none.
    pub manifest: Option<Manifest>,
}

/// Lengths and hashes of a stored file and of the WAL file in it.
pub(super) struct ReadBack {
    pub size: u64,
    pub sha256: Digest,
    pub stored_size: u64,
    pub stored_sha256: Digest,
}

/// The part of a WAL file that was decoded.
struct Decoded {
    size: u64,
    /// None: the file is stored unchanged, so the stored file's hash is its hash.
    hasher: Option<Hasher>,
}

/// A stored file that has no manifest.
pub(super) struct WithoutManifest {
    pub key: String,
    pub file: String,
    pub compression: Compression,
    pub sealed: bool,
}

/// Reads a stored file and hashes it on the way. The sink uses the same backend between the reads.
struct Reading<'a, 'b> {
    io: &'a RefCell<&'b mut IoBackend>,
    file: Box<dyn Download + 'a>,
    hasher: Hasher,
    size: u64,
}

impl Read for Reading<'_, '_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut io = self.io.borrow_mut();
        let got = self.file.read(&mut io, buf).map_err(io::Error::other)?;
        self.hasher.update(buf.get(..got).expect("a read is not longer than its buffer"));
        self.size += got as u64;
        Ok(got)
    }
}

impl Repository {
    /// Gives the contents of a WAL file to `sink`, piece by piece. They are valid only if this
    /// succeeds. None: the archive exists and does not have the file.
    pub fn fetch(
        &self,
        io: &mut IoBackend,
        name: &WalName,
        sink: Sink<'_>,
    ) -> Result<Option<Fetched>> {
        let marker = self.require_marker(io)?;
        if let Some(manifest) = self.manifest(io, marker.layout, name)? {
            return self.fetch_with_manifest(io, marker.layout, name, manifest, sink).map(Some);
        }
        if let Some(found) = self.without_manifest(io, marker.layout, name)? {
            let codec = self.codec_of(&found)?;
            let read = self.read_back(io, name, &found.key, codec, LONGEST, sink)?;
            let ReadBack { size, sha256, .. } = read.ok_or_else(|| self.missing(&found.key))?;
            return Ok(Some(Fetched { size, sha256, manifest: None }));
        }
        // The file is absent only if the archive still exists.
        self.require_marker(io)?;
        Ok(None)
    }

    fn fetch_with_manifest(
        &self,
        io: &mut IoBackend,
        layout: LayoutKind,
        name: &WalName,
        manifest: Manifest,
        sink: Sink<'_>,
    ) -> Result<Fetched> {
        let key = format!("{}{}", layout.dir(name.as_str()), manifest.stored);
        let read = self.read_back(io, name, &key, manifest.codec, manifest.size, sink)?;
        let ReadBack { size, sha256, .. } = read.ok_or_else(|| self.missing(&key))?;
        if size != manifest.size {
            let reason = format!("it holds {size} bytes, but was archived with {}", manifest.size);
            return Err(self.damaged(&key, reason));
        }
        if sha256 != manifest.sha256 {
            let expected = manifest.sha256;
            let reason =
                format!("its contents have SHA-256 {sha256}, but were archived with {expected}");
            return Err(self.damaged(&key, reason));
        }
        Ok(Fetched { size, sha256, manifest: Some(manifest) })
    }

    /// The codec of a file that has no manifest. Its ending does not tell the key.
    pub(super) fn codec_of(&self, found: &WithoutManifest) -> Result<Codec> {
        let key = match (&self.options.key, found.sealed) {
            (_, false) => None,
            (Some(key), true) => Some(key.id()),
            (None, true) => return Err(self.no_key(&found.key, None)),
        };
        Ok(Codec { compression: found.compression, key })
    }

    /// Looks for a stored file of this name, without a manifest.
    pub(super) fn without_manifest(
        &self,
        io: &mut IoBackend,
        layout: LayoutKind,
        name: &WalName,
    ) -> Result<Option<WithoutManifest>> {
        let dir = layout.dir(name.as_str());
        let found = self.depot.find(io, &format!("{dir}{name}"), &Codec::ENDINGS)?;
        Ok(found.map(|key| {
            let file = key.strip_prefix(&dir).expect("a key begins with its directory").to_owned();
            let ending = file.strip_prefix(name.as_str()).expect("and goes on with the name");
            let (compression, sealed) = Codec::of_ending(ending);
            WithoutManifest { key, file, compression, sealed }
        }))
    }

    /// Reads and decodes a stored file, which may hold at most `most` bytes. None: there is none.
    pub(super) fn read_back(
        &self,
        io: &mut IoBackend,
        name: &WalName,
        key: &str,
        codec: Codec,
        most: u64,
        sink: Sink<'_>,
    ) -> Result<Option<ReadBack>> {
        let secret = self.key_for(key, codec.key)?;
        let Some(file) = self.depot.open(io, key)? else { return Ok(None) };
        let io = RefCell::new(io);
        let mut reading = Reading { io: &io, file, hasher: Hasher::new(), size: 0 };
        let mut decoded = Decoded { size: 0, hasher: (!codec.is_plain()).then(Hasher::new) };
        let read = self.decode(&mut reading, name, key, (codec, secret, most), &mut decoded, sink);
        reading.file.close(&mut io.borrow_mut());
        read?;
        let stored_sha256 = reading.hasher.finish();
        let sha256 = decoded.hasher.map_or(stored_sha256, Hasher::finish);
        Ok(Some(ReadBack { size: decoded.size, sha256, stored_size: reading.size, stored_sha256 }))
    }

    fn decode(
        &self,
        reading: &mut Reading<'_, '_>,
        name: &WalName,
        key: &str,
        (codec, secret, most): (Codec, Option<&Key>, u64),
        decoded: &mut Decoded,
        sink: Sink<'_>,
    ) -> Result<()> {
        let failed = |error: io::Error| self.reading_failed(key, error);
        let io = reading.io;
        let mut decoder = codec::decoder(&mut *reading, codec.compression, secret, name.as_str())
            .map_err(failed)?;
        let mut buf = vec![0; STEP];
        loop {
            let got = match decoder.read(&mut buf) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                got => got.map_err(failed)?,
            };
            if got == 0 {
                break;
            }
            let bytes = buf.get(..got).expect("a read is not longer than its buffer");
            decoded.size += got as u64;
            if decoded.size > most {
                return Err(self.damaged(key, format!("it holds more than {most} bytes")));
            }
            if let Some(hasher) = &mut decoded.hasher {
                hasher.update(bytes);
            }
            sink(&mut io.borrow_mut(), bytes)?;
        }
        drop(decoder);
        // Bytes after the end of the compressed data belong to the stored file, too.
        io::copy(reading, &mut io::sink()).map(drop).map_err(failed)
    }

    /// The depot's errors pass through the decoders unchanged; all others mean damage.
    fn reading_failed(&self, key: &str, error: io::Error) -> ArchiveError {
        error.downcast().unwrap_or_else(|other| self.damaged(key, other.to_string()))
    }
}
