//! Handles acquired, released and leaked; open batches; the ends of statements and transactions.

use forebay_aio::*;
use proptest::prelude::*;

use crate::common::{Case, Setup, config, each_case, each_case_with, filled, read};

fn warnings(leftovers: Leftovers) -> Vec<&'static str> {
    leftovers.warnings().collect()
}

const SECOND: &str = "API violation: Only one IO can be handed out";

#[test]
fn an_acquired_handle_is_started_or_released() {
    each_case(|s| {
        let (file, region) = filled(s, 2);
        let mut backend = s.backend();
        let handle = backend.acquire().unwrap();
        let r = handle.wait_ref();
        let shown = s.aio.snapshot();
        assert_eq!(shown.len(), 1);
        assert_eq!((shown[0].state, shown[0].operation), (HandleState::HandedOut, OpKind::Invalid));
        assert_eq!((shown[0].io_id, shown[0].generation), (r.index, r.generation));
        assert!(!backend.is_done(r));
        assert_eq!(backend.start_acquired(handle, read(&file, &region, 0)).unwrap(), r);
        assert_eq!(backend.wait(r).check().unwrap(), IO_ALIGN);

        let handle = backend.acquire().unwrap();
        let r = handle.wait_ref();
        backend.release(handle).unwrap();
        assert!(s.aio.snapshot().is_empty());
        assert!(backend.is_done(r), "what was released counts as finished");
        assert!(matches!(s.backend().wait(r), IoResult::Finished));
        assert!(matches!(backend.wait(r), IoResult::Finished));
        assert_eq!(backend.idle_handles(), s.aio.handles_per_backend());
        assert_eq!(warnings(backend.end_of_statement()), [""; 0]);
        assert_eq!(backend.end_of_transaction(), Leftovers::default());
    });
}

#[test]
fn a_second_one_is_an_error() {
    each_case(|s| {
        let (file, region) = filled(s, 2);
        let mut backend = s.backend();
        let first = backend.acquire().unwrap();
        assert_eq!(backend.acquire().unwrap_err().to_string(), SECOND);
        assert_eq!(backend.try_acquire().unwrap_err().to_string(), SECOND);
        // Other I/O takes other handles.
        assert_eq!(backend.run(read(&file, &region, 1)).unwrap(), IO_ALIGN);
        let r = backend.start_acquired(first, read(&file, &region, 0)).unwrap();
        let second = backend.acquire().unwrap();
        backend.release(second).unwrap();
        assert_eq!(backend.wait(r).check().unwrap(), IO_ALIGN);
    });
}

#[test]
fn who_only_waits_leaves_the_report() {
    each_case(|s| {
        let (file, region) = filled(s, 2);
        let mut backend = s.backend();
        let refs = [0, 1].map(|n| backend.start(read(&file, &region, n)));
        backend.forget(refs[1]);
        for r in refs {
            backend.wait_and_keep(r);
            assert!(backend.is_done(r));
            backend.wait_and_keep(r);
            s.backend().wait_and_keep(r);
        }
        assert_eq!(backend.wait(refs[0]).check().unwrap(), IO_ALIGN);
        assert!(matches!(backend.wait(refs[1]), IoResult::Finished), "nobody wanted it");
        assert_eq!(backend.idle_handles(), s.aio.handles_per_backend());
    });
}

#[test]
fn acquiring_waits_for_the_oldest_and_trying_does_not() {
    each_case_with(AioConfig { handles_per_backend: 2, ..config() }, |s| {
        let (file, region) = filled(s, 8);
        let mut backend = s.backend();
        backend.begin_batch();
        let refs = [0, 1].map(|n| backend.start(read(&file, &region, n)));
        let handle = backend.acquire().unwrap();
        assert_eq!(backend.staged(), 0, "what is staged goes out rather than being waited for");
        backend.end_batch();
        let third = backend.start_acquired(handle, read(&file, &region, 2)).unwrap();
        for r in refs.into_iter().chain([third]) {
            assert_eq!(backend.wait(r).report().expect("a report, once").transferred, IO_ALIGN);
        }
        // A read of an empty pipe does not end by itself.
        let (from, to) = rustix_pipe();
        if s.case.method != MethodKind::Sync {
            let pending = [0, 1].map(|n| {
                let memory = IoMemory::new(region.clone(), n * IO_ALIGN, IO_ALIGN);
                backend.start(Io::read(from.clone(), 0, memory, Target::File))
            });
            let tried = backend.try_acquire();
            drop(to);
            // If positioned reads of pipes are refused, the refusal may have arrived by now.
            if let Some(handle) = tried.unwrap() {
                assert!(pending.iter().any(|&r| s.aio.is_done(r)));
                backend.release(handle).unwrap();
            }
            pending.into_iter().for_each(|r| drop(backend.wait(r)));
        }
        let handle = backend.try_acquire().unwrap().expect("all handles are idle");
        backend.release(handle).unwrap();
    });
}

/// A file that reads from a pipe, and the pipe's other end, which keeps it open.
fn rustix_pipe() -> (File, std::io::PipeWriter) {
    let (from, to) = std::io::pipe().unwrap();
    (File::from_fd("pipe".into(), FileFlags::default(), from.into()), to)
}

#[test]
fn a_leaked_handle_is_given_back_and_warned_of() {
    each_case(|s| {
        let (file, region) = filled(s, 1);
        let mut backend = s.backend();
        let ends: [fn(&mut IoBackend) -> Leftovers; 3] =
            [IoBackend::end_of_statement, IoBackend::end_of_transaction, IoBackend::drain];
        for end in ends {
            drop(backend.acquire().unwrap());
            assert_eq!(
                backend.acquire().unwrap_err().to_string(),
                SECOND,
                "dropped, it is still taken"
            );
            assert_eq!(s.aio.snapshot().len(), 1);
            assert_eq!(warnings(end(&mut backend)), ["leaked AIO handle"]);
            assert!(s.aio.snapshot().is_empty());
            assert_eq!(end(&mut backend), Leftovers::default(), "once");
            assert_eq!(backend.run(read(&file, &region, 0)).unwrap(), IO_ALIGN);
        }
        // A handle kept over the end of the statement can't be started, and is not another I/O's.
        let late = backend.acquire().unwrap();
        assert!(backend.end_of_statement().leaked_handle);
        assert_eq!(backend.release(late).unwrap_err().to_string(), "release in unexpected state");
        let late = backend.acquire().unwrap();
        assert!(backend.end_of_statement().leaked_handle);
        let current = backend.acquire().unwrap();
        assert!(matches!(
            backend.start_acquired(late, read(&file, &region, 0)),
            Err(AioError::Misuse(_))
        ));
        assert!(
            matches!(s.backend().release(current), Err(AioError::Misuse(_))),
            "another backend's"
        );
        assert!(backend.end_of_statement().leaked_handle);
    });
}

#[test]
fn an_assertion_loses_no_handle() {
    each_case_with(AioConfig { handles_per_backend: 1, ..config() }, |s| {
        let (file, region) = filled(s, 1);
        let mut backend = s.backend();
        let outside =
            Io::read(file.clone(), 0, IoMemory::new(region.clone(), 0, 2 * IO_ALIGN), Target::File);
        let handle = backend.acquire().unwrap();
        let r = handle.wait_ref();
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            backend.start_acquired(handle, outside)
        }));
        assert!(refused.is_err());
        let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| backend.wait(r)));
        assert!(waited.is_err(), "waiting for what was not started would last for ever");
        assert!(backend.end_of_statement().leaked_handle);
        // A leaked handle does not block other I/O, even if it is the only one.
        drop(backend.acquire().unwrap());
        assert_eq!(backend.run(read(&file, &region, 0)).unwrap(), IO_ALIGN);
        assert_eq!(backend.end_of_statement(), Leftovers::default());
    });
}

#[test]
fn an_open_batch_is_ended_and_warned_of() {
    each_case(|s| {
        let (file, region) = filled(s, 4);
        let mut backend = s.backend();
        backend.begin_batch();
        backend.end_batch();
        assert_eq!(backend.end_of_transaction(), Leftovers::default(), "paired: silent");

        backend.begin_batch();
        assert_eq!(
            backend.end_of_statement(),
            Leftovers::default(),
            "a batch may be open till the transaction ends"
        );
        assert_eq!(
            warnings(backend.end_of_transaction()),
            ["open AIO batch at end of (sub-)transaction"]
        );
        assert!(!backend.in_batch());

        backend.begin_batch();
        let refs = [0, 1].map(|n| backend.start(read(&file, &region, n)));
        let leftovers = backend.end_of_statement();
        assert_eq!((leftovers.unsubmitted, backend.staged()), (2, 0));
        assert_eq!(warnings(leftovers), ["AIO handle was not submitted"; 2]);
        for r in refs {
            assert_eq!(backend.wait(r).check().unwrap(), IO_ALIGN);
        }
        backend.start(read(&file, &region, 2));
        let after_error = backend.drain();
        assert!(after_error.open_batch && after_error.unsubmitted == 1, "{after_error:?}");
        assert_eq!(backend.in_flight(), 0);
        backend.begin_batch(); // not nested: the other one was ended
        backend.end_batch();
    });
}

#[test]
fn the_end_of_a_transaction_drops_reports_and_waits_for_nothing() {
    each_case_with(AioConfig { handles_per_backend: 4, ..config() }, |s| {
        let (file, region) = filled(s, 12);
        let write_only = s.open("filled", OpenOptions { write: true, ..OpenOptions::default() });
        let mut backend = s.backend();
        let mut refs: Vec<_> = (0..8).map(|n| backend.start(read(&file, &region, n))).collect();
        refs.extend([0, 1].map(|n| backend.start(read(&write_only, &region, n))));
        assert_eq!(backend.end_of_statement(), Leftovers::default());
        assert_eq!(
            backend.wait(refs.remove(0)).check().unwrap(),
            IO_ALIGN,
            "statements end, reports stay"
        );
        let leftovers = backend.end_of_transaction();
        assert_eq!((warnings(leftovers), leftovers.failed <= 2), (vec![], true));
        // I/O in flight continues; handles come back, and reports don't pile up.
        for n in 0..12 {
            assert_eq!(backend.run(read(&file, &region, n)).unwrap(), IO_ALIGN);
        }
        assert_eq!(backend.drain(), Leftovers::default());
        assert!(refs.into_iter().all(|r| matches!(backend.wait(r), IoResult::Finished)));
        assert!(s.aio.snapshot().is_empty());
    });
}

/// A write failed, and its report was dropped or handed out before, or is another backend's. A
/// caller that asks for it must not see success.
#[test]
fn a_report_that_is_gone_is_no_success() {
    each_case(|s| {
        let region = Region::new(IO_ALIGN).unwrap();
        let read_only = s.create("data");
        drop(read_only);
        let read_only = s.open("data", OpenOptions::READ);
        let mut backend = s.backend();
        let mut other = s.backend();
        let write = || {
            let memory = IoMemory::new(region.clone(), 0, IO_ALIGN);
            Io::write(read_only.clone(), 0, memory, Target::File)
        };
        let gone = |result: IoResult| {
            let errno = result.check().expect_err("it failed, and nobody was told").errno();
            assert_eq!(errno, Some(Errno::CANCELED));
        };

        let dropped = backend.start(write());
        assert_eq!(backend.drain().failed, 1);
        gone(backend.wait(dropped));

        let told = backend.start(write());
        assert_eq!(backend.wait(told).check().unwrap_err().errno(), Some(Errno::BADF));
        gone(backend.wait(told));

        let others = backend.start(write());
        gone(other.wait(others));
        assert_eq!(backend.wait(others).check().unwrap_err().errno(), Some(Errno::BADF));
    });
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Acquire,
    Try,
    Release,
    StartAcquired,
    Leak,
    Start,
    Begin,
    End,
    Wait,
    Statement,
    Transaction,
    Drain,
}

fn step() -> impl Strategy<Value = Step> {
    use Step::*;
    prop::sample::select(vec![
        Acquire,
        Try,
        Release,
        StartAcquired,
        Leak,
        Start,
        Start,
        Start,
        Begin,
        End,
        Wait,
        Statement,
        Transaction,
        Drain,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// Whatever the order of calls, at most one handle is acquired, none is lost, every I/O reports
    /// once or was given up, and the warnings match the mistakes.
    #[test]
    fn any_order_of_calls(
        steps in prop::collection::vec(step(), 1..60),
        handles_per_backend in 1usize..5,
        workers in any::<bool>(),
    ) {
        let method = if workers { cases_worker() } else { MethodKind::Sync };
        let sizes = AioConfig { handles_per_backend, ..config() };
        let s = Setup::new(Case { method, direct: false }, sizes);
        let (file, region) = filled(&s, 1);
        let mut backend = s.backend();
        let io = || read(&file, &region, 0);
        let (mut held, mut leaked): (Option<Acquired>, bool) = (None, false);
        let mut refs: Vec<WaitRef> = Vec::new();
        for step in steps {
            match step {
                Step::Acquire | Step::Try => {
                    let got = match step {
                        Step::Acquire => backend.acquire().map(Some),
                        _ => backend.try_acquire(),
                    };
                    prop_assert_eq!(got.is_err(), held.is_some() || leaked);
                    if let Ok(Some(handle)) = got {
                        held = Some(handle);
                    }
                }
                Step::Release => {
                    if let Some(handle) = held.take() {
                        backend.release(handle).unwrap();
                    }
                }
                Step::StartAcquired => {
                    if let Some(handle) = held.take() {
                        refs.push(backend.start_acquired(handle, io()).unwrap());
                    }
                }
                Step::Leak => leaked |= held.take().is_some(),
                Step::Start if handles_per_backend > 1 => refs.push(backend.start(io())),
                Step::Start => {}
                Step::Begin if !backend.in_batch() => backend.begin_batch(),
                Step::End if backend.in_batch() => backend.end_batch(),
                Step::Begin | Step::End => {}
                Step::Wait => {
                    if let Some(r) = refs.pop() {
                        let report = backend.wait(r).report().expect("its report");
                        prop_assert_eq!(report.transferred, IO_ALIGN);
                    }
                }
                Step::Statement | Step::Transaction | Step::Drain => {
                    let out = held.take().is_some() || leaked;
                    let (batch, staged) = (backend.in_batch(), backend.staged());
                    let all = !matches!(step, Step::Statement);
                    let leftovers = match step {
                        Step::Statement => backend.end_of_statement(),
                        Step::Transaction => backend.end_of_transaction(),
                        _ => backend.drain(),
                    };
                    let expected = Leftovers {
                        leaked_handle: out,
                        unsubmitted: staged,
                        open_batch: batch && all,
                        failed: 0,
                    };
                    prop_assert_eq!(leftovers, expected);
                    leaked = false;
                    if all {
                        refs.clear();
                    }
                }
            }
            let shown = s.aio.snapshot();
            let out = shown.iter().filter(|h| h.state == HandleState::HandedOut).count();
            prop_assert_eq!(out, usize::from(held.is_some() || leaked));
            let handles = backend.idle_handles() + backend.in_flight() + out;
            prop_assert_eq!(handles, handles_per_backend);
        }
        let _ = backend.drain();
        prop_assert_eq!(backend.idle_handles(), handles_per_backend);
        prop_assert!(s.aio.snapshot().is_empty());
    }
}

fn cases_worker() -> MethodKind {
    crate::common::cases()
        .into_iter()
        .map(|c| c.method)
        .find(|m| matches!(m, MethodKind::Worker(_)))
        .unwrap()
}
