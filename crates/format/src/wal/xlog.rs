//! Records of the WAL itself: checkpoints, counters, full-page images.
//!
//! The checkpoint has 88 bytes, in its record and in the control file:
//!
//! ```text
//!   0      8          12         16         20          24        32        36      40
//!   +------+----------+----------+----------+-----------+---------+---------+-------+
//!   | redo | timeline | previous | fpw,     | wal_level | next    | next    | next  |
//!   |      |          | timeline | 3 B pad  |           | xid     | oid     | multi |
//!   +------+----------+----------+----------+-----------+---------+---------+-------+
//!   40           44        48        52        56         60        64
//!   +------------+---------+---------+---------+----------+---------+
//!   | next multi | oldest  | oldest  | oldest  | oldest   | padding |
//!   | offset     | xid     | xid db  | multi   | multi db |         |
//!   +------------+---------+---------+---------+----------+---------+
//!   64     72              76              80                  84        88
//!   +------+---------------+---------------+-------------------+---------+
//!   | time | oldest commit | newest commit | oldest active xid | padding |
//!   |      | ts xid        | ts xid        |                   |         |
//!   +------+---------------+---------------+-------------------+---------+
//! ```

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{Cursor, array_at, put},
    ids::{FullXid, Oid, TimelineId, Xid},
    lsn::Lsn,
    wal::error::{PayloadError, damaged},
};

/// Checkpoint at shutdown: the record is the redo point.
pub const CHECKPOINT_SHUTDOWN: u8 = 0x00;
/// Checkpoint while running.
pub const CHECKPOINT_ONLINE: u8 = 0x10;
/// No operation.
pub const NOOP: u8 = 0x20;
/// OIDs up to the payload's are reserved.
pub const NEXTOID: u8 = 0x30;
/// The rest of the segment is unused.
pub const SWITCH: u8 = 0x40;
/// A base backup ended.
pub const BACKUP_END: u8 = 0x50;
/// Settings that standbys depend on changed.
pub const PARAMETER_CHANGE: u8 = 0x60;
/// A named point to recover to.
pub const RESTORE_POINT: u8 = 0x70;
/// full_page_writes changed.
pub const FPW_CHANGE: u8 = 0x80;
/// Recovery ended without a checkpoint.
pub const END_OF_RECOVERY: u8 = 0x90;
/// Full-page images because of hint bits.
pub const FPI_FOR_HINT: u8 = 0xa0;
/// Full-page images.
pub const FPI: u8 = 0xb0;
/// Replaces the lost continuation of a record.
pub const OVERWRITE_CONTRECORD: u8 = 0xd0;
/// The redo point of a checkpoint that began here.
pub const CHECKPOINT_REDO: u8 = 0xe0;

/// Name of a record's kind.
pub const fn name(kind: u8) -> &'static str {
    match kind {
        CHECKPOINT_SHUTDOWN => "CHECKPOINT_SHUTDOWN",
        CHECKPOINT_ONLINE => "CHECKPOINT_ONLINE",
        NOOP => "NOOP",
        NEXTOID => "NEXTOID",
        SWITCH => "SWITCH",
        BACKUP_END => "BACKUP_END",
        PARAMETER_CHANGE => "PARAMETER_CHANGE",
        RESTORE_POINT => "RESTORE_POINT",
        FPW_CHANGE => "FPW_CHANGE",
        END_OF_RECOVERY => "END_OF_RECOVERY",
        FPI_FOR_HINT => "FPI_FOR_HINT",
        FPI => "FPI",
        OVERWRITE_CONTRECORD => "OVERWRITE_CONTRECORD",
        CHECKPOINT_REDO => "CHECKPOINT_REDO",
        _ => "UNKNOWN",
    }
}

/// `wal_level`, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum WalLevel {
    /// Enough for crash recovery.
    Minimal = 0,
    /// Enough for archiving and standbys.
    Replica = 1,
    /// Enough for logical decoding.
    Logical = 2,
}

impl WalLevel {
    /// The level with a number.
    pub const fn from_number(number: i32) -> Option<Self> {
        match number {
            0 => Some(Self::Minimal),
            1 => Some(Self::Replica),
            2 => Some(Self::Logical),
            _ => None,
        }
    }

    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Replica => "replica",
            Self::Logical => "logical",
        }
    }
}

/// Contents of a checkpoint record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckPoint {
    /// Where redo begins.
    pub redo: Lsn,
    /// Timeline.
    pub timeline: TimelineId,
    /// The previous timeline, if this checkpoint begins a timeline; else the same.
    pub prev_timeline: TimelineId,
    /// full_page_writes.
    pub full_page_writes: bool,
    /// wal_level as stored.
    pub wal_level: i32,
    /// Next transaction.
    pub next_xid: FullXid,
    /// Next object.
    pub next_oid: Oid,
    /// Next MultiXact.
    pub next_multi: u32,
    /// Next offset for MultiXact members.
    pub next_multi_offset: u32,
    /// Oldest transaction that any table may still contain.
    pub oldest_xid: Xid,
    /// The database of that table.
    pub oldest_xid_db: Oid,
    /// Oldest MultiXact that any table may still contain.
    pub oldest_multi: u32,
    /// The database of that table.
    pub oldest_multi_db: Oid,
    /// When, in seconds of the Unix epoch.
    pub time: i64,
    /// Oldest transaction with a commit timestamp.
    pub oldest_commit_ts_xid: Xid,
    /// Newest transaction with a commit timestamp.
    pub newest_commit_ts_xid: Xid,
    /// Oldest running transaction; only in online checkpoints with wal_level replica or higher.
    pub oldest_active_xid: Xid,
}

impl CheckPoint {
    /// Bytes of its stored form.
    pub const SIZE: usize = 88;

    /// Encodes it; padding is zero.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        put(&mut out, 0, self.redo.0.to_le_bytes());
        put(&mut out, 8, self.timeline.to_le_bytes());
        put(&mut out, 12, self.prev_timeline.to_le_bytes());
        put(&mut out, 16, [u8::from(self.full_page_writes)]);
        put(&mut out, 20, self.wal_level.to_le_bytes());
        put(&mut out, 24, self.next_xid.0.to_le_bytes());
        put(&mut out, 32, self.next_oid.to_le_bytes());
        put(&mut out, 36, self.next_multi.to_le_bytes());
        put(&mut out, 40, self.next_multi_offset.to_le_bytes());
        put(&mut out, 44, self.oldest_xid.to_le_bytes());
        put(&mut out, 48, self.oldest_xid_db.to_le_bytes());
        put(&mut out, 52, self.oldest_multi.to_le_bytes());
        put(&mut out, 56, self.oldest_multi_db.to_le_bytes());
        put(&mut out, 64, self.time.to_le_bytes());
        put(&mut out, 72, self.oldest_commit_ts_xid.to_le_bytes());
        put(&mut out, 76, self.newest_commit_ts_xid.to_le_bytes());
        put(&mut out, 80, self.oldest_active_xid.to_le_bytes());
        out
    }

    /// Decodes it.
    pub fn decode(bytes: &[u8]) -> Result<Self, PayloadError> {
        Self::read(&mut Cursor::new(bytes)).ok_or(damaged("CHECKPOINT"))
    }

    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        let (redo, timeline, prev_timeline) = (Lsn(cursor.u64()?), cursor.u32()?, cursor.u32()?);
        let [full_page_writes, _, _, _] = cursor.array()?;
        let (wal_level, next_xid) = (cursor.i32()?, FullXid(cursor.u64()?));
        let (next_oid, next_multi, next_multi_offset) =
            (cursor.u32()?, cursor.u32()?, cursor.u32()?);
        let (oldest_xid, oldest_xid_db) = (cursor.u32()?, cursor.u32()?);
        let (oldest_multi, oldest_multi_db) = (cursor.u32()?, cursor.u32()?);
        cursor.u32()?;
        let time = cursor.i64()?;
        let (oldest_commit_ts_xid, newest_commit_ts_xid) = (cursor.u32()?, cursor.u32()?);
        let oldest_active_xid = cursor.u32()?;
        cursor.u32()?;
        Some(Self {
            redo,
            timeline,
            prev_timeline,
            full_page_writes: full_page_writes != 0,
            wal_level,
            next_xid,
            next_oid,
            next_multi,
            next_multi_offset,
            oldest_xid,
            oldest_xid_db,
            oldest_multi,
            oldest_multi_db,
            time,
            oldest_commit_ts_xid,
            newest_commit_ts_xid,
            oldest_active_xid,
        })
    }
}

/// Payload of [`CHECKPOINT_REDO`]: wal_level.
pub const fn encode_checkpoint_redo(wal_level: i32) -> [u8; 4] {
    wal_level.to_le_bytes()
}

/// Decodes the payload of [`CHECKPOINT_REDO`].
pub fn decode_checkpoint_redo(main: &[u8]) -> Result<i32, PayloadError> {
    array_at(main, 0).map(i32::from_le_bytes).ok_or(damaged("CHECKPOINT_REDO"))
}

/// Payload of [`NEXTOID`]: OIDs below are taken.
pub const fn encode_next_oid(oid: Oid) -> [u8; 4] {
    oid.to_le_bytes()
}

/// Decodes the payload of [`NEXTOID`].
pub fn decode_next_oid(main: &[u8]) -> Result<Oid, PayloadError> {
    array_at(main, 0).map(u32::from_le_bytes).ok_or(damaged("NEXTOID"))
}

/// Payload of [`PARAMETER_CHANGE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is the setting of its name")]
pub struct ParameterChange {
    pub max_connections: i32,
    pub max_worker_processes: i32,
    pub max_wal_senders: i32,
    pub max_prepared_transactions: i32,
    pub max_locks_per_transaction: i32,
    pub wal_level: i32,
    pub wal_log_hints: bool,
    pub track_commit_timestamp: bool,
}

impl ParameterChange {
    /// Bytes of its stored form.
    pub const SIZE: usize = 28;

    /// Encodes it.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        let numbers = [
            self.max_connections,
            self.max_worker_processes,
            self.max_wal_senders,
            self.max_prepared_transactions,
            self.max_locks_per_transaction,
            self.wal_level,
        ];
        for (n, number) in numbers.into_iter().enumerate() {
            put(&mut out, n * 4, number.to_le_bytes());
        }
        put(&mut out, 24, [u8::from(self.wal_log_hints), u8::from(self.track_commit_timestamp)]);
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        Self::read(&mut Cursor::new(main)).ok_or(damaged("PARAMETER_CHANGE"))
    }

    fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        Some(Self {
            max_connections: cursor.i32()?,
            max_worker_processes: cursor.i32()?,
            max_wal_senders: cursor.i32()?,
            max_prepared_transactions: cursor.i32()?,
            max_locks_per_transaction: cursor.i32()?,
            wal_level: cursor.i32()?,
            wal_log_hints: cursor.u8()? != 0,
            track_commit_timestamp: cursor.u8()? != 0,
        })
    }
}

/// Payload of [`END_OF_RECOVERY`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndOfRecovery {
    /// When, in microseconds since 2000-01-01.
    pub time: i64,
    /// The new timeline.
    pub timeline: TimelineId,
    /// The one it branched off from.
    pub prev_timeline: TimelineId,
    /// wal_level as stored.
    pub wal_level: i32,
}

impl EndOfRecovery {
    /// Bytes of its stored form.
    pub const SIZE: usize = 24;

    /// Encodes it.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        put(&mut out, 0, self.time.to_le_bytes());
        put(&mut out, 8, self.timeline.to_le_bytes());
        put(&mut out, 12, self.prev_timeline.to_le_bytes());
        put(&mut out, 16, self.wal_level.to_le_bytes());
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let (time, timeline, prev_timeline) = (cursor.i64()?, cursor.u32()?, cursor.u32()?);
            Some(Self { time, timeline, prev_timeline, wal_level: cursor.i32()? })
        };
        read(&mut cursor).ok_or(damaged("END_OF_RECOVERY"))
    }
}

/// Payload of [`OVERWRITE_CONTRECORD`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverwriteContrecord {
    /// Start of the incomplete record.
    pub overwritten: Lsn,
    /// When, in microseconds since 2000-01-01.
    pub time: i64,
}

impl OverwriteContrecord {
    /// Encodes it.
    pub fn encode(&self) -> [u8; 16] {
        let mut out = [0; 16];
        put(&mut out, 0, self.overwritten.0.to_le_bytes());
        put(&mut out, 8, self.time.to_le_bytes());
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            Some(Self { overwritten: Lsn(cursor.u64()?), time: cursor.i64()? })
        };
        read(&mut cursor).ok_or(damaged("OVERWRITE_CONTRECORD"))
    }
}

/// Payload of [`RESTORE_POINT`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestorePoint {
    /// When it was made, in microseconds since 2000-01-01.
    pub time: i64,
    /// Its name, at most [`RestorePoint::NAME_MAX`] bytes without zeros.
    pub name: Vec<u8>,
}

impl RestorePoint {
    /// Most bytes of a name.
    pub const NAME_MAX: usize = 63;
    /// Bytes of its stored form: time, and the name with trailing zeros.
    pub const SIZE: usize = 8 + Self::NAME_MAX + 1;

    /// Encodes it; a name that is too long is truncated.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        put(&mut out, 0, self.time.to_le_bytes());
        for (to, from) in out.iter_mut().skip(8).zip(self.name.iter().take(Self::NAME_MAX)) {
            *to = *from;
        }
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let time = cursor.i64().ok_or(damaged("RESTORE_POINT"))?;
        let name = main.get(8..Self::SIZE).ok_or(damaged("RESTORE_POINT"))?;
        let name = name.iter().copied().take_while(|&byte| byte != 0).collect();
        Ok(Self { time, name })
    }
}

/// Payload of [`BACKUP_END`]: the redo pointer that the backup began with.
pub const fn encode_backup_end(start: Lsn) -> [u8; 8] {
    start.0.to_le_bytes()
}

/// Decodes the payload of [`BACKUP_END`].
pub fn decode_backup_end(main: &[u8]) -> Result<Lsn, PayloadError> {
    Cursor::new(main).u64().map(Lsn).ok_or(damaged("BACKUP_END"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn checkpoint_offsets() {
        let checkpoint = CheckPoint {
            redo: Lsn(1),
            timeline: 2,
            prev_timeline: 3,
            full_page_writes: true,
            wal_level: 4,
            next_xid: FullXid(5),
            next_oid: 6,
            next_multi: 7,
            next_multi_offset: 8,
            oldest_xid: 9,
            oldest_xid_db: 10,
            oldest_multi: 11,
            oldest_multi_db: 12,
            time: 13,
            oldest_commit_ts_xid: 14,
            newest_commit_ts_xid: 15,
            oldest_active_xid: 16,
        };
        let bytes = checkpoint.encode();
        let at = [0, 8, 12, 16, 20, 24, 32, 36, 40, 44, 48, 52, 56, 64, 72, 76, 80];
        let expected = [1, 2, 3, 1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
        assert_eq!(at.map(|at| bytes[at]), expected);
        assert_eq!(CheckPoint::decode(&bytes), Ok(checkpoint));
        for len in 0..88 {
            assert!(CheckPoint::decode(&bytes[..len]).is_err());
        }
    }

    #[test]
    fn other_payloads_round_trip() {
        let change = ParameterChange {
            max_connections: 100,
            max_worker_processes: 8,
            max_wal_senders: 10,
            max_prepared_transactions: 0,
            max_locks_per_transaction: 64,
            wal_level: 1,
            wal_log_hints: false,
            track_commit_timestamp: true,
        };
        assert_eq!(ParameterChange::decode(&change.encode()), Ok(change));
        assert_eq!(change.encode()[24..], [0, 1, 0, 0]);
        let end = EndOfRecovery { time: -1, timeline: 2, prev_timeline: 1, wal_level: 1 };
        assert_eq!(EndOfRecovery::decode(&end.encode()), Ok(end));
        let overwrite = OverwriteContrecord { overwritten: Lsn(9), time: 5 };
        assert_eq!(OverwriteContrecord::decode(&overwrite.encode()), Ok(overwrite));
        let point = RestorePoint { time: 7, name: b"before the move".to_vec() };
        assert_eq!(RestorePoint::decode(&point.encode()), Ok(point.clone()));
        assert_eq!(point.encode().len(), 72);
        let long = RestorePoint { time: 7, name: vec![b'x'; 100] };
        assert_eq!(RestorePoint::decode(&long.encode()).unwrap().name, vec![b'x'; 63]);
        assert!(RestorePoint::decode(&point.encode()[..71]).is_err());
        assert_eq!(decode_backup_end(&encode_backup_end(Lsn(0x200_0028))), Ok(Lsn(0x200_0028)));
        assert!(decode_backup_end(&[0; 7]).is_err());
        assert_eq!(decode_next_oid(&encode_next_oid(24_576)), Ok(24_576));
        assert_eq!(decode_checkpoint_redo(&encode_checkpoint_redo(1)), Ok(1));
        assert!(decode_checkpoint_redo(&[]).is_err());
    }
}
