//! I/O methods and modes: which there are, and which can be used here.

use forebay_aio::{MethodKind, WorkerLimits, probe_io_uring};

/// Most blocks in one I/O.
pub const MAX_COMBINE: u32 = 128;
/// Most I/Os in flight.
pub const MAX_DEPTH: u32 = 1024;

/// Every method there is, set up as the server does by default.
pub fn all_methods() -> Vec<MethodKind> {
    let worker = MethodKind::Worker(WorkerLimits::default());
    vec![MethodKind::Sync, worker, MethodKind::IoUring, MethodKind::PosixAio]
}

/// `io_uring`, or `worker` where the kernel refuses it.
pub(crate) fn best_method() -> MethodKind {
    match probe_io_uring() {
        Ok(()) => MethodKind::IoUring,
        Err(_) => MethodKind::Worker(WorkerLimits::default()),
    }
}

/// The modes that are wanted and possible: buffered, direct or both.
pub(crate) fn usable_modes(wanted: &[bool], can_direct: bool) -> Vec<bool> {
    wanted.iter().copied().filter(|direct| !direct || can_direct).collect()
}

/// A mode's name in tables.
pub(crate) fn mode(direct: bool) -> &'static str {
    if direct { "direct" } else { "buffered" }
}
