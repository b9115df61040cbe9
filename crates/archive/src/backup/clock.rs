//! Times as text, in UTC.

use forebay_aio::sync::{SystemTime, UNIX_EPOCH};

/// A moment taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
}

impl Parts {
    fn of(seconds: i64) -> Parts {
        let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        // Years that begin on the first of March, in eras of 400, so that the leap day is the last one.
        let from_era_zero = days + 719_468;
        let (era, day_of_era) = (from_era_zero.div_euclid(146_097), from_era_zero.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        Parts {
            year: era * 400 + year_of_era + i64::from(month <= 2),
            month,
            day: day_of_year - (153 * from_march + 2) / 5 + 1,
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
        }
    }
}

/// Seconds since 1970.
pub(super) fn seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(i64::MIN, |s| -s),
    }
}

/// "2026-11-21 01:21:39", to be followed by the name of the time zone.
pub(super) fn date_and_time(seconds: i64) -> String {
    let Parts { year, month, day, hour, minute, second } = Parts::of(seconds);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// "20261121T012139Z": sorts by time, and can be a file's name.
pub(super) fn compact(seconds: i64) -> String {
    let Parts { year, month, day, hour, minute, second } = Parts::of(seconds);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Days from 1970 to a date.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Seconds since 1970 of "2026-11-21 01:21:39.5+01": only with a zone, since only the server knows its own.
pub(super) fn parse(text: &str) -> Option<i64> {
    let text = text.trim();
    let number = |part: &str| {
        let digits = !part.is_empty() && part.len() <= 4 && part.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| part.parse::<i64>().ok()).flatten()
    };
    let (date, rest) = text.split_once([' ', 'T'])?;
    let [year, month, day] = <[&str; 3]>::try_from(date.split('-').collect::<Vec<_>>()).ok()?;
    let end = rest.find(|c: char| !(c.is_ascii_digit() || matches!(c, ':' | '.')))?;
    let (time, zone) = rest.split_at_checked(end)?;
    let mut parts = time.split('.').next()?.split(':');
    let (hour, minute) = (number(parts.next()?)?, number(parts.next()?)?);
    let second = parts.next().map_or(Some(0), number)?;
    let offset = match zone.trim_start() {
        "Z" | "z" | "UTC" | "utc" | "GMT" | "gmt" => 0,
        zone => {
            let (sign, zone) = match (zone.strip_prefix('+'), zone.strip_prefix('-')) {
                (Some(rest), _) => (1, rest),
                (_, Some(rest)) => (-1, rest),
                _ => return None,
            };
            let (hours, minutes) = zone.split_once(':').unwrap_or((zone, "0"));
            sign * (number(hours)? * 3600 + number(minutes)? * 60)
        }
    };
    let (year, month, day) = (number(year)?, number(month)?, number(day)?);
    let sane =
        (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 25 && minute < 60 && second < 61;
    sane.then(|| days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_aio::sync::Duration;

    #[test]
    fn times_as_text() {
        assert_eq!(date_and_time(0), "1970-01-01 00:00:00");
        assert_eq!(date_and_time(951_868_799), "2000-02-29 23:59:59");
        assert_eq!(compact(1_795_224_099), "20261121T012139Z");
        assert_eq!(seconds(UNIX_EPOCH + Duration::from_secs(1_795_224_099)), 1_795_224_099);
    }

    #[test]
    fn times_from_text() {
        let known = [
            "2026-11-21 01:21:39Z",
            "2026-11-21T01:21:39.75 UTC",
            "2026-11-21 02:21:39+01",
            "2026-11-20 19:51:39-05:30",
        ];
        for text in known {
            assert_eq!(parse(text), Some(1_795_224_099), "{text}");
        }
        assert_eq!(parse("2000-02-29 23:59:59+00"), Some(951_868_799));
        for text in [
            "2026-11-21 01:21:39",
            "yesterday",
            "2026-11-21",
            "",
            "2026-13-01 00:00Z",
            "2026-11-21 01:21:39 Europe/Rome",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
