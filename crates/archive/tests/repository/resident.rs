//! archiverd, in this process.

use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use forebay_archive::SourceOptions;
use forebay_archive::resident::wire::{Reply, Request};
use forebay_archive::resident::{Answer, ResidentOptions, Server, ask, serve};
use forebay_archive::store::StoreOptions;

use crate::bed::{Bed, SIZE, SYSTEM, flip, segment_bytes};

const NAME: &str = "the archive";

fn start(bed: &Bed, transfers: usize) -> Server {
    let options = ResidentOptions {
        socket: socket(bed),
        archive: NAME.to_owned(),
        transfers,
        prefetch: 4,
        prefetch_bytes: 64 << 20,
        source: SourceOptions::default(),
    };
    serve(&bed.aio, bed.repository(StoreOptions::default()), options).expect("it starts")
}

fn socket(bed: &Bed) -> PathBuf {
    bed.dir.path().join("s")
}

fn push(bed: &Bed, name: &str) -> Reply {
    let request = Request::Push { path: bed.wal(name) };
    match ask(&socket(bed), NAME, &request) {
        Answer::Reply(reply) => reply,
        Answer::Nobody(why) => panic!("nobody answers: {why}"),
    }
}

fn get(bed: &Bed, name: &str) -> (Reply, Option<Vec<u8>>) {
    let path = bed.wal("RECOVERYXLOG");
    let _ = fs::remove_file(&path);
    let request = Request::Get { name: name.to_owned(), path: path.clone() };
    match ask(&socket(bed), NAME, &request) {
        Answer::Reply(reply) => (reply, fs::read(path).ok()),
        Answer::Nobody(why) => panic!("nobody answers: {why}"),
    }
}

/// Waits until a file was written so long ago that the clock of the file system must have gone on.
/// No time can be set for it.
fn wait_until_settled(bed: &Bed, name: &str) {
    let path = bed.wal(name);
    let written = fs::metadata(path).unwrap().modified().unwrap();
    while SystemTime::now() <= written + Duration::from_millis(60) {
        std::thread::yield_now();
    }
}

#[test]
fn files_are_stored_and_known_afterwards() {
    let bed = Bed::new();
    let _server = start(&bed, 0);
    let name = bed.segment(1, 3);
    wait_until_settled(&bed, &name);
    assert_eq!(push(&bed, &name), Reply::Done);
    assert_eq!(push(&bed, &name), Reply::Identical);
    // It is known: not even the archive is looked at.
    let away = bed.dir.path().join("away");
    fs::rename(bed.archive(), &away).unwrap();
    assert_eq!(push(&bed, &name), Reply::Identical);
    fs::rename(&away, bed.archive()).unwrap();
    flip(&bed.wal(&name), 9000);
    let Reply::Failed(reason) = push(&bed, &name) else { panic!("it has changed") };
    assert!(reason.contains("different contents"), "{reason}");
    // And back: the contents are the same again.
    flip(&bed.wal(&name), 9000);
    assert_eq!(push(&bed, &name), Reply::Identical);
}

#[test]
fn a_duplicate_costs_less_than_a_millisecond() {
    let bed = Bed::new();
    let _server = start(&bed, 0);
    let name = bed.segment(1, 3);
    wait_until_settled(&bed, &name);
    push(&bed, &name);
    let best = (0..200)
        .map(|_| {
            let begun = Instant::now();
            assert_eq!(push(&bed, &name), Reply::Identical);
            begun.elapsed()
        })
        .min();
    assert!(best < Some(Duration::from_millis(1)), "{best:?}");
}

#[test]
fn what_is_ready_is_stored_ahead() {
    let mut bed = Bed::new();
    let server = start(&bed, 3);
    let names: Vec<String> = (3..23).map(|number| bed.segment(1, number)).collect();
    for name in &names {
        fs::write(bed.wal(&format!("archive_status/{name}.ready")), b"").unwrap();
    }
    assert_eq!(push(&bed, &names[0]), Reply::Done);
    // Nobody asks for the others, and they are stored all the same.
    let begun = Instant::now();
    let repository = bed.plain();
    for name in &names {
        while bed.get(&repository, name).ok().flatten().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(600), "{name} is not stored");
            std::thread::yield_now();
        }
    }
    for name in &names[1..] {
        assert_eq!(push(&bed, name), Reply::Identical);
    }
    drop(server);
    bed.check_tidy();
}

#[test]
fn files_are_restored_and_the_next_ones_fetched_ahead() {
    let mut bed = Bed::new();
    let repository = bed.plain();
    for number in 3..9 {
        let name = bed.segment(1, number);
        bed.push(&repository, &name).unwrap();
    }
    let server = start(&bed, 2);
    for number in 3..9 {
        let (reply, bytes) = get(&bed, &SIZE.file_name(1, number));
        assert_eq!(reply, Reply::Done);
        assert!(bytes == Some(segment_bytes(1, number, SYSTEM)), "segment {number}");
    }
    let (reply, bytes) = get(&bed, &SIZE.file_name(1, 9));
    assert_eq!((reply, bytes), (Reply::Absent, None));
    // What is fetched ahead and is absent is asked for again: it may have come.
    let name = bed.segment(1, 9);
    bed.push(&repository, &name).unwrap();
    assert_eq!(get(&bed, &name).0, Reply::Done);
    // Another cluster's server gets none of it, fetched ahead or not.
    bed.set_system(SYSTEM + 1);
    assert!(matches!(get(&bed, &SIZE.file_name(1, 4)).0, Reply::Failed(_)));
    bed.set_system(SYSTEM);
    fs::remove_file(bed.archive().join("forebay-archive")).unwrap();
    assert!(
        matches!(get(&bed, &SIZE.file_name(1, 10)).0, Reply::Failed(_)),
        "a lost archive is no absence"
    );
    drop(server);
    bed.check_tidy();
}

#[test]
fn who_serves_another_archive_is_not_asked() {
    let bed = Bed::new();
    let _server = start(&bed, 0);
    let name = bed.segment(1, 3);
    let answer = ask(&socket(&bed), "another", &Request::Push { path: bed.wal(&name) });
    assert!(matches!(answer, Answer::Nobody(_)), "{answer:?}");
    assert!(bed.contents().is_empty());
}

#[test]
fn sockets_that_nobody_serves() {
    let bed = Bed::new();
    assert!(matches!(ask(&socket(&bed), NAME, &Request::Ping), Answer::Nobody(_)));
    // One that was left.
    drop(UnixListener::bind(socket(&bed)).unwrap());
    assert!(matches!(ask(&socket(&bed), NAME, &Request::Ping), Answer::Nobody(_)));
    let server = start(&bed, 1);
    assert_eq!(ask(&socket(&bed), NAME, &Request::Ping), Answer::Reply(Reply::Done));
    // A second one is refused.
    let options = ResidentOptions {
        socket: socket(&bed),
        archive: NAME.to_owned(),
        transfers: 1,
        prefetch: 0,
        prefetch_bytes: 0,
        source: SourceOptions::default(),
    };
    assert!(serve(&bed.aio, bed.plain(), options).is_err());
    // Who says nothing, and who says nonsense, holds nobody up.
    let _silent = UnixStream::connect(socket(&bed)).unwrap();
    let mut babbler = UnixStream::connect(socket(&bed)).unwrap();
    std::io::Write::write_all(&mut babbler, &[0xff; 100]).unwrap();
    assert_eq!(ask(&socket(&bed), NAME, &Request::Ping), Answer::Reply(Reply::Done));
    drop(server);
    assert!(!socket(&bed).exists());
    assert!(matches!(ask(&socket(&bed), NAME, &Request::Ping), Answer::Nobody(_)));
}
