//! The pages of `pg_multixact`, and the counters of sets and members.
//!
//! A new set writes where its members begin, and where those of the next set will: so the length of
//! the newest set can be read from the pages alone, also by a standby that knows no counters.

use forebay_aio as aio;
use forebay_aio::sync::Mutex;
use forebay_format::ids::xid_is_normal;
use forebay_format::multixact::{
    self as pages, FIRST_MULTI, MEMBERS_PER_PAGE, Member, MemberOffset, MultiXactId,
    OFFSETS_PER_PAGE, members_page, multi_next, multi_precedes, offsets_page,
};
use forebay_format::wal::Rmgr;
use forebay_format::wal::multixact::{
    CREATE_ID, MultiXactCreate, ZERO_MEM_PAGE, ZERO_OFF_PAGE, encode_zero_page,
};
use forebay_format::{Oid, Xid};
use forebay_wal::{Inserted, Record, Wal};

use super::in_use::Marks;
use crate::clog::Clog;
use crate::error::TxnError;
use crate::limits::Limits;
use crate::manager::XactManager;
use crate::shortage::{DatabaseName, IdKind, IdWarning, members_warning};
use crate::slru::{FEW_PAGES, Pinned, Slru, SlruKind};

const OFFSETS: SlruKind = SlruKind {
    dir: "pg_multixact/offsets",
    durable: true,
    per_page: OFFSETS_PER_PAGE,
    most_pages: FEW_PAGES,
};
const MEMBERS: SlruKind = SlruKind {
    dir: "pg_multixact/members",
    durable: true,
    per_page: MEMBERS_PER_PAGE,
    most_pages: FEW_PAGES,
};

/// Members of one set: PostgreSQL reads no more than a gigabyte of them, of 8 bytes each.
const MAX_MEMBERS: u32 = (1 << 30) / 8 - 1;
/// Members in a file.
pub(super) const SEGMENT_MEMBERS: u32 = MEMBERS_PER_PAGE * 32;
/// With less room for members than this, each new set comes with a warning.
const WARN_MEMBERS: u32 = 20 * SEGMENT_MEMBERS;

/// What a checkpoint records of MultiXacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MultiCounters {
    /// The next set.
    pub next: MultiXactId,
    /// Where its members will begin.
    pub next_offset: MemberOffset,
    /// The oldest set that a row of any database may have.
    pub oldest: MultiXactId,
    /// A database that has it.
    pub oldest_db: Oid,
}

/// Where members end so that they are not confused with the oldest ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberStop {
    /// Recovery has not ended: there can be no new set.
    NotReady,
    /// The oldest set is not on the disk, so nothing protects its members.
    Unknown,
    /// Members from here on are not assigned.
    At(MemberOffset),
}

#[derive(Debug)]
pub(super) struct State {
    /// The next set.
    pub(super) next: MultiXactId,
    /// Where its members will begin.
    pub(super) next_offset: MemberOffset,
    /// How far sets may go. Has the oldest one.
    pub(super) limits: Limits,
    /// How far their members may go.
    pub(super) stop: MemberStop,
    /// Where the members of the oldest set begin, if that is known.
    pub(super) first_member: Option<MemberOffset>,
    /// For each transaction that uses sets: the first set of which it can become a member.
    pub(super) members: Marks,
    /// For each of them: the oldest set with members that ran when it began.
    pub(super) visible: Marks,
    /// The page of offsets into which redo of a set wrote where the next one begins.
    reached: Option<i64>,
}

impl State {
    fn counters(&self) -> MultiCounters {
        let State { next, next_offset, ref limits, .. } = *self;
        let (oldest, oldest_db) = (limits.oldest(), limits.database().oid);
        MultiCounters { next, next_offset, oldest, oldest_db }
    }

    /// Fails if `count` new members would reach the oldest ones. Some: they may be assigned, with a
    /// warning.
    fn check_members(&self, count: u32) -> Result<Option<IdWarning>, TxnError> {
        let stop = match self.stop {
            MemberStop::NotReady => return Err(TxnError::MultiXactsNotReady),
            MemberStop::Unknown => return Ok(None),
            MemberStop::At(stop) => stop,
        };
        let (from, database) = (self.next_offset, self.limits.database().oid);
        let left = stop.wrapping_sub(from);
        if would_wrap(stop, from, count) {
            return Err(TxnError::OutOfMembers { count, left: left.wrapping_sub(1), database });
        }
        let few = would_wrap(stop, from, count + WARN_MEMBERS);
        Ok(few.then(|| members_warning(database, left.wrapping_add(count))))
    }
}

/// The sets of transactions of an engine.
#[derive(Debug)]
pub struct MultiXacts {
    pub(super) offsets: Slru,
    pub(super) members: Slru,
    /// Held while a set gets its id and the place of its members.
    pub(super) state: Mutex<State>,
    /// One truncation at a time.
    pub(super) truncating: Mutex<()>,
}

/// A set that has its id and place, and pages that stay in the cache, so that writing it cannot
/// fail.
struct Reserved<'a> {
    multi: MultiXactId,
    offset: MemberOffset,
    offsets: Vec<Pinned<'a>>,
    members: Vec<Pinned<'a>>,
}

impl MultiXacts {
    /// `pg_multixact` of the data directory that `clog` is of. Reads nothing.
    /// [`MultiXacts::finish_recovery`] must be called before there can be a new set.
    pub fn beside(clog: &Clog, counters: MultiCounters) -> MultiXacts {
        let database = DatabaseName { oid: counters.oldest_db, name: None };
        let state = State {
            next: counters.next,
            next_offset: counters.next_offset,
            limits: Limits::new(IdKind::Multi, counters.oldest, database),
            stop: MemberStop::NotReady,
            first_member: None,
            members: Marks::default(),
            visible: Marks::default(),
            reached: None,
        };
        MultiXacts {
            offsets: clog.slru().sibling(OFFSETS),
            members: clog.slru().sibling(MEMBERS),
            state: Mutex::new(state),
            truncating: Mutex::new(()),
        }
    }

    /// Whether a page that does not exist reads as zeros.
    pub fn set_recovering(&self, on: bool) {
        self.offsets.set_recovering(on);
        self.members.set_recovering(on);
    }

    /// The counters, for a checkpoint.
    pub fn counters(&self) -> MultiCounters {
        self.state.lock().counters()
    }

    /// The oldest set that a running transaction may still look at: rows with older ones can be
    /// frozen.
    pub fn oldest_in_use(&self) -> MultiXactId {
        let state = self.state.lock();
        let marks = [state.members.oldest(), state.visible.oldest()];
        let older = |a, b| if multi_precedes(b, a) { b } else { a };
        marks.into_iter().flatten().fold(state.next, older)
    }

    /// Writes all changed pages and makes them durable. Called by checkpoints. Returns their
    /// number.
    pub fn flush(&self, io: &mut aio::IoBackend) -> Result<u64, TxnError> {
        // A row refers to a set only after the log does, so no log has to be flushed before.
        let offsets = self.offsets.flush_behind(io, |_| Ok::<(), TxnError>(()))?;
        let members = self.members.flush_behind(io, |_| Ok::<(), TxnError>(()))?;
        Ok(offsets + members)
    }

    /// Makes a set of members, which are sorted, and logs it in the name of `xid`. Adds a warning
    /// if little room is left.
    pub(super) fn create(
        &self,
        io: &mut aio::IoBackend,
        xacts: &XactManager,
        xid: Xid,
        members: &[Member],
        warnings: &mut Vec<IdWarning>,
    ) -> Result<MultiXactId, TxnError> {
        let reserved = self.reserve(io, &xacts.wal, members.len() as u32, warnings)?;
        // A checkpoint must write the pages if its redo pointer lies behind the record.
        let pass = xacts.gate.enter();
        let (multi, offset) = (reserved.multi, reserved.offset);
        let main = MultiXactCreate { multi, offset, members: members.to_vec() }.encode();
        forebay_aio::planted_bug!(io.aio(), MultiXactNotLogged, {
            reserved.write(members);
            return Ok(multi);
        });
        insert(io, &xacts.wal, CREATE_ID, xid, &main)?;
        reserved.write(members);
        drop(pass);
        Ok(multi)
    }

    /// Assigns the next id and the place of its members, with new pages if they need any.
    fn reserve(
        &self,
        io: &mut aio::IoBackend,
        wal: &Wal,
        count: u32,
        warnings: &mut Vec<IdWarning>,
    ) -> Result<Reserved<'_>, TxnError> {
        let mut state = self.state.lock();
        let State { next: multi, next_offset, .. } = *state;
        warnings.extend(state.limits.check(multi)?);
        // Offset 0 stands for none, so no set begins there.
        let skipped = u32::from(next_offset == 0);
        let taken = count + skipped;
        warnings.extend(state.check_members(taken)?);
        let next = multi_next(multi);
        if next.is_multiple_of(OFFSETS_PER_PAGE) || next == FIRST_MULTI {
            let page = offsets_page(next);
            self.offsets.zero_page(page);
            insert(io, wal, ZERO_OFF_PAGE, 0, &encode_zero_page(page))?;
        }
        for page in member_pages(next_offset, taken) {
            let first = (page as u32).wrapping_mul(MEMBERS_PER_PAGE);
            if first.wrapping_sub(next_offset) < taken {
                self.members.zero_page(page);
                insert(io, wal, ZERO_MEM_PAGE, 0, &encode_zero_page(page))?;
            }
        }
        let reserved = self.pin(io, multi, next_offset.wrapping_add(skipped), count)?;
        state.next = next;
        state.next_offset = next_offset.wrapping_add(taken);
        Ok(reserved)
    }

    fn pin(
        &self,
        io: &mut aio::IoBackend,
        multi: MultiXactId,
        offset: MemberOffset,
        count: u32,
    ) -> Result<Reserved<'_>, TxnError> {
        let mut offsets = vec![self.offsets.pin(io, offsets_page(multi))?];
        let next = offsets_page(multi_next(multi));
        if next != offsets_page(multi) {
            offsets.push(self.offsets.pin(io, next)?);
        }
        let mut members = Vec::new();
        for page in member_pages(offset, count) {
            members.push(self.members.pin(io, page)?);
        }
        Ok(Reserved { multi, offset, offsets, members })
    }

    /// Writes a set that the log has.
    pub(crate) fn redo_create(
        &self,
        io: &mut aio::IoBackend,
        create: &MultiXactCreate,
    ) -> Result<(), TxnError> {
        let count = create.members.len() as u32;
        self.pin(io, create.multi, create.offset, count)?.write(&create.members);
        let page = offsets_page(multi_next(create.multi));
        if page != offsets_page(create.multi) {
            self.state.lock().reached = Some(page);
        }
        Ok(())
    }

    /// A page of members that the log adds.
    pub(crate) fn redo_members_page(&self, page: i64) {
        self.members.zero_page(page);
    }

    /// A page of offsets that the log adds. Logs of older minor versions add it after the set that
    /// writes where the first one on it begins: that stays.
    pub(crate) fn redo_offsets_page(
        &self,
        io: &mut aio::IoBackend,
        page: i64,
    ) -> Result<(), TxnError> {
        let first = (page as u32).wrapping_mul(OFFSETS_PER_PAGE).max(FIRST_MULTI);
        let reached = self.state.lock().reached == Some(page);
        let begins = if reached { self.start_of(io, first)? } else { 0 };
        self.offsets.zero_page(page);
        self.offsets.change(io, page, |bytes| {
            pages::set_offset(bytes, first, begins);
            true
        })
    }

    /// The members of a set.
    pub(super) fn members_of(
        &self,
        io: &mut aio::IoBackend,
        multi: MultiXactId,
    ) -> Result<Vec<Member>, TxnError> {
        let MultiCounters { next, next_offset, oldest, .. } = self.counters();
        if multi_precedes(multi, oldest) {
            return Err(TxnError::MultiXactGone(multi));
        }
        if !multi_precedes(multi, next) {
            return Err(TxnError::MultiXactNotYet(multi));
        }
        let damaged = |problem| TxnError::MultiXactDamaged { multi, problem };
        let stored =
            |offset| if offset == 0 { Err(damaged("has invalid offset")) } else { Ok(offset) };
        let start = stored(self.start_of(io, multi)?)?;
        let end = match multi_next(multi) {
            after if after == next => next_offset,
            after => stored(self.start_of(io, after)?)?,
        };
        let count = end.wrapping_sub(start);
        if count == 0 || count > next_offset.wrapping_sub(start) {
            return Err(damaged("has members beyond the newest one"));
        }
        if count > MAX_MEMBERS {
            return Err(damaged("has too many members"));
        }
        let mut members: Vec<Member> = Vec::new();
        for page in member_pages(start, count) {
            let read = self.members.read(io, page, |bytes| {
                for offset in offsets_in(page, start, count) {
                    match pages::member(bytes, offset) {
                        Ok(Some(member)) if xid_is_normal(member.xid) => members.push(member),
                        // Offset 0 may have been skipped.
                        Ok(None) if offset == 0 => {}
                        Ok(_) | Err(_) => return Err(damaged("has an invalid member")),
                    }
                }
                Ok(())
            });
            read.map_err(|error| error.of_status(multi))??;
        }
        if members.is_empty() {
            return Err(damaged("has no members"));
        }
        if members.iter().filter(|member| member.status.is_update()).count() > 1 {
            return Err(damaged("has more than one updating member"));
        }
        Ok(members)
    }

    /// Where the members of a set begin.
    pub(super) fn start_of(
        &self,
        io: &mut aio::IoBackend,
        multi: MultiXactId,
    ) -> Result<MemberOffset, TxnError> {
        let start = self.offsets.read(io, offsets_page(multi), |bytes| pages::offset(bytes, multi));
        start.map_err(|error| error.of_status(multi))
    }
}

impl Reserved<'_> {
    fn write(self, members: &[Member]) {
        let set = |multi: MultiXactId, offset: MemberOffset| {
            let pin = self.offsets.iter().find(|pin| pin.page() == offsets_page(multi));
            pin.expect("the page is pinned").change(|bytes| {
                let was = pages::offset(bytes, multi);
                debug_assert!(was == 0 || was == offset, "MultiXact {multi}: {was}, {offset}");
                pages::set_offset(bytes, multi, offset);
            });
        };
        set(self.multi, self.offset);
        let end = self.offset.wrapping_add(members.len() as u32);
        // No set begins at 0.
        set(multi_next(self.multi), end.max(1));
        for pin in &self.members {
            pin.change(|bytes| {
                for offset in offsets_in(pin.page(), self.offset, members.len() as u32) {
                    let index = offset.wrapping_sub(self.offset) as usize;
                    let member = members.get(index).expect("an offset of this set");
                    pages::set_member(bytes, offset, *member);
                }
            });
        }
    }
}

/// The pages of `count` members from `start` on, in order.
fn member_pages(start: MemberOffset, count: u32) -> impl Iterator<Item = i64> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = start.wrapping_add(done);
        let page = members_page(at);
        // The last page of all ends early, where offsets wrap around.
        let room =
            (MEMBERS_PER_PAGE - at % MEMBERS_PER_PAGE).min((u32::MAX - at).saturating_add(1));
        let more = done < count;
        done = done.saturating_add(room);
        more.then_some(page)
    })
}

/// Those of `count` members from `start` on that lie on a page which has some of them, in order.
fn offsets_in(page: i64, start: MemberOffset, count: u32) -> impl Iterator<Item = MemberOffset> {
    let first = (page as u32).wrapping_mul(MEMBERS_PER_PAGE);
    let last = first.saturating_add(MEMBERS_PER_PAGE - 1);
    let begin = if members_page(start) == page { start } else { first };
    let left = count.saturating_sub(begin.wrapping_sub(start));
    (begin..=last).take(left as usize)
}

/// Whether `count` offsets from `start` on reach `stop`.
fn would_wrap(stop: MemberOffset, start: MemberOffset, count: u32) -> bool {
    stop.wrapping_sub(start) <= count
}

fn insert(
    io: &mut aio::IoBackend,
    wal: &Wal,
    info: u8,
    xid: Xid,
    main: &[u8],
) -> Result<Inserted, TxnError> {
    Ok(wal.insert(io, &Record { rmgr: Rmgr::MULTIXACT, info, xid, main, blocks: &[] })?)
}
