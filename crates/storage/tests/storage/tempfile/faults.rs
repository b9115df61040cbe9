//! Disks that fail, are full, or transfer less than was requested.

use super::*;

#[test]
fn leftovers_that_cannot_be_removed_are_counted_and_do_no_harm() {
    let plan = FaultPlan::new();
    let fixture = Fixture::faulty(SPEC, &plan);
    std::fs::create_dir(dir(&fixture)).unwrap();
    for n in 0..3 {
        std::fs::write(dir(&fixture).join(format!("pgsql_tmp7.{n}")), "old").unwrap();
    }
    plan.add(Rule::on(Ops::UNLINK).times(2), Effect::Fail(Errno::ACCES));
    let report = files(&fixture).remove_leftovers();
    assert_eq!((report.removed, report.failed), (1, 2));
    drop(filled(&files(&fixture), &TempSpace::new(), &mut fixture.backend().io, 10));
    assert_eq!(names(&fixture).len(), 2);
    plan.add(Rule::on(Ops::LIST), Effect::Fail(Errno::IO));
    assert_eq!(files(&fixture).remove_leftovers().failed, 2, "neither directory can be listed");
}

#[test]
fn an_error_of_a_write_names_its_offset_and_stays_until_the_file_is_removed() {
    for errno in [Errno::IO, Errno::NOSPC] {
        each_faulty(SPEC, |fixture, plan| {
            let (files, space) = (files(fixture), TempSpace::new());
            let mut backend = fixture.backend();
            plan.add(Rule::on(Ops::WRITE).path("pgsql_tmp").skip(2).times(1), Effect::Fail(errno));
            let mut writer = files.create(7, &space, TempOptions { combine: 2, depth: 0 }).unwrap();
            let error = writer.write_all(&mut backend.io, &pattern(0, 10 * PIECE)).unwrap_err();
            let text = format!(
                "could not write to file \"base/pgsql_tmp/pgsql_tmp7.0\" at offset {}: {errno}",
                2 * PIECE
            );
            assert_eq!(error.to_string(), text);
            assert_eq!(error.sqlstate(), if errno == Errno::NOSPC { "53100" } else { "58030" });
            assert_eq!(writer.room(&mut backend.io).unwrap_err().to_string(), text);
            assert_eq!(writer.finish(&mut backend.io).unwrap_err().to_string(), text);
            assert_eq!((names(fixture).len(), space.used()), (0, 0));
            let file = filled(&files, &space, &mut backend.io, 10 * PIECE);
            assert_eq!(
                read_all(&mut file.reader(SMALL), &mut backend.io, 5000),
                pattern(0, 10 * PIECE)
            );
        });
    }
}

#[test]
fn a_disk_that_fails_permanently_fails_each_file_and_nothing_else() {
    each_faulty(SPEC, |fixture, plan| {
        let (files, space) = (files(fixture), TempSpace::new());
        let mut backend = fixture.backend();
        let kept = filled(&files, &space, &mut backend.io, 5 * PIECE);
        plan.add(Rule::on(Ops::TRANSFERS).path("pgsql_tmp"), Effect::Fail(Errno::IO));
        for depth in 0..4 {
            let mut writer = files.create(7, &space, TempOptions { combine: 1, depth }).unwrap();
            let written = writer.write_all(&mut backend.io, &pattern(0, 5 * PIECE));
            assert!(written.and_then(|()| writer.finish(&mut backend.io)).is_err());
            let mut reader = kept.reader(TempOptions { combine: 1, depth });
            for _ in 0..3 {
                assert!(reader.fill(&mut backend.io).is_err());
            }
        }
        assert_eq!(names(fixture), ["pgsql_tmp7.0"]);
        plan.mend();
        assert_eq!(read_all(&mut kept.reader(SMALL), &mut backend.io, 5000), pattern(0, 5 * PIECE));
        drop(kept);
        assert_eq!((names(fixture).len(), space.used()), (0, 0));
    });
}

#[test]
fn random_faults_never_give_wrong_bytes_and_leave_nothing() {
    for seed in 0..3 {
        each_spec(SPEC, |spec| {
            let plan = FaultPlan::seeded(seed);
            let fixture = &Fixture::faulty(spec, &plan);
            let ops = Ops::TRANSFERS | Ops::OPEN;
            plan.add(Rule::on(ops).path("pgsql_tmp").chance(0.03), Effect::Fail(Errno::IO));
            plan.add(
                Rule::on(Ops::WRITE).path("pgsql_tmp").chance(0.03),
                Effect::Fail(Errno::NOSPC),
            );
            plan.add(Rule::on(Ops::TRANSFERS).path("pgsql_tmp").chance(0.2), Effect::Cut);
            let files = files(fixture);
            let (whole, failed) = (AtomicU32::new(0), AtomicU32::new(0));
            thread::scope(|scope| {
                for thread in 0..3 {
                    let (files, whole, failed) = (&files, &whole, &failed);
                    scope.spawn(move || {
                        let mut rng = StdRng::seed_from_u64(seed << 8 | thread);
                        let (mut backend, space) = (fixture.backend(), TempSpace::new());
                        for _ in 0..12 {
                            match round_trip(&mut rng, files, &space, &mut backend.io) {
                                Ok(()) => whole.fetch_add(1, Relaxed),
                                Err(error) => {
                                    assert!(
                                        error.to_string().contains("pgsql_tmp/pgsql_tmp3."),
                                        "{error}"
                                    );
                                    failed.fetch_add(1, Relaxed)
                                }
                            };
                            assert_eq!(space.used(), 0);
                        }
                    });
                }
            });
            assert!(whole.into_inner() > 0 && failed.into_inner() > 0);
            assert!(names(fixture).is_empty());
        });
    }
}

/// Writes a file and reads it at two positions at once; the bytes must be the same.
fn round_trip(
    rng: &mut StdRng,
    files: &Arc<TempFiles>,
    space: &Arc<TempSpace>,
    io: &mut aio::IoBackend,
) -> Result<(), StorageError> {
    let len = rng.random_range(1..12 * PIECE);
    let mut writer = files.create(3, space, random_options(rng))?;
    let model = pattern(rng.random_range(0..1000), len);
    for piece in model.chunks(rng.random_range(1..2 * PIECE)) {
        writer.write_all(io, piece)?;
    }
    let file = writer.finish(io)?;
    let middle = rng.random_range(0..=len);
    let mut readers = [(0, middle), (middle, len)].map(|(from, to)| {
        (file.reader_of(from as u64..to as u64, random_options(rng)), &model[from..to])
    });
    drop(file);
    let mut piece = vec![0; rng.random_range(1..2 * PIECE)];
    while readers.iter().any(|(reader, _)| reader.left() > 0) {
        for (reader, rest) in &mut readers {
            // Again after an error: the position is the same.
            let n = reader.read(io, &mut piece).or_else(|_| reader.read(io, &mut piece))?;
            assert_eq!(piece[..n], rest[..n]);
            *rest = &rest[n..];
        }
    }
    assert!(readers.iter().all(|(_, rest)| rest.is_empty()));
    Ok(())
}

#[test]
fn an_error_of_a_read_names_its_offset_and_the_read_can_be_repeated() {
    each_faulty(SPEC, |fixture, plan| {
        let (files, space) = (files(fixture), TempSpace::new());
        let mut backend = fixture.backend();
        let file = filled(&files, &space, &mut backend.io, 10 * PIECE + 5);
        let bad = 5 * PIECE as u64;
        let rule = Rule::on(Ops::READ).path("pgsql_tmp").bytes(bad..bad + 1);
        plan.add(rule.times(2), Effect::Fail(Errno::IO));
        let mut reader = file.reader(SMALL);
        let (mut errors, mut all, mut piece) = (0, Vec::new(), [0; 1000]);
        loop {
            // In pieces that do not divide a block evenly. Some are interrupted by the error, and
            // continue there.
            match reader.fill(&mut backend.io) {
                Ok([]) => break,
                Ok(bytes) => {
                    let n = bytes.len().min(piece.len());
                    piece[..n].copy_from_slice(&bytes[..n]);
                    reader.consume(n);
                    all.extend_from_slice(&piece[..n]);
                }
                Err(error) => {
                    errors += 1;
                    let at = reader.position();
                    assert!(at <= bad && bad < at + PIECE as u64, "{at}");
                    let text = format!(
                        "could not read from file \"base/pgsql_tmp/pgsql_tmp7.0\" at offset {at}: \
                         Input/output error"
                    );
                    assert_eq!(error.to_string(), text);
                }
            }
        }
        assert_eq!(all, pattern(0, 10 * PIECE + 5));
        // Neighbours that were read together are read alone when the whole read has failed.
        assert!((1..=2).contains(&errors), "{errors}");
    });
}

#[test]
fn short_transfers_are_continued() {
    each_faulty(SPEC, |fixture, plan| {
        let (files, space) = (files(fixture), TempSpace::new());
        let mut backend = fixture.backend();
        plan.add(Rule::on(Ops::TRANSFERS).path("pgsql_tmp"), Effect::Cut);
        for len in [1, 4095, 4097, 3 * PIECE + 1, 12 * PIECE] {
            let file = filled(&files, &space, &mut backend.io, len);
            assert_eq!(read_all(&mut file.reader(SMALL), &mut backend.io, 5000), pattern(0, len));
        }
    });
}

#[test]
fn an_error_about_a_truncated_file_names_offset_and_bytes() {
    each(SPEC, |fixture| {
        let (files, space) = (files(fixture), TempSpace::new());
        let mut backend = fixture.backend();
        let file = filled(&files, &space, &mut backend.io, 4 * PIECE);
        let path = fixture.dir().join(file.name());
        let opened = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        opened.set_len(3 * PIECE as u64 + 4096).unwrap();
        let mut reader =
            file.reader_of(3 * PIECE as u64..u64::MAX, TempOptions { combine: 8, depth: 2 });
        let mut into = [0; PIECE];
        // The first read is one block, of which half exists.
        let error = reader.read_exact(&mut backend.io, &mut into).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "could not read from file \"base/pgsql_tmp/pgsql_tmp7.0\" at offset {}: \
                 read only 4096 of 8192 bytes",
                3 * PIECE
            )
        );
        assert_eq!(error.sqlstate(), "58030");
        // The bytes that still exist can be read.
        let mut reader = file.reader(SMALL);
        reader.read_exact(&mut backend.io, &mut into).unwrap();
        assert_eq!(into[..], pattern(0, PIECE));
        // The file was removed by someone else: dropping it does no harm.
        std::fs::remove_file(&path).unwrap();
        drop((file, reader));
        assert_eq!(filled(&files, &space, &mut backend.io, PIECE).len(), PIECE as u64);
        assert!(names(fixture).is_empty());
    });
}

#[test]
fn after_a_file_could_not_be_created_the_next_one_can_be() {
    let plan = FaultPlan::new();
    let fixture = Fixture::faulty(SPEC, &plan);
    let (files, space) = (files(&fixture), TempSpace::new());
    plan.add(Rule::on(Ops::MKDIR).times(1), Effect::Fail(Errno::ACCES));
    let error = files.create(7, &space, SMALL).unwrap_err();
    assert_eq!(
        error.to_string(),
        "could not create file \"base/pgsql_tmp/pgsql_tmp7.0\": Permission denied"
    );
    drop(files.create(7, &space, SMALL).unwrap());
    plan.add(Rule::on(Ops::OPEN).path("pgsql_tmp").times(1), Effect::Fail(Errno::NOSPC));
    assert_eq!(files.create(7, &space, SMALL).unwrap_err().sqlstate(), "53100");
    plan.add(Rule::on(Ops::UNLINK).times(1), Effect::Fail(Errno::IO));
    let file = filled(&files, &space, &mut fixture.backend().io, 50_000);
    drop(file);
    // The file stays, but takes no space.
    assert_eq!(names(&fixture).len(), 1);
    assert_eq!(std::fs::metadata(dir(&fixture).join(&names(&fixture)[0])).unwrap().len(), 0);
    drop(filled(&files, &space, &mut fixture.backend().io, 50_000));
    assert_eq!((names(&fixture).len(), space.used()), (1, 0));
}

#[test]
fn a_directory_without_direct_io_is_used_with_buffered_io() {
    let fixture = Fixture::new(Spec { direct: true, ..SPEC });
    std::fs::create_dir(dir(&fixture)).unwrap();
    let mount = Command::new("mount").args(["-t", "ramfs", "ramfs"]).arg(dir(&fixture)).output();
    if !mount.is_ok_and(|m| m.status.success()) {
        println!(
            "skipped: a_directory_without_direct_io_is_used_with_buffered_io needs to mount a ramfs"
        );
        return;
    }
    let mut backend = fixture.backend();
    let files = files(&fixture);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for len in [100_001, 5] {
            let file = filled(&files, &TempSpace::new(), &mut backend.io, len);
            assert_eq!(
                std::fs::metadata(fixture.dir().join(file.name())).unwrap().len(),
                len as u64
            );
            assert_eq!(read_all(&mut file.reader(SMALL), &mut backend.io, 5000), pattern(0, len));
        }
        assert!(names(&fixture).is_empty());
    }));
    // Handles may still have its files open.
    assert!(Command::new("umount").arg("-l").arg(dir(&fixture)).status().unwrap().success());
    outcome.unwrap();
}
