//! The plan over what is executed in a calling thread: by method sync, by workers, as the rest of a
//! short transfer.

use super::apply::attempt;
use super::call::Call;
use super::plan::FaultPlan;
use crate::error::Errno;
use crate::execute::{Executor, Request};
use crate::sync::Arc;

/// Executes as the inner executor does, but for what the plan says.
pub struct FaultyExecutor {
    inner: Arc<dyn Executor>,
    plan: Arc<FaultPlan>,
}

impl FaultyExecutor {
    /// The plan over `inner`.
    pub fn new(inner: Arc<dyn Executor>, plan: Arc<FaultPlan>) -> FaultyExecutor {
        FaultyExecutor { inner, plan }
    }
}

impl Executor for FaultyExecutor {
    fn execute(&self, r: &Request<'_>) -> Result<usize, Errno> {
        let verdict = self.plan.judge(&Call::of(r));
        self.plan.sit_out(&verdict);
        attempt(&*self.inner, r, verdict.effect, verdict.salt)
    }
}
