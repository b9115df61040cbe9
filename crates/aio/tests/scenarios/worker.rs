//! Workers. PostgreSQL's workers are processes: they open a relation's file anew, which can fail
//! with ENOENT. Workers here are threads and use the issuer's open file, so unlinking a file makes
//! no difference; only the issuer's open can fail.

use forebay_aio::fault::{Effect, FaultPlan, Ops, Rule};
use forebay_aio::*;

use crate::common::{Case, Setup, bytes, config, each_faulty_case};
use crate::{filled, pattern, read, report};

const BLOCKS: usize = 4;

#[test]
fn a_file_that_loses_its_name_under_way_is_read_all_the_same() {
    each_faulty_case(|s, plan| {
        if s.case.method == MethodKind::Sync {
            return; // nothing is under way there while the issuer does something else
        }
        let (file, region) = filled(s, "data", BLOCKS);
        let mut backend = s.backend();
        let held = plan.hold(Rule::on(Ops::READ));
        let r = backend.start(read(&file, &region, 0, BLOCKS));
        drop(file);
        s.aio.namespace().rename(&s.path("data"), &s.path("other")).unwrap();
        s.aio.namespace().unlink(&s.path("other")).unwrap();
        held.release();
        assert_eq!(backend.wait(r).check().unwrap(), BLOCKS * IO_ALIGN);
        assert!(bytes(&region, 0, region.len()) == pattern(BLOCKS));
    });
}

#[test]
fn a_file_that_cannot_be_opened_can_be_later() {
    each_faulty_case(|s, plan| {
        drop(filled(s, "data", BLOCKS));
        let fault =
            plan.add(Rule::on(Ops::OPEN).path("/data").times(1), Effect::Fail(Errno::NOENT));
        let options = OpenOptions::READ_WRITE.direct(s.case.direct);
        let error = s.aio.namespace().open(&s.path("data"), &options).unwrap_err();
        assert!(error.is_not_found());
        let expected = format!(
            "could not open file \"{}\": No such file or directory",
            s.path("data").display()
        );
        assert_eq!(error.to_string(), expected);
        let file = s.open("data", OpenOptions::READ_WRITE);
        let region = Region::new(BLOCKS * IO_ALIGN).unwrap();
        assert!(report(&mut s.backend(), read(&file, &region, 0, BLOCKS)).check().is_ok());
        assert_eq!(plan.fired(fault), 1);
    });
}

/// A worker that panics in an I/O ends that I/O with an error, and is replaced.
#[test]
fn a_worker_that_panics_does_not_hang_anyone() {
    let plan = FaultPlan::new();
    let case = Case { method: MethodKind::Worker(WorkerLimits::fixed(1)), direct: false };
    let s = Setup::faulty(case, config(), &plan);
    let (file, region) = filled(&s, "data", BLOCKS);
    let mut backend = s.backend();
    for _ in 0..20 {
        plan.add(Rule::on(Ops::READ).times(1), Effect::Panic);
        assert_eq!(report(&mut backend, read(&file, &region, 0, 1)).errno(), Some(Errno::IO));
        assert_eq!(report(&mut backend, read(&file, &region, 0, 1)).check().unwrap(), IO_ALIGN);
    }
}
