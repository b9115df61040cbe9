//! SIGKILL at every file system call of archive-push. The next one stores the file, and removes the
//! killed one's temporary files.

use std::fs;
use std::path::Path;

use forebay_aio::BackendType;
use forebay_archive::store::codec::Compression;
use forebay_archive::store::layout::LayoutKind;
use forebay_archive::store::seal::Key;
use forebay_archive::store::verify::VerifyOptions;
use forebay_archive::store::{Repository, StoreOptions};
use forebay_archive::{Archived, SourceOptions, push};

use crate::common::fixture::Fixture;
use crate::common::killed::{lethal_aio, runs_to_its_end};
use crate::common::segments::{SIZE, SYSTEM, segment_bytes};

const DIR: &str = "FOREBAY_TEST_KILLED_DIR";
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

/// Not a test by itself: the process that is killed. It does what archive-push does for the first
/// segment of an archive.
#[test]
#[ignore = "run by the test below"]
fn the_process_that_is_killed() {
    let var = |name| std::env::var(name).ok();
    let (Some(dir), Some(number), Some(aio)) = (var(DIR), var(WAY), lethal_aio()) else { return };
    let mut io = aio.backend(BackendType::Standalone).unwrap();
    let dir = Path::new(&dir);
    let location = dir.join("archive").to_string_lossy().into_owned();
    let options = way(number.parse().unwrap());
    let repository = Repository::open(&aio, &location, options).unwrap().cleaning_first();
    let path = dir.join("data/pg_wal").join(SIZE.file_name(1, 3));
    push::push(&aio, &mut io, &repository, &path, &SourceOptions::default()).unwrap();
}

/// Kills it at one call. True: it ended before.
fn kill_at(fixture: &Fixture, number: usize, at: u64) -> bool {
    let (dir, number) = (fixture.dir.path().to_str().unwrap(), number.to_string());
    let variables = [(DIR, dir), (WAY, number.as_str())];
    runs_to_its_end("killed::the_process_that_is_killed", at, &variables)
}

#[test]
fn a_kill_at_every_call_of_a_push_and_the_next_one_converges() {
    for number in 0..2 {
        let (mut kills, mut left) = (0_u64, 0_u64);
        for at in 0.. {
            let mut fixture = Fixture::new();
            let name = fixture.segment(1, 3);
            let over = kill_at(&fixture, number, at);
            kills += u64::from(!over);
            let temporary =
                |path: &std::path::PathBuf| path.to_string_lossy().contains("forebay-temp.0000");
            left += u64::from(fixture.contents().keys().any(temporary));
            let repository = fixture.repository(way(number)).cleaning_first();
            if fixture.contents().keys().any(|path| path.to_string_lossy().ends_with(".manifest")) {
                let stored = fixture.get(&repository, &name).unwrap();
                assert!(
                    stored == Some(segment_bytes(1, 3, SYSTEM)),
                    "killed at call {at}: it is not whole"
                );
            }
            let again = fixture.push(&repository, &name).unwrap();
            assert!(!over || again == Archived::Identical);
            let found =
                repository.verify(&fixture.aio, &VerifyOptions::default(), &|_, _| ()).unwrap();
            assert_eq!(
                (found.files, found.problems),
                (1, vec![]),
                "way {number}, killed at call {at}"
            );
            fixture.check_no_temporary();
            assert!(fixture.get(&repository, &name).unwrap() == Some(segment_bytes(1, 3, SYSTEM)));
            if over {
                break;
            }
        }
        assert!(kills > 30, "way {number}: it was killed at {kills} calls only");
        assert!(left > 3, "way {number}: only {left} kills have left a temporary file");
    }
}

/// A process that stays cleans up once, when it starts, in all directories of the layout. The
/// temporary file of a living writer stays.
#[test]
fn temporary_files_of_killed_processes_are_removed() {
    let mut fixture = Fixture::new();
    let options = way(1);
    let repository = fixture.repository(options.clone());
    for number in 3..6 {
        let name = fixture.segment(1, number);
        fixture.push(&repository, &name).unwrap();
    }
    let stored = fixture.contents();
    let dirs: Vec<_> =
        stored.keys().filter_map(|path| path.parent()).map(Path::to_path_buf).collect();
    for dir in &dirs {
        fs::write(dir.join("forebay-temp.x.1.2"), b"x").unwrap();
    }
    fs::create_dir_all(fixture.archive().join("backups/one.partial")).unwrap();
    let other = fixture.archive().join("backups/one.partial/forebay-temp.x.1.2");
    fs::write(&other, b"x").unwrap();
    let living = dirs[0].join("forebay-temp.y.1.2");
    let file = fixture
        .aio
        .namespace()
        .open(&living, &forebay_aio::OpenOptions::READ_WRITE.create_new())
        .unwrap();
    assert!(fixture.aio.namespace().try_lock(&file).unwrap());
    let mut expected: Vec<_> = stored.keys().cloned().chain([other, living]).collect();
    expected.sort();
    let mut distinct = dirs.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(repository.clean(&mut fixture.io).unwrap(), distinct.len());
    assert_eq!(fixture.contents().into_keys().collect::<Vec<_>>(), expected);
}
