//! archiverd, in this process.

use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use forebay_archive::SourceOptions;
use forebay_archive::resident::wire::{Reply, Request};
use forebay_archive::resident::{Answer, ResidentOptions, Server, ask, serve};
use forebay_archive::store::StoreOptions;

use forebay_testkit::files::flip;

use crate::common::fixture::Fixture;
use crate::common::segments::{SIZE, SYSTEM, segment_bytes};

const NAME: &str = "the archive";

fn start(fixture: &Fixture, transfers: usize) -> Server {
    let options = ResidentOptions {
        socket: socket(fixture),
        archive: NAME.to_owned(),
        transfers,
        prefetch: 4,
        prefetch_bytes: 64 << 20,
        source: SourceOptions::default(),
    };
    serve(&fixture.aio, fixture.repository(StoreOptions::default()), options).expect("it starts")
}

fn socket(fixture: &Fixture) -> PathBuf {
    fixture.dir.path().join("s")
}

fn push(fixture: &Fixture, name: &str) -> Reply {
    let request = Request::Push { path: fixture.wal(name) };
    match ask(&socket(fixture), NAME, &request) {
        Answer::Reply(reply) => reply,
        Answer::Nobody(why) => panic!("nobody answers: {why}"),
    }
}

fn get(fixture: &Fixture, name: &str) -> (Reply, Option<Vec<u8>>) {
    let path = fixture.wal("RECOVERYXLOG");
    let _ = fs::remove_file(&path);
    let request = Request::Get { name: name.to_owned(), path: path.clone() };
    match ask(&socket(fixture), NAME, &request) {
        Answer::Reply(reply) => (reply, fs::read(path).ok()),
        Answer::Nobody(why) => panic!("nobody answers: {why}"),
    }
}

/// Waits until the file system's clock has advanced since a file was written. Its times can't be
/// set by a test.
fn wait_until_settled(fixture: &Fixture, name: &str) {
    let path = fixture.wal(name);
    let written = fs::metadata(path).unwrap().modified().unwrap();
    while SystemTime::now() <= written + Duration::from_millis(60) {
        std::thread::yield_now();
    }
}

#[test]
fn files_are_stored_and_known_afterwards() {
    let fixture = Fixture::new();
    let _server = start(&fixture, 0);
    let name = fixture.segment(1, 3);
    wait_until_settled(&fixture, &name);
    assert_eq!(push(&fixture, &name), Reply::Done);
    assert_eq!(push(&fixture, &name), Reply::Identical);
    // It is known to be stored: the archive is not even read.
    let away = fixture.dir.path().join("away");
    fs::rename(fixture.archive(), &away).unwrap();
    assert_eq!(push(&fixture, &name), Reply::Identical);
    fs::rename(&away, fixture.archive()).unwrap();
    flip(&fixture.wal(&name), 9000);
    let Reply::Failed(reason) = push(&fixture, &name) else { panic!("it has changed") };
    assert!(reason.contains("different contents"), "{reason}");
    // Changed back: the contents are the same again.
    flip(&fixture.wal(&name), 9000);
    assert_eq!(push(&fixture, &name), Reply::Identical);
}

#[test]
fn a_duplicate_costs_less_than_a_millisecond() {
    let fixture = Fixture::new();
    let _server = start(&fixture, 0);
    let name = fixture.segment(1, 3);
    wait_until_settled(&fixture, &name);
    push(&fixture, &name);
    let best = (0..200)
        .map(|_| {
            let begun = Instant::now();
            assert_eq!(push(&fixture, &name), Reply::Identical);
            begun.elapsed()
        })
        .min();
    assert!(best < Some(Duration::from_millis(1)), "{best:?}");
}

#[test]
fn ready_files_are_stored_ahead() {
    let mut fixture = Fixture::new();
    let server = start(&fixture, 3);
    let names: Vec<String> = (3..23).map(|number| fixture.segment(1, number)).collect();
    for name in &names {
        fs::write(fixture.wal(&format!("archive_status/{name}.ready")), b"").unwrap();
    }
    assert_eq!(push(&fixture, &names[0]), Reply::Done);
    // The others are stored although they were not requested.
    let begun = Instant::now();
    let repository = fixture.plain();
    for name in &names {
        while fixture.get(&repository, name).ok().flatten().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(600), "{name} is not stored");
            std::thread::yield_now();
        }
    }
    for name in &names[1..] {
        assert_eq!(push(&fixture, name), Reply::Identical);
    }
    drop(server);
    fixture.check_no_temporary();
}

#[test]
fn files_are_restored_and_the_next_ones_fetched_ahead() {
    let mut fixture = Fixture::new();
    let repository = fixture.plain();
    for number in 3..9 {
        let name = fixture.segment(1, number);
        fixture.push(&repository, &name).unwrap();
    }
    let server = start(&fixture, 2);
    for number in 3..9 {
        let (reply, bytes) = get(&fixture, &SIZE.file_name(1, number));
        assert_eq!(reply, Reply::Done);
        assert!(bytes == Some(segment_bytes(1, number, SYSTEM)), "segment {number}");
    }
    let (reply, bytes) = get(&fixture, &SIZE.file_name(1, 9));
    assert_eq!((reply, bytes), (Reply::Absent, None));
    // A file that was absent when it was fetched ahead is looked for again.
    let name = fixture.segment(1, 9);
    fixture.push(&repository, &name).unwrap();
    assert_eq!(get(&fixture, &name).0, Reply::Done);
    // The server of another cluster gets no file, fetched ahead or not.
    fixture.set_system(SYSTEM + 1);
    assert!(matches!(get(&fixture, &SIZE.file_name(1, 4)).0, Reply::Failed(_)));
    fixture.set_system(SYSTEM);
    fs::remove_file(fixture.archive().join("forebay-archive")).unwrap();
    assert!(
        matches!(get(&fixture, &SIZE.file_name(1, 10)).0, Reply::Failed(_)),
        "a lost archive is no absence"
    );
    drop(server);
    fixture.check_no_temporary();
}

#[test]
fn an_archiverd_of_another_archive_is_ignored() {
    let fixture = Fixture::new();
    let _server = start(&fixture, 0);
    let name = fixture.segment(1, 3);
    let answer = ask(&socket(&fixture), "another", &Request::Push { path: fixture.wal(&name) });
    assert!(matches!(answer, Answer::Nobody(_)), "{answer:?}");
    assert!(fixture.contents().is_empty());
}

#[test]
fn sockets_without_an_archiverd() {
    let fixture = Fixture::new();
    assert!(matches!(ask(&socket(&fixture), NAME, &Request::Ping), Answer::Nobody(_)));
    // A socket that a dead process left.
    drop(UnixListener::bind(socket(&fixture)).unwrap());
    assert!(matches!(ask(&socket(&fixture), NAME, &Request::Ping), Answer::Nobody(_)));
    let server = start(&fixture, 1);
    assert_eq!(ask(&socket(&fixture), NAME, &Request::Ping), Answer::Reply(Reply::Done));
    // A second one is refused.
    let options = ResidentOptions {
        socket: socket(&fixture),
        archive: NAME.to_owned(),
        transfers: 1,
        prefetch: 0,
        prefetch_bytes: 0,
        source: SourceOptions::default(),
    };
    assert!(serve(&fixture.aio, fixture.plain(), options).is_err());
    // Clients that are silent or send nonsense do not delay others.
    let _silent = UnixStream::connect(socket(&fixture)).unwrap();
    let mut babbler = UnixStream::connect(socket(&fixture)).unwrap();
    std::io::Write::write_all(&mut babbler, &[0xff; 100]).unwrap();
    assert_eq!(ask(&socket(&fixture), NAME, &Request::Ping), Answer::Reply(Reply::Done));
    drop(server);
    assert!(!socket(&fixture).exists());
    assert!(matches!(ask(&socket(&fixture), NAME, &Request::Ping), Answer::Nobody(_)));
}
