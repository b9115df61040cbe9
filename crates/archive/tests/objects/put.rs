//! Files stored in an object store, whatever it answers.

use std::sync::Arc;

use forebay_archive::ArchiveError;
use forebay_archive::Archived;
use forebay_archive::store::{Bucket, Depot, Repository, StoreOptions};

use forebay_testkit::files::flip;

use crate::common::fixture::{Fixture, all_options};
use crate::common::segments::{SIZE, SYSTEM, segment_bytes};
use crate::proxy::{ALWAYS, Fault};
use crate::store::{LONG, SHORT, Store};

const SLOW_DOWN: Fault = Fault::Answer(503, "", "<Error><Code>SlowDown</Code></Error>");
const INTERNAL_ERROR: Fault = Fault::Answer(
    500,
    "Content-Type: application/xml\r\n",
    "<?xml version=\"1.0\"?><Error><Code>InternalError</Code>\
     <Message>We encountered an internal error.</Message></Error>",
);
const CONFLICT: Fault =
    Fault::Answer(409, "", "<Error><Code>ConditionalRequestConflict</Code></Error>");
/// An error in the body of an answer with the status of a success.
const ERROR_IN_SUCCESS: Fault =
    Fault::Answer(200, "ETag: \"0123\"\r\n", "<Error><Code>InternalError</Code></Error>");

/// The stored file, its manifest, and the marker.
const ALL: [&str; 3] = ["000000010000000000000003$", ".manifest$", "forebay-archive$"];

/// A push succeeds although one request fails, and the archive has only the file.
fn survives(test: &str, timeout: &str, fault: Fault) {
    // A stalled request takes long, so only one is tried.
    let some = if matches!(fault, Fault::Stall) { &ALL[..1] } else { &ALL };
    for what in some {
        let Some(store) = Store::new(test) else { return };
        let mut fixture = Fixture::new();
        let repository = store.repository(StoreOptions::default(), timeout);
        let name = fixture.segment(1, 3);
        store.proxy.harm(1, "PUT", what, fault.clone());
        fixture.push(&repository, &name).unwrap_or_else(|error| panic!("{what}: {error}"));
        // After a lost answer, the object is found without a second attempt.
        let attempts = if matches!(fault, Fault::LoseAnswer) { 1 } else { 2 };
        assert!(store.proxy.seen("PUT", what) >= attempts, "{what} was stored without any trouble");
        whole(&store, &mut fixture, &name);
    }
}

/// Checks that the archive has only this segment.
fn whole(store: &Store, fixture: &mut Fixture, name: &str) {
    let root = "some/where/";
    let expected = [
        format!("{root}{name}"),
        format!("{root}{name}.manifest"),
        format!("{root}forebay-archive"),
    ];
    assert_eq!(store.keys(), expected);
    assert_eq!(store.uploads(), 0, "an upload in parts is left");
    let repository = store.plain();
    assert!(fixture.get(&repository, name).unwrap() == Some(segment_bytes(1, 3, SYSTEM)));
    assert_eq!(fixture.push(&repository, name).unwrap(), Archived::Identical);
    fixture.check_no_temporary();
}

/// A push fails while all requests that store the segment fail, and succeeds afterwards.
fn fails_while(test: &str, fault: Fault, reason: &str) {
    let Some(store) = Store::new(test) else { return };
    let mut fixture = Fixture::new();
    let name = fixture.segment(1, 3);
    // Creates the archive.
    fixture.push(&store.plain(), &fixture.segment(1, 2)).unwrap();
    let before = store.keys();
    store.proxy.harm(ALWAYS, "PUT", &format!("{name}$"), fault.clone());
    // Only the look-ups of this one must succeed within the timeout.
    let timeout = if matches!(fault, Fault::Stall) { "2" } else { SHORT };
    let error = loop {
        match fixture.push(&store.repository(StoreOptions::default(), timeout), &name).unwrap_err()
        {
            // On a busy machine, a look-up may have timed out.
            error
                if error.to_string().contains("no progress") && !reason.contains("no progress") => {
            }
            error => break error,
        }
    };
    assert!(error.to_string().contains(reason), "{error}");
    assert_eq!(store.keys(), before, "nothing is stored");
    store.proxy.heal();
    assert_eq!(fixture.push(&store.plain(), &name).unwrap(), Archived::Stored);
    assert!(fixture.get(&store.plain(), &name).unwrap() == Some(segment_bytes(1, 3, SYSTEM)));
}

#[test]
fn files_are_stored_and_identical_ones_succeed_again() {
    let Some(store) = Store::new("files_are_stored_and_identical_ones_succeed_again") else {
        return;
    };
    let mut fixture = Fixture::new();
    for (n, options) in all_options().into_iter().enumerate() {
        let url = format!("s3://{}/{n}", store.bucket);
        let open = || Repository::new(Arc::new(store.open(&url, LONG)), options.clone());
        std::fs::write(fixture.wal("00000002.history"), "1\t0/400100\tx\n").unwrap();
        for name in [fixture.segment(1, 3), fixture.segment(1, 4), "00000002.history".to_owned()] {
            assert_eq!(fixture.push(&open(), &name).unwrap(), Archived::Stored, "{options:?}");
            assert_eq!(fixture.push(&open(), &name).unwrap(), Archived::Identical, "{options:?}");
            let bytes = std::fs::read(fixture.wal(&name)).unwrap();
            assert!(fixture.get(&open(), &name).unwrap() == Some(bytes), "{options:?}");
        }
    }
    fixture.check_no_temporary();
}

#[test]
fn different_contents_are_refused_and_both_hashes_named() {
    let Some(store) = Store::new("different_contents_are_refused_and_both_hashes_named") else {
        return;
    };
    let mut fixture = Fixture::new();
    let name = fixture.segment(1, 3);
    fixture.push(&store.plain(), &name).unwrap();
    let (_, before) = store.ask("GET", &format!("/some/where/{name}"), b"");
    // After the first page, so that the header stays valid.
    flip(&fixture.wal(&name), 9000);
    for manifest in [true, false] {
        if !manifest {
            store.ask("DELETE", &format!("/some/where/{name}.manifest"), b"");
        }
        let error = fixture.push(&store.plain(), &name).unwrap_err();
        let ArchiveError::Different { stored, offered, .. } = &error else { panic!("{error}") };
        assert_ne!(stored, offered);
        let text = error.to_string();
        assert!(
            text.contains(&stored.to_string()) && text.contains(&offered.to_string()),
            "{text}"
        );
        let (_, after) = store.ask("GET", &format!("/some/where/{name}"), b"");
        assert!(before == after, "what is stored has changed");
    }
    // A file that a crash left without a manifest gets one by a push of the same contents.
    flip(&fixture.wal(&name), 9000);
    assert_eq!(fixture.push(&store.plain(), &name).unwrap(), Archived::Identical);
    whole(&store, &mut fixture, &name);
}

#[test]
fn slow_down_503_is_tried_again() {
    survives("slow_down_503_is_tried_again", LONG, SLOW_DOWN);
}

#[test]
fn slow_down_503_is_never_a_success() {
    fails_while("slow_down_503_is_never_a_success", SLOW_DOWN, "SlowDown");
}

#[test]
fn internal_error_500_with_a_body_is_tried_again() {
    survives("internal_error_500_with_a_body_is_tried_again", LONG, INTERNAL_ERROR);
}

#[test]
fn internal_error_500_with_a_body_is_never_a_success() {
    fails_while(
        "internal_error_500_with_a_body_is_never_a_success",
        INTERNAL_ERROR,
        "We encountered an internal error",
    );
}

#[test]
fn a_200_that_carries_an_error_is_tried_again() {
    survives("a_200_that_carries_an_error_is_tried_again", LONG, ERROR_IN_SUCCESS);
}

#[test]
fn a_200_that_carries_an_error_is_never_a_success() {
    fails_while(
        "a_200_that_carries_an_error_is_never_a_success",
        ERROR_IN_SUCCESS,
        "does not have it",
    );
}

#[test]
fn a_conflict_409_is_tried_again() {
    survives("a_conflict_409_is_tried_again", LONG, CONFLICT);
}

#[test]
fn a_conflict_409_without_end_is_an_error() {
    fails_while("a_conflict_409_without_end_is_an_error", CONFLICT, "ConditionalRequestConflict");
}

#[test]
fn a_refusal_403_is_an_error_at_once() {
    let refusal = Fault::Answer(403, "", "<Error><Code>AccessDenied</Code></Error>");
    fails_while("a_refusal_403_is_an_error_at_once", refusal, "AccessDenied");
}

#[test]
fn a_reset_in_the_midst_of_an_upload_is_tried_again() {
    survives("a_reset_in_the_midst_of_an_upload_is_tried_again", LONG, Fault::ResetUpload(300_000));
}

#[test]
fn an_upload_that_stalls_is_tried_again() {
    // The other requests have the same timeout, perhaps on a busy machine.
    survives("an_upload_that_stalls_is_tried_again", "3", Fault::Stall);
}

#[test]
fn an_upload_that_always_stalls_is_an_error() {
    fails_while("an_upload_that_always_stalls_is_an_error", Fault::Stall, "no progress");
}

#[test]
fn an_answer_of_our_own_that_was_lost_makes_the_412_after_it_a_success() {
    survives(
        "an_answer_of_our_own_that_was_lost_makes_the_412_after_it_a_success",
        LONG,
        Fault::NoAnswer,
    );
}

#[test]
fn an_answer_that_was_lost_in_a_reset_is_looked_up() {
    survives("an_answer_that_was_lost_in_a_reset_is_looked_up", LONG, Fault::LoseAnswer);
}

#[test]
fn a_412_for_the_contents_of_another_is_no_success() {
    let Some(store) = Store::new("a_412_for_the_contents_of_another_is_no_success") else { return };
    let mut fixture = Fixture::new();
    let name = fixture.segment(1, 3);
    fixture.push(&store.plain(), &fixture.segment(1, 2)).unwrap();
    // Another writer's file appears between our look-up and our upload, whose answer is lost.
    let mut other = segment_bytes(1, 3, SYSTEM);
    other[9000] ^= 1;
    store.ask("PUT", &format!("/some/where/{name}"), &other);
    let nothing = "<ListBucketResult></ListBucketResult>";
    store.proxy.harm(1, "GET", "list-type", Fault::Answer(200, "", nothing));
    store.proxy.harm(1, "PUT", &name, Fault::LoseAnswer);
    let error = fixture.push(&store.plain(), &name).unwrap_err();
    assert!(matches!(error, ArchiveError::Different { .. }), "{error}");
    assert!(store.proxy.seen("PUT", &name) > 0, "it was not even tried");
    assert!(store.ask("GET", &format!("/some/where/{name}"), b"").1 == other);
}

#[test]
fn uploads_in_parts_that_others_left_are_in_nobodys_way() {
    let Some(store) = Store::new("uploads_in_parts_that_others_left_are_in_nobodys_way") else {
        return;
    };
    let mut fixture = Fixture::new();
    let name = fixture.segment(1, 3);
    let (status, _) = store.ask("POST", &format!("/some/where/{name}?uploads"), b"");
    assert_eq!(status, 200);
    assert_eq!(store.uploads(), 1);
    let repository = store.plain();
    assert_eq!(fixture.push(&repository, &name).unwrap(), Archived::Stored);
    assert!(fixture.get(&repository, &name).unwrap() == Some(segment_bytes(1, 3, SYSTEM)));
    let found = repository.verify(&fixture.aio, &Default::default(), &|_, _| ()).unwrap();
    assert_eq!(found.problems, []);
    assert_eq!(store.uploads(), 1, "it is not ours to end");
}

#[test]
fn a_store_that_replaces_objects_is_refused() {
    let Some(store) = Store::new("a_store_that_replaces_objects_is_refused") else { return };
    let mut fixture = Fixture::new();
    let name = fixture.segment(1, 3);
    store.proxy.harm(ALWAYS, "PUT", "", Fault::Unconditional);
    let error = fixture.push(&store.plain(), &name).unwrap_err();
    assert!(error.to_string().contains("it replaces objects"), "{error}");
    assert_eq!(store.keys(), Vec::<String>::new(), "nothing is left there");
}

#[test]
fn a_bucket_that_is_missing_is_not_made() {
    let Some(store) = Store::new("a_bucket_that_is_missing_is_not_made") else { return };
    let mut fixture = Fixture::new();
    let name = fixture.segment(1, 3);
    let url = format!("s3://{}-of-others/archive", store.bucket);
    let repository = Repository::new(Arc::new(store.open(&url, LONG)), StoreOptions::default());
    let error = fixture.push(&repository, &name).unwrap_err();
    assert!(error.to_string().contains("NoSuchBucket"), "{error}");
}

#[test]
fn a_stop_interrupts_an_upload() {
    let Some(store) = Store::new("a_stop_interrupts_an_upload") else { return };
    let mut fixture = Fixture::new();
    let name = fixture.segment(1, 3);
    let bucket: Arc<Bucket> = Arc::new(store.open(&store.url(), "3600"));
    let repository =
        Repository::new(Arc::clone(&bucket) as Arc<dyn Depot>, StoreOptions::default());
    fixture.push(&repository, &fixture.segment(1, 2)).unwrap();
    store.proxy.harm(ALWAYS, "PUT", &name, Fault::Stall);
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            store.proxy.wait_for("PUT", &name);
            bucket.interrupt();
        });
        fixture.push(&repository, &name).unwrap_err()
    });
    assert!(matches!(error, ArchiveError::Stopped { .. }) && error.is_stop(), "{error}");
    store.proxy.heal();
    assert_eq!(
        fixture.push(&repository, &name).unwrap(),
        Archived::Stored,
        "it goes on being used"
    );
}

#[test]
fn large_files_go_in_one_request() {
    let Some(store) = Store::new("large_files_go_in_one_request") else { return };
    let mut fixture = Fixture::new();
    let name = fixture.segment(1, 3);
    assert_eq!(SIZE.bytes(), 1 << 20);
    fixture.push(&store.plain(), &name).unwrap();
    assert_eq!(store.proxy.seen("PUT", &format!("/some/where/{name}?")), 0, "no parts");
    assert_eq!(store.proxy.seen("POST", &format!("/some/where/{name}")), 0, "no upload of parts");
}
