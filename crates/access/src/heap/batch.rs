//! Formed tuples, to be inserted together.

use forebay_format::page::MAX_HEAP_TUPLE_SIZE;

use crate::error::AccessError;

/// Tuples as `form_tuple` makes them, back to back in one allocation.
#[derive(Debug, Default, Clone)]
pub struct TupleBatch {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    frozen: bool,
}

impl TupleBatch {
    /// An empty batch.
    pub fn new() -> TupleBatch {
        TupleBatch::default()
    }

    /// The same batch, whose rows are frozen when they are inserted: everybody sees them, whatever
    /// becomes of the transaction. So it must have made the table's file.
    pub fn set_frozen(&mut self, frozen: bool) {
        self.frozen = frozen;
    }

    /// Whether its rows are frozen when they are inserted.
    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Adds a tuple that `form` appends to the buffer. If `form` fails, or the tuple is too big for
    /// a page, the batch stays as it was.
    pub fn push_with<E: From<AccessError>>(
        &mut self,
        form: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.push_any_with(|bytes| {
            let start = bytes.len();
            form(bytes)?;
            Ok(check_size(bytes.len() - start)?)
        })
    }

    /// The same for a tuple of any size. The caller sees to it that one that is too big for a page
    /// is not inserted as it is.
    pub fn push_any_with<E>(
        &mut self,
        form: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.bytes.len();
        let result = form(&mut self.bytes);
        match result {
            Ok(()) => self.ends.push(self.bytes.len() as u32),
            Err(_) => self.bytes.truncate(start),
        }
        result
    }

    /// Adds a tuple.
    pub fn push(&mut self, tuple: &[u8]) -> Result<(), AccessError> {
        self.push_with(|bytes| {
            bytes.extend_from_slice(tuple);
            Ok(())
        })
    }

    /// Number of tuples.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all tuples.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of the tuples from index `from` on.
    pub fn bytes_from(&self, from: usize) -> usize {
        self.bytes.len() - self.start(from)
    }

    /// A tuple.
    ///
    /// # Panics
    /// If there is none of this index.
    pub fn get(&self, index: usize) -> &[u8] {
        &self.bytes[self.start(index)..self.ends[index] as usize]
    }

    fn start(&self, index: usize) -> usize {
        if index == 0 { 0 } else { self.ends[index - 1] as usize }
    }

    /// Removes all tuples and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// Bytes that a tuple of `len` bytes takes on a page.
pub(super) const fn aligned(len: usize) -> usize {
    (len + 7) & !7
}

/// Refuses a tuple that no page can hold (54000).
pub(super) fn check_size(len: usize) -> Result<(), AccessError> {
    if aligned(len) > MAX_HEAP_TUPLE_SIZE {
        return Err(AccessError::RowTooBig { size: aligned(len) });
    }
    Ok(())
}
