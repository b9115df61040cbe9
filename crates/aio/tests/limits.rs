//! Limits on descriptors, locked memory and system calls. Each case runs in a child process that
//! really has the limit. The child runs the same test by its name and takes the other branch.
#![cfg(target_os = "linux")]

use std::sync::Arc;

use forebay_aio::*;
use forebay_testkit::io::has_io_uring;

mod common;
mod confined;
use common::config;
use confined::{Confined, confined};

fn open_io_uring(max_backends: usize) -> Result<Arc<Aio>, AioError> {
    let config = AioConfig { max_backends, register_files: true, ..config() };
    Aio::new(Arc::new(PosixNamespace::new()), MethodKind::IoUring, config)
}

#[test]
fn the_soft_limit_on_descriptors_is_raised() {
    confined(
        "the_soft_limit_on_descriptors_is_raised",
        Confined::default().descriptors(64, 100),
        || {
            let raised = raise_descriptor_limit(90);
            assert_eq!((raised.descriptors, raised.descriptors_hard), (90, 100));
            assert_eq!(raise_descriptor_limit(80).descriptors, 90, "never lowered");
            assert_eq!(raise_descriptor_limit(1000).descriptors, 100, "as far as the hard limit");
            let files: Vec<_> =
                (0..80).map_while(|_| std::fs::File::open("/dev/null").ok()).collect();
            assert_eq!(files.len(), 80, "more than the limit at start allowed");
        },
    );
}

#[test]
fn descriptors_are_counted_before_rings_are_set_up() {
    let limits = Confined::default().descriptors(64, 64);
    confined("descriptors_are_counted_before_rings_are_set_up", limits, || {
        if !has_io_uring() {
            return;
        }
        let in_use = descriptors_in_use().unwrap();
        let Err(AioError::IoUring(refusal)) = open_io_uring(64) else {
            panic!("64 rings of 64 descriptors")
        };
        assert_eq!(
            refusal.cause,
            RefusalCause::TooFewDescriptors { needed: 65, limit: 64, in_use }
        );
        let text = refusal.to_string();
        assert!(
            text.contains("65 descriptors are needed") && text.contains("RLIMIT_NOFILE, 64"),
            "{text}"
        );
        assert!(refusal.hint().contains("ulimit -n"));

        // Without a named method the fallback is chosen, with the reason.
        assert_eq!(MethodKind::choose(64, MethodKind::Sync), (MethodKind::Sync, Some(refusal)));
        assert_eq!(MethodKind::choose(8, MethodKind::Sync), (MethodKind::IoUring, None));
        assert!(open_io_uring(8).is_ok());
    });
}

#[test]
fn io_uring_forbidden_by_a_filter_falls_back() {
    let filter = Confined::default().forbid(libc::SYS_io_uring_setup, None, libc::EPERM);
    confined("io_uring_forbidden_by_a_filter_falls_back", filter, || {
        let (kind, refusal) = MethodKind::choose(8, MethodKind::Sync);
        assert_eq!(kind, MethodKind::Sync);
        let disabled =
            std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
        if disabled.trim() == "0" {
            assert_eq!(refusal.unwrap().cause, RefusalCause::Seccomp);
        }
        assert!(matches!(open_io_uring(8), Err(AioError::IoUring(r)) if Some(r) == refusal));
    });
}

/// Reads and writes through registered (or refused) memory and an often used file; returns the
/// result of the registration.
fn io_works(len: usize) -> (Registration, RegistrationStats) {
    let aio = open_io_uring(4).unwrap();
    let dir = tempfile::TempDir::new().unwrap();
    let file =
        aio.namespace().open(&dir.path().join("f"), &OpenOptions::READ_WRITE.create_new()).unwrap();
    let mut before = aio.backend(BackendType::Client).unwrap();
    let region = Region::new(len).unwrap();
    let outcome = aio.register_memory(&region);
    let mut after = aio.backend(BackendType::Client).unwrap();
    for backend in [&mut before, &mut after] {
        for n in 0..50 {
            common::fill(&region, 0, IO_ALIGN, n);
            let part = |at| IoMemory::new(region.clone(), at, IO_ALIGN);
            let w = backend.start(Io::write(file.clone(), 0, part(0), Target::File));
            assert_eq!(backend.wait(w).check().unwrap(), IO_ALIGN);
            let r = backend.start(Io::read(file.clone(), 0, part(IO_ALIGN), Target::File));
            assert_eq!(backend.wait(r).check().unwrap(), IO_ALIGN);
            let (from, to) =
                (common::bytes(&region, 0, IO_ALIGN), common::bytes(&region, IO_ALIGN, IO_ALIGN));
            assert!(from == to);
        }
    }
    let stats = aio.registration_stats();
    assert_eq!(stats.refused, 0);
    (outcome, stats)
}

#[test]
fn memory_beyond_the_limit_is_not_registered_and_does_not_matter() {
    const LIMIT: u64 = 8 << 20;
    let limits = Confined::default().locked_memory(LIMIT);
    confined("memory_beyond_the_limit_is_not_registered_and_does_not_matter", limits, || {
        if !has_io_uring() {
            return;
        }
        assert_eq!(Limits::now().locked_memory, Some(LIMIT));
        let (outcome, stats) = io_works(16 << 20);
        let refusal = RegistrationRefusal::LockedMemory { needed: 16 << 20, limit: LIMIT };
        assert_eq!(outcome, Registration::Refused(refusal));
        assert!(refusal.to_string().contains("16777216 bytes need to be locked"));
        assert!(refusal.to_string().contains("(RLIMIT_MEMLOCK) is 8388608 bytes"));
        assert_eq!((stats.memory, stats.with_memory), (0, 0));

        // A region that fits is registered. One that fits alone but not with the first is refused
        // by the kernel, in the same words.
        let aio = open_io_uring(4).unwrap();
        let (first, second) = (Region::new(5 << 20).unwrap(), Region::new(5 << 20).unwrap());
        assert_eq!(aio.register_memory(&first), Registration::Registered);
        let refusal = RegistrationRefusal::LockedMemory { needed: 5 << 20, limit: LIMIT };
        assert_eq!(aio.register_memory(&second), Registration::Refused(refusal));
        assert_eq!(aio.registration_stats().memory, 5 << 20);
        drop(first);
        assert_eq!(aio.registration_stats().memory, 0);
        assert_eq!(
            aio.register_memory(&second),
            Registration::Registered,
            "its room is free again"
        );
    });
}

#[test]
fn registration_forbidden_by_a_filter_does_not_matter() {
    let filter = Confined::default().forbid(libc::SYS_io_uring_register, None, libc::EPERM);
    confined("registration_forbidden_by_a_filter_does_not_matter", filter, || {
        if !has_io_uring() {
            return;
        }
        let (outcome, stats) = io_works(1 << 20);
        let cause = RegistrationRefusal::System(RefusalCause::Seccomp);
        assert_eq!(outcome, Registration::Refused(cause));
        assert_eq!(cause.to_string(), "a seccomp filter of this process forbids the system call");
        assert_eq!((stats.with_memory, stats.with_file), (0, 0));
        assert!(stats.operations >= 200);
    });
}

/// A kernel before 6.12.
#[test]
fn nothing_is_pinned_where_rings_cannot_share_it() {
    const CLONE_BUFFERS: u32 = 30;
    let filter =
        Confined::default().forbid(libc::SYS_io_uring_register, Some(CLONE_BUFFERS), libc::EINVAL);
    confined("nothing_is_pinned_where_rings_cannot_share_it", filter, || {
        if !has_io_uring() {
            return;
        }
        let (outcome, stats) = io_works(1 << 20);
        let cause = RegistrationRefusal::System(RefusalCause::NotInKernel);
        assert_eq!(outcome, Registration::Refused(cause));
        assert_eq!((stats.memory, stats.with_memory), (0, 0));
        assert!(stats.with_file > 0, "files need no cloning");
    });
}

/// The memory pinned by the kernel's count, in kB.
fn pinned() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmPin:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Not limited, but alone in its process, because the kernel counts by process.
#[test]
fn pages_are_pinned_once_and_let_go_with_their_region() {
    confined("pages_are_pinned_once_and_let_go_with_their_region", Confined::default(), || {
        if !has_io_uring() {
            return;
        }
        let aio = open_io_uring(8).unwrap();
        let mut backends: Vec<_> =
            (0..3).map(|_| aio.backend(BackendType::Client).unwrap()).collect();
        let region = Region::new(1 << 20).unwrap();
        if let Registration::Refused(refusal) = aio.register_memory(&region) {
            return println!("skipped: registered memory needs the kernel ({refusal})");
        }
        backends.extend((0..3).map(|_| aio.backend(BackendType::Client).unwrap()));
        assert_eq!(pinned(), 1024, "six rings, one count");
        drop(region);
        assert_eq!(pinned(), 0, "a ring still holds the pages");
    });
}
