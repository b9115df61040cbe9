//! Forms tuples from values, and deforms them.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use super::header::{
    CTID_AT, HEADER_SIZE, HEAP_HASEXTERNAL, HEAP_HASNULL, HEAP_HASVARWIDTH, HOFF_AT, HeapTuple,
    INFOMASK_AT, INFOMASK2_AT, MAX_ATTRIBUTES, TupleError,
};
use crate::{
    bytes::{max_align, put},
    ids::ItemPointer,
    varlena::{self, ToastPointer, Varlena},
};

/// How the header of a tuple that is being formed looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeaderShape {
    /// Offset of the null bitmap.
    pub(crate) bitmap: usize,
    /// Offset of the values.
    pub(crate) values: usize,
}

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

    /// The alignment with a letter.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            b'c' => Some(Self::Char),
            b's' => Some(Self::Short),
            b'i' => Some(Self::Int),
            b'd' => Some(Self::Double),
            _ => None,
        }
    }

    /// Rounds an offset up to the alignment.
    #[inline]
    pub const fn up(self, offset: usize) -> usize {
        (offset + self as usize - 1) & !(self as usize - 1)
    }
}

/// How values of a column are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttrLayout {
    /// Bytes of a value; -1 for variable length with a header, -2 for text that ends with a zero
    /// byte.
    pub len: i16,
    /// Alignment.
    pub align: Align,
    /// Whether PostgreSQL passes it by value. Has no effect on stored bytes.
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

/// Forms a tuple: header, null bitmap, values. See [`form_tuple_into`].
pub fn form_tuple(attrs: &[AttrLayout], values: &[Option<&[u8]>]) -> Result<Vec<u8>, TupleError> {
    let mut out = Vec::new();
    form_tuple_into(attrs, values, &mut out)?;
    Ok(out)
}

/// Appends a tuple to `out`, whose length should be a multiple of 8, and returns the tuple's
/// length.
///
/// A value is given as its type stores it: the little-endian bytes of a fixed type, the bytes
/// behind the header of a variable-length type, a cstring without its zero byte. `None` is NULL.
/// The transaction fields are zero, and ctid is invalid.
pub fn form_tuple_into(
    attrs: &[AttrLayout],
    values: &[Option<&[u8]>],
    out: &mut Vec<u8>,
) -> Result<usize, TupleError> {
    if attrs.len() != values.len() {
        return Err(TupleError::WrongCount { values: values.len(), layouts: attrs.len() });
    }
    let start = out.len();
    let has_null = values.iter().any(Option::is_none);
    let mut tuple = TupleBuilder::new(values.len(), has_null, out)?;
    for (attr, value) in attrs.iter().zip(values) {
        let Some(value) = value else {
            tuple.null();
            continue;
        };
        if let Err(error) = tuple.value(*attr, value) {
            out.truncate(start);
            return Err(error);
        }
    }
    tuple.finish()
}

/// Forms a tuple at the end of a buffer, value by value in the order of the columns.
///
/// [`fixed`](Self::fixed) writes a value of fixed length without an intermediate slice.
#[derive(Debug)]
pub struct TupleBuilder<'o> {
    out: &'o mut Vec<u8>,
    /// Start of the tuple in `out`.
    start: usize,
    /// Offset of the null bitmap in the tuple.
    bitmap: usize,
    has_null: bool,
    infomask: u16,
    /// Index of the next value.
    attr: usize,
}

impl<'o> TupleBuilder<'o> {
    /// Starts a tuple with a number of values. `has_null` must be true if any of them will be NULL.
    #[inline]
    pub fn new(values: usize, has_null: bool, out: &'o mut Vec<u8>) -> Result<Self, TupleError> {
        if values > MAX_ATTRIBUTES {
            return Err(TupleError::WrongCount { values, layouts: values });
        }
        let start = out.len();
        let bitmap = if has_null { values.div_ceil(8) } else { 0 };
        let hoff = max_align(HEADER_SIZE + bitmap);
        let mut header = [0; max_align(HEADER_SIZE)];
        put(&mut header, CTID_AT, ItemPointer::INVALID.encode());
        put(&mut header, INFOMASK2_AT, (values as u16).to_le_bytes());
        put(&mut header, HOFF_AT, [hoff as u8]);
        out.extend_from_slice(&header);
        if hoff > header.len() {
            out.resize(start + hoff, 0);
        }
        let infomask = if has_null { HEAP_HASNULL } else { 0 };
        Ok(Self { out, start, bitmap: HEADER_SIZE, has_null, infomask, attr: 0 })
    }

    /// Starts a tuple that begins with zeros instead of a heap tuple's header.
    pub(crate) fn with_shape(shape: HeaderShape, has_null: bool, out: &'o mut Vec<u8>) -> Self {
        let start = out.len();
        out.resize(start + shape.values, 0);
        Self { out, start, bitmap: shape.bitmap, has_null, infomask: 0, attr: 0 }
    }

    /// Whether it has a null bitmap.
    pub(crate) const fn has_null(&self) -> bool {
        self.has_null
    }

    /// Ends a tuple of another shape: where it begins in the buffer, and whether it has values of
    /// variable length.
    pub(crate) fn finish_values(self) -> (&'o mut Vec<u8>, usize, bool) {
        (self.out, self.start, self.infomask & HEAP_HASVARWIDTH != 0)
    }

    /// Appends a NULL.
    #[inline]
    pub fn null(&mut self) {
        assert!(self.has_null, "a NULL in a tuple that was started without");
        self.attr += 1;
    }

    /// Appends a value of a type of fixed length. After an error the tuple must be dropped.
    #[inline]
    pub fn fixed<const N: usize>(
        &mut self,
        attr: AttrLayout,
        value: [u8; N],
    ) -> Result<(), TupleError> {
        if usize::try_from(attr.len) != Ok(N) {
            return Err(TupleError::WrongLength { attr: self.attr, len: N });
        }
        self.present();
        self.pad(attr.align);
        self.out.extend_from_slice(&value);
        Ok(())
    }

    /// Appends a value, given as for [`form_tuple_into`]. After an error the tuple must be dropped.
    #[inline]
    pub fn value(&mut self, attr: AttrLayout, value: &[u8]) -> Result<(), TupleError> {
        let len = value.len();
        let fits = match attr.len {
            -1 => len <= varlena::MAX_PAYLOAD,
            -2 => !value.contains(&0),
            fixed => usize::try_from(fixed) == Ok(len),
        };
        if !fits {
            return Err(TupleError::WrongLength { attr: self.attr, len });
        }
        self.present();
        if attr.len < 0 {
            self.infomask |= HEAP_HASVARWIDTH;
        }
        if attr.len == -1 && !attr.plain && len <= varlena::MAX_SHORT_PAYLOAD {
            self.out.push(varlena::short_header(len));
        } else {
            self.pad(attr.align);
            if attr.len == -1 {
                self.out.extend_from_slice(&varlena::long_header(len));
            }
        }
        self.out.extend_from_slice(value);
        if attr.len == -2 {
            self.out.push(0);
        }
        Ok(())
    }

    /// Appends a value of variable length as it was found in a tuple, or as it is to be stored:
    /// compressed, or a pointer. After an error the tuple must be dropped.
    pub fn varlena(&mut self, attr: AttrLayout, value: Varlena<'_>) -> Result<(), TupleError> {
        let wrong = |attr, len| TupleError::WrongLength { attr, len };
        match value {
            Varlena::Plain(value) => return self.value(attr, value),
            Varlena::Compressed { raw_size, method, data } => {
                if attr.len != -1 || data.len() > varlena::MAX_PAYLOAD - varlena::HEADER_SIZE {
                    return Err(wrong(self.attr, data.len()));
                }
                self.present();
                self.pad(attr.align);
                self.out.extend_from_slice(&varlena::compressed_header(data.len()));
                let info = varlena::compression_info(raw_size, method);
                self.out.extend_from_slice(&info.to_le_bytes());
                self.out.extend_from_slice(data);
            }
            Varlena::External(pointer) => {
                if attr.len != -1 {
                    return Err(wrong(self.attr, ToastPointer::SIZE));
                }
                self.present();
                self.out.extend_from_slice(&pointer.encode());
                self.infomask |= HEAP_HASEXTERNAL;
            }
        }
        self.infomask |= HEAP_HASVARWIDTH;
        Ok(())
    }

    /// Completes the tuple, and returns its length.
    #[inline]
    pub fn finish(self) -> Result<usize, TupleError> {
        assert_eq!(self.bitmap, HEADER_SIZE, "the header is a heap tuple's");
        let len = self.out.len() - self.start;
        if len >= varlena::MAX_PAYLOAD {
            self.out.truncate(self.start);
            return Err(TupleError::TooLarge { len });
        }
        put(self.out, self.start + INFOMASK_AT, self.infomask.to_le_bytes());
        Ok(len)
    }

    /// Sets the bit of the next value in the null bitmap, if there is one.
    #[inline]
    fn present(&mut self) {
        let n = self.attr;
        if self.has_null {
            let byte = self.out.get_mut(self.start + self.bitmap + n / 8);
            *byte.expect("the bitmap has a bit for each value") |= 1 << (n % 8);
        }
        self.attr += 1;
    }

    /// Appends zeros up to an alignment.
    #[inline]
    fn pad(&mut self, align: Align) {
        let len = self.out.len();
        let end = self.start + align.up(len - self.start);
        if end > len {
            // Appending a fixed number of bytes and truncating is faster than a variable number.
            self.out.extend_from_slice(&[0; 8]);
            self.out.truncate(end);
        }
    }
}

/// Deforms the first `out.len()` values, which `attrs` describes. NULLs and values of columns that
/// were added later become `None`. Fails on damage, and on compressed or external values; use
/// [`Deform`] for those.
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

/// Iterates over the values of a tuple.
#[derive(Debug, Clone)]
pub struct Deform<'a> {
    bytes: &'a [u8],
    bitmap: Option<&'a [u8]>,
    offset: usize,
    attr: usize,
    count: usize,
}

impl<'a> Deform<'a> {
    /// Starts before the first value.
    pub fn new(tuple: HeapTuple<'a>) -> Result<Self, TupleError> {
        let (bytes, count, hoff) = (tuple.bytes(), tuple.attribute_count(), tuple.hoff());
        let bitmap_len = if tuple.has_nulls() { count.div_ceil(8) } else { 0 };
        let least = HEADER_SIZE + bitmap_len;
        if hoff < least || hoff > bytes.len() || hoff % 8 != 0 {
            return Err(TupleError::BadHeaderLength { hoff, len: bytes.len(), attrs: count });
        }
        let bitmap = if tuple.has_nulls() { bytes.get(HEADER_SIZE..least) } else { None };
        Ok(Self::of_parts(bytes, bitmap, hoff, count))
    }

    /// Starts before the first of `count` values, which begin at `offset` of a tuple.
    pub(crate) const fn of_parts(
        bytes: &'a [u8],
        bitmap: Option<&'a [u8]>,
        offset: usize,
        count: usize,
    ) -> Self {
        Self { bytes, bitmap, offset, attr: 0, count }
    }

    /// Where the next value begins, before alignment.
    pub(crate) const fn offset(&self) -> usize {
        self.offset
    }

    /// The next value, which must have this layout. Values of fixed length are [`Varlena::Plain`]
    /// too.
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

    /// The value at the current offset, and its end; `None` if it is damaged.
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
        self.bitmap
            .is_some_and(|bitmap| bitmap.get(n / 8).is_none_or(|byte| byte >> (n % 8) & 1 == 0))
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
        deform(HeapTuple::new(&tuple).unwrap(), &[AttrLayout::BYTE, AttrLayout::INT4], &mut out)
            .unwrap();
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
    fn compressed_and_external_values_come_back() {
        let pointer = ToastPointer { raw_size: 9004, ext_info: 9000, value_id: 7, toast_rel: 8 };
        let compressed = Varlena::Compressed { raw_size: 500, method: 1, data: b"compressed" };
        let values = [Varlena::Plain(b"x"), Varlena::External(pointer), compressed];
        let mut out = Vec::new();
        let mut tuple = TupleBuilder::new(values.len(), false, &mut out).unwrap();
        for value in values {
            tuple.varlena(AttrLayout::VARLENA, value).unwrap();
        }
        assert!(tuple.varlena(AttrLayout::INT4, values[1]).is_err());
        tuple.finish().unwrap();
        let stored = HeapTuple::new(&out).unwrap();
        assert_eq!(stored.infomask(), HEAP_HASEXTERNAL | HEAP_HASVARWIDTH);
        let mut walk = Deform::new(stored).unwrap();
        for value in values {
            assert_eq!(walk.next(AttrLayout::VARLENA), Ok(Some(value)));
        }
        // The pointer has no alignment, the compressed value has that of its type.
        assert_eq!(out.len(), 24 + 2 + 18 + 4 + 4 + b"compressed".len());
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
        fn arbitrary_bytes_never_panic(
            bytes: Vec<u8>,
            attrs in proptest::collection::vec(attr(), 0..40),
        ) {
            if let Ok(tuple) = HeapTuple::new(&bytes) {
                let mut out = vec![None; attrs.len()];
                let _ = deform(tuple, &attrs, &mut out);
            }
        }

        #[test]
        fn damaged_tuples_never_panic(
            columns in proptest::collection::vec(column(), 1..20),
            at: usize,
            to: u8,
            cut: usize,
        ) {
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
