//! The tree of a jsonb, and its text.

use std::fmt::Write;

use crate::encoding::Encoding;
use crate::error::Result;
use crate::numeric::Numeric;

use super::parse::{Kind, Node, parse};

/// A value of jsonb.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants are JSON's")]
pub enum Json {
    Null,
    Bool(bool),
    Number(Numeric),
    String(String),
    Array(Vec<Json>),
    /// Pairs by the length of their keys and then by their bytes, each key once.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Reads a text of a database with an encoding.
    pub fn parse(text: &str, encoding: Encoding) -> Result<Json> {
        Json::of_node(parse(text, Some(encoding))?)?.checked(encoding)
    }

    /// Refuses (0A000) texts beyond ASCII in SQL_ASCII: the order of their keys, by the length in
    /// bytes first, would not be PostgreSQL's.
    pub fn checked(self, encoding: Encoding) -> Result<Json> {
        if encoding == Encoding::Utf8 || self.is_ascii() {
            return Ok(self);
        }
        Err(encoding.beyond_ascii("jsonb"))
    }

    /// Whether its strings and keys are of ASCII.
    pub fn is_ascii(&self) -> bool {
        match self {
            Json::Null | Json::Bool(_) | Json::Number(_) => true,
            Json::String(text) => text.is_ascii(),
            Json::Array(items) => items.iter().all(Json::is_ascii),
            Json::Object(pairs) => {
                pairs.iter().all(|(key, value)| key.is_ascii() && value.is_ascii())
            }
        }
    }

    fn of_node(node: Node<'_>) -> Result<Json> {
        Ok(match node.kind {
            Kind::Null => Json::Null,
            Kind::Bool(value) => Json::Bool(value),
            Kind::Number => {
                let number = Numeric::parse(node.text)?;
                Json::Number(number.expect("a number of JSON is a numeric"))
            }
            Kind::String(text) => Json::String(text),
            Kind::Array(items) => {
                Json::Array(items.into_iter().map(Json::of_node).collect::<Result<_>>()?)
            }
            Kind::Object(pairs) => {
                let pair = |(key, node)| Ok((key, Json::of_node(node)?));
                Json::object(pairs.into_iter().map(pair).collect::<Result<_>>()?)
            }
        })
    }

    /// An object of pairs in any order. Of pairs with the same key the last one stays.
    pub fn object(mut pairs: Vec<(String, Json)>) -> Json {
        pairs.sort_by(|(a, _), (b, _)| key_order(a, b));
        pairs.reverse();
        // The sort is stable, so the last of equal ones comes first now.
        pairs.dedup_by(|(a, _), (b, _)| a == b);
        pairs.reverse();
        Json::Object(pairs)
    }

    /// `jsonb_typeof`
    pub fn type_name(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "boolean",
            Json::Number(_) => "number",
            Json::String(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        }
    }

    /// The text form.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, None);
        out
    }

    /// The text on lines of their own with indentation: `jsonb_pretty`.
    pub fn to_pretty(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, Some(0));
        out
    }

    fn write(&self, out: &mut String, indent: Option<usize>) {
        let line = |out: &mut String, depth: usize| {
            if let Some(indent) = indent {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', 4 * (indent + depth)));
            }
        };
        let next = indent.map(|indent| indent + 1);
        let comma = if indent.is_some() { "," } else { ", " };
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(number) => {
                write!(out, "{number}").expect("a string takes any text");
            }
            Json::String(text) => write_string(text, out),
            Json::Array(items) => {
                out.push('[');
                for (n, item) in items.iter().enumerate() {
                    out.push_str(if n > 0 { comma } else { "" });
                    line(out, 1);
                    item.write(out, next);
                }
                line(out, 0);
                out.push(']');
            }
            Json::Object(pairs) => {
                out.push('{');
                for (n, (key, value)) in pairs.iter().enumerate() {
                    out.push_str(if n > 0 { comma } else { "" });
                    line(out, 1);
                    write_string(key, out);
                    out.push_str(": ");
                    value.write(out, next);
                }
                line(out, 0);
                out.push('}');
            }
        }
    }
}

/// The order of an object's keys: the shorter first, then by bytes.
pub(crate) fn key_order(a: &str, b: &str) -> std::cmp::Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

/// Appends a text in quotation marks, with what JSON wants escaped.
pub fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 32 => {
                write!(out, "\\u{:04x}", c as u32).expect("a string takes any text");
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
