//! What runs do.

use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_aio::sync::{Instant, thread};
use forebay_format::{BlockNumber, Fork};
use forebay_storage::{
    Backend, Cleaner, CleanerOptions, PrewarmMode, ReadStream, Strategy, StreamFlags,
    StreamSettings, WriteScope, prewarm,
};

use super::lane::{Lane, Sample};
use super::live::live_tuples;
use super::plan::{PoolBench, PoolTask};
use crate::error::BenchError;
use crate::measure::{Noise, Stopwatch};
use crate::threads::{Gate, Leaving, joined};

/// Pages that are changed between two looks at the clock.
const BETWEEN_LOOKS: u32 = 256;

/// Makes one run. Its buffers have been touched before, and the pool and (unless the run is to be
/// warm) the kernel's cache hold nothing of the relation.
pub(super) fn run(lane: &mut Lane<'_>, bench: &PoolBench) -> Result<Sample, BenchError> {
    lane.touch()?;
    if bench.warm {
        task(lane, bench)?;
    }
    if !bench.warm || lane.setup.direct {
        lane.forget()?;
    }
    let sample = task(lane, bench)?;
    Ok(Sample { kernel_cached: lane.kernel_cached()?, ..sample })
}

fn task(lane: &mut Lane<'_>, bench: &PoolBench) -> Result<Sample, BenchError> {
    match bench.task {
        PoolTask::Scan => scan(lane, bench),
        PoolTask::Prewarm(mode) => read_all(lane, mode),
        PoolTask::Evict => evict(lane, bench),
        PoolTask::Checkpoint => checkpoint(lane),
    }
}

/// Reads every page through a stream, and counts live tuples.
fn scan(lane: &mut Lane<'_>, bench: &PoolBench) -> Result<Sample, BenchError> {
    let (live, sample) = lane.measured(|lane| {
        let blocks = lane.relation.blocks;
        let most = bench.most_blocks.unwrap_or(blocks).min(blocks) as usize;
        let mut order = Order::new(blocks, bench.random).take(most);
        let large = blocks as usize > lane.pool.buffers() / 4;
        let strategy = if large { Strategy::BulkRead } else { Strategy::Normal };
        let flags = if bench.random { StreamFlags::DEFAULT } else { StreamFlags::SEQUENTIAL };
        let mut stream = ReadStream::new(
            &lane.pool,
            lane.relation.rel,
            Fork::Main,
            || order.next(),
            flags,
            strategy,
            StreamSettings::new(bench.depth, lane.setup.combine),
        );
        let mut live = 0;
        while let Some(pin) = stream.next(&mut lane.backend)? {
            live += live_tuples(pin.lock_shared().page());
        }
        Ok(live)
    })?;
    Ok(Sample { live_tuples: Some(live), ..sample })
}

/// Reads the relation into memory.
fn read_all(lane: &mut Lane<'_>, mode: PrewarmMode) -> Result<Sample, BenchError> {
    let (_, sample) = lane.measured(|lane| {
        let (rel, blocks) = (lane.relation.rel, lane.relation.blocks);
        Ok(prewarm(&lane.pool, &mut lane.backend, rel, Fork::Main, 0..blocks, mode)?)
    })?;
    Ok(sample)
}

/// Threads change random pages while a cleaner works. The first fifth of the time, in which the
/// pool fills up, is not measured.
fn evict(lane: &mut Lane<'_>, bench: &PoolBench) -> Result<Sample, BenchError> {
    let shared = &*lane;
    let stop = AtomicBool::new(false);
    // A changer leaves early only if it fails.
    let gate = Gate::default();
    let sample = thread::scope(|scope| -> Result<Sample, BenchError> {
        let cleaner = {
            let (backend, stop) = (shared.backend()?, &stop);
            scope.spawn(move || clean(shared, backend, stop))
        };
        let backends: Result<Vec<Backend>, _> =
            (0..bench.threads).map(|_| shared.backend()).collect();
        let users: Vec<_> = (0..)
            .zip(backends?)
            .map(|(seed, backend)| {
                let (stop, gate) = (&stop, &gate);
                scope.spawn(move || {
                    let _leaving = Leaving(gate);
                    change_pages(shared, bench, seed, backend, stop)
                })
            })
            .collect();
        gate.left(1, bench.run_time / 5);
        let (before, watch) = (shared.counts(), Stopwatch::start());
        gate.left(1, bench.run_time);
        let sample = shared.since(&before, &watch);
        stop.store(true, Ordering::SeqCst);
        for user in users {
            joined(user.join())?;
        }
        while !cleaner.is_finished() {
            shared.pool.wake_cleaner();
            thread::yield_now();
        }
        joined(cleaner.join())?;
        Ok(sample)
    })?;
    // So that the kernel's cache does not keep any of it either.
    lane.pool.write_dirty(&mut lane.backend, WriteScope::All)?;
    lane.pool.sync_pending(&mut lane.backend)?;
    Ok(sample)
}

/// Writes dirty pages ahead of those who need buffers, until `stop`.
fn clean(lane: &Lane<'_>, mut backend: Backend, stop: &AtomicBool) -> Result<(), BenchError> {
    let (mut cleaner, options) = (Cleaner::default(), CleanerOptions::default());
    while !stop.load(Ordering::SeqCst) {
        let report = cleaner.step(&lane.pool, &mut backend, &options)?;
        cleaner.rest(&lane.pool, &options, report);
    }
    Ok(())
}

/// Changes random pages until `stop`.
fn change_pages(
    lane: &Lane<'_>,
    bench: &PoolBench,
    seed: u64,
    mut backend: Backend,
    stop: &AtomicBool,
) -> Result<(), BenchError> {
    let blocks = lane.relation.blocks;
    let mut noise = Noise::new(seed + 1);
    let mut left = BETWEEN_LOOKS;
    let next = || {
        left = if left == 0 { BETWEEN_LOOKS } else { left - 1 };
        (left > 0 || !stop.load(Ordering::SeqCst))
            .then(|| (noise.next() % u64::from(blocks)) as BlockNumber)
    };
    let depth = (bench.depth / bench.threads as u32).max(1);
    change(lane, &mut backend, next, depth)
}

/// Changes a byte of each of these pages.
fn change(
    lane: &Lane<'_>,
    backend: &mut Backend,
    blocks: impl FnMut() -> Option<BlockNumber>,
    depth: u32,
) -> Result<(), BenchError> {
    let mut stream = ReadStream::new(
        &lane.pool,
        lane.relation.rel,
        Fork::Main,
        blocks,
        StreamFlags::FULL,
        Strategy::Normal,
        StreamSettings::new(depth, lane.setup.combine),
    );
    while let Some(pin) = stream.next(backend)? {
        let mut page = pin.lock_exclusive();
        // Behind the header.
        page[100] = page[100].wrapping_add(1);
        page.mark_dirty();
    }
    Ok(())
}

/// Fills the pool with dirty pages, and measures writing them, without the sync.
fn checkpoint(lane: &mut Lane<'_>) -> Result<Sample, BenchError> {
    let most = (lane.pool.buffers() as u32).min(lane.relation.blocks);
    let mut blocks = 0..most;
    let mut backend = lane.backend()?;
    change(lane, &mut backend, || blocks.next(), 32)?;
    drop(backend);
    let (_, sample) =
        lane.measured(|lane| Ok(lane.pool.write_dirty(&mut lane.backend, WriteScope::All)?))?;
    let begun = Instant::now();
    lane.pool.sync_pending(&mut lane.backend)?;
    Ok(Sample { sync_seconds: begun.elapsed().as_secs_f64(), ..sample })
}

/// The order in which a scan takes its blocks.
struct Order {
    blocks: BlockNumber,
    next: BlockNumber,
    /// The step of a random order. It is prime to the number of blocks, so that each comes once.
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
