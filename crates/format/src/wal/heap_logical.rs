//! Heap records that serve logical decoding only: TRUNCATE, command ids, positions of rewritten
//! rows. Redo of a page needs none of them; redo of [`heap::REWRITE`] writes a mapping file.
//!
//! [`heap::REWRITE`]: super::heap::REWRITE

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{Cursor, put},
    ids::{CommandId, ItemPointer, Oid, RelFileLocator, Xid},
    lsn::Lsn,
    wal::error::{PayloadError, damaged},
};

const _: () = assert!(HeapNewCid::SIZE == 4 * 4 + RelFileLocator::SIZE + ItemPointer::SIZE);
const _: () = assert!(RewrittenRow::SIZE == 2 * (RelFileLocator::SIZE + ItemPointer::SIZE));

/// Flag of TRUNCATE: `CASCADE`.
pub const TRUNCATE_CASCADE: u8 = 1;
/// Flag of TRUNCATE: `RESTART IDENTITY`.
pub const TRUNCATE_RESTART_SEQS: u8 = 1 << 1;

/// Main data of [`heap::TRUNCATE`](super::heap::TRUNCATE): database, number of relations, flags
/// u8, padding, relations u32 each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeapTruncate {
    /// Database.
    pub db: Oid,
    /// `TRUNCATE_` flags.
    pub flags: u8,
    /// The relations.
    pub rels: Vec<Oid>,
}

impl HeapTruncate {
    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(12 + 4 * self.rels.len());
        let head = [self.db, self.rels.len() as u32, u32::from(self.flags)];
        for number in head.iter().chain(&self.rels) {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let (db, count) = (cursor.u32()?, cursor.count()?);
            let [flags, _, _, _] = cursor.array()?;
            Some(Self { db, flags, rels: cursor.u32s(count)? })
        };
        read(&mut cursor).ok_or(damaged("TRUNCATE"))
    }
}

/// Main data of [`heap::NEW_CID`](super::heap::NEW_CID): the commands that changed a row of a
/// catalog.
///
/// ```text
///   0          4      8      12       16        28    34
///   +----------+------+------+--------+---------+-----+
///   | top-level| cmin | cmax | combo  | locator | tid |
///   | xid      |      |      |        |         |     |
///   +----------+------+------+--------+---------+-----+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapNewCid {
    /// The top-level transaction.
    pub top_xid: Xid,
    /// The command that inserted the row, or
    /// [`INVALID_COMMAND_ID`](crate::ids::INVALID_COMMAND_ID).
    pub cmin: CommandId,
    /// The command that deleted it.
    pub cmax: CommandId,
    /// The combination of both that the row has stored.
    pub combo: CommandId,
    /// The catalog's files.
    pub rel: RelFileLocator,
    /// The row.
    pub at: ItemPointer,
}

impl HeapNewCid {
    /// Bytes of its stored form.
    pub const SIZE: usize = 34;

    /// Encodes it.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        let numbers = [self.top_xid, self.cmin, self.cmax, self.combo];
        for (n, number) in numbers.into_iter().enumerate() {
            put(&mut out, n * 4, number.to_le_bytes());
        }
        put(&mut out, 16, self.rel.encode());
        put(&mut out, 28, self.at.encode());
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            Some(Self {
                top_xid: cursor.u32()?,
                cmin: cursor.u32()?,
                cmax: cursor.u32()?,
                combo: cursor.u32()?,
                rel: RelFileLocator::decode(cursor.array()?),
                at: ItemPointer::decode(cursor.array()?),
            })
        };
        read(&mut cursor).ok_or(damaged("NEW_CID"))
    }
}

/// Where a row of a rewritten catalog was, and is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RewrittenRow {
    /// The old files.
    pub old_rel: RelFileLocator,
    /// The new files.
    pub new_rel: RelFileLocator,
    /// Its old position.
    pub old_at: ItemPointer,
    /// Its new position.
    pub new_at: ItemPointer,
}

impl RewrittenRow {
    /// Bytes of its stored form, without padding.
    pub const SIZE: usize = 36;

    fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        Some(Self {
            old_rel: RelFileLocator::decode(cursor.array()?),
            new_rel: RelFileLocator::decode(cursor.array()?),
            old_at: ItemPointer::decode(cursor.array()?),
            new_at: ItemPointer::decode(cursor.array()?),
        })
    }
}

/// Main data of [`heap::REWRITE`](super::heap::REWRITE): a piece of a file in
/// `pg_logical/mappings`.
///
/// ```text
///   0      4     8      12    16       24      28    32      40
///   +------+-----+------+-----+--------+-------+-----+-------+---------------------+
///   | xid  | db  | rel  | pad | offset | count | pad | start | rows, 36 bytes each |
///   |      |     |      |     | in file|       |     | lsn   |                     |
///   +------+-----+------+-----+--------+-------+-----+-------+---------------------+
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeapRewrite {
    /// The transaction whose rows are mapped.
    pub xid: Xid,
    /// Database of the catalog; 0 if it is shared.
    pub db: Oid,
    /// The catalog.
    pub rel: Oid,
    /// Where the piece belongs in the file.
    pub offset: i64,
    /// Where the rewrite began.
    pub start: Lsn,
    /// The rows.
    pub rows: Vec<RewrittenRow>,
}

impl HeapRewrite {
    const HEAD_SIZE: usize = 40;

    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; Self::HEAD_SIZE];
        put(&mut out, 0, self.xid.to_le_bytes());
        put(&mut out, 4, self.db.to_le_bytes());
        put(&mut out, 8, self.rel.to_le_bytes());
        put(&mut out, 16, self.offset.to_le_bytes());
        put(&mut out, 24, (self.rows.len() as u32).to_le_bytes());
        put(&mut out, 32, self.start.0.to_le_bytes());
        for row in &self.rows {
            out.extend_from_slice(&row.old_rel.encode());
            out.extend_from_slice(&row.new_rel.encode());
            out.extend_from_slice(&row.old_at.encode());
            out.extend_from_slice(&row.new_at.encode());
        }
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        Self::read(&mut Cursor::new(main)).ok_or(damaged("REWRITE"))
    }

    fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        let (xid, db, rel) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
        cursor.u32()?;
        let (offset, count) = (cursor.i64()?, cursor.count()?);
        cursor.u32()?;
        let start = Lsn(cursor.u64()?);
        let mut rows = Cursor::new(cursor.take(count.checked_mul(RewrittenRow::SIZE)?)?);
        let rows = (0..count).map(|_| RewrittenRow::read(&mut rows)).collect::<Option<_>>()?;
        Some(Self { xid, db, rel, offset, start, rows })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn absurd_counts_are_refused() {
        let truncate = HeapTruncate { db: 5, flags: 3, rels: vec![1, 2] };
        let mut bytes = truncate.encode();
        assert_eq!(HeapTruncate::decode(&bytes), Ok(truncate));
        bytes[4..8].copy_from_slice(&i32::MAX.to_le_bytes());
        assert!(HeapTruncate::decode(&bytes).is_err());
        let mut bytes = vec![0; 40];
        assert!(HeapRewrite::decode(&bytes).is_ok());
        bytes[24..28].copy_from_slice(&i32::MAX.to_le_bytes());
        assert!(HeapRewrite::decode(&bytes).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(main: Vec<u8>) {
            let _ = HeapTruncate::decode(&main);
            let _ = HeapNewCid::decode(&main);
            let _ = HeapRewrite::decode(&main);
        }
    }
}
