//! Functions of json and jsonb.

use std::borrow::Cow;

use crate::array::Array;
use crate::datum::Datum;
use crate::encoding::Encoding;
use crate::error::{Result, ValueError};
use crate::json::value::write_string;
use crate::json::{Json, Kind, Node, parse};
use crate::numeric::Numeric;
use crate::output::to_text_as;
use crate::sqltype::SqlType;
use crate::style::{DateFormat, TextStyle};
use crate::text_order::by_bytes;

/// The number of an element, counted from the end if negative.
fn index(len: usize, n: i32) -> Option<usize> {
    if n >= 0 {
        return Some(n as usize).filter(|n| *n < len);
    }
    len.checked_sub(n.unsigned_abs() as usize)
}

/// A step of a path as an index.
fn step_index(step: &str) -> Option<i32> {
    step.parse().ok()
}

impl Json {
    /// `jsonb -> key`
    pub fn field(&self, key: &str) -> Option<&Json> {
        let Json::Object(pairs) = self else { return None };
        pairs.iter().find(|(k, _)| k == key).map(|(_, value)| value)
    }

    /// `jsonb -> n`; a scalar is an array of one.
    pub fn item(&self, n: i32) -> Option<&Json> {
        match self {
            Json::Array(items) => items.get(index(items.len(), n)?),
            Json::Object(_) => None,
            scalar => index(1, n).map(|_| scalar),
        }
    }

    /// `jsonb #> path`
    pub fn path<'j>(&'j self, path: &[&str]) -> Option<&'j Json> {
        path.iter().try_fold(self, |json, step| match json {
            Json::Array(_) => json.item(step_index(step)?),
            _ => json.field(step),
        })
    }

    /// The text that `->>` gives: of a string itself; None of null.
    pub fn as_text(&self) -> Option<Cow<'_, str>> {
        match self {
            Json::Null => None,
            Json::String(text) => Some(Cow::Borrowed(text)),
            other => Some(Cow::Owned(other.to_text())),
        }
    }

    /// `jsonb ? key`: a key of an object, a string in an array, or the string itself.
    pub fn has_key(&self, key: &str) -> bool {
        let is = |json: &Json| matches!(json, Json::String(text) if text == key);
        match self {
            Json::Object(_) => self.field(key).is_some(),
            Json::Array(items) => items.iter().any(is),
            other => is(other),
        }
    }

    /// `a @> b`
    pub fn contains(&self, other: &Json) -> bool {
        let scalar = |json: &Json| !matches!(json, Json::Array(_) | Json::Object(_));
        match (self, other) {
            // An array has a scalar of its own.
            (Json::Array(items), b) if scalar(b) => items.iter().any(|item| equal(item, b)),
            (a, b) => within(a, b),
        }
    }

    /// `jsonb_array_length`
    pub fn array_length(&self) -> Result<i32> {
        match self {
            Json::Array(items) => Ok(items.len() as i32),
            Json::Object(_) => Err(wrong("cannot get array length of a non-array")),
            _ => Err(wrong("cannot get array length of a scalar")),
        }
    }

    /// `jsonb_object_keys`
    pub fn object_keys(&self) -> Result<impl Iterator<Item = &str>> {
        Ok(self.pairs("jsonb_object_keys")?.iter().map(|(key, _)| key.as_str()))
    }

    /// The pairs of an object, for a function of this name.
    pub fn pairs(&self, function: &str) -> Result<&[(String, Json)]> {
        match self {
            Json::Object(pairs) => Ok(pairs),
            Json::Array(_) => Err(wrong(&format!("cannot call {function} on an array"))),
            _ => Err(wrong(&format!("cannot call {function} on a scalar"))),
        }
    }

    /// The elements of an array: `jsonb_array_elements`.
    pub fn elements(&self) -> Result<&[Json]> {
        match self {
            Json::Array(items) => Ok(items),
            Json::Object(_) => Err(wrong("cannot extract elements from an object")),
            _ => Err(wrong("cannot extract elements from a scalar")),
        }
    }

    /// `a || b`
    pub fn concat(self, other: Json) -> Result<Json> {
        let list = |json| match json {
            Json::Array(items) => items,
            other => vec![other],
        };
        Ok(match (self, other) {
            (Json::Object(mut a), Json::Object(b)) => {
                a.extend(b);
                Json::object(a)
            }
            (a, b) => {
                let mut items = list(a);
                items.extend(list(b));
                Json::Array(items)
            }
        })
    }

    /// `jsonb - key`
    pub fn without_key(self, key: &str) -> Result<Json> {
        match self {
            Json::Object(mut pairs) => {
                pairs.retain(|(k, _)| k != key);
                Ok(Json::Object(pairs))
            }
            Json::Array(mut items) => {
                items.retain(|item| !matches!(item, Json::String(text) if text == key));
                Ok(Json::Array(items))
            }
            _ => Err(wrong("cannot delete from scalar")),
        }
    }

    /// `jsonb - n`
    pub fn without_item(self, n: i32) -> Result<Json> {
        match self {
            Json::Array(mut items) => {
                if let Some(at) = index(items.len(), n) {
                    items.remove(at);
                }
                Ok(Json::Array(items))
            }
            Json::Object(_) => Err(wrong("cannot delete from object using integer index")),
            _ => Err(wrong("cannot delete from scalar")),
        }
    }

    /// `jsonb_strip_nulls`
    pub fn strip_nulls(self, in_arrays: bool) -> Json {
        match self {
            Json::Object(pairs) => {
                let kept = pairs.into_iter().filter(|(_, value)| *value != Json::Null);
                let strip = |(key, value): (String, Json)| (key, value.strip_nulls(in_arrays));
                Json::Object(kept.map(strip).collect())
            }
            Json::Array(items) => {
                let kept = items.into_iter().filter(|item| !in_arrays || *item != Json::Null);
                Json::Array(kept.map(|item| item.strip_nulls(in_arrays)).collect())
            }
            other => other,
        }
    }
}

fn wrong(message: &str) -> ValueError {
    ValueError::new("22023", message)
}

fn equal(a: &Json, b: &Json) -> bool {
    a.order(b, &by_bytes).is_eq()
}

fn within(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Object(_), Json::Object(pairs)) => {
            pairs.iter().all(|(key, value)| a.field(key).is_some_and(|found| within(found, value)))
        }
        (Json::Array(items), Json::Array(wanted)) => {
            wanted.iter().all(|w| items.iter().any(|item| within(item, w)))
        }
        (Json::Array(_) | Json::Object(_), _) | (_, Json::Array(_) | Json::Object(_)) => false,
        (a, b) => equal(a, b),
    }
}

/// The value at a path of a json text: its text as it stands there. None: there is none.
pub fn json_path<'t>(text: &'t str, path: &[&str], encoding: Encoding) -> Result<Option<Node<'t>>> {
    let mut node = parse(text, Some(encoding))?;
    for step in path {
        let found = match node.kind {
            Kind::Array(mut items) => {
                let at = step_index(step).and_then(|n| index(items.len(), n));
                at.map(|at| items.swap_remove(at))
            }
            // Of pairs with the same key the last one counts.
            Kind::Object(pairs) => {
                pairs.into_iter().rev().find(|(key, _)| key == step).map(|(_, node)| node)
            }
            _ => None,
        };
        match found {
            Some(found) => node = found,
            None => return Ok(None),
        }
    }
    Ok(Some(node))
}

/// The text that `->>` gives of a value in a json text.
pub fn node_text<'t>(node: &Node<'t>) -> Option<Cow<'t, str>> {
    match &node.kind {
        Kind::Null => None,
        Kind::String(text) => Some(Cow::Owned(text.clone())),
        _ => Some(Cow::Borrowed(node.text)),
    }
}

/// `json_typeof`
pub fn node_type(node: &Node<'_>) -> &'static str {
    match node.kind {
        Kind::Null => "null",
        Kind::Bool(_) => "boolean",
        Kind::Number => "number",
        Kind::String(_) => "string",
        Kind::Array(_) => "array",
        Kind::Object(_) => "object",
    }
}

/// `to_json(value)`: its JSON text.
pub fn to_json(value: &Datum<'_>, ty: SqlType, style: &TextStyle<'_>) -> Result<String> {
    let mut out = String::new();
    write_json(value, ty, style, &mut out)?;
    Ok(out)
}

/// Appends a value as JSON.
pub fn write_json(
    value: &Datum<'_>,
    ty: SqlType,
    style: &TextStyle<'_>,
    out: &mut String,
) -> Result<()> {
    match value {
        Datum::Null => out.push_str("null"),
        Datum::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Datum::Array(array) if !matches!(ty, SqlType::Int2Vector | SqlType::OidVector) => {
            write_array(array, style, out)?;
        }
        Datum::Text(text) if ty == SqlType::Json => out.push_str(text),
        Datum::Jsonb(bytes) => out.push_str(&Json::read_stored(bytes)?.to_text()),
        Datum::Int2(_)
        | Datum::Int4(_)
        | Datum::Int8(_)
        | Datum::Float4(_)
        | Datum::Float8(_)
        | Datum::Numeric(_) => {
            let text = to_text_as(value, ty, style)?;
            // Neither infinities nor NaN are numbers of JSON.
            if text.ends_with(|c: char| c.is_ascii_digit()) {
                out.push_str(&text);
            } else {
                write_string(&text, out);
            }
        }
        Datum::Date(_) | Datum::Timestamp(_) | Datum::Timestamptz(_) => {
            let xsd = TextStyle { date_format: DateFormat::Xsd, ..style.clone() };
            write_string(&to_text_as(value, ty, &xsd)?, out);
        }
        other => write_string(&to_text_as(other, ty, style)?, out),
    }
    Ok(())
}

fn write_array(array: &Array<'_>, style: &TextStyle<'_>, out: &mut String) -> Result<()> {
    let shape = array.shape()?;
    let ty = SqlType::of(shape.element);
    if shape.count == 0 {
        out.push_str("[]");
        return Ok(());
    }
    for (n, value) in shape.values()?.enumerate() {
        // How many dimensions begin with this element.
        let mut size = 1;
        let begun = shape.dims.iter().rev().take_while(|dim| {
            size *= dim.len as usize;
            n % size.max(1) == 0
        });
        let begun = begun.count();
        if n > 0 {
            out.extend(std::iter::repeat_n(']', begun));
            out.push(',');
        }
        out.extend(std::iter::repeat_n('[', begun));
        write_json(&value?, ty, style, out)?;
    }
    out.extend(std::iter::repeat_n(']', shape.dims.len()));
    Ok(())
}

/// `to_jsonb(value)`
pub fn to_jsonb(value: &Datum<'_>, ty: SqlType, style: &TextStyle<'_>) -> Result<Json> {
    Ok(match value {
        Datum::Numeric(number) if matches!(**number, Numeric::Finite { .. }) => {
            Json::Number((**number).clone())
        }
        Datum::Jsonb(bytes) => Json::read_stored(bytes)?,
        other => Json::parse(&to_json(other, ty, style)?, style.encoding)?,
    })
}
