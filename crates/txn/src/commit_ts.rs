//! `pg_commit_ts`: when each transaction committed (track_commit_timestamp).
//!
//! pg_control says whether it is kept; PostgreSQL changes that at its start, and a record tells
//! recovery. Where it is not kept, there are no files.

use std::ops::Range;

use forebay_aio as aio;
use forebay_aio::sync::Mutex;
use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_format::commit_ts::{self as pages, CommitStamp, XACTS_PER_PAGE, page_of};
use forebay_format::ids::{INVALID_XID, xid_precedes};
use forebay_format::wal::Rmgr;
use forebay_format::wal::commit_ts::{CommitTsTruncate, TRUNCATE, ZEROPAGE};
use forebay_format::{FullXid, Xid};
use forebay_wal::{Record, Wal};

use crate::error::TxnError;
use crate::slru::{FEW_PAGES, Pinned, Slru, SlruKind, is_first_on_page};

const KIND: SlruKind = SlruKind {
    dir: "pg_commit_ts",
    durable: true,
    per_page: XACTS_PER_PAGE,
    most_pages: FEW_PAGES,
};

/// The timestamps of transactions.
#[derive(Debug)]
pub struct CommitTimes {
    slru: Slru,
    kept: AtomicBool,
    /// The oldest and the newest transaction with a timestamp; 0 if none has one.
    range: Mutex<(Xid, Xid)>,
}

/// Pages that stay in the cache, so that setting timestamps cannot fail.
#[derive(Debug)]
pub(crate) struct PreparedTimes<'a> {
    times: &'a CommitTimes,
    /// Each page with its part of the transactions.
    pages: Vec<(Pinned<'a>, Range<usize>)>,
}

impl CommitTimes {
    /// `pg_commit_ts` of the data directory of other status pages. Nothing is kept yet.
    pub(crate) fn beside(slru: &Slru) -> CommitTimes {
        CommitTimes {
            slru: slru.sibling(KIND),
            kept: AtomicBool::new(false),
            range: Mutex::new((INVALID_XID, INVALID_XID)),
        }
    }

    /// Whether timestamps are kept.
    pub fn are_kept(&self) -> bool {
        self.kept.load(Ordering::Acquire)
    }

    /// The oldest and the newest transaction with a timestamp, for a checkpoint.
    pub fn range(&self) -> (Xid, Xid) {
        *self.range.lock()
    }

    /// Sets what a checkpoint says of them, at a start.
    pub fn set_range(&self, oldest: Xid, newest: Xid) {
        *self.range.lock() = (oldest, newest);
    }

    pub(crate) fn set_recovering(&self, on: bool) {
        self.slru.set_recovering(on);
    }

    /// From now on timestamps are kept, of transactions from `next` on. The page of `next` is made
    /// if it does not exist.
    pub fn keep(&self, io: &mut aio::IoBackend, next: FullXid) -> Result<(), TxnError> {
        let (next, page) = (next.xid(), page_of(next.xid()));
        if self.are_kept() {
            return Ok(());
        }
        {
            let mut range = self.range.lock();
            if range.0 == INVALID_XID {
                *range = (next, next);
            }
        }
        if !self.slru.has_page(io, page)? {
            self.slru.zero_page(page);
        }
        self.slru.set_latest(page);
        self.kept.store(true, Ordering::Release);
        Ok(())
    }

    /// Tells the next id, at a start.
    pub(crate) fn set_latest(&self, next: Xid) {
        self.slru.set_latest(page_of(next));
    }

    /// From now on none are kept, and those that there are go. Called by recovery.
    pub fn discard(&self) -> Result<(), TxnError> {
        self.kept.store(false, Ordering::Release);
        self.set_range(INVALID_XID, INVALID_XID);
        self.slru.remove_all()
    }

    /// Adds the page of `xid`, and logs that, if `xid` is the first on it.
    pub(crate) fn extend(
        &self,
        io: &mut aio::IoBackend,
        wal: &Wal,
        xid: Xid,
    ) -> Result<(), TxnError> {
        if !self.are_kept() || !is_first_on_page(xid, XACTS_PER_PAGE) {
            return Ok(());
        }
        let page = page_of(xid);
        self.slru.zero_page(page);
        let (rmgr, main) = (Rmgr::COMMIT_TS, page.to_le_bytes());
        wal.insert(io, &Record { rmgr, info: ZEROPAGE, xid: 0, main: &main, blocks: &[] })?;
        Ok(())
    }

    /// Makes a page of zeros, as a record says.
    pub(crate) fn redo_zero_page(&self, page: i64) {
        self.slru.zero_page(page);
    }

    /// Does everything that can fail before timestamps are set. None if none are kept.
    pub(crate) fn prepare(
        &self,
        io: &mut aio::IoBackend,
        xids: &[Xid],
    ) -> Result<Option<PreparedTimes<'_>>, TxnError> {
        if !self.are_kept() {
            return Ok(None);
        }
        let (mut pages, mut from) = (Vec::new(), 0);
        for part in xids.chunk_by(|&a, &b| page_of(a) == page_of(b)) {
            let (to, page) = (from + part.len(), part.first().map_or(0, |&first| page_of(first)));
            pages.push((self.slru.pin(io, page)?, from..to));
            from = to;
        }
        Ok(Some(PreparedTimes { times: self, pages }))
    }

    /// Removes the files that hold only transactions older than `oldest`.
    pub(crate) fn truncate(
        &self,
        io: &mut aio::IoBackend,
        wal: &Wal,
        oldest: Xid,
    ) -> Result<(), TxnError> {
        self.advance_oldest(oldest);
        let page = page_of(oldest);
        if !self.are_kept() || !self.slru.has_older_than(page)? {
            return Ok(());
        }
        let main = CommitTsTruncate { page, oldest_xid: oldest }.encode();
        let (rmgr, info) = (Rmgr::COMMIT_TS, TRUNCATE);
        let logged = wal.insert(io, &Record { rmgr, info, xid: 0, main: &main, blocks: &[] })?;
        wal.flush(io, logged.end)?;
        self.slru.truncate(page).map(drop)
    }

    /// The same, as a record says.
    pub(crate) fn redo_truncate(&self, truncate: &CommitTsTruncate) -> Result<(), TxnError> {
        self.advance_oldest(truncate.oldest_xid);
        self.slru.truncate(truncate.page).map(drop)
    }

    fn advance_oldest(&self, oldest: Xid) {
        let mut range = self.range.lock();
        if range.0 != INVALID_XID && xid_precedes(range.0, oldest) {
            range.0 = oldest;
        }
    }

    /// Writes all changed pages and makes them durable. Returns their number.
    pub(crate) fn flush(&self, io: &mut aio::IoBackend) -> Result<u64, TxnError> {
        self.slru.flush_behind(io, |_| Ok::<(), TxnError>(()))
    }

    /// A transaction's timestamp, if it has one.
    pub fn stamp(
        &self,
        io: &mut aio::IoBackend,
        xid: Xid,
    ) -> Result<Option<CommitStamp>, TxnError> {
        let (oldest, newest) = self.range();
        let known =
            oldest != INVALID_XID && !xid_precedes(xid, oldest) && !xid_precedes(newest, xid);
        if !self.are_kept() || !known {
            return Ok(None);
        }
        let stamp = self.slru.read(io, page_of(xid), |bytes| pages::stamp(bytes, xid))?;
        Ok(Some(stamp).filter(|stamp| stamp.time != 0))
    }
}

impl PreparedTimes<'_> {
    /// Sets the timestamps of transactions: those that were prepared.
    pub(crate) fn set(&self, xids: &[Xid], stamp: CommitStamp) {
        for (pin, part) in &self.pages {
            let here = xids.get(part.clone()).unwrap_or_default();
            pin.change(|bytes| here.iter().for_each(|&xid| pages::set_stamp(bytes, xid, stamp)));
        }
        // The last subtransaction is the newest.
        let mut range = self.times.range.lock();
        if let Some(&newest) = xids.last().filter(|&&newest| xid_precedes(range.1, newest)) {
            range.1 = newest;
        }
    }
}
