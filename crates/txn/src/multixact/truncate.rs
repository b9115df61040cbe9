//! Removal of old sets, and the end of recovery.

use forebay_aio as aio;
use forebay_format::multixact::{
    self as pages, FIRST_MULTI, MEMBERS_PER_PAGE, Member, MemberOffset, MemberStatus, MultiXactId,
    OFFSETS_PER_PAGE, members_page, multi_precedes, offsets_page,
};
use forebay_format::wal::Rmgr;
use forebay_format::wal::multixact::{MultiXactTruncate, TRUNCATE_ID};
use forebay_format::{Lsn, Oid};
use forebay_wal::Record;

use super::store::{MemberStop, MultiCounters, MultiXacts, SEGMENT_MEMBERS, State};
use crate::error::TxnError;
use crate::limits::Limits;
use crate::manager::XactManager;
use crate::shortage::{DatabaseName, IdKind, IdWarning};

impl MultiXacts {
    /// Called at the end of recovery, and at each start: sets the counters that recovery found, and
    /// clears what lies beyond them, as it was never logged.
    pub fn finish_recovery(
        &self,
        io: &mut aio::IoBackend,
        counters: MultiCounters,
    ) -> Result<(), TxnError> {
        let MultiCounters { next, next_offset, oldest, oldest_db } = counters;
        {
            let mut state = self.state.lock();
            (state.next, state.next_offset) = (next, next_offset);
            state.set_oldest(oldest, oldest_db);
        }
        let page = offsets_page(next);
        self.offsets.set_latest(page);
        if next.is_multiple_of(OFFSETS_PER_PAGE) {
            // Logs of older minor versions add it with its first set only.
            self.offsets.zero_page(page);
        }
        self.offsets.change(io, page, |bytes| {
            let before = *bytes;
            pages::set_offset(bytes, next, next_offset.max(1));
            let last = next | (OFFSETS_PER_PAGE - 1);
            (next..=last).skip(1).for_each(|multi| pages::set_offset(bytes, multi, 0));
            *bytes != before
        })?;
        self.members.set_latest(members_page(next_offset));
        if !next_offset.is_multiple_of(MEMBERS_PER_PAGE) {
            let none = Member { xid: 0, status: MemberStatus::ForKeyShare };
            let first = next_offset - next_offset % MEMBERS_PER_PAGE;
            let end = first.saturating_add(MEMBERS_PER_PAGE - 1);
            self.members.change(io, members_page(next_offset), |bytes| {
                let before = *bytes;
                (next_offset..=end).for_each(|offset| pages::set_member(bytes, offset, none));
                *bytes != before
            })?;
        }
        self.find_stop(io)
    }

    /// What a checkpoint record says of the oldest set. A later record may know better.
    pub fn redo_oldest(&self, oldest: MultiXactId, oldest_db: Oid) {
        let mut state = self.state.lock();
        if multi_precedes(state.limits.oldest(), oldest) {
            state.set_oldest(oldest, oldest_db);
        }
    }

    /// From now on no row of any database has a set older than `oldest`, and one of `database` may
    /// have that. The caller has made it durable. Returns a warning if few sets are left
    /// nevertheless.
    pub fn set_limit(
        &self,
        io: &mut aio::IoBackend,
        oldest: MultiXactId,
        database: DatabaseName,
    ) -> Result<Option<IdWarning>, TxnError> {
        let _one = self.truncating.lock();
        let limits = Limits::new(IdKind::Multi, oldest, database);
        let warning = {
            let mut state = self.state.lock();
            state.limits = limits;
            state.limits.warning_when_set(state.next)
        };
        self.find_stop(io)?;
        Ok(warning)
    }

    /// Finds out up to where members can be assigned.
    fn find_stop(&self, io: &mut aio::IoBackend) -> Result<(), TxnError> {
        let counters = self.counters();
        let Some(start) = self.known_start(io, counters.oldest, &counters)? else {
            tracing::warn!(
                "MultiXact member wraparound protections are disabled because oldest checkpointed \
                 MultiXact {} does not exist on disk",
                counters.oldest
            );
            let mut state = self.state.lock();
            state.first_member = None;
            // What protected older members protects these.
            if state.stop == MemberStop::NotReady {
                state.stop = MemberStop::Unknown;
            }
            return Ok(());
        };
        // One file is kept free between the newest members and the oldest ones.
        let stop = (start - start % SEGMENT_MEMBERS).wrapping_sub(SEGMENT_MEMBERS);
        let was = {
            let mut state = self.state.lock();
            state.first_member = Some(start);
            std::mem::replace(&mut state.stop, MemberStop::At(stop))
        };
        if was == MemberStop::Unknown {
            tracing::info!("MultiXact member wraparound protections are now enabled");
        }
        Ok(())
    }

    /// Removes sets older than `oldest`, the oldest one that a row of database `oldest_db` or
    /// another one still has. The caller has made that durable. False if there is nothing to do, or
    /// the files do not tell what is to be removed.
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
        if multi_precedes(was.next, oldest) {
            return Err(TxnError::MultiXactNotYet(oldest));
        }
        if !self.offsets.may_truncate(last_removed(oldest)) {
            return Ok(false);
        }
        let Some(start_member) = self.start_to_remove(io, was.oldest, &was)? else {
            return Ok(false);
        };
        let Some(end_member) = self.start_to_remove(io, oldest, &was)? else { return Ok(false) };
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
        let mut flush_to = logged.end;
        forebay_aio::planted_bug!(io.aio(), MultiXactsTruncatedBeforeLogged, flush_to = Lsn(0));
        xacts.wal.flush(io, flush_to)?;
        self.redo_truncate(&truncate)?;
        drop(pass);
        self.find_stop(io)?;
        Ok(true)
    }

    /// Removes what a record says. From then on the sets before are gone.
    pub(crate) fn redo_truncate(&self, truncate: &MultiXactTruncate) -> Result<(), TxnError> {
        {
            let mut state = self.state.lock();
            state.set_oldest(truncate.end_multi, truncate.oldest_db);
        }
        // By their numbers: more than half of the circle may be in use.
        let (start, end) = (truncate.start_member, truncate.end_member);
        self.members.remove_segments(
            members_page(start),
            members_page(end),
            members_page(MemberOffset::MAX),
        )?;
        self.offsets.truncate(last_removed(truncate.end_multi))?;
        Ok(())
    }

    /// Where the members of a set begin, for their removal. Says so if that is not known.
    fn start_to_remove(
        &self,
        io: &mut aio::IoBackend,
        multi: MultiXactId,
        counters: &MultiCounters,
    ) -> Result<Option<MemberOffset>, TxnError> {
        let start = self.known_start(io, multi, counters)?;
        if start.is_none() {
            tracing::warn!("MultiXact {multi} does not exist on disk, skipping truncation");
        }
        Ok(start)
    }

    /// Where the members of a set begin, or will begin if it is the next one. None if it is not on
    /// the disk: pg_resetwal may have moved the counters.
    fn known_start(
        &self,
        io: &mut aio::IoBackend,
        multi: MultiXactId,
        counters: &MultiCounters,
    ) -> Result<Option<MemberOffset>, TxnError> {
        if multi == counters.next {
            return Ok(Some(counters.next_offset));
        }
        let page = offsets_page(multi);
        let start = self.offsets.read_if_there(io, page, |bytes| pages::offset(bytes, multi))?;
        // No set begins at 0.
        Ok(start.filter(|start| *start != 0))
    }
}

/// The page of offsets that has the last set before `oldest`. That of `oldest` itself may not exist
/// yet, if it is the next one.
fn last_removed(oldest: MultiXactId) -> i64 {
    offsets_page(match oldest {
        FIRST_MULTI => u32::MAX,
        multi => multi.wrapping_sub(1),
    })
}

impl State {
    /// Sets what a log says of the oldest set.
    fn set_oldest(&mut self, oldest: MultiXactId, oid: Oid) {
        self.limits = Limits::new(IdKind::Multi, oldest, DatabaseName { oid, name: None });
    }
}
