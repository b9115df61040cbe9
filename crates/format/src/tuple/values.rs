//! Values into tuples and back.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use super::{
    HEADER_SIZE, HEAP_HASNULL, HEAP_HASVARWIDTH, HOFF_AT, HeapTuple, INFOMASK_AT, INFOMASK2_AT, TupleError,
};
use crate::{
    bytes::{max_align, put},
    varlena::{self, Varlena},
};

/// Most values a heap tuple can have.
pub const MAX_ATTRIBUTES: usize = 1600;

/// Alignment of a type's values inside tuples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Align {
    /// 1 byte ("c").
    Char = 1,
    /// 2 bytes ("s").
    Short = 2,
    /// 4 bytes ("i").
    Int = 4,
    /// 8 bytes ("d").
    Double = 8,
}

impl Align {
    /// The alignment in bytes.
    pub const fn bytes(self) -> usize {
        self as usize
    }

    /// The letter in `pg_type.typalign`.
    pub const fn code(self) -> u8 {
        match self {
            Self::Char => b'c',
            Self::Short => b's',
            Self::Int => b'i',
            Self::Double => b'd',
        }
    }

    /// The alignment of this letter.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            b'c' => Some(Self::Char),
            b's' => Some(Self::Short),
            b'i' => Some(Self::Int),
            b'd' => Some(Self::Double),
            _ => None,
        }
    }

    #[inline]
    const fn up(self, offset: usize) -> usize {
        (offset + self as usize - 1) & !(self as usize - 1)
    }
}

/// How values of a column are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttrLayout {
    /// Bytes of a value; -1 for variable length with a header, -2 for text that ends with a zero byte.
    pub len: i16,
    /// Alignment.
    pub align: Align,
    /// Is it passed by value in PostgreSQL? Has no effect on stored bytes.
    pub by_val: bool,
    /// Storage "plain": a value of variable length never gets the short header.
    pub plain: bool,
}

impl AttrLayout {
    /// bool, "char".
    pub const BYTE: Self = Self::fixed(1, Align::Char, true);
    /// int2.
    pub const INT2: Self = Self::fixed(2, Align::Short, true);
    /// int4, oid, float4, xid, cid, date.
    pub const INT4: Self = Self::fixed(4, Align::Int, true);
    /// int8, float8, timestamps.
    pub const INT8: Self = Self::fixed(8, Align::Double, true);
    /// name: 64 bytes, filled with zeros.
    pub const NAME: Self = Self::fixed(64, Align::Char, false);
    /// text, bytea, varchar, numeric and all other types of variable length with int alignment.
    pub const VARLENA: Self = Self { len: -1, align: Align::Int, by_val: false, plain: false };
    /// cstring.
    pub const CSTRING: Self = Self { len: -2, align: Align::Char, by_val: false, plain: true };

    /// A type of fixed length.
    pub const fn fixed(len: i16, align: Align, by_val: bool) -> Self {
        Self { len, align, by_val, plain: true }
    }

    /// A type of variable length that never gets the short header (int2vector, oidvector).
    pub const fn plain_varlena(align: Align) -> Self {
        Self { len: -1, align, by_val: false, plain: true }
    }
}

/// Makes a tuple: header with null bitmap, then the values. See [`form_tuple_into`].
pub fn form_tuple(attrs: &[AttrLayout], values: &[Option<&[u8]>]) -> Result<Vec<u8>, TupleError> {
    let mut out = Vec::new();
    form_tuple_into(attrs, values, &mut out)?;
    Ok(out)
}

/// Appends a tuple to `out`, which should be empty or at a multiple of 8; returns its length.
///
/// A value is what its type stores: the little-endian bytes of a fixed type, the bytes after the header of a variable one, the
/// text without the zero byte of a cstring. `None` is NULL. Transaction fields are left zero, ctid points nowhere.
pub fn form_tuple_into(
    attrs: &[AttrLayout],
    values: &[Option<&[u8]>],
    out: &mut Vec<u8>,
) -> Result<usize, TupleError> {
    if attrs.len() != values.len() || values.len() > MAX_ATTRIBUTES {
        return Err(TupleError::WrongCount { values: values.len(), layouts: attrs.len() });
    }
    let start = out.len();
    let has_null = values.iter().any(Option::is_none);
    let bitmap = if has_null { values.len().div_ceil(8) } else { 0 };
    let hoff = max_align(HEADER_SIZE + bitmap);
    let mut infomask = if has_null { HEAP_HASNULL } else { 0 };
    let mut len = hoff;
    for (n, (attr, value)) in attrs.iter().zip(values).enumerate() {
        if let Some(value) = value {
            let place = Place::of(*attr, value, len);
            len = place.ok_or(TupleError::WrongLength { attr: n, len: value.len() })?.end;
            infomask |= if attr.len < 0 { HEAP_HASVARWIDTH } else { 0 };
        }
    }
    if len >= varlena::MAX_PAYLOAD {
        return Err(TupleError::TooLarge { len });
    }
    out.resize(start + len, 0);
    let tuple = out.get_mut(start..).unwrap_or_default();
    let mut offset = hoff;
    for (n, (attr, value)) in attrs.iter().zip(values).enumerate() {
        let Some(value) = value else { continue };
        if has_null && let Some(byte) = tuple.get_mut(HEADER_SIZE + n / 8) {
            *byte |= 1 << (n % 8);
        }
        if let Some(place) = Place::of(*attr, value, offset) {
            place.write(value, tuple);
            offset = place.end;
        }
    }
    put(tuple, super::CTID_AT, crate::ids::ItemPointer::INVALID.encode());
    put(tuple, INFOMASK2_AT, (values.len() as u16).to_le_bytes());
    put(tuple, INFOMASK_AT, infomask.to_le_bytes());
    put(tuple, HOFF_AT, [hoff as u8]);
    Ok(len)
}

/// Where a value goes in a tuple.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Where its header is, if it has one, else its bytes.
    start: usize,
    /// Bytes of the header: 0, 1 or 4.
    header: usize,
    /// Where the next value may begin.
    end: usize,
}

impl Place {
    /// The place of a value behind those that end at `offset`; `None` if its type does not allow the value.
    #[inline]
    fn of(attr: AttrLayout, value: &[u8], offset: usize) -> Option<Self> {
        let len = value.len();
        if attr.len == -1 && !attr.plain && len <= varlena::MAX_SHORT_PAYLOAD {
            let header = varlena::SHORT_HEADER_SIZE;
            return Some(Self { start: offset, header, end: offset + header + len });
        }
        let start = attr.align.up(offset);
        match attr.len {
            -1 => {
                let header = varlena::HEADER_SIZE;
                (len <= varlena::MAX_PAYLOAD).then_some(Self { start, header, end: start + header + len })
            }
            -2 => (!value.contains(&0)).then_some(Self { start, header: 0, end: start + len + 1 }),
            fixed => {
                (usize::try_from(fixed) == Ok(len)).then_some(Self { start, header: 0, end: start + len })
            }
        }
    }

    /// Writes header and value; the room is zeros, as are padding and the end of a cstring.
    #[inline]
    fn write(&self, value: &[u8], tuple: &mut [u8]) {
        let Some(room) = tuple.get_mut(self.start..self.end) else { return };
        match self.header {
            0 => {}
            varlena::SHORT_HEADER_SIZE => put(room, 0, [varlena::short_header(value.len())]),
            _ => put(room, 0, varlena::long_header(value.len())),
        }
        let Some(room) = room.get_mut(self.header..) else { return };
        match (value, room) {
            ([byte], [to, ..]) => *to = *byte,
            (&[a, b, c, d], room) => put(room, 0, [a, b, c, d]),
            (&[a, b, c, d, e, f, g, h], room) => put(room, 0, [a, b, c, d, e, f, g, h]),
            (value, room) => {
                if let Some(room) = room.get_mut(..value.len()) {
                    room.copy_from_slice(value);
                }
            }
        }
    }
}

/// Takes the first `out.len()` values apart, which `attrs` describes: NULLs and values the tuple is too old to have become `None`.
/// Fails on damage, and on compressed or external values: use [`Deform`] for those.
pub fn deform<'a>(
    tuple: HeapTuple<'a>,
    attrs: &[AttrLayout],
    out: &mut [Option<&'a [u8]>],
) -> Result<(), TupleError> {
    let mut walk = Deform::new(tuple)?;
    for (n, (slot, attr)) in out.iter_mut().zip(attrs).enumerate() {
        *slot = match walk.next(*attr)? {
            None => None,
            Some(Varlena::Plain(value)) => Some(value),
            Some(_) => return Err(TupleError::Toasted { attr: n }),
        };
    }
    Ok(())
}

/// Walks over the values of a tuple.
#[derive(Debug, Clone)]
pub struct Deform<'a> {
    bytes: &'a [u8],
    bitmap: Option<&'a [u8]>,
    offset: usize,
    attr: usize,
    count: usize,
}

impl<'a> Deform<'a> {
    /// Begins before the first value.
    pub fn new(tuple: HeapTuple<'a>) -> Result<Self, TupleError> {
        let (bytes, count, hoff) = (tuple.bytes(), tuple.attribute_count(), tuple.hoff());
        let bitmap_len = if tuple.has_nulls() { count.div_ceil(8) } else { 0 };
        let least = HEADER_SIZE + bitmap_len;
        if hoff < least || hoff > bytes.len() || hoff % 8 != 0 {
            return Err(TupleError::BadHeaderLength { hoff, len: bytes.len(), attrs: count });
        }
        let bitmap = if tuple.has_nulls() { bytes.get(HEADER_SIZE..least) } else { None };
        Ok(Self { bytes, bitmap, offset: hoff, attr: 0, count })
    }

    /// The next value, which has this layout. Values of fixed length come as [`Varlena::Plain`] too.
    #[inline]
    pub fn next(&mut self, attr: AttrLayout) -> Result<Option<Varlena<'a>>, TupleError> {
        let n = self.attr;
        self.attr += 1;
        if n >= self.count || self.is_null(n) {
            return Ok(None);
        }
        match self.take(attr) {
            Some((value, end)) => {
                self.offset = end;
                Ok(Some(value))
            }
            None => Err(TupleError::BadValue { attr: n, offset: self.offset }),
        }
    }

    /// The value at the present offset and where it ends; `None` if it is damaged.
    #[inline]
    fn take(&self, attr: AttrLayout) -> Option<(Varlena<'a>, usize)> {
        if let Ok(len) = usize::try_from(attr.len) {
            let start = attr.align.up(self.offset);
            return Some((Varlena::Plain(self.bytes.get(start..start + len)?), start + len));
        }
        if attr.len == -1 {
            let aligned = varlena::is_unaligned(*self.bytes.get(self.offset)?);
            let start = if aligned { self.offset } else { attr.align.up(self.offset) };
            let (value, len) = varlena::decode(self.bytes.get(start..)?)?;
            return Some((value, start + len));
        }
        let start = attr.align.up(self.offset);
        let rest = self.bytes.get(start..)?;
        let len = rest.iter().position(|&byte| byte == 0)?;
        Some((Varlena::Plain(rest.get(..len)?), start + len + 1))
    }

    #[inline]
    fn is_null(&self, n: usize) -> bool {
        self.bitmap.is_some_and(|bitmap| bitmap.get(n / 8).is_none_or(|byte| byte >> (n % 8) & 1 == 0))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIXED: [AttrLayout; 6] = [
        AttrLayout::INT4,
        AttrLayout::INT8,
        AttrLayout::BYTE,
        AttrLayout::INT8,
        AttrLayout::VARLENA,
        AttrLayout::INT2,
    ];

    #[test]
    fn layout_of_a_tuple() {
        let (four, eight) = (1_i32.to_le_bytes(), 2_i64.to_le_bytes());
        let values: [Option<&[u8]>; 6] =
            [Some(&four), Some(&eight), Some(&[1]), Some(&eight), Some(b"hi"), None];
        let tuple = form_tuple(&MIXED, &values).unwrap();
        assert_eq!(tuple.len(), 59);
        assert_eq!(tuple[18..24], [6, 0, 3, 0, 24, 0b01_1111]);
        assert_eq!(tuple[24..32], [1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(tuple[56..], *b"\x07hi");
        let view = HeapTuple::new(&tuple).unwrap();
        let mut out = [None; 6];
        deform(view, &MIXED, &mut out).unwrap();
        assert_eq!(out, values);
        let mut first = [None; 2];
        deform(view, &MIXED, &mut first).unwrap();
        assert_eq!(first, values[..2]);
    }

    #[test]
    fn columns_added_later_are_null() {
        let tuple = form_tuple(&[AttrLayout::BYTE], &[Some(&[1])]).unwrap();
        let mut out = [Some(&b"x"[..]); 2];
        deform(HeapTuple::new(&tuple).unwrap(), &[AttrLayout::BYTE, AttrLayout::INT4], &mut out).unwrap();
        assert_eq!(out, [Some(&[1][..]), None]);
    }

    #[test]
    fn long_and_plain_values_get_the_long_header() {
        let text = [b'x'; 127];
        for (attr, value) in
            [(AttrLayout::VARLENA, &text[..]), (AttrLayout::plain_varlena(Align::Int), &text[..3])]
        {
            let tuple = form_tuple(&[AttrLayout::BYTE, attr], &[Some(&[1]), Some(value)]).unwrap();
            assert_eq!(tuple.len(), 24 + 4 + 4 + value.len());
            let mut out = [None; 2];
            deform(HeapTuple::new(&tuple).unwrap(), &[AttrLayout::BYTE, attr], &mut out).unwrap();
            assert_eq!(out[1], Some(value));
        }
        let short = form_tuple(&[AttrLayout::VARLENA], &[Some(&text[..126])]).unwrap();
        assert_eq!((short.len(), short[24]), (24 + 127, 0xff));
    }

    #[test]
    fn wrong_values_are_refused() {
        assert_eq!(
            form_tuple(&[AttrLayout::INT4], &[Some(&[1])]),
            Err(TupleError::WrongLength { attr: 0, len: 1 })
        );
        assert_eq!(
            form_tuple(&[AttrLayout::INT4], &[]),
            Err(TupleError::WrongCount { values: 0, layouts: 1 })
        );
        assert!(form_tuple(&[AttrLayout::CSTRING], &[Some(b"a\0b")]).is_err());
        assert!(HeapTuple::new(&[0; 22]).is_err());
    }

    fn attr() -> impl Strategy<Value = AttrLayout> {
        prop_oneof![
            Just(AttrLayout::BYTE),
            Just(AttrLayout::INT2),
            Just(AttrLayout::INT4),
            Just(AttrLayout::INT8),
            Just(AttrLayout::NAME),
            Just(AttrLayout::VARLENA),
            Just(AttrLayout::CSTRING),
            Just(AttrLayout::plain_varlena(Align::Int)),
            Just(AttrLayout { align: Align::Double, ..AttrLayout::VARLENA }),
        ]
    }

    fn column() -> impl Strategy<Value = (AttrLayout, Option<Vec<u8>>)> {
        (attr(), proptest::collection::vec(1_u8.., 0..300), any::<bool>()).prop_map(
            |(attr, mut bytes, null)| {
                if let Ok(len) = usize::try_from(attr.len) {
                    bytes.resize(len, 7);
                }
                (attr, (!null).then_some(bytes))
            },
        )
    }

    proptest! {
        #[test]
        fn round_trip(columns in proptest::collection::vec(column(), 0..40)) {
            let attrs: Vec<_> = columns.iter().map(|c| c.0).collect();
            let values: Vec<_> = columns.iter().map(|c| c.1.as_deref()).collect();
            let tuple = form_tuple(&attrs, &values).unwrap();
            let mut out = vec![None; values.len()];
            deform(HeapTuple::new(&tuple).unwrap(), &attrs, &mut out).unwrap();
            prop_assert_eq!(out, values);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, attrs in proptest::collection::vec(attr(), 0..40)) {
            if let Ok(tuple) = HeapTuple::new(&bytes) {
                let mut out = vec![None; attrs.len()];
                let _ = deform(tuple, &attrs, &mut out);
            }
        }

        #[test]
        fn damaged_tuples_never_panic(columns in proptest::collection::vec(column(), 1..20), at: usize, to: u8, cut: usize) {
            let attrs: Vec<_> = columns.iter().map(|c| c.0).collect();
            let values: Vec<_> = columns.iter().map(|c| c.1.as_deref()).collect();
            let mut tuple = form_tuple(&attrs, &values).unwrap();
            let len = tuple.len();
            tuple[at % len] = to;
            tuple.truncate(cut % (len + 1));
            if let Ok(tuple) = HeapTuple::new(&tuple) {
                let mut out = vec![None; attrs.len()];
                let _ = deform(tuple, &attrs, &mut out);
            }
        }
    }
}
