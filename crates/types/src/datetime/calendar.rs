//! Days and their fields, and the limits of the types.
//!
//! Days are counted from 2000-01-01, and microseconds from its midnight.

use crate::error::{Result, ValueError};

pub(crate) const USECS_PER_SEC: i64 = 1_000_000;
pub(crate) const USECS_PER_MINUTE: i64 = 60 * USECS_PER_SEC;
pub(crate) const USECS_PER_HOUR: i64 = 3600 * USECS_PER_SEC;
pub(crate) const USECS_PER_DAY: i64 = 86_400 * USECS_PER_SEC;
/// The Julian day of 2000-01-01.
pub(crate) const EPOCH_JULIAN: i64 = 2_451_545;
/// Days from 2000-01-01 back to 1970-01-01.
pub(crate) const UNIX_EPOCH: i64 = -10_957;
/// The first timestamp: 4714-11-24 BC.
const MIN_TIMESTAMP: i64 = -211_813_488_000_000_000;
/// Behind the last timestamp: 294277-01-01.
const END_TIMESTAMP: i64 = 9_223_371_331_200_000_000;
/// Behind the last day, as a Julian day.
const END_JULIAN: i64 = 2_147_483_494;

/// A moment's fields. The year 0 is 1 BC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    pub(crate) month: i64,
    pub(crate) day: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
    pub(crate) micros: i64,
}

/// Whether a year has a leap day.
pub(crate) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days of a month.
pub(crate) fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 2000-01-01 to a day of the Gregorian calendar. The month is one of twelve; the day may
/// lie in a later or earlier month.
pub(crate) fn days_of(year: i64, month: i64, day: i64) -> i64 {
    // Years from March, in eras of 400 years, so that the leap day is the last of a year.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, in_era) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = (month + 9) % 12;
    let in_year = (153 * from_march + 2) / 5 + day - 1;
    era * 146_097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 730_425
}

/// Year, month and day of a number of days from 2000-01-01.
pub(crate) fn civil_of(days: i64) -> (i64, i64, i64) {
    let days = days + 730_425;
    let (era, in_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * in_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let day = in_year - (153 * from_march + 2) / 5 + 1;
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// The day of the week: 0 is Sunday.
pub(crate) fn weekday(days: i64) -> i64 {
    (days + 6).rem_euclid(7)
}

/// Whether a day can be counted in Julian days.
pub(crate) fn is_valid_julian(year: i64, month: i64) -> bool {
    (year > -4713 || year == -4713 && month >= 11)
        && (year < 5_874_898 || year == 5_874_898 && month < 6)
}

pub(crate) fn is_valid_timestamp(micros: i64) -> bool {
    (MIN_TIMESTAMP..END_TIMESTAMP).contains(&micros)
}

pub(crate) fn is_valid_date(days: i64) -> bool {
    (-EPOCH_JULIAN..END_JULIAN - EPOCH_JULIAN).contains(&days)
}

/// The error of a timestamp beyond the limits.
pub(crate) fn timestamp_out_of_range() -> ValueError {
    ValueError::new("22008", "timestamp out of range")
}

/// The error of a date beyond the limits.
pub(crate) fn date_out_of_range() -> ValueError {
    ValueError::new("22008", "date out of range")
}

/// The error of an interval beyond the limits.
pub(crate) fn interval_out_of_range() -> ValueError {
    ValueError::new("22008", "interval out of range")
}

impl Civil {
    /// The fields of a local time.
    pub(crate) fn of(micros: i64) -> Civil {
        let mut civil = Civil::of_time(micros.rem_euclid(USECS_PER_DAY));
        (civil.year, civil.month, civil.day) = civil_of(micros.div_euclid(USECS_PER_DAY));
        civil
    }

    /// The fields of a time of day.
    pub(crate) fn of_time(micros: i64) -> Civil {
        Civil {
            hour: micros / USECS_PER_HOUR,
            minute: micros / USECS_PER_MINUTE % 60,
            second: micros / USECS_PER_SEC % 60,
            micros: micros % USECS_PER_SEC,
            ..Civil::default()
        }
    }

    /// Microseconds since midnight.
    pub(crate) fn time(&self) -> i64 {
        ((self.hour * 60 + self.minute) * 60 + self.second) * USECS_PER_SEC + self.micros
    }

    /// Days from 2000-01-01.
    pub(crate) fn days(&self) -> i64 {
        days_of(self.year, self.month, self.day)
    }

    /// The local time. None: beyond the limits.
    pub(crate) fn timestamp(&self) -> Option<i64> {
        if !is_valid_julian(self.year, self.month) {
            return None;
        }
        self.days().checked_mul(USECS_PER_DAY)?.checked_add(self.time())
    }
}

/// Checks that a timestamp is within the limits, or infinite.
pub(crate) fn checked_timestamp(micros: Option<i64>) -> Result<i64> {
    micros.filter(|micros| is_valid_timestamp(*micros)).ok_or_else(timestamp_out_of_range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_from_the_year_2000() {
        assert_eq!(days_of(2000, 1, 1), 0);
        assert_eq!(days_of(1970, 1, 1), UNIX_EPOCH);
        assert_eq!(days_of(-4713, 11, 24), -EPOCH_JULIAN);
        for day in (-2_451_545..2_145_031_949).step_by(99_991) {
            let (year, month, of_month) = civil_of(day);
            assert_eq!(days_of(year, month, of_month), day);
        }
        assert_eq!((weekday(0), weekday(1), weekday(-7)), (6, 0, 6));
    }
}
