//! Short writes and full disks as the real kernel makes them: the limit on a file's size, a small
//! file system. It is one test, because the limit is the process's.
#![cfg(target_os = "linux")]

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use forebay_aio::*;

mod common;
use common::{Setup, each_case, fill, pattern};

const BLOCKS: usize = 16;

fn write_all(s: &Setup, file: &File, from: usize) -> Result<usize, AioError> {
    let region = Region::new(BLOCKS * IO_ALIGN).unwrap();
    fill(&region, 0, region.len(), 8);
    // In ranges that don't adjoin, so that the kernel gets several vectors.
    let mut memory = IoMemory::empty(region);
    for n in (0..BLOCKS).step_by(2).chain((1..BLOCKS).step_by(2)) {
        memory.push(n * IO_ALIGN, IO_ALIGN);
    }
    let mut backend = s.backend();
    let w = backend.start(Io::write(file.clone(), (from * IO_ALIGN) as u64, memory, Target::File));
    backend.wait(w).check()
}

/// Block `n` of what [`write_all`] writes.
fn written(n: usize) -> Vec<u8> {
    let source = if n < BLOCKS / 2 { 2 * n } else { 2 * (n - BLOCKS / 2) + 1 };
    (source * IO_ALIGN..(source + 1) * IO_ALIGN).map(|at| pattern(at, 8)).collect()
}

fn limit_file_size(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: plain system calls with a live argument; the signal is ignored, so nothing of ours
    // runs in a handler.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
}

fn a_file_size_limit_cuts_a_write(s: &Setup) {
    let file = s.create("limited");
    limit_file_size((BLOCKS + 5) as u64 * IO_ALIGN as u64);
    let result = write_all(s, &file, 8);
    limit_file_size(libc::RLIM_INFINITY);
    assert_eq!(result.unwrap_err().errno(), Some(Errno(libc::EFBIG)));
    let got = std::fs::read(s.path("limited")).unwrap();
    assert_eq!(got.len(), (BLOCKS + 5) * IO_ALIGN, "as much as the limit allows is there");
    for (n, block) in got.chunks(IO_ALIGN).skip(8).enumerate() {
        assert!(block == written(n), "block {n}");
    }
}

/// A small file system in memory, unmounted at the end.
struct Small<'a>(&'a Path);

impl Small<'_> {
    fn mount(dir: &Path) -> Result<Small<'_>, Errno> {
        let path = CString::new(dir.as_os_str().as_bytes()).unwrap();
        let (kind, size) = (c"tmpfs", CString::new(format!("size={}", 10 * IO_ALIGN)).unwrap());
        // SAFETY: all strings live and end with a zero.
        let rc = unsafe {
            libc::mount(kind.as_ptr(), path.as_ptr(), kind.as_ptr(), 0, size.as_ptr().cast())
        };
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        if rc == 0 { Ok(Small(dir)) } else { Err(Errno(errno)) }
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let path = CString::new(self.0.as_os_str().as_bytes()).unwrap();
        // SAFETY: the string lives and ends with a zero.
        unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
    }
}

fn a_small_file_system_fills_up(s: &Setup) {
    let dir = s.path("small");
    std::fs::create_dir(&dir).unwrap();
    let _mounted = match Small::mount(&dir) {
        Ok(mounted) => mounted,
        Err(e) => {
            eprintln!("a full file system: skipped, a small one could not be mounted: {e}");
            return;
        }
    };
    let options = OpenOptions::READ_WRITE.create_new().direct(s.case.direct);
    let file = match s.aio.namespace().open(&dir.join("f"), &options) {
        Ok(file) => file,
        Err(e) => {
            eprintln!("a full file system, direct: skipped: {e}");
            return;
        }
    };
    assert_eq!(write_all(s, &file, 0).unwrap_err().errno(), Some(Errno::NOSPC));
    let got = std::fs::read(dir.join("f")).unwrap();
    assert_eq!(got.len(), 10 * IO_ALIGN, "what fitted is there");
    for (n, block) in got.chunks(IO_ALIGN).enumerate() {
        assert!(block == written(n), "block {n}");
    }
    // With space again, the same write succeeds.
    s.aio.namespace().set_len(&file, 0).unwrap();
    let mut backend = s.backend();
    let one = Region::new(IO_ALIGN).unwrap();
    let w = backend.start(Io::write(file, 0, IoMemory::new(one, 0, IO_ALIGN), Target::File));
    assert_eq!(backend.wait(w).check().unwrap(), IO_ALIGN);
}

#[test]
fn the_kernels_own_limits() {
    each_case(|s| {
        a_file_size_limit_cuts_a_write(s);
        a_small_file_system_fills_up(s);
    });
}
