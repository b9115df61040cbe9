//! The plan for a method that has others execute, such as the kernel.
//!
//! An I/O that a rule affects does not go to the inner method. It stays submitted here until a
//! thread waits or polls, as a completion stays in a ring until a thread reaps it. That thread
//! makes the attempt with the rule's effect. Threads that wait for a held I/O sleep on its handle,
//! and its release wakes them.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use smallvec::SmallVec;

use super::apply::attempt;
use super::call::Call;
use super::plan::{FaultPlan, Verdict};
use crate::error::{AioError, Errno};
use crate::execute::Executor;
use crate::handle::{WaitRef, Word};
use crate::memory::Region;
use crate::method::Method;
use crate::op::OpKind;
use crate::registration::{Registration, RegistrationStats};
use crate::sync::{Arc, Mutex};
use crate::table::HandleTable;
use crate::workers::{WorkerCounts, WorkerLimits};

/// A method that applies a plan to another one.
pub struct FaultyMethod {
    inner: Box<dyn Method>,
    executor: Arc<dyn Executor>,
    table: Arc<HandleTable>,
    plan: Arc<FaultPlan>,
    /// Keyed by the use of a handle, because the next use may begin before the thread that ended
    /// this one returns here.
    diverted: Mutex<HashMap<WaitRef, Diverted>>,
}

/// A submitted I/O that the inner method does not have.
enum Diverted {
    /// It waits for its release, or for a thread that executes it.
    Pending(Verdict),
    /// A thread executes it.
    Running,
}

impl FaultyMethod {
    /// Applies `plan` to `inner`. `executor` executes what a rule affects.
    pub fn new(
        inner: Box<dyn Method>,
        executor: Arc<dyn Executor>,
        table: Arc<HandleTable>,
        plan: Arc<FaultPlan>,
    ) -> FaultyMethod {
        FaultyMethod { inner, executor, table, plan, diverted: Mutex::new(HashMap::new()) }
    }

    /// Takes a diverted I/O to execute it, unless it is held or another thread has taken it.
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

    /// Executes the I/O, and ends it whatever happens.
    fn run(&self, table: &HandleTable, r: WaitRef, verdict: Verdict) {
        self.plan.count_released(&verdict);
        let attempted = catch_unwind(AssertUnwindSafe(|| {
            table.with_request(r.index, |request| {
                attempt(&*self.executor, request, verdict.effect, verdict.salt)
            })
        }));
        table.executed(r.index, attempted.unwrap_or(Err(Errno::IO)));
        table.finish(r.index);
        // Only now: a waiter that does not find it here asks the inner method, and would wait
        // forever.
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
            let call = table.with_request(index, Call::of);
            let verdict = self.plan.judge(&call);
            if verdict.is_pass() {
                through.push(index);
                continue;
            }
            self.plan.wake_at_release(&verdict, &self.table, index);
            // Under the lock, so that a thread that takes it finds all merged I/Os submitted.
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

    fn occupy_memory(&self, region: &Arc<Region>, to: usize) -> Result<(), AioError> {
        self.inner.occupy_memory(region, to)
    }

    fn memory_resized(&self, region: &Arc<Region>, bytes: usize) -> Registration {
        self.inner.memory_resized(region, bytes)
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
