//! The numbers of dates, times and zones, and what may be wrong with them.

use crate::error::ValueError;

use super::calendar::{Civil, USECS_PER_SEC};

/// What is wrong with the text of a date, a time or an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Format,
    /// A field's value is out of its range.
    Range,
    /// A month or day is out of its range: perhaps the order is another one.
    MonthDay,
    /// An interval's field is out of its range.
    Interval,
    /// A zone is too far from Greenwich.
    Displacement,
    /// There is no zone of this name.
    Zone(String),
}

impl Fault {
    /// PostgreSQL's error for a text of a type.
    pub(crate) fn error(self, text: &str, ty: &'static str) -> ValueError {
        let range =
            || ValueError::new("22008", format!("date/time field value out of range: \"{text}\""));
        match self {
            Fault::Format => {
                let message = format!("invalid input syntax for type {ty}: \"{text}\"");
                ValueError::new("22007", message)
            }
            Fault::Range => range(),
            Fault::MonthDay => {
                range().with_hint("Perhaps you need a different \"DateStyle\" setting.")
            }
            Fault::Interval => {
                ValueError::new("22015", format!("interval field value out of range: \"{text}\""))
            }
            Fault::Displacement => {
                let message = format!("time zone displacement out of range: \"{text}\"");
                ValueError::new("22009", message)
            }
            Fault::Zone(name) => {
                ValueError::new("22023", format!("time zone \"{name}\" not recognized"))
            }
        }
    }
}

/// A number at the start of a text, as C's `strtol` reads it, and what follows it. Numbers beyond
/// 32 bits are out of range.
pub(crate) fn leading(text: &str) -> Result<(i64, &str), Fault> {
    let (value, rest) = leading_wide(text)?;
    if i32::try_from(value).is_err() {
        return Err(Fault::Range);
    }
    Ok((value, rest))
}

/// A number of 64 bits at the start of a text. Without digits it is 0, and all of the text follows.
pub(crate) fn leading_wide(text: &str) -> Result<(i64, &str), Fault> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Ok((0, text));
    }
    let (number, rest) = text.split_at(text.len() - unsigned.len() + digits);
    Ok((number.parse().map_err(|_| Fault::Range)?, rest))
}

/// The fraction behind a number, which begins with the point.
pub(crate) fn fraction(text: &str) -> Result<f64, Fault> {
    if text == "." {
        return Ok(0.0);
    }
    let digits = text.strip_prefix('.').ok_or(Fault::Format)?;
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Fault::Format);
    }
    format!("0{text}").parse().map_err(|_| Fault::Format)
}

/// Microseconds of a fraction of a second.
pub(crate) fn fraction_of_second(text: &str) -> Result<i64, Fault> {
    Ok((fraction(text)? * USECS_PER_SEC as f64).round_ties_even() as i64)
}

/// Hours, minutes, seconds and microseconds of a time with colons. `short`: two numbers are minutes
/// and seconds.
pub(crate) fn time(text: &str, short: bool) -> Result<Civil, Fault> {
    let (hour, rest) = leading_wide(text)?;
    let rest = rest.strip_prefix(':').ok_or(Fault::Format)?;
    let (minute, rest) = leading(rest)?;
    let minutes =
        |civil: Civil| Civil { hour: 0, minute: civil.hour, second: civil.minute, ..civil };
    let mut civil = Civil { hour, minute, ..Civil::default() };
    if rest.is_empty() {
        if short {
            civil = minutes(civil);
        }
    } else if rest.starts_with('.') {
        civil = minutes(civil);
        civil.micros = fraction_of_second(rest)?;
    } else {
        let (second, rest) = leading(rest.strip_prefix(':').ok_or(Fault::Format)?)?;
        civil.second = second;
        if !rest.is_empty() {
            civil.micros = fraction_of_second(rest)?;
        }
    }
    let fits = civil.hour >= 0
        && (0..60).contains(&civil.minute)
        && (0..=60).contains(&civil.second)
        && (0..=USECS_PER_SEC).contains(&civil.micros);
    if fits { Ok(civil) } else { Err(Fault::Range) }
}

/// Seconds east of Greenwich of `+hh`, `-hh:mm`, `+hhmm`, `+hh:mm:ss`.
pub(crate) fn zone(text: &str) -> Result<i32, Fault> {
    /// Hours that a zone may be away from Greenwich.
    const MOST: i64 = 15;
    let overflow = |_| Fault::Displacement;
    let sign = match text.as_bytes().first() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return Err(Fault::Format),
    };
    let body = text.get(1..).unwrap_or_default();
    let (mut hour, mut rest) = leading(body).map_err(overflow)?;
    let (mut minute, mut second) = (0, 0);
    if let Some(behind) = rest.strip_prefix(':') {
        (minute, rest) = leading(behind).map_err(overflow)?;
        if let Some(behind) = rest.strip_prefix(':') {
            (second, rest) = leading(behind).map_err(overflow)?;
        }
    } else if rest.is_empty() && text.len() > 3 {
        (hour, minute) = (hour / 100, hour % 100);
    }
    if !(0..=MOST).contains(&hour) || !(0..60).contains(&minute) || !(0..60).contains(&second) {
        return Err(Fault::Displacement);
    }
    if !rest.is_empty() {
        return Err(Fault::Format);
    }
    Ok(sign * ((hour * 60 + minute) * 60 + second) as i32)
}
