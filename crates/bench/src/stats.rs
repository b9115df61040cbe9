//! Statistics of several runs: medians with their spread, rates, percentiles of latencies.

use forebay_aio::sync::Duration;
use serde::Serialize;

use crate::table::short;

/// The median of several samples, with the smallest and the largest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// The middle one (of two, the smaller).
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Of these samples; zeros if there are none.
    pub(crate) fn of(samples: impl IntoIterator<Item = f64>) -> Spread {
        let mut samples: Vec<f64> = samples.into_iter().collect();
        samples.sort_by(f64::total_cmp);
        let at = |n: usize| samples.get(n).copied().unwrap_or(0.0);
        let last = samples.len().saturating_sub(1);
        Spread { median: at(last / 2), least: at(0), most: at(last) }
    }

    /// Of these samples; `None` if there are none.
    pub(crate) fn of_some(samples: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut samples = samples.into_iter().peekable();
        samples.peek().is_some().then(|| Spread::of(samples))
    }

    /// Each value divided by `unit`.
    pub(crate) fn per(self, unit: f64) -> Spread {
        Spread { median: self.median / unit, least: self.least / unit, most: self.most / unit }
    }

    /// `12.3 (11.9-12.5)`, or only the median where there is no spread.
    pub(crate) fn text(self) -> String {
        if self.least == self.most {
            return short(self.median);
        }
        format!("{} ({}-{})", short(self.median), short(self.least), short(self.most))
    }
}

/// What one run moved, and in what time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Transfer {
    pub(crate) bytes: u64,
    pub(crate) ios: u64,
    pub(crate) seconds: f64,
    /// Processor time, user and system.
    pub(crate) cpu_seconds: f64,
}

impl Transfer {
    pub(crate) fn add(&mut self, other: Transfer) {
        self.bytes += other.bytes;
        self.ios += other.ios;
        self.seconds += other.seconds;
        self.cpu_seconds += other.cpu_seconds;
    }
}

/// Rates of several runs of one kind.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Rates {
    pub(crate) bytes_per_second: Spread,
    pub(crate) ios_per_second: Spread,
    /// Processor time for 10^9 bytes.
    pub(crate) cpu_seconds_per_gb: Spread,
}

impl Rates {
    pub(crate) fn of(runs: impl Iterator<Item = Transfer> + Clone) -> Rates {
        let each = |value: fn(Transfer) -> f64| Spread::of(runs.clone().map(value));
        Rates {
            bytes_per_second: each(|run| run.bytes as f64 / run.seconds),
            ios_per_second: each(|run| run.ios as f64 / run.seconds),
            cpu_seconds_per_gb: each(|run| run.cpu_seconds / (run.bytes.max(1) as f64 / 1e9)),
        }
    }

    /// Cells of a table: MB/s, I/Os a second.
    pub(crate) fn cells(&self) -> [String; 2] {
        let ios = format!("{:.0}", self.ios_per_second.median);
        [self.bytes_per_second.per(1e6).text(), ios]
    }
}

const SUB_BITS: u32 = 5;
/// Classes for all nanoseconds that 64 bits hold.
const CLASSES: usize = ((64 - SUB_BITS as usize) << SUB_BITS) + (1 << SUB_BITS);

/// A histogram of latencies with 32 classes for each doubling: a percentile is at most a
/// thirty-second too low.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { counts: vec![0; CLASSES], total: 0 }
    }
}

impl Latencies {
    pub(crate) fn add(&mut self, latency: Duration) {
        let nanoseconds = u64::try_from(latency.as_nanos()).expect("no run takes 500 years");
        self.counts[class(nanoseconds)] += 1;
        self.total += 1;
    }

    pub(crate) fn merge(&mut self, other: &Latencies) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(to, by)| *to += by);
        self.total += other.total;
    }

    pub(crate) fn count(&self) -> u64 {
        self.total
    }

    /// Nanoseconds that `part` of all do not exceed; 0 if there are none.
    pub(crate) fn percentile(&self, part: f64) -> u64 {
        let wanted = ((self.total as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        for (class, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return floor(class);
            }
        }
        0
    }
}

/// The first classes hold one number each; then each doubling has 32.
fn class(nanoseconds: u64) -> usize {
    let shift = nanoseconds.max(1).ilog2().saturating_sub(SUB_BITS);
    ((shift as usize) << SUB_BITS) + (nanoseconds >> shift) as usize
}

/// The least number of a class.
fn floor(class: usize) -> u64 {
    let shift = (class >> SUB_BITS).saturating_sub(1);
    ((class - (shift << SUB_BITS)) as u64) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let spread = Spread::of([3.0, 1.0, 2.0]);
        assert_eq!(spread, Spread { median: 2.0, least: 1.0, most: 3.0 });
        assert_eq!(spread.text(), "2.00 (1.00-3.00)");
        assert_eq!(Spread::of([5.0]).text(), "5.00");
        assert_eq!(Spread::of([]), Spread::default());
        assert_eq!((Spread::of_some([]), Spread::of_some([5.0])), (None, Some(Spread::of([5.0]))));
    }

    #[test]
    fn a_figure_that_is_no_number_is_null_in_json() {
        let json = serde_json::to_string(&Spread::of([f64::NAN])).expect("written");
        assert_eq!(json, r#"{"median":null,"least":null,"most":null}"#);
    }

    #[test]
    fn each_number_lies_in_its_class() {
        let mut numbers: Vec<u64> = (0..10_000).collect();
        numbers.extend(
            (13..64).flat_map(|n| [(1_u64 << n) - 1, 1 << n, (1 << n) + (1 << (n - 2)) + 7]),
        );
        numbers.push(u64::MAX);
        for number in numbers {
            let class = class(number);
            assert!(class < CLASSES, "{number}");
            assert!(floor(class) <= number, "{number} in {class}");
            assert!(class + 1 == CLASSES || floor(class + 1) > number, "{number} in {class}");
            assert!(number - floor(class) <= number / 32, "{number} in {class}");
        }
    }

    #[test]
    fn percentiles_count_from_the_shortest() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentile(0.5), 0);
        (1..=60_u64).for_each(|n| latencies.add(Duration::from_nanos(n)));
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|part| latencies.percentile(part)), [1, 30, 60, 60]);
        let mut other = Latencies::default();
        (0..940).for_each(|_| other.add(Duration::from_millis(1)));
        latencies.merge(&other);
        assert_eq!(latencies.count(), 1000);
        assert_eq!(latencies.percentile(0.06), 60);
        let millisecond = latencies.percentile(0.061);
        assert!((968_750..=1_000_000).contains(&millisecond), "{millisecond}");
    }
}
