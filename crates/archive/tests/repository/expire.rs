//! Which files are removed, and which stay.

use std::fs;

use forebay_archive::ArchiveError;
use forebay_archive::store::StoreOptions;
use forebay_archive::store::expire::{Expired, NeededFrom};

use crate::common::fixture::{Fixture, all_options};
use crate::common::segments::{SIZE, wal_name};

fn filled(options: &StoreOptions) -> Fixture {
    let mut fixture = Fixture::new();
    let repository = fixture.repository(options.clone());
    for (timeline, number) in [(1, 3), (1, 4), (1, 5), (1, 6), (2, 4), (2, 5)] {
        let name = fixture.segment(timeline, number);
        fixture.push(&repository, &name).unwrap();
    }
    fs::write(fixture.wal("00000002.history"), "1\t0/400100\tx\n").unwrap();
    fixture.push(&repository, "00000002.history").unwrap();
    fixture
}

fn expire(
    fixture: &mut Fixture,
    options: &StoreOptions,
    before: Option<&str>,
    needed: &[(&str, u64)],
    dry_run: bool,
) -> Result<Expired, ArchiveError> {
    let repository = fixture.repository(options.clone());
    let from = |(backup, number): &(&str, u64)| NeededFrom {
        backup: (*backup).to_owned(),
        first: SIZE.file_name(1, *number),
    };
    let needed: Vec<NeededFrom> = needed.iter().map(from).collect();
    repository.expire(
        &mut fixture.io,
        before.map(wal_name).as_ref(),
        &needed,
        dry_run,
        &mut |_, _| (),
    )
}

fn names(fixture: &mut Fixture, options: &StoreOptions) -> Vec<String> {
    let inventory = fixture.repository(options.clone()).inventory(&mut fixture.io).unwrap();
    inventory.files.iter().map(|stored| stored.name.to_string()).collect()
}

#[test]
fn wal_before_the_cut_is_removed_on_every_timeline() {
    for options in all_options() {
        let mut fixture = filled(&options);
        let cut = SIZE.file_name(1, 5);
        let would = expire(&mut fixture, &options, Some(&cut), &[], true).unwrap();
        assert_eq!(names(&mut fixture, &options).len(), 7, "nothing goes in a dry run");
        let did = expire(&mut fixture, &options, Some(&cut), &[], false).unwrap();
        assert_eq!(would, did);
        let gone: Vec<String> = did.files.iter().map(ToString::to_string).collect();
        assert_eq!(gone, [SIZE.file_name(1, 3), SIZE.file_name(1, 4), SIZE.file_name(2, 4)]);
        assert_eq!(
            names(&mut fixture, &options),
            [
                "00000002.history".to_owned(),
                SIZE.file_name(1, 5),
                SIZE.file_name(1, 6),
                SIZE.file_name(2, 5)
            ]
        );
        for path in fixture.contents().keys() {
            assert!(!path.to_string_lossy().contains(&SIZE.file_name(1, 3)), "{}", path.display());
        }
    }
}

#[test]
fn wal_that_a_base_backup_needs_stays() {
    let options = StoreOptions::default();
    let mut fixture = filled(&options);
    let stored = fixture.contents();
    let needed = [("monday", 4), ("tuesday", 6)];
    let error =
        expire(&mut fixture, &options, Some(&SIZE.file_name(1, 5)), &needed, false).unwrap_err();
    let ArchiveError::Needed { backup, .. } = &error else { panic!("{error}") };
    assert_eq!(backup, "monday");
    let error = expire(&mut fixture, &options, None, &[], false).unwrap_err();
    assert!(matches!(error, ArchiveError::Refused(_)), "{error}");
    assert!(fixture.contents() == stored);
    let expired = expire(&mut fixture, &options, None, &needed, false).unwrap();
    assert_eq!((expired.before, expired.files.len()), (SIZE.file_name(1, 4), 1));
}

#[test]
fn wal_of_another_programs_backup_stays_until_a_later_backup_is_the_cut() {
    let options = StoreOptions::default();
    let mut fixture = filled(&options);
    let repository = fixture.repository(options.clone());
    let backups = [4, 6].map(|number| format!("{}.00000028.backup", SIZE.file_name(1, number)));
    for backup in &backups {
        fs::write(fixture.wal(backup), "START WAL LOCATION: 0/400028 (file x)\n").unwrap();
        fixture.push(&repository, backup).unwrap();
    }
    let error =
        expire(&mut fixture, &options, Some(&SIZE.file_name(1, 5)), &[], false).unwrap_err();
    assert!(matches!(error, ArchiveError::Needed { .. }), "{error}");
    expire(&mut fixture, &options, Some(&SIZE.file_name(1, 4)), &[], false).unwrap();
    let expired = expire(&mut fixture, &options, Some(&backups[1]), &[], false).unwrap();
    assert_eq!(expired.before, SIZE.file_name(1, 6));
    assert_eq!(
        names(&mut fixture, &options),
        ["00000002.history", &SIZE.file_name(1, 6), &backups[1]]
    );
}
