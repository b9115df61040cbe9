//! What recovery knows of things that are new.

use forebay_catalog::{Owners, RESERVED_OIDS};
use forebay_format::RelFileLocator;
use forebay_format::ids::FIRST_NORMAL_OID;
use forebay_txn::redo::Made;
use forebay_types::Oid;

/// The files, databases and tablespaces that were made since the redo pointer of a recovery, as far
/// as its records tell.
#[derive(Debug, Clone, Default)]
pub(crate) struct MadeSince {
    made: Made,
    /// The first number that was handed out behind it, and how many may have been.
    first: Oid,
    numbers: u32,
}

impl MadeSince {
    /// What records have made, and the numbers from that of the checkpoint on to that at the end
    /// of the log. Behind its end there may have been another reservation, which is lost.
    pub(crate) fn new(made: Made, first: Oid, next: Oid) -> MadeSince {
        let numbers = next.wrapping_sub(first).saturating_add(RESERVED_OIDS);
        MadeSince { made, first, numbers }
    }

    fn is_new_number(&self, oid: Oid) -> bool {
        oid.wrapping_sub(self.first) < self.numbers
    }

    pub(super) fn has_file(&self, file: RelFileLocator) -> bool {
        self.made.files.contains(&file) || self.is_new_number(file.rel)
    }

    pub(super) fn has_database(&self, oid: Oid) -> bool {
        self.made.databases.contains(&oid) || self.is_new_number(oid)
    }

    pub(super) fn has_tablespace(&self, oid: Oid) -> bool {
        self.made.tablespaces.contains(&oid) || self.is_new_number(oid)
    }
}

/// What recovery may do with a file or a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is in use, or the system's own.
    Kept,
    /// It is left of something that is gone.
    Left,
    /// Nobody owns it, and nothing shows why.
    Stray,
}

/// Tells what recovery may do with the file or directory `what`, whose number is `oid`.
pub(super) fn standing<T: Copy + Eq + std::hash::Hash>(
    owners: &Owners<T>,
    (oid, what): (Oid, T),
    is_new: bool,
) -> Standing {
    if oid < FIRST_NORMAL_OID || owners.owned.contains(&what) {
        Standing::Kept
    } else if is_new || owners.left.contains(&what) {
        Standing::Left
    } else {
        Standing::Stray
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_new_from_the_redo_pointer_to_a_reservation_behind_the_end() {
        let since = MadeSince::new(Made::default(), 20_000, 20_010);
        let new = |oid| since.has_database(oid);
        assert!(new(20_000) && new(20_009) && new(20_009 + RESERVED_OIDS));
        assert!(!new(19_999) && !new(20_010 + RESERVED_OIDS));
        // The counter has begun again.
        let since = MadeSince::new(Made::default(), u32::MAX - 5, 16_390);
        let new = |oid| since.has_tablespace(oid);
        assert!(new(u32::MAX) && new(16_384) && new(16_389) && !new(u32::MAX - 6));
        assert!(!new(16_390 + RESERVED_OIDS));
        let nothing = MadeSince::default();
        assert!(!nothing.has_file(RelFileLocator::in_default(5, 16_384)));
        assert!(!nothing.has_database(16_384));
    }

    #[test]
    fn what_has_an_owner_stays_whatever_else_is_known() {
        let owners = Owners { owned: [20_000].into(), left: [20_001].into() };
        for (oid, is_new, expected) in [
            (20_000, true, Standing::Kept),
            (12_000, true, Standing::Kept),
            (20_001, false, Standing::Left),
            (20_002, true, Standing::Left),
            (20_002, false, Standing::Stray),
        ] {
            assert_eq!(standing(&owners, (oid, oid), is_new), expected, "{oid}");
        }
    }
}
