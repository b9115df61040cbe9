//! Type modifiers: the numbers behind a type's name, as PostgreSQL's typmodin functions take them.

use super::lookups::Names;
use super::type_names::type_name;
use crate::error::{Result, SqlError, state};
use forebay_engine::syscache::TypeRow;
use forebay_types::oids;
use sqlparser::ast::IntervalFields;

/// Bytes of a length word, which a modifier that is a length counts.
const HEADER: i32 = 4;
/// The most characters of a string type.
const MOST_CHARACTERS: i64 = 10_485_760;
/// The most bits of a bit string.
const MOST_BITS: i64 = 83_886_080;
/// Digits that a number may have, before and behind the point.
const MOST_DIGITS: i64 = 1000;
/// Digits that seconds may have behind the point.
const MOST_SECOND_DIGITS: i64 = 6;

fn refuse<T>(message: String) -> Result<T> {
    Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message))
}

/// The modifier of a type. An array has that of its elements.
pub(super) fn typmod(names: &mut dyn Names, ty: &TypeRow, numbers: &[i64]) -> Result<i32> {
    if numbers.is_empty() {
        return Ok(-1);
    }
    if ty.modin == 0 {
        let name = type_name(names, ty.oid)?;
        let message = format!("type modifier is not allowed for type \"{name}\"");
        return Err(SqlError::new(state::SYNTAX_ERROR, message));
    }
    match ty.oid {
        oids::BPCHAR => Ok(length(numbers, "char", MOST_CHARACTERS)? + HEADER),
        oids::VARCHAR => Ok(length(numbers, "varchar", MOST_CHARACTERS)? + HEADER),
        oids::BIT => length(numbers, "bit", MOST_BITS),
        oids::VARBIT => length(numbers, "varbit", MOST_BITS),
        oids::NUMERIC => digits(numbers),
        oids::TIME | oids::TIMETZ | oids::TIMESTAMP | oids::TIMESTAMPTZ => seconds(numbers),
        oids::INTERVAL => match numbers {
            [precision] => {
                let precision = u64::try_from(*precision).ok();
                interval_typmod(None, Some(precision.unwrap_or(u64::MAX)))
            }
            _ => refuse("invalid INTERVAL type modifier".to_owned()),
        },
        _ => {
            let name = type_name(names, ty.oid)?;
            Err(SqlError::unsupported(format!("a type modifier of type {name}")))
        }
    }
}

/// A single number of characters or bits.
fn length(numbers: &[i64], name: &str, most: i64) -> Result<i32> {
    match *numbers {
        [n] if n < 1 => refuse(format!("length for type {name} must be at least 1")),
        [n] if n > most => refuse(format!("length for type {name} cannot exceed {most}")),
        [n] => Ok(i32::try_from(n).unwrap_or(i32::MAX)),
        _ => refuse("invalid type modifier".to_owned()),
    }
}

fn digits(numbers: &[i64]) -> Result<i32> {
    let (precision, scale) = match *numbers {
        [precision] => (precision, 0),
        [precision, scale] => (precision, scale),
        _ => return refuse("invalid NUMERIC type modifier".to_owned()),
    };
    if !(1..=MOST_DIGITS).contains(&precision) {
        let bounds = format!("between 1 and {MOST_DIGITS}");
        return refuse(format!("NUMERIC precision {precision} must be {bounds}"));
    }
    if !(-MOST_DIGITS..=MOST_DIGITS).contains(&scale) {
        let bounds = format!("between -{MOST_DIGITS} and {MOST_DIGITS}");
        return refuse(format!("NUMERIC scale {scale} must be {bounds}"));
    }
    Ok(((precision as i32) << 16 | (scale as i32) & 0x7ff) + HEADER)
}

fn seconds(numbers: &[i64]) -> Result<i32> {
    match *numbers {
        [n] if n < 0 => refuse(format!("TIMESTAMP({n}) precision must not be negative")),
        // PostgreSQL warns that it takes the most there is.
        [n] => Ok(n.min(MOST_SECOND_DIGITS) as i32),
        _ => refuse("invalid type modifier".to_owned()),
    }
}

/// The modifier of an interval: which fields it has, and digits of seconds.
pub(super) fn interval_typmod(
    fields: Option<IntervalFields>,
    precision: Option<u64>,
) -> Result<i32> {
    const ALL_FIELDS: i32 = 0x7fff;
    const ALL_DIGITS: i32 = 0xffff;
    if fields.is_none() && precision.is_none() {
        return Ok(-1);
    }
    use IntervalFields as F;
    let (year, month, day, hour, minute, second) =
        (1 << 2, 1 << 1, 1 << 3, 1 << 10, 1 << 11, 1 << 12);
    let range = match fields {
        None => ALL_FIELDS,
        Some(F::Year) => year,
        Some(F::Month) => month,
        Some(F::Day) => day,
        Some(F::Hour) => hour,
        Some(F::Minute) => minute,
        Some(F::Second) => second,
        Some(F::YearToMonth) => year | month,
        Some(F::DayToHour) => day | hour,
        Some(F::DayToMinute) => day | hour | minute,
        Some(F::DayToSecond) => day | hour | minute | second,
        Some(F::HourToMinute) => hour | minute,
        Some(F::HourToSecond) => hour | minute | second,
        Some(F::MinuteToSecond) => minute | second,
    };
    let digits = match precision {
        None => ALL_DIGITS,
        Some(n) => n.min(MOST_SECOND_DIGITS as u64) as i32,
    };
    Ok((range & ALL_FIELDS) << 16 | digits)
}
