//! Removal of old sets, and the end of recovery.

use forebay_aio as aio;
use forebay_format::Oid;
use forebay_format::multixact::{
    self as pages, FIRST_MULTI, MEMBERS_PER_PAGE, Member, MemberOffset, MemberStatus, MultiXactId,
    OFFSETS_PER_PAGE, members_page, multi_precedes, offsets_page,
};
use forebay_format::wal::Rmgr;
use forebay_format::wal::multixact::{MultiXactTruncate, TRUNCATE_ID};
use forebay_wal::Record;

use super::store::{MultiCounters, MultiXacts, SEGMENT_MEMBERS};
use crate::error::TxnError;
use crate::manager::XactManager;

impl MultiXacts {
    /// Called at the end of recovery, and at each start: sets the counters that recovery found, and
    /// clears what lies beyond them, as it was never logged.
    pub fn finish_recovery(
        &self,
        io: &mut aio::IoBackend,
        counters: MultiCounters,
    ) -> Result<(), TxnError> {
        let MultiCounters { next, next_offset, .. } = counters;
        self.state.lock().counters = counters;
        let page = offsets_page(next);
        self.offsets.set_latest(page);
        if next.is_multiple_of(OFFSETS_PER_PAGE) {
            // Logs of older minor versions add it with its first set only.
            self.offsets.zero_page(page);
        }
        self.offsets.change(io, page, |bytes| {
            pages::set_offset(bytes, next, next_offset.max(1));
            let last = next | (OFFSETS_PER_PAGE - 1);
            (next..=last).skip(1).for_each(|multi| pages::set_offset(bytes, multi, 0));
            true
        })?;
        self.members.set_latest(members_page(next_offset));
        if !next_offset.is_multiple_of(MEMBERS_PER_PAGE) {
            let none = Member { xid: 0, status: MemberStatus::ForKeyShare };
            let first = next_offset - next_offset % MEMBERS_PER_PAGE;
            let end = first.saturating_add(MEMBERS_PER_PAGE - 1);
            self.members.change(io, members_page(next_offset), |bytes| {
                (next_offset..=end).for_each(|offset| pages::set_member(bytes, offset, none));
                true
            })?;
        }
        self.find_stop(io)
    }

    /// What a checkpoint record says of the oldest set. A later record may know better.
    pub fn redo_oldest(&self, oldest: MultiXactId, oldest_db: Oid) {
        let mut state = self.state.lock();
        if multi_precedes(state.counters.oldest, oldest) {
            (state.counters.oldest, state.counters.oldest_db) = (oldest, oldest_db);
        }
    }

    /// Finds out up to where members can be assigned.
    fn find_stop(&self, io: &mut aio::IoBackend) -> Result<(), TxnError> {
        let MultiCounters { next, next_offset, oldest, .. } = self.counters();
        let start = if oldest == next { next_offset } else { self.start_of(io, oldest)? };
        // One file is kept free between the newest members and the oldest ones.
        let stop = (start - start % SEGMENT_MEMBERS).wrapping_sub(SEGMENT_MEMBERS);
        self.state.lock().stop_offset = Some(stop);
        Ok(())
    }

    /// Removes sets older than `oldest`, the oldest one that a row of database `oldest_db` or
    /// another one still has. The caller has made that durable. False if there is nothing to do.
    pub fn truncate(
        &self,
        io: &mut aio::IoBackend,
        xacts: &XactManager,
        oldest: MultiXactId,
        oldest_db: Oid,
    ) -> Result<bool, TxnError> {
        let _one = self.truncating.lock();
        let was = self.counters();
        if !multi_precedes(was.oldest, oldest) {
            return Ok(false);
        }
        let start_member = self.start_or_next(io, was.oldest, &was)?;
        let end_member = self.start_or_next(io, oldest, &was)?;
        let truncate = MultiXactTruncate {
            oldest_db,
            start_multi: was.oldest,
            end_multi: oldest,
            start_member,
            end_member,
        };
        // A checkpoint with its redo pointer behind the record must know the new oldest set.
        let pass = xacts.gate.enter();
        let main = truncate.encode();
        let info = TRUNCATE_ID;
        let record = Record { rmgr: Rmgr::MULTIXACT, info, xid: 0, main: &main, blocks: &[] };
        let logged = xacts.wal.insert(io, &record)?;
        xacts.wal.flush(io, logged.end)?;
        self.redo_truncate(&truncate)?;
        drop(pass);
        self.find_stop(io)?;
        Ok(true)
    }

    /// Removes what a record says. From then on the sets before are gone.
    pub(crate) fn redo_truncate(&self, truncate: &MultiXactTruncate) -> Result<(), TxnError> {
        {
            let mut state = self.state.lock();
            state.counters.oldest = truncate.end_multi;
            state.counters.oldest_db = truncate.oldest_db;
        }
        // By their numbers: more than half of the circle may be in use.
        let (start, end) = (truncate.start_member, truncate.end_member);
        self.members.remove_segments(
            members_page(start),
            members_page(end),
            members_page(MemberOffset::MAX),
        )?;
        // The page of the oldest set may not exist, if that is the next one.
        let before = match truncate.end_multi {
            FIRST_MULTI => u32::MAX,
            multi => multi.wrapping_sub(1),
        };
        self.offsets.truncate(offsets_page(before))?;
        Ok(())
    }

    fn start_or_next(
        &self,
        io: &mut aio::IoBackend,
        multi: MultiXactId,
        counters: &MultiCounters,
    ) -> Result<MemberOffset, TxnError> {
        if multi == counters.next {
            return Ok(counters.next_offset);
        }
        if !multi_precedes(multi, counters.next) {
            return Err(TxnError::MultiXactNotYet(multi));
        }
        match self.start_of(io, multi)? {
            0 => Err(TxnError::MultiXactDamaged { multi, problem: "has invalid offset" }),
            offset => Ok(offset),
        }
    }
}
