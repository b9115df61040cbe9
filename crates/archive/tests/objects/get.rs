//! Files fetched from an object store; what counts as absence.

use std::sync::Arc;

use forebay_archive::ArchiveError;
use forebay_archive::store::{Repository, StoreOptions};

use crate::common::fixture::{Fixture, is_of_stored_file};
use crate::common::segments::{SYSTEM, segment_bytes};
use crate::proxy::{ALWAYS, Fault};
use crate::store::{LONG, SHORT, Store};

const ABSENT: &str = "000000010000000000000009";

/// Whether a file can be restored. A failed test then prints no megabyte.
fn get(fixture: &mut Fixture, repository: &Repository, name: &str) -> Result<bool, ArchiveError> {
    fixture.get(repository, name).map(|found| found.is_some())
}

/// A store with an archive of one segment.
fn filled(test: &str) -> Option<(Store, Fixture, String)> {
    let store = Store::new(test)?;
    let mut fixture = Fixture::new();
    let name = fixture.segment(1, 3);
    fixture.push(&store.plain(), &name).unwrap();
    Some((store, fixture, name))
}

/// A fault interrupts a download once, and the restored file is right nevertheless.
fn survives(test: &str, timeout: &str, fault: Fault) {
    let Some((store, mut fixture, name)) = filled(test) else { return };
    store.proxy.harm(1, "GET", ".manifest$", Fault::CutAnswer(10));
    store.proxy.harm(1, "GET", &format!("{name}$"), fault);
    let repository = store.repository(StoreOptions::default(), timeout);
    let before = store.proxy.seen("GET", &name);
    assert!(fixture.get(&repository, &name).unwrap() == Some(segment_bytes(1, 3, SYSTEM)));
    assert!(store.proxy.seen("GET", &name) - before >= 4, "manifest and file, each twice");
    fixture.check_no_temporary();
}

#[test]
fn a_truncated_download_goes_on_where_it_ended() {
    survives("a_truncated_download_goes_on_where_it_ended", LONG, Fault::CutAnswer(400_000));
}

#[test]
fn a_reset_in_the_midst_of_a_download_is_tried_again() {
    survives(
        "a_reset_in_the_midst_of_a_download_is_tried_again",
        LONG,
        Fault::ResetAnswer(400_000),
    );
}

#[test]
fn a_download_that_stalls_is_tried_again() {
    survives("a_download_that_stalls_is_tried_again", "3", Fault::StallAnswer(400_000));
}

#[test]
fn a_download_that_is_always_cut_is_an_error_and_restores_nothing() {
    let test = "a_download_that_is_always_cut_is_an_error_and_restores_nothing";
    let Some((store, mut fixture, name)) = filled(test) else { return };
    // A few bytes arrive each time, or none.
    let faults = [
        Fault::CutAnswer(1000),
        Fault::ResetAnswer(1000),
        Fault::StallAnswer(1000),
        Fault::CutAnswer(0),
        Fault::Stall,
    ];
    for fault in faults {
        store.proxy.harm(ALWAYS, "GET", &format!("{name}$"), fault.clone());
        let error = get(&mut fixture, &store.repository(StoreOptions::default(), SHORT), &name)
            .unwrap_err();
        assert!(matches!(error, ArchiveError::Store { .. }), "{fault:?}: {error}");
        store.proxy.heal();
        fixture.check_no_temporary();
        assert!(!fixture.wal("RECOVERYXLOG").exists(), "{fault:?}");
    }
    assert!(fixture.get(&store.plain(), &name).unwrap() == Some(segment_bytes(1, 3, SYSTEM)));
}

#[test]
fn a_shorter_object_than_was_stored_is_damage() {
    let Some((store, mut fixture, name)) = filled("a_shorter_object_than_was_stored_is_damage")
    else {
        return;
    };
    // The answer is complete, as its own length says.
    store.proxy.harm(1, "GET", ".manifest", Fault::Shorten(100));
    let error = get(&mut fixture, &store.plain(), &name).unwrap_err();
    assert!(matches!(error, ArchiveError::Manifest { .. }), "{error}");
    store.proxy.harm(1, "GET", &format!("{name}$"), Fault::Shorten(400_000));
    let error = get(&mut fixture, &store.plain(), &name).unwrap_err();
    assert!(matches!(error, ArchiveError::Damaged { .. }), "{error}");
    fixture.check_no_temporary();
    assert!(!fixture.wal("RECOVERYXLOG").exists());
}

#[test]
fn an_error_in_the_place_of_an_object_is_no_object() {
    let Some((store, mut fixture, name)) =
        filled("an_error_in_the_place_of_an_object_is_no_object")
    else {
        return;
    };
    let headers = "ETag: \"0123\"\r\nLast-Modified: Sat, 21 Nov 2026 17:00:00 GMT\r\n";
    let error_in_success = Fault::Answer(200, headers, "<Error><Code>InternalError</Code></Error>");
    for what in ["forebay-archive$".to_owned(), ".manifest$".to_owned(), format!("{name}$")] {
        store.proxy.harm(ALWAYS, "GET", &what, error_in_success.clone());
        let error = get(&mut fixture, &store.plain(), &name).unwrap_err();
        assert!(is_of_stored_file(&error), "{what}: {error}");
        store.proxy.heal();
        fixture.check_no_temporary();
    }
}

#[test]
fn absence_is_said_when_the_store_says_it() {
    let Some((store, mut fixture, _)) = filled("absence_is_said_when_the_store_says_it") else {
        return;
    };
    assert!(fixture.get(&store.plain(), ABSENT).unwrap().is_none());
    assert!(fixture.get(&store.plain(), "00000002.history").unwrap().is_none());
    // An invalid list is requested again.
    let no_list = Fault::Answer(200, "", "<Error><Code>SlowDown</Code></Error>");
    store.proxy.harm(1, "GET", "list-type", no_list);
    assert!(fixture.get(&store.plain(), ABSENT).unwrap().is_none());
    fixture.check_no_temporary();
}

#[test]
fn a_store_that_is_down_is_no_absence() {
    let Some((store, mut fixture, name)) = filled("a_store_that_is_down_is_no_absence") else {
        return;
    };
    let faults = [
        Fault::Answer(503, "", "<Error><Code>SlowDown</Code></Error>"),
        Fault::Answer(200, "", "<Error><Code>SlowDown</Code></Error>"),
        Fault::LoseAnswer,
        Fault::Answer(500, "", "<Error><Code>InternalError</Code></Error>"),
        Fault::Answer(403, "", "<Error><Code>AccessDenied</Code></Error>"),
        Fault::Answer(200, "", ""),
        Fault::CutAnswer(0),
        Fault::Stall,
    ];
    let some = &faults[..3];
    // Any request of the look-up fails: for the marker, the manifest, the list.
    for (what, faults) in
        [("", &faults[..]), ("forebay-archive", some), (".manifest", some), ("list-type", some)]
    {
        for fault in faults {
            store.proxy.harm(ALWAYS, "GET", what, fault.clone());
            let repository = store.repository(StoreOptions::default(), SHORT);
            let found = get(&mut fixture, &repository, ABSENT);
            assert!(found.is_err(), "{what} {fault:?}: {found:?}");
            store.proxy.heal();
        }
    }
    assert!(fixture.get(&store.plain(), ABSENT).unwrap().is_none());
    assert!(fixture.get(&store.plain(), &name).unwrap().is_some());
    fixture.check_no_temporary();
}

#[test]
fn a_place_that_is_gone_is_no_absence() {
    let Some((store, mut fixture, name)) = filled("a_place_that_is_gone_is_no_absence") else {
        return;
    };
    // An empty prefix; a missing bucket; an archive that has lost its marker.
    for url in [format!("s3://{}/else/where", store.bucket), format!("s3://{}-x/a", store.bucket)] {
        let repository = Repository::new(Arc::new(store.open(&url, LONG)), StoreOptions::default());
        let found = get(&mut fixture, &repository, ABSENT);
        assert!(found.is_err(), "{url}: {found:?}");
    }
    let repository = store.plain();
    assert!(fixture.get(&repository, &name).unwrap().is_some());
    store.ask("DELETE", "/some/where/forebay-archive", b"");
    let error = get(&mut fixture, &repository, ABSENT).unwrap_err();
    assert!(matches!(error, ArchiveError::NoArchive { .. }), "{error}");
    // No server listens.
    let nobody =
        std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let variables = [
        ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{nobody}")),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
        ("AWS_ACCESS_KEY_ID", "test".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
        ("FOREBAY_ARCHIVE_TIMEOUT", SHORT.to_owned()),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value));
    let bucket = forebay_archive::store::Bucket::open(&store.url(), variables).unwrap();
    let error =
        get(&mut fixture, &Repository::new(Arc::new(bucket), StoreOptions::default()), ABSENT)
            .unwrap_err();
    assert!(matches!(error, ArchiveError::Store { .. }), "{error}");
    fixture.check_no_temporary();
}
