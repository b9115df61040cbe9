//! CREATE TABLE AS and SELECT INTO.

use super::cursor::{Cursor, QualifiedName, fold};
use super::queries::with_parser;
use super::table::{CreateTable, table_options};
use crate::error::{Result, SqlError, state};
use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// CREATE TABLE AS, SELECT INTO.
#[derive(Clone, Debug)]
pub struct CreateTableAs {
    /// The table, without columns.
    pub create: CreateTable,
    /// The names of its columns, as far as they are given.
    pub names: Vec<String>,
    /// Its rows.
    pub query: Box<ast::Query>,
    /// WITH DATA.
    pub with_data: bool,
    /// Whether it is SELECT INTO.
    pub into: bool,
}

/// The names of columns without types, if they are next, and not the elements of CREATE TABLE.
pub(super) fn plain_names(c: &mut Cursor<'_>) -> Option<Vec<String>> {
    let mut ahead = c.clone();
    let names = ahead.optional_names().ok().flatten()?;
    let next = ahead.peek_word()?;
    if !["as", "using", "with", "without", "on", "tablespace"].contains(&next.as_str()) {
        return None;
    }
    *c = ahead;
    Some(names.into_iter().map(|(name, _)| name).collect())
}

/// Whether a query follows the name of a table, and not its elements.
pub(super) fn is_table_as(c: &Cursor<'_>) -> bool {
    c.peek() != Some(&Token::LParen)
        && !matches!(c.peek_word().as_deref(), None | Some("of" | "partition"))
}

/// What follows the names of the columns.
pub(super) fn table_as(
    c: &mut Cursor<'_>,
    create: CreateTable,
    names: Vec<String>,
) -> Result<CreateTableAs> {
    let create = table_options(c, create)?;
    c.expect("as")?;
    if c.peek_word().as_deref() == Some("execute") {
        return Err(SqlError::unsupported("CREATE TABLE AS EXECUTE"));
    }
    let source = c.source();
    let (tokens, end) = c.rest();
    let (tokens, with_data) = without_data(tokens);
    if tokens.is_empty() {
        return Err(source.syntax_error(end));
    }
    let (statement, _) = with_parser(tokens, end, source, |p| p.parse_statement())?;
    match statement {
        ast::Statement::Query(query) => {
            Ok(CreateTableAs { create, names, query, with_data, into: false })
        }
        _ => Err(source.syntax_error(tokens.first())),
    }
}

/// The tokens before WITH [NO] DATA, and whether there is no NO.
fn without_data(tokens: &[TokenWithSpan]) -> (&[TokenWithSpan], bool) {
    let is = |token: &TokenWithSpan, word: &str| match &token.token {
        Token::Word(w) => w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word),
        _ => false,
    };
    match tokens {
        [query @ .., with, no, data] if is(with, "with") && is(no, "no") && is(data, "data") => {
            (query, false)
        }
        [query @ .., with, data] if is(with, "with") && is(data, "data") => (query, true),
        _ => (tokens, true),
    }
}

/// Takes INTO out of a query that has it. None: it has none.
pub(super) fn select_into(
    query: &mut Box<ast::Query>,
    position: impl Fn(sqlparser::tokenizer::Location) -> u32,
) -> Result<Option<CreateTable>> {
    let ast::SetExpr::Select(select) = &mut *query.body else { return Ok(None) };
    let Some(into) = select.into.take() else { return Ok(None) };
    let ast::SelectInto { temporary, unlogged, table: _, targets } = into;
    let idents: &[ast::Ident] = match &targets[..] {
        [ast::Expr::Identifier(ident)] => std::slice::from_ref(ident),
        [ast::Expr::CompoundIdentifier(idents)] => idents,
        _ => return Err(SqlError::unsupported("this form of SELECT INTO")),
    };
    let position = idents.first().map_or(0, |ident| position(ident.span.start));
    let part = |ident: &ast::Ident| match ident.quote_style {
        None => fold(&ident.value),
        Some(_) => ident.value.clone(),
    };
    let parts: Vec<String> = idents.iter().map(part).collect();
    let name = match &parts[..] {
        [name] => QualifiedName { schema: None, name: name.clone(), position },
        [schema, name] => {
            QualifiedName { schema: Some(schema.clone()), name: name.clone(), position }
        }
        _ => {
            let message = "cross-database references are not implemented";
            return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message).at(position));
        }
    };
    Ok(Some(CreateTable { unlogged, ..CreateTable::named(name, temporary) }))
}
