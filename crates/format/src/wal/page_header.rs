//! The header of a WAL page.
//!
//! ```text
//!   0       2      4          8           16        20     24        32         36         40
//!   +-------+------+----------+-----------+---------+------+---------+----------+----------+
//!   | magic | info | timeline | page addr | rem len | 0    | system  | segment  | block    |
//!   |       |      |          |           |         |      | id      | size     | size     |
//!   +-------+------+----------+-----------+---------+------+---------+----------+----------+
//!   | short header: every page                             | long: first page of a segment |
//! ```
//!
//! - magic: version of the WAL's format
//! - page addr: the LSN of this page. An old page of a recycled segment has a wrong one.
//! - rem len: remaining bytes of a record that began on an earlier page
//! - system id, sizes: the cluster that the file belongs to, and how to read it

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{Cursor, put},
    ids::TimelineId,
    lsn::{Lsn, SegmentSize, WAL_BLOCK_SIZE},
};

/// Version of the format.
pub const MAGIC: u16 = 0xd118;
/// Bytes of the short header.
pub const SHORT_SIZE: usize = 24;
/// Bytes of the long header.
pub const LONG_SIZE: usize = 40;

/// Info flag: the page begins with the rest of a record.
pub const FIRST_IS_CONTINUATION: u16 = 1;
/// Info flag: long header.
pub const LONG_HEADER: u16 = 2;
/// Info flag: full-page images from here on may be dropped.
pub const BACKUP_REMOVABLE: u16 = 4;
/// Info flag: the record that should continue here was lost in a crash.
pub const FIRST_IS_OVERWRITTEN_CONTINUATION: u16 = 8;
/// All valid flags.
pub const ALL_FLAGS: u16 = 0xf;

const _: () = assert!(SHORT_SIZE.is_multiple_of(8) && LONG_SIZE == SHORT_SIZE + 16);

/// The additional fields of the first page of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongHeader {
    /// Identifies the cluster.
    pub system_id: u64,
    /// Size of a segment.
    pub segment_size: u32,
    /// Size of a WAL page.
    pub block_size: u32,
}

/// The header of a WAL page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageHeader {
    /// Flags without [`LONG_HEADER`], which `long` represents.
    pub info: u16,
    /// Timeline of the first record on it.
    pub timeline: TimelineId,
    /// Its position.
    pub page_addr: Lsn,
    /// Remaining bytes of a record that began on an earlier page.
    pub rem_len: u32,
    /// The additional fields of a long header.
    pub long: Option<LongHeader>,
}

/// Why bytes are not the expected WAL page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageHeaderError {
    /// Too few bytes.
    #[error("WAL page header is cut off")]
    TooShort,
    /// The magic number is wrong; it is zero if the page was never written.
    #[error("invalid magic number {0:04X} in WAL page")]
    BadMagic(u16),
    /// There are unknown flags.
    #[error("invalid info bits {0:04X} in WAL page")]
    BadInfo(u16),
    /// The page is of another cluster.
    #[error("WAL page is from another database system: its identifier is {found}, not {expected}")]
    OtherSystem {
        /// The expected identifier.
        expected: u64,
        /// The page's identifier.
        found: u64,
    },
    /// Segment or page size differ.
    #[error("WAL page says segments have {segment} bytes and pages {block}")]
    OtherSizes {
        /// Its segment size.
        segment: u32,
        /// Its page size.
        block: u32,
    },
    /// The first page of a segment without a long header, or another page with one.
    #[error("WAL page at {0} has the wrong kind of header")]
    WrongKind(Lsn),
    /// The page has another address, because it is from before the segment was recycled.
    #[error("unexpected address {found} in WAL page at {expected}")]
    WrongAddress {
        /// Where the page is.
        expected: Lsn,
        /// The address that it states.
        found: Lsn,
    },
}

impl PageHeader {
    /// Size of the header in bytes.
    pub const fn size(&self) -> usize {
        if self.long.is_some() { LONG_SIZE } else { SHORT_SIZE }
    }

    /// Whether the page begins with the rest of a record.
    pub const fn is_continuation(&self) -> bool {
        self.info & FIRST_IS_CONTINUATION != 0
    }

    /// Writes it to the beginning of `page`, and returns its size.
    ///
    /// # Panics
    /// If `page` is shorter.
    pub fn encode(&self, page: &mut [u8]) -> usize {
        let size = self.size();
        assert!(page.len() >= size, "WAL page of {} bytes", page.len());
        let long_flag = if self.long.is_some() { LONG_HEADER } else { 0 };
        put(page, 0, MAGIC.to_le_bytes());
        put(page, 2, (self.info & !LONG_HEADER | long_flag).to_le_bytes());
        put(page, 4, self.timeline.to_le_bytes());
        put(page, 8, self.page_addr.0.to_le_bytes());
        put(page, 16, self.rem_len.to_le_bytes());
        put(page, 20, [0; 4]);
        if let Some(long) = self.long {
            put(page, 24, long.system_id.to_le_bytes());
            put(page, 32, long.segment_size.to_le_bytes());
            put(page, 36, long.block_size.to_le_bytes());
        }
        size
    }

    /// Decodes the header at the beginning of a page, and checks magic number and flags.
    pub fn decode(page: &[u8]) -> Result<Self, PageHeaderError> {
        let short = PageHeaderError::TooShort;
        let mut cursor = Cursor::new(page);
        let magic = cursor.u16().ok_or(short.clone())?;
        if magic != MAGIC {
            return Err(PageHeaderError::BadMagic(magic));
        }
        let info = cursor.u16().ok_or(short.clone())?;
        if info & !ALL_FLAGS != 0 {
            return Err(PageHeaderError::BadInfo(info));
        }
        let timeline = cursor.u32().ok_or(short.clone())?;
        let page_addr = Lsn(cursor.u64().ok_or(short.clone())?);
        let rem_len = cursor.u32().ok_or(short.clone())?;
        cursor.u32().ok_or(short.clone())?;
        let mut long = None;
        if info & LONG_HEADER != 0 {
            long = Some(LongHeader {
                system_id: cursor.u64().ok_or(short.clone())?,
                segment_size: cursor.u32().ok_or(short.clone())?,
                block_size: cursor.u32().ok_or(short)?,
            });
        }
        Ok(Self { info: info & !LONG_HEADER, timeline, page_addr, rem_len, long })
    }

    /// Checks that it is the header of the page at `at` of this cluster.
    pub fn check(
        &self,
        at: Lsn,
        segments: SegmentSize,
        system_id: u64,
    ) -> Result<(), PageHeaderError> {
        let first = segments.offset(at) == 0;
        match self.long {
            Some(long) => {
                if long.system_id != system_id {
                    return Err(PageHeaderError::OtherSystem {
                        expected: system_id,
                        found: long.system_id,
                    });
                }
                if long.segment_size != segments.get() || long.block_size as usize != WAL_BLOCK_SIZE
                {
                    return Err(PageHeaderError::OtherSizes {
                        segment: long.segment_size,
                        block: long.block_size,
                    });
                }
            }
            None if first => return Err(PageHeaderError::WrongKind(at)),
            None => {}
        }
        if self.page_addr != at {
            return Err(PageHeaderError::WrongAddress { expected: at, found: self.page_addr });
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LONG: LongHeader = LongHeader { system_id: 7, segment_size: 16 << 20, block_size: 8192 };

    #[test]
    fn layout() {
        let header = PageHeader {
            info: 0,
            timeline: 1,
            page_addr: Lsn(0x100_0000),
            rem_len: 5,
            long: Some(LONG),
        };
        let mut bytes = [0xff; 48];
        assert_eq!(header.encode(&mut bytes), 40);
        assert_eq!(bytes[..8], [0x18, 0xd1, 2, 0, 1, 0, 0, 0]);
        assert_eq!(bytes[16..24], [5, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[40], 0xff);
        assert_eq!(PageHeader::decode(&bytes), Ok(header));
        assert_eq!(header.check(Lsn(0x100_0000), SegmentSize::DEFAULT, 7), Ok(()));
        assert!(header.check(Lsn(0x100_0000), SegmentSize::DEFAULT, 8).is_err());
        assert!(header.check(Lsn(0x200_0000), SegmentSize::DEFAULT, 7).is_err());
        let short = PageHeader { long: None, ..header };
        assert_eq!(
            short.check(Lsn(0x100_0000), SegmentSize::DEFAULT, 7),
            Err(PageHeaderError::WrongKind(Lsn(0x100_0000)))
        );
        assert_eq!(PageHeader::decode(&[0; 24]), Err(PageHeaderError::BadMagic(0)));
        assert_eq!(PageHeader::decode(&bytes[..39]), Err(PageHeaderError::TooShort));
    }

    proptest! {
        #[test]
        fn round_trip(info in 0_u16..16, timeline: u32, addr: u64, rem_len: u32, long: bool) {
            let long = long.then_some(LONG);
            let info = info & !LONG_HEADER;
            let header = PageHeader { info, timeline, page_addr: Lsn(addr), rem_len, long };
            let mut bytes = [0; LONG_SIZE];
            let size = header.encode(&mut bytes);
            prop_assert_eq!(PageHeader::decode(&bytes[..size]), Ok(header));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = PageHeader::decode(&bytes);
        }
    }
}
