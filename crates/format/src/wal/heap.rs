//! Heap records: insertion of one and of several tuples, deletion, update, locks.
//!
//! A tuple is stored without the fields that redo derives: transaction ids, command and position.
//! Three fields of its header remain, then everything from the null bitmap on:
//!
//! ```text
//!   insert, block 0's data:        header | bytes 23.. of the tuple
//!   multi-insert, block 0's data:  for each tuple, at an even offset:
//!                                  length u16 | header | bytes 23.. of the tuple
//!   header:                        infomask2 u16 | infomask u16 | hoff u8
//! ```

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{Cursor, array_at, push_u16s, put},
    ids::{ItemPointer, OffsetNumber, Oid, Xid},
    tuple::{
        self, HEAP_KEYS_UPDATED, HEAP_XMAX_EXCL_LOCK, HEAP_XMAX_IS_MULTI, HEAP_XMAX_KEYSHR_LOCK,
        HEAP_XMAX_LOCK_ONLY, HeapTuple, HeapTupleMut,
    },
    wal::error::{PayloadError, damaged},
};

/// Heap: one tuple inserted.
pub const INSERT: u8 = 0x00;
/// Heap: one tuple deleted.
pub const DELETE: u8 = 0x10;
/// Heap: one tuple updated.
pub const UPDATE: u8 = 0x20;
/// Heap: TRUNCATE, for logical decoding.
pub const TRUNCATE: u8 = 0x30;
/// Heap: updated within the page, without a change to indexes.
pub const HOT_UPDATE: u8 = 0x40;
/// Heap: a speculative insertion was confirmed.
pub const CONFIRM: u8 = 0x50;
/// Heap: one tuple locked.
pub const LOCK: u8 = 0x60;
/// Heap: a tuple overwritten in place.
pub const INPLACE: u8 = 0x70;
/// The bits of info that hold the kind.
pub const OPMASK: u8 = 0x70;
/// Info flag: the page had no tuple before, so redo initializes it.
pub const INIT_PAGE: u8 = 0x80;

/// Heap2: mapping for logical rewrites.
pub const REWRITE: u8 = 0x00;
/// Heap2: pruned by an access to the page.
pub const PRUNE_ON_ACCESS: u8 = 0x10;
/// Heap2: pruned or frozen by vacuum.
pub const PRUNE_VACUUM_SCAN: u8 = 0x20;
/// Heap2: dead line pointers made unused by vacuum.
pub const PRUNE_VACUUM_CLEANUP: u8 = 0x30;
/// Heap2: bits set in the visibility map.
pub const VISIBLE: u8 = 0x40;
/// Heap2: many tuples inserted into one page.
pub const MULTI_INSERT: u8 = 0x50;
/// Heap2: a newer version locked.
pub const LOCK_UPDATED: u8 = 0x60;
/// Heap2: command ids, for logical decoding.
pub const NEW_CID: u8 = 0x70;

/// Flag of inserts: the page is no longer all-visible.
pub const INSERT_ALL_VISIBLE_CLEARED: u8 = 1;
/// Flag of inserts: the last record of one multi-insert.
pub const INSERT_LAST_IN_MULTI: u8 = 1 << 1;
/// Flag of inserts: speculative.
pub const INSERT_IS_SPECULATIVE: u8 = 1 << 2;
/// Flag of inserts: the record has the tuple even with a full-page image.
pub const INSERT_CONTAINS_NEW_TUPLE: u8 = 1 << 3;
/// Flag of inserts: into a TOAST table.
pub const INSERT_ON_TOAST: u8 = 1 << 4;
/// Flag of inserts: all tuples of the page are frozen.
pub const INSERT_ALL_FROZEN_SET: u8 = 1 << 5;

/// Flag of deletes: the page is no longer all-visible.
pub const DELETE_ALL_VISIBLE_CLEARED: u8 = 1;
/// Flag of deletes: the deleted tuple follows the main data, for logical decoding.
pub const DELETE_CONTAINS_OLD_TUPLE: u8 = 1 << 1;
/// Flag of deletes: the same, with only its key columns.
pub const DELETE_CONTAINS_OLD_KEY: u8 = 1 << 2;
/// Flag of deletes: a speculative insertion was undone.
pub const DELETE_IS_SUPER: u8 = 1 << 3;
/// Flag of deletes: the row moved to another partition.
pub const DELETE_IS_PARTITION_MOVE: u8 = 1 << 4;

/// Flag of updates: the old page is no longer all-visible.
pub const UPDATE_OLD_ALL_VISIBLE_CLEARED: u8 = 1;
/// Flag of updates: the new page is no longer all-visible.
pub const UPDATE_NEW_ALL_VISIBLE_CLEARED: u8 = 1 << 1;
/// Flag of updates: the old version follows the main data, for logical decoding.
pub const UPDATE_CONTAINS_OLD_TUPLE: u8 = 1 << 2;
/// Flag of updates: the same, with only its key columns.
pub const UPDATE_CONTAINS_OLD_KEY: u8 = 1 << 3;
/// Flag of updates: the record has the new version even with a full-page image.
pub const UPDATE_CONTAINS_NEW_TUPLE: u8 = 1 << 4;
/// Flag of updates: the record leaves out the prefix that both versions share.
pub const UPDATE_PREFIX_FROM_OLD: u8 = 1 << 5;
/// Flag of updates: the record leaves out the suffix that both versions share.
pub const UPDATE_SUFFIX_FROM_OLD: u8 = 1 << 6;

/// Flag of locks: the page is no longer all-frozen.
pub const LOCK_ALL_FROZEN_CLEARED: u8 = 1;

/// Block reference of inserts, deletes and locks: the page of the visibility map whose bits the
/// change cleared. PostgreSQL before 18.6 tells that by flags alone.
pub const MAP_BLOCK: u8 = 1;
/// Block reference of updates: the page of the old version, if the new one is on another.
pub const UPDATE_OLD_BLOCK: u8 = 1;
/// Block reference of updates to another page: see [`MAP_BLOCK`]; the map's page for the new
/// version's page.
pub const UPDATE_NEW_MAP_BLOCK: u8 = 2;
/// Block reference of updates: see [`MAP_BLOCK`]; the map's page for the old version's page, unless
/// [`UPDATE_NEW_MAP_BLOCK`] is the same.
pub const UPDATE_OLD_MAP_BLOCK: u8 = 3;

/// Name of a Heap record's kind.
pub fn heap_name(info: u8) -> &'static str {
    let init = info & INIT_PAGE != 0;
    match info & OPMASK {
        INSERT if init => "INSERT+INIT",
        INSERT => "INSERT",
        DELETE => "DELETE",
        UPDATE if init => "UPDATE+INIT",
        UPDATE => "UPDATE",
        TRUNCATE => "TRUNCATE",
        HOT_UPDATE if init => "HOT_UPDATE+INIT",
        HOT_UPDATE => "HOT_UPDATE",
        CONFIRM => "HEAP_CONFIRM",
        LOCK => "LOCK",
        _ => "INPLACE",
    }
}

/// Name of a Heap2 record's kind.
pub fn heap2_name(info: u8) -> &'static str {
    match info & OPMASK {
        REWRITE => "REWRITE",
        PRUNE_ON_ACCESS => "PRUNE_ON_ACCESS",
        PRUNE_VACUUM_SCAN => "PRUNE_VACUUM_SCAN",
        PRUNE_VACUUM_CLEANUP => "PRUNE_VACUUM_CLEANUP",
        VISIBLE => "VISIBLE",
        MULTI_INSERT if info & INIT_PAGE != 0 => "MULTI_INSERT+INIT",
        MULTI_INSERT => "MULTI_INSERT",
        LOCK_UPDATED => "LOCK_UPDATED",
        _ => "NEW_CID",
    }
}

/// The fields of a tuple's header that records store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapHeader {
    /// Number of values, and flags.
    pub infomask2: u16,
    /// Flags.
    pub infomask: u16,
    /// Offset of the values.
    pub hoff: u8,
}

impl HeapHeader {
    /// Bytes of its stored form.
    pub const SIZE: usize = 5;

    /// The fields of a tuple.
    pub fn of(tuple: HeapTuple<'_>) -> Self {
        Self { infomask2: tuple.infomask2(), infomask: tuple.infomask(), hoff: tuple.hoff() as u8 }
    }

    /// Encodes it.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let ([a, b], [c, d]) = (self.infomask2.to_le_bytes(), self.infomask.to_le_bytes());
        [a, b, c, d, self.hoff]
    }

    fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        Some(Self { infomask2: cursor.u16()?, infomask: cursor.u16()?, hoff: cursor.u8()? })
    }

    /// Splits block data of an insert into header and the tuple's bytes.
    pub fn decode(data: &[u8]) -> Result<(Self, &[u8]), PayloadError> {
        let mut cursor = Cursor::new(data);
        let header = Self::read(&mut cursor).ok_or(damaged("INSERT"))?;
        Ok((header, cursor.rest()))
    }

    /// Rebuilds the inserted tuple in `out`, whose contents it replaces: with command 0, no xmax,
    /// and its own position as ctid.
    pub fn rebuild(&self, data: &[u8], xid: Xid, at: ItemPointer, out: &mut Vec<u8>) {
        out.clear();
        out.resize(tuple::HEADER_SIZE, 0);
        out.extend_from_slice(data);
        if let Ok(mut tuple) = HeapTupleMut::new(out) {
            tuple.set_xmin(xid);
            tuple.set_ctid(at);
            tuple.set_infomask2(self.infomask2);
            tuple.set_infomask(self.infomask);
            tuple.set_hoff(self.hoff);
        }
    }
}

/// The bytes of a tuple that records store: from the null bitmap on.
pub fn tuple_data(tuple: HeapTuple<'_>) -> &[u8] {
    tuple.bytes().get(tuple::HEADER_SIZE..).unwrap_or(&[])
}

/// Main data of [`INSERT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapInsert {
    /// Line pointer of the new tuple.
    pub offset: OffsetNumber,
    /// `INSERT_` flags.
    pub flags: u8,
}

impl HeapInsert {
    /// Encodes it.
    pub fn encode(&self) -> [u8; 3] {
        let [a, b] = self.offset.to_le_bytes();
        [a, b, self.flags]
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let [a, b, flags] = array_at(main, 0).ok_or(damaged("INSERT"))?;
        Ok(Self { offset: u16::from_le_bytes([a, b]), flags })
    }
}

/// Main data of [`MULTI_INSERT`]: flags u8, padding, number of tuples u16, their line pointers u16
/// each. A record that initializes the page has no line pointers, as they are 1, 2, 3 ...
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeapMultiInsert {
    /// `INSERT_` flags.
    pub flags: u8,
    /// Number of tuples.
    pub count: u16,
    /// Their line pointers; empty if redo initializes the page.
    pub offsets: Vec<OffsetNumber>,
}

impl HeapMultiInsert {
    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.flags, 0]);
        out.extend_from_slice(&self.count.to_le_bytes());
        push_u16s(out, self.offsets.iter().copied());
    }

    /// Decodes it; `info` is the record's.
    pub fn decode(info: u8, main: &[u8]) -> Result<Self, PayloadError> {
        Self::read(info, &mut Cursor::new(main)).ok_or(damaged("MULTI_INSERT"))
    }

    fn read(info: u8, cursor: &mut Cursor<'_>) -> Option<Self> {
        let [flags, _] = cursor.array()?;
        let count = cursor.u16()?;
        let stored = if info & INIT_PAGE == 0 { usize::from(count) } else { 0 };
        Some(Self { flags, count, offsets: cursor.u16s(stored)? })
    }

    /// The line pointer of the tuple with an index, from 0.
    pub fn offset(&self, index: u16) -> Option<OffsetNumber> {
        if index >= self.count {
            None
        } else if self.offsets.is_empty() {
            index.checked_add(1)
        } else {
            self.offsets.get(usize::from(index)).copied()
        }
    }

    /// Appends a tuple to the block data, which must hold only tuples.
    pub fn push_tuple(tuple: HeapTuple<'_>, out: &mut Vec<u8>) {
        if out.len() % 2 == 1 {
            out.push(0);
        }
        let data = tuple_data(tuple);
        out.extend_from_slice(&(data.len() as u16).to_le_bytes());
        out.extend_from_slice(&HeapHeader::of(tuple).encode());
        out.extend_from_slice(data);
    }

    /// Most bytes that [`push_tuple`](Self::push_tuple) appends for a tuple of a length.
    pub const fn pushed_len(tuple_len: usize) -> usize {
        1 + 2 + HeapHeader::SIZE + tuple_len.saturating_sub(tuple::HEADER_SIZE)
    }

    /// Iterates over the tuples in the block data. An error ends the iteration. Bytes behind the
    /// last tuple are an error.
    pub fn tuples<'a>(&self, data: &'a [u8]) -> MultiInsertTuples<'a> {
        MultiInsertTuples { data, at: 0, left: self.count }
    }
}

/// The tuples of a multi-insert: header fields, and bytes from the null bitmap on.
#[derive(Debug, Clone)]
pub struct MultiInsertTuples<'a> {
    data: &'a [u8],
    at: usize,
    left: u16,
}

impl<'a> MultiInsertTuples<'a> {
    fn read(&mut self) -> Option<(HeapHeader, &'a [u8])> {
        let at = self.at.next_multiple_of(2);
        let mut cursor = Cursor::new(self.data.get(at..)?);
        let len = usize::from(cursor.u16()?);
        let header = HeapHeader::read(&mut cursor)?;
        let tuple = cursor.take(len)?;
        self.at = at + 2 + HeapHeader::SIZE + len;
        Some((header, tuple))
    }
}

impl<'a> Iterator for MultiInsertTuples<'a> {
    type Item = Result<(HeapHeader, &'a [u8]), PayloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let whole = self.at >= self.data.len();
            self.at = self.data.len();
            return if whole { None } else { Some(Err(damaged("MULTI_INSERT"))) };
        }
        self.left -= 1;
        let tuple = self.read();
        if tuple.is_none() {
            (self.left, self.at) = (0, self.data.len());
        }
        Some(tuple.ok_or(damaged("MULTI_INSERT")))
    }
}

/// Bits of `infobits`: which flags of the header redo sets.
const BITS: [(u8, u16); 4] = [
    (1, HEAP_XMAX_IS_MULTI),
    (2, HEAP_XMAX_LOCK_ONLY),
    (4, HEAP_XMAX_EXCL_LOCK),
    (8, HEAP_XMAX_KEYSHR_LOCK),
];
const BIT_KEYS_UPDATED: u8 = 0x10;

/// The flags about xmax of a tuple, as delete, update and lock records store them.
pub fn infobits(infomask: u16, infomask2: u16) -> u8 {
    let bits =
        BITS.iter().fold(0, |all, &(bit, flag)| if infomask & flag != 0 { all | bit } else { all });
    if infomask2 & HEAP_KEYS_UPDATED != 0 { bits | BIT_KEYS_UPDATED } else { bits }
}

/// The flags of infomask and infomask2 for stored bits. The caller must clear the flags that the
/// header had before.
pub fn flags_of_infobits(bits: u8) -> (u16, u16) {
    let infomask =
        BITS.iter().fold(0, |all, &(bit, flag)| if bits & bit != 0 { all | flag } else { all });
    (infomask, if bits & BIT_KEYS_UPDATED != 0 { HEAP_KEYS_UPDATED } else { 0 })
}

/// Main data of [`DELETE`]; also of [`LOCK`] and [`LOCK_UPDATED`], which have the same fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapDelete {
    /// The deleter or locker.
    pub xmax: Xid,
    /// The tuple.
    pub offset: OffsetNumber,
    /// See [`infobits`].
    pub infobits: u8,
    /// `DELETE_` flags, or [`LOCK_ALL_FROZEN_CLEARED`].
    pub flags: u8,
}

impl HeapDelete {
    /// Bytes of its stored form.
    pub const SIZE: usize = 8;

    /// Encodes it.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        put(&mut out, 0, self.xmax.to_le_bytes());
        put(&mut out, 4, self.offset.to_le_bytes());
        put(&mut out, 6, [self.infobits, self.flags]);
        out
    }

    /// Decodes it. [`old_tuple`](Self::old_tuple) decodes what may follow.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let (xmax, offset) = (cursor.u32()?, cursor.u16()?);
            Some(Self { xmax, offset, infobits: cursor.u8()?, flags: cursor.u8()? })
        };
        read(&mut cursor).ok_or(damaged("DELETE"))
    }

    /// The deleted tuple in the main data, if the flags announce one: header fields, and bytes from
    /// the null bitmap on.
    pub fn old_tuple<'a>(&self, main: &'a [u8]) -> OldTuple<'a> {
        let flags = DELETE_CONTAINS_OLD_TUPLE | DELETE_CONTAINS_OLD_KEY;
        old_tuple(self.flags & flags, main, Self::SIZE, "DELETE")
    }
}

/// Main data of [`UPDATE`] and [`HOT_UPDATE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapUpdate {
    /// xmax of the old version.
    pub old_xmax: Xid,
    /// The old version.
    pub old_offset: OffsetNumber,
    /// See [`infobits`].
    pub old_infobits: u8,
    /// `UPDATE_` flags.
    pub flags: u8,
    /// xmax of the new version: the lockers that it keeps.
    pub new_xmax: Xid,
    /// The new version.
    pub new_offset: OffsetNumber,
}

impl HeapUpdate {
    /// Bytes of its stored form.
    pub const SIZE: usize = 14;

    /// Encodes it.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        put(&mut out, 0, self.old_xmax.to_le_bytes());
        put(&mut out, 4, self.old_offset.to_le_bytes());
        put(&mut out, 6, [self.old_infobits, self.flags]);
        put(&mut out, 8, self.new_xmax.to_le_bytes());
        put(&mut out, 12, self.new_offset.to_le_bytes());
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let (old_xmax, old_offset) = (cursor.u32()?, cursor.u16()?);
            let (old_infobits, flags) = (cursor.u8()?, cursor.u8()?);
            let (new_xmax, new_offset) = (cursor.u32()?, cursor.u16()?);
            Some(Self { old_xmax, old_offset, old_infobits, flags, new_xmax, new_offset })
        };
        read(&mut cursor).ok_or(damaged("UPDATE"))
    }

    /// The old version in the main data, if the flags announce one: header fields, and bytes from
    /// the null bitmap on.
    pub fn old_tuple<'a>(&self, main: &'a [u8]) -> OldTuple<'a> {
        let flags = UPDATE_CONTAINS_OLD_TUPLE | UPDATE_CONTAINS_OLD_KEY;
        old_tuple(self.flags & flags, main, Self::SIZE, "UPDATE")
    }
}

/// A tuple behind the main data of a delete or an update, or none.
pub type OldTuple<'a> = Result<Option<(HeapHeader, &'a [u8])>, PayloadError>;

fn old_tuple<'a>(flags: u8, main: &'a [u8], at: usize, record: &'static str) -> OldTuple<'a> {
    if flags == 0 {
        return Ok(None);
    }
    let tuple = main.get(at..).ok_or(damaged(record))?;
    HeapHeader::decode(tuple).map(Some).map_err(|_| damaged(record))
}

/// The new version in an update's block data: the lengths of the shared prefix and suffix, which
/// are left out; the fields of the header; the bytes between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdatedTuple<'a> {
    /// Bytes to take from the beginning of the old one's values.
    pub prefix: u16,
    /// Bytes to take from its end.
    pub suffix: u16,
    /// Header fields.
    pub header: HeapHeader,
    /// Null bitmap, then the values without prefix and suffix.
    pub data: &'a [u8],
}

impl<'a> UpdatedTuple<'a> {
    /// Appends it to `out`.
    pub fn encode(&self, flags: u8, out: &mut Vec<u8>) {
        for (flag, len) in
            [(UPDATE_PREFIX_FROM_OLD, self.prefix), (UPDATE_SUFFIX_FROM_OLD, self.suffix)]
        {
            if flags & flag != 0 {
                out.extend_from_slice(&len.to_le_bytes());
            }
        }
        out.extend_from_slice(&self.header.encode());
        out.extend_from_slice(self.data);
    }

    /// Appends a new version to `out`, without what it shares with `old`; returns the flags for the
    /// main data. `old` must be given only if redo will find the old version on the same page.
    pub fn encode_new(new: HeapTuple<'_>, old: Option<HeapTuple<'_>>, out: &mut Vec<u8>) -> u8 {
        let old = old.and_then(|old| old.bytes().get(old.hoff()..)).unwrap_or_default();
        let ours = new.bytes().get(new.hoff()..).unwrap_or_default();
        let (prefix, suffix) = shared(old, ours);
        let mut flags = 0;
        for (flag, len) in [(UPDATE_PREFIX_FROM_OLD, prefix), (UPDATE_SUFFIX_FROM_OLD, suffix)] {
            if len > 0 {
                flags |= flag;
                out.extend_from_slice(&(len as u16).to_le_bytes());
            }
        }
        out.extend_from_slice(&HeapHeader::of(new).encode());
        let bitmap = new.bytes().len() - ours.len();
        out.extend_from_slice(new.bytes().get(tuple::HEADER_SIZE..bitmap).unwrap_or_default());
        out.extend_from_slice(ours.get(prefix..ours.len() - suffix).unwrap_or_default());
        flags
    }

    /// Rebuilds the new version in `out`, whose contents it replaces: with command 0, the updater's
    /// `xid`, and its own position as ctid. `old` is the old version.
    pub fn rebuild(
        &self,
        old: Option<HeapTuple<'_>>,
        update: &HeapUpdate,
        xid: Xid,
        at: ItemPointer,
        out: &mut Vec<u8>,
    ) -> Result<(), PayloadError> {
        let values = old.and_then(|old| old.bytes().get(old.hoff()..)).unwrap_or_default();
        let (prefix, suffix) = (usize::from(self.prefix), usize::from(self.suffix));
        let suffix_at = values.len().checked_sub(suffix);
        let parts = usize::from(self.header.hoff)
            .checked_sub(tuple::HEADER_SIZE)
            .and_then(|bitmap| self.data.split_at_checked(bitmap))
            .zip(values.get(..prefix).zip(suffix_at.and_then(|at| values.get(at..))));
        let ((bitmap, middle), (first, last)) = parts.ok_or(damaged("UPDATE"))?;
        let data = [bitmap, first, middle, last].concat();
        self.header.rebuild(&data, xid, at, out);
        HeapTupleMut::new(out).map_err(|_| damaged("UPDATE"))?.set_xmax(update.new_xmax);
        Ok(())
    }

    /// Decodes it; `flags` are those of the main data.
    pub fn decode(flags: u8, data: &'a [u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(data);
        let read = |cursor: &mut Cursor<'a>| {
            let prefix = if flags & UPDATE_PREFIX_FROM_OLD != 0 { cursor.u16()? } else { 0 };
            let suffix = if flags & UPDATE_SUFFIX_FROM_OLD != 0 { cursor.u16()? } else { 0 };
            Some(Self { prefix, suffix, header: HeapHeader::read(cursor)?, data: cursor.rest() })
        };
        read(&mut cursor).ok_or(damaged("UPDATE"))
    }
}

/// Lengths of what two versions' values have in common at the beginning, and behind that at the
/// end. Less than 3 bytes are not worth their length's two.
fn shared(old: &[u8], new: &[u8]) -> (usize, usize) {
    let worth = |len: usize| if len < 3 { 0 } else { len.min(usize::from(u16::MAX)) };
    let prefix = worth(old.iter().zip(new).take_while(|(a, b)| a == b).count());
    let left = old.len().min(new.len()) - prefix;
    let (old, new) = (old.iter().rev(), new.iter().rev());
    let suffix = worth(old.zip(new).take(left).take_while(|(a, b)| a == b).count());
    (prefix, suffix)
}

/// Main data of [`INPLACE`]: offset u16, padding, database, tablespace, relation cache flag,
/// padding, count, invalidations of 16 bytes. The new bytes of the tuple, from hoff on, are block
/// 0's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeapInplace {
    /// The tuple.
    pub offset: OffsetNumber,
    /// Database.
    pub db: Oid,
    /// Tablespace.
    pub tablespace: Oid,
    /// The relation cache's file is out of date.
    pub relcache_file: bool,
    /// Cache invalidations, as stored.
    pub invalidations: Vec<[u8; 16]>,
}

impl HeapInplace {
    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 20];
        put(&mut out, 0, self.offset.to_le_bytes());
        put(&mut out, 4, self.db.to_le_bytes());
        put(&mut out, 8, self.tablespace.to_le_bytes());
        put(&mut out, 12, [u8::from(self.relcache_file)]);
        put(&mut out, 16, (self.invalidations.len() as u32).to_le_bytes());
        self.invalidations.iter().for_each(|message| out.extend_from_slice(message));
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let offset = cursor.u16()?;
            cursor.u16()?;
            let (db, tablespace) = (cursor.u32()?, cursor.u32()?);
            let [relcache_file, _, _, _] = cursor.array()?;
            let count = cursor.count()?;
            let (messages, _) = cursor.take(count.checked_mul(16)?)?.as_chunks::<16>();
            let (relcache_file, invalidations) = (relcache_file != 0, messages.to_vec());
            Some(Self { offset, db, tablespace, relcache_file, invalidations })
        };
        read(&mut cursor).ok_or(damaged("INPLACE"))
    }
}

/// Main data of [`VISIBLE`]. Block 0 is the visibility map's page, block 1 the heap's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapVisible {
    /// Standbys cancel queries with older snapshots.
    pub conflict_horizon: Xid,
    /// Bits of the map.
    pub flags: u8,
}

impl HeapVisible {
    /// Encodes it.
    pub fn encode(&self) -> [u8; 5] {
        let mut out = [0; 5];
        put(&mut out, 0, self.conflict_horizon.to_le_bytes());
        put(&mut out, 4, [self.flags]);
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            Some(Self { conflict_horizon: cursor.u32()?, flags: cursor.u8()? })
        };
        read(&mut cursor).ok_or(damaged("VISIBLE"))
    }
}

/// Main data of [`CONFIRM`]: the tuple's line pointer.
pub const fn encode_confirm(offset: OffsetNumber) -> [u8; 2] {
    offset.to_le_bytes()
}

/// Decodes the main data of [`CONFIRM`]: the tuple's line pointer.
pub fn decode_confirm(main: &[u8]) -> Result<OffsetNumber, PayloadError> {
    array_at(main, 0).map(u16::from_le_bytes).ok_or(damaged("HEAP_CONFIRM"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::tuple::{AttrLayout, form_tuple};
    use proptest::prelude::*;

    fn tuples(texts: &[Vec<u8>]) -> Vec<Vec<u8>> {
        texts
            .iter()
            .map(|text| form_tuple(&[AttrLayout::VARLENA], &[Some(text)]).unwrap())
            .collect()
    }

    #[test]
    fn layouts() {
        assert_eq!(HeapInsert { offset: 2, flags: 8 }.encode(), [2, 0, 8]);
        assert_eq!(
            HeapHeader { infomask2: 1, infomask: 0x802, hoff: 24 }.encode(),
            [1, 0, 2, 8, 24]
        );
        let delete = HeapDelete { xmax: 700, offset: 3, infobits: 0x10, flags: 1 };
        assert_eq!(delete.encode(), [0xbc, 2, 0, 0, 3, 0, 0x10, 1]);
        assert_eq!(HeapDelete::decode(&delete.encode()), Ok(delete));
        let mut main = Vec::new();
        let multi = HeapMultiInsert { flags: 2, count: 2, offsets: vec![5, 6] };
        multi.encode(&mut main);
        assert_eq!(main, [2, 0, 2, 0, 5, 0, 6, 0]);
        assert_eq!(HeapMultiInsert::decode(MULTI_INSERT, &main), Ok(multi));
        let visible = HeapVisible { conflict_horizon: 9, flags: 3 };
        assert_eq!(HeapVisible::decode(&visible.encode()), Ok(visible));
    }

    #[test]
    fn infobits_round_trip() {
        for bits in 0..0x20 {
            let (infomask, infomask2) = flags_of_infobits(bits);
            assert_eq!(infobits(infomask, infomask2), bits);
        }
    }

    #[test]
    fn a_rebuilt_tuple_is_the_inserted_one() {
        let mut tuple = tuples(&[b"some text".to_vec()]).remove(0);
        let at = ItemPointer::new(7, 2);
        let mut stamped = HeapTupleMut::new(&mut tuple).unwrap();
        stamped.stamp_insert(700, 0);
        stamped.set_ctid(at);
        let view = HeapTuple::new(&tuple).unwrap();
        let mut out = vec![1, 2, 3];
        HeapHeader::of(view).rebuild(tuple_data(view), 700, at, &mut out);
        assert_eq!(out, tuple);
    }

    #[test]
    fn update_and_inplace_round_trip() {
        let update = HeapUpdate {
            old_xmax: 1,
            old_offset: 2,
            old_infobits: 3,
            flags: UPDATE_PREFIX_FROM_OLD | UPDATE_SUFFIX_FROM_OLD,
            new_xmax: 5,
            new_offset: 6,
        };
        assert_eq!(HeapUpdate::decode(&update.encode()), Ok(update));
        let header = HeapHeader { infomask2: 1, infomask: 2, hoff: 24 };
        let tuple = UpdatedTuple { prefix: 3, suffix: 4, header, data: b"abc" };
        let mut out = Vec::new();
        tuple.encode(update.flags, &mut out);
        assert_eq!(UpdatedTuple::decode(update.flags, &out), Ok(tuple));
        let inplace = HeapInplace {
            offset: 1,
            db: 2,
            tablespace: 3,
            relcache_file: true,
            invalidations: vec![[7; 16]; 2],
        };
        assert_eq!(HeapInplace::decode(&inplace.encode()), Ok(inplace));
    }

    proptest! {
        #[test]
        fn multi_insert_round_trips(
            texts in proptest::collection::vec(any::<Vec<u8>>(), 0..20),
            cut: usize,
        ) {
            let tuples = tuples(&texts);
            let mut data = Vec::new();
            for tuple in &tuples {
                let before = data.len();
                HeapMultiInsert::push_tuple(HeapTuple::new(tuple).unwrap(), &mut data);
                prop_assert!(data.len() - before <= HeapMultiInsert::pushed_len(tuple.len()));
            }
            let count = tuples.len() as u16;
            let multi = HeapMultiInsert { flags: 0, count, offsets: Vec::new() };
            let decoded = multi.tuples(&data).collect::<Result<Vec<_>, _>>().unwrap();
            prop_assert_eq!(decoded.len(), tuples.len());
            for ((header, bytes), tuple) in decoded.iter().zip(&tuples) {
                let view = HeapTuple::new(tuple).unwrap();
                prop_assert_eq!((*header, *bytes), (HeapHeader::of(view), tuple_data(view)));
            }
            if !data.is_empty() {
                let cut = &data[..cut % data.len()];
                prop_assert!(multi.tuples(cut).any(|tuple| tuple.is_err()));
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(info: u8, main: Vec<u8>, data: Vec<u8>) {
            if let Ok(multi) = HeapMultiInsert::decode(info, &main) {
                let found = multi.tuples(&data).count();
                prop_assert!(found <= usize::from(multi.count) + 1);
            }
            let _ = HeapHeader::decode(&data);
            let _ = HeapDelete::decode(&main);
            let _ = HeapInplace::decode(&main);
            let _ = HeapUpdate::decode(&main);
            let _ = UpdatedTuple::decode(info, &data);
        }
    }
}
