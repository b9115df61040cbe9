//! Manifests of stored files, and the marker file of an archive.
//!
//! The manifest `NAME.manifest` lies beside the stored file. It is stored last, when the file is
//! durable, and never replaced: once it exists, the file has been stored. So it decides between
//! writers that store one name at the same time.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use super::codec::{Codec, Compression};
use super::layout::LayoutKind;
use super::seal::KeyId;
use super::text::{Lines, Writer, number, unhex};
use crate::digest::Digest;
use crate::error::ManifestError;

const FILE_TITLE: &str = "forebay archive manifest 1";
const ARCHIVE_TITLE: &str = "forebay archive 1";

/// What a WAL file says about itself. History and backup files say nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WalOrigin {
    /// The cluster's system identifier.
    pub system: Option<u64>,
    /// The timeline.
    pub timeline: Option<u32>,
    /// Bytes of a segment.
    pub segment_size: Option<u32>,
}

/// The manifest of a stored file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The WAL file's name.
    pub name: String,
    /// Its length in bytes.
    pub size: u64,
    /// SHA-256 of its contents.
    pub sha256: Digest,
    /// Name of the stored file, which lies beside the manifest.
    pub stored: String,
    /// Length of the stored file in bytes.
    pub stored_size: u64,
    /// SHA-256 of its contents.
    pub stored_sha256: Digest,
    /// How it was compressed and encrypted.
    pub codec: Codec,
    /// Where it comes from.
    pub origin: WalOrigin,
    /// When it was archived, in seconds since 1970.
    pub archived: u64,
}

impl Manifest {
    /// The text, without its authentication.
    pub(super) fn to_text(&self) -> Writer {
        let sealed = self.codec.key.map(|key| format!("xchacha20poly1305 {key}"));
        Writer::new(FILE_TITLE)
            .line("name", &self.name)
            .line("size", self.size)
            .line("sha256", self.sha256)
            .line("stored", &self.stored)
            .line("stored-size", self.stored_size)
            .line("stored-sha256", self.stored_sha256)
            .line("compression", self.codec.compression.name())
            .line("encryption", sealed.as_deref().unwrap_or("none"))
            .optional("system", self.origin.system)
            .optional("timeline", self.origin.timeline)
            .optional("segment-size", self.origin.segment_size)
            .line("archived", self.archived)
    }

    /// Parses a manifest; its authentication is not checked.
    pub fn parse(bytes: &[u8]) -> Result<Manifest, ManifestError> {
        let lines = Lines::parse(FILE_TITLE, bytes)?;
        let plain = |text: &str| (!text.contains(['/', '\0'])).then(|| text.to_owned());
        let key = |text: &str| match text.split_once(' ') {
            Some(("xchacha20poly1305", key)) => unhex(key).map(|id| Some(KeyId(id))),
            _ => (text == "none").then_some(None),
        };
        Ok(Manifest {
            name: lines.value("name", plain)?,
            size: lines.value("size", number)?,
            sha256: lines.value("sha256", Digest::parse)?,
            stored: lines.value("stored", plain)?,
            stored_size: lines.value("stored-size", number)?,
            stored_sha256: lines.value("stored-sha256", Digest::parse)?,
            codec: Codec {
                compression: lines.value("compression", Compression::by_name)?,
                key: lines.value("encryption", key)?,
            },
            origin: WalOrigin {
                system: lines.read("system", number)?,
                timeline: lines.read("timeline", number)?,
                segment_size: lines.read("segment-size", number)?,
            },
            archived: lines.value("archived", number)?,
        })
    }
}

/// Id of the key in an `auth` entry.
fn signer(text: &str) -> Option<KeyId> {
    text.split(' ').nth(1).and_then(unhex).map(KeyId)
}

/// The marker file `forebay-archive` at the root of an archive, which says what the archive is. The
/// first push creates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marker {
    /// The layout of the archive.
    pub layout: LayoutKind,
    /// System identifier of the cluster whose WAL it holds.
    pub system: Option<u64>,
    /// Id of the key that authenticates it and encrypts new files.
    pub key: Option<KeyId>,
}

impl Marker {
    /// Name of the file.
    pub const NAME: &str = "forebay-archive";

    /// The text, without its authentication.
    pub(super) fn to_text(self) -> Writer {
        Writer::new(ARCHIVE_TITLE)
            .line("layout", self.layout.name())
            .optional("system", self.system)
    }

    /// Parses a marker file; its authentication is not checked.
    pub fn parse(bytes: &[u8]) -> Result<Marker, ManifestError> {
        let lines = Lines::parse(ARCHIVE_TITLE, bytes)?;
        Ok(Marker {
            layout: lines.value("layout", LayoutKind::by_name)?,
            system: lines.read("system", number)?,
            key: lines.read("auth", signer)?,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        for key in [None, Some(KeyId([1, 2, 3, 4, 5, 6, 7, 0xff]))] {
            let manifest = Manifest {
                name: "000000010000000000000003".to_owned(),
                size: 16 << 20,
                sha256: Digest::of(b"a"),
                stored: "000000010000000000000003.zst".to_owned(),
                stored_size: 12_345,
                stored_sha256: Digest::of(b"b"),
                codec: Codec { compression: Compression::Zstd(5), key },
                origin: WalOrigin {
                    system: Some(u64::MAX),
                    timeline: Some(1),
                    segment_size: Some(16 << 20),
                },
                archived: 1_700_000_000,
            };
            assert_eq!(
                Manifest::parse(manifest.to_text().finish().as_bytes()),
                Ok(manifest.clone())
            );
            let escaping = Manifest { stored: "../x".to_owned(), ..manifest };
            assert!(matches!(
                Manifest::parse(escaping.to_text().finish().as_bytes()),
                Err(ManifestError::Invalid { word: "stored", .. })
            ));
        }
    }

    #[test]
    fn a_marker_is_read_as_it_was_written() {
        for system in [None, Some(5)] {
            for layout in [LayoutKind::Plain, LayoutKind::Hashed] {
                let marker = Marker { layout, system, key: None };
                assert_eq!(Marker::parse(marker.to_text().finish().as_bytes()), Ok(marker));
            }
        }
    }
}
