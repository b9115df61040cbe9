//! Redo of B-tree records.
//!
//! | file | redoes |
//! |---|---|
//! | `insert.rs` | INSERT_LEAF, INSERT_UPPER, INSERT_META, INSERT_POST, NEWROOT |
//! | `split.rs` | SPLIT_L, SPLIT_R |
//! | `rows.rs` | DEDUP, VACUUM, DELETE |
//! | `deletion.rs` | MARK_PAGE_HALFDEAD, UNLINK_PAGE, UNLINK_PAGE_META |
//! | `steps.rs` | what they share, and META_CLEANUP |
//!
//! The pages of a record are changed one after the other, as nobody reads during redo. For the same
//! reason VACUUM needs no cleanup lock, and REUSE_PAGE, which is for standbys, changes nothing.
//!
//! Left behind where a crash interrupted a change of several records: a page whose split is
//! incomplete, a half-dead leaf. The next insertion or vacuum that meets it completes the change.

mod deletion;
mod insert;
mod rows;
mod split;
mod steps;

use forebay_format::wal::rmgr::INFO_RMGR_MASK;
use forebay_format::wal::{Rmgr, nbtree};
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord, ResourceManager};

/// Redoes changes of B-trees.
pub(super) struct BtreeRedo;

impl ResourceManager for BtreeRedo {
    fn id(&self) -> Rmgr {
        Rmgr::BTREE
    }

    fn knows(&self, info: u8) -> bool {
        nbtree::name(info & INFO_RMGR_MASK) != "UNKNOWN"
    }

    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        match record.kind() {
            nbtree::INSERT_LEAF => insert::insert_leaf(record, ctx),
            nbtree::INSERT_POST => insert::insert_into_posting(record, ctx),
            nbtree::INSERT_UPPER => insert::insert_upper(record, ctx),
            nbtree::INSERT_META => {
                insert::insert_upper(record, ctx)?;
                steps::make_meta(record, ctx, nbtree::META_BLOCK)
            }
            nbtree::NEWROOT => insert::new_root(record, ctx),
            nbtree::SPLIT_L => split::split(record, ctx, true),
            nbtree::SPLIT_R => split::split(record, ctx, false),
            nbtree::DEDUP => rows::dedup(record, ctx),
            nbtree::VACUUM => rows::vacuum(record, ctx),
            nbtree::DELETE => rows::delete(record, ctx),
            nbtree::MARK_PAGE_HALFDEAD => deletion::mark_half_dead(record, ctx),
            nbtree::UNLINK_PAGE => deletion::unlink(record, ctx),
            nbtree::UNLINK_PAGE_META => {
                deletion::unlink(record, ctx)?;
                steps::make_meta(record, ctx, nbtree::UNLINK_META_BLOCK)
            }
            nbtree::META_CLEANUP => steps::make_meta(record, ctx, 0),
            nbtree::REUSE_PAGE => Ok(()),
            _ => Err(record.unsupported()),
        }
    }
}
