//! A disk that fails during a request. Whichever call fails, a stored file is never reported as
//! absent.

use std::path::Path;
use std::sync::Arc;

use forebay_aio::fault::{Effect, FaultPlan, Ops, Rule};
use forebay_aio::{Aio, AioConfig, BackendType, Errno, MethodKind, PosixNamespace};
use forebay_archive::store::{Repository, StoreOptions};
use forebay_archive::{WalName, get};

use crate::common::fixture::{Fixture, all_options};
use crate::common::segments::{SYSTEM, segment_bytes, wal_name};

/// ESTALE: the error of a network file system whose server is gone.
const STALE: Errno = Errno(116);

fn failing(plan: &Arc<FaultPlan>) -> Arc<Aio> {
    let config = AioConfig { max_backends: 4, handles_per_backend: 16, ..AioConfig::default() };
    plan.open(Arc::new(PosixNamespace::new()), MethodKind::Sync, config).expect("an Aio")
}

fn opened(aio: &Arc<Aio>, archive: &Path, options: &StoreOptions) -> Repository {
    Repository::open(aio, &archive.to_string_lossy(), options.clone()).expect("opens")
}

#[test]
fn no_failing_call_is_taken_for_absence() {
    for options in all_options().into_iter().step_by(2) {
        let mut fixture = Fixture::new();
        let name = fixture.segment(1, 3);
        let repository = fixture.repository(options.clone());
        fixture.push(&repository, &name).unwrap();
        let (archive, to) = (fixture.archive(), fixture.data().join("pg_wal/RECOVERYXLOG"));
        for errno in [Errno::IO, Errno::ACCES, STALE] {
            for nth in 0.. {
                let plan = FaultPlan::new();
                let below = archive.clone();
                let rule =
                    Rule::on(Ops::ALL).when(move |call| call.path.starts_with(&below)).nth(nth);
                let fault = plan.add(rule, Effect::Fail(errno));
                let aio = failing(&plan);
                let mut io = aio.backend(BackendType::Standalone).expect("a backend");
                // Opened anew each time, as a command does.
                let repository = opened(&aio, &archive, &options);
                match get::get(&aio, &mut io, &repository, &wal_name(&name), &to) {
                    Ok(true) => assert!(std::fs::read(&to).unwrap() == segment_bytes(1, 3, SYSTEM)),
                    Ok(false) => panic!("{options:?}: {errno} of call {nth} is taken for absence"),
                    Err(_) => {
                        assert!(
                            plan.fired(fault) == 1 && !to.exists(),
                            "{options:?}: {errno} of call {nth}"
                        )
                    }
                }
                let _ = std::fs::remove_file(&to);
                if plan.fired(fault) == 0 {
                    assert!(nth > 3, "{options:?}: only {nth} calls");
                    break;
                }
            }
        }
        fixture.check_no_temporary();
    }
}

#[test]
fn a_disk_that_is_down_never_reports_absence() {
    for options in all_options().into_iter().step_by(5) {
        let mut fixture = Fixture::new();
        let name = fixture.segment(1, 3);
        let repository = fixture.repository(options.clone());
        fixture.push(&repository, &name).unwrap();
        let (archive, to) = (fixture.archive(), fixture.data().join("pg_wal/RECOVERYXLOG"));
        let plan = FaultPlan::new();
        let aio = failing(&plan);
        let mut io = aio.backend(BackendType::Standalone).expect("a backend");
        let repository = opened(&aio, &archive, &options);
        let absent = wal_name("000000010000000000000009");
        let mut fetch = |name: &WalName| get::get(&aio, &mut io, &repository, name, &to);
        assert!(!fetch(&absent).unwrap(), "while it is up");
        let below = archive.clone();
        plan.add(
            Rule::on(Ops::ALL).when(move |call| call.path.starts_with(&below)),
            Effect::Fail(Errno::IO),
        );
        // It is an error although the file was found just before.
        fetch(&absent).unwrap_err();
        fetch(&wal_name(&name)).unwrap_err();
        plan.mend();
        assert!(!fetch(&absent).unwrap() && fetch(&wal_name(&name)).unwrap());
        fixture.check_no_temporary();
    }
}
