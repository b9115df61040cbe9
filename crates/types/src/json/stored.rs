//! The stored form of jsonb.
//!
//! ```text
//!   container:  flags (4 bits), count (28 bits) | entries of 4 bytes | data
//!   entry:      has an offset (1 bit), kind (3 bits), length or offset of the end (28 bits)
//! ```
//!
//! An object has an entry for each key and then for each value. Of every 32nd entry the offset of
//! its end is stored, of the others the length. Numbers and containers begin at multiples of four
//! bytes; what fills up belongs to their length. A scalar is an array of one with a flag.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::error::{Problem, Result, ValueError};
use crate::numeric::Numeric;

use super::parse::{MAX_DEPTH, too_deep};
use super::value::Json;

const COUNT: u32 = 0x0fff_ffff;
const SCALAR: u32 = 0x1000_0000;
const OBJECT: u32 = 0x2000_0000;
const ARRAY: u32 = 0x4000_0000;

const LENGTH: u32 = 0x0fff_ffff;
const KIND: u32 = 0x7000_0000;
const HAS_OFFSET: u32 = 0x8000_0000;
const STRING: u32 = 0;
const NUMBER: u32 = 0x1000_0000;
const FALSE: u32 = 0x2000_0000;
const TRUE: u32 = 0x3000_0000;
const NULL: u32 = 0x4000_0000;
const CONTAINER: u32 = 0x5000_0000;

/// Entries from one offset to the next.
const STRIDE: usize = 32;
const WORD: usize = 4;

impl Json {
    /// The stored form behind the length word.
    pub fn to_stored(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        match self {
            Json::Array(_) | Json::Object(_) => {
                write_container(self, &mut out)?;
            }
            scalar => write_items(ARRAY | SCALAR, 1, std::iter::once(scalar), &[], &mut out)?,
        }
        Ok(out)
    }

    /// Reads the stored form.
    pub fn read_stored(bytes: &[u8]) -> Result<Json> {
        let damaged = || Problem::StoredLength { len: bytes.len(), expected: WORD };
        let header = word(bytes, 0).ok_or_else(damaged)?;
        let json = read_container(bytes, 0)?.ok_or_else(damaged)?;
        match (header & SCALAR != 0, json) {
            (true, Json::Array(mut items)) => Ok(items.pop().ok_or_else(damaged)?),
            (true, _) => Err(damaged().into()),
            (false, json) => Ok(json),
        }
    }
}

fn write_container(json: &Json, out: &mut Vec<u8>) -> Result<()> {
    match json {
        Json::Array(items) => write_items(ARRAY, items.len(), items.iter(), &[], out),
        Json::Object(pairs) => {
            let keys: Vec<&str> = pairs.iter().map(|(key, _)| key.as_str()).collect();
            write_items(OBJECT, pairs.len(), pairs.iter().map(|(_, value)| value), &keys, out)
        }
        _ => unreachable!("a scalar is no container"),
    }
}

fn too_large(what: &str) -> ValueError {
    let message =
        format!("total size of jsonb {what} elements exceeds the maximum of {LENGTH} bytes");
    ValueError::new("54000", message)
}

fn write_items<'j>(
    flags: u32,
    count: usize,
    values: impl Iterator<Item = &'j Json>,
    keys: &[&str],
    out: &mut Vec<u8>,
) -> Result<()> {
    let what = if flags & OBJECT != 0 { "object" } else { "array" };
    let header = u32::try_from(count).ok().filter(|n| *n <= COUNT).ok_or_else(|| {
        let kind = if flags & OBJECT != 0 { "object pairs" } else { "array elements" };
        ValueError::new(
            "54000",
            format!("number of jsonb {kind} exceeds the maximum allowed ({COUNT})"),
        )
    })?;
    out.extend_from_slice(&(flags | header).to_le_bytes());
    let entries = out.len();
    let total = count + keys.len();
    out.resize(entries + total * WORD, 0);
    let data = out.len();
    let mut n = 0;
    let mut entry = |kind: u32, len: usize, out: &mut Vec<u8>| {
        let end = out.len() - data;
        if end > LENGTH as usize {
            return Err(too_large(what));
        }
        let field = if n % STRIDE == 0 { HAS_OFFSET | end as u32 } else { len as u32 };
        let at = entries + n * WORD;
        if let Some(place) = out.get_mut(at..at + WORD) {
            place.copy_from_slice(&(kind | field).to_le_bytes());
        }
        n += 1;
        Ok(())
    };
    for key in keys {
        out.extend_from_slice(key.as_bytes());
        entry(STRING, key.len(), out)?;
    }
    for value in values {
        let start = out.len();
        let kind = write_value(value, out)?;
        let len = out.len() - start;
        entry(kind, len, out)?;
    }
    Ok(())
}

fn write_value(value: &Json, out: &mut Vec<u8>) -> Result<u32> {
    Ok(match value {
        Json::Null => NULL,
        Json::Bool(true) => TRUE,
        Json::Bool(false) => FALSE,
        Json::String(text) => {
            if text.len() > LENGTH as usize {
                let error =
                    ValueError::new("54000", "string too long to represent as jsonb string");
                let detail = format!(
                    "Due to an implementation restriction, jsonb strings cannot exceed {LENGTH} \
                     bytes."
                );
                return Err(error.with_detail(detail));
            }
            out.extend_from_slice(text.as_bytes());
            STRING
        }
        Json::Number(number) => {
            out.resize(out.len().next_multiple_of(WORD), 0);
            let stored = number.to_stored();
            out.extend_from_slice(&(((stored.len() + WORD) as u32) << 2).to_le_bytes());
            out.extend_from_slice(&stored);
            NUMBER
        }
        container => {
            out.resize(out.len().next_multiple_of(WORD), 0);
            write_container(container, out)?;
            CONTAINER
        }
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// None: the bytes are no jsonb.
fn read_container(bytes: &[u8], depth: usize) -> Result<Option<Json>> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    let Some(header) = word(bytes, 0) else { return Ok(None) };
    let count = (header & COUNT) as usize;
    let is_object = header & OBJECT != 0;
    if !is_object && header & ARRAY == 0 {
        return Ok(None);
    }
    let total = if is_object { count.saturating_mul(2) } else { count };
    let Some(data) = total.checked_mul(WORD).and_then(|n| bytes.get(n + WORD..)) else {
        return Ok(None);
    };
    let (mut items, mut start) = (Vec::new(), 0_usize);
    for n in 0..total {
        let Some(entry) = word(bytes, WORD + n * WORD) else { return Ok(None) };
        let field = (entry & LENGTH) as usize;
        let end = if entry & HAS_OFFSET != 0 { field } else { start + field };
        let Some(item) = read_value(entry & KIND, data, start, end, depth)? else {
            return Ok(None);
        };
        items.push(item);
        start = end;
    }
    if !is_object {
        return Ok(Some(Json::Array(items)));
    }
    let values = items.split_off(count);
    let mut pairs = Vec::with_capacity(count);
    for (key, value) in items.into_iter().zip(values) {
        let Json::String(key) = key else { return Ok(None) };
        pairs.push((key, value));
    }
    Ok(Some(Json::Object(pairs)))
}

fn read_value(
    kind: u32,
    data: &[u8],
    start: usize,
    end: usize,
    depth: usize,
) -> Result<Option<Json>> {
    let aligned = || data.get(start.next_multiple_of(WORD)..end);
    Ok(match kind {
        NULL => Some(Json::Null),
        TRUE => Some(Json::Bool(true)),
        FALSE => Some(Json::Bool(false)),
        STRING => data
            .get(start..end)
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .map(|text| Json::String(text.to_owned())),
        NUMBER => aligned().and_then(|bytes| {
            // A length word of four bytes, or of one.
            let number = match bytes.first()? {
                short if short & 1 == 1 => bytes.get(1..)?,
                _ => bytes.get(WORD..)?,
            };
            Numeric::read_stored(number).map(Json::Number)
        }),
        CONTAINER => match aligned() {
            Some(bytes) => read_container(bytes, depth + 1)?,
            None => None,
        },
        _ => None,
    })
}
