//! sqlparser over tokens, and expressions by it. Its errors become PostgreSQL's.

use super::cursor::Cursor;
use super::depth::too_complex;
use super::source::Source;
use super::watched::Watched;
use crate::error::{Result, SqlError};
use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

/// Nesting sqlparser goes into.
const MAX_RECURSION: usize = 512;

/// Runs sqlparser over all of the tokens, and turns its errors into PostgreSQL's.
pub(super) fn run_parser<T>(
    tokens: &[TokenWithSpan],
    end: Option<&TokenWithSpan>,
    source: &Source,
    parse: impl FnOnce(&mut Parser<'_>) -> std::result::Result<T, ParserError>,
) -> Result<T> {
    let dialect = Watched::new(source.interrupt(), tokens.len());
    let mut parser = Parser::new(&dialect)
        .with_recursion_limit(MAX_RECURSION)
        .with_tokens_with_locations(tokens.to_vec());
    let parsed = parse(&mut parser).map_err(|e| parser_error(&e, tokens, end, source))?;
    let next = parser.peek_token();
    if next.token != Token::EOF {
        return Err(syntax_error_at(next.span.start, tokens, end, source));
    }
    Ok(parsed)
}

/// Tokens that are an expression.
pub(super) fn expression(
    tokens: &[TokenWithSpan],
    end: Option<&TokenWithSpan>,
    source: &Source,
) -> Result<ast::Expr> {
    run_parser(tokens, end, source, |parser| parser.parse_expr())
}

/// An expression in parentheses.
pub(super) fn parenthesized_expr(c: &mut Cursor<'_>) -> Result<ast::Expr> {
    c.expect_token(&Token::LParen)?;
    let (inner, end) = c.until_closing()?;
    expression(inner, end, c.source())
}

fn parser_error(
    error: &ParserError,
    tokens: &[TokenWithSpan],
    end: Option<&TokenWithSpan>,
    source: &Source,
) -> SqlError {
    match error {
        ParserError::RecursionLimitExceeded => {
            source.check_interrupt().err().unwrap_or_else(too_complex)
        }
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => {
            let at = error_location(message).unwrap_or(Location { line: 0, column: 0 });
            syntax_error_at(at, tokens, end, source)
        }
    }
}

/// A syntax error at the token that starts at a place, or at the end of the statement.
fn syntax_error_at(
    at: Location,
    tokens: &[TokenWithSpan],
    end: Option<&TokenWithSpan>,
    source: &Source,
) -> SqlError {
    let at = tokens.iter().position(|t| t.span.start == at);
    // The parser lets `*` have an alias, and so stumbles a token late over `SELECT * form t`.
    let at = at.map(|at| if follows_star(tokens, at) { at - 1 } else { at });
    source.syntax_error(at.and_then(|at| tokens.get(at)).or(end))
}

/// Is the token before this one a word after `*` in a select list?
fn follows_star(tokens: &[TokenWithSpan], at: usize) -> bool {
    let token = |back: usize| at.checked_sub(back).and_then(|i| tokens.get(i)).map(|t| &t.token);
    let list = match token(3) {
        Some(Token::Comma) => true,
        Some(Token::Word(w)) => w.value.eq_ignore_ascii_case("select"),
        _ => false,
    };
    list && token(2) == Some(&Token::Mul)
        && matches!(token(1), Some(Token::Word(w)) if w.keyword != Keyword::FROM)
}

/// sqlparser tells the place only in its message: ` at Line: 1, Column: 8`.
fn error_location(message: &str) -> Option<Location> {
    let (_, at) = message.rsplit_once(" at Line: ")?;
    let (line, column) = at.split_once(", Column: ")?;
    Some(Location { line: line.trim().parse().ok()?, column: column.trim().parse().ok()? })
}
