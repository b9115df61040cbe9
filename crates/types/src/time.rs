//! Formats and parses points in time as PostgreSQL's files and messages do, in UTC.
//!
//! A point in time is a number of microseconds since 2000-01-01, as in timestamptz and the WAL, or
//! of seconds since 1970-01-01, as in pg_control.

/// Seconds from 1970-01-01 to 2000-01-01.
pub const POSTGRES_EPOCH: i64 = 946_684_800;

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400;

/// Days from 0000-03-01 to 1970-01-01.
const FROM_ERA_ZERO: i64 = 719_468;
/// Days of 400 years.
const ERA: i64 = 146_097;

/// A day of the Gregorian calendar. The year before 1 is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// Year.
    pub year: i64,
    /// Month, 1 to 12.
    pub month: i64,
    /// Day of the month, from 1.
    pub day: i64,
}

impl Date {
    /// The day that is `days` after 1970-01-01.
    pub fn of_unix_day(days: i64) -> Date {
        // Counts years from March, in eras of 400 years, so that the leap day is the last of a
        // year.
        let days = days.saturating_add(FROM_ERA_ZERO);
        let (era, in_era) = (days.div_euclid(ERA), days.rem_euclid(ERA));
        let year_of_era = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
        let in_year = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * in_year + 2) / 153;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        Date {
            year: era * 400 + year_of_era + i64::from(month <= 2),
            month,
            day: in_year - (153 * from_march + 2) / 5 + 1,
        }
    }

    /// Days since 1970-01-01; `None` if there is no such day.
    pub fn unix_day(self) -> Option<i64> {
        let Date { year, month, day } = self;
        if !(-9_999..=999_999).contains(&year)
            || !(1..=12).contains(&month)
            || day < 1
            || day > self.month_days()
        {
            return None;
        }
        let year = if month <= 2 { year - 1 } else { year };
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let from_march = if month > 2 { month - 3 } else { month + 9 };
        let in_year = (153 * from_march + 2) / 5 + day - 1;
        Some(
            era * ERA + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + in_year
                - FROM_ERA_ZERO,
        )
    }

    fn month_days(self) -> i64 {
        let year = self.year;
        match self.month {
            2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }
}

/// Formats seconds since 1970 as "2026-11-21 01:21:39", without a time zone and an era.
pub fn date_and_time(seconds: i64) -> String {
    let Date { year, month, day } = Date::of_unix_day(seconds.div_euclid(DAY));
    let rest = seconds.rem_euclid(DAY);
    // The year 0 is 1 BC.
    let shown = if year > 0 { year } else { 1 - year };
    format!(
        "{shown:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

/// Formats seconds since 1970 as the server's log does: "2026-11-21 01:21:39 UTC".
pub fn log_time(seconds: i64) -> String {
    date_and_time(seconds) + " UTC"
}

/// Formats a timestamptz (microseconds since 2000) in UTC: "2026-11-21 01:21:39.5+00".
pub fn timestamp(micros: i64) -> String {
    match micros {
        i64::MAX => return "infinity".to_owned(),
        i64::MIN => return "-infinity".to_owned(),
        _ => {}
    }
    let (seconds, fraction) = (micros.div_euclid(SECOND), micros.rem_euclid(SECOND));
    let seconds = seconds + POSTGRES_EPOCH;
    let mut text = date_and_time(seconds);
    if fraction > 0 {
        text.push_str(format!(".{fraction:06}").trim_end_matches('0'));
    }
    text.push_str("+00");
    if Date::of_unix_day(seconds.div_euclid(DAY)).year <= 0 {
        text.push_str(" BC");
    }
    text
}

/// A parsed point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Microseconds since 2000, in UTC if no zone was given.
    pub micros: i64,
    /// Whether a zone was given.
    pub has_zone: bool,
}

/// Parses a point in time such as `2026-11-21 01:21:39.5+00`; `None` if it is not valid. The time
/// of day, its seconds, their fraction and the zone are optional, and `T` may replace the blank. A
/// zone is an offset from UTC, `Z`, `UTC` or `GMT`.
pub fn parse(text: &str) -> Option<Written> {
    let text = text.trim();
    let (date, rest) = text.split_at_checked(10)?;
    let mut fields = date.split('-').map(digits);
    let date = Date { year: fields.next()??, month: fields.next()??, day: fields.next()?? };
    if fields.next().is_some() {
        return None;
    }
    let rest = rest.strip_prefix('T').unwrap_or(rest).trim_start();
    let end =
        rest.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')).unwrap_or(rest.len());
    let (time, zone) = rest.split_at_checked(end)?;
    let time = if time.is_empty() { 0 } else { time_of_day(time)? };
    let days = date.unix_day()?.checked_sub(POSTGRES_EPOCH / DAY)?;
    let local = days.checked_mul(DAY * SECOND)?.checked_add(time)?;
    let zone = zone.trim_start();
    Some(Written { micros: local.checked_sub(offset(zone)?)?, has_zone: !zone.is_empty() })
}

fn digits(text: &str) -> Option<i64> {
    let plain = !text.is_empty() && text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// Microseconds of `hh:mm[:ss[.ffffff]]`.
fn time_of_day(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut fields = whole.split(':').map(digits);
    let (hours, minutes) = (fields.next()??, fields.next()??);
    let seconds = fields.next().unwrap_or(Some(0))?;
    let micros = match fraction {
        "" => 0,
        _ if fraction.len() > 6 => return None,
        _ => digits(&format!("{fraction:0<6}"))?,
    };
    if fields.next().is_some() || hours > 24 || minutes > 59 || seconds > 60 {
        return None;
    }
    let micros = ((hours * 60 + minutes) * 60 + seconds) * SECOND + micros;
    (micros <= DAY * SECOND).then_some(micros)
}

/// Microseconds by which a zone is ahead of UTC: empty, `Z`, `UTC`, `GMT`, `+hh`, `-hh:mm`,
/// `+hhmm`.
fn offset(zone: &str) -> Option<i64> {
    if ["", "z", "utc", "gmt"].iter().any(|name| zone.eq_ignore_ascii_case(name)) {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let rest = zone.get(1..)?;
    let (hours, minutes) = match rest.split_once(':') {
        Some((hours, minutes)) => (digits(hours)?, digits(minutes)?),
        None if rest.len() == 4 => (digits(rest.get(..2)?)?, digits(rest.get(2..)?)?),
        None => (digits(rest)?, 0),
    };
    (hours <= 15 && minutes <= 59).then_some(sign * (hours * 60 + minutes) * 60 * SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_as_postgresql_does() {
        assert_eq!(log_time(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(log_time(951_868_799), "2000-02-29 23:59:59 UTC");
        assert_eq!(date_and_time(1_795_224_099), "2026-11-21 01:21:39");
        assert_eq!(timestamp(0), "2000-01-01 00:00:00+00");
        assert_eq!(timestamp(-1), "1999-12-31 23:59:59.999999+00");
        assert_eq!(
            timestamp((1_795_224_099 - POSTGRES_EPOCH) * SECOND + 500_000),
            "2026-11-21 01:21:39.5+00"
        );
        assert_eq!(
            (timestamp(i64::MAX), timestamp(i64::MIN)),
            ("infinity".into(), "-infinity".into())
        );
        assert_eq!(timestamp(-63_082_281_600 * SECOND), "0001-01-01 00:00:00+00");
        assert_eq!(timestamp(-63_082_281_600 * SECOND - 1), "0001-12-31 23:59:59.999999+00 BC");
        assert_eq!(timestamp(-211_813_488_000 * SECOND), "4714-11-24 00:00:00+00 BC");
        // No number is too large.
        for seconds in [i64::MAX, i64::MIN] {
            assert!(date_and_time(seconds).len() > 19);
        }
    }

    #[test]
    fn times_are_parsed_in_several_forms() {
        let at = (1_795_224_099 - POSTGRES_EPOCH) * SECOND;
        for (text, has_zone) in [
            ("2026-11-21 01:21:39", false),
            (" 2026-11-21 01:21:39+00 ", true),
            ("2026-11-21T01:21:39Z", true),
            ("2026-11-21 01:21:39 UTC", true),
            ("2026-11-21 01:21:39.000+00:00", true),
            ("2026-11-21 02:21:39+01", true),
            ("2026-11-20 20:51:39-0430", true),
            ("2026-11-21 06:51:39 +05:30", true),
        ] {
            assert_eq!(parse(text), Some(Written { micros: at, has_zone }), "{text}");
        }
        let micros = |text| parse(text).map(|written| written.micros);
        assert_eq!(micros("2026-11-21 01:21:39.000001"), Some(at + 1));
        assert_eq!(micros("2000-01-01"), Some(0));
        assert_eq!(micros("2000-01-01 00:01"), Some(60 * SECOND));
        assert_eq!(micros("2024-02-29 24:00:00"), micros("2024-03-01"));
        for bad in [
            "",
            "now",
            "yesterday",
            "2026-11-21 01",
            "2026-13-01",
            "2026-02-29",
            "2026-11-21 25:00",
            "2026-11-21 01:60",
            "2026-11-21 01:21:39 Mars/Olympus",
            "2026-11-21 01:21:39+99",
            "2026-11-21 01:21:39.0000001",
            "26-11-21 01:21:39",
            "2026-11-é1",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn formatted_times_are_parsed_back() {
        for micros in [0, 1, -1, 123_456_789_012_345, -9_999_999_999_999_999, 846_547_299_250_000] {
            assert_eq!(parse(&timestamp(micros)).map(|written| written.micros), Some(micros));
        }
        for day in (-800_000..800_000).step_by(97) {
            assert_eq!(Date::of_unix_day(day).unix_day(), Some(day));
        }
    }
}
