//! Compresses and then encrypts a file, piece by piece, and reads it back.
//!
//! | Compression | Ending | Who else reads it |
//! |---|---|---|
//! | none | | anyone |
//! | lz4 | `.lz4` | `lz4 -d` |
//! | zstd | `.zst` | `zstd -d` |
//!
//! An encrypted file has one more ending, `.enc` (see [`seal`](super::seal)).

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::io::{self, Read, Write};

use super::seal::{Key, KeyId, Opener, Sealer};
use crate::error::{ArchiveError, Result};

/// How to compress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// LZ4 frames: fast.
    Lz4,
    /// Zstandard, at this level.
    Zstd(i32),
}

/// zstd's own default.
const ZSTD_LEVEL: i32 = 3;
const ZSTD_LEVELS: std::ops::RangeInclusive<i32> = 1..=22;

impl Compression {
    /// Its name, with the level.
    pub fn name(self) -> String {
        match self {
            Compression::None => "none".to_owned(),
            Compression::Lz4 => "lz4".to_owned(),
            Compression::Zstd(level) => format!("zstd:{level}"),
        }
    }

    /// Parses a name; zstd may be followed by a colon and a level.
    pub fn by_name(name: &str) -> Option<Compression> {
        match name {
            "none" => Some(Compression::None),
            "lz4" => Some(Compression::Lz4),
            "zstd" => Some(Compression::Zstd(ZSTD_LEVEL)),
            other => {
                let level = other.strip_prefix("zstd:")?.parse().ok()?;
                ZSTD_LEVELS.contains(&level).then_some(Compression::Zstd(level))
            }
        }
    }

    fn ending(self) -> &'static str {
        match self {
            Compression::None => "",
            Compression::Lz4 => ".lz4",
            Compression::Zstd(_) => ".zst",
        }
    }
}

/// Ending of an encrypted file's name.
const SEALED: &str = ".enc";

/// How a WAL file was compressed and encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Codec {
    /// The compression.
    pub compression: Compression,
    /// Id of the encryption key.
    pub key: Option<KeyId>,
}

impl Codec {
    /// All endings of stored files' names. A longer ending precedes its suffixes.
    pub(super) const ENDINGS: [&str; 6] = [".zst.enc", ".lz4.enc", ".enc", ".zst", ".lz4", ""];

    /// The ending of the stored file's name.
    pub fn ending(self) -> String {
        let sealed = if self.key.is_some() { SEALED } else { "" };
        format!("{}{sealed}", self.compression.ending())
    }

    /// Whether files are stored unchanged.
    pub(super) fn is_plain(self) -> bool {
        self.compression == Compression::None && self.key.is_none()
    }

    /// The compression that an ending stands for, and whether the file is encrypted.
    pub(super) fn of_ending(ending: &str) -> (Compression, bool) {
        let (rest, sealed) =
            ending.strip_suffix(SEALED).map_or((ending, false), |rest| (rest, true));
        let all = [Compression::Lz4, Compression::Zstd(ZSTD_LEVEL)];
        (all.into_iter().find(|c| c.ending() == rest).unwrap_or_default(), sealed)
    }
}

/// Compresses and encrypts a file.
pub(super) struct Encoder {
    compressor: Compressor,
    sealer: Option<Sealer>,
}

enum Compressor {
    None(Vec<u8>),
    Lz4(Box<lz4_flex::frame::FrameEncoder<Vec<u8>>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Encoder {
    /// Encodes the WAL file `name`.
    pub fn new(compression: Compression, key: Option<&Key>, name: &str) -> Result<Encoder> {
        let compressor = match compression {
            Compression::None => Compressor::None(Vec::new()),
            Compression::Lz4 => {
                Compressor::Lz4(Box::new(lz4_flex::frame::FrameEncoder::new(Vec::new())))
            }
            Compression::Zstd(level) => {
                let mut encoder =
                    zstd::stream::write::Encoder::new(Vec::new(), level).map_err(compressing)?;
                encoder.include_checksum(true).map_err(compressing)?;
                Compressor::Zstd(encoder)
            }
        };
        let sealer = key.map(|key| Sealer::new(key, name)).transpose()?;
        Ok(Encoder { compressor, sealer })
    }

    /// Takes the next bytes of the file, and appends the encoded bytes to `out` that are ready.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let compressed = match &mut self.compressor {
            Compressor::None(buffer) => {
                if self.sealer.is_none() {
                    out.extend_from_slice(bytes);
                    return Ok(());
                }
                buffer.extend_from_slice(bytes);
                buffer
            }
            Compressor::Lz4(encoder) => {
                encoder.write_all(bytes).map_err(compressing)?;
                encoder.get_mut()
            }
            Compressor::Zstd(encoder) => {
                encoder.write_all(bytes).map_err(compressing)?;
                encoder.get_mut()
            }
        };
        match &mut self.sealer {
            Some(sealer) => sealer.push(compressed, out)?,
            None => out.append(compressed),
        }
        compressed.clear();
        Ok(())
    }

    /// Appends the rest to `out`.
    pub fn finish(self, out: &mut Vec<u8>) -> Result<()> {
        let mut compressed = match self.compressor {
            Compressor::None(buffer) => buffer,
            Compressor::Lz4(encoder) => {
                encoder.finish().map_err(|e| compressing(io::Error::other(e)))?
            }
            Compressor::Zstd(encoder) => encoder.finish().map_err(compressing)?,
        };
        match self.sealer {
            Some(mut sealer) => {
                sealer.push(&compressed, out)?;
                sealer.finish(out)
            }
            None => {
                out.append(&mut compressed);
                Ok(())
            }
        }
    }
}

fn compressing(error: io::Error) -> ArchiveError {
    ArchiveError::Encode { operation: "compress", reason: error.to_string() }
}

/// Decrypts and decompresses the WAL file `name`.
pub(super) fn decoder<'a, R: Read + 'a>(
    stored: R,
    compression: Compression,
    key: Option<&Key>,
    name: &str,
) -> io::Result<Box<dyn Read + 'a>> {
    match key {
        Some(key) => decompressor(Opener::new(stored, key, name), compression),
        None => decompressor(stored, compression),
    }
}

fn decompressor<'a, R: Read + 'a>(
    compressed: R,
    compression: Compression,
) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match compression {
        Compression::None => Box::new(compressed),
        Compression::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(compressed)),
        Compression::Zstd(_) => Box::new(zstd::stream::read::Decoder::new(compressed)?),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    const NAME: &str = "000000010000000000000003";

    /// The first half compresses well, the second does not.
    fn sample(len: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        (0..len)
            .map(|n| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if n < len / 2 { (n / 100) as u8 } else { (state >> 56) as u8 }
            })
            .collect()
    }

    fn encode(bytes: &[u8], compression: Compression, key: Option<&Key>, step: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(compression, key, NAME).unwrap();
        bytes.chunks(step).for_each(|chunk| encoder.push(chunk, &mut out).unwrap());
        encoder.finish(&mut out).unwrap();
        out
    }

    fn decode(stored: &[u8], compression: Compression, key: Option<&Key>) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        decoder(stored, compression, key, NAME)?.read_to_end(&mut out)?;
        Ok(out)
    }

    const ALL: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd(1)];

    #[test]
    fn every_codec_decodes_what_it_encoded() {
        let key = Key::from_bytes([7; 32]);
        for compression in ALL {
            for key in [None, Some(&key)] {
                for len in [0, 1, 65_535, 65_536, 65_537, 131_072, 1 << 20] {
                    let bytes = sample(len);
                    let stored = encode(&bytes, compression, key, 10_007);
                    assert!(
                        decode(&stored, compression, key).unwrap() == bytes,
                        "{compression:?} {len}"
                    );
                }
            }
        }
    }

    #[test]
    fn damage_of_encrypted_files_is_always_detected() {
        let key = Key::from_bytes([7; 32]);
        let stored = encode(&sample(200_000), Compression::None, Some(&key), 1 << 20);
        for at in (0..stored.len()).step_by(997).chain([stored.len() - 1]) {
            let mut damaged = stored.clone();
            damaged[at] ^= 1;
            assert!(decode(&damaged, Compression::None, Some(&key)).is_err(), "byte {at}");
            assert!(decode(&stored[..at], Compression::None, Some(&key)).is_err(), "cut at {at}");
        }
        let mut longer = stored.clone();
        longer.push(0);
        assert!(decode(&longer, Compression::None, Some(&key)).is_err());
        let other = Key::from_bytes([8; 32]);
        let refusal = decode(&stored, Compression::None, Some(&other)).unwrap_err().to_string();
        assert!(refusal.contains("another key"), "{refusal}");
    }

    #[test]
    fn endings_identify_codecs() {
        for compression in ALL {
            for key in [None, Some(KeyId([0; 8]))] {
                let ending = Codec { compression, key }.ending();
                assert!(Codec::ENDINGS.contains(&ending.as_str()), "{ending}");
                let (found, sealed) = Codec::of_ending(&ending);
                assert_eq!(found.ending(), compression.ending());
                assert_eq!(sealed, key.is_some());
            }
        }
        for name in ["none", "lz4", "zstd:1", "zstd:22"] {
            assert_eq!(Compression::by_name(name).unwrap().name(), name);
        }
        for name in ["", "zstd:0", "zstd:23", "zstd:x", "gzip"] {
            assert_eq!(Compression::by_name(name), None);
        }
    }
}
