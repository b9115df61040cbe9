//! What the commands share: reading options, and running a bench behind a progress bar.

use crate::terminal::{self, Unit};
use forebay_aio::MethodKind;
use forebay_aio::sync::Duration;
use forebay_bench::{BenchError, Report, all_methods};
use std::fmt::Display;
use std::str::FromStr;

/// Most rounds.
pub(super) const ROUNDS: usize = 1000;

/// Runs a bench, and shows its progress on a terminal. The report, as JSON or as tables.
pub(super) fn measure(
    json: bool,
    bench: impl FnOnce(&mut dyn FnMut(u64, u64)) -> Result<Report, BenchError>,
) -> Result<String, String> {
    let bar = terminal::bar("measuring", Unit::Steps, 0);
    let report = bench(&mut |done, total| terminal::advance(&bar, done, total));
    bar.finish_and_clear();
    let report = report.map_err(|error| error.to_string())?;
    Ok(if json { report.json() } else { report.text() }.to_owned())
}

/// Declares the options of a bench that are read as texts: each with its value's name, the field of
/// the plan that it changes, and what reads it.
macro_rules! options {
    (struct $name:ident for $plan:ty {
        $($(#[$what:meta])* $option:ident: $value:literal => $field:ident by $read:expr;)*
    }) => {
        #[derive(Debug, clap::Args)]
        struct $name {
            $($(#[$what])*
            #[arg(long, value_name = $value)]
            $option: Option<String>,)*
        }

        impl $name {
            /// Changes what options are given for.
            fn apply(&self, plan: &mut $plan) -> Result<(), String> {
                $(if let Some(text) = &self.$option {
                    plan.$field = $read(text)?;
                })*
                Ok(())
            }
        }
    };
}

pub(super) use options;

/// Reads the value of an option that has no default.
pub(super) fn some<T>(
    read: impl Fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<Option<T>, String> {
    move |text| read(text).map(Some)
}

/// Reads a list with commas between its items.
pub(super) fn list<T>(
    item: impl Fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<Vec<T>, String> {
    move |text| text.split(',').map(|part| item(part.trim())).collect()
}

/// Reads one of these names.
pub(super) fn known<T: Clone>(
    option: &'static str,
    names: impl IntoIterator<Item = (&'static str, T)>,
) -> impl Fn(&str) -> Result<T, String> {
    let names: Vec<_> = names.into_iter().collect();
    move |text| {
        let found = names.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| value.clone()).ok_or_else(|| invalid(text, option))
    }
}

fn invalid(text: &str, option: &str) -> String {
    format!("invalid value \"{text}\" for option {option}")
}

/// Reads --io-direct: `word` for direct I/O, "" for buffered.
pub(super) fn direct(word: &'static str) -> impl Fn(&str) -> Result<Vec<bool>, String> {
    let mode = known("--io-direct", [("", false), (word, true)]);
    move |text| Ok(vec![mode(text)?])
}

/// Reads an I/O method.
pub(super) fn method(name: &str) -> Result<MethodKind, String> {
    known("--io-method", all_methods().into_iter().map(|method| (method.name(), method)))(name)
}

/// Reads a number from 1 to `most`.
pub(super) fn count<N>(option: &'static str, most: N) -> impl Fn(&str) -> Result<N, String>
where
    N: FromStr + PartialOrd + From<u8> + Display,
{
    move |text| {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(invalid(text, option));
        }
        let value = text.parse().ok().filter(|value| *value >= N::from(1) && *value <= most);
        value.ok_or_else(|| format!("{option} must be in range 1..{most}"))
    }
}

/// Reads a list of numbers from 1 to `most`.
pub(super) fn counts<N>(option: &'static str, most: N) -> impl Fn(&str) -> Result<Vec<N>, String>
where
    N: FromStr + PartialOrd + From<u8> + Display,
{
    list(count(option, most))
}

/// Reads a size in bytes: `64MB`, or a number of bytes.
pub(super) fn size(option: &'static str) -> impl Fn(&str) -> Result<u64, String> {
    move |text| {
        let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(split);
        let shift = match unit.trim() {
            "" | "B" => Some(0),
            "kB" => Some(10),
            "MB" => Some(20),
            "GB" => Some(30),
            "TB" => Some(40),
            _ => None,
        };
        let bytes = shift.and_then(|shift| digits.parse::<u64>().ok()?.checked_mul(1 << shift));
        let what = "a size is a number and B, kB, MB, GB or TB";
        bytes.ok_or_else(|| format!("{}: {what}", invalid(text, option)))
    }
}

/// Reads a size that memory can have.
pub(super) fn memory(option: &'static str) -> impl Fn(&str) -> Result<usize, String> {
    move |text| {
        let bytes = usize::try_from(size(option)(text)?).ok();
        bytes
            .filter(|bytes| *bytes < isize::MAX as usize)
            .ok_or_else(|| format!("{}: more than can be addressed", invalid(text, option)))
    }
}

/// Reads --seconds.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let value: Option<f64> = text.parse().ok().filter(|value| (0.001..=3600.0).contains(value));
    let value = value.ok_or("--seconds must be a number in range 0.001..3600")?;
    Ok(Duration::from_secs_f64(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("--size")("8192"), Ok(8192));
        assert_eq!(size("--size")("64kB"), Ok(64 << 10));
        assert_eq!(size("--size")("2 GB"), Ok(2 << 30));
        for bad in ["", "MB", "-1", "1.5GB", "1XB", "99999999999TB", "1mb"] {
            assert!(size("--size")(bad).is_err(), "{bad}");
        }
        assert!(memory("--size")("9000000TB").is_err());
    }
}
