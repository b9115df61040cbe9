//! What PostgreSQL has and sqlparser does not know: it is taken out of a statement's tokens, or
//! written otherwise, before sqlparser sees them.
//!
//! - A locking clause's words become the first part of the names behind OF, and each name has a
//!   clause of its own: `FOR KEY SHARE OF a, b NOWAIT` becomes
//!   `FOR UPDATE OF "FOR KEY SHARE".a NOWAIT FOR UPDATE OF "FOR KEY SHARE".b NOWAIT`.
//! - `WITH (OLD AS a, NEW AS b)` behind RETURNING
//! - `WHERE CURRENT OF cursor`
//! - `OVERRIDING SYSTEM VALUE` and `OVERRIDING USER VALUE` of INSERT
//! - ON CONFLICT stays where it is; a target that is more than names of columns is taken out
//! - `TABLE t` is `SELECT * FROM t`
//! - `ONLY` before the table of UPDATE and DELETE: no table that is changed here has children

use super::cursor::Cursor;
use super::index::{KeyColumn, columns};
use super::parser::expression;
use super::source::Source;
use crate::error::{Result, SqlError, state};
use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};
use std::borrow::Cow;

/// What was taken out of a statement.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// The names of RETURNING WITH.
    pub versions: VersionNames,
    /// The cursor of WHERE CURRENT OF, and where its name stands.
    pub current_of: Option<(String, u32)>,
    /// Where ON CONFLICT and its target begin, or 0.
    pub on_conflict: (u32, u32),
    /// The target of ON CONFLICT, if it is more than names of columns.
    pub target: Option<Box<ConflictTarget>>,
    /// OVERRIDING ... VALUE of INSERT.
    pub overriding: Option<Overriding>,
}

/// What the index of ON CONFLICT has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictTarget {
    /// Its keys.
    pub keys: Vec<KeyColumn>,
    /// WHERE: what its predicate is implied by.
    pub predicate: Option<ast::Expr>,
}

/// Which values of identity columns an INSERT takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overriding {
    /// OVERRIDING SYSTEM VALUE: those that are given, whatever the column is.
    SystemValue,
    /// OVERRIDING USER VALUE: none that are given.
    UserValue,
}

impl Extras {
    /// The cursor of WHERE CURRENT OF.
    pub fn cursor(&self) -> Option<&str> {
        self.current_of.as_ref().map(|(name, _)| name.as_str())
    }
}

/// Names for the versions of a row that RETURNING sees, and where they are given.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct VersionNames {
    /// OLD AS
    pub old: Option<(String, u32)>,
    /// NEW AS
    pub new: Option<(String, u32)>,
}

/// Locking clauses: the words behind FOR, and all of them.
const LOCKING: [(&[&str], &str); 4] = [
    (&["for", "update"], "FOR UPDATE"),
    (&["for", "no", "key", "update"], "FOR NO KEY UPDATE"),
    (&["for", "share"], "FOR SHARE"),
    (&["for", "key", "share"], "FOR KEY SHARE"),
];

/// Whether a statement with this word may have something for this module.
fn is_telling(token: &TokenWithSpan) -> bool {
    use Keyword::{CONFLICT, CURRENT, FOR, ONLY, RETURNING, TABLE};
    matches!(&token.token, Token::Word(w) if w.quote_style.is_none()
        && (matches!(w.keyword, CONFLICT | FOR | RETURNING | CURRENT | ONLY | TABLE)
            || w.value.eq_ignore_ascii_case("overriding")))
}

/// The tokens for sqlparser, and what was taken out of them.
pub(super) fn take_out<'t>(
    tokens: &'t [TokenWithSpan],
    end: Option<&'t TokenWithSpan>,
    source: &Source,
) -> Result<(Cow<'t, [TokenWithSpan]>, Extras)> {
    let mut extras = Extras::default();
    if !tokens.iter().any(is_telling) {
        return Ok((Cow::Borrowed(tokens), extras));
    }
    let mut c = Cursor::new(tokens, end, source);
    let first = c.peek_word();
    let changes = matches!(first.as_deref(), Some("insert" | "update" | "delete"));
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut depth = 0usize;
    // Whether there was a WHERE of the statement itself, and what an INSERT inserts.
    let (mut filtered, mut sourced) = (false, first.as_deref() != Some("insert"));
    while let Some(token) = c.here() {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        if let Some((_, words)) = LOCKING.iter().find(|(each, _)| c.accept_all(each)) {
            locking_clause(words, token, &mut c, &mut out)?;
            continue;
        }
        if !sourced && depth == 0 && overriding(&mut c, &mut extras) {
            continue;
        }
        let opens = !sourced && depth == 0 || out.last().is_none_or(|t| t.token == Token::LParen);
        if opens && c.accept("table") {
            sourced |= depth == 0;
            out.extend(select_all_from(token));
            whole_table(&mut c, &mut out)?;
            continue;
        }
        sourced |= opens && matches!(c.peek_word().as_deref(), Some("select" | "values"));
        if changes && depth == 0 {
            if first.as_deref() != Some("insert") && c.peek_word().as_deref() == Some("where") {
                if filtered {
                    return Err(c.error());
                }
                filtered = true;
                if c.accept_all(&["where", "current", "of"]) {
                    extras.current_of = Some(cursor_name(&mut c)?);
                    continue;
                }
            }
            let before_table = match first.as_deref() {
                Some("update") => out.len() == 1,
                Some("delete") => out.len() == 2,
                _ => false,
            };
            if before_table && c.accept("only") {
                continue;
            }
            let inserts = first.as_deref() == Some("insert");
            if inserts && note_conflict(&mut c, &mut extras, &mut out)? {
                continue;
            }
            if c.accept_all(&["returning", "with"]) {
                out.push(token.clone());
                extras.versions = version_names(&mut c)?;
                continue;
            }
        }
        c.advance();
        out.push(token.clone());
    }
    Ok((Cow::Owned(out), extras))
}

/// Notes OVERRIDING ... VALUE, if it is next, once.
fn overriding(c: &mut Cursor<'_>, extras: &mut Extras) -> bool {
    let values = [("system", Overriding::SystemValue), ("user", Overriding::UserValue)];
    let mut found = values.into_iter().filter(|(word, _)| {
        extras.overriding.is_none() && c.accept_all(&["overriding", word, "value"])
    });
    let found = found.next().map(|(_, value)| value);
    extras.overriding = found.or(extras.overriding);
    found.is_some()
}

/// Notes where ON CONFLICT stands, if it begins here. True if it was taken, and its target is taken
/// out.
fn note_conflict(
    c: &mut Cursor<'_>,
    extras: &mut Extras,
    out: &mut Vec<TokenWithSpan>,
) -> Result<bool> {
    let mut ahead = c.clone();
    if !ahead.accept_all(&["on", "conflict"]) {
        return Ok(false);
    }
    extras.on_conflict = (c.position(), ahead.position());
    let (words, _) = c.clone().up_to(&ahead);
    let Some(target) = conflict_target(&mut ahead)? else { return Ok(false) };
    extras.target = Some(Box::new(target));
    out.extend(words.iter().cloned());
    *c = ahead;
    Ok(true)
}

/// The target behind ON CONFLICT. None: sqlparser knows it, or tells what is wrong with it.
fn conflict_target(c: &mut Cursor<'_>) -> Result<Option<ConflictTarget>> {
    let position = c.position();
    if !c.accept_token(&Token::LParen) {
        return Ok(None);
    }
    let keys = match columns(c, None) {
        Ok(keys) => keys,
        Err(error) if error.sqlstate == state::SYNTAX_ERROR => return Ok(None),
        Err(error) => return Err(error),
    };
    for key in &keys {
        let what = match key {
            KeyColumn { collation: Some(_), .. } => "COLLATE in ON CONFLICT",
            KeyColumn { opclass: Some(_), .. } => "an operator class in ON CONFLICT",
            KeyColumn { descending: Some(_), .. } => {
                let message = "ASC/DESC is not allowed in ON CONFLICT clause";
                return Err(SqlError::new(state::INVALID_COLUMN_REFERENCE, message).at(position));
            }
            KeyColumn { nulls_first: Some(_), .. } => {
                let message = "NULLS FIRST/LAST is not allowed in ON CONFLICT clause";
                return Err(SqlError::new(state::INVALID_COLUMN_REFERENCE, message).at(position));
            }
            _ => continue,
        };
        return Err(SqlError::unsupported(what).at(position));
    }
    let mut predicate = None;
    if c.accept("where") {
        let (tokens, end) = c.until_word(|word, _| word == "do");
        predicate = Some(expression(tokens, end, c.source())?);
    }
    let simple = predicate.is_none() && keys.iter().all(|key| key.expr.is_none());
    Ok((!simple).then_some(ConflictTarget { keys, predicate }))
}

/// The name behind CURRENT OF, and where it stands. Only RETURNING may follow.
fn cursor_name(c: &mut Cursor<'_>) -> Result<(String, u32)> {
    let position = c.position();
    let name = c.name()?;
    if c.at_end() || c.peek_word().as_deref() == Some("returning") {
        return Ok((name, position));
    }
    Err(c.error())
}

fn word(text: &str, quote_style: Option<char>, keyword: Keyword) -> Token {
    Token::Word(Word { value: text.to_owned(), quote_style, keyword })
}

/// `SELECT * FROM`, in the place of TABLE.
fn select_all_from(table: &TokenWithSpan) -> [TokenWithSpan; 3] {
    let select = word("select", None, Keyword::SELECT);
    let from = word("from", None, Keyword::FROM);
    [select, Token::Mul, from].map(|token| TokenWithSpan { token, span: table.span })
}

/// The name behind TABLE, and what may follow it.
fn whole_table(c: &mut Cursor<'_>, out: &mut Vec<TokenWithSpan>) -> Result<()> {
    if c.peek_word().as_deref() == Some("only") {
        return Ok(());
    }
    loop {
        out.extend(c.here().cloned());
        c.name()?;
        out.extend(c.here().filter(|t| t.token == Token::Period).cloned());
        if !c.accept_token(&Token::Period) {
            break;
        }
    }
    // A table's children are meant without it as well.
    c.accept_token(&Token::Mul);
    const BEHIND: [&str; 10] = [
        "order",
        "limit",
        "offset",
        "fetch",
        "for",
        "union",
        "intersect",
        "except",
        "on",
        "returning",
    ];
    let word = c.peek_word();
    let known = word.is_some_and(|word| BEHIND.contains(&word.as_str()));
    if known || matches!(c.peek(), None | Some(Token::RParen)) { Ok(()) } else { Err(c.error()) }
}

/// Writes a clause that begins at a token, for each of its names.
fn locking_clause(
    words: &str,
    start: &TokenWithSpan,
    c: &mut Cursor<'_>,
    out: &mut Vec<TokenWithSpan>,
) -> Result<()> {
    let word = |text: &str, quote_style, keyword| TokenWithSpan {
        token: word(text, quote_style, keyword),
        span: start.span,
    };
    let mut names: Vec<Vec<TokenWithSpan>> = Vec::new();
    if c.accept("of") {
        loop {
            let mut name = Vec::new();
            loop {
                name.extend(c.here().cloned());
                c.name()?;
                let period = c.here().cloned();
                if !c.accept_token(&Token::Period) {
                    break;
                }
                name.extend(period);
            }
            names.push(name);
            if !c.accept_token(&Token::Comma) {
                break;
            }
        }
    } else {
        names.push(Vec::new());
    }
    let policy: &[(&str, Keyword)] = if c.accept("nowait") {
        &[("nowait", Keyword::NOWAIT)]
    } else if c.accept_all(&["skip", "locked"]) {
        &[("skip", Keyword::SKIP), ("locked", Keyword::LOCKED)]
    } else {
        &[]
    };
    for name in names {
        out.push(word("for", None, Keyword::FOR));
        out.push(word("update", None, Keyword::UPDATE));
        out.push(word("of", None, Keyword::OF));
        out.push(word(words, Some('"'), Keyword::NoKeyword));
        if !name.is_empty() {
            out.push(TokenWithSpan { token: Token::Period, span: start.span });
            out.extend(name);
        }
        out.extend(policy.iter().map(|(text, keyword)| word(text, None, *keyword)));
    }
    Ok(())
}

/// `(OLD AS a, NEW AS b)`
fn version_names(c: &mut Cursor<'_>) -> Result<VersionNames> {
    let mut names = VersionNames::default();
    c.expect_token(&Token::LParen)?;
    loop {
        let position = c.position();
        let (slot, what) = if c.accept("old") {
            (&mut names.old, "OLD")
        } else {
            c.expect("new")?;
            (&mut names.new, "NEW")
        };
        c.expect("as")?;
        if slot.replace((c.name()?, position)).is_some() {
            let message = format!("{what} cannot be specified multiple times");
            return Err(SqlError::new(state::SYNTAX_ERROR, message).at(position));
        }
        if c.accept_token(&Token::RParen) {
            return Ok(names);
        }
        c.expect_token(&Token::Comma)?;
    }
}
