//! Pages reach the disk intact: nothing changes a page while it is written, and each has the right
//! checksum on disk.

use crate::fixture::{Fixture, Spec, change, each, stamp, version};
use crate::wal::pin;
use forebay_aio::execute::{Executor, PosixExecutor, Request};
use forebay_aio::{Errno, OpKind};
use forebay_format::{PageBytes, checksum};
use forebay_storage::{BufferPool, Cleaner, CleanerOptions, WriteScope};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const BLOCKS: u32 = 96;
const ROUNDS: u64 = 6;

/// Changes pages until it is stopped. Each page's version only rises.
fn keep_changing(fixture: &Fixture, pool: &Arc<BufferPool>, first: u32, stop: &AtomicBool) {
    let mut backend = fixture.backend();
    let mut block = first;
    while !stop.load(Ordering::SeqCst) {
        change(&pin(pool, &mut backend, block), |page| {
            let next = version(page, block) + 1;
            stamp(page, block, next);
        });
        block = (block + 7) % BLOCKS;
    }
}

fn keep_looking(fixture: &Fixture, pool: &Arc<BufferPool>, stop: &AtomicBool) {
    let (mut backend, mut block) = (fixture.backend(), 0);
    while !stop.load(Ordering::SeqCst) {
        let pinned = pin(pool, &mut backend, block);
        version(&pinned.lock_shared().copy(), block);
        block = (block + 5) % BLOCKS;
    }
}

/// Stops the threads when dropped, so that a failed assertion does not leave them running.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Runs passes and the cleaner while threads change and read pages. The pool is smaller than the
/// relation.
fn write_under_load(fixture: &Fixture, passes: u64, then: impl Fn()) {
    let mut backend = fixture.backend();
    let pool = fixture.cold().1;
    for _ in 0..ROUNDS {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let (pool, stop) = (&pool, &stop);
            (0..2)
                .for_each(|n| drop(scope.spawn(move || keep_changing(fixture, pool, n * 3, stop))));
            scope.spawn(move || keep_looking(fixture, pool, stop));
            scope.spawn(move || {
                let (mut backend, mut cleaner) = (fixture.backend(), Cleaner::default());
                while !stop.load(Ordering::SeqCst) {
                    cleaner.step(pool, &mut backend, &CleanerOptions::default()).unwrap();
                    thread::yield_now();
                }
            });
            let _end = StopAtEnd(stop);
            for _ in 0..passes {
                pool.write_dirty(&mut backend, WriteScope::All).unwrap();
            }
        });
        then();
    }
    pool.write_dirty(&mut backend, WriteScope::All).unwrap();
    assert_eq!(pool.evict_all(&mut backend).unwrap(), 0);
    let cold = fixture.cold().1;
    for block in 0..BLOCKS {
        let latest = version(&pin(&cold, &mut backend, block).lock_shared().copy(), block);
        assert_eq!(version(&fixture.on_disk(block), block), latest);
    }
}

/// The pages of a write, as they are now.
fn pages_of(request: &Request<'_>) -> Vec<PageBytes> {
    request.bytes().chunks_exact(8192).map(|page| page.try_into().unwrap()).collect()
}

/// Compares the pages before and after a write, and gives other threads time in between.
#[derive(Default)]
struct Suspicious {
    pages: AtomicU64,
}

impl Executor for Suspicious {
    fn execute(&self, request: &Request<'_>) -> Result<usize, Errno> {
        if request.op() != OpKind::Writev {
            return PosixExecutor.execute(request);
        }
        let before = pages_of(request);
        let first = (request.offset() / 8192) as u32;
        for (page, block) in before.iter().zip(first..) {
            checksum::verify_page(page, block).expect("the page left with a wrong checksum");
        }
        let result = PosixExecutor.execute(request);
        (0..20).for_each(|_| thread::yield_now());
        assert!(before == pages_of(request), "a page changed while it was written");
        self.pages.fetch_add(before.len() as u64, Ordering::SeqCst);
        result
    }
}

#[test]
fn pages_do_not_change_during_their_write() {
    let executor = Arc::new(Suspicious::default());
    let spec = Spec { buffers: 64, ..Spec::plain() };
    let fixture = Fixture::with_executor(spec, Arc::clone(&executor) as Arc<dyn Executor>);
    fixture.fill(&mut fixture.backend(), BLOCKS);
    // How much a pass writes depends on the scheduling of the threads.
    while executor.pages.load(Ordering::SeqCst) < 1000 {
        write_under_load(&fixture, 20, || ());
    }
}

#[test]
fn every_page_on_disk_has_the_right_checksum() {
    each(Spec { buffers: 64, ..Spec::plain() }, |fixture| {
        fixture.fill(&mut fixture.backend(), BLOCKS);
        // While nothing is in flight, every page on disk must be intact, whether newest or not.
        write_under_load(fixture, 6, || {
            for block in 0..BLOCKS {
                version(&fixture.on_disk(block), block);
            }
        });
    });
}
