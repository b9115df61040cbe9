//! Roles as statements name them.

use super::cursor::Cursor;
use crate::error::{Result, SqlError};
use sqlparser::tokenizer::Token;

/// A role as a statement names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleName {
    /// By its name.
    Name(String),
    /// CURRENT_USER or CURRENT_ROLE.
    Current,
    /// SESSION_USER.
    SessionUser,
}

/// A role: a name, CURRENT_USER and the like.
pub(super) fn role(c: &mut Cursor<'_>) -> Result<RoleName> {
    match c.peek_word().as_deref() {
        Some("current_user" | "current_role") => {
            c.advance();
            Ok(RoleName::Current)
        }
        Some("session_user") => {
            c.advance();
            Ok(RoleName::SessionUser)
        }
        _ => {
            let position = c.position();
            match c.name()? {
                name if name == "none" => Err(reserved(&name).at(position)),
                name => Ok(RoleName::Name(name)),
            }
        }
    }
}

pub(super) fn roles(c: &mut Cursor<'_>) -> Result<Vec<RoleName>> {
    let mut found = vec![role(c)?];
    while c.accept_token(&Token::Comma) {
        found.push(role(c)?);
    }
    Ok(found)
}

/// The name of a role that is made, or that a role gets.
pub(super) fn role_id(c: &mut Cursor<'_>) -> Result<String> {
    let (position, word) = (c.position(), c.peek_word().unwrap_or_default());
    match role(c)? {
        RoleName::Name(name) if name == "public" => Err(reserved(&name).at(position)),
        RoleName::Name(name) => Ok(name),
        RoleName::Current | RoleName::SessionUser => Err(no_new_name(&word).at(position)),
    }
}

/// A word that stands for a role where its name is asked for.
pub(super) fn no_new_name(word: &str) -> SqlError {
    let message = format!("{} cannot be used as a role name here", word.to_uppercase());
    SqlError::new("42939", message)
}

fn reserved(name: &str) -> SqlError {
    SqlError::new("42939", format!("role name \"{name}\" is reserved"))
}
