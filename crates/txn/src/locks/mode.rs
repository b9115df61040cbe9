//! The eight modes of a relation lock.

use std::fmt;

/// Lock modes, weakest first; the numbers are PostgreSQL's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum LockMode {
    /// SELECT.
    AccessShare = 1,
    /// SELECT FOR UPDATE.
    RowShare = 2,
    /// INSERT, UPDATE, DELETE, COPY FROM.
    RowExclusive = 3,
    /// VACUUM, ANALYZE, CREATE INDEX CONCURRENTLY.
    ShareUpdateExclusive = 4,
    /// CREATE INDEX.
    Share = 5,
    /// Like `Share`, but only one at a time.
    ShareRowExclusive = 6,
    /// Lets only readers in.
    Exclusive = 7,
    /// DROP TABLE, TRUNCATE, VACUUM FULL: lets nobody in.
    AccessExclusive = 8,
}

impl LockMode {
    /// All modes, weakest first.
    pub const ALL: [LockMode; 8] = [
        LockMode::AccessShare,
        LockMode::RowShare,
        LockMode::RowExclusive,
        LockMode::ShareUpdateExclusive,
        LockMode::Share,
        LockMode::ShareRowExclusive,
        LockMode::Exclusive,
        LockMode::AccessExclusive,
    ];

    /// This mode as a bit of a mode set.
    pub(super) const fn bit(self) -> u16 {
        1 << self as u16
    }

    /// The set of modes that conflict with a weak one.
    pub(super) const STRONG: u16 = LockMode::Share.bit()
        | LockMode::ShareRowExclusive.bit()
        | LockMode::Exclusive.bit()
        | LockMode::AccessExclusive.bit();

    /// Whether it conflicts with a weak mode.
    pub(super) const fn is_strong(self) -> bool {
        self.bit() & LockMode::STRONG != 0
    }

    /// Whether it conflicts with none of the modes up to `RowExclusive`, and is one of them.
    pub const fn is_weak(self) -> bool {
        matches!(self, LockMode::AccessShare | LockMode::RowShare | LockMode::RowExclusive)
    }

    /// The set of modes that this one cannot be held beside.
    pub(super) const fn conflicts(self) -> u16 {
        use LockMode as M;
        let exclusive = M::Exclusive.bit() | M::AccessExclusive.bit();
        match self {
            M::AccessShare => M::AccessExclusive.bit(),
            M::RowShare => exclusive,
            M::RowExclusive => M::Share.bit() | M::ShareRowExclusive.bit() | exclusive,
            M::ShareUpdateExclusive => {
                M::ShareUpdateExclusive.bit()
                    | M::Share.bit()
                    | M::ShareRowExclusive.bit()
                    | exclusive
            }
            M::Share => {
                M::RowExclusive.bit()
                    | M::ShareUpdateExclusive.bit()
                    | M::ShareRowExclusive.bit()
                    | exclusive
            }
            M::ShareRowExclusive => {
                M::RowExclusive.bit()
                    | M::ShareUpdateExclusive.bit()
                    | M::Share.bit()
                    | M::ShareRowExclusive.bit()
                    | exclusive
            }
            M::Exclusive => {
                M::RowShare.bit()
                    | M::RowExclusive.bit()
                    | M::ShareUpdateExclusive.bit()
                    | M::Share.bit()
                    | M::ShareRowExclusive.bit()
                    | exclusive
            }
            M::AccessExclusive => M::AccessShare.bit() | M::Exclusive.conflicts(),
        }
    }

    /// Whether two backends can not hold these at once.
    pub const fn conflicts_with(self, other: LockMode) -> bool {
        self.conflicts() & other.bit() != 0
    }

    /// PostgreSQL's name of the mode, as in `pg_locks.mode`.
    pub const fn name(self) -> &'static str {
        match self {
            LockMode::AccessShare => "AccessShareLock",
            LockMode::RowShare => "RowShareLock",
            LockMode::RowExclusive => "RowExclusiveLock",
            LockMode::ShareUpdateExclusive => "ShareUpdateExclusiveLock",
            LockMode::Share => "ShareLock",
            LockMode::ShareRowExclusive => "ShareRowExclusiveLock",
            LockMode::Exclusive => "ExclusiveLock",
            LockMode::AccessExclusive => "AccessExclusiveLock",
        }
    }
}

impl fmt::Display for LockMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
