//! [`Method`]: executes submitted I/O, and notices its end.

use crate::error::AioError;
use crate::handle::Word;
use crate::memory::Region;
use crate::op::OpKind;
use crate::registration::{Registration, RegistrationStats};
use crate::sync::Arc;
use crate::table::HandleTable;
use crate::workers::{WorkerCounts, WorkerLimits};

/// Executes submitted I/O.
///
/// A thread that waits for a submitted I/O must always be able to finish it, even if the issuer is
/// blocked, asleep or gone.
pub trait Method: Send + Sync {
    /// The value of io_method.
    fn name(&self) -> &'static str;

    /// Prepares for the backend in `slot`.
    ///
    /// # Errors
    /// A resource is missing, such as a descriptor for its ring.
    fn attach(&self, slot: u32) -> Result<(), AioError> {
        let _ = slot;
        Ok(())
    }

    /// Whether the issuer executes: each I/O when it starts it, and those of a batch when it
    /// submits them, so that neighbours can be merged.
    fn synchronous(&self) -> bool {
        false
    }

    /// Whether it can execute such an operation. Others are never staged: the issuer executes them
    /// when it starts them.
    fn executes(&self, op: OpKind) -> bool {
        let _ = op;
        true
    }

    /// Whether the table's executor makes every attempt. If false, others make the first one: the
    /// kernel, or threads of a library.
    fn executes_by_table(&self) -> bool {
        true
    }

    /// Whether completions need the thread that submitted the I/O: it must run, or be woken to run,
    /// before a completion reaches any thread. While it is in an uninterruptible sleep, all waiters
    /// of its I/O wait. So a backend with I/O in flight hands the method also what it would execute
    /// itself.
    fn completes_through_issuer(&self) -> bool {
        false
    }

    /// Submits the staged handles of `slot`: calls [`HandleTable::begin`] for each, then has it
    /// executed. A handle may stand for several merged ones, which makes no difference here.
    /// `in_flight` I/Os of the backend were submitted before. Only the slot's backend calls this.
    fn submit(&self, table: &HandleTable, slot: u32, staged: &[u32], in_flight: usize);

    /// Returns when the handle's word may differ from `seen` (which is SUBMITTED). Any thread may
    /// call this.
    fn wait(&self, table: &HandleTable, index: u32, seen: Word);

    /// Returns when any I/O of the issuing backend may have finished or been executed, so that
    /// [`Method::poll`] notices it. Only that backend calls this. A method that can't tell waits
    /// for this I/O.
    fn wait_any(&self, table: &HandleTable, index: u32, seen: Word) {
        self.wait(table, index, seen);
    }

    /// Processes completions that have arrived around this handle; never blocks. Any thread may
    /// call this.
    fn poll(&self, table: &HandleTable, index: u32) {
        let _ = (table, index);
    }

    /// How many I/Os of a backend have been executed and are still SUBMITTED, because no thread has
    /// processed their completions. Processes none itself. Only that backend calls this.
    fn arrived(&self, slot: u32) -> usize {
        let _ = slot;
        0
    }

    /// Registers memory with the kernel until the region is dropped, so that I/O on it costs less.
    /// Any thread may call this.
    fn register_memory(&self, region: &Arc<Region>) -> Registration {
        let _ = region;
        Registration::Unused
    }

    /// Provides memory for a region up to byte `to`, see [`Region::occupy`].
    ///
    /// # Errors
    /// There is not enough. The region has what it had.
    fn occupy_memory(&self, region: &Arc<Region>, to: usize) -> Result<(), AioError> {
        region.occupy(to)
    }

    /// A region has more memory now ([`Region::occupy`]), or is about to have less: `bytes` from
    /// its start on. The registration follows: a part that is to be vacated is not registered
    /// afterwards.
    fn memory_resized(&self, region: &Arc<Region>, bytes: usize) -> Registration {
        let _ = (region, bytes);
        Registration::Unused
    }

    /// What is registered with the kernel, and how often I/O used it.
    fn registration_stats(&self) -> RegistrationStats {
        RegistrationStats::default()
    }

    /// The state of the workers; None if the method has none.
    fn workers(&self) -> Option<WorkerCounts> {
        None
    }

    /// Changes how many workers there may be, if the method has workers.
    ///
    /// # Errors
    /// A limit is out of its range, or a worker can't be started.
    fn set_worker_limits(&self, limits: WorkerLimits) -> Result<(), AioError> {
        let _ = limits;
        Ok(())
    }
}
