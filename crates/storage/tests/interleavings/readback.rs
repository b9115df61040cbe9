//! What is written is read back, beside those who change, write, cut and drop.

use super::*;

/// Syncs and reads back, again and again, until nobody is at work any more, and once more.
fn read_back_beside(bed: &Bed, at_work: &AtomicUsize) {
    let mut be = bed.backend();
    while at_work.load(SeqCst) > 0 {
        bed.pool.sync_pending(&mut be).unwrap();
        thread::yield_now();
    }
    bed.pool.sync_pending(&mut be).unwrap();
    assert_eq!(bed.pool.sync_pending(&mut be).unwrap().read_back, 0);
}

/// Writes all that is dirty, and empties the pool; writes may fail.
fn write_and_forget(bed: &Bed, be: &mut Backend) {
    while let Err(error) = bed.pool.evict_all(be) {
        assert!(matches!(error, StorageError::Write { .. }), "{error}");
    }
}

/// Pages are changed, written and read again while what was written is read back: none is missed,
/// though a write fails.
#[test]
fn what_is_written_meanwhile_is_not_lost() {
    each(|bed| {
        bed.disk.failing_writes.store(1, SeqCst);
        let at_work = Arc::new(AtomicUsize::new(2));
        let changers: [_; 2] = std::array::from_fn(|n| {
            let at_work = Arc::clone(&at_work);
            spawn(&bed, move |bed| {
                let mut be = bed.backend();
                for _ in 0..3 {
                    add_one(bed.read(&mut be, 2 + n as u32).lock_exclusive());
                    write_and_forget(bed, &mut be);
                }
                at_work.fetch_sub(1, SeqCst);
            })
        });
        read_back_beside(&bed, &at_work);
        join(changers);
        assert_eq!((bed.on_disk(2), bed.on_disk(3)), (5, 6));
    });
}

/// A relation is cut, and dropped, and made anew in a file of the same name, while what was written
/// is read back.
#[test]
fn what_is_cut_or_made_anew_meanwhile_is_not_lost() {
    each(|bed| {
        let at_work = Arc::new(AtomicUsize::new(1));
        let changer = {
            let at_work = Arc::clone(&at_work);
            spawn(&bed, move |bed| {
                let mut be = bed.backend();
                for block in [2, 6] {
                    add_one(bed.read(&mut be, block).lock_exclusive());
                }
                write_and_forget(bed, &mut be);
                bed.pool.truncate(&mut be, REL, Fork::Main, 4).unwrap();
                add_one(bed.read(&mut be, 2).lock_exclusive());
                write_and_forget(bed, &mut be);
                bed.pool.drop_relation(&mut be, REL).unwrap();
                bed.pool.smgr().create(REL, Fork::Main, false).unwrap();
                for _ in 0..3 {
                    let made =
                        bed.pool.extend(&mut be, REL, Fork::Main, 1, Strategy::Normal).unwrap();
                    let mut page = made[0].lock_exclusive();
                    PageMut(&mut page).init(0);
                    set_number(&mut page, 70);
                    page.mark_dirty();
                }
                write_and_forget(bed, &mut be);
                at_work.fetch_sub(1, SeqCst);
            })
        };
        read_back_beside(&bed, &at_work);
        join([changer]);
        assert_eq!(bed.on_disk(2), 70);
    });
}

/// A write is lost: who reads the page is told, or who syncs, and nobody else gets a page that is
/// not the last.
#[test]
fn a_lost_write_is_found_before_it_counts() {
    each(|bed| {
        let told = Arc::new(AtomicUsize::new(0));
        bed.disk.losing_writes.store(1, SeqCst);
        let changers: [_; 2] = std::array::from_fn(|n| {
            let told = Arc::clone(&told);
            spawn(&bed, move |bed| {
                let mut be = bed.backend();
                let block = 2 + n as u32;
                for so_far in 0..2 {
                    match bed.pool.read(&mut be, tag(block), Strategy::Normal) {
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
                    bed.pool.write_dirty(&mut be, WriteScope::All).unwrap();
                    bed.pool.evict_all(&mut be).unwrap();
                }
            })
        });
        join(changers);
        match bed.pool.sync_pending(&mut bed.backend()) {
            Ok(_) => assert_eq!(told.load(SeqCst), 0, "who read it was told, and who syncs is not"),
            Err(StorageError::LostWrite { .. }) => drop(told.fetch_add(1, SeqCst)),
            Err(other) => panic!("{other}"),
        }
        let on_disk = (bed.on_disk(2), bed.on_disk(3));
        assert!(
            told.load(SeqCst) > 0 || on_disk == (4, 5),
            "lost, and nobody was told: {on_disk:?}"
        );
    });
}
