//! Files stored in an archive.

use std::fs;

use forebay_archive::ArchiveError;
use forebay_archive::Archived;
use forebay_archive::store::StoreOptions;
use forebay_archive::store::codec::Compression;
use forebay_archive::store::layout::LayoutKind;

use forebay_testkit::files::flip;

use crate::common::fixture::{Fixture, all_options};
use crate::common::segments::{SYSTEM, segment_bytes};

const HISTORY: &[u8] = b"1\t0/3000000\tno recovery target specified\n";
const BACKUP: &[u8] = b"START WAL LOCATION: 0/3000028 (file 000000010000000000000030)\n";

#[test]
fn identical_again_with_all_options() {
    for options in all_options() {
        let mut fixture = Fixture::new();
        let what = format!("{options:?}");
        let segment = fixture.segment(1, 3);
        fs::write(fixture.wal("00000002.history"), HISTORY).unwrap();
        let backup = format!("{segment}.00000028.backup");
        fs::write(fixture.wal(&backup), BACKUP).unwrap();
        let partial = format!("{segment}.partial");
        fs::copy(fixture.wal(&segment), fixture.wal(&partial)).unwrap();
        let names = [segment.as_str(), "00000002.history", &backup, &partial];
        for name in names {
            let repository = fixture.repository(options.clone());
            assert_eq!(fixture.push(&repository, name).unwrap(), Archived::Stored, "{what} {name}");
        }
        let stored = fixture.contents();
        for name in names {
            let repository = fixture.repository(options.clone());
            assert_eq!(
                fixture.push(&repository, name).unwrap(),
                Archived::Identical,
                "{what} {name}"
            );
            let bytes = fixture.get(&repository, name).unwrap();
            assert!(bytes == Some(fs::read(fixture.wal(name)).unwrap()), "{what} {name}");
        }
        assert!(fixture.contents() == stored, "{what}: nothing has changed");
        fixture.check_no_temporary();
    }
}

#[test]
fn one_byte_different_past_the_first_8_kb_fails_and_changes_nothing() {
    for options in all_options() {
        let mut fixture = Fixture::new();
        let name = fixture.segment(1, 3);
        let repository = fixture.repository(options.clone());
        fixture.push(&repository, &name).unwrap();
        let stored = fixture.contents();
        flip(&fixture.wal(&name), 9000);
        let error = fixture.push(&repository, &name).unwrap_err();
        let ArchiveError::Different { stored: one, offered: other, .. } = &error else {
            panic!("{error}")
        };
        assert_ne!(one, other);
        let text = error.to_string();
        assert!(text.contains(&one.to_string()) && text.contains(&other.to_string()), "{text}");
        assert!(fixture.contents() == stored);
        fixture.check_no_temporary();
    }
}

#[test]
fn other_options_find_identical_contents() {
    let mut fixture = Fixture::new();
    let name = fixture.segment(1, 3);
    let zstd = fixture
        .repository(StoreOptions { compression: Compression::Zstd(1), ..StoreOptions::default() });
    assert_eq!(fixture.push(&zstd, &name).unwrap(), Archived::Stored);
    let stored = fixture.contents();
    let lz4 = fixture
        .repository(StoreOptions { compression: Compression::Lz4, ..StoreOptions::default() });
    assert_eq!(fixture.push(&lz4, &name).unwrap(), Archived::Identical);
    assert!(fixture.contents() == stored);
    assert!(fixture.get(&lz4, &name).unwrap() == Some(segment_bytes(1, 3, SYSTEM)));
    let hashed = fixture
        .repository(StoreOptions { layout: Some(LayoutKind::Hashed), ..StoreOptions::default() });
    let error = fixture.push(&hashed, &name).unwrap_err();
    assert!(matches!(error, ArchiveError::OtherLayout { .. }), "{error}");
}

/// A crash before the manifest is stored leaves such a file.
#[test]
fn a_stored_file_without_manifest_is_compared_and_gets_one() {
    for options in all_options() {
        let mut fixture = Fixture::new();
        let name = fixture.segment(1, 3);
        let repository = fixture.repository(options.clone());
        fixture.push(&repository, &name).unwrap();
        let stored = fixture.contents();
        fs::remove_file(fixture.stored(".manifest")).unwrap();
        assert!(
            fixture.get(&repository, &name).unwrap() == Some(segment_bytes(1, 3, SYSTEM)),
            "it is found"
        );
        assert_eq!(fixture.push(&repository, &name).unwrap(), Archived::Identical, "{options:?}");
        assert_eq!(
            fixture.contents().keys().collect::<Vec<_>>(),
            stored.keys().collect::<Vec<_>>()
        );
        fs::remove_file(fixture.stored(".manifest")).unwrap();
        flip(&fixture.wal(&name), 20_000);
        let without = fixture.contents();
        let error = fixture.push(&repository, &name).unwrap_err();
        assert!(matches!(error, ArchiveError::Different { .. }), "{error}");
        assert!(fixture.contents() == without);
    }
}

#[test]
fn files_stored_by_cp_get_a_manifest() {
    let mut fixture = Fixture::new();
    let name = fixture.segment(1, 3);
    fs::copy(fixture.wal(&name), fixture.archive().join(&name)).unwrap();
    let repository = fixture.plain();
    assert!(fixture.get(&repository, &name).unwrap().is_some());
    assert_eq!(fixture.push(&repository, &name).unwrap(), Archived::Identical);
    let other = fixture.segment(1, 4);
    fs::copy(fixture.wal(&other), fixture.archive().join(&other)).unwrap();
    flip(&fixture.archive().join(&other), 9000);
    let before = fs::read(fixture.archive().join(&other)).unwrap();
    assert!(matches!(fixture.push(&repository, &other), Err(ArchiveError::Different { .. })));
    assert!(fs::read(fixture.archive().join(&other)).unwrap() == before);
    let hashed = fixture
        .repository(StoreOptions { layout: Some(LayoutKind::Hashed), ..StoreOptions::default() });
    assert!(matches!(fixture.push(&hashed, &name), Err(ArchiveError::OtherLayout { .. })));
}

#[test]
fn wal_of_another_cluster_is_refused() {
    let mut fixture = Fixture::new();
    let name = fixture.segment(1, 3);
    let repository = fixture.plain();
    fixture.push(&repository, &name).unwrap();
    let stored = fixture.contents();
    // A segment of another cluster in this data directory.
    let other = fixture.segment(1, 4);
    fs::write(fixture.wal(&other), segment_bytes(1, 4, SYSTEM + 1)).unwrap();
    assert!(matches!(fixture.push(&repository, &other), Err(ArchiveError::Header { .. })));
    // Another cluster. Its history files do not tell the cluster, but its control file does.
    fixture.set_system(SYSTEM + 1);
    fs::write(fixture.wal("00000002.history"), HISTORY).unwrap();
    for name in [other.as_str(), "00000002.history"] {
        let error = fixture.push(&fixture.plain(), name).unwrap_err();
        assert!(matches!(error, ArchiveError::OtherSystem { .. }), "{error}");
    }
    assert!(fixture.contents() == stored);
}

#[test]
fn files_that_do_not_match_their_names_are_refused() {
    let mut fixture = Fixture::new();
    let repository = fixture.plain();
    let name = fixture.segment(1, 3);
    // Contents of another segment, of another timeline, a short file, an unused segment.
    let contents = [
        segment_bytes(1, 4, SYSTEM),
        segment_bytes(2, 3, SYSTEM),
        segment_bytes(1, 3, SYSTEM)[..8192].to_vec(),
        vec![0; 1 << 20],
        Vec::new(),
    ];
    for bytes in contents {
        fs::write(fixture.wal(&name), bytes).unwrap();
        fixture.push(&repository, &name).unwrap_err();
    }
    fs::write(fixture.wal(&name), segment_bytes(1, 3, SYSTEM)).unwrap();
    fs::hard_link(fixture.wal(&name), fixture.wal("000000010000000000000009")).unwrap();
    assert!(matches!(fixture.push(&repository, &name), Err(ArchiveError::Links { links: 2, .. })));
    assert!(matches!(
        fixture.push(&repository, "000000010000000000000077"),
        Err(ArchiveError::Vanished { .. })
    ));
    fs::write(fixture.wal("junk"), b"x").unwrap();
    assert!(matches!(fixture.push(&repository, "junk"), Err(ArchiveError::Name { .. })));
    assert!(fixture.contents().is_empty(), "{:?}", fixture.contents().keys());
    // It is archived once the other name is removed.
    fs::remove_file(fixture.wal("000000010000000000000009")).unwrap();
    assert_eq!(fixture.push(&repository, &name).unwrap(), Archived::Stored);
}

#[test]
fn a_missing_directory_is_not_created() {
    let mut fixture = Fixture::new();
    let name = fixture.segment(1, 3);
    let repository = fixture.plain();
    fs::remove_dir(fixture.archive()).unwrap();
    fixture.push(&repository, &name).unwrap_err();
    assert!(!fixture.archive().exists(), "it may be a file system that is not mounted");
    fs::create_dir(fixture.archive()).unwrap();
    assert_eq!(fixture.push(&repository, &name).unwrap(), Archived::Stored);
}

#[test]
fn a_lost_stored_file_is_reported() {
    let mut fixture = Fixture::new();
    let name = fixture.segment(1, 3);
    let repository = fixture.plain();
    fixture.push(&repository, &name).unwrap();
    fs::remove_file(fixture.archive().join(&name)).unwrap();
    let error = fixture.push(&repository, &name).unwrap_err();
    assert!(matches!(error, ArchiveError::Missing { .. }), "{error}");
    fs::write(fixture.archive().join(&name), b"short").unwrap();
    let error = fixture.push(&repository, &name).unwrap_err();
    assert!(matches!(error, ArchiveError::Damaged { .. }), "{error}");
}

#[test]
fn the_key_stays_out_of_the_archive() {
    let mut fixture = Fixture::new();
    let name = fixture.segment(1, 3);
    let options = all_options().into_iter().find(|options| options.key.is_some()).expect("one");
    let repository = fixture.repository(options.clone());
    fixture.push(&repository, &name).unwrap();
    let raw = segment_bytes(1, 3, SYSTEM);
    for bytes in fixture.contents().values() {
        assert!(
            !bytes.windows(64).any(|window| window == &raw[..64]),
            "the first bytes are to be read"
        );
        assert!(!bytes.windows(32).any(|window| window == [7; 32]), "the key is to be read");
    }
    let keyless = fixture.repository(StoreOptions { key: None, ..options });
    let error = fixture.get(&keyless, &name).unwrap_err();
    assert!(matches!(error, ArchiveError::NoKey { .. }), "{error}");
    assert_eq!(
        fixture.push(&keyless, &name).unwrap(),
        Archived::Identical,
        "the manifest tells without the key"
    );
}
