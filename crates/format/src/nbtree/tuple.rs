//! What index tuples mean on nbtree pages.
//!
//! ```text
//!   plain:    heap TID                   | info         | all values
//!   posting:  offset of list, count      | info, bit 13 | all values | heap TIDs, ascending
//!   pivot:    child block, key columns   | info, bit 13 | some values | [pad, heap TID]
//! ```
//!
//! The tid of a posting list or a pivot has two numbers: instead of a block, and instead of a line
//! pointer, with flags in its four highest bits:
//!
//! - plain: points to a row
//! - posting: points to several rows with equal values
//! - pivot: separates keys, as a high key or as an item that leads to a child. Columns at the end
//!   that are not needed to separate are left out, and count as less than any value; so does the
//!   heap TID, the last column of all.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use super::NbtreeError;
use crate::{
    bytes::{max_align, put},
    ids::{BlockNumber, INVALID_BLOCK, ItemPointer},
    index_tuple::{
        self, HEADER_SIZE, INDEX_AM_RESERVED_BIT, INDEX_NULL_MASK, INDEX_SIZE_MASK, INDEX_VAR_MASK,
        IndexTuple,
    },
    tuple::{AttrLayout, Deform, TupleError},
};

/// Bits of the tid's line pointer that hold a count.
const COUNT_MASK: u16 = 0x0fff;
/// The pivot ends in a heap TID.
const PIVOT_HEAP_TID: u16 = 0x1000;
/// The tuple is a posting list.
const IS_POSTING: u16 = 0x2000;

const _: () = assert!(COUNT_MASK & (PIVOT_HEAP_TID | IS_POSTING) == 0);

/// What a tuple is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TupleKind {
    /// It points to a row.
    Plain,
    /// It points to several rows.
    Posting,
    /// It separates keys.
    Pivot,
}

/// A tuple of an nbtree page, to read. Its posting list or heap TID is inside of it.
///
/// In indexes before version 4 pivots look like plain tuples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuple<'a> {
    tuple: IndexTuple<'a>,
    kind: TupleKind,
    /// Heap TIDs of a posting list, or of a pivot.
    tids: &'a [[u8; ItemPointer::SIZE]],
}

impl<'a> Tuple<'a> {
    /// Views the tuple at the beginning of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, NbtreeError> {
        let tuple = IndexTuple::new(bytes)?;
        if tuple.info() & INDEX_AM_RESERVED_BIT == 0 {
            return Ok(Self { tuple, kind: TupleKind::Plain, tids: &[] });
        }
        let ItemPointer { block, offset: bits } = tuple.tid();
        let (kind, count, offset) = if bits & IS_POSTING != 0 {
            let offset = usize::try_from(block).unwrap_or(usize::MAX);
            (TupleKind::Posting, usize::from(bits & COUNT_MASK), offset)
        } else if bits & PIVOT_HEAP_TID != 0 {
            (TupleKind::Pivot, 1, tuple.size().saturating_sub(ItemPointer::SIZE))
        } else {
            return Ok(Self { tuple, kind: TupleKind::Pivot, tids: &[] });
        };
        let list = offset..offset.saturating_add(count * ItemPointer::SIZE);
        let list = tuple.bytes().get(list).filter(|list| {
            offset >= tuple.values_offset()
                && !list.is_empty()
                && (kind == TupleKind::Pivot || offset % 8 == 0)
        });
        let size = tuple.size();
        let list = list.ok_or(NbtreeError::PostingBounds { count, offset, size })?;
        Ok(Self { tuple, kind, tids: list.as_chunks().0 })
    }

    /// What it is.
    #[inline]
    pub const fn kind(&self) -> TupleKind {
        self.kind
    }

    /// Whether it separates keys.
    #[inline]
    pub fn is_pivot(&self) -> bool {
        self.kind == TupleKind::Pivot
    }

    /// Whether it points to several rows.
    #[inline]
    pub fn is_posting(&self) -> bool {
        self.kind == TupleKind::Posting
    }

    /// All its bytes.
    #[inline]
    pub const fn bytes(&self) -> &'a [u8] {
        self.tuple.bytes()
    }

    /// Its size, header and posting list included.
    #[inline]
    pub const fn size(&self) -> usize {
        self.tuple.size()
    }

    /// The child that it leads to, if it is an item of a page above the leaves.
    #[inline]
    pub fn down_link(&self) -> BlockNumber {
        self.tuple.tid().block
    }

    /// In the high key of a half-dead leaf: the highest page of the branch that is being deleted,
    /// or none if that is the leaf itself.
    pub fn top_parent(&self) -> Option<BlockNumber> {
        Some(self.down_link()).filter(|&block| block != INVALID_BLOCK)
    }

    /// Number of its columns, in an index with `columns` columns. A pivot has only key columns, and
    /// perhaps not all of them.
    #[inline]
    pub fn column_count(&self, columns: usize) -> usize {
        if self.is_pivot() { usize::from(self.tuple.tid().offset & COUNT_MASK) } else { columns }
    }

    /// Iterates over its values, in an index with `columns` columns. Columns that a pivot does not
    /// have are `None`, like NULLs; see [`column_count`](Self::column_count).
    #[inline]
    pub fn values(&self, columns: usize) -> Deform<'a> {
        self.tuple.values(self.column_count(columns))
    }

    /// The only or the first row that it points to; the heap TID of a pivot, if it has one.
    #[inline]
    pub fn heap_tid(&self) -> Option<ItemPointer> {
        self.bound(|tids| tids.first())
    }

    /// The only or the last row that it points to; the heap TID of a pivot, if it has one.
    #[inline]
    pub fn max_heap_tid(&self) -> Option<ItemPointer> {
        self.bound(|tids| tids.last())
    }

    #[inline]
    fn bound(
        &self,
        of: fn(&'a [[u8; ItemPointer::SIZE]]) -> Option<&'a [u8; ItemPointer::SIZE]>,
    ) -> Option<ItemPointer> {
        match self.kind {
            TupleKind::Plain => Some(self.tuple.tid()),
            _ => of(self.tids).copied().map(ItemPointer::decode),
        }
    }

    /// All rows that it points to.
    pub fn heap_tids(&self) -> impl DoubleEndedIterator<Item = ItemPointer> + Clone + 'a {
        let own = (self.kind == TupleKind::Plain).then(|| self.tuple.tid());
        let list = if self.is_posting() { self.tids } else { &[] };
        own.into_iter().chain(list.iter().copied().map(ItemPointer::decode))
    }

    /// Number of rows that it points to.
    #[inline]
    pub const fn heap_tid_count(&self) -> usize {
        match self.kind {
            TupleKind::Plain => 1,
            TupleKind::Posting => self.tids.len(),
            TupleKind::Pivot => 0,
        }
    }

    /// Size without the posting list.
    #[inline]
    pub fn key_size(&self) -> usize {
        if self.is_posting() { self.tuple.tid().block as usize } else { self.size() }
    }

    /// Header and values, in a buffer for a tuple of `size` bytes.
    fn key_in(&self, size: usize) -> Result<Vec<u8>, NbtreeError> {
        let info = resized(self.tuple.info() & !INDEX_AM_RESERVED_BIT, size)?;
        let mut out = vec![0; size];
        let key = self.bytes().get(..self.key_size()).expect("the key is inside of the tuple");
        out.get_mut(..key.len()).expect("the key fits").copy_from_slice(key);
        index_tuple::set_info(&mut out, info);
        Ok(out)
    }
}

fn resized(info: u16, size: usize) -> Result<u16, NbtreeError> {
    let large = index_tuple::IndexTupleError::TooLarge { len: size };
    let size = u16::try_from(size).ok().filter(|&size| size <= INDEX_SIZE_MASK).ok_or(large)?;
    Ok(info & !INDEX_SIZE_MASK | size)
}

/// Sets the child that an item leads to.
///
/// # Panics
/// If the bytes are shorter than a tuple's header.
pub fn set_down_link(tuple: &mut [u8], child: BlockNumber) {
    let (high, low) = ((child >> 16) as u16, child as u16);
    put(tuple, 0, high.to_le_bytes());
    put(tuple, 2, low.to_le_bytes());
}

/// A pivot without columns that leads to a child: less than any key.
pub fn minus_infinity(child: BlockNumber) -> [u8; HEADER_SIZE] {
    let mut out = [0; HEADER_SIZE];
    set_down_link(&mut out, child);
    index_tuple::set_info(&mut out, HEADER_SIZE as u16 | INDEX_AM_RESERVED_BIT);
    out
}

/// The high key of a half-dead leaf; see [`Tuple::top_parent`].
pub fn half_dead_high_key(top_parent: Option<BlockNumber>) -> [u8; HEADER_SIZE] {
    minus_infinity(top_parent.unwrap_or(INVALID_BLOCK))
}

/// Forms the pivot that separates two leaves, from the first tuple of the right one. It keeps
/// `columns` columns, which `attrs` describes, and ends in a heap TID if one is given. The child
/// is not set.
pub fn form_pivot(
    first_right: &Tuple<'_>,
    attrs: &[AttrLayout],
    columns: usize,
    heap_tid: Option<ItemPointer>,
) -> Result<Vec<u8>, NbtreeError> {
    let layouts = attrs.len();
    let kept = attrs.get(..columns).filter(|_| columns <= first_right.column_count(layouts));
    let kept = kept.ok_or(TupleError::WrongCount { values: columns, layouts })?;
    let mut values = first_right.values(layouts);
    let (mut has_null, mut has_var) = (false, false);
    for attr in kept {
        let value = values.next(*attr)?;
        has_null |= value.is_none();
        has_var |= value.is_some() && attr.len < 0;
    }
    let from = first_right.tuple.values_offset();
    let stored = first_right.bytes().get(from..values.offset()).unwrap_or_default();
    let null = if has_null { INDEX_NULL_MASK } else { 0 };
    let var = if has_var { INDEX_VAR_MASK } else { 0 };
    let mut out = vec![0; index_tuple::values_offset(null)];
    if has_null {
        let bitmap = HEADER_SIZE..HEADER_SIZE + index_tuple::MAX_ATTRIBUTES / 8;
        let theirs = first_right.bytes().get(bitmap.clone());
        let ours = out.get_mut(bitmap);
        ours.zip(theirs).map(|(to, from)| to.copy_from_slice(from)).expect("both have NULLs");
        clear_bits_from(&mut out, columns);
    }
    out.extend_from_slice(stored);
    out.resize(max_align(out.len()), 0);
    if let Some(tid) = heap_tid {
        out.resize(out.len() + max_align(ItemPointer::SIZE), 0);
        let at = out.len() - ItemPointer::SIZE;
        put(&mut out, at, tid.encode());
    }
    let info = resized(INDEX_AM_RESERVED_BIT | null | var, out.len())?;
    index_tuple::set_info(&mut out, info);
    let flag = if heap_tid.is_some() { PIVOT_HEAP_TID } else { 0 };
    let block = first_right.down_link();
    index_tuple::set_tid(&mut out, ItemPointer::new(block, columns as u16 | flag));
    Ok(out)
}

/// Clears the bits of the null bitmap behind the first `columns`.
fn clear_bits_from(tuple: &mut [u8], columns: usize) {
    let bitmap = tuple.iter_mut().skip(HEADER_SIZE).take(index_tuple::MAX_ATTRIBUTES / 8);
    for (index, byte) in bitmap.enumerate() {
        let kept = columns.saturating_sub(index * 8).min(8);
        *byte &= ((1_u16 << kept) - 1) as u8;
    }
}

/// Forms a tuple with the values of `base`, a plain one or one with a posting list, that points to
/// the given rows, which must ascend. With one row it is a plain tuple.
pub fn form_posting(base: &Tuple<'_>, tids: &[ItemPointer]) -> Result<Vec<u8>, NbtreeError> {
    if base.is_pivot() {
        return Err(NbtreeError::Pivot);
    }
    let key = base.key_size();
    match tids {
        [] => Err(NbtreeError::NoPosting { index: 0 }),
        [tid] => {
            let mut out = base.key_in(key)?;
            index_tuple::set_tid(&mut out, *tid);
            Ok(out)
        }
        _ => {
            let count = u16::try_from(tids.len()).ok().filter(|&count| count <= COUNT_MASK);
            let count = count.ok_or(NbtreeError::NoPosting { index: tids.len() })?;
            let list = max_align(key);
            let mut out = base.key_in(max_align(list + tids.len() * ItemPointer::SIZE))?;
            let info = IndexTuple::new(&out)?.info();
            index_tuple::set_info(&mut out, info | INDEX_AM_RESERVED_BIT);
            index_tuple::set_tid(&mut out, ItemPointer::new(list as u32, count | IS_POSTING));
            put_tids(&mut out, list, tids);
            Ok(out)
        }
    }
}

fn put_tids(tuple: &mut [u8], list: usize, tids: &[ItemPointer]) {
    let places = tuple.get_mut(list..).expect("the list fits").as_chunks_mut().0;
    places.iter_mut().zip(tids).for_each(|(place, tid)| *place = tid.encode());
}

/// Splits a posting list for a tuple whose heap TID belongs before the one at `index`, which is
/// neither the first place nor behind the last. Returns the posting list with the new heap TID
/// instead of its greatest, and the new tuple with that one.
pub fn split_posting(
    posting: &Tuple<'_>,
    new: &Tuple<'_>,
    index: usize,
) -> Result<(Vec<u8>, Vec<u8>), NbtreeError> {
    let count = posting.heap_tid_count();
    if !posting.is_posting() || index == 0 || index >= count || new.kind() != TupleKind::Plain {
        return Err(NbtreeError::NoPosting { index });
    }
    let mut tids: Vec<_> = posting.heap_tids().collect();
    tids.insert(index, new.tuple.tid());
    let last = tids.pop().expect("at least two");
    let mut list = posting.bytes().to_vec();
    put_tids(&mut list, posting.key_size(), &tids);
    let mut single = new.bytes().to_vec();
    index_tuple::set_tid(&mut single, last);
    Ok((list, single))
}

/// Removes rows from a posting list: those with these indexes, which must ascend. At least one row
/// must be left.
pub fn update_posting(posting: &Tuple<'_>, deleted: &[u16]) -> Result<Vec<u8>, NbtreeError> {
    let count = posting.heap_tid_count();
    let bad = deleted.iter().zip(deleted.iter().skip(1)).find(|(a, b)| a >= b).map(|(_, b)| b);
    let bad = bad.or(deleted.last().filter(|&&index| usize::from(index) >= count));
    if let Some(&index) = bad.or(deleted.first().filter(|_| !posting.is_posting())) {
        return Err(NbtreeError::NoPosting { index: usize::from(index) });
    }
    let mut deleted = deleted.iter().map(|&index| usize::from(index)).peekable();
    let left = posting.heap_tids().enumerate();
    let left: Vec<_> =
        left.filter(|(index, _)| deleted.next_if_eq(index).is_none()).map(|(_, tid)| tid).collect();
    form_posting(posting, &left)
}
