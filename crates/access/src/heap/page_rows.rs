//! The rows of a page that index entries lead to.
//!
//! An entry leads to the first version of a HOT chain, or to a line pointer that redirects to one.
//! Of each chain a snapshot sees at most one version. Versions are copied, so the page is unlocked
//! and given up before they are used. If the outcome of a transaction must be looked up, which may
//! read a file, the page is copied and judged without its lock; the pin keeps vacuum from freezing
//! it meanwhile.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_aio as aio;
use forebay_format::page::ItemState;
use forebay_format::tuple::{HeapTuple, Xmax};
use forebay_format::{ItemPointer, OffsetNumber, Page, PageTag, Xid};
use forebay_storage::{Backend, Pinned};

use super::prune::Pruner;
use super::status::updater;
use super::tuple_at::{located, tuple_at};
use super::visibility::Visibility;
use crate::error::AccessError;

/// Versions of rows, copied from a page.
#[derive(Debug, Default)]
pub struct PageRows {
    bytes: Vec<u8>,
    rows: Vec<PageRow>,
}

/// A version of a row.
#[derive(Debug, Clone, Copy)]
pub struct PageRow {
    /// Its place.
    pub tid: ItemPointer,
    /// Which of the line pointers that were asked for leads to it, by index.
    pub asked: usize,
    start: usize,
    end: usize,
}

impl PageRows {
    /// The versions, in the order in which they were asked for.
    pub fn rows(&self) -> &[PageRow] {
        &self.rows
    }

    /// The bytes of one of them.
    pub fn tuple(&self, row: &PageRow) -> &[u8] {
        self.bytes.get(row.start..row.end).unwrap_or_default()
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
    }

    fn push(&mut self, tag: PageTag, asked: usize, (number, tuple): (OffsetNumber, HeapTuple<'_>)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(tuple.bytes());
        let tid = ItemPointer::new(tag.block, number);
        self.rows.push(PageRow { tid, asked, start, end: self.bytes.len() });
    }
}

/// Reads the rows of pages, as a snapshot sees them.
#[derive(Debug)]
pub struct RowReader {
    visibility: Visibility,
    pruner: Option<Pruner>,
    /// Whether pages are pruned.
    prunes: bool,
}

/// Whether a version is seen. None: that must be looked up.
type Judged = Result<Option<bool>, AccessError>;

/// How versions are judged.
trait Judge {
    fn sees(&mut self, tuple: HeapTuple<'_>) -> Judged;

    /// The transaction that made the next version. None: that must be looked up.
    fn updater(&mut self, tuple: HeapTuple<'_>) -> Result<Option<Option<Xid>>, AccessError>;
}

/// Without I/O, while the page is locked.
struct AtOnce<'a> {
    visibility: &'a mut Visibility,
    all_visible: bool,
}

impl Judge for AtOnce<'_> {
    #[inline]
    fn sees(&mut self, tuple: HeapTuple<'_>) -> Judged {
        if self.all_visible {
            return Ok(Some(true));
        }
        let header = tuple.bytes().first_chunk();
        Ok(header.and_then(|header| self.visibility.sees_at_once(header)))
    }

    fn updater(&mut self, tuple: HeapTuple<'_>) -> Result<Option<Option<Xid>>, AccessError> {
        Ok(match tuple.xmax_kind() {
            Xmax::Transaction(status) => Some(status.is_update().then(|| tuple.xmax())),
            Xmax::Multi { lock_only: false } => None,
            Xmax::None | Xmax::UpgradedLockers | Xmax::Multi { lock_only: true } => Some(None),
        })
    }
}

/// With all that it takes.
struct LookingUp<'a> {
    visibility: &'a mut Visibility,
    io: &'a mut aio::IoBackend,
}

impl Judge for LookingUp<'_> {
    fn sees(&mut self, tuple: HeapTuple<'_>) -> Judged {
        self.visibility.sees(self.io, tuple).map(Some)
    }

    fn updater(&mut self, tuple: HeapTuple<'_>) -> Result<Option<Option<Xid>>, AccessError> {
        updater(self.io, self.visibility, tuple).map(Some)
    }
}

/// What a line pointer leads to.
enum Reached<'p> {
    Version(OffsetNumber, HeapTuple<'p>),
    Nothing,
    /// That must be looked up.
    Unsure,
}

impl RowReader {
    /// Reads what `visibility` sees. With a `pruner`, pages are pruned before.
    pub fn new(visibility: Visibility, pruner: Option<Pruner>) -> RowReader {
        RowReader { visibility, pruner, prunes: true }
    }

    /// Leaves pages as they are: the pruner only finds rows that nobody sees any more.
    pub fn without_pruning(self) -> RowReader {
        RowReader { prunes: false, ..self }
    }

    /// Finds the versions that are seen of the rows at these line pointers. The caller has no other
    /// pin on the page, and no lock.
    pub fn read(
        &mut self,
        backend: &mut Backend,
        pin: &Pinned,
        asked: &[OffsetNumber],
        found: &mut PageRows,
    ) -> Result<(), AccessError> {
        self.prune(backend, pin)?;
        self.find(backend, pin, found, |_| asked.iter().copied())
    }

    /// Finds the versions that are seen of all rows of a page.
    pub fn read_all(
        &mut self,
        backend: &mut Backend,
        pin: &Pinned,
        found: &mut PageRows,
    ) -> Result<(), AccessError> {
        self.prune(backend, pin)?;
        self.find(backend, pin, found, |page| 1..=page.item_count())
    }

    fn prune(&mut self, backend: &mut Backend, pin: &Pinned) -> Result<(), AccessError> {
        match &mut self.pruner {
            Some(pruner) if self.prunes => pruner.prune(backend, pin),
            Some(_) | None => Ok(()),
        }
    }

    fn find<I: Iterator<Item = OffsetNumber>>(
        &mut self,
        backend: &mut Backend,
        pin: &Pinned,
        found: &mut PageRows,
        asked: impl Fn(Page<'_>) -> I,
    ) -> Result<(), AccessError> {
        let RowReader { visibility, .. } = self;
        let tag = pin.tag();
        let guard = pin.lock_shared();
        let all_visible = guard.page().is_all_visible();
        let at_once = AtOnce { visibility, all_visible };
        if search(guard.page(), tag, asked(guard.page()), at_once, found)? {
            return Ok(());
        }
        visibility.keep_multis();
        let copy = guard.copy();
        drop(guard);
        let page = Page::new(&copy);
        let looking_up = LookingUp { visibility, io: &mut backend.io };
        let all_known = search(page, tag, asked(page), looking_up, found)?;
        assert!(all_known, "what was looked up is known");
        Ok(())
    }

    /// Adds to `gone` those of the line pointers, by index, whose rows were not found and are seen
    /// by nobody any more.
    pub fn find_gone(
        &mut self,
        backend: &mut Backend,
        pin: &Pinned,
        asked: &[OffsetNumber],
        found: &PageRows,
        gone: &mut Vec<usize>,
    ) -> Result<(), AccessError> {
        let Some(pruner) = &mut self.pruner else { return Ok(()) };
        if found.rows.len() == asked.len() {
            return Ok(());
        }
        let (tag, copy) = (pin.tag(), pin.lock_shared().copy());
        let mut seen = found.rows.iter().map(|row| row.asked).peekable();
        for (index, &number) in asked.iter().enumerate() {
            if seen.next_if_eq(&index).is_some() {
                continue;
            }
            let tid = ItemPointer::new(tag.block, number);
            let is_gone = pruner.is_gone(backend, Page::new(&copy), tid);
            if is_gone.map_err(|error| located(tag, number, error))? {
                gone.push(index);
            }
        }
        Ok(())
    }
}

/// Finds the versions that are seen. Returns false if something must be looked up.
fn search(
    page: Page<'_>,
    tag: PageTag,
    asked: impl Iterator<Item = OffsetNumber>,
    mut judge: impl Judge,
    found: &mut PageRows,
) -> Result<bool, AccessError> {
    found.clear();
    for (index, number) in asked.enumerate() {
        let reached = follow(page, tag, number, &mut judge);
        match reached.map_err(|error| located(tag, number, error))? {
            Reached::Version(at, tuple) => found.push(tag, index, (at, tuple)),
            Reached::Nothing => {}
            Reached::Unsure => return Ok(false),
        }
    }
    Ok(true)
}

/// Follows the HOT chain that a line pointer leads to.
#[inline]
fn follow<'p>(
    page: Page<'p>,
    tag: PageTag,
    number: OffsetNumber,
    judge: &mut impl Judge,
) -> Result<Reached<'p>, AccessError> {
    let (mut at, mut by) = (number, None::<Xid>);
    if let Some(id) = page.item_id(number).filter(|id| id.state == ItemState::Redirect) {
        at = id.offset;
    }
    for _ in 0..page.item_count() {
        let Some(tuple) = tuple_at(page, tag, at)? else { break };
        if by.is_some_and(|by| tuple.xmin() != by) || at == number && tuple.is_heap_only() {
            // The chain ended before, and the place was used again.
            break;
        }
        match judge.sees(tuple)? {
            Some(true) => return Ok(Reached::Version(at, tuple)),
            Some(false) => {}
            None => return Ok(Reached::Unsure),
        }
        if !tuple.is_hot_updated() {
            break;
        }
        match judge.updater(tuple)? {
            Some(None) => break,
            Some(next_by) => by = next_by,
            None => return Ok(Reached::Unsure),
        }
        at = tuple.ctid().offset;
    }
    Ok(Reached::Nothing)
}
