//! Full-page images: which pages get one, and how the redo pointer moves.

use std::sync::Arc;

use crate::common::*;
use forebay_aio::MethodKind;
use forebay_format::{
    BLOCK_SIZE, Fork, Lsn, PageBytes, PageMut, PageTag, RelFileLocator,
    wal::{ImageCompression, Rmgr, xlog::CHECKPOINT_REDO},
};
use forebay_wal::{BlockFlags, BlockRef, CheckpointKind, Inserted, Record, Wal, WalError};

const ONLINE: CheckpointKind = CheckpointKind::Online { wal_level: 1 };

fn page(lsn: Lsn) -> PageBytes {
    let mut bytes = [0; BLOCK_SIZE];
    let mut page = PageMut(&mut bytes);
    page.init(0);
    page.add_item(&[0xab; 200], None);
    page.set_lsn(lsn);
    bytes
}

fn block(page: &PageBytes, flags: BlockFlags) -> BlockRef<'_> {
    let tag = PageTag::new(RelFileLocator::in_default(5, 16384), Fork::Main, 3);
    BlockRef { id: 0, tag, page: Some(page), flags, data: b"block data" }
}

fn log(wal: &Wal, rig: &mut Rig, block: BlockRef<'_>) -> Result<Inserted, WalError> {
    let record = Record { rmgr: Rmgr::HEAP, info: 0, xid: 9, main: b"main", blocks: &[block] };
    wal.insert(&mut rig.io, &record)
}

/// For each record the length of its image, if it has one, and the block's data.
fn images(rig: &mut Rig) -> Vec<(Option<usize>, usize)> {
    let (records, _) = rig.read_all(BEGIN);
    let of = |record: &forebay_wal::WalRecord| {
        let decoded = record.decode().expect("decodable");
        decoded
            .blocks
            .first()
            .map(|block| (block.image.map(|image| image.bytes.len()), block.data.len()))
    };
    records.iter().filter_map(of).collect()
}

#[test]
fn a_page_older_than_the_redo_pointer_gets_an_image() {
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    insert(&wal, &mut rig.io, &[1; 100]);
    let redo = wal.begin_checkpoint(&mut rig.io, ONLINE).expect("redo");
    let (older, newer) = (page(redo), page(redo.add(8)));
    let standard = BlockFlags::STANDARD;
    let cases = [
        (&older, standard, Some(24 + 4 + 200), 0),
        (&older, BlockFlags::NONE, Some(BLOCK_SIZE), 0),
        (&older, standard | BlockFlags::KEEP_DATA, Some(24 + 4 + 200), 10),
        (&older, BlockFlags::NO_IMAGE, None, 10),
        (&older, BlockFlags::WILL_INIT, None, 10),
        (&newer, standard, None, 10),
        (&newer, standard | BlockFlags::FORCE_IMAGE, Some(24 + 4 + 200), 0),
    ];
    for (page, flags, _, _) in cases {
        log(&wal, &mut rig, block(page, flags)).expect("insert");
    }
    assert_eq!(wal.stats().full_page_images, 4);
    wal.set_full_page_writes(false);
    log(&wal, &mut rig, block(&older, standard)).expect("insert");
    log(&wal, &mut rig, block(&older, standard | BlockFlags::FORCE_IMAGE)).expect("insert");
    let no_page = BlockRef { page: None, ..block(&older, standard) };
    assert!(matches!(log(&wal, &mut rig, no_page), Err(WalError::Record { .. })));
    let no_page = BlockRef { flags: BlockFlags::WILL_INIT, ..no_page };
    log(&wal, &mut rig, no_page).expect("insert");
    wal.flush_all(&mut rig.io).expect("flush");
    let mut expected: Vec<_> = cases.iter().map(|&(_, _, image, data)| (image, data)).collect();
    expected.extend([(None, 10), (Some(24 + 4 + 200), 0), (None, 10)]);
    assert_eq!(images(&mut rig), expected);
    let total: usize = rig.read_all(BEGIN).0.iter().map(|record| record.bytes.len()).sum();
    assert_eq!(wal.stats().bytes, total as u64);
}

#[test]
fn the_redo_pointer_is_the_start_of_its_record() {
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    let at = insert(&wal, &mut rig.io, &[1; 100]);
    assert_eq!(wal.redo_lsn(), Lsn(0));
    let redo = wal.begin_checkpoint(&mut rig.io, ONLINE).expect("redo");
    assert_eq!((redo, wal.redo_lsn()), (at.end, at.end));
    wal.flush_all(&mut rig.io).expect("flush");
    let record = rig.read_all(redo).0.remove(0);
    let decoded = record.decode().expect("decodable");
    assert_eq!((decoded.kind(), decoded.main), (CHECKPOINT_REDO, &[1, 0, 0, 0][..]));
    assert_eq!(wal.bytes_since_redo(), record.end.since(redo));
    // At shutdown, the redo pointer is the start of the checkpoint's record, behind a page header
    // if need be.
    fill_up_to(&wal, &mut rig.io, BEGIN.add(3 * 8192), 1);
    let redo = wal.begin_checkpoint(&mut rig.io, CheckpointKind::Shutdown).expect("redo");
    assert_eq!(redo, BEGIN.add(3 * 8192 + 24));
    assert_eq!((wal.insert_lsn(), wal.bytes_since_redo()), (redo, 0));
    assert_eq!(insert(&wal, &mut rig.io, &[2; 10]).start, redo);
    // A restarted log has the redo pointer of its checkpoint.
    wal.flush_all(&mut rig.io).expect("flush");
    drop(wal);
    let (_, end) = rig.read_all(BEGIN);
    assert_eq!(rig.start(end.resume(redo)).redo_lsn(), redo);
}

/// Checkpoints begin while others log changes: the first change of a page behind a redo pointer
/// always has an image.
#[test]
fn no_image_is_missed_when_the_redo_pointer_moves() {
    let mut rig = Rig::new(MethodKind::Sync);
    rig.config.buffers = 512;
    let wal = Arc::new(rig.fresh());
    let redo_points = std::thread::scope(|scope| {
        for thread in 0..3u32 {
            let (wal, mut io) = (Arc::clone(&wal), rig.backend());
            scope.spawn(move || {
                let mut image = page(Lsn(0));
                for _ in 0..3000 {
                    let tag =
                        PageTag::new(RelFileLocator::in_default(5, 16384), Fork::Main, thread);
                    let flags = BlockFlags::STANDARD;
                    let block = BlockRef { id: 0, tag, page: Some(&image), flags, data: b"change" };
                    let record =
                        Record { rmgr: Rmgr::HEAP, info: 0, xid: 9, main: b"", blocks: &[block] };
                    let at = wal.insert(&mut io, &record).expect("insert");
                    PageMut(&mut image).set_lsn(at.end);
                }
            });
        }
        let (wal, mut io) = (Arc::clone(&wal), rig.backend());
        let checkpointer = scope.spawn(move || {
            let mut points = vec![Lsn(0)];
            for _ in 0..100 {
                let before = wal.end_lsn();
                points.push(wal.begin_checkpoint(&mut io, ONLINE).expect("redo"));
                while wal.end_lsn().since(before) < 2000 && wal.stats().records < 9000 {
                    std::thread::yield_now();
                }
            }
            points
        });
        checkpointer.join().expect("no panic")
    });
    wal.flush_all(&mut rig.io).expect("flush");
    let mut last = [Lsn(0); 3];
    let mut images = 0;
    for record in rig.read_all(BEGIN).0 {
        let decoded = record.decode().expect("decodable");
        let Some(block) = decoded.blocks.first() else { continue };
        let redo =
            redo_points.iter().rev().find(|&&redo| redo < record.start).expect("a redo pointer");
        let thread = block.tag.block as usize;
        assert_eq!(
            block.image.is_some(),
            last[thread] <= *redo,
            "record at {}, redo {redo}",
            record.start
        );
        images += u64::from(block.image.is_some());
        last[thread] = record.end;
    }
    assert_eq!(images, wal.stats().full_page_images);
    assert!(images >= 3);
}

/// `wal_compression` applies from the next record on. A page that does not get shorter is stored
/// uncompressed.
#[test]
fn images_are_compressed_by_the_set_method() {
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    assert_eq!(wal.compression(), None);
    let (rows, noise) = (page(Lsn(0)), {
        let mut bytes = [0; BLOCK_SIZE];
        bytes.copy_from_slice(&Dice::new(7).bytes(BLOCK_SIZE));
        bytes
    });
    let settings = [None, Some(ImageCompression::Lz4), Some(ImageCompression::Zstd), None];
    for method in settings {
        wal.set_compression(method);
        assert_eq!(wal.compression(), method);
        log(&wal, &mut rig, block(&rows, BlockFlags::FORCE_IMAGE)).expect("insert");
        log(&wal, &mut rig, block(&noise, BlockFlags::FORCE_IMAGE)).expect("insert");
    }
    wal.flush_all(&mut rig.io).expect("flush");
    let records = rig.read_all(BEGIN).0;
    assert_eq!(records.len(), 8);
    for (n, record) in records.iter().enumerate() {
        let decoded = record.decode().expect("decodable");
        let image = decoded.blocks[0].image.expect("an image");
        assert_eq!(image.is_compressed(), n % 2 == 0 && settings[n / 2].is_some(), "record {n}");
        let mut restored = [1; BLOCK_SIZE];
        image.restore(&mut restored).expect("restored");
        assert!(restored == if n % 2 == 0 { rows } else { noise }, "record {n}");
    }
}
