//! pg_class.reloptions: a table's storage parameters, as `name=value` texts.

use forebay_access::heap::IndexCleanup;
use forebay_format::varlena::Varlena;
use forebay_types::{Datum, oids};

use crate::arrays::{array_of, stored_text};
use crate::error::{CatalogError, Refusal};

/// The fill factor of a table without one.
pub(crate) const FULL: u8 = 100;
/// The fill factor of a B-tree's leaves without one.
pub(crate) const BTREE: u8 = 90;
/// Fill factors that PostgreSQL accepts.
const FILL_FACTORS: std::ops::RangeInclusive<u8> = 10..=100;

/// A storage parameter of a new table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageParameter {
    /// `toast`, for one of the table's TOAST table.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its value as PostgreSQL stores it. None: the name alone was given.
    pub value: Option<String>,
}

/// Which values a parameter accepts.
#[derive(Clone, Copy, Debug)]
enum Values {
    Bool,
    Int(i32, i32),
    Real(f64, f64),
    IndexCleanup,
}

/// A parameter that PostgreSQL 18 knows: its name, its values, whether a TOAST table has it too.
type Known = (&'static str, Values, bool);

const MOST: i32 = i32::MAX;
const MOST_AGE: i32 = 2_000_000_000;

/// The lengths to which rows may be brought, that PostgreSQL accepts.
const TOAST_TARGETS: std::ops::RangeInclusive<i32> = 128..=8160;

/// Numbers of workers that PostgreSQL accepts.
const WORKERS: std::ops::RangeInclusive<u16> = 0..=1024;

/// Parameters that are stored.
const STORED: &[Known] = &[
    ("fillfactor", Values::Int(10, 100), false),
    ("toast_tuple_target", Values::Int(*TOAST_TARGETS.start(), *TOAST_TARGETS.end()), false),
    ("vacuum_truncate", Values::Bool, true),
    ("vacuum_index_cleanup", Values::IndexCleanup, true),
    ("vacuum_max_eager_freeze_failure_rate", Values::Real(0.0, 1.0), true),
    ("autovacuum_enabled", Values::Bool, true),
    ("autovacuum_vacuum_threshold", Values::Int(0, MOST), true),
    ("autovacuum_vacuum_max_threshold", Values::Int(-1, MOST), true),
    ("autovacuum_vacuum_insert_threshold", Values::Int(-1, MOST), true),
    ("autovacuum_analyze_threshold", Values::Int(0, MOST), false),
    ("autovacuum_vacuum_cost_limit", Values::Int(1, 10_000), true),
    ("autovacuum_freeze_min_age", Values::Int(0, MOST_AGE / 2), true),
    ("autovacuum_multixact_freeze_min_age", Values::Int(0, MOST_AGE / 2), true),
    ("autovacuum_freeze_max_age", Values::Int(100_000, MOST_AGE), true),
    ("autovacuum_multixact_freeze_max_age", Values::Int(10_000, MOST_AGE), true),
    ("autovacuum_freeze_table_age", Values::Int(0, MOST_AGE), true),
    ("autovacuum_multixact_freeze_table_age", Values::Int(0, MOST_AGE), true),
    ("log_autovacuum_min_duration", Values::Int(-1, MOST), true),
    ("autovacuum_vacuum_cost_delay", Values::Real(0.0, 100.0), true),
    ("autovacuum_vacuum_scale_factor", Values::Real(0.0, 100.0), true),
    ("autovacuum_vacuum_insert_scale_factor", Values::Real(0.0, 100.0), true),
    ("autovacuum_analyze_scale_factor", Values::Real(0.0, 100.0), false),
    ("parallel_workers", Values::Int(0, *WORKERS.end() as i32), false),
];

/// A parameter that nothing here would follow.
const REFUSED: Known = ("user_catalog_table", Values::Bool, false);

/// What stands before the text of a TOAST table's parameter.
const TOAST: &str = "toast.";

/// The texts to store for the parameters of a new table, in PostgreSQL's form and with its checks.
/// Those of its TOAST table begin with `toast.`; see [`of_table`].
/// Parameters that nothing here would follow are refused (0A000).
pub fn storage_texts(given: &[StorageParameter]) -> Result<Vec<String>, CatalogError> {
    given.iter().try_for_each(check_oids)?;
    // What tables with OIDs once were means nothing else.
    let is_oids =
        |parameter: &StorageParameter| parameter.namespace.is_none() && parameter.name == "oids";
    let left: Vec<_> = given.iter().filter(|given| !is_oids(given)).cloned().collect();
    changed_texts(&left, true)
}

/// The same for a table that there is. Without a TOAST table, what is said of one means nothing.
pub(crate) fn changed_texts(
    given: &[StorageParameter],
    has_toast: bool,
) -> Result<Vec<String>, CatalogError> {
    given.iter().try_for_each(check_form)?;
    let mut texts = Vec::new();
    let mut refused = None;
    for toast in [false, true].into_iter().filter(|toast| has_toast || !toast) {
        let mut seen: Vec<&str> = Vec::new();
        for parameter in given.iter().filter(|p| p.namespace.is_some() == toast) {
            let (name, known) = (parameter.name.as_str(), STORED.iter().chain([&REFUSED]));
            let mut known = known.filter(|known| !toast || known.2);
            let Some((_, values, _)) = known.find(|known| known.0 == name) else {
                return Err(invalid(format!("unrecognized parameter \"{name}\"")));
            };
            if seen.contains(&name) {
                return Err(invalid(format!("parameter \"{name}\" specified more than once")));
            }
            seen.push(name);
            let value = parameter.value.as_deref().unwrap_or("true");
            values.check(name, value)?;
            if name == REFUSED.0 {
                refused = Some(format!("storage parameter \"{name}\" is not supported"));
            }
            texts.push(format!("{}{name}={value}", if toast { TOAST } else { "" }));
        }
    }
    match refused {
        Some(message) => Err(CatalogError::refused("0A000", message)),
        None => Ok(texts),
    }
}

/// Of a table's texts those of its TOAST table, as they are stored there, or its own.
pub fn of_table(texts: &[String], toast: bool) -> Vec<String> {
    let own = |text: &String| match text.strip_prefix(TOAST) {
        None => (!toast).then(|| text.clone()),
        Some(of_toast) => toast.then(|| of_toast.to_owned()),
    };
    texts.iter().filter_map(own).collect()
}

/// The storage parameters of a new B-tree, with PostgreSQL's checks: its fill factor, and whether
/// it merges equal keys.
pub fn index_parameters(
    given: &[StorageParameter],
) -> Result<(Option<u8>, Option<bool>), CatalogError> {
    const KNOWN: [Known; 3] = [
        ("fillfactor", Values::Int(10, 100), false),
        ("deduplicate_items", Values::Bool, false),
        ("vacuum_cleanup_index_scale_factor", Values::Real(0.0, 1e10), false),
    ];
    let (mut fill_factor, mut deduplicate) = (None, None);
    let mut seen: Vec<&str> = Vec::new();
    for StorageParameter { namespace, name, value } in given {
        if let Some(namespace) = namespace {
            return Err(invalid(format!("unrecognized parameter namespace \"{namespace}\"")));
        }
        let Some((_, values, _)) = KNOWN.iter().find(|known| known.0 == name) else {
            return Err(invalid(format!("unrecognized parameter \"{name}\"")));
        };
        if seen.contains(&name.as_str()) {
            return Err(invalid(format!("parameter \"{name}\" specified more than once")));
        }
        seen.push(name);
        let value = value.as_deref().unwrap_or("true");
        values.check(name, value)?;
        match values {
            Values::Int(..) => fill_factor = integer(value).and_then(|n| u8::try_from(n).ok()),
            Values::Bool => deduplicate = boolean(value),
            _ => {
                let message = format!("storage parameter \"{name}\" is not supported");
                return Err(CatalogError::refused("0A000", message));
            }
        }
    }
    Ok((fill_factor, deduplicate))
}

fn invalid(message: String) -> CatalogError {
    CatalogError::refused("22023", message)
}

/// Checks what has nothing to do with the parameter's meaning.
fn check_form(parameter: &StorageParameter) -> Result<(), CatalogError> {
    let StorageParameter { namespace, name, .. } = parameter;
    if let Some(other) = namespace.as_deref().filter(|n| *n != "toast") {
        return Err(invalid(format!("unrecognized parameter namespace \"{other}\"")));
    }
    if name.contains('=') {
        let message = format!("invalid option name \"{name}\": must not contain \"=\"");
        return Err(invalid(message));
    }
    Ok(())
}

/// Checks a parameter of a new table, which must have no OIDs.
fn check_oids(parameter: &StorageParameter) -> Result<(), CatalogError> {
    check_form(parameter)?;
    let StorageParameter { namespace, name, value } = parameter;
    if namespace.is_some() || name != "oids" {
        return Ok(());
    }
    match value.as_deref().unwrap_or("true").to_ascii_lowercase().as_str() {
        "false" | "off" | "0" => Ok(()),
        "true" | "on" | "1" => {
            let message = "tables declared WITH OIDS are not supported";
            Err(CatalogError::refused("0A000", message))
        }
        _ => Err(CatalogError::refused("42601", "oids requires a Boolean value")),
    }
}

impl Values {
    /// Fails if a text is no value of the parameter of this name.
    fn check(self, name: &str, text: &str) -> Result<(), CatalogError> {
        let wrong = |kind: &str| {
            Refusal::new("22023", format!("invalid value for {kind} option \"{name}\": {text}"))
        };
        let outside = |valid: String| {
            let message = format!("value {text} out of bounds for option \"{name}\"");
            invalid(message).with_detail(format!("Valid values are between {valid}."))
        };
        let found = match self {
            Values::Bool => boolean(text).map(drop).ok_or_else(|| wrong("boolean")),
            Values::Int(least, most) => match integer(text) {
                Some(value) if (least..=most).contains(&value) => Ok(()),
                Some(_) => return Err(outside(format!("\"{least}\" and \"{most}\""))),
                None => Err(wrong("integer")),
            },
            Values::Real(least, most) => match text.trim().parse::<f64>() {
                Ok(value) if (least..=most).contains(&value) => Ok(()),
                Ok(value) if !value.is_nan() => {
                    return Err(outside(format!("\"{least:.6}\" and \"{most:.6}\"")));
                }
                _ => Err(wrong("floating point")),
            },
            Values::IndexCleanup => {
                const TEXTS: [&str; 9] =
                    ["auto", "on", "off", "true", "false", "yes", "no", "1", "0"];
                let known = TEXTS.iter().any(|known| known.eq_ignore_ascii_case(text));
                let mut refusal = wrong("enum");
                refusal.detail = Some(r#"Valid values are "on", "off", and "auto"."#.to_owned());
                if known { Ok(()) } else { Err(refusal) }
            }
        };
        found.map_err(CatalogError::Refused)
    }
}

/// A Boolean value, or the beginning of one that is not ambiguous.
fn boolean(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let begins = |word: &str| !text.is_empty() && word.starts_with(&text);
    match text.as_str() {
        "on" | "1" => Some(true),
        "of" | "off" | "0" => Some(false),
        _ if begins("true") || begins("yes") => Some(true),
        _ if begins("false") || begins("no") => Some(false),
        _ => None,
    }
}

/// An integer as PostgreSQL's settings have it: decimal, hexadecimal or octal, or a fraction, which
/// is rounded.
fn integer(text: &str) -> Option<i32> {
    let text = text.trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let (whole, radix) = match digits.get(..2) {
        Some("0x" | "0X") => (digits.get(2..)?, 16),
        Some(two) if two.starts_with('0') => (digits, 8),
        _ => (digits, 10),
    };
    if let Ok(value) = i64::from_str_radix(whole, radix) {
        return i32::try_from(sign * value).ok();
    }
    let value = digits.parse::<f64>().ok()?.round_ties_even();
    (value <= f64::from(i32::MAX)).then(|| sign as i32 * value as i32)
}

/// The value of pg_class.reloptions for these texts: an array of them, or NULL.
pub(crate) fn stored(texts: &[String]) -> Datum<'static> {
    if texts.is_empty() {
        return Datum::Null;
    }
    array_of(oids::TEXT_ARRAY, oids::TEXT, texts.iter().map(|text| stored_text(text)))
}

/// A table's own settings of autovacuum, as far as they are set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AutovacuumOptions {
    /// autovacuum_enabled
    pub enabled: Option<bool>,
    /// autovacuum_vacuum_threshold
    pub vacuum_threshold: Option<u32>,
    /// autovacuum_vacuum_max_threshold; Some(None): without limit
    pub vacuum_max_threshold: Option<Option<u32>>,
    /// autovacuum_vacuum_scale_factor
    pub vacuum_scale_factor: Option<f64>,
    /// autovacuum_vacuum_insert_threshold; Some(None): never because of inserted rows
    pub insert_threshold: Option<Option<u32>>,
    /// autovacuum_vacuum_insert_scale_factor
    pub insert_scale_factor: Option<f64>,
    /// autovacuum_analyze_threshold
    pub analyze_threshold: Option<u32>,
    /// autovacuum_analyze_scale_factor
    pub analyze_scale_factor: Option<f64>,
    /// autovacuum_vacuum_cost_limit
    pub cost_limit: Option<u32>,
    /// autovacuum_vacuum_cost_delay, in milliseconds
    pub cost_delay: Option<f64>,
    /// autovacuum_freeze_min_age
    pub freeze_min_age: Option<u32>,
    /// autovacuum_freeze_max_age
    pub freeze_max_age: Option<u32>,
    /// autovacuum_freeze_table_age
    pub freeze_table_age: Option<u32>,
    /// autovacuum_multixact_freeze_min_age
    pub multixact_freeze_min_age: Option<u32>,
    /// autovacuum_multixact_freeze_max_age
    pub multixact_freeze_max_age: Option<u32>,
    /// autovacuum_multixact_freeze_table_age
    pub multixact_freeze_table_age: Option<u32>,
    /// log_autovacuum_min_duration, in milliseconds
    pub log_min_duration: Option<u32>,
}

impl AutovacuumOptions {
    /// Takes over a parameter, if it is one of these. None: its value is damaged.
    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        let count = || Some(Some(u32::try_from(integer(value)?).ok()?));
        // -1 stands for no limit.
        let limit = || Some(u32::try_from(integer(value).filter(|n| *n >= -1)?).ok());
        let real = || Some(Some(value.trim().parse::<f64>().ok().filter(|n| *n >= 0.0)?));
        match name {
            "autovacuum_enabled" => self.enabled = Some(boolean(value)?),
            "autovacuum_vacuum_threshold" => self.vacuum_threshold = count()?,
            "autovacuum_vacuum_max_threshold" => self.vacuum_max_threshold = Some(limit()?),
            "autovacuum_vacuum_scale_factor" => self.vacuum_scale_factor = real()?,
            "autovacuum_vacuum_insert_threshold" => self.insert_threshold = Some(limit()?),
            "autovacuum_vacuum_insert_scale_factor" => self.insert_scale_factor = real()?,
            "autovacuum_analyze_threshold" => self.analyze_threshold = count()?,
            "autovacuum_analyze_scale_factor" => self.analyze_scale_factor = real()?,
            "autovacuum_vacuum_cost_limit" => self.cost_limit = count()?,
            "autovacuum_vacuum_cost_delay" => self.cost_delay = real()?,
            "autovacuum_freeze_min_age" => self.freeze_min_age = count()?,
            "autovacuum_freeze_max_age" => self.freeze_max_age = count()?,
            "autovacuum_freeze_table_age" => self.freeze_table_age = count()?,
            "autovacuum_multixact_freeze_min_age" => self.multixact_freeze_min_age = count()?,
            "autovacuum_multixact_freeze_max_age" => self.multixact_freeze_max_age = count()?,
            "autovacuum_multixact_freeze_table_age" => {
                self.multixact_freeze_table_age = count()?;
            }
            "log_autovacuum_min_duration" => self.log_min_duration = limit()?,
            _ => {}
        }
        Some(())
    }
}

/// What a table's own parameters tell VACUUM, as far as they are set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VacuumParameters {
    /// vacuum_truncate
    pub truncate: Option<bool>,
    /// vacuum_index_cleanup
    pub index_cleanup: Option<IndexCleanup>,
    /// vacuum_max_eager_freeze_failure_rate
    pub max_eager_freeze_failure_rate: Option<f64>,
}

impl VacuumParameters {
    /// Takes over a parameter, if it is one of these. None: its value is damaged.
    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "vacuum_truncate" => self.truncate = Some(boolean(value)?),
            "vacuum_index_cleanup" => {
                self.index_cleanup = Some(match boolean(value) {
                    Some(true) => IndexCleanup::On,
                    Some(false) => IndexCleanup::Off,
                    None if value.eq_ignore_ascii_case("auto") => IndexCleanup::Auto,
                    None => return None,
                });
            }
            "vacuum_max_eager_freeze_failure_rate" => {
                let rate = value.trim().parse().ok().filter(|rate| (0.0..=1.0).contains(rate));
                self.max_eager_freeze_failure_rate = Some(rate?);
            }
            _ => {}
        }
        Some(())
    }
}

/// The storage parameters that the engine uses, as far as they are set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct StorageOptions {
    /// fillfactor, in percent.
    pub(crate) fill_factor: Option<u8>,
    /// deduplicate_items
    pub(crate) deduplicate: Option<bool>,
    /// toast_tuple_target
    pub(crate) toast_target: Option<u16>,
    /// parallel_workers
    pub(crate) parallel_workers: Option<u16>,
    /// What tells autovacuum what to do.
    pub(crate) autovacuum: AutovacuumOptions,
    /// What tells each vacuum what to do.
    pub(crate) vacuum: VacuumParameters,
}

impl StorageOptions {
    /// Reads pg_class.reloptions.
    ///
    /// Options so long that they were compressed are not read: these only say where rows go.
    pub(crate) fn read(options: Varlena<'_>) -> Result<StorageOptions, CatalogError> {
        let Varlena::Plain(array) = options else { return Ok(StorageOptions::default()) };
        let damaged = || CatalogError::corrupt("pg_class.reloptions is damaged");
        let mut found = StorageOptions::default();
        for text in texts(array).ok_or_else(damaged)? {
            if let Some(value) = text.strip_prefix(b"fillfactor=") {
                let value =
                    text_of(value).and_then(integer).and_then(|value| u8::try_from(value).ok());
                let value = value.filter(|factor| FILL_FACTORS.contains(factor));
                found.fill_factor = Some(value.ok_or_else(damaged)?);
            } else if let Some(value) = text.strip_prefix(b"deduplicate_items=") {
                found.deduplicate = Some(text_of(value).and_then(boolean).ok_or_else(damaged)?);
            } else if let Some(value) = text.strip_prefix(b"toast_tuple_target=") {
                let value = text_of(value).and_then(integer);
                let value = value.filter(|target| TOAST_TARGETS.contains(target));
                found.toast_target = Some(value.ok_or_else(damaged)? as u16);
            } else if let Some(value) = text.strip_prefix(b"parallel_workers=") {
                let value = text_of(value).and_then(integer).and_then(|n| u16::try_from(n).ok());
                let value = value.filter(|workers| WORKERS.contains(workers));
                found.parallel_workers = Some(value.ok_or_else(damaged)?);
            } else if let Some((name, value)) = text_of(text).and_then(|t| t.split_once('=')) {
                found.autovacuum.set(name, value).ok_or_else(damaged)?;
                found.vacuum.set(name, value).ok_or_else(damaged)?;
            }
        }
        Ok(found)
    }
}

/// The texts of a value of pg_class.reloptions.
pub(crate) fn texts_of(value: &Datum<'_>) -> Result<Vec<String>, CatalogError> {
    let damaged = || CatalogError::corrupt("pg_class.reloptions is damaged");
    match value {
        Datum::Null => Ok(Vec::new()),
        Datum::Array(array) => {
            let found = texts(array.bytes()).ok_or_else(damaged)?.into_iter();
            found.map(|text| Ok(text_of(text).ok_or_else(damaged)?.to_owned())).collect()
        }
        _ => Err(CatalogError::refused("0A000", "such long storage parameters are not supported")),
    }
}

fn text_of(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// The texts of an array of texts with one dimension and no NULL.
pub(crate) fn stored_texts(array: &[u8]) -> Option<Vec<&str>> {
    texts(array)?.into_iter().map(text_of).collect()
}

/// The elements of an array of texts with one dimension and no NULL.
fn texts(array: &[u8]) -> Option<Vec<&[u8]>> {
    /// Dimensions, offset of data after a null bitmap, element type, length, lower bound.
    const HEADER: usize = 20;
    let word = |at: usize| Some(u32::from_le_bytes(*array.get(at..)?.first_chunk()?));
    match word(0)? {
        0 => return Some(Vec::new()),
        1 if word(4)? == 0 && word(8)? == oids::TEXT => {}
        _ => return None,
    }
    let (mut found, mut at) = (Vec::new(), HEADER);
    for _ in 0..word(12)? {
        // A length word of four bytes, which counts itself.
        let length = word(at)?;
        let end = at.checked_add((length >> 2) as usize)?;
        found.push(array.get(at + 4..end).filter(|_| length & 3 == 0)?);
        at = end.next_multiple_of(4);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An array without its own length word.
    fn array(texts: &[&str]) -> Vec<u8> {
        let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
        match stored(&texts) {
            Datum::Array(array) => array.bytes().to_vec(),
            // PostgreSQL's array of no elements has no dimensions.
            _ => [0, 0, oids::TEXT].iter().flat_map(|word: &u32| word.to_le_bytes()).collect(),
        }
    }

    fn read(texts: &[&str]) -> Option<StorageOptions> {
        StorageOptions::read(Varlena::Plain(&array(texts))).ok()
    }

    #[test]
    fn a_fill_factor_is_found_among_other_options() {
        let of = |texts: &[&str]| read(texts).map(|options| options.fill_factor);
        assert_eq!(
            of(&["autovacuum_enabled=false", "fillfactor=70", "user_catalog_table=true"]),
            Some(Some(70))
        );
        for (text, factor) in [
            ("fillfactor=10", Some(10)),
            ("fillfactor= 50", Some(50)),
            ("fillfactor=70.5", Some(70)),
            ("fillfactor=1e1", Some(10)),
            ("autovacuum_enabled=false", None),
        ] {
            assert_eq!(of(&[text]), Some(factor), "{text}");
        }
        assert_eq!(of(&[]), Some(None));
        for wrong in ["fillfactor=9", "fillfactor=101", "fillfactor=x", "fillfactor="] {
            assert_eq!(of(&[wrong]), None, "{wrong}");
        }
        let good = array(&["fillfactor=70", "a=b"]);
        // A byte of padding is at the end.
        for len in 0..good.len() - 1 {
            let cut = StorageOptions::read(Varlena::Plain(&good[..len]));
            assert!(cut.is_err(), "{len} bytes");
        }
    }

    #[test]
    fn settings_of_autovacuum_are_found() {
        let of = |texts: &[&str]| read(texts).map(|options| options.autovacuum);
        let found = of(&[
            "fillfactor=70",
            "autovacuum_enabled=off",
            "autovacuum_vacuum_threshold=7",
            "autovacuum_vacuum_max_threshold=-1",
            "autovacuum_vacuum_insert_threshold=0x10",
            "autovacuum_vacuum_scale_factor=0.25",
            "autovacuum_vacuum_cost_delay=1.5",
            "autovacuum_freeze_max_age=200000",
            "log_autovacuum_min_duration=-1",
            "user_catalog_table=true",
        ]);
        let expected = AutovacuumOptions {
            enabled: Some(false),
            vacuum_threshold: Some(7),
            vacuum_max_threshold: Some(None),
            insert_threshold: Some(Some(16)),
            vacuum_scale_factor: Some(0.25),
            cost_delay: Some(1.5),
            freeze_max_age: Some(200_000),
            ..AutovacuumOptions::default()
        };
        assert_eq!(found, Some(expected));
        for wrong in [
            "autovacuum_enabled=maybe",
            "autovacuum_vacuum_threshold=-1",
            "autovacuum_vacuum_insert_threshold=-2",
            "autovacuum_vacuum_scale_factor=NaN",
            "autovacuum_freeze_min_age=",
        ] {
            assert_eq!(of(&[wrong]), None, "{wrong}");
        }
    }

    #[test]
    fn parameters_of_vacuum_are_found() {
        let of = |text: &str| read(&["fillfactor=70", text]).map(|options| options.vacuum);
        let none = VacuumParameters::default();
        let truncate = Some(false);
        assert_eq!(of("vacuum_truncate=off"), Some(VacuumParameters { truncate, ..none }));
        for (word, cleanup) in
            [("auto", IndexCleanup::Auto), ("on", IndexCleanup::On), ("false", IndexCleanup::Off)]
        {
            let index_cleanup = Some(cleanup);
            let found = of(&format!("vacuum_index_cleanup={word}"));
            assert_eq!(found, Some(VacuumParameters { index_cleanup, ..none }), "{word}");
        }
        let max_eager_freeze_failure_rate = Some(0.5);
        assert_eq!(
            of("vacuum_max_eager_freeze_failure_rate=0.5"),
            Some(VacuumParameters { max_eager_freeze_failure_rate, ..none })
        );
        for wrong in [
            "vacuum_truncate=maybe",
            "vacuum_index_cleanup=z",
            "vacuum_max_eager_freeze_failure_rate=1.5",
            "vacuum_max_eager_freeze_failure_rate=NaN",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn deduplication_is_switched_by_a_word() {
        let of = |value: &str| {
            let options = read(&[&format!("deduplicate_items={value}")]);
            options.map(|options| options.deduplicate)
        };
        for on in ["on", "true", "TRUE", "t", "yes", "1"] {
            assert_eq!(of(on), Some(Some(true)), "{on}");
        }
        for off in ["off", "of", "false", "n", "0"] {
            assert_eq!(of(off), Some(Some(false)), "{off}");
        }
        for wrong in ["", "o", "truee", "2"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn numbers_are_read_as_postgresql_reads_them() {
        for (text, number) in [
            ("70", Some(70)),
            (" -5 ", Some(-5)),
            ("0x10", Some(16)),
            ("010", Some(8)),
            ("2.5", Some(2)),
            ("-1e3", Some(-1000)),
            ("2147483647", Some(i32::MAX)),
            ("2147483648", None),
            ("1e10", None),
            ("", None),
            ("x", None),
            ("5kB", None),
            ("inf", None),
            ("--5", None),
        ] {
            assert_eq!(integer(text), number, "{text}");
        }
        for (text, value) in
            [("tr", Some(true)), ("N", Some(false)), ("of", Some(false)), ("o", None), ("", None)]
        {
            assert_eq!(boolean(text), value, "{text}");
        }
    }

    #[test]
    fn parameters_are_stored_as_they_were_given() {
        let parameter = |text: &str| {
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (text, None),
            };
            let (namespace, name) = match name.split_once('.') {
                Some((namespace, name)) => (Some(namespace.to_owned()), name),
                None => (None, name),
            };
            StorageParameter { namespace, name: name.to_owned(), value }
        };
        let stored = |given: &[&str]| {
            let given: Vec<StorageParameter> = given.iter().map(|text| parameter(text)).collect();
            storage_texts(&given).map_err(|e| e.to_string())
        };
        let given = [
            "autovacuum_enabled",
            "oids=false",
            "fillfactor= 50",
            "log_autovacuum_min_duration=-1",
        ];
        let want = ["autovacuum_enabled=true", "fillfactor= 50", "log_autovacuum_min_duration=-1"];
        let owned =
            |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(stored(&given), Ok(owned(&want)));
        let all = stored(&["toast.autovacuum_enabled=f", "fillfactor=40"]).expect("texts");
        assert_eq!(all, owned(&["fillfactor=40", "toast.autovacuum_enabled=f"]));
        assert_eq!(of_table(&all, false), owned(&["fillfactor=40"]));
        assert_eq!(of_table(&all, true), owned(&["autovacuum_enabled=f"]));
        for (given, message) in [
            (&["toast.fillfactor=70"][..], "unrecognized parameter \"fillfactor\""),
            (
                &["user_catalog_table=true"],
                "storage parameter \"user_catalog_table\" is not supported",
            ),
            (
                &["parallel_workers=2", "fillfactor=1"],
                "value 1 out of bounds for option \"fillfactor\"",
            ),
        ] {
            assert_eq!(stored(given), Err(message.to_owned()));
        }
    }
}
