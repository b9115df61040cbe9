//! Fault injection for the tests of this crate and those above: a plan says which calls fail, come
//! short, panic, or are held.
//!
//! | Module | Contents |
//! |---|---|
//! | `call` | [`Ops`]: sets of operations; [`Call`]: one call |
//! | `plan` | [`FaultPlan`]: rules, effects, counts; [`Held`]: calls that wait for the test |
//! | `apply` | what an [`Effect`] does to an attempt |
//! | `executor` | [`FaultyExecutor`]: the plan for I/O that a calling thread executes |
//! | `method` | [`FaultyMethod`]: the plan for I/O that the kernel executes |
//! | `namespace` | [`FaultyNamespace`]: the plan for names |
//!
//! ```
//! use forebay_aio::{fault::*, *};
//! # fn main() -> Result<(), AioError> {
//! let plan = FaultPlan::new();
//! plan.add(Rule::on(Ops::WRITE).path("pg_wal").skip(3).times(1), Effect::Fail(Errno::NOSPC));
//! let names = std::sync::Arc::new(PosixNamespace);
//! let aio = plan.open(names, MethodKind::Sync, AioConfig::default())?;
//! # drop(aio);
//! # Ok(())
//! # }
//! ```
//!
//! Without a plan none of this runs: the wrappers are other implementations of the same traits.

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

use crate::aio::Aio;
use crate::config::AioConfig;
use crate::error::AioError;
use crate::execute::{Executor, PosixExecutor};
use crate::methods::MethodKind;
use crate::namespace::Namespace;
use crate::sync::Arc;

impl FaultPlan {
    /// An [`Aio`] under this plan: its names, what calling threads execute, and what the method has
    /// others execute.
    ///
    /// # Errors
    /// As [`Aio::new`].
    pub fn open(
        self: &Arc<FaultPlan>,
        namespace: Arc<dyn Namespace>,
        method: MethodKind,
        config: AioConfig,
    ) -> Result<Arc<Aio>, AioError> {
        self.open_over(namespace, Arc::new(PosixExecutor), method, config)
    }

    /// Like [`FaultPlan::open`], with the caller's `executor` below the plan.
    ///
    /// # Errors
    /// As [`Aio::new`].
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
