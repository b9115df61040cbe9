//! Random batches with and without merging have the same bytes in file and memory, and the same end
//! of each I/O: with short reads at the end of the file, and blocks that can't be read or written.

use std::sync::Arc;

use forebay_aio::execute::{Executor, PosixExecutor, Request};
use forebay_aio::*;
use proptest::prelude::*;
use tempfile::TempDir;

use crate::common::{bytes, cases, config, fill};

const BLOCK: usize = 4096;
const BLOCKS: usize = 24;
/// The file ends here, within a block.
const END: usize = 19 * BLOCK + 100;

/// A disk with one bad block, if any.
struct Bad(Option<u64>);

impl Executor for Bad {
    fn execute(&self, r: &Request<'_>) -> Result<usize, Errno> {
        let block = BLOCK as u64;
        let hit =
            |bad: u64| r.offset() < (bad + 1) * block && bad * block < r.offset() + r.length();
        if r.length() > 0 && self.0.is_some_and(hit) {
            Err(Errno::IO)
        } else {
            PosixExecutor.execute(r)
        }
    }
}

/// A read of some blocks, or a write of one.
#[derive(Clone, Copy, Debug)]
struct Step {
    write: bool,
    block: usize,
    blocks: usize,
}

type End = (usize, Status, Option<Errno>);

/// Runs the batches one after the other; returns the end of each I/O, and all bytes.
fn run(aio: &Arc<Aio>, batches: &[Vec<Step>], limit: usize) -> (Vec<End>, Vec<u8>, Vec<u8>) {
    aio.set_combine_limit(limit);
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("f");
    let region = Region::new(2 * BLOCKS * BLOCK).unwrap();
    fill(&region, 0, region.len(), 3);
    std::fs::write(&path, bytes(&region, 7 * BLOCK, END)).unwrap();
    let file = aio.namespace().open(&path, &OpenOptions::READ_WRITE).unwrap();
    let mut backend = aio.backend(BackendType::Client).unwrap();
    let mut ends = Vec::new();
    for batch in batches {
        // I/Os in flight have no order, so those of one batch don't overlap.
        let mut used = [false; BLOCKS];
        backend.begin_batch();
        let mut refs = Vec::new();
        for step in batch {
            let range = step.block..(step.block + step.blocks).min(BLOCKS);
            if used[range.clone()].iter().any(|&u| u) {
                continue;
            }
            used[range.clone()].fill(true);
            // Reads go to the first half of the region, writes come from the second.
            let base = if step.write { BLOCKS } else { 0 };
            let memory =
                IoMemory::new(region.clone(), (base + range.start) * BLOCK, range.len() * BLOCK);
            let offset = (range.start * BLOCK) as u64;
            let op = if step.write {
                Op::Writev { offset, memory }
            } else {
                Op::Readv { offset, memory }
            };
            let r = backend.start(Io::new(file.clone(), op, Target::File));
            refs.push((r, range, step.write));
        }
        backend.end_batch();
        for (r, range, write) in refs {
            let report = backend.wait(r).report().unwrap();
            if report.outcome.status == Status::Error && !write {
                // A failed read may have brought a part before.
                fill(&region, range.start * BLOCK, range.len() * BLOCK, 0);
            }
            ends.push((report.transferred, report.outcome.status, report.errno()));
        }
    }
    drop(backend);
    (ends, std::fs::read(&path).unwrap(), bytes(&region, 0, region.len()))
}

fn batches() -> impl Strategy<Value = Vec<Vec<Step>>> {
    let step = (any::<bool>(), 0..BLOCKS, 1usize..4).prop_map(|(write, block, blocks)| Step {
        write: write && block < 19, // the file keeps its end
        block,
        blocks: if write { 1 } else { blocks },
    });
    prop::collection::vec(prop::collection::vec(step, 1..16), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn merging_changes_nothing_on_a_bad_disk(
        batches in batches(),
        bad in prop::option::of(0u64..19),
        limit in 2usize..12,
        seed in any::<u64>(),
    ) {
        let names = || Arc::new(PosixNamespace);
        let disk = || Arc::new(Bad(bad));
        let workers =
            Aio::with_workers(names(), disk(), config(), WorkerLimits::fixed(2)).unwrap();
        let deferred = |method: Deferred| {
            Aio::with_method(names(), disk(), config(), |table| Ok(method.over(table))).unwrap()
        };
        let plain = run(&workers, &batches, 0);
        let (whole, cutting) = (Deferred::new(seed), Deferred::cutting(seed));
        for aio in [workers, deferred(whole), deferred(cutting)] {
            let merged = run(&aio, &batches, limit * BLOCK);
            prop_assert!(merged == plain, "under {}", aio.method_name());
        }
    }

    #[test]
    fn merging_changes_nothing_under_any_method(batches in batches(), limit in 2usize..12) {
        let plain = {
            let aio = Aio::new(Arc::new(PosixNamespace), MethodKind::Sync, config()).unwrap();
            run(&aio, &batches, 0)
        };
        for case in cases().into_iter().filter(|c| !c.direct) {
            let aio = Aio::new(Arc::new(PosixNamespace), case.method, config()).unwrap();
            let merged = run(&aio, &batches, limit * BLOCK);
            prop_assert!(merged == plain, "under {}", aio.method_name());
        }
    }
}
