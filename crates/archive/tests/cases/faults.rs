//! An archive that fails for a time, with each module that stores in a directory. Meanwhile nothing
//! is acknowledged, and no temporary file is left. Afterwards everything is archived without an
//! operator.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use forebay_aio::fault::{Call, Effect, Ops, Rule};
use forebay_aio::sync::atomic::{AtomicUsize, Ordering};
use forebay_aio::sync::{Arc, Duration, Instant, Mutex};
use forebay_aio::{Errno, IoBackend};
use forebay_archive::archiver::Threads;
use forebay_archive::modules::Archive;
use forebay_archive::store::codec::Compression;
use forebay_archive::store::layout::LayoutKind;
use forebay_archive::store::seal::Key;
use forebay_archive::store::{Repository, StoreOptions};
use forebay_archive::{
    ArchiveError, ArchiveModule, Archived, Archiver, ArchiverConfig, Next, Source, StopMode,
    WalName,
};

use crate::fixture::*;

const DQUOT: Errno = Errno(122);
const ROFS: Errno = Errno(30);
const SECOND: Duration = Duration::from_secs(1);
const COUNT: u64 = 3;

/// The module.
#[derive(Clone, Copy, Debug)]
enum Module {
    Basic,
    /// With manifests.
    Plain,
    /// With manifests, hashed layout, compressed and encrypted.
    Sealed,
}

impl Module {
    const ALL: [Module; 3] = [Module::Basic, Module::Plain, Module::Sealed];

    fn options(self) -> StoreOptions {
        match self {
            Module::Basic | Module::Plain => StoreOptions::default(),
            Module::Sealed => StoreOptions {
                layout: Some(LayoutKind::Hashed),
                compression: Compression::Lz4,
                key: Some(Key::from_bytes([7; 32])),
                ..StoreOptions::default()
            },
        }
    }

    fn on(self, fixture: &Fixture) -> Arc<dyn ArchiveModule> {
        let location = fixture.archive();
        match self {
            Module::Basic => fixture.basic(),
            _ => Arc::new(Archive::new(
                &fixture.aio,
                &location.to_string_lossy(),
                self.options(),
                Some(SYSTEM),
            )),
        }
    }

    /// The stored contents of a file.
    fn stored(self, fixture: &mut Fixture, name: &WalName) -> Option<Vec<u8>> {
        if let Module::Basic = self {
            return fs::read(fixture.archive().join(name.as_str())).ok();
        }
        let repository =
            Repository::open(&fixture.aio, &fixture.archive().to_string_lossy(), self.options())
                .unwrap();
        let mut bytes = Vec::new();
        let fetched = repository.fetch(&mut fixture.io, name, &mut |_, piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        });
        fetched.unwrap().map(|_| bytes)
    }
}

/// Counts the temporary files below a directory.
fn half_done(dir: &std::path::Path) -> usize {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .map(|path| if path.is_dir() { half_done(&path) } else { usize::from(is_temporary(&path)) })
        .sum()
}

fn is_temporary(path: &std::path::Path) -> bool {
    path.to_string_lossy().contains(forebay_archive::durable_dir::TEMPORARY)
}

/// Archives files during the fault that `begin` causes, and after `end`.
fn passes(begin: impl Fn(&Fixture), end: impl Fn(&Fixture)) {
    for module in Module::ALL {
        let mut fixture = Fixture::plain();
        (1..=COUNT).for_each(|n| drop(fixture.put_ready(1, n)));
        begin(&fixture);
        let archiver = fixture.archiver(Some(2));
        archiver.set_module(Some(module.on(&fixture)));
        archiver.scan().unwrap();
        let mut now = Instant::now();
        for _ in 0..5 {
            let Next::Rest(Some(rest)) = fixture.work(&archiver, now) else {
                panic!("{module:?}: it is tried again")
            };
            assert!(
                fixture.marks().iter().all(|mark| mark.ends_with(".ready")),
                "{module:?}: {:?}",
                fixture.marks()
            );
            assert_eq!(half_done(&fixture.archive()), 0, "{module:?}: something is left half done");
            // The clock may have advanced a little since the pause began.
            now += rest + SECOND / 10;
        }
        assert_eq!(archiver.stats().archived_count, 0);
        assert_eq!(archiver.backlog().files as u64, COUNT, "{module:?}: nothing is dropped");
        end(&fixture);
        while let Next::Rest(Some(rest)) = fixture.work(&archiver, now) {
            now += rest + SECOND / 10;
        }
        let done: Vec<String> = (1..=COUNT).map(|n| segment(1, n).done()).collect();
        assert_eq!(fixture.marks(), done, "{module:?}");
        for n in 1..=COUNT {
            let stored = module.stored(&mut fixture, &segment(1, n));
            assert!(stored == Some(contents(1, n)), "{module:?}: segment {n}");
        }
        assert_eq!(half_done(&fixture.archive()), 0, "{module:?}");
    }
}

/// These calls on the archive fail; opening fails only for writing.
fn fails(ops: Ops, errno: Errno) {
    let begin = |fixture: &Fixture| {
        let archive = fixture.archive();
        let struck = move |call: &Call| {
            call.path.starts_with(&archive) && (call.op != Ops::OPEN || call.write)
        };
        fixture.plan.add(Rule::on(ops).when(struck), Effect::Fail(errno));
    };
    let end = |fixture: &Fixture| {
        assert!(!fixture.plan.fired_by_class().is_empty(), "{ops:?} is never called");
        fixture.plan.mend();
    };
    passes(begin, end);
}

#[test]
fn enospc_until_there_is_room() {
    fails(Ops::WRITE, Errno::NOSPC);
    fails(Ops::OPEN, Errno::NOSPC);
}

#[test]
fn edquot_until_there_is_room() {
    fails(Ops::WRITE, DQUOT);
}

#[test]
fn eio_on_write() {
    fails(Ops::WRITE, Errno::IO);
}

#[test]
fn eio_on_fsync() {
    fails(Ops::FSYNC, Errno::IO);
}

#[test]
fn eio_on_rename() {
    fails(Ops::RENAME, Errno::IO);
}

#[test]
fn eio_on_directory_fsync() {
    fails(Ops::SYNC_DIR, Errno::IO);
}

#[test]
fn a_directory_that_is_missing_until_it_is_mounted() {
    let away = |fixture: &Fixture| fixture.dir.path().join("away");
    passes(
        |fixture| fs::rename(fixture.archive(), away(fixture)).unwrap(),
        |fixture| {
            assert!(!fixture.archive().exists(), "nobody makes what may not be mounted");
            fs::rename(away(fixture), fixture.archive()).unwrap();
        },
    );
}

#[test]
fn a_directory_that_is_read_only() {
    fails(Ops::OPEN | Ops::MKDIR | Ops::RENAME | Ops::UNLINK, ROFS);
    // The same by the directory's mode, which does not bind root.
    if !rustix::process::geteuid().is_root() {
        let set = |fixture: &Fixture, mode| {
            fs::set_permissions(fixture.archive(), fs::Permissions::from_mode(mode)).unwrap()
        };
        passes(|fixture| set(fixture, 0o500), |fixture| set(fixture, 0o700));
    }
}

/// A disk takes a limited number of bytes, until some are removed.
#[test]
fn full_then_freed() {
    let room = Arc::new(AtomicUsize::new(0));
    let begin = |fixture: &Fixture| {
        room.store(300_000, Ordering::SeqCst);
        let (archive, room) = (fixture.archive(), Arc::clone(&room));
        let full = move |call: &Call| {
            let len = usize::try_from(call.len).unwrap();
            let take = |left: usize| left.checked_sub(len);
            call.path.starts_with(&archive)
                && room.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_err()
        };
        fixture.plan.add(Rule::on(Ops::WRITE).when(full), Effect::Fail(Errno::NOSPC));
    };
    passes(begin, |_| room.store(usize::MAX, Ordering::SeqCst));
}

/// A stop leaves no temporary file with any module, and the next start continues.
#[test]
fn a_stop_in_mid_transfer_by_every_module() {
    for module in Module::ALL {
        let mut fixture = Fixture::plain();
        fixture.put_ready(1, 1);
        let archiver = fixture.archiver(None);
        archiver.set_module(Some(module.on(&fixture)));
        let threads = Threads::start(&archiver, 2).unwrap();
        // Only the copy of the segment is written to.
        let held = fixture.plan.hold(Rule::on(Ops::WRITE).path(segment(1, 1).as_str()).times(1));
        archiver.scan().unwrap();
        held.await_count(1);
        archiver.stop(StopMode::Now);
        held.release();
        threads.stop(StopMode::Now).unwrap();
        assert_eq!(half_done(&fixture.archive()), 0, "{module:?}");
        assert_eq!(archiver.stats().failed_count, 0, "{module:?}: a stop is no failure");
        let archiver = fixture.archiver(None);
        archiver.set_module(Some(module.on(&fixture)));
        archiver.scan().unwrap();
        fixture.work(&archiver, Instant::now());
        assert_eq!(fixture.marks(), [segment(1, 1).done()], "{module:?}");
        assert!(module.stored(&mut fixture, &segment(1, 1)) == Some(contents(1, 1)), "{module:?}");
    }
}

/// A file with both status files is archived. The log may have recycled the segment already.
#[test]
fn both_status_files_of_a_segment() {
    for gone in [false, true] {
        let mut fixture = Fixture::plain();
        let both = segment(1, 1);
        if !gone {
            fixture.put(&both, &contents(1, 1));
        }
        fixture.mark(&both.ready());
        fixture.mark(&both.done());
        fixture.put_ready(1, 2);
        let archiver = fixture.archiver(None);
        archiver.set_module(Some(fixture.basic()));
        assert_eq!(archiver.scan().unwrap(), 1);
        fixture.work(&archiver, Instant::now());
        assert_eq!(fixture.marks(), [both.done(), segment(1, 2).done()]);
        assert_eq!(fixture.stored(), [segment(1, 2).as_str()]);
    }
}

/// Records the names, and stores nothing.
#[derive(Default)]
struct Listing {
    names: Mutex<Vec<String>>,
}

impl ArchiveModule for Listing {
    fn name(&self) -> &'static str {
        "listing"
    }

    fn archive(&self, _: &mut IoBackend, file: &mut Source) -> Result<Archived, ArchiveError> {
        self.names.lock().push(file.name().to_string());
        Ok(Archived::Stored)
    }

    fn transfers(&self) -> usize {
        1
    }
}

/// 120,000 status files are listed once. A history file that is announced then is archived next,
/// without another listing.
#[test]
fn a_new_history_file_among_120_000_status_files() {
    const MARKS: u64 = 120_000;
    let mut fixture = Fixture::plain();
    let status = fixture.wal().join("archive_status");
    for n in 1..=MARKS {
        fs::File::create(status.join(segment(1, n).ready())).unwrap();
    }
    // Only the first ones have files: the others are not reached.
    (1..=20).for_each(|n| fixture.put(&segment(1, n), b""));
    let archiver = Archiver::new(&fixture.aio, &fixture.wal(), ArchiverConfig::default());
    let module = Arc::new(Listing::default());
    archiver.set_module(Some(module.clone()));
    fixture.plan.record();
    assert_eq!(archiver.scan().unwrap() as u64, MARKS);
    let now = Instant::now();
    while module.names.lock().len() < 10 {
        assert_eq!(archiver.step(&mut fixture.io, now).unwrap(), Next::Worked);
    }
    let history = name("00000002.history");
    fixture.put(&history, b"");
    archiver.announce(&history).unwrap();
    while module.names.lock().len() < 12 {
        assert_eq!(archiver.step(&mut fixture.io, now).unwrap(), Next::Worked);
    }
    let names = module.names.lock().clone();
    assert_eq!(names[10], history.as_str());
    assert_eq!(names[11], segment(1, 11).as_str());
    let listings = fixture.plan.take_calls().iter().filter(|call| call.op == Ops::LIST).count();
    assert_eq!(listings, 1);
    assert_eq!(
        archiver.backlog().files as u64 + archiver.stats().archived_count,
        MARKS + 1,
        "none is lost"
    );
}
