//! Reads and writes of ranges of blocks past the pool, across segments; and the number of open
//! files.

use crate::fixture::{Fixture, REL, Spec, each, each_faulty, read_blocks, stamp, tag, version};
use forebay_aio::fault::{Effect, Ops, Rule};
use forebay_aio::{Errno, IoMemory, IoOp, Region};
use forebay_format::{Fork, PageBytes, RelFileLocator, checksum};
use forebay_storage::{
    Backend, ReadStream, Smgr, SmgrConfig, StorageError, Strategy, StreamFlags, StreamSettings,
};
use std::path::Path;
use std::sync::Arc;

const SMALL: Spec = Spec { segment_blocks: 8, ..Spec::plain() };
const PAGE: usize = 8192;

/// Pages of memory. No I/O on them is in flight while a test accesses them.
struct Pages(Arc<Region>);

impl Pages {
    fn new(n: u32) -> Pages {
        Pages(Region::new(n as usize * PAGE).unwrap())
    }

    /// The pages `order`, as the memory of one transfer.
    fn memory(&self, order: impl IntoIterator<Item = u32>) -> IoMemory {
        let mut memory = IoMemory::empty(Arc::clone(&self.0));
        order.into_iter().for_each(|page| memory.push(page as usize * PAGE, PAGE));
        memory
    }

    fn all(&self) -> IoMemory {
        IoMemory::new(Arc::clone(&self.0), 0, self.0.len())
    }

    fn page(&mut self, n: u32) -> &mut PageBytes {
        assert!((n as usize + 1) * PAGE <= self.0.len());
        // SAFETY: the page lies in the region, and the test has finished its transfers.
        unsafe { &mut *self.0.ptr(n as usize * PAGE).cast() }
    }

    /// Makes page `n` the block `block` of version `v`, as it would be on disk.
    fn stamp(&mut self, n: u32, block: u32, v: u64) {
        let page = self.page(n);
        page.fill(0);
        stamp(page, block, v);
        checksum::set_checksum(page, block);
    }
}

fn read(
    fixture: &Fixture,
    backend: &mut Backend,
    first: u32,
    pages: &Pages,
) -> Result<(), StorageError> {
    read_blocks(&fixture.smgr, &mut backend.io, first, &pages.all())
}

#[test]
fn one_call_reads_and_writes_across_segments() {
    each(SMALL, |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 30);
        let before = (fixture.count(IoOp::Read), fixture.count(IoOp::Write));
        // Blocks 5 to 27, from and to pages that are not neighbours: the odd ones first, then the
        // even ones.
        let order = || (0..23).filter(|n| n % 2 == 1).chain((0..23).filter(|n| n % 2 == 0));
        let mut pages = Pages::new(23);
        for (page, block) in order().zip(5..) {
            pages.stamp(page, block, 3);
        }
        fixture
            .smgr
            .write_blocks(&mut backend.io, REL, Fork::Main, 5, &pages.memory(order()))
            .unwrap();
        for block in 0..30 {
            assert_eq!(
                version(&fixture.on_disk(block), block),
                if (5..28).contains(&block) { 3 } else { 0 }
            );
        }
        (0..23).for_each(|page| pages.page(page).fill(0xaa));
        read_blocks(&fixture.smgr, &mut backend.io, 5, &pages.memory(order())).unwrap();
        for (page, block) in order().zip(5..) {
            assert_eq!(version(pages.page(page), block), 3);
        }
        // 5 to 7, 8 to 15, 16 to 23, 24 to 27.
        assert_eq!(
            (fixture.count(IoOp::Read) - before.0, fixture.count(IoOp::Write) - before.1),
            (4, 4)
        );
    });
}

#[test]
fn transfers_run_side_by_side_and_end_in_any_order() {
    each(Spec { segment_blocks: 1000, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 400);
        let mut buffers: Vec<Pages> = (0..8).map(|_| Pages::new(300)).collect();
        let start = |pages: &Pages, io: &mut _| {
            fixture.smgr.start_read(io, REL, Fork::Main, 50, &pages.all()).unwrap()
        };
        // More I/Os than the backend has handles: 300 blocks are three.
        let mut started: Vec<_> =
            buffers.iter().map(|pages| start(pages, &mut backend.io)).collect();
        started.extend(buffers.iter().map(|pages| start(pages, &mut backend.io)));
        for transfer in started.into_iter().rev() {
            fixture.smgr.finish(&mut backend.io, transfer).unwrap();
        }
        for pages in &mut buffers {
            (0..300).for_each(|n| assert_eq!(version(pages.page(n), 50 + n), 0));
        }
    });
}

#[test]
fn errors_name_file_and_block_and_the_next_call_succeeds() {
    each_faulty(SMALL, |fixture, plan| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 30);
        let mut pages = Pages::new(20);
        let mut fails = |plan_it: (Ops, &str), text: &str| {
            let rule = plan.add(Rule::on(plan_it.0).path(plan_it.1), Effect::Fail(Errno::IO));
            let error = if plan_it.0 == Ops::WRITE {
                fixture
                    .smgr
                    .write_blocks(&mut backend.io, REL, Fork::Main, 10, &pages.all())
                    .unwrap_err()
            } else {
                fixture.smgr.close_files();
                read(fixture, &mut backend, 10, &pages).unwrap_err()
            };
            assert_eq!(error.to_string(), text);
            assert_eq!(error.sqlstate(), "58030");
            plan.end(rule);
            read(fixture, &mut backend, 10, &pages).unwrap();
            assert_eq!(version(pages.page(6), 16), 0);
        };
        let why = "Input/output error";
        fails(
            (Ops::READ, "16384.2"),
            &format!("could not read block 16 in file \"base/5/16384.2\": {why}"),
        );
        fails(
            (Ops::OPEN, "16384.2"),
            &format!("could not open file \"base/5/16384.2\" (target block 16): {why}"),
        );
        let text = format!("could not write blocks 24..29 in file \"base/5/16384.3\": {why}");
        fails((Ops::WRITE, "16384.3"), &text);
    });
}

#[test]
fn holes_and_ends_of_files_are_named() {
    each(SMALL, |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 30);
        let pages = Pages::new(20);
        let set_len = |segment: u32, len: u64| {
            std::fs::OpenOptions::new()
                .write(true)
                .open(fixture.path(segment))
                .unwrap()
                .set_len(len)
                .unwrap()
        };
        // Segment 2 is truncated before block 19, and then removed.
        set_len(2, 3 * PAGE as u64);
        let error = read(fixture, &mut backend, 10, &pages).unwrap_err();
        let text = "could not read block 19 in file \"base/5/16384.2\": read only 0 of 8192 bytes";
        assert_eq!(error.to_string(), text);
        assert_eq!(error.sqlstate(), "XX001");
        let pool_error =
            fixture.cold().1.read(&mut backend, tag(20), Strategy::Normal).unwrap_err();
        assert_eq!(pool_error.to_string(), text.replace("block 19", "block 20"));
        std::fs::remove_file(fixture.path(2)).unwrap();
        fixture.smgr.close_files();
        let error = read(fixture, &mut backend, 10, &pages).unwrap_err();
        assert!(
            matches!(error, StorageError::OpenSegment { block: 16, errno: Errno::NOENT, .. }),
            "{error}"
        );
        assert_eq!(error.sqlstate(), "58P01");
        read(fixture, &mut backend, 24, &Pages::new(6)).unwrap();
        let error = read(fixture, &mut backend, 24, &Pages::new(7)).unwrap_err();
        assert!(matches!(error, StorageError::ShortRead { block: 30, got: 0, .. }), "{error}");
        // A write must not extend the file.
        let error = fixture
            .smgr
            .write_blocks(&mut backend.io, REL, Fork::Main, 28, &Pages::new(4).all())
            .unwrap_err();
        let text =
            "could not write block 30 in file \"base/5/16384.3\": the relation has 30 blocks";
        assert_eq!(error.to_string(), text);
        assert_eq!(std::fs::metadata(fixture.path(3)).unwrap().len(), 6 * PAGE as u64);
        let last = read_blocks(&fixture.smgr, &mut backend.io, u32::MAX, &Pages::new(1).all());
        assert!(matches!(last, Err(StorageError::TooManyBlocks { .. })), "{last:?}");
    });
}

#[test]
fn writes_request_syncs_and_truncations_drop_them() {
    each(SMALL, |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 40);
        fixture.smgr.sync_pending(&mut backend.io).unwrap();
        let pages = Pages::new(40);
        let write = |backend: &mut Backend, first, n: u32| {
            fixture
                .smgr
                .write_blocks(&mut backend.io, REL, Fork::Main, first, &pages.memory(0..n))
                .unwrap();
        };
        (0..3).for_each(|_| write(&mut backend, 6, 20));
        assert_eq!(fixture.smgr.sync_pending(&mut backend.io).unwrap().counts(), (4, 0));
        write(&mut backend, 0, 40);
        fixture.pool.truncate(&mut backend, REL, Fork::Main, 12).unwrap();
        // Segments 0 and 1 are left; the others are removed.
        assert!(fixture.path(1).exists() && !fixture.path(2).exists() && !fixture.path(4).exists());
        assert_eq!(fixture.smgr.sync_pending(&mut backend.io).unwrap().counts(), (2, 1));
        fixture.smgr.extend(&mut backend.io, REL, Fork::Main, 10).unwrap();
        fixture.pool.truncate(&mut backend, REL, Fork::Main, 8).unwrap();
        assert_eq!(fixture.smgr.nblocks(REL, Fork::Main).unwrap(), 8);
        assert!(!fixture.path(1).exists());
        assert_eq!(fixture.smgr.sync_pending(&mut backend.io).unwrap().counts(), (0, 1));
        assert_eq!(fixture.smgr.extend(&mut backend.io, REL, Fork::Main, 4).unwrap(), 8);
        read(fixture, &mut backend, 0, &Pages::new(12)).unwrap();
        write(&mut backend, 0, 12);
        fixture.pool.drop_relation(&mut backend, REL).unwrap();
        assert_eq!(fixture.smgr.sync_pending(&mut backend.io).unwrap().files, 0);
    });
}

/// Descriptors of files below a directory that this process has open.
fn open_below(dir: &Path) -> usize {
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|e| std::fs::read_link(e.ok()?.path()).ok())
        .filter(|target| target.starts_with(dir) && !target.is_dir())
        .count()
}

#[test]
fn many_segments_need_few_descriptors() {
    each(Spec { segment_blocks: 4, buffers: 64, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 400);
        fixture.smgr.close_files();
        let config = SmgrConfig {
            max_open_files: 10,
            segment_blocks: 4,
            direct: fixture.spec.direct,
            ..SmgrConfig::default()
        };
        let smgr = Smgr::new(Arc::clone(&fixture.aio), fixture.dir(), config);
        assert_eq!(smgr.nblocks(REL, Fork::Main).unwrap(), 400);
        // An idle handle keeps its last file open.
        let few = || {
            assert!(smgr.files().len() <= 10);
            assert!(
                open_below(fixture.dir()) <= 10 + 32,
                "{} files are open",
                open_below(fixture.dir())
            );
        };
        let mut pages = Pages::new(400);
        for round in 1..3 {
            (0..400).for_each(|n| pages.stamp(n, n, round));
            smgr.write_blocks(&mut backend.io, REL, Fork::Main, 0, &pages.all()).unwrap();
            few();
            read_blocks(&smgr, &mut backend.io, 0, &pages.all()).unwrap();
            (0..400).for_each(|n| assert_eq!(version(pages.page(n), n), round));
            assert_eq!(smgr.sync_pending(&mut backend.io).unwrap().files, 100);
            few();
        }
        // The same with a stream through a pool, in an order in which no file is used twice in a
        // row.
        let config = forebay_storage::PoolConfig { buffers: 64, ..Default::default() };
        let pool =
            forebay_storage::BufferPool::new(config, Arc::clone(&fixture.aio), Arc::clone(&smgr))
                .unwrap();
        let mut blocks = (0..400).map(|n| n * 37 % 400);
        let next = move || blocks.next();
        let (flags, strategy) = (StreamFlags::DEFAULT, Strategy::Normal);
        let mut stream = ReadStream::new(
            &pool,
            REL,
            Fork::Main,
            next,
            flags,
            strategy,
            StreamSettings::new(16, 16),
        );
        while let Some(pin) = stream.next(&mut backend).unwrap() {
            assert_eq!(version(&pin.lock_shared().copy(), pin.tag().block), 2);
            few();
        }
        drop(stream);
        pool.drop_relation(&mut backend, REL).unwrap();
        let other = RelFileLocator::in_default(5, 16_400);
        (0..50).for_each(|n| {
            smgr.create(RelFileLocator { rel: other.rel + n, ..other }, Fork::Main, false).unwrap()
        });
        few();
        smgr.close_files();
        assert_eq!(smgr.files().len(), 0);
    });
}

#[test]
fn a_transfer_without_a_report_has_not_succeeded() {
    each_faulty(SMALL, |fixture, plan| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 8);
        let pages = Pages::new(4);
        plan.add(Rule::on(Ops::WRITE).times(1), Effect::Fail(Errno::IO));
        let memory = pages.all();
        let transfer =
            fixture.smgr.start_write(&mut backend.io, REL, Fork::Main, 0, &memory).unwrap();
        // The issuer discards the reports of its I/O, so a later wait gets none.
        let _ = backend.io.drain();
        let error =
            fixture.smgr.finish(&mut backend.io, transfer).expect_err("the write has failed");
        assert!(error.to_string().contains("could not learn how an I/O ended"), "{error}");
    });
}
