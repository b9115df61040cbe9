//! What PostgreSQL's check hooks do: canonical spellings, and values this server can't honour. A
//! check returns the value to keep, or the DETAIL of the refusal.

use super::value::Value;
use forebay_engine::archive::store::codec::Compression;
use forebay_engine::archive::store::layout::LayoutKind;
use forebay_engine::types::Zone;
use forebay_engine::{IoDirectSetting, Lsn, identifier_list, parse_timestamp};

/// A check of a parsed value.
pub type Check = fn(Value) -> Result<Value, String>;

fn text(value: Value) -> String {
    match value {
        Value::Text(s) => s,
        other => other.raw(),
    }
}

/// Accepts a value if it is good, else refuses it with the detail.
fn only(good: bool, value: Value, detail: &str) -> Result<Value, String> {
    if good { Ok(value) } else { Err(detail.to_owned()) }
}

/// fsync: on.
pub fn fsync(value: Value) -> Result<Value, String> {
    let why = "Nothing is acknowledged here before it is durable.";
    only(value == Value::Bool(true), value, why)
}

/// A boolean that can only be on.
pub fn always_on(value: Value) -> Result<Value, String> {
    only(value == Value::Bool(true), value, "Only \"on\" is supported.")
}

/// A boolean that can only be off.
pub fn always_off(value: Value) -> Result<Value, String> {
    only(value == Value::Bool(false), value, "Only \"off\" is supported.")
}

/// A timeout that can only be disabled.
pub fn disabled(value: Value) -> Result<Value, String> {
    let why = "Only 0, which disables the timeout, is supported.";
    only(value == Value::Int(0), value, why)
}

/// Isolation levels: those that this server has.
pub fn isolation(value: Value) -> Result<Value, String> {
    let good = value != Value::Text("serializable".to_owned());
    only(good, value, "Serializable transactions are not supported.")
}

/// wal_compression: `on` is pglz.
pub fn wal_compression(value: Value) -> Result<Value, String> {
    Ok(if value == Value::Text("on".to_owned()) { Value::Text("pglz".to_owned()) } else { value })
}

/// io_max_concurrency: -1, or at least 1.
pub fn not_zero(value: Value) -> Result<Value, String> {
    only(value != Value::Int(0), value, "Only -1 or values greater than 0 are valid.")
}

/// vacuum_buffer_usage_limit: 0, or at least 128 kB.
pub fn buffer_usage_limit(value: Value) -> Result<Value, String> {
    let good = matches!(value, Value::Int(0 | 128..));
    let why = "\"vacuum_buffer_usage_limit\" must be 0 or between 128 kB and 16777216 kB.";
    only(good, value, why)
}

/// Accepts a text that is empty or passes a test, else refuses it with the detail.
fn empty_or(value: Value, good: impl Fn(&str) -> bool, detail: &str) -> Result<Value, String> {
    let value = text(value);
    if value.is_empty() || good(&value) { Ok(Value::Text(value)) } else { Err(detail.to_owned()) }
}

/// basic_archive.archive_directory and the like: an absolute path.
pub fn absolute_path(value: Value) -> Result<Value, String> {
    empty_or(value, |path| path.starts_with('/'), "The path must be absolute.")
}

/// forebay_archive.location.
pub fn archive_location(value: Value) -> Result<Value, String> {
    let good = |place: &str| place.starts_with('/') || place.contains("://");
    empty_or(value, good, "It must be an absolute path or a URL.")
}

/// forebay_archive.compression.
pub fn compression(value: Value) -> Result<Value, String> {
    let good = |name: &str| Compression::by_name(name).is_some();
    empty_or(value, good, "It is none, lz4, zstd or zstd:LEVEL (1 to 22).")
}

/// forebay_archive.layout.
pub fn layout(value: Value) -> Result<Value, String> {
    empty_or(value, |name| LayoutKind::by_name(name).is_some(), "It is plain or hashed.")
}

/// recovery_target: as soon as possible, or not by this.
pub fn recovery_target(value: Value) -> Result<Value, String> {
    empty_or(value, |word| word == "immediate", "The only allowed value is \"immediate\".")
}

/// recovery_target_lsn.
pub fn recovery_target_lsn(value: Value) -> Result<Value, String> {
    empty_or(value, |lsn| lsn.parse::<Lsn>().is_ok(), "It is not a WAL location.")
}

/// recovery_target_name: as long as a restore point's name may be.
pub fn recovery_target_name(value: Value) -> Result<Value, String> {
    let why = "\"recovery_target_name\" is too long (maximum 63 characters).";
    empty_or(value, |name| name.len() <= 63, why)
}

/// recovery_target_time: a time stamp.
pub fn recovery_target_time(value: Value) -> Result<Value, String> {
    empty_or(value, |time| parse_timestamp(time).is_some(), "It is not a time stamp.")
}

/// recovery_target_timeline.
pub fn recovery_target_timeline(value: Value) -> Result<Value, String> {
    let good = |word: &str| {
        ["current", "latest"].contains(&word) || word.parse::<u32>().is_ok_and(|n| n > 0)
    };
    empty_or(value, good, "\"recovery_target_timeline\" is not a valid number.")
}

/// recovery_target_xid.
pub fn recovery_target_xid(value: Value) -> Result<Value, String> {
    empty_or(
        value,
        |xid| xid.parse::<u32>().is_ok_and(|xid| xid >= 3),
        "It is not a transaction ID.",
    )
}

/// io_direct: auto, or a list of data, wal, wal_init.
pub fn io_direct(value: Value) -> Result<Value, String> {
    let direct = IoDirectSetting::parse(&text(value)).map_err(|e| e.to_string())?;
    Ok(Value::Text(direct.to_string()))
}

/// DateStyle: an output style, and the order of day and month.
pub fn date_style(value: Value) -> Result<Value, String> {
    let (mut style, mut order) = (None, None);
    for word in text(value).split(',').map(str::trim).filter(|w| !w.is_empty()) {
        match word.to_ascii_lowercase().as_str() {
            "iso" | "default" => style = Some("ISO"),
            "sql" => style = Some("SQL"),
            "german" => style = Some("German"),
            word if word.starts_with("postgres") => style = Some("Postgres"),
            "ymd" => order = Some("YMD"),
            word if word == "dmy" || word.starts_with("euro") => order = Some("DMY"),
            word if matches!(word, "mdy" | "us") || word.starts_with("noneuro") => {
                order = Some("MDY")
            }
            _ => return Err(format!("Unrecognized key word: \"{word}\".")),
        }
    }
    // Days come first where they are written so.
    let usual = if style == Some("German") { "DMY" } else { "MDY" };
    let (style, order) = (style.unwrap_or("ISO"), order.unwrap_or(usual));
    Ok(Value::Text(format!("{style}, {order}")))
}

/// client_encoding: those that need no conversion.
pub fn client_encoding(value: Value) -> Result<Value, String> {
    let name = text(value);
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    match plain.as_str() {
        "utf8" | "unicode" => Ok(Value::Text("UTF8".to_owned())),
        "sqlascii" => Ok(Value::Text("SQL_ASCII".to_owned())),
        _ => Err(format!("Conversion between {name} and UTF8 is not supported.")),
    }
}

/// TimeZone: a name of a zone.
pub fn time_zone(value: Value) -> Result<Value, String> {
    match Zone::named(&text(value)) {
        Some(zone) => Ok(Value::Text(zone.name().to_owned())),
        None => Err("It is not the name of a time zone.".to_owned()),
    }
}

/// search_path: a list of names. Those of schemas that do not exist are passed by.
pub fn search_path(value: Value) -> Result<Value, String> {
    let path = text(value);
    match identifier_list(&path) {
        Some(_) => Ok(Value::Text(path)),
        None => Err("List syntax is invalid.".to_owned()),
    }
}

/// application_name and the like: printable ASCII, at most 63 bytes.
pub fn name(value: Value) -> Result<Value, String> {
    let clean: String = text(value)
        .chars()
        .flat_map(|c| match c {
            ' '..='~' => vec![c],
            _ => c
                .to_string()
                .bytes()
                .flat_map(|b| format!("\\x{b:02x}").chars().collect::<Vec<_>>())
                .collect(),
        })
        .take(63)
        .collect();
    Ok(Value::Text(clean))
}
