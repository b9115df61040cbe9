//! A random sample of a table's rows, for its statistics.
//!
//! ```text
//!   blocks ── Algorithm S ─▶ read stream ─▶ live rows ── reservoir ─▶ sample
//! ```
//!
//! As many blocks are chosen as rows are wanted (Knuth's Algorithm S), so they are known ahead and
//! come in order. Of their live rows a reservoir keeps the wanted number (Vitter's Algorithm Z):
//! once it is full, it computes how many rows to pass by before the next one that it takes.

use forebay_format::page::ItemState;
use forebay_format::{BlockNumber, Fork, ItemPointer, Page, PageTag};
use forebay_storage::{Backend, ReadStream, Strategy, StreamFlags, StreamSettings};

use super::changer::Changer;
use super::relation::Heap;
use super::status::{Fate, TupleStatus, tuple_status};
use super::tuple_at::{located, tuple_at};
use super::vacuum_job::{Pace, PageCost};
use crate::analyze_progress::{self as shown, Phase};
use crate::error::AccessError;

/// How a table is sampled.
#[derive(Debug, Clone, Copy)]
pub struct SampleJob {
    /// Most rows, at least one.
    pub rows: usize,
    /// Begins the random numbers.
    pub seed: u64,
    /// How blocks are read ahead.
    pub stream: StreamSettings,
    /// Which buffers are used.
    pub strategy: Strategy,
}

/// A sample of a table's rows, and what was counted on the way.
#[derive(Debug, Default)]
pub struct Sample {
    /// Blocks of the table.
    pub blocks: BlockNumber,
    /// Blocks that were read.
    pub scanned: BlockNumber,
    /// Live rows in them.
    pub live: u64,
    /// Dead rows in them, and line pointers of those.
    pub dead: u64,
    /// Rows by their places.
    pub rows: Vec<SampledRow>,
}

/// A row of a sample.
#[derive(Debug)]
pub struct SampledRow {
    /// Its place.
    pub place: ItemPointer,
    /// Its bytes.
    pub tuple: Box<[u8]>,
}

impl Sample {
    /// How many there are in the whole table, if there are so many in the blocks that were read.
    pub fn in_table(&self, count: u64) -> f64 {
        match self.scanned {
            0 => 0.0,
            scanned => (count as f64 / f64::from(scanned) * f64::from(self.blocks) + 0.5).floor(),
        }
    }
}

impl Heap {
    /// Takes a sample of the rows that are live now, as `changer` finds them: all that its own
    /// transaction did by now counts.
    pub fn sample(
        &self,
        backend: &mut Backend,
        changer: &mut Changer<'_>,
        job: &SampleJob,
        pace: Pace<'_>,
    ) -> Result<Sample, AccessError> {
        let blocks = self.pool.nblocks(self.locator, Fork::Main)?;
        backend.progress.set_all(&[
            (shown::PHASE, Phase::Sample as u64),
            (shown::BLOCKS_TOTAL, u64::from(blocks).min(job.rows as u64)),
        ]);
        let mut random = Random(job.seed);
        let mut chosen = Selection::new(blocks, job.rows, random.next());
        let mut stream = ReadStream::new(
            &self.pool,
            self.locator,
            Fork::Main,
            move || chosen.next(),
            StreamFlags::MAINTENANCE,
            job.strategy,
            job.stream,
        );
        // Rows are judged by a copy of their page, when they may have other MultiXacts.
        changer.sets.begin();
        let mut sample = Sample { blocks, ..Sample::default() };
        let mut reservoir = Reservoir::new(job.rows, random);
        while let Some(pin) = stream.next(backend)? {
            sample.scanned += 1;
            backend.progress.set(shown::BLOCKS_DONE, sample.scanned.into());
            let page = pin.lock_shared().copy();
            // The pin keeps the outcomes of its rows' transactions.
            sample_page(
                backend,
                changer,
                pin.tag(),
                Page::new(&page),
                (&mut sample, &mut reservoir),
            )?;
            drop(pin);
            pace(backend, PageCost::default())?;
        }
        sample.rows = reservoir.rows;
        sample.rows.sort_unstable_by_key(|row| row.place);
        Ok(sample)
    }
}

/// Counts the rows of a page, and offers the live ones to the reservoir.
fn sample_page(
    backend: &mut Backend,
    changer: &mut Changer<'_>,
    tag: PageTag,
    page: Page<'_>,
    (sample, reservoir): (&mut Sample, &mut Reservoir),
) -> Result<(), AccessError> {
    for number in 1..=page.item_count() {
        if page.item_id(number).is_some_and(|id| id.state == ItemState::Dead) {
            sample.dead += 1;
        }
        let Some(tuple) = tuple_at(page, tag, number)? else { continue };
        let status = tuple_status(&mut backend.io, changer, tuple);
        match status.map_err(|error| located(tag, number, error))? {
            // Its transaction will count it, if it commits.
            TupleStatus::NotInserted(Fate::Running) => {}
            TupleStatus::NotInserted(_)
            | TupleStatus::UpdatedByOwn(_)
            | TupleStatus::Updated(_) => sample.dead += 1,
            // A deletion that may yet be undone is counted by its transaction.
            TupleStatus::Live | TupleStatus::Locked | TupleStatus::BeingUpdated(_) => {
                sample.live += 1;
                reservoir.offer(ItemPointer::new(tag.block, number), tuple.bytes());
            }
        }
    }
    Ok(())
}

/// Random numbers that their seed decides: SplitMix64.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number between 0 and 1, and neither of them.
    fn fraction(&mut self) -> f64 {
        ((self.next() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }
}

/// Chooses blocks: each with the probability that as many are left to choose as blocks to come.
#[derive(Debug)]
struct Selection {
    next: BlockNumber,
    blocks: BlockNumber,
    wanted: usize,
    random: Random,
}

impl Selection {
    fn new(blocks: BlockNumber, wanted: usize, seed: u64) -> Selection {
        Selection { next: 0, blocks, wanted, random: Random(seed) }
    }

    fn next(&mut self) -> Option<BlockNumber> {
        while self.wanted > 0 && self.next < self.blocks {
            let (block, left) = (self.next, f64::from(self.blocks - self.next));
            self.next += 1;
            if self.wanted as f64 >= left || self.random.fraction() * left < self.wanted as f64 {
                self.wanted -= 1;
                return Some(block);
            }
        }
        None
    }
}

/// Keeps a number of rows of those that are offered, each with the same probability.
#[derive(Debug)]
struct Reservoir {
    size: usize,
    rows: Vec<SampledRow>,
    /// Rows offered.
    seen: f64,
    /// Rows to pass by before one is taken. None: not yet computed.
    skip: Option<f64>,
    /// Vitter's W.
    w: f64,
    random: Random,
}

impl Reservoir {
    fn new(size: usize, mut random: Random) -> Reservoir {
        assert!(size > 0, "a sample of no rows");
        let w = (-random.fraction().ln() / size as f64).exp();
        Reservoir { size, rows: Vec::new(), seen: 0.0, skip: None, w, random }
    }

    fn offer(&mut self, place: ItemPointer, tuple: &[u8]) {
        let row = || SampledRow { place, tuple: tuple.into() };
        if self.rows.len() < self.size {
            self.rows.push(row());
        } else {
            let skip = match self.skip {
                Some(skip) => skip,
                None => self.next_skip(),
            };
            if skip > 0.0 {
                self.skip = Some(skip - 1.0);
            } else {
                let at = (self.size as f64 * self.random.fraction()) as usize;
                self.rows[at] = row();
                self.skip = None;
            }
        }
        self.seen += 1.0;
    }

    /// How many rows to pass by, after so many were seen.
    fn next_skip(&mut self) -> f64 {
        /// Rows seen for each row kept, up to which a plain search is cheaper.
        const PLAIN: f64 = 22.0;
        let (n, mut t) = (self.size as f64, self.seen);
        if t > PLAIN * n {
            return self.skip_by_rejection();
        }
        let (v, mut skip) = (self.random.fraction(), 0.0);
        t += 1.0;
        let mut left = (t - n) / t;
        while left > v {
            skip += 1.0;
            t += 1.0;
            left *= (t - n) / t;
        }
        skip
    }

    /// Algorithm Z: a skip is drawn from a simpler distribution, and accepted by a quick test or
    /// by the exact one.
    fn skip_by_rejection(&mut self) -> f64 {
        let (n, t) = (self.size as f64, self.seen);
        let term = t - n + 1.0;
        loop {
            let u = self.random.fraction();
            let x = t * (self.w - 1.0);
            let skip = x.floor();
            let ratio = (t + 1.0) / term;
            let lhs = (((u * ratio * ratio) * (term + skip)) / (t + x)).ln();
            let lhs = (lhs / n).exp();
            let rhs = (((t + x) / (term + skip)) * term) / t;
            if lhs <= rhs {
                self.w = rhs / lhs;
                return skip;
            }
            let mut y = (((u * (t + 1.0)) / term) * (t + skip + 1.0)) / (t + x);
            let (mut under, least) = match n < skip {
                true => (t, term + skip),
                false => (t - n + skip, t + 1.0),
            };
            let mut over = t + skip;
            while over >= least {
                y *= over / under;
                under -= 1.0;
                over -= 1.0;
            }
            self.w = (-self.random.fraction().ln() / n).exp();
            if (y.ln() / n).exp() <= (t + x) / t {
                return skip;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_chosen_in_order_and_as_many_as_wanted() {
        for (blocks, wanted, expected) in [(0, 5, 0), (3, 5, 3), (5, 5, 5), (1000, 30, 30)] {
            for seed in 0..20 {
                let mut chosen = Selection::new(blocks, wanted, seed);
                let found: Vec<_> = std::iter::from_fn(|| chosen.next()).collect();
                assert_eq!(found.len(), expected);
                assert!(found.is_sorted_by(|a, b| a < b) && found.iter().all(|b| *b < blocks));
            }
        }
    }

    #[test]
    fn every_block_is_chosen_as_often() {
        let mut counts = [0_u32; 50];
        for seed in 0..10_000 {
            let mut chosen = Selection::new(50, 5, seed);
            std::iter::from_fn(|| chosen.next()).for_each(|block| counts[block as usize] += 1);
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    /// Offers rows with these numbers; how often each of ten parts of them was kept.
    fn kept(size: usize, offered: u32, rounds: u64) -> [u32; 10] {
        let mut parts = [0; 10];
        for seed in 0..rounds {
            let mut reservoir = Reservoir::new(size, Random(seed));
            (0..offered).for_each(|n| reservoir.offer(ItemPointer::new(n, 1), &[]));
            assert_eq!(reservoir.rows.len(), size.min(offered as usize));
            for row in &reservoir.rows {
                parts[(row.place.block * 10 / offered) as usize] += 1;
            }
        }
        parts
    }

    #[test]
    fn every_row_is_kept_as_often() {
        assert_eq!(kept(20, 10, 1), [1; 10], "all that there are");
        // By the search alone, and by rejection for most rows.
        for (size, offered) in [(50, 1000), (50, 20_000)] {
            let parts = kept(size, offered, 400);
            assert!(parts.iter().all(|part| (1_800..2_200).contains(part)), "{parts:?}");
        }
    }
}
