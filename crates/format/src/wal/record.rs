//! WAL records: header, block references, images, data.
//!
//! ```text
//!   0         4     8      16     17     18    20    24
//!   +---------+-----+------+------+------+-----+-----+------------+--------+--------+-----------+
//!   | tot_len | xid | prev | info | rmgr | pad | crc | block      | data   | block  | main data |
//!   |         |     |      |      |      |     |     | references | header | parts  |           |
//!   +---------+-----+------+------+------+-----+-----+------------+--------+--------+-----------+
//!
//!   block reference:  id u8 | fork and flags u8 | data length u16
//!                     [image: length u16 | hole offset u16 | image flags u8
//!                             [| hole length u16, if compressed with a hole]]
//!                     [relation 12 bytes, unless the same as before] | block u32
//!   data header:      255 | length u8    or    254 | length u32
//!   also possible:    253 | origin u16   and   252 | top-level xid u32
//!   block part:       [image without its hole] [data]
//! ```
//!
//! - prev: start of the previous record. An old record in a recycled segment has a wrong one.
//! - crc: covers everything behind the header, then the header before the crc

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{Cursor, put},
    crc,
    ids::{BLOCK_SIZE, Fork, PageTag, RelFileLocator, Xid},
    lsn::Lsn,
    page::PageBytes,
    wal::{
        compress::{IMAGE_COMPRESSED, check_method, decompress},
        error::RecordError,
        rmgr::{INFO_RMGR_MASK, Rmgr},
    },
};

/// Bytes of the record header.
pub const HEADER_SIZE: usize = 24;
/// Offset of the checksum in the header. The bytes before are covered by it.
pub const CRC_AT: usize = 20;
/// Longest record.
pub const MAX_SIZE: usize = 1020 << 20;
/// Largest block id.
pub const MAX_BLOCK_ID: u8 = 32;

pub(crate) const ID_DATA_SHORT: u8 = 255;
pub(crate) const ID_DATA_LONG: u8 = 254;
pub(crate) const ID_ORIGIN: u8 = 253;
pub(crate) const ID_TOPLEVEL_XID: u8 = 252;

pub(crate) const BLOCK_FORK_MASK: u8 = 0x0f;
pub(crate) const BLOCK_HAS_IMAGE: u8 = 0x10;
pub(crate) const BLOCK_HAS_DATA: u8 = 0x20;
pub(crate) const BLOCK_WILL_INIT: u8 = 0x40;
pub(crate) const BLOCK_SAME_REL: u8 = 0x80;

pub(crate) const IMAGE_HAS_HOLE: u8 = 1;
pub(crate) const IMAGE_APPLY: u8 = 2;

const _: () = assert!(CRC_AT + 4 == HEADER_SIZE);

/// The fixed header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    /// Length of the whole record.
    pub total_len: u32,
    /// Transaction; 0 if none.
    pub xid: Xid,
    /// Start of the previous record.
    pub prev: Lsn,
    /// Kind of record; see [`INFO_RMGR_MASK`].
    pub info: u8,
    /// Resource manager.
    pub rmgr: Rmgr,
    /// Checksum.
    pub crc: u32,
}

impl RecordHeader {
    /// Decodes the first 24 bytes; `None` if there are fewer.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        let (total_len, xid, prev) = (cursor.u32()?, cursor.u32()?, Lsn(cursor.u64()?));
        let (info, rmgr) = (cursor.u8()?, Rmgr(cursor.u8()?));
        cursor.u16()?;
        Some(Self { total_len, xid, prev, info, rmgr, crc: cursor.u32()? })
    }

    /// Encodes the 24 bytes.
    pub fn encode(&self) -> [u8; HEADER_SIZE] {
        let mut out = [0; HEADER_SIZE];
        put(&mut out, 0, self.total_len.to_le_bytes());
        put(&mut out, 4, self.xid.to_le_bytes());
        put(&mut out, 8, self.prev.0.to_le_bytes());
        put(&mut out, 16, [self.info, self.rmgr.0]);
        put(&mut out, CRC_AT, self.crc.to_le_bytes());
        out
    }

    /// The kind of record, without the bits common to all resource managers.
    pub const fn kind(&self) -> u8 {
        self.info & INFO_RMGR_MASK
    }
}

/// An image of a page in a record, without its hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockImage<'a> {
    /// The stored bytes.
    pub bytes: &'a [u8],
    /// Offset of the hole.
    pub hole_offset: u16,
    /// Bytes of the hole.
    pub hole_len: u16,
    /// Flags as stored.
    pub flags: u8,
}

impl BlockImage<'_> {
    /// Whether redo restores it. Otherwise it is there for comparison.
    pub const fn apply(&self) -> bool {
        self.flags & IMAGE_APPLY != 0
    }

    /// Whether it is compressed.
    pub const fn is_compressed(&self) -> bool {
        self.flags & IMAGE_COMPRESSED != 0
    }

    /// Restores the page.
    pub fn restore(&self, page: &mut PageBytes) -> Result<(), RecordError> {
        let malformed = RecordError::Malformed("image does not fill a page");
        let (offset, len) = (usize::from(self.hole_offset), usize::from(self.hole_len));
        let stored = BLOCK_SIZE.checked_sub(len).ok_or(malformed.clone())?;
        let mut room = [0; BLOCK_SIZE];
        let bytes = if self.is_compressed() {
            let whole = room.get_mut(..stored).ok_or(malformed.clone())?;
            decompress(self.flags & IMAGE_COMPRESSED, self.bytes, whole)?;
            whole
        } else {
            self.bytes
        };
        if bytes.len() != stored {
            return Err(malformed);
        }
        let (head, tail) = bytes.split_at_checked(offset).ok_or(malformed.clone())?;
        let (before, rest) = page.split_at_mut_checked(offset).ok_or(malformed.clone())?;
        let (hole, after) = rest.split_at_mut_checked(len).ok_or(malformed)?;
        before.copy_from_slice(head);
        hole.fill(0);
        after.copy_from_slice(tail);
        Ok(())
    }

    /// Fails if the image's flags name several methods of compression.
    pub fn check_method(&self) -> Result<(), RecordError> {
        check_method(self.flags & IMAGE_COMPRESSED)
    }
}

/// A record's reference to a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRef<'a> {
    /// The resource manager's number for it.
    pub id: u8,
    /// Which page.
    pub tag: PageTag,
    /// Redo initializes the page, and need not read it.
    pub will_init: bool,
    /// Its image.
    pub image: Option<BlockImage<'a>>,
    /// The resource manager's data for it.
    pub data: &'a [u8],
}

/// A decoded record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedRecord<'a> {
    /// The header.
    pub header: RecordHeader,
    /// Block references, ascending by id.
    pub blocks: Vec<BlockRef<'a>>,
    /// The resource manager's main data.
    pub main: &'a [u8],
    /// Replication origin.
    pub origin: Option<u16>,
    /// The top-level transaction of a subtransaction.
    pub toplevel_xid: Option<Xid>,
}

impl<'a> DecodedRecord<'a> {
    /// The block reference with an id.
    pub fn block(&self, id: u8) -> Option<&BlockRef<'a>> {
        self.blocks.iter().find(|block| block.id == id)
    }

    /// The kind of record, without the bits common to all resource managers.
    pub const fn kind(&self) -> u8 {
        self.header.kind()
    }
}

/// Verifies the checksum of a whole record.
pub fn verify_crc(record: &[u8]) -> Result<(), RecordError> {
    let short = RecordError::BadLength(record.len() as u32);
    let header = RecordHeader::decode(record).ok_or(short.clone())?;
    let (covered, _) = record.split_at_checked(CRC_AT).ok_or(short.clone())?;
    let body = record.get(HEADER_SIZE..).ok_or(short)?;
    let computed = crc::append(crc::crc32c(body), covered);
    if computed == header.crc {
        Ok(())
    } else {
        Err(RecordError::BadCrc { stored: header.crc, computed })
    }
}

/// Decodes a whole record. The caller has verified its checksum with [`verify_crc`], but the bytes
/// are not trusted.
pub fn decode_record(record: &[u8]) -> Result<DecodedRecord<'_>, RecordError> {
    let header = RecordHeader::decode(record).ok_or(RecordError::BadLength(record.len() as u32))?;
    if header.total_len as usize != record.len() {
        return Err(RecordError::BadLength(header.total_len));
    }
    if !header.rmgr.is_valid() {
        return Err(RecordError::BadRmgr(header.rmgr.0));
    }
    let mut decoder = Decoder {
        cursor: Cursor::new(record.get(HEADER_SIZE..).unwrap_or(&[])),
        blocks: Vec::new(),
        last_rel: None,
        data_total: 0,
        main_len: 0,
        origin: None,
        toplevel_xid: None,
    };
    decoder.headers()?;
    let main = decoder.payloads()?;
    let blocks = decoder.blocks.into_iter().map(|(block, _)| block).collect();
    Ok(DecodedRecord {
        header,
        blocks,
        main,
        origin: decoder.origin,
        toplevel_xid: decoder.toplevel_xid,
    })
}

/// Lengths of a block's image and data in the second half of the record.
#[derive(Debug, Clone, Copy)]
struct Lengths {
    image: usize,
    data: usize,
}

struct Decoder<'a> {
    cursor: Cursor<'a>,
    blocks: Vec<(BlockRef<'a>, Lengths)>,
    last_rel: Option<RelFileLocator>,
    data_total: usize,
    main_len: usize,
    origin: Option<u16>,
    toplevel_xid: Option<Xid>,
}

const CUT_OFF: RecordError = RecordError::Malformed("a header is cut off");

impl<'a> Decoder<'a> {
    /// Reads headers until exactly the payload that they announce remains.
    fn headers(&mut self) -> Result<(), RecordError> {
        while self.cursor.remaining() > self.data_total {
            match self.cursor.u8().ok_or(CUT_OFF)? {
                ID_DATA_SHORT => {
                    self.main_len = usize::from(self.cursor.u8().ok_or(CUT_OFF)?);
                    self.data_total += self.main_len;
                    break;
                }
                ID_DATA_LONG => {
                    self.main_len = self.cursor.u32().ok_or(CUT_OFF)? as usize;
                    self.data_total += self.main_len;
                    break;
                }
                ID_ORIGIN => self.origin = Some(self.cursor.u16().ok_or(CUT_OFF)?),
                ID_TOPLEVEL_XID => self.toplevel_xid = Some(self.cursor.u32().ok_or(CUT_OFF)?),
                id if id <= MAX_BLOCK_ID => self.block_header(id)?,
                _ => return Err(RecordError::Malformed("unknown block id")),
            }
        }
        if self.cursor.remaining() == self.data_total {
            Ok(())
        } else {
            Err(RecordError::Malformed("payload has not the announced length"))
        }
    }

    fn block_header(&mut self, id: u8) -> Result<(), RecordError> {
        if self.blocks.last().is_some_and(|(last, _)| last.id >= id) {
            return Err(RecordError::Malformed("block ids do not ascend"));
        }
        let flags = self.cursor.u8().ok_or(CUT_OFF)?;
        let fork = Fork::from_number(flags & BLOCK_FORK_MASK)
            .ok_or(RecordError::Malformed("unknown fork"))?;
        let has_data = flags & BLOCK_HAS_DATA != 0;
        let data = usize::from(self.cursor.u16().ok_or(CUT_OFF)?);
        if has_data != (data != 0) {
            return Err(RecordError::Malformed("data flag and data length contradict each other"));
        }
        let (image, image_len) = match flags & BLOCK_HAS_IMAGE {
            0 => (None, 0),
            _ => self.image_header().map(|(image, len)| (Some(image), len))?,
        };
        let rel = match flags & BLOCK_SAME_REL {
            0 => RelFileLocator::decode(self.cursor.array().ok_or(CUT_OFF)?),
            _ => self.last_rel.ok_or(RecordError::Malformed("there is no relation before"))?,
        };
        self.last_rel = Some(rel);
        let tag = PageTag::new(rel, fork, self.cursor.u32().ok_or(CUT_OFF)?);
        self.data_total += image_len + data;
        let will_init = flags & BLOCK_WILL_INIT != 0;
        let block = BlockRef { id, tag, will_init, image, data: &[] };
        self.blocks.push((block, Lengths { image: image_len, data }));
        Ok(())
    }

    fn image_header(&mut self) -> Result<(BlockImage<'a>, usize), RecordError> {
        let len = usize::from(self.cursor.u16().ok_or(CUT_OFF)?);
        let hole_offset = self.cursor.u16().ok_or(CUT_OFF)?;
        let flags = self.cursor.u8().ok_or(CUT_OFF)?;
        let (has_hole, compressed) = (flags & IMAGE_HAS_HOLE != 0, flags & IMAGE_COMPRESSED != 0);
        let hole_len = match (has_hole, compressed) {
            (true, true) => usize::from(self.cursor.u16().ok_or(CUT_OFF)?),
            (true, false) => {
                BLOCK_SIZE.checked_sub(len).ok_or(RecordError::Malformed("image too long"))?
            }
            (false, _) => 0,
        };
        let hole_fits = usize::from(hole_offset) + hole_len <= BLOCK_SIZE;
        let consistent = match (has_hole, compressed) {
            (true, _) => hole_offset != 0 && hole_len != 0 && len != BLOCK_SIZE && hole_fits,
            (false, true) => hole_offset == 0 && len < BLOCK_SIZE,
            (false, false) => hole_offset == 0 && len == BLOCK_SIZE,
        };
        if !consistent || len > BLOCK_SIZE {
            return Err(RecordError::Malformed("image and hole contradict each other"));
        }
        let image = BlockImage { bytes: &[], hole_offset, hole_len: hole_len as u16, flags };
        Ok((image, len))
    }

    /// Assigns images and data to the blocks, and returns the main data.
    fn payloads(&mut self) -> Result<&'a [u8], RecordError> {
        for (block, lengths) in &mut self.blocks {
            if let Some(image) = &mut block.image {
                image.bytes = self.cursor.take(lengths.image).ok_or(CUT_OFF)?;
            }
            block.data = self.cursor.take(lengths.data).ok_or(CUT_OFF)?;
        }
        self.cursor.take(self.main_len).ok_or(CUT_OFF)
    }
}
