//! Brings a record's page to its state after the record.
//!
//! | the record has | the page | what is done |
//! |---|---|---|
//! | an image | any, or missing | the image is restored; few records change it then |
//! | "will init" | any, or missing | zeros, then the change |
//! | neither | missing, or never used | noted as missing |
//! | neither | as new as the record, or newer | nothing |
//! | neither | older | the change |

use std::borrow::Cow;

use forebay_format::wal::{BlockRef, PayloadError};
use forebay_format::{Lsn, PageTag, page::PageMut};
use forebay_storage::{Pinned, StorageError, Strategy};
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord};

use crate::maps;

/// Why a record does not apply to a page.
pub(super) type Problem = Cow<'static, str>;

/// What a decoder or a page says is wrong.
pub(super) fn problem(error: impl ToString) -> Problem {
    error.to_string().into()
}

/// A page after a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Redone {
    /// Whether the change was applied. If not, the record has an image of the page, or the page was
    /// new enough.
    pub(super) changed: bool,
    /// Space for one more heap tuple.
    pub(super) free: usize,
}

/// Applies a record to the page of its block reference `id`. `change` gets the page, which is all
/// zeros if the record initializes it. If `change` fails the page counts as unchanged. None if the
/// page does not exist.
pub(super) fn change_page(
    ctx: &mut RedoContext<'_>,
    record: &RedoRecord<'_>,
    id: u8,
    change: impl FnOnce(&mut PageMut<'_>, PageTag) -> Result<(), Problem>,
) -> Result<Option<Redone>, RedoError> {
    apply(ctx, record, id, How { sets_lsn: true, changes_image: false }, change)
}

/// The same for a change that the page's image, if there is one, does not have.
pub(super) fn change_page_or_image(
    ctx: &mut RedoContext<'_>,
    record: &RedoRecord<'_>,
    id: u8,
    change: impl FnOnce(&mut PageMut<'_>, PageTag) -> Result<(), Problem>,
) -> Result<Option<Redone>, RedoError> {
    apply(ctx, record, id, How { sets_lsn: true, changes_image: true }, change)
}

/// Restores the page of a record's block reference `id`, which must have an image.
pub(super) fn require_image(
    ctx: &mut RedoContext<'_>,
    record: &RedoRecord<'_>,
    id: u8,
) -> Result<(), RedoError> {
    let block = reference(record, id)?;
    if !block.image.is_some_and(|image| image.apply()) {
        return Err(record.damaged(format!("{} has no image", block.tag)));
    }
    restore_image(ctx, record, block).map(drop)
}

/// Restores the page of a record's block reference `id`, if there is one and it has an image.
pub(super) fn restore_if_image(
    ctx: &mut RedoContext<'_>,
    record: &RedoRecord<'_>,
    id: u8,
) -> Result<(), RedoError> {
    let block = record.record.block(id);
    match block.filter(|block| block.image.is_some_and(|image| image.apply())) {
        Some(block) => restore_image(ctx, record, block).map(drop),
        None => Ok(()),
    }
}

/// Sets a hint on the page of a record's block reference `id`. Without checksums a hint leaves the
/// page its LSN.
pub(super) fn mark_page(
    ctx: &mut RedoContext<'_>,
    record: &RedoRecord<'_>,
    id: u8,
    mark: impl FnOnce(&mut PageMut<'_>),
) -> Result<Option<Redone>, RedoError> {
    let how = How { sets_lsn: ctx.pool.has_checksums(), changes_image: false };
    apply(ctx, record, id, how, |page, _| {
        mark(page);
        Ok(())
    })
}

/// How a change is applied.
#[derive(Debug, Clone, Copy)]
struct How {
    /// Whether the page gets the record's LSN.
    sets_lsn: bool,
    /// Whether a page that was restored from its image is changed, too.
    changes_image: bool,
}

fn apply(
    ctx: &mut RedoContext<'_>,
    record: &RedoRecord<'_>,
    id: u8,
    how: How,
    change: impl FnOnce(&mut PageMut<'_>, PageTag) -> Result<(), Problem>,
) -> Result<Option<Redone>, RedoError> {
    let block = reference(record, id)?;
    let restored = block.image.is_some_and(|image| image.apply());
    if restored {
        let free = restore_image(ctx, record, block)?;
        if !how.changes_image {
            return Ok(Some(Redone { changed: false, free }));
        }
    }
    let tag = block.tag;
    let storage = |source: StorageError| RedoError::Storage { lsn: record.start, source };
    let pin = if block.will_init {
        zeroed(ctx, tag).map_err(storage)?
    } else {
        match existing(ctx, tag).map_err(storage)? {
            Some(pin) => pin,
            None => {
                ctx.note_missing(tag);
                return Ok(None);
            }
        }
    };
    let mut guard = pin.lock_exclusive();
    if !block.will_init && !restored {
        if guard.page().is_new() {
            ctx.note_missing(tag);
            return Ok(None);
        }
        let mut limit = record.end;
        forebay_aio::planted_bug!(ctx.backend.io.aio(), RedoSkipsLastRecord, limit = record.start);
        forebay_aio::planted_bug!(ctx.backend.io.aio(), RedoIgnoresPageLsn, limit = Lsn(u64::MAX));
        if guard.page().lsn() >= limit {
            return Ok(Some(Redone { changed: false, free: guard.page().heap_free_space() }));
        }
    }
    change(&mut guard.page_mut(), tag).map_err(|problem| RedoError::Page {
        lsn: record.start,
        tag,
        problem: problem.into_owned(),
    })?;
    let mut lsn = if how.sets_lsn { record.end } else { guard.page().lsn() };
    forebay_aio::planted_bug!(ctx.backend.io.aio(), RedoKeepsOldPageLsn, lsn = guard.page().lsn());
    guard.set_lsn(lsn);
    guard.mark_dirty();
    Ok(Some(Redone { changed: true, free: guard.page().heap_free_space() }))
}

/// Applies a record to a page of the visibility map. A page that is missing, or damaged, begins
/// empty. `change` tells whether it changed something.
pub(super) fn change_map_page(
    ctx: &mut RedoContext<'_>,
    record: &RedoRecord<'_>,
    id: u8,
    change: impl FnOnce(&mut PageMut<'_>) -> bool,
) -> Result<(), RedoError> {
    let block = reference(record, id)?;
    if block.image.is_some_and(|image| image.apply()) {
        return restore_image(ctx, record, block).map(drop);
    }
    let pin = maps::read_for_redo(ctx.pool, ctx.backend, block.tag)
        .map_err(|source| RedoError::Storage { lsn: record.start, source })?;
    let mut guard = pin.lock_exclusive();
    if guard.page().lsn() >= record.end {
        return Ok(());
    }
    if guard.page().is_new() {
        guard.page_mut().init(0);
    }
    if change(&mut guard.page_mut()) {
        guard.set_lsn(record.end);
        guard.mark_dirty();
    }
    Ok(())
}

/// The decoded contents of a record.
pub(super) fn payload<T>(
    record: &RedoRecord<'_>,
    decoded: Result<T, PayloadError>,
) -> Result<T, RedoError> {
    decoded.map_err(|error| record.damaged(error.to_string()))
}

/// Makes the page of a record's block reference `id` anew. `make` gets a page of zeros.
pub(super) fn make_page(
    ctx: &mut RedoContext<'_>,
    record: &RedoRecord<'_>,
    id: u8,
    make: impl FnOnce(&mut PageMut<'_>, PageTag) -> Result<(), Problem>,
) -> Result<(), RedoError> {
    let block = reference(record, id)?;
    if !block.will_init && block.image.is_none() {
        let tag = block.tag;
        return Err(record.damaged(format!("{tag} should be initialized")));
    }
    change_page(ctx, record, id, make).map(drop)
}

/// A block reference.
pub(super) fn reference<'a>(
    record: &'a RedoRecord<'_>,
    id: u8,
) -> Result<&'a BlockRef<'a>, RedoError> {
    let block = record.record.block(id);
    block.ok_or_else(|| record.damaged(format!("there is no block reference {id}")))
}

/// Replaces a page by its image in a record. Returns its space for one more heap tuple.
pub(super) fn restore_image(
    ctx: &mut RedoContext<'_>,
    record: &RedoRecord<'_>,
    block: &BlockRef<'_>,
) -> Result<usize, RedoError> {
    let Some(image) = block.image else {
        return Err(record.damaged("there is no image"));
    };
    forebay_aio::planted_bug!(ctx.backend.io.aio(), RedoIgnoresImages, return Ok(0));
    let mut bytes = Box::new([0; forebay_format::BLOCK_SIZE]);
    image.restore(&mut bytes).map_err(|error| record.damaged(error.to_string()))?;
    let pin = zeroed(ctx, block.tag)
        .map_err(|source| RedoError::Storage { lsn: record.start, source })?;
    let mut guard = pin.lock_exclusive();
    guard.copy_from_slice(&bytes[..]);
    if !guard.page().is_new() {
        guard.set_lsn(record.end);
    }
    guard.mark_dirty();
    Ok(guard.page().heap_free_space())
}

/// The page as zeros. Creates its file, and the page, if they do not exist.
fn zeroed(ctx: &mut RedoContext<'_>, tag: PageTag) -> Result<Pinned, StorageError> {
    ctx.note_found(tag);
    ctx.pool.smgr().create(tag.rel, tag.fork, true)?;
    ctx.pool.zero_page(ctx.backend, tag)
}

/// The page, if it exists.
fn existing(ctx: &mut RedoContext<'_>, tag: PageTag) -> Result<Option<Pinned>, StorageError> {
    let smgr = ctx.pool.smgr();
    if !smgr.exists(tag.rel, tag.fork)? || tag.block >= smgr.nblocks(tag.rel, tag.fork)? {
        return Ok(None);
    }
    ctx.pool.read(ctx.backend, tag, Strategy::Normal).map(Some)
}
