//! Builds a record without copying its data. The small headers are written to one buffer; pages and
//! payloads stay where they are. The inserter copies each part once, into the WAL buffers.
//!
//! [`RecordBuilder::finish`] computes the checksum over the body, outside any lock.
//! [`EncodedRecord::seal`] only adds the 20 bytes of the header, once the position of the previous
//! record is known.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::{
    bytes::put,
    crc,
    ids::{BLOCK_SIZE, PageTag, RelFileLocator, Xid},
    lsn::Lsn,
    page::{self, Page, PageBytes},
    wal::{
        compress::{IMAGE_COMPRESSED, ImageCompression},
        record::{
            BLOCK_HAS_DATA, BLOCK_HAS_IMAGE, BLOCK_SAME_REL, BLOCK_WILL_INIT, CRC_AT,
            DecodedRecord, HEADER_SIZE, ID_DATA_LONG, ID_DATA_SHORT, ID_ORIGIN, ID_TOPLEVEL_XID,
            IMAGE_APPLY, IMAGE_HAS_HOLE, MAX_BLOCK_ID, MAX_SIZE, RecordHeader,
        },
        rmgr::Rmgr,
    },
};

/// A page to put into a record.
#[derive(Debug, Clone, Copy)]
pub struct Image<'a> {
    /// The page.
    pub page: &'a PageBytes,
    /// Whether it has the standard layout, so that the hole between `lower` and `upper` is left
    /// out.
    pub standard: bool,
    /// Whether redo restores it.
    pub apply: bool,
}

impl<'a> Image<'a> {
    /// An image of a page with the standard layout, which redo restores.
    pub const fn standard(page: &'a PageBytes) -> Self {
        Self { page, standard: true, apply: true }
    }

    /// The hole as offset and length; a length of zero if there is none.
    fn hole(&self) -> (usize, usize) {
        let page = Page::new(self.page);
        let (lower, upper) = (page.lower(), page.upper());
        let has_hole =
            self.standard && lower >= page::HEADER_SIZE && lower < upper && upper <= BLOCK_SIZE;
        if has_hole { (lower, upper - lower) } else { (0, 0) }
    }

    /// Length of the image in a record, in bytes.
    pub fn stored_len(&self) -> usize {
        BLOCK_SIZE - self.hole().1
    }
}

/// Why a record cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The record would be too long.
    #[error("WAL record of {0} bytes is too long")]
    TooLong(usize),
    /// A block has more data than its length field can state.
    #[error("WAL record has {0} bytes of data for one block")]
    BlockDataTooLong(usize),
    /// Block ids must ascend and end at 32.
    #[error("WAL record has block {0} out of order")]
    BadBlockId(u8),
}

#[derive(Debug)]
struct Block<'a> {
    id: u8,
    tag: PageTag,
    will_init: bool,
    image: Option<RawImage<'a>>,
    data: SmallVec<[&'a [u8]; 2]>,
}

/// An image without its hole: the bytes before and behind it, or compressed.
#[derive(Debug)]
struct RawImage<'a> {
    head: Cow<'a, [u8]>,
    tail: &'a [u8],
    hole_offset: u16,
    /// Stored after the flags, for compressed images with a hole.
    stored_hole_len: Option<u16>,
    flags: u8,
}

/// Collects the parts of a record.
#[derive(Debug)]
pub struct RecordBuilder<'a> {
    header: RecordHeader,
    blocks: SmallVec<[Block<'a>; 2]>,
    main: SmallVec<[&'a [u8]; 4]>,
    origin: Option<u16>,
    toplevel_xid: Option<Xid>,
}

impl<'a> RecordBuilder<'a> {
    /// Starts a record of this kind.
    #[inline]
    pub fn new(rmgr: Rmgr, info: u8, xid: Xid) -> Self {
        let header = RecordHeader { total_len: 0, xid, prev: Lsn::INVALID, info, rmgr, crc: 0 };
        Self {
            header,
            blocks: SmallVec::new(),
            main: SmallVec::new(),
            origin: None,
            toplevel_xid: None,
        }
    }

    /// Appends main data.
    #[inline]
    pub fn main(mut self, data: &'a [u8]) -> Self {
        self.main.push(data);
        self
    }

    /// Adds a block reference. Following calls of [`data`](Self::data) add to it. Ids must ascend.
    #[inline]
    pub fn block(
        mut self,
        id: u8,
        tag: PageTag,
        will_init: bool,
        image: Option<Image<'a>>,
    ) -> Self {
        let image = image.map(|image| {
            let (offset, len) = image.hole();
            let (head, rest) = image.page.split_at_checked(offset).unwrap_or((image.page, &[]));
            let (head, tail) = if len == 0 {
                (&image.page[..], &[][..])
            } else {
                (head, rest.get(len..).unwrap_or(&[]))
            };
            let flags = if len == 0 { 0 } else { IMAGE_HAS_HOLE }
                | if image.apply { IMAGE_APPLY } else { 0 };
            RawImage {
                head: head.into(),
                tail,
                hole_offset: offset as u16,
                stored_hole_len: None,
                flags,
            }
        });
        self.blocks.push(Block { id, tag, will_init, image, data: SmallVec::new() });
        self
    }

    /// Compresses the image of the last block reference, if it has one and that makes it shorter.
    pub fn compress(mut self, method: ImageCompression) -> Self {
        if let Some(image) = self.blocks.last_mut().and_then(|block| block.image.as_mut())
            && image.flags & IMAGE_COMPRESSED == 0
        {
            let hole_len = BLOCK_SIZE - image.head.len() - image.tail.len();
            let (stored_hole_len, saving) =
                if hole_len == 0 { (None, 0) } else { (Some(hole_len as u16), 2) };
            if let Some(bytes) = method.compress(&image.head, image.tail, saving) {
                let flags = image.flags | method.flag();
                let hole_offset = image.hole_offset;
                *image =
                    RawImage { head: bytes.into(), tail: &[], hole_offset, stored_hole_len, flags };
            }
        }
        self
    }

    /// Adds data to the last block reference.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn data(mut self, data: &'a [u8]) -> Self {
        match self.blocks.last_mut() {
            Some(block) => block.data.push(data),
            None => panic!("block data without a block"),
        }
        self
    }

    /// Sets the replication origin.
    pub fn origin(mut self, origin: u16) -> Self {
        self.origin = Some(origin);
        self
    }

    /// Sets the top-level transaction of a subtransaction.
    pub fn toplevel_xid(mut self, xid: Xid) -> Self {
        self.toplevel_xid = Some(xid);
        self
    }

    /// A builder that builds a decoded record again.
    pub fn from_decoded(record: &DecodedRecord<'a>) -> Self {
        let mut builder = Self::new(record.header.rmgr, record.header.info, record.header.xid);
        for block in &record.blocks {
            let image = block.image.map(|image| {
                let at = usize::from(image.hole_offset).min(image.bytes.len());
                let compressed = image.flags & IMAGE_COMPRESSED != 0;
                let (head, tail) =
                    if compressed { (image.bytes, &[][..]) } else { image.bytes.split_at(at) };
                let head = head.into();
                let stored =
                    (compressed && image.flags & IMAGE_HAS_HOLE != 0).then_some(image.hole_len);
                let hole_offset = image.hole_offset;
                RawImage { head, tail, hole_offset, stored_hole_len: stored, flags: image.flags }
            });
            let data = SmallVec::from_slice(&[block.data]);
            let (id, tag, will_init) = (block.id, block.tag, block.will_init);
            builder.blocks.push(Block { id, tag, will_init, image, data });
        }
        builder.main.push(record.main);
        builder.origin = record.origin;
        builder.toplevel_xid = record.toplevel_xid;
        builder
    }

    /// Writes the headers, and computes the length and the checksum of the body.
    #[inline]
    pub fn finish(mut self) -> Result<EncodedRecord<'a>, BuildError> {
        let mut head: SmallVec<[u8; 96]> = SmallVec::from_slice(&[0; HEADER_SIZE]);
        let mut parts: SmallVec<[Cow<'a, [u8]>; 8]> = SmallVec::new();
        let (mut last_id, mut last_rel) = (None, None);
        for block in &mut self.blocks {
            if block.id > MAX_BLOCK_ID || last_id.is_some_and(|last| last >= block.id) {
                return Err(BuildError::BadBlockId(block.id));
            }
            push_block_header(&mut head, block, last_rel)?;
            last_id = Some(block.id);
            last_rel = Some(block.tag.rel);
            if let Some(image) = block.image.take() {
                parts.extend(
                    [image.head, image.tail.into()].into_iter().filter(|part| !part.is_empty()),
                );
            }
            parts.extend(given(&block.data));
        }
        if let Some(origin) = self.origin {
            head.push(ID_ORIGIN);
            head.extend_from_slice(&origin.to_le_bytes());
        }
        if let Some(xid) = self.toplevel_xid {
            head.push(ID_TOPLEVEL_XID);
            head.extend_from_slice(&xid.to_le_bytes());
        }
        let main_len = self.main.iter().map(|part| part.len()).sum::<usize>();
        match u8::try_from(main_len) {
            Ok(0) => {}
            Ok(len) => head.extend_from_slice(&[ID_DATA_SHORT, len]),
            Err(_) => {
                head.push(ID_DATA_LONG);
                head.extend_from_slice(&(main_len as u32).to_le_bytes());
            }
        }
        parts.extend(given(&self.main));
        let total = head.len() + parts.iter().map(|part| part.len()).sum::<usize>();
        if total > MAX_SIZE {
            return Err(BuildError::TooLong(total));
        }
        let header = RecordHeader { total_len: total as u32, ..self.header };
        put(&mut head, 0, header.encode());
        let body = crc::crc32c(head.get(HEADER_SIZE..).unwrap_or(&[]));
        let body_crc = parts.iter().fold(body, |sum, part| crc::append(sum, part));
        Ok(EncodedRecord { head, parts, body_crc, total_len: total })
    }
}

/// The parts that are not empty.
fn given<'a>(parts: &[&'a [u8]]) -> impl Iterator<Item = Cow<'a, [u8]>> {
    parts.iter().filter(|part| !part.is_empty()).map(|&part| part.into())
}

fn push_block_header(
    head: &mut SmallVec<[u8; 96]>,
    block: &Block<'_>,
    last_rel: Option<RelFileLocator>,
) -> Result<(), BuildError> {
    let data_len = block.data.iter().map(|part| part.len()).sum::<usize>();
    let stored_len = u16::try_from(data_len).map_err(|_| BuildError::BlockDataTooLong(data_len))?;
    let same_rel = last_rel == Some(block.tag.rel);
    let flag = |on: bool, flag: u8| if on { flag } else { 0 };
    let flags = block.tag.fork.number()
        | flag(block.image.is_some(), BLOCK_HAS_IMAGE)
        | flag(stored_len != 0, BLOCK_HAS_DATA)
        | flag(block.will_init, BLOCK_WILL_INIT)
        | flag(same_rel, BLOCK_SAME_REL);
    head.extend_from_slice(&[block.id, flags]);
    head.extend_from_slice(&stored_len.to_le_bytes());
    if let Some(image) = &block.image {
        let len = (image.head.len() + image.tail.len()) as u16;
        head.extend_from_slice(&len.to_le_bytes());
        head.extend_from_slice(&image.hole_offset.to_le_bytes());
        head.push(image.flags);
        if let Some(hole_len) = image.stored_hole_len {
            head.extend_from_slice(&hole_len.to_le_bytes());
        }
    }
    if !same_rel {
        head.extend_from_slice(&block.tag.rel.encode());
    }
    head.extend_from_slice(&block.tag.block.to_le_bytes());
    Ok(())
}

/// A record that is complete except for the position of the previous one.
#[derive(Debug, Clone)]
pub struct EncodedRecord<'a> {
    head: SmallVec<[u8; 96]>,
    parts: SmallVec<[Cow<'a, [u8]>; 8]>,
    body_crc: u32,
    total_len: usize,
}

impl<'a> EncodedRecord<'a> {
    /// Length of the record in bytes, without the padding behind it.
    pub const fn total_len(&self) -> usize {
        self.total_len
    }

    /// Sets the start of the previous record, and the checksum. May be called again.
    pub fn seal(&mut self, prev: Lsn) {
        put(&mut self.head, 8, prev.0.to_le_bytes());
        let crc = crc::append(self.body_crc, self.head.get(..CRC_AT).unwrap_or(&[]));
        put(&mut self.head, CRC_AT, crc.to_le_bytes());
    }

    /// The parts in order: headers, then images and data.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(self.head.as_slice()).chain(self.parts.iter().map(|part| &**part))
    }

    /// The record in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.total_len);
        self.parts().for_each(|part| out.extend_from_slice(part));
        out
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::{
        ids::Fork,
        page::PageMut,
        wal::{RecordError, decode_record, verify_crc},
    };
    use proptest::prelude::*;

    fn tag(rel: u32, block: u32) -> PageTag {
        PageTag::new(RelFileLocator::in_default(5, rel), Fork::Main, block)
    }

    fn page(fill: u8) -> PageBytes {
        let mut bytes = [0; BLOCK_SIZE];
        let mut page = PageMut(&mut bytes);
        page.init(0);
        page.add_item(&[fill; 100], None);
        bytes
    }

    #[test]
    fn layout_of_a_small_record() {
        let mut record = RecordBuilder::new(Rmgr::HEAP, 0x80, 700).main(&[1, 0, 8]).block(
            0,
            tag(16384, 0),
            true,
            None,
        );
        record = record.data(b"ab").data(b"cd");
        let mut encoded = record.finish().unwrap();
        encoded.seal(Lsn(0x1234));
        let bytes = encoded.to_vec();
        assert_eq!(bytes.len(), 24 + 4 + 12 + 4 + 2 + 4 + 3);
        assert_eq!(bytes[..4], [53, 0, 0, 0]);
        assert_eq!(bytes[16..20], [0x80, 10, 0, 0]);
        assert_eq!(bytes[24..28], [0, 0x60, 4, 0]);
        assert_eq!(bytes[44..], *b"\xff\x03abcd\x01\x00\x08");
        assert_eq!(verify_crc(&bytes), Ok(()));
        let decoded = decode_record(&bytes).unwrap();
        assert_eq!((decoded.header.prev, decoded.header.xid), (Lsn(0x1234), 700));
        assert_eq!((decoded.blocks[0].data, decoded.main), (&b"abcd"[..], &[1_u8, 0, 8][..]));
        encoded.seal(Lsn(0x5678));
        assert_eq!(verify_crc(&encoded.to_vec()), Ok(()));
    }

    #[test]
    fn images_are_restored_with_their_hole() {
        let (first, second) = (page(1), [9; BLOCK_SIZE]);
        let raw = Image { page: &second, standard: false, apply: false };
        let mut encoded = RecordBuilder::new(Rmgr::XLOG, 0xb0, 0)
            .block(0, tag(1, 7), false, Some(Image::standard(&first)))
            .block(1, tag(1, 8), false, Some(raw))
            .block(2, tag(2, 9), false, None)
            .finish()
            .unwrap();
        encoded.seal(Lsn(1));
        let bytes = encoded.to_vec();
        verify_crc(&bytes).unwrap();
        let decoded = decode_record(&bytes).unwrap();
        let tags: Vec<_> = decoded.blocks.iter().map(|block| block.tag).collect();
        assert_eq!(tags, [tag(1, 7), tag(1, 8), tag(2, 9)]);
        let image = decoded.blocks[0].image.unwrap();
        assert_eq!((image.bytes.len(), image.apply()), (28 + 104, true));
        let mut restored = [0xee; BLOCK_SIZE];
        image.restore(&mut restored).unwrap();
        assert_eq!(restored, first);
        let image = decoded.blocks[1].image.unwrap();
        assert!(!image.apply());
        image.restore(&mut restored).unwrap();
        assert_eq!(restored, second);
    }

    #[test]
    fn unknown_image_flags_are_kept() {
        let page = page(1);
        let image = Some(Image::standard(&page));
        let record =
            RecordBuilder::new(Rmgr::XLOG, 0xb0, 0).block(0, tag(1, 7), false, image).finish();
        let mut bytes = record.unwrap().to_vec();
        bytes[32] |= 0x80;
        let decoded = decode_record(&bytes).unwrap();
        assert_eq!(decoded.blocks[0].image.unwrap().flags, 0x83);
        let again = RecordBuilder::from_decoded(&decoded).finish().unwrap().to_vec();
        assert_eq!(again, bytes);
    }

    #[test]
    fn main_data_over_255_bytes_has_the_long_header() {
        for (len, overhead) in [(0, 24), (1, 26), (255, 26), (256, 29), (70_000, 29)] {
            let main = vec![3; len];
            let mut encoded = RecordBuilder::new(Rmgr::XLOG, 0, 0).main(&main).finish().unwrap();
            encoded.seal(Lsn(1));
            assert_eq!(encoded.total_len(), overhead + len);
            assert_eq!(decode_record(&encoded.to_vec()).unwrap().main, main);
        }
    }

    #[test]
    fn impossible_records_are_refused() {
        let new = || RecordBuilder::new(Rmgr::HEAP, 0, 0);
        let big = vec![0; 65_536];
        let too_long = new().block(0, tag(1, 1), false, None).data(&big).finish();
        assert_eq!(too_long.err(), Some(BuildError::BlockDataTooLong(65_536)));
        let twice =
            new().block(1, tag(1, 1), false, None).block(1, tag(1, 2), false, None).finish();
        assert_eq!(twice.err(), Some(BuildError::BadBlockId(1)));
        assert_eq!(
            new().block(33, tag(1, 1), false, None).finish().err(),
            Some(BuildError::BadBlockId(33))
        );
    }

    #[test]
    fn each_flipped_bit_breaks_the_checksum() {
        let mut encoded = RecordBuilder::new(Rmgr::HEAP, 0, 3).main(b"payload").finish().unwrap();
        encoded.seal(Lsn(77));
        let good = encoded.to_vec();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(verify_crc(&bad), Err(RecordError::BadCrc { .. })), "bit {bit}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(
            main in proptest::collection::vec(any::<u8>(), 0..400),
            blocks in proptest::collection::vec(
                (0_u32..3, any::<u32>(), any::<[bool; 3]>(), any::<Vec<u8>>()),
                0..6,
            ),
            origin: Option<u16>,
            toplevel: Option<u32>,
            prev: u64,
        ) {
            let image_page = page(5);
            let mut builder = RecordBuilder::new(Rmgr::HEAP2, 0x50, 9).main(&main);
            for (id, (rel, block, [init, has_image, standard], data)) in blocks.iter().enumerate() {
                let image = Image { page: &image_page, standard: *standard, apply: true };
                let image = has_image.then_some(image);
                builder = builder.block(id as u8, tag(*rel, *block), *init, image).data(data);
            }
            builder.origin = origin;
            builder.toplevel_xid = toplevel;
            let mut encoded = builder.finish().unwrap();
            encoded.seal(Lsn(prev));
            let bytes = encoded.to_vec();
            verify_crc(&bytes).unwrap();
            let decoded = decode_record(&bytes).unwrap();
            prop_assert_eq!(decoded.main, &main[..]);
            let expected = &blocks;
            for (decoded, (rel, block, [init, image, _], data)) in
                decoded.blocks.iter().zip(expected)
            {
                prop_assert_eq!(decoded.tag, tag(*rel, *block));
                prop_assert_eq!((decoded.will_init, decoded.image.is_some()), (*init, *image));
                prop_assert_eq!(decoded.data, &data[..]);
            }
            let mut again = RecordBuilder::from_decoded(&decoded).finish().unwrap();
            again.seal(Lsn(prev));
            prop_assert_eq!(&again.to_vec(), &bytes);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = verify_crc(&bytes);
            let mut framed = (bytes.len() as u32 + 4).to_le_bytes().to_vec();
            framed.extend_from_slice(&bytes);
            if let Ok(record) = decode_record(&framed) {
                let mut page = [0; BLOCK_SIZE];
                for image in record.blocks.iter().filter_map(|block| block.image) {
                    let _ = image.restore(&mut page);
                }
                let _ = RecordBuilder::from_decoded(&record).finish();
            }
        }
    }
}
