//! Stored bytes to values.
//!
//! The bytes are those after a varlena's length word, or the fixed-length image. Where they lie in
//! a tuple is the tuple codec's to know.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::datum::Datum;
use crate::error::{Problem, Result};
use crate::facts::Repr;
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
            Repr::Timestamptz => Datum::Timestamptz(i64::from_le_bytes(fixed(bytes)?)),
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
                | (Repr::Timestamptz, Datum::Timestamptz(_))
                | (Repr::Bytes, Datum::Bytes(_))
        )
    }
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
        const JSONB: Oid = 3802;
        let carried = Repr::of(JSONB).decode(b"{}").expect("carried");
        assert!(Repr::of(JSONB).accepts(&carried));
        assert!(!Repr::of(oids::PG_LSN).accepts(&carried) && !Repr::Bytes.accepts(&carried));
    }
}
