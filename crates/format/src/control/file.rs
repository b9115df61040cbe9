//! The whole control file.
//!
//! It is one struct of 296 bytes at the beginning of a file of 8192 bytes; the rest is zeros. The
//! struct is smaller than a sector, so that an update is atomic. The checksum covers all bytes
//! before it.
//!
//! ```text
//!   0         8        12        16      24     32           40              128
//!   +---------+--------+---------+-------+------+------------+---------------+
//!   | system  | version| catalog | state,| time | checkpoint | its copy,     |
//!   | id      | 1800   | version | pad   |      | record     | see wal::xlog |
//!   +---------+--------+---------+-------+------+------------+---------------+
//!   128        136          148    152             168         172            204
//!   +----------+------------+------+---------------+-----------+--------------+
//!   | unlogged | minimum    | pad  | backup start, | backup    | settings for |
//!   | lsn      | recovery   |      | backup end    | end req.  | standbys     |
//!   +----------+------------+------+---------------+-----------+--------------+
//!   204                                       257              289   292   296
//!   +-----------------------------------------+----------------+-----+-----+
//!   | alignment, sizes, checksum version,     | nonce,         | pad | crc |
//!   | signedness of char                      | 32 bytes       |     |     |
//!   +-----------------------------------------+----------------+-----+-----+
//! ```
//!
//! - system id: ties WAL and backups to the cluster
//! - version, catalog version: which server may open the cluster
//! - state, time, checkpoint, its copy: where recovery begins, and whether it is needed
//! - unlogged lsn: a counter for pages without WAL
//! - minimum recovery, backup start and end: how far an archive recovery must go
//! - settings for standbys: a standby's values must not be smaller
//! - alignment, sizes: how the files were written

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{Cursor, put},
    crc,
    ids::{BLOCK_SIZE, RELSEG_BLOCKS, TimelineId},
    lsn::{Lsn, SegmentSize, WAL_BLOCK_SIZE},
    wal::xlog::CheckPoint,
};

/// Bytes of the file.
pub const FILE_SIZE: usize = 8192;
/// Bytes of the struct.
pub const STRUCT_SIZE: usize = 296;
/// Version of the format.
pub const CONTROL_VERSION: u32 = 1800;
/// Version of the catalogs.
pub const CATALOG_VERSION: u32 = 202_506_291;
/// Path relative to the data directory.
pub const PATH: &str = "global/pg_control";

const CRC_AT: usize = 292;
const FLOAT_FORMAT: f64 = 1_234_567.0;

const _: () = assert!(CRC_AT + 4 == STRUCT_SIZE);
const _: () = assert!(STRUCT_SIZE <= 512, "an update must fit a sector");

/// The state of the cluster when the file was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum DbState {
    /// Being initialized.
    Startup = 0,
    /// Shut down.
    ShutDown = 1,
    /// Shut down while a standby.
    ShutDownInRecovery = 2,
    /// Shutting down.
    ShuttingDown = 3,
    /// Recovering from a crash.
    CrashRecovery = 4,
    /// Recovering from an archive, or a standby.
    ArchiveRecovery = 5,
    /// Running.
    Production = 6,
}

impl DbState {
    /// The state with a number.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Startup),
            1 => Some(Self::ShutDown),
            2 => Some(Self::ShutDownInRecovery),
            3 => Some(Self::ShuttingDown),
            4 => Some(Self::CrashRecovery),
            5 => Some(Self::ArchiveRecovery),
            6 => Some(Self::Production),
            _ => None,
        }
    }

    /// The name that `pg_controldata` prints.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Startup => "starting up",
            Self::ShutDown => "shut down",
            Self::ShutDownInRecovery => "shut down in recovery",
            Self::ShuttingDown => "shutting down",
            Self::CrashRecovery => "in crash recovery",
            Self::ArchiveRecovery => "in archive recovery",
            Self::Production => "in production",
        }
    }
}

/// Contents of the control file. Fields that can have only one value are checked by
/// [`ControlFile::decode`] and not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlFile {
    /// Identifies the cluster.
    pub system_id: u64,
    /// State of the cluster.
    pub state: DbState,
    /// When the file was written, in seconds of the Unix epoch.
    pub time: i64,
    /// The last checkpoint's record.
    pub checkpoint: Lsn,
    /// Contents of that record.
    pub checkpoint_copy: CheckPoint,
    /// Counter for pages without WAL.
    pub unlogged_lsn: Lsn,
    /// Recovery must reach this position.
    pub min_recovery_point: Lsn,
    /// Timeline of that position.
    pub min_recovery_timeline: TimelineId,
    /// Redo point of the backup being recovered.
    pub backup_start: Lsn,
    /// End of the backup being recovered, if it was taken from a standby.
    pub backup_end: Lsn,
    /// Whether recovery must find the record of the backup's end.
    pub backup_end_required: bool,
    /// wal_level as stored.
    pub wal_level: i32,
    /// wal_log_hints.
    pub wal_log_hints: bool,
    /// max_connections.
    pub max_connections: i32,
    /// max_worker_processes.
    pub max_worker_processes: i32,
    /// max_wal_senders.
    pub max_wal_senders: i32,
    /// max_prepared_transactions.
    pub max_prepared_transactions: i32,
    /// max_locks_per_transaction.
    pub max_locks_per_transaction: i32,
    /// track_commit_timestamp.
    pub track_commit_timestamp: bool,
    /// Size of WAL segments.
    pub segment_size: SegmentSize,
    /// 1 if pages have checksums, else 0.
    pub checksum_version: u32,
    /// Whether C's `char` is signed on the platform on which the cluster was made.
    pub char_signed: bool,
    /// Random bytes for mock authentication.
    pub mock_nonce: [u8; 32],
}

/// Why a control file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The file is too short.
    #[error("control file has {0} bytes only")]
    TooShort(usize),
    /// The checksum differs.
    #[error("incorrect checksum in control file")]
    BadCrc,
    /// The file was made by another version.
    #[error(
        "database files are incompatible with server: \
         {what} {found}, but this server needs {expected}"
    )]
    Incompatible {
        /// The property that differs.
        what: &'static str,
        /// Its value in the file.
        found: u64,
        /// The value that is needed.
        expected: u64,
    },
    /// A field has an invalid value.
    #[error("control file has an impossible value: {what} {found}")]
    Impossible {
        /// The field.
        what: &'static str,
        /// Its value in the file.
        found: u64,
    },
}

/// Name and value of the fields that must have this value.
const FIXED_SIZES: [(&str, u32); 3] = [
    ("block size", BLOCK_SIZE as u32),
    ("relation segment size", RELSEG_BLOCKS),
    ("WAL block size", WAL_BLOCK_SIZE as u32),
];
const FIXED_LIMITS: [(&str, u32); 4] = [
    ("name length", 64),
    ("index columns", 32),
    ("TOAST chunk size", 1996),
    ("large object chunk size", 2048),
];
const MAX_ALIGN: u32 = 8;

impl ControlFile {
    /// Encodes the whole file.
    pub fn encode(&self) -> [u8; FILE_SIZE] {
        let mut out = [0; FILE_SIZE];
        put(&mut out, 0, self.system_id.to_le_bytes());
        put(&mut out, 8, CONTROL_VERSION.to_le_bytes());
        put(&mut out, 12, CATALOG_VERSION.to_le_bytes());
        put(&mut out, 16, (self.state as u32).to_le_bytes());
        put(&mut out, 24, self.time.to_le_bytes());
        put(&mut out, 32, self.checkpoint.0.to_le_bytes());
        put(&mut out, 40, self.checkpoint_copy.encode());
        put(&mut out, 128, self.unlogged_lsn.0.to_le_bytes());
        put(&mut out, 136, self.min_recovery_point.0.to_le_bytes());
        put(&mut out, 144, self.min_recovery_timeline.to_le_bytes());
        put(&mut out, 152, self.backup_start.0.to_le_bytes());
        put(&mut out, 160, self.backup_end.0.to_le_bytes());
        put(&mut out, 168, [u8::from(self.backup_end_required)]);
        put(&mut out, 172, self.wal_level.to_le_bytes());
        put(&mut out, 176, [u8::from(self.wal_log_hints)]);
        put(&mut out, 180, self.max_connections.to_le_bytes());
        put(&mut out, 184, self.max_worker_processes.to_le_bytes());
        put(&mut out, 188, self.max_wal_senders.to_le_bytes());
        put(&mut out, 192, self.max_prepared_transactions.to_le_bytes());
        put(&mut out, 196, self.max_locks_per_transaction.to_le_bytes());
        put(&mut out, 200, [u8::from(self.track_commit_timestamp)]);
        put(&mut out, 204, MAX_ALIGN.to_le_bytes());
        put(&mut out, 208, FLOAT_FORMAT.to_le_bytes());
        let sizes = FIXED_SIZES.into_iter().map(|(_, value)| value);
        let limits = FIXED_LIMITS.into_iter().map(|(_, value)| value);
        for (n, value) in sizes.chain([self.segment_size.get()]).chain(limits).enumerate() {
            put(&mut out, 216 + n * 4, value.to_le_bytes());
        }
        put(&mut out, 248, [1]);
        put(&mut out, 252, self.checksum_version.to_le_bytes());
        put(&mut out, 256, [u8::from(self.char_signed)]);
        put(&mut out, 257, self.mock_nonce);
        let crc = crc::crc32c(out.get(..CRC_AT).unwrap_or(&[]));
        put(&mut out, CRC_AT, crc.to_le_bytes());
        out
    }

    /// Decodes the beginning of the file. The version is looked at first: the file of another
    /// version has its checksum elsewhere.
    pub fn decode(bytes: &[u8]) -> Result<Self, ControlError> {
        let (Some(covered), Some(bytes)) = (bytes.get(..CRC_AT), bytes.get(..STRUCT_SIZE)) else {
            return Err(ControlError::TooShort(bytes.len()));
        };
        let short = ControlError::TooShort(bytes.len());
        let mut cursor = Cursor::new(bytes);
        let system_id = cursor.u64().ok_or(short.clone())?;
        let (version, catalog) =
            (cursor.u32().ok_or(short.clone())?, cursor.u32().ok_or(short.clone())?);
        expect("control file version", version, CONTROL_VERSION)?;
        if crate::bytes::u32_at(bytes, CRC_AT) != Some(crc::crc32c(covered)) {
            return Err(ControlError::BadCrc);
        }
        expect("catalog version", catalog, CATALOG_VERSION)?;
        check_fixed(bytes).ok_or(short.clone())??;
        let state = cursor.u32().ok_or(short.clone())?;
        let impossible = ControlError::Impossible { what: "state", found: u64::from(state) };
        let state = DbState::from_number(state).ok_or(impossible)?;
        let segment_size = crate::bytes::u32_at(bytes, 228).ok_or(short.clone())?;
        let impossible =
            ControlError::Impossible { what: "WAL segment size", found: u64::from(segment_size) };
        let segment_size = SegmentSize::new(segment_size).ok_or(impossible)?;
        Self::read(&mut cursor, system_id, state, segment_size).ok_or(short)
    }

    /// Reads what follows the state.
    fn read(
        cursor: &mut Cursor<'_>,
        system_id: u64,
        state: DbState,
        segment_size: SegmentSize,
    ) -> Option<Self> {
        cursor.u32()?;
        let (time, checkpoint, checkpoint_copy) =
            (cursor.i64()?, Lsn(cursor.u64()?), CheckPoint::read(cursor)?);
        let (unlogged_lsn, min_recovery_point) = (Lsn(cursor.u64()?), Lsn(cursor.u64()?));
        let min_recovery_timeline = cursor.u32()?;
        cursor.u32()?;
        let (backup_start, backup_end) = (Lsn(cursor.u64()?), Lsn(cursor.u64()?));
        let (backup_end_required, wal_level) = (read_bool(cursor)?, cursor.i32()?);
        let (wal_log_hints, max_connections) = (read_bool(cursor)?, cursor.i32()?);
        let (max_worker_processes, max_wal_senders) = (cursor.i32()?, cursor.i32()?);
        let (max_prepared_transactions, max_locks_per_transaction) = (cursor.i32()?, cursor.i32()?);
        let track_commit_timestamp = read_bool(cursor)?;
        cursor.take(252 - 204)?;
        let (checksum_version, char_signed) = (cursor.u32()?, cursor.u8()? != 0);
        Some(Self {
            system_id,
            state,
            time,
            checkpoint,
            checkpoint_copy,
            unlogged_lsn,
            min_recovery_point,
            min_recovery_timeline,
            backup_start,
            backup_end,
            backup_end_required,
            wal_level,
            wal_log_hints,
            max_connections,
            max_worker_processes,
            max_wal_senders,
            max_prepared_transactions,
            max_locks_per_transaction,
            track_commit_timestamp,
            segment_size,
            checksum_version,
            char_signed,
            mock_nonce: cursor.array()?,
        })
    }
}

/// A C bool followed by three bytes of padding.
fn read_bool(cursor: &mut Cursor<'_>) -> Option<bool> {
    let [value, _, _, _] = cursor.array()?;
    Some(value != 0)
}

fn expect(what: &'static str, found: u32, expected: u32) -> Result<(), ControlError> {
    let (found, expected) = (u64::from(found), u64::from(expected));
    if found == expected {
        Ok(())
    } else {
        Err(ControlError::Incompatible { what, found, expected })
    }
}

/// Checks everything that must agree with how this program was built; `None` if bytes are missing.
fn check_fixed(bytes: &[u8]) -> Option<Result<(), ControlError>> {
    let mut cursor = Cursor::new(bytes.get(204..)?);
    let mut all = vec![("alignment", cursor.u32()?, MAX_ALIGN)];
    let float_agrees = cursor.u64()? == FLOAT_FORMAT.to_bits();
    all.push(("floating-point format", u32::from(float_agrees), 1));
    for (what, expected) in FIXED_SIZES {
        all.push((what, cursor.u32()?, expected));
    }
    cursor.u32()?;
    for (what, expected) in FIXED_LIMITS {
        all.push((what, cursor.u32()?, expected));
    }
    all.push(("float8 by value", u32::from(cursor.u8()?), 1));
    Some(all.into_iter().try_for_each(|(what, found, expected)| expect(what, found, expected)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(in crate::control) fn sample() -> ControlFile {
        ControlFile {
            system_id: 7,
            state: DbState::Production,
            time: 1,
            checkpoint: Lsn(2),
            checkpoint_copy: CheckPoint::decode(&[3; 88]).unwrap(),
            unlogged_lsn: Lsn(1000),
            min_recovery_point: Lsn(4),
            min_recovery_timeline: 5,
            backup_start: Lsn(6),
            backup_end: Lsn(7),
            backup_end_required: true,
            wal_level: 1,
            wal_log_hints: true,
            max_connections: 100,
            max_worker_processes: 8,
            max_wal_senders: 10,
            max_prepared_transactions: 1,
            max_locks_per_transaction: 64,
            track_commit_timestamp: true,
            segment_size: SegmentSize::DEFAULT,
            checksum_version: 1,
            char_signed: true,
            mock_nonce: [9; 32],
        }
    }

    fn with_crc(mut bytes: [u8; FILE_SIZE]) -> [u8; FILE_SIZE] {
        let crc = crc::crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..STRUCT_SIZE].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    #[test]
    fn round_trip() {
        assert_eq!(ControlFile::decode(&sample().encode()), Ok(sample()));
        assert_eq!(ControlFile::decode(&sample().encode()[..512]), Ok(sample()));
        assert_eq!(
            ControlFile::decode(&sample().encode()[..295]),
            Err(ControlError::TooShort(295))
        );
    }

    #[test]
    fn damage_and_other_versions_are_told_apart() {
        let good = sample().encode();
        let damage = |at: usize| {
            let mut bytes = good;
            bytes[at] ^= 1;
            bytes
        };
        assert_eq!(ControlFile::decode(&damage(100)), Err(ControlError::BadCrc));
        let other = ControlFile::decode(&damage(8)).unwrap_err();
        assert!(other.to_string().contains("control file version 1801"), "{other}");
        for (at, what) in [
            (12, "catalog version"),
            (204, "alignment"),
            (215, "floating-point format"),
            (216, "block size"),
            (220, "relation segment size"),
            (224, "WAL block size"),
            (232, "name length"),
            (236, "index columns"),
            (240, "TOAST chunk size"),
            (244, "large object chunk size"),
            (248, "float8 by value"),
            (228, "WAL segment size"),
        ] {
            let error = ControlFile::decode(&with_crc(damage(at))).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
        }
        let mut bytes = good;
        bytes[16] = 7;
        assert!(matches!(
            ControlFile::decode(&with_crc(bytes)),
            Err(ControlError::Impossible { .. })
        ));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..400),
            fix: bool,
        ) {
            if fix && bytes.len() >= STRUCT_SIZE {
                bytes[8..16].copy_from_slice(&sample().encode()[8..16]);
                let crc = crc::crc32c(&bytes[..CRC_AT]);
                bytes[CRC_AT..STRUCT_SIZE].copy_from_slice(&crc.to_le_bytes());
            }
            let _ = ControlFile::decode(&bytes);
        }
    }
}
