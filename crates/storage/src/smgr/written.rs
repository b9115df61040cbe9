//! Pages that were written and not seen on the disk since: what a checkpoint reads back, where that
//! is wanted ([`SmgrConfig::verify_writes`](super::SmgrConfig::verify_writes)).
//!
//! A page is noted when its write has *ended*, and before it turns clean, as its sync is requested;
//! it is struck off once it was found on the disk as that write left it. Written again meanwhile,
//! it stays noted. What is noted after a round of syncs has begun is for the next round: its sync
//! may be. A write that failed strikes a page off as well: nobody knows what is there now, and the
//! page, still dirty, will be written again. Writes past the pool are not looked for.
//!
//! It takes some 40 bytes a page, for those that were written since the last checkpoint.

use forebay_aio::sync::Mutex;
use forebay_format::checksum::page_checksum;
use forebay_format::page::stored_checksum;
use forebay_format::{BlockNumber, Fork, Lsn, Page, PageBytes, PageTag, RelFileLocator};
use std::collections::BTreeMap;

/// A fork of a relation.
type ForkKey = (RelFileLocator, Fork);

/// What tells a page from all others that were ever written to its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    /// Where the record of its last change ends in the log.
    lsn: Lsn,
    /// Pages may change without a record of their own.
    checksum: u16,
}

impl Version {
    /// Of a page that is written to `block` or was read from there. Without `checksums` nobody
    /// keeps the one in its header up to date.
    pub(crate) fn of(page: &PageBytes, block: BlockNumber, checksums: bool) -> Version {
        let checksum = if checksums { stored_checksum(page) } else { page_checksum(page, block) };
        Version { lsn: Page::new(page).lsn(), checksum }
    }
}

/// A page as it was written last.
#[derive(Debug, Clone, Copy)]
struct Noted {
    version: Version,
    /// The round of syncs that was the latest then.
    round: u64,
}

type Pages = BTreeMap<BlockNumber, Noted>;

/// Neighbours of one segment that are to be read back.
#[derive(Debug)]
pub(crate) struct WrittenRun {
    /// The first page.
    pub(crate) first: PageTag,
    /// Of it and those that follow.
    pub(crate) versions: Vec<Version>,
}

impl WrittenRun {
    /// Its pages.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (PageTag, Version)> {
        let tags = (self.first.block..).map(|block| PageTag { block, ..self.first });
        tags.zip(self.versions.iter().copied())
    }

    /// The block behind it.
    pub(crate) fn end(&self) -> BlockNumber {
        self.first.block.saturating_add(self.versions.len() as u32)
    }
}

/// The pages.
#[derive(Debug)]
pub(crate) struct WrittenPages {
    /// False: none is ever noted.
    wanted: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    round: u64,
    forks: BTreeMap<ForkKey, Pages>,
}

impl WrittenPages {
    pub(crate) fn new(wanted: bool) -> WrittenPages {
        WrittenPages { wanted, state: Mutex::default() }
    }

    /// A round of syncs begins.
    pub(crate) fn begin_round(&self) {
        self.state.lock().round += 1;
    }

    /// Neighbours from `first` on were written.
    pub(crate) fn note(&self, first: &PageTag, versions: impl Iterator<Item = Version>) {
        if !self.wanted {
            return;
        }
        let mut state = self.state.lock();
        let round = state.round;
        let pages = state.forks.entry((first.rel, first.fork)).or_default();
        pages.extend((first.block..).zip(versions.map(|version| Noted { version, round })));
    }

    /// What `count` neighbours are on the disk is not known any more: a write of them has failed,
    /// or goes past the pool.
    pub(crate) fn strike_off(&self, first: &PageTag, count: u32) {
        self.change(first.rel, first.fork, |_, pages| {
            for block in (first.block..).take(count as usize) {
                pages.remove(&block);
            }
        });
    }

    /// A page is on the disk in this version. If it was written before the round, that is settled.
    pub(crate) fn seen(&self, tag: &PageTag, version: Version) {
        self.change(tag.rel, tag.fork, |round, pages| {
            if pages
                .get(&tag.block)
                .is_some_and(|noted| noted.version == version && noted.round < round)
            {
                pages.remove(&tag.block);
            }
        });
    }

    /// A fork is cut to `n` blocks.
    pub(crate) fn cut(&self, rel: RelFileLocator, fork: Fork, n: BlockNumber) {
        // They may be many, and everybody's writes and reads need the lock: they go when it is
        // free.
        drop(self.change(rel, fork, |_, pages| pages.split_off(&n)));
    }

    /// A fork is dropped.
    pub(crate) fn forget(&self, rel: RelFileLocator, fork: Fork) {
        let pages = self.state.lock().forks.remove(&(rel, fork));
        drop(pages);
    }

    fn change<T>(
        &self,
        rel: RelFileLocator,
        fork: Fork,
        change: impl FnOnce(u64, &mut Pages) -> T,
    ) -> Option<T> {
        let mut state = self.state.lock();
        let round = state.round;
        let pages = state.forks.get_mut(&(rel, fork))?;
        let changed = change(round, pages);
        if pages.is_empty() {
            state.forks.remove(&(rel, fork));
        }
        Some(changed)
    }

    /// What a page was when it was written last; None if it was seen since, or is no more.
    pub(crate) fn version(&self, tag: &PageTag) -> Option<Version> {
        Some(self.state.lock().forks.get(&(tag.rel, tag.fork))?.get(&tag.block)?.version)
    }

    /// Which of these neighbours, just read, are not what was written there last. None: it is no
    /// valid page.
    pub(crate) fn unlike(
        &self,
        first: &PageTag,
        read: impl Iterator<Item = Option<Version>>,
        mut each: impl FnMut(usize),
    ) {
        if !self.wanted {
            return;
        }
        let state = self.state.lock();
        let Some(pages) = state.forks.get(&(first.rel, first.fork)) else { return };
        for ((n, version), block) in read.enumerate().zip(first.block..) {
            if pages.get(&block).is_some_and(|noted| Some(noted.version) != version) {
                each(n);
            }
        }
    }

    /// The forks with pages that are noted now.
    pub(crate) fn forks(&self) -> Vec<ForkKey> {
        self.state.lock().forks.keys().copied().collect()
    }

    /// The first neighbours from block `from` on that were written before the round, as many as
    /// `most` gives for the first of them.
    pub(crate) fn run(
        &self,
        (rel, fork): ForkKey,
        from: BlockNumber,
        most: impl FnOnce(BlockNumber) -> u32,
    ) -> Option<WrittenRun> {
        let state = self.state.lock();
        let pages = state.forks.get(&(rel, fork))?;
        let (&block, _) = pages.range(from..).find(|(_, noted)| noted.round < state.round)?;
        let neighbours = pages.range(block..).zip(block..).take(most(block) as usize);
        let versions = neighbours
            .take_while(|((at, noted), expected)| *at == expected && noted.round < state.round)
            .map(|((_, noted), _)| noted.version);
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

    /// The noted blocks, by runs of at most three.
    fn runs(pages: &WrittenPages) -> Vec<Vec<BlockNumber>> {
        let (mut runs, mut from) = (Vec::new(), 0);
        while let Some(run) = pages.run((REL, Fork::Main), from, |_| 3) {
            from = run.end();
            runs.push(run.pages().map(|(tag, _)| tag.block).collect());
        }
        runs
    }

    #[test]
    fn runs_are_of_neighbours_and_no_longer_than_asked_for() {
        let pages = WrittenPages::new(true);
        pages.note(&tag(2), (1..=4).map(version));
        pages.note(&tag(9), (1..=1).map(version));
        assert!(runs(&pages).is_empty(), "for the next round");
        pages.begin_round();
        assert_eq!(runs(&pages), [vec![2, 3, 4], vec![5], vec![9]]);
        assert_eq!(pages.forks(), [(REL, Fork::Main)]);
    }

    #[test]
    fn a_page_is_struck_off_in_the_version_that_was_seen() {
        let pages = WrittenPages::new(true);
        pages.note(&tag(0), (1..=2).map(version));
        pages.begin_round();
        pages.note(&tag(1), [version(7)].into_iter());
        pages.seen(&tag(0), version(1));
        pages.seen(&tag(1), version(2));
        assert_eq!((pages.version(&tag(0)), pages.version(&tag(1))), (None, Some(version(7))));
        pages.seen(&tag(1), version(7));
        assert_eq!(pages.version(&tag(1)), Some(version(7)), "its sync may be of the next round");
        pages.begin_round();
        pages.seen(&tag(1), version(7));
        assert!(pages.forks().is_empty());
    }

    #[test]
    fn what_is_gone_or_unknown_is_not_looked_for() {
        let pages = WrittenPages::new(true);
        pages.note(&tag(0), (0..8).map(version));
        pages.begin_round();
        pages.strike_off(&tag(1), 2);
        pages.cut(REL, Fork::Main, 6);
        assert_eq!(runs(&pages), [vec![0], vec![3, 4, 5]]);
        pages.forget(REL, Fork::Main);
        assert!(pages.forks().is_empty());
    }
}
