//! What follows the type of a column in CREATE TABLE, and CHECK constraints.

use super::cursor::{Cursor, QualifiedName};
use super::foreign_key::{NewForeignKey, column_foreign_key};
use super::index::{NewKey, column_key};
use super::parser::{expression, parenthesized_expr};
use super::sequence::{SequenceClauses, clauses};
use crate::error::{Result, SqlError, state};
use sqlparser::ast;
use sqlparser::tokenizer::Token;

/// A CHECK constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckClause {
    /// CONSTRAINT name.
    pub name: Option<String>,
    /// The condition.
    pub condition: ast::Expr,
    /// NO INHERIT.
    pub no_inherit: bool,
    /// It is not NOT ENFORCED.
    pub enforced: bool,
    /// It is not NOT VALID.
    pub valid: bool,
}

/// What makes the values of a column of which rows give none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnValues {
    /// DEFAULT.
    pub default: Option<ast::Expr>,
    /// GENERATED ALWAYS AS (...), and whether it is STORED.
    pub generated: Option<(ast::Expr, bool)>,
    /// GENERATED ... AS IDENTITY: whether ALWAYS, and the sequence's options.
    pub identity: Option<(bool, SequenceClauses)>,
}

/// The constraints of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ColumnClauses {
    pub(super) values: ColumnValues,
    pub(super) not_null: bool,
    pub(super) not_null_name: Option<String>,
    /// COLLATE.
    pub(super) collation: Option<QualifiedName>,
    pub(super) foreign_keys: Vec<NewForeignKey>,
    /// NULL.
    null: bool,
    primary: bool,
}

/// CONSTRAINT name, before something that is no key.
fn constraint_name(c: &mut Cursor<'_>) -> Result<Option<String>> {
    let mut ahead = c.clone();
    if !ahead.accept("constraint") {
        return Ok(None);
    }
    let name = ahead.name()?;
    let next = ahead.peek_word();
    let known = ["check", "not", "null", "default", "generated", "references"];
    if next.is_some_and(|next| known.contains(&next.as_str())) {
        *c = ahead;
        return Ok(Some(name));
    }
    Ok(None)
}

/// The constraints of a column. Keys and checks go to those of the table.
pub(super) fn column_clauses(
    c: &mut Cursor<'_>,
    (column, table, serial): (&str, &str, bool),
    keys: &mut Vec<NewKey>,
    checks: &mut Vec<CheckClause>,
) -> Result<ColumnClauses> {
    let mut found = ColumnClauses::default();
    loop {
        let at = c.position();
        let name = constraint_name(c)?;
        if c.accept_all(&["not", "null"]) {
            found.not_null = true;
            found.not_null_name = name.or(found.not_null_name);
            if c.peek_word().as_deref() == Some("no") {
                return Err(SqlError::unsupported("NOT NULL NO INHERIT").at(at));
            }
        } else if c.accept("null") {
            found.null = true;
        } else if c.accept("collate") {
            let name = QualifiedName { position: at, ..c.qualified_name()? };
            if found.collation.replace(name).is_some() {
                let message = "multiple COLLATE clauses not allowed";
                return Err(SqlError::new(state::SYNTAX_ERROR, message).at(at));
            }
        } else if let Some(key) = column_foreign_key(c, name.clone(), column)? {
            found.foreign_keys.push(key);
        } else if let Some(check) = check(c, name)? {
            checks.push(check);
        } else if let Some(key) = column_key(c, column)? {
            found.primary |= key.primary;
            keys.push(key);
        } else if !value_clause(c, (column, table), &mut found)? {
            break;
        }
        let implied = serial || found.primary || found.values.identity.is_some();
        let refuses_null = found.not_null || implied;
        if refuses_null && found.null {
            let message = format!(
                "conflicting NULL/NOT NULL declarations for column \"{column}\" of table \
                 \"{table}\""
            );
            return Err(SqlError::new(state::SYNTAX_ERROR, message).at(at));
        }
    }
    Ok(found)
}

/// DEFAULT or GENERATED. False: neither is next.
fn value_clause(
    c: &mut Cursor<'_>,
    (column, table): (&str, &str),
    found: &mut ColumnClauses,
) -> Result<bool> {
    let at = c.position();
    let twice = |what: &str| {
        let message = format!("{what} specified for column \"{column}\" of table \"{table}\"");
        Err(SqlError::new(state::SYNTAX_ERROR, message).at(at))
    };
    let twice_identity = || {
        let message = format!(
            "multiple identity specifications for column \"{column}\" of table \"{table}\""
        );
        SqlError::new(state::SYNTAX_ERROR, message).at(at)
    };
    let values = &mut found.values;
    if c.accept("default") {
        let expr = default_expr(c)?;
        if values.default.replace(expr).is_some() {
            return twice("multiple default values");
        }
    } else if c.accept_all(&["generated", "always", "as", "identity"]) {
        if values.identity.replace((true, identity_options(c)?)).is_some() {
            return Err(twice_identity());
        }
    } else if c.accept_all(&["generated", "by", "default", "as", "identity"]) {
        if values.identity.replace((false, identity_options(c)?)).is_some() {
            return Err(twice_identity());
        }
    } else if c.accept_all(&["generated", "always", "as"]) {
        let expr = parenthesized_expr(c)?;
        let stored = c.accept("stored");
        let _ = stored || c.accept("virtual");
        if values.generated.replace((expr, stored)).is_some() {
            return twice("multiple generation clauses");
        }
    } else {
        return Ok(false);
    }
    match (&values.default, &values.identity, &values.generated) {
        (Some(_), Some(_), _) => twice("both default and identity"),
        (Some(_), _, Some(_)) => twice("both default and generation expression"),
        (_, Some(_), Some(_)) => twice("both identity and generation expression"),
        _ => Ok(true),
    }
}

/// The options of an identity column's sequence, in parentheses, if there are any.
pub(super) fn identity_options(c: &mut Cursor<'_>) -> Result<SequenceClauses> {
    if !c.accept_token(&Token::LParen) {
        return Ok(SequenceClauses::default());
    }
    let found = clauses(c)?;
    c.expect_token(&Token::RParen)?;
    Ok(found)
}

/// CHECK with its attributes, if it is next, behind its name.
fn check(c: &mut Cursor<'_>, name: Option<String>) -> Result<Option<CheckClause>> {
    if !c.accept("check") {
        return Ok(None);
    }
    let condition = parenthesized_expr(c)?;
    let mut check = CheckClause { name, condition, no_inherit: false, enforced: true, valid: true };
    loop {
        let position = c.position();
        if c.accept_all(&["no", "inherit"]) {
            check.no_inherit = true;
        } else if c.accept_all(&["not", "valid"]) {
            check.valid = false;
        } else if c.accept_all(&["not", "enforced"]) {
            check.enforced = false;
        } else if c.accept("enforced") {
            check.enforced = true;
        } else if c.accept("deferrable") || c.accept_all(&["initially", "deferred"]) {
            let message = "CHECK constraints cannot be marked DEFERRABLE";
            return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message).at(position));
        } else if !c.accept_all(&["not", "deferrable"])
            && !c.accept_all(&["initially", "immediate"])
        {
            return Ok(Some(check));
        }
    }
}

/// A CHECK constraint of a table, if one is next, perhaps with a name.
pub(super) fn table_check(c: &mut Cursor<'_>) -> Result<Option<CheckClause>> {
    let mut ahead = c.clone();
    let name = if ahead.accept("constraint") { Some(ahead.name()?) } else { None };
    if ahead.peek_word().as_deref() != Some("check") {
        return Ok(None);
    }
    *c = ahead;
    check(c, name)
}

/// An expression that ends where the next constraint of the column begins.
pub(super) fn default_expr(c: &mut Cursor<'_>) -> Result<ast::Expr> {
    let (tokens, end) = c.until_word(|word, before| {
        let is_test = matches!(before, Some("is" | "not"));
        match word {
            "not" | "null" => before.is_some() && !is_test,
            "constraint" | "check" | "unique" | "primary" | "references" | "generated"
            | "default" | "collate" | "deferrable" | "initially" => before.is_some(),
            _ => false,
        }
    });
    if tokens.is_empty() {
        return Err(c.error());
    }
    expression(tokens, end, c.source())
}

/// The name of a type that stands for an integer with a sequence: its bytes.
pub(super) fn serial(c: &mut Cursor<'_>) -> Option<u8> {
    const SERIAL: [(&str, u8); 6] = [
        ("smallserial", 2),
        ("serial2", 2),
        ("serial", 4),
        ("serial4", 4),
        ("bigserial", 8),
        ("serial8", 8),
    ];
    SERIAL.iter().find(|(word, _)| c.accept(word)).map(|(_, bytes)| *bytes)
}
