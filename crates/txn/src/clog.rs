//! `pg_xact`: the outcome of each transaction, in two bits; 32768 transactions a page.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use forebay_aio::{self as aio, Aio};
use forebay_format::commit_ts::CommitStamp;
use forebay_format::ids::{BOOTSTRAP_XID, FIRST_NORMAL_XID, FROZEN_XID};
use forebay_format::wal::Rmgr;
use forebay_format::wal::clog::{self, ClogTruncate, encode_zero_page};
use forebay_format::{FullXid, Lsn, Oid, Xid, slru};
use forebay_wal::{Record, Wal};

pub use forebay_format::slru::TransactionStatus as Outcome;

use crate::commit_ts::{CommitTimes, PreparedTimes};
use crate::error::TxnError;
use crate::slru::{Pinned, Slru, SlruKind, is_first_on_page};
use crate::status_cache::StatusCache;

/// Scans ask for the transactions of rows, which have no hint bits: 8 MB for 33 million of them.
const KIND: SlruKind =
    SlruKind { dir: "pg_xact", durable: true, per_page: slru::XACTS_PER_PAGE, most_pages: 1024 };

/// A transaction whose outcome can be set without fail: the pages of it and its subtransactions
/// are in the cache and stay there.
#[derive(Debug)]
pub struct Prepared<'a> {
    /// The transaction, and behind it its subtransactions in the order of their ids.
    xids: Vec<Xid>,
    /// Their pages, each with its part of `xids`. The first is that of the transaction.
    pages: Vec<(Pinned<'a>, Range<usize>)>,
    cache: &'a StatusCache,
    /// Pages for their timestamps, if those are kept.
    times: Option<PreparedTimes<'a>>,
}

/// The outcomes of all transactions.
#[derive(Debug)]
pub struct Clog {
    slru: Slru,
    cache: StatusCache,
    times: CommitTimes,
}

impl Clog {
    /// Opens `pg_xact` of a data directory, without reading it. With `verify_writes`, writes are
    /// read back.
    pub fn new(aio: Arc<Aio>, data_dir: &Path, verify_writes: bool) -> Clog {
        let slru = Slru::new(aio, data_dir, KIND, verify_writes);
        let times = CommitTimes::beside(&slru);
        Clog { slru, cache: StatusCache::new(), times }
    }

    /// The pages, for others of the same data directory to open theirs.
    pub(crate) fn slru(&self) -> &Slru {
        &self.slru
    }

    /// When transactions committed (`pg_commit_ts`).
    pub fn times(&self) -> &CommitTimes {
        &self.times
    }

    /// Whether a page that does not exist reads as zeros.
    pub fn set_recovering(&self, on: bool) {
        self.slru.set_recovering(on);
        self.times.set_recovering(on);
    }

    /// The outcome of a transaction. One that is not in the running set and has not committed here
    /// has aborted.
    pub fn status(&self, io: &mut aio::IoBackend, xid: Xid) -> Result<Outcome, TxnError> {
        if let Some(status) = self.known_status(xid) {
            return Ok(status);
        }
        let status = self.slru.read(io, slru::xact_page(xid), |bytes| {
            self.cache.keep(bytes, xid);
            slru::status(bytes, xid)
        });
        status.map_err(|error| error.of_status(xid))
    }

    /// The same, if it can be told without a lock and without reading a file.
    #[inline]
    pub fn known_status(&self, xid: Xid) -> Option<Outcome> {
        if xid < FIRST_NORMAL_XID {
            let permanent = xid == BOOTSTRAP_XID || xid == FROZEN_XID;
            return Some(if permanent { Outcome::Committed } else { Outcome::Aborted });
        }
        self.cache.get(xid)
    }

    /// Sets the outcome of a transaction. For a commit, its record must be durable.
    pub fn set(&self, io: &mut aio::IoBackend, xid: Xid, outcome: Outcome) -> Result<(), TxnError> {
        self.set_tree(io, xid, &[], outcome)
    }

    /// Sets the outcome of a transaction and its subtransactions. For a commit, its record must be
    /// durable.
    pub fn set_tree(
        &self,
        io: &mut aio::IoBackend,
        xid: Xid,
        subxacts: &[Xid],
        outcome: Outcome,
    ) -> Result<(), TxnError> {
        self.prepare_tree(io, xid, subxacts)?.set(outcome);
        Ok(())
    }

    /// Notes that a transaction and its subtransactions have aborted. Nothing is lost if a page
    /// cannot be read: a transaction that neither runs nor has committed has aborted.
    pub fn set_aborted(&self, io: &mut aio::IoBackend, xid: Xid, subxacts: &[Xid]) {
        if let Err(error) = self.set_tree(io, xid, subxacts, Outcome::Aborted) {
            tracing::debug!("transaction {xid} is not noted as aborted: {error}");
        }
    }

    /// Does everything that can fail before an outcome is set. A commit does this before it inserts
    /// its record: once that is durable, the commit must not fail.
    pub fn prepare(&self, io: &mut aio::IoBackend, xid: Xid) -> Result<Prepared<'_>, TxnError> {
        self.prepare_tree(io, xid, &[])
    }

    /// [`Clog::prepare`] for a transaction with subtransactions.
    pub fn prepare_tree(
        &self,
        io: &mut aio::IoBackend,
        xid: Xid,
        subxacts: &[Xid],
    ) -> Result<Prepared<'_>, TxnError> {
        debug_assert!(xid >= FIRST_NORMAL_XID);
        let xids = [&[xid], subxacts].concat();
        let mut pages = Vec::new();
        let mut from = 0;
        for part in xids.chunk_by(|&a, &b| slru::xact_page(a) == slru::xact_page(b)) {
            let to = from + part.len();
            let page = part.first().map_or(0, |&first| slru::xact_page(first));
            pages.push((self.slru.pin(io, page)?, from..to));
            from = to;
        }
        let times = self.times.prepare(io, &xids)?;
        Ok(Prepared { xids, pages, cache: &self.cache, times })
    }

    /// Adds the page of `xid`, and logs that, if `xid` is the first on it. The same for its
    /// timestamp.
    pub fn extend(&self, io: &mut aio::IoBackend, wal: &Wal, xid: Xid) -> Result<(), TxnError> {
        self.times.extend(io, wal, xid)?;
        if !is_first_on_page(xid, slru::XACTS_PER_PAGE) {
            return Ok(());
        }
        let page = slru::xact_page(xid);
        self.zero_page(page);
        let main = encode_zero_page(page);
        wal.insert(io, &Record { rmgr: Rmgr::CLOG, info: 0, xid: 0, main: &main, blocks: &[] })?;
        Ok(())
    }

    /// Makes a page of zeros in the cache.
    pub fn zero_page(&self, page: i64) {
        self.slru.zero_page(page);
        self.cache.forget_page(page);
    }

    /// Clears the outcomes of `next` and later ids on its page: they were assigned before a crash,
    /// and nothing of them reached the WAL. Called at the end of recovery.
    pub fn trim(&self, io: &mut aio::IoBackend, next: FullXid) -> Result<(), TxnError> {
        let next = next.xid();
        self.times.set_latest(next);
        self.slru.set_latest(slru::xact_page(next));
        if next.is_multiple_of(slru::XACTS_PER_PAGE) {
            return Ok(());
        }
        let page = slru::xact_page(next);
        self.slru.change(io, page, |bytes| {
            self.cache.forget_page(page);
            let mut changed = false;
            let last = next | (slru::XACTS_PER_PAGE - 1);
            for xid in next..=last {
                if slru::status(bytes, xid) != Outcome::InProgress {
                    slru::set_status(bytes, xid, Outcome::InProgress);
                    changed = true;
                }
            }
            changed
        })
    }

    /// Removes the files that hold only transactions older than `oldest`, the oldest id that any
    /// tuple of database `oldest_db` or another one still has. The caller has made that durable.
    /// Returns the number of files.
    pub fn truncate(
        &self,
        io: &mut aio::IoBackend,
        wal: &Wal,
        oldest: Xid,
        oldest_db: Oid,
    ) -> Result<u64, TxnError> {
        self.times.truncate(io, wal, oldest)?;
        let page = slru::xact_page(oldest);
        if !self.slru.has_older_than(page)? {
            return Ok(0);
        }
        let main = ClogTruncate { page, oldest_xid: oldest, oldest_xid_db: oldest_db }.encode();
        let record =
            Record { rmgr: Rmgr::CLOG, info: clog::TRUNCATE, xid: 0, main: &main, blocks: &[] };
        let logged = wal.insert(io, &record)?;
        // Files must not be gone while recovery would still expect their pages.
        let mut flush_to = logged.end;
        forebay_aio::planted_bug!(io.aio(), ClogTruncatedBeforeLogged, flush_to = Lsn(0));
        wal.flush(io, flush_to)?;
        self.truncate_files(page)
    }

    /// Removes the files that hold only pages before `page`. Returns their number.
    pub(crate) fn truncate_files(&self, page: i64) -> Result<u64, TxnError> {
        let removed = self.slru.truncate(page);
        self.cache.forget_all();
        removed
    }

    /// Writes all changed pages and makes them durable. Returns their number. After an error the
    /// next flush writes them again, unless a sync has failed: then the engine must stop.
    pub fn flush(&self, io: &mut aio::IoBackend) -> Result<u64, TxnError> {
        self.flush_behind(io, |_| Ok::<(), TxnError>(()))
    }

    /// [`Clog::flush`] that calls `before` after it has copied the pages and before it writes them.
    /// `before` makes the WAL of all commits in the pages durable, also of those that did not wait.
    pub fn flush_behind<E: From<TxnError>>(
        &self,
        io: &mut aio::IoBackend,
        before: impl FnOnce(&mut aio::IoBackend) -> Result<(), E>,
    ) -> Result<u64, E> {
        forebay_aio::planted_bug!(io.aio(), ClogNotWritten, return Ok(0));
        let written = self.slru.flush_behind(io, before)?;
        Ok(written + self.times.flush(io)?)
    }
}

impl Prepared<'_> {
    /// Sets the outcome of a commit, with its timestamps if they are kept.
    pub fn commit(self, stamp: CommitStamp) {
        if let Some(times) = &self.times {
            times.set(&self.xids, stamp);
        }
        self.set(Outcome::Committed);
    }

    /// Sets the outcome of the transaction and its subtransactions. For a commit, its record must
    /// be durable.
    ///
    /// A commit becomes visible at once, by one bit pattern in the page of the parent.
    /// Subtransactions on other pages are marked as committed with their parent before, and as
    /// committed after.
    pub fn set(self, outcome: Outcome) {
        let (first, others) = self.pages.split_first().expect("the transaction has a page");
        if outcome == Outcome::Committed {
            others.iter().for_each(|part| self.mark(part, Outcome::SubCommitted));
        }
        self.mark(first, outcome);
        others.iter().for_each(|part| self.mark(part, outcome));
    }

    /// Sets what a page has of the transaction and its subtransactions.
    fn mark(&self, (pin, part): &(Pinned<'_>, Range<usize>), outcome: Outcome) {
        pin.change(|bytes| {
            for &xid in &self.xids[part.clone()] {
                slru::set_status(bytes, xid, outcome);
                self.cache.keep(bytes, xid);
            }
        });
    }
}
