//! Out of the archive.

use std::fs;

use forebay_archive::error::ArchiveError;
use forebay_archive::store::{StoreError, StoreOptions};

use crate::bed::{Bed, SYSTEM, all_options, flip, segment_bytes};

#[test]
fn absence_is_said_only_of_an_archive_that_is_there() {
    for options in all_options() {
        let mut bed = Bed::new();
        let name = bed.segment(1, 3);
        let repository = bed.repository(options.clone());
        let error = bed.get(&repository, &name).unwrap_err();
        assert!(
            matches!(error, ArchiveError::Store(StoreError::NoArchive { .. })),
            "never used: {error}"
        );
        bed.push(&repository, &name).unwrap();
        let absent = bed.get(&repository, "000000010000000000000004").unwrap();
        assert!(absent.is_none());
        assert!(bed.get(&repository, "00000002.history").unwrap().is_none());
        // Not mounted: an empty directory, or none.
        let away = bed.dir.path().join("away");
        fs::rename(bed.archive(), &away).unwrap();
        bed.get(&repository, &name).unwrap_err();
        bed.get(&repository, "000000010000000000000004").unwrap_err();
        bed.get(&bed.repository(options.clone()), &name).unwrap_err();
        fs::create_dir(bed.archive()).unwrap();
        bed.get(&repository, &name).unwrap_err();
        bed.get(&bed.repository(options.clone()), &name).unwrap_err();
        fs::remove_dir(bed.archive()).unwrap();
        fs::rename(&away, bed.archive()).unwrap();
        assert!(bed.get(&repository, &name).unwrap() == Some(segment_bytes(1, 3, SYSTEM)));
        bed.check_tidy();
    }
}

#[test]
fn an_archive_whose_own_file_is_gone_is_not_believed() {
    let mut bed = Bed::new();
    let name = bed.segment(1, 3);
    let repository = bed.plain();
    bed.push(&repository, &name).unwrap();
    fs::remove_file(bed.archive().join("forebay-archive")).unwrap();
    let error = bed.get(&repository, "000000010000000000000004").unwrap_err();
    assert!(matches!(error, ArchiveError::Store(StoreError::NoArchive { .. })), "{error}");
}

#[test]
fn damage_of_any_stored_byte_is_an_error_and_restores_nothing() {
    for options in all_options() {
        let mut bed = Bed::new();
        let name = bed.segment(1, 3);
        let repository = bed.repository(options.clone());
        bed.push(&repository, &name).unwrap();
        let ending = format!("{name}{}", codec_ending(&options));
        let stored = bed.stored(&ending);
        let len = fs::metadata(&stored).unwrap().len() as usize;
        for at in [0, 7, 20, len / 2, len - 1] {
            flip(&stored, at);
            // A byte that a format does not use may be changed without harm.
            match bed.get(&repository, &name) {
                Ok(bytes) => {
                    assert!(bytes == Some(segment_bytes(1, 3, SYSTEM)), "{options:?} byte {at}")
                }
                Err(error) => assert!(matches!(error, ArchiveError::Store(_)), "{error}"),
            }
            if at == len / 2 {
                assert!(bed.get(&repository, &name).is_err(), "{options:?}");
            }
            flip(&stored, at);
        }
        let whole = fs::read(&stored).unwrap();
        for cut in [0, 1, len / 2, len - 1] {
            fs::write(&stored, &whole[..cut]).unwrap();
            match bed.get(&repository, &name) {
                // What ends a frame may be missing: the contents are known by their hash.
                Ok(bytes) => {
                    assert!(cut + 1 == len && bytes == Some(segment_bytes(1, 3, SYSTEM)), "{cut}")
                }
                Err(ArchiveError::Store(StoreError::Damaged { .. })) => {}
                Err(error) => panic!("cut at {cut}: {error}"),
            }
        }
        fs::write(&stored, &whole).unwrap();
        let manifest = bed.stored(".manifest");
        flip(&manifest, 60);
        let error = bed.get(&repository, &name).unwrap_err();
        assert!(matches!(error, ArchiveError::Store(StoreError::Text { .. })), "{error}");
        flip(&manifest, 60);
        fs::remove_file(&stored).unwrap();
        let error = bed.get(&repository, &name).unwrap_err();
        assert!(matches!(error, ArchiveError::Store(StoreError::Missing { .. })), "{error}");
        bed.check_tidy();
    }
}

fn codec_ending(options: &StoreOptions) -> String {
    let key = options.key.as_ref().map(|key| key.id());
    forebay_archive::store::codec::Codec { compression: options.compression, key }.ending()
}

#[test]
fn another_clusters_segment_is_not_restored() {
    let mut bed = Bed::new();
    let name = bed.segment(1, 3);
    let repository = bed.plain();
    bed.push(&repository, &name).unwrap();
    bed.set_system(SYSTEM + 1);
    let error = bed.get(&repository, &name).unwrap_err();
    assert!(error.to_string().contains(&SYSTEM.to_string()), "{error}");
    bed.check_tidy();
}

#[test]
fn another_files_contents_are_not_restored() {
    let mut bed = Bed::new();
    // Without a manifest, as cp would have stored it under the wrong name.
    fs::write(bed.archive().join("000000010000000000000004"), segment_bytes(1, 3, SYSTEM)).unwrap();
    let repository = bed.plain();
    bed.get(&repository, "000000010000000000000004").unwrap_err();
    fs::write(bed.archive().join("000000010000000000000005"), b"short").unwrap();
    bed.get(&repository, "000000010000000000000005").unwrap_err();
    bed.check_tidy();
}
