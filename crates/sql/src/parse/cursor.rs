//! A cursor over the tokens of one statement, for the statements that are parsed by hand.

use super::source::Source;
use crate::error::{Result, SqlError, state};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// A name that may have a schema, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QualifiedName {
    /// The schema, if written.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
    /// Position of its first part.
    pub position: u32,
}

impl QualifiedName {
    /// As it is written in messages.
    pub fn display(&self) -> String {
        match &self.schema {
            Some(schema) => format!("{schema}.{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// PostgreSQL's fully reserved words: never a name without quotes.
const RESERVED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "current_catalog",
    "current_date",
    "current_role",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "from",
    "grant",
    "group",
    "having",
    "in",
    "initially",
    "intersect",
    "into",
    "lateral",
    "leading",
    "limit",
    "localtime",
    "localtimestamp",
    "not",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "placing",
    "primary",
    "references",
    "returning",
    "select",
    "session_user",
    "some",
    "symmetric",
    "system_user",
    "table",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "variadic",
    "when",
    "where",
    "window",
    "with",
];

/// Is it never a name without quotes?
pub fn is_reserved(word: &str) -> bool {
    RESERVED.iter().any(|r| r.eq_ignore_ascii_case(word))
}

/// Where the parsing of a statement stands.
#[derive(Clone)]
pub struct Cursor<'a> {
    tokens: &'a [TokenWithSpan],
    next: usize,
    source: &'a Source,
    /// What follows the statement: a semicolon, or nothing.
    end: Option<&'a TokenWithSpan>,
}

impl<'a> Cursor<'a> {
    /// At the start of a statement.
    pub fn new(
        tokens: &'a [TokenWithSpan],
        end: Option<&'a TokenWithSpan>,
        source: &'a Source,
    ) -> Cursor<'a> {
        Cursor { tokens, next: 0, source, end }
    }

    /// The next token.
    pub fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.next).map(|t| &t.token)
    }

    /// The next token, with its place.
    pub fn here(&self) -> Option<&'a TokenWithSpan> {
        self.tokens.get(self.next)
    }

    /// Position of the next token.
    pub fn position(&self) -> u32 {
        self.tokens.get(self.next).map_or(0, |t| self.source.position(t.span.start))
    }

    /// Takes the next token.
    pub fn advance(&mut self) -> Option<&'a Token> {
        let token = self.peek();
        self.next += 1;
        token
    }

    /// A syntax error at the next token.
    pub fn error(&self) -> SqlError {
        self.source.syntax_error(self.tokens.get(self.next).or(self.end))
    }

    /// The tokens not yet taken, up to the parenthesis that closes the one just opened, which is
    /// taken too.
    pub fn until_closing(&mut self) -> Result<(&'a [TokenWithSpan], Option<&'a TokenWithSpan>)> {
        let start = self.next;
        let mut depth = 1;
        while depth > 0 {
            match self.peek() {
                Some(Token::LParen) => depth += 1,
                Some(Token::RParen) => depth -= 1,
                Some(_) => {}
                None => return Err(self.error()),
            }
            self.next += 1;
        }
        let inner = self.tokens.get(start..self.next - 1).unwrap_or_default();
        Ok((inner, self.tokens.get(self.next - 1)))
    }

    /// The tokens up to where a copy of the cursor stands, which are taken, and what follows them.
    pub fn up_to(
        &mut self,
        ahead: &Cursor<'a>,
    ) -> (&'a [TokenWithSpan], Option<&'a TokenWithSpan>) {
        let tokens = self.tokens.get(self.next..ahead.next).unwrap_or_default();
        self.next = ahead.next;
        (tokens, self.here().or(self.end))
    }

    /// Where the tokens come from.
    pub fn source(&self) -> &'a Source {
        self.source
    }

    /// The tokens before the comma, the closing parenthesis or the word that ends them, which are
    /// taken. `ends` gets a word that is in no parentheses and no CASE, and the word before it.
    pub fn until_word(
        &mut self,
        ends: impl Fn(&str, Option<&str>) -> bool,
    ) -> (&'a [TokenWithSpan], Option<&'a TokenWithSpan>) {
        let start = self.next;
        let (mut depth, mut cases) = (0_usize, 0_usize);
        let mut before: Option<String> = None;
        while let Some(token) = self.peek() {
            let word = self.peek_word();
            match token {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket if depth > 0 => depth -= 1,
                Token::RParen | Token::Comma if depth == 0 => break,
                _ => {}
            }
            match word.as_deref() {
                Some("case") => cases += 1,
                Some("end") => cases = cases.saturating_sub(1),
                Some(word) if depth == 0 && cases == 0 && ends(word, before.as_deref()) => break,
                _ => {}
            }
            before = Some(word.unwrap_or_default());
            self.next += 1;
        }
        let tokens = self.tokens.get(start..self.next).unwrap_or_default();
        (tokens, self.here().or(self.end))
    }

    /// The tokens not yet taken, which are taken, and what follows them.
    pub fn rest(&mut self) -> (&'a [TokenWithSpan], Option<&'a TokenWithSpan>) {
        let rest = self.tokens.get(self.next..).unwrap_or_default();
        self.next = self.tokens.len();
        (rest, self.end)
    }

    /// Is the next token the last one?
    pub fn is_last(&self) -> bool {
        self.next + 1 >= self.tokens.len()
    }

    /// The next word in lower case, if it is an unquoted one.
    pub fn peek_word(&self) -> Option<String> {
        self.word_at(self.next)
    }

    /// The word behind the next token, in lower case.
    pub fn word_behind(&self) -> Option<String> {
        self.word_at(self.next + 1)
    }

    fn word_at(&self, index: usize) -> Option<String> {
        match self.tokens.get(index).map(|t| &t.token) {
            Some(Token::Word(w)) if w.quote_style.is_none() => Some(w.value.to_lowercase()),
            _ => None,
        }
    }

    /// Takes the word if it is next.
    pub fn accept(&mut self, word: &str) -> bool {
        self.accept_all(&[word])
    }

    /// Takes the words if they are next, in this order.
    pub fn accept_all(&mut self, words: &[&str]) -> bool {
        let found = words
            .iter()
            .enumerate()
            .all(|(i, w)| self.word_at(self.next + i).as_deref() == Some(*w));
        if found {
            self.next += words.len();
        }
        found
    }

    /// Takes the word or fails.
    pub fn expect(&mut self, word: &str) -> Result<()> {
        if self.accept(word) { Ok(()) } else { Err(self.error()) }
    }

    /// Takes the token if it is next.
    pub fn accept_token(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        if found {
            self.next += 1;
        }
        found
    }

    /// Takes the token or fails.
    pub fn expect_token(&mut self, token: &Token) -> Result<()> {
        if self.accept_token(token) { Ok(()) } else { Err(self.error()) }
    }

    /// Fails unless everything is taken.
    pub fn expect_end(&self) -> Result<()> {
        if self.next >= self.tokens.len() { Ok(()) } else { Err(self.error()) }
    }

    /// Is everything taken?
    pub fn at_end(&self) -> bool {
        self.next >= self.tokens.len()
    }

    /// A name: an unreserved word, folded to lower case, or a quoted one as it is.
    pub fn name(&mut self) -> Result<String> {
        match self.peek() {
            Some(Token::Word(w)) if w.quote_style.is_none() => {
                let folded = fold(&w.value);
                if is_reserved(&folded) {
                    return Err(self.error());
                }
                self.next += 1;
                Ok(folded)
            }
            Some(Token::Word(w)) if !w.value.is_empty() => {
                self.next += 1;
                Ok(w.value.clone())
            }
            _ => Err(self.error()),
        }
    }

    /// A name, with a schema or without.
    pub fn qualified_name(&mut self) -> Result<QualifiedName> {
        let position = self.position();
        let first = self.name()?;
        if !self.accept_token(&Token::Period) {
            return Ok(QualifiedName { schema: None, name: first, position });
        }
        let second = self.name()?;
        if self.peek() == Some(&Token::Period) {
            return Err(SqlError::new(
                state::FEATURE_NOT_SUPPORTED,
                "cross-database references are not implemented",
            )
            .at(position));
        }
        Ok(QualifiedName { schema: Some(first), name: second, position })
    }

    /// A parenthesised list of names, if one is next.
    pub fn optional_names(&mut self) -> Result<Option<Vec<(String, u32)>>> {
        if !self.accept_token(&Token::LParen) {
            return Ok(None);
        }
        let mut names = Vec::new();
        loop {
            let position = self.position();
            names.push((self.name()?, position));
            if self.accept_token(&Token::RParen) {
                return Ok(Some(names));
            }
            self.expect_token(&Token::Comma)?;
        }
    }

    /// A string constant, if one is next.
    pub fn accept_string(&mut self) -> Option<String> {
        let text = match self.peek()? {
            Token::SingleQuotedString(s)
            | Token::EscapedStringLiteral(s)
            | Token::UnicodeStringLiteral(s) => s.clone(),
            Token::DollarQuotedString(s) => s.value.clone(),
            _ => return None,
        };
        self.next += 1;
        Some(text)
    }

    /// A string constant.
    pub fn string(&mut self) -> Result<String> {
        self.accept_string().ok_or_else(|| self.error())
    }

    /// A number with an optional sign, as it was written.
    pub fn accept_number(&mut self) -> Option<String> {
        let (sign, at) = match self.peek()? {
            Token::Minus => ("-", self.next + 1),
            Token::Plus => ("", self.next + 1),
            _ => ("", self.next),
        };
        match self.tokens.get(at).map(|t| &t.token) {
            Some(Token::Number(digits, _)) => {
                self.next = at + 1;
                Some(format!("{sign}{digits}"))
            }
            _ => None,
        }
    }
}

/// An unquoted name as PostgreSQL stores it: only ASCII has cases.
pub fn fold(name: &str) -> String {
    name.to_ascii_lowercase()
}
