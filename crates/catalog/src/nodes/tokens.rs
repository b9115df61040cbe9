//! The text of a tree in tokens.
//!
//! ```text
//! {NODE :field value ...}     a node; <> for none
//! ({...} {...}) ("text")      a list of nodes; <> for an empty one
//! (o 16 25) (i 1 2) (b 1 2)   a list of OIDs, of numbers; a set
//! 4 [ 1 0 0 0 0 0 0 0 ]       the bytes of a value
//! ```
//!
//! A backslash stands before a character of a word that would end it.
#![deny(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::borrow::Cow;

use forebay_types::Encoding;

use super::error::{NodeError, Result};

/// The deepest tree that is read. A level takes about 1 kB of the 8 MB of stack that sessions have.
pub const MAX_DEPTH: usize = 3000;

/// The longest text that is read, in bytes.
pub const MAX_TEXT: usize = 16 << 20;

/// The characters that are tokens by themselves.
const BRACKETS: [char; 4] = ['(', ')', '{', '}'];

/// The tokens of a tree's text, and how deep its reader is in the tree.
pub(super) struct Tokens<'a> {
    text: &'a str,
    /// That of the constants' bytes.
    pub(super) encoding: Encoding,
    position: usize,
    depth: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str, encoding: Encoding) -> Result<Tokens<'a>> {
        if text.len() > MAX_TEXT {
            return Err(NodeError::TooLong { len: text.len() });
        }
        Ok(Tokens { text, encoding, position: 0, depth: 0 })
    }

    /// What is left of the text, from the next token on.
    fn rest(&self) -> &'a str {
        let rest = self.text.get(self.position..).unwrap_or_default();
        rest.trim_start_matches([' ', '\n', '\t'])
    }

    /// The next token, which stays the next one. Empty at the end of the text.
    pub(super) fn peek(&self) -> &'a str {
        let rest = self.rest();
        if rest.starts_with(BRACKETS) {
            return rest.get(..1).unwrap_or(rest);
        }
        let mut escaped = false;
        let ends = |c: char| {
            let ends = !escaped && (BRACKETS.contains(&c) || [' ', '\n', '\t'].contains(&c));
            escaped = !escaped && c == '\\';
            ends
        };
        rest.find(ends).and_then(|end| rest.get(..end)).unwrap_or(rest)
    }

    /// Takes the next token.
    pub(super) fn next(&mut self) -> Result<&'a str> {
        let token = self.peek();
        if token.is_empty() {
            return Err(self.damaged("more text"));
        }
        let left = self.rest().len().saturating_sub(token.len());
        self.position = self.text.len().saturating_sub(left);
        Ok(token)
    }

    /// Takes the next token if it is this one.
    pub(super) fn skip(&mut self, token: &str) -> bool {
        self.peek() == token && self.next().is_ok()
    }

    /// Takes this token.
    pub(super) fn expect(&mut self, token: &str) -> Result<()> {
        if self.skip(token) { Ok(()) } else { Err(self.damaged(token)) }
    }

    /// The error of a text that has something else at this place.
    pub(super) fn damaged(&self, expected: &str) -> NodeError {
        let position = self.text.len().saturating_sub(self.rest().len());
        NodeError::Damaged { position, expected: expected.to_owned() }
    }

    /// Takes a word, with its backslashes undone.
    pub(super) fn word(&mut self) -> Result<Cow<'a, str>> {
        if self.peek().starts_with(BRACKETS) {
            return Err(self.damaged("a word"));
        }
        self.next().map(unescaped)
    }

    /// Takes a number.
    pub(super) fn number<N: std::str::FromStr>(&mut self) -> Result<N> {
        let number = self.peek().parse().map_err(|_| self.damaged("a number"))?;
        self.next()?;
        Ok(number)
    }

    /// Begins a node: takes its bracket and its label.
    pub(super) fn begin_node(&mut self) -> Result<&'a str> {
        if self.depth >= MAX_DEPTH {
            return Err(NodeError::TooDeep);
        }
        self.expect("{")?;
        self.depth = self.depth.saturating_add(1);
        self.next()
    }

    /// Ends a node, of which all fields were taken.
    pub(super) fn end_node(&mut self, label: &str) -> Result<()> {
        if let Some(field) = self.peek().strip_prefix(':') {
            return Err(NodeError::unknown_field(label, field));
        }
        self.depth = self.depth.saturating_sub(1);
        self.expect("}")
    }

    /// The text must end here.
    pub(super) fn finish(&self) -> Result<()> {
        if self.rest().is_empty() { Ok(()) } else { Err(self.damaged("the end")) }
    }
}

fn unescaped(word: &str) -> Cow<'_, str> {
    if !word.contains('\\') {
        return word.into();
    }
    let mut escaped = false;
    let keeps = |c: &char| {
        escaped = !escaped && *c == '\\';
        !escaped
    };
    word.chars().filter(keeps).collect::<String>().into()
}

/// Appends a word, with backslashes where its characters need them.
pub(super) fn write_word(word: &str, out: &mut String) {
    if word.is_empty() {
        out.push_str("\"\"");
        return;
    }
    let mut first = word.chars();
    let like_a_number = match first.next() {
        Some('<' | '"' | '0'..='9') => true,
        Some('+' | '-') => matches!(first.next(), Some('0'..='9' | '.')),
        _ => false,
    };
    if like_a_number {
        out.push('\\');
    }
    for c in word.chars() {
        if matches!(c, ' ' | '\n' | '\t' | '(' | ')' | '{' | '}' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
}
