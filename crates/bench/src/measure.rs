//! Clocks, noise for contents and offsets, and the count of runs that are done.

use forebay_aio::sync::Instant;
use rustix::time::{ClockId, clock_gettime};

fn seconds(clock: ClockId) -> f64 {
    let now = clock_gettime(clock);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Processor time of this thread, user and system.
pub(crate) fn thread_seconds() -> f64 {
    seconds(ClockId::ThreadCPUTime)
}

/// Repeats `work`, which handles `bytes` each time, for at least `at_least` seconds of processor
/// time; bytes a second.
pub(crate) fn rate(bytes: usize, at_least: f64, mut work: impl FnMut()) -> f64 {
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

/// Times a run: by the clock, and by the processor time (user and system) of all threads of the
/// process, the kernel's io_uring threads among them.
pub(crate) struct Stopwatch {
    begun: Instant,
    cpu: f64,
}

impl Stopwatch {
    pub(crate) fn start() -> Stopwatch {
        Stopwatch { begun: Instant::now(), cpu: seconds(ClockId::ProcessCPUTime) }
    }

    /// Seconds since the start.
    pub(crate) fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Seconds of processor time since the start.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        seconds(ClockId::ProcessCPUTime) - self.cpu
    }
}

/// Counts runs and tells the caller how many of how many are done.
pub(crate) struct Progress<'a> {
    done: u64,
    total: u64,
    tell: &'a mut dyn FnMut(u64, u64),
}

impl<'a> Progress<'a> {
    pub(crate) fn new(total: usize, tell: &'a mut dyn FnMut(u64, u64)) -> Progress<'a> {
        let total = total as u64;
        tell(0, total);
        Progress { done: 0, total, tell }
    }

    /// One more run is done.
    pub(crate) fn step(&mut self) {
        self.done += 1;
        (self.tell)(self.done, self.total);
    }
}

/// An xorshift generator: random enough for offsets and page contents, and the same in every run.
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Noise {
        Noise(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.as_chunks_mut::<8>().0 {
            *word = self.next().to_le_bytes();
        }
    }
}
