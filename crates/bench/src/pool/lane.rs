//! What one run works with: an I/O method, the relation's files and a pool.

use std::sync::Arc;

use forebay_aio::{Aio, AioConfig, AioError, BackendType, HugePages, OpenOptions, PosixNamespace};
use forebay_format::{BLOCK_SIZE, Fork};
use forebay_storage::{
    Backend, BufferPool, PoolConfig, PrewarmMode, Smgr, SmgrConfig, kernel_cached_pages,
};

use super::plan::{IoSetup, PoolBench, PoolTask};
use super::relation::{DEFAULT_POOL, Relation};
use crate::error::BenchError;
use crate::measure::Stopwatch;
use crate::stats::Transfer;

/// Backends beside those that change pages: the run's own, the cleaner, and some to spare.
const OTHER_BACKENDS: usize = 4;

/// What a run gave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// Bytes and I/Os, read and written.
    pub(super) moved: Transfer,
    /// Waits for an I/O.
    pub(super) waits: u64,
    pub(super) live_tuples: Option<u64>,
    /// Buffers asked for, and how many of them waited for a victim's write.
    pub(super) allocated: u64,
    pub(super) victims_waited: u64,
    /// Bytes of the relation in the kernel's cache after the run.
    pub(super) kernel_cached: u64,
    /// Seconds of the sync after the run, which the run's time leaves out.
    pub(super) sync_seconds: f64,
}

/// What one run works with.
pub(super) struct Lane<'a> {
    pub(super) relation: &'a Relation,
    pub(super) setup: IoSetup,
    pub(super) backend: Backend,
    pub(super) pool: Arc<BufferPool>,
}

impl<'a> Lane<'a> {
    pub(super) fn open(
        bench: &PoolBench,
        relation: &'a Relation,
        setup: IoSetup,
    ) -> Result<Lane<'a>, BenchError> {
        let config = AioConfig {
            max_backends: bench.threads + OTHER_BACKENDS,
            handles_per_backend: (bench.depth as usize * 2).clamp(64, 1024),
            combine_limit: setup.combine as usize * BLOCK_SIZE,
            ..AioConfig::default()
        };
        let aio = Aio::new(Arc::new(PosixNamespace::new()), setup.method, config)?;
        let files = SmgrConfig { direct: setup.direct, ..SmgrConfig::default() };
        let smgr = Smgr::new(Arc::clone(&aio), &relation.dir, files);
        let config = PoolConfig {
            buffers: buffers(bench, relation),
            combine_limit: setup.combine,
            checksums: relation.checksums,
            write_depth: if bench.task == PoolTask::Checkpoint { bench.depth as usize } else { 16 },
            huge_pages: HugePages::Transparent,
            ..PoolConfig::default()
        };
        let pool = BufferPool::new(config, aio, smgr)?;
        let backend = Backend::new(pool.aio().backend(BackendType::Client)?);
        Ok(Lane { relation, setup, backend, pool })
    }

    /// Uses each buffer once, and empties the pool.
    pub(super) fn touch(&mut self) -> Result<(), BenchError> {
        let (rel, blocks) = (self.relation.rel, self.relation.blocks);
        let mut used = 0;
        while used < self.pool.buffers() {
            let end = blocks.min((self.pool.buffers() - used) as u32);
            let (mode, backend) = (PrewarmMode::Buffer, &mut self.backend);
            used += forebay_storage::prewarm(&self.pool, backend, rel, Fork::Main, 0..end, mode)?
                as usize;
            self.pool.evict_all(&mut self.backend)?;
        }
        Ok(())
    }

    /// Drops what the kernel caches of the relation.
    pub(super) fn forget(&self) -> Result<(), BenchError> {
        let names = self.pool.aio().namespace();
        for path in self.relation.files() {
            let file = names.open(&path, &OpenOptions::READ)?;
            names.forget_cached(&file)?;
        }
        Ok(())
    }

    /// Bytes of the relation in the kernel's cache.
    pub(super) fn kernel_cached(&self) -> Result<u64, BenchError> {
        let mut bytes = 0;
        for path in self.relation.files() {
            bytes += kernel_cached_pages(self.pool.aio(), &path)?.0 * 4096;
        }
        Ok(bytes)
    }

    /// Runs `body`, and measures its time and what it read and wrote.
    pub(super) fn measured<T>(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<T, BenchError>,
    ) -> Result<(T, Sample), BenchError> {
        let (before, watch) = (self.counts(), Stopwatch::start());
        let value = body(self)?;
        Ok((value, self.since(&before, &watch)))
    }

    /// What happened since `before` was counted.
    pub(super) fn since(&self, before: &Sample, watch: &Stopwatch) -> Sample {
        let (seconds, cpu_seconds) = (watch.seconds(), watch.cpu_seconds());
        let after = self.counts();
        Sample {
            moved: Transfer {
                bytes: after.moved.bytes - before.moved.bytes,
                ios: after.moved.ios - before.moved.ios,
                seconds,
                cpu_seconds,
            },
            waits: after.waits - before.waits,
            allocated: after.allocated - before.allocated,
            victims_waited: after.victims_waited - before.victims_waited,
            ..Sample::default()
        }
    }

    /// Everything counted so far.
    pub(super) fn counts(&self) -> Sample {
        let stats = self.pool.stats();
        let mut sum = Sample {
            allocated: stats.allocated,
            victims_waited: stats.victims_waited,
            ..Sample::default()
        };
        for row in self.pool.aio().backend_stats() {
            sum.moved.bytes += row.read_bytes + row.write_bytes;
            sum.moved.ios += row.reads + row.writes;
            sum.waits += row.waits;
        }
        sum
    }

    /// Another backend on the same pool.
    pub(super) fn backend(&self) -> Result<Backend, AioError> {
        Ok(Backend::new(self.pool.aio().backend(BackendType::Client)?))
    }
}

/// Buffers of the pool: as the options say, or as suits the task.
fn buffers(bench: &PoolBench, relation: &Relation) -> usize {
    let suits = match bench.task {
        // All of the relation, with room for the buffers that are being read.
        PoolTask::Prewarm(PrewarmMode::Buffer) => {
            u64::from(relation.blocks) * 9 / 8 * BLOCK_SIZE as u64
        }
        PoolTask::Checkpoint => u64::from(relation.blocks) * BLOCK_SIZE as u64,
        _ => DEFAULT_POOL,
    };
    (bench.shared_buffers.unwrap_or(suits) as usize / BLOCK_SIZE).max(16)
}
