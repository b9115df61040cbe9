//! What is known and not supported, refused by its name.

use super::cursor::Cursor;
use crate::error::{Result, SqlError};

/// Refuses what begins with the next word, if it has a name.
pub(super) fn refuse(
    c: &Cursor<'_>,
    named: impl FnOnce(&str) -> Option<&'static str>,
) -> Result<()> {
    match c.peek_word().and_then(|word| named(&word)) {
        Some(what) => Err(SqlError::unsupported(what).at(c.position())),
        None => Ok(()),
    }
}
