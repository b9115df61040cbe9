//! Into the archive.

use std::fs;

use forebay_archive::Archived;
use forebay_archive::error::ArchiveError;
use forebay_archive::store::codec::Compression;
use forebay_archive::store::layout::LayoutKind;
use forebay_archive::store::{StoreError, StoreOptions};

use crate::bed::{Bed, SYSTEM, all_options, flip, segment_bytes};

const HISTORY: &[u8] = b"1\t0/3000000\tno recovery target specified\n";
const BACKUP: &[u8] = b"START WAL LOCATION: 0/3000028 (file 000000010000000000000030)\n";

#[test]
fn identical_again_by_every_way_of_storing() {
    for options in all_options() {
        let mut bed = Bed::new();
        let what = format!("{options:?}");
        let segment = bed.segment(1, 3);
        fs::write(bed.wal("00000002.history"), HISTORY).unwrap();
        let backup = format!("{segment}.00000028.backup");
        fs::write(bed.wal(&backup), BACKUP).unwrap();
        let partial = format!("{segment}.partial");
        fs::copy(bed.wal(&segment), bed.wal(&partial)).unwrap();
        let names = [segment.as_str(), "00000002.history", &backup, &partial];
        for name in names {
            let repository = bed.repository(options.clone());
            assert_eq!(bed.push(&repository, name).unwrap(), Archived::Stored, "{what} {name}");
        }
        let stored = bed.contents();
        for name in names {
            let repository = bed.repository(options.clone());
            assert_eq!(bed.push(&repository, name).unwrap(), Archived::Identical, "{what} {name}");
            let bytes = bed.get(&repository, name).unwrap();
            assert!(bytes == Some(fs::read(bed.wal(name)).unwrap()), "{what} {name}");
        }
        assert!(bed.contents() == stored, "{what}: nothing has changed");
        bed.check_tidy();
    }
}

#[test]
fn one_byte_different_past_the_first_8_kb_fails_and_changes_nothing() {
    for options in all_options() {
        let mut bed = Bed::new();
        let name = bed.segment(1, 3);
        let repository = bed.repository(options.clone());
        bed.push(&repository, &name).unwrap();
        let stored = bed.contents();
        flip(&bed.wal(&name), 9000);
        let error = bed.push(&repository, &name).unwrap_err();
        let ArchiveError::Different { stored: one, offered: other, .. } = &error else {
            panic!("{error}")
        };
        assert_ne!(one, other);
        let text = error.to_string();
        assert!(text.contains(&one.to_string()) && text.contains(&other.to_string()), "{text}");
        assert!(bed.contents() == stored);
        bed.check_tidy();
    }
}

#[test]
fn other_options_later_are_no_difference() {
    let mut bed = Bed::new();
    let name = bed.segment(1, 3);
    let zstd = bed
        .repository(StoreOptions { compression: Compression::Zstd(1), ..StoreOptions::default() });
    assert_eq!(bed.push(&zstd, &name).unwrap(), Archived::Stored);
    let stored = bed.contents();
    let lz4 =
        bed.repository(StoreOptions { compression: Compression::Lz4, ..StoreOptions::default() });
    assert_eq!(bed.push(&lz4, &name).unwrap(), Archived::Identical);
    assert!(bed.contents() == stored);
    assert!(bed.get(&lz4, &name).unwrap() == Some(segment_bytes(1, 3, SYSTEM)));
    let hashed = bed
        .repository(StoreOptions { layout: Some(LayoutKind::Hashed), ..StoreOptions::default() });
    let error = bed.push(&hashed, &name).unwrap_err();
    assert!(matches!(error, ArchiveError::Store(StoreError::OtherLayout { .. })), "{error}");
}

/// A crash between the two leaves it so.
#[test]
fn a_stored_file_without_manifest_is_compared_and_gets_one() {
    for options in all_options() {
        let mut bed = Bed::new();
        let name = bed.segment(1, 3);
        let repository = bed.repository(options.clone());
        bed.push(&repository, &name).unwrap();
        let stored = bed.contents();
        fs::remove_file(bed.stored(".manifest")).unwrap();
        assert!(
            bed.get(&repository, &name).unwrap() == Some(segment_bytes(1, 3, SYSTEM)),
            "it is found"
        );
        assert_eq!(bed.push(&repository, &name).unwrap(), Archived::Identical, "{options:?}");
        assert_eq!(bed.contents().keys().collect::<Vec<_>>(), stored.keys().collect::<Vec<_>>());
        fs::remove_file(bed.stored(".manifest")).unwrap();
        flip(&bed.wal(&name), 20_000);
        let without = bed.contents();
        let error = bed.push(&repository, &name).unwrap_err();
        assert!(matches!(error, ArchiveError::Different { .. }), "{error}");
        assert!(bed.contents() == without);
    }
}

#[test]
fn what_cp_has_stored_is_taken_over() {
    let mut bed = Bed::new();
    let name = bed.segment(1, 3);
    fs::copy(bed.wal(&name), bed.archive().join(&name)).unwrap();
    let repository = bed.plain();
    assert!(bed.get(&repository, &name).unwrap().is_some());
    assert_eq!(bed.push(&repository, &name).unwrap(), Archived::Identical);
    let other = bed.segment(1, 4);
    fs::copy(bed.wal(&other), bed.archive().join(&other)).unwrap();
    flip(&bed.archive().join(&other), 9000);
    let before = fs::read(bed.archive().join(&other)).unwrap();
    assert!(matches!(bed.push(&repository, &other), Err(ArchiveError::Different { .. })));
    assert!(fs::read(bed.archive().join(&other)).unwrap() == before);
    let hashed = bed
        .repository(StoreOptions { layout: Some(LayoutKind::Hashed), ..StoreOptions::default() });
    assert!(matches!(
        bed.push(&hashed, &name),
        Err(ArchiveError::Store(StoreError::OtherLayout { .. }))
    ));
}

#[test]
fn wal_of_another_cluster_is_refused() {
    let mut bed = Bed::new();
    let name = bed.segment(1, 3);
    let repository = bed.plain();
    bed.push(&repository, &name).unwrap();
    let stored = bed.contents();
    // A segment that strayed into this data directory.
    let other = bed.segment(1, 4);
    fs::write(bed.wal(&other), segment_bytes(1, 4, SYSTEM + 1)).unwrap();
    assert!(matches!(bed.push(&repository, &other), Err(ArchiveError::Header { .. })));
    // Another cluster that is to be archived here; its history files say nothing, but its control
    // file does.
    bed.set_system(SYSTEM + 1);
    fs::write(bed.wal("00000002.history"), HISTORY).unwrap();
    for name in [other.as_str(), "00000002.history"] {
        let error = bed.push(&bed.plain(), name).unwrap_err();
        assert!(matches!(error, ArchiveError::Store(StoreError::OtherSystem { .. })), "{error}");
    }
    assert!(bed.contents() == stored);
}

#[test]
fn what_is_no_wal_file_of_that_name_is_refused() {
    let mut bed = Bed::new();
    let repository = bed.plain();
    let name = bed.segment(1, 3);
    // Another segment's contents, of another timeline, a short file, one that was never written.
    let contents = [
        segment_bytes(1, 4, SYSTEM),
        segment_bytes(2, 3, SYSTEM),
        segment_bytes(1, 3, SYSTEM)[..8192].to_vec(),
        vec![0; 1 << 20],
        Vec::new(),
    ];
    for bytes in contents {
        fs::write(bed.wal(&name), bytes).unwrap();
        bed.push(&repository, &name).unwrap_err();
    }
    fs::write(bed.wal(&name), segment_bytes(1, 3, SYSTEM)).unwrap();
    fs::hard_link(bed.wal(&name), bed.wal("000000010000000000000009")).unwrap();
    assert!(matches!(bed.push(&repository, &name), Err(ArchiveError::Links { links: 2, .. })));
    assert!(matches!(
        bed.push(&repository, "000000010000000000000077"),
        Err(ArchiveError::Vanished { .. })
    ));
    fs::write(bed.wal("junk"), b"x").unwrap();
    assert!(matches!(bed.push(&repository, "junk"), Err(ArchiveError::Name { .. })));
    assert!(bed.contents().is_empty(), "{:?}", bed.contents().keys());
    // And when the other name is gone it is archived.
    fs::remove_file(bed.wal("000000010000000000000009")).unwrap();
    assert_eq!(bed.push(&repository, &name).unwrap(), Archived::Stored);
}

#[test]
fn a_directory_that_is_missing_is_not_made() {
    let mut bed = Bed::new();
    let name = bed.segment(1, 3);
    let repository = bed.plain();
    fs::remove_dir(bed.archive()).unwrap();
    bed.push(&repository, &name).unwrap_err();
    assert!(!bed.archive().exists(), "it may be a file system that is not mounted");
    fs::create_dir(bed.archive()).unwrap();
    assert_eq!(bed.push(&repository, &name).unwrap(), Archived::Stored);
}

#[test]
fn a_stored_file_that_is_lost_is_told_of() {
    let mut bed = Bed::new();
    let name = bed.segment(1, 3);
    let repository = bed.plain();
    bed.push(&repository, &name).unwrap();
    fs::remove_file(bed.archive().join(&name)).unwrap();
    let error = bed.push(&repository, &name).unwrap_err();
    assert!(matches!(error, ArchiveError::Store(StoreError::Missing { .. })), "{error}");
    fs::write(bed.archive().join(&name), b"short").unwrap();
    let error = bed.push(&repository, &name).unwrap_err();
    assert!(matches!(error, ArchiveError::Store(StoreError::Damaged { .. })), "{error}");
}

#[test]
fn the_key_stays_out_of_the_archive() {
    let mut bed = Bed::new();
    let name = bed.segment(1, 3);
    let options = all_options().into_iter().find(|options| options.key.is_some()).expect("one");
    let repository = bed.repository(options.clone());
    bed.push(&repository, &name).unwrap();
    let raw = segment_bytes(1, 3, SYSTEM);
    for bytes in bed.contents().values() {
        assert!(
            !bytes.windows(64).any(|window| window == &raw[..64]),
            "the first bytes are to be read"
        );
        assert!(!bytes.windows(32).any(|window| window == [7; 32]), "the key is to be read");
    }
    let keyless = bed.repository(StoreOptions { key: None, ..options });
    let error = bed.get(&keyless, &name).unwrap_err();
    assert!(matches!(error, ArchiveError::Store(StoreError::NoKey { .. })), "{error}");
    assert_eq!(
        bed.push(&keyless, &name).unwrap(),
        Archived::Identical,
        "the manifest tells without the key"
    );
}
