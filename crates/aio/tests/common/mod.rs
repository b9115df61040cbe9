//! What the suites share: every method, buffered and direct.
#![allow(dead_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use forebay_aio::fault::FaultPlan;
use forebay_aio::*;
use forebay_testkit::io::ways;
use tempfile::TempDir;

/// One method on one kind of file.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub method: MethodKind,
    pub direct: bool,
}

/// A directory, and an `Aio` for it.
pub struct Setup {
    pub case: Case,
    pub aio: Arc<Aio>,
    pub dir: TempDir,
}

pub fn cases() -> Vec<Case> {
    ways().into_iter().map(|(method, direct)| Case { method, direct }).collect()
}

pub fn config() -> AioConfig {
    AioConfig { max_backends: 8, handles_per_backend: 16, ..AioConfig::default() }
}

impl Setup {
    pub fn new(case: Case, config: AioConfig) -> Setup {
        let aio = Aio::new(Arc::new(PosixNamespace::new()), case.method, config).unwrap();
        Setup { case, aio, dir: TempDir::new().unwrap() }
    }

    /// An `Aio` under a plan of faults.
    pub fn faulty(case: Case, config: AioConfig, plan: &Arc<FaultPlan>) -> Setup {
        let aio = plan.open(Arc::new(PosixNamespace::new()), case.method, config).unwrap();
        Setup { case, aio, dir: TempDir::new().unwrap() }
    }

    pub fn backend(&self) -> IoBackend {
        self.aio.backend(BackendType::Client).unwrap()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A new file of the case's kind.
    pub fn create(&self, name: &str) -> File {
        let options = OpenOptions::READ_WRITE.create_new().direct(self.case.direct);
        self.aio.namespace().open(&self.path(name), &options).unwrap()
    }

    pub fn open(&self, name: &str, options: OpenOptions) -> File {
        self.aio.namespace().open(&self.path(name), &options.direct(self.case.direct)).unwrap()
    }
}

/// Runs `test` once for each case, and says which case failed.
pub fn each_case(test: impl Fn(&Setup)) {
    each_case_with(config(), test);
}

pub fn each_case_with(config: AioConfig, test: impl Fn(&Setup)) {
    for case in cases() {
        let setup = Setup::new(case, config);
        naming(case, || test(&setup));
    }
}

/// Runs `test` once for each case, each time under a new plan of faults.
pub fn each_faulty_case(test: impl Fn(&Setup, &Arc<FaultPlan>)) {
    for case in cases() {
        let plan = FaultPlan::new();
        let setup = Setup::faulty(case, config(), &plan);
        naming(case, || test(&setup, &plan));
    }
}

/// A failure says which case failed.
pub fn naming(case: Case, test: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(test)) {
        eprintln!("failed under {case:?}");
        std::panic::resume_unwind(panic);
    }
}

/// Waits until `reached` returns true, for states that nothing announces. Panics after a minute.
pub fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let since = std::time::Instant::now();
    while !reached() {
        assert!(since.elapsed().as_secs() < 60, "never came: {what}");
        std::thread::yield_now();
    }
}

/// A byte that depends on its place and the seed.
pub fn pattern(n: usize, seed: u8) -> u8 {
    (n as u8).wrapping_mul(31).wrapping_add((n >> 8) as u8).wrapping_add((n >> 12) as u8 ^ seed)
}

pub fn fill(region: &Region, offset: usize, len: usize, seed: u8) {
    assert!(offset + len <= region.len());
    for n in 0..len {
        // SAFETY: inside the region; no I/O is in flight on it.
        unsafe { region.ptr(offset + n).write(pattern(n, seed)) };
    }
}

pub fn bytes(region: &Region, offset: usize, len: usize) -> Vec<u8> {
    assert!(offset + len <= region.len());
    // SAFETY: inside the region; no I/O is in flight on it.
    unsafe { std::slice::from_raw_parts(region.ptr(offset), len) }.to_vec()
}

/// A file of this many blocks, and memory of the same size.
pub fn filled(s: &Setup, blocks: usize) -> (File, Arc<Region>) {
    let region = Region::new(blocks * IO_ALIGN).unwrap();
    fill(&region, 0, blocks * IO_ALIGN, 3);
    let file = s.create("filled");
    let all = IoMemory::new(region.clone(), 0, blocks * IO_ALIGN);
    s.backend().run(Io::write(file.clone(), 0, all, Target::File)).unwrap();
    (file, region)
}

/// A read of block `n` of the file into block `n` of the memory.
pub fn read(file: &File, region: &Arc<Region>, n: usize) -> Io {
    let memory = IoMemory::new(region.clone(), n * IO_ALIGN, IO_ALIGN);
    Io::read(file.clone(), (n * IO_ALIGN) as u64, memory, Target::File)
}
