//! An array as it is stored.
//!
//! ```text
//!   dimensions | offset of the data, if there is a bitmap of NULLs | element type |
//!   length of each dimension | lower bound of each | bitmap | elements
//! ```
//!
//! All but bitmap and elements are words of four bytes. Offsets and alignments count from the
//! length word, which is not part of the bytes. A bit that is set stands for a value, one that is
//! not for a NULL.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::error::{Problem, Result, ValueError};
use crate::facts::{TypeInfo, type_info};
use crate::length::MAX_ALLOC;
use crate::oid::Oid;

/// Dimensions that an array may have.
pub const MAX_DIMENSIONS: usize = 6;
/// Elements that an array may have: PostgreSQL allocates eight bytes for each.
const MAX_ELEMENTS: usize = MAX_ALLOC / 8;
/// Bytes of a length word.
const WORD: usize = 4;

/// A dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim {
    /// How many subscripts there are.
    pub len: i32,
    /// The first of them.
    pub lower: i32,
}

/// Dimensions.
pub type Dims = SmallVec<[Dim; 2]>;

/// An array: its stored bytes behind the length word.
#[derive(Clone, Debug, PartialEq)]
pub struct Array<'a>(Cow<'a, [u8]>);

/// What stands before the elements of an array.
#[derive(Clone, Debug)]
pub struct Shape<'a> {
    /// The type of the elements.
    pub element: Oid,
    /// None for an empty array.
    pub dims: Dims,
    /// How many elements there are, NULLs included.
    pub count: usize,
    /// The bitmap of values that are not NULL.
    nulls: Option<&'a [u8]>,
    bytes: &'a [u8],
    /// Where the elements begin, counted from the length word.
    start: usize,
}

/// The error of bytes that are no array.
fn damaged(len: usize) -> ValueError {
    Problem::StoredLength { len, expected: 5 * WORD }.into()
}

/// How many elements an array of these dimensions has.
pub(crate) fn count_of(dims: &[Dim]) -> Result<usize> {
    let mut count = usize::from(!dims.is_empty());
    for dim in dims {
        let len = usize::try_from(dim.len).map_err(|_| too_large())?;
        count = count.checked_mul(len).filter(|n| *n <= MAX_ELEMENTS).ok_or_else(too_large)?;
        check_bounds(*dim)?;
    }
    Ok(count)
}

/// Checks that the last subscript of a dimension, and one behind it, are numbers.
pub(crate) fn check_bounds(dim: Dim) -> Result<()> {
    match dim.lower.checked_add(dim.len) {
        Some(_) => Ok(()),
        None => {
            let message = format!("array lower bound is too large: {}", dim.lower);
            Err(ValueError::new("54000", message))
        }
    }
}

/// The error of an array with too many elements.
pub(crate) fn too_large() -> ValueError {
    let message = format!("array size exceeds the maximum allowed ({MAX_ELEMENTS})");
    ValueError::new("54000", message)
}

/// The type of elements, if this crate knows it.
fn element_info(element: Oid) -> Result<&'static TypeInfo> {
    type_info(element).ok_or_else(|| ValueError::carried("an array", element))
}

/// The alignment of a type's code.
pub(crate) fn alignment(code: u8) -> usize {
    match code {
        b'c' => 1,
        b's' => 2,
        b'i' => 4,
        _ => 8,
    }
}

impl<'a> Array<'a> {
    /// An array of its stored bytes. They are looked at when they are used.
    pub fn stored(bytes: impl Into<Cow<'a, [u8]>>) -> Array<'a> {
        Array(bytes.into())
    }

    /// The empty array.
    pub fn empty(element: Oid) -> Array<'static> {
        let words = [0, 0, element].into_iter().flat_map(u32::to_le_bytes);
        Array(Cow::Owned(words.collect()))
    }

    /// The empty int2vector or oidvector, which has a dimension, unlike an empty array.
    pub fn empty_vector(element: Oid) -> Array<'static> {
        let words = [1, 0, element, 0, 0].into_iter().flat_map(u32::to_le_bytes);
        Array(Cow::Owned(words.collect()))
    }

    /// The stored bytes behind the length word.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// A copy that borrows nothing.
    pub fn into_owned(self) -> Array<'static> {
        Array(Cow::Owned(self.0.into_owned()))
    }

    /// The same array, borrowed from this one.
    pub fn reborrow(&self) -> Array<'_> {
        Array(Cow::Borrowed(&self.0))
    }

    /// Bytes that it has allocated: its content, and so many for the allocation.
    pub(crate) fn allocated(&self, allocation: usize) -> usize {
        match &self.0 {
            Cow::Owned(bytes) => bytes.len() + allocation,
            Cow::Borrowed(_) => 0,
        }
    }

    /// The type of its elements.
    pub fn element(&self) -> Result<Oid> {
        word(&self.0, 2).ok_or_else(|| damaged(self.0.len()))
    }

    /// What stands before the elements.
    pub fn shape(&self) -> Result<Shape<'_>> {
        let bytes = &*self.0;
        let damaged = || damaged(bytes.len());
        let word = |n| word(bytes, n).ok_or_else(damaged);
        let (dimensions, offset, element) = (word(0)? as usize, word(1)? as usize, word(2)?);
        if dimensions > MAX_DIMENSIONS {
            return Err(damaged());
        }
        let mut dims = Dims::new();
        for n in 0..dimensions {
            dims.push(Dim { len: word(3 + n)? as i32, lower: word(3 + dimensions + n)? as i32 });
        }
        let count = count_of(&dims).map_err(|_| damaged())?;
        let head = 4 * WORD + 2 * WORD * dimensions;
        let nulls = match offset {
            0 => None,
            _ => {
                let bits = bytes.get(head - WORD..).and_then(|rest| rest.get(..count.div_ceil(8)));
                Some(bits.ok_or_else(damaged)?)
            }
        };
        let start = if offset == 0 { head.next_multiple_of(8) } else { offset };
        Ok(Shape { element, dims, count, nulls, bytes, start })
    }

    /// Makes an array of the stored forms of its elements: fixed-length images, or what follows the
    /// length word. There are as many as the dimensions say.
    pub fn build<'e>(
        element: Oid,
        dims: &[Dim],
        elements: impl ExactSizeIterator<Item = Option<Cow<'e, [u8]>>>,
    ) -> Result<Array<'static>> {
        let info = element_info(element)?;
        let count = count_of(dims)?;
        assert_eq!(count, elements.len(), "an array has as many elements as its dimensions");
        if count == 0 {
            return Ok(Array::empty(element));
        }
        let align = alignment(info.align);
        let (mut data, mut bits, mut nulls) = (Vec::new(), vec![0_u8; count.div_ceil(8)], false);
        for (n, value) in elements.enumerate() {
            let Some(value) = value else {
                nulls = true;
                continue;
            };
            if let Some(byte) = bits.get_mut(n / 8) {
                *byte |= 1 << (n % 8);
            }
            if value.len() > MAX_ALLOC - data.len().min(MAX_ALLOC) - 64 {
                return Err(too_large_bytes());
            }
            match usize::try_from(info.len) {
                Ok(len) => assert_eq!(len, value.len(), "an element has its type's length"),
                Err(_) => {
                    let len = (value.len() + WORD) as u32;
                    data.extend_from_slice(&(len << 2).to_le_bytes());
                }
            }
            data.extend_from_slice(&value);
            data.resize(data.len().next_multiple_of(align), 0);
        }
        let head = 4 * WORD + 2 * WORD * dims.len();
        let bits = if nulls { bits.as_slice() } else { &[] };
        let start = (head + bits.len()).next_multiple_of(8);
        let offset = if nulls { start as u32 } else { 0 };
        let words = [dims.len() as u32, offset, element];
        let lens = dims.iter().map(|dim| dim.len as u32);
        let lowers = dims.iter().map(|dim| dim.lower as u32);
        let words = words.into_iter().chain(lens).chain(lowers);
        let mut stored: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        stored.extend_from_slice(bits);
        stored.resize(start - WORD, 0);
        stored.append(&mut data);
        Ok(Array(Cow::Owned(stored)))
    }
}

/// The error of an array with too many bytes.
fn too_large_bytes() -> ValueError {
    ValueError::new("54000", format!("array size exceeds the maximum allowed ({MAX_ALLOC})"))
}

fn word(bytes: &[u8], n: usize) -> Option<u32> {
    let word = bytes.get(n * WORD..)?.first_chunk()?;
    Some(u32::from_le_bytes(*word))
}

impl<'a> Shape<'a> {
    /// Whether there is a bitmap of NULLs.
    pub fn has_nulls(&self) -> bool {
        self.nulls.is_some()
    }

    /// The stored forms of the elements, None for NULL.
    pub fn raw(&self) -> Result<RawElements<'a>> {
        let info = element_info(self.element)?;
        Ok(RawElements {
            nulls: self.nulls,
            bytes: self.bytes,
            len: info.len,
            align: alignment(info.align),
            at: self.start,
            next: 0,
            count: self.count,
        })
    }
}

/// The stored forms of an array's elements, one after the other.
#[derive(Clone, Debug)]
pub struct RawElements<'a> {
    nulls: Option<&'a [u8]>,
    bytes: &'a [u8],
    len: i16,
    align: usize,
    /// Where the next value begins, counted from the length word.
    at: usize,
    /// The number of the next element.
    next: usize,
    count: usize,
}

impl<'a> RawElements<'a> {
    fn value(&mut self) -> Option<&'a [u8]> {
        // A length word of one byte has no alignment before it.
        let unaligned = self.bytes.get(self.at.checked_sub(WORD)?..)?;
        let short = self.len == -1 && unaligned.first().is_some_and(|byte| byte & 1 == 1);
        let at = if short { self.at } else { self.at.checked_next_multiple_of(self.align)? };
        let rest = self.bytes.get(at.checked_sub(WORD)?..)?;
        let (header, len) = match usize::try_from(self.len) {
            Ok(len) => (0, len),
            Err(_) if short => (1, usize::from(rest.first()? >> 1).checked_sub(1)?),
            Err(_) if self.len == -1 => {
                let word = u32::from_le_bytes(*rest.first_chunk()?);
                let len = (word >> 2) as usize;
                (WORD, len.checked_sub(WORD).filter(|_| word & 3 == 0)?)
            }
            Err(_) => return None,
        };
        let value = rest.get(header..)?.get(..len)?;
        self.at = at + header + len;
        Some(value)
    }
}

impl<'a> Iterator for RawElements<'a> {
    type Item = Result<Option<&'a [u8]>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.count {
            return None;
        }
        let n = self.next;
        self.next += 1;
        let bit = |bits: &[u8]| bits.get(n / 8).map(|byte| byte >> (n % 8) & 1 == 1);
        if self.nulls.is_some_and(|bits| bit(bits) == Some(false)) {
            return Some(Ok(None));
        }
        let value = self.value();
        if value.is_none() {
            // Nothing behind it can be found.
            self.next = self.count;
        }
        Some(value.map(Some).ok_or_else(|| damaged(self.bytes.len())))
    }
}
