//! Reading back written pages while other threads change, write, truncate and drop.

use super::*;

/// Syncs and reads back repeatedly until all other threads have finished, and once more.
fn read_back_beside(fixture: &Fixture, at_work: &AtomicUsize) {
    let mut backend = fixture.backend();
    while at_work.load(SeqCst) > 0 {
        fixture.pool.sync_pending(&mut backend).unwrap();
        thread::yield_now();
    }
    fixture.pool.sync_pending(&mut backend).unwrap();
    assert_eq!(fixture.pool.sync_pending(&mut backend).unwrap().read_back, 0);
}

/// Writes all dirty pages and evicts all pages. Writes may fail.
fn write_and_forget(fixture: &Fixture, backend: &mut Backend) {
    while let Err(error) = fixture.pool.evict_all(backend) {
        assert!(matches!(error, StorageError::Write { .. }), "{error}");
    }
}

/// Pages are changed, written and read while written pages are read back. None counts as lost,
/// although a write fails.
#[test]
fn pages_written_meanwhile_do_not_count_as_lost() {
    each(|fixture| {
        fixture.disk.failing_writes.store(1, SeqCst);
        let at_work = Arc::new(AtomicUsize::new(2));
        let changers: [_; 2] = std::array::from_fn(|n| {
            let at_work = Arc::clone(&at_work);
            spawn(&fixture, move |fixture| {
                let mut backend = fixture.backend();
                for _ in 0..3 {
                    add_one(fixture.read(&mut backend, 2 + n as u32).lock_exclusive());
                    write_and_forget(fixture, &mut backend);
                }
                at_work.fetch_sub(1, SeqCst);
            })
        });
        read_back_beside(&fixture, &at_work);
        join(changers);
        assert_eq!((fixture.on_disk(2), fixture.on_disk(3)), (5, 6));
    });
}

/// A relation is truncated, dropped, and created again with the same name while written pages are
/// read back.
#[test]
fn pages_removed_or_created_meanwhile_do_not_count_as_lost() {
    each(|fixture| {
        let at_work = Arc::new(AtomicUsize::new(1));
        let changer = {
            let at_work = Arc::clone(&at_work);
            spawn(&fixture, move |fixture| {
                let mut backend = fixture.backend();
                for block in [2, 6] {
                    add_one(fixture.read(&mut backend, block).lock_exclusive());
                }
                write_and_forget(fixture, &mut backend);
                fixture.pool.truncate(&mut backend, REL, Fork::Main, 4).unwrap();
                add_one(fixture.read(&mut backend, 2).lock_exclusive());
                write_and_forget(fixture, &mut backend);
                fixture.pool.drop_relation(&mut backend, REL).unwrap();
                fixture.pool.smgr().create(REL, Fork::Main, false).unwrap();
                for _ in 0..3 {
                    let made = fixture
                        .pool
                        .extend(&mut backend, REL, Fork::Main, 1, Strategy::Normal)
                        .unwrap();
                    let mut page = made[0].lock_exclusive();
                    PageMut(&mut page).init(0);
                    set_number(&mut page, 70);
                    page.mark_dirty();
                }
                write_and_forget(fixture, &mut backend);
                at_work.fetch_sub(1, SeqCst);
            })
        };
        read_back_beside(&fixture, &at_work);
        join([changer]);
        assert_eq!(fixture.on_disk(2), 70);
    });
}

/// A write is lost: a reader of the page or the sync gets the error, and no backend gets the old
/// page.
#[test]
fn a_lost_write_is_found_before_it_counts() {
    each(|fixture| {
        let told = Arc::new(AtomicUsize::new(0));
        fixture.disk.losing_writes.store(1, SeqCst);
        let changers: [_; 2] = std::array::from_fn(|n| {
            let told = Arc::clone(&told);
            spawn(&fixture, move |fixture| {
                let mut backend = fixture.backend();
                let block = 2 + n as u32;
                for so_far in 0..2 {
                    match fixture.pool.read(&mut backend, tag(block), Strategy::Normal) {
                        Ok(pin) => {
                            assert_eq!(
                                number(&pin.lock_shared().copy()),
                                u64::from(block) + so_far
                            );
                            add_one(pin.lock_exclusive());
                        }
                        Err(StorageError::LostWrite { block: of, .. }) => {
                            assert_eq!(of, block);
                            told.fetch_add(1, SeqCst);
                            return;
                        }
                        Err(other) => panic!("{other}"),
                    }
                    fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
                    fixture.pool.evict_all(&mut backend).unwrap();
                }
            })
        });
        join(changers);
        match fixture.pool.sync_pending(&mut fixture.backend()) {
            Ok(_) => {
                assert_eq!(told.load(SeqCst), 0, "a reader got the error, so the sync does not")
            }
            Err(StorageError::LostWrite { .. }) => drop(told.fetch_add(1, SeqCst)),
            Err(other) => panic!("{other}"),
        }
        let on_disk = (fixture.on_disk(2), fixture.on_disk(3));
        assert!(
            told.load(SeqCst) > 0 || on_disk == (4, 5),
            "lost, and nobody was told: {on_disk:?}"
        );
    });
}
