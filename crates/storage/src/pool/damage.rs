//! Damaged pages: what a reader wants done about them, what is told, and how many there were.
//!
//! A page is judged in the completion of its read, in any thread. So each read carries its issuer's
//! [`ReadPolicy`], and leaves what there is to tell with the issuer, as a [`ReadWarning`], one for
//! all pages of the read. Each bad page is logged as well, where it is found: the issuer may never
//! look.

use crate::Backend;
use crate::error::relation_path;
use forebay_aio::sync::{Mutex, SystemTime};
use forebay_format::{BlockNumber, Fork, PageTag, RelFileLocator};
use hashbrown::HashMap;
use std::fmt;
use std::sync::Arc;

/// What becomes of a page that fails verification. By default the reader gets an error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadPolicy {
    /// The setting zero_damaged_pages: a damaged page is taken to be empty.
    pub zero_damaged_pages: bool,
    /// The setting ignore_checksum_failure: a page whose header is possible is taken as it is.
    pub ignore_checksum_failure: bool,
    /// The same as `zero_damaged_pages`, for what can be made anew (maps), whatever the setting.
    pub zero_on_error: bool,
}

impl ReadPolicy {
    /// Are damaged pages replaced by zeros?
    pub(crate) fn zeroes(self) -> bool {
        self.zero_damaged_pages || self.zero_on_error
    }

    /// An error for each damaged page?
    pub(crate) fn is_strict(self) -> bool {
        self == ReadPolicy::default()
    }
}

/// What is to be told of a read some of whose pages were damaged and accepted. The message is
/// PostgreSQL's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadWarning {
    /// The relation.
    pub rel: RelFileLocator,
    /// Of a temporary relation: the backend that its files are named for.
    pub owner: Option<i32>,
    /// Its fork.
    pub fork: Fork,
    /// The first block of the read.
    pub first: BlockNumber,
    /// Blocks of the read.
    pub blocks: u32,
    /// Pages replaced by zeros.
    pub zeroed: u32,
    /// Pages taken in spite of their checksums.
    pub ignored: u32,
    /// Pages with wrong checksums, zeroed ones included: what PostgreSQL counts as ignored where it
    /// also zeroed.
    pub wrong_checksums: u32,
    /// The first zeroed page, or if there is none, the first ignored one.
    pub block: BlockNumber,
}

impl ReadWarning {
    pub(crate) fn new(first: &PageTag, owner: Option<i32>, blocks: usize) -> ReadWarning {
        let PageTag { rel, fork, block } = *first;
        let (zeroed, ignored, wrong_checksums) = (0, 0, 0);
        ReadWarning {
            rel,
            owner,
            fork,
            first: block,
            blocks: blocks as u32,
            zeroed,
            ignored,
            wrong_checksums,
            block,
        }
    }

    /// One more page, by its place in the read.
    pub(crate) fn add(&mut self, place: usize, judgement: Judgement) {
        let zeroed = judgement == Judgement::Zeroed;
        let known = if zeroed { self.zeroed } else { self.zeroed + self.ignored };
        if known == 0 {
            self.block = self.first + place as u32;
        }
        *if zeroed { &mut self.zeroed } else { &mut self.ignored } += 1;
    }

    /// PostgreSQL's DETAIL line.
    pub fn detail(&self) -> Option<String> {
        let (count, word) =
            if self.zeroed > 0 { (self.zeroed, "zeroed") } else { (self.ignored, "ignored") };
        (count > 1).then(|| format!("Block {} held the first {word} page.", self.block))
    }

    /// PostgreSQL's HINT line.
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
                "zeroing {zeroed} page(s) and ignoring {wrong_checksums} checksum failure(s) {among}"
            ),
        }
    }
}

/// What was made of a page that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    Good,
    /// Its checksum is wrong, and nobody minds.
    Ignored,
    /// It was damaged, and is all zeros now.
    Zeroed,
    Bad,
    /// It is not what was written there last: nobody may use it, whatever the policy.
    Lost,
}

/// Where reads leave their warnings for the issuer.
pub(crate) type Mailbox = Arc<Mutex<Vec<ReadWarning>>>;

impl Backend {
    /// Takes what the reads of this backend had to tell, in the order in which they ended. A read
    /// whose pages were never waited for may tell it later.
    pub fn take_read_warnings(&mut self) -> Vec<ReadWarning> {
        std::mem::take(&mut *self.warnings.lock())
    }
}

/// Pages of one database whose checksums were wrong when they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChecksumFailures {
    /// The database; 0 for shared relations.
    pub db: u32,
    /// How many, ignored and zeroed ones included.
    pub count: u64,
    /// When the last one was found.
    pub last: SystemTime,
}

/// Wrong checksums, by database. Few, one hopes.
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

    /// All of them, by database.
    pub(crate) fn all(&self) -> Vec<ChecksumFailures> {
        let mut all: Vec<_> = self.0.lock().values().copied().collect();
        all.sort_by_key(|failures| failures.db);
        all
    }
}
