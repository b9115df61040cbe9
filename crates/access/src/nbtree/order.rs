//! How the values of a key column are ordered: what the first support function of a B-tree operator
//! class does. Values are compared as they are stored.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::cmp::Ordering;
use std::sync::Arc;

use forebay_collation::Collation;
use forebay_types::{Datum, Encoding, Oid, Repr, SqlType, ValueError, compare, compare_by, oids};

/// The order of an operator class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyOrder {
    /// Signed numbers of 2 bytes.
    Int2,
    /// Signed numbers of 4 bytes; dates.
    Int4,
    /// Signed numbers of 8 bytes; times.
    Int8,
    /// Unsigned numbers of 4 bytes: oid.
    Word4,
    /// Unsigned numbers of 8 bytes: pg_lsn, xid8.
    Word8,
    /// The bytes themselves: text in collation C, name, bytea, uuid, bool, "char".
    Bytes,
    /// Texts in collation C whose trailing blanks do not count: character(n).
    Padded,
    /// oidvector: the shorter one first, then element by element.
    OidVector,
    /// Values that are compared by `types`: numeric, floats, tid, interval, arrays and so on. Not
    /// jsonb: its texts have the order of the default collation, which is not known here.
    Value(Repr),
    /// Texts, or arrays, that a collation orders by more than their bytes.
    Collated(CollatedOrder),
}

/// Texts, or arrays of some, in the order of a collation. It is deterministic: texts that are equal
/// have the same bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollatedOrder {
    repr: Repr,
    /// Trailing blanks do not count: character(n).
    padded: bool,
    collation: Arc<Collation>,
}

impl KeyOrder {
    /// Whether trailing blanks do not count: that of character(n).
    pub fn is_padded(&self) -> bool {
        match self {
            KeyOrder::Padded => true,
            KeyOrder::Collated(order) => order.padded,
            _ => false,
        }
    }

    /// The order of a support function, by its OID in pg_proc, with texts by a collation. None if
    /// the function is not known.
    pub fn of_support(function: Oid, collation: &Arc<Collation>) -> Option<KeyOrder> {
        let order = KeyOrder::of_bytes(function)?;
        // Not those of the pattern operator classes.
        let collated = matches!(function, 359 | 360 | 382 | 1078);
        Some(if collated { order.collated(collation) } else { order })
    }

    /// The same for collation C.
    fn of_bytes(function: Oid) -> Option<KeyOrder> {
        Some(match function {
            350 => KeyOrder::Int2,
            351 | 1092 => KeyOrder::Int4,
            842 | 1107 | 1314 | 2045 => KeyOrder::Int8,
            356 => KeyOrder::Word4,
            3251 | 5096 => KeyOrder::Word8,
            358 | 359 | 360 | 1693 | 1954 | 2166 | 2960 => KeyOrder::Bytes,
            1078 | 2180 => KeyOrder::Padded,
            404 => KeyOrder::OidVector,
            354 => KeyOrder::Value(Repr::Float4),
            355 => KeyOrder::Value(Repr::Float8),
            1769 => KeyOrder::Value(Repr::Numeric),
            2794 => KeyOrder::Value(Repr::Tid),
            1315 => KeyOrder::Value(Repr::Interval),
            1358 => KeyOrder::Value(Repr::Timetz),
            1596 | 1672 => KeyOrder::Value(Repr::Bits),
            926 => KeyOrder::Value(Repr::Inet),
            836 | 4119 => KeyOrder::Bytes,
            382 => KeyOrder::Value(Repr::Array(0)),
            _ => return None,
        })
    }

    /// This order with texts by a collation.
    fn collated(self, collation: &Arc<Collation>) -> KeyOrder {
        let (repr, padded) = match self {
            KeyOrder::Bytes => (Repr::Text, false),
            KeyOrder::Padded => (Repr::Text, true),
            KeyOrder::Value(repr @ Repr::Array(_)) => (repr, false),
            _ => return self,
        };
        if collation.is_c() {
            return self;
        }
        KeyOrder::Collated(CollatedOrder { repr, padded, collation: Arc::clone(collation) })
    }

    /// The collation of texts, unless it is the order of bytes.
    pub fn collation(&self) -> Option<&Collation> {
        match self {
            KeyOrder::Collated(order) => Some(&order.collation),
            _ => None,
        }
    }

    /// The order of a type's default operator class, with texts by a collation. None if there is
    /// none, or if it is not known.
    pub fn of_type_in(type_oid: Oid, collation: &Arc<Collation>) -> Option<KeyOrder> {
        let order = KeyOrder::of_type(type_oid)?;
        let collated = matches!(type_oid, oids::TEXT | oids::VARCHAR | oids::BPCHAR | oids::NAME);
        Some(if collated { order.collated(collation) } else { order })
    }

    /// The order of a type's default operator class in collation C. None if there is none, or if it
    /// is not known.
    pub fn of_type(type_oid: Oid) -> Option<KeyOrder> {
        Some(match type_oid {
            oids::INT2 => KeyOrder::Int2,
            oids::INT4 | oids::DATE => KeyOrder::Int4,
            oids::INT8 | oids::TIMESTAMPTZ | oids::TIME | oids::TIMESTAMP => KeyOrder::Int8,
            oids::OID | oids::REGPROC | oids::REGCLASS | oids::REGTYPE => KeyOrder::Word4,
            oids::PG_LSN | oids::XID8 => KeyOrder::Word8,
            oids::TEXT | oids::VARCHAR | oids::NAME | oids::BYTEA | oids::BOOL | oids::CHAR => {
                KeyOrder::Bytes
            }
            oids::UUID | oids::MACADDR | oids::MACADDR8 => KeyOrder::Bytes,
            oids::BPCHAR => KeyOrder::Padded,
            oids::OIDVECTOR => KeyOrder::OidVector,
            oids::FLOAT4 => KeyOrder::Value(Repr::Float4),
            oids::FLOAT8 => KeyOrder::Value(Repr::Float8),
            oids::NUMERIC => KeyOrder::Value(Repr::Numeric),
            oids::TID => KeyOrder::Value(Repr::Tid),
            oids::INTERVAL => KeyOrder::Value(Repr::Interval),
            oids::TIMETZ => KeyOrder::Value(Repr::Timetz),
            oids::BIT | oids::VARBIT => KeyOrder::Value(Repr::Bits),
            oids::INET | oids::CIDR => KeyOrder::Value(Repr::Inet),
            _ => return None,
        })
    }

    /// Whether values that are equal have equal bytes, so that their index tuples can be merged
    /// into a posting list: what the fourth support function says.
    pub fn is_equal_image(&self) -> bool {
        !matches!(
            self,
            KeyOrder::Value(
                Repr::Float4 | Repr::Float8 | Repr::Numeric | Repr::Interval | Repr::Array(_)
            ) | KeyOrder::Collated(CollatedOrder { repr: Repr::Array(_), .. })
        )
    }

    /// Orders two stored values: fixed-length images, or the bytes after a length word.
    #[inline]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Result<Ordering, ValueError> {
        Ok(match self {
            KeyOrder::Int2 => i16::from_le_bytes(fixed(a)?).cmp(&i16::from_le_bytes(fixed(b)?)),
            KeyOrder::Int4 => i32::from_le_bytes(fixed(a)?).cmp(&i32::from_le_bytes(fixed(b)?)),
            KeyOrder::Int8 => i64::from_le_bytes(fixed(a)?).cmp(&i64::from_le_bytes(fixed(b)?)),
            KeyOrder::Word4 => u32::from_le_bytes(fixed(a)?).cmp(&u32::from_le_bytes(fixed(b)?)),
            KeyOrder::Word8 => u64::from_le_bytes(fixed(a)?).cmp(&u64::from_le_bytes(fixed(b)?)),
            KeyOrder::Bytes => a.cmp(b),
            KeyOrder::Padded => unpadded(a).cmp(unpadded(b)),
            KeyOrder::OidVector => compare_vectors(a, b)?,
            KeyOrder::Value(repr) => {
                // Bytes are in the order of the texts that they are in SQL_ASCII.
                let decode = |bytes| repr.decode(bytes, Encoding::SqlAscii);
                compare(&decode(a)?, &decode(b)?)?
            }
            KeyOrder::Collated(order) => order.compare(a, b)?,
        })
    }
}

impl CollatedOrder {
    fn compare(&self, a: &[u8], b: &[u8]) -> Result<Ordering, ValueError> {
        let texts = |a: &str, b: &str| self.collation.compare(a, b);
        let ty = if self.padded { SqlType::Bpchar } else { SqlType::Text };
        // Other encodings have the order of their bytes alone.
        let decode = |bytes| self.repr.decode(bytes, Encoding::Utf8);
        let (a, b): (Datum<'_>, Datum<'_>) = (decode(a)?, decode(b)?);
        compare_by(&a, &b, ty, &texts)
    }
}

#[inline]
fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], ValueError> {
    bytes.try_into().map_err(|_| wrong_length(bytes, N))
}

/// The error of `types` for a value of another length.
#[cold]
fn wrong_length(bytes: &[u8], expected: usize) -> ValueError {
    let repr = match expected {
        2 => Repr::Int2,
        4 => Repr::Int4,
        _ => Repr::Int8,
    };
    repr.decode(bytes, Encoding::Utf8).expect_err("the length is wrong")
}

/// A text without its trailing blanks.
fn unpadded(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    text.get(..end).unwrap_or(text)
}

/// Orders two arrays of one dimension, as they are stored: five words, the fourth of which is the
/// number of elements, and the elements.
fn compare_vectors(a: &[u8], b: &[u8]) -> Result<Ordering, ValueError> {
    const HEADER: usize = 20;
    let elements = |array: &[u8]| array.get(HEADER..).map_or(0, <[u8]>::len);
    if elements(a) != elements(b) {
        return Ok(elements(a).cmp(&elements(b)));
    }
    let words = |array| <[u8]>::chunks(array, 4).skip(HEADER / 4);
    for (a, b) in words(a).zip(words(b)) {
        match KeyOrder::Word4.compare(a, b)? {
            Ordering::Equal => {}
            different => return Ok(different),
        }
    }
    Ok(Ordering::Equal)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use forebay_types::Numeric;

    use super::*;

    fn order(order: KeyOrder, a: &[u8], b: &[u8]) -> Ordering {
        order.compare(a, b).unwrap()
    }

    #[test]
    fn values_are_ordered_as_they_are_stored() {
        let int = |n: i32| n.to_le_bytes();
        assert_eq!(order(KeyOrder::Int4, &int(-1), &int(256)), Ordering::Less);
        assert_eq!(order(KeyOrder::Word4, &int(-1), &int(256)), Ordering::Greater);
        assert_eq!(order(KeyOrder::Bytes, b"ab", b"ab "), Ordering::Less);
        assert_eq!(order(KeyOrder::Padded, b"ab", b"ab  "), Ordering::Equal);
        assert_eq!(order(KeyOrder::Padded, b"", b"  "), Ordering::Equal);
        let number = |scale| Numeric::Finite { digits: 10.into(), scale }.to_stored();
        let numeric = KeyOrder::Value(Repr::Numeric);
        assert_eq!(order(numeric, &number(1), &number(0)), Ordering::Less);
        let nan = f64::NAN.to_le_bytes();
        assert_eq!(order(KeyOrder::Value(Repr::Float8), &nan, &nan), Ordering::Equal);
    }

    #[test]
    fn vectors_of_oids_are_ordered_by_length_first() {
        let vector = |oids: &[u32]| -> Vec<u8> {
            let head = [1, 0, 26, oids.len() as u32, 0];
            head.iter().chain(oids).flat_map(|word| word.to_le_bytes()).collect()
        };
        let less = [vector(&[]), vector(&[9]), vector(&[1, 9]), vector(&[2, 1])];
        assert!(less.is_sorted_by(|a, b| order(KeyOrder::OidVector, a, b) == Ordering::Less));
    }

    #[test]
    fn values_of_a_wrong_length_are_errors() {
        for order in [KeyOrder::Int2, KeyOrder::Int4, KeyOrder::Int8, KeyOrder::Word8] {
            assert_eq!(order.compare(b"abc", b"abc").unwrap_err().sqlstate(), "XX001");
        }
    }

    #[test]
    fn orders_are_found_by_type_and_by_support_function() {
        for (type_oid, function) in [
            (oids::INT2, 350),
            (oids::INT4, 351),
            (oids::INT8, 842),
            (oids::OID, 356),
            (oids::TEXT, 360),
            (oids::NAME, 359),
            (oids::BPCHAR, 1078),
            (oids::NUMERIC, 1769),
            (oids::FLOAT8, 355),
            (oids::OIDVECTOR, 404),
            (oids::INTERVAL, 1315),
            (oids::CIDR, 926),
        ] {
            let c = Arc::new(Collation::c());
            assert_eq!(KeyOrder::of_type(type_oid), KeyOrder::of_support(function, &c));
            assert!(KeyOrder::of_type(type_oid).is_some());
        }
        assert_eq!(KeyOrder::of_type(oids::XID), None);
        assert!(!KeyOrder::Value(Repr::Numeric).is_equal_image());
    }
}
