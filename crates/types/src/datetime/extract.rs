//! Fields of dates, times and intervals: `extract`, `date_part`, `date_trunc`.

use num_bigint::BigInt;

use crate::error::{Result, ValueError};
use crate::interval::Interval;
use crate::numeric::Numeric;

use super::calendar::{
    Civil, EPOCH_JULIAN, UNIX_EPOCH, USECS_PER_DAY, USECS_PER_SEC, checked_timestamp, civil_of,
    days_of, interval_out_of_range, weekday,
};
use super::interval::Shown;
use super::ops::{is_finite, is_finite_date};
use super::words::{Unit, field_word, unit_word};
use super::zone::Zone;

const DATE: &str = "date";
const TIME: &str = "time without time zone";
const TIMETZ: &str = "time with time zone";
const TIMESTAMP: &str = "timestamp without time zone";
const TIMESTAMPTZ: &str = "timestamp with time zone";
const INTERVAL: &str = "interval";

/// The unit of a field's name.
fn unit(name: &str, ty: &str) -> Result<Unit> {
    field_word(&name.to_ascii_lowercase()).ok_or_else(|| {
        let name = name.to_ascii_lowercase();
        ValueError::new("22023", format!("unit \"{name}\" not recognized for type {ty}"))
    })
}

/// The unit of `date_trunc`: those of intervals.
fn trunc_unit(name: &str, ty: &str) -> Result<Unit> {
    let lower = name.to_ascii_lowercase();
    unit_word(&lower).ok_or_else(|| {
        ValueError::new("22023", format!("unit \"{lower}\" not recognized for type {ty}"))
    })
}

fn unsupported(name: &str, ty: &str) -> ValueError {
    let name = name.to_ascii_lowercase();
    ValueError::new("0A000", format!("unit \"{name}\" not supported for type {ty}"))
}

fn int(value: i64) -> Numeric {
    Numeric::from_int(value)
}

fn decimal(value: impl Into<BigInt>, scale: u32) -> Numeric {
    Numeric::Finite { digits: value.into(), scale }
}

/// The Monday of the first week of a year that ISO 8601 counts.
fn first_week(year: i64) -> i64 {
    let fourth = days_of(year, 1, 4);
    fourth - (weekday(fourth) + 6) % 7
}

/// The year and the week of a day, as ISO 8601 counts them.
pub(crate) fn iso_week(days: i64) -> (i64, i64) {
    let (mut year, _, _) = civil_of(days);
    if days < first_week(year) {
        year -= 1;
    } else if days >= first_week(year + 1) {
        year += 1;
    }
    (year, (days - first_week(year)) / 7 + 1)
}

/// The Monday of a week.
pub(crate) fn iso_week_start(year: i64, week: i64) -> i64 {
    first_week(year) + (week - 1) * 7
}

/// Century or millennium of a year.
pub(crate) fn period(year: i64, size: i64) -> i64 {
    if year > 0 { (year + size - 1) / size } else { -((size - 1 - (year - 1)) / size) }
}

fn decade(year: i64) -> i64 {
    if year >= 0 { year / 10 } else { -((8 - (year - 1)) / 10) }
}

/// A field of a date's. None: it has no such field.
fn date_field(unit: Unit, civil: &Civil) -> Option<i64> {
    let days = civil.days();
    let shown = |year: i64| if year > 0 { year } else { year - 1 };
    Some(match unit {
        Unit::Day => civil.day,
        Unit::Month => civil.month,
        Unit::Quarter => (civil.month - 1) / 3 + 1,
        Unit::Week => iso_week(days).1,
        Unit::Year => shown(civil.year),
        Unit::Decade => decade(civil.year),
        Unit::Century => period(civil.year, 100),
        Unit::Millennium => period(civil.year, 1000),
        Unit::IsoYear => shown(iso_week(days).0),
        Unit::Dow => weekday(days),
        Unit::IsoDow => (weekday(days) + 6) % 7 + 1,
        Unit::Doy => days - days_of(civil.year, 1, 1) + 1,
        _ => return None,
    })
}

/// A field of a time's. None: it has no such field.
fn time_field(unit: Unit, civil: &Civil) -> Option<Numeric> {
    let micros = civil.second * USECS_PER_SEC + civil.micros;
    Some(match unit {
        Unit::Microsecond => int(micros),
        Unit::Millisecond => decimal(micros, 3),
        Unit::Second => decimal(micros, 6),
        Unit::Minute => int(civil.minute),
        Unit::Hour => int(civil.hour),
        _ => return None,
    })
}

/// A field of an infinite value: those that only grow are infinite, the others NULL. None inside:
/// NULL.
fn infinite_field(unit: Unit, positive: bool) -> Option<Option<Numeric>> {
    match unit {
        Unit::Year
        | Unit::Decade
        | Unit::Century
        | Unit::Millennium
        | Unit::Julian
        | Unit::IsoYear
        | Unit::Epoch => {
            Some(Some(if positive { Numeric::Infinity } else { Numeric::NegInfinity }))
        }
        Unit::Timezone | Unit::TimezoneHour | Unit::TimezoneMinute => None,
        _ => Some(None),
    }
}

/// `extract(field FROM date)`. None is NULL.
pub fn extract_date(name: &str, date: i32) -> Result<Option<Numeric>> {
    let unit = unit(name, DATE)?;
    let time = matches!(
        unit,
        Unit::Microsecond | Unit::Millisecond | Unit::Second | Unit::Minute | Unit::Hour
    );
    if time {
        return Err(unsupported(name, DATE));
    }
    if !is_finite_date(date) {
        return infinite_field(unit, date > 0).ok_or_else(|| unsupported(name, DATE));
    }
    let days = i64::from(date);
    Ok(Some(match unit {
        Unit::Julian => int(days + EPOCH_JULIAN),
        Unit::Epoch => int((days - UNIX_EPOCH) * 86_400),
        unit => {
            let (year, month, day) = civil_of(days);
            let civil = Civil { year, month, day, ..Civil::default() };
            int(date_field(unit, &civil).ok_or_else(|| unsupported(name, DATE))?)
        }
    }))
}

fn stamp_field(unit: Unit, civil: &Civil) -> Option<Numeric> {
    if unit == Unit::Julian {
        let day = int(civil.days() + EPOCH_JULIAN);
        let part = int(civil.time()).div(&int(USECS_PER_DAY)).ok()?;
        return day.add(&part).ok();
    }
    date_field(unit, civil).map(int).or_else(|| time_field(unit, civil))
}

/// `extract(field FROM timestamp)`. None is NULL.
pub fn extract_timestamp(name: &str, micros: i64) -> Result<Option<Numeric>> {
    let unit = unit(name, TIMESTAMP)?;
    let refused = || unsupported(name, TIMESTAMP);
    if !is_finite(micros) {
        return Ok(infinite_field(unit, micros > 0).unwrap_or(None));
    }
    Ok(Some(match unit {
        Unit::Epoch => epoch(micros),
        unit => stamp_field(unit, &Civil::of(micros)).ok_or_else(refused)?,
    }))
}

fn epoch(micros: i64) -> Numeric {
    decimal(i128::from(micros) - i128::from(UNIX_EPOCH * USECS_PER_DAY), 6)
}

/// A field of a zone, in seconds east of Greenwich.
fn zone_field(unit: Unit, east: i32) -> Option<Numeric> {
    let east = i64::from(east);
    Some(int(match unit {
        Unit::Timezone => east,
        Unit::TimezoneHour => east / 3600,
        Unit::TimezoneMinute => east / 60 % 60,
        _ => return None,
    }))
}

/// `extract(field FROM timestamptz)` in a zone. None is NULL.
pub fn extract_timestamptz(name: &str, micros: i64, zone: &Zone) -> Result<Option<Numeric>> {
    let unit = unit(name, TIMESTAMPTZ)?;
    if !is_finite(micros) {
        return Ok(infinite_field(unit, micros > 0).unwrap_or(None));
    }
    let east = zone.at(micros).offset;
    let local = micros.saturating_add(i64::from(east) * USECS_PER_SEC);
    Ok(Some(match unit {
        Unit::Epoch => epoch(micros),
        unit => zone_field(unit, east)
            .or_else(|| stamp_field(unit, &Civil::of(local)))
            .ok_or_else(|| unsupported(name, TIMESTAMPTZ))?,
    }))
}

/// `extract(field FROM time)`.
pub fn extract_time(name: &str, time: i64) -> Result<Numeric> {
    match unit(name, TIME)? {
        Unit::Epoch => Ok(decimal(time, 6)),
        unit => time_field(unit, &Civil::of_time(time)).ok_or_else(|| unsupported(name, TIME)),
    }
}

/// `extract(field FROM timetz)`; the zone is in seconds west of Greenwich.
pub fn extract_timetz(name: &str, time: i64, west: i32) -> Result<Numeric> {
    match unit(name, TIMETZ)? {
        Unit::Epoch => Ok(decimal(time + i64::from(west) * USECS_PER_SEC, 6)),
        unit => zone_field(unit, -west)
            .or_else(|| time_field(unit, &Civil::of_time(time)))
            .ok_or_else(|| unsupported(name, TIMETZ)),
    }
}

/// `extract(field FROM interval)`. None is NULL.
pub fn extract_interval(name: &str, interval: &Interval) -> Result<Option<Numeric>> {
    let unit = unit(name, INTERVAL)?;
    let refused = || unsupported(name, INTERVAL);
    let shown = Shown::of(interval);
    let civil = Civil {
        hour: shown.hours,
        minute: shown.minutes,
        second: shown.seconds,
        micros: shown.micros,
        ..Civil::default()
    };
    let whole = |value: i64| Ok(Some(int(value)));
    if !interval.is_finite() {
        let infinite = if interval.micros > 0 { Numeric::Infinity } else { Numeric::NegInfinity };
        return match unit {
            Unit::Hour
            | Unit::Day
            | Unit::Year
            | Unit::Decade
            | Unit::Century
            | Unit::Millennium
            | Unit::Epoch => Ok(Some(infinite)),
            Unit::Month | Unit::Quarter | Unit::Week => Ok(None),
            unit => time_field(unit, &civil).map(|_| None).ok_or_else(refused),
        };
    }
    match unit {
        Unit::Day => whole(shown.days),
        Unit::Week => whole(shown.days / 7),
        Unit::Month => whole(shown.months),
        Unit::Quarter if interval.months >= 0 => whole(shown.months / 3 + 1),
        Unit::Quarter => whole(-(-shown.months / 3 + 1)),
        Unit::Year => whole(shown.years),
        Unit::Decade => whole(shown.years / 10),
        Unit::Century => whole(shown.years / 100),
        Unit::Millennium => whole(shown.years / 1000),
        Unit::Epoch => {
            // A year has 365.25 days.
            let quarter_days = 1461 * shown.years + 120 * shown.months + 4 * shown.days;
            let micros = i128::from(quarter_days) * i128::from(USECS_PER_DAY / 4);
            Ok(Some(decimal(micros + i128::from(interval.micros), 6)))
        }
        unit => time_field(unit, &civil).map(Some).ok_or_else(refused),
    }
}

/// Cuts what is smaller than a unit. None: a timestamp has no such unit.
fn cut(unit: Unit, civil: &mut Civil) -> Option<()> {
    let year = civil.year;
    match unit {
        Unit::Week => {
            let days = civil.days();
            let (iso_year, week) = iso_week(days);
            (civil.year, civil.month, civil.day) = civil_of(iso_week_start(iso_year, week));
        }
        Unit::Millennium | Unit::Century | Unit::Decade => {
            let size = match unit {
                Unit::Millennium => 1000,
                Unit::Century => 100,
                _ => 10,
            };
            civil.year = match unit {
                Unit::Decade if year > 0 => year / 10 * 10,
                Unit::Decade => -((8 - (year - 1)) / 10) * 10,
                _ if year > 0 => (year + size - 1) / size * size - (size - 1),
                _ => -((size - 1 - (year - 1)) / size) * size + 1,
            };
            (civil.month, civil.day) = (1, 1);
        }
        Unit::Year => (civil.month, civil.day) = (1, 1),
        Unit::Quarter => (civil.month, civil.day) = (3 * ((civil.month - 1) / 3) + 1, 1),
        Unit::Month => civil.day = 1,
        Unit::Day => {}
        _ => return cut_time(unit, civil),
    }
    (civil.hour, civil.minute, civil.second, civil.micros) = (0, 0, 0, 0);
    Some(())
}

fn cut_time(unit: Unit, civil: &mut Civil) -> Option<()> {
    match unit {
        Unit::Hour => (civil.minute, civil.second, civil.micros) = (0, 0, 0),
        Unit::Minute => (civil.second, civil.micros) = (0, 0),
        Unit::Second => civil.micros = 0,
        Unit::Millisecond => civil.micros = civil.micros / 1000 * 1000,
        Unit::Microsecond => {}
        _ => return None,
    }
    Some(())
}

/// `date_trunc(unit, timestamp)`.
pub fn trunc_timestamp(name: &str, micros: i64) -> Result<i64> {
    let unit = trunc_unit(name, TIMESTAMP)?;
    let mut civil = Civil::of(if is_finite(micros) { micros } else { 0 });
    cut(unit, &mut civil).ok_or_else(|| unsupported(name, TIMESTAMP))?;
    if is_finite(micros) { checked_timestamp(civil.timestamp()) } else { Ok(micros) }
}

/// `date_trunc(unit, timestamptz)` in a zone.
pub fn trunc_timestamptz(name: &str, micros: i64, zone: &Zone) -> Result<i64> {
    let unit = trunc_unit(name, TIMESTAMPTZ)?;
    let finite = if is_finite(micros) { micros } else { 0 };
    let east = zone.at(finite).offset;
    let seconds = |offset: i32| i64::from(offset) * USECS_PER_SEC;
    let mut civil = Civil::of(finite.saturating_add(seconds(east)));
    cut(unit, &mut civil).ok_or_else(|| unsupported(name, TIMESTAMPTZ))?;
    if !is_finite(micros) {
        return Ok(micros);
    }
    let small = matches!(
        unit,
        Unit::Hour | Unit::Minute | Unit::Second | Unit::Millisecond | Unit::Microsecond
    );
    let local = checked_timestamp(civil.timestamp())?;
    // The hours of a day may be those of two offsets.
    let east = if small { east } else { zone.offset_of_local(local) };
    checked_timestamp(local.checked_sub(seconds(east)))
}

/// `date_trunc(unit, interval)`.
pub fn trunc_interval(name: &str, interval: &Interval) -> Result<Interval> {
    let unit = trunc_unit(name, INTERVAL)?;
    let shown = Shown::of(interval);
    let years = |size: i64| (shown.years / size * size * 12, 0, 0);
    let mut civil = Civil {
        hour: shown.hours,
        minute: shown.minutes,
        second: shown.seconds,
        micros: shown.micros,
        ..Civil::default()
    };
    let months = shown.years * 12 + shown.months;
    let (months, days, micros) = match unit {
        Unit::Millennium => years(1000),
        Unit::Century => years(100),
        Unit::Decade => years(10),
        Unit::Year => years(1),
        Unit::Quarter => (shown.years * 12 + shown.months / 3 * 3, 0, 0),
        Unit::Month => (months, 0, 0),
        Unit::Day => (months, shown.days, 0),
        unit => {
            cut_time(unit, &mut civil).ok_or_else(|| {
                let error = unsupported(name, INTERVAL);
                match unit {
                    Unit::Week => error.with_detail("Months usually have fractional weeks."),
                    _ => error,
                }
            })?;
            (months, shown.days, civil.time())
        }
    };
    if !interval.is_finite() {
        return Ok(*interval);
    }
    let int = |value: i64| i32::try_from(value).map_err(|_| interval_out_of_range());
    Ok(Interval { micros, days: int(days)?, months: int(months)? })
}
