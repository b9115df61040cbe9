//! Records for standbys: running transactions, and the exclusive locks that they hold.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::Cursor,
    ids::{Oid, Xid},
    wal::error::{PayloadError, damaged},
};

/// Access-exclusive locks held.
pub const LOCK: u8 = 0x00;
/// Transactions running.
pub const RUNNING_XACTS: u8 = 0x10;
/// Cache invalidations of transactions without an id.
pub const INVALIDATIONS: u8 = 0x20;

/// Name of a record's kind.
pub const fn name(kind: u8) -> &'static str {
    match kind {
        LOCK => "LOCK",
        RUNNING_XACTS => "RUNNING_XACTS",
        INVALIDATIONS => "INVALIDATIONS",
        _ => "UNKNOWN",
    }
}

/// Payload of [`RUNNING_XACTS`].
///
/// ```text
///   0       4          8          12       16       20       24
///   +-------+----------+----------+--------+--------+--------+--------------------------+
///   | count | subcount | overflow | next   | oldest | latest | xids, then subxids       |
///   |       |          | and pad  | xid    | running| compl. | 4 bytes each             |
///   +-------+----------+----------+--------+--------+--------+--------------------------+
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningXacts {
    /// Whether subtransactions are missing from the list.
    pub subxid_overflow: bool,
    /// Next transaction id.
    pub next_xid: Xid,
    /// Oldest running transaction.
    pub oldest_running: Xid,
    /// Latest completed transaction.
    pub latest_completed: Xid,
    /// Running transactions.
    pub xids: Vec<Xid>,
    /// Their subtransactions.
    pub subxids: Vec<Xid>,
}

impl RunningXacts {
    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(24 + 4 * (self.xids.len() + self.subxids.len()));
        let head =
            [self.xids.len() as u32, self.subxids.len() as u32, u32::from(self.subxid_overflow)];
        let counters = [self.next_xid, self.oldest_running, self.latest_completed];
        for number in head.iter().chain(&counters).chain(&self.xids).chain(&self.subxids) {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        Self::read(&mut Cursor::new(main)).ok_or(damaged("RUNNING_XACTS"))
    }

    fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        let (count, subcount) = (cursor.count()?, cursor.count()?);
        let [overflow, _, _, _] = cursor.array()?;
        let (next_xid, oldest_running, latest_completed) =
            (cursor.u32()?, cursor.u32()?, cursor.u32()?);
        let xids = cursor.u32s(count)?;
        let subxids = cursor.u32s(subcount)?;
        Some(Self {
            subxid_overflow: overflow != 0,
            next_xid,
            oldest_running,
            latest_completed,
            xids,
            subxids,
        })
    }
}

/// An access-exclusive lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StandbyLock {
    /// The transaction that holds it.
    pub xid: Xid,
    /// Database of the relation; 0 for shared ones.
    pub db: Oid,
    /// The relation.
    pub rel: Oid,
}

/// Encodes the payload of [`LOCK`]: a count, then transaction, database and relation of each lock.
pub fn encode_locks(locks: &[StandbyLock]) -> Vec<u8> {
    let mut out = (locks.len() as u32).to_le_bytes().to_vec();
    for number in locks.iter().flat_map(|lock| [lock.xid, lock.db, lock.rel]) {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out
}

/// Decodes the payload of [`LOCK`].
pub fn decode_locks(main: &[u8]) -> Result<Vec<StandbyLock>, PayloadError> {
    let mut cursor = Cursor::new(main);
    let read = |cursor: &mut Cursor<'_>| {
        let count = cursor.count().filter(|&count| count <= cursor.remaining() / 12)?;
        (0..count)
            .map(|_| {
                Some(StandbyLock { xid: cursor.u32()?, db: cursor.u32()?, rel: cursor.u32()? })
            })
            .collect::<Option<Vec<_>>>()
    };
    read(&mut cursor).ok_or(damaged("LOCK"))
}

/// Payload of [`INVALIDATIONS`]: database, tablespace, relation cache flag, padding, count,
/// invalidations of 16 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalidations {
    /// Database.
    pub db: Oid,
    /// Tablespace.
    pub tablespace: Oid,
    /// The relation cache's file is out of date.
    pub relcache_file: bool,
    /// The messages, as stored.
    pub messages: Vec<[u8; 16]>,
}

impl Invalidations {
    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + 16 * self.messages.len());
        for number in
            [self.db, self.tablespace, u32::from(self.relcache_file), self.messages.len() as u32]
        {
            out.extend_from_slice(&number.to_le_bytes());
        }
        self.messages.iter().for_each(|message| out.extend_from_slice(message));
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let (db, tablespace) = (cursor.u32()?, cursor.u32()?);
            let [relcache_file, _, _, _] = cursor.array()?;
            let count = cursor.count()?;
            let (messages, _) = cursor.take(count.checked_mul(16)?)?.as_chunks::<16>();
            Some(Self {
                db,
                tablespace,
                relcache_file: relcache_file != 0,
                messages: messages.to_vec(),
            })
        };
        read(&mut cursor).ok_or(damaged("INVALIDATIONS"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let running = RunningXacts {
            subxid_overflow: true,
            next_xid: 10,
            oldest_running: 7,
            latest_completed: 9,
            xids: vec![7, 8],
            subxids: vec![9],
        };
        let bytes = running.encode();
        assert_eq!(bytes.len(), 36);
        assert_eq!(bytes[..12], [2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(RunningXacts::decode(&bytes), Ok(running));
        assert!(RunningXacts::decode(&bytes[..35]).is_err());
        let locks = [StandbyLock { xid: 1, db: 2, rel: 3 }; 2];
        assert_eq!(decode_locks(&encode_locks(&locks)), Ok(locks.to_vec()));
    }

    #[test]
    fn absurd_counts_are_refused() {
        assert!(decode_locks(&[0xff; 20]).is_err());
        assert!(decode_locks(&[0xff, 0xff, 0xff, 0x7f]).is_err());
        let mut bytes = vec![0; 40];
        bytes[3] = 0x7f;
        assert!(RunningXacts::decode(&bytes).is_err());
    }
}
