//! Dates, times and intervals.

use super::Area;
use super::arguments::{float8, int, interval, text, wrong_argument};
use crate::error::Result;
use crate::exec::host::Host;
use forebay_types::datetime::{extract, ops};
use forebay_types::functions::format;
use forebay_types::{Datum, Interval, Numeric};

pub(super) const TABLE: Area = &[
    (1299, |_, _, host| Ok(Datum::Timestamptz(host.style.now))), // now
    (2647, |_, _, host| Ok(Datum::Timestamptz(host.style.now))),
    (2648, |_, _, host| Ok(Datum::Timestamptz(host.statement_time))),
    (2649, |_, _, host| Ok(Datum::Timestamptz(host.clock()))),
    // extract
    (6199, |_, args, host| extracted(args, host)),
    (6200, |_, args, host| extracted(args, host)),
    (6201, |_, args, host| extracted(args, host)),
    (6202, |_, args, host| extracted(args, host)),
    (6203, |_, args, host| extracted(args, host)),
    (6204, |_, args, host| extracted(args, host)),
    // date_part
    (1171, |_, args, host| as_float(extracted(args, host)?)),
    (1172, |_, args, host| as_float(extracted(args, host)?)),
    (1273, |_, args, host| as_float(extracted(args, host)?)),
    (1384, |_, args, host| as_float(extracted(args, host)?)),
    (1385, |_, args, host| as_float(extracted(args, host)?)),
    (2021, |_, args, host| as_float(extracted(args, host)?)),
    // date_trunc
    (1217, |_, args, host| {
        let cut = extract::trunc_timestamptz(text(args, 0)?, moment(args, 1)?, &host.style.zone)?;
        Ok(Datum::Timestamptz(cut))
    }),
    (1218, |_, args, _| {
        Ok(Datum::Interval(extract::trunc_interval(text(args, 0)?, interval(args, 1)?)?))
    }),
    (2020, |_, args, _| {
        Ok(Datum::Timestamp(extract::trunc_timestamp(text(args, 0)?, local(args, 1)?)?))
    }),
    // age
    (1199, |_, args, host| {
        let age = ops::age_tz(moment(args, 0)?, moment(args, 1)?, &host.style.zone)?;
        Ok(Datum::Interval(age))
    }),
    (1386, |_, args, host| {
        let today = today(host)?;
        let midnight = ops::date_to_timestamptz(today, &host.style.zone)?;
        Ok(Datum::Interval(ops::age_tz(midnight, moment(args, 0)?, &host.style.zone)?))
    }),
    (2058, |_, args, _| Ok(Datum::Interval(ops::age(local(args, 0)?, local(args, 1)?)?))),
    (2059, |_, args, host| {
        let midnight = ops::date_to_timestamp(today(host)?)?;
        Ok(Datum::Interval(ops::age(midnight, local(args, 0)?)?))
    }),
    // date_bin
    (6177, |_, args, _| {
        let bin = ops::date_bin(interval(args, 0)?, local(args, 1)?, local(args, 2)?)?;
        Ok(Datum::Timestamp(bin))
    }),
    (6178, |_, args, _| {
        let bin = ops::date_bin(interval(args, 0)?, moment(args, 1)?, moment(args, 2)?)?;
        Ok(Datum::Timestamptz(bin))
    }),
    // make_date and its like
    (3846, |_, args, _| {
        Ok(Datum::Date(ops::make_date(int(args, 0)?, int(args, 1)?, int(args, 2)?)?))
    }),
    (3847, |_, args, _| {
        Ok(Datum::Time(ops::make_time(int(args, 0)?, int(args, 1)?, float8(args, 2)?)?))
    }),
    (3461, |_, args, _| Ok(Datum::Timestamp(made(args)?))),
    (3462, |_, args, host| {
        Ok(Datum::Timestamptz(ops::timestamp_to_timestamptz(made(args)?, &host.style.zone)?))
    }),
    (3463, |_, args, host| {
        let (local, zone) = (made(args)?, text(args, 6)?);
        Ok(Datum::Timestamptz(ops::timestamp_at_zone(local, zone, &host.style.zone)?))
    }),
    (3464, |_, args, _| {
        let mut counts = [0; 6];
        for (i, count) in counts.iter_mut().enumerate() {
            *count = int(args, i)?;
        }
        Ok(Datum::Interval(ops::make_interval(counts, float8(args, 6)?)?))
    }),
    (1158, |_, args, _| Ok(Datum::Timestamptz(ops::to_timestamp(float8(args, 0)?)?))),
    // AT TIME ZONE
    (1159, |_, args, host| {
        let (zone, moment) = (text(args, 0)?, moment(args, 1)?);
        Ok(Datum::Timestamp(ops::timestamptz_at_zone(moment, zone, &host.style.zone)?))
    }),
    (2069, |_, args, host| {
        let (zone, local) = (text(args, 0)?, local(args, 1)?);
        Ok(Datum::Timestamptz(ops::timestamp_at_zone(local, zone, &host.style.zone)?))
    }),
    (2037, |_, args, host| {
        let zone = text(args, 0)?;
        let time = ops::timetz_at_zone(timetz(args, 1)?, zone, &host.style.zone, host.style.now)?;
        Ok(Datum::Timetz(time.0, time.1))
    }),
    (1026, |_, args, _| {
        let local = ops::timestamptz_at_interval(moment(args, 1)?, interval(args, 0)?)?;
        Ok(Datum::Timestamp(local))
    }),
    (2070, |_, args, _| {
        let moment = ops::timestamp_at_interval(local(args, 1)?, interval(args, 0)?)?;
        Ok(Datum::Timestamptz(moment))
    }),
    // to_char, to_timestamp and to_date
    (1768, |_, args, _| Ok(shown(format::interval_to_char(interval(args, 0)?, text(args, 1)?)?))),
    (1770, |_, args, host| {
        let zone = &host.style.zone;
        Ok(shown(format::timestamptz_to_char(moment(args, 0)?, text(args, 1)?, zone)?))
    }),
    (2049, |_, args, _| Ok(shown(format::timestamp_to_char(local(args, 0)?, text(args, 1)?)?))),
    (1778, |_, args, host| {
        let read = format::to_timestamp(text(args, 0)?, text(args, 1)?, &host.style.zone)?;
        Ok(Datum::Timestamptz(read))
    }),
    (1780, |_, args, _| Ok(Datum::Date(format::to_date(text(args, 0)?, text(args, 1)?)?))),
    // justify
    (1295, |_, args, _| Ok(Datum::Interval(ops::justify_days(interval(args, 0)?)?))),
    (1175, |_, args, _| Ok(Datum::Interval(ops::justify_hours(interval(args, 0)?)?))),
    (2711, |_, args, _| Ok(Datum::Interval(ops::justify_interval(interval(args, 0)?)?))),
    // isfinite
    (1373, |_, args, _| Ok(Datum::Bool(ops::is_finite_date(date(args, 0)?)))),
    (1389, |_, args, _| Ok(Datum::Bool(ops::is_finite(moment(args, 0)?)))),
    (1390, |_, args, _| Ok(Datum::Bool(interval(args, 0)?.is_finite()))),
    (2048, |_, args, _| Ok(Datum::Bool(ops::is_finite(local(args, 0)?)))),
    // date and others
    (1141, |_, args, _| Ok(Datum::Date(ops::date_plus_days(date(args, 0)?, int(args, 1)?)?))),
    (2550, |_, args, _| Ok(Datum::Date(ops::date_plus_days(date(args, 1)?, int(args, 0)?)?))),
    (1142, |_, args, _| {
        let days = int(args, 1)?;
        match days.checked_neg() {
            Some(days) => Ok(Datum::Date(ops::date_plus_days(date(args, 0)?, days)?)),
            None => Ok(Datum::Date(ops::date_plus_days(date(args, 0)?, i32::MAX)?)),
        }
    }),
    (1140, |_, args, _| Ok(Datum::Int4(ops::date_minus_date(date(args, 0)?, date(args, 1)?)?))),
    (1272, |_, args, _| Ok(Datum::Timestamp(ops::date_plus_time(date(args, 0)?, time(args, 1)?)?))),
    (2025, |_, args, _| Ok(Datum::Timestamp(ops::date_plus_time(date(args, 0)?, time(args, 1)?)?))),
    (1296, |_, args, _| Ok(Datum::Timestamp(ops::date_plus_time(date(args, 1)?, time(args, 0)?)?))),
    (1297, |_, args, _| {
        let (time, west) = timetz(args, 1)?;
        Ok(Datum::Timestamptz(ops::date_plus_timetz(date(args, 0)?, time, west)?))
    }),
    (1298, |_, args, _| {
        let (time, west) = timetz(args, 0)?;
        Ok(Datum::Timestamptz(ops::date_plus_timetz(date(args, 1)?, time, west)?))
    }),
    (2071, |_, args, _| date_plus(date(args, 0)?, interval(args, 1)?)),
    (2546, |_, args, _| date_plus(date(args, 1)?, interval(args, 0)?)),
    (2072, |_, args, _| date_plus(date(args, 0)?, &interval(args, 1)?.neg()?)),
    // timestamps and intervals
    (2032, |_, args, _| plus(local(args, 0)?, interval(args, 1)?)),
    (2548, |_, args, _| plus(local(args, 1)?, interval(args, 0)?)),
    (2033, |_, args, _| plus(local(args, 0)?, &interval(args, 1)?.neg()?)),
    (1189, |_, args, host| moment_plus(moment(args, 0)?, interval(args, 1)?, host)),
    (2549, |_, args, host| moment_plus(moment(args, 1)?, interval(args, 0)?, host)),
    (1190, |_, args, host| moment_plus(moment(args, 0)?, &interval(args, 1)?.neg()?, host)),
    (2031, |_, args, _| {
        Ok(Datum::Interval(ops::timestamp_minus(local(args, 0)?, local(args, 1)?)?))
    }),
    (1188, |_, args, _| {
        Ok(Datum::Interval(ops::timestamp_minus(moment(args, 0)?, moment(args, 1)?)?))
    }),
    // intervals
    (1169, |_, args, _| Ok(Datum::Interval(interval(args, 0)?.add(interval(args, 1)?)?))),
    (1170, |_, args, _| Ok(Datum::Interval(interval(args, 0)?.sub(interval(args, 1)?)?))),
    (1618, |_, args, _| Ok(Datum::Interval(interval(args, 0)?.mul(float8(args, 1)?)?))),
    (1624, |_, args, _| Ok(Datum::Interval(interval(args, 1)?.mul(float8(args, 0)?)?))),
    (1326, |_, args, _| Ok(Datum::Interval(interval(args, 0)?.div(float8(args, 1)?)?))),
    (1168, |_, args, _| Ok(Datum::Interval(interval(args, 0)?.neg()?))),
    // times
    (1747, |_, args, _| Ok(Datum::Time(ops::time_plus(time(args, 0)?, interval(args, 1)?)?))),
    (1848, |_, args, _| Ok(Datum::Time(ops::time_plus(time(args, 1)?, interval(args, 0)?)?))),
    (1748, |_, args, _| Ok(Datum::Time(ops::time_minus(time(args, 0)?, interval(args, 1)?)?))),
    (1749, |_, args, _| {
        let (time, west) = timetz(args, 0)?;
        Ok(Datum::Timetz(ops::time_plus(time, interval(args, 1)?)?, west))
    }),
    (2547, |_, args, _| {
        let (time, west) = timetz(args, 1)?;
        Ok(Datum::Timetz(ops::time_plus(time, interval(args, 0)?)?, west))
    }),
    (1750, |_, args, _| {
        let (time, west) = timetz(args, 0)?;
        Ok(Datum::Timetz(ops::time_minus(time, interval(args, 1)?)?, west))
    }),
    (1690, |_, args, _| {
        let micros = time(args, 0)? - time(args, 1)?;
        Ok(Datum::Interval(Interval { micros, days: 0, months: 0 }))
    }),
    // casts
    (2024, |_, args, _| Ok(Datum::Timestamp(ops::date_to_timestamp(date(args, 0)?)?))),
    (1174, |_, args, host| {
        Ok(Datum::Timestamptz(ops::date_to_timestamptz(date(args, 0)?, &host.style.zone)?))
    }),
    (2029, |_, args, _| Ok(Datum::Date(ops::timestamp_to_date(local(args, 0)?)))),
    (1178, |_, args, host| {
        let local = ops::timestamptz_to_timestamp(moment(args, 0)?, &host.style.zone)?;
        Ok(Datum::Date(ops::timestamp_to_date(local)))
    }),
    (2028, |_, args, host| {
        let moment = ops::timestamp_to_timestamptz(local(args, 0)?, &host.style.zone)?;
        Ok(Datum::Timestamptz(moment))
    }),
    (2027, |_, args, host| {
        let local = ops::timestamptz_to_timestamp(moment(args, 0)?, &host.style.zone)?;
        Ok(Datum::Timestamp(local))
    }),
    (1316, |_, args, _| {
        Ok(ops::timestamp_to_time(local(args, 0)?).map_or(Datum::Null, Datum::Time))
    }),
    (2019, |_, args, host| {
        let local = ops::timestamptz_to_timestamp(moment(args, 0)?, &host.style.zone)?;
        Ok(ops::timestamp_to_time(local).map_or(Datum::Null, Datum::Time))
    }),
    (1388, |_, args, host| {
        let moment = moment(args, 0)?;
        let local = ops::timestamptz_to_timestamp(moment, &host.style.zone)?;
        let west = -host.style.zone.at(moment).offset;
        Ok(ops::timestamp_to_time(local).map_or(Datum::Null, |time| Datum::Timetz(time, west)))
    }),
    (2046, |_, args, _| Ok(Datum::Time(timetz(args, 0)?.0))),
    (2047, |_, args, host| {
        let west = -host.style.zone.at(host.style.now).offset;
        Ok(Datum::Timetz(time(args, 0)?, west))
    }),
    (1370, |_, args, _| {
        Ok(Datum::Interval(Interval { micros: time(args, 0)?, days: 0, months: 0 }))
    }),
    (1419, |_, args, _| Ok(Datum::Time(ops::time_plus(0, interval(args, 0)?)?))),
];

/// What to_char shows; null of what is infinite.
fn shown<'a>(text: Option<String>) -> Datum<'a> {
    text.map_or(Datum::Null, Datum::string)
}

fn date(args: &[Datum<'_>], i: usize) -> Result<i32> {
    match args.get(i) {
        Some(Datum::Date(days)) => Ok(*days),
        _ => Err(wrong_argument(args, i)),
    }
}

fn time(args: &[Datum<'_>], i: usize) -> Result<i64> {
    match args.get(i) {
        Some(Datum::Time(micros)) => Ok(*micros),
        _ => Err(wrong_argument(args, i)),
    }
}

fn timetz(args: &[Datum<'_>], i: usize) -> Result<(i64, i32)> {
    match args.get(i) {
        Some(Datum::Timetz(micros, west)) => Ok((*micros, *west)),
        _ => Err(wrong_argument(args, i)),
    }
}

/// An argument of type timestamp.
fn local(args: &[Datum<'_>], i: usize) -> Result<i64> {
    match args.get(i) {
        Some(Datum::Timestamp(micros)) => Ok(*micros),
        _ => Err(wrong_argument(args, i)),
    }
}

/// An argument of type timestamptz.
fn moment(args: &[Datum<'_>], i: usize) -> Result<i64> {
    match args.get(i) {
        Some(Datum::Timestamptz(micros)) => Ok(*micros),
        _ => Err(wrong_argument(args, i)),
    }
}

/// The date on which the transaction began.
fn today(host: &Host) -> Result<i32> {
    let local = ops::timestamptz_to_timestamp(host.style.now, &host.style.zone)?;
    Ok(ops::timestamp_to_date(local))
}

fn date_plus<'a>(date: i32, interval: &Interval) -> Result<Datum<'a>> {
    plus(ops::date_to_timestamp(date)?, interval)
}

fn plus<'a>(local: i64, interval: &Interval) -> Result<Datum<'a>> {
    Ok(Datum::Timestamp(ops::timestamp_plus(local, interval)?))
}

fn moment_plus<'a>(moment: i64, interval: &Interval, host: &Host) -> Result<Datum<'a>> {
    Ok(Datum::Timestamptz(ops::timestamptz_plus(moment, interval, &host.style.zone)?))
}

/// A timestamp of its fields.
fn made(args: &[Datum<'_>]) -> Result<i64> {
    let date = (int(args, 0)?, int(args, 1)?, int(args, 2)?);
    let time = (int(args, 3)?, int(args, 4)?, float8(args, 5)?);
    Ok(ops::make_timestamp(date, time)?)
}

/// A field of a date, time or interval.
fn extracted<'a>(args: &[Datum<'_>], host: &Host) -> Result<Datum<'a>> {
    let field = text(args, 0)?;
    let found: Option<Numeric> = match args.get(1) {
        Some(Datum::Date(days)) => extract::extract_date(field, *days)?,
        Some(Datum::Time(micros)) => Some(extract::extract_time(field, *micros)?),
        Some(Datum::Timetz(micros, west)) => Some(extract::extract_timetz(field, *micros, *west)?),
        Some(Datum::Timestamp(micros)) => extract::extract_timestamp(field, *micros)?,
        Some(Datum::Timestamptz(micros)) => {
            extract::extract_timestamptz(field, *micros, &host.style.zone)?
        }
        Some(Datum::Interval(interval)) => extract::extract_interval(field, interval)?,
        _ => return Err(wrong_argument(args, 1)),
    };
    Ok(found.map_or(Datum::Null, Datum::numeric))
}

fn as_float<'a>(value: Datum<'_>) -> Result<Datum<'a>> {
    Ok(match value {
        Datum::Numeric(number) => Datum::Float8(number.to_f64()),
        _ => Datum::Null,
    })
}
