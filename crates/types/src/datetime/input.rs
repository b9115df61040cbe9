//! The input functions of dates and times.

use crate::datum::Datum;
use crate::error::{Result, ValueError};
use crate::style::TextStyle;

use super::calendar::{
    Civil, UNIX_EPOCH, USECS_PER_DAY, USECS_PER_SEC, is_valid_date, is_valid_julian,
    is_valid_timestamp,
};
use super::decode::{Moment, decode, decode_time};
use super::fields::cut;
use super::numbers::Fault;

/// Bytes that the fields of a date may have, with a byte behind each.
const MAX_BYTES: usize = 128 + 25;

fn read(text: &str, ty: &'static str, style: &TextStyle<'_>) -> Result<Moment> {
    let moment = cut(text, MAX_BYTES).and_then(|fields| decode(&fields, style));
    moment.map_err(|fault| fault.error(text, ty))
}

/// Reads a date.
pub(crate) fn date_in(text: &str, style: &TextStyle<'_>) -> Result<Datum<'static>> {
    let days = match read(text, "date", style)? {
        Moment::Civil(civil, _) => {
            let days = civil.days();
            if !is_valid_julian(civil.year, civil.month) || !is_valid_date(days) {
                let message = format!("date out of range: \"{text}\"");
                return Err(ValueError::new("22008", message));
            }
            days as i32
        }
        Moment::Epoch => UNIX_EPOCH as i32,
        Moment::Infinity => i32::MAX,
        Moment::NegInfinity => i32::MIN,
    };
    Ok(Datum::Date(days))
}

fn stamp(moment: Moment, text: &str, zoned: bool) -> Result<i64> {
    Ok(match moment {
        Moment::Civil(civil, offset) => {
            let east = if zoned { i64::from(offset) * USECS_PER_SEC } else { 0 };
            let micros = civil.timestamp().and_then(|local| local.checked_sub(east));
            micros.filter(|micros| is_valid_timestamp(*micros)).ok_or_else(|| {
                ValueError::new("22008", format!("timestamp out of range: \"{text}\""))
            })?
        }
        Moment::Epoch => UNIX_EPOCH * USECS_PER_DAY,
        Moment::Infinity => i64::MAX,
        Moment::NegInfinity => i64::MIN,
    })
}

/// Reads a timestamp; a zone in the text does not count.
pub(crate) fn timestamp_in(text: &str, style: &TextStyle<'_>) -> Result<i64> {
    stamp(read(text, "timestamp", style)?, text, false)
}

/// Reads a timestamptz; without a zone it is in the session's.
pub(crate) fn timestamptz_in(text: &str, style: &TextStyle<'_>) -> Result<i64> {
    stamp(read(text, "timestamp with time zone", style)?, text, true)
}

fn clock(text: &str, ty: &'static str, style: &TextStyle<'_>) -> Result<(Civil, i32)> {
    let moment = cut(text, MAX_BYTES).and_then(|fields| {
        if fields.is_empty() {
            return Err(Fault::Format);
        }
        decode_time(&fields, style)
    });
    match moment.map_err(|fault| fault.error(text, ty))? {
        Moment::Civil(civil, offset) => Ok((civil, offset)),
        _ => Err(Fault::Format.error(text, ty)),
    }
}

/// Reads a time; a zone in the text does not count.
pub(crate) fn time_in(text: &str, style: &TextStyle<'_>) -> Result<i64> {
    Ok(clock(text, "time", style)?.0.time())
}

/// Reads a timetz: microseconds since midnight, and seconds west of Greenwich.
pub(crate) fn timetz_in(text: &str, style: &TextStyle<'_>) -> Result<(i64, i32)> {
    let (civil, offset) = clock(text, "time with time zone", style)?;
    Ok((civil.time(), -offset))
}
