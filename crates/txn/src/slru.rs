//! Small files of status pages: `pg_xact`, `pg_subtrans` and `pg_multixact` share this cache.
//!
//! Pages of 8 kB lie in files of 32 pages. They are cached here in banks, each with a mutex of its
//! own, and written by checkpoints only. A page with changes is never evicted: its bank grows
//! instead, until the next flush.
//!
//! A durable directory is synced at each flush, and the WAL stands for its pages in between.
//! `pg_subtrans` is not durable: its files only relieve the memory, and a start ignores them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use forebay_aio::{self as aio, Aio, AioError, AlignedBuf, OpenOptions, sync::Mutex};
use forebay_format::ids::FIRST_NORMAL_XID;
use forebay_format::{BLOCK_SIZE, PageBytes, Xid, slru};

use crate::error::TxnError;
use crate::readback::ReadBack;

/// Number of banks. Neighbouring pages are in different ones.
const BANKS: usize = 8;
/// Pages of a directory that only new transactions ask for.
pub(crate) const FEW_PAGES: usize = 8 * BANKS;

/// Whether an id that was just assigned is the first on its page. Ids below 3 are never assigned,
/// so id 3 is the first of page 0.
pub(crate) const fn is_first_on_page(xid: Xid, per_page: u32) -> bool {
    xid.is_multiple_of(per_page) || xid == FIRST_NORMAL_XID
}

/// What tells one directory from another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlruKind {
    /// The directory, below the data directory.
    pub(crate) dir: &'static str,
    /// Whether its pages survive a crash.
    pub(crate) durable: bool,
    /// Entries of a page. Their ids wrap around at 2^32.
    pub(crate) per_page: u32,
    /// With more pages than this in all banks, clean ones are evicted.
    pub(crate) most_pages: usize,
}

/// A cached page.
#[derive(Debug)]
struct Slot {
    bytes: Box<PageBytes>,
    /// Changed since it was last copied for writing.
    dirty: bool,
    /// A copy of it is being written: until that is done, the page in the file is out of date.
    writing: bool,
    /// Number of [`Pinned`]: the page must stay.
    pins: u32,
    /// The bank's tick when it was last used.
    used: u64,
}

impl Slot {
    fn new(bytes: Box<PageBytes>) -> Slot {
        Slot { bytes, dirty: false, writing: false, pins: 0, used: 0 }
    }
}

#[derive(Debug, Default)]
struct Bank {
    pages: HashMap<i64, Slot>,
    tick: u64,
}

/// The pages of one directory.
pub(crate) struct Slru {
    aio: Arc<Aio>,
    data_dir: PathBuf,
    dir: PathBuf,
    kind: SlruKind,
    /// Whether writes are read back after their sync.
    verify_writes: bool,
    banks: [Mutex<Bank>; BANKS],
    /// Held by a flush, and by a truncation. True if a file was created and its name may not be
    /// durable.
    flushing: Mutex<bool>,
    /// In recovery a missing page reads as zeros: the log may remove its file later.
    recovering: AtomicBool,
    /// The page last added, or [`NO_PAGE`]. No truncation goes past it.
    latest: AtomicI64,
}

/// No page is known to be the latest.
const NO_PAGE: i64 = -1;

/// A page that stays in the cache, so that changing it cannot fail.
#[derive(Debug)]
pub(crate) struct Pinned<'a> {
    slru: &'a Slru,
    page: i64,
}

impl Slru {
    /// Opens a directory, without reading it. With `verify_writes`, durable writes are read back.
    pub(crate) fn new(aio: Arc<Aio>, data_dir: &Path, kind: SlruKind, verify_writes: bool) -> Slru {
        Slru {
            aio,
            data_dir: data_dir.to_path_buf(),
            dir: data_dir.join(kind.dir),
            kind,
            verify_writes: verify_writes && kind.durable,
            banks: std::array::from_fn(|_| Mutex::default()),
            flushing: Mutex::new(false),
            recovering: AtomicBool::new(false),
            latest: AtomicI64::new(NO_PAGE),
        }
    }

    /// Another directory of the same data directory.
    pub(crate) fn sibling(&self, kind: SlruKind) -> Slru {
        Slru::new(Arc::clone(&self.aio), &self.data_dir, kind, self.verify_writes)
    }

    /// Whether a page that does not exist reads as zeros.
    pub(crate) fn set_recovering(&self, on: bool) {
        self.recovering.store(on, Ordering::SeqCst);
    }

    /// Tells which page is in use by the newest entries, at start.
    pub(crate) fn set_latest(&self, page: i64) {
        self.latest.store(page, Ordering::SeqCst);
    }

    /// Whether all entries of page `a` are older than all of page `b`.
    fn precedes(&self, a: i64, b: i64) -> bool {
        slru::page_precedes(a, b, self.kind.per_page)
    }

    fn bank(&self, page: i64) -> &Mutex<Bank> {
        &self.banks[page.rem_euclid(BANKS as i64) as usize]
    }

    /// Reads from a page.
    pub(crate) fn read<R>(
        &self,
        io: &mut aio::IoBackend,
        page: i64,
        look: impl FnOnce(&PageBytes) -> R,
    ) -> Result<R, TxnError> {
        let mut bank = self.bank(page).lock();
        Ok(look(&self.load(&mut bank, io, page)?.bytes))
    }

    /// The same for a page that may be missing. None if its file is, or ends before it.
    pub(crate) fn read_if_there<R>(
        &self,
        io: &mut aio::IoBackend,
        page: i64,
        look: impl FnOnce(&PageBytes) -> R,
    ) -> Result<Option<R>, TxnError> {
        match self.read(io, page, look) {
            Err(TxnError::ShortStatusPage { .. }) => Ok(None),
            Err(TxnError::Disk(error)) if error.is_not_found() => Ok(None),
            found => found.map(Some),
        }
    }

    /// Whether a page is in its file, or is to be written there.
    pub(crate) fn has_page(&self, io: &mut aio::IoBackend, page: i64) -> Result<bool, TxnError> {
        if self.bank(page).lock().pages.get(&page).is_some_and(|slot| slot.dirty || slot.writing) {
            return Ok(true);
        }
        let path = self.segment_path(slru::segment(page));
        if !self.aio.namespace().exists(&path)? {
            return Ok(false);
        }
        let file = self.aio.namespace().open(&path, &OpenOptions::READ)?;
        let mut buf = AlignedBuf::zeroed(BLOCK_SIZE)?;
        Ok(io.read_at(&file, slru::segment_offset(page), &mut buf)? == BLOCK_SIZE)
    }

    /// Changes a page. `change` tells whether it did.
    pub(crate) fn change(
        &self,
        io: &mut aio::IoBackend,
        page: i64,
        change: impl FnOnce(&mut PageBytes) -> bool,
    ) -> Result<(), TxnError> {
        let mut bank = self.bank(page).lock();
        let slot = self.load(&mut bank, io, page)?;
        slot.dirty |= change(&mut slot.bytes);
        Ok(())
    }

    /// Keeps a page in the cache, to be changed later.
    pub(crate) fn pin(&self, io: &mut aio::IoBackend, page: i64) -> Result<Pinned<'_>, TxnError> {
        let mut bank = self.bank(page).lock();
        self.load(&mut bank, io, page)?.pins += 1;
        Ok(Pinned { slru: self, page })
    }

    /// Makes a page of zeros in the cache, which is now the latest.
    pub(crate) fn zero_page(&self, page: i64) {
        let mut bank = self.bank(page).lock();
        bank.tick += 1;
        let used = bank.tick;
        let slot = bank.pages.entry(page).or_insert_with(|| Slot::new(Box::new([0; BLOCK_SIZE])));
        slot.bytes.fill(0);
        (slot.dirty, slot.used) = (true, used);
        self.latest.store(page, Ordering::SeqCst);
    }

    /// Writes all changed pages, and makes them durable if the directory is. Returns their number.
    /// Calls `before` after it has copied the pages and before it writes them: it makes the WAL
    /// durable that the pages depend on.
    ///
    /// After an error the next flush writes them again, unless a sync has failed: then the engine
    /// must stop.
    pub(crate) fn flush_behind<E: From<TxnError>>(
        &self,
        io: &mut aio::IoBackend,
        before: impl FnOnce(&mut aio::IoBackend) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut new_names = self.flushing.lock();
        let mut copies = Vec::new();
        let copied = self
            .banks
            .iter()
            .try_for_each(|bank| take_changed(&mut bank.lock(), &mut copies, AlignedBuf::copy_of));
        copies.sort_unstable_by_key(|(page, _)| *page);
        let result = copied
            .map_err(|error| E::from(TxnError::from(error)))
            .and_then(|()| before(io))
            .and_then(|()| Ok(self.write_out(io, &copies, &mut new_names)?));
        for (page, _) in &copies {
            if let Some(slot) = self.bank(*page).lock().pages.get_mut(page) {
                slot.writing = false;
                slot.dirty |= result.is_err();
            }
        }
        self.banks.iter().for_each(|bank| self.make_room(&mut bank.lock(), 0));
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
            let path = self.segment_path(slru::segment(*first));
            let namespace = self.aio.namespace();
            *new_names |= !namespace.exists(&path)?;
            let file = namespace.open(&path, &OpenOptions::READ_WRITE.create())?;
            let read_back = ReadBack::open(self.verify_writes, namespace.as_ref(), &path)?;
            for (page, bytes) in of_one_file {
                io.write_all_at(&file, slru::segment_offset(*page), bytes)?;
            }
            if self.kind.durable {
                sync_segment(io, &file)?;
            }
            for (page, bytes) in of_one_file {
                read_back.verify(io, slru::segment_offset(*page), bytes)?;
            }
        }
        if *new_names && self.kind.durable {
            self.aio.namespace().sync_dir(&self.dir)?;
        }
        *new_names = false;
        Ok(())
    }

    /// Whether [`Slru::truncate`] would remove a file.
    pub(crate) fn has_older_than(&self, cutoff: i64) -> Result<bool, TxnError> {
        Ok(!self.older_segments(cutoff)?.is_empty() && self.may_truncate(cutoff))
    }

    /// Whether the newest page is not older than the file of page `cutoff`. If it is, logs that:
    /// the ids must have wrapped around, and nothing may be removed.
    pub(crate) fn may_truncate(&self, cutoff: i64) -> bool {
        let cutoff = slru::segment(cutoff) * slru::PAGES_PER_SEGMENT;
        let latest = self.latest.load(Ordering::SeqCst);
        let wrapped = latest != NO_PAGE && self.precedes(latest, cutoff);
        if wrapped {
            let dir = self.kind.dir;
            tracing::info!("could not truncate directory \"{dir}\": apparent wraparound");
        }
        !wrapped
    }

    /// Removes the files whose pages are all older than `cutoff`, and forgets what is cached of
    /// them. Returns the number of files. Nobody may read such a page any more. Removes nothing
    /// after an apparent wraparound, except in recovery, where the log is right.
    ///
    /// What a crash leaves of the files is removed again: by redo of the record that announced the
    /// truncation, or by the next truncation.
    pub(crate) fn truncate(&self, cutoff: i64) -> Result<u64, TxnError> {
        // A flush could make a file again that was removed.
        let _flushing = self.flushing.lock();
        let cutoff = slru::segment(cutoff) * slru::PAGES_PER_SEGMENT;
        if !self.recovering.load(Ordering::SeqCst) && !self.may_truncate(cutoff) {
            return Ok(0);
        }
        self.forget(|page| self.precedes(page, cutoff));
        let segments = self.older_segments(cutoff)?;
        for segment in &segments {
            self.aio.namespace().unlink(&self.segment_path(*segment))?;
        }
        Ok(segments.len() as u64)
    }

    /// Removes the files from that of page `first` up to that of page `end`, which is kept, around
    /// the circle whose last page is `last`.
    pub(crate) fn remove_segments(&self, first: i64, end: i64, last: i64) -> Result<(), TxnError> {
        let _flushing = self.flushing.lock();
        let [mut segment, end, last] = [first, end, last].map(slru::segment);
        while segment != end {
            self.forget(|page| slru::segment(page) == segment);
            let path = self.segment_path(segment);
            if self.aio.namespace().exists(&path)? {
                self.aio.namespace().unlink(&path)?;
            }
            segment = if segment == last { 0 } else { segment + 1 };
        }
        Ok(())
    }

    /// Removes all files, and forgets what is cached. Nobody may read a page any more.
    pub(crate) fn remove_all(&self) -> Result<(), TxnError> {
        let _flushing = self.flushing.lock();
        self.forget(|_| true);
        if !self.aio.namespace().exists(&self.dir)? {
            return Ok(());
        }
        for segment in self.segments()? {
            self.aio.namespace().unlink(&self.segment_path(segment))?;
        }
        Ok(())
    }

    /// Drops cached pages older than `cutoff`, with their changes: nobody reads them any more.
    pub(crate) fn forget_before(&self, cutoff: i64) {
        self.forget(|page| self.precedes(page, cutoff));
    }

    fn forget(&self, gone: impl Fn(i64) -> bool) {
        for bank in &self.banks {
            bank.lock().pages.retain(|page, slot| {
                let keep = !gone(*page);
                debug_assert!(keep || slot.pins == 0, "page {page} of {} in use", self.kind.dir);
                keep || slot.pins > 0
            });
        }
    }

    /// The files whose pages are all older than `cutoff`.
    fn older_segments(&self, cutoff: i64) -> Result<Vec<i64>, TxnError> {
        let mut segments = self.segments()?;
        segments.retain(|segment| slru::segment_precedes(*segment, cutoff, self.kind.per_page));
        Ok(segments)
    }

    /// All files, in ascending order.
    fn segments(&self) -> Result<Vec<i64>, TxnError> {
        let names = self.aio.namespace().list(&self.dir)?;
        let mut segments: Vec<i64> = names
            .iter()
            .filter_map(|entry| slru::parse_segment_name(entry.name.to_str()?))
            .collect();
        segments.sort_unstable();
        Ok(segments)
    }

    /// The cached page. Reads it if it is not in the cache.
    fn load<'a>(
        &self,
        bank: &'a mut Bank,
        io: &mut aio::IoBackend,
        page: i64,
    ) -> Result<&'a mut Slot, TxnError> {
        bank.tick += 1;
        let used = bank.tick;
        if !bank.pages.contains_key(&page) {
            let bytes = self.read_page(io, page)?;
            self.make_room(bank, 1);
            bank.pages.insert(page, Slot::new(bytes));
        }
        let slot = bank.pages.get_mut(&page).expect("the page was found or inserted above");
        slot.used = used;
        Ok(slot)
    }

    /// Makes room for `more` pages: evicts clean ones, the least recently used first.
    fn make_room(&self, bank: &mut Bank, more: usize) {
        let excess = (bank.pages.len() + more).saturating_sub(self.kind.most_pages / BANKS);
        if excess == 0 {
            return;
        }
        let clean =
            bank.pages.iter().filter(|(_, slot)| !slot.dirty && !slot.writing && slot.pins == 0);
        let mut clean: Vec<(u64, i64)> = clean.map(|(page, slot)| (slot.used, *page)).collect();
        clean.sort_unstable();
        for (_, page) in clean.into_iter().take(excess) {
            bank.pages.remove(&page);
        }
    }

    fn read_page(&self, io: &mut aio::IoBackend, page: i64) -> Result<Box<PageBytes>, TxnError> {
        let path = self.segment_path(slru::segment(page));
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
            return Err(TxnError::ShortStatusPage { dir: self.kind.dir, page, got, file: path });
        }
        let mut bytes = Box::new([0; BLOCK_SIZE]);
        bytes[..got].copy_from_slice(&buf[..got]);
        Ok(bytes)
    }

    fn segment_path(&self, segment: i64) -> PathBuf {
        self.dir.join(slru::segment_name(segment))
    }
}

impl Pinned<'_> {
    /// The page's number.
    pub(crate) fn page(&self) -> i64 {
        self.page
    }

    /// Changes the page.
    pub(crate) fn change(&self, change: impl FnOnce(&mut PageBytes)) {
        let mut bank = self.slru.bank(self.page).lock();
        let slot = bank.pages.get_mut(&self.page).expect("a pinned page stays");
        change(&mut slot.bytes);
        slot.dirty = true;
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        match self.slru.bank(self.page).lock().pages.get_mut(&self.page) {
            Some(slot) => slot.pins -= 1,
            None => debug_assert!(false, "a pinned page left its cache"),
        }
    }
}

/// Appends copies of a bank's changed pages, and marks them as being written. If memory is short
/// for one of them, none of the bank is marked or appended.
fn take_changed<T>(
    bank: &mut Bank,
    copies: &mut Vec<(i64, T)>,
    mut copy: impl FnMut(&[u8]) -> Result<T, AioError>,
) -> Result<(), AioError> {
    let mut taken = Vec::new();
    for (&page, slot) in bank.pages.iter().filter(|(_, slot)| slot.dirty) {
        taken.push((page, copy(&slot.bytes[..])?));
    }
    for slot in bank.pages.values_mut().filter(|slot| slot.dirty) {
        (slot.dirty, slot.writing) = (false, true);
    }
    copies.append(&mut taken);
    Ok(())
}

fn sync_segment(io: &mut aio::IoBackend, file: &aio::File) -> Result<(), AioError> {
    forebay_aio::planted_bug!(io.aio(), ClogNotSynced, return Ok(()));
    io.fsync(file)
}

impl std::fmt::Debug for Slru {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slru").field("dir", &self.dir).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_aio::Errno;

    #[test]
    fn the_first_id_of_a_page() {
        assert!(is_first_on_page(3, 32_768) && is_first_on_page(65_536, 32_768));
        assert!(!is_first_on_page(4, 32_768) && !is_first_on_page(u32::MAX, 32_768));
    }

    #[test]
    fn pages_that_could_not_all_be_copied_stay_to_be_written() {
        let mut bank = Bank::default();
        for page in 0..3 {
            let slot = Slot { dirty: true, ..Slot::new(Box::new([0; BLOCK_SIZE])) };
            bank.pages.insert(page, slot);
        }
        let mut copies = Vec::new();
        for room in 0..3 {
            let mut copied = 0;
            let short = take_changed(&mut bank, &mut copies, |_| {
                copied += 1;
                let no_room = AioError::os("map memory for", Path::new("pg_xact"), Errno::NOMEM);
                if copied > room { Err(no_room) } else { Ok(()) }
            });
            assert!(short.is_err() && copies.is_empty());
            assert!(bank.pages.values().all(|slot| slot.dirty && !slot.writing), "room for {room}");
        }
        take_changed(&mut bank, &mut copies, |_| Ok(())).unwrap();
        copies.sort_unstable();
        assert_eq!(copies, [(0, ()), (1, ()), (2, ())]);
        assert!(bank.pages.values().all(|slot| !slot.dirty && slot.writing));
    }
}
