//! Keys, and the encryption of stored files by XChaCha20-Poly1305. A file is encrypted in pieces,
//! so that it need not be in memory as a whole.
//!
//! ```text
//!   0          8        16            35
//!   +----------+--------+-------------+---------------------+-----+---------------------+
//!   | FBYSEAL1 | key id | random      | 65,536 bytes sealed | tag | ... the rest sealed | tag
//!   +----------+--------+-------------+---------------------+-----+---------------------+
//! ```
//!
//! - key id: identifies the key without revealing it: the beginning of its hash
//! - random: new for every file. A piece's nonce is this, its number (4 bytes), and whether it is
//!   the last (1 byte).
//!
//! So pieces can't be exchanged, left out or cut off. The file's name and the first 35 bytes are
//! authenticated with each piece: a renamed file is refused.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fmt;
use std::io::{self, Read};
use std::path::Path;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use forebay_aio::IoBackend;
use sha2::{Digest, Sha256};

use super::text::unhex;
use crate::error::{ArchiveError, Result};

const MAGIC: [u8; 8] = *b"FBYSEAL1";
const RANDOM: usize = 19;
/// Bytes of a nonce: the random ones, the piece's number, whether it is the last.
const NONCE: usize = RANDOM + 5;
const HEADER: usize = 8 + 8 + RANDOM;
/// Bytes of a piece.
const PIECE: usize = 64 << 10;
const TAG: usize = 16;

/// Identifies a key without revealing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyId(pub(super) [u8; 8]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
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
    /// The key with these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Key {
        let mut id = [0; 8];
        let hash =
            Sha256::new().chain_update(b"forebay archive key").chain_update(bytes).finalize();
        id.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
        Key { id: KeyId(id), cipher: XChaCha20Poly1305::new(&bytes.into()) }
    }

    /// Parses a key file: 32 bytes, or 64 hexadecimal digits and surrounding white space.
    fn parse(file: &[u8]) -> Option<Key> {
        if let Ok(bytes) = <[u8; 32]>::try_from(file) {
            return Some(Key::from_bytes(bytes));
        }
        std::str::from_utf8(file).ok().and_then(|text| unhex(text.trim())).map(Key::from_bytes)
    }

    /// Reads a key file, which only its owner may be allowed to read.
    pub fn read(io: &mut IoBackend, file: &Path) -> Result<Key> {
        let names = io.aio().namespace();
        let stat = names.stat(file).map_err(ArchiveError::io("examine", file))?;
        let refuse = |reason: &str| {
            ArchiveError::refused(format!("key file \"{}\" {reason}", file.display()))
        };
        if stat.is_some_and(|stat| stat.mode & 0o077 != 0) {
            return Err(refuse("can be read by others: its mode must be 0600 or less"));
        }
        let bytes = io.read_file(file).map_err(ArchiveError::io("read key file", file))?;
        let wrong = || refuse("holds no key: it must be 32 bytes, or 64 hexadecimal digits");
        Key::parse(&bytes).ok_or_else(wrong)
    }

    /// The key's id.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// Makes a tag that only the key's owner can make for this text.
    pub(super) fn authenticate(&self, text: &str) -> Result<AuthTag> {
        let nonce = random::<NONCE>()?;
        let payload = Payload { msg: &[], aad: text.as_bytes() };
        let sealed = self.cipher.encrypt(&nonce.into(), payload).map_err(|_| too_long())?;
        let tag = sealed.try_into().map_err(|_| too_long())?;
        Ok(AuthTag { nonce, tag })
    }

    /// Whether the tag was made for this text with this key.
    pub(super) fn is_authentic(&self, text: &str, tag: &AuthTag) -> bool {
        let payload = Payload { msg: &tag.tag, aad: text.as_bytes() };
        self.cipher.decrypt(&tag.nonce.into(), payload).is_ok()
    }
}

/// Bytes that nobody can guess.
pub(super) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| ArchiveError::Encode {
        operation: "get random bytes to encrypt with",
        reason: error.to_string(),
    })?;
    Ok(bytes)
}

fn too_long() -> ArchiveError {
    ArchiveError::Encode { operation: "encrypt", reason: "the file is too long".to_owned() }
}

/// Authenticates a text: see [`auth`](super::auth).
pub(super) struct AuthTag {
    pub(super) nonce: [u8; NONCE],
    pub(super) tag: [u8; TAG],
}

/// Encrypts or decrypts the pieces of one file.
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

    /// The next piece's nonce. None: there were 2^32 pieces already.
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
    /// The header, until it is written.
    header: Option<[u8; HEADER]>,
    /// At most a piece.
    waiting: Vec<u8>,
}

impl Sealer {
    pub fn new(key: &Key, name: &str) -> Result<Sealer> {
        let mut header = [0; HEADER];
        let parts = MAGIC.into_iter().chain(key.id.0).chain(random::<RANDOM>()?);
        header.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
        let pieces = Pieces::new(key, &header, name);
        Ok(Sealer { pieces, header: Some(header), waiting: Vec::with_capacity(PIECE) })
    }

    /// Encrypts all whole pieces but the last, which may be the last of the file.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
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

    pub fn finish(mut self, out: &mut Vec<u8>) -> Result<()> {
        self.seal(true, out)
    }

    fn seal(&mut self, last: bool, out: &mut Vec<u8>) -> Result<()> {
        if let Some(header) = self.header.take() {
            out.extend_from_slice(&header);
        }
        let sealed = self.pieces.seal(&self.waiting, last).ok_or_else(too_long)?;
        out.extend_from_slice(&sealed);
        self.waiting.clear();
        Ok(())
    }
}

/// Decrypts a file. Each piece is authenticated before it is returned. If the file was cut off,
/// the last read returns an error.
pub(super) struct Opener<R> {
    stored: R,
    key: Key,
    name: String,
    pieces: Option<Pieces>,
    /// The next piece and its tag. If there is more, the piece is not the last.
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
            let id = hex::encode(rest.get(..8).unwrap_or_default());
            return Err(invalid(&format!(
                "it is encrypted with another key, {id}, not {}",
                self.key.id
            )));
        }
        Ok(Pieces::new(&self.key, &header, &self.name))
    }

    /// Decrypts the next piece.
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
    fn each_file_has_its_own_nonce() {
        let key = Key::from_bytes([1; 32]);
        let seal = || {
            let mut out = Vec::new();
            Sealer::new(&key, "A").unwrap().finish(&mut out).unwrap();
            out
        };
        assert_ne!(seal(), seal());
    }
}
