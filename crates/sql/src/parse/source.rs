//! The text of a query string, and places in it.

use super::escapes;
use crate::error::{SqlError, state};
use forebay_engine::Interrupt;
use forebay_types::Encoding;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, TokenizerError};
use std::sync::Arc;

fn is_string(token: &Token) -> bool {
    matches!(
        token,
        Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::DollarQuotedString(_)
    )
}

/// A query string with what turns the parser's lines and columns into PostgreSQL's character
/// positions.
#[derive(Debug)]
pub struct Source {
    text: Arc<str>,
    /// Characters before each line.
    line_starts: Vec<u32>,
    /// That of the database.
    encoding: Encoding,
    /// Ends the parsing.
    interrupt: Option<Interrupt>,
}

impl Source {
    /// Takes in what the server has printed, whose names are short enough in every encoding.
    pub fn printed(text: &str) -> Source {
        Source::new(text, Encoding::SqlAscii, None)
    }

    /// Takes in a query string of a database with an encoding.
    pub fn new(text: &str, encoding: Encoding, interrupt: Option<Interrupt>) -> Source {
        let mut line_starts = vec![0];
        if text.contains('\n') {
            let newlines = text.chars().enumerate().filter(|(_, c)| *c == '\n');
            line_starts.extend(newlines.map(|(i, _)| i as u32 + 1));
        }
        Source { text: text.into(), line_starts, encoding, interrupt }
    }

    /// The query string.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// What ends the parsing.
    pub fn interrupt(&self) -> Option<&Interrupt> {
        self.interrupt.as_ref()
    }

    /// Fails if the parsing is to end.
    pub fn check_interrupt(&self) -> Result<(), SqlError> {
        let asked = self.interrupt.as_ref().and_then(Interrupt::pending);
        asked.map_or(Ok(()), |kind| Err(kind.into()))
    }

    /// The 1-based character position of a place; 0 if the parser does not know it.
    pub fn position(&self, at: Location) -> u32 {
        if at.line == 0 {
            return 0;
        }
        let start = usize::try_from(at.line - 1).ok().and_then(|line| self.line_starts.get(line));
        start.map_or(0, |start| start + at.column as u32)
    }

    /// All tokens but white space and comments. Names are cut at PostgreSQL's length.
    pub fn tokenize(&self) -> Result<Vec<TokenWithSpan>, SqlError> {
        let (mut tokens, masked) = self.masked_tokens()?;
        tokens.retain(|t| !matches!(t.token, Token::Whitespace(_)));
        for token in &mut tokens {
            self.settle(token, masked)?;
        }
        self.join_strings(tokens)
    }

    fn tokens_of(&self, text: &str) -> Result<Vec<TokenWithSpan>, SqlError> {
        let dialect = PostgreSqlDialect {};
        let tokens = Tokenizer::new(&dialect, text).tokenize_with_location();
        tokens.map_err(|e| self.token_error(&e))
    }

    /// All tokens, and whether escapes in strings were masked: the tokenizer refuses those of bytes
    /// above 127.
    fn masked_tokens(&self) -> Result<(Vec<TokenWithSpan>, bool), SqlError> {
        let refused = match self.tokens_of(&self.text) {
            Ok(tokens) => return Ok((tokens, false)),
            Err(error) => error,
        };
        let masked = escapes::masked(&self.text, |_| true).ok_or(refused)?;
        let mut strings = self.tokens_of(&masked)?;
        strings.retain(|t| matches!(t.token, Token::EscapedStringLiteral(_)));
        let within = |at: usize| {
            let ends = |t: &TokenWithSpan| (self.position(t.span.end) as usize) <= at + 1;
            let next = strings.get(strings.partition_point(ends));
            next.is_some_and(|t| self.position(t.span.start) as usize <= at + 1)
        };
        let masked = escapes::masked(&self.text, within);
        let tokens = self.tokens_of(masked.as_deref().unwrap_or(&self.text))?;
        Ok((tokens, masked.is_some()))
    }

    /// Cuts a name, and reads the escapes of a string again that the tokenizer does not know.
    fn settle(&self, token: &mut TokenWithSpan, masked: bool) -> Result<(), SqlError> {
        let bytes = self.encoding != Encoding::Utf8;
        let unknown = |text: &str| bytes && !text.is_ascii();
        match &token.token {
            Token::Word(word) => {
                let cut = self.encoding.truncate_name(&word.value).len();
                if let Token::Word(word) = &mut token.token {
                    word.value.truncate(cut);
                }
            }
            Token::EscapedStringLiteral(text) if masked || unknown(text) => {
                let read = escapes::unescaped(&self.token_text(token), self.encoding);
                let start = self.position(token.span.start);
                let read = read.map_err(|e| match e.position {
                    Some(at) => e.unplaced().at(start + at),
                    None => e,
                })?;
                token.token = Token::EscapedStringLiteral(read);
            }
            Token::UnicodeStringLiteral(text) if unknown(text) => {
                if let Some(at) = escapes::first_beyond_ascii(&self.token_text(token)) {
                    let start = self.position(token.span.start);
                    return Err(escapes::no_conversion().at(start + at as u32));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A string on a line below another is the rest of it, as the SQL standard wants it; on the
    /// same line it is an error.
    fn join_strings(&self, tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>, SqlError> {
        let mut joined: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
        for next in tokens {
            let Some(last) =
                joined.last_mut().filter(|last| is_string(&last.token) && is_string(&next.token))
            else {
                joined.push(next);
                continue;
            };
            match (&mut last.token, &next.token) {
                _ if next.span.start.line == last.span.end.line => {
                    return Err(self.syntax_error(Some(&next)));
                }
                (Token::SingleQuotedString(text), Token::SingleQuotedString(rest)) => {
                    text.push_str(rest)
                }
                (Token::DollarQuotedString(_), _) => return Err(self.syntax_error(Some(&next))),
                _ => {
                    let place = self.position(next.span.start);
                    return Err(SqlError::unsupported(
                        "a string constant of this kind on several lines",
                    )
                    .at(place));
                }
            }
            last.span.end = next.span.end;
        }
        Ok(joined)
    }

    fn token_error(&self, error: &TokenizerError) -> SqlError {
        let position = self.position(error.location);
        // The tokenizer tells where a comment should have ended, not where it begins.
        let position = match self.text.rfind("/*") {
            Some(at) if error.message.contains("comment") => {
                self.text.get(..at).unwrap_or_default().chars().count() as u32 + 1
            }
            _ => position,
        };
        let rest: String = self.text.chars().skip(position.saturating_sub(1) as usize).collect();
        let what = if error.message.contains("comment") {
            "unterminated /* comment"
        } else if error.message.contains("delimiter") {
            "unterminated quoted identifier"
        } else if error.message.contains("dollar") {
            "unterminated dollar-quoted string"
        } else if error.message.contains("nterminated") {
            "unterminated quoted string"
        } else {
            "syntax error"
        };
        let message = if rest.is_empty() {
            format!("{what} at end of input")
        } else {
            format!("{what} at or near \"{rest}\"")
        };
        SqlError::new(state::SYNTAX_ERROR, message).at(position)
    }

    /// The text of a token as it was written.
    pub fn token_text(&self, token: &TokenWithSpan) -> String {
        let from = self.position(token.span.start);
        let to = self.position(token.span.end);
        self.text
            .chars()
            .skip(from.saturating_sub(1) as usize)
            .take(to.saturating_sub(from) as usize)
            .collect()
    }

    /// `syntax error at or near`, or at the end of input.
    pub fn syntax_error(&self, token: Option<&TokenWithSpan>) -> SqlError {
        match token {
            Some(t) if t.token != Token::EOF => {
                let message = format!("syntax error at or near \"{}\"", self.token_text(t));
                SqlError::new(state::SYNTAX_ERROR, message).at(self.position(t.span.start))
            }
            _ => {
                let end = self.text.chars().count() as u32 + 1;
                SqlError::new(state::SYNTAX_ERROR, "syntax error at end of input").at(end)
            }
        }
    }

    /// The position of the last token with this text between two operands: where their operator
    /// stands. Tokenizes again, so it is for errors only.
    pub fn operator_between(
        &self,
        operator: &str,
        left_end: Location,
        right_start: Location,
    ) -> u32 {
        let tokens = self.tokenize().unwrap_or_default();
        let between = |t: &&TokenWithSpan| t.span.start >= left_end && t.span.start < right_start;
        let found = tokens
            .iter()
            .filter(between)
            .rfind(|t| self.token_text(t).eq_ignore_ascii_case(operator));
        found.map_or_else(|| self.operator_after(left_end), |t| self.position(t.span.start))
    }

    /// The position of the sign before an operand.
    pub fn sign_before(&self, operand: Location) -> u32 {
        let tokens = self.tokenize().unwrap_or_default();
        let sign = |t: &&TokenWithSpan| t.span.start < operand && t.token != Token::LParen;
        tokens.iter().rfind(sign).map_or(0, |t| self.position(t.span.start))
    }

    /// The position of the token behind the last equals sign before a place: where a value that is
    /// assigned begins, with its parentheses. Tokenizes again, so it is for errors only.
    pub fn after_equals(&self, before: Location) -> u32 {
        let tokens = self.tokenize().unwrap_or_default();
        let sign = tokens.iter().rposition(|t| t.span.start < before && t.token == Token::Eq);
        let value = sign.and_then(|sign| tokens.get(sign + 1));
        value.map_or(0, |t| self.position(t.span.start))
    }

    /// The position of the first token at or after a place that does not close a parenthesis: where
    /// the operator behind an operand stands. Tokenizes again, so it is for errors only.
    pub fn operator_after(&self, at: Location) -> u32 {
        let tokens = self.tokenize().unwrap_or_default();
        let next = tokens.iter().find(|t| t.span.start >= at && t.token != Token::RParen);
        next.map_or(0, |t| self.position(t.span.start))
    }

    /// The position of the cast by `::` at or after a place that so many others precede, for errors
    /// only.
    pub fn cast_after(&self, at: Location, others: usize) -> u32 {
        let tokens = self.tokenize().unwrap_or_default();
        let casts = tokens.iter().filter(|t| t.span.start >= at && t.token == Token::DoubleColon);
        casts.map(|t| self.position(t.span.start)).nth(others).unwrap_or(0)
    }

    /// The position of the token before one, for errors only.
    pub fn token_before(&self, position: u32) -> u32 {
        let tokens = self.tokenize().unwrap_or_default();
        let starts = tokens.iter().map(|t| self.position(t.span.start));
        starts.take_while(|start| *start < position).last().unwrap_or(0)
    }
}
