//! Values to and from the protocol's binary form: PostgreSQL's send and receive functions.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::array::value::{Dims, count_of};
use crate::array::{Array, Dim, MAX_DIMENSIONS};
use crate::bits::{MAX_BITS, resized};
use crate::datetime::calendar::{
    USECS_PER_DAY, checked_timestamp, date_out_of_range, is_valid_date,
};
use crate::datum::Datum;
use crate::encoding::Encoding;
use crate::error::{Problem, Result, ValueError};
use crate::facts::type_name;
use crate::inet::Inet;
use crate::interval::Interval;
use crate::json::{self, Json};
use crate::numeric::Numeric;
use crate::output::is_name;
use crate::sqltype::SqlType;

/// What the binary form of jsonb begins with.
const JSONB_VERSION: u8 = 1;

/// Appends the binary form of a value that is not NULL, with texts in an encoding. Of NULL it
/// appends nothing.
pub fn binary_out(
    value: &Datum<'_>,
    ty: SqlType,
    encoding: Encoding,
    out: &mut Vec<u8>,
) -> Result<()> {
    match value {
        Datum::Null => {}
        Datum::Bool(v) => out.push(u8::from(*v)),
        Datum::Int2(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Int4(v) | Datum::Date(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Int8(v) | Datum::Time(v) | Datum::Timestamp(v) | Datum::Timestamptz(v) => {
            out.extend_from_slice(&v.to_be_bytes())
        }
        Datum::Float4(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Float8(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Oid(v) | Datum::Xid(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Tid(block, number) => {
            out.extend_from_slice(&block.to_be_bytes());
            out.extend_from_slice(&number.to_be_bytes());
        }
        Datum::Char(v) => out.push(*v),
        Datum::Text(_) if !is_text_in_binary(ty) => return Err(no_function("output", ty)),
        Datum::Text(v) => out.extend_from_slice(&encoding.sent(v)),
        Datum::Numeric(v) => v.write_binary(out),
        Datum::Bytes(v) => out.extend_from_slice(v),
        Datum::Timetz(time, zone) => {
            out.extend_from_slice(&time.to_be_bytes());
            out.extend_from_slice(&zone.to_be_bytes());
        }
        Datum::Interval(v) => {
            out.extend_from_slice(&v.micros.to_be_bytes());
            out.extend_from_slice(&v.days.to_be_bytes());
            out.extend_from_slice(&v.months.to_be_bytes());
        }
        Datum::Uuid(v) => out.extend_from_slice(v),
        Datum::Lsn(v) | Datum::Xid8(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Bits(len, v) => {
            out.extend_from_slice(&len.to_be_bytes());
            out.extend_from_slice(v);
        }
        Datum::Inet(v) => {
            let is_cidr = u8::from(ty == SqlType::Cidr);
            let address = v.address();
            out.extend_from_slice(&[v.family(), v.bits(), is_cidr, address.len() as u8]);
            out.extend_from_slice(address);
        }
        Datum::Macaddr(v) => out.extend_from_slice(v),
        Datum::Macaddr8(v) => out.extend_from_slice(v),
        Datum::Array(v) => return array_out(v, encoding, out),
        Datum::Jsonb(v) => {
            out.push(JSONB_VERSION);
            out.extend_from_slice(&encoding.sent(&Json::read_stored(v)?.to_text()));
        }
        Datum::Carried(of, _) => return Err(ValueError::carried("output", *of)),
        Datum::Toasted(_) => return Err(Problem::NotFetched.into()),
    }
    Ok(())
}

/// Whether a [`Datum::Text`] of this type is its own binary form: some types' values are only made
/// as texts.
pub fn is_text_in_binary(ty: SqlType) -> bool {
    ty.element().is_none() && ty != SqlType::Record && !is_name(ty)
}

fn no_function(what: &'static str, ty: SqlType) -> ValueError {
    Problem::NoBinary { what, ty: ty.sql_name() }.into()
}

/// Reads a binary value, with texts in an encoding.
pub fn binary_in(bytes: &[u8], ty: SqlType, encoding: Encoding) -> Result<Datum<'_>> {
    Ok(match ty {
        SqlType::Bool => Datum::Bool(fixed::<1>(bytes)? != [0]),
        SqlType::Int2 => Datum::Int2(i16::from_be_bytes(fixed(bytes)?)),
        SqlType::Int4 => Datum::Int4(i32::from_be_bytes(fixed(bytes)?)),
        SqlType::PgLsn => Datum::Lsn(u64::from_be_bytes(fixed(bytes)?)),
        SqlType::Xid8 => Datum::Xid8(u64::from_be_bytes(fixed(bytes)?)),
        SqlType::Int8 => Datum::Int8(i64::from_be_bytes(fixed(bytes)?)),
        SqlType::Float4 => Datum::Float4(f32::from_be_bytes(fixed(bytes)?)),
        SqlType::Float8 => Datum::Float8(f64::from_be_bytes(fixed(bytes)?)),
        SqlType::Oid | SqlType::Regclass | SqlType::Regproc => {
            Datum::Oid(u32::from_be_bytes(fixed(bytes)?))
        }
        SqlType::Xid | SqlType::Cid => Datum::Xid(u32::from_be_bytes(fixed(bytes)?)),
        SqlType::Tid => {
            let [a, b, c, d, number @ ..] = fixed::<6>(bytes)?;
            Datum::Tid(u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes(number))
        }
        SqlType::Char => Datum::Char(u8::from_be_bytes(fixed(bytes)?)),
        SqlType::Text | SqlType::Varchar | SqlType::Bpchar | SqlType::Unknown => {
            Datum::Text(encoding.checked(bytes)?)
        }
        SqlType::Name => match encoding.checked(bytes)? {
            Cow::Borrowed(text) => Datum::text(encoding.truncate_name(text)),
            Cow::Owned(text) => Datum::string(encoding.truncate_name(&text).to_owned()),
        },
        SqlType::Numeric => {
            Datum::numeric(Numeric::read_binary(bytes).ok_or(Problem::BinaryNumeric)?)
        }
        SqlType::Json | SqlType::Jsonb => json_in(bytes, ty, encoding)?,
        SqlType::Bytea => Datum::bytes(bytes),
        SqlType::Date => Datum::Date(date_in(bytes)?),
        SqlType::Time => Datum::Time(time_of(i64::from_be_bytes(fixed(bytes)?))?),
        SqlType::Timetz => timetz_in(bytes)?,
        SqlType::Timestamp => Datum::Timestamp(timestamp_in(bytes)?),
        SqlType::Timestamptz => Datum::Timestamptz(timestamp_in(bytes)?),
        SqlType::Interval => Datum::Interval(interval_in(bytes)?),
        SqlType::Uuid => Datum::Uuid(fixed(bytes)?),
        SqlType::Bit | SqlType::Varbit => bits_in(bytes)?,
        SqlType::Inet | SqlType::Cidr => Datum::Inet(inet_in(bytes, ty)?),
        SqlType::Macaddr => Datum::Macaddr(fixed(bytes)?),
        SqlType::Macaddr8 => Datum::Macaddr8(match bytes {
            [a, b, c, d, e, f] => [*a, *b, *c, 0xff, 0xfe, *d, *e, *f],
            bytes => fixed(bytes)?,
        }),
        _ => {
            if let Some(element) = ty.element() {
                return array_in(bytes, element, encoding);
            }
            if let Ok(size) = usize::try_from(ty.typlen()) {
                check_length(bytes, size)?;
            }
            return Err(no_function("input", ty));
        }
    })
}

/// Dimensions, whether there are NULLs, the type of the elements; the length and the lower bound of
/// each dimension; each element with its length, -1 for NULL.
fn array_out(array: &Array<'_>, encoding: Encoding, out: &mut Vec<u8>) -> Result<()> {
    let shape = array.shape()?;
    out.extend_from_slice(&(shape.dims.len() as u32).to_be_bytes());
    out.extend_from_slice(&u32::from(shape.has_nulls()).to_be_bytes());
    out.extend_from_slice(&shape.element.to_be_bytes());
    for dim in &shape.dims {
        out.extend_from_slice(&dim.len.to_be_bytes());
        out.extend_from_slice(&dim.lower.to_be_bytes());
    }
    let element = SqlType::of(shape.element);
    let mut bytes = Vec::new();
    for value in shape.values()? {
        let value = value?;
        if value.is_null() {
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            continue;
        }
        bytes.clear();
        binary_out(&value, element, encoding, &mut bytes)?;
        out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        out.extend_from_slice(&bytes);
    }
    Ok(())
}

fn array_in(bytes: &[u8], element: SqlType, encoding: Encoding) -> Result<Datum<'static>> {
    let mut rest = bytes;
    let dimensions = number(&mut rest)?;
    if dimensions < 0 {
        let message = format!("invalid number of dimensions: {dimensions}");
        return Err(ValueError::new("22P03", message));
    }
    if dimensions as usize > MAX_DIMENSIONS {
        return Err(ValueError::new(
            "54000",
            format!(
                "number of array dimensions ({dimensions}) exceeds the maximum allowed \
                 ({MAX_DIMENSIONS})"
            ),
        ));
    }
    if !matches!(number(&mut rest)?, 0 | 1) {
        return Err(ValueError::new("22P03", "invalid array flags"));
    }
    let of = number(&mut rest)? as u32;
    if of != element.oid() {
        let (found, expected, ty) = (type_name(of), element.oid(), element.sql_name());
        return Err(Problem::ArrayElements { of, found, expected, ty }.into());
    }
    let mut dims = Dims::new();
    for _ in 0..dimensions {
        dims.push(Dim { len: number(&mut rest)?, lower: number(&mut rest)? });
    }
    let count = count_of(&dims)?;
    let mut items = Vec::new();
    for n in 0..count {
        let size = number(&mut rest)?;
        if size == -1 {
            items.push(Datum::Null);
            continue;
        }
        let too_short = || ValueError::new("22P03", "insufficient data left in message");
        let size = usize::try_from(size).map_err(|_| too_short())?;
        let (value, behind) = rest.split_at_checked(size).ok_or_else(too_short)?;
        rest = behind;
        items.push(binary_in(value, element, encoding).map_err(
            |error| match *error.problem() {
                Problem::BinaryTooLong => {
                    let message = format!("improper binary format in array element {}", n + 1);
                    ValueError::new("22P03", message)
                }
                _ => error,
            },
        )?);
    }
    if !rest.is_empty() {
        return Err(Problem::BinaryTooLong.into());
    }
    if count == 0 {
        dims.clear();
    }
    Ok(Datum::Array(Array::of(element.oid(), &dims, &items)?))
}

fn number(rest: &mut &[u8]) -> Result<i32> {
    let (number, behind) = rest.split_first_chunk::<4>().ok_or(Problem::BinaryTooShort)?;
    *rest = behind;
    Ok(i32::from_be_bytes(*number))
}

fn json_in(bytes: &[u8], ty: SqlType, encoding: Encoding) -> Result<Datum<'_>> {
    if ty == SqlType::Json {
        let text = encoding.checked(bytes)?;
        json::parse(&text, None)?;
        return Ok(Datum::Text(text));
    }
    match bytes {
        [JSONB_VERSION, text @ ..] => {
            let json = Json::parse(&encoding.checked(text)?, encoding)?;
            Ok(Datum::Jsonb(json.to_stored()?.into()))
        }
        [version, ..] => {
            let message = format!("unsupported jsonb version number {version}");
            Err(ValueError::new("XX000", message))
        }
        [] => Err(Problem::BinaryTooShort.into()),
    }
}

fn timetz_in(bytes: &[u8]) -> Result<Datum<'_>> {
    /// Seconds that a zone may be away from Greenwich.
    const MOST: u32 = 16 * 3600;
    let [time @ .., a, b, c, d] = fixed::<12>(bytes)?;
    let zone = i32::from_be_bytes([a, b, c, d]);
    if zone.unsigned_abs() >= MOST {
        return Err(ValueError::new("22009", "time zone displacement out of range"));
    }
    Ok(Datum::Timetz(time_of(i64::from_be_bytes(time))?, zone))
}

fn interval_in(bytes: &[u8]) -> Result<Interval> {
    let [micros @ .., a, b, c, d, e, f, g, h] = fixed::<16>(bytes)?;
    Ok(Interval {
        micros: i64::from_be_bytes(micros),
        days: i32::from_be_bytes([a, b, c, d]),
        months: i32::from_be_bytes([e, f, g, h]),
    })
}

fn date_in(bytes: &[u8]) -> Result<i32> {
    let days = i32::from_be_bytes(fixed(bytes)?);
    let infinite = matches!(days, i32::MIN | i32::MAX);
    if infinite || is_valid_date(i64::from(days)) { Ok(days) } else { Err(date_out_of_range()) }
}

fn time_of(micros: i64) -> Result<i64> {
    if (0..=USECS_PER_DAY).contains(&micros) {
        return Ok(micros);
    }
    Err(ValueError::new("22008", "time out of range"))
}

fn timestamp_in(bytes: &[u8]) -> Result<i64> {
    let micros = i64::from_be_bytes(fixed(bytes)?);
    let infinite = matches!(micros, i64::MIN | i64::MAX);
    if infinite { Ok(micros) } else { checked_timestamp(Some(micros)) }
}

fn bits_in(bytes: &[u8]) -> Result<Datum<'_>> {
    let invalid = || ValueError::new("22P03", "invalid length in external bit string");
    let (len, rest) = bytes.split_first_chunk::<4>().ok_or(Problem::BinaryTooShort)?;
    let len = i32::from_be_bytes(*len);
    let count = u32::try_from(len).ok().filter(|n| *n as usize <= MAX_BITS).ok_or_else(invalid)?;
    let size = count.div_ceil(8) as usize;
    check_length(rest, size)?;
    // What is behind the last bit is zero.
    Ok(Datum::Bits(count, resized(count, rest).into()))
}

fn inet_in(bytes: &[u8], ty: SqlType) -> Result<Inet> {
    let invalid = |what: &str| {
        ValueError::new("22P03", format!("invalid {what} in external \"{}\" value", ty.typname()))
    };
    let [family, bits, _is_cidr, size, address @ ..] = bytes else {
        return Err(Problem::BinaryTooShort.into());
    };
    let max_bits = match family {
        2 => 32,
        3 => 128,
        _ => return Err(invalid("address family")),
    };
    if *bits > max_bits {
        return Err(invalid("bits"));
    }
    if u32::from(*size) * 8 != u32::from(max_bits) {
        return Err(invalid("length"));
    }
    check_length(address, usize::from(*size))?;
    let inet = Inet::of_family(*family, *bits, address).ok_or_else(|| invalid("length"))?;
    if ty == SqlType::Cidr && !inet.is_network() {
        let error = ValueError::new("22P03", "invalid external \"cidr\" value");
        return Err(error.with_detail("Value has bits set to right of mask."));
    }
    Ok(inet)
}

fn check_length(bytes: &[u8], size: usize) -> Result<()> {
    match bytes.len().cmp(&size) {
        Ordering::Less => Err(Problem::BinaryTooShort.into()),
        Ordering::Greater => Err(Problem::BinaryTooLong.into()),
        Ordering::Equal => Ok(()),
    }
}

#[inline]
fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    match bytes.try_into() {
        Ok(bytes) => Ok(bytes),
        Err(_) => check_length(bytes, N).map(|()| [0; N]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_that_is_not_the_types_is_refused() {
        let state = |bytes: &[u8], ty| {
            binary_in(bytes, ty, Encoding::Utf8).expect_err("refused").sqlstate()
        };
        assert_eq!(state(b"\0\0\0", SqlType::Int4), "08P01");
        assert_eq!(state(b"\0\0\0\0\0", SqlType::Int4), "22P03");
        assert_eq!(state(b"", SqlType::Bool), "08P01");
        assert_eq!(state(b"\0", SqlType::Regtype), "08P01");
        assert_eq!(state(b"\0\0\0\0", SqlType::Regtype), "42883");
        assert_eq!(state(b"a\0b", SqlType::Text), "22021");
    }

    #[test]
    fn a_tid_is_a_block_and_a_number() {
        let value =
            binary_in(b"\0\0\x01\x02\0\x03", SqlType::Tid, Encoding::Utf8).expect("six bytes");
        assert_eq!(value, Datum::Tid(0x102, 3));
        let mut bytes = Vec::new();
        binary_out(&value, SqlType::Tid, Encoding::Utf8, &mut bytes).expect("it has a binary form");
        assert_eq!(bytes, b"\0\0\x01\x02\0\x03");
    }
}

#[cfg(test)]
mod array_tests {
    use super::*;
    use crate::oid::oids;

    #[test]
    fn arrays_are_read_from_binary_and_written_back() {
        let word = |n: i32| n.to_be_bytes();
        let head = [word(1), word(1), word(23), word(2), word(1)].concat();
        let whole = [head, [word(4), word(7), word(-1)].concat()].concat();
        let array = array_in(&whole, SqlType::Int4, Encoding::Utf8).expect("an array");
        let want = Array::list(oids::INT4, &[Datum::Int4(7), Datum::Null]).expect("an array");
        assert_eq!(array, Datum::Array(want));
        let mut back = Vec::new();
        binary_out(&array, SqlType::Int4Array, Encoding::Utf8, &mut back).expect("its bytes");
        assert_eq!(back, whole);
        let none = [word(0), word(0), word(23)].concat();
        let empty = Datum::Array(Array::empty(oids::INT4));
        assert_eq!(array_in(&none, SqlType::Int4, Encoding::Utf8).expect("an array"), empty);
        let state =
            |bytes: &[u8], of| array_in(bytes, of, Encoding::Utf8).expect_err("wrong").sqlstate();
        for end in 0..whole.len() {
            let part = whole.get(..end).expect("a part of it");
            assert!(matches!(state(part, SqlType::Int4), "08P01" | "22P03"));
        }
        assert_eq!(state(&[&whole[..], b"x"].concat(), SqlType::Int4), "22P03");
        assert_eq!(state(&whole, SqlType::Int8), "42804");
    }
}
