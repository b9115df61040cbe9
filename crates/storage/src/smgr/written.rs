//! The pages that were written and not yet confirmed on disk. A checkpoint reads them back if
//! `SmgrConfig::verify_writes` is set.
//!
//! A page is recorded when its write has *ended*, together with the sync request and before the
//! page turns clean. It is removed when it is found on disk as that write left it. If it is written
//! again meanwhile, it stays recorded. A page that is recorded after a round of syncs has begun is
//! read back in the next round, because its sync may belong to that one.
//!
//! A failed write removes a page too: its contents on disk are unknown, and the page is still dirty
//! and will be written again. Writes past the pool are not recorded.
//!
//! A page takes about 40 bytes here.

use super::fork::ForkKey;
use forebay_aio::sync::Mutex;
use forebay_format::checksum::page_checksum;
use forebay_format::page::stored_checksum;
use forebay_format::{BlockNumber, Fork, Lsn, Page, PageBytes, PageTag, RelFileLocator};
use std::collections::BTreeMap;

/// Identifies a page among all that were ever written to its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    /// The end of the WAL record of its last change.
    lsn: Lsn,
    /// Tells pages apart that changed without a record.
    checksum: u16,
}

impl Version {
    /// The version of a page that is written to `block` or was read from there. Without `checksums`
    /// the checksum in its header is not up to date, so one is computed.
    pub(crate) fn of(page: &PageBytes, block: BlockNumber, checksums: bool) -> Version {
        let checksum = if checksums { stored_checksum(page) } else { page_checksum(page, block) };
        Version { lsn: Page::new(page).lsn(), checksum }
    }
}

/// A page as it was last written.
#[derive(Debug, Clone, Copy)]
struct Recorded {
    version: Version,
    /// The latest round of syncs at that time.
    round: u64,
}

type Pages = BTreeMap<BlockNumber, Recorded>;

/// Neighbouring pages of one segment that are to be read back.
#[derive(Debug)]
pub(crate) struct WrittenRun {
    /// The first page.
    pub(crate) first: PageTag,
    /// The versions of the first page and of those that follow.
    pub(crate) versions: Vec<Version>,
}

impl WrittenRun {
    /// Returns the pages with their versions.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (PageTag, Version)> {
        let tags = (self.first.block..).map(|block| PageTag { block, ..self.first });
        tags.zip(self.versions.iter().copied())
    }

    /// Returns the block after the last page.
    pub(crate) fn end(&self) -> BlockNumber {
        self.first.block.saturating_add(self.versions.len() as u32)
    }
}

/// The recorded pages.
#[derive(Debug)]
pub(crate) struct WrittenPages {
    /// False if no pages are to be recorded.
    enabled: bool,
    record: Mutex<Record>,
}

#[derive(Debug, Default)]
struct Record {
    round: u64,
    forks: BTreeMap<ForkKey, Pages>,
}

impl WrittenPages {
    pub(crate) fn new(enabled: bool) -> WrittenPages {
        WrittenPages { enabled, record: Mutex::default() }
    }

    /// Begins a round of syncs.
    pub(crate) fn begin_round(&self) {
        self.record.lock().round += 1;
    }

    /// Records that neighbours from `first` on were written.
    pub(crate) fn record(&self, first: &PageTag, versions: impl Iterator<Item = Version>) {
        if !self.enabled {
            return;
        }
        let mut record = self.record.lock();
        let round = record.round;
        let pages = record.forks.entry((first.rel, first.fork)).or_default();
        pages.extend((first.block..).zip(versions.map(|version| Recorded { version, round })));
    }

    /// Removes `count` neighbours, whose contents on disk are no longer known: a write of them has
    /// failed, or goes past the pool.
    pub(crate) fn remove(&self, first: &PageTag, count: u32) {
        self.change(first.rel, first.fork, |_, pages| {
            for block in (first.block..).take(count as usize) {
                pages.remove(&block);
            }
        });
    }

    /// Confirms that a page is on disk in this version. If it was recorded before the round, it is
    /// removed.
    pub(crate) fn confirm(&self, tag: &PageTag, version: Version) {
        self.change(tag.rel, tag.fork, |round, pages| {
            if pages
                .get(&tag.block)
                .is_some_and(|page| page.version == version && page.round < round)
            {
                pages.remove(&tag.block);
            }
        });
    }

    /// Removes the pages from block `n` on, as the fork is truncated.
    pub(crate) fn truncate(&self, rel: RelFileLocator, fork: Fork, n: BlockNumber) {
        // There may be many. They are freed without the lock, which all writes and reads need.
        drop(self.change(rel, fork, |_, pages| pages.split_off(&n)));
    }

    /// Removes all pages of a fork.
    pub(crate) fn remove_fork(&self, rel: RelFileLocator, fork: Fork) {
        let pages = self.record.lock().forks.remove(&(rel, fork));
        drop(pages);
    }

    fn change<T>(
        &self,
        rel: RelFileLocator,
        fork: Fork,
        change: impl FnOnce(u64, &mut Pages) -> T,
    ) -> Option<T> {
        let mut record = self.record.lock();
        let round = record.round;
        let pages = record.forks.get_mut(&(rel, fork))?;
        let changed = change(round, pages);
        if pages.is_empty() {
            record.forks.remove(&(rel, fork));
        }
        Some(changed)
    }

    /// Returns the version of a page when it was last written; None if it is not recorded.
    pub(crate) fn version(&self, tag: &PageTag) -> Option<Version> {
        Some(self.record.lock().forks.get(&(tag.rel, tag.fork))?.get(&tag.block)?.version)
    }

    /// Compares neighbours that were just read with what was last written there, and calls
    /// `on_mismatch` with the index of each that differs. A version of None is that of an invalid
    /// page.
    pub(crate) fn find_mismatches(
        &self,
        first: &PageTag,
        read: impl Iterator<Item = Option<Version>>,
        mut on_mismatch: impl FnMut(usize),
    ) {
        if !self.enabled {
            return;
        }
        let record = self.record.lock();
        let Some(pages) = record.forks.get(&(first.rel, first.fork)) else { return };
        for ((n, version), block) in read.enumerate().zip(first.block..) {
            if pages.get(&block).is_some_and(|page| Some(page.version) != version) {
                on_mismatch(n);
            }
        }
    }

    /// Returns the forks with recorded pages.
    pub(crate) fn forks(&self) -> Vec<ForkKey> {
        self.record.lock().forks.keys().copied().collect()
    }

    /// Returns the first neighbours from block `from` on that were recorded before the round. There
    /// are at most as many as `most` returns for the first of them.
    pub(crate) fn next_run(
        &self,
        (rel, fork): ForkKey,
        from: BlockNumber,
        most: impl FnOnce(BlockNumber) -> u32,
    ) -> Option<WrittenRun> {
        let record = self.record.lock();
        let pages = record.forks.get(&(rel, fork))?;
        let (&block, _) = pages.range(from..).find(|(_, page)| page.round < record.round)?;
        let neighbours = pages.range(block..).zip(block..).take(most(block) as usize);
        let versions = neighbours
            .take_while(|((at, page), expected)| *at == expected && page.round < record.round)
            .map(|((_, page), _)| page.version);
        Some(WrittenRun { first: PageTag { rel, fork, block }, versions: versions.collect() })
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const REL: RelFileLocator = RelFileLocator::in_default(5, 16_384);

    fn tag(block: BlockNumber) -> PageTag {
        PageTag::new(REL, Fork::Main, block)
    }

    fn version(n: u64) -> Version {
        Version { lsn: Lsn(n), checksum: n as u16 }
    }

    /// The recorded blocks, in runs of at most three.
    fn runs(pages: &WrittenPages) -> Vec<Vec<BlockNumber>> {
        let (mut runs, mut from) = (Vec::new(), 0);
        while let Some(run) = pages.next_run((REL, Fork::Main), from, |_| 3) {
            from = run.end();
            runs.push(run.pages().map(|(tag, _)| tag.block).collect());
        }
        runs
    }

    #[test]
    fn runs_consist_of_neighbours_and_have_a_bounded_length() {
        let pages = WrittenPages::new(true);
        pages.record(&tag(2), (1..=4).map(version));
        pages.record(&tag(9), (1..=1).map(version));
        assert!(runs(&pages).is_empty(), "for the next round");
        pages.begin_round();
        assert_eq!(runs(&pages), [vec![2, 3, 4], vec![5], vec![9]]);
        assert_eq!(pages.forks(), [(REL, Fork::Main)]);
    }

    #[test]
    fn a_page_is_removed_only_in_the_version_that_was_confirmed() {
        let pages = WrittenPages::new(true);
        pages.record(&tag(0), (1..=2).map(version));
        pages.begin_round();
        pages.record(&tag(1), [version(7)].into_iter());
        pages.confirm(&tag(0), version(1));
        pages.confirm(&tag(1), version(2));
        assert_eq!((pages.version(&tag(0)), pages.version(&tag(1))), (None, Some(version(7))));
        pages.confirm(&tag(1), version(7));
        assert_eq!(pages.version(&tag(1)), Some(version(7)), "its sync may be of the next round");
        pages.begin_round();
        pages.confirm(&tag(1), version(7));
        assert!(pages.forks().is_empty());
    }

    #[test]
    fn removed_pages_are_not_read_back() {
        let pages = WrittenPages::new(true);
        pages.record(&tag(0), (0..8).map(version));
        pages.begin_round();
        pages.remove(&tag(1), 2);
        pages.truncate(REL, Fork::Main, 6);
        assert_eq!(runs(&pages), [vec![0], vec![3, 4, 5]]);
        pages.remove_fork(REL, Fork::Main);
        assert!(pages.forks().is_empty());
    }
}
