//! How fast page checksums and CRC-32C are on this machine.
//!
//! - Hot: the pages of one combined read, again and again, so that they stay in the processor's
//!   cache.
//! - Cold: memory much larger than any cache, once through.
//!
//! Reading memory alone, one page after the other or several side by side, is measured beside them:
//! no checksum of cold pages is faster. Rates are per second of processor time, so that other
//! processes do not change them.

use std::hint::black_box;

use forebay_aio::AlignedBuf;
use forebay_format::checksum::{TOUCH_STREAMS, Variant, touch};
use forebay_format::crc::crc32c;
use forebay_format::{BLOCK_SIZE, PageBytes};
use serde::Serialize;

use crate::error::BenchError;
use crate::measure::{Noise, rate};
use crate::report::Report;
use crate::stats::Spread;
use crate::table::{TextTable, short};

/// Sizes that CRC-32C is measured at: from a WAL record's header to more than a segment's write.
const CRC_SIZES: [usize; 7] = [24, 64, 128, 512, 1024, 8192, 1 << 20];

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct ChecksumBench {
    /// Bytes of the cold memory.
    pub cold_bytes: usize,
    /// Bytes of the hot pages.
    pub hot_bytes: usize,
    /// How often everything is measured.
    pub rounds: usize,
    /// Seconds of one measurement of hot pages.
    pub hot_seconds: f64,
}

impl Default for ChecksumBench {
    fn default() -> ChecksumBench {
        ChecksumBench { cold_bytes: 1 << 30, hot_bytes: 128 << 10, rounds: 7, hot_seconds: 0.005 }
    }
}

/// Bytes a second in the cache and from memory.
#[derive(Clone, Copy, Serialize)]
struct HotAndCold {
    #[serde(rename = "hot_bytes_per_second")]
    hot: Spread,
    #[serde(rename = "cold_bytes_per_second")]
    cold: Spread,
}

/// Reading alone.
#[derive(Serialize)]
struct TouchRow {
    /// Pages read side by side.
    streams: usize,
    #[serde(flatten)]
    rates: HotAndCold,
}

/// One variant of the page checksum.
#[derive(Serialize)]
struct VariantRow {
    variant: &'static str,
    /// Pages summed side by side.
    side_by_side: usize,
    /// The server uses this one for several pages.
    chosen: bool,
    #[serde(flatten)]
    rates: HotAndCold,
}

/// CRC-32C of buffers of one size, in the cache.
#[derive(Serialize)]
struct CrcRow {
    /// The buffer's size.
    bytes: usize,
    bytes_per_second: Spread,
}

#[derive(Serialize)]
struct Figures {
    bench: &'static str,
    version: u32,
    hot_bytes: usize,
    cold_bytes: usize,
    rounds: usize,
    touch: Vec<TouchRow>,
    variants: Vec<VariantRow>,
    crc32c: Vec<CrcRow>,
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
        // These two take one page after the other, however many they are given.
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

/// Measures checksums.
pub fn bench_checksum(bench: &ChecksumBench) -> Result<Report, BenchError> {
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
    let figures = Figures::of(bench, &works, samples, crc_samples);
    Ok(Report::new(figures.text(), &figures))
}

const GB: f64 = 1e9;

impl Figures {
    fn of(
        bench: &ChecksumBench,
        works: &[Work],
        samples: Vec<(Vec<f64>, Vec<f64>)>,
        crc_samples: Vec<Vec<f64>>,
    ) -> Figures {
        let crc = CRC_SIZES.into_iter().zip(crc_samples);
        let mut figures = Figures {
            bench: "checksum",
            version: 1,
            hot_bytes: bench.hot_bytes,
            cold_bytes: bench.cold_bytes,
            rounds: bench.rounds,
            touch: Vec::new(),
            variants: Vec::new(),
            crc32c: crc
                .map(|(bytes, rates)| CrcRow { bytes, bytes_per_second: Spread::of(rates) })
                .collect(),
        };
        for (work, (hot, cold)) in works.iter().zip(samples) {
            let rates = HotAndCold { hot: Spread::of(hot), cold: Spread::of(cold) };
            match *work {
                Work::Touch(streams) => figures.touch.push(TouchRow { streams, rates }),
                Work::Checksum(variant, side_by_side) => figures.variants.push(VariantRow {
                    variant: variant.name(),
                    side_by_side,
                    chosen: variant == Variant::best() && side_by_side == variant.preferred(),
                    rates,
                }),
            }
        }
        figures
    }

    fn text(&self) -> String {
        let mut table = TextTable::new([
            "page checksum",
            "hot GB/s",
            "x sse2",
            "cold GB/s",
            "% of reading alone",
        ]);
        let best_touch = self.touch.iter().map(|row| row.rates.cold.median).fold(0.0, f64::max);
        let sse2 = self.variants.iter().find(|row| row.variant == Variant::Sse2.name());
        let mut add = |name: String, rates: HotAndCold, times: String| {
            let share = format!("{:.0}", rates.cold.median / best_touch * 100.0);
            table.row([name, rates.hot.per(GB).text(), times, rates.cold.per(GB).text(), share]);
        };
        for row in &self.touch {
            let name = format!("reading alone, {}", side_by_side(row.streams));
            add(name, row.rates, String::new());
        }
        for row in &self.variants {
            let mark = if row.chosen { " *" } else { "" };
            let name = format!("{}, {}{mark}", row.variant, side_by_side(row.side_by_side));
            let times = |sse2: &VariantRow| short(row.rates.hot.median / sse2.rates.hot.median);
            add(name, row.rates, sse2.map_or_else(String::new, times));
        }
        let mut crc = TextTable::new(["CRC-32C of", "GB/s"]);
        for row in &self.crc32c {
            crc.row([format!("{} bytes", row.bytes), row.bytes_per_second.per(GB).text()]);
        }
        format!(
            "Page checksums: hot {} kB again and again, cold {} MB once through; \
             medians of {} rounds, smallest and\n\
             largest in brackets, per second of processor time. \
             * is what the server uses for several pages.\n\n{}\n{}",
            self.hot_bytes >> 10,
            self.cold_bytes >> 20,
            self.rounds,
            table.text(),
            crc.text()
        )
    }
}

fn side_by_side(pages: usize) -> String {
    if pages == 1 { "1 page".to_owned() } else { format!("{pages} pages side by side") }
}
