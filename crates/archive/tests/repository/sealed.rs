//! With a key, what others could have planted is refused.

use std::fs;

use forebay_archive::Archived;
use forebay_archive::error::ArchiveError;
use forebay_archive::store::codec::Compression;
use forebay_archive::store::seal::Key;
use forebay_archive::store::verify::{Problem, VerifyOptions};
use forebay_archive::store::{StoreError, StoreOptions};

use crate::bed::{Bed, SYSTEM, segment_bytes};

fn sealed() -> StoreOptions {
    StoreOptions { key: Some(Key::from_bytes([7; 32])), ..StoreOptions::default() }
}

fn store_error(error: &ArchiveError) -> &StoreError {
    match error {
        ArchiveError::Store(error) => error,
        other => panic!("{other}"),
    }
}

/// Pushes a segment as one without the key would, and takes the archive's own file of the keyed one
/// again.
fn plant(bed: &mut Bed, compression: Compression) -> String {
    let name = bed.segment(1, 4);
    let marker = bed.archive().join("forebay-archive");
    let own = fs::read(&marker).unwrap();
    fs::remove_file(&marker).unwrap();
    let planter = bed.repository(StoreOptions { compression, ..StoreOptions::default() });
    bed.push(&planter, &name).unwrap();
    fs::write(&marker, own).unwrap();
    name
}

#[test]
fn planted_files_with_manifests_are_refused() {
    for compression in [Compression::None, Compression::Zstd(1)] {
        let mut bed = Bed::new();
        let first = bed.segment(1, 3);
        let repository = bed.repository(sealed());
        bed.push(&repository, &first).unwrap();
        let name = plant(&mut bed, compression);
        let error = bed.get(&repository, &name).unwrap_err();
        assert!(matches!(store_error(&error), StoreError::Unsealed { .. }), "{error}");
        // Nor is it adopted by one who stores the same.
        let error = bed.push(&repository, &name).unwrap_err();
        assert!(matches!(store_error(&error), StoreError::Unsealed { .. }), "{error}");
        let found = repository.verify(&bed.aio, &VerifyOptions::default(), &|_, _| {}).unwrap();
        let told = |problem: &Problem| {
            problem.is_serious()
                && matches!(problem, Problem::Damaged { name: n, .. } if n.as_str() == name)
        };
        assert!(found.problems.iter().any(told), "{:?}", found.problems);
        assert!(bed.get(&repository, &first).unwrap() == Some(segment_bytes(1, 3, SYSTEM)));
        bed.check_tidy();
    }
}

#[test]
fn planted_files_without_manifests_are_refused() {
    let mut bed = Bed::new();
    let first = bed.segment(1, 3);
    let repository = bed.repository(sealed());
    bed.push(&repository, &first).unwrap();
    let name = bed.segment(1, 4);
    fs::write(bed.archive().join(&name), segment_bytes(1, 4, SYSTEM)).unwrap();
    let error = bed.get(&repository, &name).unwrap_err();
    assert!(matches!(store_error(&error), StoreError::Unsealed { .. }), "{error}");
    let error = bed.push(&repository, &name).unwrap_err();
    assert!(matches!(store_error(&error), StoreError::Unsealed { .. }), "{error}");
    assert!(!bed.archive().join(format!("{name}.manifest")).exists(), "nothing was adopted");
    bed.check_tidy();
}

#[test]
fn an_archive_that_lost_its_own_file_or_has_another_is_refused() {
    let mut bed = Bed::new();
    let name = bed.segment(1, 3);
    bed.push(&bed.repository(sealed()), &name).unwrap();
    let marker = bed.archive().join("forebay-archive");
    let own = fs::read_to_string(&marker).unwrap();
    fs::remove_file(&marker).unwrap();
    fs::write(bed.archive().join("000000010000000000000001"), segment_bytes(1, 1, SYSTEM)).unwrap();
    let error = bed.get(&bed.repository(sealed()), &name).unwrap_err();
    assert!(matches!(store_error(&error), StoreError::NoArchive { .. }), "{error}");
    // Another cluster's, by one who knows how to make its checksum.
    let unsigned =
        own.lines().filter(|line| !line.starts_with("auth: ") && !line.starts_with("check: "));
    let body: String = unsigned.map(|line| format!("{line}\n")).collect();
    let check = forebay_format::crc::crc32c(body.as_bytes());
    fs::write(&marker, format!("{body}check: {check:08x}\n")).unwrap();
    let error = bed.get(&bed.repository(sealed()), &name).unwrap_err();
    assert!(matches!(store_error(&error), StoreError::Unsealed { .. }), "{error}");
    let auth = own.lines().find(|line| line.starts_with("auth: ")).unwrap();
    let body = format!("{}{auth}\n", body.replace(&SYSTEM.to_string(), &(SYSTEM + 1).to_string()));
    let check = forebay_format::crc::crc32c(body.as_bytes());
    fs::write(&marker, format!("{body}check: {check:08x}\n")).unwrap();
    let error = bed.get(&bed.repository(sealed()), &name).unwrap_err();
    assert!(matches!(store_error(&error), StoreError::Forged { .. }), "{error}");
    fs::write(&marker, own).unwrap();
    assert!(
        bed.get(&bed.repository(sealed()), &name).unwrap() == Some(segment_bytes(1, 3, SYSTEM))
    );
}

#[test]
fn a_manifest_of_the_same_key_that_was_changed_is_refused() {
    let mut bed = Bed::new();
    let name = bed.segment(1, 3);
    let repository = bed.repository(sealed());
    bed.push(&repository, &name).unwrap();
    let manifest = bed.archive().join(format!("{name}.manifest"));
    let text = fs::read_to_string(&manifest).unwrap();
    let body = &text[..text.find("check: ").unwrap()].replace("timeline: 1", "timeline: 2");
    let check = forebay_format::crc::crc32c(body.as_bytes());
    fs::write(&manifest, format!("{body}check: {check:08x}\n")).unwrap();
    let error = bed.get(&repository, &name).unwrap_err();
    assert!(matches!(store_error(&error), StoreError::Forged { .. }), "{error}");
    let accepting = StoreOptions { accept_unencrypted: true, ..sealed() };
    let error = bed.get(&bed.repository(accepting), &name).unwrap_err();
    assert!(
        matches!(store_error(&error), StoreError::Forged { .. }),
        "accepted by nobody: {error}"
    );
}

#[test]
fn an_archive_from_before_the_key_is_read_if_so_asked() {
    let mut bed = Bed::new();
    let (old, new) = (bed.segment(1, 3), bed.segment(1, 4));
    bed.push(&bed.plain(), &old).unwrap();
    let error = bed.get(&bed.repository(sealed()), &old).unwrap_err();
    assert!(matches!(store_error(&error), StoreError::Unsealed { .. }), "{error}");
    let error = bed.push(&bed.repository(sealed()), &new).unwrap_err();
    assert!(matches!(store_error(&error), StoreError::Unsealed { .. }), "{error}");
    let accepting = bed.repository(StoreOptions { accept_unencrypted: true, ..sealed() });
    bed.push(&accepting, &new).unwrap();
    assert!(bed.get(&accepting, &old).unwrap() == Some(segment_bytes(1, 3, SYSTEM)));
    assert!(bed.get(&accepting, &new).unwrap() == Some(segment_bytes(1, 4, SYSTEM)));
    assert!(bed.archive().join(format!("{new}.enc")).exists(), "new files are encrypted");
    // One that was adopted then has a manifest of the key's holder, and is refused again all the
    // same.
    let plain = bed.segment(1, 5);
    fs::write(bed.archive().join(&plain), segment_bytes(1, 5, SYSTEM)).unwrap();
    assert_eq!(bed.push(&accepting, &plain).unwrap(), Archived::Identical);
    fs::remove_file(bed.archive().join("forebay-archive")).unwrap();
    bed.push(&bed.repository(sealed()), &new).unwrap();
    for error in [
        bed.push(&bed.repository(sealed()), &plain).unwrap_err(),
        bed.get(&bed.repository(sealed()), &plain).unwrap_err(),
    ] {
        assert!(matches!(store_error(&error), StoreError::Unsealed { .. }), "{error}");
    }
}

#[test]
fn an_archive_goes_on_with_another_key_if_so_asked() {
    let mut bed = Bed::new();
    let (old, new) = (bed.segment(1, 3), bed.segment(1, 4));
    bed.push(&bed.repository(sealed()), &old).unwrap();
    let other = StoreOptions { key: Some(Key::from_bytes([8; 32])), ..StoreOptions::default() };
    let error = bed.push(&bed.repository(other.clone()), &new).unwrap_err();
    assert!(matches!(store_error(&error), StoreError::OtherKey { .. }), "{error}");
    let accepting = bed.repository(StoreOptions { accept_unencrypted: true, ..other });
    bed.push(&accepting, &new).unwrap();
    assert!(bed.get(&accepting, &new).unwrap() == Some(segment_bytes(1, 4, SYSTEM)));
    let error = bed.get(&accepting, &old).unwrap_err();
    assert!(matches!(store_error(&error), StoreError::OtherKey { .. }), "{error}");
}

#[test]
fn nothing_is_stored_in_the_clear_in_an_encrypted_archive() {
    let mut bed = Bed::new();
    let (first, second) = (bed.segment(1, 3), bed.segment(1, 4));
    bed.push(&bed.repository(sealed()), &first).unwrap();
    let error = bed.push(&bed.plain(), &second).unwrap_err();
    assert!(matches!(store_error(&error), StoreError::NoKey { .. }), "{error}");
    assert!(!bed.archive().join(&second).exists());
}
