//! CREATE INDEX, DROP INDEX, REINDEX, and the keys of tables (PRIMARY KEY, UNIQUE), parsed by hand.

use super::cursor::{Cursor, QualifiedName};
use super::foreign_key::attributes;
use super::options::storage_parameters;
use super::parser::{expression, parenthesized_expr};
use super::vacuum::{boolean, parenthesized, unrecognized, value};
use crate::error::{Result, SqlError, state};
use forebay_engine::StorageParameter;
use sqlparser::ast;
use sqlparser::tokenizer::Token;

/// What CREATE INDEX and a key say of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewIndex {
    /// Its name, if it was given.
    pub name: Option<String>,
    /// Its keys.
    pub keys: Vec<KeyColumn>,
    /// INCLUDE.
    pub included: Vec<KeyColumn>,
    /// NULLS NOT DISTINCT.
    pub nulls_not_distinct: bool,
    /// WITH (...)
    pub parameters: Vec<StorageParameter>,
    /// TABLESPACE.
    pub tablespace: Option<String>,
}

/// A column of a new index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// Its name; that of an expression is empty.
    pub name: String,
    /// The expression that it is.
    pub expr: Option<ast::Expr>,
    /// COLLATE.
    pub collation: Option<QualifiedName>,
    /// Its operator class.
    pub opclass: Option<QualifiedName>,
    /// ASC (false) or DESC.
    pub descending: Option<bool>,
    /// NULLS FIRST, or LAST (false).
    pub nulls_first: Option<bool>,
}

impl KeyColumn {
    /// A column in its default order.
    fn named(name: String) -> KeyColumn {
        let (collation, opclass) = (None, None);
        KeyColumn { name, expr: None, collation, opclass, descending: None, nulls_first: None }
    }
}

/// CREATE INDEX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateIndex {
    /// The index.
    pub index: NewIndex,
    /// UNIQUE.
    pub unique: bool,
    /// CONCURRENTLY.
    pub concurrently: bool,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The table.
    pub table: QualifiedName,
    /// The access method.
    pub method: String,
    /// WHERE: the rows that it has.
    pub predicate: Option<ast::Expr>,
}

/// PRIMARY KEY or UNIQUE of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewKey {
    /// PRIMARY KEY.
    pub primary: bool,
    /// Its index. The name is the constraint's.
    pub index: NewIndex,
    /// USING INDEX: the index that it gets, which has its own columns.
    pub existing: Option<String>,
    /// DEFERRABLE.
    pub deferrable: bool,
    /// INITIALLY DEFERRED.
    pub deferred: bool,
    /// Where it stands.
    pub position: u32,
}

/// REINDEX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reindex {
    /// REINDEX TABLE, not INDEX.
    pub of_table: bool,
    /// CONCURRENTLY.
    pub concurrently: bool,
    /// The table or the index.
    pub name: QualifiedName,
}

/// CREATE INDEX, behind CREATE.
pub(super) fn parse_create(c: &mut Cursor<'_>) -> Result<CreateIndex> {
    let unique = c.accept("unique");
    c.expect("index")?;
    let concurrently = c.accept("concurrently");
    let if_not_exists = c.accept_all(&["if", "not", "exists"]);
    let named = if_not_exists || c.peek_word().as_deref() != Some("on");
    let name = if named { Some(c.name()?) } else { None };
    c.expect("on")?;
    c.accept("only");
    let table = c.qualified_name()?;
    let method = if c.accept("using") { c.name()? } else { "btree".to_owned() };
    c.expect_token(&Token::LParen)?;
    let keys = columns(c, None)?;
    let included = included(c)?;
    let nulls_not_distinct = nulls_not_distinct(c)?;
    let parameters = parameters(c)?;
    let tablespace = if c.accept("tablespace") { Some(c.name()?) } else { None };
    let mut predicate = None;
    if c.accept("where") {
        let (tokens, end) = c.rest();
        let expr = expression(tokens, end, c.source())?;
        predicate = Some(expr);
    }
    c.expect_end()?;
    let index = NewIndex { name, keys, included, nulls_not_distinct, parameters, tablespace };
    Ok(CreateIndex { index, unique, concurrently, if_not_exists, table, method, predicate })
}

/// The columns behind an opening parenthesis, up to the closing one. Expressions are refused with
/// this message, if there is one.
pub(super) fn columns(c: &mut Cursor<'_>, no_expressions: Option<&str>) -> Result<Vec<KeyColumn>> {
    let mut columns = Vec::new();
    loop {
        columns.push(column(c, no_expressions)?);
        if c.accept_token(&Token::RParen) {
            return Ok(columns);
        }
        c.expect_token(&Token::Comma)?;
    }
}

fn column(c: &mut Cursor<'_>, no_expressions: Option<&str>) -> Result<KeyColumn> {
    let expr = match c.peek() {
        Some(Token::LParen) => Some(parenthesized_expr(c)?),
        _ => call(c)?,
    };
    let mut column = match expr {
        None => KeyColumn::named(c.name()?),
        Some(expr) => KeyColumn { expr: Some(expr), ..KeyColumn::named(String::new()) },
    };
    if let (Some(message), Some(_)) = (no_expressions, &column.expr) {
        return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
    }
    if c.accept("collate") {
        column.collation = Some(c.qualified_name()?);
    }
    let nulls = |c: &mut Cursor<'_>| {
        let first = c.accept_all(&["nulls", "first"]);
        (first || c.accept_all(&["nulls", "last"])).then_some(first)
    };
    let direction = |c: &mut Cursor<'_>| {
        let descending = c.accept("desc");
        (descending || c.accept("asc")).then_some(descending)
    };
    (column.descending, column.nulls_first) = (direction(c), nulls(c));
    let plain = column.descending.is_none() && column.nulls_first.is_none();
    if plain && !matches!(c.peek(), None | Some(Token::RParen | Token::Comma)) {
        column.opclass = Some(c.qualified_name()?);
        if c.peek() == Some(&Token::LParen) {
            return Err(SqlError::unsupported("an operator class with parameters"));
        }
        (column.descending, column.nulls_first) = (direction(c), nulls(c));
    }
    if !matches!(c.peek(), Some(Token::RParen | Token::Comma)) {
        return Err(c.error());
    }
    Ok(column)
}

/// A call of a function, if one is next.
fn call(c: &mut Cursor<'_>) -> Result<Option<ast::Expr>> {
    let mut ahead = c.clone();
    while matches!(ahead.peek(), Some(Token::Word(_))) {
        ahead.advance();
        if ahead.accept_token(&Token::LParen) {
            ahead.until_closing()?;
            let (tokens, end) = c.up_to(&ahead);
            return expression(tokens, end, c.source()).map(Some);
        }
        if !ahead.accept_token(&Token::Period) {
            break;
        }
    }
    Ok(None)
}

/// INCLUDE (...), if it is next.
fn included(c: &mut Cursor<'_>) -> Result<Vec<KeyColumn>> {
    if !c.accept("include") {
        return Ok(Vec::new());
    }
    c.expect_token(&Token::LParen)?;
    columns(c, Some("expressions are not supported in included columns"))
}

/// NULLS [NOT] DISTINCT, if it is next.
fn nulls_not_distinct(c: &mut Cursor<'_>) -> Result<bool> {
    if !c.accept("nulls") {
        return Ok(false);
    }
    let not = c.accept("not");
    c.expect("distinct")?;
    Ok(not)
}

/// WITH (...), if it is next.
fn parameters(c: &mut Cursor<'_>) -> Result<Vec<StorageParameter>> {
    if !c.accept("with") {
        return Ok(Vec::new());
    }
    c.expect_token(&Token::LParen)?;
    storage_parameters(c)
}

/// A key of the table, if one is next, with its columns; `CONSTRAINT name` may come before.
pub(super) fn table_key(c: &mut Cursor<'_>) -> Result<Option<NewKey>> {
    let Some(mut key) = key_start(c)? else { return Ok(None) };
    if !key.index.nulls_not_distinct && c.accept_all(&["using", "index"]) {
        key.existing = Some(c.name()?);
        key_attributes(c, &mut key, false)?;
        if key.deferrable {
            let what = "a deferrable constraint USING INDEX";
            return Err(SqlError::unsupported(what).at(key.position));
        }
        return Ok(Some(key));
    }
    let names = c.optional_names()?.ok_or_else(|| c.error())?;
    key.index.keys = names.into_iter().map(|(name, _)| KeyColumn::named(name)).collect();
    if c.accept("include") {
        let names = c.optional_names()?.ok_or_else(|| c.error())?;
        key.index.included = names.into_iter().map(|(name, _)| KeyColumn::named(name)).collect();
    }
    key_end(c, &mut key, false)?;
    Ok(Some(key))
}

/// A key of a column, if one is next.
pub(super) fn column_key(c: &mut Cursor<'_>, column: &str) -> Result<Option<NewKey>> {
    let Some(mut key) = key_start(c)? else { return Ok(None) };
    key.index.keys = vec![KeyColumn::named(column.to_owned())];
    key_end(c, &mut key, true)?;
    Ok(Some(key))
}

fn key_start(c: &mut Cursor<'_>) -> Result<Option<NewKey>> {
    let position = c.position();
    let name = if c.accept("constraint") { Some(c.name()?) } else { None };
    let primary = c.accept_all(&["primary", "key"]);
    if !primary && !c.accept("unique") {
        return match name {
            Some(_) if c.at_end() || matches!(c.peek(), Some(Token::RParen | Token::Comma)) => {
                Err(c.error())
            }
            Some(_) => Err(SqlError::unsupported("a named constraint").at(position)),
            None => Ok(None),
        };
    }
    let mut index = NewIndex { name, ..NewIndex::default() };
    index.nulls_not_distinct = !primary && nulls_not_distinct(c)?;
    let (deferrable, deferred) = (false, false);
    Ok(Some(NewKey { primary, index, existing: None, deferrable, deferred, position }))
}

fn key_end(c: &mut Cursor<'_>, key: &mut NewKey, of_column: bool) -> Result<()> {
    key.index.parameters = parameters(c)?;
    if c.accept_all(&["using", "index"]) {
        c.expect("tablespace")?;
        key.index.tablespace = Some(c.name()?);
    }
    key_attributes(c, key, of_column)
}

/// What follows a key. It always holds.
fn key_attributes(c: &mut Cursor<'_>, key: &mut NewKey, of_column: bool) -> Result<()> {
    let position = c.position();
    let found = attributes(c, of_column)?;
    (key.deferrable, key.deferred) = (found.deferrable, found.deferred);
    let kind = if key.primary { "PRIMARY KEY" } else { "UNIQUE" };
    for (given, what) in [(found.not_valid, "NOT VALID"), (found.not_enforced, "NOT ENFORCED")] {
        if given {
            let message = format!("{kind} constraints cannot be marked {what}");
            return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message).at(position));
        }
    }
    Ok(())
}

/// REINDEX.
pub(super) fn parse_reindex(c: &mut Cursor<'_>) -> Result<Reindex> {
    c.advance();
    let mut concurrently = false;
    parenthesized(c, |c| option(c, &mut concurrently))?;
    let of_table = c.accept("table");
    if !of_table && !c.accept("index") {
        return match c.peek_word().as_deref() {
            Some(word @ ("schema" | "database" | "system")) => {
                Err(SqlError::unsupported(format!("REINDEX {}", word.to_uppercase())))
            }
            _ => Err(c.error()),
        };
    }
    concurrently |= c.accept("concurrently");
    let name = c.qualified_name()?;
    c.expect_end()?;
    Ok(Reindex { of_table, concurrently, name })
}

/// An option of REINDEX: those but CONCURRENTLY are refused unless they are off.
fn option(c: &mut Cursor<'_>, concurrently: &mut bool) -> Result<()> {
    let position = c.position();
    let Some(name) = c.peek_word() else { return Err(c.error()) };
    c.advance();
    let value = value(c);
    match name.as_str() {
        "concurrently" => *concurrently = boolean(&name, value)?,
        "verbose" if !boolean(&name, value.clone())? => {}
        "verbose" | "tablespace" => {
            return Err(SqlError::unsupported(format!("REINDEX ({})", name.to_uppercase())));
        }
        _ => return Err(unrecognized("REINDEX", &name, position)),
    }
    Ok(())
}
