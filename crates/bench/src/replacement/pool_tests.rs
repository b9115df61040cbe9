//! The buffer pool decides as the policy `reuse` does: the same references, one by one, to both.

use std::sync::Arc;

use forebay_aio::{Aio, AioConfig, BackendType, HugePages, MethodKind, PosixNamespace};
use forebay_format::{Fork, PageTag, RelFileLocator};
use forebay_storage::{AccessKind, Backend, BufferPool, PoolConfig, Smgr, SmgrConfig, Strategy};

use super::policies::{POLICIES, Reference, Setup};
use super::synthetic;
use super::trace::Trace;
use crate::measure::Noise;

const REL: RelFileLocator = RelFileLocator::in_default(5, 16_384);

/// Which references the simulator finds in memory.
fn simulated(trace: &Trace, buffers: usize) -> Vec<bool> {
    let (_, make) = POLICIES.iter().find(|(name, _)| *name == "reuse").expect("the policy");
    let mut made = make(&Setup { buffers, pages: trace.pages, trace: &trace.references });
    trace.references.iter().map(|&reference| made.refer(reference)).collect()
}

/// Which references a pool finds in memory. All pages are zeros.
fn of_a_pool(trace: &Trace, buffers: usize) -> Vec<bool> {
    let dir = tempfile::tempdir().expect("a directory");
    let aio = Aio::new(Arc::new(PosixNamespace::new()), MethodKind::Sync, AioConfig::default())
        .expect("an I/O layer");
    let smgr = Smgr::new(Arc::clone(&aio), dir.path(), SmgrConfig::default());
    let config = PoolConfig { buffers, huge_pages: HugePages::Off, ..PoolConfig::default() };
    let pool = || BufferPool::new(config.clone(), Arc::clone(&aio), Arc::clone(&smgr));
    let mut backend = Backend::new(aio.backend(BackendType::Client).expect("a slot"));
    smgr.create(REL, Fork::Main, true).expect("a relation");
    let (filler, mut left) = (pool().expect("a pool"), trace.pages);
    while left > 0 {
        let wanted = left.min(16) as u32;
        let made = filler.extend(&mut backend, REL, Fork::Main, wanted, Strategy::Normal);
        left -= made.expect("pages").len();
    }
    drop(filler);
    // Its uses are not the tested pool's.
    let mut backend = Backend::new(aio.backend(BackendType::Client).expect("a slot"));
    let pool = pool().expect("a pool");
    let refer = |reference: &Reference| {
        let strategy = match reference.access {
            AccessKind::Normal => Strategy::Normal,
            AccessKind::BulkRead => Strategy::BulkRead,
            AccessKind::BulkWrite => Strategy::BulkWrite,
            AccessKind::Vacuum => Strategy::VACUUM,
        };
        let before = pool.stats().allocated;
        let tag = PageTag::new(REL, Fork::Main, reference.page);
        drop(pool.read(&mut backend, tag, strategy).expect("a page"));
        pool.stats().allocated == before
    };
    let hits = trace.references.iter().map(refer).collect();
    assert!(pool.has_sound_places());
    hits
}

/// How many references are hits in the simulator, how many in a pool, and how many differ.
fn compare(trace: &Trace, buffers: usize) -> (usize, usize, usize) {
    let (simulated, seen) = (simulated(trace, buffers), of_a_pool(trace, buffers));
    let hits = |of: &[bool]| of.iter().filter(|&&hit| hit).count();
    let differ = simulated.iter().zip(&seen).filter(|(a, b)| a != b).count();
    (hits(&simulated), hits(&seen), differ)
}

/// The simulator knows the last so many ghosts. The pool's table loses a few of them, where a line
/// is full, so that hit rates may differ a little for traces with many pages.
#[test]
fn the_pool_hits_what_the_simulator_hits() {
    const BUFFERS: usize = 256;
    for trace in synthetic::traces(BUFFERS) {
        let (simulated, seen, differ) = compare(&trace, BUFFERS);
        let (name, all) = (&trace.name, trace.references.len());
        let away = simulated.abs_diff(seen);
        assert!(away * 100 <= all, "{name}: {simulated} and {seen} of {all}");
        if trace.pages <= 2 * BUFFERS {
            assert_eq!(differ, 0, "{name}: each decision is the same while no ghost is lost");
        }
    }
}

/// Accesses of all kinds, to pages that are used more or less often, and in runs.
#[test]
fn the_pool_hits_what_the_simulator_hits_of_mixed_accesses() {
    for seed in 1..20_u64 {
        let mut noise = Noise::new(seed);
        let (pages, buffers) = (100 + seed * 15, 64 + 8 * seed as usize);
        let mut references = Vec::new();
        for n in 0..12_000_u64 {
            let skewed = noise.next() % (1 + noise.next() % pages);
            let page = if noise.next().is_multiple_of(3) { n / 2 % pages } else { skewed };
            let access = match noise.next() % 8 {
                0 | 1 => AccessKind::BulkRead,
                2 => AccessKind::Vacuum,
                3 => AccessKind::BulkWrite,
                _ => AccessKind::Normal,
            };
            references.push(Reference { page: page as u32, backend: 0, access });
        }
        let name = format!("mixed, seed {seed}");
        let trace = Trace { name, references, pages: pages as usize, begin: 0 };
        let (simulated, seen, differ) = compare(&trace, buffers);
        assert_eq!((simulated, differ), (seen, 0), "{}", trace.name);
    }
}
