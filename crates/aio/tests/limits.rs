//! What the process is not allowed: descriptors, locked memory, system calls. Each case runs in a child process that was really
//! given the limit; the child runs the same test by its name and takes the other branch.
#![cfg(target_os = "linux")]

use std::sync::Arc;

use forebay_aio::*;

mod common;
mod confined;
use common::config;
use confined::{Confined, confined};

fn open_io_uring(max_backends: usize) -> Result<Arc<Aio>, AioError> {
    let config = AioConfig { max_backends, ..config() };
    Aio::new(Arc::new(PosixNamespace::new()), MethodKind::IoUring, config)
}

#[test]
fn the_soft_limit_on_descriptors_is_raised() {
    confined("the_soft_limit_on_descriptors_is_raised", Confined::default().descriptors(64, 100), || {
        let raised = raise_descriptor_limit(90);
        assert_eq!((raised.descriptors, raised.descriptors_hard), (90, 100));
        assert_eq!(raise_descriptor_limit(80).descriptors, 90, "never lowered");
        assert_eq!(raise_descriptor_limit(1000).descriptors, 100, "as far as the hard limit");
        let files: Vec<_> = (0..80).map_while(|_| std::fs::File::open("/dev/null").ok()).collect();
        assert_eq!(files.len(), 80, "more than the limit at start allowed");
    });
}

#[test]
fn descriptors_are_counted_before_rings_are_set_up() {
    let limits = Confined::default().descriptors(64, 64);
    confined("descriptors_are_counted_before_rings_are_set_up", limits, || {
        if let Err(e) = probe_io_uring() {
            return eprintln!("skipped: {e}");
        }
        let in_use = descriptors_in_use().unwrap();
        let Err(AioError::IoUring(refusal)) = open_io_uring(64) else { panic!("64 rings of 64 descriptors") };
        assert_eq!(refusal.cause, RefusalCause::TooFewDescriptors { needed: 65, limit: 64, in_use });
        let text = refusal.to_string();
        assert!(text.contains("65 descriptors are needed") && text.contains("RLIMIT_NOFILE, 64"), "{text}");
        assert!(refusal.hint().contains("ulimit -n"));

        // Who names no method gets the other one, and the reason.
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
        let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
        if disabled.trim() == "0" {
            assert_eq!(refusal.unwrap().cause, RefusalCause::Seccomp);
        }
        assert!(matches!(open_io_uring(8), Err(AioError::IoUring(r)) if Some(r) == refusal));
    });
}
