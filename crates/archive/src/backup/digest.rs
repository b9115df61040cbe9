//! Checksums of whole files, as a backup's manifest names them.

use forebay_format::crc;

use crate::digest::{Digest, Hasher};

/// Which checksum the files of a backup get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChecksumKind {
    /// None: only sizes are compared.
    None,
    /// CRC-32C: finds accidents.
    Crc32c,
    /// SHA-256: finds intent as well.
    #[default]
    Sha256,
}

impl ChecksumKind {
    /// The manifest's name of it.
    pub fn name(self) -> Option<&'static str> {
        match self {
            ChecksumKind::None => None,
            ChecksumKind::Crc32c => Some("CRC32C"),
            ChecksumKind::Sha256 => Some("SHA256"),
        }
    }

    /// By the manifest's name, or as it is written on a command line.
    pub fn by_name(name: &str) -> Option<ChecksumKind> {
        match name.to_ascii_lowercase().as_str() {
            "none" => Some(ChecksumKind::None),
            "crc32c" => Some(ChecksumKind::Crc32c),
            "sha256" => Some(ChecksumKind::Sha256),
            _ => None,
        }
    }
}

/// A checksum in the making.
#[derive(Debug)]
pub(super) enum FileDigest {
    None,
    Crc32c(u32),
    Sha256(Box<Hasher>),
}

impl FileDigest {
    pub(super) fn new(kind: ChecksumKind) -> FileDigest {
        match kind {
            ChecksumKind::None => FileDigest::None,
            ChecksumKind::Crc32c => FileDigest::Crc32c(0),
            ChecksumKind::Sha256 => FileDigest::Sha256(Box::new(Hasher::new())),
        }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            FileDigest::None => {}
            FileDigest::Crc32c(crc) => *crc = crc::append(*crc, bytes),
            FileDigest::Sha256(sha) => sha.update(bytes),
        }
    }

    /// In hexadecimal digits; empty where there is none. (A CRC's bytes are those of the number in
    /// memory.)
    pub(super) fn finish(self) -> String {
        match self {
            FileDigest::None => String::new(),
            FileDigest::Crc32c(crc) => hex(&crc.to_le_bytes()),
            FileDigest::Sha256(sha) => sha.finish().to_string(),
        }
    }
}

/// The SHA-256 of some bytes.
pub(super) fn sha256(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string()
}

/// Lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    let digit = |n: u8| char::from_digit(u32::from(n), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        let of = |kind, bytes: &[u8]| {
            let mut digest = FileDigest::new(kind);
            bytes.chunks(4).for_each(|part| digest.update(part));
            digest.finish()
        };
        // The check value of CRC-32C is E3069283.
        assert_eq!(of(ChecksumKind::Crc32c, b"123456789"), "839206e3");
        let sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of(ChecksumKind::Sha256, b"abc"), sha);
        assert_eq!(sha256(b"abc"), sha);
        assert_eq!(of(ChecksumKind::None, b"abc"), "");
        for kind in [ChecksumKind::None, ChecksumKind::Crc32c, ChecksumKind::Sha256] {
            assert_eq!(ChecksumKind::by_name(kind.name().unwrap_or("none")), Some(kind));
        }
    }
}
