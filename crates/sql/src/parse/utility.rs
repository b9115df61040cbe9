//! Small statements parsed by hand: settings, CHECKPOINT, DISCARD, DEALLOCATE; and the names of
//! PostgreSQL's statements that are not supported.

use super::cursor::Cursor;
use super::statement::{Kind, ShowTarget};
use super::transaction::{self, modes};
use crate::error::{Result, SqlError};
use crate::settings::SetScope;
use forebay_engine::quoted;
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

pub(super) fn setting_name(c: &mut Cursor<'_>) -> Result<String> {
    let mut name = c.name()?;
    while c.accept_token(&Token::Period) {
        name.push('.');
        name.push_str(&c.name()?);
    }
    Ok(name)
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

fn set(c: &mut Cursor<'_>) -> Result<Kind> {
    c.advance();
    if c.accept_all(&["session", "characteristics", "as", "transaction"]) {
        return Ok(Kind::SetTransaction { modes: modes(c)?, session: true });
    }
    let scope = if c.accept("local") {
        SetScope::Local
    } else {
        c.accept("session");
        SetScope::Session
    };
    if c.accept("transaction") {
        if c.accept("snapshot") {
            return Err(SqlError::unsupported("SET TRANSACTION SNAPSHOT"));
        }
        return Ok(Kind::SetTransaction { modes: modes(c)?, session: false });
    }
    for (word, what) in [
        ("authorization", "SET SESSION AUTHORIZATION"),
        ("role", "SET ROLE"),
        ("constraints", "SET CONSTRAINTS"),
    ] {
        if c.accept(word) {
            return Err(SqlError::unsupported(what));
        }
    }
    let (name, value) = setting(c)?;
    Ok(Kind::Set { name, value, scope })
}

/// Settings that are lists of names: each is stored as a name.
const LISTS: &[&str] = &["search_path", "temp_tablespaces"];

/// A setting with its value, as behind SET; None: DEFAULT.
pub(super) fn setting(c: &mut Cursor<'_>) -> Result<(String, Option<String>)> {
    if c.accept_all(&["time", "zone"]) {
        let value =
            if c.accept("local") || c.accept("default") { None } else { Some(set_value(c)?) };
        return Ok(("timezone".into(), value));
    }
    if c.accept("schema") {
        return Ok(("search_path".into(), Some(quoted(&c.string()?).into_owned())));
    }
    if c.accept("names") {
        let value = if c.at_end() || c.accept("default") { None } else { Some(c.string()?) };
        return Ok(("client_encoding".into(), value));
    }
    let name = setting_name(c)?;
    if !c.accept_token(&Token::Eq) && !c.accept("to") {
        return Err(c.error());
    }
    if c.accept("default") {
        return Ok((name, None));
    }
    let is_list = LISTS.iter().any(|list| list.eq_ignore_ascii_case(&name));
    let one = |c: &mut Cursor<'_>| {
        let value = set_value(c)?;
        Ok::<_, SqlError>(if is_list { quoted(&value).into_owned() } else { value })
    };
    let mut value = one(c)?;
    while c.accept_token(&Token::Comma) {
        value.push_str(", ");
        value.push_str(&one(c)?);
    }
    Ok((name, Some(value)))
}

fn set_value(c: &mut Cursor<'_>) -> Result<String> {
    if let Some(text) = c.accept_string().or_else(|| c.accept_number()) {
        return Ok(text);
    }
    match c.peek_word() {
        Some(word) if matches!(word.as_str(), "on" | "true" | "false") => {
            c.advance();
            Ok(word)
        }
        _ => c.name(),
    }
}

fn reset(c: &mut Cursor<'_>) -> Result<Kind> {
    c.advance();
    Ok(Kind::Reset(if c.accept("all") {
        None
    } else if c.accept_all(&["time", "zone"]) {
        Some("timezone".into())
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
