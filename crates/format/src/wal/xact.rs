//! Commit and abort records, and records about subtransactions and catalogs of one that runs.
//!
//! ```text
//!   time i64 | [xinfo u32, if the info bit is set]
//!            | [database, tablespace] | [count, subtransactions] | [count, relations to delete]
//!            | [count, statistics to drop] | [count, invalidations 16 bytes each]
//!            | [prepared xid] | [prepared name, ends with 0] | [origin lsn, time]
//! ```

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::Cursor,
    ids::{Oid, RelFileLocator, Xid},
    lsn::Lsn,
    wal::error::{PayloadError, damaged},
};

/// A transaction committed.
pub const COMMIT: u8 = 0x00;
/// A transaction was prepared for a two-phase commit.
pub const PREPARE: u8 = 0x10;
/// A transaction aborted.
pub const ABORT: u8 = 0x20;
/// A prepared transaction committed.
pub const COMMIT_PREPARED: u8 = 0x30;
/// A prepared transaction aborted.
pub const ABORT_PREPARED: u8 = 0x40;
/// Assigns subtransactions to a transaction.
pub const ASSIGNMENT: u8 = 0x50;
/// Cache invalidations, for logical decoding.
pub const INVALIDATIONS: u8 = 0x60;
/// The bits of info that hold the kind.
pub const OPMASK: u8 = 0x70;
/// Info flag: xinfo follows the time.
pub const HAS_INFO: u8 = 0x80;

const HAS_DBINFO: u32 = 1;
const HAS_SUBXACTS: u32 = 1 << 1;
const HAS_RELFILELOCATORS: u32 = 1 << 2;
const HAS_INVALS: u32 = 1 << 3;
const HAS_TWOPHASE: u32 = 1 << 4;
const HAS_ORIGIN: u32 = 1 << 5;
/// xinfo flag: the transaction held access-exclusive locks that were logged for standbys.
pub const XINFO_HAS_AE_LOCKS: u32 = 1 << 6;
const HAS_GID: u32 = 1 << 7;
const HAS_DROPPED_STATS: u32 = 1 << 8;
/// xinfo flag: the committer waits until standbys have applied the commit.
pub const XINFO_APPLY_FEEDBACK: u32 = 1 << 29;
/// xinfo flag: the relation cache's file is out of date.
pub const XINFO_UPDATE_RELCACHE_FILE: u32 = 1 << 30;
/// xinfo flag: the commit must be durable regardless of settings.
pub const XINFO_FORCE_SYNC_COMMIT: u32 = 1 << 31;

/// The flags of xinfo that announce no part. The others follow from the contents.
const FREE_FLAGS: u32 = XINFO_HAS_AE_LOCKS
    | XINFO_APPLY_FEEDBACK
    | XINFO_UPDATE_RELCACHE_FILE
    | XINFO_FORCE_SYNC_COMMIT;

/// All flags of xinfo that exist.
const KNOWN_FLAGS: u32 = FREE_FLAGS
    | HAS_DBINFO
    | HAS_SUBXACTS
    | HAS_RELFILELOCATORS
    | HAS_INVALS
    | HAS_TWOPHASE
    | HAS_ORIGIN
    | HAS_GID
    | HAS_DROPPED_STATS;

/// Name of a record's kind.
pub const fn name(kind: u8) -> &'static str {
    match kind & OPMASK {
        COMMIT => "COMMIT",
        PREPARE => "PREPARE",
        ABORT => "ABORT",
        COMMIT_PREPARED => "COMMIT_PREPARED",
        ABORT_PREPARED => "ABORT_PREPARED",
        ASSIGNMENT => "ASSIGNMENT",
        INVALIDATIONS => "INVALIDATION",
        _ => "UNKNOWN",
    }
}

/// Statistics of a dropped object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DroppedStats {
    /// Kind of statistics.
    pub kind: i32,
    /// Database.
    pub db: Oid,
    /// Object.
    pub object: u64,
}

/// Payload of commit and abort records.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct XactEnd {
    /// When, in microseconds since 2000-01-01.
    pub time: i64,
    /// `XINFO_` flags that announce no part.
    pub flags: u32,
    /// Database and tablespace.
    pub db: Option<(Oid, Oid)>,
    /// Subtransactions that end with it.
    pub subxacts: Vec<Xid>,
    /// Relations whose files are deleted.
    pub rels: Vec<RelFileLocator>,
    /// Statistics dropped.
    pub dropped_stats: Vec<DroppedStats>,
    /// Cache invalidations, as stored.
    pub invalidations: Vec<[u8; 16]>,
    /// The prepared transaction that this record ends.
    pub prepared_xid: Option<Xid>,
    /// Its name.
    pub prepared_name: Option<Vec<u8>>,
    /// Position and time at the replication origin.
    pub origin: Option<(Lsn, i64)>,
}

impl XactEnd {
    /// The payload of the smallest record.
    pub fn at(time: i64) -> Self {
        Self { time, ..Self::default() }
    }

    /// Appends it to `out`; returns [`HAS_INFO`] or 0, to be combined with the kind.
    pub fn encode(&self, out: &mut Vec<u8>) -> u8 {
        out.extend_from_slice(&self.time.to_le_bytes());
        let xinfo = self.xinfo();
        if xinfo == 0 {
            return 0;
        }
        out.extend_from_slice(&xinfo.to_le_bytes());
        if let Some((db, tablespace)) = self.db {
            out.extend_from_slice(&db.to_le_bytes());
            out.extend_from_slice(&tablespace.to_le_bytes());
        }
        push_list(out, &self.subxacts, |xid, out| out.extend_from_slice(&xid.to_le_bytes()));
        push_list(out, &self.rels, |rel, out| out.extend_from_slice(&rel.encode()));
        push_list(out, &self.dropped_stats, |item, out| {
            out.extend_from_slice(&item.kind.to_le_bytes());
            out.extend_from_slice(&item.db.to_le_bytes());
            out.extend_from_slice(&item.object.to_le_bytes());
        });
        push_list(out, &self.invalidations, |message, out| out.extend_from_slice(message));
        if let Some(xid) = self.prepared_xid {
            out.extend_from_slice(&xid.to_le_bytes());
        }
        if let Some(name) = &self.prepared_name {
            out.extend_from_slice(name);
            out.push(0);
        }
        if let Some((lsn, time)) = self.origin {
            out.extend_from_slice(&lsn.0.to_le_bytes());
            out.extend_from_slice(&time.to_le_bytes());
        }
        HAS_INFO
    }

    fn xinfo(&self) -> u32 {
        let flag = |on: bool, flag: u32| if on { flag } else { 0 };
        (self.flags & FREE_FLAGS)
            | flag(self.db.is_some(), HAS_DBINFO)
            | flag(!self.subxacts.is_empty(), HAS_SUBXACTS)
            | flag(!self.rels.is_empty(), HAS_RELFILELOCATORS)
            | flag(!self.dropped_stats.is_empty(), HAS_DROPPED_STATS)
            | flag(!self.invalidations.is_empty(), HAS_INVALS)
            | flag(self.prepared_xid.is_some(), HAS_TWOPHASE)
            | flag(self.prepared_name.is_some(), HAS_GID)
            | flag(self.origin.is_some(), HAS_ORIGIN)
    }

    /// Decodes it; `info` is the record's.
    pub fn decode(info: u8, main: &[u8]) -> Result<Self, PayloadError> {
        Self::read(info, &mut Cursor::new(main)).ok_or(damaged(name(info)))
    }

    fn read(info: u8, cursor: &mut Cursor<'_>) -> Option<Self> {
        let mut end = Self::at(cursor.i64()?);
        if info & HAS_INFO == 0 {
            return Some(end);
        }
        let xinfo = cursor.u32().filter(|xinfo| xinfo & !KNOWN_FLAGS == 0)?;
        end.flags = xinfo & FREE_FLAGS;
        if xinfo & HAS_DBINFO != 0 {
            end.db = Some((cursor.u32()?, cursor.u32()?));
        }
        if xinfo & HAS_SUBXACTS != 0 {
            let count = cursor.count()?;
            end.subxacts = cursor.u32s(count)?;
        }
        if xinfo & HAS_RELFILELOCATORS != 0 {
            end.rels = read_list(cursor)?.into_iter().map(RelFileLocator::decode).collect();
        }
        if xinfo & HAS_DROPPED_STATS != 0 {
            end.dropped_stats =
                read_list::<16>(cursor)?.into_iter().filter_map(read_stats).collect();
        }
        if xinfo & HAS_INVALS != 0 {
            end.invalidations = read_list(cursor)?;
        }
        if xinfo & HAS_TWOPHASE != 0 {
            end.prepared_xid = Some(cursor.u32()?);
        }
        if xinfo & HAS_GID != 0 {
            let len = cursor.rest().iter().position(|&byte| byte == 0)?;
            end.prepared_name = Some(cursor.take(len)?.to_vec());
            cursor.u8()?;
        }
        if xinfo & HAS_ORIGIN != 0 {
            end.origin = Some((Lsn(cursor.u64()?), cursor.i64()?));
        }
        Some(end)
    }
}

/// Payload of [`ASSIGNMENT`]: the top-level transaction, a count, its subtransactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The top-level transaction.
    pub top_xid: Xid,
    /// Its subtransactions.
    pub subxacts: Vec<Xid>,
}

impl Assignment {
    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8 + 4 * self.subxacts.len());
        for number in [self.top_xid, self.subxacts.len() as u32].iter().chain(&self.subxacts) {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let (top_xid, count) = (cursor.u32()?, cursor.count()?);
            Some(Self { top_xid, subxacts: cursor.u32s(count)? })
        };
        read(&mut cursor).ok_or(damaged("ASSIGNMENT"))
    }
}

/// Encodes the payload of [`INVALIDATIONS`]: a count, then the messages.
pub fn encode_invalidations(messages: &[[u8; 16]]) -> Vec<u8> {
    let mut out = (messages.len() as u32).to_le_bytes().to_vec();
    messages.iter().for_each(|message| out.extend_from_slice(message));
    out
}

/// Decodes the payload of [`INVALIDATIONS`]. The messages are as stored; see
/// [`Invalidation`](super::invalidation::Invalidation).
pub fn decode_invalidations(main: &[u8]) -> Result<Vec<[u8; 16]>, PayloadError> {
    read_list(&mut Cursor::new(main)).ok_or(damaged("INVALIDATION"))
}

fn read_stats(bytes: [u8; 16]) -> Option<DroppedStats> {
    let mut cursor = Cursor::new(&bytes);
    Some(DroppedStats { kind: cursor.i32()?, db: cursor.u32()?, object: cursor.u64()? })
}

/// Appends a count and the items. Appends nothing for an empty list, whose flag is not set.
fn push_list<T>(out: &mut Vec<u8>, items: &[T], push: impl Fn(&T, &mut Vec<u8>)) {
    if !items.is_empty() {
        out.extend_from_slice(&(items.len() as u32).to_le_bytes());
        items.iter().for_each(|item| push(item, out));
    }
}

fn read_list<const N: usize>(cursor: &mut Cursor<'_>) -> Option<Vec<[u8; N]>> {
    let count = cursor.count()?;
    let (items, _) = cursor.take(count.checked_mul(N)?)?.as_chunks::<N>();
    Some(items.to_vec())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_smallest_commit_is_its_time() {
        let mut out = Vec::new();
        assert_eq!(XactEnd::at(5).encode(&mut out), 0);
        assert_eq!(out, 5_i64.to_le_bytes());
        assert_eq!(XactEnd::decode(COMMIT, &out), Ok(XactEnd::at(5)));
    }

    #[test]
    fn layout_of_relations_to_delete() {
        let rel = RelFileLocator { spc: 1, db: 2, rel: 3 };
        let end = XactEnd { rels: vec![rel], db: Some((5, 1663)), ..XactEnd::at(0) };
        let mut out = Vec::new();
        assert_eq!(end.encode(&mut out), HAS_INFO);
        assert_eq!(out[8..12], [5, 0, 0, 0]);
        assert_eq!(out[20..], [1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
    }

    #[test]
    fn unknown_flags_and_absurd_counts_are_refused() {
        let mut bytes = 5_i64.to_le_bytes().to_vec();
        bytes.extend_from_slice(&(1_u32 << 9).to_le_bytes());
        assert!(XactEnd::decode(COMMIT | HAS_INFO, &bytes).is_err());
        assert!(Assignment::decode(&[1, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f]).is_err());
        assert!(decode_invalidations(&[0xff, 0xff, 0xff, 0x7f]).is_err());
    }

    proptest! {
        #[test]
        fn round_trip(
            time: i64,
            flags: u32,
            db: Option<(u32, u32)>,
            subxacts: Vec<u32>,
            rels: Vec<(u32, u32, u32)>,
            stats: Vec<(i32, u32, u64)>,
            invalidations: Vec<[u8; 16]>,
            prepared_xid: Option<u32>,
            name: Option<Vec<u8>>,
            origin: Option<(u64, i64)>,
            cut: usize,
        ) {
            let rel = |(spc, db, rel)| RelFileLocator { spc, db, rel };
            let stats_of = |(kind, db, object)| DroppedStats { kind, db, object };
            let without_zeros =
                |name: Vec<u8>| name.into_iter().filter(|&byte| byte != 0).collect();
            let end = XactEnd {
                time,
                flags: flags & FREE_FLAGS,
                db,
                subxacts,
                rels: rels.into_iter().map(rel).collect(),
                dropped_stats: stats.into_iter().map(stats_of).collect(),
                invalidations,
                prepared_xid,
                prepared_name: name.map(without_zeros),
                origin: origin.map(|(lsn, time)| (Lsn(lsn), time)),
            };
            let mut out = Vec::new();
            let info = end.encode(&mut out);
            let decoded = XactEnd::decode(info, &out);
            prop_assert_eq!(decoded, Ok(end));
            let cut = cut % out.len();
            prop_assert!(XactEnd::decode(info, &out[..cut]).is_err());
        }

        #[test]
        fn arbitrary_bytes_never_panic(info: u8, bytes: Vec<u8>) {
            let _ = XactEnd::decode(info, &bytes);
        }
    }
}
