//! The choice of a sync method by measurement.

use crate::common::*;
use forebay_aio::fault::{Effect, Ops, Rule};
use forebay_aio::{Errno, MethodKind};
use forebay_wal::SyncMethod;
use forebay_wal::probe::{Choice, probe};

#[test]
fn every_method_is_measured_and_no_file_is_left() {
    for method in methods() {
        let mut rig = Rig::new(method);
        for direct in direct_choices(&rig.config.dir) {
            let choice = probe(&rig.aio, &mut rig.io, &rig.config.dir, direct).expect("choice");
            assert_eq!(choice.conditions.direct, direct);
            assert_eq!(choice.conditions.io_method, rig.aio.method_name());
            let measured: Vec<_> = choice.measured.iter().map(|(method, _)| *method).collect();
            assert_eq!(measured, SyncMethod::NAMES.map(|(_, method)| method));
            for (method, rates) in &choice.measured {
                let rates = rates.as_ref().unwrap_or_else(|e| panic!("{method:?}: {e}"));
                assert!(rates.one > 0.0 && rates.several > 0.0, "{method:?}: {rates:?}");
            }
            println!("direct {direct}: {}", choice.reason());
            assert!(rig.names().is_empty(), "{:?}", rig.names());
            let read = Choice::from_text(&choice.to_text()).expect("a choice");
            assert_eq!((read.method, read.conditions), (choice.method, choice.conditions));
        }
    }
}

#[test]
fn a_method_that_fails_is_not_chosen() {
    let (mut rig, plan) = Rig::faulty(MethodKind::Sync);
    plan.add(Rule::on(Ops::FDATASYNC), Effect::Fail(Errno::IO));
    let choice = probe(&rig.aio, &mut rig.io, &rig.config.dir, false).expect("choice");
    assert_ne!(choice.method, SyncMethod::Fdatasync);
    let failed: Vec<_> = choice.measured.iter().filter(|(_, rates)| rates.is_err()).collect();
    assert_eq!(failed.len(), 1);
    assert!(choice.reason().contains("fdatasync failed"), "{}", choice.reason());
    assert!(rig.names().is_empty());
}

#[test]
fn a_full_disk_is_an_error() {
    let (mut rig, plan) = Rig::faulty(MethodKind::Sync);
    // While the file is made, and later.
    for skip in [0, 2] {
        plan.add(Rule::on(Ops::WRITE).skip(skip), Effect::Fail(Errno::NOSPC));
        let refused = probe(&rig.aio, &mut rig.io, &rig.config.dir, false).expect_err("no room");
        assert_eq!(refused.errno(), Some(Errno::NOSPC));
        assert!(rig.names().is_empty(), "{:?}", rig.names());
        plan.mend();
    }
}
