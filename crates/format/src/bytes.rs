//! Checked little-endian access to byte slices: the one place where the decoders take bytes apart.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

/// The `N` bytes at `at`, if they are there.
#[inline]
pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

/// A little-endian `u16` at `at`.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array_at(bytes, at).map(u16::from_le_bytes)
}

/// A little-endian `u32` at `at`.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_le_bytes)
}

/// Copies `value` to `at`. The caller guarantees the room, as all encoders write into buffers they
/// sized themselves.
#[inline]
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    match bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<N>()) {
        Some(room) => *room = value,
        None => debug_assert!(false, "no room for {N} bytes at {at}"),
    }
}

/// Rounds up to a multiple of 8, PostgreSQL's MAXALIGN.
#[inline]
pub const fn max_align(n: usize) -> usize {
    (n + 7) & !7
}

/// Reads a byte slice from its beginning; each step is checked.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    #[inline]
    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(crate) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(n)?;
        self.rest = tail;
        Some(head)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.rest.split_first_chunk::<N>()?;
        self.rest = tail;
        Some(*head)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[b]| b)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    #[inline]
    pub(crate) fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_le_bytes)
    }

    #[inline]
    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    /// This many numbers; asks for memory only once they are known to be there.
    #[inline]
    pub(crate) fn u32s(&mut self, count: usize) -> Option<Vec<u32>> {
        let bytes = self.take(count.checked_mul(4)?)?;
        let (numbers, _) = bytes.as_chunks::<4>();
        Some(numbers.iter().map(|&number| u32::from_le_bytes(number)).collect())
    }

    /// A count stored as a C `int`: negative ones are as absent as missing bytes.
    #[inline]
    pub(crate) fn count(&mut self) -> Option<usize> {
        usize::try_from(self.i32()?).ok()
    }
}
