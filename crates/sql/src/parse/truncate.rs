//! TRUNCATE, parsed by hand.

use super::cursor::Cursor;
use super::statement::Truncate;
use crate::error::Result;
use sqlparser::tokenizer::Token;

/// Reads the names of the tables. There are no child tables, which `*` would add.
pub(super) fn parse(c: &mut Cursor<'_>) -> Result<Truncate> {
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
    let restart = c.accept_all(&["restart", "identity"]);
    let _ = restart || c.accept_all(&["continue", "identity"]);
    let cascade = c.accept("cascade");
    let _ = cascade || c.accept("restrict");
    c.expect_end()?;
    Ok(Truncate { names, restart, cascade })
}
