//! Reading values from a TOAST table: whole, in part, or piece by piece.
//!
//! The entries of the index come in the order of the chunks; the pages that they lead to are handed
//! to a read stream, those of several leaves ahead. Memory grows with what was read, not with what
//! a pointer announces. A value that is shown piece by piece takes a fixed amount, compressed or
//! not.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};

use forebay_format::expand::{Expander, prefix_size};
use forebay_format::varlena::{
    DecompressError, ToastPointer, Varlena, decompress, split_compressed,
};
use forebay_format::{BlockNumber, Fork, HeapTuple, OffsetNumber};
use forebay_storage::{Backend, BlockSource, ReadStream, Strategy, StreamFlags, StreamSettings};

use super::relation::{CHUNK_SIZE, Chunk, ToastTable, is_inserted};
use crate::error::AccessError;
use crate::heap::tuple_at;
use crate::nbtree::{Batch, Direction, IndexScan};

/// Pages that are known ahead of the stream, at least, as long as there are more.
const PAGES_AHEAD: usize = 64;
/// Memory that is reserved before anything was read, at most. Compressed values of this size are
/// decompressed while they are read.
const RESERVE: usize = 1 << 20;

/// Stored bytes of a compressed value before the compressed ones.
const INFO_SIZE: usize = 4;

/// Is shown the bytes of a value, one piece after another. It may end the reading.
pub type Show<'s> = &'s mut dyn FnMut(&[u8]) -> ControlFlow<()>;

/// What a reader of stored bytes says to some of them.
type Shown = Result<ControlFlow<()>, AccessError>;

/// The pages of chunks to come, with the chunks on them.
#[derive(Debug, Default)]
struct Pages(VecDeque<(BlockNumber, Vec<OffsetNumber>)>);

impl Pages {
    fn add(&mut self, batch: &Batch) {
        for item in batch.items() {
            match self.0.back_mut() {
                Some((block, chunks)) if *block == item.tid.block => chunks.push(item.tid.offset),
                _ => self.0.push_back((item.tid.block, vec![item.tid.offset])),
            }
        }
    }
}

impl BlockSource for Pages {
    type Data = Vec<OffsetNumber>;

    fn next_block(&mut self) -> Option<(BlockNumber, Self::Data)> {
        self.0.pop_front()
    }
}

/// The chunks of a value, which must come as PostgreSQL wants them.
struct Chunks<'a> {
    table: &'a ToastTable,
    value: u32,
    /// Stored bytes of the value.
    size: usize,
    /// The wanted ones.
    wanted: Range<usize>,
    /// The number of the next chunk.
    next: usize,
}

impl Chunks<'_> {
    fn corrupt(&self, what: impl std::fmt::Display) -> AccessError {
        let (value, name) = (self.value, &self.table.name);
        AccessError::Corrupt(format!("{what} for toast value {value} in {name}"))
    }

    fn first(&self) -> usize {
        self.wanted.start / CHUNK_SIZE
    }

    fn last(&self) -> usize {
        (self.wanted.end - 1) / CHUNK_SIZE
    }

    /// The wanted bytes of a row, if it is a chunk of the value.
    fn row<'t>(&mut self, tuple: HeapTuple<'t>) -> Result<&'t [u8], AccessError> {
        match Chunk::read(tuple)? {
            Some(chunk) if chunk.value == self.value => self.chunk(chunk),
            _ => Ok(&[]),
        }
    }

    fn chunk<'t>(&mut self, chunk: Chunk<'t>) -> Result<&'t [u8], AccessError> {
        let Varlena::Plain(data) = chunk.data else {
            return Err(self.corrupt("found toasted toast chunk"));
        };
        let (number, next) = (chunk.number, self.next);
        if usize::try_from(number) != Ok(next) {
            return Err(
                self.corrupt(format_args!("unexpected chunk number {number} (expected {next})"))
            );
        }
        let (first, last) = (self.first(), self.last());
        if next > last {
            return Err(self.corrupt(format_args!(
                "unexpected chunk number {number} (out of range {first}..{last})"
            )));
        }
        let (begin, chunks) = (next * CHUNK_SIZE, self.size.div_ceil(CHUNK_SIZE));
        let (expected, found) = (CHUNK_SIZE.min(self.size - begin), data.len());
        if found != expected {
            return Err(self.corrupt(format_args!(
                "unexpected chunk size {found} (expected {expected}) in chunk {number} of {chunks}"
            )));
        }
        let from = self.wanted.start.saturating_sub(begin);
        let to = expected.min(self.wanted.end - begin);
        self.next += 1;
        Ok(data.get(from..to).unwrap_or_default())
    }

    fn finish(self) -> Result<(), AccessError> {
        if self.next <= self.last() {
            return Err(self.corrupt(format_args!("missing chunk number {}", self.next)));
        }
        Ok(())
    }
}

impl ToastTable {
    /// A value, decompressed.
    pub fn fetch(
        &self,
        backend: &mut Backend,
        pointer: ToastPointer,
    ) -> Result<Vec<u8>, AccessError> {
        if !pointer.is_compressed() {
            return self.fetch_stored(backend, pointer);
        }
        if pointer.stored_size() as usize > RESERVE {
            return self.fetch_slice(backend, pointer, 0, usize::MAX);
        }
        let stored = self.fetch_stored(backend, pointer)?;
        let (raw_size, method, data) = self.compressed(pointer, &stored)?;
        decompress(raw_size, method, data).map_err(|error| self.damaged(pointer, &error))
    }

    /// The bytes of a value as they are cut into chunks.
    pub(crate) fn fetch_stored(
        &self,
        backend: &mut Backend,
        pointer: ToastPointer,
    ) -> Result<Vec<u8>, AccessError> {
        self.check(pointer)?;
        let size = pointer.stored_size() as usize;
        let mut out = Vec::with_capacity(size.min(RESERVE));
        self.stored(backend, pointer, 0..size, &mut |bytes| {
            out.extend_from_slice(bytes);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(out)
    }

    /// The value that such bytes are, compressed or not.
    pub(crate) fn view<'b>(
        &self,
        pointer: ToastPointer,
        stored: &'b [u8],
    ) -> Result<Varlena<'b>, AccessError> {
        if !pointer.is_compressed() {
            return Ok(Varlena::Plain(stored));
        }
        let (raw_size, method, data) = self.compressed(pointer, stored)?;
        Ok(Varlena::Compressed { raw_size, method, data })
    }

    /// At most `len` bytes of a value from an offset on; see [`ToastTable::show`].
    pub fn fetch_slice(
        &self,
        backend: &mut Backend,
        pointer: ToastPointer,
        offset: usize,
        len: usize,
    ) -> Result<Vec<u8>, AccessError> {
        let size = self.check(pointer)?;
        let (from, to) = (offset.min(size), offset.saturating_add(len).min(size));
        let mut out = Vec::with_capacity((to - from).min(RESERVE));
        self.show(backend, pointer, from..to, &mut |bytes| {
            out.extend_from_slice(bytes);
            ControlFlow::Continue(())
        })?;
        Ok(out)
    }

    /// Shows a range of a value's bytes piece by piece. Of a value that is not compressed only the
    /// chunks with these bytes are read; of one that is, those up to the last of these bytes.
    pub fn show(
        &self,
        backend: &mut Backend,
        pointer: ToastPointer,
        range: Range<usize>,
        show: Show<'_>,
    ) -> Result<(), AccessError> {
        let size = self.check(pointer)?;
        let range = range.start..range.end.min(size);
        if range.is_empty() {
            return Ok(());
        }
        if pointer.is_compressed() {
            return self.show_expanded(backend, pointer, range, show);
        }
        self.stored(backend, pointer, range, &mut |bytes| Ok(show(bytes)))
    }

    fn show_expanded(
        &self,
        backend: &mut Backend,
        pointer: ToastPointer,
        range: Range<usize>,
        show: Show<'_>,
    ) -> Result<(), AccessError> {
        let size = pointer.value_size().map_or(usize::MAX, |size| size as usize);
        let needed = prefix_size(range.end, size, pointer.method()) + INFO_SIZE;
        let to_its_end = range.end == size;
        let (mut expander, mut at, mut enough) = (None, 0, false);
        let stored = 0..needed.min(pointer.stored_size() as usize);
        self.stored(backend, pointer, stored, &mut |bytes| {
            let (expander, data) = match &mut expander {
                Some(expander) => (expander, bytes),
                none => {
                    let (raw_size, method, data) = self.compressed(pointer, bytes)?;
                    let new = Expander::new(raw_size, method);
                    (none.insert(new.map_err(|error| self.damaged(pointer, &error))?), data)
                }
            };
            let flow = expander.expand(data, &mut |piece| {
                let from = range.start.saturating_sub(at);
                let to = range.end.saturating_sub(at).min(piece.len());
                at += piece.len();
                enough = show(piece.get(from..to).unwrap_or_default()).is_break()
                    || at >= range.end && !to_its_end;
                if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            flow.ok_or_else(|| self.of_another_size(pointer))
        })?;
        let is_whole = || to_its_end && expander.is_some_and(|expander| expander.is_whole());
        if enough || is_whole() { Ok(()) } else { Err(self.of_another_size(pointer)) }
    }

    /// Refuses a pointer that cannot be one into this table. Returns the size of its value.
    fn check(&self, pointer: ToastPointer) -> Result<usize, AccessError> {
        let size = pointer.value_size().filter(|_| pointer.toast_rel == self.oid);
        let size = size.ok_or_else(|| self.damaged(pointer, &"its pointer is damaged"))?;
        Ok(size as usize)
    }

    /// What stored bytes say of a compressed value.
    fn compressed<'b>(
        &self,
        pointer: ToastPointer,
        stored: &'b [u8],
    ) -> Result<(u32, u8, &'b [u8]), AccessError> {
        match split_compressed(stored) {
            Some(Varlena::Compressed { raw_size, method, data })
                if Some(raw_size) == pointer.value_size() =>
            {
                Ok((raw_size, method, data))
            }
            _ => Err(self.damaged(pointer, &"its sizes contradict each other")),
        }
    }

    /// Compressed bytes that don't decompress to the value's size.
    #[cold]
    fn of_another_size(&self, pointer: ToastPointer) -> AccessError {
        let raw_size = pointer.value_size().unwrap_or(0);
        let len = (pointer.stored_size() as usize).saturating_sub(INFO_SIZE);
        self.damaged(pointer, &DecompressError::Damaged { len, raw_size })
    }

    #[cold]
    fn damaged(&self, pointer: ToastPointer, what: &dyn std::fmt::Display) -> AccessError {
        let (value, name) = (pointer.value_id, &self.name);
        AccessError::Corrupt(format!("toast value {value} in {name}: {what}"))
    }

    /// Shows stored bytes of a value. `show` may end the reading.
    fn stored(
        &self,
        backend: &mut Backend,
        pointer: ToastPointer,
        wanted: Range<usize>,
        show: &mut dyn FnMut(&[u8]) -> Shown,
    ) -> Result<(), AccessError> {
        if wanted.is_empty() {
            return Ok(());
        }
        let (value, size) = (pointer.value_id, pointer.stored_size() as usize);
        let mut chunks = Chunks { table: self, value, size, wanted, next: 0 };
        chunks.next = chunks.first();
        let (first, last) = (chunks.first(), chunks.last());
        let all = first == 0 && last == (size - 1) / CHUNK_SIZE;
        let numbers = if all { None } else { Some((first as i32, last as i32)) };
        let scan = self.scan(value, numbers)?;
        let flow = self.each_row(backend, &scan, &mut |tuple| match chunks.row(tuple)? {
            [] => Ok(ControlFlow::Continue(())),
            bytes => show(bytes),
        })?;
        match flow {
            ControlFlow::Continue(()) => chunks.finish(),
            ControlFlow::Break(()) => Ok(()),
        }
    }

    /// Shows the rows to which the entries of a value lead, in their order, those that a reader of
    /// the value may see.
    pub(crate) fn rows_of_value(
        &self,
        backend: &mut Backend,
        value: u32,
        show: &mut dyn FnMut(HeapTuple<'_>),
    ) -> Result<(), AccessError> {
        let scan = self.scan(value, None)?;
        let _all = self.each_row(backend, &scan, &mut |tuple| {
            if is_inserted(tuple) {
                show(tuple);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(())
    }

    fn each_row(
        &self,
        backend: &mut Backend,
        scan: &IndexScan,
        show: &mut dyn FnMut(HeapTuple<'_>) -> Shown,
    ) -> Shown {
        let mut stream = ReadStream::new(
            &self.heap.pool,
            self.heap.locator,
            Fork::Main,
            Pages::default(),
            StreamFlags::DEFAULT,
            Strategy::Normal,
            StreamSettings::new(self.ahead.io_concurrency, self.ahead.combine_limit),
        );
        let mut next = scan.first(backend, Direction::Forward)?;
        loop {
            while stream.source_mut().0.len() < PAGES_AHEAD
                && let Some(batch) = next
            {
                stream.source_mut().add(&batch);
                stream.resume();
                next = scan.next(backend, &batch, Direction::Forward)?;
            }
            let Some((pin, chunks)) = stream.next_with_data(backend)? else {
                return Ok(ControlFlow::Continue(()));
            };
            let guard = pin.lock_shared();
            for offset in chunks {
                if let Some(tuple) = tuple_at(guard.page(), pin.tag(), offset)?
                    && show(tuple)?.is_break()
                {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
    }
}
