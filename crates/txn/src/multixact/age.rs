//! How old sets may become before they are frozen, if their members run short.
//!
//! Members have 32-bit offsets, as sets have ids. A set has two members or many, so members may
//! run short first. From half of them on, vacuum freezes younger sets; from three quarters on, all
//! that it can. The thresholds are PostgreSQL's.

use forebay_format::multixact::MemberOffset;

use super::store::MultiXacts;

/// Members up to which nothing is short.
const SAFE: u32 = MemberOffset::MAX / 2;
/// Members from which on every set is too old.
const DANGER: u32 = MemberOffset::MAX - MemberOffset::MAX / 4;

impl MultiXacts {
    /// The age of a set at which it has to be frozen: `most`, or less if members are short.
    pub fn freeze_max_age(&self, most: u32) -> u32 {
        let state = self.state.lock();
        // It is not known how many members there are.
        let Some(first) = state.first_member else { return 0 };
        let sets = state.next.wrapping_sub(state.limits.oldest());
        max_age(sets, state.next_offset.wrapping_sub(first), most)
    }
}

/// The age with some sets and members.
fn max_age(sets: u32, members: u32, most: u32) -> u32 {
    let Some(beyond) = members.checked_sub(SAFE).filter(|beyond| *beyond > 0) else {
        return most;
    };
    let part = f64::from(beyond) / f64::from(DANGER - SAFE);
    let victims = f64::from(sets) * part;
    if victims > f64::from(sets) { 0 } else { (sets - victims as u32).min(most) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_frozen_earlier_the_fewer_members_are_left() {
        const MOST: u32 = 400_000_000;
        assert_eq!(max_age(1_000_000, SAFE, MOST), MOST);
        assert_eq!(max_age(1_000_000, SAFE + 1, MOST), 1_000_000);
        assert_eq!(max_age(500_000_000, SAFE + 1, MOST), MOST);
        let half = SAFE + (DANGER - SAFE) / 2;
        assert!((499_999..=500_001).contains(&max_age(1_000_000, half, MOST)));
        assert_eq!(max_age(1_000_000, DANGER, MOST), 0);
        assert_eq!(max_age(1_000_000, u32::MAX, MOST), 0);
    }
}
