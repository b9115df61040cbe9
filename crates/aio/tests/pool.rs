//! The worker pool: it grows while I/O waits, shrinks when there is none, and replaces workers that
//! panicked.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use forebay_aio::fault::{Effect, FaultPlan, Ops, Rule};
use forebay_aio::*;
use smallvec::SmallVec;

mod common;
use common::{Case, Setup, config, until};

const PLENTY: usize = 40;

fn case(limits: WorkerLimits) -> Case {
    Case { method: MethodKind::Worker(limits), direct: false }
}

fn setup(limits: WorkerLimits) -> (Setup, File, Arc<Region>) {
    let s = Setup::new(case(limits), AioConfig { handles_per_backend: 100, ..config() });
    let file = s.create("data");
    s.aio.namespace().set_len(&file, (PLENTY * IO_ALIGN) as u64).unwrap();
    (s, file, Region::new(PLENTY * IO_ALIGN).unwrap())
}

fn read(file: &File, region: &Arc<Region>, n: usize) -> Io {
    // Two blocks apart, so that none is a neighbour of another.
    let memory = IoMemory::new(region.clone(), n * IO_ALIGN, IO_ALIGN);
    Io::read(file.clone(), (2 * n * IO_ALIGN) as u64, memory, Target::File)
}

/// Holds each worker that gets here until the gate is dropped.
struct Gate {
    entered: Mutex<mpsc::Sender<()>>,
    inside: AtomicUsize,
    shut: Mutex<bool>,
    opened: std::sync::Condvar,
}

impl Gate {
    fn new() -> (Arc<Gate>, mpsc::Receiver<()>) {
        let (entered, told) = mpsc::channel();
        let gate = Gate {
            entered: Mutex::new(entered),
            inside: AtomicUsize::new(0),
            shut: Mutex::new(true),
            opened: std::sync::Condvar::new(),
        };
        (Arc::new(gate), told)
    }

    fn open(&self) {
        *self.shut.lock().unwrap() = false;
        self.opened.notify_all();
    }
}

impl SharedCompletion for Gate {
    fn complete(&self, io: &Completed<'_>) -> Outcome {
        self.inside.fetch_add(1, SeqCst);
        self.entered.lock().unwrap().send(()).unwrap();
        let mut shut = self.shut.lock().unwrap();
        while *shut {
            shut = self.opened.wait(shut).unwrap();
        }
        io.transfer_outcome()
    }
}

fn running(s: &Setup) -> usize {
    s.aio.workers().unwrap().running
}

#[test]
fn it_grows_to_the_most_under_load_and_shrinks_to_the_least() {
    let limits = WorkerLimits {
        min: 2,
        max: 5,
        idle_timeout: Duration::ZERO,
        launch_interval: Duration::ZERO,
    };
    let (s, file, region) = setup(limits);
    for _ in 0..10 {
        until("the least", || running(&s) == 2);
        let (gate, entered) = Gate::new();
        let mut backend = s.backend();
        let start = |backend: &mut IoBackend, n| {
            backend.start(read(&file, &region, n).completion(gate.clone(), SmallVec::new()))
        };
        let refs: Vec<_> = (0..12).map(|n| start(&mut backend, n)).collect();
        (0..5).for_each(|_| entered.recv().unwrap());
        let counts = s.aio.workers().unwrap();
        assert_eq!(
            (counts.running, counts.resting, counts.queued),
            (5, 0, 7),
            "five at once, and no sixth"
        );
        assert_eq!(gate.inside.load(SeqCst), 5);
        gate.open();
        assert!(refs.into_iter().all(|r| backend.wait(r).check().is_ok()));
    }
    until("the least", || running(&s) == 2);
    let counts = s.aio.workers().unwrap();
    assert_eq!(counts.started, 2 + counts.retired);
    assert!(counts.retired >= 30 && counts.lost == 0, "{counts:?}");
}

#[test]
fn it_does_not_grow_within_the_interval_nor_shrink_within_the_timeout() {
    let long = Duration::from_secs(3600);
    let limits = WorkerLimits { min: 1, max: 9, idle_timeout: long, launch_interval: long };
    let (s, file, region) = setup(limits);
    let (gate, entered) = Gate::new();
    let mut backend = s.backend();
    let refs: Vec<_> = (0..20)
        .map(|n| backend.start(read(&file, &region, n).completion(gate.clone(), SmallVec::new())))
        .collect();
    (0..2).for_each(|_| entered.recv().unwrap());
    assert_eq!((running(&s), gate.inside.load(SeqCst)), (2, 2), "one more, an hour's ration");
    gate.open();
    assert!(refs.into_iter().all(|r| backend.wait(r).check().is_ok()));
    until("rest", || s.aio.workers().unwrap().resting == 2);
    // Lowering the maximum ends one all the same; nothing else does.
    s.aio.set_worker_limits(WorkerLimits { max: 1, ..limits }).unwrap();
    until("one left", || running(&s) == 1);
    assert_eq!(s.aio.workers().unwrap().retired, 1);
}

#[test]
fn numbers_are_reached_or_refused() {
    let (s, ..) = setup(WorkerLimits::default());
    assert_eq!(running(&s), 2);
    for n in [1, 32, 7, 30, 2] {
        s.aio.set_worker_limits(WorkerLimits::fixed(n)).unwrap();
        until("the number", || running(&s) == n);
    }
    let refused = |limits| s.aio.set_worker_limits(limits).unwrap_err().to_string();
    let default = WorkerLimits::default();
    for bad in [0, 33] {
        assert_eq!(
            refused(WorkerLimits::fixed(bad)),
            format!("{bad} is outside the valid range for io_workers (1 .. 32)")
        );
        let text = format!("{bad} is outside the valid range for io_min_workers (1 .. 32)");
        assert_eq!(refused(WorkerLimits { min: bad, ..default }), text);
        let text = format!("{bad} is outside the valid range for io_max_workers (1 .. 32)");
        assert_eq!(refused(WorkerLimits { max: bad, ..default }), text);
        let made = Aio::new(
            Arc::new(PosixNamespace::new()),
            MethodKind::Worker(WorkerLimits::fixed(bad)),
            AioConfig::default(),
        );
        assert!(matches!(made, Err(AioError::Config(_))));
    }
    assert_eq!(running(&s), 2, "what is refused changes nothing");
}

#[test]
fn a_worker_that_dies_comes_back() {
    let plan = FaultPlan::new();
    let s = Setup::faulty(case(WorkerLimits::fixed(2)), config(), &plan);
    let file = s.create("data");
    s.aio.namespace().set_len(&file, IO_ALIGN as u64).unwrap();
    let region = Region::new(IO_ALIGN).unwrap();
    let mut backend = s.backend();
    let mut deaths = 0;
    for _ in 0..20 {
        until("rest", || s.aio.workers().unwrap().resting == 2);
        plan.add(Rule::on(Ops::READ).times(1), Effect::Panic);
        // No thread waits before a worker has it, so that a worker panics of it.
        let r = backend.start(read(&file, &region, 0));
        until("an end", || s.aio.is_done(r));
        assert_eq!(backend.wait(r).report().unwrap().errno(), Some(Errno::IO));
        deaths += 1;
        let counts = s.aio.workers().unwrap();
        assert_eq!((counts.running, counts.lost), (2, deaths), "{counts:?}");
        assert_eq!(counts.started, 2 + deaths);
        let r = backend.start(read(&file, &region, 0));
        until("the successors' work", || s.aio.is_done(r));
        assert_eq!(backend.wait(r).check().unwrap(), IO_ALIGN);
    }
}

/// The maximum number of workers panics at once, with work queued behind them: the work is done.
#[test]
fn all_die_and_the_queue_is_served() {
    let plan = FaultPlan::new();
    let s = Setup::faulty(case(WorkerLimits::fixed(3)), config(), &plan);
    let file = s.create("data");
    s.aio.namespace().set_len(&file, (PLENTY * IO_ALIGN) as u64).unwrap();
    let region = Region::new(PLENTY * IO_ALIGN).unwrap();
    let mut backend = s.backend();
    plan.add(Rule::on(Ops::READ).times(6), Effect::Panic);
    let refs: Vec<_> = (0..16).map(|n| backend.start(read(&file, &region, n))).collect();
    until("all", || refs.iter().all(|&r| s.aio.is_done(r)));
    let failed = refs.into_iter().filter(|&r| backend.wait(r).check().is_err()).count();
    assert_eq!(failed, 6);
    let counts = s.aio.workers().unwrap();
    assert_eq!((counts.running, counts.lost, counts.started), (3, 6, 9));
}
