//! Cutting off a table's empty end.

use forebay_format::wal::Rmgr;
use forebay_format::wal::rmgr::INFO_SPECIAL_REL_UPDATE;
use forebay_format::wal::smgr::{self, SmgrTruncate};
use forebay_format::{BlockNumber, Fork};
use forebay_storage::{Backend, Strategy};
use forebay_txn::XactManager;
use forebay_wal::Record;

use super::critical::critical;
use super::relation::Heap;
use super::vacuum_job::{Pace, PageCost};
use crate::error::AccessError;
use crate::vm;

impl Heap {
    /// Number of blocks up to the last one that is not empty, from `blocks` downwards to `least`.
    /// The caller's lock excludes everybody else. `go_on` is asked between blocks, and may end it:
    /// then the blocks found empty so far can go.
    pub fn blocks_in_use(
        &self,
        backend: &mut Backend,
        mut blocks: BlockNumber,
        least: BlockNumber,
        go_on: &mut dyn FnMut(&mut Backend) -> Result<bool, AccessError>,
    ) -> Result<BlockNumber, AccessError> {
        while blocks > least && go_on(backend)? {
            let pin = self.pool.read(backend, self.tag(blocks - 1), Strategy::VACUUM)?;
            let guard = pin.lock_shared();
            let page = guard.page();
            let used = |number| page.item_id(number).is_some_and(|id| !id.is_unused());
            if !page.is_new() && (1..=page.item_count()).any(used) {
                break;
            }
            blocks -= 1;
        }
        Ok(blocks)
    }

    /// Cuts the table, and its maps, to `blocks` blocks. The later ones have no rows. The caller's
    /// lock excludes everybody else.
    pub fn cut(
        &self,
        backend: &mut Backend,
        xacts: &XactManager,
        blocks: BlockNumber,
        pace: Pace<'_>,
    ) -> Result<(), AccessError> {
        let rel = self.locator;
        self.space.forget_from(blocks);
        let smgr = self.pool.smgr();
        let mut keep = vec![(Fork::Main, blocks)];
        if smgr.exists(rel, Fork::Fsm)? {
            keep.push((Fork::Fsm, self.free_space_map().clear_from(backend, blocks)?));
        }
        if smgr.exists(rel, Fork::Vm)? {
            keep.push((Fork::Vm, vm::clear_from(&self.pool, backend, rel, blocks)?));
        }
        {
            // A checkpoint whose redo pointer lies behind the record waits until the files are cut.
            let _pass = xacts.gate().enter();
            critical(self.failure.as_ref(), "could not truncate a table", || {
                self.log_cut(backend, blocks)?;
                for (fork, blocks) in keep {
                    if self.pool.nblocks(rel, fork)? > blocks {
                        self.pool.truncate(backend, rel, fork, blocks)?;
                    }
                }
                Ok(())
            })?;
        }
        // What the upper levels say of the blocks that went.
        let mut check = |backend: &mut Backend| pace(backend, PageCost::default());
        self.free_space_map().vacuum(backend, blocks..BlockNumber::MAX, &mut check)
    }

    /// Logs the cut, and makes that durable: the files must not be shorter than the log knows.
    fn log_cut(&self, backend: &mut Backend, blocks: BlockNumber) -> Result<(), AccessError> {
        if !self.logged {
            return Ok(());
        }
        let (rel, flags) = (self.locator, smgr::TRUNCATE_ALL);
        let main = SmgrTruncate { blocks, rel, flags }.encode();
        let info = smgr::TRUNCATE | INFO_SPECIAL_REL_UPDATE;
        let record = Record { rmgr: Rmgr::SMGR, info, xid: 0, main: &main, blocks: &[] };
        let inserted = self.wal.insert(&mut backend.io, &record)?;
        forebay_aio::planted_bug!(backend.io.aio(), TableCutBeforeLogged, return Ok(()));
        Ok(self.wal.flush(&mut backend.io, inserted.end)?)
    }
}
