//! SIGKILL at every call of archive-push: the next one stores the file, and leaves nothing that the
//! killed one has left.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use forebay_aio::fault::{Effect, FaultPlan, Ops, Rule};
use forebay_aio::sync::Arc;
use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_aio::{AioConfig, BackendType, Errno, MethodKind, PosixNamespace};
use forebay_archive::store::codec::Compression;
use forebay_archive::store::layout::LayoutKind;
use forebay_archive::store::seal::Key;
use forebay_archive::store::verify::VerifyOptions;
use forebay_archive::store::{Repository, StoreOptions};
use forebay_archive::{Archived, SourceOptions, push};

use crate::bed::{Bed, SIZE, SYSTEM, segment_bytes};

const DIR: &str = "FOREBAY_TEST_KILLED_DIR";
const AT: &str = "FOREBAY_TEST_KILLED_AT";
const WAY: &str = "FOREBAY_TEST_KILLED_WAY";

fn way(number: usize) -> StoreOptions {
    match number {
        0 => StoreOptions::default(),
        _ => StoreOptions {
            layout: Some(LayoutKind::Hashed),
            compression: Compression::Zstd(1),
            key: Some(Key::from_bytes([7; 32])),
            direct: true,
            ..StoreOptions::default()
        },
    }
}

/// Not a test by itself: the process that is killed. What archive-push does, for the first segment
/// of an archive.
#[test]
#[ignore = "run by the test below"]
fn the_process_that_is_killed() {
    let var = |name| std::env::var(name).ok();
    let (Some(dir), Some(at), Some(number)) = (var(DIR), var(AT), var(WAY)) else { return };
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
    let mut be = aio.backend(BackendType::Standalone).unwrap();
    let dir = Path::new(&dir);
    let location = dir.join("archive").to_string_lossy().into_owned();
    let options = way(number.parse().unwrap());
    let repository = Repository::open(&aio, &location, options).unwrap().tidying();
    let path = dir.join("data/pg_wal").join(SIZE.file_name(1, 3));
    push::push(&aio, &mut be, &repository, &path, &SourceOptions::default()).unwrap();
}

/// Kills it at one call; whether it got to its end before.
fn kill_at(bed: &Bed, number: usize, at: u64) -> bool {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::the_process_that_is_killed", "--ignored", "--nocapture"])
        .env(DIR, bed.dir.path())
        .env(AT, at.to_string())
        .env(WAY, number.to_string())
        .output()
        .unwrap();
    let over = child.status.success();
    assert!(over || child.status.signal() == Some(9), "{child:?}");
    over
}

#[test]
fn a_kill_at_every_call_of_a_push_and_the_next_one_converges() {
    for number in 0..2 {
        let (mut kills, mut left) = (0_u64, 0_u64);
        for at in 0.. {
            let mut bed = Bed::new();
            let name = bed.segment(1, 3);
            let over = kill_at(&bed, number, at);
            kills += u64::from(!over);
            let temporary =
                |path: &std::path::PathBuf| path.to_string_lossy().contains("forebay-temp.0000");
            left += u64::from(bed.contents().keys().any(temporary));
            let repository = bed.repository(way(number)).tidying();
            if bed.contents().keys().any(|path| path.to_string_lossy().ends_with(".manifest")) {
                let stored = bed.get(&repository, &name).unwrap();
                assert!(
                    stored == Some(segment_bytes(1, 3, SYSTEM)),
                    "killed at call {at}: it is not whole"
                );
            }
            let again = bed.push(&repository, &name).unwrap();
            assert!(!over || again == Archived::Identical);
            let found = repository.verify(&bed.aio, &VerifyOptions::default(), &|_, _| ()).unwrap();
            assert_eq!(
                (found.files, found.problems),
                (1, vec![]),
                "way {number}, killed at call {at}"
            );
            bed.check_tidy();
            assert!(bed.get(&repository, &name).unwrap() == Some(segment_bytes(1, 3, SYSTEM)));
            if over {
                break;
            }
        }
        assert!(kills > 30, "way {number}: it was killed at {kills} calls only");
        assert!(left > 3, "way {number}: only {left} kills have left a temporary file");
    }
}

/// A process that stays looks once, when it starts, wherever the layout has directories; a living
/// writer's file stays.
#[test]
fn what_killed_processes_have_left_anywhere_goes() {
    let mut bed = Bed::new();
    let options = way(1);
    let repository = bed.repository(options.clone());
    for number in 3..6 {
        let name = bed.segment(1, number);
        bed.push(&repository, &name).unwrap();
    }
    let stored = bed.contents();
    let dirs: Vec<_> =
        stored.keys().filter_map(|path| path.parent()).map(Path::to_path_buf).collect();
    for dir in &dirs {
        fs::write(dir.join("forebay-temp.x.1.2"), b"x").unwrap();
    }
    fs::create_dir_all(bed.archive().join("backups/one.partial")).unwrap();
    let other = bed.archive().join("backups/one.partial/forebay-temp.x.1.2");
    fs::write(&other, b"x").unwrap();
    let living = dirs[0].join("forebay-temp.y.1.2");
    let file = bed
        .aio
        .namespace()
        .open(&living, &forebay_aio::OpenOptions::READ_WRITE.create_new())
        .unwrap();
    assert!(bed.aio.namespace().try_lock(&file).unwrap());
    let mut expected: Vec<_> = stored.keys().cloned().chain([other, living]).collect();
    expected.sort();
    let mut distinct = dirs.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(repository.clean(&mut bed.be).unwrap(), distinct.len());
    assert_eq!(bed.contents().into_keys().collect::<Vec<_>>(), expected);
}
