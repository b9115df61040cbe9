//! Compressed page images (`wal_compression`).
//!
//! | Flag | Stored bytes | Supported |
//! |---|---|---|
//! | 8 | one LZ4 block, without its size | reading and writing |
//! | 16 | one Zstandard frame | reading and writing, at PostgreSQL's default level |
//! | 4 | pglz | reading and writing, PostgreSQL's default strategy |
//!
//! The page is compressed without its hole. A compressed image must store the length of the hole,
//! which otherwise follows from the image's length. It is used only if it is shorter even so.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{ids::BLOCK_SIZE, pglz, wal::error::RecordError};

pub(crate) const IMAGE_PGLZ: u8 = 4;
pub(crate) const IMAGE_LZ4: u8 = 8;
pub(crate) const IMAGE_ZSTD: u8 = 16;
/// Image flags: compressed by one of the methods.
pub(crate) const IMAGE_COMPRESSED: u8 = IMAGE_PGLZ | IMAGE_LZ4 | IMAGE_ZSTD;

/// ZSTD_CLEVEL_DEFAULT.
const ZSTD_LEVEL: i32 = 3;

/// How page images are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ImageCompression {
    /// PostgreSQL's own method.
    Pglz,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl ImageCompression {
    /// All methods with their names in `wal_compression`.
    pub const NAMES: [(&'static str, ImageCompression); 3] =
        [("pglz", Self::Pglz), ("lz4", Self::Lz4), ("zstd", Self::Zstd)];

    /// The method with a name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|&(_, method)| method)
    }

    pub(crate) const fn flag(self) -> u8 {
        match self {
            Self::Pglz => IMAGE_PGLZ,
            Self::Lz4 => IMAGE_LZ4,
            Self::Zstd => IMAGE_ZSTD,
        }
    }

    /// Compresses a page, given as the bytes before its hole and those behind. Returns `None`
    /// unless that saves more than `saving` bytes.
    pub(crate) fn compress(self, head: &[u8], tail: &[u8], saving: usize) -> Option<Vec<u8>> {
        let len = head.len() + tail.len();
        let mut whole = [0; BLOCK_SIZE];
        let bytes = if tail.is_empty() {
            head
        } else {
            let joined = whole.get_mut(..len).expect("head and tail fit a page");
            let (first, second) = joined.split_at_mut(head.len());
            first.copy_from_slice(head);
            second.copy_from_slice(tail);
            joined
        };
        let mut out = Vec::new();
        match self {
            Self::Pglz => out = pglz::compress(bytes)?,
            Self::Lz4 => {
                out.resize(lz4_flex::block::get_maximum_output_size(len), 0);
                let written = lz4_flex::block::compress_into(bytes, &mut out).ok()?;
                out.truncate(written);
            }
            Self::Zstd => {
                // Longer output would be of no use.
                out.resize(len, 0);
                let written =
                    zstd::bulk::compress_to_buffer(bytes, &mut out[..], ZSTD_LEVEL).ok()?;
                out.truncate(written);
            }
        }
        (out.len() + saving < len).then_some(out)
    }
}

/// Fails if there are several methods; none is fine.
pub(crate) fn check_method(method: u8) -> Result<(), RecordError> {
    match method {
        0 | IMAGE_PGLZ | IMAGE_LZ4 | IMAGE_ZSTD => Ok(()),
        _ => Err(RecordError::Malformed("image compressed by several methods")),
    }
}

/// Decompresses an image, which must fill `page`.
pub(crate) fn decompress(method: u8, bytes: &[u8], page: &mut [u8]) -> Result<(), RecordError> {
    check_method(method)?;
    let written = match method {
        IMAGE_PGLZ => pglz::decompress(bytes, page).ok().map(|()| page.len()),
        IMAGE_LZ4 => lz4_flex::block::decompress_into(bytes, page).ok(),
        IMAGE_ZSTD => zstd::bulk::decompress_to_buffer(bytes, page).ok(),
        _ => unreachable!("uncompressed images are not decompressed"),
    };
    match written {
        Some(written) if written == page.len() => Ok(()),
        Some(_) => Err(RecordError::Malformed("compressed image does not fill a page")),
        None => Err(RecordError::Malformed("compressed image is damaged")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::{
        ids::{Fork, PageTag, RelFileLocator},
        lsn::Lsn,
        page::{PageBytes, PageMut},
        wal::{Image, RecordBuilder, Rmgr, decode_record},
    };
    use proptest::prelude::*;

    const METHODS: [ImageCompression; 3] =
        [ImageCompression::Pglz, ImageCompression::Lz4, ImageCompression::Zstd];

    /// A page of text-like items and a hole.
    fn page(items: usize) -> PageBytes {
        let mut bytes = [0; BLOCK_SIZE];
        let mut page = PageMut(&mut bytes);
        page.init(0);
        for n in 0..items {
            page.add_item(format!("row number {n} of a table with a name").as_bytes(), None)
                .unwrap();
        }
        bytes
    }

    /// A page that nothing compresses.
    fn noise() -> PageBytes {
        let mut state = 1_u64;
        std::array::from_fn(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
    }

    fn record(page: &PageBytes, standard: bool, method: ImageCompression) -> Vec<u8> {
        let tag = PageTag::new(RelFileLocator::in_default(5, 16384), Fork::Main, 3);
        let image = Image { page, standard, apply: true };
        let builder = RecordBuilder::new(Rmgr::HEAP, 0, 9).block(0, tag, false, Some(image));
        let mut encoded = builder.compress(method).data(b"data").main(b"main").finish().unwrap();
        encoded.seal(Lsn(1));
        encoded.to_vec()
    }

    #[test]
    fn compressed_images_come_back() {
        let pages = [page(10), page(40), page(100), [0; BLOCK_SIZE], [7; BLOCK_SIZE]];
        for method in METHODS {
            for page in &pages {
                for standard in [false, true] {
                    let bytes = record(page, standard, method);
                    let decoded = decode_record(&bytes).unwrap();
                    let block = &decoded.blocks[0];
                    let image = block.image.unwrap();
                    assert_eq!((block.data, decoded.main), (&b"data"[..], &b"main"[..]));
                    assert!(image.is_compressed(), "{method:?}");
                    assert_eq!(image.flags & method.flag(), method.flag());
                    let mut restored = [0xee; BLOCK_SIZE];
                    image.restore(&mut restored).unwrap();
                    assert_eq!(&restored, page);
                    let mut again = RecordBuilder::from_decoded(&decoded).finish().unwrap();
                    again.seal(Lsn(1));
                    assert_eq!(again.to_vec(), bytes);
                }
            }
        }
    }

    #[test]
    fn what_does_not_get_shorter_stays_as_it_is() {
        let noise = noise();
        for method in METHODS {
            let bytes = record(&noise, false, method);
            let image = decode_record(&bytes).unwrap().blocks[0].image.unwrap();
            assert!(!image.is_compressed() && image.bytes == noise);
            // Shorter by no more than the length of the hole takes.
            let bytes: Vec<u8> = std::iter::repeat_n(3, 100).collect();
            let len = method.compress(&bytes, &[], 0).unwrap().len();
            assert!(method.compress(&bytes, &[], bytes.len() - len - 1).is_some());
            assert!(method.compress(&bytes, &[], bytes.len() - len).is_none());
        }
    }

    #[test]
    fn an_image_has_one_method() {
        let bytes = record(&page(10), true, ImageCompression::Lz4);
        let decoded = decode_record(&bytes).unwrap();
        let mut image = decoded.blocks[0].image.unwrap();
        assert_eq!(image.check_method(), Ok(()));
        image.flags |= IMAGE_ZSTD;
        assert!(image.check_method().is_err());
        assert!(matches!(image.restore(&mut [0; BLOCK_SIZE]), Err(RecordError::Malformed(_))));
    }

    #[test]
    fn cut_and_wrong_images_are_errors() {
        for method in METHODS {
            let bytes = record(&page(30), true, method);
            let decoded = decode_record(&bytes).unwrap();
            let whole = decoded.blocks[0].image.unwrap();
            for len in 0..whole.bytes.len() {
                let cut = crate::wal::BlockImage { bytes: &whole.bytes[..len], ..whole };
                assert!(cut.restore(&mut [0; BLOCK_SIZE]).is_err(), "{method:?}, {len} bytes");
            }
            let other_hole = crate::wal::BlockImage { hole_len: whole.hole_len - 8, ..whole };
            assert!(other_hole.restore(&mut [0; BLOCK_SIZE]).is_err());
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, flags: u8, hole_offset: u16, hole_len: u16) {
            let image = crate::wal::BlockImage { bytes: &bytes, hole_offset, hole_len, flags };
            let _ = image.restore(&mut [0; BLOCK_SIZE]);
        }
    }
}
