//! Casts between types.

use crate::error::{Result, SqlError, state};
use forebay_types::{Datum, Numeric, SqlType, TextStyle, text_in_as, to_text_as};

pub(super) fn out_of_range(ty: SqlType) -> SqlError {
    SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, format!("{} out of range", ty.sql_name()))
}

pub(super) fn float_overflow() -> SqlError {
    SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}

pub(super) fn float_underflow() -> SqlError {
    SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow")
}

/// Casts a value. The planner has checked that there is such a cast.
pub fn cast<'a>(
    value: Datum<'a>,
    from: SqlType,
    to: SqlType,
    style: &TextStyle<'_>,
) -> Result<Datum<'a>> {
    use SqlType as T;
    if value.is_null() {
        return Ok(Datum::Null);
    }
    match to {
        T::Text | T::Varchar | T::Bpchar | T::Name => to_string_type(value, from, to, style),
        _ if from == T::Regclass => cast(value, T::Oid, to, style),
        _ if let Datum::Text(text) = &value => Ok(text_in_as(text, to, -1, style)?.into_owned()),
        T::Json if from == T::Jsonb => Ok(Datum::string(to_text_as(&value, from, style)?)),
        T::Int2 | T::Int4 | T::Int8 => to_integer(value, to),
        T::Oid | T::Regclass | T::Regproc | T::Regtype => match value {
            Datum::Oid(v) => Ok(Datum::Oid(v)),
            Datum::Int2(v) => Ok(Datum::Oid(i32::from(v) as u32)),
            Datum::Int4(v) => Ok(Datum::Oid(v as u32)),
            Datum::Int8(v) => match u32::try_from(v) {
                Ok(v) => Ok(Datum::Oid(v)),
                Err(_) => Err(SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, "OID out of range")),
            },
            _ => Err(no_cast(from, to)),
        },
        T::Xid => match value {
            Datum::Xid(v) => Ok(Datum::Xid(v)),
            Datum::Int4(v) => Ok(Datum::Xid(v as u32)),
            _ => Err(no_cast(from, to)),
        },
        T::Float8 => {
            let v = to_float8(&value).ok_or_else(|| no_cast(from, to))?;
            if let Datum::Numeric(n) = &value {
                check_range(n, v, to)?;
            }
            Ok(Datum::Float8(v))
        }
        T::Float4 => to_float4(&value).ok_or_else(|| no_cast(from, to))?,
        T::Numeric => match value {
            Datum::Int2(v) => Ok(Datum::numeric(Numeric::from_int(v))),
            Datum::Int4(v) => Ok(Datum::numeric(Numeric::from_int(v))),
            Datum::Int8(v) => Ok(Datum::numeric(Numeric::from_int(v))),
            Datum::Float4(v) => Ok(Datum::numeric(Numeric::from_float(f64::from(v), 6))),
            Datum::Float8(v) => Ok(Datum::numeric(Numeric::from_float(v, 15))),
            Datum::Numeric(v) => Ok(Datum::Numeric(v)),
            _ => Err(no_cast(from, to)),
        },
        T::Bool => match value {
            Datum::Int4(v) => Ok(Datum::Bool(v != 0)),
            _ => Err(no_cast(from, to)),
        },
        T::Char => match value {
            Datum::Int4(v) => i8::try_from(v).map(|v| Datum::Char(v as u8)).map_err(|_| {
                SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, "\"char\" out of range")
            }),
            _ => Err(no_cast(from, to)),
        },
        _ => Err(no_cast(from, to)),
    }
}

fn no_cast(from: SqlType, to: SqlType) -> SqlError {
    SqlError::new(
        state::CANNOT_COERCE,
        format!("cannot cast type {} to {}", from.sql_name(), to.sql_name()),
    )
}

fn to_string_type<'a>(
    value: Datum<'a>,
    from: SqlType,
    to: SqlType,
    style: &TextStyle<'_>,
) -> Result<Datum<'a>> {
    let text = match value {
        // The blanks at the end of a bpchar belong to nothing else.
        Datum::Text(text) if from == SqlType::Bpchar && to != SqlType::Bpchar => {
            text.trim_end_matches(' ').to_owned()
        }
        Datum::Text(text) if to != SqlType::Name => return Ok(Datum::Text(text)),
        Datum::Text(text) => text.into_owned(),
        // The cast to text spells the words out; the output function does not.
        Datum::Bool(v) if to != SqlType::Name => {
            return Ok(Datum::text(if v { "true" } else { "false" }));
        }
        other => to_text_as(&other, from, style)?,
    };
    Ok(Datum::string(match to {
        SqlType::Name => style.encoding.truncate_name(&text).to_owned(),
        _ => text,
    }))
}

fn to_integer<'a>(value: Datum<'_>, to: SqlType) -> Result<Datum<'a>> {
    let wide: i64 = match value {
        Datum::Int2(v) => i64::from(v),
        Datum::Int4(v) => i64::from(v),
        Datum::Int8(v) => v,
        Datum::Bool(v) => i64::from(v),
        Datum::Char(v) => i64::from(v as i8),
        Datum::Oid(v) if to == SqlType::Int4 => i64::from(v as i32),
        Datum::Oid(v) => i64::from(v),
        Datum::Float4(v) => float_to_integer(f64::from(v), to)?,
        Datum::Float8(v) => float_to_integer(v, to)?,
        Datum::Numeric(v) => numeric_to_integer(&v, to)?,
        _ => return Err(no_cast(SqlType::Unknown, to)),
    };
    match to {
        SqlType::Int2 => i16::try_from(wide).map(Datum::Int2).map_err(|_| out_of_range(to)),
        SqlType::Int4 => i32::try_from(wide).map(Datum::Int4).map_err(|_| out_of_range(to)),
        _ => Ok(Datum::Int8(wide)),
    }
}

fn float_to_integer(v: f64, to: SqlType) -> Result<i64> {
    let rounded = v.round_ties_even();
    // 2^63 itself is out of range; NaN is in no range.
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
        Ok(rounded as i64)
    } else {
        Err(out_of_range(to))
    }
}

fn numeric_to_integer(v: &Numeric, to: SqlType) -> Result<i64> {
    let special = |what: &str| {
        SqlError::new(
            state::FEATURE_NOT_SUPPORTED,
            format!("cannot convert {what} to {}", to.sql_name()),
        )
    };
    match v {
        Numeric::NaN => Err(special("NaN")),
        Numeric::Infinity | Numeric::NegInfinity => Err(special("infinity")),
        Numeric::Finite { .. } => v.to_i64().ok_or_else(|| out_of_range(to)),
    }
}

fn to_float8(value: &Datum<'_>) -> Option<f64> {
    Some(match value {
        Datum::Int2(v) => f64::from(*v),
        Datum::Int4(v) => f64::from(*v),
        Datum::Int8(v) => *v as f64,
        Datum::Float4(v) => f64::from(*v),
        Datum::Float8(v) => *v,
        Datum::Numeric(v) => v.to_f64(),
        _ => return None,
    })
}

/// Refuses a numeric that is too large for a float, or so small that it became zero.
fn check_range(n: &Numeric, v: f64, to: SqlType) -> Result<()> {
    let lost = v.is_infinite() || v == 0.0 && *n != Numeric::from_int(0);
    if lost && matches!(n, Numeric::Finite { .. }) {
        let message = format!("\"{n}\" is out of range for type {}", to.sql_name());
        return Err(SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    Ok(())
}

fn to_float4<'a>(value: &Datum<'_>) -> Option<Result<Datum<'a>>> {
    let v = match value {
        Datum::Int8(v) => *v as f32,
        Datum::Numeric(n) => {
            let v = n.to_f64() as f32;
            if let Err(e) = check_range(n, v.into(), SqlType::Float4) {
                return Some(Err(e));
            }
            v
        }
        other => {
            let wide = to_float8(other)?;
            let narrow = wide as f32;
            if narrow.is_infinite() && wide.is_finite() {
                return Some(Err(float_overflow()));
            }
            if narrow == 0.0 && wide != 0.0 {
                return Some(Err(float_underflow()));
            }
            narrow
        }
    };
    Some(Ok(Datum::Float4(v)))
}
