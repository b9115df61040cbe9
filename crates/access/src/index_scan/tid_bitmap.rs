//! A set of rows in bounded memory.
//!
//! Each page with rows has an entry with a bit for each line pointer. When there are too many
//! entries, pages are kept without their line pointers: *lossy*, a bit for each page in an entry
//! for 256 of them. All rows of a lossy page must be looked at, and their condition checked again.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::{BTreeMap, btree_map};
use std::iter::Peekable;

use forebay_format::{BlockNumber, ItemPointer, OffsetNumber};

/// Bits for the line pointers of a page: of 8 kB no page has more than 291.
const WORDS: usize = 5;
/// Pages in a lossy entry.
const CHUNK: u32 = 256;
/// What an entry takes with its share of the tree.
const ENTRY_SIZE: usize = 2 * size_of::<(BlockNumber, PageBits)>();
/// A bitmap is lossy only beyond this many entries.
const LEAST_ENTRIES: usize = 16;

/// The line pointers of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct PageBits {
    words: [u64; WORDS],
    /// Whether rows may be among them that the conditions do not want.
    recheck: bool,
}

/// The lossy pages among 256.
type Chunk = [u64; (CHUNK / 64) as usize];

/// A set of rows.
#[derive(Debug, Clone)]
pub struct TidBitmap {
    exact: BTreeMap<BlockNumber, PageBits>,
    /// By the number of the chunk. No page is in both.
    lossy: BTreeMap<u32, Chunk>,
    most_entries: usize,
}

/// The rows of a page that are to be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BitmapPage {
    /// The page.
    pub block: BlockNumber,
    /// The line pointers. None: all.
    pub offsets: Option<Vec<OffsetNumber>>,
    /// Whether the condition must be checked again.
    pub recheck: bool,
}

/// The bit of a number: which word, and which bit in it.
fn place(number: u32) -> (usize, u64) {
    ((number / 64) as usize, 1 << (number % 64))
}

fn set(words: &mut [u64], number: u32) -> bool {
    let (word, bit) = place(number);
    words.get_mut(word).is_some_and(|word| {
        *word |= bit;
        true
    })
}

fn has(words: &[u64], number: u32) -> bool {
    let (word, bit) = place(number);
    words.get(word).is_some_and(|word| word & bit != 0)
}

/// The numbers of the bits that are set.
fn bits(words: &[u64]) -> impl Iterator<Item = u32> + '_ {
    words.iter().zip(0..).flat_map(|(&word, n)| {
        (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| n * 64 + bit)
    })
}

impl TidBitmap {
    /// An empty set that takes about `memory` bytes at most.
    pub fn new(memory: usize) -> TidBitmap {
        let most_entries = (memory / ENTRY_SIZE).max(LEAST_ENTRIES);
        TidBitmap { exact: BTreeMap::new(), lossy: BTreeMap::new(), most_entries }
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.lossy.is_empty()
    }

    /// Adds a row. `recheck`: it is only a candidate.
    pub fn add(&mut self, tid: ItemPointer, recheck: bool) {
        if self.is_lossy(tid.block) {
            return;
        }
        let page = self.exact.entry(tid.block).or_default();
        page.recheck |= recheck;
        if !set(&mut page.words, u32::from(tid.offset)) {
            // No page has such a line pointer. Reading it will tell.
            self.exact.remove(&tid.block);
            self.add_page(tid.block);
        }
        self.keep_small();
    }

    /// Adds all rows of a page.
    pub fn add_page(&mut self, block: BlockNumber) {
        self.exact.remove(&block);
        set(self.lossy.entry(block / CHUNK).or_default(), block % CHUNK);
    }

    fn is_lossy(&self, block: BlockNumber) -> bool {
        self.lossy.get(&(block / CHUNK)).is_some_and(|chunk| has(chunk, block % CHUNK))
    }

    fn entries(&self) -> usize {
        self.exact.len() + self.lossy.len()
    }

    /// Makes pages lossy if there are too many entries.
    fn keep_small(&mut self) {
        if self.entries() <= self.most_entries {
            return;
        }
        // From the first page on: neighbours share an entry. Half of the room becomes free, so that
        // this is not due again soon.
        while self.entries() > self.most_entries / 2
            && let Some((&block, _)) = self.exact.first_key_value()
        {
            self.add_page(block);
        }
        // The pages alone take more. They are kept all the same.
        self.most_entries = self.most_entries.max(2 * self.entries());
    }

    /// Adds the rows of another set.
    pub fn or(&mut self, other: &TidBitmap) {
        for (&chunk, pages) in &other.lossy {
            bits(pages).for_each(|page| self.add_page(chunk * CHUNK + page));
        }
        for (&block, theirs) in &other.exact {
            if self.is_lossy(block) {
                continue;
            }
            let ours = self.exact.entry(block).or_default();
            ours.recheck |= theirs.recheck;
            ours.words.iter_mut().zip(theirs.words).for_each(|(ours, theirs)| *ours |= theirs);
        }
        self.keep_small();
    }

    /// Keeps the rows that another set has too.
    pub fn and(&mut self, other: &TidBitmap) {
        self.exact.retain(|&block, ours| {
            if other.is_lossy(block) {
                ours.recheck = true;
                return true;
            }
            let Some(theirs) = other.exact.get(&block) else { return false };
            ours.recheck |= theirs.recheck;
            ours.words.iter_mut().zip(theirs.words).for_each(|(ours, theirs)| *ours &= theirs);
            ours.words != [0; WORDS]
        });
        for (chunk, pages) in std::mem::take(&mut self.lossy) {
            for block in bits(&pages).map(|page| chunk * CHUNK + page) {
                if other.is_lossy(block) {
                    self.add_page(block);
                } else if let Some(theirs) = other.exact.get(&block) {
                    self.exact.insert(block, PageBits { recheck: true, ..*theirs });
                }
            }
        }
        self.keep_small();
    }

    /// Its numbers of exact and of lossy pages.
    pub fn page_counts(&self) -> (u64, u64) {
        let lossy = self.lossy.values().flatten().map(|word| u64::from(word.count_ones()));
        (self.exact.len() as u64, lossy.sum())
    }

    /// Its pages, by block number.
    pub fn into_pages(self) -> BitmapPages {
        BitmapPages {
            exact: self.exact.into_iter().peekable(),
            lossy: self.lossy.into_iter(),
            chunk: (0, Chunk::default()),
            next: None,
        }
    }
}

/// The pages of a set, by block number.
#[derive(Debug)]
pub struct BitmapPages {
    exact: Peekable<btree_map::IntoIter<BlockNumber, PageBits>>,
    lossy: btree_map::IntoIter<u32, Chunk>,
    /// The rest of a lossy entry.
    chunk: (u32, Chunk),
    /// The next lossy page.
    next: Option<BlockNumber>,
}

impl BitmapPages {
    fn next_lossy(&mut self) -> Option<BlockNumber> {
        while self.next.is_none() {
            let (chunk, pages) = &mut self.chunk;
            let Some(page) = bits(pages).next() else {
                self.chunk = self.lossy.next()?;
                continue;
            };
            self.next = Some(*chunk * CHUNK + page);
            let (word, bit) = place(page);
            pages.get_mut(word).into_iter().for_each(|word| *word &= !bit);
        }
        self.next
    }
}

impl Iterator for BitmapPages {
    type Item = BitmapPage;

    fn next(&mut self) -> Option<BitmapPage> {
        let lossy = self.next_lossy();
        let exact = self.exact.next_if(|&(block, _)| lossy.is_none_or(|lossy| block < lossy));
        if let Some((block, PageBits { words, recheck })) = exact {
            let offsets = bits(&words).map(|bit| bit as OffsetNumber).collect();
            return Some(BitmapPage { block, offsets: Some(offsets), recheck });
        }
        self.next = None;
        Some(BitmapPage { block: lossy?, offsets: None, recheck: true })
    }
}
