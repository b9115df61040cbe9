//! `pg_xact`: the outcome of each transaction, in two bits.
//!
//! Pages of 8 kB (32768 transactions) lie in files of 32 pages. They are cached here, and written
//! and synced by checkpoints only; in between the WAL stands for them. A page with changes is never
//! evicted: the cache grows instead, by a page for each 32768 transactions between two checkpoints.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_aio::{self as aio, Aio, AioError, AlignedBuf, OpenOptions, sync::Mutex};
use forebay_format::ids::{BOOTSTRAP_XID, FIRST_NORMAL_XID, FROZEN_XID};
use forebay_format::wal::clog::encode_zero_page;
use forebay_format::{BLOCK_SIZE, FullXid, PageBytes, Xid, slru, wal::Rmgr};
use forebay_wal::{Record, Wal};

pub use forebay_format::slru::TransactionStatus as Outcome;

use crate::error::TxnError;
use crate::readback::ReadBack;

/// With more pages than this, clean ones are evicted.
const CACHE_PAGES: usize = 64;

/// A cached page.
#[derive(Debug)]
struct Slot {
    bytes: Box<PageBytes>,
    /// Changed since it was last copied for writing.
    dirty: bool,
    /// A copy of it is being written: until that is done, the page in the file is out of date.
    writing: bool,
    /// Number of transactions that are about to set their outcome here: the page must stay.
    pins: u32,
    /// The cache's tick when it was last used.
    used: u64,
}

impl Slot {
    fn new(bytes: Box<PageBytes>) -> Slot {
        Slot { bytes, dirty: false, writing: false, pins: 0, used: 0 }
    }
}

/// A transaction whose outcome can be set without fail: its page is in the cache and stays there.
#[derive(Debug)]
pub struct Prepared<'a> {
    clog: &'a Clog,
    xid: Xid,
}

#[derive(Debug, Default)]
struct Cache {
    pages: HashMap<i64, Slot>,
    tick: u64,
}

/// The outcomes of all transactions.
pub struct Clog {
    aio: Arc<Aio>,
    dir: PathBuf,
    /// Whether writes are read back after their sync.
    verify_writes: bool,
    cache: Mutex<Cache>,
    /// Held by a flush. True if a file was created and its name may not be durable.
    flushing: Mutex<bool>,
    /// In recovery a missing page reads as zeros: the log may remove its file later.
    recovering: AtomicBool,
}

impl Clog {
    /// Opens `pg_xact` of a data directory, without reading it. With `verify_writes`, writes are
    /// read back.
    pub fn new(aio: Arc<Aio>, data_dir: &Path, verify_writes: bool) -> Clog {
        Clog {
            aio,
            dir: data_dir.join("pg_xact"),
            verify_writes,
            cache: Mutex::new(Cache::default()),
            flushing: Mutex::new(false),
            recovering: AtomicBool::new(false),
        }
    }

    /// Whether a page that does not exist reads as zeros.
    pub fn set_recovering(&self, on: bool) {
        self.recovering.store(on, Ordering::SeqCst);
    }

    /// The outcome of a transaction. One that is not in the running set and has not committed here
    /// has aborted.
    pub fn status(&self, io: &mut aio::IoBackend, xid: Xid) -> Result<Outcome, TxnError> {
        if xid < FIRST_NORMAL_XID {
            let permanent = xid == BOOTSTRAP_XID || xid == FROZEN_XID;
            return Ok(if permanent { Outcome::Committed } else { Outcome::Aborted });
        }
        let mut cache = self.cache.lock();
        let slot = self.load(&mut cache, io, slru::xact_page(xid))?;
        Ok(slru::status(&slot.bytes, xid))
    }

    /// Sets the outcome of a transaction. For a commit, its record must be durable.
    pub fn set(&self, io: &mut aio::IoBackend, xid: Xid, outcome: Outcome) -> Result<(), TxnError> {
        self.prepare(io, xid)?.set(outcome);
        Ok(())
    }

    /// Notes that a transaction has aborted. Nothing is lost if its page cannot be read: a
    /// transaction that neither runs nor has committed has aborted.
    pub fn set_aborted(&self, io: &mut aio::IoBackend, xid: Xid) {
        if let Err(error) = self.set(io, xid, Outcome::Aborted) {
            tracing::debug!("transaction {xid} is not noted as aborted: {error}");
        }
    }

    /// Does everything that can fail before an outcome is set. A commit does this before it inserts
    /// its record: once that is durable, the commit must not fail.
    pub fn prepare(&self, io: &mut aio::IoBackend, xid: Xid) -> Result<Prepared<'_>, TxnError> {
        debug_assert!(xid >= FIRST_NORMAL_XID);
        let mut cache = self.cache.lock();
        self.load(&mut cache, io, slru::xact_page(xid))?.pins += 1;
        Ok(Prepared { clog: self, xid })
    }

    /// Adds the page of `xid`, and logs that, if `xid` is the first on it.
    pub fn extend(&self, io: &mut aio::IoBackend, wal: &Wal, xid: Xid) -> Result<(), TxnError> {
        // Ids below 3 are never assigned: id 3 is the first on its page.
        if !xid.is_multiple_of(slru::XACTS_PER_PAGE) && xid != FIRST_NORMAL_XID {
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
        let mut cache = self.cache.lock();
        cache.tick += 1;
        let used = cache.tick;
        let slot = cache.pages.entry(page).or_insert_with(|| Slot::new(Box::new([0; BLOCK_SIZE])));
        slot.bytes.fill(0);
        (slot.dirty, slot.used) = (true, used);
    }

    /// Clears the outcomes of `next` and later ids on its page: they were assigned before a crash,
    /// and nothing of them reached the WAL. Called at the end of recovery.
    pub fn trim(&self, io: &mut aio::IoBackend, next: FullXid) -> Result<(), TxnError> {
        let next = next.xid();
        if next.is_multiple_of(slru::XACTS_PER_PAGE) {
            return Ok(());
        }
        let mut cache = self.cache.lock();
        let page = slru::xact_page(next);
        let slot = self.load(&mut cache, io, page)?;
        let mut xid = next;
        while slru::xact_page(xid) == page {
            if slru::status(&slot.bytes, xid) != Outcome::InProgress {
                slru::set_status(&mut slot.bytes, xid, Outcome::InProgress);
                slot.dirty = true;
            }
            match xid.checked_add(1) {
                Some(after) => xid = after,
                None => break,
            }
        }
        Ok(())
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
        let mut new_names = self.flushing.lock();
        forebay_aio::planted_bug!(io.aio(), ClogNotWritten, return Ok(0));
        let copies = {
            let mut cache = self.cache.lock();
            take_changed(&mut cache, AlignedBuf::copy_of).map_err(TxnError::from)?
        };
        let result = before(io).and_then(|()| Ok(self.write_out(io, &copies, &mut new_names)?));
        let mut cache = self.cache.lock();
        for (page, _) in &copies {
            if let Some(slot) = cache.pages.get_mut(page) {
                slot.writing = false;
                slot.dirty |= result.is_err();
            }
        }
        make_room(&mut cache);
        result.map(|()| copies.len() as u64)
    }

    fn write_out(
        &self,
        io: &mut aio::IoBackend,
        pages: &[(i64, AlignedBuf)],
        new_names: &mut bool,
    ) -> Result<(), TxnError> {
        for of_one_file in pages.chunk_by(|a, b| slru::segment(a.0) == slru::segment(b.0)) {
            let Some((first, _)) = of_one_file.first() else { continue };
            let path = self.segment_path(*first);
            let namespace = self.aio.namespace();
            *new_names |= !namespace.exists(&path)?;
            let file = namespace.open(&path, &OpenOptions::READ_WRITE.create())?;
            let read_back = ReadBack::open(self.verify_writes, namespace.as_ref(), &path)?;
            for (page, bytes) in of_one_file {
                io.write_all_at(&file, slru::segment_offset(*page), bytes)?;
            }
            sync_segment(io, &file)?;
            for (page, bytes) in of_one_file {
                read_back.verify(io, slru::segment_offset(*page), bytes)?;
            }
        }
        if *new_names {
            self.aio.namespace().sync_dir(&self.dir)?;
            *new_names = false;
        }
        Ok(())
    }

    /// The cached page. Reads it if it is not in the cache.
    fn load<'a>(
        &self,
        cache: &'a mut Cache,
        io: &mut aio::IoBackend,
        page: i64,
    ) -> Result<&'a mut Slot, TxnError> {
        cache.tick += 1;
        let used = cache.tick;
        if !cache.pages.contains_key(&page) {
            let bytes = self.read(io, page)?;
            make_room(cache);
            cache.pages.insert(page, Slot::new(bytes));
        }
        let slot = cache.pages.get_mut(&page).expect("the page was found or inserted above");
        slot.used = used;
        Ok(slot)
    }

    fn read(&self, io: &mut aio::IoBackend, page: i64) -> Result<Box<PageBytes>, TxnError> {
        let path = self.segment_path(page);
        let recovering = self.recovering.load(Ordering::SeqCst);
        let file = match self.aio.namespace().open(&path, &OpenOptions::READ) {
            Ok(file) => file,
            Err(error) if recovering && error.is_not_found() => {
                return Ok(Box::new([0; BLOCK_SIZE]));
            }
            Err(error) => return Err(error.into()),
        };
        let mut buf = AlignedBuf::zeroed(BLOCK_SIZE)?;
        let got = io.read_at(&file, slru::segment_offset(page), &mut buf)?;
        if got < BLOCK_SIZE && !recovering {
            return Err(TxnError::ShortClogPage { page, got, file: path });
        }
        let mut bytes = Box::new([0; BLOCK_SIZE]);
        bytes[..got].copy_from_slice(&buf[..got]);
        Ok(bytes)
    }

    fn segment_path(&self, page: i64) -> PathBuf {
        self.dir.join(slru::segment_name(slru::segment(page)))
    }
}

impl Prepared<'_> {
    /// Sets the outcome. For a commit, its record must be durable.
    pub fn set(self, outcome: Outcome) {
        let mut cache = self.clog.cache.lock();
        let slot = cache.pages.get_mut(&slru::xact_page(self.xid)).expect("a pinned page stays");
        slru::set_status(&mut slot.bytes, self.xid, outcome);
        slot.dirty = true;
    }
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        let mut cache = self.clog.cache.lock();
        match cache.pages.get_mut(&slru::xact_page(self.xid)) {
            Some(slot) => slot.pins -= 1,
            None => debug_assert!(false, "a pinned page of pg_xact left its cache"),
        }
    }
}

/// Copies all changed pages, in order, and marks them as being written. If memory is short for one
/// of them, none is marked.
fn take_changed<T>(
    cache: &mut Cache,
    mut copy: impl FnMut(&[u8]) -> Result<T, AioError>,
) -> Result<Vec<(i64, T)>, AioError> {
    let mut copies = Vec::new();
    for (&page, slot) in cache.pages.iter().filter(|(_, slot)| slot.dirty) {
        copies.push((page, copy(&slot.bytes[..])?));
    }
    for slot in cache.pages.values_mut().filter(|slot| slot.dirty) {
        (slot.dirty, slot.writing) = (false, true);
    }
    copies.sort_unstable_by_key(|(page, _)| *page);
    Ok(copies)
}

/// Makes room for one more page: evicts clean ones, the least recently used first.
fn make_room(cache: &mut Cache) {
    let excess = (cache.pages.len() + 1).saturating_sub(CACHE_PAGES);
    if excess == 0 {
        return;
    }
    let clean =
        cache.pages.iter().filter(|(_, slot)| !slot.dirty && !slot.writing && slot.pins == 0);
    let mut clean: Vec<(u64, i64)> = clean.map(|(page, slot)| (slot.used, *page)).collect();
    clean.sort_unstable();
    for (_, page) in clean.into_iter().take(excess) {
        cache.pages.remove(&page);
    }
}

fn sync_segment(io: &mut aio::IoBackend, file: &aio::File) -> Result<(), AioError> {
    forebay_aio::planted_bug!(io.aio(), ClogNotSynced, return Ok(()));
    io.fsync(file)
}

impl std::fmt::Debug for Clog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clog").field("dir", &self.dir).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_aio::Errno;

    #[test]
    fn pages_that_could_not_all_be_copied_stay_to_be_written() {
        let mut cache = Cache::default();
        for page in 0..3 {
            let slot = Slot { dirty: true, ..Slot::new(Box::new([0; BLOCK_SIZE])) };
            cache.pages.insert(page, slot);
        }
        for room in 0..3 {
            let mut copied = 0;
            let short = take_changed(&mut cache, |_| {
                copied += 1;
                let no_room = AioError::os("map memory for", Path::new("pg_xact"), Errno::NOMEM);
                if copied > room { Err(no_room) } else { Ok(()) }
            });
            assert!(short.is_err());
            assert!(
                cache.pages.values().all(|slot| slot.dirty && !slot.writing),
                "room for {room}"
            );
        }
        let pages: Vec<i64> = take_changed(&mut cache, |_| Ok(()))
            .unwrap()
            .into_iter()
            .map(|(page, ())| page)
            .collect();
        assert_eq!(pages, [0, 1, 2]);
        assert!(cache.pages.values().all(|slot| !slot.dirty && slot.writing));
    }
}
