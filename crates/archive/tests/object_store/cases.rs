//! What must hold, whatever the store or the way to it does.

use std::sync::Arc;

use forebay_archive::Archived;
use forebay_archive::error::ArchiveError;
use forebay_archive::store::codec::Compression;
use forebay_archive::store::layout::LayoutKind;
use forebay_archive::store::seal::Key;
use forebay_archive::store::verify::VerifyOptions;
use forebay_archive::store::{Bucket, Repository, StoreError, StoreOptions};

use crate::bed::{Bed, SIZE, SYSTEM, flip, segment_bytes, wal_name};
use crate::moto::{Moto, free_port};
use crate::proxy::{Fault, Proxy};

const SLOW_DOWN: &str =
    "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>";
const INTERNAL: &str = "<?xml version=\"1.0\"?><Error><Code>InternalError</Code><Message>We encountered an error.</Message></Error>";

/// A store with an empty bucket, a proxy before it, a data directory.
struct World {
    moto: Moto,
    proxy: Proxy,
    bed: Bed,
}

impl World {
    fn new(test: &str) -> Option<World> {
        let moto = Moto::start(test)?;
        make_bucket(moto.port);
        let proxy = Proxy::start(moto.port);
        Some(World { moto, proxy, bed: Bed::new() })
    }

    /// The archive as seen through this port.
    fn through(&self, port: u16, options: StoreOptions) -> Repository {
        let settings = [
            ("aws_endpoint", format!("http://127.0.0.1:{port}")),
            ("aws_access_key_id", "a".to_owned()),
            ("aws_secret_access_key", "b".to_owned()),
            ("aws_region", "us-east-1".to_owned()),
            ("aws_allow_http", "true".to_owned()),
            ("timeout", "3s".to_owned()),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value));
        let bucket = Bucket::with_options("s3://bucket/some/prefix", settings).expect("a store");
        Repository::new(Arc::new(bucket), options)
    }

    fn repository(&self) -> Repository {
        self.through(self.proxy.port, StoreOptions::default())
    }

    /// What the store has, seen without faults.
    fn check(&mut self, name: &str, number: u64) {
        let repository = self.through(self.moto.port, StoreOptions::default());
        let bytes = self.bed.get(&repository, name).expect("it can be read");
        assert!(bytes == Some(segment_bytes(1, number, SYSTEM)), "{name}");
        let found =
            repository.verify(&self.bed.aio, &VerifyOptions::default(), &|_, _| ()).expect("verified");
        assert_eq!(found.problems, []);
    }
}

fn make_bucket(port: u16) {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("moto listens");
    write!(
        stream,
        "PUT /bucket HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn files_go_and_come_back() {
    for (layout, compression, key) in [
        (LayoutKind::Plain, Compression::None, None),
        (LayoutKind::Hashed, Compression::Zstd(1), Some(Key::from_bytes([7; 32]))),
    ] {
        let Some(mut world) = World::new("object store") else { return };
        let name = world.bed.segment(1, 3);
        let options = StoreOptions { layout: Some(layout), compression, key, direct: false };
        let repository = world.through(world.moto.port, options);
        assert_eq!(world.bed.push(&repository, &name).unwrap(), Archived::Stored);
        assert_eq!(world.bed.push(&repository, &name).unwrap(), Archived::Identical);
        assert!(world.bed.get(&repository, &name).unwrap() == Some(segment_bytes(1, 3, SYSTEM)));
        assert!(world.bed.get(&repository, "000000010000000000000004").unwrap().is_none());
        flip(&world.bed.wal(&name), 9000);
        assert!(matches!(world.bed.push(&repository, &name), Err(ArchiveError::Different { .. })));
        flip(&world.bed.wal(&name), 9000);
        let found = repository.verify(&world.bed.aio, &VerifyOptions::default(), &|_, _| ()).unwrap();
        assert_eq!((found.files, found.problems), (1, Vec::new()));
        let next = world.bed.segment(1, 4);
        world.bed.push(&repository, &next).unwrap();
        let cut = wal_name(&next);
        let expired = repository.expire(&mut world.bed.be, Some(&cut), &[], false, &mut |_, _| ()).unwrap();
        assert_eq!(expired.files.len(), 1);
        assert!(world.bed.get(&repository, &name).unwrap().is_none());
    }
}

/// Each of these once, for the segment, the manifest and the archive's own object.
#[test]
fn faults_while_storing_end_in_one_whole_object() {
    let Some(mut world) = World::new("object store") else { return };
    for (number, fault) in (3..).zip([
        Fault::Answer(503, SLOW_DOWN),
        Fault::Answer(500, INTERNAL),
        Fault::Answer(500, ""),
        Fault::ResetInBody,
        Fault::LoseAnswer,
        Fault::CutAnswer,
        Fault::Stall,
    ]) {
        let name = world.bed.segment(1, number);
        for path in [format!("{name} "), format!("{name}.manifest ")] {
            world.proxy.plan("PUT", &path, fault.clone());
        }
        let repository = world.repository();
        let pushed = world.bed.push(&repository, &name);
        assert!(pushed.is_ok(), "{fault:?}: {pushed:?}");
        assert!(world.proxy.is_through(), "{fault:?}");
        assert_eq!(world.bed.push(&repository, &name).unwrap(), Archived::Identical);
        world.check(&name, number);
    }
}

/// Answers that are neither a success nor one that is to be tried again: no success may be made of them.
#[test]
fn answers_that_are_no_success_are_none() {
    let Some(mut world) = World::new("object store") else { return };
    let first = world.bed.segment(1, 2);
    let repository = world.repository();
    world.bed.push(&repository, &first).unwrap();
    for (number, fault) in (3..).zip([
        Fault::Answer(200, INTERNAL),
        Fault::Answer(403, "<Error><Code>AccessDenied</Code></Error>"),
        Fault::Answer(404, "<Error><Code>NoSuchBucket</Code></Error>"),
        Fault::Answer(409, "<Error><Code>ConditionalRequestConflict</Code></Error>"),
        Fault::Answer(412, "<Error><Code>PreconditionFailed</Code></Error>"),
    ]) {
        let name = world.bed.segment(1, number);
        world.proxy.plan("PUT", &format!("{name} "), fault.clone());
        let pushed = world.bed.push(&repository, &name);
        assert!(world.proxy.is_through());
        if pushed.is_ok() {
            // It was tried again: then it is there.
            world.check(&name, number);
        }
        assert!(world.bed.push(&repository, &name).is_ok(), "{fault:?}");
        world.check(&name, number);
    }
}

#[test]
fn a_cut_or_failing_answer_restores_nothing_wrong() {
    let Some(mut world) = World::new("object store") else { return };
    let name = world.bed.segment(1, 3);
    let repository = world.repository();
    world.bed.push(&repository, &name).unwrap();
    for fault in [Fault::CutAnswer, Fault::ResetInBody, Fault::Answer(503, SLOW_DOWN), Fault::Stall] {
        world.proxy.plan("GET", &format!("{name} "), fault.clone());
        match world.bed.get(&repository, &name) {
            Ok(bytes) => assert!(bytes == Some(segment_bytes(1, 3, SYSTEM)), "{fault:?}"),
            Err(error) => assert!(matches!(error, ArchiveError::Store(_)), "{error}"),
        }
        assert!(world.proxy.is_through(), "{fault:?}");
        assert!(world.bed.get(&repository, &name).unwrap().is_some());
    }
}

#[test]
fn a_store_that_is_down_is_no_absence() {
    let Some(mut world) = World::new("object store") else { return };
    let name = world.bed.segment(1, 3);
    let repository = world.repository();
    world.bed.push(&repository, &name).unwrap();
    let absent = SIZE.file_name(1, 4);
    assert!(world.bed.get(&repository, &absent).unwrap().is_none());
    // The bucket is gone: every object of it is said not to exist.
    let no_bucket = "<Error><Code>NoSuchBucket</Code></Error>";
    for path in ["forebay-archive ", ".manifest "] {
        world.proxy.plan("GET", path, Fault::Answer(404, no_bucket));
        let read = world.bed.get(&repository, &name);
        assert!(!matches!(read, Ok(None)), "after {path}");
    }
    world.proxy.plan("GET", "forebay-archive ", Fault::Answer(404, no_bucket));
    let error = world.bed.get(&repository, &absent).unwrap_err();
    assert!(matches!(error, ArchiveError::Store(StoreError::NoArchive { .. })), "{error}");
    let nobody = world.through(free_port(), StoreOptions::default());
    world.bed.get(&nobody, &absent).unwrap_err();
    assert!(world.proxy.count("GET", "forebay-archive") > 0);
}

#[test]
fn sixteen_writers_and_one_wins() {
    let Some(mut world) = World::new("object store") else { return };
    let name = SIZE.file_name(1, 3);
    let results: Vec<_> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..16_u8)
            .map(|n| {
                let (world, name) = (&world, &name);
                scope.spawn(move || {
                    let mut own = Bed::new();
                    let mut bytes = segment_bytes(1, 3, SYSTEM);
                    bytes[100_000] = n;
                    std::fs::write(own.wal(name), bytes).unwrap();
                    let repository = world.through(world.moto.port, StoreOptions::default());
                    own.push(&repository, name).map(|_| n)
                })
            })
            .collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let winners: Vec<u8> = results.iter().filter_map(|result| result.as_ref().ok()).copied().collect();
    assert_eq!(winners.len(), 1, "{results:?}");
    let repository = world.through(world.moto.port, StoreOptions::default());
    let bytes = world.bed.get(&repository, &name).unwrap().expect("it is there");
    assert_eq!(bytes[100_000], winners[0]);
}
