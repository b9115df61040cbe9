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

/// Tag of a pointer to a TOAST table.
const TAG_ON_DISK: u8 = 18;
/// Bytes of a compressed value before its compressed bytes: the header, raw size and method.
pub const COMPRESSED_HEADER_SIZE: usize = 8;
/// In the word of a size and a method: the size.
const SIZE_MASK: u32 = 0x3fff_ffff;
const METHOD_SHIFT: u32 = 30;

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
    External(ToastPointer),
}

impl Varlena<'_> {
    /// The value with its header, as it is stored: a plain one with a long header.
    pub fn encode(self) -> Vec<u8> {
        match self {
            Varlena::Plain(value) => [&long_header(value.len())[..], value].concat(),
            Varlena::Compressed { raw_size, method, data } => {
                let info = compression_info(raw_size, method).to_le_bytes();
                [&compressed_header(data.len())[..], &info, data].concat()
            }
            Varlena::External(pointer) => pointer.encode().to_vec(),
        }
    }
}

/// How values are compressed, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Method {
    /// PostgreSQL's own.
    Pglz = 0,
    /// LZ4, one block.
    Lz4 = 1,
}

impl Method {
    /// The method with a letter of `pg_attribute.attcompression`.
    pub const fn from_code(code: u8) -> Option<Method> {
        match code {
            b'p' => Some(Method::Pglz),
            b'l' => Some(Method::Lz4),
            _ => None,
        }
    }
}

/// Points to a value in a TOAST table.
///
/// ```text
///   0x01 | tag 18 | raw size, 4 | stored size and method, 4 | value id, 4 | relation, 4
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToastPointer {
    /// Size of the decompressed value with a long header.
    pub raw_size: u32,
    /// Stored size, with the compression method in its two highest bits.
    pub ext_info: u32,
    /// Identifies the value in the TOAST table.
    pub value_id: u32,
    /// The TOAST table.
    pub toast_rel: u32,
}

impl ToastPointer {
    /// Bytes of a pointer, header and tag included.
    pub const SIZE: usize = 18;

    /// Its stored form, header and tag included.
    pub fn encode(self) -> [u8; ToastPointer::SIZE] {
        let ToastPointer { raw_size, ext_info, value_id, toast_rel } = self;
        let ([a, b, c, d], [e, f, g, h]) = (raw_size.to_le_bytes(), ext_info.to_le_bytes());
        let ([i, j, k, l], [m, n, o, p]) = (value_id.to_le_bytes(), toast_rel.to_le_bytes());
        [1, TAG_ON_DISK, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
    }

    /// Reads the stored form.
    pub fn decode(bytes: &[u8]) -> Option<ToastPointer> {
        if bytes.len() != ToastPointer::SIZE || !bytes.starts_with(&[1, TAG_ON_DISK]) {
            return None;
        }
        Some(ToastPointer {
            raw_size: u32_at(bytes, 2)?,
            ext_info: u32_at(bytes, 6)?,
            value_id: u32_at(bytes, 10)?,
            toast_rel: u32_at(bytes, 14)?,
        })
    }

    /// Bytes that are stored in the TOAST table.
    pub const fn stored_size(self) -> u32 {
        self.ext_info & SIZE_MASK
    }

    /// How what is stored is compressed, if it is.
    pub const fn method(self) -> u8 {
        (self.ext_info >> METHOD_SHIFT) as u8
    }

    /// Bytes of the value. None if the pointer is damaged.
    pub fn value_size(self) -> Option<u32> {
        let size = self.raw_size.checked_sub(HEADER_SIZE as u32)?;
        (size as usize <= MAX_PAYLOAD && self.stored_size() <= size).then_some(size)
    }

    /// Whether what is stored is compressed.
    pub const fn is_compressed(self) -> bool {
        self.stored_size() < self.raw_size.saturating_sub(HEADER_SIZE as u32)
    }
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
    Some((split_compressed(body)?, len))
}

fn decode_external(bytes: &[u8]) -> Option<(Varlena<'_>, usize)> {
    let pointer = ToastPointer::decode(bytes.get(..ToastPointer::SIZE)?)?;
    Some((Varlena::External(pointer), ToastPointer::SIZE))
}

/// What follows the header of a compressed value: its raw size with the method, then the compressed
/// bytes.
pub fn split_compressed(body: &[u8]) -> Option<Varlena<'_>> {
    let info = u32_at(body, 0)?;
    let data = body.get(4..)?;
    Some(Varlena::Compressed {
        raw_size: info & SIZE_MASK,
        method: (info >> METHOD_SHIFT) as u8,
        data,
    })
}

/// The word before the compressed bytes of a value.
pub const fn compression_info(raw_size: u32, method: u8) -> u32 {
    raw_size | (method as u32) << METHOD_SHIFT
}

/// Compresses a value, without any header. `None` if that would not save more than two bytes,
/// headers counted, or if the method refuses it.
pub fn compress(value: &[u8], method: Method) -> Option<Vec<u8>> {
    let data = match method {
        Method::Pglz => pglz::compress(value)?,
        Method::Lz4 => lz4_flex::block::compress(value),
    };
    (data.len() + COMPRESSED_HEADER_SIZE + 2 < value.len()).then_some(data)
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

/// The header of a compressed value with this many compressed bytes.
#[inline]
pub const fn compressed_header(len: usize) -> [u8; HEADER_SIZE] {
    assert!(len <= MAX_PAYLOAD - 4);
    (((len + COMPRESSED_HEADER_SIZE) as u32) << 2 | 2).to_le_bytes()
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
    fn compression_must_save_more_than_two_bytes() {
        let value = vec![b'a'; 3000];
        for method in [Method::Pglz, Method::Lz4] {
            let data = compress(&value, method).unwrap();
            assert_eq!(decompress(3000, method as u8, &data).as_ref(), Ok(&value));
            assert_eq!(compress(b"short", method), None);
        }
        // LZ4 itself would save a byte.
        let noise: Vec<u8> = (0..40_u8).map(|n| n.wrapping_mul(101)).collect();
        assert_eq!(compress(&[&noise[..], &noise[..13]].concat(), Method::Lz4), None);
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
        let external = ToastPointer { raw_size: 2004, ext_info: 1000, value_id: 77, toast_rel: 88 };
        assert_eq!(decode(&pointer), Some((Varlena::External(external), 18)));
        assert_eq!((external.encode().as_slice(), external.is_compressed()), (&pointer[..], true));
        assert_eq!((external.value_size(), external.stored_size()), (Some(2000), 1000));
        let whole = ToastPointer { ext_info: 2000 | 1 << 30, ..external };
        assert!(!whole.is_compressed() && whole.value_size() == Some(2000));
        for bad in
            [ToastPointer { raw_size: 3, ..external }, ToastPointer { ext_info: 2001, ..external }]
        {
            assert_eq!(bad.value_size(), None, "{bad:?}");
        }
        assert_eq!(decode(&pointer[..17]), None);
        assert_eq!(decode(&[1, 9]), None);
        let compressed = [0x2a, 0, 0, 0, 100, 0, 0, 0x40, 1, 2];
        let expected = Varlena::Compressed { raw_size: 100, method: 1, data: &[1, 2] };
        assert_eq!(decode(&compressed), Some((expected, 10)));
        assert_eq!(expected.encode(), compressed);
        assert_eq!(Varlena::External(external).encode(), pointer);
        assert_eq!(Varlena::Plain(b"abc").encode(), b"\x1c\0\0\0abc");
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
