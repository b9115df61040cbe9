//! An archive as the source of a recovery. Requested files come in their order, and prefetched
//! files are checked like all others.

use std::fs;

use forebay_archive::ArchiveError;
use forebay_archive::store::{Repository, StoreOptions};
use forebay_archive::{Restorer, RestorerOptions};

use forebay_testkit::files::flip;

use crate::common::fixture::{Fixture, all_options};
use crate::common::segments::{SIZE, SYSTEM, segment_bytes, wal_name};

const AHEAD: RestorerOptions = RestorerOptions { threads: 2, files: 4, bytes: 64 << 20 };

fn get(
    fixture: &mut Fixture,
    restorer: &Restorer,
    name: &str,
) -> Result<Option<Vec<u8>>, ArchiveError> {
    let path = fixture.wal("RECOVERYXLOG");
    let _ = fs::remove_file(&path);
    let found = restorer.get(&mut fixture.io, &wal_name(name), &path)?;
    assert_eq!(path.exists(), found);
    Ok(found.then(|| fs::read(&path).expect("it can be read")))
}

fn filled(options: &StoreOptions) -> (Fixture, Repository) {
    let mut fixture = Fixture::new();
    let repository = fixture.repository(options.clone());
    for number in 3..13 {
        let name = fixture.segment(1, number);
        fixture.push(&repository, &name).unwrap();
        fs::remove_file(fixture.wal(&name)).unwrap();
    }
    (fixture, repository)
}

#[test]
fn segments_come_in_order_and_absence_is_reported() {
    for options in all_options().into_iter().step_by(5) {
        let (mut fixture, repository) = filled(&options);
        for ahead in
            [AHEAD, RestorerOptions { threads: 0, ..AHEAD }, RestorerOptions { bytes: 0, ..AHEAD }]
        {
            let restorer =
                Restorer::start(&fixture.aio, fixture.repository(options.clone()), ahead);
            assert!(get(&mut fixture, &restorer, "00000002.history").unwrap().is_none());
            for number in 3..13 {
                // The newest timeline is requested first.
                assert!(
                    get(&mut fixture, &restorer, &SIZE.file_name(2, number)).unwrap().is_none()
                );
                let bytes = get(&mut fixture, &restorer, &SIZE.file_name(1, number)).unwrap();
                assert!(
                    bytes == Some(segment_bytes(1, number, SYSTEM)),
                    "{options:?}: segment {number}"
                );
            }
            assert!(get(&mut fixture, &restorer, &SIZE.file_name(1, 13)).unwrap().is_none());
            // An earlier segment is requested.
            assert!(get(&mut fixture, &restorer, &SIZE.file_name(1, 4)).unwrap().is_some());
        }
        // A file that was absent when it was fetched ahead may have arrived.
        let restorer = Restorer::start(&fixture.aio, fixture.repository(options.clone()), AHEAD);
        assert!(get(&mut fixture, &restorer, &SIZE.file_name(1, 12)).unwrap().is_some());
        assert!(get(&mut fixture, &restorer, &SIZE.file_name(1, 13)).unwrap().is_none());
        let name = fixture.segment(1, 13);
        fixture.push(&repository, &name).unwrap();
        assert!(get(&mut fixture, &restorer, &name).unwrap().is_some());
        drop(restorer);
        fixture.check_no_temporary();
    }
}

#[test]
fn a_disk_that_is_down_is_no_absence() {
    let (mut fixture, _) = filled(&StoreOptions::default());
    let restorer = Restorer::start(&fixture.aio, fixture.plain(), AHEAD);
    assert!(get(&mut fixture, &restorer, &SIZE.file_name(1, 3)).unwrap().is_some());
    let away = fixture.dir.path().join("away");
    fs::rename(fixture.archive(), &away).unwrap();
    for number in [9, 13] {
        get(&mut fixture, &restorer, &SIZE.file_name(1, number)).unwrap_err();
    }
    fs::create_dir(fixture.archive()).unwrap();
    get(&mut fixture, &restorer, &SIZE.file_name(1, 13)).unwrap_err();
    fs::remove_dir(fixture.archive()).unwrap();
    fs::rename(&away, fixture.archive()).unwrap();
    assert!(get(&mut fixture, &restorer, &SIZE.file_name(1, 9)).unwrap().is_some());
    assert!(get(&mut fixture, &restorer, &SIZE.file_name(1, 13)).unwrap().is_none());
}

#[test]
fn damage_and_other_clusters_are_reported_whether_prefetched_or_not() {
    for options in all_options().into_iter().step_by(5) {
        let (mut fixture, _) = filled(&options);
        let four = SIZE.file_name(1, 4);
        let stored = |path: &std::path::PathBuf| {
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            file.starts_with(&four) && !file.ends_with(".manifest")
        };
        let path = fixture.contents().into_keys().find(stored).expect("it is stored");
        flip(&path, 30_000);
        let restorer = Restorer::start(&fixture.aio, fixture.repository(options.clone()), AHEAD);
        assert!(get(&mut fixture, &restorer, &SIZE.file_name(1, 3)).unwrap().is_some());
        get(&mut fixture, &restorer, &four).unwrap_err();
        assert!(get(&mut fixture, &restorer, &SIZE.file_name(1, 5)).unwrap().is_some());
        fixture.set_system(SYSTEM + 1);
        for number in [6, 12] {
            get(&mut fixture, &restorer, &SIZE.file_name(1, number)).unwrap_err();
        }
        drop(restorer);
        fixture.check_no_temporary();
    }
}

#[test]
fn requested_files_are_restored_after_a_stop() {
    let (mut fixture, _) = filled(&StoreOptions::default());
    let restorer = Restorer::start(&fixture.aio, fixture.plain(), AHEAD);
    assert!(get(&mut fixture, &restorer, &SIZE.file_name(1, 3)).unwrap().is_some());
    restorer.stop();
    for number in 4..13 {
        let bytes = get(&mut fixture, &restorer, &SIZE.file_name(1, number)).unwrap();
        assert!(bytes == Some(segment_bytes(1, number, SYSTEM)));
    }
}
