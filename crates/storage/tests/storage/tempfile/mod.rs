//! Temporary files: writing and reading, also concurrently; limits; and their removal.
//!
//! - `faults`: disks that fail, are full, or transfer less than was requested
//! - `flow`: when transfers are in flight

mod faults;
mod flow;

use crate::fixture::{Fixture, Spec, each, each_faulty, each_spec};
use forebay_aio::execute::PosixExecutor;
use forebay_aio::fault::{Effect, FaultPlan, FaultyExecutor, Ops, Rule};
use forebay_aio::{self as aio, Errno, IoOp};
use forebay_storage::{
    Smgr, SmgrConfig, StorageError, TempFile, TempFiles, TempOptions, TempReader, TempSpace,
    TempStats, TempWriter,
};
use forebay_testkit::files as files_of;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;

const SPEC: Spec = Spec { buffers: 16, ..Spec::plain() };
/// Pieces of 16 kB, two in flight.
const SMALL: TempOptions = TempOptions { combine: 2, depth: 2 };
const PIECE: usize = 16_384;

fn files(fixture: &Fixture) -> Arc<TempFiles> {
    TempFiles::new(&fixture.smgr)
}

fn dir(fixture: &Fixture) -> PathBuf {
    fixture.dir().join("base/pgsql_tmp")
}

/// The names of the existing files; none if there is no directory.
fn names(fixture: &Fixture) -> Vec<String> {
    if dir(fixture).exists() { files_of::names(&dir(fixture)) } else { Vec::new() }
}

/// Bytes that depend on their position.
fn pattern(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|n| (n ^ n >> 8 ^ n >> 16) as u8).collect()
}

/// Writes a file of `len` bytes of the pattern.
fn filled(
    files: &Arc<TempFiles>,
    space: &Arc<TempSpace>,
    io: &mut aio::IoBackend,
    len: usize,
) -> TempFile {
    let mut writer = files.create(7, space, SMALL).unwrap();
    writer.write_all(io, &pattern(0, len)).unwrap();
    writer.finish(io).unwrap()
}

/// Reads up to the end, in pieces of `at_once` bytes.
fn read_all(reader: &mut TempReader, io: &mut aio::IoBackend, at_once: usize) -> Vec<u8> {
    let mut all = Vec::new();
    let mut piece = vec![0; at_once];
    loop {
        let n = reader.read(io, &mut piece).unwrap();
        all.extend_from_slice(&piece[..n]);
        if n < at_once {
            return all;
        }
    }
}

fn random_options(rng: &mut StdRng) -> TempOptions {
    TempOptions { combine: rng.random_range(1..=16), depth: rng.random_range(0..=4) }
}

/// Appends random bytes, in both ways of writing, to the file and to the model.
fn write_random(
    rng: &mut StdRng,
    io: &mut aio::IoBackend,
    writer: &mut TempWriter,
    model: &mut Vec<u8>,
    most: usize,
) {
    let len = rng.random_range(0..=most);
    let from = model.len();
    model.resize(from + len, 0);
    rng.fill_bytes(&mut model[from..]);
    let mut rest = &model[from..];
    if rng.random_bool(0.5) {
        writer.write_all(io, rest).unwrap();
        rest = &[];
    }
    while !rest.is_empty() {
        let room = writer.room(io).unwrap();
        let n = rng.random_range(1..=room.len().min(rest.len()));
        room[..n].copy_from_slice(&rest[..n]);
        writer.advance(io, n).unwrap();
        rest = &rest[n..];
    }
    assert_eq!(writer.len(), model.len() as u64);
}

/// Does something random with a reader, and compares with the model of its part.
fn read_random(
    rng: &mut StdRng,
    io: &mut aio::IoBackend,
    reader: &mut TempReader,
    (model, start, end): (&[u8], usize, usize),
) {
    let at = reader.position() as usize;
    match rng.random_range(0..10) {
        0 => reader.seek(io, rng.random_range(start..=end) as u64),
        1 => {
            let n = rng.random_range(0..=(end - at) / 2);
            reader.consume(n);
            assert_eq!(reader.position() as usize, at + n);
        }
        2..5 => {
            let bytes = reader.fill(io).unwrap();
            assert_eq!(bytes.is_empty(), at == end, "at {at} of {start}..{end}");
            assert_eq!(bytes, &model[at..at + bytes.len()]);
            let n = rng.random_range(0..=bytes.len());
            reader.consume(n);
        }
        _ => {
            let mut into = vec![0; rng.random_range(0..60_000)];
            if into.len() > end - at {
                let error = reader.read_exact(io, &mut into).unwrap_err();
                assert!(matches!(error, StorageError::TempShort { .. }), "{error}");
                let n = reader.read(io, &mut into).unwrap();
                assert_eq!(n, end - at);
                into.truncate(n);
            } else {
                reader.read_exact(io, &mut into).unwrap();
            }
            assert_eq!(into, &model[at..at + into.len()]);
        }
    }
    assert_eq!(reader.left() as usize, end - reader.position() as usize);
}

#[test]
fn random_bytes_can_be_read_at_any_position() {
    each(SPEC, |fixture| {
        let (files, space) = (files(fixture), TempSpace::new());
        let mut backend = fixture.backend();
        for seed in 0..6 {
            let mut rng = StdRng::seed_from_u64(seed);
            let mut model = Vec::new();
            let mut writer = files.create(7, &space, random_options(&mut rng)).unwrap();
            let most = [10, 3000, 200_000][seed as usize % 3];
            for _ in 0..rng.random_range(0..20) {
                write_random(&mut rng, &mut backend.io, &mut writer, &mut model, most);
                if rng.random_bool(0.1) {
                    writer.rest(&mut backend.io).unwrap();
                }
            }
            let file = writer.finish(&mut backend.io).unwrap();
            assert_eq!(file.len(), model.len() as u64);
            let on_disk = std::fs::metadata(fixture.dir().join(file.name())).unwrap().len();
            let unit = if fixture.spec.direct { 4096 } else { 1 };
            assert_eq!(on_disk, file.len().next_multiple_of(unit));
            let mut readers: Vec<_> = (0..4)
                .map(|n| {
                    let start = if n == 0 { 0 } else { rng.random_range(0..=model.len()) };
                    let end =
                        if n < 2 { model.len() } else { rng.random_range(start..=model.len()) };
                    (file.reader_of(start as u64..end as u64, random_options(&mut rng)), start, end)
                })
                .collect();
            drop(file);
            for _ in 0..100 {
                let n = rng.random_range(0..readers.len());
                let (reader, start, end) = &mut readers[n];
                read_random(&mut rng, &mut backend.io, reader, (&model, *start, *end));
            }
            assert_eq!(names(fixture).len(), 1);
            drop(readers);
            assert_eq!((names(fixture).len(), space.used()), (0, 0));
        }
    });
}

#[test]
fn files_are_private_created_when_needed_and_removed_when_dropped() {
    each(SPEC, |fixture| {
        let (files, space) = (files(fixture), TempSpace::new());
        let mut backend = fixture.backend();
        assert!(!dir(fixture).exists());
        let mut writer = files.create(42, &space, SMALL).unwrap();
        writer.write_all(&mut backend.io, &pattern(0, 100_000)).unwrap();
        let second = files.create(42, &space, SMALL).unwrap();
        assert_eq!(names(fixture), ["pgsql_tmp42.0", "pgsql_tmp42.1"]);
        let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(dir(fixture)), 0o700);
        assert_eq!(mode(dir(fixture).join("pgsql_tmp42.0")), 0o600);
        drop(second);
        assert_eq!(names(fixture), ["pgsql_tmp42.0"]);
        assert_eq!(files.stats(), TempStats { files: 1, bytes: 0 });

        let file = writer.finish(&mut backend.io).unwrap();
        assert_eq!(space.used(), 100_000);
        let (mut one, mut two) = (file.reader(SMALL), file.reader(SMALL));
        drop(file);
        assert_eq!(read_all(&mut one, &mut backend.io, 999), pattern(0, 100_000));
        drop(one);
        assert_eq!(read_all(&mut two, &mut backend.io, PIECE), pattern(0, 100_000));
        drop(two);
        assert!(names(fixture).is_empty());
        assert_eq!(files.stats(), TempStats { files: 2, bytes: 100_000 });
        files.reset_stats();
        assert_eq!(files.stats(), TempStats::default());
        // PostgreSQL's pg_stat_io does not count temporary files either.
        let rows = fixture.aio.stats().snapshot();
        for op in [IoOp::Read, IoOp::Write, IoOp::Extend, IoOp::Fsync] {
            assert_eq!(rows.iter().map(|row| row.get(op).count).sum::<u64>(), 0, "{op:?}");
        }
    });
}

#[test]
fn an_existing_name_is_skipped() {
    let fixture = Fixture::new(SPEC);
    std::fs::create_dir(dir(&fixture)).unwrap();
    std::fs::write(dir(&fixture).join("pgsql_tmp7.0"), "old").unwrap();
    let (files, space) = (files(&fixture), TempSpace::new());
    let file = filled(&files, &space, &mut fixture.backend().io, 10);
    assert_eq!(file.name(), "base/pgsql_tmp/pgsql_tmp7.1");
    drop(file);
    assert_eq!(names(&fixture), ["pgsql_tmp7.0"]);
}

#[test]
fn only_leftovers_of_a_crash_are_removed_at_the_start() {
    let fixture = Fixture::new(SPEC);
    let spaces = fixture.dir().join("pg_tblspc/16400/PG_18_202506291/pgsql_tmp");
    for dir in [dir(&fixture), spaces.clone()] {
        std::fs::create_dir_all(dir.join("pgsql_tmp12.0.fileset/deep")).unwrap();
        std::fs::create_dir(dir.join("other")).unwrap();
        for name in
            ["pgsql_tmp12.0", "pgsql_tmp12.11", "pgsql_tmp12.0.fileset/deep/i1of2.p0.0", "note.txt"]
        {
            std::fs::write(dir.join(name), "x").unwrap();
        }
    }
    std::fs::write(fixture.dir().join("base/5/pgsql_tmp1.0"), "in another directory").unwrap();
    let report = files(&fixture).remove_leftovers();
    assert_eq!((report.removed, report.unexpected, report.failed), (6, 4, 0));
    assert_eq!(names(&fixture), ["note.txt", "other"]);
    assert_eq!(std::fs::read_dir(spaces).unwrap().count(), 2);
    assert!(fixture.dir().join("base/5/pgsql_tmp1.0").exists());
    assert_eq!(files(&fixture).remove_leftovers().removed, 0);
    std::fs::remove_dir_all(dir(&fixture)).unwrap();
    assert_eq!(files(&fixture).remove_leftovers().failed, 0, "a missing directory is no failure");
}

#[test]
fn closing_removes_all_files_and_touches_none_afterwards() {
    let fixture = Fixture::new(SPEC);
    let (files, space) = (files(&fixture), TempSpace::new());
    let mut backend = fixture.backend();
    let kept = filled(&files, &space, &mut backend.io, 100_000);
    let mut writer = files.create(7, &space, SMALL).unwrap();
    assert_eq!(files.close().removed, 2);
    assert!(names(&fixture).is_empty());
    let error = files.create(7, &space, SMALL).unwrap_err();
    assert!(matches!(error, StorageError::File { operation: "create", .. }), "{error}");
    // The next engine creates files of the same names.
    let next = filled(&TempFiles::new(&fixture.smgr), &space, &mut backend.io, 10);
    assert_eq!(next.name(), kept.name());
    writer.write_all(&mut backend.io, &[1; PIECE]).unwrap();
    drop((kept, writer));
    assert_eq!(names(&fixture), ["pgsql_tmp7.0"]);
    assert_eq!((files.close().removed, space.used()), (0, 10));
}

#[test]
fn files_are_read_while_others_are_written_in_many_threads() {
    each(SPEC, |fixture| {
        let files = files(fixture);
        thread::scope(|scope| {
            for owner in 0..4 {
                let files = &files;
                scope.spawn(move || {
                    let (mut backend, space) = (fixture.backend(), TempSpace::new());
                    let len = 100_000 + owner * 1111;
                    let mut before = filled(files, &space, &mut backend.io, len);
                    for _ in 0..4 {
                        let mut reader = before.reader(SMALL);
                        let mut writer = files.create(owner as i32, &space, SMALL).unwrap();
                        loop {
                            let bytes = reader.fill(&mut backend.io).unwrap().to_vec();
                            if bytes.is_empty() {
                                break;
                            }
                            writer.write_all(&mut backend.io, &bytes).unwrap();
                            reader.consume(bytes.len());
                        }
                        before = writer.finish(&mut backend.io).unwrap();
                    }
                    assert_eq!(
                        read_all(&mut before.reader(SMALL), &mut backend.io, 5000),
                        pattern(0, len)
                    );
                });
            }
        });
        assert!(names(fixture).is_empty());
        assert_eq!(files.stats().files, 20);
    });
}

#[test]
fn more_files_than_may_be_open() {
    each(SPEC, |fixture| {
        let config =
            SmgrConfig { direct: fixture.spec.direct, max_open_files: 4, ..SmgrConfig::default() };
        let smgr = Smgr::new(Arc::clone(&fixture.aio), fixture.dir(), config);
        let (files, space) = (TempFiles::new(&smgr), TempSpace::new());
        let mut backend = fixture.backend();
        let mut writers: Vec<_> =
            (0..40).map(|_| files.create(1, &space, SMALL).unwrap()).collect();
        for part in 0..5 {
            for writer in &mut writers {
                writer.write_all(&mut backend.io, &pattern(part * 9000, 9000)).unwrap();
            }
        }
        let mut readers: Vec<_> = writers
            .into_iter()
            .map(|writer| writer.finish(&mut backend.io).unwrap().reader(SMALL))
            .collect();
        let mut piece = [0; 9000];
        for part in 0..5 {
            for reader in &mut readers {
                reader.read_exact(&mut backend.io, &mut piece).unwrap();
                assert_eq!(piece[..], pattern(part * 9000, 9000));
            }
        }
        drop(readers);
        assert!(names(fixture).is_empty());
    });
}

#[test]
fn the_limit_holds_for_all_files_of_a_session_and_removed_files_free_space() {
    each(SPEC, |fixture| {
        let (files, space) = (files(fixture), TempSpace::new());
        let mut backend = fixture.backend();
        space.set_limit(100);
        let first = filled(&files, &space, &mut backend.io, 60_000);
        let mut writer = files.create(7, &space, SMALL).unwrap();
        let error = writer.write_all(&mut backend.io, &pattern(0, 60_000)).unwrap_err();
        assert_eq!(error.to_string(), "temporary file size exceeds \"temp_file_limit\" (100kB)");
        assert_eq!(error.sqlstate(), "53400");
        assert!(
            writer.write_all(&mut backend.io, &[1]).is_err(),
            "nothing may be missing in the middle"
        );
        assert!(writer.finish(&mut backend.io).is_err());
        assert_eq!(space.used(), 60_000);
        let others = filled(&files, &TempSpace::new(), &mut backend.io, 200_000);
        assert_eq!(read_all(&mut first.reader(SMALL), &mut backend.io, 7000), pattern(0, 60_000));
        drop(first);
        assert_eq!(space.used(), 0);
        // To the last byte.
        assert_eq!(filled(&files, &space, &mut backend.io, 102_400).len(), 102_400);
        let mut writer = files.create(7, &space, SMALL).unwrap();
        writer.write_all(&mut backend.io, &pattern(0, 102_401)).unwrap();
        assert!(matches!(
            writer.finish(&mut backend.io),
            Err(StorageError::TempLimit { kilobytes: 100 })
        ));
        space.set_limit(-1);
        drop(filled(&files, &space, &mut backend.io, 200_000));
        drop(others);
        assert_eq!((names(fixture).len(), space.used()), (0, 0));
    });
}
