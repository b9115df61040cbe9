//! Storing in a directory: again, with other contents, by many at once, on a failing disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use forebay_aio::fault::{Effect, Ops, Rule};
use forebay_aio::sync::thread;
use forebay_aio::{BackendType, Errno};
use forebay_archive::durable_dir::TEMPORARY;
use forebay_archive::pipe::Buffers;
use forebay_archive::{ArchiveError, Archived, Digest, DurableDir, StoreOutcome, WalName};

use crate::fixture::*;

const DQUOT: Errno = Errno(122);

fn store(
    fixture: &mut Fixture,
    dir: &DurableDir,
    file: &WalName,
) -> Result<Archived, ArchiveError> {
    let mut source = fixture.source(file)?;
    let stored = dir.store(&mut fixture.io, file.as_str(), &mut source);
    source.close(&mut fixture.io);
    stored
}

#[test]
fn files_are_stored_unchanged() {
    each(|fixture| {
        let (file, dir) = (segment(1, 5), fixture.durable_dir());
        fixture.put(&file, &contents(1, 5));
        assert_eq!(store(fixture, &dir, &file).unwrap(), Archived::Stored);
        assert!(fs::read(fixture.archive().join(file.as_str())).unwrap() == contents(1, 5));
        let history = name("00000002.history");
        fixture.put(&history, b"1\t0/5A0000\tno multiple of a block\n");
        assert_eq!(store(fixture, &dir, &history).unwrap(), Archived::Stored);
        assert_eq!(
            fs::read(fixture.archive().join(history.as_str())).unwrap(),
            b"1\t0/5A0000\tno multiple of a block\n"
        );
        assert_eq!(fixture.stored(), [file.as_str(), history.as_str()], "and nothing else");
    });
}

#[test]
fn identical_again_succeeds_once_the_stored_copy_is_durable() {
    each(|fixture| {
        let (file, dir) = (segment(1, 5), fixture.durable_dir());
        fixture.put(&file, &contents(1, 5));
        // The copy of another program, which is not synced.
        fs::write(fixture.archive().join(file.as_str()), contents(1, 5)).unwrap();
        fixture.plan.record();
        assert_eq!(store(fixture, &dir, &file).unwrap(), Archived::Identical);
        let calls = fixture.plan.take_calls();
        let at = |op: Ops, path: std::path::PathBuf| {
            calls.iter().position(|call| call.op == op && call.path == path)
        };
        let synced =
            at(Ops::FSYNC, fixture.archive().join(file.as_str())).expect("the file is synced");
        let named = at(Ops::SYNC_DIR, fixture.archive()).expect("its directory is synced");
        let parent = at(Ops::SYNC_DIR, fixture.dir.path().to_path_buf())
            .expect("the directory's own name is");
        assert!(synced < named && parent < named);
        assert!(
            calls.iter().all(|call| call.op != Ops::WRITE && call.op != Ops::RENAME),
            "nothing is written"
        );
        // A failed sync is an error.
        fixture.plan.add(Rule::on(Ops::FSYNC).times(1), Effect::Fail(Errno::IO));
        assert!(store(fixture, &dir, &file).is_err());
        fixture.plan.add(Rule::on(Ops::SYNC_DIR).times(1), Effect::Fail(Errno::IO));
        assert!(store(fixture, &dir, &file).is_err());
        assert_eq!(store(fixture, &dir, &file).unwrap(), Archived::Identical);
    });
}

#[test]
fn one_byte_different_past_the_first_8_kb_is_refused_and_nothing_changes() {
    each(|fixture| {
        let (file, dir) = (segment(1, 5), fixture.durable_dir());
        fixture.put(&file, &contents(1, 5));
        for (at, len) in [(8193, 1 << 20), ((1 << 20) - 1, 1 << 20), (0, 1 << 19), (0, 0)] {
            let mut other = contents(1, 5);
            other[at] ^= 1;
            other.truncate(len);
            fs::write(fixture.archive().join(file.as_str()), &other).unwrap();
            let error = store(fixture, &dir, &file).unwrap_err();
            let ArchiveError::Different { stored, offered, .. } = &error else { panic!("{error}") };
            assert_eq!((*stored, *offered), (Digest::of(&other), Digest::of(&contents(1, 5))));
            assert!(
                error.to_string().contains(&stored.to_string()),
                "both hashes are named: {error}"
            );
            assert!(
                error.to_string().contains(&offered.to_string()),
                "both hashes are named: {error}"
            );
            assert!(
                fs::read(fixture.archive().join(file.as_str())).unwrap() == other,
                "it is as it was"
            );
            assert_eq!(fixture.stored(), [file.as_str()]);
        }
    });
}

#[test]
fn one_of_sixteen_writers_wins() {
    for identical in [true, false] {
        let fixture = Fixture::plain();
        let file = segment(1, 5);
        let mut outcomes: Vec<Result<Archived, ArchiveError>> = thread::scope(|scope| {
            let writers: Vec<_> = (0..16_u8)
                .map(|n| {
                    // Each writer has its own log.
                    let wal = fixture.dir.path().join(format!("wal{n}"));
                    fs::create_dir(&wal).unwrap();
                    let mut bytes = contents(1, 5);
                    bytes[100_000] = if identical { 0 } else { n };
                    fs::write(wal.join(file.as_str()), bytes).unwrap();
                    let (fixture, file) = (&fixture, &file);
                    scope.spawn(move || {
                        let mut io = fixture.aio.backend(BackendType::Standalone).unwrap();
                        let dir = fixture.durable_dir();
                        let options = fixture.options();
                        let mut source =
                            forebay_archive::Source::open(&fixture.aio, &wal, file, &options)?;
                        let stored = dir.store(&mut io, file.as_str(), &mut source);
                        source.close(&mut io);
                        stored
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let wins = outcomes.extract_if(.., |o| matches!(o, Ok(Archived::Stored))).count();
        assert_eq!(wins, 1);
        for outcome in outcomes {
            match outcome {
                Ok(Archived::Identical) => assert!(identical),
                Err(ArchiveError::Different { .. }) => assert!(!identical),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(fixture.stored(), [file.as_str()], "no temporary file is left");
    }
}

/// Each call of each kind fails once.
#[test]
fn enospc_edquot_and_eio_leave_nothing_behind_and_the_next_attempt_succeeds() {
    for op in [
        Ops::OPEN,
        Ops::RESERVE,
        Ops::WRITE,
        Ops::SET_LEN,
        Ops::FSYNC,
        Ops::RENAME,
        Ops::SYNC_DIR,
        Ops::STAT,
        Ops::READ,
    ] {
        for errno in [Errno::NOSPC, DQUOT, Errno::IO] {
            let mut fixture = Fixture::plain();
            let files = [segment(1, 5), name("00000002.history")];
            fixture.put(&files[0], &contents(1, 5));
            fixture.put(&files[1], b"1\t0/5A0000\tno multiple of a block\n");
            for nth in 0.. {
                let dir = fixture.durable_dir();
                let fault = fixture.plan.add(
                    Rule::on(op).path(fixture.dir.path().to_string_lossy()).nth(nth),
                    Effect::Fail(errno),
                );
                for file in &files {
                    let stored = store(&mut fixture, &dir, file);
                    let struck = fixture.plan.fired(fault) == 1;
                    if let Err(e) = stored {
                        assert!(struck, "{e}");
                        assert!(!e.is_fatal() && !e.is_stop(), "{e}");
                        let dir = fixture.durable_dir();
                        let again = store(&mut fixture, &dir, file).unwrap();
                        // The directory could not be synced, or not be opened for the sync.
                        let had_its_name = op == Ops::SYNC_DIR
                            || e.to_string().contains("could not open directory ");
                        assert_eq!(
                            again == Archived::Identical,
                            had_its_name,
                            "{op:?} {nth} {errno}: {e}"
                        );
                    }
                }
                let stored: Vec<String> = fixture.stored();
                assert_eq!(stored, [files[0].as_str(), files[1].as_str()], "{op:?} {nth} {errno}");
                assert!(
                    fs::read(fixture.archive().join(files[0].as_str())).unwrap() == contents(1, 5)
                );
                fixture.plan.end(fault);
                if fixture.plan.fired(fault) == 0 {
                    assert!(nth > 0 || op == Ops::SET_LEN, "{op:?} is never called");
                    break;
                }
                files.iter().for_each(|file| {
                    fs::remove_file(fixture.archive().join(file.as_str())).unwrap()
                });
            }
        }
    }
}

#[test]
fn a_partly_failed_write_is_discarded() {
    each(|fixture| {
        let (file, dir) = (segment(1, 5), fixture.durable_dir());
        fixture.put(&file, &contents(1, 5));
        let fault =
            fixture.plan.add(Rule::on(Ops::WRITE).nth(1), Effect::FailAfter(4096, Errno::NOSPC));
        let error = store(fixture, &dir, &file).unwrap_err();
        assert_eq!(fixture.plan.fired(fault), 1);
        assert!(error.is_full(), "{error}");
        assert!(fixture.stored().is_empty());
        assert_eq!(store(fixture, &dir, &file).unwrap(), Archived::Stored);
        assert!(fs::read(fixture.archive().join(file.as_str())).unwrap() == contents(1, 5));
    });
}

#[test]
fn short_transfers_are_continued() {
    each(|fixture| {
        let (file, dir) = (segment(1, 5), fixture.durable_dir());
        fixture.put(&file, &contents(1, 5));
        fixture.plan.add(Rule::on(Ops::TRANSFERS).chance(0.5), Effect::Cut);
        assert_eq!(store(fixture, &dir, &file).unwrap(), Archived::Stored);
        fixture.plan.mend();
        assert!(fs::read(fixture.archive().join(file.as_str())).unwrap() == contents(1, 5));
    });
}

#[test]
fn a_missing_directory_is_an_error_until_it_is_there() {
    let mut fixture = Fixture::plain();
    let (file, dir) = (segment(1, 5), fixture.durable_dir());
    fixture.put(&file, &contents(1, 5));
    fs::remove_dir(fixture.archive()).unwrap();
    assert!(dir.check().unwrap_err().contains("does not exist"));
    let error = store(&mut fixture, &dir, &file).unwrap_err();
    assert!(error.to_string().contains("No such file or directory"), "{error}");
    fs::write(fixture.archive(), "").unwrap();
    assert!(dir.check().unwrap_err().contains("is not a directory"));
    assert!(store(&mut fixture, &dir, &file).is_err());
    fs::remove_file(fixture.archive()).unwrap();
    fs::create_dir(fixture.archive()).unwrap();
    assert_eq!(dir.check(), Ok(()));
    assert_eq!(store(&mut fixture, &dir, &file).unwrap(), Archived::Stored);
}

#[test]
fn a_read_only_directory_is_an_error_until_it_is_writable() {
    let mut fixture = Fixture::plain();
    let (file, dir) = (segment(1, 5), fixture.durable_dir());
    fixture.put(&file, &contents(1, 5));
    let set =
        |mode| fs::set_permissions(fixture.archive(), fs::Permissions::from_mode(mode)).unwrap();
    // Root may write everywhere, so the fault plan also returns the error.
    set(0o500);
    let denied = fixture.plan.add(Rule::on(Ops::OPEN).path("archive/"), Effect::Fail(Errno::ACCES));
    let mut source = fixture.source(&file).unwrap();
    let error = dir.store(&mut fixture.io, file.as_str(), &mut source).unwrap_err();
    assert!(error.to_string().contains("Permission denied"), "{error}");
    fixture.plan.end(denied);
    fs::set_permissions(fixture.archive(), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(store(&mut fixture, &dir, &file).unwrap(), Archived::Stored);
}

#[test]
fn directories_are_created_and_their_names_are_durable() {
    each(|fixture| {
        let dir = fixture.durable_dir();
        fixture.plan.record();
        let stored_name = "0000000100000000/05/file";
        let history = name("00000002.history");
        let store_as = |fixture: &mut Fixture, bytes: &[u8]| {
            fixture.put(&history, bytes);
            let mut source = fixture.source(&history)?;
            dir.store(&mut fixture.io, stored_name, &mut source)
        };
        assert_eq!(store_as(fixture, b"1\t0/5A0000\tone\n").unwrap(), Archived::Stored);
        let synced: Vec<_> = fixture
            .plan
            .take_calls()
            .into_iter()
            .filter(|call| call.op == Ops::SYNC_DIR)
            .map(|call| call.path)
            .collect();
        let archive = fixture.archive();
        let inner = archive.join("0000000100000000");
        assert_eq!(
            synced,
            [fixture.dir.path().to_path_buf(), archive, inner.clone(), inner.join("05")]
        );
        assert_eq!(fs::read(inner.join("05/file")).unwrap(), b"1\t0/5A0000\tone\n");
        assert_eq!(store_as(fixture, b"1\t0/5A0000\tone\n").unwrap(), Archived::Identical);
        let other = store_as(fixture, b"1\t0/5A0000\ttwo\n");
        assert!(matches!(other, Err(ArchiveError::Different { .. })));
    });
}

#[test]
fn pieces_of_any_length_make_up_a_file() {
    each(|fixture| {
        let dir = fixture.durable_dir();
        let bytes = &contents(1, 5)[..700_001];
        let mut new = dir.begin("file", &Buffers::new()).unwrap();
        for piece in bytes.chunks(33_333) {
            new.write(&mut fixture.io, piece).unwrap();
        }
        assert_eq!(new.len(), 700_001);
        assert_eq!(new.commit(&mut fixture.io).unwrap(), StoreOutcome::Stored);
        assert!(fs::read(fixture.archive().join("file")).unwrap() == bytes);
        let taken = dir.begin("file", &Buffers::new()).unwrap();
        assert_eq!(taken.commit(&mut fixture.io).unwrap(), StoreOutcome::Exists);
        drop(dir.begin("dropped", &Buffers::new()).unwrap());
        assert_eq!(fixture.stored(), ["file"]);
    });
}

#[test]
fn left_over_temporary_files_are_removed_and_those_in_use_stay() {
    let mut fixture = Fixture::plain();
    let dir = fixture.durable_dir();
    let left = format!("{TEMPORARY}{}.4711.0", segment(1, 5));
    fs::write(fixture.archive().join(&left), "left by a process that was killed").unwrap();
    fs::write(fixture.archive().join("archtemp.of.another.program"), "").unwrap();
    let other = fixture.durable_dir();
    let new = other.begin("file", &Buffers::new()).unwrap();
    assert_eq!(dir.clean().unwrap(), 1);
    assert_eq!(fixture.stored().len(), 2, "{:?}", fixture.stored());
    assert_eq!(new.commit(&mut fixture.io).unwrap(), StoreOutcome::Stored);
    assert_eq!(fixture.stored(), ["archtemp.of.another.program", "file"]);
}

/// A full disk is freed of the temporary files of killed processes.
#[test]
fn left_over_temporary_files_are_removed_from_a_full_disk() {
    let mut fixture = Fixture::plain();
    let (file, dir) = (segment(1, 5), fixture.durable_dir());
    fixture.put(&file, &contents(1, 5));
    let left = fixture.archive().join(format!("{TEMPORARY}x.1.0"));
    fs::write(&left, "").unwrap();
    let kept = left.clone();
    fixture.plan.add(Rule::on(Ops::WRITE).when(move |_| kept.exists()), Effect::Fail(Errno::NOSPC));
    assert!(store(&mut fixture, &dir, &file).unwrap_err().is_full());
    assert!(!left.exists());
    assert_eq!(store(&mut fixture, &dir, &file).unwrap(), Archived::Stored);
}

/// An earlier process with the same process id has left temporary files.
#[test]
fn taken_temporary_names_are_skipped() {
    let mut fixture = Fixture::plain();
    let dir = fixture.durable_dir();
    let pid = std::process::id();
    for n in 0..3 {
        fs::write(fixture.archive().join(format!("{TEMPORARY}file.{pid}.{n}")), "not ours")
            .unwrap();
    }
    let mut new = dir.begin("file", &Buffers::new()).unwrap();
    new.write(&mut fixture.io, b"ours").unwrap();
    assert_eq!(new.commit(&mut fixture.io).unwrap(), StoreOutcome::Stored);
    assert_eq!(fixture.stored().len(), 4);
}
