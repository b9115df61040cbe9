//! Clocks, and what becomes of several samples.

use rustix::time::{ClockId, clock_gettime};

use super::json::Json;
use super::table::short;

/// The median of several samples, with the smallest and the largest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The middle one (of two, the smaller).
    pub median: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

impl Spread {
    /// Of these samples; zeros, if there are none.
    pub fn of(mut samples: Vec<f64>) -> Spread {
        samples.sort_by(f64::total_cmp);
        let at = |n: usize| samples.get(n).copied().unwrap_or(0.0);
        let last = samples.len().saturating_sub(1);
        Spread { median: at(last / 2), least: at(0), most: at(last) }
    }

    /// Each value, divided.
    pub(super) fn per(self, unit: f64) -> Spread {
        Spread { median: self.median / unit, least: self.least / unit, most: self.most / unit }
    }

    /// "12.3 (11.9-12.5)", or only the median where there is no spread.
    pub(super) fn text(self) -> String {
        if self.least == self.most {
            return short(self.median);
        }
        format!("{} ({}-{})", short(self.median), short(self.least), short(self.most))
    }

    pub(super) fn json(self) -> Json {
        let fields = [("median", self.median), ("least", self.least), ("most", self.most)];
        Json::Object(fields.into_iter().map(|(name, value)| (name, Json::Number(value))).collect())
    }
}

fn seconds(clock: ClockId) -> f64 {
    let now = clock_gettime(clock);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Processor time of this thread, user and system.
pub(super) fn thread_seconds() -> f64 {
    seconds(ClockId::ThreadCPUTime)
}

/// Processor time of this process with all its threads (the kernel's io_uring threads among them),
/// user and system.
pub(super) fn process_seconds() -> f64 {
    seconds(ClockId::ProcessCPUTime)
}

/// xorshift: numbers that are random enough for offsets and page contents, the same in every run.
pub(super) struct Noise(u64);

impl Noise {
    pub(super) fn new(seed: u64) -> Noise {
        Noise(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.as_chunks_mut::<8>().0 {
            *word = self.next().to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let spread = Spread::of(vec![3.0, 1.0, 2.0]);
        assert_eq!(spread, Spread { median: 2.0, least: 1.0, most: 3.0 });
        assert_eq!(spread.text(), "2.00 (1.00-3.00)");
        assert_eq!(Spread::of(vec![5.0]).text(), "5.00");
        assert_eq!(Spread::of(vec![]), Spread::default());
    }
}
