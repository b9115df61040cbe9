//! With a key, files that others may have stored are refused.

use std::fs;

use forebay_archive::ArchiveError;
use forebay_archive::Archived;
use forebay_archive::store::StoreOptions;
use forebay_archive::store::codec::Compression;
use forebay_archive::store::seal::Key;
use forebay_archive::store::verify::{Problem, VerifyOptions};

use crate::common::fixture::Fixture;
use crate::common::segments::{SYSTEM, segment_bytes};

fn sealed() -> StoreOptions {
    StoreOptions { key: Some(Key::from_bytes([7; 32])), ..StoreOptions::default() }
}

/// Pushes a segment without the key, and then puts the keyed archive's marker back.
fn plant(fixture: &mut Fixture, compression: Compression) -> String {
    let name = fixture.segment(1, 4);
    let marker = fixture.archive().join("forebay-archive");
    let own = fs::read(&marker).unwrap();
    fs::remove_file(&marker).unwrap();
    let planter = fixture.repository(StoreOptions { compression, ..StoreOptions::default() });
    fixture.push(&planter, &name).unwrap();
    fs::write(&marker, own).unwrap();
    name
}

#[test]
fn forged_files_with_manifests_are_refused() {
    for compression in [Compression::None, Compression::Zstd(1)] {
        let mut fixture = Fixture::new();
        let first = fixture.segment(1, 3);
        let repository = fixture.repository(sealed());
        fixture.push(&repository, &first).unwrap();
        let name = plant(&mut fixture, compression);
        let error = fixture.get(&repository, &name).unwrap_err();
        assert!(matches!(error, ArchiveError::Unsealed { .. }), "{error}");
        // A push of the same contents does not adopt it either.
        let error = fixture.push(&repository, &name).unwrap_err();
        assert!(matches!(error, ArchiveError::Unsealed { .. }), "{error}");
        let found = repository.verify(&fixture.aio, &VerifyOptions::default(), &|_, _| {}).unwrap();
        let told = |problem: &Problem| {
            problem.is_serious()
                && matches!(problem, Problem::Damaged { name: n, .. } if n.as_str() == name)
        };
        assert!(found.problems.iter().any(told), "{:?}", found.problems);
        assert!(fixture.get(&repository, &first).unwrap() == Some(segment_bytes(1, 3, SYSTEM)));
        fixture.check_no_temporary();
    }
}

#[test]
fn forged_files_without_manifests_are_refused() {
    let mut fixture = Fixture::new();
    let first = fixture.segment(1, 3);
    let repository = fixture.repository(sealed());
    fixture.push(&repository, &first).unwrap();
    let name = fixture.segment(1, 4);
    fs::write(fixture.archive().join(&name), segment_bytes(1, 4, SYSTEM)).unwrap();
    let error = fixture.get(&repository, &name).unwrap_err();
    assert!(matches!(error, ArchiveError::Unsealed { .. }), "{error}");
    let error = fixture.push(&repository, &name).unwrap_err();
    assert!(matches!(error, ArchiveError::Unsealed { .. }), "{error}");
    assert!(!fixture.archive().join(format!("{name}.manifest")).exists(), "nothing was adopted");
    fixture.check_no_temporary();
}

#[test]
fn an_archive_with_a_missing_or_forged_marker_is_refused() {
    let mut fixture = Fixture::new();
    let name = fixture.segment(1, 3);
    fixture.push(&fixture.repository(sealed()), &name).unwrap();
    let marker = fixture.archive().join("forebay-archive");
    let own = fs::read_to_string(&marker).unwrap();
    fs::remove_file(&marker).unwrap();
    fs::write(fixture.archive().join("000000010000000000000001"), segment_bytes(1, 1, SYSTEM))
        .unwrap();
    let error = fixture.get(&fixture.repository(sealed()), &name).unwrap_err();
    assert!(matches!(error, ArchiveError::NoArchive { .. }), "{error}");
    // The marker of another cluster, with a valid checksum.
    let unsigned =
        own.lines().filter(|line| !line.starts_with("auth: ") && !line.starts_with("check: "));
    let body: String = unsigned.map(|line| format!("{line}\n")).collect();
    let check = forebay_format::crc::crc32c(body.as_bytes());
    fs::write(&marker, format!("{body}check: {check:08x}\n")).unwrap();
    let error = fixture.get(&fixture.repository(sealed()), &name).unwrap_err();
    assert!(matches!(error, ArchiveError::Unsealed { .. }), "{error}");
    let auth = own.lines().find(|line| line.starts_with("auth: ")).unwrap();
    let body = format!("{}{auth}\n", body.replace(&SYSTEM.to_string(), &(SYSTEM + 1).to_string()));
    let check = forebay_format::crc::crc32c(body.as_bytes());
    fs::write(&marker, format!("{body}check: {check:08x}\n")).unwrap();
    let error = fixture.get(&fixture.repository(sealed()), &name).unwrap_err();
    assert!(matches!(error, ArchiveError::Forged { .. }), "{error}");
    fs::write(&marker, own).unwrap();
    assert!(
        fixture.get(&fixture.repository(sealed()), &name).unwrap()
            == Some(segment_bytes(1, 3, SYSTEM))
    );
}

#[test]
fn a_manifest_of_the_same_key_that_was_changed_is_refused() {
    let mut fixture = Fixture::new();
    let name = fixture.segment(1, 3);
    let repository = fixture.repository(sealed());
    fixture.push(&repository, &name).unwrap();
    let manifest = fixture.archive().join(format!("{name}.manifest"));
    let text = fs::read_to_string(&manifest).unwrap();
    let body = &text[..text.find("check: ").unwrap()].replace("timeline: 1", "timeline: 2");
    let check = forebay_format::crc::crc32c(body.as_bytes());
    fs::write(&manifest, format!("{body}check: {check:08x}\n")).unwrap();
    let error = fixture.get(&repository, &name).unwrap_err();
    assert!(matches!(error, ArchiveError::Forged { .. }), "{error}");
    let accepting = StoreOptions { accept_unencrypted: true, ..sealed() };
    let error = fixture.get(&fixture.repository(accepting), &name).unwrap_err();
    assert!(matches!(error, ArchiveError::Forged { .. }), "accepted by nobody: {error}");
}

#[test]
fn unencrypted_files_are_read_if_the_options_allow_it() {
    let mut fixture = Fixture::new();
    let (old, new) = (fixture.segment(1, 3), fixture.segment(1, 4));
    fixture.push(&fixture.plain(), &old).unwrap();
    let error = fixture.get(&fixture.repository(sealed()), &old).unwrap_err();
    assert!(matches!(error, ArchiveError::Unsealed { .. }), "{error}");
    let error = fixture.push(&fixture.repository(sealed()), &new).unwrap_err();
    assert!(matches!(error, ArchiveError::Unsealed { .. }), "{error}");
    let accepting = fixture.repository(StoreOptions { accept_unencrypted: true, ..sealed() });
    fixture.push(&accepting, &new).unwrap();
    assert!(fixture.get(&accepting, &old).unwrap() == Some(segment_bytes(1, 3, SYSTEM)));
    assert!(fixture.get(&accepting, &new).unwrap() == Some(segment_bytes(1, 4, SYSTEM)));
    assert!(fixture.archive().join(format!("{new}.enc")).exists(), "new files are encrypted");
    // An adopted file has an authenticated manifest, and is refused nevertheless.
    let plain = fixture.segment(1, 5);
    fs::write(fixture.archive().join(&plain), segment_bytes(1, 5, SYSTEM)).unwrap();
    assert_eq!(fixture.push(&accepting, &plain).unwrap(), Archived::Identical);
    fs::remove_file(fixture.archive().join("forebay-archive")).unwrap();
    fixture.push(&fixture.repository(sealed()), &new).unwrap();
    for error in [
        fixture.push(&fixture.repository(sealed()), &plain).unwrap_err(),
        fixture.get(&fixture.repository(sealed()), &plain).unwrap_err(),
    ] {
        assert!(matches!(error, ArchiveError::Unsealed { .. }), "{error}");
    }
}

#[test]
fn an_archive_can_continue_with_another_key_if_the_options_allow_it() {
    let mut fixture = Fixture::new();
    let (old, new) = (fixture.segment(1, 3), fixture.segment(1, 4));
    fixture.push(&fixture.repository(sealed()), &old).unwrap();
    let other = StoreOptions { key: Some(Key::from_bytes([8; 32])), ..StoreOptions::default() };
    let error = fixture.push(&fixture.repository(other.clone()), &new).unwrap_err();
    assert!(matches!(error, ArchiveError::OtherKey { .. }), "{error}");
    let accepting = fixture.repository(StoreOptions { accept_unencrypted: true, ..other });
    fixture.push(&accepting, &new).unwrap();
    assert!(fixture.get(&accepting, &new).unwrap() == Some(segment_bytes(1, 4, SYSTEM)));
    let error = fixture.get(&accepting, &old).unwrap_err();
    assert!(matches!(error, ArchiveError::OtherKey { .. }), "{error}");
}

#[test]
fn no_unencrypted_file_is_stored_in_an_encrypted_archive() {
    let mut fixture = Fixture::new();
    let (first, second) = (fixture.segment(1, 3), fixture.segment(1, 4));
    fixture.push(&fixture.repository(sealed()), &first).unwrap();
    let error = fixture.push(&fixture.plain(), &second).unwrap_err();
    assert!(matches!(error, ArchiveError::NoKey { .. }), "{error}");
    assert!(!fixture.archive().join(&second).exists());
}
