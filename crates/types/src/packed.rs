//! Values as bytes that say of themselves what they are: what temporary files hold and what
//! grouping hashes. Only this process reads them, so numbers have the processor's byte order.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use num_bigint::BigInt;

use crate::datum::Datum;
use crate::error::{Problem, Result, ValueError};
use crate::numeric::Numeric;

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
        Datum::Timestamptz(v) => put(TIMESTAMPTZ, &v.to_ne_bytes()),
        Datum::Text(v) => put_sized(TEXT, v.as_bytes(), out),
        Datum::Bytes(v) => put_sized(BYTES, v, out),
        Datum::Carried(ty, v) => {
            put(CARRIED, &ty.to_ne_bytes());
            out.extend_from_slice(&v.len().to_ne_bytes());
            out.extend_from_slice(v);
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
        Datum::Carried(ty, _) => Err(ValueError::carried("grouping", *ty)),
        other => pack(other, out),
    }
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
            Datum::Carried(1082, vec![1, 0, 0, 0].into()),
            Datum::Timestamptz(-1),
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
        let date = Datum::Carried(1082, vec![1, 0, 0, 0].into());
        let error = pack_key(&date, &mut Vec::new()).expect_err("only carried");
        let message = "grouping of type date is not supported";
        assert_eq!((error.sqlstate(), error.to_string().as_str()), ("0A000", message));
    }
}
