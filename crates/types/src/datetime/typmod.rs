//! Type modifiers of times: how many digits a second has, and which fields an interval has.
//!
//! ```text
//!   timestamp(p), time(p):  p
//!   interval:               fields (16 bits) | p (16 bits), all of either are all bits but one
//! ```

use crate::error::{Result, ValueError};
use crate::interval::Interval;

use super::calendar::{
    USECS_PER_HOUR, USECS_PER_MINUTE, interval_out_of_range, is_valid_timestamp,
    timestamp_out_of_range,
};
use super::words::Unit;

/// Digits of a second.
pub const MAX_PRECISION: i32 = 6;
/// An interval with all fields.
const FULL_RANGE: i32 = 0x7fff;
/// An interval with all digits of its seconds.
const FULL_PRECISION: i32 = 0xffff;

const MONTH: i32 = 1 << 1;
const YEAR: i32 = 1 << 2;
const DAY: i32 = 1 << 3;
const HOUR: i32 = 1 << 10;
const MINUTE: i32 = 1 << 11;
const SECOND: i32 = 1 << 12;

/// The fields that an interval's type modifier allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalFields(i32);

/// The names of sets of fields, as types are written.
const NAMES: [(i32, &str); 13] = [
    (YEAR, " year"),
    (MONTH, " month"),
    (DAY, " day"),
    (HOUR, " hour"),
    (MINUTE, " minute"),
    (SECOND, " second"),
    (YEAR | MONTH, " year to month"),
    (DAY | HOUR, " day to hour"),
    (DAY | HOUR | MINUTE, " day to minute"),
    (DAY | HOUR | MINUTE | SECOND, " day to second"),
    (HOUR | MINUTE, " hour to minute"),
    (HOUR | MINUTE | SECOND, " hour to second"),
    (MINUTE | SECOND, " minute to second"),
];

impl IntervalFields {
    /// All fields.
    pub const ALL: IntervalFields = IntervalFields(FULL_RANGE);

    /// Those of a type modifier.
    pub fn of_typmod(typmod: i32) -> IntervalFields {
        IntervalFields(if typmod < 0 { FULL_RANGE } else { typmod >> 16 & FULL_RANGE })
    }

    /// Those of the words behind `interval`, as ` day to second`.
    pub fn named(name: &str) -> Option<IntervalFields> {
        NAMES.iter().find(|(_, n)| n.trim_start() == name).map(|(set, _)| IntervalFields(*set))
    }

    /// The type modifier of these fields, with so many digits of the seconds, or with all.
    pub fn typmod(self, precision: Option<i32>) -> i32 {
        self.0 << 16 | precision.unwrap_or(FULL_PRECISION)
    }

    pub(crate) fn is_minute_to_second(self) -> bool {
        self.0 == MINUTE | SECOND
    }

    /// The unit of a number without one.
    pub(crate) fn last_unit(self) -> Unit {
        match self.0 {
            YEAR => Unit::Year,
            MONTH => Unit::Month,
            DAY => Unit::Day,
            HOUR => Unit::Hour,
            MINUTE => Unit::Minute,
            set if set == YEAR | MONTH => Unit::Month,
            set if set == DAY | HOUR => Unit::Hour,
            set if set == HOUR | MINUTE || set == DAY | HOUR | MINUTE => Unit::Minute,
            _ => Unit::Second,
        }
    }
}

/// The type modifier of a precision of timestamps and times. `name`: as the type is written.
pub(crate) fn precision_in(precision: i32, name: &str, zoned: &str) -> Result<i32> {
    if precision < 0 {
        let message = format!("{name}({precision}){zoned} precision must not be negative");
        return Err(ValueError::new("22023", message));
    }
    // PostgreSQL warns of more, and takes the most that there are.
    Ok(precision.min(MAX_PRECISION))
}

/// The type modifier of an interval: fields, or fields and a precision.
pub(crate) fn interval_in(numbers: &[i32]) -> Result<i32> {
    let invalid =
        |what: &str| ValueError::new("22023", format!("invalid INTERVAL type modifier{what}"));
    let (fields, precision) = match numbers {
        [fields] => (*fields, None),
        [fields, precision] => (*fields, Some(*precision)),
        _ => return Err(invalid("")),
    };
    if fields != FULL_RANGE && !NAMES.iter().any(|(set, _)| *set == fields) {
        return Err(invalid(""));
    }
    match precision {
        None if fields == FULL_RANGE => Ok(-1),
        Some(precision) if precision < 0 => {
            let message = format!("INTERVAL({precision}) precision must not be negative");
            Err(ValueError::new("22023", message))
        }
        precision => Ok(IntervalFields(fields).typmod(precision.map(|p| p.min(MAX_PRECISION)))),
    }
}

/// What stands behind `interval` for a type modifier.
pub(crate) fn interval_out(typmod: i32) -> String {
    if typmod < 0 {
        return String::new();
    }
    let fields = typmod >> 16 & FULL_RANGE;
    let name = NAMES.iter().find(|(set, _)| *set == fields).map_or("", |(_, name)| name);
    match typmod & FULL_PRECISION {
        FULL_PRECISION => name.to_owned(),
        precision => format!("{name}({precision})"),
    }
}

/// Rounds microseconds to so many digits of a second, half away from zero.
pub(crate) fn round(micros: i64, typmod: i32) -> Option<i64> {
    if !(0..MAX_PRECISION).contains(&typmod) {
        return Some(micros);
    }
    let scale = 10_i64.pow((MAX_PRECISION - typmod) as u32);
    let half = scale / 2;
    Some(if micros >= 0 {
        micros.checked_add(half)? / scale * scale
    } else {
        -(micros.checked_neg()?.checked_add(half)? / scale * scale)
    })
}

/// Rounds a timestamp, if it is finite.
pub(crate) fn round_timestamp(micros: i64, typmod: i32) -> Result<i64> {
    if micros == i64::MAX || micros == i64::MIN {
        return Ok(micros);
    }
    let rounded = round(micros, typmod).filter(|micros| is_valid_timestamp(*micros));
    rounded.ok_or_else(timestamp_out_of_range)
}

/// Cuts an interval to the fields of a type modifier, and rounds its seconds.
pub(crate) fn round_interval(interval: Interval, typmod: i32) -> Result<Interval> {
    if typmod < 0 || !interval.is_finite() {
        return Ok(interval);
    }
    let Interval { micros, days, months } = interval;
    let fields = typmod >> 16 & FULL_RANGE;
    let (days_only, whole) = (fields & (HOUR | MINUTE | SECOND) == 0, Interval::default());
    let mut cut = match fields {
        YEAR => Interval { months: months / 12 * 12, ..whole },
        set if set == MONTH || set == YEAR | MONTH => Interval { months, ..whole },
        _ if days_only => Interval { days, months, ..whole },
        set if set & (MINUTE | SECOND) == 0 => {
            Interval { micros: micros / USECS_PER_HOUR * USECS_PER_HOUR, ..interval }
        }
        set if set & SECOND == 0 => {
            Interval { micros: micros / USECS_PER_MINUTE * USECS_PER_MINUTE, ..interval }
        }
        _ => interval,
    };
    let precision = typmod & FULL_PRECISION;
    if precision != FULL_PRECISION {
        cut.micros = round(cut.micros, precision).ok_or_else(interval_out_of_range)?;
    }
    Ok(cut)
}
