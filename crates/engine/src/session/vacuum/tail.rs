//! Cutting off a table's empty end.
//!
//! That needs the table for itself. Vacuum asks for the lock several times, but does not queue for
//! it: others would queue behind. While it looks whether the pages are still empty, it gives up as
//! soon as somebody else wants the table.

use std::sync::Arc;

use forebay_access::heap::{Heap, PageCost};
use forebay_access::vacuum_progress::{PHASE, Phase};
use forebay_aio::sync::{Duration, Instant};
use forebay_catalog::Table;
use forebay_format::{BlockNumber, Fork};
use forebay_txn::locks::{LockError, LockMode};

use crate::core::InDatabase;
use crate::error::EngineError;
use crate::session::locks::lock_tag;
use crate::session::state::Session;

/// Empty pages for which a truncation is worth while, in any case.
const WORTHWHILE: BlockNumber = 1000;
/// The part of a table for which it is, too.
const FRACTION: BlockNumber = 16;
/// How long vacuum goes on asking for the lock, and how often.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);
/// Blocks between two looks whether somebody waits for the table.
const LOOK_EVERY: BlockNumber = 32;

/// Whether cutting off the end of a table is worth while.
pub(super) fn is_worthwhile(pages: BlockNumber, with_rows: BlockNumber) -> bool {
    let empty = pages - with_rows;
    empty > 0 && (empty >= WORTHWHILE || empty >= pages / FRACTION)
}

impl Session {
    /// Cuts the table down to `least` blocks, or to the last one that has rows by now. Returns the
    /// number of blocks that remain, of `pages`.
    pub(super) fn cut_tail(
        &mut self,
        core: &InDatabase,
        (table, heap): (&Arc<Table>, &Heap),
        (pages, least): (BlockNumber, BlockNumber),
        told: &mut Vec<String>,
    ) -> Result<BlockNumber, EngineError> {
        self.backend.progress.set(PHASE, Phase::Truncate as u64);
        let (tag, mode) = (lock_tag(table), LockMode::AccessExclusive);
        let end = Instant::now() + PATIENCE;
        while let Err(error) = self.try_lock(core, tag, mode) {
            if !matches!(error, EngineError::Lock(LockError::NotAvailable { .. })) {
                return Err(error);
            }
            if Instant::now() >= end {
                let name = &table.name;
                told.push(format!("\"{name}\": stopping truncate due to conflicting lock request"));
                return Ok(pages);
            }
            self.sleep_until(Instant::now() + PAUSE)?;
        }
        let cut = self.cut_locked(core, table, heap, (pages, least));
        core.locks.unlock(&mut self.locks, tag, mode);
        let remain = cut?;
        if remain < pages {
            told.push(format!("table \"{}\": truncated {pages} to {remain} pages", table.name));
        }
        Ok(remain)
    }

    fn cut_locked(
        &mut self,
        core: &InDatabase,
        table: &Arc<Table>,
        heap: &Heap,
        (pages, least): (BlockNumber, BlockNumber),
    ) -> Result<BlockNumber, EngineError> {
        // Somebody has added rows.
        if heap.pool.nblocks(heap.locator, Fork::Main)? != pages {
            return Ok(pages);
        }
        let tag = lock_tag(table);
        let mut seen = 0;
        let interrupt = self.interrupt.clone();
        let mut go_on = |_: &mut _| {
            seen += 1;
            match interrupt.pending() {
                Some(kind) => Err(forebay_access::AccessError::Interrupted(kind)),
                None => Ok(seen % LOOK_EVERY != 0 || core.locks.waiters(tag) == 0),
            }
        };
        let remain = heap.blocks_in_use(&mut self.backend, pages, least, &mut go_on)?;
        if remain < pages {
            let mut never: fn(&mut _, PageCost) -> _ = |_, _| Ok(());
            heap.cut(&mut self.backend, &core.xacts, remain, &mut never)?;
        }
        Ok(remain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_pages_of_a_large_table_stay() {
        assert!(is_worthwhile(1, 0) && is_worthwhile(10, 9) && is_worthwhile(16, 15));
        assert!(!is_worthwhile(10, 10) && !is_worthwhile(100_000, 99_500));
        assert!(is_worthwhile(100_000, 99_000) && is_worthwhile(160, 150));
    }
}
