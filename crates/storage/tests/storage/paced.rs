//! Passes that rest on their way: where they may, what they hold then, and what may happen
//! meanwhile.

use crate::bed::{REL, change, each, stamp, version};
use crate::log::dirty;
use crate::write_stream::{ROOMY, filled, options};
use forebay_format::Fork;
use forebay_storage::{Pace, Strategy, WriteOptions, WriteScope};

/// Always ahead: does something at each rest.
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
fn a_paced_pass_may_rest_between_writes_and_holds_nothing_then() {
    each(ROOMY, |bed| {
        let mut be = filled(bed, 128);
        let mut all = Vec::new();
        for block in (0..40).chain([50, 51, 70]) {
            all.push(dirty(&bed.pool, &mut be, block, 1));
        }
        let mut rests = Vec::new();
        let mut pace = AtEachRest(|done, total| {
            rests.push(done);
            assert_eq!(total, 43);
            for (n, pinned) in all.iter().enumerate() {
                assert!(pinned.try_lock_exclusive().is_some(), "a lock is held during a rest");
                assert_eq!(pinned.is_dirty(), n >= done, "page {n} after {done}");
            }
        });
        let report =
            bed.pool.write_paced(&mut be, WriteScope::All, options(16, 16), &mut pace).unwrap();
        assert_eq!(rests, [16, 32, 40, 42]);
        assert_eq!((report.buffers, report.writes), (43, 5));
    });
}

/// What a pass has on its list may go before its turn comes.
#[test]
fn relations_go_while_a_pass_is_on_its_way() {
    each(ROOMY, |bed| {
        for flush_after in [0, 64] {
            let mut be = filled(bed, 96);
            let mut other = bed.backend();
            (0..96).for_each(|block| drop(dirty(&bed.pool, &mut be, block, 1)));
            let mut rests = 0;
            let mut pace = AtEachRest(|_, _| {
                rests += 1;
                match rests {
                    1 => bed.pool.truncate(&mut other, REL, Fork::Main, 40).unwrap(),
                    2 => {
                        // Another relation under the same name: short, with a page that is clean.
                        bed.pool.drop_relation(&mut other, REL).unwrap();
                        bed.smgr.create(REL, Fork::Main, false).unwrap();
                        let pins = bed
                            .pool
                            .extend(&mut other, REL, Fork::Main, 2, Strategy::Normal)
                            .unwrap();
                        change(&pins[0], |page| stamp(page, 0, 9));
                        drop(pins);
                        bed.pool.write_dirty(&mut other, WriteScope::Relation(REL)).unwrap();
                    }
                    _ => {}
                }
            });
            let options = WriteOptions { flush_after, ..options(16, 16) };
            let report =
                bed.pool.write_paced(&mut be, WriteScope::All, options, &mut pace).unwrap();
            assert_eq!(rests, 5);
            assert_eq!(report.buffers, 32, "only what was written before");
            assert_eq!(bed.path(0).metadata().unwrap().len(), 2 * 8192);
            assert_eq!(version(&bed.on_disk(0), 0), 9);
            bed.pool.sync_pending(&mut be).unwrap();
            bed.pool.drop_relation(&mut be, REL).unwrap();
            drop((be, other));
            assert!(bed.aio.snapshot().is_empty());
        }
    });
}
