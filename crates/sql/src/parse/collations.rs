//! CREATE, ALTER and DROP COLLATION.

use super::cursor::{Cursor, QualifiedName};
use super::role_name::{RoleName, role};
use crate::error::{Result, SqlError, state};
use sqlparser::tokenizer::Token;

/// A statement about collations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollationStatement {
    /// CREATE COLLATION
    Create {
        /// Its name.
        name: QualifiedName,
        /// IF NOT EXISTS
        if_not_exists: bool,
        /// What it is.
        options: Vec<CollationOption>,
    },
    /// ALTER COLLATION ... REFRESH VERSION
    Refresh(QualifiedName),
    /// ALTER COLLATION ... RENAME TO
    Rename(QualifiedName, String),
    /// ALTER COLLATION ... OWNER TO
    Owner(QualifiedName, RoleName),
    /// ALTER COLLATION ... SET SCHEMA
    Schema(QualifiedName, String),
    /// DROP COLLATION
    Drop {
        /// Which.
        names: Vec<QualifiedName>,
        /// IF EXISTS
        if_exists: bool,
        /// CASCADE
        cascade: bool,
    },
}

/// An option of CREATE COLLATION.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollationOption {
    /// Its name, in lower case.
    pub name: String,
    /// Its value, if it has one. A text has no schema.
    pub value: Option<QualifiedName>,
    /// Where it stands.
    pub position: u32,
}

/// What follows CREATE COLLATION.
pub(super) fn create(c: &mut Cursor<'_>) -> Result<CollationStatement> {
    c.advance();
    let if_not_exists = c.accept_all(&["if", "not", "exists"]);
    let name = c.qualified_name()?;
    let position = c.position();
    if c.accept("from") {
        let value = Some(c.qualified_name()?);
        let options = vec![CollationOption { name: "from".to_owned(), value, position }];
        return Ok(CollationStatement::Create { name, if_not_exists, options });
    }
    c.expect_token(&Token::LParen)?;
    let mut options: Vec<CollationOption> = Vec::new();
    loop {
        let option = option(c)?;
        if options.iter().any(|other| other.name == option.name) {
            return Err(redundant().at(option.position));
        }
        options.push(option);
        if c.accept_token(&Token::RParen) {
            return Ok(CollationStatement::Create { name, if_not_exists, options });
        }
        c.expect_token(&Token::Comma)?;
    }
}

/// The error of options that do not go together.
pub fn redundant() -> SqlError {
    SqlError::new(state::SYNTAX_ERROR, "conflicting or redundant options")
}

fn option(c: &mut Cursor<'_>) -> Result<CollationOption> {
    let position = c.position();
    let name = match c.peek_word() {
        Some(word) => {
            c.advance();
            word
        }
        None => c.name()?,
    };
    let known = ["from", "locale", "lc_collate", "lc_ctype", "provider"];
    if !known.contains(&name.as_str()) && !["deterministic", "rules", "version"].contains(&&*name) {
        let message = format!("collation attribute \"{name}\" not recognized");
        return Err(SqlError::new(state::SYNTAX_ERROR, message).at(position));
    }
    if !c.accept_token(&Token::Eq) {
        return Ok(CollationOption { name, value: None, position });
    }
    let at = c.position();
    let text = |name: String| QualifiedName { schema: None, name, position: at };
    let value = if let Some(value) = c.accept_string().or_else(|| c.accept_number()) {
        text(value)
    } else {
        match c.peek_word() {
            Some(word) if matches!(word.as_str(), "true" | "false" | "on" | "none") => {
                c.advance();
                text(word)
            }
            _ => c.qualified_name()?,
        }
    };
    Ok(CollationOption { name, value: Some(value), position })
}

/// What follows ALTER COLLATION.
pub(super) fn alter(c: &mut Cursor<'_>) -> Result<CollationStatement> {
    c.advance();
    let name = c.qualified_name()?;
    if c.accept_all(&["refresh", "version"]) {
        return Ok(CollationStatement::Refresh(name));
    }
    if c.accept_all(&["rename", "to"]) {
        return Ok(CollationStatement::Rename(name, c.name()?));
    }
    if c.accept_all(&["owner", "to"]) {
        return Ok(CollationStatement::Owner(name, role(c)?));
    }
    c.expect("set")?;
    c.expect("schema")?;
    Ok(CollationStatement::Schema(name, c.name()?))
}

/// What follows DROP COLLATION.
pub(super) fn drop(c: &mut Cursor<'_>, if_exists: bool) -> Result<CollationStatement> {
    let mut names = vec![c.qualified_name()?];
    while c.accept_token(&Token::Comma) {
        names.push(c.qualified_name()?);
    }
    let cascade = c.accept("cascade");
    let _ = cascade || c.accept("restrict");
    Ok(CollationStatement::Drop { names, if_exists, cascade })
}
