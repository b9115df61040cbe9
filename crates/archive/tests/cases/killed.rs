//! SIGKILL at every file system call of a real process that archives. The next start converges.

use std::fs;
use std::path::Path;

use forebay_aio::sync::{Arc, Instant};
use forebay_aio::{Aio, BackendType};
use forebay_archive::modules::Basic;
use forebay_archive::{Archiver, ArchiverConfig, Next};

use crate::common::killed::{lethal_aio, runs_to_its_end};
use crate::fixture::*;

const DIR: &str = "FOREBAY_TEST_KILLED_DIR";

/// Archives all files that are marked in a directory.
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
    let (Ok(dir), Some(aio)) = (std::env::var(DIR), lethal_aio()) else { return };
    archive(&aio, Path::new(&dir));
}

#[test]
fn a_kill_at_every_call_and_the_next_start_converges() {
    let mut kills = 0_u64;
    for at in 0.. {
        let fixture = Fixture::plain();
        let names = [fixture.put_ready(1, 1), fixture.put_ready(1, 2), name("00000002.history")];
        fixture.put(&names[2], b"1\t0/5A0000\twhy\n");
        fixture.mark(&names[2].ready());
        // One of them is stored already: an earlier process was killed after that.
        fs::write(fixture.archive().join(names[0].as_str()), contents(1, 1)).unwrap();
        let same = |name: &str| {
            let (ours, theirs) = (fixture.wal().join(name), fixture.archive().join(name));
            fs::read(ours).unwrap() == fs::read(theirs).unwrap()
        };
        let (test, dir) = ("killed::the_process_that_is_killed", fixture.dir.path());
        let over = runs_to_its_end(test, at, &[(DIR, dir.to_str().unwrap())]);
        kills += u64::from(!over);
        for stored in fixture
            .stored()
            .iter()
            .filter(|stored| names.iter().any(|name| name.as_str() == *stored))
        {
            assert!(same(stored), "killed at call {at}: {stored} has its name, and is not whole");
        }
        for mark in fixture.marks().iter().filter_map(|mark| mark.strip_suffix(".done")) {
            assert!(same(mark), "killed at call {at}: {mark} is said to be archived");
        }
        archive(&fixture.aio, fixture.dir.path());
        let mut expected: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        expected.sort_unstable();
        assert_eq!(
            fixture.stored(),
            expected,
            "killed at call {at}: all is there, and nothing else"
        );
        assert!(expected.iter().all(|name| same(name)));
        assert!(fixture.marks().iter().all(|mark| mark.ends_with(".done")));
        if over {
            break;
        }
    }
    assert!(kills > 40, "it was killed at {kills} calls only");
}
