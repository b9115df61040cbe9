//! Encryption of stored files: XChaCha20-Poly1305 in pieces, so that no file need be in memory
//! whole.
//!
//! ```text
//!   0          8        16            35
//!   +----------+--------+-------------+---------------------+-----+---------------------+
//!   | FBYSEAL1 | key id | random      | 65,536 bytes sealed | tag | ... the rest sealed | tag
//!   +----------+--------+-------------+---------------------+-----+---------------------+
//! ```
//!
//! - key id: which key, without telling it: the beginning of a hash of it
//! - random: new for every file; with the piece's number and whether it is the last (4 + 1 bytes)
//!   it is the piece's nonce
//!
//! So pieces can be neither exchanged, left out nor cut off. The file's name and these first 35
//! bytes are authenticated with each of them: a file that was given another file's name is refused.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fmt;
use std::io::{self, Read};
use std::path::Path;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use forebay_aio::Backend;
use sha2::{Digest, Sha256};

use super::error::StoreError;
use super::text::{hex, unhex};
use crate::error::{ArchiveError, Result as ArchiveResult};

const MAGIC: [u8; 8] = *b"FBYSEAL1";
const RANDOM: usize = 19;
/// Bytes of a nonce: the random ones, a piece's number, whether it is the last.
const NONCE: usize = RANDOM + 5;
const HEADER: usize = 8 + 8 + RANDOM;
/// Bytes sealed as one.
const PIECE: usize = 64 << 10;
const TAG: usize = 16;

/// Names a key without telling it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyId(pub [u8; 8]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// A key of 32 bytes.
#[derive(Clone)]
pub struct Key {
    id: KeyId,
    cipher: XChaCha20Poly1305,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id)
    }
}

impl Key {
    /// This key.
    pub fn from_bytes(bytes: [u8; 32]) -> Key {
        let mut id = [0; 8];
        let hash =
            Sha256::new().chain_update(b"forebay archive key").chain_update(bytes).finalize();
        id.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
        Key { id: KeyId(id), cipher: XChaCha20Poly1305::new(&bytes.into()) }
    }

    /// The contents of a key file: 32 bytes, or 64 hexadecimal digits with white space around.
    pub fn parse(file: &[u8]) -> Option<Key> {
        if let Ok(bytes) = <[u8; 32]>::try_from(file) {
            return Some(Key::from_bytes(bytes));
        }
        std::str::from_utf8(file).ok().and_then(|text| unhex(text.trim())).map(Key::from_bytes)
    }

    /// The key in a file, which nobody but its owner may read.
    pub fn read(be: &mut Backend, file: &Path) -> ArchiveResult<Key> {
        let names = be.aio().namespace();
        let stat = names.stat(file).map_err(ArchiveError::io("examine", file))?;
        let refuse =
            |reason: &str| StoreError::Option(format!("key file \"{}\" {reason}", file.display()));
        if stat.is_some_and(|stat| stat.mode & 0o077 != 0) {
            return Err(refuse("can be read by others: its mode must be 0600 or less").into());
        }
        let bytes = be.read_file(file).map_err(ArchiveError::io("read key file", file))?;
        let wrong = || refuse("holds no key: it must be 32 bytes, or 64 hexadecimal digits");
        Ok(Key::parse(&bytes).ok_or_else(wrong)?)
    }

    /// Its name.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// A tag by which the key's holder knows this text again.
    pub(super) fn authenticate(&self, text: &str) -> Result<AuthTag, StoreError> {
        let mut nonce = [0; NONCE];
        crate::random::fill(&mut nonce).map_err(|reason| StoreError::Random { reason })?;
        let payload = Payload { msg: &[], aad: text.as_bytes() };
        let sealed = self.cipher.encrypt(&nonce.into(), payload).map_err(|_| StoreError::Seal)?;
        let tag = sealed.try_into().map_err(|_| StoreError::Seal)?;
        Ok(AuthTag { nonce, tag })
    }

    /// Whether the tag is one that the key's holder made of this text.
    pub(super) fn is_authentic(&self, text: &str, tag: &AuthTag) -> bool {
        let payload = Payload { msg: &tag.tag, aad: text.as_bytes() };
        self.cipher.decrypt(&tag.nonce.into(), payload).is_ok()
    }
}

/// Authenticates a text: see [`auth`](super::auth).
pub(super) struct AuthTag {
    pub(super) nonce: [u8; NONCE],
    pub(super) tag: [u8; TAG],
}

/// What goes into every piece of one file.
struct Pieces {
    cipher: XChaCha20Poly1305,
    random: [u8; RANDOM],
    /// Header and name.
    associated: Vec<u8>,
    number: Option<u32>,
}

impl Pieces {
    fn new(key: &Key, header: &[u8; HEADER], name: &str) -> Pieces {
        let mut random = [0; RANDOM];
        random
            .iter_mut()
            .zip(header.iter().skip(HEADER - RANDOM))
            .for_each(|(to, from)| *to = *from);
        let associated = [header.as_slice(), name.as_bytes()].concat();
        Pieces { cipher: key.cipher.clone(), random, associated, number: Some(0) }
    }

    /// The next piece's nonce. None: there were 2^32 already.
    fn nonce(&mut self, last: bool) -> Option<XNonce> {
        let number = self.number?;
        self.number = number.checked_add(1);
        let mut nonce = [0; NONCE];
        let parts = self.random.iter().copied().chain(number.to_be_bytes()).chain([u8::from(last)]);
        nonce.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
        Some(nonce.into())
    }

    fn seal(&mut self, piece: &[u8], last: bool) -> Option<Vec<u8>> {
        let nonce = self.nonce(last)?;
        self.cipher.encrypt(&nonce, Payload { msg: piece, aad: &self.associated }).ok()
    }

    fn open(&mut self, piece: &[u8], last: bool) -> Option<Vec<u8>> {
        let nonce = self.nonce(last)?;
        self.cipher.decrypt(&nonce, Payload { msg: piece, aad: &self.associated }).ok()
    }
}

/// Encrypts a file.
pub(super) struct Sealer {
    pieces: Pieces,
    /// To be written yet.
    header: Option<[u8; HEADER]>,
    /// Up to a piece.
    waiting: Vec<u8>,
}

impl Sealer {
    pub fn new(key: &Key, name: &str) -> Result<Sealer, StoreError> {
        let mut random = [0; RANDOM];
        crate::random::fill(&mut random).map_err(|reason| StoreError::Random { reason })?;
        let mut header = [0; HEADER];
        let parts = MAGIC.into_iter().chain(key.id.0).chain(random);
        header.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
        let pieces = Pieces::new(key, &header, name);
        Ok(Sealer { pieces, header: Some(header), waiting: Vec::with_capacity(PIECE) })
    }

    /// Seals what makes whole pieces, as long as something follows.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), StoreError> {
        while let Some((fitting, rest)) = bytes.split_at_checked(PIECE - self.waiting.len()) {
            if rest.is_empty() {
                break;
            }
            self.waiting.extend_from_slice(fitting);
            self.seal(false, out)?;
            bytes = rest;
        }
        self.waiting.extend_from_slice(bytes);
        Ok(())
    }

    pub fn finish(mut self, out: &mut Vec<u8>) -> Result<(), StoreError> {
        self.seal(true, out)
    }

    fn seal(&mut self, last: bool, out: &mut Vec<u8>) -> Result<(), StoreError> {
        if let Some(header) = self.header.take() {
            out.extend_from_slice(&header);
        }
        let sealed = self.pieces.seal(&self.waiting, last).ok_or(StoreError::Seal)?;
        out.extend_from_slice(&sealed);
        self.waiting.clear();
        Ok(())
    }
}

/// Decrypts a file. What it gives out has been authenticated, but for that the file goes on or ends
/// as it should: an error at the end tells.
pub(super) struct Opener<R> {
    stored: R,
    key: Key,
    name: String,
    pieces: Option<Pieces>,
    /// Of the next piece; more than a piece and its tag means that this one is not the last.
    sealed: Vec<u8>,
    opened: io::Cursor<Vec<u8>>,
    ended: bool,
}

impl<R: Read> Opener<R> {
    pub fn new(stored: R, key: &Key, name: &str) -> Opener<R> {
        let (key, name) = (key.clone(), name.to_owned());
        let opened = io::Cursor::new(Vec::new());
        Opener { stored, key, name, pieces: None, sealed: Vec::new(), opened, ended: false }
    }

    fn begin(&mut self) -> io::Result<Pieces> {
        let mut header = [0; HEADER];
        self.stored.read_exact(&mut header)?;
        let (magic, rest) = header.split_at(8);
        if magic != MAGIC {
            return Err(invalid("it is not encrypted as files of an archive are"));
        }
        if !rest.starts_with(&self.key.id.0) {
            let id = hex(rest.get(..8).unwrap_or_default());
            return Err(invalid(&format!(
                "it is encrypted with another key, {id}, not {}",
                self.key.id
            )));
        }
        Ok(Pieces::new(&self.key, &header, &self.name))
    }

    /// Opens the next piece.
    fn advance(&mut self) -> io::Result<()> {
        let mut pieces = match self.pieces.take() {
            Some(pieces) => pieces,
            None => self.begin()?,
        };
        let wanted = PIECE + TAG + 1 - self.sealed.len();
        (&mut self.stored).take(wanted as u64).read_to_end(&mut self.sealed)?;
        let last = self.sealed.len() <= PIECE + TAG;
        let next = self.sealed.split_off(self.sealed.len().min(PIECE + TAG));
        let opened = pieces.open(&self.sealed, last);
        let opened = opened.ok_or_else(|| {
            invalid("it is damaged or cut off, or another file's: it can't be decrypted")
        })?;
        (self.sealed, self.ended) = (next, last);
        self.opened = io::Cursor::new(opened);
        self.pieces = Some(pieces);
        Ok(())
    }
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

impl<R: Read> Read for Opener<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let got = self.opened.read(buf)?;
            if got > 0 || self.ended || buf.is_empty() {
                return Ok(got);
            }
            self.advance()?;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn key_files() {
        let bytes = [0x5a; 32];
        let id = Key::from_bytes(bytes).id();
        assert_eq!(Key::parse(&bytes).unwrap().id(), id);
        assert_eq!(Key::parse(format!("{}\n", "5a".repeat(32)).as_bytes()).unwrap().id(), id);
        for bad in ["", "5a", &"5a".repeat(31), &"zz".repeat(32)] {
            assert!(Key::parse(bad.as_bytes()).is_none(), "{bad:?}");
        }
        assert!(!format!("{:?}", Key::from_bytes(bytes)).contains("5a5a"));
    }

    #[test]
    fn a_file_under_another_name_is_refused() {
        let key = Key::from_bytes([1; 32]);
        let mut sealer = Sealer::new(&key, "A").unwrap();
        let mut stored = Vec::new();
        sealer.push(b"secret", &mut stored).unwrap();
        sealer.finish(&mut stored).unwrap();
        let read = |name| {
            let mut out = Vec::new();
            Opener::new(stored.as_slice(), &key, name).read_to_end(&mut out).map(|_| out)
        };
        assert_eq!(read("A").unwrap(), b"secret");
        assert_eq!(read("B").unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn each_file_is_encrypted_differently() {
        let key = Key::from_bytes([1; 32]);
        let seal = || {
            let mut out = Vec::new();
            Sealer::new(&key, "A").unwrap().finish(&mut out).unwrap();
            out
        };
        assert_ne!(seal(), seal());
    }
}
