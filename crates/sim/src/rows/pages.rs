//! Checks a table on the disk: each page with its line pointers and chains of versions, the
//! visibility map, and what rows refer to in `pg_xact` and `pg_multixact`.
//!
//! It runs after recovery, which has written everything and left no transaction running. So a
//! transaction has committed, or counts as aborted.

use std::path::{Path, PathBuf};

use forebay_format::checksum::page_checksum;
use forebay_format::control::{self, ControlFile};
use forebay_format::ids::{BOOTSTRAP_XID, FIRST_NORMAL_XID, FROZEN_XID, xid_precedes};
use forebay_format::multixact::{self, Member, MultiXactId, multi_next, multi_precedes};
use forebay_format::page::{ItemState, stored_checksum};
use forebay_format::slru::{self, TransactionStatus};
use forebay_format::tuple::{HEAP_XMAX_COMMITTED, Xmax};
use forebay_format::visibility_map::{self as map, ALL_FROZEN, ALL_VISIBLE, BLOCKS_PER_PAGE};
use forebay_format::wal::xlog::CheckPoint;
use forebay_format::{
    BLOCK_SIZE, BlockNumber, Fork, HeapTuple, ItemPointer, OffsetNumber, Page, PageBytes,
    RelFileLocator, Xid, line_pointers,
};

use crate::disk::SimDisk;

/// Columns of the table.
const COLUMNS: usize = 3;

/// What the check of pages needs to know of transactions.
struct Cluster<'a> {
    disk: &'a SimDisk,
    dir: &'a Path,
    /// The counters of the last checkpoint, which ended recovery.
    counters: CheckPoint,
}

/// A tuple, as far as others of its page are concerned.
#[derive(Clone, Copy)]
struct Fact {
    xmin: Xid,
    inserted: bool,
    frozen: bool,
    /// The transaction that has updated or deleted it, if that has committed.
    updater: Option<Xid>,
    /// Whether xmax is anything but empty.
    touched: bool,
    ctid: ItemPointer,
    hot_updated: bool,
    heap_only: bool,
}

/// A line pointer.
#[derive(Clone, Copy)]
enum Item {
    Empty,
    Dead,
    Redirect(OffsetNumber),
    Tuple(Fact),
}

/// Checks a table's main fork and visibility map.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub(crate) fn check_pages(disk: &SimDisk, dir: &Path, rel: RelFileLocator) -> Result<(), String> {
    let control = disk.bytes(&dir.join(control::PATH)).unwrap_or_default();
    let control = ControlFile::decode(&control).map_err(|error| format!("pg_control: {error}"))?;
    let cluster = Cluster { disk, dir, counters: control.checkpoint_copy };
    let fork = |fork| disk.bytes(&dir.join(rel.path(fork))).unwrap_or_default();
    let (main, vm) = (fork(Fork::Main), fork(Fork::Vm));
    let (pages, maps) = (main.as_chunks::<BLOCK_SIZE>().0, vm.as_chunks::<BLOCK_SIZE>().0);
    let maps: Vec<Option<Page<'_>>> = (0..).zip(maps).map(map_page).collect();
    for (block, page) in (0..).zip(pages) {
        cluster
            .check_page(block, page, bits_of(&maps, block))
            .map_err(|what| format!("block {block}: {what}"))?;
    }
    let beyond = pages.len() as u32..maps.len() as u32 * BLOCKS_PER_PAGE;
    match beyond.into_iter().find(|&block| bits_of(&maps, block) != 0) {
        Some(block) => Err(format!("the visibility map has bits of block {block}, which is not")),
        None => Ok(()),
    }
}

/// A page of the map. One that is torn reads as empty.
fn map_page((number, bytes): (BlockNumber, &PageBytes)) -> Option<Page<'_>> {
    (page_checksum(bytes, number) == stored_checksum(bytes)).then(|| Page::new(bytes))
}

/// A block's bits in the map.
fn bits_of(maps: &[Option<Page<'_>>], block: BlockNumber) -> u8 {
    let page = maps.get(map::map_block(block) as usize).copied().flatten();
    page.map_or(0, |page| map::get(page, block))
}

impl Cluster<'_> {
    fn check_page(&self, block: BlockNumber, bytes: &PageBytes, bits: u8) -> Result<(), String> {
        let page = Page::new(bytes);
        if page.is_all_zeros() && bits == 0 {
            return Ok(());
        }
        if page_checksum(bytes, block) != stored_checksum(bytes) {
            return Err("the checksum is wrong".to_owned());
        }
        line_pointers::check(page).map_err(|error| error.to_string())?;
        let items: Vec<Item> = (1..=page.item_count())
            .map(|number| self.item(page, number).map_err(|what| format!("item {number}: {what}")))
            .collect::<Result<_, String>>()?;
        check_chains(&items, block)?;
        check_visible(&items, page.is_all_visible(), bits)
    }

    fn item(&self, page: Page<'_>, number: OffsetNumber) -> Result<Item, String> {
        let id = page.item_id(number).ok_or("there is no line pointer")?;
        Ok(match id.state {
            ItemState::Unused => Item::Empty,
            ItemState::Dead => Item::Dead,
            ItemState::Redirect => Item::Redirect(id.offset),
            ItemState::Normal => {
                let bytes = page.item(number).ok_or("it leads out of the page")?;
                let tuple = HeapTuple::new(bytes).map_err(|error| error.to_string())?;
                Item::Tuple(self.fact(tuple)?)
            }
        })
    }

    fn fact(&self, tuple: HeapTuple<'_>) -> Result<Fact, String> {
        if tuple.attribute_count() != COLUMNS || tuple.hoff() > tuple.bytes().len() {
            return Err("it is no row of the table".to_owned());
        }
        let frozen = tuple.xmin_frozen();
        let inserted = frozen || self.committed(tuple.xmin())?;
        if tuple.xmin_committed() && !inserted {
            return Err(format!("its hint says that {} has committed", tuple.xmin()));
        }
        let (kind, xmax) = (tuple.xmax_kind(), tuple.xmax());
        let updater = match kind {
            Xmax::None | Xmax::UpgradedLockers => None,
            Xmax::Transaction(status) => {
                let committed = self.committed(xmax)?;
                (status.is_update() && committed).then_some(xmax)
            }
            Xmax::Multi { lock_only } => self.multi_updater(xmax, lock_only)?,
        };
        if tuple.infomask() & HEAP_XMAX_COMMITTED != 0 && updater.is_none() {
            return Err(format!("its hint says that {xmax} has updated it"));
        }
        Ok(Fact {
            xmin: tuple.xmin(),
            inserted,
            frozen,
            updater,
            touched: kind != Xmax::None,
            ctid: tuple.ctid(),
            hot_updated: tuple.is_hot_updated(),
            heap_only: tuple.is_heap_only(),
        })
    }

    /// Whether a transaction has committed.
    fn committed(&self, xid: Xid) -> Result<bool, String> {
        if xid < FIRST_NORMAL_XID {
            return Ok(xid == BOOTSTRAP_XID || xid == FROZEN_XID);
        }
        let (oldest, next) = (self.counters.oldest_xid, self.counters.next_xid.xid());
        if xid_precedes(xid, oldest) || !xid_precedes(xid, next) {
            return Err(format!("transaction {xid} is not between {oldest} and {next}"));
        }
        let page = self.status_page("pg_xact", slru::xact_page(xid))?;
        Ok(slru::status(&page, xid) == TransactionStatus::Committed)
    }

    /// The updater of a MultiXact, if it has committed. All members are looked at.
    fn multi_updater(&self, multi: MultiXactId, lock_only: bool) -> Result<Option<Xid>, String> {
        let wrong = |what: String| format!("MultiXact {multi}: {what}");
        let mut updater = None;
        for Member { xid, status } in self.members(multi).map_err(wrong)? {
            let committed = self.committed(xid).map_err(wrong)?;
            if !status.is_update() {
                continue;
            }
            if lock_only || updater.is_some() {
                return Err(wrong(format!("{xid} updates, beside {updater:?}")));
            }
            updater = Some((xid, committed));
        }
        if updater.is_none() && !lock_only {
            return Err(wrong("nobody in it updates".to_owned()));
        }
        Ok(updater.filter(|(_, committed)| *committed).map(|(xid, _)| xid))
    }

    fn members(&self, multi: MultiXactId) -> Result<Vec<Member>, String> {
        let CheckPoint { oldest_multi, next_multi, next_multi_offset, .. } = self.counters;
        if multi_precedes(multi, oldest_multi) || !multi_precedes(multi, next_multi) {
            return Err(format!("it is not between {oldest_multi} and {next_multi}"));
        }
        let first = self.member_offset(multi)?;
        let next = multi_next(multi);
        let end = if next == next_multi { next_multi_offset } else { self.member_offset(next)? };
        if first == 0 || end <= first || end - first > 100 {
            return Err(format!("its members are {first}..{end}"));
        }
        let member = |at| {
            let page = self.status_page("pg_multixact/members", multixact::members_page(at))?;
            let member = multixact::member(&page, at).map_err(|error| error.to_string())?;
            member.ok_or_else(|| format!("member {at} is empty"))
        };
        (first..end).map(member).collect()
    }

    fn member_offset(&self, multi: MultiXactId) -> Result<u32, String> {
        let page = self.status_page("pg_multixact/offsets", multixact::offsets_page(multi))?;
        Ok(multixact::offset(&page, multi))
    }

    /// A page of a directory of status files.
    fn status_page(&self, dir: &str, page: i64) -> Result<PageBytes, String> {
        let path: PathBuf = self.dir.join(dir).join(slru::segment_name(slru::segment(page)));
        let bytes = self.disk.bytes(&path).unwrap_or_default();
        let at = slru::segment_offset(page) as usize;
        let found = bytes.get(at..).and_then(|rest| rest.first_chunk::<BLOCK_SIZE>());
        found.copied().ok_or_else(|| format!("page {page} of {dir} is missing"))
    }
}

/// Checks how the versions of rows follow each other.
fn check_chains(items: &[Item], block: BlockNumber) -> Result<(), String> {
    let at = |number: OffsetNumber| items.get(usize::from(number).wrapping_sub(1)).copied();
    // Where redirects and HOT updates lead.
    let mut reached: Vec<(OffsetNumber, Option<Xid>)> = Vec::new();
    for (number, item) in (1..).zip(items) {
        match *item {
            Item::Redirect(to) => reached.push((to, None)),
            Item::Tuple(Fact { hot_updated: true, updater: Some(by), inserted, ctid, .. })
                if inserted =>
            {
                let next = at(ctid.offset).filter(|_| ctid.block == block);
                let follows = |fact: Fact| fact.heap_only && fact.xmin == by;
                if !matches!(next, Some(Item::Tuple(fact)) if follows(fact)) {
                    return Err(format!("the HOT update of item {number} to {ctid} is not there"));
                }
                reached.push((ctid.offset, Some(by)));
            }
            _ => {}
        }
    }
    for (number, item) in (1..).zip(items) {
        let Item::Tuple(fact) = *item else { continue };
        let from = |&(to, by): &(OffsetNumber, Option<Xid>)| {
            to == number && by.is_none_or(|by| by == fact.xmin)
        };
        let lives = fact.inserted && fact.updater.is_none();
        if fact.heap_only && lives && !reached.iter().any(from) {
            return Err(format!("no chain leads to the heap-only tuple {number}"));
        }
    }
    Ok(())
}

/// Checks that the page and the map do not claim too much.
fn check_visible(items: &[Item], page_says: bool, bits: u8) -> Result<(), String> {
    if bits != 0 && !page_says {
        return Err("the map says all-visible, the page does not".to_owned());
    }
    if bits == ALL_FROZEN {
        return Err("the map says all-frozen, but not all-visible".to_owned());
    }
    for (number, item) in (1..).zip(items) {
        match *item {
            Item::Empty | Item::Redirect(_) => {}
            Item::Dead if page_says => return Err(format!("dead item {number} on a visible page")),
            Item::Dead => {}
            Item::Tuple(fact) => {
                let visible = fact.inserted && fact.updater.is_none();
                if page_says && !visible {
                    return Err(format!("item {number} is not visible, the page says it is"));
                }
                if bits & ALL_FROZEN != 0 && (!fact.frozen || fact.touched) {
                    return Err(format!("item {number} is not frozen, the map says it is"));
                }
            }
        }
    }
    debug_assert!(bits & !(ALL_VISIBLE | ALL_FROZEN) == 0);
    Ok(())
}
