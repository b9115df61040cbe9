//! Arithmetic with dates, times and intervals.

use crate::error::{Result, ValueError};
use crate::interval::Interval;

use super::calendar::{
    Civil, UNIX_EPOCH, USECS_PER_DAY, USECS_PER_SEC, checked_timestamp, civil_of,
    date_out_of_range, interval_out_of_range, is_valid_date, is_valid_julian, is_valid_timestamp,
    month_days, timestamp_out_of_range,
};
use super::zone::{Meaning, Zone, session_abbreviation};

const INFINITY: i64 = i64::MAX;
const NEG_INFINITY: i64 = i64::MIN;

/// Whether a timestamp is neither of the infinities.
pub fn is_finite(micros: i64) -> bool {
    micros != INFINITY && micros != NEG_INFINITY
}

/// Whether a date is neither of the infinities.
pub fn is_finite_date(days: i32) -> bool {
    days != i32::MAX && days != i32::MIN
}

/// A date and a number of days.
pub fn date_plus_days(date: i32, days: i32) -> Result<i32> {
    if !is_finite_date(date) {
        return Ok(date);
    }
    let sum = date.checked_add(days).filter(|sum| is_valid_date(i64::from(*sum)));
    sum.ok_or_else(date_out_of_range)
}

/// Days from one date to another.
pub fn date_minus_date(a: i32, b: i32) -> Result<i32> {
    if !is_finite_date(a) || !is_finite_date(b) {
        return Err(ValueError::new("22008", "cannot subtract infinite dates"));
    }
    Ok(a.wrapping_sub(b))
}

/// Midnight of a date.
pub fn date_to_timestamp(date: i32) -> Result<i64> {
    match date {
        i32::MAX => return Ok(INFINITY),
        i32::MIN => return Ok(NEG_INFINITY),
        _ => {}
    }
    let micros = i64::from(date).checked_mul(USECS_PER_DAY);
    micros.filter(|micros| is_valid_timestamp(*micros)).ok_or_else(date_beyond_timestamp)
}

fn date_beyond_timestamp() -> ValueError {
    ValueError::new("22008", "date out of range for timestamp")
}

/// Midnight of a date in a zone.
pub fn date_to_timestamptz(date: i32, zone: &Zone) -> Result<i64> {
    let local = date_to_timestamp(date)?;
    if !is_finite(local) {
        return Ok(local);
    }
    timestamp_to_timestamptz(local, zone).map_err(|_| date_beyond_timestamp())
}

/// The date of a timestamp.
pub fn timestamp_to_date(micros: i64) -> i32 {
    match micros {
        INFINITY => i32::MAX,
        NEG_INFINITY => i32::MIN,
        _ => micros.div_euclid(USECS_PER_DAY) as i32,
    }
}

/// The time of a timestamp; None of an infinite one.
pub fn timestamp_to_time(micros: i64) -> Option<i64> {
    is_finite(micros).then(|| micros.rem_euclid(USECS_PER_DAY))
}

/// A local time in a zone as a moment.
pub fn timestamp_to_timestamptz(local: i64, zone: &Zone) -> Result<i64> {
    if !is_finite(local) {
        return Ok(local);
    }
    let east = i64::from(zone.offset_of_local(local)) * USECS_PER_SEC;
    checked_timestamp(local.checked_sub(east))
}

/// A moment as a local time of a zone.
pub fn timestamptz_to_timestamp(micros: i64, zone: &Zone) -> Result<i64> {
    if !is_finite(micros) {
        return Ok(micros);
    }
    let east = i64::from(zone.at(micros).offset) * USECS_PER_SEC;
    checked_timestamp(micros.checked_add(east))
}

/// A date and a time of day.
pub fn date_plus_time(date: i32, time: i64) -> Result<i64> {
    let day = date_to_timestamp(date)?;
    if is_finite(day) { checked_timestamp(day.checked_add(time)) } else { Ok(day) }
}

/// A date, a time of day and seconds west of Greenwich.
pub fn date_plus_timetz(date: i32, time: i64, west: i32) -> Result<i64> {
    let day = date_to_timestamp(date)?;
    if !is_finite(day) {
        return Ok(day);
    }
    let zone = i64::from(west) * USECS_PER_SEC;
    checked_timestamp(day.checked_add(time).and_then(|sum| sum.checked_add(zone)))
        .map_err(|_| date_beyond_timestamp())
}

/// What a timestamp and an infinite interval make. None: the interval is finite.
fn with_infinity(micros: i64, interval: &Interval) -> Option<Result<i64>> {
    let infinite = match *interval {
        Interval::INFINITY => INFINITY,
        Interval::NEG_INFINITY => NEG_INFINITY,
        _ => return None,
    };
    let opposite = !is_finite(micros) && micros != infinite;
    Some(if opposite { Err(timestamp_out_of_range()) } else { Ok(infinite) })
}

/// A local time and months.
fn plus_months(local: i64, months: i32) -> Option<i64> {
    let mut civil = Civil::of(local);
    let month = civil.year * 12 + civil.month - 1 + i64::from(months);
    civil.year = month.div_euclid(12);
    civil.month = month.rem_euclid(12) + 1;
    civil.day = civil.day.min(month_days(civil.year, civil.month));
    civil.timestamp()
}

/// A local time and days.
fn plus_days(local: i64, days: i32) -> Option<i64> {
    let civil = Civil::of(local);
    let day = civil.days() + i64::from(days);
    let (year, month, _) = civil_of(day);
    if !is_valid_julian(year, month) {
        return None;
    }
    day.checked_mul(USECS_PER_DAY)?.checked_add(civil.time())
}

/// A timestamp and an interval: months first, then days, then the rest.
pub fn timestamp_plus(micros: i64, interval: &Interval) -> Result<i64> {
    if let Some(result) = with_infinity(micros, interval) {
        return result;
    }
    if !is_finite(micros) {
        return Ok(micros);
    }
    let sum = || {
        let mut local = micros;
        if interval.months != 0 {
            local = plus_months(local, interval.months)?;
        }
        if interval.days != 0 {
            local = plus_days(local, interval.days)?;
        }
        local.checked_add(interval.micros)
    };
    checked_timestamp(sum())
}

/// A timestamptz and an interval: months and days are those of a zone.
pub fn timestamptz_plus(micros: i64, interval: &Interval, zone: &Zone) -> Result<i64> {
    if let Some(result) = with_infinity(micros, interval) {
        return result;
    }
    if !is_finite(micros) {
        return Ok(micros);
    }
    let in_zone = |micros: i64, add: &dyn Fn(i64) -> Option<i64>| {
        let east = i64::from(zone.at(micros).offset) * USECS_PER_SEC;
        let local = add(micros.checked_add(east)?)?;
        local.checked_sub(i64::from(zone.offset_of_local(local)) * USECS_PER_SEC)
    };
    let sum = || {
        let mut moment = micros;
        if interval.months != 0 {
            moment = in_zone(moment, &|local| plus_months(local, interval.months))?;
        }
        if interval.days != 0 {
            moment = in_zone(moment, &|local| plus_days(local, interval.days))?;
        }
        moment.checked_add(interval.micros)
    };
    checked_timestamp(sum())
}

/// The time from one timestamp to another, in days of 24 hours.
pub fn timestamp_minus(a: i64, b: i64) -> Result<Interval> {
    if let Some(infinite) = infinite_difference(a, b)? {
        return Ok(infinite);
    }
    let micros = a.checked_sub(b).ok_or_else(interval_out_of_range)?;
    justify_hours(&Interval { micros, ..Interval::default() })
}

fn infinite_difference(a: i64, b: i64) -> Result<Option<Interval>> {
    Ok(match (a, b) {
        (INFINITY, INFINITY) | (NEG_INFINITY, NEG_INFINITY) => {
            return Err(interval_out_of_range());
        }
        (INFINITY, _) | (_, NEG_INFINITY) => Some(Interval::INFINITY),
        (NEG_INFINITY, _) | (_, INFINITY) => Some(Interval::NEG_INFINITY),
        _ => None,
    })
}

/// The time between two timestamps, in years, months, days and the rest.
pub fn age(a: i64, b: i64) -> Result<Interval> {
    if let Some(infinite) = infinite_difference(a, b)? {
        return Ok(infinite);
    }
    let (x, y) = (Civil::of(a), Civil::of(b));
    let sign = if a < b { -1 } else { 1 };
    let mut micros = sign * (x.time() - y.time());
    let mut days = sign * (x.day - y.day);
    let mut months = sign * ((x.year - y.year) * 12 + x.month - y.month);
    if micros < 0 {
        micros += USECS_PER_DAY;
        days -= 1;
    }
    let earlier = if a < b { x } else { y };
    while days < 0 {
        days += month_days(earlier.year, earlier.month);
        months -= 1;
    }
    let int = |value: i64| i32::try_from(sign * value).map_err(|_| interval_out_of_range());
    Ok(Interval { micros: sign * micros, days: int(days)?, months: int(months)? })
}

/// [`age`] of two moments in a zone.
pub fn age_tz(a: i64, b: i64, zone: &Zone) -> Result<Interval> {
    age(timestamptz_to_timestamp(a, zone)?, timestamptz_to_timestamp(b, zone)?)
}

fn finite_result(interval: Option<Interval>) -> Result<Interval> {
    interval.filter(Interval::is_finite).ok_or_else(interval_out_of_range)
}

impl Interval {
    /// 1 and -1 of the infinities, 0 of all else.
    fn infinite_sign(&self) -> i32 {
        i32::from(*self == Interval::INFINITY) - i32::from(*self == Interval::NEG_INFINITY)
    }

    /// The opposite.
    pub fn neg(&self) -> Result<Interval> {
        if !self.is_finite() {
            return Ok(self.infinity(-self.infinite_sign()));
        }
        let neg = || {
            Some(Interval {
                micros: self.micros.checked_neg()?,
                days: self.days.checked_neg()?,
                months: self.months.checked_neg()?,
            })
        };
        finite_result(neg())
    }

    fn infinity(&self, sign: i32) -> Interval {
        if sign > 0 { Interval::INFINITY } else { Interval::NEG_INFINITY }
    }

    /// The sum.
    pub fn add(&self, other: &Interval) -> Result<Interval> {
        match (self.infinite_sign(), other.infinite_sign()) {
            (0, 0) => {}
            (a, b) if a * b < 0 => return Err(interval_out_of_range()),
            (a, b) => return Ok(self.infinity(a + b)),
        }
        let sum = || {
            Some(Interval {
                micros: self.micros.checked_add(other.micros)?,
                days: self.days.checked_add(other.days)?,
                months: self.months.checked_add(other.months)?,
            })
        };
        finite_result(sum())
    }

    /// The difference.
    pub fn sub(&self, other: &Interval) -> Result<Interval> {
        match (self.infinite_sign(), other.infinite_sign()) {
            (0, 0) => {}
            (a, b) if a * b > 0 => return Err(interval_out_of_range()),
            (a, b) => return Ok(self.infinity(a - b)),
        }
        let difference = || {
            Some(Interval {
                micros: self.micros.checked_sub(other.micros)?,
                days: self.days.checked_sub(other.days)?,
                months: self.months.checked_sub(other.months)?,
            })
        };
        finite_result(difference())
    }

    /// So many times it.
    pub fn mul(&self, factor: f64) -> Result<Interval> {
        if factor.is_nan() {
            return Err(interval_out_of_range());
        }
        if !self.is_finite() {
            return match factor.partial_cmp(&0.0) {
                Some(std::cmp::Ordering::Equal) | None => Err(interval_out_of_range()),
                Some(order) => Ok(self.infinity(self.infinite_sign() * order as i32)),
            };
        }
        if factor.is_infinite() {
            let sign = self.span().signum() as i32 * factor.signum() as i32;
            return if sign == 0 { Err(interval_out_of_range()) } else { Ok(self.infinity(sign)) };
        }
        self.scaled(|value| value * factor)
    }

    /// A part of it.
    pub fn div(&self, divisor: f64) -> Result<Interval> {
        if divisor == 0.0 {
            return Err(ValueError::new("22012", "division by zero"));
        }
        if divisor.is_nan() || !self.is_finite() && divisor.is_infinite() {
            return Err(interval_out_of_range());
        }
        if !self.is_finite() {
            return Ok(self.infinity(self.infinite_sign() * divisor.signum() as i32));
        }
        self.scaled(|value| value / divisor)
    }

    /// Each field scaled; parts of months become days of which a month has 30, parts of days
    /// seconds.
    fn scaled(&self, scale: impl Fn(f64) -> f64) -> Result<Interval> {
        const DAY: f64 = 86_400.0;
        const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
        let round = |value: f64| (value * 1e6).round_ties_even() / 1e6;
        let int = |value: f64| {
            let fits = value.is_finite() && value.abs() <= f64::from(i32::MAX);
            if fits { Ok(value as i32) } else { Err(interval_out_of_range()) }
        };
        let (months_wide, days_wide) = (scale(f64::from(self.months)), scale(f64::from(self.days)));
        let (months, mut days) = (int(months_wide)?, int(days_wide)?);
        let month_days = round((months_wide - f64::from(months)) * 30.0);
        let mut seconds =
            round((days_wide - f64::from(days) + month_days - f64::from(month_days as i32)) * DAY);
        if seconds.abs() >= DAY {
            let whole = (seconds / DAY) as i32;
            days = days.checked_add(whole).ok_or_else(interval_out_of_range)?;
            seconds -= f64::from(whole) * DAY;
        }
        days = days.checked_add(month_days as i32).ok_or_else(interval_out_of_range)?;
        let micros = (scale(self.micros as f64) + seconds * 1e6).round_ties_even();
        if !(-TWO_TO_63..TWO_TO_63).contains(&micros) {
            return Err(interval_out_of_range());
        }
        finite_result(Some(Interval { micros: micros as i64, days, months }))
    }
}

/// Whole days out of the hours.
pub fn justify_hours(interval: &Interval) -> Result<Interval> {
    if !interval.is_finite() {
        return Ok(*interval);
    }
    let Interval { micros, days, months } = *interval;
    let whole = (micros / USECS_PER_DAY) as i32;
    let mut micros = micros % USECS_PER_DAY;
    let mut days = days.checked_add(whole).ok_or_else(interval_out_of_range)?;
    if days > 0 && micros < 0 {
        micros += USECS_PER_DAY;
        days -= 1;
    } else if days < 0 && micros > 0 {
        micros -= USECS_PER_DAY;
        days += 1;
    }
    Ok(Interval { micros, days, months })
}

/// Whole months of 30 days out of the days.
pub fn justify_days(interval: &Interval) -> Result<Interval> {
    if !interval.is_finite() {
        return Ok(*interval);
    }
    let Interval { micros, days, months } = *interval;
    let mut months = months.checked_add(days / 30).ok_or_else(interval_out_of_range)?;
    let mut days = days % 30;
    if months > 0 && days < 0 {
        days += 30;
        months -= 1;
    } else if months < 0 && days > 0 {
        days -= 30;
        months += 1;
    }
    Ok(Interval { micros, days, months })
}

/// Whole days out of the hours and months out of the days, all of one sign.
pub fn justify_interval(interval: &Interval) -> Result<Interval> {
    if !interval.is_finite() {
        return Ok(*interval);
    }
    let Interval { mut micros, days, months } = *interval;
    let (mut days, mut months) = (i64::from(days), i64::from(months));
    days += micros / USECS_PER_DAY;
    micros %= USECS_PER_DAY;
    months += days / 30;
    days %= 30;
    if months > 0 && (days < 0 || days == 0 && micros < 0) {
        days += 30;
        months -= 1;
    } else if months < 0 && (days > 0 || days == 0 && micros > 0) {
        days -= 30;
        months += 1;
    }
    if days > 0 && micros < 0 {
        micros += USECS_PER_DAY;
        days -= 1;
    } else if days < 0 && micros > 0 {
        micros -= USECS_PER_DAY;
        days += 1;
    }
    let months = i32::try_from(months).map_err(|_| interval_out_of_range())?;
    Ok(Interval { micros, days: days as i32, months })
}

/// A time of day and an interval, of which only hours count; past midnight it begins anew.
pub fn time_plus(time: i64, interval: &Interval) -> Result<i64> {
    if !interval.is_finite() {
        return Err(ValueError::new("22008", "cannot add infinite interval to time"));
    }
    Ok((time + interval.micros % USECS_PER_DAY).rem_euclid(USECS_PER_DAY))
}

/// A time of day less an interval.
pub fn time_minus(time: i64, interval: &Interval) -> Result<i64> {
    if !interval.is_finite() {
        return Err(ValueError::new("22008", "cannot subtract infinite interval from time"));
    }
    Ok((time - interval.micros % USECS_PER_DAY).rem_euclid(USECS_PER_DAY))
}

/// The bin of a length that a timestamp lies in, counted from an origin.
pub fn date_bin(stride: &Interval, micros: i64, origin: i64) -> Result<i64> {
    let fails = |state, message: &str| Err(ValueError::new(state, message));
    if !is_finite(micros) {
        return Ok(micros);
    }
    if !is_finite(origin) {
        return fails("22008", "origin out of range");
    }
    if !stride.is_finite() {
        return fails("22008", "timestamps cannot be binned into infinite intervals");
    }
    if stride.months != 0 {
        let message = "timestamps cannot be binned into intervals containing months or years";
        return fails("0A000", message);
    }
    let days = i64::from(stride.days).checked_mul(USECS_PER_DAY);
    let size = days.and_then(|days| days.checked_add(stride.micros));
    let size = size.ok_or_else(interval_out_of_range)?;
    if size <= 0 {
        return fails("22008", "stride must be greater than zero");
    }
    let distance = micros.checked_sub(origin).ok_or_else(interval_out_of_range)?;
    checked_timestamp(origin.checked_add(distance - distance.rem_euclid(size)))
}

/// A date of its fields; a negative year is before Christ.
pub fn make_date(year: i32, month: i32, day: i32) -> Result<i32> {
    let refused = || {
        let message = format!("date field value out of range: {year}-{month:02}-{day:02}");
        ValueError::new("22008", message)
    };
    let (wide, month_, day_) = (i64::from(year), i64::from(month), i64::from(day));
    let wide = match wide {
        0 => return Err(refused()),
        year if year < 0 => year + 1,
        year => year,
    };
    if !(1..=12).contains(&month) || day < 1 || day_ > month_days(wide, month_) {
        return Err(refused());
    }
    let civil = Civil { year: wide, month: month_, day: day_, ..Civil::default() };
    if !is_valid_julian(wide, month_) || !is_valid_date(civil.days()) {
        let message = format!("date out of range: {year}-{month:02}-{day:02}");
        return Err(ValueError::new("22008", message));
    }
    Ok(civil.days() as i32)
}

/// A time of its fields.
pub fn make_time(hour: i32, minute: i32, second: f64) -> Result<i64> {
    let micros = (second * 1e6).round_ties_even();
    let fits =
        (0..=24).contains(&hour) && (0..60).contains(&minute) && (0.0..=60e6).contains(&micros);
    let time = (i64::from(hour) * 60 + i64::from(minute)) * 60 * USECS_PER_SEC;
    // What is no number, or too large, becomes one that can be added.
    let time = time + micros.clamp(0.0, 60e6) as i64;
    if !fits || time > USECS_PER_DAY {
        let mut shown = Vec::new();
        crate::float::write_digits(second, 6, &mut shown);
        let second = String::from_utf8(shown).unwrap_or_default();
        let message = format!("time field value out of range: {hour}:{minute:02}:{second:0>2}");
        return Err(ValueError::new("22008", message));
    }
    Ok(time)
}

/// A timestamp of its fields.
pub fn make_timestamp(date: (i32, i32, i32), time: (i32, i32, f64)) -> Result<i64> {
    let (year, month, day) = date;
    let days = make_date(year, month, day)?;
    let (hour, minute, second) = time;
    date_plus_time(days, make_time(hour, minute, second)?)
}

/// An interval of its fields.
pub fn make_interval(counts: [i32; 6], seconds: f64) -> Result<Interval> {
    let [years, months, weeks, days, hours, minutes] = counts;
    if !seconds.is_finite() {
        return Err(interval_out_of_range());
    }
    let interval = || {
        let micros = (i64::from(hours) * 60 + i64::from(minutes)) * 60 * USECS_PER_SEC;
        let seconds = (seconds * 1e6).round_ties_even();
        let fits = seconds.abs() < 9.2e18;
        Some(Interval {
            months: years.checked_mul(12)?.checked_add(months)?,
            days: weeks.checked_mul(7)?.checked_add(days)?,
            micros: micros.checked_add(fits.then_some(seconds as i64)?)?,
        })
    };
    finite_result(interval())
}

/// The moment that is so many seconds after 1970.
pub fn to_timestamp(seconds: f64) -> Result<i64> {
    if seconds.is_nan() {
        return Err(ValueError::new("22008", "timestamp cannot be NaN"));
    }
    if seconds.is_infinite() {
        return Ok(if seconds > 0.0 { INFINITY } else { NEG_INFINITY });
    }
    let micros = ((seconds + (UNIX_EPOCH * 86_400) as f64) * 1e6).round_ties_even();
    let fits = micros.abs() < 9.223_372_036_854_775e18 && is_valid_timestamp(micros as i64);
    if !fits {
        let mut shown = Vec::new();
        crate::float::write_digits(seconds, 6, &mut shown);
        let shown = String::from_utf8(shown).unwrap_or_default();
        return Err(ValueError::new("22008", format!("timestamp out of range: \"{shown}\"")));
    }
    Ok(micros as i64)
}

/// The zone of `AT TIME ZONE`: an abbreviation, a name or a rule. Seconds east of Greenwich at a
/// time, which is local or a moment.
fn zone_offset(name: &str, session: &Zone, micros: i64, is_local: bool) -> Result<i32> {
    let unknown = || ValueError::new("22023", format!("time zone \"{name}\" not recognized"));
    let lower = name.to_ascii_lowercase();
    Ok(match session_abbreviation(&lower, session, micros) {
        Some(Meaning::Offset(offset)) => offset,
        Some(Meaning::Zone(zone)) => zone.abbreviated(&lower, micros).ok_or_else(unknown)?.0,
        None => {
            let zone = Zone::named(name).ok_or_else(unknown)?;
            if is_local { zone.offset_of_local(micros) } else { zone.at(micros).offset }
        }
    })
}

/// `timestamp AT TIME ZONE zone`: the moment of a local time there.
pub fn timestamp_at_zone(local: i64, name: &str, session: &Zone) -> Result<i64> {
    if !is_finite(local) {
        return Ok(local);
    }
    let east = i64::from(zone_offset(name, session, local, true)?) * USECS_PER_SEC;
    checked_timestamp(local.checked_sub(east))
}

/// `timestamptz AT TIME ZONE zone`: the local time there.
pub fn timestamptz_at_zone(micros: i64, name: &str, session: &Zone) -> Result<i64> {
    if !is_finite(micros) {
        return Ok(micros);
    }
    let east = i64::from(zone_offset(name, session, micros, false)?) * USECS_PER_SEC;
    checked_timestamp(micros.checked_add(east))
}

/// `timestamp AT TIME ZONE interval`: the moment of a local time there.
pub fn timestamp_at_interval(local: i64, zone: &Interval) -> Result<i64> {
    let east = i64::from(zone_of_interval(zone)?) * USECS_PER_SEC;
    if is_finite(local) { checked_timestamp(local.checked_sub(east)) } else { Ok(local) }
}

/// `timestamptz AT TIME ZONE interval`: the local time there.
pub fn timestamptz_at_interval(micros: i64, zone: &Interval) -> Result<i64> {
    let east = i64::from(zone_of_interval(zone)?) * USECS_PER_SEC;
    if is_finite(micros) { checked_timestamp(micros.checked_add(east)) } else { Ok(micros) }
}

/// `timetz AT TIME ZONE zone`: the same time there; `now` tells whether it is summer.
pub fn timetz_at_zone(
    (time, west): (i64, i32),
    name: &str,
    session: &Zone,
    now: i64,
) -> Result<(i64, i32)> {
    let east = zone_offset(name, session, now, false)?;
    let utc = time + i64::from(west) * USECS_PER_SEC;
    Ok(((utc + i64::from(east) * USECS_PER_SEC).rem_euclid(USECS_PER_DAY), -east))
}

/// Seconds east of Greenwich of an interval that is a zone.
pub fn zone_of_interval(interval: &Interval) -> Result<i32> {
    let shown = || super::interval::show(interval, crate::style::IntervalStyle::Postgres);
    if !interval.is_finite() {
        let message = format!("interval time zone \"{}\" must be finite", shown());
        return Err(ValueError::new("22023", message));
    }
    if interval.months != 0 || interval.days != 0 {
        let message = format!("interval time zone \"{}\" must not include months or days", shown());
        return Err(ValueError::new("22023", message));
    }
    Ok((interval.micros / USECS_PER_SEC) as i32)
}
