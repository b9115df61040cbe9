//! JSON, written.

use std::fmt::{self, Display, Write};

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Int(u64),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

impl Json {
    pub(super) fn text(text: impl Into<String>) -> Json {
        Json::Text(text.into())
    }

    pub(super) fn list(values: impl IntoIterator<Item = Json>) -> Json {
        Json::List(values.into_iter().collect())
    }

    /// The value, or null.
    pub(super) fn maybe<T>(value: Option<T>, json: impl FnOnce(T) -> Json) -> Json {
        value.map_or(Json::Null, json)
    }
}

fn escaped(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            c if (c as u32) < 0x20 => write!(f, "\\u{:04x}", c as u32)?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

fn comma(f: &mut fmt::Formatter<'_>, n: usize) -> fmt::Result {
    if n > 0 { f.write_char(',') } else { Ok(()) }
}

impl Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(value) => write!(f, "{value}"),
            Json::Int(value) => write!(f, "{value}"),
            Json::Number(value) if value.is_finite() => write!(f, "{value}"),
            Json::Number(_) => f.write_str("null"),
            Json::Text(text) => escaped(f, text),
            Json::List(values) => {
                f.write_char('[')?;
                for (n, value) in values.iter().enumerate() {
                    comma(f, n)?;
                    write!(f, "{value}")?;
                }
                f.write_char(']')
            }
            Json::Object(fields) => {
                f.write_char('{')?;
                for (n, (name, value)) in fields.iter().enumerate() {
                    comma(f, n)?;
                    escaped(f, name)?;
                    write!(f, ":{value}")?;
                }
                f.write_char('}')
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_json_wants_them() {
        let list =
            Json::list([Json::Null, Json::Bool(true), Json::Int(u64::MAX), Json::Number(0.5)]);
        let text = Json::text("a \"b\"\\\n\u{1}é");
        let all =
            Json::Object(vec![("list", list), ("text", text), ("nan", Json::Number(f64::NAN))]);
        let expected = "{\"list\":[null,true,18446744073709551615,0.5],\"text\":\"a \\\"b\\\"\\\\\\u000a\\u0001é\",\"nan\":null}";
        assert_eq!(all.to_string(), expected);
        assert_eq!(Json::maybe(None::<u64>, Json::Int).to_string(), "null");
    }
}
