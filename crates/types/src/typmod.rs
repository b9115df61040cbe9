//! Type modifiers: their numbers, how they are written, and what they do with values.
//!
//! ```text
//!   char(n), varchar(n):  n + 4
//!   bit(n), varbit(n):    n
//!   numeric(p, s):        (p << 16 | s in 11 bits) + 4
//!   times, interval:      see datetime
//! ```

use std::borrow::Cow;

use crate::array::Array;
use crate::bits;
use crate::datetime::typmod as times;
use crate::datum::Datum;
use crate::error::{Result, ValueError};
use crate::facts::type_name;
use crate::length::{check_alloc, out_of_memory, push_repeated};
use crate::numeric::Numeric;
use crate::oid::Oid;
use crate::sqltype::SqlType;

/// Characters that a column of char(n) or varchar(n) may have.
const MAX_CHARS: i32 = 10 * 1024 * 1024;
/// Digits that numeric(p, s) may have.
const MAX_DIGITS: i32 = 1000;
/// What is added to lengths and precisions.
const HEADER: i32 = 4;

/// The type modifier of the numbers in a type's parentheses.
pub fn typmod_in(ty: SqlType, numbers: &[i32]) -> Result<i32> {
    let ty = ty.element().unwrap_or(ty);
    let single = || match numbers {
        [number] => Ok(*number),
        _ => Err(ValueError::new("22023", "invalid type modifier")),
    };
    match ty {
        SqlType::Bpchar => Ok(length(single()?, "char", MAX_CHARS)? + HEADER),
        SqlType::Varchar => Ok(length(single()?, "varchar", MAX_CHARS)? + HEADER),
        SqlType::Bit => length(single()?, "bit", MAX_CHARS * 8),
        SqlType::Varbit => length(single()?, "varbit", MAX_CHARS * 8),
        SqlType::Numeric => numeric_in(numbers),
        SqlType::Timestamp => times::precision_in(single()?, "TIMESTAMP", ""),
        SqlType::Timestamptz => times::precision_in(single()?, "TIMESTAMP", " WITH TIME ZONE"),
        SqlType::Time => times::precision_in(single()?, "TIME", ""),
        SqlType::Timetz => times::precision_in(single()?, "TIME", " WITH TIME ZONE"),
        SqlType::Interval => times::interval_in(numbers),
        _ => {
            let message = format!("type modifier is not allowed for type \"{}\"", ty.typname());
            Err(ValueError::new("42601", message))
        }
    }
}

fn length(n: i32, ty: &str, most: i32) -> Result<i32> {
    let refused =
        |what: String| Err(ValueError::new("22023", format!("length for type {ty} {what}")));
    if n < 1 {
        return refused("must be at least 1".to_owned());
    }
    if n > most {
        return refused(format!("cannot exceed {most}"));
    }
    Ok(n)
}

fn numeric_in(numbers: &[i32]) -> Result<i32> {
    let (precision, scale) = match numbers {
        [precision] => (*precision, 0),
        [precision, scale] => (*precision, *scale),
        _ => return Err(ValueError::new("22023", "invalid NUMERIC type modifier")),
    };
    if !(1..=MAX_DIGITS).contains(&precision) {
        let message = format!("NUMERIC precision {precision} must be between 1 and {MAX_DIGITS}");
        return Err(ValueError::new("22023", message));
    }
    if !(-MAX_DIGITS..=MAX_DIGITS).contains(&scale) {
        let range = format!("between -{MAX_DIGITS} and {MAX_DIGITS}");
        return Err(ValueError::new("22023", format!("NUMERIC scale {scale} must be {range}")));
    }
    Ok((precision << 16 | (scale & 0x7ff)) + HEADER)
}

/// Precision and scale of a type modifier of numeric.
pub(crate) fn numeric_parts(typmod: i32) -> (i32, i32) {
    let bare = typmod - HEADER;
    (bare >> 16 & 0xffff, ((bare & 0x7ff) ^ 1024) - 1024)
}

/// What stands behind a type's name for a type modifier: PostgreSQL's `typmodout`.
pub fn typmod_out(ty: SqlType, typmod: i32) -> String {
    if typmod < 0 {
        return String::new();
    }
    match ty.element().unwrap_or(ty) {
        SqlType::Bpchar | SqlType::Varchar if typmod > HEADER => format!("({})", typmod - HEADER),
        SqlType::Bpchar | SqlType::Varchar => String::new(),
        SqlType::Numeric if typmod >= HEADER => {
            let (precision, scale) = numeric_parts(typmod);
            format!("({precision},{scale})")
        }
        SqlType::Numeric => String::new(),
        SqlType::Interval => times::interval_out(typmod),
        SqlType::Time | SqlType::Timestamp => format!("({typmod}) without time zone"),
        SqlType::Timetz | SqlType::Timestamptz => format!("({typmod}) with time zone"),
        _ => format!("({typmod})"),
    }
}

/// A type's name with its type modifier, as `format_type` shows it. None: no type modifier is
/// given; -1: there is none, which differs for types that have a length of 1 without.
pub fn format_type(oid: Oid, typmod: Option<i32>) -> Cow<'static, str> {
    let ty = SqlType::of(oid);
    let (one, suffix) = match ty.element() {
        Some(element) => (element, "[]"),
        None => (ty, ""),
    };
    let name: Cow<'static, str> = match (one, typmod) {
        (SqlType::Bpchar, Some(-1)) => "bpchar".into(),
        (SqlType::Bit, Some(-1)) => "\"bit\"".into(),
        (_, Some(typmod)) if typmod >= 0 => {
            let name = one.sql_name();
            // The digits of times stand within the name.
            let name = match one {
                SqlType::Time | SqlType::Timetz => "time",
                SqlType::Timestamp | SqlType::Timestamptz => "timestamp",
                _ => name,
            };
            format!("{name}{}", typmod_out(one, typmod)).into()
        }
        _ => type_name(one.oid()),
    };
    if suffix.is_empty() { name } else { format!("{name}{suffix}").into() }
}

/// A value of a type with a type modifier: cut, filled or rounded, or refused. `explicit`: by a
/// cast that is written, which cuts what else is too long.
pub fn coerce<'a>(value: Datum<'a>, ty: SqlType, typmod: i32, explicit: bool) -> Result<Datum<'a>> {
    if typmod < 0 {
        return Ok(value);
    }
    Ok(match value {
        Datum::Text(text) if ty == SqlType::Bpchar && typmod >= HEADER => {
            Datum::Text(padded(text, (typmod - HEADER) as usize, explicit)?)
        }
        Datum::Text(text) if ty == SqlType::Varchar && typmod >= HEADER => {
            Datum::Text(cut(text, (typmod - HEADER) as usize, "character varying", explicit)?)
        }
        Datum::Bits(len, bytes) => sized_bits(len, bytes, ty, typmod as u32, explicit)?,
        Datum::Numeric(number) if typmod >= HEADER => {
            Datum::numeric(fitted(*number, numeric_parts(typmod))?)
        }
        Datum::Time(time) => Datum::Time(times::round(time, typmod).unwrap_or(time)),
        Datum::Timetz(time, zone) => {
            Datum::Timetz(times::round(time, typmod).unwrap_or(time), zone)
        }
        Datum::Timestamp(micros) => Datum::Timestamp(times::round_timestamp(micros, typmod)?),
        Datum::Timestamptz(micros) => Datum::Timestamptz(times::round_timestamp(micros, typmod)?),
        Datum::Interval(interval) => Datum::Interval(times::round_interval(interval, typmod)?),
        Datum::Array(array) => {
            let shape = array.shape()?;
            let element = SqlType::of(shape.element);
            let items = shape.values()?.map(|item| coerce(item?, element, typmod, explicit));
            let items = items.collect::<Result<Vec<_>>>()?;
            Datum::Array(Array::of(shape.element, &shape.dims, &items)?)
        }
        other => other,
    })
}

/// A text cut to so many characters. What is cut off must be blanks, unless the cast is explicit.
fn cut<'a>(text: Cow<'a, str>, most: usize, ty: &str, explicit: bool) -> Result<Cow<'a, str>> {
    if text.len() <= most {
        return Ok(text);
    }
    let Some((end, _)) = text.char_indices().nth(most) else { return Ok(text) };
    if !explicit && text[end..].bytes().any(|b| b != b' ') {
        return Err(ValueError::new("22001", format!("value too long for type {ty}({most})")));
    }
    Ok(match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[..end]),
        Cow::Owned(mut text) => {
            text.truncate(end);
            Cow::Owned(text)
        }
    })
}

/// A text of so many characters: cut, or filled with blanks.
fn padded<'a>(text: Cow<'a, str>, len: usize, explicit: bool) -> Result<Cow<'a, str>> {
    let text = cut(text, len, "character", explicit)?;
    let missing = len - text.chars().count();
    if missing == 0 {
        return Ok(text);
    }
    check_alloc(text.len() + missing + HEADER as usize)?;
    let mut text = text.into_owned();
    text.try_reserve_exact(missing).map_err(|_| out_of_memory(missing))?;
    push_repeated(&mut text, " ", missing);
    Ok(Cow::Owned(text))
}

fn sized_bits<'a>(
    len: u32,
    bytes: Cow<'a, [u8]>,
    ty: SqlType,
    wanted: u32,
    explicit: bool,
) -> Result<Datum<'a>> {
    // As in PostgreSQL, a length that no bit string has asks for nothing.
    if wanted as usize > bits::MAX_BITS
        || len == wanted
        || ty == SqlType::Varbit && len < wanted
        || wanted == 0
    {
        return Ok(Datum::Bits(len, bytes));
    }
    if !explicit {
        return Err(if ty == SqlType::Varbit {
            let message = format!("bit string too long for type bit varying({wanted})");
            ValueError::new("22001", message)
        } else {
            let message = format!("bit string length {len} does not match type bit({wanted})");
            ValueError::new("22026", message)
        });
    }
    Ok(Datum::Bits(wanted, bits::resized(wanted, &bytes).into()))
}

/// A number rounded to a scale that must have no more digits than the precision.
fn fitted(number: Numeric, (precision, scale): (i32, i32)) -> Result<Numeric> {
    let overflow = |what: String| {
        let detail = format!("A field with precision {precision}, scale {scale} {what}");
        ValueError::new("22003", "numeric field overflow").with_detail(detail)
    };
    match number {
        Numeric::NaN => return Ok(number),
        Numeric::Infinity | Numeric::NegInfinity => {
            return Err(overflow("cannot hold an infinite value.".to_owned()));
        }
        Numeric::Finite { .. } => {}
    }
    let rounded = number.round_to(scale)?;
    let most = precision - scale;
    if rounded.magnitude_exceeds(most) {
        let limit = if most == 0 { "1".to_owned() } else { format!("10^{most}") };
        let rule = format!("must round to an absolute value less than {limit}.");
        return Err(overflow(rule));
    }
    Ok(rounded)
}
