//! Looking into the pool: its buffers, requests about them, checksums in memory, and the kernel's
//! cache of the same files.

use crate::fixture::{Fixture, REL, Spec, change, each, stamp, tag, version};
use forebay_format::{Fork, RelFileLocator};
use forebay_storage::{BufferPage, Dirtied, EvictReport, Evicted, Strategy, WriteScope};

const OTHER: RelFileLocator = RelFileLocator::in_default(5, 16_385);

/// The buffer that the pool shows for a block of [`REL`].
fn shown(fixture: &Fixture, block: u32) -> Option<(u32, BufferPage)> {
    fixture
        .pool
        .inspect()
        .find_map(|b| b.page.filter(|page| page.tag == tag(block)).map(|page| (b.buffer, page)))
}

#[test]
fn the_pool_shows_what_its_buffers_hold() {
    each(Spec { buffers: 32, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        let empty = fixture.pool.summary();
        assert_eq!((empty.used, empty.unused, empty.usage), (0, 32, None));
        fixture.fill(&mut backend, 10);
        let pin = fixture.pool.read(&mut backend, tag(3), Strategy::Normal).unwrap();
        let again = pin.clone();
        change(&pin, |page| stamp(page, 3, 1));
        let (buffer, page) = shown(fixture, 3).unwrap();
        assert_eq!((buffer, page.pins, page.dirty, page.valid), (pin.buffer(), 2, true, true));
        assert!((1..=5).contains(&page.usage));
        assert_eq!(fixture.pool.inspect().count(), 32);
        let mut blocks: Vec<_> =
            fixture.pool.inspect().filter_map(|b| Some(b.page?.tag.block)).collect();
        blocks.sort_unstable();
        assert_eq!(blocks, (0..10).collect::<Vec<_>>());

        let sum = fixture.pool.summary();
        assert_eq!((sum.used, sum.unused, sum.dirty, sum.pinned), (10, 22, 1, 1));
        let counts = fixture.pool.usage_counts();
        assert_eq!(counts.iter().map(|c| c.buffers).sum::<u32>(), 32);
        assert_eq!(counts.iter().map(|c| c.dirty).sum::<u32>(), 1);
        assert_eq!(counts.iter().map(|c| c.pinned).sum::<u32>(), 1);
        let usages: u32 = (0..).zip(&counts).map(|(n, c)| n * c.buffers).sum();
        assert_eq!(sum.usage, Some(f64::from(usages) / 10.0));
        drop((pin, again));
        assert_eq!(fixture.pool.summary().pinned, 0);
    });
}

#[test]
fn buffers_are_evicted_on_request_unless_they_are_in_use() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 10);
        fixture.smgr.create(OTHER, Fork::Main, false).unwrap();
        drop(fixture.pool.extend(&mut backend, OTHER, Fork::Main, 4, Strategy::Normal).unwrap());
        fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();

        let pin = fixture.pool.read(&mut backend, tag(7), Strategy::Normal).unwrap();
        let evict = |backend: &mut _, buf| fixture.pool.evict_buffer(backend, buf).unwrap();
        assert_eq!(evict(&mut backend, pin.buffer()), Some(Evicted::default()));
        change(&pin, |page| stamp(page, 7, 2));
        let buffer = pin.buffer();
        drop(pin);
        assert_eq!(evict(&mut backend, buffer), Some(Evicted { evicted: true, flushed: true }));
        assert_eq!((version(&fixture.on_disk(7), 7), shown(fixture, 7)), (2, None));
        assert_eq!(evict(&mut backend, buffer), Some(Evicted::default()));
        assert_eq!(evict(&mut backend, fixture.spec.buffers as u32), None);

        let pin = fixture.pool.read(&mut backend, tag(2), Strategy::Normal).unwrap();
        change(&pin, |page| stamp(page, 2, 5));
        let report = fixture.pool.evict_relation(&mut backend, REL).unwrap();
        assert_eq!(report, EvictReport { evicted: 8, flushed: 1, skipped: 1 });
        assert_eq!(version(&fixture.on_disk(2), 2), 5);
        assert_eq!(fixture.pool.summary().used, 1 + 4);
        drop(pin);
        let report = fixture.pool.evict_unused(&mut backend).unwrap();
        assert_eq!(report, EvictReport { evicted: 5, flushed: 0, skipped: 0 });
        assert_eq!(fixture.pool.summary().used, 0);
        // All pages are intact.
        for block in 0..10 {
            let pin = fixture.pool.read(&mut backend, tag(block), Strategy::Normal).unwrap();
            let page = pin.lock_exclusive();
            assert_eq!(
                version(&page, block),
                [(2, 5), (7, 2)].iter().find(|v| v.0 == block).map_or(0, |v| v.1)
            );
        }
    });
}

#[test]
fn pages_are_marked_dirty_on_request_and_written_again() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 10);
        let (buffer, _) = shown(fixture, 4).unwrap();
        assert_eq!(
            fixture.pool.dirty_buffer(buffer),
            Some(Dirtied { dirtied: true, already: false })
        );
        assert_eq!(
            fixture.pool.dirty_buffer(buffer),
            Some(Dirtied { dirtied: false, already: true })
        );
        assert_eq!(fixture.pool.dirty_buffer(fixture.spec.buffers as u32), None);
        let free = fixture.pool.inspect().find(|b| b.page.is_none()).unwrap().buffer;
        assert_eq!(fixture.pool.dirty_buffer(free), Some(Dirtied::default()));
        let pin = fixture.pool.read(&mut backend, tag(5), Strategy::Normal).unwrap();
        let report = fixture.pool.dirty_pages(Some(REL));
        assert_eq!((report.dirtied, report.already, report.skipped), (8, 1, 1));
        assert_eq!(fixture.pool.dirty_pages(Some(OTHER)).dirtied, 0);
        drop(pin);
        assert_eq!(fixture.pool.dirty_pages(None).dirtied, 1);
        assert_eq!(fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap().buffers, 10);
        assert_eq!(fixture.pool.verify_memory(&mut backend).failures, 0);
    });
}

#[test]
fn verifying_memory_finds_a_page_that_changed_without_the_pool() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 40);
        let pin = fixture.pool.read(&mut backend, tag(11), Strategy::Normal).unwrap();
        change(&pin, |page| stamp(page, 11, 3));
        let found = fixture.pool.verify_memory(&mut backend);
        assert_eq!((found.computed, found.compared, found.failures), (40, 39, 0));
        let pin = fixture.pool.read(&mut backend, tag(30), Strategy::Normal).unwrap();
        pin.lock_exclusive()[5000] ^= 1;
        let found = fixture.pool.verify_memory(&mut backend);
        assert_eq!((found.computed, found.compared, found.failures), (40, 39, 1));
        assert_eq!(found.failed, [tag(30)]);
        pin.lock_exclusive()[5000] ^= 1;
    });
}

#[test]
fn verifying_memory_finds_no_errors_while_pages_change_and_are_written() {
    each(Spec { buffers: 64, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 32);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut backend = fixture.backend();
                for round in 1..=30 {
                    for block in 0..32 {
                        let pin =
                            fixture.pool.read(&mut backend, tag(block), Strategy::Normal).unwrap();
                        change(&pin, |page| stamp(page, block, round));
                    }
                    fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
                }
            });
            while !writer.is_finished() {
                let found = fixture.pool.verify_memory(&mut backend);
                assert_eq!((found.computed, found.failures), (32, 0));
            }
            writer.join().unwrap();
        });
        let found = fixture.pool.verify_memory(&mut backend);
        assert_eq!((found.computed, found.compared, found.failures), (32, 32, 0));
    });
}

#[test]
fn the_kernels_cache_of_a_relation_is_reported_by_fork_and_segment() {
    each(Spec { segment_blocks: 8, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        assert_eq!(fixture.pool.kernel_cache(REL).unwrap(), []);
        fixture.fill(&mut backend, 20);
        fixture.smgr.create(REL, Fork::Vm, false).unwrap();
        fixture.pool.sync_pending(&mut backend).unwrap();
        let found = fixture.pool.kernel_cache(REL).unwrap();
        let sizes: Vec<_> = found.iter().map(|f| (f.fork, f.segment, f.pages)).collect();
        assert_eq!(
            sizes,
            [(Fork::Main, 0, 16), (Fork::Main, 1, 16), (Fork::Main, 2, 8), (Fork::Vm, 0, 0)]
        );
        let cached: u64 = found.iter().map(|f| f.cached).sum();
        assert_eq!(cached, if fixture.spec.direct { 0 } else { 40 });
    });
}
