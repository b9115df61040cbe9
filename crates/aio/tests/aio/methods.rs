//! One suite for all methods, buffered and direct: what one backend can expect.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use forebay_aio::*;
use smallvec::SmallVec;

use crate::common::{Setup, bytes, config, each_case, each_case_with, fill};

fn block(region: &Arc<Region>, n: usize) -> IoMemory {
    IoMemory::new(region.clone(), n * IO_ALIGN, IO_ALIGN)
}

fn write_block(file: &File, region: &Arc<Region>, n: usize) -> Io {
    Io::write(file.clone(), (n * IO_ALIGN) as u64, block(region, n), Target::File)
}

fn read_block(file: &File, region: &Arc<Region>, n: usize) -> Io {
    Io::read(file.clone(), (n * IO_ALIGN) as u64, block(region, n), Target::File)
}

/// A file of `blocks` blocks of the pattern, and a region that holds the same.
fn filled(s: &Setup, backend: &mut IoBackend, blocks: usize) -> (File, Arc<Region>) {
    let file = s.create("filled");
    let region = Region::new(blocks * IO_ALIGN).unwrap();
    fill(&region, 0, blocks * IO_ALIGN, 3);
    let memory = IoMemory::new(region.clone(), 0, blocks * IO_ALIGN);
    let w = backend.start(Io::write(file.clone(), 0, memory, Target::File));
    assert_eq!(backend.wait(w).check().unwrap(), blocks * IO_ALIGN);
    (file, region)
}

#[test]
fn round_trips() {
    each_case(|s| {
        let mut backend = s.backend();
        let (file, region) = filled(s, &mut backend, 8);
        for op in [Op::Fsync, Op::Fdatasync] {
            let sync = backend.start(Io::new(file.clone(), op, Target::File));
            assert_eq!(backend.wait(sync).check().unwrap(), 0);
        }
        // Scattered over three ranges, in another order.
        let other = Region::new(64 * IO_ALIGN).unwrap();
        let mut memory = IoMemory::empty(other.clone());
        for piece in [40, 20, 30] {
            memory.push(piece * IO_ALIGN, 2 * IO_ALIGN);
        }
        let r = backend.start(Io::read(file.clone(), 2 * IO_ALIGN as u64, memory, Target::File));
        assert_eq!(backend.wait(r).check().unwrap(), 6 * IO_ALIGN);
        let whole = bytes(&region, 0, 8 * IO_ALIGN);
        for (n, piece) in [40, 20, 30].into_iter().enumerate() {
            let from = (2 + 2 * n) * IO_ALIGN;
            assert_eq!(
                bytes(&other, piece * IO_ALIGN, 2 * IO_ALIGN),
                whole[from..from + 2 * IO_ALIGN]
            );
        }
        assert_eq!(s.aio.namespace().file_len(&file).unwrap(), 8 * IO_ALIGN as u64);
        assert_eq!(backend.in_flight(), 0);
    });
}

#[test]
fn more_vectors_than_one_call_takes() {
    each_case(|s| {
        let mut backend = s.backend();
        let pieces = 1500;
        let region = Region::new(2 * pieces * IO_ALIGN).unwrap();
        fill(&region, 0, region.len(), 9);
        let mut memory = IoMemory::empty(region.clone());
        for n in 0..pieces {
            memory.push(2 * n * IO_ALIGN, IO_ALIGN); // every other block, so that none merge
        }
        assert_eq!(memory.slices.len(), pieces);
        let file = s.create("many");
        let w = backend.start(Io::write(file.clone(), 0, memory, Target::File));
        assert_eq!(backend.wait(w).check().unwrap(), pieces * IO_ALIGN);
        let back = Region::new(pieces * IO_ALIGN).unwrap();
        let into = IoMemory::new(back.clone(), 0, pieces * IO_ALIGN);
        let r = backend.start(Io::read(file, 0, into, Target::File));
        assert_eq!(backend.wait(r).check().unwrap(), pieces * IO_ALIGN);
        for n in (0..pieces).step_by(97).chain([pieces - 1]) {
            assert!(
                bytes(&back, n * IO_ALIGN, IO_ALIGN) == bytes(&region, 2 * n * IO_ALIGN, IO_ALIGN),
                "piece {n}"
            );
        }
    });
}

#[test]
fn a_batch_of_any_size_is_submitted() {
    each_case_with(AioConfig { handles_per_backend: 64, ..config() }, |s| {
        let mut backend = s.backend();
        let (file, region) = filled(s, &mut backend, 100);
        let expected = bytes(&region, 0, 100 * IO_ALIGN);
        fill(&region, 0, 100 * IO_ALIGN, 0xEE);
        backend.begin_batch();
        let refs: Vec<_> = (0..100).map(|n| backend.start(read_block(&file, &region, n))).collect();
        assert!(backend.staged() <= IoBackend::MAX_STAGED);
        backend.end_batch();
        assert_eq!(backend.staged(), 0);
        for r in refs {
            assert_eq!(backend.wait(r).check().unwrap(), IO_ALIGN);
        }
        assert_eq!(bytes(&region, 0, 100 * IO_ALIGN), expected);
    });
}

#[test]
fn staged_io_starts_when_its_batch_ends_or_someone_waits() {
    each_case(|s| {
        let mut backend = s.backend();
        let (file, region) = filled(s, &mut backend, 4);
        backend.begin_batch();
        let a = backend.start(read_block(&file, &region, 0));
        let b = backend.start(read_block(&file, &region, 1));
        assert_eq!(backend.staged(), 2);
        assert!(!backend.is_done(a));
        assert!(backend.wait(b).check().is_ok(), "waiting submits");
        assert_eq!((backend.staged(), backend.in_batch()), (0, true));
        let c = backend.start(read_block(&file, &region, 2));
        backend.end_batch();
        assert!(backend.wait(c).check().is_ok());
        assert!(backend.wait(a).check().is_ok());
    });
}

#[test]
#[should_panic(expected = "batches don't nest")]
fn batches_do_not_nest() {
    let aio = Aio::new(Arc::new(PosixNamespace), MethodKind::Sync, config()).unwrap();
    let mut backend = aio.backend(BackendType::Client).unwrap();
    backend.begin_batch();
    backend.begin_batch();
}

#[test]
fn handles_run_out_and_no_report_is_lost() {
    each_case_with(AioConfig { handles_per_backend: 4, ..config() }, |s| {
        let mut backend = s.backend();
        let (file, region) = filled(s, &mut backend, 50);
        let refs: Vec<_> = (0..50).map(|n| backend.start(read_block(&file, &region, n))).collect();
        assert!(backend.in_flight() <= 4);
        for &r in &refs {
            assert_eq!(backend.wait(r).report().expect("a report, once").transferred, IO_ALIGN);
        }
        for &r in &refs {
            assert!(
                matches!(backend.wait(r), IoResult::Finished),
                "the report was handed out before"
            );
            assert!(backend.is_done(r) && s.aio.is_done(r));
        }
        // In a batch as well: what is staged is submitted, so that waiting for it ends.
        backend.begin_batch();
        let refs: Vec<_> = (0..50).map(|n| backend.start(read_block(&file, &region, n))).collect();
        backend.end_batch();
        assert!(refs.into_iter().all(|r| backend.wait(r).check().is_ok()));
    });
}

#[test]
fn forgotten_reports_are_not_kept() {
    each_case_with(AioConfig { handles_per_backend: 2, ..config() }, |s| {
        let mut backend = s.backend();
        let (file, region) = filled(s, &mut backend, 10);
        let mut refs = Vec::new();
        for n in 0..10 {
            let mut io = read_block(&file, &region, n);
            io.flags.detached = n % 2 == 0;
            let r = backend.start(io);
            if n % 2 == 1 {
                backend.forget(r);
            }
            refs.push(r);
        }
        assert_eq!(backend.drain(), Leftovers::default());
        assert!(refs.into_iter().all(|r| matches!(backend.wait(r), IoResult::Finished)));
    });
}

#[test]
fn a_stale_reference_means_done() {
    each_case_with(AioConfig { handles_per_backend: 1, ..config() }, |s| {
        let mut backend = s.backend();
        let (file, region) = filled(s, &mut backend, 2);
        let old = backend.start(read_block(&file, &region, 0));
        backend.wait(old).check().unwrap();
        let new = backend.start(read_block(&file, &region, 1));
        assert_eq!(old.index, new.index);
        assert!(old.generation < new.generation);
        let mut other = s.backend();
        assert!(other.is_done(old));
        assert!(matches!(other.wait(old), IoResult::Finished));
        assert!(matches!(backend.wait(old), IoResult::Finished));
        assert!(backend.wait(new).check().is_ok());
    });
}

#[test]
fn a_read_at_the_end_is_partial() {
    each_case(|s| {
        let mut backend = s.backend();
        let file = s.create("short");
        s.aio.namespace().set_len(&file, 10_000).unwrap();
        let region = Region::new(8 * IO_ALIGN).unwrap();
        let memory = IoMemory::new(region.clone(), 0, 4 * IO_ALIGN);
        let target = Target::Smgr {
            spc: 1663,
            db: 5,
            rel: 16384,
            fork: "",
            block: 7,
            count: 2,
            temp: false,
        };
        for (offset, there) in [(0, 10_000), (8192, 1808), (12288, 0), (1 << 30, 0)] {
            let r = backend.start(Io::read(file.clone(), offset, memory.clone(), target.clone()));
            let report = backend.wait(r).report().unwrap();
            assert_eq!((report.outcome.status, report.transferred), (Status::Partial, there));
            let text = report.check().unwrap_err().to_string();
            let expected = format!(
                "could not read blocks 7..8 in file \"base/5/16384\": \
                 read only {there} of 16384 bytes"
            );
            assert_eq!(text, expected);
        }
        let mut buf = AlignedBuf::zeroed(16384).unwrap();
        assert_eq!(backend.read_at(&file, 0, &mut buf).unwrap(), 10_000);
        assert!(matches!(
            backend.read_exact_at(&file, 0, &mut buf),
            Err(AioError::Short { got: 10_000, .. })
        ));
    });
}

#[test]
fn errors_name_operation_target_path_and_cause() {
    each_case(|s| {
        let mut backend = s.backend();
        drop(filled(s, &mut backend, 1));
        let write_only = s.open("filled", OpenOptions { write: true, ..OpenOptions::default() });
        let read_only = s.open("filled", OpenOptions::READ);
        let region = Region::new(IO_ALIGN).unwrap();
        let seen = Arc::new(AtomicUsize::new(0));
        let observer = seen.clone();
        let completion: Arc<dyn SharedCompletion> = Arc::new(move |io: &Completed<'_>| {
            assert_eq!(io.result, Err(Errno::BADF));
            observer.fetch_add(io.data[0] as usize, SeqCst);
            io.transfer_outcome()
        });
        let read = Io::read(write_only, 0, block(&region, 0), Target::Other("a thing".into()))
            .completion(completion.clone(), SmallVec::from_slice(&[5]));
        let r = backend.start(read);
        let report = backend.wait(r).report().unwrap();
        assert_eq!(report.outcome.status, Status::Error);
        assert_eq!(report.errno(), Some(Errno::BADF));
        let e = report.check().unwrap_err();
        assert_eq!(e.to_string(), "could not read a thing: Bad file descriptor");
        assert_eq!(e.path(), Some(s.path("filled").as_path()));
        assert_eq!(seen.load(SeqCst), 5);

        let e = backend.run(write_block(&read_only, &region, 0)).unwrap_err();
        assert_eq!(e.errno(), Some(Errno::BADF));
        let name = s.path("filled").display().to_string();
        assert_eq!(e.to_string(), format!("could not write file \"{name}\": Bad file descriptor"));
        assert!(backend.run(read_block(&read_only, &region, 0)).is_ok(), "the next one works");
    });
}

#[test]
fn a_full_disk_is_an_error() {
    each_case(|s| {
        let mut backend = s.backend();
        let full = s.aio.namespace().open("/dev/full".as_ref(), &OpenOptions::READ_WRITE).unwrap();
        let region = Region::new(IO_ALIGN).unwrap();
        let w = backend.start(write_block(&full, &region, 0));
        assert_eq!(backend.wait(w).report().unwrap().errno(), Some(Errno::NOSPC));
        assert_eq!(
            backend.run(write_block(&full, &region, 0)).unwrap_err().errno(),
            Some(Errno::NOSPC)
        );
    });
}

#[test]
fn a_completion_decides_the_outcome() {
    each_case(|s| {
        let mut backend = s.backend();
        let (file, region) = filled(s, &mut backend, 1);
        let refuse: Arc<dyn SharedCompletion> =
            Arc::new(|_: &Completed<'_>| Outcome::new(Status::Error, 42));
        let warn: Arc<dyn SharedCompletion> =
            Arc::new(|_: &Completed<'_>| Outcome::new(Status::Warning, 1));
        let burst: Arc<dyn SharedCompletion> = Arc::new(|_: &Completed<'_>| panic!("on purpose"));
        let mut run = |c: &Arc<dyn SharedCompletion>| {
            let r =
                backend.start(read_block(&file, &region, 0).completion(c.clone(), SmallVec::new()));
            backend.wait(r).report().unwrap()
        };
        let report = run(&refuse);
        assert_eq!(report.outcome, Outcome::new(Status::Error, 42));
        assert!(matches!(report.check(), Err(AioError::Rejected { detail: 42, .. })));
        let report = run(&warn);
        assert_eq!(report.outcome.status, Status::Warning);
        assert_eq!(report.check().unwrap(), IO_ALIGN);
        for _ in 0..10 {
            assert_eq!(
                run(&burst).outcome.status,
                Status::Error,
                "a panic is caught, and workers live on"
            );
        }
        assert_eq!(run(&warn).check().unwrap(), IO_ALIGN);
    });
}

#[test]
fn a_window_without_order_is_kept_full() {
    each_case(|s| {
        let mut backend = s.backend();
        let (file, region) = filled(s, &mut backend, 40);
        assert!(backend.wait_any().is_empty(), "nothing is in flight");
        let mut window: Vec<(WaitRef, usize)> = Vec::new();
        let (mut next, mut seen) = (0, [0; 40]);
        loop {
            while next < 40 && window.len() < 7 {
                window.push((backend.start(read_block(&file, &region, next)), next));
                next += 1;
            }
            let done = backend.wait_any();
            assert_eq!(done.is_empty(), window.is_empty());
            if window.is_empty() {
                break;
            }
            for r in done {
                assert!(backend.is_done(r));
                let at = window
                    .iter()
                    .position(|(other, _)| *other == r)
                    .expect("one of the window's, once");
                seen[window.swap_remove(at).1] += 1;
                assert_eq!(backend.wait(r).check().unwrap(), IO_ALIGN);
            }
        }
        assert_eq!(seen, [1; 40]);
    });
}

#[test]
fn dropping_a_backend_finishes_its_io() {
    each_case(|s| {
        let count = Arc::new(AtomicUsize::new(0));
        let region = Region::new(16 * IO_ALIGN).unwrap();
        fill(&region, 0, 16 * IO_ALIGN, 1);
        let file = s.create("dropped");
        let mut backend = s.backend();
        backend.begin_batch();
        for n in 0..16 {
            let count = count.clone();
            let completion = Arc::new(move |io: &Completed<'_>| {
                count.fetch_add(1, SeqCst);
                io.transfer_outcome()
            });
            backend.start(write_block(&file, &region, n).completion(completion, SmallVec::new()));
            if n == 8 {
                backend.submit();
            }
        }
        drop(backend);
        assert_eq!(count.load(SeqCst), 16);
        assert!(s.aio.snapshot().is_empty());
        assert_eq!(Arc::strong_count(&region), 1, "no handle holds the memory any more");
        assert_eq!(std::fs::read(s.path("dropped")).unwrap(), bytes(&region, 0, 16 * IO_ALIGN));
    });
}

#[test]
fn a_file_stays_open_for_its_io() {
    each_case(|s| {
        let mut backend = s.backend();
        let (file, region) = filled(s, &mut backend, 16);
        backend.begin_batch();
        let refs: Vec<_> = (0..16).map(|n| backend.start(read_block(&file, &region, n))).collect();
        drop(file); // the last clone outside of the handles
        s.aio.namespace().unlink(&s.path("filled")).unwrap();
        backend.end_batch();
        assert!(refs.into_iter().all(|r| backend.wait(r).check().is_ok()));
    });
}

#[test]
fn slots_are_limited_and_reused() {
    each_case(|s| {
        let mut all: Vec<_> = (0..8).map(|_| s.backend()).collect();
        let slots: std::collections::BTreeSet<_> = all.iter().map(|b| b.slot()).collect();
        assert_eq!(slots.len(), 8);
        let refused = s.aio.backend(BackendType::Client).err().unwrap();
        assert!(matches!(refused, AioError::TooManyBackends { max: 8 }));
        let gone = all.pop().map(|b| b.slot());
        assert_eq!(Some(s.backend().slot()), gone);
    });
}

#[test]
fn two_methods_in_one_process() {
    let setups: Vec<_> =
        crate::common::cases().into_iter().map(|c| Setup::new(c, config())).collect();
    let mut backends: Vec<_> = setups.iter().map(|s| s.backend()).collect();
    let first = &setups[0];
    let region = Region::new(IO_ALIGN).unwrap();
    fill(&region, 0, IO_ALIGN, 77);
    let shared = first.create("shared");
    // Each writes its own block of one file; then each reads everyone's.
    for (n, backend) in backends.iter_mut().enumerate() {
        let offset = (n * IO_ALIGN) as u64;
        let w = backend.start(Io::write(shared.clone(), offset, block(&region, 0), Target::File));
        assert!(backend.wait(w).check().is_ok());
    }
    let all = Region::new(setups.len() * IO_ALIGN).unwrap();
    for backend in &mut backends {
        let memory = IoMemory::new(all.clone(), 0, all.len());
        let r = backend.start(Io::read(shared.clone(), 0, memory, Target::File));
        assert_eq!(backend.wait(r).check().unwrap(), all.len());
        assert_eq!(bytes(&all, 0, IO_ALIGN), bytes(&all, all.len() - IO_ALIGN, IO_ALIGN));
    }
}

#[test]
fn conveniences() {
    each_case(|s| {
        let mut backend = s.backend();
        let file = s.create("control");
        let buf = AlignedBuf::copy_of(&[7; 8192]).unwrap();
        backend.write_all_at(&file, 8192, &buf).unwrap();
        backend.fsync(&file).unwrap();
        backend.fdatasync(&file).unwrap();
        let mut back = AlignedBuf::zeroed(16384).unwrap();
        backend.read_exact_at(&file, 0, &mut back).unwrap();
        assert!(back[..8192].iter().all(|&b| b == 0) && back[8192..].iter().all(|&b| b == 7));
        backend.write_file(&s.path("text"), b"hello").unwrap();
        backend.write_file(&s.path("text"), b"bye").unwrap();
        assert_eq!(backend.read_file(&s.path("text")).unwrap(), b"bye");
        backend.write_file(&s.path("empty"), b"").unwrap();
        assert_eq!(backend.read_file(&s.path("empty")).unwrap(), b"");
        let e = backend.read_file(&s.path("absent")).unwrap_err();
        assert!(e.is_not_found());
        assert_eq!(
            e.to_string(),
            format!(
                "could not open file \"{}\": No such file or directory",
                s.path("absent").display()
            )
        );
    });
}

fn unaligned(change: impl Fn(&mut Io)) {
    let Some(case) = crate::common::cases().into_iter().find(|c| c.direct) else {
        panic!("unaligned: no direct I/O here")
    };
    let s = Setup::new(case, config());
    let mut backend = s.backend();
    let file = s.create("direct");
    let region = Region::new(4 * IO_ALIGN).unwrap();
    let mut io = write_block(&file, &region, 0);
    change(&mut io);
    let _ = backend.run(io);
}

#[test]
#[should_panic(expected = "unaligned offset")]
fn direct_offsets_are_asserted() {
    unaligned(|io| {
        if let Op::Writev { offset, .. } = &mut io.op {
            *offset = 512;
        }
    });
}

#[test]
#[should_panic(expected = "unaligned length")]
fn direct_lengths_are_asserted() {
    unaligned(|io| {
        if let Op::Writev { memory, .. } = &mut io.op {
            memory.slices[0].len = 512;
        }
    });
}

#[test]
#[should_panic(expected = "unaligned")]
fn memory_is_asserted() {
    unaligned(|io| {
        if let Op::Writev { memory, .. } = &mut io.op {
            memory.slices[0].offset = 512;
        }
    });
}

#[test]
#[should_panic(expected = "outside of a region")]
fn memory_is_inside_its_region() {
    let case = crate::common::cases()[0];
    let s = Setup::new(case, config());
    let region = Region::new(IO_ALIGN).unwrap();
    let memory = IoMemory::new(region, 0, 2 * IO_ALIGN);
    let _ = s.backend().run(Io::read(s.create("f"), 0, memory, Target::File));
}

#[test]
fn owned_buffers_go_and_come_back() {
    each_case(|s| {
        let mut backend = s.backend();
        let file = s.create("owned");
        let mut buf = AlignedBuf::zeroed(3 * IO_ALIGN).unwrap();
        buf[IO_ALIGN..2 * IO_ALIGN].fill(7);
        let write = backend.start_write(&file, 0, buf, IO_ALIGN..3 * IO_ALIGN, Target::File);
        let (buf, written) = backend.finish_owned(write);
        assert_eq!(written.unwrap(), 2 * IO_ALIGN);
        backend.begin_batch();
        let whole = backend.start_read(&file, 0, buf, 0..2 * IO_ALIGN, Target::File);
        let other = AlignedBuf::zeroed(IO_ALIGN).unwrap();
        let beyond =
            backend.start_read(&file, 4 * IO_ALIGN as u64, other, 0..IO_ALIGN, Target::File);
        let dropped = AlignedBuf::zeroed(IO_ALIGN).unwrap();
        drop(backend.start_read(&file, 0, dropped, 0..IO_ALIGN, Target::File));
        backend.end_batch();
        let (mut buf, read) = backend.finish_owned(whole);
        assert_eq!(read.unwrap(), 2 * IO_ALIGN);
        assert!(buf[..IO_ALIGN].iter().all(|b| *b == 7) && buf[IO_ALIGN..].iter().all(|b| *b == 0));
        buf[0] = 1;
        let (_, read) = backend.finish_owned(beyond);
        assert!(matches!(read, Err(AioError::Short { got: 0, .. })), "{read:?}");
    });
}
