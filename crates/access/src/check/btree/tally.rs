//! Collects the facts about an index's pages until all of them have been read.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::ops::Range;

use forebay_format::{BlockNumber, Fork, PageBytes};

use super::entries::{Candidate, Entry, IndexEntries, LiveKeys};
use super::page::{LeafRows, PageCheck, PageFacts};
use super::shape::BtreeShape;
use super::tree::check_tree;
use crate::check::finding::{Finding, Report};
use crate::check::page::{PageKind, check_header};

/// The facts about the pages of an index, which may be read in any order.
#[derive(Debug, Default)]
pub struct BtreeTally {
    pages: Vec<PageFacts>,
    entries: Vec<Entry>,
    candidates: Vec<Candidate>,
}

/// What one page adds to a [`BtreeTally`].
pub struct PageTally {
    block: BlockNumber,
    facts: PageFacts,
    rows: Option<LeafRows>,
}

impl PageTally {
    /// Checks a page by itself. Of its rows those in some blocks of the table are noted.
    pub fn new(
        shape: &BtreeShape,
        checksums: bool,
        (block, bytes): (BlockNumber, &PageBytes),
        rows: Option<&Range<BlockNumber>>,
        sink: &mut dyn FnMut(Finding),
    ) -> PageTally {
        let mut report = Report::new(Fork::Main, block, sink);
        let mut found = rows.map(|_| LeafRows::default());
        let page = check_header(PageKind::Other, checksums, block, bytes, &mut report);
        let facts = match page {
            Some(page) => PageCheck { shape, block, page, report: &mut report }.run(found.as_mut()),
            None if bytes.iter().all(|&byte| byte == 0) => PageFacts::Unused,
            None => PageFacts::Unknown,
        };
        if let (Some(found), Some(range)) = (&mut found, rows) {
            found.entries.retain(|entry| range.contains(&entry.tid().block));
        }
        PageTally { block, facts, rows: found }
    }
}

impl BtreeTally {
    /// For an index with some blocks. With none only its entries are collected.
    pub fn new(blocks: BlockNumber) -> BtreeTally {
        BtreeTally { pages: vec![PageFacts::Unknown; blocks as usize], ..BtreeTally::default() }
    }

    /// Adds a page.
    pub fn add(&mut self, page: PageTally) {
        if let Some(place) = self.pages.get_mut(page.block as usize) {
            *place = page.facts;
        }
        if let Some(rows) = page.rows {
            self.entries.extend(rows.entries);
            if !self.pages.is_empty() {
                self.candidates.extend(rows.candidates);
            }
        }
    }

    /// Checks how the pages hang together. Returns where the rows are, and which keys may be there
    /// several times.
    pub fn finish(
        self,
        shape: &BtreeShape,
        sink: &mut dyn FnMut(Finding),
    ) -> (IndexEntries, LiveKeys) {
        let complete = check_tree(shape, &self.pages, sink);
        let mut entries = self.entries;
        entries.sort_unstable();
        (IndexEntries { entries, complete }, LiveKeys::new(self.candidates))
    }

    /// Where the rows are, of an index that was checked before.
    pub fn rows(mut self, complete: bool) -> IndexEntries {
        self.entries.sort_unstable();
        IndexEntries { entries: self.entries, complete }
    }
}
