//! Dates and times to text.

use crate::style::{DateFormat, DateOrder, TextStyle};

use super::calendar::{Civil, USECS_PER_SEC, civil_of, weekday};
use super::words::{MONTHS, WEEKDAYS};

/// The first letters of a name, the first of them large.
pub(crate) fn short_name(name: &str, len: usize) -> String {
    let mut chars = name.chars();
    let first = chars.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(chars).take(len).collect()
}

fn month_name(month: i64) -> String {
    short_name(MONTHS.get(month as usize - 1).copied().unwrap_or_default(), 3)
}

fn day_name(days: i64) -> String {
    short_name(WEEKDAYS.get(weekday(days) as usize).copied().unwrap_or_default(), 3)
}

/// The year as it is shown: 1 BC is year 0.
fn shown_year(year: i64) -> i64 {
    if year > 0 { year } else { 1 - year }
}

/// Seconds with their fraction; `fill`: with two digits.
pub(crate) fn seconds(second: i64, micros: i64, fill: bool) -> String {
    let (second, micros) = (second.abs(), micros.abs());
    let mut text = if fill { format!("{second:02}") } else { second.to_string() };
    if micros != 0 {
        text.push_str(format!(".{micros:06}").trim_end_matches('0'));
    }
    text
}

/// Hours, minutes and seconds.
fn clock(civil: &Civil) -> String {
    let seconds = seconds(civil.second, civil.micros, true);
    format!("{:02}:{:02}:{seconds}", civil.hour, civil.minute)
}

/// A zone's offset, in seconds east of Greenwich.
pub(crate) fn offset(east: i32, with_minutes: bool) -> String {
    let (sign, size) = (if east < 0 { '-' } else { '+' }, east.unsigned_abs());
    let (hour, minute, second) = (size / 3600, size / 60 % 60, size % 60);
    if second != 0 {
        format!("{sign}{hour:02}:{minute:02}:{second:02}")
    } else if minute != 0 || with_minutes {
        format!("{sign}{hour:02}:{minute:02}")
    } else {
        format!("{sign}{hour:02}")
    }
}

fn day_and_month(civil: &Civil, style: &TextStyle<'_>, between: char) -> String {
    let (day, month) = (civil.day, civil.month);
    match style.date_order {
        DateOrder::Dmy => format!("{day:02}{between}{month:02}"),
        _ => format!("{month:02}{between}{day:02}"),
    }
}

/// The text of a date.
pub(crate) fn date(days: i32, style: &TextStyle<'_>) -> String {
    match days {
        i32::MAX => return "infinity".to_owned(),
        i32::MIN => return "-infinity".to_owned(),
        _ => {}
    }
    let (year, month, day) = civil_of(i64::from(days));
    let civil = Civil { year, month, day, ..Civil::default() };
    let shown = shown_year(year);
    let mut text = match style.date_format {
        DateFormat::Iso | DateFormat::Xsd => format!("{shown:04}-{month:02}-{day:02}"),
        DateFormat::Sql => format!("{}/{shown:04}", day_and_month(&civil, style, '/')),
        DateFormat::German => format!("{day:02}.{month:02}.{shown:04}"),
        DateFormat::Postgres => format!("{}-{shown:04}", day_and_month(&civil, style, '-')),
    };
    if year <= 0 {
        text.push_str(" BC");
    }
    text
}

/// The text of a time.
pub(crate) fn time(micros: i64) -> String {
    clock(&Civil::of_time(micros))
}

/// The text of a timetz: the zone is in seconds west of Greenwich.
pub(crate) fn timetz(micros: i64, west: i32, style: &TextStyle<'_>) -> String {
    time(micros) + &offset(-west, style.date_format == DateFormat::Xsd)
}

/// The text of a timestamp.
pub(crate) fn timestamp(micros: i64, style: &TextStyle<'_>) -> String {
    match micros {
        i64::MAX => "infinity".to_owned(),
        i64::MIN => "-infinity".to_owned(),
        _ => moment(&Civil::of(micros), None, style),
    }
}

/// The text of a timestamptz, in the session's zone.
pub(crate) fn timestamptz(micros: i64, style: &TextStyle<'_>) -> String {
    match micros {
        i64::MAX => return "infinity".to_owned(),
        i64::MIN => return "-infinity".to_owned(),
        _ => {}
    }
    let info = style.zone.at(micros);
    let local = micros.saturating_add(i64::from(info.offset) * USECS_PER_SEC);
    moment(&Civil::of(local), Some((info.offset, &info.abbreviation)), style)
}

fn moment(civil: &Civil, zone: Option<(i32, &str)>, style: &TextStyle<'_>) -> String {
    let Civil { year, month, day, .. } = *civil;
    let (shown, time) = (shown_year(year), clock(civil));
    let named = |blank: &str| match zone {
        None => String::new(),
        Some((_, name)) if name.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            format!(" {name}")
        }
        Some((east, _)) => format!("{blank}{}", offset(east, false)),
    };
    let numbered = |minutes: bool| zone.map(|(east, _)| offset(east, minutes)).unwrap_or_default();
    let mut text = match style.date_format {
        DateFormat::Iso => format!("{shown:04}-{month:02}-{day:02} {time}{}", numbered(false)),
        DateFormat::Xsd => format!("{shown:04}-{month:02}-{day:02}T{time}{}", numbered(true)),
        DateFormat::Sql => {
            format!("{}/{shown:04} {time}{}", day_and_month(civil, style, '/'), named(""))
        }
        DateFormat::German => format!("{day:02}.{month:02}.{shown:04} {time}{}", named("")),
        DateFormat::Postgres => {
            let weekday = day_name(civil.days());
            let date = match style.date_order {
                DateOrder::Dmy => format!("{day:02} {}", month_name(month)),
                _ => format!("{} {day:02}", month_name(month)),
            };
            format!("{weekday} {date} {time} {shown:04}{}", named(" "))
        }
    };
    if year <= 0 {
        text.push_str(" BC");
    }
    text
}
