//! Traces by rule, whose sizes follow the pool: loops, skewed look-ups, hot sets under other work,
//! and working sets that change.

use forebay_storage::AccessKind;

use super::policies::Reference;
use super::trace::Trace;
use crate::measure::Noise;

/// The sizes of looped tables, in quarters of the pool.
const LOOPS: [u32; 5] = [2, 3, 4, 8, 16];
/// How often a loop runs. The first round does not count.
const ROUNDS: u32 = 8;
/// The exponent of the look-ups' distribution.
const SKEW: f64 = 0.9;

/// All synthetic traces for a pool of `buffers`.
pub(super) fn traces(buffers: usize) -> Vec<Trace> {
    let pool = buffers as u32;
    let mut all: Vec<Trace> = LOOPS.iter().map(|&quarters| loops(pool, quarters)).collect();
    all.push(look_ups(pool));
    all.push(look_ups_and_loop(pool));
    let (looped, once) = (2 * pool, u32::MAX);
    for (name, access, bulk_pages, per_turn) in [
        ("hot half, a loop of 2 pools", AccessKind::BulkRead, looped, (4, 1)),
        ("hot half, a fast loop of 2", AccessKind::BulkRead, looped, (1, 4)),
        ("hot half, one scan", AccessKind::BulkRead, once, (1, 1)),
        ("hot half, a fast scan", AccessKind::BulkRead, once, (1, 4)),
        ("hot half, vacuum", AccessKind::Vacuum, once, (1, 1)),
        ("hot half, COPY", AccessKind::BulkWrite, once, (1, 1)),
    ] {
        all.push(hot_set(pool, name, access, bulk_pages, per_turn));
    }
    all.extend([false, true].map(|cold| skewed_set(pool, cold)));
    all.push(moving(pool));
    all.push(next_table(pool));
    all.push(in_turn(pool));
    all
}

/// Collects a trace.
#[derive(Default)]
struct Maker {
    references: Vec<Reference>,
    begin: usize,
}

impl Maker {
    fn normal(&mut self, page: u32) {
        self.references.push(Reference { page, backend: 0, access: AccessKind::Normal });
    }

    fn bulk(&mut self, page: u32, access: AccessKind) {
        self.references.push(Reference { page, backend: 1, access });
    }

    fn scan(&mut self, first: u32, n: u32) {
        (first..first + n).for_each(|page| self.bulk(page, AccessKind::BulkRead));
    }

    /// What came so far is warming up.
    fn count_from_here(&mut self) {
        self.begin = self.references.len();
    }

    fn done(self, name: &str) -> Trace {
        let pages = self.references.iter().map(|r| r.page as usize + 1).max().unwrap_or(0);
        Trace { name: name.to_owned(), references: self.references, pages, begin: self.begin }
    }
}

fn loops(pool: u32, quarters: u32) -> Trace {
    let mut made = Maker::default();
    for round in 0..ROUNDS {
        if round == 1 {
            made.count_from_here();
        }
        made.scan(0, pool / 4 * quarters);
    }
    made.done(&format!("loop of {} pools", f64::from(quarters) / 4.0))
}

/// Pages by Zipf's distribution, number 0 most often.
struct Skewed {
    sums: Vec<f64>,
    noise: Noise,
}

impl Skewed {
    fn new(pages: u32) -> Skewed {
        let mut sum = 0.0;
        let add = |n: u32| {
            sum += f64::from(n).powf(-SKEW);
            sum
        };
        Skewed { sums: (1..=pages).map(add).collect(), noise: Noise::new(7) }
    }

    fn next(&mut self) -> u32 {
        let all = self.sums.last().copied().unwrap_or(0.0);
        let at = (self.noise.next() >> 11) as f64 / (1_u64 << 53) as f64 * all;
        let most = self.sums.len() - 1;
        self.sums.partition_point(|sum| *sum < at).min(most) as u32
    }
}

fn look_ups(pool: u32) -> Trace {
    let (mut made, mut skewed) = (Maker::default(), Skewed::new(4 * pool));
    for n in 0..32 * pool {
        if n == 8 * pool {
            made.count_from_here();
        }
        made.normal(skewed.next());
    }
    made.done("skewed look-ups, 4 pools")
}

fn look_ups_and_loop(pool: u32) -> Trace {
    let (mut made, mut skewed) = (Maker::default(), Skewed::new(4 * pool));
    for n in 0..24 * pool {
        if n == 8 * pool {
            made.count_from_here();
        }
        made.normal(skewed.next());
        made.bulk(4 * pool + n % (2 * pool), AccessKind::BulkRead);
    }
    made.done("the same over a loop of 2")
}

/// Half a pool of pages that are used at random, warmed up, and then bulk work beside them. A turn
/// has so many references of each kind. The bulk work begins again after `bulk_pages` pages.
fn hot_set(
    pool: u32,
    name: &str,
    access: AccessKind,
    bulk_pages: u32,
    (hot, bulk): (u32, u32),
) -> Trace {
    let (mut made, mut noise) = (Maker::default(), Noise::new(11));
    let mut next = || (noise.next() % u64::from(pool / 2)) as u32;
    for _ in 0..8 * pool {
        made.normal(next());
    }
    made.count_from_here();
    let mut at = 0;
    for _ in 0..8 * pool {
        (0..hot).for_each(|_| made.normal(next()));
        for _ in 0..bulk {
            made.bulk(pool / 2 + at % bulk_pages, access);
            at += 1;
        }
    }
    made.done(name)
}

/// Skewed look-ups of a table of two thirds of the pool beside a fast loop: pages that are wanted
/// rarely, but by those who wait for them. They are in memory at first, or the loop's pages are.
fn skewed_set(pool: u32, cold: bool) -> Trace {
    let (size, looped) = (pool / 3 * 2, pool / 3 * 8);
    let (mut made, mut skewed) = (Maker::default(), Skewed::new(size));
    match cold {
        true => (0..4).for_each(|_| made.scan(size, looped)),
        false => (0..2 * size).for_each(|n| made.normal(n % size)),
    }
    let mut at = 0;
    for turn in 0..16 * pool {
        if turn == 4 * pool {
            made.count_from_here();
        }
        made.normal(skewed.next());
        for _ in 0..7 {
            made.bulk(size + at % looped, AccessKind::BulkRead);
            at += 1;
        }
    }
    made.done(if cold { "the same, cold at first" } else { "skewed 0.67, a fast loop of 2.67" })
}

/// A hot set of half a pool that is another one after every 8 pools' worth of uses.
fn moving(pool: u32) -> Trace {
    let (mut made, mut noise) = (Maker::default(), Noise::new(13));
    for set in 0..8 {
        for _ in 0..8 * pool {
            made.normal(set * (pool / 2) + (noise.next() % u64::from(pool / 2)) as u32);
        }
    }
    made.done("hot half that moves")
}

/// A table that fits is scanned after another one was in use. Its first scan does not count.
fn next_table(pool: u32) -> Trace {
    let (mut made, size) = (Maker::default(), pool / 4 * 3);
    (0..4).for_each(|_| made.scan(0, size));
    made.scan(size, size);
    made.count_from_here();
    (0..4).for_each(|_| made.scan(size, size));
    made.done("0.75 after another 0.75")
}

/// Two tables that fit are scanned by turns.
fn in_turn(pool: u32) -> Trace {
    let (mut made, size) = (Maker::default(), pool / 4 * 3);
    for round in 0..ROUNDS {
        if round == 1 {
            made.count_from_here();
        }
        made.scan(0, size);
        made.scan(size, size);
    }
    made.done("two of 0.75 by turns")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_the_pool() {
        let all = traces(256);
        let find = |name: &str| all.iter().find(|trace| trace.name == name).expect(name);
        assert_eq!(find("loop of 0.5 pools").pages, 128);
        assert_eq!(find("loop of 4 pools").pages, 1024);
        assert_eq!(find("hot half, a loop of 2 pools").pages, 128 + 512);
        assert_eq!(find("hot half, one scan").pages, 128 + 8 * 256);
        for trace in &all {
            assert!(trace.begin < trace.references.len(), "{}", trace.name);
        }
    }

    /// A tenth of the pages gets more than half of the look-ups, the last tenth next to none.
    #[test]
    fn look_ups_are_skewed() {
        let trace = look_ups(256);
        let part = |from: u32, to: u32| {
            let within = trace.references.iter().filter(|r| (from..to).contains(&r.page)).count();
            within as f64 / trace.references.len() as f64
        };
        assert!((0.55..0.8).contains(&part(0, 102)), "{}", part(0, 102));
        assert!((0.005..0.04).contains(&part(922, 1024)), "{}", part(922, 1024));
    }
}
