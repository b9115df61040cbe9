//! Files fetched from an archive.

use std::fs;

use forebay_archive::ArchiveError;
use forebay_archive::store::StoreOptions;

use forebay_testkit::files::flip;

use crate::common::fixture::{Fixture, all_options, is_of_stored_file};
use crate::common::segments::{SYSTEM, segment_bytes};

#[test]
fn absence_is_reported_only_of_an_existing_archive() {
    for options in all_options() {
        let mut fixture = Fixture::new();
        let name = fixture.segment(1, 3);
        let repository = fixture.repository(options.clone());
        let error = fixture.get(&repository, &name).unwrap_err();
        assert!(matches!(error, ArchiveError::NoArchive { .. }), "never used: {error}");
        fixture.push(&repository, &name).unwrap();
        let absent = fixture.get(&repository, "000000010000000000000004").unwrap();
        assert!(absent.is_none());
        assert!(fixture.get(&repository, "00000002.history").unwrap().is_none());
        // A file system that is not mounted: an empty directory, or none.
        let away = fixture.dir.path().join("away");
        fs::rename(fixture.archive(), &away).unwrap();
        fixture.get(&repository, &name).unwrap_err();
        fixture.get(&repository, "000000010000000000000004").unwrap_err();
        fixture.get(&fixture.repository(options.clone()), &name).unwrap_err();
        fs::create_dir(fixture.archive()).unwrap();
        fixture.get(&repository, &name).unwrap_err();
        fixture.get(&fixture.repository(options.clone()), &name).unwrap_err();
        fs::remove_dir(fixture.archive()).unwrap();
        fs::rename(&away, fixture.archive()).unwrap();
        assert!(fixture.get(&repository, &name).unwrap() == Some(segment_bytes(1, 3, SYSTEM)));
        fixture.check_no_temporary();
    }
}

#[test]
fn an_archive_that_lost_its_marker_is_an_error() {
    let mut fixture = Fixture::new();
    let name = fixture.segment(1, 3);
    let repository = fixture.plain();
    fixture.push(&repository, &name).unwrap();
    fs::remove_file(fixture.archive().join("forebay-archive")).unwrap();
    let error = fixture.get(&repository, "000000010000000000000004").unwrap_err();
    assert!(matches!(error, ArchiveError::NoArchive { .. }), "{error}");
}

#[test]
fn damage_of_any_stored_byte_is_an_error_and_restores_nothing() {
    for options in all_options() {
        let mut fixture = Fixture::new();
        let name = fixture.segment(1, 3);
        let repository = fixture.repository(options.clone());
        fixture.push(&repository, &name).unwrap();
        let ending = format!("{name}{}", codec_ending(&options));
        let stored = fixture.stored(&ending);
        let len = fs::metadata(&stored).unwrap().len() as usize;
        for at in [0, 7, 20, len / 2, len - 1] {
            flip(&stored, at);
            // A change of a byte that the format does not use is harmless.
            match fixture.get(&repository, &name) {
                Ok(bytes) => {
                    assert!(bytes == Some(segment_bytes(1, 3, SYSTEM)), "{options:?} byte {at}")
                }
                Err(error) => assert!(is_of_stored_file(&error), "{error}"),
            }
            if at == len / 2 {
                assert!(fixture.get(&repository, &name).is_err(), "{options:?}");
            }
            flip(&stored, at);
        }
        let whole = fs::read(&stored).unwrap();
        for cut in [0, 1, len / 2, len - 1] {
            fs::write(&stored, &whole[..cut]).unwrap();
            match fixture.get(&repository, &name) {
                // The end of a frame may be missing: the hash verifies the contents.
                Ok(bytes) => {
                    assert!(cut + 1 == len && bytes == Some(segment_bytes(1, 3, SYSTEM)), "{cut}")
                }
                Err(ArchiveError::Damaged { .. }) => {}
                Err(error) => panic!("cut at {cut}: {error}"),
            }
        }
        fs::write(&stored, &whole).unwrap();
        let manifest = fixture.stored(".manifest");
        flip(&manifest, 60);
        let error = fixture.get(&repository, &name).unwrap_err();
        assert!(matches!(error, ArchiveError::Manifest { .. }), "{error}");
        flip(&manifest, 60);
        fs::remove_file(&stored).unwrap();
        let error = fixture.get(&repository, &name).unwrap_err();
        assert!(matches!(error, ArchiveError::Missing { .. }), "{error}");
        fixture.check_no_temporary();
    }
}

fn codec_ending(options: &StoreOptions) -> String {
    let key = options.key.as_ref().map(|key| key.id());
    forebay_archive::store::codec::Codec { compression: options.compression, key }.ending()
}

#[test]
fn another_clusters_segment_is_not_restored() {
    let mut fixture = Fixture::new();
    let name = fixture.segment(1, 3);
    let repository = fixture.plain();
    fixture.push(&repository, &name).unwrap();
    fixture.set_system(SYSTEM + 1);
    let error = fixture.get(&repository, &name).unwrap_err();
    assert!(error.to_string().contains(&SYSTEM.to_string()), "{error}");
    fixture.check_no_temporary();
}

#[test]
fn the_contents_of_another_file_are_not_restored() {
    let mut fixture = Fixture::new();
    // Without a manifest, as if cp had stored it under the wrong name.
    fs::write(fixture.archive().join("000000010000000000000004"), segment_bytes(1, 3, SYSTEM))
        .unwrap();
    let repository = fixture.plain();
    fixture.get(&repository, "000000010000000000000004").unwrap_err();
    fs::write(fixture.archive().join("000000010000000000000005"), b"short").unwrap();
    fixture.get(&repository, "000000010000000000000005").unwrap_err();
    fixture.check_no_temporary();
}
