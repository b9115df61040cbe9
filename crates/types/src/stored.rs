//! Stored bytes to values, and back.
//!
//! The bytes are those after a varlena's length word, or the fixed-length image. Where they lie in
//! a tuple is the tuple codec's to know.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::borrow::Cow;

use crate::array::Array;
use crate::datum::Datum;
use crate::error::{Problem, Result};
use crate::facts::Repr;
use crate::inet::Inet;
use crate::interval::Interval;
use crate::numeric::Numeric;

/// Bytes of a stored name, its terminating zero included.
pub const NAME_LEN: usize = 64;

impl Repr {
    /// The value in these bytes.
    pub fn decode(self, bytes: &[u8]) -> Result<Datum<'_>> {
        Ok(match self {
            Repr::Bool => Datum::Bool(fixed::<1>(bytes)? != [0]),
            Repr::Int2 => Datum::Int2(i16::from_le_bytes(fixed(bytes)?)),
            Repr::Int4 => Datum::Int4(i32::from_le_bytes(fixed(bytes)?)),
            Repr::Int8 => Datum::Int8(i64::from_le_bytes(fixed(bytes)?)),
            Repr::Float4 => Datum::Float4(f32::from_le_bytes(fixed(bytes)?)),
            Repr::Float8 => Datum::Float8(f64::from_le_bytes(fixed(bytes)?)),
            Repr::Oid => Datum::Oid(u32::from_le_bytes(fixed(bytes)?)),
            Repr::Xid => Datum::Xid(u32::from_le_bytes(fixed(bytes)?)),
            Repr::Tid => {
                // A block's number is stored as two halves, the higher one first.
                let [a, b, c, d, number @ ..] = fixed::<6>(bytes)?;
                Datum::Tid(u32::from_le_bytes([c, d, a, b]), u16::from_le_bytes(number))
            }
            Repr::Char => Datum::Char(u8::from_le_bytes(fixed(bytes)?)),
            Repr::Name => {
                let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
                Datum::text(utf8(bytes.get(..end).unwrap_or(bytes))?)
            }
            Repr::Text => Datum::text(utf8(bytes)?),
            Repr::Numeric => {
                let damaged = || Problem::StoredNumeric { len: bytes.len() };
                Datum::numeric(Numeric::read_stored(bytes).ok_or_else(damaged)?)
            }
            Repr::Date => Datum::Date(i32::from_le_bytes(fixed(bytes)?)),
            Repr::Time => Datum::Time(i64::from_le_bytes(fixed(bytes)?)),
            Repr::Timetz => {
                let [time @ .., a, b, c, d] = fixed::<12>(bytes)?;
                Datum::Timetz(i64::from_le_bytes(time), i32::from_le_bytes([a, b, c, d]))
            }
            Repr::Timestamp => Datum::Timestamp(i64::from_le_bytes(fixed(bytes)?)),
            Repr::Timestamptz => Datum::Timestamptz(i64::from_le_bytes(fixed(bytes)?)),
            Repr::Interval => {
                let [micros @ .., a, b, c, d, e, f, g, h] = fixed::<16>(bytes)?;
                Datum::Interval(Interval {
                    micros: i64::from_le_bytes(micros),
                    days: i32::from_le_bytes([a, b, c, d]),
                    months: i32::from_le_bytes([e, f, g, h]),
                })
            }
            Repr::Uuid => Datum::Uuid(fixed(bytes)?),
            Repr::Lsn => Datum::Lsn(u64::from_le_bytes(fixed(bytes)?)),
            Repr::Xid8 => Datum::Xid8(u64::from_le_bytes(fixed(bytes)?)),
            Repr::Bits => stored_bits(bytes)?,
            Repr::Jsonb => Datum::Jsonb(bytes.into()),
            Repr::Inet => {
                let damaged = || Problem::StoredLength { len: bytes.len(), expected: 6 };
                Datum::Inet(Inet::read_stored(bytes).ok_or_else(damaged)?)
            }
            Repr::Macaddr => Datum::Macaddr(fixed(bytes)?),
            Repr::Macaddr8 => Datum::Macaddr8(fixed(bytes)?),
            Repr::Array(_) => Datum::Array(Array::stored(bytes)),
            Repr::Bytes => Datum::bytes(bytes),
            Repr::Carried(ty) => Datum::Carried(ty, bytes.into()),
        })
    }

    /// Whether a value may be stored in a column of this representation.
    #[inline]
    pub fn accepts(self, value: &Datum<'_>) -> bool {
        if let (Repr::Carried(ty), Datum::Carried(of, _)) = (self, value) {
            return ty == *of;
        }
        if let (Repr::Numeric, Datum::Numeric(number)) = (self, value) {
            return number.is_in_range();
        }
        if let (Repr::Array(element), Datum::Array(array)) = (self, value) {
            return element == 0 || array.element() == Ok(element);
        }
        matches!(
            (self, value),
            (_, Datum::Null)
                | (Repr::Bool, Datum::Bool(_))
                | (Repr::Int2, Datum::Int2(_))
                | (Repr::Int4, Datum::Int4(_))
                | (Repr::Int8, Datum::Int8(_))
                | (Repr::Float4, Datum::Float4(_))
                | (Repr::Float8, Datum::Float8(_))
                | (Repr::Oid, Datum::Oid(_))
                | (Repr::Xid, Datum::Xid(_))
                | (Repr::Tid, Datum::Tid(..))
                | (Repr::Char, Datum::Char(_))
                | (Repr::Name | Repr::Text, Datum::Text(_))
                | (Repr::Date, Datum::Date(_))
                | (Repr::Time, Datum::Time(_))
                | (Repr::Timetz, Datum::Timetz(..))
                | (Repr::Timestamp, Datum::Timestamp(_))
                | (Repr::Timestamptz, Datum::Timestamptz(_))
                | (Repr::Interval, Datum::Interval(_))
                | (Repr::Uuid, Datum::Uuid(_))
                | (Repr::Lsn, Datum::Lsn(_))
                | (Repr::Xid8, Datum::Xid8(_))
                | (Repr::Bits, Datum::Bits(..))
                | (Repr::Jsonb, Datum::Jsonb(_))
                | (Repr::Inet, Datum::Inet(_))
                | (Repr::Macaddr, Datum::Macaddr(_))
                | (Repr::Macaddr8, Datum::Macaddr8(_))
                | (Repr::Bytes, Datum::Bytes(_))
        )
    }
}

impl Datum<'_> {
    /// The stored bytes of a value that is not NULL: its fixed-length image, or what follows the
    /// length word. `len` is its type's `typlen`, which tells a name from a text.
    ///
    /// # Errors
    /// If the value was not fetched.
    pub fn to_stored(&self, len: i16) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Owned(match self {
            Datum::Null => Vec::new(),
            Datum::Bool(v) => vec![u8::from(*v)],
            Datum::Int2(v) => v.to_le_bytes().to_vec(),
            Datum::Int4(v) | Datum::Date(v) => v.to_le_bytes().to_vec(),
            Datum::Int8(v) | Datum::Time(v) | Datum::Timestamp(v) | Datum::Timestamptz(v) => {
                v.to_le_bytes().to_vec()
            }
            Datum::Float4(v) => v.to_le_bytes().to_vec(),
            Datum::Float8(v) => v.to_le_bytes().to_vec(),
            Datum::Oid(v) | Datum::Xid(v) => v.to_le_bytes().to_vec(),
            Datum::Tid(block, number) => {
                // A block's number is stored as two halves, the higher one first.
                let ([a, b, c, d], [e, f]) = (block.to_le_bytes(), number.to_le_bytes());
                vec![c, d, a, b, e, f]
            }
            Datum::Char(v) => vec![*v],
            Datum::Text(v) => match usize::try_from(len) {
                Ok(len) => {
                    let mut name = truncate_name(v).as_bytes().to_vec();
                    name.resize(len, 0);
                    name
                }
                Err(_) => return Ok(Cow::Borrowed(v.as_bytes())),
            },
            Datum::Numeric(v) => v.to_stored(),
            Datum::Timetz(time, zone) => [&time.to_le_bytes()[..], &zone.to_le_bytes()].concat(),
            Datum::Interval(v) => stored_interval(v).to_vec(),
            Datum::Uuid(v) => v.to_vec(),
            Datum::Lsn(v) | Datum::Xid8(v) => v.to_le_bytes().to_vec(),
            Datum::Bits(len, v) => [&len.to_le_bytes()[..], v].concat(),
            Datum::Inet(v) => {
                let mut bytes = Vec::new();
                v.write_stored(&mut bytes);
                bytes
            }
            Datum::Macaddr(v) => v.to_vec(),
            Datum::Macaddr8(v) => v.to_vec(),
            Datum::Bytes(v) | Datum::Carried(_, v) | Datum::Jsonb(v) => {
                return Ok(Cow::Borrowed(v));
            }
            Datum::Array(v) => return Ok(Cow::Borrowed(v.bytes())),
            Datum::Toasted(_) => return Err(Problem::NotFetched.into()),
        }))
    }
}

/// The stored image of an interval.
fn stored_interval(interval: &Interval) -> [u8; 16] {
    let mut image = [0; 16];
    let Interval { micros, days, months } = interval;
    let bytes = micros.to_le_bytes().into_iter().chain(days.to_le_bytes());
    image.iter_mut().zip(bytes.chain(months.to_le_bytes())).for_each(|(to, from)| *to = from);
    image
}

/// A bit string: how many bits there are, and their bytes.
fn stored_bits(bytes: &[u8]) -> Result<Datum<'_>> {
    let damaged = || Problem::StoredLength { len: bytes.len(), expected: 4 };
    let (len, bits) = bytes.split_first_chunk::<4>().ok_or_else(damaged)?;
    let len = u32::from_le_bytes(*len);
    if bits.len() != len.div_ceil(8) as usize {
        return Err(damaged().into());
    }
    Ok(Datum::Bits(len, bits.into()))
}

/// A name's first 63 bytes at most, cut between characters.
pub fn truncate_name(text: &str) -> &str {
    if text.len() < NAME_LEN {
        return text;
    }
    text.get(..text.floor_char_boundary(NAME_LEN - 1)).unwrap_or(text)
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    let wrong = |_| Problem::StoredLength { len: bytes.len(), expected: N }.into();
    bytes.try_into().map_err(wrong)
}

/// Stored text: UTF-8.
fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|e| {
        // `valid_up_to` is within the bytes.
        let (_, bad) = bytes.split_at(e.valid_up_to());
        let shown = bad.iter().take(e.error_len().unwrap_or(bad.len()));
        let bytes = shown.map(|b| format!("0x{b:02x}")).collect::<Vec<_>>().join(" ");
        Problem::InvalidUtf8 { bytes }.into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oid::{Oid, oids};

    #[test]
    fn bad_bytes_are_errors() {
        assert_eq!(Repr::Int4.decode(b"abc").expect_err("short").sqlstate(), "XX001");
        let error = Repr::Text.decode(b"ab\xff").expect_err("not UTF-8");
        assert_eq!(error.sqlstate(), "22021");
        assert_eq!(error.to_string(), "invalid byte sequence for encoding \"UTF8\": 0xff");
    }

    #[test]
    fn a_name_ends_at_its_zero() {
        assert_eq!(Repr::Name.decode(b"relname\0\0").expect("a name"), Datum::text("relname"));
        assert_eq!(Repr::Name.decode(b"whole").expect("a name"), Datum::text("whole"));
    }

    #[test]
    fn columns_take_values_of_their_type_alone() {
        assert!(Repr::of(oids::INT4).accepts(&Datum::Int4(1)));
        assert!(!Repr::of(oids::INT4).accepts(&Datum::Int8(1)));
        let number = |scale| Datum::numeric(Numeric::Finite { digits: 1.into(), scale });
        assert!(Repr::of(oids::NUMERIC).accepts(&Datum::numeric(Numeric::NaN)));
        assert!(Repr::of(oids::NUMERIC).accepts(&number(16_383)));
        assert!(!Repr::of(oids::NUMERIC).accepts(&number(16_384)), "beyond the limits of the type");
        assert!(!Repr::of(oids::INT4).accepts(&number(0)));
        assert!(!Repr::Bytes.accepts(&Datum::Toasted(b"pointer".into())));
        // A type of PostgreSQL's that is not in the table.
        const POINT: Oid = 600;
        let carried = Repr::of(POINT).decode(b"{}").expect("carried");
        assert!(Repr::of(POINT).accepts(&carried));
        assert!(!Repr::of(oids::PG_LSN).accepts(&carried) && !Repr::Bytes.accepts(&carried));
    }
}
