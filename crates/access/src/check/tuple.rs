//! The header of a tuple, and what became of its inserter and its updater.

use forebay_format::ids::xid_is_normal;
use forebay_format::tuple::{
    HEADER_SIZE, HEAP_HOT_UPDATED, HEAP_MOVED_OFF, HEAP_XMAX_COMMITTED, HEAP_XMAX_INVALID,
    HEAP_XMAX_IS_MULTI, Xmax,
};
use forebay_format::{HeapTuple, ItemPointer, Xid};

use super::bounds::{Bounds, Standing};
use super::finding::Report;
use super::transactions::Transactions;

/// A tuple, as far as others of its page are concerned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fact {
    pub xmin: Xid,
    /// The transaction that has updated or deleted it, whatever became of that; 0 if there is none.
    /// One that has locked it leads nowhere: an aborted update may have left the ctid.
    pub xmax: Xid,
    /// Whether its inserter has committed, if that is known.
    pub inserted: Option<bool>,
    /// Whether one that updated or deleted it has committed, if that is known.
    pub updated: Option<bool>,
    pub frozen: bool,
    /// Whether freezing would change something: a transaction or a MultiXact is stored, whatever
    /// became of it.
    pub unfrozen: bool,
    pub ctid: ItemPointer,
    /// Whether the flag for a HOT update is set, which an aborted one leaves behind.
    pub hot_flag: bool,
    /// Whether it is set and the update is not known to have aborted.
    pub hot_updated: bool,
    pub heap_only: bool,
}

/// Checks a tuple's header and its transactions. Also returns whether its attributes can be
/// checked: those of an aborted inserter may belong to a table that looked different.
///
/// Without `transactions` only flags are asked.
pub(super) fn check_tuple(
    tuple: HeapTuple<'_>,
    bounds: &Bounds,
    mut transactions: Option<&mut Transactions<'_>>,
    report: &mut Report<'_>,
) -> (Fact, bool) {
    let flags = tuple.infomask();
    let frozen = tuple.xmin_frozen();
    let mut fact = Fact {
        xmin: tuple.xmin(),
        xmax: tuple.xmax(),
        inserted: None,
        updated: None,
        frozen,
        unfrozen: (xid_is_normal(tuple.xmin()) && !frozen)
            || xid_is_normal(tuple.xmax())
            || (is_multi(flags) && tuple.xmax() != 0),
        ctid: tuple.ctid(),
        hot_flag: tuple.infomask2() & HEAP_HOT_UPDATED != 0,
        hot_updated: tuple.is_hot_updated(),
        heap_only: tuple.is_heap_only(),
    };
    if is_multi(flags) {
        fact.xmax = match (&mut transactions, tuple.xmax_kind()) {
            (Some(known), Xmax::Multi { lock_only: false })
                if bounds.multi_complaint(tuple.xmax()).is_none() =>
            {
                known.members(tuple.xmax()).updater.unwrap_or(0)
            }
            _ => 0,
        };
    }
    let sound = check_header(tuple, fact.xmax == 0 && !is_multi(flags), report);
    if tuple.xmax_is_locked_only() {
        fact.xmax = 0;
    }
    let readable = match transactions {
        _ if !sound => false,
        Some(transactions) => {
            let mut check = Check { tuple, bounds, transactions, fact: &mut fact, report };
            check.inserter() && check.updater()
        }
        None => tuple.xmin_committed(),
    };
    (fact, readable)
}

fn is_multi(flags: u16) -> bool {
    flags & HEAP_XMAX_IS_MULTI != 0
}

/// Returns whether it is known where the attributes begin.
fn check_header(tuple: HeapTuple<'_>, no_xmax: bool, report: &mut Report<'_>) -> bool {
    let (hoff, count, len) = (tuple.hoff(), tuple.attribute_count(), tuple.bytes().len());
    let flags = tuple.infomask();
    if hoff > len {
        report.say(format!("data begins at offset {hoff} beyond the tuple length {len}"));
    }
    if flags & HEAP_XMAX_COMMITTED != 0 {
        if is_multi(flags) {
            report.say("multixact should not be marked committed");
        }
        if flags & HEAP_XMAX_INVALID != 0 {
            report.say("xmax is marked both committed and invalid");
        } else if tuple.xmax_is_locked_only() && !is_multi(flags) {
            report.say("xmax is marked committed, but has only locked the tuple");
        }
    }
    if no_xmax && tuple.is_hot_updated() {
        report.say("tuple has been HOT updated, but xmax is 0");
    }
    if tuple.is_heap_only() && !tuple.is_updated() {
        report.say("tuple is heap only, but not the result of an update");
    }
    let bitmap = if tuple.has_nulls() { count.div_ceil(8) } else { 0 };
    let expected = (HEADER_SIZE + bitmap).next_multiple_of(8);
    if hoff != expected {
        let attributes =
            if count == 1 { "1 attribute".to_owned() } else { format!("{count} attributes") };
        let nulls = if tuple.has_nulls() { "has nulls" } else { "no nulls" };
        report.say(format!(
            "tuple data should begin at byte {expected}, but actually begins at byte {hoff} \
             ({attributes}, {nulls})"
        ));
    }
    hoff == expected && hoff <= len
}

struct Check<'a, 'p, 's> {
    tuple: HeapTuple<'a>,
    bounds: &'a Bounds,
    transactions: &'a mut Transactions<'p>,
    fact: &'a mut Fact,
    report: &'a mut Report<'s>,
}

impl Check<'_, '_, '_> {
    /// Returns whether the inserter has committed.
    fn inserter(&mut self) -> bool {
        let xmin = self.tuple.xmin();
        let standing =
            if self.fact.frozen { Standing::Special } else { self.bounds.standing(xmin) };
        self.fact.inserted = match standing {
            // What an aborted speculative insertion leaves.
            Standing::Invalid => return false,
            Standing::Special => Some(true),
            // It may have changed the table's columns.
            Standing::Normal if self.transactions.inserter_runs(xmin) => return false,
            Standing::Normal => self.transactions.inserted(xmin),
            _ => {
                let complaint = self.bounds.complaint(format_args!("xmin {xmin}"), standing);
                self.report.say(complaint.unwrap_or_default());
                return false;
            }
        };
        let Some(committed) = self.fact.inserted else {
            self.report.say(format!("could not access status of transaction {xmin}"));
            return false;
        };
        let (says_yes, says_no) = (self.tuple.xmin_committed(), self.tuple.xmin_invalid());
        if says_yes && !committed {
            self.report.say(format!("xmin {xmin} is marked committed, but did not commit"));
        }
        if says_no && committed {
            self.report.say(format!("xmin {xmin} is marked aborted, but has committed"));
        }
        if self.tuple.is_moved() && !says_yes && !says_no {
            return self.moved();
        }
        says_yes || (committed && !says_no)
    }

    /// A tuple that VACUUM FULL before PostgreSQL 9.0 moved. Whether it exists depends on that, and
    /// is not told here.
    fn moved(&mut self) -> bool {
        let xvac = self.tuple.cid();
        let way = if self.tuple.infomask() & HEAP_MOVED_OFF != 0 { "off" } else { "in" };
        self.fact.inserted = None;
        let standing = self.bounds.standing(xvac);
        if standing == Standing::Invalid {
            self.report.say(format!(
                "old-style VACUUM FULL transaction ID for moved {way} tuple is invalid"
            ));
            return false;
        }
        let what =
            format_args!("old-style VACUUM FULL transaction ID {xvac} for moved {way} tuple");
        if let Some(complaint) = self.bounds.complaint(what, standing) {
            self.report.say(complaint);
        }
        false
    }

    /// Returns whether the attributes can be checked, those of a deleted row too.
    fn updater(&mut self) -> bool {
        let (xmax, flags) = (self.tuple.xmax(), self.tuple.infomask());
        let kind = self.tuple.xmax_kind();
        if is_multi(flags) && kind != Xmax::UpgradedLockers {
            return self.multi(kind);
        }
        let status = match kind {
            Xmax::None | Xmax::UpgradedLockers => {
                self.fact.updated = Some(false);
                self.forgotten(xmax);
                return true;
            }
            Xmax::Multi { .. } => return true,
            Xmax::Transaction(status) if !status.is_update() => {
                self.fact.updated = Some(false);
                return true;
            }
            Xmax::Transaction(status) => status,
        };
        debug_assert!(status.is_update());
        if !self.settle("xmax", xmax) {
            return false;
        }
        if flags & HEAP_XMAX_COMMITTED != 0 && self.fact.updated == Some(false) {
            self.report.say(format!("xmax {xmax} is marked committed, but did not commit"));
        }
        true
    }

    /// An xmax that counts as none must not be one that has deleted the row.
    fn forgotten(&mut self, xmax: Xid) {
        let flags = self.tuple.infomask();
        let deletion = !self.tuple.xmax_is_locked_only() && !is_multi(flags);
        if deletion
            && self.bounds.standing(xmax) == Standing::Normal
            && self.transactions.updated(xmax) == Some(true)
        {
            self.report.say(format!("xmax {xmax} is marked invalid, but has committed"));
        }
    }

    fn multi(&mut self, kind: Xmax) -> bool {
        let multi = self.tuple.xmax();
        if let Some(complaint) = self.bounds.multi_complaint(multi) {
            self.report.say(complaint);
            return true;
        }
        let members = self.transactions.members(multi);
        if let Some(problem) = members.problem {
            self.report.say(problem);
            return true;
        }
        let complaint = members.range.and_then(|range| self.bounds.members_complaint(multi, range));
        if let Some(complaint) = complaint {
            self.report.say(complaint);
            return true;
        }
        match (kind, members.updater) {
            (Xmax::Multi { lock_only: false }, None) => self.report.say("update xid is invalid"),
            (Xmax::Multi { lock_only: false }, Some(xid)) => {
                self.settle("update xid", xid);
            }
            (Xmax::Multi { lock_only: true }, Some(xid)) => self.report.say(format!(
                "multitransaction ID {multi} has the update xid {xid}, but the tuple is only locked"
            )),
            _ => self.fact.updated = Some(false),
        }
        true
    }

    /// Notes what became of an updater. Returns whether that can be known.
    fn settle(&mut self, what: &str, xid: Xid) -> bool {
        let standing = self.bounds.standing(xid);
        if standing == Standing::Normal && self.transactions.updater_runs(xid) {
            return true;
        }
        self.fact.updated = match standing {
            Standing::Invalid => Some(false),
            Standing::Special => Some(true),
            Standing::Normal => self.transactions.updated(xid),
            _ => None,
        };
        if let Some(complaint) = self.bounds.complaint(format_args!("{what} {xid}"), standing) {
            self.report.say(complaint);
        } else if self.fact.updated.is_none() {
            self.report.say(format!("could not access status of transaction {xid}"));
        }
        self.fact.updated.is_some()
    }
}
