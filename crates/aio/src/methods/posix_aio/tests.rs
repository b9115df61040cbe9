//! A system that takes only some blocks, or none: tests can't cause that from outside.

use super::*;
use crate::execute::PosixExecutor;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::{
    Aio, AioConfig, BackendType, IO_ALIGN, Io, IoMemory, OpenOptions, PosixNamespace, Region,
    Target,
};

/// This many blocks are taken, then one is refused, and so on; with 0 none is taken. Only one test
/// uses these.
static RUN: AtomicUsize = AtomicUsize::new(0);
static TAKEN: AtomicUsize = AtomicUsize::new(0);

unsafe fn reluctant(op: OpKind, block: *mut libc::aiocb) -> bool {
    let taken = TAKEN.load(Relaxed);
    if taken >= RUN.load(Relaxed) {
        TAKEN.store(0, Relaxed);
        return false;
    }
    TAKEN.store(taken + 1, Relaxed);
    // SAFETY: the caller's word.
    unsafe { enqueue(op, block) }
}

#[test]
fn what_the_system_does_not_take_is_executed() {
    let dir = tempfile::tempdir().unwrap();
    for run in [0, 1, 2, 3, 7] {
        RUN.store(run, Relaxed);
        TAKEN.store(0, Relaxed);
        let config = AioConfig { max_backends: 2, handles_per_backend: 8, ..AioConfig::default() };
        let made =
            Aio::with_method(Arc::new(PosixNamespace), Arc::new(PosixExecutor), config, |_| {
                Ok(Box::new(PosixAio { queue: reluctant, ..PosixAio::new(16) }))
            });
        let aio = made.unwrap();
        let file =
            aio.namespace().open(&dir.path().join("f"), &OpenOptions::READ_WRITE.create()).unwrap();
        let mut backend = aio.backend(BackendType::Client).unwrap();
        let region = Region::new(12 * IO_ALIGN).unwrap();
        for n in 0..12 {
            // SAFETY: inside the region, and nothing is in flight.
            unsafe { region.ptr(n * IO_ALIGN).write_bytes(n as u8 + 1, IO_ALIGN) };
        }
        // Two I/Os of six ranges, none adjacent in memory.
        backend.begin_batch();
        let refs: Vec<_> = (0..2)
            .map(|half| {
                let mut memory = IoMemory::empty(region.clone());
                (0..6).for_each(|n| memory.push((2 * n + half) * IO_ALIGN, IO_ALIGN));
                backend.start(Io::write(
                    file.clone(),
                    (half * 6 * IO_ALIGN) as u64,
                    memory,
                    Target::File,
                ))
            })
            .collect();
        backend.end_batch();
        for r in refs {
            assert_eq!(backend.wait(r).check().unwrap(), 6 * IO_ALIGN, "in runs of {run}");
        }
        let found = std::fs::read(dir.path().join("f")).unwrap();
        let firsts: Vec<u8> = found.chunks(IO_ALIGN).map(|c| c[0]).collect();
        assert_eq!(firsts, [1, 3, 5, 7, 9, 11, 2, 4, 6, 8, 10, 12]);
        assert!(found.chunks(IO_ALIGN).all(|c| c.iter().all(|&b| b == c[0])));
        std::fs::remove_file(dir.path().join("f")).unwrap();
    }
}

#[test]
fn blocks_add_up_to_one_transfer() {
    let (ok, short, none) = ((8, Ok(8)), (8, Ok(3)), (8, Ok(0)));
    let lost = (8, Err(Errno::CANCELED));
    let failed = (8, Err(Errno::NOSPC));
    assert_eq!(gather(&[(0, Ok(0))]), Ok(0), "a sync");
    assert_eq!(gather(&[ok, ok]), Ok(16));
    assert_eq!(gather(&[ok, short, none]), Ok(11), "the end of the file");
    assert_eq!(gather(&[ok, short, ok]), Ok(11), "what lies beyond a gap does not count");
    assert_eq!(gather(&[ok, lost, ok]), Ok(8));
    assert_eq!(gather(&[lost, ok]), Err(Errno::CANCELED), "to be attempted again");
    assert_eq!(gather(&[ok, short, failed]), Err(Errno::NOSPC));
    assert_eq!(gather(&[lost, failed]), Err(Errno::NOSPC));
}

/// A request that nobody waits for keeps its blocks until the system is done with them.
#[test]
fn what_is_dropped_is_settled_first() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let file = crate::File::from_fd("pipe".into(), crate::FileFlags::default(), reader.into());
    let mut byte = [0u8; 1];
    let vectors = [crate::execute::Vector::new(byte.as_mut_ptr(), 1)];
    let io = Request {
        file: &file,
        op: OpKind::Readv,
        offset: 0,
        length: 1,
        region: None,
        vectors: &vectors,
    };
    // SAFETY: byte outlives the request.
    let request = unsafe { ControlBlocks::start(&io, enqueue) }.expect("taken");
    std::io::Write::write_all(&mut writer, &[7]).unwrap();
    drop(request);
}
