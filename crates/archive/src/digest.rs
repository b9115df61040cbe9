//! Checksums of stored files: SHA-256 for WAL, and the kinds that a backup's manifest can have.

use std::fmt;

use forebay_format::crc;
use sha2::{Digest as _, Sha256};

/// A SHA-256 hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The hash of `bytes`.
    pub fn of(bytes: &[u8]) -> Digest {
        let mut hasher = Hasher::new();
        hasher.update(bytes);
        hasher.finish()
    }

    /// The hash itself.
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Parses 64 hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Option<Digest> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Digest(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Computes a SHA-256 hash piece by piece.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    pub fn new() -> Hasher {
        Hasher::default()
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all bytes.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

/// Which checksum the files of a base backup get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChecksumKind {
    /// None: only sizes are compared.
    None,
    /// CRC-32C: detects accidental damage.
    Crc32c,
    /// SHA-256: also detects deliberate changes.
    #[default]
    Sha256,
}

impl ChecksumKind {
    /// The name in `backup_manifest`; none for [`ChecksumKind::None`].
    pub fn name(self) -> Option<&'static str> {
        match self {
            ChecksumKind::None => None,
            ChecksumKind::Crc32c => Some("CRC32C"),
            ChecksumKind::Sha256 => Some("SHA256"),
        }
    }

    /// Parses a name, in any case; "none" is [`ChecksumKind::None`].
    pub fn by_name(name: &str) -> Option<ChecksumKind> {
        match name.to_ascii_lowercase().as_str() {
            "none" => Some(ChecksumKind::None),
            "crc32c" => Some(ChecksumKind::Crc32c),
            "sha256" => Some(ChecksumKind::Sha256),
            _ => None,
        }
    }
}

/// Computes the checksum of a backup's file piece by piece.
#[derive(Debug)]
pub(crate) enum FileChecksum {
    None,
    Crc32c(u32),
    Sha256(Box<Hasher>),
}

impl FileChecksum {
    pub fn new(kind: ChecksumKind) -> FileChecksum {
        match kind {
            ChecksumKind::None => FileChecksum::None,
            ChecksumKind::Crc32c => FileChecksum::Crc32c(0),
            ChecksumKind::Sha256 => FileChecksum::Sha256(Box::new(Hasher::new())),
        }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            FileChecksum::None => {}
            FileChecksum::Crc32c(crc) => *crc = crc::append(*crc, bytes),
            FileChecksum::Sha256(sha) => sha.update(bytes),
        }
    }

    /// The checksum in hexadecimal digits, empty if the kind is none. A CRC is written in its
    /// little-endian byte order, as PostgreSQL does.
    pub fn finish(self) -> String {
        match self {
            FileChecksum::None => String::new(),
            FileChecksum::Crc32c(crc) => hex::encode(crc.to_le_bytes()),
            FileChecksum::Sha256(sha) => sha.finish().to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_shown_as_sha256sum_shows_it() {
        let hash = Digest::of(b"abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), text);
        assert_eq!(Digest::parse(text), Some(hash));
        for bad in ["", &text[1..], &text.replace('b', "g"), &text.replace("ba", "é")] {
            assert_eq!(Digest::parse(bad), None, "{bad}");
        }
        let mut pieces = Hasher::new();
        [&b"a"[..], b"", b"bc"].iter().for_each(|piece| pieces.update(piece));
        assert_eq!(pieces.finish(), hash);
    }

    #[test]
    fn known_answers() {
        let of = |kind, bytes: &[u8]| {
            let mut checksum = FileChecksum::new(kind);
            bytes.chunks(4).for_each(|part| checksum.update(part));
            checksum.finish()
        };
        // The check value of CRC-32C is E3069283.
        assert_eq!(of(ChecksumKind::Crc32c, b"123456789"), "839206e3");
        let sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of(ChecksumKind::Sha256, b"abc"), sha);
        assert_eq!(of(ChecksumKind::None, b"abc"), "");
        for kind in [ChecksumKind::None, ChecksumKind::Crc32c, ChecksumKind::Sha256] {
            assert_eq!(ChecksumKind::by_name(kind.name().unwrap_or("none")), Some(kind));
        }
    }
}
