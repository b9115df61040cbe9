//! Faults on purpose, at the one door: a plan of what fails, comes short or is held, for tests of
//! every crate above.
//!
//! | Module | What it holds |
//! |---|---|
//! | `call` | [`Ops`]: the operations of both halves of the door; [`Call`]: one of them under way |
//! | `plan` | [`FaultPlan`]: rules, what they do, what has fired; [`Held`]: I/O that waits for the test |
//! | `apply` | what an [`Effect`] does to an attempt |
//! | `executor` | [`FaultyExecutor`]: the plan over what is executed in a calling thread |
//! | `method` | [`FaultyMethod`]: the plan over a method that has others execute (the kernel) |
//! | `namespace` | [`FaultyNamespace`]: the plan over names |
//!
//! ```
//! use forebay_aio::{fault::*, *};
//! # fn main() -> Result<(), AioError> {
//! let plan = FaultPlan::new();
//! plan.add(Rule::on(Ops::WRITE).path("pg_wal").skip(3).times(1), Effect::Fail(Errno::NOSPC));
//! let aio = plan.open(std::sync::Arc::new(PosixNamespace), MethodKind::Sync, AioConfig::default())?;
//! # drop(aio);
//! # Ok(())
//! # }
//! ```
//!
//! Nothing of this is in the way of a door opened without a plan: the wrappers are other
//! implementations of the same traits.

mod apply;
mod call;
mod executor;
mod method;
mod namespace;
mod plan;

pub use call::{Call, Ops};
pub use executor::FaultyExecutor;
pub use method::FaultyMethod;
pub use namespace::FaultyNamespace;
pub use plan::{Effect, FaultId, FaultPlan, Held, Rule};

use crate::aio::{Aio, AioConfig, MethodKind};
use crate::error::AioError;
use crate::execute::{Executor, PosixExecutor};
use crate::namespace::Namespace;
use crate::sync::Arc;

impl FaultPlan {
    /// Opens a door over which the plan rules: names, what is executed in calling threads, and what
    /// the method has others execute.
    pub fn open(
        self: &Arc<FaultPlan>,
        namespace: Arc<dyn Namespace>,
        method: MethodKind,
        config: AioConfig,
    ) -> Result<Arc<Aio>, AioError> {
        self.open_over(namespace, Arc::new(PosixExecutor), method, config)
    }

    /// Like [`FaultPlan::open`], over an executor of the caller's.
    pub fn open_over(
        self: &Arc<FaultPlan>,
        namespace: Arc<dyn Namespace>,
        executor: Arc<dyn Executor>,
        method: MethodKind,
        config: AioConfig,
    ) -> Result<Arc<Aio>, AioError> {
        let names = Arc::new(FaultyNamespace::new(namespace, Arc::clone(self)));
        let faulty = Arc::new(FaultyExecutor::new(Arc::clone(&executor), Arc::clone(self)));
        Aio::with_method(names, faulty, config, |table| {
            let inner = method.start(&table, &config)?;
            if inner.executes_by_table() {
                return Ok(inner); // the executor has the plan
            }
            Ok(Box::new(FaultyMethod::new(inner, executor, table, Arc::clone(self))))
        })
    }
}
