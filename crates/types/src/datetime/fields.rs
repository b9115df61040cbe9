//! A text cut into the fields of a date, a time or an interval.
//!
//! What a field looks like says what it may be; what it is, is found out later.

use crate::digits::is_space;

use super::numbers::Fault;
use super::words::date_word;

/// Fields that a text may have.
const MAX_FIELDS: usize = 25;

/// What a field looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Digits, perhaps with a point.
    Number,
    /// Numbers or words with punctuation between them: a date, or a zone's name.
    Date,
    /// Numbers with colons.
    Time,
    /// A word.
    Word,
    /// A sign and digits.
    Zone,
    /// A sign and a word.
    Special,
}

/// A field, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

struct Cutter<'t> {
    bytes: &'t [u8],
    at: usize,
    text: String,
}

impl Cutter<'_> {
    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    fn take(&mut self) {
        self.text.push(char::from(self.peek().to_ascii_lowercase()));
        self.at += 1;
    }

    fn take_while(&mut self, is: impl Fn(u8) -> bool) {
        while self.at < self.bytes.len() && is(self.peek()) {
            self.take();
        }
    }

    /// A field that begins with a digit.
    fn digits(&mut self) -> Kind {
        self.take();
        self.take_while(|b| b.is_ascii_digit());
        match self.peek() {
            b':' => {
                self.take();
                self.take_while(|b| b.is_ascii_digit() || matches!(b, b':' | b'.'));
                Kind::Time
            }
            delimiter @ (b'-' | b'/' | b'.') => {
                self.take();
                if !self.peek().is_ascii_digit() {
                    self.take_while(|b| b.is_ascii_alphanumeric() || b == delimiter);
                    return Kind::Date;
                }
                self.take_while(|b| b.is_ascii_digit());
                if self.peek() == delimiter {
                    self.take();
                    self.take_while(|b| b.is_ascii_digit() || b == delimiter);
                    return Kind::Date;
                }
                if delimiter == b'.' { Kind::Number } else { Kind::Date }
            }
            _ => Kind::Number,
        }
    }

    /// A field that begins with a letter: a word, or a date or zone with embedded punctuation.
    fn letters(&mut self) -> Kind {
        self.take();
        self.take_while(|b| b.is_ascii_alphabetic());
        let is_date = match self.peek() {
            b'-' | b'/' | b'.' => true,
            b'+' | b'0'..=b'9' => date_word(&self.text).is_none(),
            _ => false,
        };
        if !is_date {
            return Kind::Word;
        }
        self.take();
        self.take_while(|b| {
            b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'/' | b'_' | b'.' | b':')
        });
        Kind::Date
    }

    fn signed(&mut self) -> Result<Kind, Fault> {
        self.take();
        while is_space(self.peek()) {
            self.at += 1;
        }
        match self.peek() {
            b'0'..=b'9' => {
                self.take_while(|b| b.is_ascii_digit() || matches!(b, b':' | b'.' | b'-'));
                Ok(Kind::Zone)
            }
            b if b.is_ascii_alphabetic() => {
                self.take_while(|b| b.is_ascii_alphabetic());
                Ok(Kind::Special)
            }
            _ => Err(Fault::Format),
        }
    }
}

/// Cuts a text into its fields.
pub(crate) fn cut(text: &str, most: usize) -> Result<Vec<Field>, Fault> {
    let mut cutter = Cutter { bytes: text.as_bytes(), at: 0, text: String::new() };
    let (mut fields, mut used) = (Vec::new(), 0);
    while cutter.at < cutter.bytes.len() {
        cutter.text.clear();
        let kind = match cutter.peek() {
            b if is_space(b) => {
                cutter.at += 1;
                continue;
            }
            b'0'..=b'9' => cutter.digits(),
            b'.' => {
                cutter.take();
                cutter.take_while(|b| b.is_ascii_digit());
                Kind::Number
            }
            b if b.is_ascii_alphabetic() => cutter.letters(),
            b'+' | b'-' => cutter.signed()?,
            b if b.is_ascii_punctuation() => {
                cutter.at += 1;
                continue;
            }
            _ => return Err(Fault::Format),
        };
        used += cutter.text.len() + 1;
        if fields.len() >= MAX_FIELDS || used > most {
            return Err(Fault::Format);
        }
        fields.push(Field { kind, text: cutter.text.clone() });
    }
    Ok(fields)
}
