//! Values to text: PostgreSQL's output functions.

use std::fmt::Display;
use std::io::Write;

use crate::array::Array;
use crate::array::text::write_array;
use crate::datum::Datum;
use crate::error::{Problem, Result, ValueError};
use crate::float;
use crate::sqltype::SqlType;
use crate::time::timestamp;

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

/// Appends the text form of a value that is not NULL.
pub fn text_out(value: &Datum<'_>, ty: SqlType, out: &mut Vec<u8>) -> Result<()> {
    match value {
        Datum::Null => {}
        Datum::Bool(v) => out.push(if *v { b't' } else { b'f' }),
        Datum::Int2(v) => write_i64(i64::from(*v), out),
        Datum::Int4(v) => write_i64(i64::from(*v), out),
        Datum::Lsn(v) => show(format_args!("{:X}/{:X}", v >> 32, *v as u32), out),
        Datum::Xid8(v) => float::write_u64(*v, out),
        Datum::Int8(v) => write_i64(*v, out),
        Datum::Float4(v) => float::write_f32(*v, out),
        Datum::Float8(v) => float::write_f64(*v, out),
        Datum::Oid(0) if is_name(ty) => out.push(b'-'),
        // Its name is in a catalog.
        Datum::Oid(_) if is_name(ty) && ty != SqlType::Regproc => {
            return Err(ValueError::carried("output", ty.oid()));
        }
        Datum::Oid(v) | Datum::Xid(v) => float::write_u64(u64::from(*v), out),
        Datum::Tid(block, number) => show(format_args!("({block},{number})"), out),
        Datum::Char(0) => {}
        Datum::Char(v) if *v < 0x80 => out.push(*v),
        Datum::Char(v) => show(format_args!("\\{v:03o}"), out),
        Datum::Text(v) => out.extend_from_slice(v.as_bytes()),
        Datum::Numeric(v) => show(v, out),
        Datum::Timestamptz(v) => out.extend_from_slice(timestamp(*v).as_bytes()),
        Datum::Bytes(v) => {
            out.extend_from_slice(b"\\x");
            v.iter().for_each(|b| show(format_args!("{b:02x}"), out));
        }
        Datum::Array(v) => return array_out(v, ty, out),
        Datum::Date(_)
        | Datum::Time(_)
        | Datum::Timetz(..)
        | Datum::Timestamp(_)
        | Datum::Interval(_)
        | Datum::Uuid(_)
        | Datum::Bits(..)
        | Datum::Jsonb(_)
        | Datum::Inet(_)
        | Datum::Macaddr(_)
        | Datum::Macaddr8(_) => return Err(ValueError::carried("output", ty.oid())),
        Datum::Carried(of, _) => return Err(ValueError::carried("output", *of)),
        Datum::Toasted(_) => return Err(Problem::NotFetched.into()),
    }
    Ok(())
}

/// Whether values of the type are OIDs that are shown as names.
fn is_name(ty: SqlType) -> bool {
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

/// The text form as a string.
pub fn to_text(value: &Datum<'_>, ty: SqlType) -> Result<String> {
    let mut out = Vec::new();
    text_out(value, ty, &mut out)?;
    Ok(String::from_utf8(out).expect("output functions write UTF-8"))
}

/// The text form of an array of one dimension.
pub fn array_text(elements: &[Datum<'_>], element: SqlType) -> Result<String> {
    let array = Array::list(element.oid(), elements)?;
    let mut out = Vec::new();
    array_out(&array, element.array().unwrap_or(SqlType::AnyArray), &mut out)?;
    Ok(String::from_utf8(out).expect("output functions write UTF-8"))
}

fn array_out(array: &Array<'_>, ty: SqlType, out: &mut Vec<u8>) -> Result<()> {
    let shape = array.shape()?;
    let element = SqlType::of(shape.element);
    let mut values = shape.values()?;
    if matches!(ty, SqlType::Int2Vector | SqlType::OidVector) {
        for (n, value) in values.enumerate() {
            if n > 0 {
                out.push(b' ');
            }
            text_out(&value?, element, out)?;
        }
        return Ok(());
    }
    write_array(&shape.dims, shape.count, out, |word| {
        let value = values.next().unwrap_or(Ok(Datum::Null))?;
        text_out(&value, element, word)?;
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
        let short = Datum::Array(Array::stored(&b"short"[..]));
        assert_eq!(to_text(&short, SqlType::OidVector).expect_err("short").sqlstate(), "XX001");
        let point = to_text(&Datum::Carried(600, vec![0; 16].into()), SqlType::of(600));
        let error = point.expect_err("only carried");
        assert_eq!(error.to_string(), "output of type with OID 600 is not supported");
        let pointer = Datum::Toasted(b"pointer".into());
        assert_eq!(to_text(&pointer, SqlType::Text).expect_err("pointer").sqlstate(), "0A000");
    }
}
