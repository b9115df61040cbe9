//! I/O methods and modes: which there are, and which can be used here.

use std::path::Path;

use forebay_aio::{MethodKind, Namespace, PosixNamespace, WorkerLimits, probe_io_uring};
use serde::Serializer;

/// Most blocks in one I/O.
pub const MAX_COMBINE: u32 = 128;
/// Most I/Os in flight.
pub const MAX_DEPTH: u32 = 1024;

/// Every method there is, set up as the server does by default.
pub fn all_methods() -> Vec<MethodKind> {
    let worker = MethodKind::Worker(WorkerLimits::default());
    vec![MethodKind::Sync, worker, MethodKind::IoUring, MethodKind::PosixAio]
}

/// Writes a method as its name.
pub(crate) fn method_name<S: Serializer>(method: &MethodKind, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(method.name())
}

/// `io_uring`, or `worker` where the kernel refuses it.
pub(crate) fn best_method() -> MethodKind {
    match probe_io_uring() {
        Ok(()) => MethodKind::IoUring,
        Err(_) => MethodKind::Worker(WorkerLimits::default()),
    }
}

/// The modes that are wanted and possible in a directory: buffered, direct or both. A note tells
/// why there is no direct I/O, if it is wanted.
pub(crate) fn usable_modes(wanted: &[bool], dir: &Path, notes: &mut Vec<String>) -> Vec<bool> {
    let refusal = PosixNamespace::new().probe_direct(dir).err();
    let can_direct = refusal.is_none();
    let refusal = refusal.filter(|_| wanted.contains(&true));
    notes.extend(refusal.map(|why| format!("No direct I/O: {why}.")));
    wanted.iter().copied().filter(|direct| !direct || can_direct).collect()
}

/// A mode's name in tables.
pub(crate) fn mode(direct: bool) -> &'static str {
    if direct { "direct" } else { "buffered" }
}
