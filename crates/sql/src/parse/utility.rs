//! Small statements parsed by hand: settings, CHECKPOINT, DISCARD, DEALLOCATE; and the names of
//! PostgreSQL's statements that are not supported.

use super::cursor::Cursor;
use super::setting::{setting, setting_name};
use super::statement::{Kind, ShowTarget};
use super::transaction::{self, modes};
use crate::error::{Result, SqlError};
use crate::settings::SetScope;
use sqlparser::tokenizer::Token;

/// First words of the statements PostgreSQL has beyond those parsed elsewhere.
const UNSUPPORTED: &[&str] = &[
    "call", "cluster", "do", "execute", "import", "listen", "load", "merge", "notify", "prepare",
    "reassign", "refresh", "security", "unlisten",
];

pub(super) fn parse(first: &str, c: &mut Cursor<'_>) -> Result<Kind> {
    if let Some(kind) = transaction::parse(first, c)? {
        c.expect_end()?;
        return Ok(kind);
    }
    let kind = match first {
        "checkpoint" => {
            c.advance();
            if c.peek() == Some(&Token::LParen) {
                return Err(SqlError::unsupported("CHECKPOINT with options"));
            }
            Kind::Checkpoint
        }
        "show" => show(c)?,
        "set" => set(c)?,
        "reset" => reset(c)?,
        "discard" => discard(c)?,
        "deallocate" => {
            c.advance();
            c.accept("prepare");
            if c.accept("all") { Kind::Deallocate(None) } else { Kind::Deallocate(Some(c.name()?)) }
        }
        other if UNSUPPORTED.contains(&other) => {
            return Err(SqlError::unsupported(other.to_uppercase()));
        }
        _ => return Err(c.error()),
    };
    c.expect_end()?;
    Ok(kind)
}

fn show(c: &mut Cursor<'_>) -> Result<Kind> {
    c.advance();
    Ok(Kind::Show(if c.accept("all") {
        ShowTarget::All
    } else if c.accept_all(&["time", "zone"]) {
        ShowTarget::One("timezone".into())
    } else if c.accept_all(&["transaction", "isolation", "level"]) {
        ShowTarget::One("transaction_isolation".into())
    } else if c.accept_all(&["session", "authorization"]) {
        ShowTarget::One("session_authorization".into())
    } else {
        ShowTarget::One(setting_name(c)?)
    }))
}

/// SET CONSTRAINTS, behind these words.
fn constraints(c: &mut Cursor<'_>) -> Result<Kind> {
    let mut names = Vec::new();
    let all = c.accept("all");
    if !all {
        names.push(c.qualified_name()?);
        while c.accept_token(&Token::Comma) {
            names.push(c.qualified_name()?);
        }
    }
    let deferred = c.accept("deferred");
    if !deferred {
        c.expect("immediate")?;
    }
    Ok(Kind::SetConstraints { names: (!all).then_some(names), deferred })
}

fn set(c: &mut Cursor<'_>) -> Result<Kind> {
    c.advance();
    if c.accept_all(&["session", "characteristics", "as", "transaction"]) {
        return Ok(Kind::SetTransaction { modes: modes(c)?, session: true });
    }
    if c.accept("constraints") {
        return constraints(c);
    }
    let scope = if c.accept("local") {
        SetScope::Local
    } else {
        if c.word_behind().as_deref() != Some("authorization") {
            c.accept("session");
        }
        SetScope::Session
    };
    if c.accept("transaction") {
        if c.accept("snapshot") {
            return Err(SqlError::unsupported("SET TRANSACTION SNAPSHOT"));
        }
        return Ok(Kind::SetTransaction { modes: modes(c)?, session: false });
    }
    let of_role = if c.accept_all(&["session", "authorization"]) {
        Some("session_authorization")
    } else if !matches!(c.word_behind().as_deref(), Some("to")) && is_role(c) {
        c.advance();
        Some("role")
    } else {
        None
    };
    if let Some(name) = of_role {
        let value = if c.accept("default") { None } else { Some(role_value(c)?) };
        return Ok(Kind::Set { name: name.to_owned(), value, scope });
    }
    let (name, value) = setting(c)?;
    Ok(Kind::Set { name, value, scope })
}

/// Whether ROLE and a name follow, not `role =`.
fn is_role(c: &Cursor<'_>) -> bool {
    let mut ahead = c.clone();
    ahead.accept("role") && ahead.peek() != Some(&Token::Eq)
}

/// The name of a role, or a text that is one.
fn role_value(c: &mut Cursor<'_>) -> Result<String> {
    match c.accept_string() {
        Some(text) => Ok(text),
        None if c.accept("none") => Ok("none".to_owned()),
        None => c.name(),
    }
}

fn reset(c: &mut Cursor<'_>) -> Result<Kind> {
    c.advance();
    Ok(Kind::Reset(if c.accept("all") {
        None
    } else if c.accept_all(&["time", "zone"]) {
        Some("timezone".into())
    } else if c.accept_all(&["session", "authorization"]) {
        Some("session_authorization".into())
    } else {
        Some(setting_name(c)?)
    }))
}

fn discard(c: &mut Cursor<'_>) -> Result<Kind> {
    c.advance();
    for (word, tag) in [
        ("all", "DISCARD ALL"),
        ("plans", "DISCARD PLANS"),
        ("sequences", "DISCARD SEQUENCES"),
        ("temp", "DISCARD TEMP"),
        ("temporary", "DISCARD TEMP"),
    ] {
        if c.accept(word) {
            return Ok(Kind::Discard(tag));
        }
    }
    Err(c.error())
}
