//! Roles as statements name them.

use super::cursor::Cursor;
use crate::error::Result;

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
        _ => c.name().map(RoleName::Name),
    }
}
