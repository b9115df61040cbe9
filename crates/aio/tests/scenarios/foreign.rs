//! A thread that waits for an I/O can finish it, whatever its issuer does meanwhile. The I/O is
//! held until all threads are where the scenario wants them.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use forebay_aio::fault::{Effect, FaultPlan, Held, Ops, Rule};
use forebay_aio::*;
use smallvec::SmallVec;

use crate::common::{Case, Setup, bytes, cases, config, each_faulty_case, naming, until};
use crate::{filled, pattern, read};

const BLOCKS: usize = 4;

/// The reference to the only I/O, once it has been submitted. Under method sync its issuer is still
/// inside of `start`.
fn in_flight(s: &Setup) -> WaitRef {
    let mut found = None;
    until("an I/O in flight", || {
        let handles = s.aio.snapshot();
        found = handles
            .iter()
            .find(|h| h.state == HandleState::Submitted)
            .map(|h| (h.io_id, h.generation));
        found.is_some()
    });
    let (index, generation) = found.expect("just found");
    WaitRef { index, generation }
}

/// Only a waiter executes it: the method does nothing until a thread asks.
fn is_lazy(s: &Setup) -> bool {
    s.aio.method_name() == "deferred"
}

/// Waits until a held I/O is where its method takes it unasked.
fn await_execution(s: &Setup, held: &Held) {
    if !is_lazy(s) {
        held.await_count(1);
    }
}

/// Waits until the waiter of a held I/O can only be waiting for its release: it sleeps on the
/// handle, or executes the I/O itself.
fn await_waiter(s: &Setup, held: &Held, r: WaitRef, waiter: &thread::JoinHandle<()>) {
    if is_lazy(s) {
        held.await_count(1);
    } else {
        until("a sleeping waiter", || s.aio.sleepers(r) == 1);
    }
    assert!(!waiter.is_finished());
}

/// Counts completions and remembers what they saw.
#[derive(Default)]
struct Seen(AtomicUsize, Mutex<Option<Result<usize, Errno>>>);

impl SharedCompletion for Seen {
    fn complete(&self, io: &Completed<'_>) -> Outcome {
        self.0.fetch_add(1, SeqCst);
        *self.1.lock().unwrap() = Some(io.result);
        io.transfer_outcome()
    }
}

/// The issuer is blocked on a lock that the waiter holds until it is done.
fn blocked_issuer(s: &Setup, plan: &Arc<FaultPlan>, fails: Option<Errno>) {
    let (file, region) = filled(s, "data", BLOCKS);
    let seen = Arc::new(Seen::default());
    let lock = Arc::new(Mutex::new(()));
    let mut backend = s.backend();
    let held = plan.hold(Rule::on(Ops::READ));
    if let Some(errno) = fails {
        plan.add(Rule::on(Ops::READ), Effect::Fail(errno));
    }
    let (issuer, waiter) = {
        let taken = lock.lock().unwrap();
        let (theirs, completion) = (lock.clone(), seen.clone());
        let io = read(&file, &region, 0, BLOCKS).completion(completion, SmallVec::new());
        let issuer = thread::spawn(move || {
            let r = backend.start(io);
            drop(theirs.lock().unwrap());
            backend.wait(r).report().expect("the issuer's report")
        });
        let r = in_flight(s);
        await_execution(s, &held);
        let aio = s.aio.clone();
        let waiter = thread::spawn(move || aio.wait_done(r));
        await_waiter(s, &held, r, &waiter);
        held.release();
        waiter.join().unwrap(); // while `lock` is still taken
        drop(taken);
        (issuer, seen.0.load(SeqCst))
    };
    assert_eq!(waiter, 1, "completed for the waiter, once");
    let report = issuer.join().unwrap();
    assert_eq!(report.errno(), fails);
    assert_eq!(*seen.1.lock().unwrap(), Some(fails.map_or(Ok(BLOCKS * IO_ALIGN), Err)));
    if fails.is_none() {
        assert!(bytes(&region, 0, region.len()) == pattern(BLOCKS));
    }
    assert_eq!(seen.0.load(SeqCst), 1);
}

#[test]
fn the_issuer_is_blocked_by_the_waiter() {
    each_faulty_case(|s, plan| blocked_issuer(s, plan, None));
}

#[test]
fn an_error_met_by_another_is_the_issuers_to_raise() {
    each_faulty_case(|s, plan| blocked_issuer(s, plan, Some(Errno::IO)));
}

/// The issuing thread has ended while its I/O is held; its backend was handed on, or is lost.
#[test]
fn the_issuer_is_gone() {
    for lost in [false, true] {
        each_faulty_case(|s, plan| {
            if s.case.method == MethodKind::Sync {
                return; // the issuer executes its I/O: it can't be gone before it ends
            }
            let (file, region) = filled(s, "data", BLOCKS);
            let (completions, mut backend) = (Arc::new(Seen::default()), s.backend());
            let held = plan.hold(Rule::on(Ops::READ));
            let io =
                read(&file, &region, 0, BLOCKS).completion(completions.clone(), SmallVec::new());
            let issuer = thread::spawn(move || {
                let r = backend.start(io);
                let backend = if lost {
                    std::mem::forget(backend);
                    None
                } else {
                    Some(backend)
                };
                (r, backend)
            });
            let (r, backend) = issuer.join().unwrap();
            await_execution(s, &held);
            let aio = s.aio.clone();
            let waiter = thread::spawn(move || aio.wait_done(r));
            await_waiter(s, &held, r, &waiter);
            assert_eq!(completions.0.load(SeqCst), 0);
            held.release();
            waiter.join().unwrap();
            assert_eq!(completions.0.load(SeqCst), 1);
            assert!(bytes(&region, 0, region.len()) == pattern(BLOCKS));
            if let Some(mut backend) = backend {
                assert!(
                    backend.wait(r).check().is_ok(),
                    "the report is there for whoever has the backend"
                );
            }
        });
    }
}

/// Several threads wait; the completion runs once, and all continue.
#[test]
fn many_threads_wait_for_what_is_held() {
    each_faulty_case(|s, plan| {
        if s.case.method == MethodKind::Sync {
            return; // the issuer is inside of the I/O, so that it could not wait
        }
        let (file, region) = filled(s, "data", BLOCKS);
        let (completions, mut backend) = (Arc::new(Seen::default()), s.backend());
        let held = plan.hold(Rule::on(Ops::READ));
        let r = backend.start(
            read(&file, &region, 0, BLOCKS).completion(completions.clone(), SmallVec::new()),
        );
        await_execution(s, &held);
        let waiters: Vec<_> = (0..5)
            .map(|_| {
                let aio = s.aio.clone();
                thread::spawn(move || aio.wait_done(r))
            })
            .collect();
        held.await_count(1);
        // One of five executes it, if no other thread does; how the others wait is the method's
        // affair.
        until("five sleepers", || s.aio.sleepers(r) == 5 || is_lazy(s));
        assert!(waiters.iter().all(|t| !t.is_finished()));
        held.release();
        waiters.into_iter().for_each(|t| t.join().unwrap());
        assert!(backend.wait(r).check().is_ok());
        assert_eq!(completions.0.load(SeqCst), 1);
    });
}

/// The same with the kernel holding the I/O: a read of a pipe without data.
#[test]
fn the_kernel_holds_it_and_the_waiter_takes_it_from_the_ring() {
    use std::io::Write;
    let Some(case) = cases().into_iter().find(|c| c.method.name() == "io_uring" && !c.direct)
    else {
        eprintln!("skipped: no io_uring here");
        return;
    };
    naming(Case { ..case }, || {
        let s = Setup::new(case, config());
        let (reader, mut feed) = std::io::pipe().unwrap();
        let file = File::from_fd("pipe".into(), FileFlags::default(), reader.into());
        let region = Region::new(IO_ALIGN).unwrap();
        let lock = Arc::new(Mutex::new(()));
        let taken = lock.lock().unwrap();
        let (mut backend, theirs) = (s.backend(), lock.clone());
        let io = read(&file, &region, 0, 1);
        let issuer = thread::spawn(move || {
            let r = backend.start(io);
            drop(theirs.lock().unwrap());
            backend.wait(r).check()
        });
        let r = in_flight(&s);
        let aio = s.aio.clone();
        let waiter = thread::spawn(move || aio.wait_done(r));
        feed.write_all(&[9; IO_ALIGN]).unwrap();
        waiter.join().unwrap();
        drop(taken);
        assert_eq!(issuer.join().unwrap().unwrap(), IO_ALIGN);
        assert_eq!(bytes(&region, 0, IO_ALIGN), [9; IO_ALIGN]);
    });
}
