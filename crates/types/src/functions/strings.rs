//! Functions of texts that do not depend on a collation. Positions and lengths are in characters.

use std::borrow::Cow;

use crate::encoding::Encoding;
use crate::error::{Result, ValueError};
use crate::length::{HEADER, MAX_ALLOC, push_repeated};

/// Bytes of the longest character in UTF-8.
const MAX_CHAR: usize = 4;

/// The error of a result of more than 1 GB.
fn too_long() -> ValueError {
    ValueError::new("54000", "requested length too large")
}

/// A text with room for so many bytes, within the limit.
fn with_room(bytes: usize) -> Result<String> {
    if bytes >= MAX_ALLOC - 4 {
        return Err(too_long());
    }
    crate::length::text_of(bytes)
}

/// Where a character of this number begins; the end, if there are fewer.
fn offset(text: &str, chars: usize) -> usize {
    if text.is_ascii() {
        return chars.min(text.len());
    }
    text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at)
}

/// `length(text)`
pub fn length(text: &str) -> i32 {
    text.chars().count() as i32
}

/// `substr(text, from [, count])`: positions before the first count too.
pub fn substr(text: &str, from: i32, count: Option<i32>) -> Result<&str> {
    let from = i64::from(from);
    let end = match count {
        Some(count) if count < 0 => {
            return Err(ValueError::new("22011", "negative substring length not allowed"));
        }
        Some(count) => from + i64::from(count),
        None => i64::MAX,
    };
    let (start, end) = (from.max(1), end.max(1));
    if end <= start {
        return Ok("");
    }
    let rest = text.get(offset(text, (start - 1) as usize)..).unwrap_or_default();
    let len = usize::try_from(end - start).unwrap_or(usize::MAX);
    Ok(rest.get(..offset(rest, len)).unwrap_or(rest))
}

/// `left(text, n)`: without the last ones, if negative.
pub fn left(text: &str, n: i32) -> &str {
    let chars = if n >= 0 { i64::from(n) } else { (i64::from(length(text)) + i64::from(n)).max(0) };
    text.get(..offset(text, chars as usize)).unwrap_or(text)
}

/// `right(text, n)`: without the first ones, if negative. As in PostgreSQL, the least number stays
/// what it is without its sign, and skips none.
pub fn right(text: &str, n: i32) -> &str {
    let skip = if n >= 0 { length(text).saturating_sub(n) } else { n.wrapping_neg() }.max(0);
    text.get(offset(text, skip as usize)..).unwrap_or_default()
}

/// `strpos(text, part)`: 0, if it is not there.
pub fn strpos(text: &str, part: &str) -> i32 {
    text.find(part).map_or(0, |at| text.get(..at).map_or(0, length) + 1)
}

/// `repeat(text, n)`
pub fn repeat(text: &str, n: i32) -> Result<String> {
    let n = usize::try_from(n).unwrap_or(0);
    let bytes = text.len().checked_mul(n).ok_or_else(too_long)?;
    let mut out = with_room(bytes)?;
    push_repeated(&mut out, text, n);
    Ok(out)
}

/// `reverse(text)`
pub fn reverse(text: &str) -> String {
    text.chars().rev().collect()
}

/// `replace(text, from, to)`
pub fn replace<'a>(text: &'a str, from: &str, to: &str) -> Result<Cow<'a, str>> {
    if from.is_empty() {
        return Ok(Cow::Borrowed(text));
    }
    let found = text.matches(from).count();
    if found == 0 {
        return Ok(Cow::Borrowed(text));
    }
    let added = found.checked_mul(to.len()).ok_or_else(too_long)?;
    let mut out = with_room(text.len() - found * from.len() + added)?;
    for (n, part) in text.split(from).enumerate() {
        if n > 0 {
            out.push_str(to);
        }
        out.push_str(part);
    }
    Ok(Cow::Owned(out))
}

/// `translate(text, from, to)`: each character by the one at its place, or left out.
pub fn translate(text: &str, from: &str, to: &str) -> String {
    let to: Vec<char> = to.chars().collect();
    let map = |c: char| match from.chars().position(|f| f == c) {
        Some(at) => to.get(at).copied(),
        None => Some(c),
    };
    text.chars().filter_map(map).collect()
}

/// The fill of a padded text: so many characters of a repeated text.
fn fill(with: &str, chars: usize) -> Result<String> {
    let most = with.chars().map(char::len_utf8).max().unwrap_or(0);
    let mut out = with_room(chars.checked_mul(most).ok_or_else(too_long)?)?;
    let each = with.chars().count().max(1);
    push_repeated(&mut out, with, chars / each);
    out.push_str(with.get(..offset(with, chars % each)).unwrap_or_default());
    Ok(out)
}

/// `lpad(text, len, fill)`
pub fn lpad(text: &str, len: i32, with: &str) -> Result<String> {
    let (text, missing) = padding(text, len, with)?;
    Ok(fill(with, missing)? + text)
}

/// `rpad(text, len, fill)`
pub fn rpad(text: &str, len: i32, with: &str) -> Result<String> {
    let (text, missing) = padding(text, len, with)?;
    Ok(text.to_owned() + &fill(with, missing)?)
}

/// The text cut to a length, and the characters that are missing. As in PostgreSQL, there must be
/// room for the longest characters.
fn padding<'a>(text: &'a str, len: i32, with: &str) -> Result<(&'a str, usize)> {
    let len = usize::try_from(len).unwrap_or(0);
    let chars = text.chars().count();
    let padded = if with.is_empty() { chars.min(len) } else { len };
    if padded * MAX_CHAR + HEADER > MAX_ALLOC {
        return Err(too_long());
    }
    if with.is_empty() || chars >= len {
        return Ok((text.get(..offset(text, len)).unwrap_or(text), 0));
    }
    Ok((text, len - chars))
}

/// `ltrim(text, characters)`
pub fn ltrim<'a>(text: &'a str, characters: &str) -> &'a str {
    text.trim_start_matches(|c| characters.contains(c))
}

/// `rtrim(text, characters)`
pub fn rtrim<'a>(text: &'a str, characters: &str) -> &'a str {
    text.trim_end_matches(|c| characters.contains(c))
}

/// `btrim(text, characters)`
pub fn btrim<'a>(text: &'a str, characters: &str) -> &'a str {
    ltrim(rtrim(text, characters), characters)
}

/// `split_part(text, delimiter, n)`: counted from the end, if negative.
pub fn split_part<'a>(text: &'a str, delimiter: &str, n: i32) -> Result<&'a str> {
    if n == 0 {
        return Err(ValueError::new("22023", "field position must not be zero"));
    }
    if delimiter.is_empty() {
        return Ok(if matches!(n, 1 | -1) { text } else { "" });
    }
    let at = n.unsigned_abs() as usize - 1;
    let part = if n > 0 { text.split(delimiter).nth(at) } else { text.rsplit(delimiter).nth(at) };
    Ok(part.unwrap_or_default())
}

/// `ascii(text)`: the first character's number.
pub fn ascii(text: &str) -> i32 {
    text.chars().next().map_or(0, |c| c as i32)
}

/// `chr(n)`
pub fn chr(n: i32, encoding: Encoding) -> Result<String> {
    let fails = |message: String| Err(ValueError::new("54000", message));
    if n < 0 {
        return Err(ValueError::new("22023", "character number must be positive"));
    }
    if n == 0 {
        return fails("null character not permitted".to_owned());
    }
    if encoding == Encoding::SqlAscii && n > 255 {
        return fails(format!("requested character too large for encoding: {n}"));
    }
    match char::from_u32(n as u32) {
        Some(c) => Ok(c.to_string()),
        None if n > 0x0010_ffff => {
            fails(format!("requested character too large for encoding: {n}"))
        }
        None => fails(format!("requested character not valid for encoding: {n}")),
    }
}

/// `starts_with(text, part)`
pub fn starts_with(text: &str, part: &str) -> bool {
    text.starts_with(part)
}

/// `overlay(text placing part from at [for count])`
pub fn overlay(text: &str, part: &str, at: i32, count: Option<i32>) -> Result<String> {
    let count = count.unwrap_or_else(|| length(part));
    if at <= 0 {
        return Err(ValueError::new("22011", "negative substring length not allowed"));
    }
    let behind =
        at.checked_add(count).ok_or_else(|| ValueError::new("22003", "integer out of range"))?;
    let (before, after) = (substr(text, 1, Some(at - 1))?, substr(text, behind, None)?);
    Ok([before, part, after].concat())
}

/// `to_hex(n)` of the bits of a number.
pub fn to_hex(n: u64) -> String {
    format!("{n:x}")
}

/// `to_bin(n)`
pub fn to_bin(n: u64) -> String {
    format!("{n:b}")
}

/// `to_oct(n)`
pub fn to_oct(n: u64) -> String {
    format!("{n:o}")
}

/// `concat_ws(separator, ...)` of texts that are not NULL.
pub fn concat_ws<'a>(separator: &str, parts: impl Iterator<Item = &'a str>) -> Result<String> {
    let mut out = String::new();
    for (n, part) in parts.enumerate() {
        if out.len() + separator.len() + part.len() >= MAX_ALLOC - 4 {
            return Err(too_long());
        }
        if n > 0 {
            out.push_str(separator);
        }
        out.push_str(part);
    }
    Ok(out)
}

/// `quote_ident(text)`: in quotation marks, if it is not a plain word. `is_keyword`: whether the
/// parser takes a word for itself.
pub fn quote_ident(text: &str, is_keyword: impl Fn(&str) -> bool) -> Cow<'_, str> {
    let plain =
        |n: usize, c: char| c.is_ascii_lowercase() || c == '_' || n > 0 && (c.is_ascii_digit());
    let is_plain = !text.is_empty() && text.chars().enumerate().all(|(n, c)| plain(n, c));
    if is_plain && !is_keyword(text) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")))
}

/// `quote_literal(text)`
pub fn quote_literal(text: &str) -> String {
    let escape = if text.contains('\\') { "E" } else { "" };
    format!("{escape}'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// `initcap`, `upper` and `lower` under the collation C: only ASCII letters change.
pub fn initcap_c(text: &str) -> String {
    let mut inside = false;
    let map = |c: char| {
        let mapped = if inside { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() };
        inside = c.is_ascii_alphanumeric();
        mapped
    };
    text.chars().map(map).collect()
}

/// `string LIKE pattern`: `%` stands for any characters, `_` for one; the escape character takes
/// away their meaning. `fold`: ASCII letters are the same in either case.
pub fn like(text: &str, pattern: &str, escape: Option<char>, fold: bool) -> Result<bool> {
    #[derive(PartialEq)]
    enum Piece {
        Any,
        One,
        Just(char),
        /// The escape character, and nothing behind it.
        Unfinished,
    }
    let (mut pieces, mut chars) = (Vec::new(), pattern.chars());
    while let Some(c) = chars.next() {
        pieces.push(if Some(c) == escape {
            chars.next().map_or(Piece::Unfinished, Piece::Just)
        } else {
            match c {
                '%' => Piece::Any,
                '_' => Piece::One,
                c => Piece::Just(c),
            }
        });
    }
    let text: Vec<char> = text.chars().collect();
    let same = |a: char, b: char| a == b || fold && a.eq_ignore_ascii_case(&b);
    // Where the last `%` was, and where the text behind it began.
    let (mut at, mut piece, mut back) = (0, 0, None);
    while at < text.len() {
        match pieces.get(piece) {
            Some(Piece::Any) => {
                piece += 1;
                back = Some((piece, at));
                continue;
            }
            Some(Piece::One) => {}
            Some(Piece::Unfinished) => {
                let message = "LIKE pattern must not end with escape character";
                return Err(ValueError::new("22025", message));
            }
            Some(Piece::Just(c)) if same(*c, text[at]) => {}
            _ => match back {
                Some((behind, from)) => {
                    back = Some((behind, from + 1));
                    (piece, at) = (behind, from + 1);
                    continue;
                }
                None => return Ok(false),
            },
        }
        at += 1;
        piece += 1;
    }
    Ok(pieces.get(piece..).unwrap_or_default().iter().all(|piece| *piece == Piece::Any))
}
