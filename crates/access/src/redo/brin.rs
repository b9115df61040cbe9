//! Redo of BRIN indexes.

use forebay_format::ItemPointer;
use forebay_format::brin::{self, Kind};
use forebay_format::index_page::{put_item, replace_item, vacate_item};
use forebay_format::wal::Rmgr;
use forebay_format::wal::brin::{
    self as kinds, BrinCreate, BrinDesummarize, BrinInsert, BrinUpdate, INIT_PAGE, MAP_BLOCK,
    OLD_BLOCK, OPMASK,
};
use forebay_format::wal::rmgr::INFO_RMGR_MASK;
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord, ResourceManager};

use super::pages::{change_page, make_page, payload, problem, reference};

/// Redoes changes of BRIN indexes.
pub(super) struct BrinRedo;

impl ResourceManager for BrinRedo {
    fn id(&self) -> Rmgr {
        Rmgr::BRIN
    }

    fn knows(&self, info: u8) -> bool {
        kinds::name(info & INFO_RMGR_MASK) != "UNKNOWN"
    }

    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        match record.kind() & OPMASK {
            kinds::CREATE_INDEX => create(record, ctx),
            kinds::INSERT => {
                let new = payload(record, BrinInsert::decode(record.record.main))?;
                insert(record, ctx, &new)
            }
            kinds::UPDATE => {
                let update = payload(record, BrinUpdate::decode(record.record.main))?;
                remove(record, ctx, OLD_BLOCK, update.old_item)?;
                insert(record, ctx, &update.insert)
            }
            kinds::SAMEPAGE_UPDATE => update_in_place(record, ctx),
            kinds::REVMAP_EXTEND => extend_map(record, ctx),
            kinds::DESUMMARIZE => {
                let gone = payload(record, BrinDesummarize::decode(record.record.main))?;
                set_place(record, ctx, 0, (gone.pages_per_range, gone.heap_block), None)?;
                remove(record, ctx, 1, gone.item)
            }
            _ => Err(record.unsupported()),
        }
    }
}

fn create(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let create = payload(record, BrinCreate::decode(record.record.main))?;
    make_page(ctx, record, 0, |page, _| {
        brin::init_meta(page, create.pages_per_range, create.version);
        Ok(())
    })
}

/// Adds a summary, and notes its place in the map.
fn insert(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    new: &BrinInsert,
) -> Result<(), RedoError> {
    let target = reference(record, 0)?;
    let init = record.record.header.info & INIT_PAGE != 0;
    change_page(ctx, record, 0, |page, _| {
        if init {
            brin::init_page(page, Kind::Regular);
        }
        Kind::Regular.check(page.page()).map_err(problem)?;
        put_item(page, new.item, target.data).map_err(problem)
    })?;
    let place = ItemPointer::new(target.tag.block, new.item);
    set_place(record, ctx, MAP_BLOCK, (new.pages_per_range, new.heap_block), Some(place))
}

/// Notes where the summary of a range is; `range` has the number of its blocks, and the first one.
fn set_place(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    id: u8,
    range: (u32, u32),
    place: Option<ItemPointer>,
) -> Result<(), RedoError> {
    let page = change_page(ctx, record, id, |page, _| {
        let place = place.unwrap_or(ItemPointer::INVALID);
        brin::set_place(page, range.0, range.1, place).map_err(problem)
    });
    page.map(drop)
}

/// Removes a summary.
fn remove(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    id: u8,
    item: u16,
) -> Result<(), RedoError> {
    let page = change_page(ctx, record, id, |page, _| {
        Kind::Regular.check(page.page()).map_err(problem)?;
        vacate_item(page, item).map_err(problem)
    });
    page.map(drop)
}

fn update_in_place(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let item = payload(record, kinds::decode_item(record.record.main))?;
    let target = reference(record, 0)?;
    let page = change_page(ctx, record, 0, |page, _| {
        Kind::Regular.check(page.page()).map_err(problem)?;
        replace_item(page, item, target.data).map_err(problem)
    });
    page.map(drop)
}

fn extend_map(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let block = payload(record, kinds::decode_map_block(record.record.main))?;
    let found = reference(record, 1)?.tag;
    if found.block != block {
        return Err(record.damaged(format!("{found} is not block {block}")));
    }
    change_page(ctx, record, 0, |page, _| brin::set_last_map(page, block).map_err(problem))?;
    make_page(ctx, record, 1, |page, _| {
        brin::init_page(page, Kind::Map);
        Ok(())
    })
}
