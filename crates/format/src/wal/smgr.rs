//! Records about relation files: creation and truncation. Commit and abort records delete files.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{Cursor, put},
    ids::{BlockNumber, Fork, RelFileLocator},
    wal::error::{PayloadError, damaged},
};

/// A relation file was created.
pub const CREATE: u8 = 0x10;
/// A relation was truncated.
pub const TRUNCATE: u8 = 0x20;

/// Flag of [`SmgrTruncate`]: the main fork.
pub const TRUNCATE_HEAP: i32 = 1;
/// Flag of [`SmgrTruncate`]: the visibility map.
pub const TRUNCATE_VM: i32 = 2;
/// Flag of [`SmgrTruncate`]: the free-space map.
pub const TRUNCATE_FSM: i32 = 4;
/// Flags of [`SmgrTruncate`]: all three.
pub const TRUNCATE_ALL: i32 = 7;

/// Name of a record's kind.
pub const fn name(kind: u8) -> &'static str {
    match kind {
        CREATE => "CREATE",
        TRUNCATE => "TRUNCATE",
        _ => "UNKNOWN",
    }
}

/// Payload of [`CREATE`]: relation (12 bytes), fork (4 bytes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmgrCreate {
    /// The relation.
    pub rel: RelFileLocator,
    /// The fork whose file was created.
    pub fork: Fork,
}

impl SmgrCreate {
    /// Encodes it.
    pub fn encode(&self) -> [u8; 16] {
        let mut out = [0; 16];
        put(&mut out, 0, self.rel.encode());
        put(&mut out, 12, u32::from(self.fork.number()).to_le_bytes());
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let rel = RelFileLocator::decode(cursor.array()?);
            let fork = Fork::from_number(u8::try_from(cursor.u32()?).ok()?)?;
            Some(Self { rel, fork })
        };
        read(&mut cursor).ok_or(damaged("CREATE"))
    }
}

/// Payload of [`TRUNCATE`]: blocks that stay (4 bytes), relation (12 bytes), flags (4 bytes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmgrTruncate {
    /// Blocks of the main fork that stay.
    pub blocks: BlockNumber,
    /// The relation.
    pub rel: RelFileLocator,
    /// Which forks.
    pub flags: i32,
}

impl SmgrTruncate {
    /// Encodes it.
    pub fn encode(&self) -> [u8; 20] {
        let mut out = [0; 20];
        put(&mut out, 0, self.blocks.to_le_bytes());
        put(&mut out, 4, self.rel.encode());
        put(&mut out, 16, self.flags.to_le_bytes());
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let (blocks, rel) = (cursor.u32()?, RelFileLocator::decode(cursor.array()?));
            Some(Self { blocks, rel, flags: cursor.i32()? })
        };
        read(&mut cursor).ok_or(damaged("TRUNCATE"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let rel = RelFileLocator { spc: 1, db: 2, rel: 3 };
        let create = SmgrCreate { rel, fork: Fork::Vm };
        assert_eq!(create.encode(), [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(SmgrCreate::decode(&create.encode()), Ok(create));
        let truncate = SmgrTruncate { blocks: 9, rel, flags: TRUNCATE_ALL };
        assert_eq!(SmgrTruncate::decode(&truncate.encode()), Ok(truncate));
        assert!(SmgrTruncate::decode(&truncate.encode()[..19]).is_err());
        let mut bad = create.encode();
        bad[12] = 4;
        assert!(SmgrCreate::decode(&bad).is_err());
    }
}
