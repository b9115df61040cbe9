//! An archive on a disk that loses what was not synced, and on one whose calls fail.
//!
//! Two segments are stored, and the power fails during each call that changes something.
//! Afterwards, acknowledged files must be there byte for byte, and others whole or absent. Storing
//! both again must succeed, whatever the first attempt left.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::{Aio, AioConfig, AlignedBuf, BackendType, IoBackend, OpenOptions};
use forebay_archive::store::codec::Compression;
use forebay_archive::store::layout::LayoutKind;
use forebay_archive::store::seal::Key;
use forebay_archive::store::verify::VerifyOptions;
use forebay_archive::store::{Repository, StoreOptions};
use forebay_archive::{ArchiveError, SourceOptions, WalName, push};
use forebay_format::wal::page_header::{LongHeader, PageHeader};
use forebay_format::{Lsn, SegmentSize};
use forebay_sim::{Failure, SimDisk, Survival};

const SYSTEM: u64 = 7_418_000_000_000_000_001;
const NUMBERS: [u64; 2] = [3, 4];

fn size() -> SegmentSize {
    SegmentSize::new(1 << 20).expect("a size")
}

fn segment(number: u64) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 20];
    bytes.iter_mut().enumerate().for_each(|(n, byte)| *byte = (n as u64 / 600 * number) as u8);
    let long = LongHeader { system_id: SYSTEM, segment_size: size().get(), block_size: 8192 };
    let page_addr = Lsn(number * size().bytes());
    PageHeader { info: 0, timeline: 1, page_addr, rem_len: 0, long: Some(long) }.encode(&mut bytes);
    bytes
}

fn name(number: u64) -> WalName {
    WalName::parse(&size().file_name(1, number)).expect("a name")
}

fn ways() -> [StoreOptions; 3] {
    let some = |layout, compression, key| StoreOptions {
        layout: Some(layout),
        compression,
        key,
        direct: true,
        accept_unencrypted: false,
    };
    [
        some(LayoutKind::Plain, Compression::None, None),
        some(LayoutKind::Hashed, Compression::Zstd(1), None),
        some(LayoutKind::Hashed, Compression::Lz4, Some(Key::from_bytes([3; 32]))),
    ]
}

fn config() -> AioConfig {
    AioConfig { max_backends: 8, handles_per_backend: 16, ..AioConfig::default() }
}

fn wal() -> PathBuf {
    PathBuf::from("/sim/data/pg_wal")
}

/// A disk with a data directory, two segments in it, and an empty archive; all of it durable.
fn prepared() -> SimDisk {
    let disk = SimDisk::new("/sim", 1);
    let aio = disk.open(config(), 1).expect("opened");
    let mut backend = aio.backend(BackendType::Standalone).expect("a backend");
    for dir in ["/sim/data", "/sim/data/pg_wal", "/sim/archive"] {
        aio.namespace().mkdir(Path::new(dir)).expect("made");
    }
    for number in NUMBERS {
        let path = wal().join(name(number).as_str());
        let file =
            aio.namespace().open(&path, &OpenOptions::READ_WRITE.create_new()).expect("made");
        backend
            .write_all_at(&file, 0, &AlignedBuf::copy_of(&segment(number)).expect("memory"))
            .expect("written");
        backend.fsync(&file).expect("synced");
    }
    for dir in ["/sim", "/sim/data", "/sim/data/pg_wal", "/sim/archive"] {
        aio.namespace().sync_dir(Path::new(dir)).expect("synced");
    }
    drop(backend);
    disk.close();
    disk
}

struct Life {
    disk: SimDisk,
    aio: Arc<Aio>,
    backend: IoBackend,
    repository: Repository,
}

impl Life {
    fn on(disk: SimDisk, options: &StoreOptions, seed: u64) -> Life {
        let aio = disk.open(config(), seed).expect("opened");
        let backend = aio.backend(BackendType::Standalone).expect("a backend");
        let repository = Repository::open(&aio, "/sim/archive", options.clone()).expect("opens");
        Life { disk, aio, backend, repository }
    }

    fn push(&mut self, number: u64) -> Result<(), ArchiveError> {
        let path = wal().join(name(number).as_str());
        push::push(&self.aio, &mut self.backend, &self.repository, &path, &SourceOptions::default())
            .map(drop)
    }

    fn fetch(&mut self, number: u64) -> Result<Option<Vec<u8>>, ArchiveError> {
        let mut bytes = Vec::new();
        let found = self.repository.fetch(&mut self.backend, &name(number), &mut |_, piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(found.map(|_| bytes))
    }

    fn end(self) -> SimDisk {
        let Life { disk, aio, backend, repository } = self;
        drop((backend, repository, aio));
        disk.close();
        disk
    }
}

/// Checks the archive after a crash or an error, and that it can go on.
fn check(life: &mut Life, acknowledged: &[u64], what: &str) {
    for number in NUMBERS {
        match life.fetch(number) {
            Ok(Some(bytes)) => {
                assert!(bytes == segment(number), "{what}: {number} has other contents")
            }
            Ok(None) | Err(ArchiveError::NoArchive { .. }) => {
                assert!(!acknowledged.contains(&number), "{what}: {number} is lost");
            }
            Err(error) => panic!("{what}: {number}: {error}"),
        }
    }
    for number in NUMBERS {
        life.push(number).unwrap_or_else(|error| panic!("{what}: {number} again: {error}"));
    }
    for number in NUMBERS {
        let bytes = life.fetch(number).expect("it can be read");
        assert!(bytes == Some(segment(number)), "{what}: {number} after it was stored again");
    }
    let found =
        life.repository.verify(&life.aio, &VerifyOptions { threads: 1, quick: false }, &|_, _| ());
    let serious: Vec<_> =
        found.expect("verified").problems.into_iter().filter(|p| p.is_serious()).collect();
    assert_eq!(serious, [], "{what}");
}

fn survivals(seed: u64) -> [Survival; 3] {
    [Survival::none(), Survival::all(), Survival::random(seed)]
}

#[test]
fn power_loss_in_the_midst_of_every_call() {
    for options in ways() {
        let mut calls = 0;
        loop {
            let mut over = false;
            for (n, survival) in (0..).zip(survivals(calls)) {
                let mut life = Life::on(prepared(), &options, calls);
                life.disk.crash_after(calls);
                let acknowledged: Vec<u64> =
                    NUMBERS.into_iter().filter(|number| life.push(*number).is_ok()).collect();
                over = !life.disk.is_off();
                let disk = life.end();
                let found = disk.restart(survival, calls);
                let what = format!("{options:?}, call {calls}, survival {n}");
                let mut life = Life::on(found, &options, calls + 1);
                check(&mut life, &acknowledged, &what);
                // None of it is in doubt.
                let found = life.end().restart(Survival::none(), calls);
                let mut life = Life::on(found, &options, calls + 2);
                for number in NUMBERS {
                    let bytes =
                        life.fetch(number).unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert!(
                        bytes == Some(segment(number)),
                        "{what}: {number} after a second crash"
                    );
                }
                drop(life.end());
            }
            if over {
                break;
            }
            calls += 1;
        }
        assert!(calls > 20, "only {calls} calls were interrupted");
    }
}

#[test]
fn every_call_fails_once() {
    // The layout makes a difference, the codec does not.
    for options in ways().into_iter().step_by(2) {
        for failure in Failure::ALL {
            let (mut calls, mut struck) = (0, 0);
            loop {
                let mut life = Life::on(prepared(), &options, calls);
                let before = life.disk.calls();
                life.disk.fail_call(calls, failure);
                let acknowledged: Vec<u64> =
                    NUMBERS.into_iter().filter(|number| life.push(*number).is_ok()).collect();
                let over = life.disk.calls() <= before + calls;
                if let Some(what) = life.disk.struck() {
                    struck += 1;
                    // Without a restart: the process goes on and tries again.
                    let what = format!("{options:?}, {failure:?} of call {calls}, {what}");
                    check(&mut life, &acknowledged, &what);
                }
                drop(life.end());
                if over {
                    break;
                }
                calls += 1;
            }
            assert!(struck > 0, "{failure:?} struck nothing");
        }
    }
}
