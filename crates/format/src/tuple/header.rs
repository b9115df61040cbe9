//! The header of a heap tuple.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{field, put, u16_field, u32_field},
    ids::{CommandId, ItemPointer, Xid},
};

/// Bytes of the header without the null bitmap.
pub const HEADER_SIZE: usize = 23;

/// Infomask: some values are NULL, so there is a bitmap.
pub const HEAP_HASNULL: u16 = 0x0001;
/// Infomask: has values of variable length.
pub const HEAP_HASVARWIDTH: u16 = 0x0002;
/// Infomask: has values stored in a TOAST table.
pub const HEAP_HASEXTERNAL: u16 = 0x0004;
/// Infomask: has an object id (by old versions).
pub const HEAP_HASOID_OLD: u16 = 0x0008;
/// Infomask: xmax is a key-share locker.
pub const HEAP_XMAX_KEYSHR_LOCK: u16 = 0x0010;
/// Infomask: cid represents a pair of commands.
pub const HEAP_COMBOCID: u16 = 0x0020;
/// Infomask: xmax is an exclusive locker.
pub const HEAP_XMAX_EXCL_LOCK: u16 = 0x0040;
/// Infomask: xmax only locked.
pub const HEAP_XMAX_LOCK_ONLY: u16 = 0x0080;
/// Infomask: xmax is a share locker.
pub const HEAP_XMAX_SHR_LOCK: u16 = HEAP_XMAX_EXCL_LOCK | HEAP_XMAX_KEYSHR_LOCK;
/// Infomask: all kinds of lockers.
pub const HEAP_LOCK_MASK: u16 = HEAP_XMAX_SHR_LOCK;
/// Infomask (hint): xmin committed.
pub const HEAP_XMIN_COMMITTED: u16 = 0x0100;
/// Infomask (hint): xmin aborted.
pub const HEAP_XMIN_INVALID: u16 = 0x0200;
/// Infomask: xmin is visible to all transactions.
pub const HEAP_XMIN_FROZEN: u16 = HEAP_XMIN_COMMITTED | HEAP_XMIN_INVALID;
/// Infomask (hint): xmax committed.
pub const HEAP_XMAX_COMMITTED: u16 = 0x0400;
/// Infomask: there is no xmax, or it aborted.
pub const HEAP_XMAX_INVALID: u16 = 0x0800;
/// Infomask: xmax is a MultiXact.
pub const HEAP_XMAX_IS_MULTI: u16 = 0x1000;
/// Infomask: the newer version of an updated row.
pub const HEAP_UPDATED: u16 = 0x2000;
/// Infomask: moved off by VACUUM FULL of an old version.
pub const HEAP_MOVED_OFF: u16 = 0x4000;
/// Infomask: moved in by VACUUM FULL of an old version.
pub const HEAP_MOVED_IN: u16 = 0x8000;
/// Infomask: all bits about visibility.
pub const HEAP_XACT_MASK: u16 = 0xfff0;
/// Infomask: all bits about xmax.
pub const HEAP_XMAX_BITS: u16 = HEAP_XMAX_COMMITTED
    | HEAP_XMAX_INVALID
    | HEAP_XMAX_IS_MULTI
    | HEAP_LOCK_MASK
    | HEAP_XMAX_LOCK_ONLY;

/// Infomask2: number of values.
pub const HEAP_NATTS_MASK: u16 = 0x07ff;
/// Infomask2: deleted, or updated in key columns.
pub const HEAP_KEYS_UPDATED: u16 = 0x2000;
/// Infomask2: has a newer version on the same page that no index points to.
pub const HEAP_HOT_UPDATED: u16 = 0x4000;
/// Infomask2: no index points to it.
pub const HEAP_ONLY_TUPLE: u16 = 0x8000;
/// Infomask2: all bits about visibility.
pub const HEAP2_XACT_MASK: u16 = 0xe000;

const XMAX_AT: usize = 4;
const CID_AT: usize = 8;
pub(super) const CTID_AT: usize = 12;
pub(super) const INFOMASK2_AT: usize = 18;
pub(super) const INFOMASK_AT: usize = 20;
pub(super) const HOFF_AT: usize = 22;

const _: () = assert!(CTID_AT + ItemPointer::SIZE == INFOMASK2_AT);
const _: () = assert!(HOFF_AT + 1 == HEADER_SIZE);

/// Most values that a heap tuple can have.
pub const MAX_ATTRIBUTES: usize = 1600;

/// Why a stored tuple, or values to be stored, are not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TupleError {
    /// The tuple is shorter than a header.
    #[error("tuple of {len} bytes is shorter than its header")]
    TooShort {
        /// Its length.
        len: usize,
    },
    /// The header states an impossible offset of the values.
    #[error(
        "tuple header length {hoff} is not possible for a tuple of {len} bytes with {attrs} values"
    )]
    BadHeaderLength {
        /// The stored header length.
        hoff: usize,
        /// Length of the tuple.
        len: usize,
        /// Number of values that the header states.
        attrs: usize,
    },
    /// A value cannot be stored.
    #[error("{why}")]
    Unstorable {
        /// Why.
        why: String,
    },
    /// A value runs past the end, or its own header is damaged.
    #[error("value {attr} of the tuple, at byte {offset}, is damaged")]
    BadValue {
        /// Index of the value, from 0.
        attr: usize,
        /// Where it begins in the tuple.
        offset: usize,
    },
    /// The value is compressed or in a TOAST table.
    #[error("value {attr} of the tuple is compressed or stored out of line")]
    Toasted {
        /// Index of the value, from 0.
        attr: usize,
    },
    /// A value's length does not match its type.
    #[error("value {attr} has {len} bytes, which its type does not allow")]
    WrongLength {
        /// Index of the value, from 0.
        attr: usize,
        /// Bytes given.
        len: usize,
    },
    /// There are too many values, or not as many as layouts.
    #[error("{values} values for {layouts} columns; at most {MAX_ATTRIBUTES} are possible")]
    WrongCount {
        /// Values given.
        values: usize,
        /// Columns given.
        layouts: usize,
    },
    /// The tuple would be too large.
    #[error("tuple would take {len} bytes")]
    TooLarge {
        /// Bytes needed.
        len: usize,
    },
}

/// A stored tuple, to read. It has at least a whole header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapTuple<'a>(&'a [u8]);

impl<'a> HeapTuple<'a> {
    /// Views the bytes of an item as a tuple.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, TupleError> {
        if bytes.len() < HEADER_SIZE {
            Err(TupleError::TooShort { len: bytes.len() })
        } else {
            Ok(Self(bytes))
        }
    }

    /// All its bytes.
    #[inline]
    pub const fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The transaction that inserted it, as stored.
    #[inline]
    pub fn xmin(&self) -> Xid {
        u32_field(self.0, 0)
    }

    /// The transaction that deleted or locked it, as stored.
    #[inline]
    pub fn xmax(&self) -> Xid {
        u32_field(self.0, XMAX_AT)
    }

    /// The command id, as stored.
    #[inline]
    pub fn cid(&self) -> CommandId {
        u32_field(self.0, CID_AT)
    }

    /// Its own position, or that of its newer version.
    #[inline]
    pub fn ctid(&self) -> ItemPointer {
        ItemPointer::decode(field(self.0, CTID_AT))
    }

    /// Flags.
    #[inline]
    pub fn infomask(&self) -> u16 {
        u16_field(self.0, INFOMASK_AT)
    }

    /// Number of values, and flags.
    #[inline]
    pub fn infomask2(&self) -> u16 {
        u16_field(self.0, INFOMASK2_AT)
    }

    /// Offset of the values.
    #[inline]
    pub fn hoff(&self) -> usize {
        usize::from(field::<1>(self.0, HOFF_AT)[0])
    }

    /// Number of stored values. Columns that were added later have none.
    #[inline]
    pub fn attribute_count(&self) -> usize {
        usize::from(self.infomask2() & HEAP_NATTS_MASK)
    }

    /// Whether there is a null bitmap.
    #[inline]
    pub fn has_nulls(&self) -> bool {
        self.infomask() & HEAP_HASNULL != 0
    }

    /// Whether its inserter is known to have committed, or it is frozen.
    #[inline]
    pub fn xmin_committed(&self) -> bool {
        self.infomask() & HEAP_XMIN_COMMITTED != 0
    }

    /// Whether its inserter is known to have aborted.
    #[inline]
    pub fn xmin_invalid(&self) -> bool {
        self.infomask() & HEAP_XMIN_FROZEN == HEAP_XMIN_INVALID
    }

    /// Whether its insertion is visible to all transactions.
    #[inline]
    pub fn xmin_frozen(&self) -> bool {
        self.infomask() & HEAP_XMIN_FROZEN == HEAP_XMIN_FROZEN
    }

    /// Whether xmax only locked it.
    pub fn xmax_is_locked_only(&self) -> bool {
        xmax_is_locked_only(self.infomask())
    }
}

/// Whether xmax only locked the tuple with this infomask.
pub const fn xmax_is_locked_only(infomask: u16) -> bool {
    infomask & HEAP_XMAX_LOCK_ONLY != 0
        || infomask & (HEAP_XMAX_IS_MULTI | HEAP_LOCK_MASK) == HEAP_XMAX_EXCL_LOCK
}

/// A stored tuple, to change its header.
#[derive(Debug)]
pub struct HeapTupleMut<'a>(&'a mut [u8]);

impl<'a> HeapTupleMut<'a> {
    /// Views the bytes of an item as a tuple to change.
    #[inline]
    pub fn new(bytes: &'a mut [u8]) -> Result<Self, TupleError> {
        if bytes.len() < HEADER_SIZE {
            Err(TupleError::TooShort { len: bytes.len() })
        } else {
            Ok(Self(bytes))
        }
    }

    /// The tuple, to read.
    #[inline]
    pub fn tuple(&self) -> HeapTuple<'_> {
        HeapTuple(self.0)
    }

    /// Sets the inserting transaction.
    #[inline]
    pub fn set_xmin(&mut self, xid: Xid) {
        put(self.0, 0, xid.to_le_bytes());
    }

    /// Sets the deleting or locking transaction.
    #[inline]
    pub fn set_xmax(&mut self, xid: Xid) {
        put(self.0, XMAX_AT, xid.to_le_bytes());
    }

    /// Sets the command.
    #[inline]
    pub fn set_cid(&mut self, cid: CommandId) {
        put(self.0, CID_AT, cid.to_le_bytes());
    }

    /// Sets its position.
    #[inline]
    pub fn set_ctid(&mut self, ctid: ItemPointer) {
        put(self.0, CTID_AT, ctid.encode());
    }

    /// Sets the flags.
    #[inline]
    pub fn set_infomask(&mut self, infomask: u16) {
        put(self.0, INFOMASK_AT, infomask.to_le_bytes());
    }

    /// Sets the number of values and flags.
    #[inline]
    pub fn set_infomask2(&mut self, infomask2: u16) {
        put(self.0, INFOMASK2_AT, infomask2.to_le_bytes());
    }

    /// Sets the offset of the values.
    pub fn set_hoff(&mut self, hoff: u8) {
        put(self.0, HOFF_AT, [hoff]);
    }

    /// Stamps the header for an insertion: sets xmin and the command, clears xmax, and clears all
    /// flags about visibility except `HEAP_XMAX_INVALID`, which it sets.
    pub fn stamp_insert(&mut self, xid: Xid, cid: CommandId) {
        let (mask, mask2) = (self.tuple().infomask(), self.tuple().infomask2());
        self.set_infomask(mask & !HEAP_XACT_MASK | HEAP_XMAX_INVALID);
        self.set_infomask2(mask2 & !HEAP2_XACT_MASK);
        self.set_xmin(xid);
        self.set_cid(cid);
        self.set_xmax(0);
    }
}
