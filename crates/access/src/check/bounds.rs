//! Which transactions and MultiXacts the tuples of a table may have.

use std::fmt::Arguments;

use forebay_format::ids::{BOOTSTRAP_XID, FROZEN_XID, INVALID_XID, xid_is_normal};
use forebay_format::multixact::{INVALID_MULTI, MultiXactId, multi_precedes};
use forebay_format::{FullXid, Xid};

use super::transactions::Counters;

/// Where a transaction lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is 0.
    Invalid,
    /// It belongs to bootstrap, or stands for a frozen tuple: it has committed.
    Special,
    /// Its status can be asked for.
    Normal,
    /// It was not yet assigned.
    Future,
    /// It is older than any that the cluster has.
    BeforeOldest,
    /// It is older than any that the table has.
    BeforeFrozen,
}

/// The bounds for one table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    next: FullXid,
    oldest: FullXid,
    frozen: FullXid,
    next_multi: MultiXactId,
    oldest_multi: MultiXactId,
    min_multi: MultiXactId,
}

impl Bounds {
    /// The bounds by the cluster's counters, the table's relfrozenxid (0 if it has none) and its
    /// relminmxid.
    pub(super) fn new(counters: &Counters, frozen_xid: Xid, min_multi: MultiXactId) -> Bounds {
        let full = |xid| full(counters.next_xid, xid);
        Bounds {
            next: counters.next_xid,
            oldest: full(counters.oldest_xid),
            frozen: full(frozen_xid),
            next_multi: counters.next_multi,
            oldest_multi: counters.oldest_multi,
            min_multi,
        }
    }

    pub(super) fn standing(&self, xid: Xid) -> Standing {
        match xid {
            INVALID_XID => return Standing::Invalid,
            BOOTSTRAP_XID | FROZEN_XID => return Standing::Special,
            _ => {}
        }
        let full = full(self.next, xid);
        if full >= self.next {
            Standing::Future
        } else if full < self.oldest {
            Standing::BeforeOldest
        } else if full < self.frozen {
            Standing::BeforeFrozen
        } else {
            Standing::Normal
        }
    }

    /// What is wrong with a transaction that is called `what`.
    pub(super) fn complaint(&self, what: Arguments<'_>, standing: Standing) -> Option<String> {
        Some(match standing {
            Standing::Invalid | Standing::Special | Standing::Normal => return None,
            Standing::Future => {
                format!("{what} equals or exceeds next valid transaction ID {}", self.next)
            }
            Standing::BeforeOldest => {
                format!("{what} precedes oldest valid transaction ID {}", self.oldest)
            }
            Standing::BeforeFrozen => {
                format!("{what} precedes relation freeze threshold {}", self.frozen)
            }
        })
    }

    /// What is wrong with a MultiXact.
    pub(super) fn multi_complaint(&self, multi: MultiXactId) -> Option<String> {
        let Bounds { next_multi, oldest_multi, min_multi, .. } = *self;
        Some(if multi == INVALID_MULTI {
            "multitransaction ID is invalid".to_owned()
        } else if min_multi != INVALID_MULTI && multi_precedes(multi, min_multi) {
            format!(
                "multitransaction ID {multi} precedes relation minimum multitransaction ID \
                 threshold {min_multi}"
            )
        } else if multi_precedes(multi, oldest_multi) {
            format!(
                "multitransaction ID {multi} precedes oldest valid multitransaction ID threshold \
                 {oldest_multi}"
            )
        } else if !multi_precedes(multi, next_multi) {
            format!(
                "multitransaction ID {multi} equals or exceeds next valid multitransaction ID \
                 {next_multi}"
            )
        } else {
            return None;
        })
    }

    /// What is wrong with the members of a MultiXact: the oldest and the newest are given. They may
    /// only lock, so the table's own bound is not asked.
    pub(super) fn members_complaint(
        &self,
        multi: MultiXactId,
        (oldest, newest): (Xid, Xid),
    ) -> Option<String> {
        [oldest, newest].into_iter().find_map(|xid| match self.standing(xid) {
            Standing::Normal | Standing::BeforeFrozen => None,
            Standing::Invalid | Standing::Special => {
                Some(format!("multitransaction ID {multi} has the member {xid}"))
            }
            other => {
                self.complaint(format_args!("member {xid} of multitransaction ID {multi}"), other)
            }
        })
    }
}

/// The transaction with its epoch. One from before the first epoch is older than any there can be.
fn full(next: FullXid, xid: Xid) -> FullXid {
    if !xid_is_normal(xid) {
        return FullXid(u64::from(xid));
    }
    let behind = i64::from(next.xid().wrapping_sub(xid) as i32);
    let full = next.0.saturating_add_signed(-behind);
    FullXid(full.max(u64::from(FROZEN_XID)))
}
