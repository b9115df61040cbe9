//! The plan for I/O that a calling thread executes: under method sync, in workers, and the rest of
//! short transfers.

use super::apply::attempt;
use super::call::Call;
use super::plan::FaultPlan;
use crate::error::Errno;
use crate::execute::{Executor, Request};
use crate::sync::Arc;

/// An executor that applies a plan to another one.
pub struct FaultyExecutor {
    inner: Arc<dyn Executor>,
    plan: Arc<FaultPlan>,
}

impl FaultyExecutor {
    /// Applies `plan` to `inner`.
    pub fn new(inner: Arc<dyn Executor>, plan: Arc<FaultPlan>) -> FaultyExecutor {
        FaultyExecutor { inner, plan }
    }
}

impl Executor for FaultyExecutor {
    fn execute(&self, r: &Request<'_>) -> Result<usize, Errno> {
        let verdict = self.plan.judge(&Call::of(r));
        self.plan.wait_while_held(&verdict);
        attempt(&*self.inner, r, verdict.effect, verdict.salt)
    }
}
