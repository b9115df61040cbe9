//! Index tuples: what an index stores for a row.
//!
//! ```text
//!   0            6      8                        8 or 16       size
//!   +------------+------+------------------------+-------------+
//!   | tid        | info | null bitmap, 4 bytes,  | values      |
//!   | block, off | u16  | and padding, if a NULL |             |
//!   +------------+------+------------------------+-------------+
//! ```
//!
//! - tid: the heap tuple's position; some access methods keep other things here
//! - info: size in the low 13 bits; bit 13 belongs to the access method; bit 14: has values of
//!   variable length; bit 15: has NULLs
//! - null bitmap: always for 32 values, a bit is set if the value is not NULL
//! - values: as in a heap tuple
//! - size: a multiple of 8

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{field, max_align, put, u16_field},
    ids::ItemPointer,
    tuple::{AttrLayout, Deform, HeaderShape, TupleBuilder, TupleError},
};

/// Bytes before the null bitmap.
pub const HEADER_SIZE: usize = 8;
/// Most values that an index tuple can have.
pub const MAX_ATTRIBUTES: usize = 32;

/// Info: the size.
pub const INDEX_SIZE_MASK: u16 = 0x1fff;
/// Info: belongs to the access method.
pub const INDEX_AM_RESERVED_BIT: u16 = 0x2000;
/// Info: has values of variable length.
pub const INDEX_VAR_MASK: u16 = 0x4000;
/// Info: has NULLs.
pub const INDEX_NULL_MASK: u16 = 0x8000;

const INFO_AT: usize = 6;
const BITMAP_SIZE: usize = MAX_ATTRIBUTES.div_ceil(8);
const NULLS_HEADER_SIZE: usize = max_align(HEADER_SIZE + BITMAP_SIZE);

const _: () = assert!(ItemPointer::SIZE == INFO_AT && INFO_AT + 2 == HEADER_SIZE);
const _: () = assert!(NULLS_HEADER_SIZE == 16);
const _: () =
    assert!(INDEX_SIZE_MASK ^ INDEX_AM_RESERVED_BIT ^ INDEX_VAR_MASK ^ INDEX_NULL_MASK == u16::MAX);

/// Why bytes are not an index tuple, or values do not make one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IndexTupleError {
    /// It is shorter than a header.
    #[error("index tuple of {len} bytes is shorter than its header")]
    TooShort {
        /// Its length.
        len: usize,
    },
    /// The stored size is impossible.
    #[error("index tuple of {len} bytes states a size of {size} bytes")]
    BadSize {
        /// The stored size.
        size: usize,
        /// Bytes that are there.
        len: usize,
    },
    /// The values need more bytes than an index tuple can have.
    #[error("index row requires {len} bytes, maximum size is {INDEX_SIZE_MASK}")]
    TooLarge {
        /// Bytes needed.
        len: usize,
    },
    /// A value is damaged, or does not match its column.
    #[error(transparent)]
    Value(#[from] TupleError),
}

/// A stored index tuple, to read. It is as long as its header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexTuple<'a>(&'a [u8]);

impl<'a> IndexTuple<'a> {
    /// Views the tuple at the beginning of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, IndexTupleError> {
        if bytes.len() < HEADER_SIZE {
            return Err(IndexTupleError::TooShort { len: bytes.len() });
        }
        let info = u16_field(bytes, INFO_AT);
        let size = usize::from(info & INDEX_SIZE_MASK);
        match bytes.get(..size) {
            Some(tuple) if size >= values_offset(info) => Ok(Self(tuple)),
            _ => Err(IndexTupleError::BadSize { size, len: bytes.len() }),
        }
    }

    /// All its bytes.
    #[inline]
    pub const fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Its size, header included.
    #[inline]
    pub const fn size(&self) -> usize {
        self.0.len()
    }

    /// The position in its header.
    #[inline]
    pub fn tid(&self) -> ItemPointer {
        ItemPointer::decode(field(self.0, 0))
    }

    /// Size and flags.
    #[inline]
    pub fn info(&self) -> u16 {
        u16_field(self.0, INFO_AT)
    }

    /// Whether there is a null bitmap.
    #[inline]
    pub fn has_nulls(&self) -> bool {
        self.info() & INDEX_NULL_MASK != 0
    }

    /// Offset of the values.
    #[inline]
    pub fn values_offset(&self) -> usize {
        values_offset(self.info())
    }

    /// Iterates over its first `count` values; later ones are `None`.
    #[inline]
    pub fn values(&self, count: usize) -> Deform<'a> {
        let bitmap = HEADER_SIZE..HEADER_SIZE + BITMAP_SIZE;
        let bitmap = if self.has_nulls() { self.0.get(bitmap) } else { None };
        Deform::of_parts(self.0, bitmap, self.values_offset(), count)
    }
}

/// Offset of the values in a tuple with these flags.
pub(crate) const fn values_offset(info: u16) -> usize {
    if info & INDEX_NULL_MASK != 0 { NULLS_HEADER_SIZE } else { HEADER_SIZE }
}

/// Sets the position in the header of a tuple.
///
/// # Panics
/// If the bytes are shorter than a header.
pub fn set_tid(tuple: &mut [u8], tid: ItemPointer) {
    put(tuple, 0, tid.encode());
}

/// Sets size and flags in the header of a tuple.
///
/// # Panics
/// If the bytes are shorter than a header.
pub fn set_info(tuple: &mut [u8], info: u16) {
    put(tuple, INFO_AT, info.to_le_bytes());
}

/// Starts an index tuple with a number of values at the end of a buffer, whose length must be a
/// multiple of 8. `has_null` must be true if any of them will be NULL. [`finish`] completes it.
pub fn start(
    values: usize,
    has_null: bool,
    out: &mut Vec<u8>,
) -> Result<TupleBuilder<'_>, TupleError> {
    if values > MAX_ATTRIBUTES {
        return Err(TupleError::WrongCount { values, layouts: values });
    }
    let values = if has_null { NULLS_HEADER_SIZE } else { HEADER_SIZE };
    Ok(TupleBuilder::with_shape(HeaderShape { bitmap: HEADER_SIZE, values }, has_null, out))
}

/// Completes a tuple that [`start`] began, and returns its size. After an error the buffer is as it
/// was before.
pub fn finish(tuple: TupleBuilder<'_>, tid: ItemPointer) -> Result<usize, IndexTupleError> {
    let has_null = tuple.has_null();
    let (out, start, has_var) = tuple.finish_values();
    let len = max_align(out.len() - start);
    let Some(size) = u16::try_from(len).ok().filter(|&size| size <= INDEX_SIZE_MASK) else {
        out.truncate(start);
        return Err(IndexTupleError::TooLarge { len });
    };
    out.resize(start + len, 0);
    let flag = |on, flag| if on { flag } else { 0 };
    let info = size | flag(has_null, INDEX_NULL_MASK) | flag(has_var, INDEX_VAR_MASK);
    let tuple = out.get_mut(start..).expect("the tuple's bytes");
    set_tid(tuple, tid);
    set_info(tuple, info);
    Ok(len)
}

/// Forms an index tuple. Values are given as for
/// [`form_tuple_into`](crate::tuple::form_tuple_into).
pub fn form(
    attrs: &[AttrLayout],
    values: &[Option<&[u8]>],
    tid: ItemPointer,
) -> Result<Vec<u8>, IndexTupleError> {
    if attrs.len() != values.len() {
        let (values, layouts) = (values.len(), attrs.len());
        return Err(TupleError::WrongCount { values, layouts }.into());
    }
    let mut out = Vec::new();
    let mut tuple = start(values.len(), values.iter().any(Option::is_none), &mut out)?;
    for (attr, value) in attrs.iter().zip(values) {
        match value {
            Some(value) => tuple.value(*attr, value)?,
            None => tuple.null(),
        }
    }
    finish(tuple, tid)?;
    Ok(out)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{tuple::HeapTuple, tuple::deform, tuple::form_tuple, varlena::Varlena};

    const COLUMNS: [AttrLayout; 4] =
        [AttrLayout::INT2, AttrLayout::INT8, AttrLayout::VARLENA, AttrLayout::NAME];

    #[test]
    fn layout() {
        let (two, eight) = (2_i16.to_le_bytes(), 8_i64.to_le_bytes());
        let tid = ItemPointer::new(1, 2);
        let values = [Some(&two[..]), Some(&eight), Some(b"hi"), None];
        let bytes = form(&COLUMNS, &values, tid).unwrap();
        assert_eq!(bytes[..12], [0, 0, 1, 0, 2, 0, 40, 0xc0, 7, 0, 0, 0]);
        assert_eq!(bytes[16..], *b"\x02\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\x07hi\0\0\0\0\0");
        let tuple = IndexTuple::new(&bytes).unwrap();
        assert_eq!((tuple.tid(), tuple.size(), tuple.values_offset()), (tid, 40, 16));
        let bytes = form(&COLUMNS[..2], &values[..2], tid).unwrap();
        assert_eq!(bytes[6..], *b"\x18\0\x02\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0");
    }

    #[test]
    fn impossible_tuples_are_refused() {
        let tid = ItemPointer::new(1, 2);
        let large = vec![b'x'; 8200];
        let error = form(&COLUMNS[2..3], &[Some(&large)], tid).unwrap_err();
        assert_eq!(error, IndexTupleError::TooLarge { len: 8216 });
        assert_eq!(error.to_string(), "index row requires 8216 bytes, maximum size is 8191");
        assert!(form(&COLUMNS, &[None; 3], tid).is_err());
        assert!(form(&[AttrLayout::INT4; 33], &[None; 33], tid).is_err());
        assert_eq!(IndexTuple::new(&[0; 7]), Err(IndexTupleError::TooShort { len: 7 }));
        for (size, len) in [(7, 8), (16, 8), (0x8008, 16)] {
            let mut bytes = vec![0; len];
            set_info(&mut bytes, size);
            let size = usize::from(size & INDEX_SIZE_MASK);
            assert_eq!(IndexTuple::new(&bytes), Err(IndexTupleError::BadSize { size, len }));
        }
    }

    proptest! {
        #[test]
        fn values_are_those_of_a_heap_tuple(
            two: Option<[u8; 2]>,
            eight: Option<[u8; 8]>,
            text: Option<Vec<u8>>,
            name: bool,
        ) {
            let name = name.then_some([b'n'; 64]);
            let values: [Option<&[u8]>; 4] = [
                two.as_ref().map(|v| &v[..]),
                eight.as_ref().map(|v| &v[..]),
                text.as_deref(),
                name.as_ref().map(|v| &v[..]),
            ];
            let bytes = form(&COLUMNS, &values, ItemPointer::new(3, 4)).unwrap();
            let tuple = IndexTuple::new(&bytes).unwrap();
            prop_assert_eq!((tuple.size(), tuple.size() % 8), (bytes.len(), 0));
            let mut walk = tuple.values(4);
            for (layout, value) in COLUMNS.iter().zip(values) {
                prop_assert_eq!(walk.next(*layout).unwrap(), value.map(Varlena::Plain));
            }
            let heap = form_tuple(&COLUMNS, &values).unwrap();
            let heap = HeapTuple::new(&heap).unwrap();
            deform(heap, &COLUMNS, &mut [None; 4]).unwrap();
            let stored = &heap.bytes()[heap.hoff()..];
            prop_assert!(bytes[tuple.values_offset()..].starts_with(stored));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            if let Ok(tuple) = IndexTuple::new(&bytes) {
                let mut walk = tuple.values(4);
                let _ = COLUMNS.map(|layout| walk.next(layout).is_ok());
            }
        }
    }
}
