//! ALTER TABLE ... ALTER COLUMN: types, defaults, NULL, identity, generation, storage.

use super::alter_action::AlterAction;
use super::column::default_expr;
use super::cursor::{Cursor, QualifiedName};
use super::parser::{expression, parenthesized_expr};
use super::sequence::{SequenceClauses, clause};
use super::table::storage_name;
use super::type_name::type_name;
use crate::error::{Result, SqlError, state};
use sqlparser::ast;

/// What follows ALTER [COLUMN].
pub(super) fn alter_column(c: &mut Cursor<'_>) -> Result<AlterAction> {
    let position = c.position();
    let column = c.name()?;
    if c.accept_all(&["set", "default"]) {
        let default = Some(default_expr(c)?);
        return Ok(AlterAction::SetDefault { column, default });
    }
    if c.accept_all(&["drop", "default"]) {
        return Ok(AlterAction::SetDefault { column, default: None });
    }
    for (word, on) in [("set", true), ("drop", false)] {
        if c.accept_all(&[word, "not", "null"]) {
            return Ok(AlterAction::SetNotNull { column, on });
        }
    }
    for (word, compression) in [("storage", false), ("compression", true)] {
        if c.accept_all(&["set", word]) {
            let name = storage_name(c)?;
            return Ok(AlterAction::ColumnStorage { column, compression, name });
        }
    }
    if c.accept("type") || c.accept_all(&["set", "data", "type"]) {
        return column_type(c, column, position);
    }
    if c.accept_all(&["set", "expression", "as"]) {
        return Ok(AlterAction::SetExpression { column, expr: parenthesized_expr(c)? });
    }
    if c.accept_all(&["drop", "expression"]) {
        let if_exists = c.accept_all(&["if", "exists"]);
        return Ok(AlterAction::DropExpression { column, if_exists });
    }
    if c.accept_all(&["drop", "identity"]) {
        let if_exists = c.accept_all(&["if", "exists"]);
        return Ok(AlterAction::DropIdentity { column, if_exists });
    }
    if c.accept_all(&["add", "generated"]) {
        let always = generated_when(c)?;
        c.expect("as")?;
        c.expect("identity")?;
        let clauses = super::column::identity_options(c)?;
        return Ok(AlterAction::AddIdentity { column, always, clauses });
    }
    identity_changes(c, column)
}

/// ALWAYS (true) or BY DEFAULT.
fn generated_when(c: &mut Cursor<'_>) -> Result<bool> {
    if c.accept("always") {
        return Ok(true);
    }
    c.expect("by")?;
    c.expect("default")?;
    Ok(false)
}

fn column_type(c: &mut Cursor<'_>, column: String, position: u32) -> Result<AlterAction> {
    let ty = type_name(c)?;
    let at = c.position();
    let collation = match c.accept("collate") {
        true => Some(QualifiedName { position: at, ..c.qualified_name()? }),
        false => None,
    };
    let using = if c.accept("using") { Some(whole_expr(c)?) } else { None };
    Ok(AlterAction::ColumnType { column, ty: Box::new(ty), collation, using, position })
}

/// An expression up to the next action.
fn whole_expr(c: &mut Cursor<'_>) -> Result<ast::Expr> {
    let (tokens, end) = c.until_word(|_, _| false);
    if tokens.is_empty() {
        return Err(c.error());
    }
    expression(tokens, end, c.source())
}

/// RESTART and SET of an identity column, as many as there are.
fn identity_changes(c: &mut Cursor<'_>, column: String) -> Result<AlterAction> {
    let (mut always, mut clauses) = (None, SequenceClauses::default());
    let mut any = false;
    loop {
        if c.peek_word().as_deref() == Some("restart") {
            clause(c, &mut clauses)?;
        } else if c.accept_all(&["set", "generated"]) {
            always = Some(generated_when(c)?);
        } else if c.peek_word().as_deref() == Some("set") && is_option(c.word_behind().as_deref()) {
            c.advance();
            let at = c.position();
            let word = c.peek_word().unwrap_or_default();
            if let "as" | "restart" | "owned" = word.as_str() {
                let name = if word == "owned" { "owned_by" } else { word.as_str() };
                let message = format!("sequence option \"{name}\" not supported here");
                return Err(SqlError::new(state::SYNTAX_ERROR, message).at(at));
            }
            clause(c, &mut clauses)?;
        } else if any {
            return Ok(AlterAction::SetIdentity { column, always, clauses });
        } else {
            return Err(SqlError::unsupported("this form of ALTER TABLE ... ALTER COLUMN"));
        }
        any = true;
    }
}

/// Whether an option of a sequence begins with a word.
fn is_option(word: Option<&str>) -> bool {
    const OPTIONS: [&str; 11] = [
        "as",
        "cache",
        "cycle",
        "increment",
        "maxvalue",
        "minvalue",
        "no",
        "owned",
        "restart",
        "start",
        "sequence",
    ];
    word.is_some_and(|word| OPTIONS.contains(&word))
}
