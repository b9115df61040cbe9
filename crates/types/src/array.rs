//! Arrays of one dimension: their values are texts, as PostgreSQL's output function writes them.
//!
//! Arrays of several dimensions, and those that do not begin at 1, are refused by name.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::iter::Peekable;
use std::str::Chars;

use crate::binary::binary_in;
use crate::datum::Datum;
use crate::error::{Problem, Result, ValueError};
use crate::facts::type_name;
use crate::input::{is_space, text_in};
use crate::output::to_text;
use crate::sqltype::SqlType;

/// An element in the text form of an array.
#[derive(Debug, PartialEq)]
enum Element {
    Null,
    Text(String),
}

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

/// The elements of an array's text form, as values of a type.
pub fn array_elements(text: &str, element: SqlType) -> Result<Vec<Datum<'static>>> {
    let read = |found: &Element| match found {
        Element::Null => Ok(Datum::Null),
        Element::Text(text) => Ok(text_in(text, element)?.into_owned()),
    };
    split(text, element)?.iter().map(read).collect()
}

/// Reads an array from text: its text form as output writes it.
pub(crate) fn array_in(text: &str, element: SqlType) -> Result<String> {
    array_text(&array_elements(text, element)?, element)
}

/// The text form of an array.
pub fn array_text(elements: &[Datum<'_>], element: SqlType) -> Result<String> {
    let mut out = "{".to_owned();
    for (n, value) in elements.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        if value.is_null() {
            out.push_str("NULL");
            continue;
        }
        let text = to_text(value, element)?;
        let special = |c: char| c.is_ascii() && is_space(c as u8) || "{},\"\\".contains(c);
        if !text.is_empty() && !text.eq_ignore_ascii_case("null") && !text.contains(special) {
            out.push_str(&text);
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
    Ok(out)
}

/// Reads an array from the protocol's binary form: its text form.
pub(crate) fn array_binary_in(bytes: &[u8], element: SqlType) -> Result<String> {
    let mut rest = bytes;
    let dimensions = number(&mut rest)?;
    let _has_nulls = number(&mut rest)?;
    let of = number(&mut rest)?;
    let of = of as u32;
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
            -1 => Datum::Null,
            size => {
                let size = usize::try_from(size).map_err(|_| Problem::BinaryTooShort)?;
                let (value, behind) = rest.split_at_checked(size).ok_or(Problem::BinaryTooShort)?;
                rest = behind;
                binary_in(value, element)?
            }
        });
    }
    if !rest.is_empty() {
        return Err(Problem::BinaryTooLong.into());
    }
    array_text(&elements, element)
}

fn number(rest: &mut &[u8]) -> Result<i32> {
    let (number, behind) = rest.split_first_chunk::<4>().ok_or(Problem::BinaryTooShort)?;
    *rest = behind;
    Ok(i32::from_be_bytes(*number))
}

const UNEXPECTED_END: &str = "Unexpected end of input.";
const QUOTED: &str = "Incorrectly quoted array element.";

fn split(text: &str, element: SqlType) -> Result<Vec<Element>> {
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
fn one(chars: &mut Peekable<Chars<'_>>, text: &str, element: SqlType) -> Result<Element> {
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
                return Ok(if null { Element::Null } else { Element::Text(word) });
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
        let read = |text| array_in(text, SqlType::Text).expect("an array");
        assert_eq!(
            read(r#" { "a,b" , NULL, "null",a b , \\x, "", n\ull } "#),
            r#"{"a,b",NULL,"null","a b","\\x","","null"}"#
        );
        assert_eq!((read("{}").as_str(), read(" { } ").as_str()), ("{}", "{}"));
        let ints = array_elements("{1, -2,null}", SqlType::Int4).expect("an array");
        assert_eq!(ints, [Datum::Int4(1), Datum::Int4(-2), Datum::Null]);
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
            let error = array_in(text, SqlType::Text).expect_err(text);
            assert_eq!(
                (error.sqlstate(), error.detail()),
                ("22P02", Some(detail.into())),
                "{text}"
            );
        }
        for text in ["{{1},{2}}", "[2:3]={1,2}"] {
            assert_eq!(array_in(text, SqlType::Int4).expect_err(text).sqlstate(), "0A000");
        }
    }

    #[test]
    fn arrays_are_read_from_binary() {
        let word = |n: i32| n.to_be_bytes();
        let head = [word(1), word(1), word(23), word(2), word(1)].concat();
        let whole = [head.clone(), [word(4), word(7), word(-1)].concat()].concat();
        assert_eq!(array_binary_in(&whole, SqlType::Int4).expect("an array"), "{7,NULL}");
        let none = [word(0), word(0), word(23)].concat();
        assert_eq!(array_binary_in(&none, SqlType::Int4).expect("an array"), "{}");
        let state = |bytes: &[u8], of| array_binary_in(bytes, of).expect_err("wrong").sqlstate();
        for end in 0..whole.len() {
            assert_eq!(state(&whole[..end], SqlType::Int4), "08P01");
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
