//! Which ids a vacuum freezes, from the settings and what is in use.

use forebay_access::heap::Cutoffs;
use forebay_catalog::{ClassFigures, NextIds};
use forebay_format::ids::{FIRST_NORMAL_XID, Xid, xid_is_normal, xid_precedes};
use forebay_format::multixact::{FIRST_MULTI, MultiXactId, multi_precedes};

use crate::config::VacuumSettings;

/// The ids of the engine at the beginning of a vacuum.
#[derive(Debug, Clone, Copy)]
pub(super) struct InUse {
    pub(super) next: NextIds,
    /// Older transactions are over for everybody who may see the table.
    pub(super) oldest_xid: Xid,
    /// No running transaction looks at older MultiXacts.
    pub(super) oldest_multi: MultiXactId,
    /// autovacuum_multixact_freeze_max_age, or less if members of MultiXacts are short.
    pub(super) multi_max_age: u32,
}

/// The cutoffs, and what follows from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decided {
    pub(super) cutoffs: Cutoffs,
    pub(super) aggressive: bool,
    /// The table's ids are so old that vacuum must not lose time.
    pub(super) failsafe: bool,
    /// Warnings, with their hint.
    pub(super) held_back: [bool; 2],
}

/// The transaction that is `age` ids older than the next one.
fn xid_before(next: Xid, age: u32) -> Xid {
    let xid = next.wrapping_sub(age);
    if xid_is_normal(xid) { xid } else { FIRST_NORMAL_XID }
}

/// The MultiXact that is `age` ids older than the next one.
fn multi_before(next: MultiXactId, age: u32) -> MultiXactId {
    next.wrapping_sub(age).max(FIRST_MULTI)
}

/// 95 % of an age.
fn nearly(age: u32) -> u32 {
    (f64::from(age) * 0.95) as u32
}

/// At least 105 % of an age.
fn well_beyond(age: u32, most: u32) -> u32 {
    age.max((f64::from(most) * 1.05) as u32)
}

/// Decides for a table. With `freeze`, everything that can be frozen must be.
pub(super) fn decide(
    figures: &ClassFigures,
    in_use: &InUse,
    settings: &VacuumSettings,
    freeze: bool,
) -> Decided {
    let age = |age: u32| if freeze { 0 } else { age };
    let max_age = settings.freeze_max_age;
    let InUse { next, oldest_xid, oldest_multi, multi_max_age } = *in_use;
    let (frozen_xid, min_multi) = (figures.frozen_xid, figures.min_multi);

    let min_age = age(settings.freeze_min_age).min(max_age / 2);
    let xid_limit = older_xid(xid_before(next.xid, min_age), oldest_xid);
    let min_age = age(settings.multixact_freeze_min_age).min(multi_max_age / 2);
    let multi_limit = older_multi(multi_before(next.multi, min_age), oldest_multi);

    let table_age = age(settings.freeze_table_age).min(nearly(max_age));
    let multi_table_age = age(settings.multixact_freeze_table_age).min(nearly(multi_max_age));
    let aggressive = !xid_precedes(xid_before(next.xid, table_age), frozen_xid)
        || !multi_precedes(multi_before(next.multi, multi_table_age), min_multi);

    let failsafe = is_too_old(figures, next, settings);
    let held_back = [
        xid_precedes(oldest_xid, xid_before(next.xid, max_age)),
        multi_precedes(oldest_multi, multi_before(next.multi, multi_max_age)),
    ];
    let cutoffs =
        Cutoffs { frozen_xid, min_multi, oldest_xid, oldest_multi, xid_limit, multi_limit };
    Decided { cutoffs, aggressive, failsafe, held_back }
}

/// Whether a table's ids are so old that vacuum must not lose time.
pub(super) fn is_too_old(figures: &ClassFigures, next: NextIds, settings: &VacuumSettings) -> bool {
    let age = well_beyond(settings.failsafe_age, settings.freeze_max_age);
    let multi_age = well_beyond(settings.multixact_failsafe_age, settings.multixact_freeze_max_age);
    xid_precedes(figures.frozen_xid, xid_before(next.xid, age))
        || multi_precedes(figures.min_multi, multi_before(next.multi, multi_age))
}

impl Decided {
    /// The oldest ids that may stay when everything else is frozen: no older ones than before.
    pub(super) fn oldest_left(&self) -> (Xid, MultiXactId) {
        let Cutoffs { frozen_xid, min_multi, xid_limit, multi_limit, .. } = self.cutoffs;
        let xid = if xid_precedes(xid_limit, frozen_xid) { frozen_xid } else { xid_limit };
        (xid, if multi_precedes(multi_limit, min_multi) { min_multi } else { multi_limit })
    }
}

fn older_xid(a: Xid, b: Xid) -> Xid {
    if xid_precedes(b, a) { b } else { a }
}

fn older_multi(a: MultiXactId, b: MultiXactId) -> MultiXactId {
    if multi_precedes(b, a) { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: ClassFigures = ClassFigures {
        pages: 0,
        tuples: -1.0,
        all_visible: 0,
        all_frozen: 0,
        frozen_xid: 1000,
        min_multi: 1,
        toast: 0,
        indexed: false,
    };

    fn decided(xid: Xid, oldest_xid: Xid, freeze: bool) -> Decided {
        let next = NextIds { xid, multi: 10 };
        let multi_max_age = VacuumSettings::default().multixact_freeze_max_age;
        let in_use = InUse { next, oldest_xid, oldest_multi: 8, multi_max_age };
        decide(&FIGURES, &in_use, &VacuumSettings::default(), freeze)
    }

    #[test]
    fn short_members_freeze_more_multixacts() {
        let next = NextIds { xid: 2000, multi: 10_000_000 };
        let in_use = |multi_max_age| InUse {
            next,
            oldest_xid: 1900,
            oldest_multi: next.multi,
            multi_max_age,
        };
        let of = |age| decide(&FIGURES, &in_use(age), &VacuumSettings::default(), false);
        let plenty = of(400_000_000);
        assert!(!plenty.aggressive && plenty.cutoffs.multi_limit == 5_000_000);
        let short = of(1_000_000);
        assert!(short.aggressive && short.cutoffs.multi_limit == 9_500_000);
        assert_eq!(of(0).cutoffs.multi_limit, next.multi);
        assert!(!of(0).failsafe);
    }

    #[test]
    fn a_young_table_is_not_frozen() {
        let young = decided(1_000_000, 999_000, false);
        assert!(!young.aggressive && !young.failsafe && young.held_back == [false; 2]);
        let Cutoffs { xid_limit, multi_limit, oldest_xid, oldest_multi, .. } = young.cutoffs;
        assert_eq!((oldest_xid, oldest_multi), (999_000, 8));
        assert!(xid_precedes(xid_limit, 1000) && multi_precedes(multi_limit, 8));
    }

    #[test]
    fn freezing_reaches_the_oldest_id_in_use() {
        let all = decided(1_000_000, 999_000, true);
        assert!(all.aggressive);
        assert_eq!((all.cutoffs.xid_limit, all.cutoffs.multi_limit), (999_000, 8));
    }

    #[test]
    fn old_tables_are_vacuumed_aggressively_and_then_in_a_hurry() {
        assert!(!decided(150_000_999, 150_000_000, false).aggressive);
        let old = decided(150_001_000, 150_000_000, false);
        assert!(old.aggressive && !old.failsafe);
        assert_eq!(old.cutoffs.xid_limit, 100_001_000);
        assert!(decided(1_600_001_001, 1_600_000_000, false).failsafe);
        let held = decided(300_000_000, 1000, false);
        assert_eq!((held.held_back, held.cutoffs.xid_limit), ([true, false], 1000));
    }
}
