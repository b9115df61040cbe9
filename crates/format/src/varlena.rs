//! Variable-length values in tuples.
//!
//! ```text
//!   first byte   header                     contents                               aligned
//!   ......00     length << 2      4 bytes   value                                  yes
//!   ......10     length << 2 | 2  4 bytes   raw size and method (4 bytes),         yes
//!                                           compressed value
//!   .......1     length << 1 | 1  1 byte    value of at most 126 bytes             no
//!   00000001     1                1 byte    tag (1 byte), pointer to a TOAST value no
//! ```
//!
//! The length includes the header.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{bytes::u32_at, pglz};

/// Bytes of the long header.
pub const HEADER_SIZE: usize = 4;
/// Bytes of the short header.
pub const SHORT_HEADER_SIZE: usize = 1;
/// Longest value with a short header.
pub const MAX_SHORT_PAYLOAD: usize = 0x7f - SHORT_HEADER_SIZE;
/// Longest value with a long header.
pub const MAX_PAYLOAD: usize = (1 << 30) - 1 - HEADER_SIZE;

/// Tag of a pointer to a TOAST table; 18 bytes with header and tag.
const TAG_ON_DISK: u8 = 18;
const ON_DISK_POINTER: usize = 16;

/// Most bytes that a compressed byte can stand for, by any method.
const MAX_EXPANSION: usize = 255;

/// Why a compressed value can't be decompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecompressError {
    /// The method does not exist.
    #[error("value is compressed by unknown method {0}")]
    UnknownMethod(u8),
    /// The bytes do not decompress to the announced size.
    #[error("compressed value of {len} bytes is damaged: it does not have {raw_size} bytes")]
    Damaged {
        /// Compressed bytes.
        len: usize,
        /// The announced size.
        raw_size: u32,
    },
}

/// A stored value of variable length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Varlena<'a> {
    /// The value itself.
    Plain(&'a [u8]),
    /// Compressed in place: the raw size with the method in its two highest bits, then the
    /// compressed bytes.
    Compressed {
        /// Size of the decompressed value.
        raw_size: u32,
        /// 0 pglz, 1 LZ4.
        method: u8,
        /// The compressed bytes.
        data: &'a [u8],
    },
    /// A pointer into a TOAST table.
    External {
        /// Size of the decompressed value with a long header.
        raw_size: u32,
        /// Stored size, with the compression method in its two highest bits.
        ext_info: u32,
        /// Identifies the value in the TOAST table.
        value_id: u32,
        /// The TOAST table.
        toast_rel: u32,
    },
}

/// Decodes the value at the beginning of `bytes`, and returns it with its length, header included;
/// `None` if it is damaged or runs past the end.
#[inline]
pub fn decode(bytes: &[u8]) -> Option<(Varlena<'_>, usize)> {
    let first = *bytes.first()?;
    if first == 1 {
        return decode_external(bytes);
    }
    if first & 1 == 1 {
        let len = usize::from(first >> 1);
        return Some((Varlena::Plain(bytes.get(SHORT_HEADER_SIZE..len)?), len));
    }
    let word = u32_at(bytes, 0)?;
    let len = (word >> 2) as usize;
    let body = bytes.get(HEADER_SIZE..len)?;
    if word & 2 == 0 {
        return Some((Varlena::Plain(body), len));
    }
    let info = u32_at(body, 0)?;
    let data = body.get(4..)?;
    Some((
        Varlena::Compressed { raw_size: info & 0x3fff_ffff, method: (info >> 30) as u8, data },
        len,
    ))
}

fn decode_external(bytes: &[u8]) -> Option<(Varlena<'_>, usize)> {
    if *bytes.get(1)? != TAG_ON_DISK {
        return None;
    }
    let body = bytes.get(2..2 + ON_DISK_POINTER)?;
    let value = Varlena::External {
        raw_size: u32_at(body, 0)?,
        ext_info: u32_at(body, 4)?,
        value_id: u32_at(body, 8)?,
        toast_rel: u32_at(body, 12)?,
    };
    Some((value, 2 + ON_DISK_POINTER))
}

/// Decompresses a value; the arguments are those of [`Varlena::Compressed`]. Allocates no more than
/// the compressed bytes can stand for.
pub fn decompress(raw_size: u32, method: u8, data: &[u8]) -> Result<Vec<u8>, DecompressError> {
    let damaged = DecompressError::Damaged { len: data.len(), raw_size };
    let len = raw_size as usize;
    if len > MAX_PAYLOAD.min(data.len().saturating_mul(MAX_EXPANSION)) {
        return Err(damaged);
    }
    let mut out = vec![0; len];
    let whole = match method {
        0 => pglz::decompress(data, &mut out).is_ok(),
        1 => lz4_flex::block::decompress_into(data, &mut out).is_ok_and(|written| written == len),
        _ => return Err(DecompressError::UnknownMethod(method)),
    };
    if whole { Ok(out) } else { Err(damaged) }
}

/// Whether a value that begins with this byte has a header without alignment. (A zero byte is
/// padding or the beginning of a long header.)
#[inline]
pub(crate) const fn is_unaligned(first: u8) -> bool {
    first & 1 == 1
}

/// The long header of a value of a length, which must not exceed [`MAX_PAYLOAD`].
#[inline]
pub const fn long_header(len: usize) -> [u8; HEADER_SIZE] {
    assert!(len <= MAX_PAYLOAD);
    (((len + HEADER_SIZE) as u32) << 2).to_le_bytes()
}

/// The short header of a value of a length, which must not exceed [`MAX_SHORT_PAYLOAD`].
#[inline]
pub const fn short_header(len: usize) -> u8 {
    assert!(len <= MAX_SHORT_PAYLOAD);
    ((len + SHORT_HEADER_SIZE) as u8) << 1 | 1
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode_long(payload: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&long_header(payload.len()));
        out.extend_from_slice(payload);
    }

    fn encode_short(payload: &[u8], out: &mut Vec<u8>) {
        out.push(short_header(payload.len()));
        out.extend_from_slice(payload);
    }

    #[test]
    fn compressed_values_come_back() {
        let value: Vec<u8> = (0..3000).map(|n| (n % 7 + n / 500) as u8).collect();
        let pglz = pglz::compress(&value).unwrap();
        let lz4 = lz4_flex::block::compress(&value);
        for (method, data) in [(0, &pglz), (1, &lz4)] {
            assert_eq!(decompress(3000, method, data).as_ref(), Ok(&value));
            for raw_size in [0, 2000, 3001, 1 << 29] {
                let error = DecompressError::Damaged { len: data.len(), raw_size };
                assert!(decompress(raw_size, method, data) == Err(error), "{raw_size}");
            }
        }
        assert_eq!(decompress(3000, 2, &pglz), Err(DecompressError::UnknownMethod(2)));
    }

    #[test]
    fn headers() {
        let mut out = Vec::new();
        encode_short(b"abc", &mut out);
        assert_eq!(out, b"\x09abc");
        assert_eq!(decode(&out), Some((Varlena::Plain(b"abc"), 4)));
        out.clear();
        encode_long(&[7; 127], &mut out);
        assert_eq!(out[..4], [0x0c, 0x02, 0, 0]);
        assert_eq!(decode(&out), Some((Varlena::Plain(&[7; 127]), 131)));
        out.clear();
        encode_short(b"", &mut out);
        assert_eq!(out, [3]);
    }

    #[test]
    fn toasted_values() {
        let mut pointer = vec![1, 18];
        for n in [2004_u32, 1000, 77, 88] {
            pointer.extend_from_slice(&n.to_le_bytes());
        }
        let external =
            Varlena::External { raw_size: 2004, ext_info: 1000, value_id: 77, toast_rel: 88 };
        assert_eq!(decode(&pointer), Some((external, 18)));
        assert_eq!(decode(&pointer[..17]), None);
        assert_eq!(decode(&[1, 9]), None);
        let compressed = [0x2a, 0, 0, 0, 100, 0, 0, 0x40, 1, 2];
        let expected = Varlena::Compressed { raw_size: 100, method: 1, data: &[1, 2] };
        assert_eq!(decode(&compressed), Some((expected, 10)));
    }

    #[test]
    fn damaged_values_are_refused() {
        for bad in [&[][..], &[9, 1], &[0, 0, 0, 0], &[0x0c, 0, 0, 0], &[0x40, 0, 0, 0, 1], &[4, 0]]
        {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            if let Some((_, len)) = decode(&bytes) {
                prop_assert!(0 < len && len <= bytes.len());
            }
        }

        #[test]
        fn round_trip(payload: Vec<u8>) {
            let mut out = Vec::new();
            encode_long(&payload, &mut out);
            prop_assert_eq!(decode(&out), Some((Varlena::Plain(&payload), out.len())));
        }
    }
}
