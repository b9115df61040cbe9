//! The fields of the control file that page checksums and base backups need, of PostgreSQL 15 to
//! 18.
//!
//! ```text
//!   0        8         12        16      24     32           40     48         52
//!   +--------+---------+---------+-------+------+------------+------+----------+---
//!   | system | version | catalog | state | time | checkpoint | redo | timeline | ...
//!   | id     |         | version |       |      | record     |      |          |
//!   +--------+---------+---------+-------+------+------------+------+----------+---
//!   216      220       224    228       232    252        256    288        292
//!   +--------+---------+------+---------+------+----------+------+----------+------+
//!   | block  | segment | ...  | WAL     | ...  | checksum | ...  | crc of   | crc  |
//!   | size   | blocks  |      | segment |      | version  |      | 15 to 17 | of 18|
//!   +--------+---------+------+---------+------+----------+------+----------+------+
//! ```
//!
//! - system id: identifies the cluster
//! - version: determines the layout; versions 1300 (PostgreSQL 15 and 16) and 1700 have no byte for
//!   the signedness of char, so their checksum is four bytes lower
//! - catalog version: PostgreSQL's major version; part of the names of tablespace directories
//! - state: whether the cluster is shut down
//! - checkpoint, redo, timeline: the last checkpoint's record, where recovery from it begins, and
//!   its timeline
//! - block size, blocks of a segment: how to read the relation files
//! - checksum version: 1 if pages have checksums

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use super::file::{CATALOG_VERSION, CONTROL_VERSION, ControlError, DbState, FILE_SIZE};
use crate::{
    bytes::{put, u32_at},
    crc,
    ids::TimelineId,
    lsn::{Lsn, SegmentSize},
    wal::xlog::CheckPoint,
};

const VERSION_AT: usize = 8;
const CATALOG_AT: usize = 12;
const STATE_AT: usize = 16;
const TIME_AT: usize = 24;
const CHECKPOINT_AT: usize = 32;
const REDO_AT: usize = 40;
const BLOCK_SIZE_AT: usize = 216;
const SEGMENT_BLOCKS_AT: usize = 220;
const WAL_SEGMENT_SIZE_AT: usize = 228;
const CHECKSUM_VERSION_AT: usize = 252;

/// Control file version, and offset of its checksum.
const LAYOUTS: [(u32, usize); 3] = [(1300, 288), (1700, 288), (CONTROL_VERSION, 292)];
/// The shortest layout. A shorter file was truncated.
const SHORTEST: usize = 292;
/// Catalog version, PostgreSQL's major version, and control file version.
const MAJORS: [(u32, u32, u32); 4] = [
    (202_209_061, 15, 1300),
    (202_307_071, 16, 1300),
    (202_406_281, 17, 1700),
    (CATALOG_VERSION, 18, CONTROL_VERSION),
];

/// Whether it is the version of a control file of PostgreSQL 15 to 18.
pub fn is_known_version(version: u32) -> bool {
    LAYOUTS.iter().any(|(known, _)| *known == version)
}

/// The fields of a control file that page checksums and base backups need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    bytes: [u8; FILE_SIZE],
    crc_at: usize,
    /// PostgreSQL's major version.
    pub major: u32,
    /// The catalogs' version.
    pub catalog_version: u32,
    /// State of the cluster.
    pub state: DbState,
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks of a relation segment.
    pub segment_blocks: u32,
    /// Identifies the cluster.
    pub system_id: u64,
    /// The last checkpoint's record.
    pub checkpoint: Lsn,
    /// Where recovery from it begins.
    pub redo: Lsn,
    /// Its timeline.
    pub timeline: TimelineId,
    /// What else it says, in the layout that all these versions share.
    pub checkpoint_copy: CheckPoint,
    /// Size of WAL segments.
    pub wal_segment_size: SegmentSize,
    /// 1 if pages have checksums, else 0.
    pub checksum_version: u32,
}

impl Outline {
    /// Decodes the file. The other bytes are kept for [`Outline::with_checksum_version`].
    pub fn decode(bytes: &[u8]) -> Result<Outline, ControlError> {
        let short = || ControlError::TooShort(bytes.len());
        let number = |at| u32_at(bytes, at).ok_or_else(short);
        let incompatible = |what, found, expected| ControlError::Incompatible {
            what,
            found: u64::from(found),
            expected: u64::from(expected),
        };
        if bytes.len() < SHORTEST {
            return Err(short());
        }
        let version = number(VERSION_AT)?;
        let (_, crc_at) = LAYOUTS
            .into_iter()
            .find(|(known, _)| *known == version)
            .ok_or_else(|| incompatible("control file version", version, CONTROL_VERSION))?;
        if number(crc_at)? != crc::crc32c(bytes.get(..crc_at).ok_or_else(short)?) {
            return Err(ControlError::BadCrc);
        }
        let catalog_version = number(CATALOG_AT)?;
        let (_, major, _) = MAJORS
            .into_iter()
            .find(|(known, _, control)| (*known, *control) == (catalog_version, version))
            .ok_or_else(|| incompatible("catalog version", catalog_version, CATALOG_VERSION))?;
        let impossible =
            |what, found: u32| ControlError::Impossible { what, found: u64::from(found) };
        let state = number(STATE_AT)?;
        let state = DbState::from_number(state).ok_or(impossible("state", state))?;
        let segment = number(WAL_SEGMENT_SIZE_AT)?;
        let wal_segment_size =
            SegmentSize::new(segment).ok_or(impossible("WAL segment size", segment))?;
        let long = |at| -> Result<u64, ControlError> {
            Ok(u64::from(number(at)?) | u64::from(number(at + 4)?) << 32)
        };
        let copy = bytes.get(REDO_AT..).ok_or_else(short)?;
        let checkpoint_copy = CheckPoint::decode(copy).map_err(|_| short())?;
        let mut all = [0; FILE_SIZE];
        for (to, from) in all.iter_mut().zip(bytes) {
            *to = *from;
        }
        Ok(Outline {
            bytes: all,
            crc_at,
            major,
            catalog_version,
            state,
            block_size: number(BLOCK_SIZE_AT)?,
            segment_blocks: number(SEGMENT_BLOCKS_AT)?,
            system_id: long(0)?,
            checkpoint: Lsn(long(CHECKPOINT_AT)?),
            redo: checkpoint_copy.redo,
            timeline: checkpoint_copy.timeline,
            checkpoint_copy,
            wal_segment_size,
            checksum_version: number(CHECKSUM_VERSION_AT)?,
        })
    }

    /// The subdirectory of a tablespace that holds this cluster's files.
    pub fn tablespace_directory(&self) -> String {
        format!("PG_{}_{}", self.major, self.catalog_version)
    }

    /// Encodes the whole file with another checksum version and write time, which is in seconds of
    /// the Unix epoch.
    pub fn with_checksum_version(&self, checksum_version: u32, time: i64) -> [u8; FILE_SIZE] {
        let mut out = self.bytes;
        put(&mut out, TIME_AT, time.to_le_bytes());
        put(&mut out, CHECKSUM_VERSION_AT, checksum_version.to_le_bytes());
        let crc = crc::crc32c(out.get(..self.crc_at).unwrap_or(&[]));
        put(&mut out, self.crc_at, crc.to_le_bytes());
        out
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::super::file::{ControlFile, tests::sample};
    use super::*;
    use proptest::prelude::*;

    /// A file of PostgreSQL 15 to 17.
    fn older(catalog: u32, version: u32) -> [u8; FILE_SIZE] {
        let mut bytes = sample().encode();
        put(&mut bytes, VERSION_AT, version.to_le_bytes());
        put(&mut bytes, CATALOG_AT, catalog.to_le_bytes());
        put(&mut bytes, 292, [0; 4]);
        let crc = crc::crc32c(&bytes[..288]);
        put(&mut bytes, 288, crc.to_le_bytes());
        bytes
    }

    #[test]
    fn another_checksum_version_changes_nothing_else() {
        let outline = Outline::decode(&sample().encode()).unwrap();
        assert_eq!(
            (outline.major, outline.block_size, outline.segment_blocks),
            (18, 8192, 131_072)
        );
        assert_eq!(outline.tablespace_directory(), "PG_18_202506291");
        let control = sample();
        assert_eq!(
            (outline.system_id, outline.checkpoint),
            (control.system_id, control.checkpoint)
        );
        assert_eq!(
            (outline.redo, outline.timeline),
            (control.checkpoint_copy.redo, control.checkpoint_copy.timeline)
        );
        assert_eq!(outline.wal_segment_size, control.segment_size);
        let changed = ControlFile::decode(&outline.with_checksum_version(0, 99)).unwrap();
        assert_eq!(changed, ControlFile { checksum_version: 0, time: 99, ..sample() });
    }

    #[test]
    fn older_versions_have_their_checksum_at_another_offset() {
        for (catalog, major, version) in MAJORS {
            if major < 18 {
                let outline = Outline::decode(&older(catalog, version)).unwrap();
                assert_eq!((outline.major, outline.checksum_version), (major, 1));
                let changed = Outline::decode(&outline.with_checksum_version(0, 99)).unwrap();
                assert_eq!((changed.major, changed.checksum_version), (major, 0));
            }
        }
        assert!(matches!(
            Outline::decode(&older(CATALOG_VERSION, 1300)),
            Err(ControlError::Incompatible { .. })
        ));
        let mut damaged = older(202_209_061, 1300);
        damaged[40] ^= 1;
        assert_eq!(Outline::decode(&damaged), Err(ControlError::BadCrc));
    }

    #[test]
    fn a_release_has_one_control_file_version() {
        for (catalog, _, version) in MAJORS {
            for (other, _) in LAYOUTS.into_iter().filter(|(other, _)| *other != version) {
                let file = if other == CONTROL_VERSION {
                    let mut bytes = sample().encode();
                    put(&mut bytes, CATALOG_AT, catalog.to_le_bytes());
                    let crc = crc::crc32c(&bytes[..292]);
                    put(&mut bytes, 292, crc.to_le_bytes());
                    bytes
                } else {
                    older(catalog, other)
                };
                assert_eq!(
                    Outline::decode(&file),
                    Err(ControlError::Incompatible {
                        what: "catalog version",
                        found: u64::from(catalog),
                        expected: u64::from(CATALOG_VERSION),
                    })
                );
            }
        }
    }

    #[test]
    fn a_truncated_file_is_too_short() {
        for file in [older(202_209_061, 1300), sample().encode(), [0; FILE_SIZE]] {
            for len in [0, 7, 100, 291] {
                assert_eq!(Outline::decode(&file[..len]), Err(ControlError::TooShort(len)));
            }
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
            layout in 0..4_usize,
        ) {
            let mut bytes = bytes;
            if let (Some((version, crc_at)), true) = (LAYOUTS.get(layout), bytes.len() >= 296) {
                put(&mut bytes, VERSION_AT, version.to_le_bytes());
                let crc = crc::crc32c(&bytes[..*crc_at]);
                put(&mut bytes, *crc_at, crc.to_le_bytes());
            }
            let _ = Outline::decode(&bytes);
        }
    }
}
