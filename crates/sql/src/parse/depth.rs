//! A bound on the depth of a statement's tree, computed from its tokens before parsing.
//!
//! The parser builds chains of operators in loops, where its own limit of recursion does not hold,
//! and a tree is dropped recursively. Each node on the way from the tree's root to a leaf costs at
//! least one token that is no operand: an operator or a keyword. Commas separate trees that stand
//! side by side; parentheses, and CASE with END, hold what is below one node. So the depth is at
//! most that of the deepest path through such tokens.

use crate::error::{Result, SqlError, state};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Links of one path. A test thread's 2 MB of stack hold twice as many nodes that are dropped.
const MAX_LINKS: usize = 16_000;
/// Parentheses in each other.
const MAX_NESTING: usize = 128;
/// Parentheses and CASEs in each other.
const MAX_LEVELS: usize = 400;
/// A subscript, as links: types of arrays are printed recursively.
const SUBSCRIPT: usize = 16;
/// A join, as links: the parser goes into each join of a chain recursively.
const JOIN: usize = 200;

/// The error of a statement that is nested deeper than the stack allows.
pub(crate) fn too_complex() -> SqlError {
    SqlError::new(state::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
        .hint("The statement's expressions are nested too deeply.")
}

/// What is between two parentheses, or CASE and END.
#[derive(Clone, Copy, Default)]
struct Level {
    /// It began with CASE.
    case: bool,
    /// Links since the last comma.
    links: usize,
    /// Links that go on behind commas: `select 1, 2 union select 3, 4 union ...`
    lasting: usize,
    /// Links of the deepest parentheses since the last comma.
    inner: usize,
    /// The deepest path up to the last comma.
    before: usize,
}

impl Level {
    fn comma(&mut self) {
        self.before = self.before.max(self.links + self.inner);
        (self.links, self.inner) = (0, 0);
    }
}

/// The levels that are open at a token.
#[derive(Default)]
struct Path {
    outer: Vec<Level>,
    level: Level,
    /// Links of all of them.
    links: usize,
    /// How many of the outer ones are parentheses.
    nesting: usize,
}

impl Path {
    fn link(&mut self, links: usize) {
        self.level.links += links;
        self.links += links;
    }

    fn comma(&mut self) {
        self.links -= self.level.links;
        self.level.comma();
    }

    fn open(&mut self, case: bool) -> Result<()> {
        self.outer.push(std::mem::replace(&mut self.level, Level { case, ..Level::default() }));
        self.nesting += usize::from(!case);
        let deep = self.nesting > MAX_NESTING || self.outer.len() > MAX_LEVELS;
        if deep { Err(too_complex()) } else { Ok(()) }
    }

    fn close(&mut self, case: bool) {
        // A CASE that had no END was no CASE.
        while let Some(mut parent) = self.outer.pop() {
            let closed = self.level;
            self.links -= closed.links + closed.lasting;
            let below = closed.before.max(closed.links + closed.inner) + closed.lasting;
            parent.inner = parent.inner.max(below);
            self.level = parent;
            self.nesting -= usize::from(!closed.case);
            if closed.case == case {
                return;
            }
        }
    }

    fn take(&mut self, token: &Token) -> Result<()> {
        match token {
            Token::Period | Token::Number(..) | Token::SingleQuotedString(_) => {}
            Token::Comma => self.comma(),
            Token::LBracket => {
                self.link(SUBSCRIPT);
                return self.open(false);
            }
            Token::LParen | Token::LBrace => return self.open(false),
            Token::RParen | Token::RBracket | Token::RBrace => self.close(false),
            Token::Word(w) if w.quote_style.is_some() => {}
            Token::Word(w) => match w.keyword {
                Keyword::NoKeyword => {}
                Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::MINUS => {
                    self.level.lasting += 1;
                    self.links += 1;
                }
                Keyword::JOIN => self.link(JOIN),
                Keyword::CASE => {
                    self.link(1);
                    return self.open(true);
                }
                Keyword::END if self.level.case => self.close(true),
                _ => self.link(1),
            },
            _ => self.link(1),
        }
        Ok(())
    }
}

/// Refuses a statement whose tree could be deeper than the stack allows.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<()> {
    let mut path = Path::default();
    for t in tokens {
        path.take(&t.token)?;
        if path.links + path.level.inner > MAX_LINKS {
            return Err(too_complex());
        }
    }
    Ok(())
}
