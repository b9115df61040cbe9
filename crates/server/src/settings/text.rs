//! Values as text: reading them, and showing them with units.

use super::table::{Kind, Setting, Unit};
use super::value::Value;
use forebay_sql::SqlError;
use std::fmt::Display;

/// The value as SHOW prints it: with the largest unit in which it is whole.
pub fn show(value: &Value, setting: &Setting) -> String {
    match (value, setting.kind) {
        (Value::Int(n), Kind::Int { unit, .. }) if *n > 0 => show_with_unit(*n, unit),
        (Value::Real(x), Kind::Real { unit, .. }) if *x > 0.0 && x.fract() == 0.0 => {
            show_with_unit(*x as i64, unit)
        }
        _ => raw(value, setting),
    }
}

/// The value in its base unit, or the word for it.
pub fn raw(value: &Value, setting: &Setting) -> String {
    match (value, setting.word) {
        (Value::Int(n), Some((word, number))) if *n == number => word.to_owned(),
        _ => value.raw(),
    }
}

/// Reads a value for this setting, with PostgreSQL's checks and messages.
pub fn parse(setting: &Setting, text: &str) -> Result<Value, SqlError> {
    if let Some((word, number)) = setting.word
        && text.trim().eq_ignore_ascii_case(word)
    {
        return Ok(Value::Int(number));
    }
    let value = match setting.kind {
        Kind::Bool => parse_bool(text.trim()).map(Value::Bool).ok_or_else(|| {
            SqlError::new(
                "22023",
                format!("parameter \"{}\" requires a Boolean value", setting.name),
            )
        })?,
        Kind::Int { min, max, unit } => {
            let n = parse_number(setting, text, unit)?.round_ties_even();
            if n < min as f64 || n > max as f64 {
                return Err(out_of_range(setting, n as i64, min, max));
            }
            Value::Int(n as i64)
        }
        Kind::Real { min, max, unit } => {
            let x = parse_number(setting, text, unit)?;
            if !(min..=max).contains(&x) {
                return Err(out_of_range(setting, x, min, max));
            }
            Value::Real(x)
        }
        Kind::Enum(words) => {
            let found = words.iter().find(|w| w.eq_ignore_ascii_case(text.trim())).copied();
            // An enumeration with on and off takes booleans too.
            let found = found.or_else(|| {
                let word = if parse_bool(text.trim())? { "on" } else { "off" };
                words.iter().find(|w| **w == word).copied()
            });
            Value::Text(found.map(str::to_owned).ok_or_else(|| {
                invalid(setting, text).hint(format!("Available values: {}.", words.join(", ")))
            })?)
        }
        Kind::Text => Value::Text(text.to_owned()),
    };
    match setting.check {
        Some(check) => check(value).map_err(|why| invalid(setting, text).detail(why)),
        None => Ok(value),
    }
}

fn invalid(setting: &Setting, text: &str) -> SqlError {
    SqlError::new("22023", format!("invalid value for parameter \"{}\": \"{text}\"", setting.name))
}

fn out_of_range<N: Display>(setting: &Setting, value: N, min: N, max: N) -> SqlError {
    let unit = match setting.kind {
        Kind::Int { unit, .. } | Kind::Real { unit, .. } if unit != Unit::None => {
            format!(" {}", unit.name())
        }
        _ => String::new(),
    };
    SqlError::new(
        "22023",
        format!(
            "{value}{unit} is outside the valid range for parameter \"{}\" \
             ({min}{unit} .. {max}{unit})",
            setting.name
        ),
    )
}

/// Booleans: any unique prefix of on, off, true, false, yes, no; 0 and 1.
pub fn parse_bool(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let is = |word: &str, least: usize| text.len() >= least && word.starts_with(&text);
    if is("true", 1) || is("yes", 1) || is("on", 2) || text == "1" {
        Some(true)
    } else if is("false", 1) || is("no", 1) || is("off", 2) || text == "0" {
        Some(false)
    } else {
        None
    }
}

/// A number and perhaps a unit, converted to the setting's base unit.
fn parse_number(setting: &Setting, text: &str, base: Unit) -> Result<f64, SqlError> {
    let text = text.trim();
    let (number, rest) = split_number(text).ok_or_else(|| invalid(setting, text))?;
    let unit = rest.trim();
    if unit.is_empty() {
        return Ok(number);
    }
    match base.accepted().find(|(name, _)| *name == unit) {
        Some((_, factor)) => Ok(number * factor),
        None if base == Unit::None => Err(invalid(setting, text)),
        None => Err(invalid(setting, text).hint(if base.is_memory() {
            "Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\"."
        } else {
            "Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\"."
        })),
    }
}

/// Splits the number off the front. It may be hexadecimal.
fn split_number(text: &str) -> Option<(f64, &str)> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let sign = if negative { -1.0 } else { 1.0 };
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
        let n = i64::from_str_radix(hex.get(..end)?, 16).ok()?;
        return Some((sign * n as f64, hex.get(end..)?));
    }
    let mut end = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
    if let Some(exponent) = digits.get(end..).and_then(|r| r.strip_prefix(['e', 'E'])) {
        let signed = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let len = signed.find(|c: char| !c.is_ascii_digit()).unwrap_or(signed.len());
        if len > 0 {
            end += 1 + (exponent.len() - signed.len()) + len;
        }
    }
    let n: f64 = digits.get(..end)?.parse().ok()?;
    n.is_finite().then_some((sign * n, digits.get(end..)?))
}

fn show_with_unit(n: i64, unit: Unit) -> String {
    for (name, factor) in unit.accepted().rev() {
        let units = n as f64 / factor;
        if units >= 1.0 && units.fract() == 0.0 && !(unit == Unit::Blocks && name == "B") {
            return format!("{units:.0}{name}");
        }
    }
    n.to_string()
}

#[cfg(test)]
mod tests {
    use super::super::table::{TABLE, find};
    use super::*;

    fn setting(name: &str) -> &'static Setting {
        find(name).expect("exists").1
    }

    fn shown(name: &str, text: &str) -> String {
        let s = setting(name);
        match parse(s, text) {
            Ok(v) => show(&v, s),
            Err(e) => e.message.clone(),
        }
    }

    #[test]
    fn units_as_postgresql_reads_and_shows_them() {
        for (name, text, expected) in [
            ("shared_buffers", "16384", "128MB"),
            ("shared_buffers", "1GB", "1GB"),
            ("shared_buffers", " Auto ", "auto"),
            ("shared_buffers", "1.5GB", "1536MB"),
            ("shared_buffers", " 256 kB ", "256kB"),
            ("shared_buffers", "0x4000", "128MB"),
            ("wal_buffers", "-1", "-1"),
            ("wal_compression", "on", "pglz"),
            ("wal_compression", "true", "pglz"),
            ("wal_compression", "0", "off"),
            ("max_wal_size", "2048", "2GB"),
            ("checkpoint_timeout", "300", "5min"),
            ("checkpoint_timeout", "90s", "90s"),
            ("checkpoint_timeout", "1h", "1h"),
            ("bgwriter_delay", "0.5s", "500ms"),
            ("io_combine_limit", "128kB", "128kB"),
            ("io_combine_limit", "16", "128kB"),
            ("effective_io_concurrency", "16", "16"),
            ("checkpoint_completion_target", "0.9", "0.9"),
            ("full_page_writes", "of", "off"),
            ("io_method", "IO_URING", "io_uring"),
        ] {
            assert_eq!(shown(name, text), expected, "{name} = {text}");
        }
    }

    #[test]
    fn messages_as_postgresql_gives_them() {
        for (name, text, message) in [
            (
                "shared_buffers",
                "8",
                "8 8kB is outside the valid range for parameter \"shared_buffers\" \
                 (16 8kB .. 1073741823 8kB)",
            ),
            (
                "io_workers",
                "33",
                "33 is outside the valid range for parameter \"io_workers\" (1 .. 32)",
            ),
            ("io_workers", "", "invalid value for parameter \"io_workers\": \"\""),
            ("io_workers", "3 kB", "invalid value for parameter \"io_workers\": \"3 kB\""),
            ("shared_buffers", "1 gb", "invalid value for parameter \"shared_buffers\": \"1 gb\""),
            ("io_method", "aio", "invalid value for parameter \"io_method\": \"aio\""),
            ("full_page_writes", "o", "parameter \"full_page_writes\" requires a Boolean value"),
            ("fsync", "off", "invalid value for parameter \"fsync\": \"off\""),
        ] {
            assert_eq!(shown(name, text), message);
        }
        let e = parse(setting("io_method"), "aio").expect_err("refused");
        assert_eq!(
            e.hint.as_deref(),
            Some("Available values: sync, worker, io_uring, posix_aio, auto.")
        );
    }

    #[test]
    fn every_default_is_valid_and_reads_back() {
        for s in TABLE {
            let v = parse(s, s.boot).unwrap_or_else(|e| panic!("{}: {e}", s.name));
            assert_eq!(
                parse(s, &show(&v, s)).unwrap_or_else(|e| panic!("{}: {e}", s.name)),
                v,
                "{}",
                s.name
            );
        }
    }
}
