//! The plan over a method that has others execute: the kernel does not ask our executor.
//!
//! What a rule hits does not go to the inner method. It stays here, submitted, until someone waits
//! or polls, as a completion stays in a ring until someone reaps it; that thread then makes the
//! attempt that the rule has in mind. The rest goes on as ever. What is held sleeps on its handle,
//! and the release of it wakes the sleepers.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use smallvec::SmallVec;

use super::apply::attempt;
use super::call::Call;
use super::plan::{FaultPlan, Verdict};
use crate::error::{AioError, Errno};
use crate::execute::{Executor, Request};
use crate::handle::{WaitRef, Word};
use crate::memory::Region;
use crate::method::{Method, WorkerCounts, WorkerLimits};
use crate::op::OpKind;
use crate::registration::{Registration, RegistrationStats};
use crate::sync::{Arc, Mutex};
use crate::table::{HandleTable, KernelView};

/// Does as the inner method does, but for what the plan says.
pub struct FaultyMethod {
    inner: Box<dyn Method>,
    executor: Arc<dyn Executor>,
    table: Arc<HandleTable>,
    plan: Arc<FaultPlan>,
    /// By use of a handle: the next use may begin before the thread that ended this one is back
    /// here.
    diverted: Mutex<HashMap<WaitRef, Diverted>>,
}

/// A submitted I/O that the inner method knows nothing of.
enum Diverted {
    /// Waits for its release, or for a thread to execute it.
    Pending(Verdict),
    /// Some thread executes it.
    Running,
}

fn request<'a>(view: &'a KernelView<'_>) -> Request<'a> {
    Request::new(view.file, view.op, view.offset, view.length, view.vectors)
}

impl FaultyMethod {
    /// The plan over `inner`. What a rule hits is executed by `executor`.
    pub fn new(
        inner: Box<dyn Method>,
        executor: Arc<dyn Executor>,
        table: Arc<HandleTable>,
        plan: Arc<FaultPlan>,
    ) -> FaultyMethod {
        FaultyMethod { inner, executor, table, plan, diverted: Mutex::new(HashMap::new()) }
    }

    /// Takes a diverted I/O upon this thread, if it is no longer held and nobody else has.
    fn take(&self, r: WaitRef) -> Option<Verdict> {
        let mut diverted = self.diverted.lock();
        let entry = diverted.get_mut(&r)?;
        match entry {
            Diverted::Pending(verdict) if self.plan.may_go(verdict) => {
                let verdict = *verdict;
                *entry = Diverted::Running;
                Some(verdict)
            }
            _ => None,
        }
    }

    /// Executes; whatever happens, the I/O ends.
    fn run(&self, table: &HandleTable, r: WaitRef, verdict: Verdict) {
        self.plan.went(&verdict);
        let attempted = catch_unwind(AssertUnwindSafe(|| {
            table.with_kernel_view(r.index, |view| {
                attempt(&*self.executor, &request(&view), verdict.effect, verdict.salt)
            })
        }));
        table.executed(r.index, attempted.unwrap_or(Err(Errno::IO)));
        table.finish(r.index);
        // Only now: a waiter that does not find it here asks the inner method, which would wait for
        // ever.
        self.diverted.lock().remove(&r);
    }
}

impl Method for FaultyMethod {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn attach(&self, slot: u32) -> Result<(), AioError> {
        self.inner.attach(slot)
    }

    fn synchronous(&self) -> bool {
        self.inner.synchronous()
    }

    fn executes(&self, op: OpKind) -> bool {
        self.inner.executes(op)
    }

    fn executes_by_table(&self) -> bool {
        self.inner.executes_by_table()
    }

    fn completes_through_issuer(&self) -> bool {
        self.inner.completes_through_issuer()
    }

    fn submit(&self, table: &HandleTable, slot: u32, staged: &[u32], in_flight: usize) {
        let mut through: SmallVec<[u32; 32]> = SmallVec::new();
        for &index in staged {
            let call = table.with_kernel_view(index, |view| Call::of(&request(&view)));
            let verdict = self.plan.judge(&call);
            if verdict.is_innocent() {
                through.push(index);
                continue;
            }
            self.plan.wake_at_release(&verdict, &self.table, index);
            // Under the lock: whoever takes it finds all that were merged with it submitted.
            let mut diverted = self.diverted.lock();
            diverted.insert(table.wait_ref(index), Diverted::Pending(verdict));
            table.begin(index);
        }
        if !through.is_empty() {
            self.inner.submit(table, slot, &through, in_flight);
        }
    }

    fn wait(&self, table: &HandleTable, index: u32, seen: Word) {
        let r = WaitRef { index, generation: seen.generation() };
        if let Some(verdict) = self.take(r) {
            return self.run(table, r, verdict);
        }
        let held = match self.diverted.lock().get(&r) {
            None => return self.inner.wait(table, index, seen),
            Some(Diverted::Pending(verdict)) => Some(*verdict),
            Some(Diverted::Running) => None,
        };
        table.wait_change_while(index, seen, || {
            held.is_none_or(|verdict| !self.plan.may_go(&verdict))
        });
    }

    fn poll(&self, table: &HandleTable, index: u32) {
        let slot = table.slot_of(index);
        let here: SmallVec<[WaitRef; 16]> = self
            .diverted
            .lock()
            .keys()
            .copied()
            .filter(|r| table.slot_of(r.index) == slot)
            .collect();
        for other in here {
            if let Some(verdict) = self.take(other) {
                self.run(table, other, verdict);
            }
        }
        self.inner.poll(table, index);
    }

    fn register_memory(&self, region: &Arc<Region>) -> Registration {
        self.inner.register_memory(region)
    }

    fn registration_stats(&self) -> RegistrationStats {
        self.inner.registration_stats()
    }

    fn workers(&self) -> Option<WorkerCounts> {
        self.inner.workers()
    }

    fn set_worker_limits(&self, limits: WorkerLimits) -> Result<(), AioError> {
        self.inner.set_worker_limits(limits)
    }
}
