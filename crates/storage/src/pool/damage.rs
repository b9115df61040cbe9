//! Damaged pages: what a reader wants done about them, what it is told, and their number.
//!
//! A page is judged in the completion of its read, in any thread. So each read carries its issuer's
//! [`ReadPolicy`], and leaves one [`ReadWarning`] for the issuer. The completion also logs each bad
//! page, since the issuer may never look at the warning.

use crate::error::relation_path;
use forebay_aio::sync::{Mutex, SystemTime};
use forebay_format::{BlockNumber, Fork, PageTag, RelFileLocator};
use hashbrown::HashMap;
use std::fmt;
use std::sync::Arc;

/// What becomes of pages that fail verification. By default the reader gets an error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadPolicy {
    /// A damaged page counts as empty (zero_damaged_pages).
    pub zero_damaged_pages: bool,
    /// Only the header of a page must be valid (ignore_checksum_failure).
    pub ignore_checksum_failure: bool,
    /// The same as `zero_damaged_pages`, whatever that setting is. It is for maps, which can be
    /// rebuilt.
    pub zero_on_error: bool,
}

impl ReadPolicy {
    /// Whether damaged pages are replaced by zeros.
    pub(crate) fn zeroes(self) -> bool {
        self.zero_damaged_pages || self.zero_on_error
    }

    /// Whether every damaged page causes an error.
    pub(crate) fn is_strict(self) -> bool {
        self == ReadPolicy::default()
    }
}

/// A warning about a read that accepted damaged pages. The message is PostgreSQL's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadWarning {
    /// The relation.
    pub rel: RelFileLocator,
    /// The backend that owns the relation, if it is temporary.
    pub owner: Option<i32>,
    /// The relation's fork.
    pub fork: Fork,
    /// The first block of the read.
    pub first: BlockNumber,
    /// The number of blocks in the read.
    pub blocks: u32,
    /// Pages replaced by zeros.
    pub zeroed: u32,
    /// Pages accepted despite their checksums.
    pub ignored: u32,
    /// Pages with wrong checksums, including zeroed ones. If pages were zeroed too, PostgreSQL
    /// reports this number as ignored.
    pub wrong_checksums: u32,
    /// The first zeroed page, or the first ignored one if there is none.
    pub block: BlockNumber,
}

impl ReadWarning {
    pub(crate) fn new(first: &PageTag, owner: Option<i32>, blocks: usize) -> ReadWarning {
        let PageTag { rel, fork, block } = *first;
        ReadWarning {
            rel,
            owner,
            fork,
            first: block,
            blocks: blocks as u32,
            zeroed: 0,
            ignored: 0,
            wrong_checksums: 0,
            block,
        }
    }

    /// Adds a page, by its index in the read.
    pub(crate) fn add(&mut self, place: usize, judgement: Judgement) {
        let zeroed = judgement == Judgement::Zeroed;
        let known = if zeroed { self.zeroed } else { self.zeroed + self.ignored };
        if known == 0 {
            self.block = self.first + place as u32;
        }
        *if zeroed { &mut self.zeroed } else { &mut self.ignored } += 1;
    }

    /// Returns PostgreSQL's DETAIL line.
    pub fn detail(&self) -> Option<String> {
        let (count, word) =
            if self.zeroed > 0 { (self.zeroed, "zeroed") } else { (self.ignored, "ignored") };
        (count > 1).then(|| format!("Block {} held the first {word} page.", self.block))
    }

    /// Returns PostgreSQL's HINT line.
    pub fn hint(&self) -> Option<String> {
        let others = self.zeroed + self.ignored - 1;
        let of_both = self.zeroed + self.wrong_checksums - 1;
        let s = if of_both == 1 { "" } else { "s" };
        match (self.zeroed, self.ignored) {
            (1, 0) | (0, 1) => None,
            (_, 0) => Some(format!("See server log for the other {others} zeroed block(s).")),
            (0, _) => Some(format!("See server log for the other {others} ignored block(s).")),
            _ => Some(format!(
                "See server log for details about the other {of_both} invalid block{s}."
            )),
        }
    }
}

impl fmt::Display for ReadWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReadWarning { first, zeroed, ignored, wrong_checksums, block, .. } = self;
        let (last, relation) =
            (first + (self.blocks - 1), relation_path(self.rel, self.fork, self.owner));
        let among = format_args!("among blocks {first}..{last} of relation \"{relation}\"");
        match (zeroed, ignored) {
            (1, 0) => {
                write!(
                    f,
                    "invalid page in block {block} of relation \"{relation}\"; zeroing out page"
                )
            }
            (_, 0) => write!(f, "zeroing out {zeroed} invalid pages {among}"),
            (0, 1) => {
                write!(f, "ignoring checksum failure in block {block} of relation \"{relation}\"")
            }
            (0, _) => write!(f, "ignoring {ignored} checksum failures {among}"),
            _ => write!(
                f,
                "zeroing {zeroed} page(s) and ignoring {wrong_checksums} checksum failure(s) \
                 {among}"
            ),
        }
    }
}

/// The result of verifying a page that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    Good,
    /// Its checksum is wrong, and the policy ignores that.
    Ignored,
    /// It was damaged, and is all zeros now.
    Zeroed,
    Bad,
    /// It is not the page that was last written there. No policy accepts it.
    Lost,
}

/// The warnings that reads leave for their issuer.
pub(crate) type WarningList = Arc<Mutex<Vec<ReadWarning>>>;

/// The wrong checksums that were read in one database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChecksumFailures {
    /// The database; 0 for shared relations.
    pub db: u32,
    /// The number of pages, including ignored and zeroed ones.
    pub count: u64,
    /// When the last one was read.
    pub last: SystemTime,
}

/// Wrong checksums by database.
#[derive(Default)]
pub(crate) struct FailureCounts(Mutex<HashMap<u32, ChecksumFailures>>);

impl FailureCounts {
    pub(crate) fn add(&self, db: u32, n: u64) {
        let last = SystemTime::now();
        let mut counts = self.0.lock();
        let entry = counts.entry(db).or_insert(ChecksumFailures { db, count: 0, last });
        entry.count += n;
        entry.last = last;
    }

    /// Returns all counts, ordered by database.
    pub(crate) fn all(&self) -> Vec<ChecksumFailures> {
        let mut all: Vec<_> = self.0.lock().values().copied().collect();
        all.sort_by_key(|failures| failures.db);
        all
    }
}
