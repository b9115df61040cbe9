//! Operations on a range of a file without memory: allocation, and the start of write-out.

use std::os::unix::fs::MetadataExt;

use forebay_aio::*;

use crate::common::{Setup, each_case};

const MIB: u64 = 1 << 20;

/// Runs one of them, in this thread or through the method.
fn run(s: &Setup, file: &File, op: Op, synchronous: bool) -> IoReport {
    let mut backend = s.backend();
    let flags = IoFlags { synchronous, ..IoFlags::default() };
    let r = backend.start(Io::new(file.clone(), op, Target::File).flags(flags));
    backend.wait(r).report().expect("an own I/O")
}

#[test]
fn allocation_extends_a_file_by_zeros() {
    each_case(|s| {
        for synchronous in [false, true] {
            let name = format!("allocated {synchronous}");
            let file = s.create(&name);
            let report = run(s, &file, Op::Allocate { offset: MIB, len: MIB }, synchronous);
            assert_eq!((report.transferred, report.expected), (0, 0));
            match report.check() {
                Ok(_) => {}
                Err(e) if e.errno() == Some(Errno::OPNOTSUPP) => {
                    eprintln!("allocation is not tested here: {e}");
                    continue;
                }
                Err(e) => panic!("{e}"),
            }
            let about = std::fs::metadata(s.path(&name)).unwrap();
            assert_eq!(about.len(), 2 * MIB);
            assert!(about.blocks() * 512 >= MIB && about.blocks() * 512 < 2 * MIB, "{about:?}");
            assert!(std::fs::read(s.path(&name)).unwrap().iter().all(|&b| b == 0));
            // Existing bytes stay.
            let mut backend = s.backend();
            let written = AlignedBuf::copy_of(&[5; IO_ALIGN]).unwrap();
            backend.write_all_at(&file, MIB, &written).unwrap();
            backend.allocate(&file, 0, 3 * MIB).unwrap();
            let bytes = std::fs::read(s.path(&name)).unwrap();
            assert_eq!(bytes.len() as u64, 3 * MIB);
            assert_eq!(bytes.iter().filter(|&&b| b == 5).count(), IO_ALIGN);
        }
    });
}

#[test]
fn write_out_of_a_range_starts() {
    each_case(|s| {
        for synchronous in [false, true] {
            let file = s.create(&format!("ranges {synchronous}"));
            let mut backend = s.backend();
            backend
                .write_all_at(&file, 0, &AlignedBuf::copy_of(&[9; 4 * IO_ALIGN]).unwrap())
                .unwrap();
            for (offset, len) in
                [(0, 4 * IO_ALIGN as u64), (IO_ALIGN as u64, 0), (100, 17), (MIB, MIB)]
            {
                let report = run(s, &file, Op::SyncFileRange { offset, len }, synchronous);
                if report.errno() == Some(Errno::OPNOTSUPP) && cfg!(not(target_os = "linux")) {
                    continue;
                }
                assert_eq!(report.check().unwrap(), 0, "{offset} {len}");
            }
        }
    });
}

#[test]
fn refusals_name_the_operation() {
    each_case(|s| {
        let path = s.path("refused");
        drop(s.create("refused"));
        let read_only = s.aio.namespace().open(&path, &OpenOptions::READ).unwrap();
        let full = s.aio.namespace().open("/dev/full".as_ref(), &OpenOptions::READ_WRITE).unwrap();
        for synchronous in [false, true] {
            let e = run(s, &read_only, Op::Allocate { offset: 0, len: MIB }, synchronous)
                .check()
                .unwrap_err();
            assert_eq!(e.errno(), Some(Errno::BADF));
            let named = format!(
                "could not allocate space for file \"{}\": Bad file descriptor",
                path.display()
            );
            assert_eq!(e.to_string(), named);
            assert!(matches!(e, AioError::Io { op: OpKind::Allocate, offset: 0, len: MIB, .. }));
            // A range that no file has.
            for op in [
                Op::Allocate { offset: u64::MAX, len: 1 },
                Op::SyncFileRange { offset: u64::MAX, len: 1 },
            ] {
                let e = run(s, &read_only, op.clone(), synchronous).check().unwrap_err();
                let expected = [Some(Errno::INVAL), Some(Errno::BADF)];
                assert!(expected.contains(&e.errno()), "{op:?}: {e}");
            }
            // A device has neither space to allocate nor pages to write out.
            let e = run(s, &full, Op::Allocate { offset: 0, len: MIB }, synchronous)
                .check()
                .unwrap_err();
            assert!(e.errno().is_some(), "{e}");
            let e = run(s, &full, Op::SyncFileRange { offset: 0, len: MIB }, synchronous)
                .check()
                .unwrap_err();
            assert!(e.to_string().starts_with("could not flush file \"/dev/full\": "), "{e}");
        }
    });
}

#[test]
fn they_are_shown_and_counted() {
    each_case(|s| {
        let file = s.create("shown");
        let mut backend = s.backend();
        let seen = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let (aio, file, seen) = (&s.aio, &file, &seen);
            scope
                .spawn(move || {
                    let mut backend = aio.backend(BackendType::Client).unwrap();
                    for (op, counted) in [
                        (Op::Allocate { offset: 8192, len: MIB }, IoOp::Extend),
                        (Op::SyncFileRange { offset: 8192, len: MIB }, IoOp::Writeback),
                    ] {
                        let watch = {
                            let aio = aio.clone();
                            std::sync::Arc::new(move |io: &Completed<'_>| {
                                let shown: Vec<_> = aio
                                    .snapshot()
                                    .into_iter()
                                    .map(|i| (i.operation, i.offset, i.length))
                                    .collect();
                                assert_eq!((io.offset, io.expected), (8192, 0));
                                assert_eq!(shown, [(io.op, Some(8192), Some(MIB))]);
                                io.transfer_outcome()
                            })
                        };
                        let io = Io::new(file.clone(), op, Target::File)
                            .completion(watch, Default::default())
                            .account(IoObject::Relation, IoContext::Normal, counted);
                        let r = backend.start(io);
                        let report = backend.wait(r).report().unwrap();
                        seen.lock().unwrap().push(report.outcome.status);
                    }
                })
                .join()
                .unwrap();
        });
        assert_eq!(seen.into_inner().unwrap(), [Status::Ok, Status::Ok]);
        let rows = s.aio.stats().snapshot();
        let row = rows
            .iter()
            .find(|r| {
                r.backend_type == BackendType::Client
                    && r.object == IoObject::Relation
                    && r.context == IoContext::Normal
            })
            .unwrap();
        assert_eq!((row.get(IoOp::Extend).count, row.get(IoOp::Extend).bytes), (1, MIB));
        assert_eq!(row.get(IoOp::Writeback).count, 1);
        backend.fsync(&file).unwrap();
    });
}
