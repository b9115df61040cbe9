//! `to_char` of timestamps and intervals, and `to_timestamp` and `to_date`, by their patterns.
//!
//! Names of months and days are English. Patterns that depend on a locale (`TM`) are refused.

use std::fmt::Write;

use crate::datetime::calendar::{
    Civil, EPOCH_JULIAN, USECS_PER_SEC, civil_of, days_of, is_valid_date, is_valid_julian,
    is_valid_timestamp, month_days, weekday,
};
use crate::datetime::extract::{iso_week, iso_week_start, period};
use crate::datetime::interval::Shown;
use crate::datetime::ops::is_finite;
use crate::datetime::words::{MONTHS, WEEKDAYS};
use crate::datetime::zone::Zone;
use crate::error::{Result, ValueError};
use crate::interval::Interval;

/// Months in Roman numerals.
const ROMAN: [&str; 12] =
    ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// The patterns; of those that begin alike the longer ones come first.
#[rustfmt::skip]
const PATTERNS: &[&str] = &[
    "A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "CC", "DAY", "DDD", "DD", "DY", "Day", "Dy", "D",
    "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "HH24", "HH12", "HH", "IDDD", "ID", "IW", "IYYY",
    "IYY", "IY", "I", "J", "MI", "MM", "MONTH", "MON", "MS", "Month", "Mon", "OF", "P.M.", "PM",
    "Q", "RM", "SSSSS", "SSSS", "SS", "TZH", "TZM", "TZ", "US", "WW", "W", "Y,YYY", "YYYY",
    "YYY", "YY", "Y", "a.d.", "a.m.", "ad", "am", "b.c.", "bc", "cc", "day", "ddd", "dd", "dy",
    "d", "ff1", "ff2", "ff3", "ff4", "ff5", "ff6", "hh24", "hh12", "hh", "iddd", "id", "iw",
    "iyyy", "iyy", "iy", "i", "j", "mi", "mm", "month", "mon", "ms", "of", "p.m.", "pm", "q",
    "rm", "sssss", "ssss", "ss", "tzh", "tzm", "tz", "us", "ww", "w", "y,yyy", "yyyy", "yyy",
    "yy", "y",
];

/// A piece of a format.
#[derive(Clone, Debug, PartialEq)]
enum Piece {
    /// A pattern, with its modifiers.
    Pattern { name: &'static str, fill: bool, ordinal: Option<bool> },
    /// A character that stands for itself.
    Text(char),
}

/// Most bytes of a format: a piece takes more memory than its text.
const LONGEST: usize = 1 << 20;

/// Cuts a format into its pieces.
fn cut(format: &str) -> Result<Vec<Piece>> {
    if format.len() > LONGEST {
        return Err(ValueError::new("54000", "a format of more than 1 MB is not supported"));
    }
    let (mut pieces, mut rest) = (Vec::new(), format);
    while !rest.is_empty() {
        let mut fill = true;
        let mut tail = rest;
        loop {
            if let Some(behind) = tail.strip_prefix("FM").or_else(|| tail.strip_prefix("fm")) {
                fill = false;
                tail = behind;
            } else if tail.get(..2).is_some_and(|p| p.eq_ignore_ascii_case("TM")) {
                let message = "the pattern TM of formats is not supported";
                return Err(ValueError::new("0A000", message));
            } else {
                break;
            }
        }
        if let Some(name) = PATTERNS.iter().find(|name| tail.starts_with(**name)) {
            let mut behind = tail.get(name.len()..).unwrap_or_default();
            let mut ordinal = None;
            for (suffix, upper) in [("TH", true), ("th", false)] {
                if let Some(after) = behind.strip_prefix(suffix) {
                    ordinal = Some(upper);
                    behind = after;
                }
            }
            pieces.push(Piece::Pattern { name, fill, ordinal });
            rest = behind;
            continue;
        }
        let mut chars = tail.chars();
        match chars.next() {
            Some('"') => {
                // Text in quotation marks.
                while let Some(c) = chars.next() {
                    match c {
                        '"' => break,
                        '\\' => pieces.extend(chars.next().map(Piece::Text)),
                        c => pieces.push(Piece::Text(c)),
                    }
                }
            }
            Some('\\') if chars.as_str().starts_with('"') => {
                pieces.extend(chars.next().map(Piece::Text));
            }
            Some(c) => pieces.push(Piece::Text(c)),
            None => {}
        }
        rest = chars.as_str();
    }
    Ok(pieces)
}

/// What a format shows.
struct Moment {
    civil: Civil,
    /// Of an interval there is no date: hours may be many, days are those of the interval.
    interval: bool,
    offset: Option<(i32, String)>,
}

/// `to_char(timestamp, format)`. None of an infinite one.
pub fn timestamp_to_char(micros: i64, format: &str) -> Result<Option<String>> {
    if !is_finite(micros) || format.is_empty() {
        return Ok(None);
    }
    show(&Moment { civil: Civil::of(micros), interval: false, offset: None }, format).map(Some)
}

/// `to_char(timestamptz, format)` in a zone.
pub fn timestamptz_to_char(micros: i64, format: &str, zone: &Zone) -> Result<Option<String>> {
    if !is_finite(micros) || format.is_empty() {
        return Ok(None);
    }
    let info = zone.at(micros);
    let local = micros.saturating_add(i64::from(info.offset) * USECS_PER_SEC);
    let offset = Some((info.offset, info.abbreviation));
    show(&Moment { civil: Civil::of(local), interval: false, offset }, format).map(Some)
}

/// `to_char(interval, format)`
pub fn interval_to_char(interval: &Interval, format: &str) -> Result<Option<String>> {
    if !interval.is_finite() || format.is_empty() {
        return Ok(None);
    }
    let shown = Shown::of(interval);
    let civil = Civil {
        year: shown.years,
        month: shown.months,
        day: shown.days,
        hour: shown.hours,
        minute: shown.minutes,
        second: shown.seconds,
        micros: shown.micros,
    };
    show(&Moment { civil, interval: true, offset: None }, format).map(Some)
}

fn show(moment: &Moment, format: &str) -> Result<String> {
    let mut out = String::new();
    for piece in cut(format)? {
        match piece {
            Piece::Text(c) => out.push(c),
            Piece::Pattern { name, fill, ordinal } => {
                let start = out.len();
                show_pattern(moment, name, fill, &mut out)?;
                if let Some(upper) = ordinal {
                    let shown = out.get(start..).unwrap_or_default();
                    let suffix = ordinal_suffix(shown);
                    out.push_str(&if upper { suffix.to_ascii_uppercase() } else { suffix.into() });
                }
            }
        }
    }
    Ok(out)
}

fn ordinal_suffix(number: &str) -> &'static str {
    let digits: Vec<u8> = number.bytes().filter(u8::is_ascii_digit).collect();
    match digits.as_slice() {
        [.., b'1', _] => "th",
        [.., b'1'] => "st",
        [.., b'2'] => "nd",
        [.., b'3'] => "rd",
        _ => "th",
    }
}

/// Appends a number with zeros before it, a minus before them.
fn number(value: i64, width: usize, fill: bool, out: &mut String) {
    let width = match (fill, value < 0) {
        (false, _) => 0,
        (true, true) => width + 1,
        (true, false) => width,
    };
    write!(out, "{value:0width$}").expect("a string takes any text");
}

/// Appends a name in the case of its pattern, with blanks behind it.
fn name(name: &str, pattern: &str, width: usize, out: &mut String) {
    let upper = pattern.chars().nth(1).is_some_and(|c| c.is_ascii_uppercase());
    let first = pattern.starts_with(|c: char| c.is_ascii_uppercase());
    let cased = |(n, c): (usize, char)| {
        if upper || n == 0 && first { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
    };
    let text: String = name.chars().enumerate().map(cased).collect();
    write!(out, "{text:width$}").expect("a string takes any text");
}

/// The error of a pattern that an interval has nothing for.
fn no_date() -> ValueError {
    ValueError::new("22007", "invalid format specification for an interval value")
        .with_hint("Intervals are not tied to specific calendar dates.")
}

fn show_pattern(moment: &Moment, pattern: &str, fill: bool, out: &mut String) -> Result<()> {
    let civil = &moment.civil;
    let upper = pattern.to_ascii_uppercase();
    let hour = civil.hour;
    match upper.as_str() {
        "AM" | "PM" | "A.M." | "P.M." => {
            let dots = pattern.len() == 4;
            let half = match (hour % 24 >= 12, dots) {
                (false, false) => "AM",
                (true, false) => "PM",
                (false, true) => "A.M.",
                (true, true) => "P.M.",
            };
            let lower = pattern.starts_with(|c: char| c.is_ascii_lowercase());
            out.push_str(&if lower { half.to_ascii_lowercase() } else { half.to_owned() });
        }
        "HH" | "HH12" => {
            // Twelve stands for zero.
            let twelve = if hour % 12 == 0 { 12 } else { hour % 12 };
            number(twelve, 2, fill, out);
        }
        "HH24" => number(hour, 2, fill, out),
        "MI" => number(civil.minute, 2, fill, out),
        "SS" => number(civil.second, 2, fill, out),
        "MS" | "FF3" => number(civil.micros / 1000, 3, true, out),
        "US" | "FF6" => number(civil.micros, 6, true, out),
        "FF1" => number(civil.micros / 100_000, 1, true, out),
        "FF2" => number(civil.micros / 10_000, 2, true, out),
        "FF4" => number(civil.micros / 100, 4, true, out),
        "FF5" => number(civil.micros / 10, 5, true, out),
        "SSSS" | "SSSSS" => number((hour * 60 + civil.minute) * 60 + civil.second, 0, false, out),
        "TZ" | "TZH" | "TZM" | "OF" => show_zone(moment, &upper, pattern, out)?,
        _ => return show_date(moment, &upper, pattern, fill, out),
    }
    Ok(())
}

fn show_zone(moment: &Moment, upper: &str, pattern: &str, out: &mut String) -> Result<()> {
    if moment.interval {
        return Err(no_date());
    }
    let (east, abbreviation) = moment.offset.clone().unwrap_or_default();
    let (sign, size) = (if east < 0 { '-' } else { '+' }, east.unsigned_abs());
    match upper {
        "TZ" if pattern.starts_with('t') => out.push_str(&abbreviation.to_ascii_lowercase()),
        "TZ" => out.push_str(&abbreviation),
        "TZH" => out.push_str(&format!("{sign}{:02}", size / 3600)),
        "TZM" => out.push_str(&format!("{:02}", size / 60 % 60)),
        _ => {
            out.push_str(&format!("{sign}{:02}", size / 3600));
            if size / 60 % 60 != 0 {
                out.push_str(&format!(":{:02}", size / 60 % 60));
            }
        }
    }
    Ok(())
}

fn show_date(
    moment: &Moment,
    upper: &str,
    pattern: &str,
    fill: bool,
    out: &mut String,
) -> Result<()> {
    let civil = &moment.civil;
    let interval = moment.interval;
    // Years before Christ are counted from 1.
    let counted = |year: i64| if year > 0 || interval { year } else { 1 - year };
    let year_of = |year: i64, size: i64, digits: usize, out: &mut String| {
        number(counted(year) % size, digits, fill, out);
    };
    match upper {
        "Y,YYY" => {
            let year = counted(civil.year);
            out.push_str(&format!("{},{:03}", year / 1000, year % 1000));
            return Ok(());
        }
        "YYYY" => number(counted(civil.year), 4, fill, out),
        "YYY" => year_of(civil.year, 1000, 3, out),
        "YY" => year_of(civil.year, 100, 2, out),
        "Y" => year_of(civil.year, 10, 1, out),
        // A minus takes one of the two places.
        "MM" => number(civil.month, 2 - usize::from(civil.month < 0), fill, out),
        "DD" => number(civil.day, 2 - usize::from(civil.day < 0), fill, out),
        "CC" if interval => number(civil.year / 100, 2, fill, out),
        "CC" => number(period(civil.year, 100), 2, fill && civil.year.abs() < 9901, out),
        "Q" if civil.month == 0 => {}
        "Q" => number((civil.month - 1) / 3 + 1, 0, false, out),
        "RM" => {
            let month = civil.month.rem_euclid(12);
            if interval && civil.month == 0 && civil.year == 0 {
                return Ok(());
            }
            let roman = ROMAN.get((month + 11) as usize % 12).copied().unwrap_or_default();
            let roman = if pattern == "rm" { roman.to_ascii_lowercase() } else { roman.to_owned() };
            out.push_str(&if fill { format!("{roman:4}") } else { roman });
        }
        _ if interval => return Err(no_date()),
        "BC" | "AD" | "B.C." | "A.D." => {
            let text = match (civil.year <= 0, pattern.len() == 4) {
                (true, false) => "BC",
                (true, true) => "B.C.",
                (false, false) => "AD",
                (false, true) => "A.D.",
            };
            let lower = pattern.starts_with(|c: char| c.is_ascii_lowercase());
            out.push_str(&if lower { text.to_ascii_lowercase() } else { text.to_owned() });
        }
        "MONTH" | "MON" | "DAY" | "DY" => show_name(civil, upper, pattern, fill, out),
        _ => show_count(civil, upper, fill, out),
    }
    Ok(())
}

fn show_name(civil: &Civil, upper: &str, pattern: &str, fill: bool, out: &mut String) {
    let names: &[&str] = if upper.starts_with('M') { &MONTHS } else { &WEEKDAYS };
    let at = if upper.starts_with('M') { civil.month - 1 } else { weekday(civil.days()) };
    let full = names.get(at as usize).copied().unwrap_or_default();
    let short = matches!(upper, "MON" | "DY");
    let shown = if short { full.get(..3).unwrap_or(full) } else { full };
    name(shown, pattern, if fill && !short { 9 } else { 0 }, out);
}

fn show_count(civil: &Civil, upper: &str, fill: bool, out: &mut String) {
    let days = civil.days();
    let (iso_year, week) = iso_week(days);
    let day_of_year = days - days_of(civil.year, 1, 1) + 1;
    let counted = if iso_year > 0 { iso_year } else { 1 - iso_year };
    match upper {
        "DDD" => number(day_of_year, 3, fill, out),
        "D" => number(weekday(days) + 1, 0, false, out),
        "ID" => number((weekday(days) + 6) % 7 + 1, 0, false, out),
        "IDDD" => number(days - iso_week_start(iso_year, 1) + 1, 3, fill, out),
        "W" => number((civil.day - 1) / 7 + 1, 0, false, out),
        "WW" => number((day_of_year - 1) / 7 + 1, 2, fill, out),
        "IW" => number(week, 2, fill, out),
        "IYYY" => number(counted, 4, fill, out),
        "IYY" => number(counted % 1000, 3, fill, out),
        "IY" => number(counted % 100, 2, fill, out),
        "I" => number(counted % 10, 1, fill, out),
        _ => number(days + EPOCH_JULIAN, 0, false, out),
    }
}

/// What a text has been found to say.
#[derive(Default)]
struct Read {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    julian: Option<i64>,
    hour: Option<i64>,
    twelve: bool,
    afternoon: Option<bool>,
    minute: i64,
    second: i64,
    micros: i64,
    seconds: Option<i64>,
    before_christ: bool,
    zone_hours: Option<i64>,
    zone_minutes: i64,
}

/// `to_timestamp(text, format)` in a zone. Patterns of weeks, quarters and centuries, names of
/// zones and Roman months are refused.
pub fn to_timestamp(text: &str, format: &str, zone: &Zone) -> Result<i64> {
    let read = read(text, format)?;
    let local = read.timestamp(text)?;
    let east = match read.zone_hours {
        Some(hours) => {
            let sign = if hours < 0 { -1 } else { 1 };
            (hours * 60 + sign * read.zone_minutes) * 60
        }
        None => i64::from(zone.offset_of_local(local)),
    };
    let micros = local.checked_sub(east * USECS_PER_SEC).filter(|t| is_valid_timestamp(*t));
    micros.ok_or_else(|| ValueError::new("22008", "timestamp out of range"))
}

/// `to_date(text, format)`
pub fn to_date(text: &str, format: &str) -> Result<i32> {
    let read = read(text, format)?;
    let civil = read.civil(text)?;
    read.time(text)?;
    let days = civil.days();
    if !is_valid_julian(civil.year, civil.month) || !is_valid_date(days) {
        return Err(ValueError::new("22008", format!("date out of range: \"{text}\"")));
    }
    Ok(days as i32)
}

/// Digits that a pattern takes, where a number follows at once.
fn digits_of(pattern: &str) -> Option<usize> {
    Some(match pattern {
        "YYYY" | "SSSS" => 4,
        "YYY" | "DDD" | "MS" => 3,
        "YY" | "MM" | "DD" | "HH" | "HH12" | "HH24" | "MI" | "SS" | "TZM" | "TZH" => 2,
        "Y" => 1,
        "US" => 6,
        "SSSSS" => 5,
        "J" => 7,
        _ => return None,
    })
}

fn bad_value(text: &str, pattern: &str, detail: &str) -> ValueError {
    let message = format!("invalid value \"{text}\" for \"{pattern}\"");
    ValueError::new("22007", message).with_detail(detail.to_owned())
}

fn read(text: &str, format: &str) -> Result<Read> {
    let (mut found, mut rest) = (Read::default(), text);
    let pieces = cut(format)?;
    for (n, piece) in pieces.iter().enumerate() {
        let Piece::Pattern { name, fill, .. } = piece else {
            let Piece::Text(wanted) = piece else { continue };
            rest = skip_text(*wanted, rest);
            continue;
        };
        rest = rest.trim_start();
        if rest.is_empty() {
            break;
        }
        let next_is_number = matches!(
            pieces.get(n + 1),
            Some(Piece::Pattern { name, .. })
                if digits_of(&name.to_ascii_uppercase()).is_some()
        );
        rest = found.take(name, *fill, next_is_number, rest)?;
    }
    Ok(found)
}

/// A character of the format: a blank or punctuation lets any of them be skipped.
fn skip_text(wanted: char, text: &str) -> &str {
    if wanted.is_ascii_alphanumeric() {
        let mut chars = text.chars();
        chars.next();
        return chars.as_str();
    }
    let trimmed = text.trim_start();
    if wanted.is_ascii_whitespace() && trimmed.len() < text.len() {
        return trimmed;
    }
    let is_mark = |c: char| c.is_ascii_punctuation() && !matches!(c, '+' | '-') || c == wanted;
    match trimmed.chars().next() {
        Some(c) if is_mark(c) => trimmed.get(c.len_utf8()..).unwrap_or_default(),
        _ => trimmed,
    }
}

impl Read {
    /// Reads what a pattern stands for; what follows it.
    fn take<'t>(
        &mut self,
        pattern: &str,
        fill: bool,
        next_is_number: bool,
        text: &'t str,
    ) -> Result<&'t str> {
        let upper = pattern.to_ascii_uppercase();
        if let Some(width) = digits_of(&upper) {
            return self.take_number(&upper, pattern, (width, fill && next_is_number), text);
        }
        let begins = |word: &str| {
            text.get(..word.len())
                .filter(|t| t.eq_ignore_ascii_case(word))
                .map(|_| text.get(word.len()..).unwrap_or_default())
        };
        let not_allowed = || {
            let shown: String = text.chars().take(pattern.len().max(3)).collect();
            let detail = "The given value did not match any of the allowed values for this field.";
            bad_value(&shown, pattern, detail)
        };
        let choose = |words: &[&str]| {
            let found = words.iter().enumerate().find_map(|(n, word)| Some((n, begins(word)?)));
            found.ok_or_else(not_allowed)
        };
        match upper.as_str() {
            "MONTH" | "MON" => {
                let short = MONTHS.map(|m| m.get(..3).unwrap_or(m));
                let (n, rest) = choose(if upper == "MON" { &short } else { &MONTHS })?;
                self.month = Some(n as i64 + 1);
                Ok(rest)
            }
            "DAY" | "DY" => {
                let short = WEEKDAYS.map(|d| d.get(..3).unwrap_or(d));
                Ok(choose(if upper == "DY" { &short } else { &WEEKDAYS })?.1)
            }
            "AM" | "PM" | "A.M." | "P.M." => {
                let dots = upper.len() == 4;
                let (n, rest) = choose(if dots { &["a.m.", "p.m."] } else { &["am", "pm"] })?;
                self.afternoon = Some(n == 1);
                self.twelve = true;
                Ok(rest)
            }
            "BC" | "AD" | "B.C." | "A.D." => {
                let dots = upper.len() == 4;
                let (n, rest) = choose(if dots { &["a.d.", "b.c."] } else { &["ad", "bc"] })?;
                self.before_christ = n == 1;
                Ok(rest)
            }
            _ => {
                let message = format!("the pattern {upper} is not supported for input");
                Err(ValueError::new("0A000", message))
            }
        }
    }

    fn take_number<'t>(
        &mut self,
        upper: &str,
        pattern: &str,
        (width, exact): (usize, bool),
        text: &'t str,
    ) -> Result<&'t str> {
        let sign = text.strip_prefix(['+', '-']).map_or(0, |_| 1);
        let digits = text.get(sign..).unwrap_or_default();
        let len = digits.bytes().take_while(u8::is_ascii_digit).count();
        // A fraction never has more digits than its pattern counts, a number only where another
        // one follows.
        let len = if exact || matches!(upper, "US" | "MS") { len.min(width) } else { len };
        if len == 0 {
            let shown: String = text.chars().take(width).collect();
            return Err(bad_value(&shown, pattern, "Value must be an integer."));
        }
        let shown = text.get(..sign + len).unwrap_or_default();
        let value: i64 = shown.parse::<i32>().map(i64::from).map_err(|_| {
            let message = format!("value for \"{pattern}\" in source string is out of range");
            let error = ValueError::new("22008", message);
            let (least, most) = (i32::MIN, i32::MAX);
            error.with_detail(format!("Value must be in the range {least} to {most}."))
        })?;
        let scaled = |digits: u32| value * 10_i64.pow(digits.saturating_sub(len as u32));
        match upper {
            "YYYY" => self.year = Some(value),
            // Years without a century are those next to 2020.
            "YYY" | "YY" | "Y" => {
                let value = match len {
                    4.. => value,
                    _ if value < 70 => value + 2000,
                    _ if value < 100 => value + 1900,
                    _ if value < 520 => value + 2000,
                    _ => value + 1000,
                };
                self.year = Some(value);
            }
            "MM" => self.month = Some(value),
            "DD" => self.day = Some(value),
            "DDD" => self.day_of_year = Some(value),
            "J" => self.julian = Some(value),
            "HH24" => self.hour = Some(value),
            "HH" | "HH12" => {
                self.hour = Some(value);
                self.twelve = true;
            }
            "MI" => self.minute = value,
            "SS" => self.second = value,
            "MS" => self.micros = scaled(3) * 1000,
            "US" => self.micros = scaled(6),
            "TZH" => self.zone_hours = Some(value),
            "TZM" => self.zone_minutes = value,
            _ => self.seconds = Some(value),
        }
        Ok(digits.get(len..).unwrap_or_default())
    }

    fn out_of_range(text: &str) -> ValueError {
        ValueError::new("22008", format!("date/time field value out of range: \"{text}\""))
    }

    /// The date, with the first of January of 1 BC for what is missing.
    fn civil(&self, text: &str) -> Result<Civil> {
        let mut civil = Civil { month: 1, day: 1, ..Civil::default() };
        if let Some(julian) = self.julian {
            (civil.year, civil.month, civil.day) = civil_of(julian - EPOCH_JULIAN);
            return Ok(civil);
        }
        civil.year = match (self.year.unwrap_or(0), self.before_christ) {
            (year, true) if year > 0 => 1 - year,
            (year, _) if year < 0 => year + 1,
            (year, _) => year,
        };
        if let Some(day) = self.day_of_year {
            if !(1..=365 + i64::from(month_days(civil.year, 2) == 29)).contains(&day) {
                return Err(Read::out_of_range(text));
            }
            let days = days_of(civil.year, 1, 1) + day - 1;
            (civil.year, civil.month, civil.day) = civil_of(days);
        }
        civil.month = self.month.unwrap_or(civil.month);
        civil.day = self.day.unwrap_or(civil.day);
        let fits = (1..=12).contains(&civil.month)
            && (1..=month_days(civil.year, civil.month)).contains(&civil.day);
        if fits { Ok(civil) } else { Err(Read::out_of_range(text)) }
    }

    fn timestamp(&self, text: &str) -> Result<i64> {
        let Civil { year, month, day, .. } = self.civil(text)?;
        let civil = Civil { year, month, day, ..self.time(text)? };
        civil.timestamp().ok_or_else(|| ValueError::new("22008", "timestamp out of range"))
    }

    fn time(&self, text: &str) -> Result<Civil> {
        let mut civil = Civil::default();
        let mut hour = self.hour.unwrap_or(0);
        if self.twelve && self.hour.is_some() {
            if !(1..=12).contains(&hour) {
                let message = format!("hour \"{hour}\" is invalid for the 12-hour clock");
                let error = ValueError::new("22007", message);
                let hint = "Use the 24-hour clock, or give an hour between 1 and 12.";
                return Err(error.with_hint(hint));
            }
            match self.afternoon {
                Some(true) if hour < 12 => hour += 12,
                Some(false) if hour == 12 => hour = 0,
                _ => {}
            }
        }
        (civil.hour, civil.minute, civil.second) = (hour, self.minute, self.second);
        if let Some(seconds) = self.seconds {
            (civil.hour, civil.minute, civil.second) =
                (seconds / 3600, seconds / 60 % 60, seconds % 60);
        }
        civil.micros = self.micros;
        let fits = (0..24).contains(&civil.hour)
            && (0..60).contains(&civil.minute)
            && (0..60).contains(&civil.second);
        if fits { Ok(civil) } else { Err(Read::out_of_range(text)) }
    }
}
