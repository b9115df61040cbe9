//! Checked little-endian access to byte slices, which all decoders and encoders use.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

/// The `N` bytes at `at`, or `None` past the end.
#[inline]
pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

/// A little-endian `u32` at `at`, or `None` past the end.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_le_bytes)
}

/// The `N` bytes of a field at `at`.
///
/// # Panics
/// If `bytes` ends before: the caller must have checked its length.
#[inline]
pub(crate) fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    array_at(bytes, at).expect("the length was checked")
}

/// The little-endian `u16` field at `at`; see [`field`].
#[inline]
pub(crate) fn u16_field(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(field(bytes, at))
}

/// The little-endian `u32` field at `at`; see [`field`].
#[inline]
pub(crate) fn u32_field(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(field(bytes, at))
}

/// Copies `value` to `at`.
///
/// # Panics
/// If it does not fit: encoders size their buffers themselves.
#[inline]
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    let room = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<N>());
    *room.expect("the buffer has room for the field") = value;
}

/// Appends numbers of two bytes, to be read with [`Cursor::u16s`].
pub(crate) fn push_u16s(out: &mut Vec<u8>, numbers: impl IntoIterator<Item = u16>) {
    numbers.into_iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

/// Rounds up to a multiple of 8, PostgreSQL's MAXALIGN.
#[inline]
pub const fn max_align(n: usize) -> usize {
    (n + 7) & !7
}

/// Reads a byte slice from its beginning. Each step returns `None` past the end.
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

    /// An array of numbers of two bytes. Allocates only after checking that all of them are present.
    #[inline]
    pub(crate) fn u16s(&mut self, count: usize) -> Option<Vec<u16>> {
        let (numbers, _) = self.take(count.checked_mul(2)?)?.as_chunks::<2>();
        Some(numbers.iter().map(|&number| u16::from_le_bytes(number)).collect())
    }

    /// An array of numbers. Allocates only after checking that all of them are present.
    #[inline]
    pub(crate) fn u32s(&mut self, count: usize) -> Option<Vec<u32>> {
        let bytes = self.take(count.checked_mul(4)?)?;
        let (numbers, _) = bytes.as_chunks::<4>();
        Some(numbers.iter().map(|&number| u32::from_le_bytes(number)).collect())
    }

    /// A count stored as a C `int`; `None` also if it is negative.
    #[inline]
    pub(crate) fn count(&mut self) -> Option<usize> {
        usize::try_from(self.i32()?).ok()
    }
}
