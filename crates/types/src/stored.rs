//! Stored bytes to values, and back.
//!
//! The bytes are those after a varlena's length word, or the fixed-length image. Where they lie in
//! a tuple is the tuple codec's to know.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::borrow::Cow;

use crate::datum::Datum;
use crate::encoding::Encoding;
use crate::error::{Problem, Result};
use crate::facts::{Repr, type_info};
use crate::inet::Inet;
use crate::interval::Interval;
use crate::numeric::Numeric;
use crate::oid::oids;

impl Repr {
    /// The value in these bytes, whose texts are in an encoding.
    pub fn decode(self, bytes: &[u8], encoding: Encoding) -> Result<Datum<'_>> {
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
                Datum::Text(encoding.decode(bytes.get(..end).unwrap_or(bytes))?)
            }
            Repr::Text => Datum::Text(encoding.decode(bytes)?),
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
            Repr::Jsonb => encoding.decode_jsonb(bytes),
            Repr::Inet => {
                let damaged = || Problem::StoredLength { len: bytes.len(), expected: 6 };
                Datum::Inet(Inet::read_stored(bytes).ok_or_else(damaged)?)
            }
            Repr::Macaddr => Datum::Macaddr(fixed(bytes)?),
            Repr::Macaddr8 => Datum::Macaddr8(fixed(bytes)?),
            Repr::Array(_) => encoding.decode_array(bytes)?,
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
        // Such are carried where the encoding leaves no other way.
        if let (Repr::Jsonb, Datum::Carried(of, _)) = (self, value) {
            return *of == oids::JSONB;
        }
        if let (Repr::Array(element), Datum::Carried(of, _)) = (self, value) {
            return type_info(element).is_some_and(|info| info.array == *of);
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
    /// If the value was not fetched, or cannot be stored in the encoding.
    pub fn to_stored(&self, len: i16, encoding: Encoding) -> Result<Cow<'_, [u8]>> {
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
                    let mut name = encoding.encode(encoding.truncate_name(v))?.into_owned();
                    name.resize(len, 0);
                    name
                }
                Err(_) => return encoding.encode(v),
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
            Datum::Bytes(v) | Datum::Carried(_, v) => return Ok(Cow::Borrowed(v)),
            Datum::Jsonb(v) => {
                encoding.check_jsonb(v)?;
                return Ok(Cow::Borrowed(v));
            }
            Datum::Array(v) if encoding == Encoding::Utf8 => return Ok(Cow::Borrowed(v.bytes())),
            Datum::Array(v) => encoding.encode_array(v)?.bytes().to_vec(),
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

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    let wrong = |_| Problem::StoredLength { len: bytes.len(), expected: N }.into();
    bytes.try_into().map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oid::Oid;

    #[test]
    fn bad_bytes_are_errors() {
        assert_eq!(
            Repr::Int4.decode(b"abc", Encoding::Utf8).expect_err("short").sqlstate(),
            "XX001"
        );
        let error = Repr::Text.decode(b"ab\xff", Encoding::Utf8).expect_err("not UTF-8");
        assert_eq!(error.sqlstate(), "22021");
        assert_eq!(error.to_string(), "invalid byte sequence for encoding \"UTF8\": 0xff");
    }

    #[test]
    fn a_name_ends_at_its_zero() {
        for (stored, name) in [(&b"relname\0\0"[..], "relname"), (b"whole", "whole")] {
            let read = Repr::Name.decode(stored, Encoding::Utf8).expect("a name");
            assert_eq!(read, Datum::text(name));
        }
        let read = Repr::Name.decode(b"caf\xe9\0", Encoding::SqlAscii).expect("a name");
        assert_eq!(read, Datum::text("caf\u{e9}"));
        let stored = read.to_stored(64, Encoding::SqlAscii).expect("its bytes");
        assert!(stored.len() == 64 && stored.starts_with(b"caf\xe9\0"));
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
        let carried = Repr::of(POINT).decode(b"{}", Encoding::Utf8).expect("carried");
        assert!(Repr::of(POINT).accepts(&carried));
        assert!(!Repr::of(oids::PG_LSN).accepts(&carried) && !Repr::Bytes.accepts(&carried));
    }
}
