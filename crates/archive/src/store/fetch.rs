//! A WAL file out of the archive: decrypted, decompressed, and compared with its manifest.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::cell::RefCell;
use std::io::{self, Read};

use forebay_aio::Backend;

use super::codec::{self, Codec, Compression};
use super::depot::Download;
use super::layout::LayoutKind;
use super::manifest::Manifest;
use super::seal::Key;
use super::{Repository, StoreError};
use crate::digest::{Digest, Hasher};
use crate::error::{ArchiveError, Result};
use crate::names::WalName;

/// No WAL file is longer.
const LONGEST: u64 = 1 << 30;
/// Bytes read at once.
const STEP: usize = 512 << 10;

/// What came out of the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Bytes.
    pub size: u64,
    /// Their hash.
    pub sha256: Digest,
    /// The manifest they agree with; files that others put there have none.
    pub manifest: Option<Manifest>,
}

/// What was read of a stored file.
pub(super) struct ReadBack {
    pub size: u64,
    pub sha256: Digest,
    pub stored_size: u64,
    pub stored_sha256: Digest,
}

/// What came out of a stored file so far.
struct Decoded {
    size: u64,
    /// None: it is stored as it is, and its hash is that of what is stored.
    hasher: Option<Hasher>,
}

/// A stored file that has no manifest.
pub(super) struct Unlisted {
    pub key: String,
    pub file: String,
    pub compression: Compression,
    pub sealed: bool,
}

/// Reads a stored file, and hashes it as it is stored. The backend is lent to whoever uses it.
struct Reading<'a, 'b> {
    be: &'a RefCell<&'b mut Backend>,
    file: Box<dyn Download + 'a>,
    hasher: Hasher,
    size: u64,
}

impl Read for Reading<'_, '_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut be = self.be.borrow_mut();
        let got = self.file.read(&mut be, buf).map_err(io::Error::other)?;
        self.hasher.update(buf.get(..got).unwrap_or_default());
        self.size += got as u64;
        Ok(got)
    }
}

impl Repository {
    /// Gives a file's bytes to `sink`, piece by piece. None: the archive is there and does not have
    /// it. What `sink` got counts only if this succeeds.
    pub fn fetch(
        &self,
        be: &mut Backend,
        name: &WalName,
        sink: &mut dyn FnMut(&mut Backend, &[u8]) -> Result<()>,
    ) -> Result<Option<Fetched>> {
        let marker = self.ascertain(be)?;
        if let Some(manifest) = self.manifest(be, marker.layout, name)? {
            return self.fetch_listed(be, marker.layout, name, manifest, sink).map(Some);
        }
        if let Some(found) = self.unlisted(be, marker.layout, name)? {
            return self.fetch_unlisted(be, name, &found, sink).map(Some);
        }
        // It was not there; but was the archive, all the while?
        self.ascertain(be)?;
        Ok(None)
    }

    fn fetch_listed(
        &self,
        be: &mut Backend,
        layout: LayoutKind,
        name: &WalName,
        manifest: Manifest,
        sink: &mut dyn FnMut(&mut Backend, &[u8]) -> Result<()>,
    ) -> Result<Fetched> {
        let key = format!("{}{}", layout.dir(name.as_str()), manifest.stored);
        let read = self.read_back(be, name, &key, manifest.codec, manifest.size, sink)?;
        let Some(read) = read else {
            return Err(StoreError::Missing { file: self.depot.describe(&key) }.into());
        };
        let damaged =
            |reason: String| StoreError::Damaged { file: self.depot.describe(&key), reason };
        if read.size != manifest.size {
            let reason =
                format!("it holds {} bytes, but was archived with {}", read.size, manifest.size);
            return Err(damaged(reason).into());
        }
        if read.sha256 != manifest.sha256 {
            let reason = format!(
                "its contents have SHA-256 {}, but were archived with {}",
                read.sha256, manifest.sha256
            );
            return Err(damaged(reason).into());
        }
        Ok(Fetched { size: read.size, sha256: read.sha256, manifest: Some(manifest) })
    }

    fn fetch_unlisted(
        &self,
        be: &mut Backend,
        name: &WalName,
        found: &Unlisted,
        sink: &mut dyn FnMut(&mut Backend, &[u8]) -> Result<()>,
    ) -> Result<Fetched> {
        let codec = self.codec_of(found)?;
        let read = self.read_back(be, name, &found.key, codec, LONGEST, sink)?;
        let Some(read) = read else {
            return Err(StoreError::Missing { file: self.depot.describe(&found.key) }.into());
        };
        Ok(Fetched { size: read.size, sha256: read.sha256, manifest: None })
    }

    /// The codec of a file that has no manifest: its ending says it, but for the key.
    pub(super) fn codec_of(&self, found: &Unlisted) -> Result<Codec> {
        let key = match (&self.options.key, found.sealed) {
            (_, false) => None,
            (Some(key), true) => Some(key.id()),
            (None, true) => {
                let file = self.depot.describe(&found.key);
                return Err(StoreError::NoKey { file, key: None }.into());
            }
        };
        Ok(Codec { compression: found.compression, key })
    }

    /// A stored file of this name that has no manifest.
    pub(super) fn unlisted(
        &self,
        be: &mut Backend,
        layout: LayoutKind,
        name: &WalName,
    ) -> Result<Option<Unlisted>> {
        let dir = layout.dir(name.as_str());
        let found = self.depot.find(be, &format!("{dir}{name}"), &Codec::ENDINGS)?;
        Ok(found.map(|key| {
            let file = key.get(dir.len()..).unwrap_or_default().to_owned();
            let (compression, sealed) =
                Codec::of_ending(file.get(name.as_str().len()..).unwrap_or_default());
            Unlisted { key, file, compression, sealed }
        }))
    }

    /// Reads a stored file to its end; at most `most` bytes come out of it. None: it is not there.
    pub(super) fn read_back(
        &self,
        be: &mut Backend,
        name: &WalName,
        key: &str,
        codec: Codec,
        most: u64,
        sink: &mut dyn FnMut(&mut Backend, &[u8]) -> Result<()>,
    ) -> Result<Option<ReadBack>> {
        let secret = self.key_for(key, codec.key)?;
        let Some(file) = self.depot.open(be, key)? else { return Ok(None) };
        let be = RefCell::new(be);
        let mut reading = Reading { be: &be, file, hasher: Hasher::new(), size: 0 };
        let mut decoded = Decoded { size: 0, hasher: (!codec.is_plain()).then(Hasher::new) };
        let read = self.decode(&mut reading, name, key, (codec, secret, most), &mut decoded, sink);
        reading.file.close(&mut be.borrow_mut());
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
        sink: &mut dyn FnMut(&mut Backend, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let failed = |error: io::Error| self.reading_failed(key, error);
        let be = reading.be;
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
            let bytes = buf.get(..got).unwrap_or_default();
            decoded.size += got as u64;
            if decoded.size > most {
                let reason = format!("it holds more than {most} bytes");
                return Err(StoreError::Damaged { file: self.depot.describe(key), reason }.into());
            }
            if let Some(hasher) = &mut decoded.hasher {
                hasher.update(bytes);
            }
            sink(&mut be.borrow_mut(), bytes)?;
        }
        drop(decoder);
        // What is behind the end of what was compressed belongs to the stored file all the same.
        io::copy(reading, &mut io::sink()).map(drop).map_err(failed)
    }

    /// Errors of the place come through decoders as they are; the rest is damage.
    fn reading_failed(&self, key: &str, error: io::Error) -> ArchiveError {
        match error.downcast::<ArchiveError>() {
            Ok(own) => own,
            Err(other) => {
                StoreError::Damaged { file: self.depot.describe(key), reason: other.to_string() }
                    .into()
            }
        }
    }
}
