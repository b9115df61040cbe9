//! Damaged pages and files.

use crate::fixture::{
    Fixture, REL, Spec, change, each, each_faulty, full_stream, stamp, tag, version,
};
use forebay_aio::Errno;
use forebay_aio::fault::{Effect, Ops, Rule};
use forebay_format::Fork;
use forebay_storage::{PrewarmMode, StorageError, Strategy, WriteScope};

#[test]
fn an_error_names_the_bad_page_and_its_neighbours_can_be_read() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 20);
        fixture.damage(7, 4000, b"rot");
        let error =
            pool.read_many(&mut backend, REL, Fork::Main, 0, 16, Strategy::Normal).unwrap_err();
        assert_eq!(error.to_string(), "invalid page in block 7 of relation \"base/5/16384\"");
        assert_eq!(error.sqlstate(), "XX001");
        assert!(!error.is_fatal());
        for block in (0..16).filter(|b| *b != 7) {
            let pin = pool.lookup(&tag(block)).expect("the others of the same read are in memory");
            assert_eq!(version(&pin.lock_shared().copy(), block), 0);
        }
        assert!(pool.lookup(&tag(7)).is_none());
        assert!(matches!(
            pool.read(&mut backend, tag(7), Strategy::Normal),
            Err(StorageError::InvalidPage { tag: t, owner: None }) if t == tag(7)
        ));
        // After a repair, as from a backup, the page can be read: the buffer keeps no error.
        fixture.damage(7, 4000, &[0; 3]);
        assert_eq!(
            version(
                &pool.read(&mut backend, tag(7), Strategy::Normal).unwrap().lock_shared().copy(),
                7
            ),
            0
        );
    });
}

#[test]
fn a_bad_header_is_found_without_checksums() {
    let fixture = Fixture::new(Spec::plain());
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, 3);
    fixture.damage(1, 12, &[0xff, 0xff]);
    let config =
        forebay_storage::PoolConfig { buffers: 64, checksums: false, ..Default::default() };
    let pool =
        forebay_storage::BufferPool::new(config, fixture.aio.clone(), fixture.cold().0).unwrap();
    assert!(pool.read(&mut backend, tag(0), Strategy::Normal).is_ok());
    assert!(matches!(
        pool.read(&mut backend, tag(1), Strategy::Normal),
        Err(StorageError::InvalidPage { .. })
    ));
}

#[test]
fn a_scan_meets_the_bad_page_in_its_turn() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 40);
        fixture.damage(21, 100, b"rot");
        let mut blocks = 0..40;
        let mut stream = full_stream(&pool, || blocks.next(), Strategy::BulkRead, 4, 8);
        for block in 0..21 {
            assert_eq!(stream.next(&mut backend).unwrap().unwrap().tag(), tag(block));
        }
        let error = stream.next(&mut backend).unwrap_err();
        assert_eq!(error.to_string(), "invalid page in block 21 of relation \"base/5/16384\"");
        for block in 22..40 {
            assert_eq!(stream.next(&mut backend).unwrap().unwrap().tag(), tag(block));
        }
        assert!(stream.next(&mut backend).unwrap().is_none());
    });
}

#[test]
fn a_short_file_is_named() {
    each(Spec { segment_blocks: 8, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 14);
        assert_eq!(pool.nblocks(REL, Fork::Main).unwrap(), 14);
        std::fs::OpenOptions::new()
            .write(true)
            .open(fixture.path(1))
            .unwrap()
            .set_len(3 * 8192 + 4096)
            .unwrap();
        let error =
            pool.read_many(&mut backend, REL, Fork::Main, 8, 6, Strategy::Normal).unwrap_err();
        assert_eq!(
            error.to_string(),
            "could not read block 11 in file \"base/5/16384.1\": read only 4096 of 8192 bytes"
        );
        assert!(pool.lookup(&tag(10)).is_some());
        assert!(pool.prewarm(&mut backend, REL, Fork::Main, PrewarmMode::Read).is_err());
    });
}

#[test]
fn a_failed_read_is_reported_once() {
    each_faulty(Spec::plain(), |fixture, plan| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 4);
        plan.add(Rule::on(Ops::READ).times(1), Effect::Fail(Errno::IO));
        let error = pool.read(&mut backend, tag(2), Strategy::Normal).unwrap_err();
        assert_eq!(
            error.to_string(),
            "could not read block 2 in file \"base/5/16384\": Input/output error"
        );
        assert_eq!(
            version(
                &pool.read(&mut backend, tag(2), Strategy::Normal).unwrap().lock_shared().copy(),
                2
            ),
            0
        );
    });
}

#[test]
fn a_failed_write_leaves_pages_dirty() {
    each_faulty(Spec::plain(), |fixture, plan| {
        let mut backend = fixture.backend();
        fixture.smgr.create(REL, Fork::Main, false).unwrap();
        let pins = fixture.pool.extend(&mut backend, REL, Fork::Main, 3, Strategy::Normal).unwrap();
        for (pin, block) in pins.iter().zip(0..) {
            change(pin, |page| stamp(page, block, 9));
        }
        plan.add(Rule::on(Ops::WRITE).times(1), Effect::FailAfter(5000, Errno::NOSPC));
        let error = fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap_err();
        assert_eq!(
            error.to_string(),
            "could not write blocks 0..2 in file \"base/5/16384\": No space left on device"
        );
        assert!(pins.iter().all(|pin| pin.is_dirty() && pin.try_lock_exclusive().is_some()));
        assert_eq!(fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap().buffers, 3);
        assert_eq!(version(&fixture.on_disk(2), 2), 9);
    });
}
