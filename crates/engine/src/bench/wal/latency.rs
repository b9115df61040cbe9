//! Latencies in classes, 32 for each doubling: a percentile is at most a thirty-second too low.

use forebay_aio::sync::Duration;

const SUB_BITS: u32 = 5;
/// Classes of all numbers of nanoseconds that 64 bits hold.
const CLASSES: usize = ((64 - SUB_BITS as usize) << SUB_BITS) + (1 << SUB_BITS);

/// How often each class was met.
#[derive(Clone, Debug)]
pub(super) struct Latencies {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { counts: vec![0; CLASSES], total: 0 }
    }
}

impl Latencies {
    pub(super) fn add(&mut self, latency: Duration) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if let Some(count) = self.counts.get_mut(class(nanoseconds)) {
            *count += 1;
            self.total += 1;
        }
    }

    /// Takes those of another in.
    pub(super) fn merge(&mut self, other: &Latencies) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(to, by)| *to += by);
        self.total += other.total;
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.total
    }

    /// Nanoseconds that `part` of all do not exceed; 0, if there are none.
    pub(super) fn percentile(&self, part: f64) -> u64 {
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
    fn percentiles_are_counted_off() {
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
