//! Values as bytes that say of themselves what they are: what temporary files hold and what
//! grouping hashes. Only this process reads them, so numbers have the processor's byte order.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use num_bigint::BigInt;

use crate::array::Array;
use crate::datum::Datum;
use crate::error::{Problem, Result, ValueError};
use crate::inet::Inet;
use crate::interval::Interval;
use crate::json::Json;
use crate::numeric::Numeric;
use crate::sqltype::SqlType;

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const INT2: u8 = 3;
const INT4: u8 = 4;
const INT8: u8 = 5;
const FLOAT4: u8 = 6;
const FLOAT8: u8 = 7;
const OID: u8 = 8;
const XID: u8 = 9;
const CHAR: u8 = 10;
const TEXT: u8 = 11;
const BYTES: u8 = 12;
const TIMESTAMPTZ: u8 = 13;
const NUMERIC: u8 = 14;
const NAN: u8 = 15;
const INFINITY: u8 = 16;
const NEG_INFINITY: u8 = 17;
const CARRIED: u8 = 18;
const TID: u8 = 19;
const DATE: u8 = 20;
const TIME: u8 = 21;
const TIMETZ: u8 = 22;
const TIMESTAMP: u8 = 23;
const INTERVAL: u8 = 24;
const UUID: u8 = 25;
const LSN: u8 = 26;
const XID8: u8 = 27;
const BITS: u8 = 28;
const JSONB: u8 = 29;
const INET: u8 = 30;
const MACADDR: u8 = 31;
const MACADDR8: u8 = 32;
const ARRAY: u8 = 33;

/// Appends a value: a byte for its kind, then its bytes.
///
/// # Errors
/// If the value was not fetched.
pub fn pack(value: &Datum<'_>, out: &mut Vec<u8>) -> Result<()> {
    let mut put = |kind: u8, bytes: &[u8]| {
        out.push(kind);
        out.extend_from_slice(bytes);
    };
    match value {
        Datum::Null => put(NULL, &[]),
        Datum::Bool(v) => put(if *v { TRUE } else { FALSE }, &[]),
        Datum::Int2(v) => put(INT2, &v.to_ne_bytes()),
        Datum::Int4(v) => put(INT4, &v.to_ne_bytes()),
        Datum::Int8(v) => put(INT8, &v.to_ne_bytes()),
        Datum::Float4(v) => put(FLOAT4, &v.to_ne_bytes()),
        Datum::Float8(v) => put(FLOAT8, &v.to_ne_bytes()),
        Datum::Oid(v) => put(OID, &v.to_ne_bytes()),
        Datum::Xid(v) => put(XID, &v.to_ne_bytes()),
        Datum::Tid(block, number) => {
            put(TID, &block.to_ne_bytes());
            out.extend_from_slice(&number.to_ne_bytes());
        }
        Datum::Char(v) => put(CHAR, &[*v]),
        Datum::Date(v) => put(DATE, &v.to_ne_bytes()),
        Datum::Time(v) => put(TIME, &v.to_ne_bytes()),
        Datum::Timetz(v, zone) => {
            put(TIMETZ, &v.to_ne_bytes());
            out.extend_from_slice(&zone.to_ne_bytes());
        }
        Datum::Timestamp(v) => put(TIMESTAMP, &v.to_ne_bytes()),
        Datum::Timestamptz(v) => put(TIMESTAMPTZ, &v.to_ne_bytes()),
        Datum::Interval(v) => {
            put(INTERVAL, &v.micros.to_ne_bytes());
            out.extend_from_slice(&v.days.to_ne_bytes());
            out.extend_from_slice(&v.months.to_ne_bytes());
        }
        Datum::Uuid(v) => put(UUID, v),
        Datum::Lsn(v) => put(LSN, &v.to_ne_bytes()),
        Datum::Xid8(v) => put(XID8, &v.to_ne_bytes()),
        Datum::Bits(len, v) => {
            put(BITS, &len.to_ne_bytes());
            put_len(v, out);
        }
        Datum::Jsonb(v) => put_sized(JSONB, v, out),
        Datum::Inet(v) => {
            put(INET, &[v.family(), v.bits()]);
            out.extend_from_slice(&v.wide());
        }
        Datum::Macaddr(v) => put(MACADDR, v),
        Datum::Macaddr8(v) => put(MACADDR8, v),
        Datum::Array(v) => put_sized(ARRAY, v.bytes(), out),
        Datum::Text(v) => put_sized(TEXT, v.as_bytes(), out),
        Datum::Bytes(v) => put_sized(BYTES, v, out),
        Datum::Carried(ty, v) => {
            put(CARRIED, &ty.to_ne_bytes());
            put_len(v, out);
        }
        Datum::Numeric(v) => match &**v {
            Numeric::NaN => put(NAN, &[]),
            Numeric::Infinity => put(INFINITY, &[]),
            Numeric::NegInfinity => put(NEG_INFINITY, &[]),
            Numeric::Finite { digits, scale } => {
                put(NUMERIC, &scale.to_ne_bytes());
                let digits = digits.to_signed_bytes_le();
                out.extend_from_slice(&digits.len().to_ne_bytes());
                out.extend_from_slice(&digits);
            }
        },
        Datum::Toasted(_) => return Err(Problem::NotFetched.into()),
    }
    Ok(())
}

fn put_sized(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    put_len(bytes, out);
}

fn put_len(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&bytes.len().to_ne_bytes());
    out.extend_from_slice(bytes);
}

/// Appends bytes that are the same exactly for values that are equal: -0 and 0, 1.0 and 1.00, any
/// two NaNs, any two NULLs. [`unpack`] does not read them back.
///
/// # Errors
/// If the value was not fetched, or is only carried.
pub fn pack_key(value: &Datum<'_>, out: &mut Vec<u8>) -> Result<()> {
    match value {
        Datum::Float4(v) if v.is_nan() => pack(&Datum::Float4(f32::NAN), out),
        Datum::Float8(v) if v.is_nan() => pack(&Datum::Float8(f64::NAN), out),
        // Adding zero makes -0 positive.
        Datum::Float4(v) => pack(&Datum::Float4(v + 0.0), out),
        Datum::Float8(v) => pack(&Datum::Float8(v + 0.0), out),
        Datum::Numeric(v) => pack(&Datum::text(&v.canonical_text()), out),
        Datum::Interval(v) => {
            out.push(INTERVAL);
            out.extend_from_slice(&v.span().to_ne_bytes());
            Ok(())
        }
        Datum::Array(v) => pack_array_key(v, out),
        Datum::Jsonb(v) => {
            out.push(JSONB);
            pack_json_key(&Json::read_stored(v)?, out);
            Ok(())
        }
        Datum::Carried(ty, _) => Err(ValueError::carried("grouping", *ty)),
        other => pack(other, out),
    }
}

/// Appends bytes that are the same exactly for values of a type that are equal: as [`pack_key`],
/// but that the trailing blanks of character(n) do not count.
///
/// # Errors
/// As [`pack_key`].
pub fn pack_key_as(value: &Datum<'_>, ty: SqlType, out: &mut Vec<u8>) -> Result<()> {
    match (ty, value) {
        (SqlType::Bpchar, Datum::Text(v)) => {
            put_sized(TEXT, v.trim_end_matches(' ').as_bytes(), out);
            Ok(())
        }
        _ => pack_key(value, out),
    }
}

/// Numbers are equal whatever their scales; all else if it is the same.
fn pack_json_key(json: &Json, out: &mut Vec<u8>) {
    let (kind, count) = match json {
        Json::Null => (0, 0),
        Json::Bool(value) => (1, usize::from(*value)),
        Json::Number(number) => {
            return put_sized(2, number.canonical_text().as_bytes(), out);
        }
        Json::String(text) => return put_sized(3, text.as_bytes(), out),
        Json::Array(items) => (4, items.len()),
        Json::Object(pairs) => (5, pairs.len()),
    };
    out.push(kind);
    out.extend_from_slice(&count.to_ne_bytes());
    match json {
        Json::Array(items) => items.iter().for_each(|item| pack_json_key(item, out)),
        Json::Object(pairs) => {
            for (key, value) in pairs {
                put_sized(3, key.as_bytes(), out);
                pack_json_key(value, out);
            }
        }
        _ => {}
    }
}

/// Arrays are equal if their dimensions, their lower bounds and their elements are.
fn pack_array_key(array: &Array<'_>, out: &mut Vec<u8>) -> Result<()> {
    let shape = array.shape()?;
    out.push(ARRAY);
    out.push(shape.dims.len() as u8);
    for dim in &shape.dims {
        out.extend_from_slice(&dim.len.to_ne_bytes());
        out.extend_from_slice(&dim.lower.to_ne_bytes());
    }
    let ty = SqlType::of(shape.element);
    shape.values()?.try_for_each(|value| pack_key_as(&value?, ty, out))
}

/// Takes a value off the front of `bytes`. None if those are not the bytes of a value.
pub fn unpack(bytes: &mut &[u8]) -> Option<Datum<'static>> {
    let [kind] = take(bytes)?;
    Some(match kind {
        NULL => Datum::Null,
        FALSE => Datum::Bool(false),
        TRUE => Datum::Bool(true),
        INT2 => Datum::Int2(i16::from_ne_bytes(take(bytes)?)),
        INT4 => Datum::Int4(i32::from_ne_bytes(take(bytes)?)),
        INT8 => Datum::Int8(i64::from_ne_bytes(take(bytes)?)),
        FLOAT4 => Datum::Float4(f32::from_ne_bytes(take(bytes)?)),
        FLOAT8 => Datum::Float8(f64::from_ne_bytes(take(bytes)?)),
        OID => Datum::Oid(u32::from_ne_bytes(take(bytes)?)),
        XID => Datum::Xid(u32::from_ne_bytes(take(bytes)?)),
        CHAR => Datum::Char(u8::from_ne_bytes(take(bytes)?)),
        DATE => Datum::Date(i32::from_ne_bytes(take(bytes)?)),
        TIME => Datum::Time(i64::from_ne_bytes(take(bytes)?)),
        TIMETZ => {
            let time = i64::from_ne_bytes(take(bytes)?);
            Datum::Timetz(time, i32::from_ne_bytes(take(bytes)?))
        }
        TIMESTAMP => Datum::Timestamp(i64::from_ne_bytes(take(bytes)?)),
        INTERVAL => {
            let micros = i64::from_ne_bytes(take(bytes)?);
            let days = i32::from_ne_bytes(take(bytes)?);
            let months = i32::from_ne_bytes(take(bytes)?);
            Datum::Interval(Interval { micros, days, months })
        }
        UUID => Datum::Uuid(take(bytes)?),
        LSN => Datum::Lsn(u64::from_ne_bytes(take(bytes)?)),
        XID8 => Datum::Xid8(u64::from_ne_bytes(take(bytes)?)),
        BITS => {
            let len = u32::from_ne_bytes(take(bytes)?);
            Datum::Bits(len, sized(bytes)?.to_vec().into())
        }
        JSONB => Datum::Jsonb(sized(bytes)?.to_vec().into()),
        INET => {
            let [family, bits] = take(bytes)?;
            let wide = take::<16>(bytes)?;
            let address = wide.get(..if family == 2 { 4 } else { 16 })?;
            Datum::Inet(Inet::of_family(family, bits, address)?)
        }
        MACADDR => Datum::Macaddr(take(bytes)?),
        MACADDR8 => Datum::Macaddr8(take(bytes)?),
        ARRAY => Datum::Array(Array::stored(sized(bytes)?.to_vec())),
        TIMESTAMPTZ => Datum::Timestamptz(i64::from_ne_bytes(take(bytes)?)),
        TEXT => Datum::string(String::from_utf8(sized(bytes)?.to_vec()).ok()?),
        BYTES => Datum::Bytes(sized(bytes)?.to_vec().into()),
        CARRIED => {
            let ty = u32::from_ne_bytes(take(bytes)?);
            Datum::Carried(ty, sized(bytes)?.to_vec().into())
        }
        TID => {
            let block = u32::from_ne_bytes(take(bytes)?);
            Datum::Tid(block, u16::from_ne_bytes(take(bytes)?))
        }
        NAN => Datum::numeric(Numeric::NaN),
        INFINITY => Datum::numeric(Numeric::Infinity),
        NEG_INFINITY => Datum::numeric(Numeric::NegInfinity),
        NUMERIC => {
            let scale = u32::from_ne_bytes(take(bytes)?);
            let digits = BigInt::from_signed_bytes_le(sized(bytes)?);
            Datum::numeric(Numeric::Finite { digits, scale })
        }
        _ => return None,
    })
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*taken)
}

fn sized<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::from_ne_bytes(take(bytes)?);
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "tests may panic")]
mod tests {
    use super::*;
    use crate::oid::oids;

    fn samples() -> Vec<Datum<'static>> {
        let number =
            |digits: i128, scale| Datum::numeric(Numeric::Finite { digits: digits.into(), scale });
        vec![
            Datum::Null,
            Datum::Bool(true),
            Datum::Bool(false),
            Datum::Int2(-2),
            Datum::Int4(i32::MIN),
            Datum::Int8(i64::MAX),
            Datum::Float4(-0.0),
            Datum::Float8(f64::INFINITY),
            Datum::Oid(u32::MAX),
            Datum::Xid(3),
            Datum::Tid(u32::MAX, 7),
            Datum::Char(0xff),
            Datum::string("Straße".to_owned()),
            Datum::string(String::new()),
            Datum::Bytes(vec![0, 255].into()),
            Datum::Carried(600, vec![1, 0, 0, 0].into()),
            Datum::Timestamptz(-1),
            Datum::Date(i32::MIN),
            Datum::Time(86_400_000_000),
            Datum::Timetz(1, -3600),
            Datum::Timestamp(i64::MAX),
            Datum::Interval(Interval { micros: -1, days: 2, months: -3 }),
            Datum::Uuid([7; 16]),
            Datum::Lsn(u64::MAX),
            Datum::Xid8(1 << 40),
            Datum::Bits(9, vec![0xaa, 0x80].into()),
            Datum::Jsonb(vec![0, 0, 0, 0x20].into()),
            Datum::Inet(Inet::v4([10, 0, 0, 1], 8).expect("an address")),
            Datum::Inet(Inet::v6([1; 16], 128).expect("an address")),
            Datum::Macaddr([1, 2, 3, 4, 5, 6]),
            Datum::Macaddr8([8; 8]),
            Datum::Array(Array::empty(oids::INT4)),
            number(0, 3),
            number(-(1 << 100), 20),
            Datum::numeric(Numeric::NaN),
            Datum::numeric(Numeric::Infinity),
            Datum::numeric(Numeric::NegInfinity),
        ]
    }

    fn packed(values: &[Datum<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        values.iter().for_each(|value| pack(value, &mut bytes).expect("it is fetched"));
        bytes
    }

    fn unpacked(mut bytes: &[u8]) -> Option<Vec<Datum<'static>>> {
        let mut values = Vec::new();
        while !bytes.is_empty() {
            values.push(unpack(&mut bytes)?);
        }
        Some(values)
    }

    #[test]
    fn values_come_back_as_they_were_packed() {
        let values = samples();
        let back = unpacked(&packed(&values)).expect("the values");
        // By their text, since NaN is not equal to itself.
        assert_eq!(format!("{back:?}"), format!("{values:?}"));
    }

    #[test]
    fn bytes_that_are_no_values_are_refused() {
        let bytes = packed(&samples());
        let whole = |n: usize| unpacked(&bytes[..n]).map(|values| values.len());
        let ends: Vec<usize> = (0..bytes.len()).filter_map(whole).collect();
        // Only where a value ends.
        assert_eq!(ends, (0..samples().len()).collect::<Vec<_>>());
        assert!(unpacked(&[99]).is_none() && unpacked(&[TEXT, 255]).is_none());
        let mut huge = vec![BYTES];
        huge.extend_from_slice(&usize::MAX.to_ne_bytes());
        assert!(unpacked(&huge).is_none());
        assert!(pack(&Datum::Toasted(b"pointer".into()), &mut Vec::new()).is_err());
    }

    #[test]
    fn keys_are_the_same_exactly_for_equal_values() {
        let key = |value: &Datum<'_>| {
            let mut bytes = Vec::new();
            pack_key(value, &mut bytes).expect("it is fetched");
            bytes
        };
        let number =
            |text: &str| Datum::numeric(Numeric::parse(text).expect("in range").expect("a number"));
        for (a, b) in [
            (Datum::Float8(-0.0), Datum::Float8(0.0)),
            (Datum::Float4(f32::NAN), Datum::Float4(-f32::NAN)),
            (number("1.0"), number("1.00")),
            (number("100"), number("100.0")),
            (number("-0.0"), number("0")),
            (Datum::Null, Datum::Null),
            (
                Datum::Interval(Interval { micros: 0, days: 30, months: 0 }),
                Datum::Interval(Interval { micros: 0, days: 0, months: 1 }),
            ),
        ] {
            assert_eq!(key(&a), key(&b), "{a:?} {b:?}");
        }
        for (a, b) in [
            (Datum::Float8(1.0), Datum::Float8(1.5)),
            (number("1"), number("10")),
            (number("NaN"), number("Infinity")),
            (Datum::text(""), Datum::Null),
            (Datum::Int4(1), Datum::Int4(256)),
        ] {
            assert_ne!(key(&a), key(&b), "{a:?} {b:?}");
        }
        let point = Datum::Carried(600, vec![1, 0, 0, 0].into());
        let error = pack_key(&point, &mut Vec::new()).expect_err("only carried");
        let message = "grouping of type with OID 600 is not supported";
        assert_eq!((error.sqlstate(), error.to_string().as_str()), ("0A000", message));
    }
}
