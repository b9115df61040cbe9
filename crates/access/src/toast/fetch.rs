//! Reading values from a TOAST table.
//!
//! The entries of the index come in the order of the chunks; the pages that they lead to are handed
//! to a read stream, those of several leaves ahead. Memory grows with what was read, not with what
//! a pointer announces.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::VecDeque;
use std::ops::Range;

use forebay_format::varlena::{
    self, ToastPointer, Varlena, decompress, decompress_prefix, split_compressed,
};
use forebay_format::{BlockNumber, Fork, HeapTuple, OffsetNumber};
use forebay_storage::{Backend, BlockSource, ReadStream, Strategy, StreamFlags, StreamSettings};

use super::relation::{CHUNK_SIZE, Chunk, ToastTable, is_inserted};
use crate::error::AccessError;
use crate::heap::tuple_at;
use crate::nbtree::{Batch, Direction, IndexScan};

/// Pages that are known ahead of the stream, at least, as long as there are more.
const PAGES_AHEAD: usize = 64;
/// Memory that is reserved before anything was read, at most.
const RESERVE: usize = 1 << 20;

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

/// Puts the chunks of a value together, and checks them as PostgreSQL does.
struct Collector<'a> {
    table: &'a ToastTable,
    value: u32,
    /// Stored bytes of the value.
    size: usize,
    /// The wanted ones.
    wanted: Range<usize>,
    /// The number of the next chunk.
    next: usize,
    out: Vec<u8>,
}

impl Collector<'_> {
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

    /// Takes a row, if it is a chunk of the value.
    fn row(&mut self, tuple: HeapTuple<'_>) -> Result<(), AccessError> {
        match Chunk::read(tuple)? {
            Some(chunk) if chunk.value == self.value => self.chunk(chunk),
            _ => Ok(()),
        }
    }

    fn chunk(&mut self, chunk: Chunk<'_>) -> Result<(), AccessError> {
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
        self.out.extend_from_slice(data.get(from..to).unwrap_or_default());
        self.next += 1;
        Ok(())
    }

    fn finish(self) -> Result<Vec<u8>, AccessError> {
        if self.next <= self.last() {
            return Err(self.corrupt(format_args!("missing chunk number {}", self.next)));
        }
        Ok(self.out)
    }
}

impl ToastTable {
    /// A value, decompressed.
    pub fn fetch(
        &self,
        backend: &mut Backend,
        pointer: ToastPointer,
    ) -> Result<Vec<u8>, AccessError> {
        let stored = self.fetch_stored(backend, pointer)?;
        if !pointer.is_compressed() {
            return Ok(stored);
        }
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
        self.stored(backend, pointer, 0..pointer.stored_size() as usize)
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

    /// At most `len` bytes of a value from an offset on. Of one that is not compressed only the
    /// chunks with these bytes are read; of one compressed by pglz those that the bytes up to there
    /// can take.
    pub fn fetch_slice(
        &self,
        backend: &mut Backend,
        pointer: ToastPointer,
        offset: usize,
        len: usize,
    ) -> Result<Vec<u8>, AccessError> {
        let size = self.check(pointer)?;
        let (from, to) = (offset.min(size), offset.saturating_add(len).min(size));
        let stored_size = pointer.stored_size() as usize;
        if !pointer.is_compressed() {
            return self.stored(backend, pointer, from..to);
        }
        let needed = match pointer.method() {
            0 => varlena::pglz_prefix_size(to) + varlena::HEADER_SIZE,
            _ => stored_size,
        };
        let stored = self.stored(backend, pointer, 0..needed.min(stored_size))?;
        let (raw_size, method, data) = self.compressed(pointer, &stored)?;
        let prefix = decompress_prefix(raw_size, method, data, to);
        let mut prefix = prefix.map_err(|error| self.damaged(pointer, &error))?;
        Ok(prefix.split_off(from))
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

    #[cold]
    fn damaged(&self, pointer: ToastPointer, what: &dyn std::fmt::Display) -> AccessError {
        let (value, name) = (pointer.value_id, &self.name);
        AccessError::Corrupt(format!("toast value {value} in {name}: {what}"))
    }

    /// Stored bytes of a value.
    fn stored(
        &self,
        backend: &mut Backend,
        pointer: ToastPointer,
        wanted: Range<usize>,
    ) -> Result<Vec<u8>, AccessError> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let (value, size) = (pointer.value_id, pointer.stored_size() as usize);
        let out = Vec::with_capacity(wanted.len().min(RESERVE));
        let mut collector = Collector { table: self, value, size, wanted, next: 0, out };
        collector.next = collector.first();
        let (first, last) = (collector.first(), collector.last());
        let all = first == 0 && last == (size - 1) / CHUNK_SIZE;
        let numbers = if all { None } else { Some((first as i32, last as i32)) };
        let scan = self.scan(value, numbers)?;
        self.each_row(backend, &scan, &mut |tuple| collector.row(tuple))?;
        collector.finish()
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
        self.each_row(backend, &scan, &mut |tuple| {
            if is_inserted(tuple) {
                show(tuple);
            }
            Ok(())
        })
    }

    fn each_row(
        &self,
        backend: &mut Backend,
        scan: &IndexScan,
        show: &mut dyn FnMut(HeapTuple<'_>) -> Result<(), AccessError>,
    ) -> Result<(), AccessError> {
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
            let Some((pin, chunks)) = stream.next_with_data(backend)? else { return Ok(()) };
            let guard = pin.lock_shared();
            for offset in chunks {
                if let Some(tuple) = tuple_at(guard.page(), pin.tag(), offset)? {
                    show(tuple)?;
                }
            }
        }
    }
}
