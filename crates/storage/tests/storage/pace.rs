//! Passes that pause between writes, and what happens during a pause.

use crate::fixture::{REL, change, each, stamp, version};
use crate::wal::dirty;
use crate::write_stream::{ROOMY, filled, options};
use forebay_format::Fork;
use forebay_storage::{Pace, Strategy, WriteOptions, WriteScope};

/// Is always ahead, and calls a function at each pause.
struct AtEachRest<F>(F);

impl<F: FnMut(usize, usize)> Pace for AtEachRest<F> {
    fn is_ahead(&mut self, _done: usize, _total: usize) -> bool {
        true
    }
    fn rest(&mut self, done: usize, total: usize) {
        (self.0)(done, total);
    }
}

#[test]
fn a_pass_may_pause_between_writes_and_holds_nothing_meanwhile() {
    each(ROOMY, |fixture| {
        let mut backend = filled(fixture, 128);
        let mut all = Vec::new();
        for block in (0..40).chain([50, 51, 70]) {
            all.push(dirty(&fixture.pool, &mut backend, block, 1));
        }
        let mut rests = Vec::new();
        let mut pace = AtEachRest(|done, total| {
            rests.push(done);
            assert_eq!(total, 43);
            for (n, pinned) in all.iter().enumerate() {
                assert!(pinned.try_lock_exclusive().is_some(), "a lock is held during a pause");
                assert_eq!(pinned.is_dirty(), n >= done, "page {n} after {done}");
            }
        });
        let report = fixture
            .pool
            .write_paced(&mut backend, WriteScope::All, options(16, 16), &mut pace)
            .unwrap();
        assert_eq!(rests, [16, 32, 40, 42]);
        assert_eq!((report.buffers, report.writes), (43, 5));
    });
}

/// Pages on a pass's list may be removed before their turn.
#[test]
fn relations_are_dropped_during_a_pass() {
    each(ROOMY, |fixture| {
        for flush_after in [0, 64] {
            let mut backend = filled(fixture, 96);
            let mut other = fixture.backend();
            (0..96).for_each(|block| drop(dirty(&fixture.pool, &mut backend, block, 1)));
            let mut rests = 0;
            let mut pace = AtEachRest(|_, _| {
                rests += 1;
                match rests {
                    1 => fixture.pool.truncate(&mut other, REL, Fork::Main, 40).unwrap(),
                    2 => {
                        // Another relation of the same name: short, with a clean page.
                        fixture.pool.drop_relation(&mut other, REL).unwrap();
                        fixture.smgr.create(REL, Fork::Main, false).unwrap();
                        let pins = fixture
                            .pool
                            .extend(&mut other, REL, Fork::Main, 2, Strategy::Normal)
                            .unwrap();
                        change(&pins[0], |page| stamp(page, 0, 9));
                        drop(pins);
                        fixture.pool.write_dirty(&mut other, WriteScope::Relation(REL)).unwrap();
                    }
                    _ => {}
                }
            });
            let options = WriteOptions { flush_after, ..options(16, 16) };
            let report = fixture
                .pool
                .write_paced(&mut backend, WriteScope::All, options, &mut pace)
                .unwrap();
            assert_eq!(rests, 5);
            assert_eq!(report.buffers, 32, "only what was written before");
            assert_eq!(fixture.path(0).metadata().unwrap().len(), 2 * 8192);
            assert_eq!(version(&fixture.on_disk(0), 0), 9);
            fixture.pool.sync_pending(&mut backend).unwrap();
            fixture.pool.drop_relation(&mut backend, REL).unwrap();
            drop((backend, other));
            assert!(fixture.aio.snapshot().is_empty());
        }
    });
}
