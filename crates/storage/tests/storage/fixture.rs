//! The tests' fixture: a directory, an I/O layer of some kind, and a pool; stamped pages; and an
//! I/O method that keeps I/O in flight until a gate opens.

use forebay_aio::execute::Executor;
use forebay_aio::fault::FaultPlan;
use forebay_aio::handle::Word;
use forebay_aio::method::Method;
use forebay_aio::sync::{Condvar, Duration, Mutex};
use forebay_aio::table::HandleTable;
use forebay_aio::{
    Aio, AioConfig, BackendType, HugePages, IoContext, IoMemory, IoObject, IoOp, MethodKind,
    PosixNamespace,
};
use forebay_format::{
    BlockNumber, Fork, Lsn, Page, PageBytes, PageMut, PageTag, RelFileLocator, checksum,
};
use forebay_storage::{
    Backend, BlockSource, BufferPool, PageTrace, Pinned, PoolConfig, ReadStream, Smgr, SmgrConfig,
    StorageError, Strategy, StreamFlags, StreamSettings,
};
use forebay_testkit::io::each_way;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// The relation most tests use.
pub const REL: RelFileLocator = RelFileLocator::in_default(5, 16_384);

/// The tag of a block of [`REL`].
pub fn tag(block: BlockNumber) -> PageTag {
    PageTag::new(REL, Fork::Main, block)
}

/// The functions that a test's own namespace leaves to the system.
macro_rules! as_the_system_does {
    ($($name:ident($($arg:ident: $type:ty),*) -> $ret:ty;)*) => {
        $(fn $name(&self, $($arg: $type),*) -> $ret {
            forebay_aio::PosixNamespace.$name($($arg),*)
        })*
    };
}
pub(crate) use as_the_system_does;

/// How a fixture is made.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub method: MethodKind,
    pub direct: bool,
    pub buffers: usize,
    pub segment_blocks: u32,
    pub combine: u32,
    /// Whether written pages are read back.
    pub verify: bool,
}

impl Spec {
    pub const fn plain() -> Spec {
        Spec {
            method: MethodKind::Sync,
            direct: false,
            buffers: 128,
            segment_blocks: 131_072,
            combine: 16,
            verify: false,
        }
    }
}

/// Runs a test over every method, buffered and direct.
pub fn each(base: Spec, test: impl Fn(&Fixture)) {
    each_spec(base, |spec| test(&Fixture::new(spec)));
}

/// The same, over a disk with a new plan of faults each time.
pub fn each_faulty(base: Spec, test: impl Fn(&Fixture, &Arc<FaultPlan>)) {
    each_spec(base, |spec| {
        let plan = FaultPlan::new();
        test(&Fixture::faulty(spec, &plan), &plan);
    });
}

/// The same for a test that makes its fixtures itself.
pub fn each_spec(base: Spec, test: impl Fn(Spec)) {
    each_way(|method, direct| test(Spec { method, direct, ..base }));
}

pub struct Fixture {
    pub dir: TempDir,
    pub spec: Spec,
    pub aio: Arc<Aio>,
    pub smgr: Arc<Smgr>,
    pub pool: Arc<BufferPool>,
}

pub fn config() -> AioConfig {
    AioConfig { max_backends: 12, handles_per_backend: 32, ..AioConfig::default() }
}

impl Fixture {
    pub fn new(spec: Spec) -> Fixture {
        let aio = Aio::new(Arc::new(PosixNamespace), spec.method, config()).unwrap();
        Fixture::on(spec, aio)
    }

    /// Executes I/O in the calling thread, through the given executor.
    pub fn with_executor(spec: Spec, executor: Arc<dyn Executor>) -> Fixture {
        let aio = Aio::with_method(Arc::new(PosixNamespace), executor, config(), |_| {
            Ok(Box::new(Inline))
        });
        Fixture::on(spec, aio.unwrap())
    }

    /// Uses a disk that fails as the plan says.
    pub fn faulty(spec: Spec, plan: &Arc<FaultPlan>) -> Fixture {
        Fixture::on(spec, plan.open(Arc::new(PosixNamespace), spec.method, config()).unwrap())
    }

    /// Keeps I/O in flight while the gate is shut.
    pub fn gated(spec: Spec, executor: Arc<dyn Executor>) -> (Fixture, Arc<Gate>) {
        let gate = Arc::new(Gate::default());
        let method = GateMethod(Arc::clone(&gate));
        let aio = Aio::with_method(Arc::new(PosixNamespace), executor, config(), |table| {
            *gate.table.lock() = Some(table);
            Ok(Box::new(method))
        });
        (Fixture::on(spec, aio.unwrap()), gate)
    }

    /// Uses an I/O layer of the test's.
    pub fn on(spec: Spec, aio: Arc<Aio>) -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("base/5")).unwrap();
        let smgr = smgr(&aio, dir.path(), spec);
        let pool = pool(&aio, &smgr, spec);
        Fixture { dir, spec, aio, smgr, pool }
    }

    /// The same directory and I/O layer with nothing in memory.
    pub fn cold(&self) -> (Arc<Smgr>, Arc<BufferPool>) {
        let smgr = smgr(&self.aio, self.dir(), self.spec);
        let pool = pool(&self.aio, &smgr, self.spec);
        (smgr, pool)
    }

    /// The same directory and I/O layer with nothing in memory, and a trace into `sink`.
    pub fn traced(&self, sink: Box<dyn std::io::Write + Send>) -> Arc<BufferPool> {
        let trace = Some(Arc::new(PageTrace::new(sink)));
        let config = PoolConfig { trace, ..pool_config(self.spec) };
        let smgr = smgr(&self.aio, self.dir(), self.spec);
        BufferPool::new(config, Arc::clone(&self.aio), smgr).unwrap()
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn backend(&self) -> Backend {
        Backend::new(self.aio.backend(BackendType::Client).unwrap())
    }

    pub fn path(&self, segment: u32) -> PathBuf {
        self.dir().join(REL.segment_path(Fork::Main, segment))
    }

    /// Creates [`REL`] with `n` stamped pages of version 0, all in the files.
    pub fn fill(&self, backend: &mut Backend, n: u32) {
        self.smgr.create(REL, Fork::Main, false).unwrap();
        let mut made = 0;
        while made < n {
            for pin in self
                .pool
                .extend(backend, REL, Fork::Main, (n - made).min(16), Strategy::Normal)
                .unwrap()
            {
                change(&pin, |page| stamp(page, made, 0));
                made += 1;
            }
        }
        self.pool.write_dirty(backend, forebay_storage::WriteScope::All).unwrap();
    }

    /// As [`Self::fill`]; returns a pool with none of the pages in memory.
    pub fn fill_cold(&self, backend: &mut Backend, n: u32) -> Arc<BufferPool> {
        self.fill(backend, n);
        self.cold().1
    }

    pub fn count(&self, op: IoOp) -> u64 {
        let rows = self.aio.stats().snapshot();
        rows.iter().filter(|r| r.object == IoObject::Relation).map(|r| r.get(op).count).sum()
    }

    pub fn count_in(&self, context: IoContext, op: IoOp) -> u64 {
        let rows = self.aio.stats().snapshot();
        rows.iter()
            .filter(|r| r.object == IoObject::Relation && r.context == context)
            .map(|r| r.get(op).count)
            .sum()
    }

    /// Reads a block directly from its file, and checks its checksum.
    pub fn on_disk(&self, block: BlockNumber) -> PageBytes {
        use std::os::unix::fs::FileExt;
        let per_segment = self.spec.segment_blocks;
        let file = std::fs::File::open(self.path(block / per_segment)).unwrap();
        let mut page = [0; 8192];
        file.read_exact_at(&mut page, u64::from(block % per_segment) * 8192).unwrap();
        checksum::verify_page(&page, block).unwrap();
        page
    }

    /// Overwrites bytes of a block in its file.
    pub fn damage(&self, block: BlockNumber, at: u64, bytes: &[u8]) {
        use std::os::unix::fs::FileExt;
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(self.path(block / self.spec.segment_blocks))
            .unwrap();
        let offset = u64::from(block % self.spec.segment_blocks) * 8192 + at;
        file.write_all_at(bytes, offset).unwrap();
        file.sync_all().unwrap();
    }
}

fn smgr(aio: &Arc<Aio>, dir: &Path, spec: Spec) -> Arc<Smgr> {
    let config = SmgrConfig {
        direct: spec.direct,
        segment_blocks: spec.segment_blocks,
        verify_writes: spec.verify,
        ..SmgrConfig::default()
    };
    Smgr::new(Arc::clone(aio), dir, config)
}

fn pool(aio: &Arc<Aio>, smgr: &Arc<Smgr>, spec: Spec) -> Arc<BufferPool> {
    BufferPool::new(pool_config(spec), Arc::clone(aio), Arc::clone(smgr)).unwrap()
}

fn pool_config(spec: Spec) -> PoolConfig {
    PoolConfig {
        buffers: spec.buffers,
        combine_limit: spec.combine,
        huge_pages: HugePages::Off,
        ..PoolConfig::default()
    }
}

/// A stream over blocks of [`REL`] that looks ahead in full from the start: `reads` reads at once,
/// of `combine` blocks each.
pub fn full_stream<S: BlockSource>(
    pool: &Arc<BufferPool>,
    source: S,
    strategy: Strategy,
    reads: u32,
    combine: u32,
) -> ReadStream<S> {
    let settings = StreamSettings::new(reads, combine);
    ReadStream::new(pool, REL, Fork::Main, source, StreamFlags::FULL, strategy, settings)
}

/// Reads blocks of [`REL`] past the pool.
pub fn read_blocks(
    smgr: &Smgr,
    io: &mut forebay_aio::IoBackend,
    first: BlockNumber,
    memory: &IoMemory,
) -> Result<(), StorageError> {
    let transfer = smgr.start_read(io, REL, Fork::Main, first, memory)?;
    smgr.finish(io, transfer)
}

/// Changes a page under its exclusive lock.
pub fn change(pin: &Pinned, by: impl FnOnce(&mut PageBytes)) {
    let mut page = pin.lock_exclusive();
    by(&mut page);
    page.mark_dirty();
}

const NEAR: usize = 64;
const FAR: usize = 8192 - 16;

/// Writes the page's block and version in two places on it.
pub fn stamp(page: &mut PageBytes, block: BlockNumber, version: u64) {
    if Page::new(page).is_new() {
        PageMut(page).init(0);
    }
    for at in [NEAR, FAR] {
        page[at..at + 4].copy_from_slice(&block.to_le_bytes());
        page[at + 4..at + 12].copy_from_slice(&version.to_le_bytes());
    }
}

/// Returns the version of a stamped page. Asserts that it is not torn and belongs to this block.
pub fn version(page: &PageBytes, block: BlockNumber) -> u64 {
    let [near, far] = [NEAR, FAR].map(|at| &page[at..at + 12]);
    assert_eq!(near, far, "block {block} is torn");
    assert_eq!(near[..4], block.to_le_bytes(), "another block's page");
    u64::from_le_bytes(near[4..].try_into().unwrap())
}

pub fn set_lsn(page: &mut PageBytes, lsn: u64) {
    PageMut(page).set_lsn(Lsn(lsn));
}

/// Executes I/O at once, in the thread that submits it.
pub struct Inline;

impl Method for Inline {
    fn name(&self) -> &'static str {
        "inline"
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

/// Holds I/O back while shut. It is open at first.
#[derive(Default)]
pub struct Gate {
    table: Mutex<Option<Arc<HandleTable>>>,
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    shut: bool,
    held: Vec<u32>,
    waiters: usize,
}

impl Gate {
    pub fn shut(&self) {
        self.state.lock().shut = true;
    }

    /// Opens the gate, and executes the held I/O in this thread.
    pub fn open(&self) {
        let table = self.table.lock().clone().unwrap();
        let held = {
            let mut state = self.state.lock();
            state.shut = false;
            self.changed.notify_all();
            std::mem::take(&mut state.held)
        };
        for index in held {
            table.execute(index);
        }
    }

    /// Opens the gate when the value is dropped, so that a failed assertion leaves no thread
    /// waiting.
    pub fn open_at_end(self: &Arc<Self>) -> OpenAtEnd {
        OpenAtEnd(Arc::clone(self))
    }

    /// Returns once `n` threads wait for I/O.
    pub fn await_waiters(&self, n: usize) {
        self.await_state(|state| state.waiters >= n);
    }

    /// Returns once `n` I/Os are held.
    pub fn await_held(&self, n: usize) {
        self.await_state(|state| state.held.len() >= n);
    }

    fn await_state(&self, reached: impl Fn(&GateState) -> bool) {
        let mut state = self.state.lock();
        while !reached(&state) {
            let timeout = self.changed.wait_for(&mut state, Duration::from_secs(60));
            assert!(!timeout.timed_out(), "the gate did not reach the expected state");
        }
    }

    pub fn held(&self) -> usize {
        self.state.lock().held.len()
    }
}

/// See [`Gate::open_at_end`].
pub struct OpenAtEnd(Arc<Gate>);

impl Drop for OpenAtEnd {
    fn drop(&mut self) {
        self.0.open();
    }
}

struct GateMethod(Arc<Gate>);

impl Method for GateMethod {
    fn name(&self) -> &'static str {
        "gated"
    }

    fn submit(&self, table: &HandleTable, _slot: u32, staged: &[u32], _in_flight: usize) {
        for &index in staged {
            table.begin(index);
            let mut state = self.0.state.lock();
            if state.shut {
                state.held.push(index);
                self.0.changed.notify_all();
            } else {
                drop(state);
                table.execute(index);
            }
        }
    }

    fn wait(&self, table: &HandleTable, index: u32, seen: Word) {
        {
            let mut state = self.0.state.lock();
            state.waiters += 1;
            self.0.changed.notify_all();
        }
        table.wait_change(index, seen);
        self.0.state.lock().waiters -= 1;
    }
}
