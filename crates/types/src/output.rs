//! Values to text: PostgreSQL's output functions.

use std::fmt::Display;
use std::io::Write;

use crate::array::Array;
use crate::array::text::write_array;
use crate::bits;
use crate::datetime::{interval, show as datetime};
use crate::datum::Datum;
use crate::error::{Problem, Result, ValueError};
use crate::float;
use crate::json::Json;
use crate::network;
use crate::sqltype::SqlType;
use crate::style::{ByteaOutput, TextStyle};
use crate::uuid;

/// Appends what is shown of a value.
fn show(value: impl Display, out: &mut Vec<u8>) {
    write!(out, "{value}").expect("a vector takes any bytes");
}

/// Appends a signed number in decimal.
fn write_i64(v: i64, out: &mut Vec<u8>) {
    if v < 0 {
        out.push(b'-');
    }
    float::write_u64(v.unsigned_abs(), out);
}

/// Appends the text form of a value that is not NULL, with the default settings.
pub fn text_out(value: &Datum<'_>, ty: SqlType, out: &mut Vec<u8>) -> Result<()> {
    text_out_as(value, ty, &TextStyle::default(), out)
}

/// Appends the text form of a value that is not NULL.
pub fn text_out_as(
    value: &Datum<'_>,
    ty: SqlType,
    style: &TextStyle<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    match value {
        Datum::Null => {}
        Datum::Bool(v) => out.push(if *v { b't' } else { b'f' }),
        Datum::Int2(v) => write_i64(i64::from(*v), out),
        Datum::Int4(v) => write_i64(i64::from(*v), out),
        Datum::Lsn(v) => show(format_args!("{:X}/{:X}", v >> 32, *v as u32), out),
        Datum::Xid8(v) => float::write_u64(*v, out),
        Datum::Int8(v) => write_i64(*v, out),
        Datum::Float4(v) if style.extra_float_digits <= 0 => {
            float::write_digits(f64::from(*v), 6 + style.extra_float_digits, out);
        }
        Datum::Float8(v) if style.extra_float_digits <= 0 => {
            float::write_digits(*v, 15 + style.extra_float_digits, out);
        }
        Datum::Float4(v) => float::write_f32(*v, out),
        Datum::Float8(v) => float::write_f64(*v, out),
        Datum::Oid(0) if is_name(ty) => out.push(b'-'),
        // Its name is in a catalog.
        Datum::Oid(v) if is_name(ty) && ty != SqlType::Regproc => {
            let names = style.names.ok_or_else(|| ValueError::carried("output", ty.oid()))?;
            match names.name(ty, *v) {
                Some(name) => out.extend_from_slice(name.as_bytes()),
                None => float::write_u64(u64::from(*v), out),
            }
        }
        Datum::Oid(v) | Datum::Xid(v) => float::write_u64(u64::from(*v), out),
        Datum::Tid(block, number) => show(format_args!("({block},{number})"), out),
        Datum::Char(0) => {}
        Datum::Char(v) if *v < 0x80 => out.push(*v),
        Datum::Char(v) => show(format_args!("\\{v:03o}"), out),
        Datum::Text(v) => out.extend_from_slice(v.as_bytes()),
        Datum::Numeric(v) => show(v, out),
        Datum::Date(v) => out.extend_from_slice(datetime::date(*v, style).as_bytes()),
        Datum::Time(v) => out.extend_from_slice(datetime::time(*v).as_bytes()),
        Datum::Timetz(v, west) => {
            out.extend_from_slice(datetime::timetz(*v, *west, style).as_bytes());
        }
        Datum::Timestamp(v) => out.extend_from_slice(datetime::timestamp(*v, style).as_bytes()),
        Datum::Timestamptz(v) => {
            out.extend_from_slice(datetime::timestamptz(*v, style).as_bytes());
        }
        Datum::Interval(v) => {
            out.extend_from_slice(interval::show(v, style.interval).as_bytes());
        }
        Datum::Bytes(v) => bytea_out(v, style, out),
        Datum::Uuid(v) => out.extend_from_slice(uuid::show(v).as_bytes()),
        Datum::Bits(len, v) => bits::show(*len, v, out),
        Datum::Inet(v) => out.extend_from_slice(network::show(v, ty == SqlType::Cidr).as_bytes()),
        Datum::Macaddr(v) => network::show_mac(v, out),
        Datum::Macaddr8(v) => network::show_mac(v, out),
        Datum::Array(v) => return array_out(v, ty, style, out),
        Datum::Jsonb(v) => out.extend_from_slice(Json::read_stored(v)?.to_text().as_bytes()),
        Datum::Carried(of, _) => return Err(ValueError::carried("output", *of)),
        Datum::Toasted(_) => return Err(Problem::NotFetched.into()),
    }
    Ok(())
}

/// Whether values of the type are OIDs that are shown as names.
pub(crate) fn is_name(ty: SqlType) -> bool {
    use SqlType as T;
    matches!(
        ty,
        T::Regproc
            | T::Regprocedure
            | T::Regoper
            | T::Regoperator
            | T::Regclass
            | T::Regtype
            | T::Regconfig
            | T::Regdictionary
            | T::Regnamespace
            | T::Regrole
            | T::Regcollation
    )
}

/// bytea in hexadecimal digits, or with backslashes before what is no printable character.
fn bytea_out(bytes: &[u8], style: &TextStyle<'_>, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    if style.bytea == ByteaOutput::Hex {
        out.extend_from_slice(b"\\x");
        let digit = |n: u8| DIGITS[usize::from(n)];
        out.extend(bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]));
        return;
    }
    for byte in bytes {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b' '..=b'~' => out.push(*byte),
            _ => show(format_args!("\\{byte:03o}"), out),
        }
    }
}

/// The text form as a string, with the default settings.
pub fn to_text(value: &Datum<'_>, ty: SqlType) -> Result<String> {
    to_text_as(value, ty, &TextStyle::default())
}

/// The text form as a string.
pub fn to_text_as(value: &Datum<'_>, ty: SqlType, style: &TextStyle<'_>) -> Result<String> {
    let mut out = Vec::new();
    text_out_as(value, ty, style, &mut out)?;
    Ok(String::from_utf8(out).expect("output functions write UTF-8"))
}

/// The text form of an array of one dimension.
pub fn array_text(elements: &[Datum<'_>], element: SqlType) -> Result<String> {
    let array = Array::list(element.oid(), elements)?;
    let mut out = Vec::new();
    let ty = element.array().unwrap_or(SqlType::AnyArray);
    array_out(&array, ty, &TextStyle::default(), &mut out)?;
    Ok(String::from_utf8(out).expect("output functions write UTF-8"))
}

fn array_out(
    array: &Array<'_>,
    ty: SqlType,
    style: &TextStyle<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let shape = array.shape()?;
    let element = SqlType::of(shape.element);
    let mut values = shape.values()?;
    if matches!(ty, SqlType::Int2Vector | SqlType::OidVector) {
        for (n, value) in values.enumerate() {
            if n > 0 {
                out.push(b' ');
            }
            text_out_as(&value?, element, style, out)?;
        }
        return Ok(());
    }
    write_array(&shape.dims, shape.count, out, |word| {
        let value = values.next().unwrap_or(Ok(Datum::Null))?;
        text_out_as(&value, element, style, word)?;
        Ok(!value.is_null())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oid::oids;

    #[test]
    fn values_are_written_as_postgresql_writes_them() {
        let text = |value, ty| to_text(&value, ty).expect("text");
        assert_eq!(text(Datum::Int8(i64::MIN), SqlType::Int8), "-9223372036854775808");
        assert_eq!(text(Datum::Lsn(0x1_0000_a0b0), SqlType::PgLsn), "1/A0B0");
        assert_eq!(text(Datum::Oid(0), SqlType::Regclass), "-");
        assert_eq!(text(Datum::Tid(u32::MAX, 1), SqlType::Tid), "(4294967295,1)");
        assert_eq!(text(Datum::Char(0xff), SqlType::Char), "\\377");
        assert_eq!(text(Datum::bytes(&[0, 255]), SqlType::Bytea), "\\x00ff");
        let vector = Array::list(oids::INT2, &[Datum::Int2(1), Datum::Int2(-2)]).expect("it");
        assert_eq!(text(Datum::Array(vector), SqlType::Int2Vector), "1 -2");
        // PostgreSQL gives an empty one a dimension; with its length word it has 24 bytes.
        for (ty, element) in [(SqlType::OidVector, oids::OID), (SqlType::Int2Vector, oids::INT2)] {
            let Ok(Datum::Array(empty)) = crate::input::text_in(" ", ty) else { panic!("{ty:?}") };
            let words = [1, 0, element, 0, 0].into_iter().flat_map(u32::to_le_bytes);
            assert_eq!(empty.bytes(), words.collect::<Vec<u8>>());
            assert_eq!(text(Datum::Array(empty), ty), "");
        }
        let short = Datum::Array(Array::stored(&b"short"[..]));
        assert_eq!(to_text(&short, SqlType::OidVector).expect_err("short").sqlstate(), "XX001");
        let point = to_text(&Datum::Carried(600, vec![0; 16].into()), SqlType::of(600));
        let error = point.expect_err("only carried");
        assert_eq!(error.to_string(), "output of type with OID 600 is not supported");
        let pointer = Datum::Toasted(b"pointer".into());
        assert_eq!(to_text(&pointer, SqlType::Text).expect_err("pointer").sqlstate(), "0A000");
    }
}
