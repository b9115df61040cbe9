//! TRUNCATE, parsed by hand.

use super::cursor::{Cursor, QualifiedName};
use crate::error::Result;
use sqlparser::tokenizer::Token;

/// Reads the names of the tables. What follows them makes no difference: no table has sequences of
/// its own, children, or tables that refer to it.
pub(super) fn parse(c: &mut Cursor<'_>) -> Result<Vec<QualifiedName>> {
    c.advance();
    c.accept("table");
    let mut names = Vec::new();
    loop {
        let only = c.accept("only");
        let enclosed = only && c.accept_token(&Token::LParen);
        names.push(c.qualified_name()?);
        if enclosed {
            c.expect_token(&Token::RParen)?;
        } else if !only {
            c.accept_token(&Token::Mul);
        }
        if !c.accept_token(&Token::Comma) {
            break;
        }
    }
    let _ = c.accept_all(&["restart", "identity"]) || c.accept_all(&["continue", "identity"]);
    let _ = c.accept("cascade") || c.accept("restrict");
    c.expect_end()?;
    Ok(names)
}
