//! What is run.

use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_aio::sync::{Condvar, Duration, Instant, Mutex, thread};
use forebay_format::{BlockNumber, Fork};
use forebay_storage::{
    Backend, Cleaner, CleanerOptions, PrewarmMode, ReadStream, Strategy, StreamFlags,
    StreamSettings, WriteScope,
};

use super::super::measure::{Noise, process_seconds};
use super::PoolBench;
use super::lane::{Lane, Sample};
use super::live::live_tuples;
use crate::error::EngineError;

/// Pages that are changed between two looks at the clock.
const BETWEEN_LOOKS: u32 = 256;

impl Lane<'_> {
    /// Reads every page through a stream, and counts live tuples.
    pub(super) fn scan(&mut self, bench: &PoolBench) -> Result<Sample, EngineError> {
        let (live, sample) = self.measured(|lane| {
            let blocks = lane.place.blocks();
            let most = bench.most_blocks.unwrap_or(blocks).min(blocks) as usize;
            let mut order = Order::new(blocks, bench.random).take(most);
            let large = blocks as usize > lane.pool.buffers() / 4;
            let strategy = if large { Strategy::BulkRead } else { Strategy::Normal };
            let flags = if bench.random { StreamFlags::DEFAULT } else { StreamFlags::SEQUENTIAL };
            let mut stream = ReadStream::new(
                &lane.pool,
                lane.place.rel(),
                Fork::Main,
                || order.next(),
                flags,
                strategy,
                StreamSettings::new(bench.depth, lane.way.combine),
            );
            let mut live = 0;
            while let Some(pin) = stream.next(&mut lane.be)? {
                live += live_tuples(pin.lock_shared().page());
            }
            Ok(live)
        })?;
        Ok(Sample { live_tuples: Some(live), ..sample })
    }

    /// Brings the relation in.
    pub(super) fn prewarm(&mut self, mode: PrewarmMode) -> Result<Sample, EngineError> {
        let (_, sample) = self.measured(|lane| {
            let (rel, blocks) = (lane.place.rel(), lane.place.blocks());
            Ok(forebay_storage::prewarm(
                &lane.pool,
                &mut lane.be,
                rel,
                Fork::Main,
                0..blocks,
                mode,
            )?)
        })?;
        Ok(sample)
    }

    /// Threads change random pages, each looking ahead, while a cleaner works; all for a time,
    /// after the same for a fifth of it.
    pub(super) fn evict(&mut self, bench: &PoolBench) -> Result<Sample, EngineError> {
        let lane = &*self;
        let stop = AtomicBool::new(false);
        let failure = Failure::default();
        let sample = thread::scope(|scope| -> Result<Sample, EngineError> {
            let cleaner = {
                let (mut be, stop, pool) = (lane.backend()?, &stop, &lane.pool);
                scope.spawn(move || -> Result<(), EngineError> {
                    let (mut cleaner, options) = (Cleaner::default(), CleanerOptions::default());
                    while !stop.load(Ordering::SeqCst) {
                        let report = cleaner.step(pool, &mut be, &options)?;
                        cleaner.rest(pool, &options, report);
                    }
                    Ok(())
                })
            };
            let backends: Result<Vec<Backend>, _> =
                (0..bench.threads).map(|_| lane.backend()).collect();
            let users: Vec<_> = backends?
                .into_iter()
                .enumerate()
                .map(|(n, be)| {
                    let (stop, failure) = (&stop, &failure);
                    scope.spawn(move || {
                        lane.change_pages(bench, n as u64, be, stop).inspect_err(|_| failure.tell())
                    })
                })
                .collect();
            // The pool fills up first.
            failure.await_for(bench.run_time / 5);
            let sample = lane.observe(bench, &failure);
            stop.store(true, Ordering::SeqCst);
            for user in users {
                joined(user.join())?;
            }
            while !cleaner.is_finished() {
                lane.pool.wake_cleaner();
                thread::yield_now();
            }
            joined(cleaner.join())?;
            Ok(sample)
        })?;
        // So that nothing of it stays in the kernel's cache either.
        self.pool.write_dirty(&mut self.be, WriteScope::All)?;
        self.pool.sync_pending(&mut self.be)?;
        Ok(sample)
    }

    fn change_pages(
        &self,
        bench: &PoolBench,
        seed: u64,
        mut be: Backend,
        stop: &AtomicBool,
    ) -> Result<(), EngineError> {
        let blocks = self.place.blocks();
        let mut noise = Noise::new(seed + 1);
        let mut left = BETWEEN_LOOKS;
        let next = || {
            left = if left == 0 { BETWEEN_LOOKS } else { left - 1 };
            (left > 0 || !stop.load(Ordering::SeqCst))
                .then(|| (noise.next() % u64::from(blocks)) as u32)
        };
        let depth = (bench.depth / bench.threads as u32).max(1);
        let (flags, strategy) = (StreamFlags::FULL, Strategy::Normal);
        let mut stream = ReadStream::new(
            &self.pool,
            self.place.rel(),
            Fork::Main,
            next,
            flags,
            strategy,
            StreamSettings::new(depth, self.way.combine),
        );
        while let Some(pin) = stream.next(&mut be)? {
            let mut page = pin.lock_exclusive();
            // Behind the header.
            page[100] = page[100].wrapping_add(1);
            page.mark_dirty();
        }
        Ok(())
    }

    /// Fills the pool with dirty pages, and takes the time that writing them needs, without the
    /// sync.
    pub(super) fn checkpoint(&mut self) -> Result<Sample, EngineError> {
        let most = (self.pool.buffers() as u32).min(self.place.blocks());
        let mut blocks = 0..most;
        {
            let mut stream = ReadStream::new(
                &self.pool,
                self.place.rel(),
                Fork::Main,
                || blocks.next(),
                StreamFlags::FULL,
                Strategy::Normal,
                StreamSettings::new(32, self.way.combine),
            );
            while let Some(pin) = stream.next(&mut self.be)? {
                let mut page = pin.lock_exclusive();
                page[100] = page[100].wrapping_add(1);
                page.mark_dirty();
            }
        }
        let (_, sample) =
            self.measured(|lane| Ok(lane.pool.write_dirty(&mut lane.be, WriteScope::All)?))?;
        let begun = Instant::now();
        self.pool.sync_pending(&mut self.be)?;
        Ok(Sample { sync_seconds: begun.elapsed().as_secs_f64(), ..sample })
    }

    /// What all threads do together in the run's time.
    fn observe(&self, bench: &PoolBench, failure: &Failure) -> Sample {
        let before = self.counts();
        let begun = (Instant::now(), process_seconds());
        failure.await_for(bench.run_time);
        let seconds = begun.0.elapsed().as_secs_f64();
        self.since(before, seconds, process_seconds() - begun.1)
    }
}

/// Ends a run early.
#[derive(Default)]
struct Failure {
    told: Mutex<bool>,
    changed: Condvar,
}

impl Failure {
    fn tell(&self) {
        *self.told.lock() = true;
        self.changed.notify_all();
    }

    /// Returns when the time is over, or a thread has failed.
    fn await_for(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut told = self.told.lock();
        while !*told && !self.changed.wait_until(&mut told, until).timed_out() {}
    }
}

fn joined(result: thread::Result<Result<(), EngineError>>) -> Result<(), EngineError> {
    result
        .unwrap_or_else(|_| Err(EngineError::internal("a thread of the bench panicked".to_owned())))
}

/// In which order a scan takes its blocks.
struct Order {
    blocks: BlockNumber,
    next: BlockNumber,
    /// Step of a random order: prime to the number of blocks, so that each comes once.
    step: Option<u64>,
    at: u64,
}

impl Order {
    fn new(blocks: BlockNumber, random: bool) -> Order {
        let mut step = (u64::from(blocks) * 618 / 1000) | 1;
        while gcd(step, u64::from(blocks)) != 1 {
            step += 2;
        }
        Order { blocks, next: 0, step: random.then_some(step), at: 0 }
    }
}

impl Iterator for Order {
    type Item = BlockNumber;

    fn next(&mut self) -> Option<BlockNumber> {
        if self.next >= self.blocks {
            return None;
        }
        self.next += 1;
        let Some(step) = self.step else { return Some(self.next - 1) };
        self.at = (self.at + step) % u64::from(self.blocks);
        Some(self.at as BlockNumber)
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_comes_once() {
        for blocks in [64, 65, 1000, 4096] {
            for random in [false, true] {
                let mut seen: Vec<_> = Order::new(blocks, random).collect();
                let neighbours = seen.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count();
                assert_eq!(neighbours == 0, random);
                seen.sort_unstable();
                assert_eq!(seen, (0..blocks).collect::<Vec<_>>());
            }
        }
    }
}
