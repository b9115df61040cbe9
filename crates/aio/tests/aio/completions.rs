//! Completions: several on one I/O, their shared and local halves, and what local halves may do.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use forebay_aio::*;
use proptest::prelude::*;
use smallvec::SmallVec;

use crate::common::{Case, Setup, cases, config, each_case, each_case_with, filled, read};

/// What ran, in order: name, and the outcome it saw.
type Log = Arc<Mutex<Vec<(String, Outcome)>>>;

fn shared(log: &Log, name: &str, leave: Outcome) -> Arc<dyn SharedCompletion> {
    let (log, name) = (Arc::clone(log), name.to_owned());
    Arc::new(move |io: &Completed<'_>| {
        log.lock().unwrap().push((name.clone(), io.outcome));
        leave
    })
}

fn local(
    log: &Log,
    name: &str,
    leave: Outcome,
) -> impl FnOnce(Option<&mut dyn Issuer>, &Completed<'_>) -> Outcome + Send + Sync + use<> {
    let (log, name) = (Arc::clone(log), name.to_owned());
    move |_, io| {
        log.lock().unwrap().push((name, io.outcome));
        leave
    }
}

fn names(log: &Log) -> Vec<String> {
    log.lock().unwrap().iter().map(|(name, _)| name.clone()).collect()
}

fn warn(detail: u64) -> Outcome {
    Outcome::new(Status::Warning, detail)
}

#[test]
fn the_last_registered_runs_first_and_each_sees_the_outcome_so_far() {
    each_case(|s| {
        let (file, region) = filled(s, 1);
        let log = Log::default();
        let mut backend = s.backend();
        let io = read(&file, &region, 0)
            .completion(shared(&log, "pool", warn(1)), SmallVec::from_slice(&[7]))
            .also(Completion::shared(shared(&log, "page", warn(2))).and_local(local(
                &log,
                "page, local",
                warn(12),
            )))
            .also(Completion::local(local(&log, "reader, local", warn(13))))
            .also(Completion::shared(shared(&log, "bytes", warn(4))).and_local(local(
                &log,
                "bytes, local",
                warn(14),
            )));
        let r = backend.start(io);
        let mut other = s.backend();
        other.wait(r);
        assert_eq!(names(&log), ["bytes", "page", "pool"], "another's wait runs the shared halves");
        assert!(backend.is_done(r));
        assert_eq!(names(&log).len(), 3, "asking runs nothing");
        let report = backend.wait(r).report().unwrap();
        assert_eq!(report.outcome, warn(12));
        let expected = [
            ("bytes", Outcome::OK),
            ("page", warn(4)),
            ("pool", warn(2)),
            ("bytes, local", warn(1)),
            ("reader, local", warn(14)),
            ("page, local", warn(13)),
        ];
        assert_eq!(
            *log.lock().unwrap(),
            expected.map(|(name, outcome)| (name.to_owned(), outcome))
        );
        assert!(matches!(backend.wait(r), IoResult::Finished));
        assert_eq!(log.lock().unwrap().len(), 6, "each half runs once");
    });
}

#[test]
fn a_local_half_can_fail_what_the_shared_ones_let_pass() {
    each_case(|s| {
        let (file, region) = filled(s, 1);
        let mut backend = s.backend();
        let r = backend.start(read(&file, &region, 0).also(Completion::local(|_, io| {
            assert_eq!((io.result, io.expected, io.op), (Ok(IO_ALIGN), IO_ALIGN, OpKind::Readv));
            Outcome::new(Status::Error, 9)
        })));
        let report = backend.wait(r).report().unwrap();
        assert!(matches!(report.check(), Err(AioError::Rejected { detail: 9, .. })));
    });
}

#[test]
fn a_panic_leaves_an_error_and_stops_no_other_half() {
    each_case(|s| {
        let (file, region) = filled(s, 1);
        let burst: Arc<dyn SharedCompletion> = Arc::new(|_: &Completed<'_>| panic!("on purpose"));
        let mut backend = s.backend();
        for in_shared in [true, false] {
            let log = Log::default();
            let mut io = read(&file, &region, 0)
                .completion(shared(&log, "first", Outcome::OK), SmallVec::new())
                .also(Completion::local(local(&log, "first, local", Outcome::OK)));
            io = match in_shared {
                true => io.also(Completion::shared(burst.clone())),
                false => io.also(Completion::local(|_, _| panic!("on purpose"))),
            };
            io = io.also(Completion::shared(shared(&log, "last", Outcome::OK)));
            let r = backend.start(io);
            let report = backend.wait(r).report().unwrap();
            assert_eq!(report.outcome, Outcome::PANICKED);
            assert!(report.check().is_err());
            assert_eq!(names(&log), ["last", "first", "first, local"]);
        }
        assert_eq!(backend.run(read(&file, &region, 0)).unwrap(), IO_ALIGN, "the backend lives on");
    });
}

#[test]
#[should_panic(expected = "an I/O has at most 4 completions")]
fn at_most_four() {
    let s = Setup::new(cases()[0], config());
    let (file, region) = filled(&s, 1);
    let log = Log::default();
    let mut io = read(&file, &region, 0);
    for _ in 0..5 {
        io = io.also(Completion::local(local(&log, "one", Outcome::OK)));
    }
}

/// Reads a file block by block, each read started by the end of the one before.
fn chain(
    file: &File,
    region: &Arc<Region>,
    n: usize,
    blocks: usize,
    done: &Arc<AtomicUsize>,
) -> Io {
    let (next_file, next_region, done) = (file.clone(), region.clone(), done.clone());
    read(file, region, n).flags(IoFlags { detached: true, ..IoFlags::default() }).also(
        Completion::local(move |backend, io| {
            assert_eq!(io.outcome, Outcome::OK);
            done.fetch_add(1, SeqCst);
            if let Some(backend) = backend
                && n + 1 < blocks
            {
                backend.start(chain(&next_file, &next_region, n + 1, blocks, &done));
            }
            io.outcome
        }),
    )
}

#[test]
fn the_end_of_one_starts_the_next() {
    for handles_per_backend in [1, 2, 16] {
        each_case_with(AioConfig { handles_per_backend, ..config() }, |s| {
            let (file, region) = filled(s, 40);
            let done = Arc::new(AtomicUsize::new(0));
            let mut backend = s.backend();
            // Together with other I/O of the same backend, which needs the same handles.
            backend.start(chain(&file, &region, 0, 40, &done));
            for n in 0..20 {
                let r = backend.start(read(&file, &region, n));
                assert_eq!(backend.wait(r).check().unwrap(), IO_ALIGN);
            }
            while backend.in_flight() > 0 {
                backend.settle();
                std::thread::yield_now();
            }
            assert_eq!(backend.drain(), Leftovers::default());
            assert_eq!(done.load(SeqCst), 40);
        });
    }
}

#[test]
fn nothing_new_begins_while_draining() {
    each_case(|s| {
        let (file, region) = filled(s, 40);
        let done = Arc::new(AtomicUsize::new(0));
        let mut backend = s.backend();
        for n in 0..4 {
            backend.start(chain(&file, &region, n, 40, &done));
        }
        assert_eq!(backend.drain(), Leftovers::default());
        let ended = done.load(SeqCst);
        assert!((4..40).contains(&ended), "{ended}");
        assert_eq!((backend.in_flight(), s.aio.snapshot().len()), (0, 0));
        // The same when the backend is dropped.
        backend.start(chain(&file, &region, 0, 40, &done));
        drop(backend);
        assert!((ended + 1..ended + 39).contains(&done.load(SeqCst)));
    });
}

#[test]
fn a_local_half_may_wait_for_another_io() {
    each_case(|s| {
        let (file, region) = filled(s, 3);
        let log = Log::default();
        let mut backend = s.backend();
        let inner = backend.start(read(&file, &region, 1).also(Completion::local(local(
            &log,
            "inner",
            warn(1),
        ))));
        let watch = log.clone();
        let (file2, region2) = (file.clone(), region.clone());
        let outer =
            backend.start(read(&file, &region, 0).also(Completion::local(move |backend, _| {
                let backend = backend.expect("not draining");
                let report = backend.wait(inner).report().unwrap();
                assert_eq!(report.outcome, warn(1));
                let third = backend.run(read(&file2, &region2, 2)).unwrap();
                watch.lock().unwrap().push(("outer".into(), report.outcome));
                warn(third as u64)
            })));
        assert_eq!(backend.wait(outer).report().unwrap().outcome, warn(IO_ALIGN as u64));
        assert_eq!(names(&log), ["inner", "outer"]);
        assert!(matches!(backend.wait(inner), IoResult::Finished));
    });
}

#[test]
fn a_handle_needed_again_does_not_lose_its_local_halves() {
    each_case_with(AioConfig { handles_per_backend: 2, ..config() }, |s| {
        let (file, region) = filled(s, 30);
        let log = Log::default();
        let mut backend = s.backend();
        let refs: Vec<_> = (0..30)
            .map(|n| {
                let half = local(&log, &n.to_string(), warn(n as u64));
                backend.start(read(&file, &region, n).also(Completion::local(half)))
            })
            .collect();
        backend.forget(refs[0]);
        for (n, r) in refs.into_iter().enumerate().skip(1) {
            assert_eq!(backend.wait(r).report().expect("a report, once").outcome, warn(n as u64));
        }
        assert_eq!(backend.drain(), Leftovers::default());
        let mut ran: Vec<usize> = names(&log).iter().map(|n| n.parse().unwrap()).collect();
        ran.sort_unstable();
        assert_eq!(ran, (0..30).collect::<Vec<_>>());
    });
}

/// The halves of one completion: shared, local.
type Pair = (Option<Leaves>, Option<Leaves>);

/// What a completion of the model leaves, if it does not panic.
#[derive(Clone, Copy, Debug)]
enum Leaves {
    Nothing,
    Outcome(u64),
    Panic,
}

fn leaves() -> impl Strategy<Value = Leaves> {
    prop_oneof![
        2 => Just(Leaves::Nothing),
        4 => (1u64..9).prop_map(Leaves::Outcome),
        1 => Just(Leaves::Panic),
    ]
}

fn model(seen: Outcome, leaves: Leaves) -> Outcome {
    match leaves {
        _ if seen == Outcome::PANICKED => seen,
        Leaves::Nothing => seen,
        Leaves::Outcome(n) => warn(n),
        Leaves::Panic => Outcome::PANICKED,
    }
}

fn act(seen: Outcome, leaves: Leaves) -> Outcome {
    match leaves {
        Leaves::Nothing => seen,
        Leaves::Outcome(n) => warn(n),
        Leaves::Panic => panic!("on purpose"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// For any four completions of two halves each, the outcome is the fold of what they leave:
    /// shared halves first, the last registered first.
    #[test]
    fn outcomes_fold(
        halves in prop::collection::vec(
            (prop::option::of(leaves()), prop::option::of(leaves())),
            0..=4,
        ),
    ) {
        let s = Setup::new(Case { method: MethodKind::Sync, direct: false }, config());
        let (file, region) = filled(&s, 1);
        let mut io = read(&file, &region, 0);
        for &(shared, local) in &halves {
            let mut completion = Completion::default();
            if let Some(leaves) = shared {
                let half = move |io: &Completed<'_>| act(io.outcome, leaves);
                completion = Completion::shared(Arc::new(half));
            }
            if let Some(leaves) = local {
                completion = completion.and_local(move |_, io| act(io.outcome, leaves));
            }
            io = io.also(completion);
        }
        let mut backend = s.backend();
        let r = backend.start(io);
        let in_order = |part: fn(&Pair) -> Option<Leaves>| -> Vec<_> {
            halves.iter().rev().filter_map(part).collect()
        };
        let all = in_order(|h| h.0).into_iter().chain(in_order(|h| h.1));
        let expected = all.fold(Outcome::OK, model);
        prop_assert_eq!(backend.wait(r).report().unwrap().outcome, expected);
    }
}
