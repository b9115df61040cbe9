//! SIGKILL at every call of a real process that archives: to the log, the marks, the archive. The
//! next start converges.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use forebay_aio::fault::{Effect, FaultPlan, Ops, Rule};
use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_aio::sync::{Arc, Instant};
use forebay_aio::{Aio, AioConfig, BackendType, Errno, MethodKind, PosixNamespace};
use forebay_archive::modules::Basic;
use forebay_archive::{Archiver, ArchiverConfig, Next};

use crate::bed::*;

const DIR: &str = "FOREBAY_TEST_KILLED_DIR";
const AT: &str = "FOREBAY_TEST_KILLED_AT";

/// Archives what is marked in that directory; None: until it is killed.
fn archive(aio: &Arc<Aio>, dir: &Path) {
    let config = ArchiverConfig { expected: expected(), direct: false, transfers: None };
    let archiver = Archiver::new(aio, &dir.join("pg_wal"), config);
    archiver.set_module(Some(Arc::new(Basic::new(aio, dir.join("archive"), false))));
    archiver.scan().unwrap();
    let mut io = aio.backend(BackendType::Standalone).unwrap();
    let now = Instant::now();
    while archiver.step(&mut io, now).unwrap() == Next::Worked {}
    assert_eq!(archiver.backlog().files, 0);
}

/// Not a test by itself: the process that is killed.
#[test]
#[ignore = "run by the test below"]
fn the_process_that_is_killed() {
    let (Ok(dir), Ok(at)) = (std::env::var(DIR), std::env::var(AT)) else { return };
    let (at, calls) = (at.parse::<u64>().unwrap(), AtomicU64::new(0));
    let plan = FaultPlan::new();
    let rule = Rule::on(Ops::ALL).when(move |_| {
        if calls.fetch_add(1, Ordering::SeqCst) == at {
            let own = rustix::process::getpid();
            let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
        }
        false
    });
    plan.add(rule, Effect::Fail(Errno::IO));
    let aio = plan.open(Arc::new(PosixNamespace), MethodKind::Sync, AioConfig::default()).unwrap();
    archive(&aio, Path::new(&dir));
}

#[test]
fn a_kill_at_every_call_and_the_next_start_converges() {
    let mut kills = 0_u64;
    for at in 0.. {
        let bed = Bed::plain();
        let names = [bed.put_ready(1, 1), bed.put_ready(1, 2), name("00000002.history")];
        bed.put(&names[2], b"1\t0/5A0000\twhy\n");
        bed.mark(&names[2].ready());
        // One of them is there already: the process before was killed after storing it.
        fs::write(bed.archive().join(names[0].as_str()), contents(1, 1)).unwrap();
        let same = |name: &str| {
            let (ours, theirs) = (bed.wal().join(name), bed.archive().join(name));
            fs::read(ours).unwrap() == fs::read(theirs).unwrap()
        };
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::the_process_that_is_killed", "--ignored", "--nocapture"])
            .env(DIR, bed.dir.path())
            .env(AT, at.to_string())
            .output()
            .unwrap();
        let over = child.status.success();
        assert!(over || child.status.signal() == Some(9), "{child:?}");
        kills += u64::from(!over);
        for stored in
            bed.stored().iter().filter(|stored| names.iter().any(|name| name.as_str() == *stored))
        {
            assert!(same(stored), "killed at call {at}: {stored} has its name, and is not whole");
        }
        for mark in bed.marks().iter().filter_map(|mark| mark.strip_suffix(".done")) {
            assert!(same(mark), "killed at call {at}: {mark} is said to be archived");
        }
        archive(&bed.aio, bed.dir.path());
        let mut expected: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        expected.sort_unstable();
        assert_eq!(bed.stored(), expected, "killed at call {at}: all is there, and nothing else");
        assert!(expected.iter().all(|name| same(name)));
        assert!(bed.marks().iter().all(|mark| mark.ends_with(".done")));
        if over {
            break;
        }
    }
    assert!(kills > 40, "it was killed at {kills} calls only");
}
