//! Intervals in text: units, SQL's and ISO 8601's forms, both ways.

use crate::error::Result;
use crate::interval::Interval;
use crate::style::{IntervalStyle, TextStyle};

use super::calendar::{
    USECS_PER_DAY, USECS_PER_HOUR, USECS_PER_MINUTE, USECS_PER_SEC, interval_out_of_range,
};
use super::fields::{Field, Kind, cut};
use super::numbers::{Fault, fraction, leading, leading_wide, time};
use super::show::seconds;
use super::typmod::IntervalFields;
use super::words::{Unit, Word, date_word, unit_word};

/// Bytes that the fields of an interval may have, with a byte behind each.
const MAX_BYTES: usize = 256;

/// Reads an interval. `fields`: those of its type modifier.
pub(crate) fn interval_in(
    text: &str,
    fields: IntervalFields,
    style: &TextStyle<'_>,
) -> Result<Interval> {
    let mut read =
        cut(text, MAX_BYTES).and_then(|cut| Parts::default().decode(&cut, fields, style));
    if read == Err(Fault::Format) {
        read = Parts::default().decode_iso(text);
    }
    let parts = read.map_err(|fault| match fault {
        Fault::Range => Fault::Interval.error(text, "interval"),
        fault => fault.error(text, "interval"),
    })?;
    if let Some(infinite) = parts.infinite {
        return Ok(infinite);
    }
    parts.interval().ok_or_else(interval_out_of_range)
}

/// What has been read of an interval.
#[derive(Clone, Debug, Default, PartialEq)]
struct Parts {
    years: i64,
    months: i64,
    days: i64,
    micros: i64,
    infinite: Option<Interval>,
}

type Read<T> = std::result::Result<T, Fault>;

/// A double to a whole number of 32 bits and what is left of it.
fn split(value: f64) -> (i64, f64) {
    let whole = value.trunc();
    (whole as i64, value - whole)
}

fn add(to: &mut i64, value: i64, scale: i64) -> Read<()> {
    let value = value.checked_mul(scale).ok_or(Fault::Range)?;
    let sum = to.checked_add(value).filter(|sum| i32::try_from(*sum).is_ok());
    *to = sum.ok_or(Fault::Range)?;
    Ok(())
}

impl Parts {
    fn interval(&self) -> Option<Interval> {
        let months = self.years.checked_mul(12)?.checked_add(self.months)?;
        let days = i32::try_from(self.days).ok()?;
        let interval = Interval { micros: self.micros, days, months: i32::try_from(months).ok()? };
        interval.is_finite().then_some(interval)
    }

    fn micros(&mut self, value: i64, rest: f64, scale: i64) -> Read<()> {
        let value = value.checked_mul(scale).ok_or(Fault::Range)?;
        self.micros = self.micros.checked_add(value).ok_or(Fault::Range)?;
        self.part_of_micros(rest, scale)
    }

    fn part_of_micros(&mut self, rest: f64, scale: i64) -> Read<()> {
        let (mut micros, rest) = split(rest * scale as f64);
        if rest > 0.5 {
            micros += 1;
        } else if rest < -0.5 {
            micros -= 1;
        }
        self.micros = self.micros.checked_add(micros).ok_or(Fault::Range)?;
        Ok(())
    }

    fn part_of_days(&mut self, rest: f64, scale: i64) -> Read<()> {
        let (days, rest) = split(rest * scale as f64);
        add(&mut self.days, days, 1)?;
        self.part_of_micros(rest, USECS_PER_DAY)
    }

    fn part_of_years(&mut self, rest: f64, scale: i64) -> Read<()> {
        let months = (rest * scale as f64 * 12.0).round_ties_even();
        add(&mut self.months, months as i64, 1)
    }

    /// Adds so much of a unit.
    fn unit(&mut self, unit: Unit, value: i64, rest: f64) -> Read<()> {
        match unit {
            Unit::Microsecond => self.micros(value, rest, 1),
            Unit::Millisecond => self.micros(value, rest, 1000),
            Unit::Second => self.micros(value, rest, USECS_PER_SEC),
            Unit::Minute => self.micros(value, rest, USECS_PER_MINUTE),
            Unit::Hour => self.micros(value, rest, USECS_PER_HOUR),
            Unit::Day => {
                add(&mut self.days, value, 1)?;
                self.part_of_micros(rest, USECS_PER_DAY)
            }
            Unit::Week => {
                add(&mut self.days, value, 7)?;
                self.part_of_days(rest, 7)
            }
            Unit::Month => {
                add(&mut self.months, value, 1)?;
                self.part_of_days(rest, 30)
            }
            Unit::Year | Unit::Decade | Unit::Century | Unit::Millennium => {
                let scale = match unit {
                    Unit::Year => 1,
                    Unit::Decade => 10,
                    Unit::Century => 100,
                    _ => 1000,
                };
                add(&mut self.years, value, scale)?;
                self.part_of_years(rest, scale)
            }
            _ => Err(Fault::Format),
        }
    }

    /// The units of numbers stand behind them, so the fields are read from the last one.
    fn decode(
        mut self,
        fields: &[Field],
        wanted: IntervalFields,
        style: &TextStyle<'_>,
    ) -> Read<Parts> {
        let signed = |field: &Field| field.text.starts_with(['-', '+']);
        let all_negative = style.interval == IntervalStyle::SqlStandard
            && fields.first().is_some_and(|field| field.text.starts_with('-'))
            && !fields.iter().skip(1).any(signed);
        let mut reading =
            Reading { unit: None, waiting: false, found: 0, all_negative, wanted, ago: false };
        for (n, field) in fields.iter().enumerate().rev() {
            let last = n + 1 == fields.len();
            let found = match field.kind {
                Kind::Word | Kind::Special => self.word(&field.text, last, &mut reading)?,
                Kind::Time => self.clock(&field.text, false, &mut reading)?,
                Kind::Zone if field.text.contains(':') => {
                    let negative = field.text.starts_with('-');
                    match self.clock(field.text.get(1..).unwrap_or(""), negative, &mut reading) {
                        Ok(found) => found,
                        Err(_) => self.number(&field.text, &mut reading)?,
                    }
                }
                Kind::Zone | Kind::Date | Kind::Number => self.number(&field.text, &mut reading)?,
            };
            if reading.found & found != 0 {
                return Err(Fault::Format);
            }
            reading.found |= found;
        }
        if reading.found == 0 || reading.waiting {
            return Err(Fault::Format);
        }
        if reading.ago {
            self.micros = self.micros.checked_neg().ok_or(Fault::Range)?;
            (self.years, self.months, self.days) = (-self.years, -self.months, -self.days);
        }
        Ok(self)
    }

    fn word(&mut self, text: &str, last: bool, reading: &mut Reading) -> Read<u32> {
        if reading.waiting {
            return Err(Fault::Format);
        }
        if let Some(unit) = unit_word(text) {
            reading.unit = Some(unit);
            reading.waiting = true;
            return Ok(0);
        }
        match (text, date_word(text)) {
            ("ago", _) if last => reading.ago = true,
            (_, Some(Word::Infinity)) if last => self.infinite = Some(Interval::INFINITY),
            (_, Some(Word::NegInfinity)) if last => self.infinite = Some(Interval::NEG_INFINITY),
            (_, Some(Word::Ignored)) => return Ok(0),
            (_, Some(Word::Unit(unit))) => {
                reading.unit = Some(unit);
                reading.waiting = true;
                return Ok(0);
            }
            _ => return Err(Fault::Format),
        }
        Ok(if self.infinite.is_some() { ALL } else { 0 })
    }

    fn clock(&mut self, text: &str, negative: bool, reading: &mut Reading) -> Read<u32> {
        let civil = time(text, reading.wanted.is_minute_to_second())?;
        let hours = civil.hour.checked_mul(USECS_PER_HOUR).ok_or(Fault::Range)?;
        let rest = civil.minute * USECS_PER_MINUTE + civil.second * USECS_PER_SEC + civil.micros;
        let micros = hours.checked_add(rest).ok_or(Fault::Range)?;
        self.micros = if negative || reading.all_negative { -micros } else { micros };
        reading.unit = Some(Unit::Day);
        reading.waiting = false;
        Ok(bit(Unit::Hour) | bit(Unit::Minute) | SECONDS)
    }

    fn number(&mut self, text: &str, reading: &mut Reading) -> Read<u32> {
        let mut unit = reading.unit.unwrap_or_else(|| reading.wanted.last_unit());
        let (mut value, rest) = leading_wide(text)?;
        let negative = text.starts_with('-');
        let mut part = 0.0;
        if let Some(months) = rest.strip_prefix('-') {
            // Years and months, as SQL has them.
            let (months, rest) = leading(months)?;
            if !(0..12).contains(&months) {
                return Err(Fault::Range);
            }
            if !rest.is_empty() {
                return Err(Fault::Format);
            }
            unit = Unit::Month;
            let months = if negative { -months } else { months };
            value =
                value.checked_mul(12).and_then(|v| v.checked_add(months)).ok_or(Fault::Range)?;
        } else if rest.starts_with('.') {
            part = fraction(rest)? * if negative { -1.0 } else { 1.0 };
        } else if !rest.is_empty() {
            return Err(Fault::Format);
        }
        if reading.all_negative {
            value = -value.abs();
            part = -part.abs();
        }
        self.unit(unit, value, part)?;
        reading.unit = Some(unit);
        reading.waiting = false;
        Ok(match unit {
            Unit::Second if part != 0.0 => SECONDS,
            unit => bit(unit),
        })
    }

    /// ISO 8601's forms: with designators (`P1Y2DT3H`), and the alternative ones.
    fn decode_iso(mut self, text: &str) -> Read<Parts> {
        let mut rest = text.strip_prefix('P').ok_or(Fault::Format)?;
        if rest.is_empty() {
            return Err(Fault::Format);
        }
        let (mut in_date, mut seen) = (true, false);
        while !rest.is_empty() {
            if let Some(behind) = rest.strip_prefix('T') {
                (in_date, seen, rest) = (false, false, behind);
                continue;
            }
            let width = rest.strip_prefix('-').unwrap_or(rest);
            let width = width.bytes().take_while(u8::is_ascii_digit).count();
            let (value, part, behind) = iso_number(rest)?;
            let designator = behind.chars().next();
            let tail = behind.get(designator.map_or(0, char::len_utf8)..).unwrap_or_default();
            let unit = match (designator, in_date) {
                (Some('Y'), true) => Unit::Year,
                (Some('M'), true) => Unit::Month,
                (Some('W'), true) => Unit::Week,
                (Some('D'), true) => Unit::Day,
                (Some('H'), false) => Unit::Hour,
                (Some('M'), false) => Unit::Minute,
                (Some('S'), false) => Unit::Second,
                (None | Some('T'), true) if width == 8 && !seen => {
                    self.unit(Unit::Year, value / 10_000, 0.0)?;
                    self.unit(Unit::Month, value / 100 % 100, 0.0)?;
                    self.unit(Unit::Day, value % 100, part)?;
                    rest = behind;
                    continue;
                }
                (None, false) if width == 6 && !seen => {
                    self.unit(Unit::Hour, value / 10_000, 0.0)?;
                    self.unit(Unit::Minute, value / 100 % 100, 0.0)?;
                    self.unit(Unit::Second, value % 100, 0.0)?;
                    self.part_of_micros(part, 1)?;
                    return Ok(self);
                }
                (None | Some('T' | '-'), true) | (None | Some(':'), false) if !seen => {
                    rest = self.iso_extended(rest, in_date)?;
                    continue;
                }
                _ => return Err(Fault::Format),
            };
            self.unit(unit, value, part)?;
            (seen, rest) = (true, tail);
        }
        Ok(self)
    }

    /// `2006-01-02` or `03:04:05`, of which the last parts may be missing.
    fn iso_extended<'t>(&mut self, text: &'t str, in_date: bool) -> Read<&'t str> {
        let (units, between) = if in_date {
            ([Unit::Year, Unit::Month, Unit::Day], '-')
        } else {
            ([Unit::Hour, Unit::Minute, Unit::Second], ':')
        };
        let mut rest = text;
        for (n, unit) in units.into_iter().enumerate() {
            let (value, part, behind) = iso_number(rest)?;
            self.unit(unit, value, part)?;
            if behind.is_empty() || in_date && behind.starts_with('T') {
                return Ok(behind);
            }
            if n < 2 {
                rest = behind.strip_prefix(between).ok_or(Fault::Format)?;
            }
        }
        Err(Fault::Format)
    }
}

/// A number with its fraction, and what follows.
fn iso_number(text: &str) -> Read<(i64, f64, &str)> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Err(Fault::Format);
    }
    let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = unsigned.split_at(digits);
    let value = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| Fault::Range)? };
    let (mut part, mut behind) = (0.0, rest);
    if let Some(point) = rest.strip_prefix('.') {
        let digits = point.bytes().take_while(u8::is_ascii_digit).count();
        let (text, after) = rest.split_at(digits + 1);
        part = fraction(text)?;
        behind = after;
    }
    let sign = if unsigned.len() < text.len() { -1 } else { 1 };
    Ok((value * sign, part * sign as f64, behind))
}

/// What is known while the fields are read.
struct Reading {
    unit: Option<Unit>,
    /// A unit waits for its number.
    waiting: bool,
    found: u32,
    /// The sign of the first field is that of all.
    all_negative: bool,
    wanted: IntervalFields,
    ago: bool,
}

const ALL: u32 = u32::MAX;
/// Seconds and their parts.
const SECONDS: u32 = 0b111;

fn bit(unit: Unit) -> u32 {
    match unit {
        Unit::Second => 1,
        Unit::Millisecond => 1 << 1,
        Unit::Microsecond => 1 << 2,
        other => 1 << (other as u32 + 3),
    }
}

/// The fields that an interval is shown by; all have its sign.
#[derive(Clone, Copy)]
pub(crate) struct Shown {
    pub(crate) years: i64,
    pub(crate) months: i64,
    pub(crate) days: i64,
    pub(crate) hours: i64,
    pub(crate) minutes: i64,
    pub(crate) seconds: i64,
    pub(crate) micros: i64,
}

impl Shown {
    pub(crate) fn of(interval: &Interval) -> Shown {
        let micros = interval.micros;
        Shown {
            years: i64::from(interval.months / 12),
            months: i64::from(interval.months % 12),
            days: i64::from(interval.days),
            hours: micros / USECS_PER_HOUR,
            minutes: micros / USECS_PER_MINUTE % 60,
            seconds: micros / USECS_PER_SEC % 60,
            micros: micros % USECS_PER_SEC,
        }
    }

    fn has_time(&self) -> bool {
        self.hours != 0 || self.minutes != 0 || self.seconds != 0 || self.micros != 0
    }

    fn time_is_negative(&self) -> bool {
        self.hours < 0 || self.minutes < 0 || self.seconds < 0 || self.micros < 0
    }

    fn clock(&self, width: usize) -> String {
        let seconds = seconds(self.seconds, self.micros, true);
        format!("{:0width$}:{:02}:{seconds}", self.hours.abs(), self.minutes.abs())
    }
}

/// The text of an interval.
pub(crate) fn show(interval: &Interval, style: IntervalStyle) -> String {
    if *interval == Interval::INFINITY {
        return "infinity".to_owned();
    }
    if *interval == Interval::NEG_INFINITY {
        return "-infinity".to_owned();
    }
    let shown = Shown::of(interval);
    match style {
        IntervalStyle::Postgres => show_postgres(shown),
        IntervalStyle::PostgresVerbose => show_verbose(shown),
        IntervalStyle::SqlStandard => show_sql(shown),
        IntervalStyle::Iso8601 => show_iso(shown),
    }
}

fn show_postgres(shown: Shown) -> String {
    let (mut text, mut negative) = (String::new(), false);
    for (value, unit) in [(shown.years, "year"), (shown.months, "mon"), (shown.days, "day")] {
        if value == 0 {
            continue;
        }
        let blank = if text.is_empty() { "" } else { " " };
        let plus = if negative && value > 0 { "+" } else { "" };
        let plural = if value == 1 { "" } else { "s" };
        text.push_str(&format!("{blank}{plus}{value} {unit}{plural}"));
        negative = value < 0;
    }
    if text.is_empty() || shown.has_time() {
        let blank = if text.is_empty() { "" } else { " " };
        let sign = match (shown.time_is_negative(), negative) {
            (true, _) => "-",
            (false, true) => "+",
            (false, false) => "",
        };
        text.push_str(&format!("{blank}{sign}{}", shown.clock(2)));
    }
    text
}

fn show_verbose(shown: Shown) -> String {
    let (mut text, mut zero, mut before) = ("@".to_owned(), true, false);
    let units = [
        (shown.years, "year"),
        (shown.months, "mon"),
        (shown.days, "day"),
        (shown.hours, "hour"),
        (shown.minutes, "min"),
    ];
    for (value, unit) in units {
        if value == 0 {
            continue;
        }
        let value = if zero {
            before = value < 0;
            value.abs()
        } else if before {
            -value
        } else {
            value
        };
        zero = false;
        let plural = if value == 1 { "" } else { "s" };
        text.push_str(&format!(" {value} {unit}{plural}"));
    }
    if shown.seconds != 0 || shown.micros != 0 {
        let negative = shown.seconds < 0 || shown.seconds == 0 && shown.micros < 0;
        text.push(' ');
        if negative && zero {
            before = true;
        } else if negative != before {
            text.push('-');
        }
        let plural = if shown.seconds.abs() != 1 || shown.micros != 0 { "s" } else { "" };
        let number = seconds(shown.seconds, shown.micros, false);
        text.push_str(&format!("{number} sec{plural}"));
        zero = false;
    }
    if zero {
        text.push_str(" 0");
    }
    if before {
        text.push_str(" ago");
    }
    text
}

fn show_sql(shown: Shown) -> String {
    let Shown { years, months, days, hours, minutes, .. } = shown;
    let all = [years, months, days, hours, minutes, shown.seconds, shown.micros];
    let negative = all.iter().any(|value| *value < 0);
    let positive = all.iter().any(|value| *value > 0);
    let has_months = years != 0 || months != 0;
    let has_days = days != 0 || shown.has_time();
    if !negative && !positive {
        return "0".to_owned();
    }
    if negative && positive || has_months && has_days {
        // Each part with a sign of its own.
        let sign = |negative: bool| if negative { '-' } else { '+' };
        let (of_months, of_days) = (sign(years < 0 || months < 0), sign(days < 0));
        let of_time = sign(shown.time_is_negative());
        let (years, months, days) = (years.abs(), months.abs(), days.abs());
        let clock = shown.clock(1);
        return format!("{of_months}{years}-{months} {of_days}{days} {of_time}{clock}");
    }
    let sign = if negative { "-" } else { "" };
    if has_months {
        format!("{sign}{}-{}", years.abs(), months.abs())
    } else if days != 0 {
        format!("{sign}{} {}", days.abs(), shown.clock(1))
    } else {
        format!("{sign}{}", shown.clock(1))
    }
}

fn show_iso(shown: Shown) -> String {
    let mut text = "P".to_owned();
    let part = |value: i64, unit: char, text: &mut String| {
        if value != 0 {
            text.push_str(&format!("{value}{unit}"));
        }
    };
    part(shown.years, 'Y', &mut text);
    part(shown.months, 'M', &mut text);
    part(shown.days, 'D', &mut text);
    if shown.has_time() {
        text.push('T');
        part(shown.hours, 'H', &mut text);
        part(shown.minutes, 'M', &mut text);
        if shown.seconds != 0 || shown.micros != 0 {
            if shown.seconds < 0 || shown.micros < 0 {
                text.push('-');
            }
            text.push_str(&seconds(shown.seconds, shown.micros, false));
            text.push('S');
        }
    } else if text.len() == 1 {
        text.push_str("T0S");
    }
    text
}
