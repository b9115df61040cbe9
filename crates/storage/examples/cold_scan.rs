//! Measures a cold sequential scan through a read stream, prewarming in two modes, and a
//! checkpoint's write pass.
//!
//! `cold_scan DIR METHOD direct|buffered MEGABYTES CONCURRENCY COMBINE`

use forebay_aio::{Aio, AioConfig, BackendType, MethodKind, PosixNamespace, WorkerLimits};
use forebay_format::{Fork, PageMut, RelFileLocator};
use forebay_storage::{
    Backend, BufferPool, PoolConfig, PrewarmMode, ReadStream, Smgr, SmgrConfig, Strategy,
    StreamFlags, StreamSettings, WriteScope,
};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

const REL: RelFileLocator = RelFileLocator::in_default(5, 16_384);

struct Bench {
    dir: PathBuf,
    aio: Arc<Aio>,
    direct: bool,
    concurrency: u32,
    combine: u32,
}

impl Bench {
    fn smgr(&self) -> Arc<Smgr> {
        Smgr::new(
            Arc::clone(&self.aio),
            &self.dir,
            SmgrConfig { direct: self.direct, ..SmgrConfig::default() },
        )
    }

    fn pool(&self, buffers: usize) -> Result<(Arc<BufferPool>, Backend), Box<dyn Error>> {
        let config = PoolConfig { buffers, combine_limit: self.combine, ..PoolConfig::default() };
        let pool = BufferPool::new(config, Arc::clone(&self.aio), self.smgr())?;
        // Fault the memory in first, as in a server that has run for a while.
        let mut backend = Backend::new(self.aio.backend(BackendType::Standalone)?);
        let warm = RelFileLocator::in_default(5, 1);
        pool.smgr().create(warm, Fork::Main, true)?;
        let mut made = pool.nblocks(warm, Fork::Main)? as usize;
        while made < buffers {
            made += pool.extend(&mut backend, warm, Fork::Main, 1024, Strategy::Normal)?.len();
        }
        pool.drop_relation(&mut backend, warm)?;
        drop_kernel_cache(&self.dir)?;
        Ok((pool, backend))
    }

    fn scan(
        &self,
        pool: &Arc<BufferPool>,
        backend: &mut Backend,
        strategy: Strategy,
        dirty: bool,
    ) -> Result<(), Box<dyn Error>> {
        let mut next = 0..pool.nblocks(REL, Fork::Main)?;
        let flags = StreamFlags::DEFAULT;
        let mut stream = ReadStream::new(
            pool,
            REL,
            Fork::Main,
            || next.next(),
            flags,
            strategy,
            StreamSettings::new(self.concurrency, self.combine),
        );
        let mut sum = 0u64;
        while let Some(pin) = stream.next(backend)? {
            if dirty {
                pin.lock_exclusive().mark_dirty();
            } else {
                sum += pin.lock_shared().page().upper() as u64;
            }
        }
        assert!(dirty || sum > 0);
        Ok(())
    }

    fn load(&self, blocks: u32) -> Result<(), Box<dyn Error>> {
        let (pool, mut backend) = self.pool(16_384)?;
        if pool.smgr().exists(REL, Fork::Main)? {
            return Ok(());
        }
        let watch = Watch::new();
        pool.smgr().create(REL, Fork::Main, false)?;
        let mut made = 0;
        while made < blocks {
            for pin in pool.extend(&mut backend, REL, Fork::Main, 64, Strategy::BulkWrite)? {
                let mut page = pin.lock_exclusive();
                PageMut(&mut page).init(0);
                page[100..104].copy_from_slice(&pin.tag().block.to_le_bytes());
                page.mark_dirty();
                made += 1;
            }
        }
        pool.write_dirty(&mut backend, WriteScope::All)?;
        pool.sync_pending(&mut backend)?;
        watch.report("load, write, sync", blocks);
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [dir, method, direct, megabytes, concurrency, combine] = args.as_slice() else {
        return Err("cold_scan DIR METHOD direct|buffered MEGABYTES CONCURRENCY COMBINE".into());
    };
    let method = match method.as_str() {
        "sync" => MethodKind::Sync,
        "worker" => MethodKind::Worker(WorkerLimits::fixed(3)),
        _ => MethodKind::IoUring,
    };
    std::fs::create_dir_all(Path::new(dir).join("base/5"))?;
    let bench = Bench {
        dir: dir.into(),
        aio: Aio::new(Arc::new(PosixNamespace), method, AioConfig::default())?,
        direct: direct == "direct",
        concurrency: concurrency.parse()?,
        combine: combine.parse()?,
    };
    bench.load(megabytes.parse::<u32>()? * 128)?;
    let blocks = bench.smgr().nblocks(REL, Fork::Main)?;

    for (name, strategy) in [("bulk scan", Strategy::BulkRead), ("scan", Strategy::Normal)] {
        let (pool, mut backend) = bench.pool(16_384)?;
        let watch = Watch::new();
        bench.scan(&pool, &mut backend, strategy, false)?;
        watch.report(name, blocks);
    }
    for (name, mode) in
        [("prewarm read", PrewarmMode::Read), ("prewarm buffer", PrewarmMode::Buffer)]
    {
        let (pool, mut backend) = bench.pool(blocks as usize + 1000)?;
        let watch = Watch::new();
        pool.prewarm(&mut backend, REL, Fork::Main, mode)?;
        watch.report(name, blocks);
        if mode == PrewarmMode::Buffer {
            let watch = Watch::new();
            bench.scan(&pool, &mut backend, Strategy::Normal, false)?;
            watch.report("scan, cached", blocks);
            bench.scan(&pool, &mut backend, Strategy::Normal, true)?;
            let watch = Watch::new();
            let written = pool.write_dirty(&mut backend, WriteScope::All)?;
            pool.sync_pending(&mut backend)?;
            watch.report("checkpoint", blocks);
            println!("{} pages in {} writes", written.buffers, written.writes);
        }
    }
    Ok(())
}

/// Wall-clock time and processor time.
struct Watch(Instant, f64);

impl Watch {
    fn new() -> Self {
        Watch(Instant::now(), cpu_seconds())
    }

    fn report(&self, what: &str, blocks: u32) {
        let (wall, cpu) = (self.0.elapsed().as_secs_f64(), cpu_seconds() - self.1);
        let gigabytes = f64::from(blocks) * 8192.0 / 1e9;
        println!(
            "{what:20} {wall:7.3} s {:6.2} GB/s {:4.0} % of a core",
            gigabytes / wall,
            100.0 * cpu / wall
        );
    }
}

/// Processor time of this process.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks: u64 =
        stat.split_whitespace().skip(13).take(2).filter_map(|t| t.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}

fn drop_kernel_cache(dir: &Path) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    for entry in std::fs::read_dir(dir.join("base/5"))? {
        let file = std::fs::File::open(entry?.path())?;
        file.sync_all()?;
        // SAFETY: this is advice about an open descriptor.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    }
    Ok(())
}
