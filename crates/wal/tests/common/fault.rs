//! An aio whose writes and syncs can be told to fail.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use forebay_aio::{
    Aio, AioConfig, Errno, OpKind, PosixNamespace,
    execute::{Executor, PosixExecutor, Request},
    handle::Word,
    method::Method,
    table::HandleTable,
};

/// What fails, and with what; counts all I/O of the kind.
#[derive(Default)]
pub struct Faults {
    write_errno: AtomicI32,
    sync_errno: AtomicI32,
    /// Writes that still succeed before `write_errno` applies.
    writes_left: AtomicU64,
    /// Only segments under construction are concerned.
    only_temporary: AtomicBool,
    /// A write that would fail panics instead.
    pub panics: AtomicBool,
    pub syncs: AtomicU64,
    pub writes: AtomicU64,
}

impl Faults {
    /// Writes to segments under construction fail, but for the first `after`.
    pub fn fail_fill(&self, after: u64, errno: i32) {
        self.only_temporary.store(true, Ordering::SeqCst);
        self.writes_left.store(after, Ordering::SeqCst);
        self.write_errno.store(errno, Ordering::SeqCst);
    }

    /// All writes fail, but for the first `after`.
    pub fn fail_writes(&self, after: u64, errno: i32) {
        self.only_temporary.store(false, Ordering::SeqCst);
        self.writes_left.store(after, Ordering::SeqCst);
        self.write_errno.store(errno, Ordering::SeqCst);
    }

    pub fn fail_syncs(&self, errno: i32) {
        self.sync_errno.store(errno, Ordering::SeqCst);
    }

    pub fn mend(&self) {
        self.write_errno.store(0, Ordering::SeqCst);
        self.sync_errno.store(0, Ordering::SeqCst);
    }

    fn write_fault(&self, path: &Path) -> Option<Errno> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        if self.only_temporary.load(Ordering::SeqCst) && !path.to_string_lossy().contains("xlogtemp") {
            return None;
        }
        let errno = self.write_errno.load(Ordering::SeqCst);
        let spare = self
            .writes_left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
            .is_ok();
        let fails = errno != 0 && !spare;
        assert!(!(fails && self.panics.load(Ordering::SeqCst)), "a panic on purpose");
        fails.then_some(Errno(errno))
    }

    fn sync_fault(&self) -> Option<Errno> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        let errno = self.sync_errno.load(Ordering::SeqCst);
        (errno != 0).then_some(Errno(errno))
    }
}

struct Faulty(Arc<Faults>);

impl Executor for Faulty {
    fn execute(&self, request: &Request<'_>) -> Result<usize, Errno> {
        let fault = match request.op() {
            OpKind::Writev => self.0.write_fault(request.file().path()),
            OpKind::Fsync | OpKind::Fdatasync => self.0.sync_fault(),
            _ => None,
        };
        match fault {
            Some(errno) => Err(errno),
            None => PosixExecutor.execute(request),
        }
    }
}

/// Executes in the issuer's thread, by way of the faulty executor.
pub struct Inline;

impl Method for Inline {
    fn name(&self) -> &'static str {
        "sync"
    }

    fn synchronous(&self) -> bool {
        true
    }

    fn submit(&self, table: &HandleTable, _slot: u32, staged: &[u32], _in_flight: usize) {
        for &index in staged {
            table.begin(index);
            table.execute(index);
        }
    }

    fn wait(&self, table: &HandleTable, index: u32, seen: Word) {
        table.wait_change(index, seen);
    }
}

/// An aio that fails as told.
pub fn faulty_aio() -> (Arc<Aio>, Arc<Faults>) {
    let faults = Arc::new(Faults::default());
    let executor = Arc::new(Faulty(Arc::clone(&faults)));
    let namespace = Arc::new(PosixNamespace);
    let aio = Aio::with_method(namespace, executor, AioConfig::default(), |_| Ok(Box::new(Inline)));
    (aio.expect("aio"), faults)
}
