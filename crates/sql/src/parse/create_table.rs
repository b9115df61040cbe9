//! CREATE TABLE, by its elements or by a query.

use super::cursor::Cursor;
use super::statement::Kind;
use super::table::{CreateTable, unsupported_object, with_elements};
use super::table_as::{is_table_as, plain_names, table_as};
use crate::error::{Result, SqlError, state};

/// CREATE TABLE, by its elements or by a query.
pub(super) fn create_table(c: &mut Cursor<'_>) -> Result<Kind> {
    let unlogged = c.accept("unlogged");
    let at = c.position();
    let global = c.accept("global").then_some(at);
    let scoped = global.is_some() || c.accept("local");
    let temporary = !unlogged && (c.accept("temporary") || c.accept("temp"));
    if scoped && !temporary {
        return Err(c.error());
    }
    if unlogged {
        after_unlogged(c)?;
    } else if !c.accept("table") {
        return Err(unsupported_object("CREATE", c));
    }
    let if_not_exists = c.accept_all(&["if", "not", "exists"]);
    let name = c.qualified_name()?;
    let named = CreateTable::named(name, temporary);
    let create = CreateTable { if_not_exists, global, unlogged, ..named };
    let names = plain_names(c);
    if names.is_some() || is_table_as(c) {
        let made = table_as(c, create, names.unwrap_or_default())?;
        return Ok(Kind::CreateTableAs(Box::new(made)));
    }
    if c.accept("of") || c.accept("partition") {
        return Err(SqlError::unsupported("CREATE TABLE OF or PARTITION OF"));
    }
    Ok(Kind::CreateTable(Box::new(with_elements(c, create)?)))
}

/// TABLE, behind UNLOGGED.
fn after_unlogged(c: &mut Cursor<'_>) -> Result<()> {
    match c.peek_word().as_deref() {
        Some("view") => {
            let message = "views cannot be unlogged because they do not have storage";
            Err(SqlError::new(state::SYNTAX_ERROR, message))
        }
        Some("materialized" | "recursive") => Err(unsupported_object("CREATE", c)),
        _ => c.expect("table"),
    }
}
