//! Redo of heap records.
//!
//! | file | redoes |
//! |---|---|
//! | `insert.rs` | INSERT, MULTI_INSERT |
//! | `update.rs` | UPDATE, HOT_UPDATE |
//! | `header.rs` | DELETE, LOCK, LOCK_UPDATED, CONFIRM, and INPLACE: one tuple stays where it is |
//! | `vacuum.rs` | PRUNE, VISIBLE |
//!
//! `steps.rs` has what they share.
//!
//! Three kinds serve logical decoding only, and change nothing here. Other records do what TRUNCATE
//! and NEW_CID tell. REWRITE has a piece of a mapping file, which only replication slots need; a
//! directory with slots is refused.
//!
//! Nobody reads during redo, so a page that is pruned needs no cleanup lock.

mod header;
mod insert;
mod steps;
mod update;
mod vacuum;

use forebay_format::wal::{Rmgr, heap};
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord, ResourceManager};

/// Redoes changes of single tuples.
pub(super) struct HeapRedo;
/// Redoes insertions of many tuples, and what vacuum does.
pub(super) struct Heap2Redo;

impl ResourceManager for HeapRedo {
    fn id(&self) -> Rmgr {
        Rmgr::HEAP
    }

    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        match record.kind() & heap::OPMASK {
            heap::INSERT => insert::insert(record, ctx),
            heap::DELETE => header::delete(record, ctx),
            heap::UPDATE => update::update(record, ctx, false),
            heap::HOT_UPDATE => update::update(record, ctx, true),
            heap::CONFIRM => header::confirm(record, ctx),
            heap::LOCK => header::lock(record, ctx),
            heap::INPLACE => header::overwrite(record, ctx),
            heap::TRUNCATE => Ok(()),
            _ => Err(record.unsupported()),
        }
    }
}

impl ResourceManager for Heap2Redo {
    fn id(&self) -> Rmgr {
        Rmgr::HEAP2
    }

    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        match record.kind() & heap::OPMASK {
            heap::PRUNE_ON_ACCESS | heap::PRUNE_VACUUM_SCAN | heap::PRUNE_VACUUM_CLEANUP => {
                vacuum::prune(record, ctx)
            }
            heap::VISIBLE => vacuum::set_visible(record, ctx),
            heap::MULTI_INSERT => insert::multi_insert(record, ctx),
            heap::LOCK_UPDATED => header::lock_updated(record, ctx),
            heap::NEW_CID | heap::REWRITE => Ok(()),
            _ => Err(record.unsupported()),
        }
    }
}
