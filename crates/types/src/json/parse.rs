//! The text of a JSON value to a tree, with PostgreSQL's errors.

use crate::encoding::Encoding;
use crate::error::{Result, ValueError};

/// Arrays and objects that may lie within each other.
pub(crate) const MAX_DEPTH: usize = 1000;

/// A value and its text.
#[derive(Clone, Debug, PartialEq)]
pub struct Node<'t> {
    /// The text of the value.
    pub text: &'t str,
    /// What it is.
    pub kind: Kind<'t>,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants are JSON's")]
pub enum Kind<'t> {
    Null,
    Bool(bool),
    Number,
    /// Without quotation marks and escapes.
    String(String),
    Array(Vec<Node<'t>>),
    /// Pairs in the order of the text; a key may come again.
    Object(Vec<(String, Node<'t>)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    End,
    Punctuation(u8),
    String,
    Number,
    True,
    False,
    Null,
}

struct Parser<'t> {
    text: &'t str,
    /// The encoding that strings are to have, whose texts are wanted; None: escapes are only looked
    /// at.
    unescape: Option<Encoding>,
    token: Token,
    start: usize,
    end: usize,
    string: String,
}

fn invalid(detail: impl Into<String>) -> ValueError {
    ValueError::new("22P02", "invalid input syntax for type json").with_detail(detail)
}

/// Reads a text, with the texts of its strings in an encoding, or without them.
pub fn parse(text: &str, unescape: Option<Encoding>) -> Result<Node<'_>> {
    let mut parser =
        Parser { text, unescape, token: Token::End, start: 0, end: 0, string: String::new() };
    parser.advance()?;
    let node = parser.value(0)?;
    if parser.token != Token::End {
        return Err(parser.unexpected("end of input"));
    }
    Ok(node)
}

/// The error of values within each other that are too deep.
pub(crate) fn too_deep() -> ValueError {
    ValueError::new("54001", "stack depth limit exceeded")
        .with_hint(format!("JSON values may be nested {MAX_DEPTH} deep."))
}

impl<'t> Parser<'t> {
    fn found(&self) -> &'t str {
        self.text.get(self.start..self.end).unwrap_or_default()
    }

    /// The error of another token than the one that must stand here.
    fn unexpected(&self, wanted: &str) -> ValueError {
        if self.token == Token::End {
            return invalid("The input string ended unexpectedly.");
        }
        invalid(format!("Expected {wanted}, but found \"{}\".", self.found()))
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    fn advance(&mut self) -> Result<()> {
        self.start = self.end;
        while matches!(self.byte(self.start), b' ' | b'\t' | b'\n' | b'\r') {
            self.start += 1;
        }
        self.end = self.start;
        if self.start >= self.text.len() {
            self.token = Token::End;
            return Ok(());
        }
        self.token = match self.byte(self.start) {
            b @ (b'{' | b'}' | b'[' | b']' | b',' | b':') => {
                self.end += 1;
                Token::Punctuation(b)
            }
            b'"' => {
                self.lex_string()?;
                Token::String
            }
            b'-' | b'0'..=b'9' => self.lex_number()?,
            _ => self.lex_word()?,
        };
        Ok(())
    }

    /// Moves the end behind letters, digits, underscores and what is not ASCII.
    fn skip_word(&mut self) {
        while matches!(self.byte(self.end), b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | 0x80..)
        {
            self.end += 1;
        }
    }

    fn invalid_token(&self) -> ValueError {
        invalid(format!("Token \"{}\" is invalid.", self.found()))
    }

    fn lex_word(&mut self) -> Result<Token> {
        self.skip_word();
        if self.end == self.start {
            // A character that begins no token.
            self.end += 1;
            return Err(self.invalid_token());
        }
        match self.found() {
            "true" => Ok(Token::True),
            "false" => Ok(Token::False),
            "null" => Ok(Token::Null),
            _ => Err(self.invalid_token()),
        }
    }

    fn digits(&mut self) -> bool {
        let before = self.end;
        while self.byte(self.end).is_ascii_digit() {
            self.end += 1;
        }
        self.end > before
    }

    fn lex_number(&mut self) -> Result<Token> {
        if self.byte(self.end) == b'-' {
            self.end += 1;
        }
        let mut good = if self.byte(self.end) == b'0' {
            self.end += 1;
            true
        } else {
            self.digits()
        };
        if self.byte(self.end) == b'.' {
            self.end += 1;
            good &= self.digits();
        }
        if matches!(self.byte(self.end), b'e' | b'E') {
            self.end += 1;
            if matches!(self.byte(self.end), b'+' | b'-') {
                self.end += 1;
            }
            good &= self.digits();
        }
        let end = self.end;
        self.skip_word();
        if good && self.end == end { Ok(Token::Number) } else { Err(self.invalid_token()) }
    }

    fn lex_string(&mut self) -> Result<()> {
        self.string.clear();
        self.end += 1;
        let mut high: Option<u32> = None;
        let alone = || invalid("Unicode low surrogate must follow a high surrogate.");
        loop {
            let rest = self.text.get(self.end..).unwrap_or_default();
            let Some(c) = rest.chars().next() else { return Err(self.invalid_token()) };
            if high.is_some() && c != '\\' {
                return Err(alone());
            }
            self.end += c.len_utf8();
            match c {
                '"' => return Ok(()),
                '\\' => {
                    let escaped = self.text.get(self.end..).and_then(|rest| rest.chars().next());
                    let Some(escaped) = escaped else { return Err(self.invalid_token()) };
                    self.end += escaped.len_utf8();
                    if escaped == 'u' {
                        self.code_point(&mut high)?;
                        continue;
                    }
                    if high.is_some() {
                        return Err(alone());
                    }
                    self.string.push(match escaped {
                        '"' | '\\' | '/' => escaped,
                        'b' => '\u{8}',
                        'f' => '\u{c}',
                        'n' => '\n',
                        'r' => '\r',
                        't' => '\t',
                        other => {
                            return Err(invalid(format!(
                                "Escape sequence \"\\{other}\" is invalid."
                            )));
                        }
                    });
                }
                c if (c as u32) < 32 => {
                    let message =
                        format!("Character with value 0x{:02x} must be escaped.", c as u32);
                    return Err(invalid(message));
                }
                c if self.unescape.is_some() => self.string.push(c),
                _ => {}
            }
        }
    }

    /// The four digits behind `\u`.
    fn code_point(&mut self, high: &mut Option<u32>) -> Result<()> {
        let digits = self.text.as_bytes().get(self.end..self.end + 4);
        let digits = digits.filter(|d| d.iter().all(u8::is_ascii_hexdigit));
        let Some(digits) = digits else {
            return Err(invalid("\"\\u\" must be followed by four hexadecimal digits."));
        };
        let digit = |b: &u8| char::from(*b).to_digit(16).unwrap_or(0);
        let code = digits.iter().fold(0, |code, b| code << 4 | digit(b));
        self.end += 4;
        let Some(encoding) = self.unescape else { return Ok(()) };
        let code = match (code, high.take()) {
            (0xd800..=0xdbff, Some(_)) => {
                return Err(invalid("Unicode high surrogate must not follow a high surrogate."));
            }
            (0xd800..=0xdbff, None) => {
                *high = Some(code);
                return Ok(());
            }
            (0xdc00..=0xdfff, Some(high)) => 0x10000 + ((high & 0x3ff) << 10) + (code & 0x3ff),
            (0xdc00..=0xdfff, None) | (_, Some(_)) => {
                return Err(invalid("Unicode low surrogate must follow a high surrogate."));
            }
            (code, None) => code,
        };
        if code == 0 {
            let error = ValueError::new("22P05", "unsupported Unicode escape sequence");
            return Err(error.with_detail("\\u0000 cannot be converted to text."));
        }
        if encoding == Encoding::SqlAscii && code > 0x7f {
            let error = ValueError::new("22P05", "unsupported Unicode escape sequence");
            return Err(error.with_detail(
                "Unicode escape value could not be translated to the server's encoding SQL_ASCII.",
            ));
        }
        self.string.extend(char::from_u32(code));
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<Node<'t>> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        let start = self.start;
        let mut end = self.end;
        let kind = match self.token {
            Token::Null => Kind::Null,
            Token::True => Kind::Bool(true),
            Token::False => Kind::Bool(false),
            Token::Number => Kind::Number,
            Token::String => Kind::String(std::mem::take(&mut self.string)),
            Token::Punctuation(b'[') => Kind::Array(self.array(depth, &mut end)?),
            Token::Punctuation(b'{') => Kind::Object(self.object(depth, &mut end)?),
            _ => return Err(self.unexpected("JSON value")),
        };
        if !matches!(kind, Kind::Array(_) | Kind::Object(_)) {
            self.advance()?;
        }
        Ok(Node { text: self.text.get(start..end).unwrap_or_default(), kind })
    }

    fn array(&mut self, depth: usize, end: &mut usize) -> Result<Vec<Node<'t>>> {
        let mut items = Vec::new();
        self.advance()?;
        if self.token != Token::Punctuation(b']') {
            loop {
                items.push(self.value(depth + 1)?);
                match self.token {
                    Token::Punctuation(b',') => self.advance()?,
                    Token::Punctuation(b']') => break,
                    _ => return Err(self.unexpected("\",\" or \"]\"")),
                }
            }
        }
        *end = self.end;
        self.advance()?;
        Ok(items)
    }

    fn object(&mut self, depth: usize, end: &mut usize) -> Result<Vec<(String, Node<'t>)>> {
        let mut pairs = Vec::new();
        self.advance()?;
        let mut wanted = "string or \"}\"";
        if self.token != Token::Punctuation(b'}') {
            loop {
                if self.token != Token::String {
                    return Err(self.unexpected(wanted));
                }
                wanted = "string";
                let key = std::mem::take(&mut self.string);
                self.advance()?;
                if self.token != Token::Punctuation(b':') {
                    return Err(self.unexpected("\":\""));
                }
                self.advance()?;
                pairs.push((key, self.value(depth + 1)?));
                match self.token {
                    Token::Punctuation(b',') => self.advance()?,
                    Token::Punctuation(b'}') => break,
                    _ => return Err(self.unexpected("\",\" or \"}\"")),
                }
            }
        }
        *end = self.end;
        self.advance()?;
        Ok(pairs)
    }
}
