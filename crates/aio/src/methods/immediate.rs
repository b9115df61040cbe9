//! io_method sync: the issuer executes each I/O when it starts it. It executes those of a batch
//! when it submits the batch, so that merged neighbours are one system call.

use crate::handle::Word;
use crate::method::Method;
use crate::table::HandleTable;

/// The method.
pub(crate) struct Immediate;

impl Method for Immediate {
    fn name(&self) -> &'static str {
        "sync"
    }

    fn synchronous(&self) -> bool {
        true
    }

    fn submit(&self, table: &HandleTable, _slot: u32, staged: &[u32], _in_flight: usize) {
        for &index in staged {
            table.begin(index);
            table.execute(index);
        }
    }

    fn wait(&self, table: &HandleTable, index: u32, seen: Word) {
        table.wait_change(index, seen);
    }
}
