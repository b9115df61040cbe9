//! The ways to do I/O on this machine (feature `aio`): methods, buffered and direct.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::{Arc, Once};

use forebay_aio::fault::FaultPlan;
use forebay_aio::{
    Aio, AioConfig, DirectRefusal, IoUringRefusal, MethodKind, PosixNamespace, WorkerLimits,
    probe_direct, probe_io_uring,
};

/// Sizes for small tests: less memory than the defaults take.
pub fn sizes() -> AioConfig {
    AioConfig { max_backends: 40, handles_per_backend: 16, ..AioConfig::default() }
}

/// An I/O layer over the system's files.
pub fn open(method: MethodKind) -> Arc<Aio> {
    Aio::new(Arc::new(PosixNamespace), method, sizes()).expect("an I/O layer")
}

/// An I/O layer over files that fail as a plan says.
pub fn open_faulty(plan: &Arc<FaultPlan>, method: MethodKind) -> Arc<Aio> {
    plan.open(Arc::new(PosixNamespace), method, sizes()).expect("an I/O layer")
}

/// Whether there is io_uring. If not, says once that it was skipped.
pub fn has_io_uring() -> bool {
    static SAID: Once = Once::new();
    let say = |why: &IoUringRefusal| {
        SAID.call_once(|| println!("skipped: io_uring needs a kernel that allows it ({why})"));
    };
    probe_io_uring().inspect_err(say).is_ok()
}

/// Whether files in a directory can be opened for direct I/O. If not, says once that it was
/// skipped.
pub fn has_direct(dir: &Path) -> bool {
    static SAID: Once = Once::new();
    let say = |why: &DirectRefusal| {
        SAID.call_once(|| println!("skipped: direct I/O needs a file system that has it ({why})"));
    };
    probe_direct(dir).inspect_err(say).is_ok()
}

/// All methods that this machine has.
pub fn methods() -> Vec<MethodKind> {
    let mut methods = vec![
        MethodKind::Sync,
        MethodKind::Worker(WorkerLimits::fixed(2)),
        MethodKind::PosixAio,
        MethodKind::Deferred { seed: 1 },
    ];
    if has_io_uring() {
        methods.push(MethodKind::IoUring);
    }
    methods
}

/// Buffered, and direct if the directory's file system has it.
pub fn direct_choices(dir: &Path) -> Vec<bool> {
    if has_direct(dir) { vec![false, true] } else { vec![false] }
}

/// All methods, buffered and direct, for files in the directory of temporary files.
pub fn ways() -> Vec<(MethodKind, bool)> {
    let direct = direct_choices(&std::env::temp_dir());
    methods().into_iter().flat_map(|method| direct.iter().map(move |d| (method, *d))).collect()
}

/// Runs a test in all [`ways`]. A failure says in which one.
pub fn each_way(test: impl Fn(MethodKind, bool)) {
    for (method, direct) in ways() {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(method, direct))) {
            eprintln!("failed with {method:?}, {}", if direct { "direct" } else { "buffered" });
            resume_unwind(panic);
        }
    }
}
