//! What became of transactions, read from pages of `pg_xact` and `pg_multixact`.

use forebay_format::ids::{BOOTSTRAP_XID, FROZEN_XID, INVALID_XID};
use forebay_format::multixact::{self, Member, MultiXactId, multi_next};
use forebay_format::slru::{self, TransactionStatus};
use forebay_format::tuple::{HEAP_XMAX_COMMITTED, Xmax};
use forebay_format::wal::xlog::CheckPoint;
use forebay_format::{FullXid, HeapTuple, PageBytes, Xid};

/// More members than a MultiXact can have: it grows by one, and each size is stored, so that this
/// many would need twice the members that there can be.
const MAX_MEMBERS: u32 = 1 << 17;

/// A directory of status files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatusFiles {
    /// The status of each transaction.
    Transactions,
    /// Where the members of each MultiXact begin.
    MultiOffsets,
    /// The members.
    MultiMembers,
}

impl StatusFiles {
    /// All of them.
    pub const ALL: [StatusFiles; 3] =
        [StatusFiles::Transactions, StatusFiles::MultiOffsets, StatusFiles::MultiMembers];

    /// The directory, relative to the data directory.
    pub const fn directory(self) -> &'static str {
        match self {
            StatusFiles::Transactions => "pg_xact",
            StatusFiles::MultiOffsets => "pg_multixact/offsets",
            StatusFiles::MultiMembers => "pg_multixact/members",
        }
    }
}

/// Reads pages of status files.
pub trait StatusPages {
    /// A page, or `None` if it is not there or can't be read.
    fn page(&mut self, of: StatusFiles, page: i64) -> Option<&PageBytes>;
}

/// What became of a transaction, as far as a check is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has committed.
    Committed,
    /// It has not, and will not.
    Aborted,
    /// It runs, or ran when the check began.
    Running,
}

/// What a running server knows of transactions.
pub trait RunningTransactions {
    /// What became of a transaction, or `None` if that can't be read.
    fn fate(&mut self, xid: Xid) -> Option<Fate>;
    /// The members of a MultiXact, or what is wrong with it.
    fn members(&mut self, multi: MultiXactId) -> Result<Vec<Member>, String>;
}

/// Which transactions and MultiXacts a cluster has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// The next transaction.
    pub next_xid: FullXid,
    /// The oldest one that a table may contain.
    pub oldest_xid: Xid,
    /// The next MultiXact.
    pub next_multi: MultiXactId,
    /// Where its members will begin.
    pub next_member: u32,
    /// The oldest one that a table may contain.
    pub oldest_multi: MultiXactId,
}

impl From<&CheckPoint> for Counters {
    fn from(checkpoint: &CheckPoint) -> Counters {
        Counters {
            next_xid: checkpoint.next_xid,
            oldest_xid: checkpoint.oldest_xid,
            next_multi: checkpoint.next_multi,
            next_member: checkpoint.next_multi_offset,
            oldest_multi: checkpoint.oldest_multi,
        }
    }
}

/// What the members of a MultiXact are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Members {
    /// The one that updates.
    pub updater: Option<Xid>,
    /// The oldest and the newest member, as compared with the next transaction.
    pub range: Option<(Xid, Xid)>,
    /// What is wrong with them.
    pub problem: Option<String>,
}

enum Source<'p> {
    /// None runs: one has committed, or counts as aborted.
    AtRest(&'p mut dyn StatusPages),
    Running(&'p mut dyn RunningTransactions),
}

/// The transactions of a cluster.
pub struct Transactions<'p> {
    pub(super) counters: Counters,
    source: Source<'p>,
    /// The answers given last, for inserters and for updaters.
    last: [Option<(Xid, Option<Fate>)>; 2],
    last_multi: Option<(MultiXactId, Members)>,
}

impl<'p> Transactions<'p> {
    /// The transactions of a cluster at rest, by its counters and its status files.
    pub fn new(counters: Counters, pages: &'p mut dyn StatusPages) -> Transactions<'p> {
        Transactions::of(counters, Source::AtRest(pages))
    }

    /// Those of a running server.
    pub fn running(counters: Counters, known: &'p mut dyn RunningTransactions) -> Transactions<'p> {
        Transactions::of(counters, Source::Running(known))
    }

    fn of(counters: Counters, source: Source<'p>) -> Transactions<'p> {
        Transactions { counters, source, last: [None; 2], last_multi: None }
    }

    /// Whether the inserter of a tuple has committed; `None` if its status can't be read. It must
    /// be a normal transaction.
    pub(super) fn inserted(&mut self, xid: Xid) -> Option<bool> {
        self.fate(0, xid).map(|fate| fate == Fate::Committed)
    }

    /// Whether one that updated a tuple has committed.
    pub(super) fn updated(&mut self, xid: Xid) -> Option<bool> {
        self.fate(1, xid).map(|fate| fate == Fate::Committed)
    }

    /// Whether the inserter of a tuple runs. It must be a normal transaction.
    pub(super) fn inserter_runs(&mut self, xid: Xid) -> bool {
        self.fate(0, xid) == Some(Fate::Running)
    }

    /// Whether one that updated a tuple runs.
    pub(super) fn updater_runs(&mut self, xid: Xid) -> bool {
        self.fate(1, xid) == Some(Fate::Running)
    }

    /// Whether a row exists for a transaction that begins now. Flags count as much as status files,
    /// which may be older after a crash.
    pub fn is_live(&mut self, tuple: HeapTuple<'_>) -> bool {
        let inserted = tuple.xmin_committed()
            || (!tuple.xmin_invalid() && self.has_committed(0, tuple.xmin()));
        let updater = match tuple.xmax_kind() {
            Xmax::Transaction(status) if status.is_update() => Some(tuple.xmax()),
            Xmax::Multi { lock_only: false } => self.members(tuple.xmax()).updater,
            _ => None,
        };
        let hint = tuple.infomask() & HEAP_XMAX_COMMITTED != 0;
        inserted && !updater.is_some_and(|xid| hint || self.has_committed(1, xid))
    }

    fn has_committed(&mut self, slot: usize, xid: Xid) -> bool {
        match xid {
            INVALID_XID => false,
            BOOTSTRAP_XID | FROZEN_XID => true,
            _ => self.fate(slot, xid) == Some(Fate::Committed),
        }
    }

    fn fate(&mut self, slot: usize, xid: Xid) -> Option<Fate> {
        if let Some(Some((known, answer))) = self.last.get(slot)
            && *known == xid
        {
            return *answer;
        }
        let answer = match &mut self.source {
            Source::Running(known) => known.fate(xid),
            Source::AtRest(pages) => {
                let page = pages.page(StatusFiles::Transactions, slru::xact_page(xid));
                page.map(|page| match slru::status(page, xid) {
                    TransactionStatus::Committed => Fate::Committed,
                    _ => Fate::Aborted,
                })
            }
        };
        if let Some(last) = self.last.get_mut(slot) {
            *last = Some((xid, answer));
        }
        answer
    }

    /// The members of a MultiXact, which must be one of the cluster.
    pub(super) fn members(&mut self, multi: MultiXactId) -> Members {
        if let Some((known, members)) = &self.last_multi
            && *known == multi
        {
            return members.clone();
        }
        let members = self
            .read_members(multi)
            .unwrap_or_else(|problem| Members { problem: Some(problem), ..Members::default() });
        self.last_multi = Some((multi, members.clone()));
        members
    }

    fn read_members(&mut self, multi: MultiXactId) -> Result<Members, String> {
        let next_xid = self.counters.next_xid.xid();
        let mut members = Members::default();
        let mut add = |member| members.add(multi, member, next_xid);
        match &mut self.source {
            Source::Running(known) => known.members(multi)?.into_iter().try_for_each(add)?,
            Source::AtRest(pages) => each_member(&mut **pages, &self.counters, multi, &mut add)?,
        }
        Ok(members)
    }
}

impl Members {
    fn add(&mut self, multi: MultiXactId, member: Member, next_xid: Xid) -> Result<(), String> {
        if member.status.is_update() && self.updater.replace(member.xid).is_some() {
            return Err(format!("multitransaction ID {multi} has more than one updating member"));
        }
        let age = |xid: Xid| next_xid.wrapping_sub(xid) as i32;
        let (oldest, newest) = self.range.unwrap_or((member.xid, member.xid));
        self.range = Some((
            if age(member.xid) > age(oldest) { member.xid } else { oldest },
            if age(member.xid) < age(newest) { member.xid } else { newest },
        ));
        Ok(())
    }
}

/// Shows the members of a MultiXact of a cluster at rest.
fn each_member(
    pages: &mut dyn StatusPages,
    counters: &Counters,
    multi: MultiXactId,
    show: &mut dyn FnMut(Member) -> Result<(), String>,
) -> Result<(), String> {
    let mut first_member = |multi| {
        let page = pages.page(StatusFiles::MultiOffsets, multixact::offsets_page(multi));
        page.map(|page| multixact::offset(page, multi))
            .ok_or_else(|| format!("could not access the members of multitransaction ID {multi}"))
    };
    let (first, next) = (first_member(multi)?, multi_next(multi));
    let end = if next == counters.next_multi { counters.next_member } else { first_member(next)? };
    let count = end.wrapping_sub(first);
    if first == 0 || count == 0 || count > MAX_MEMBERS {
        return Err(format!(
            "multitransaction ID {multi} has members from offset {first} to {end}"
        ));
    }
    for at in (0..count).map(|n| first.wrapping_add(n)).filter(|&at| at != 0) {
        let page = pages.page(StatusFiles::MultiMembers, multixact::members_page(at));
        let page = page.ok_or_else(|| {
            format!("could not access member {at} of multitransaction ID {multi}")
        })?;
        let member = multixact::member(page, at)
            .map_err(|error| format!("multitransaction ID {multi}: {error}"))?
            .ok_or_else(|| format!("member {at} of multitransaction ID {multi} is empty"))?;
        show(member)?;
    }
    Ok(())
}
