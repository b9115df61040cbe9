//! Arrays of one dimension: their values are texts, as PostgreSQL's output function writes them.
//!
//! Arrays of several dimensions, and those that do not begin at 1, are refused by name.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::iter::Peekable;
use std::str::Chars;

use crate::digits::is_space;
use crate::error::{Problem, Result, ValueError};
use crate::facts::type_name;
use crate::sqltype::SqlType;

impl SqlType {
    /// The type of the elements, if this is a type of arrays.
    pub fn element(self) -> Option<SqlType> {
        let info = self.info();
        (info.elem != 0 && info.category == b'A' && info.name.starts_with('_'))
            .then(|| SqlType::of(info.elem))
    }

    /// The type of arrays of this type, if SQL understands it.
    pub fn array(self) -> Option<SqlType> {
        SqlType::from_oid(self.info().array)
    }
}

/// Writes the text form of an array, of the texts of its elements.
pub(crate) fn join(elements: &[Option<String>]) -> String {
    let mut out = "{".to_owned();
    for (n, text) in elements.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        let Some(text) = text else {
            out.push_str("NULL");
            continue;
        };
        let special = |c: char| c.is_ascii() && is_space(c as u8) || "{},\"\\".contains(c);
        if !text.is_empty() && !text.eq_ignore_ascii_case("null") && !text.contains(special) {
            out.push_str(text);
            continue;
        }
        out.push('"');
        for c in text.chars() {
            if matches!(c, '"' | '\\') {
                out.push('\\');
            }
            out.push(c);
        }
        out.push('"');
    }
    out.push('}');
    out
}

/// The elements in the protocol's binary form of an array.
pub(crate) fn split_binary(bytes: &[u8], element: SqlType) -> Result<Vec<Option<&[u8]>>> {
    let mut rest = bytes;
    let dimensions = number(&mut rest)?;
    let _has_nulls = number(&mut rest)?;
    let of = number(&mut rest)? as u32;
    if of != element.oid() {
        let (found, expected, ty) = (type_name(of), element.oid(), element.sql_name());
        return Err(Problem::ArrayElements { of, found, expected, ty }.into());
    }
    let length = match dimensions {
        0 => 0,
        1 => {
            let length = number(&mut rest)?;
            match number(&mut rest)? {
                1 => length,
                _ => return Err(ValueError::carried("a lower bound", element.oid())),
            }
        }
        _ => return Err(ValueError::carried("several dimensions", element.oid())),
    };
    let mut elements = Vec::new();
    for _ in 0..length {
        elements.push(match number(&mut rest)? {
            -1 => None,
            size => {
                let size = usize::try_from(size).map_err(|_| Problem::BinaryTooShort)?;
                let (value, behind) = rest.split_at_checked(size).ok_or(Problem::BinaryTooShort)?;
                rest = behind;
                Some(value)
            }
        });
    }
    if rest.is_empty() { Ok(elements) } else { Err(Problem::BinaryTooLong.into()) }
}

fn number(rest: &mut &[u8]) -> Result<i32> {
    let (number, behind) = rest.split_first_chunk::<4>().ok_or(Problem::BinaryTooShort)?;
    *rest = behind;
    Ok(i32::from_be_bytes(*number))
}

const UNEXPECTED_END: &str = "Unexpected end of input.";
const QUOTED: &str = "Incorrectly quoted array element.";

/// The texts of the elements in the text form of an array.
pub(crate) fn split(text: &str, element: SqlType) -> Result<Vec<Option<String>>> {
    let mut chars = text.chars().peekable();
    skip_space(&mut chars);
    match chars.next() {
        Some('{') => {}
        Some('[') => return Err(ValueError::carried("a lower bound", element.oid())),
        _ => {
            let detail = "Array value must start with \"{\" or dimension information.";
            return Err(malformed(text, detail));
        }
    }
    skip_space(&mut chars);
    let mut found = Vec::new();
    if chars.peek() == Some(&'}') {
        chars.next();
    } else {
        loop {
            found.push(one(&mut chars, text, element)?);
            if chars.next() == Some('}') {
                break;
            }
            skip_space(&mut chars);
        }
    }
    skip_space(&mut chars);
    match chars.next() {
        None => Ok(found),
        Some(_) => Err(malformed(text, "Junk after closing right brace.")),
    }
}

/// An element, up to the comma or brace behind it.
fn one(chars: &mut Peekable<Chars<'_>>, text: &str, element: SqlType) -> Result<Option<String>> {
    let fails = |detail| Err(malformed(text, detail));
    let (mut word, mut quoted, mut escaped, mut blanks) = (String::new(), false, false, 0);
    while let Some(&c) = chars.peek() {
        match c {
            ',' | '}' if word.is_empty() && !quoted => {
                let comma = "Unexpected \",\" character.";
                return fails(if c == ',' { comma } else { "Unexpected \"}\" character." });
            }
            ',' | '}' => {
                word.truncate(word.len() - blanks);
                let null = !quoted && !escaped && word.eq_ignore_ascii_case("null");
                return Ok((!null).then_some(word));
            }
            '{' if word.is_empty() && !quoted => {
                return Err(ValueError::carried("several dimensions", element.oid()));
            }
            '{' => return fails("Unexpected \"{\" character."),
            '"' if quoted || !word.is_empty() => return fails(QUOTED),
            '"' => {
                quoted = true;
                chars.next();
                quotation(chars, &mut word).ok_or_else(|| malformed(text, UNEXPECTED_END))?;
                continue;
            }
            c if c.is_ascii() && is_space(c as u8) => {
                chars.next();
                // Blanks inside of a word belong to it, those behind it do not.
                if !quoted && !word.is_empty() {
                    word.push(c);
                    blanks += 1;
                }
                continue;
            }
            _ if quoted => return fails(QUOTED),
            _ => {}
        }
        chars.next();
        let c = match c {
            '\\' => {
                escaped = true;
                chars.next().ok_or_else(|| malformed(text, UNEXPECTED_END))?
            }
            c => c,
        };
        word.push(c);
        blanks = 0;
    }
    fails(UNEXPECTED_END)
}

/// The rest of an element in quotation marks. None: it does not end.
fn quotation(chars: &mut Peekable<Chars<'_>>, word: &mut String) -> Option<()> {
    loop {
        match chars.next()? {
            '"' => return Some(()),
            '\\' => word.push(chars.next()?),
            c => word.push(c),
        }
    }
}

fn skip_space(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|c| c.is_ascii() && is_space(*c as u8)).is_some() {}
}

fn malformed(text: &str, detail: &'static str) -> ValueError {
    Problem::MalformedArray { text: text.to_owned(), detail }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_read_as_postgresql_reads_them() {
        let read = |text| join(&split(text, SqlType::Text).expect("an array"));
        assert_eq!(
            read(r#" { "a,b" , NULL, "null",a b , \\x, "", n\ull } "#),
            r#"{"a,b",NULL,"null","a b","\\x","","null"}"#
        );
        assert_eq!((read("{}").as_str(), read(" { } ").as_str()), ("{}", "{}"));
        for (text, detail) in [
            ("{1,2", UNEXPECTED_END),
            ("{1,,2}", "Unexpected \",\" character."),
            ("{1,}", "Unexpected \"}\" character."),
            ("x", "Array value must start with \"{\" or dimension information."),
            ("{1}x", "Junk after closing right brace."),
            ("{a\"b}", QUOTED),
            ("{\"a\"b}", QUOTED),
            ("{\"1", UNEXPECTED_END),
            ("{a\\", UNEXPECTED_END),
            ("{a{b}", "Unexpected \"{\" character."),
        ] {
            let error = split(text, SqlType::Text).expect_err(text);
            assert_eq!(
                (error.sqlstate(), error.detail()),
                ("22P02", Some(detail.into())),
                "{text}"
            );
        }
        for text in ["{{1},{2}}", "[2:3]={1,2}"] {
            assert_eq!(split(text, SqlType::Int4).expect_err(text).sqlstate(), "0A000");
        }
    }

    #[test]
    fn arrays_are_read_from_binary() {
        let word = |n: i32| n.to_be_bytes();
        let head = [word(1), word(1), word(23), word(2), word(1)].concat();
        let whole = [head, [word(4), word(7), word(-1)].concat()].concat();
        let seven = word(7);
        assert_eq!(
            split_binary(&whole, SqlType::Int4).expect("an array"),
            [Some(&seven[..]), None]
        );
        let none = [word(0), word(0), word(23)].concat();
        assert!(split_binary(&none, SqlType::Int4).expect("an array").is_empty());
        let state = |bytes: &[u8], of| split_binary(bytes, of).expect_err("wrong").sqlstate();
        for end in 0..whole.len() {
            let part = whole.get(..end).expect("a part of it");
            assert_eq!(state(part, SqlType::Int4), "08P01");
        }
        assert_eq!(state(&[&whole[..], b"x"].concat(), SqlType::Int4), "22P03");
        assert_eq!(state(&whole, SqlType::Int8), "42804");
    }

    #[test]
    fn types_know_their_arrays() {
        assert_eq!(SqlType::Int4.array(), Some(SqlType::Int4Array));
        assert_eq!(SqlType::Int4Array.element(), Some(SqlType::Int4));
        assert_eq!((SqlType::Name.element(), SqlType::Int2Vector.element()), (None, None));
        assert_eq!(SqlType::Tid.array(), None);
    }
}
