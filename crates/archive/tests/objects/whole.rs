//! A whole archive: verified, listed, expired; used by the archiver and by archiverd.

use std::fs;
use std::sync::Arc;

use forebay_archive::SourceOptions;
use forebay_archive::archiver::{Archiver, ArchiverConfig, StopMode, Threads};
use forebay_archive::modules::Archive;
use forebay_archive::resident::wire::{Reply, Request};
use forebay_archive::resident::{Answer, ResidentOptions, ask, serve};
use forebay_archive::store::Repository;
use forebay_archive::store::verify::{Problem, VerifyOptions};

use crate::common::fixture::{Fixture, all_options};
use crate::common::segments::{SIZE, SYSTEM, segment_bytes, wal_name};
use crate::proxy::Fault;
use crate::store::{LONG, Store};

const SLOW_DOWN: Fault = Fault::Answer(503, "", "<Error><Code>SlowDown</Code></Error>");

fn verify(fixture: &Fixture, repository: &Repository, quick: bool) -> Vec<Problem> {
    repository
        .verify(&fixture.aio, &VerifyOptions { threads: 3, quick }, &|_, _| ())
        .unwrap()
        .problems
}

#[test]
fn archives_are_verified_listed_and_cut() {
    let Some(store) = Store::new("archives_are_verified_listed_and_cut") else { return };
    // Default options, and all options.
    for (n, options) in
        [all_options().remove(0), all_options().pop().unwrap()].into_iter().enumerate()
    {
        let mut fixture = Fixture::new();
        let url = format!("s3://{}/{n}", store.bucket);
        let repository = Repository::new(Arc::new(store.open(&url, LONG)), options);
        for number in 3..9 {
            let name = fixture.segment(1, number);
            fixture.push(&repository, &name).unwrap();
        }
        fs::write(fixture.wal("00000002.history"), "1\t0/400100\tx\n").unwrap();
        fixture.push(&repository, "00000002.history").unwrap();
        // The store fails once meanwhile.
        store.proxy.harm(2, "GET", "000000010000000000000005", SLOW_DOWN);
        store.proxy.harm(1, "GET", "list-type", SLOW_DOWN);
        for quick in [false, true] {
            assert_eq!(verify(&fixture, &repository, quick), []);
        }
        let inventory = repository.inventory(&mut fixture.io).unwrap();
        let ranges: Vec<_> =
            inventory.ranges().iter().map(|r| (r.timeline, r.first, r.last)).collect();
        assert_eq!((ranges, inventory.system), (vec![(1, 3, 8)], Some(SYSTEM)));
        let cut = SIZE.file_name(1, 5);
        store.proxy.harm(1, "POST", "?delete", SLOW_DOWN);
        let expired = repository
            .expire(&mut fixture.io, Some(&wal_name(&cut)), &[], false, &mut |_, _| ())
            .unwrap();
        assert_eq!((expired.before, expired.files.len()), (cut, 2));
        assert!(fixture.get(&repository, &SIZE.file_name(1, 4)).unwrap().is_none());
        assert!(fixture.get(&repository, &SIZE.file_name(1, 5)).unwrap().is_some());
        assert_eq!(verify(&fixture, &repository, false), []);
    }
}

#[test]
fn everything_that_is_wrong_is_found() {
    let Some(store) = Store::new("everything_that_is_wrong_is_found") else { return };
    let mut fixture = Fixture::new();
    let repository = store.plain();
    for number in 3..9 {
        let name = fixture.segment(1, number);
        fixture.push(&repository, &name).unwrap();
    }
    let path = |number, ending: &str| format!("/some/where/{}{ending}", SIZE.file_name(1, number));
    let mut damaged = segment_bytes(1, 3, SYSTEM);
    damaged[500_000] ^= 1;
    store.ask("PUT", &path(3, ""), &damaged);
    for gone in [path(4, ""), path(4, ".manifest"), path(5, ""), path(7, ".manifest")] {
        store.ask("DELETE", &gone, b"");
    }
    store.ask("PUT", "/some/where/notes.txt", b"x");
    store.ask("PUT", "/some/other/archive", b"not ours");
    let found = verify(&fixture, &repository, false);
    let name = |number| wal_name(&SIZE.file_name(1, number));
    let has =
        |what: &dyn Fn(&Problem) -> bool| found.iter().filter(|problem| what(problem)).count() == 1;
    assert!(has(&|p| matches!(p, Problem::Damaged { name: n, .. } if *n == name(3))), "{found:?}");
    assert!(has(&|p| matches!(p, Problem::Gap { count: 1, .. })), "{found:?}");
    assert!(has(&|p| matches!(p, Problem::Missing { name: n } if *n == name(5))), "{found:?}");
    assert!(has(&|p| matches!(p, Problem::NoManifest { name: n } if *n == name(7))), "{found:?}");
    assert!(has(&|p| matches!(p, Problem::Foreign { key } if key == "notes.txt")), "{found:?}");
    assert_eq!(found.len(), 5, "{found:?}");
}

#[test]
fn the_archiver_stores_several_at_once_and_acknowledges_what_is_there() {
    let test = "the_archiver_stores_several_at_once_and_acknowledges_what_is_there";
    let Some(store) = Store::new(test) else { return };
    let mut fixture = Fixture::new();
    let names: Vec<String> = (3..13).map(|number| fixture.segment(1, number)).collect();
    for name in &names {
        fs::write(fixture.wal(&format!("archive_status/{name}.ready")), b"").unwrap();
    }
    store.proxy.harm(2, "PUT", &names[0], SLOW_DOWN);
    store.proxy.harm(1, "PUT", &names[4], Fault::LoseAnswer);
    store.proxy.harm(1, "PUT", &names[7], Fault::ResetUpload(100_000));
    let archiver =
        Archiver::new(&fixture.aio, &fixture.data().join("pg_wal"), ArchiverConfig::default());
    archiver.set_module(Some(Arc::new(Archive::of(&fixture.aio, store.plain(), Some(SYSTEM)))));
    archiver.scan().unwrap();
    Threads::start(&archiver, 4).unwrap().stop(StopMode::Drain).unwrap();
    let stats = archiver.stats();
    assert_eq!((stats.archived_count, stats.failed_count), (10, 0));
    for name in &names {
        assert!(fixture.wal(&format!("archive_status/{name}.done")).exists());
        assert!(fixture.get(&store.plain(), name).unwrap().is_some());
    }
    assert_eq!(verify(&fixture, &store.plain(), false), []);
}

#[test]
fn archiverd_stores_to_it_and_fetches_ahead() {
    let Some(store) = Store::new("archiverd_stores_to_it_and_fetches_ahead") else { return };
    let fixture = Fixture::new();
    let socket = fixture.dir.path().join("s");
    let options = ResidentOptions {
        socket: socket.clone(),
        archive: "it".to_owned(),
        transfers: 3,
        prefetch: 4,
        prefetch_bytes: 64 << 20,
        source: SourceOptions::default(),
    };
    let server = serve(&fixture.aio, store.plain(), options).unwrap();
    let say = |request: &Request| match ask(&socket, "it", request) {
        Answer::Reply(reply) => reply,
        Answer::Nobody(why) => panic!("nobody answers: {why}"),
    };
    for number in 3..9 {
        let name = fixture.segment(1, number);
        assert_eq!(say(&Request::Push { path: fixture.wal(&name) }), Reply::Done);
    }
    let path = fixture.wal("RECOVERYXLOG");
    for number in 3..9 {
        let request = Request::Get { name: SIZE.file_name(1, number), path: path.clone() };
        assert_eq!(say(&request), Reply::Done);
        assert!(fs::read(&path).unwrap() == segment_bytes(1, number, SYSTEM), "segment {number}");
    }
    let absent = Request::Get { name: SIZE.file_name(1, 9), path: path.clone() };
    assert_eq!(say(&absent), Reply::Absent);
    store.ask("DELETE", "/some/where/forebay-archive", b"");
    assert!(matches!(say(&absent), Reply::Failed(_)), "a lost archive is no absence");
    drop(server);
    fixture.check_no_temporary();
}
