//! One way of I/O: a door, the relation's files and a pool, made for one run.

use std::sync::Arc;

use forebay_aio::{Aio, AioConfig, AioError, BackendType, HugePages, OpenOptions, PosixNamespace};
use forebay_format::{BLOCK_SIZE, Fork};
use forebay_storage::{
    Backend, BufferPool, PoolConfig, PrewarmMode, Smgr, SmgrConfig, kernel_cached_pages,
};
use forebay_aio::sync::Instant;

use super::super::measure::process_seconds;
use super::place::{DEFAULT_POOL, Place};
use super::{PoolBench, PoolTask, Way};
use crate::error::EngineError;

/// Backends of a door: the main one, those that change pages, the cleaner.
const OTHERS: usize = 4;

/// What a run gave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub seconds: f64,
    pub cpu_seconds: f64,
    /// Read and written.
    pub bytes: u64,
    pub ios: u64,
    /// How often someone waited for an I/O.
    pub waits: u64,
    pub live_tuples: Option<u64>,
    /// Buffers asked for, and of those how many had to wait for a victim's write.
    pub allocated: u64,
    pub victims_waited: u64,
    /// What the kernel caches of the relation afterwards.
    pub kernel_cached: u64,
    /// Syncing afterwards, which does not count.
    pub sync_seconds: f64,
}

/// A way of I/O, ready.
pub(super) struct Lane<'a> {
    pub(super) place: &'a Place,
    pub(super) way: Way,
    pub(super) be: Backend,
    pub(super) pool: Arc<BufferPool>,
}

impl<'a> Lane<'a> {
    pub(super) fn open(
        bench: &PoolBench,
        place: &'a Place,
        way: Way,
    ) -> Result<Lane<'a>, EngineError> {
        let config = AioConfig {
            max_backends: bench.threads + OTHERS,
            handles_per_backend: (bench.depth as usize * 2).clamp(64, 1024),
            combine_limit: way.combine as usize * BLOCK_SIZE,
            ..AioConfig::default()
        };
        let aio = Aio::new(Arc::new(PosixNamespace::new()), way.method, config)?;
        let files = SmgrConfig { direct: way.direct, ..SmgrConfig::default() };
        let smgr = Smgr::new(Arc::clone(&aio), place.dir(), files);
        let config = PoolConfig {
            buffers: buffers(bench, place),
            combine_limit: way.combine,
            checksums: place.checksums,
            write_depth: if bench.task == PoolTask::Checkpoint { bench.depth as usize } else { 16 },
            huge_pages: HugePages::Transparent,
        };
        let pool = BufferPool::new(config, aio, smgr)?;
        let be = Backend::new(pool.aio().backend(BackendType::Client)?);
        Ok(Lane { place, way, be, pool })
    }

    /// The run: with all memory touched before, and nothing in the pool or (unless it is to be
    /// warm) in the kernel's cache.
    pub(super) fn run(&mut self, bench: &PoolBench) -> Result<Sample, EngineError> {
        self.touch()?;
        if bench.warm {
            self.task(bench)?;
        }
        if !bench.warm || self.way.direct {
            self.forget()?;
        }
        let sample = self.task(bench)?;
        Ok(Sample { kernel_cached: self.kernel_cached()?, ..sample })
    }

    /// Uses each buffer once, and empties the pool.
    fn touch(&mut self) -> Result<(), EngineError> {
        let (rel, blocks) = (self.place.rel(), self.place.blocks());
        let mut used = 0;
        while used < self.pool.buffers() {
            let end = blocks.min((self.pool.buffers() - used) as u32);
            let (mode, be) = (PrewarmMode::Buffer, &mut self.be);
            used +=
                forebay_storage::prewarm(&self.pool, be, rel, Fork::Main, 0..end, mode)? as usize;
            self.pool.evict_all(&mut self.be)?;
        }
        Ok(())
    }

    /// Drops what the kernel caches of the relation.
    fn forget(&self) -> Result<(), EngineError> {
        let names = self.pool.aio().namespace();
        for path in self.place.files() {
            let file = names.open(&path, &OpenOptions::READ)?;
            names.forget_cached(&file)?;
        }
        Ok(())
    }

    fn kernel_cached(&self) -> Result<u64, EngineError> {
        let mut bytes = 0;
        for path in self.place.files() {
            bytes += kernel_cached_pages(self.pool.aio(), &path)?.0 * 4096;
        }
        Ok(bytes)
    }

    fn task(&mut self, bench: &PoolBench) -> Result<Sample, EngineError> {
        match bench.task {
            PoolTask::Scan => self.scan(bench),
            PoolTask::Prewarm(mode) => self.prewarm(mode),
            PoolTask::Evict => self.evict(bench),
            PoolTask::Checkpoint => self.checkpoint(),
        }
    }

    /// Takes the time of `body`, and what it read and wrote.
    pub(super) fn measured<T>(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<T, EngineError>,
    ) -> Result<(T, Sample), EngineError> {
        let before = self.counts();
        let begun = (Instant::now(), process_seconds());
        let value = body(self)?;
        let (seconds, cpu_seconds) = (begun.0.elapsed().as_secs_f64(), process_seconds() - begun.1);
        Ok((value, self.since(before, seconds, cpu_seconds)))
    }

    /// What was counted since `before`, in this time.
    pub(super) fn since(&self, before: Sample, seconds: f64, cpu_seconds: f64) -> Sample {
        let after = self.counts();
        Sample {
            seconds,
            cpu_seconds,
            bytes: after.bytes - before.bytes,
            ios: after.ios - before.ios,
            waits: after.waits - before.waits,
            allocated: after.allocated - before.allocated,
            victims_waited: after.victims_waited - before.victims_waited,
            ..Sample::default()
        }
    }

    /// Everything counted so far.
    pub(super) fn counts(&self) -> Sample {
        let aio = self.pool.aio();
        let stats = self.pool.stats();
        let mut sum = Sample {
            allocated: stats.allocated,
            victims_waited: stats.victims_waited,
            ..Sample::default()
        };
        for row in aio.backend_stats() {
            sum.bytes += row.read_bytes + row.write_bytes;
            sum.ios += row.reads + row.writes;
            sum.waits += row.waits;
        }
        sum
    }

    /// Another backend on the same pool.
    pub(super) fn backend(&self) -> Result<Backend, AioError> {
        Ok(Backend::new(self.pool.aio().backend(BackendType::Client)?))
    }
}

/// Buffers of the pool: what is asked for, or what suits.
fn buffers(bench: &PoolBench, place: &Place) -> usize {
    let suits = match bench.task {
        // All of the relation, with room for the buffers that are being read.
        PoolTask::Prewarm(PrewarmMode::Buffer) => {
            u64::from(place.blocks()) * 9 / 8 * BLOCK_SIZE as u64
        }
        PoolTask::Checkpoint => u64::from(place.blocks()) * BLOCK_SIZE as u64,
        _ => DEFAULT_POOL,
    };
    (bench.shared_buffers.unwrap_or(suits) as usize / BLOCK_SIZE).max(16)
}
