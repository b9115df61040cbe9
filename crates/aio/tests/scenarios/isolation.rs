//! Two `Aio`s in one process: faults of one don't reach the other.

use forebay_aio::fault::{Effect, FaultPlan, Ops, Rule};
use forebay_aio::*;

use crate::common::{Setup, bytes, cases, config};
use crate::{filled, pattern, read, report};

const BLOCKS: usize = 4;

/// Each pair of methods side by side: one has a broken disk, the other reads the same file.
#[test]
fn the_faults_of_one_do_not_reach_the_other() {
    for broken in cases() {
        for sound in cases().into_iter().filter(|c| c.direct == broken.direct) {
            let plan = FaultPlan::new();
            let (a, b) = (Setup::faulty(broken, config(), &plan), Setup::new(sound, config()));
            let (file, region) = filled(&a, "data", BLOCKS);
            let options = OpenOptions::READ_WRITE.direct(b.case.direct);
            let same = b.aio.namespace().open(&a.path("data"), &options).unwrap();
            let into = Region::new(BLOCKS * IO_ALIGN).unwrap();
            let (mut one, mut other) = (a.backend(), b.backend());
            plan.add(Rule::on(Ops::ALL), Effect::Fail(Errno::IO));
            let failing = one.start(read(&file, &region, 0, BLOCKS));
            let fine = other.start(read(&same, &into, 0, BLOCKS));
            assert!(other.wait(fine).check().is_ok(), "{sound:?} beside {broken:?}");
            assert_eq!(one.wait(failing).report().unwrap().errno(), Some(Errno::IO), "{broken:?}");
            // A file opened through one can be used through the other; the faults are those of the
            // executor.
            assert!(report(&mut other, read(&file, &into, 0, BLOCKS)).check().is_ok());
            assert!(a.aio.namespace().stat(&a.path("data")).is_err());
            assert!(b.aio.namespace().exists(&a.path("data")).unwrap());
            assert!(bytes(&into, 0, into.len()) == pattern(BLOCKS));
        }
    }
}
