//! How fast page checksums and CRC-32C are here.
//!
//! Hot: pages of one combined read, again and again, so that they stay in the processor's cache.
//! Cold: memory much larger than any cache, once through. What a checksum of cold pages can at best
//! reach is the speed of reading alone, which is measured beside it, with one and with several
//! pages read side by side. Rates are per second of processor time: what other processes take away
//! does not count.

use std::hint::black_box;

use forebay_aio::AlignedBuf;
use forebay_format::checksum::{TOUCH_STREAMS, Variant, touch};
use forebay_format::crc::crc32c;
use forebay_format::{BLOCK_SIZE, PageBytes};

use super::BenchError;
use super::json::Json;
use super::measure::{Noise, Spread, thread_seconds};
use super::table::{TextTable, short};

/// Sizes that CRC-32C is measured at: from a WAL record's header to more than a segment's write.
pub const CRC_SIZES: [usize; 7] = [24, 64, 128, 512, 1024, 8192, 1 << 20];

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct ChecksumBench {
    /// Bytes of the cold memory.
    pub cold_bytes: usize,
    /// Bytes of the hot pages.
    pub hot_bytes: usize,
    /// How often everything is measured.
    pub rounds: usize,
    /// Seconds of a measurement of hot pages.
    pub hot_seconds: f64,
}

impl Default for ChecksumBench {
    fn default() -> ChecksumBench {
        ChecksumBench { cold_bytes: 1 << 30, hot_bytes: 128 << 10, rounds: 7, hot_seconds: 0.005 }
    }
}

/// Reading alone.
#[derive(Clone, Copy, Debug)]
pub struct TouchRow {
    /// Pages read side by side.
    pub streams: usize,
    /// Bytes a second in the cache.
    pub hot: Spread,
    /// Bytes a second from memory.
    pub cold: Spread,
}

/// A variant of the checksum.
#[derive(Clone, Copy, Debug)]
pub struct VariantRow {
    /// Which.
    pub variant: Variant,
    /// Pages taken side by side.
    pub side_by_side: usize,
    /// It is the one that the server uses for several pages.
    pub chosen: bool,
    /// Bytes a second in the cache.
    pub hot: Spread,
    /// Bytes a second from memory.
    pub cold: Spread,
}

/// CRC-32C of buffers of one size, in the cache.
#[derive(Clone, Copy, Debug)]
pub struct CrcRow {
    /// Bytes of one buffer.
    pub size: usize,
    /// Bytes a second.
    pub rate: Spread,
}

/// The figures.
#[derive(Clone, Debug)]
pub struct ChecksumReport {
    /// What was measured.
    pub bench: ChecksumBench,
    /// Reading alone.
    pub touch: Vec<TouchRow>,
    /// Page checksums.
    pub variants: Vec<VariantRow>,
    /// CRC-32C.
    pub crc: Vec<CrcRow>,
}

#[derive(Clone, Copy)]
enum Work {
    Touch(usize),
    Checksum(Variant, usize),
}

impl Work {
    fn all() -> Vec<Work> {
        let touches = TOUCH_STREAMS.into_iter().map(Work::Touch);
        let sums = Variant::available().flat_map(|variant| {
            Variant::SIDE_BY_SIDE.into_iter().map(move |n| Work::Checksum(variant, n))
        });
        // Plain code and SSE2 take one page after the other, however many they are given.
        let one_by_one = |work: &Work| match work {
            Work::Checksum(Variant::Scalar | Variant::Sse2, n) => *n == 1,
            _ => true,
        };
        touches.chain(sums.filter(one_by_one)).collect()
    }

    fn run(self, pages: &[PageBytes], sums: &mut [u16]) {
        match self {
            Work::Touch(streams) => {
                black_box(touch(black_box(pages), streams));
            }
            Work::Checksum(variant, side_by_side) => {
                let sums = &mut sums[..pages.len()];
                variant.checksum_pages(black_box(pages), 0, sums, side_by_side);
                black_box(sums);
            }
        }
    }
}

/// Bytes a second of `work`, which handles so many bytes each time, over at least so many seconds.
fn rate(bytes: usize, at_least: f64, mut work: impl FnMut()) -> f64 {
    let begun = thread_seconds();
    let mut done = 0_u64;
    loop {
        work();
        done += bytes as u64;
        let taken = thread_seconds() - begun;
        if taken > at_least {
            return done as f64 / taken;
        }
    }
}

/// Measures.
pub fn bench_checksum(bench: &ChecksumBench) -> Result<ChecksumReport, BenchError> {
    let least = bench.hot_bytes.min(bench.cold_bytes);
    if least < BLOCK_SIZE || bench.rounds == 0 {
        return Err(BenchError::Options(format!(
            "checksums need memory of at least a page ({BLOCK_SIZE} bytes) and at least one round"
        )));
    }
    let mut memory = AlignedBuf::zeroed(bench.cold_bytes)?;
    Noise::new(1).fill(&mut memory);
    let cold = memory.as_chunks::<BLOCK_SIZE>().0;
    let hot = &cold[..(bench.hot_bytes / BLOCK_SIZE).min(cold.len())];
    let mut sums = vec![0; cold.len()];

    let works = Work::all();
    let mut samples = vec![(Vec::new(), Vec::new()); works.len()];
    let mut crc_samples = vec![Vec::new(); CRC_SIZES.len()];
    let crc_memory = &memory[..CRC_SIZES[CRC_SIZES.len() - 1].min(memory.len())];
    for _ in 0..bench.rounds {
        for (work, (hots, colds)) in works.iter().zip(&mut samples) {
            // A first pass brings the pages into the cache.
            work.run(hot, &mut sums);
            hots.push(rate(8 * hot.len() * BLOCK_SIZE, bench.hot_seconds, || {
                (0..8).for_each(|_| work.run(hot, &mut sums));
            }));
            colds.push(rate(cold.len() * BLOCK_SIZE, 0.0, || work.run(cold, &mut sums)));
        }
        for (size, samples) in CRC_SIZES.into_iter().zip(&mut crc_samples) {
            let buffer = &crc_memory[..size.min(crc_memory.len())];
            let times = (64 << 10) / buffer.len() + 1;
            samples.push(rate(buffer.len() * times, bench.hot_seconds, || {
                (0..times).for_each(|_| {
                    black_box(crc32c(black_box(buffer)));
                });
            }));
        }
    }
    Ok(report(*bench, &works, samples, crc_samples))
}

fn report(
    bench: ChecksumBench,
    works: &[Work],
    samples: Vec<(Vec<f64>, Vec<f64>)>,
    crc_samples: Vec<Vec<f64>>,
) -> ChecksumReport {
    let crc = CRC_SIZES.into_iter().zip(crc_samples);
    let crc = crc.map(|(size, samples)| CrcRow { size, rate: Spread::of(samples) }).collect();
    let mut report = ChecksumReport { bench, touch: Vec::new(), variants: Vec::new(), crc };
    for (work, (hot, cold)) in works.iter().zip(samples) {
        let (hot, cold) = (Spread::of(hot), Spread::of(cold));
        match *work {
            Work::Touch(streams) => report.touch.push(TouchRow { streams, hot, cold }),
            Work::Checksum(variant, side_by_side) => {
                let chosen = variant == Variant::best() && side_by_side == variant.preferred();
                report.variants.push(VariantRow { variant, side_by_side, chosen, hot, cold });
            }
        }
    }
    report
}

const GB: f64 = 1e9;

impl ChecksumReport {
    /// The fastest reading of cold memory.
    fn best_touch(&self) -> f64 {
        self.touch.iter().map(|row| row.cold.median).fold(0.0, f64::max)
    }

    /// SSE2's rate in the cache.
    fn baseline(&self) -> Option<f64> {
        let baseline = self.variants.iter().find(|row| row.variant == Variant::Sse2)?;
        Some(baseline.hot.median)
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut table = TextTable::new([
            "page checksum",
            "hot GB/s",
            "x sse2",
            "cold GB/s",
            "% of reading alone",
        ]);
        for row in &self.touch {
            let name = format!("reading alone, {}", side_by_side(row.streams));
            let share = format!("{:.0}", row.cold.median / self.best_touch() * 100.0);
            table.row([
                name,
                row.hot.per(GB).text(),
                String::new(),
                row.cold.per(GB).text(),
                share,
            ]);
        }
        for row in &self.variants {
            let mark = if row.chosen { " *" } else { "" };
            let name = format!("{}, {}{mark}", row.variant.name(), side_by_side(row.side_by_side));
            let times = self.baseline().map_or(String::new(), |base| short(row.hot.median / base));
            let share = format!("{:.0}", row.cold.median / self.best_touch() * 100.0);
            table.row([name, row.hot.per(GB).text(), times, row.cold.per(GB).text(), share]);
        }
        let mut crc = TextTable::new(["CRC-32C of", "GB/s"]);
        for row in &self.crc {
            crc.row([format!("{} bytes", row.size), row.rate.per(GB).text()]);
        }
        let ChecksumBench { cold_bytes, hot_bytes, rounds, .. } = self.bench;
        format!(
            "Page checksums: hot {} kB again and again, cold {} MB once through; medians of {rounds} rounds, smallest and\n\
             largest in brackets, per second of processor time. * is what the server uses for several pages.\n\n{}\n{}",
            hot_bytes >> 10,
            cold_bytes >> 20,
            table.text(),
            crc.text()
        )
    }

    /// For programs.
    pub fn json(&self) -> String {
        let touch = self.touch.iter().map(|row| {
            Json::Object(vec![
                ("streams", Json::Int(row.streams as u64)),
                ("hot_bytes_per_second", row.hot.json()),
                ("cold_bytes_per_second", row.cold.json()),
            ])
        });
        let variants = self.variants.iter().map(|row| {
            Json::Object(vec![
                ("variant", Json::text(row.variant.name())),
                ("side_by_side", Json::Int(row.side_by_side as u64)),
                ("chosen", Json::Bool(row.chosen)),
                ("hot_bytes_per_second", row.hot.json()),
                ("cold_bytes_per_second", row.cold.json()),
            ])
        });
        let crc = self.crc.iter().map(|row| {
            Json::Object(vec![
                ("bytes", Json::Int(row.size as u64)),
                ("bytes_per_second", row.rate.json()),
            ])
        });
        Json::Object(vec![
            ("bench", Json::text("checksum")),
            ("version", Json::Int(1)),
            ("hot_bytes", Json::Int(self.bench.hot_bytes as u64)),
            ("cold_bytes", Json::Int(self.bench.cold_bytes as u64)),
            ("rounds", Json::Int(self.bench.rounds as u64)),
            ("touch", Json::list(touch)),
            ("variants", Json::list(variants)),
            ("crc32c", Json::list(crc)),
        ])
        .to_string()
    }
}

fn side_by_side(pages: usize) -> String {
    if pages == 1 { "1 page".to_owned() } else { format!("{pages} pages side by side") }
}
