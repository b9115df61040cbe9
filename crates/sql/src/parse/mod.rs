//! Query strings to statements.
//!
//! - `statement.rs`: parsed statements
//! - `source.rs`: the text and positions in it
//! - `cursor.rs`: tokens of one statement
//! - `depth.rs`: how deep its tree may become
//! - `size.rs`: how much memory its tokens and tree may take
//! - `watched.rs`: the dialect that sqlparser asks, which can make it stop
//! - `utility.rs`: transactions, SET and SHOW, and other small statements, parsed by hand
//! - `table.rs`: CREATE TABLE and DROP TABLE
//! - `copy.rs`: COPY
//!
//! SELECT, VALUES and INSERT go through sqlparser, which accepts much that PostgreSQL rejects: the
//! planner takes its tree apart completely, and refuses what it does not know.

mod copy;
pub mod cursor;
mod depth;
mod size;
pub mod source;
mod statement;
mod table;
mod utility;
mod watched;

pub use copy::{CopyOption, CopySource, CopyStatement, CopyTarget, OptionValue};
pub use cursor::QualifiedName;
pub(crate) use depth::too_complex;
pub use size::estimated_memory;
pub use source::Source;
pub use statement::{Kind, Modes, ShowTarget, Statement, TransactionStatement};
pub use table::{CreateTable, DropTable};

use crate::error::{Result, SqlError, state};
use cursor::Cursor;
use forebay_engine::Interrupt;
use sqlparser::ast;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};
use std::sync::Arc;
use watched::Watched;

/// Nesting sqlparser goes into.
const MAX_RECURSION: usize = 512;

/// Parses a query string of any number of statements; an interrupt ends it.
pub fn parse_script(text: &str, interrupt: Option<&Interrupt>) -> Result<Vec<Statement>> {
    if text.contains('\0') {
        return Err(SqlError::new(
            state::CHARACTER_NOT_IN_REPERTOIRE,
            "invalid byte sequence for encoding \"UTF8\": 0x00",
        ));
    }
    size::check(text, size::MOST)?;
    let source = Arc::new(Source::new(text, interrupt.cloned()));
    let tokens = source.tokenize()?;
    let mut statements = Vec::new();
    let mut rest = tokens.as_slice();
    while !rest.is_empty() {
        let at = rest.iter().position(|t| t.token == Token::SemiColon);
        let (statement, end) = match at {
            Some(at) => (rest.get(..at).unwrap_or_default(), rest.get(at)),
            None => (rest, None),
        };
        if !statement.is_empty() {
            depth::check(statement)?;
            source.check_interrupt()?;
            let kind = Arc::new(parse_statement(statement, end, &source)?);
            statements.push(Statement { kind, source: Arc::clone(&source) });
        }
        rest = rest.get(statement.len() + 1..).unwrap_or_default();
    }
    Ok(statements)
}

fn parse_statement(
    tokens: &[TokenWithSpan],
    end: Option<&TokenWithSpan>,
    source: &Source,
) -> Result<Kind> {
    let mut cursor = Cursor::new(tokens, end, source);
    let Some(first) = cursor.peek_word() else {
        if cursor.peek() == Some(&Token::LParen) {
            return parse_query_or_insert(tokens, end, source);
        }
        return Err(cursor.error());
    };
    match first.as_str() {
        "select" | "values" | "with" | "table" | "insert" => {
            parse_query_or_insert(tokens, end, source)
        }
        "copy" => copy::parse(&mut cursor, source).map(|c| Kind::Copy(Box::new(c))),
        "create" => table::parse_create(&mut cursor).map(Kind::CreateTable),
        "drop" => table::parse_drop(&mut cursor).map(Kind::DropTable),
        _ => utility::parse(&first, &mut cursor),
    }
}

fn parse_query_or_insert(
    tokens: &[TokenWithSpan],
    end: Option<&TokenWithSpan>,
    source: &Source,
) -> Result<Kind> {
    match with_parser(tokens, end, source, |p| p.parse_statement())? {
        ast::Statement::Query(query) => Ok(Kind::Query(query)),
        ast::Statement::Insert(insert) => Ok(Kind::Insert(Box::new(insert))),
        // It is not printed: it may be deep.
        _ => {
            let first = Cursor::new(tokens, end, source).peek_word().unwrap_or_default();
            Err(SqlError::unsupported(first.to_uppercase()))
        }
    }
}

/// Runs sqlparser over all of the tokens, and turns its errors into PostgreSQL's.
fn with_parser<T>(
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
    list && token(2) == Some(&Token::Mul) && matches!(token(1), Some(Token::Word(_)))
}

/// sqlparser tells the place only in its message: ` at Line: 1, Column: 8`.
fn error_location(message: &str) -> Option<Location> {
    let (_, at) = message.rsplit_once(" at Line: ")?;
    let (line, column) = at.split_once(", Column: ")?;
    Some(Location { line: line.trim().parse().ok()?, column: column.trim().parse().ok()? })
}
