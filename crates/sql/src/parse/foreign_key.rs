//! FOREIGN KEY and REFERENCES, and what may follow any constraint: DEFERRABLE, NOT VALID and their
//! kind.

use super::cursor::{Cursor, QualifiedName};
use crate::error::{Result, SqlError, state};
use forebay_engine::KeyAction;
use sqlparser::tokenizer::Token;

/// What follows a constraint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// DEFERRABLE.
    pub deferrable: bool,
    /// INITIALLY DEFERRED.
    pub deferred: bool,
    /// NOT VALID.
    pub not_valid: bool,
    /// NOT ENFORCED.
    pub not_enforced: bool,
}

/// A foreign key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewForeignKey {
    /// CONSTRAINT name.
    pub name: Option<String>,
    /// The columns that refer.
    pub columns: Vec<String>,
    /// The table that they refer to.
    pub parent: QualifiedName,
    /// Its columns, if they were given.
    pub parent_columns: Option<Vec<String>>,
    /// MATCH FULL.
    pub full: bool,
    /// ON DELETE.
    pub on_delete: KeyAction,
    /// The columns that it sets, if they were given.
    pub set_columns: Vec<String>,
    /// ON UPDATE.
    pub on_update: KeyAction,
    /// What follows.
    pub attributes: Attributes,
}

/// A foreign key of a table, if one is next, perhaps with a name.
pub(super) fn table_foreign_key(c: &mut Cursor<'_>) -> Result<Option<NewForeignKey>> {
    let mut ahead = c.clone();
    let name = if ahead.accept("constraint") { Some(ahead.name()?) } else { None };
    if !ahead.accept_all(&["foreign", "key"]) {
        return Ok(None);
    }
    *c = ahead;
    let columns = names(c)?.ok_or_else(|| c.error())?;
    c.expect("references")?;
    let mut key = references(c, name, columns)?;
    key.attributes = attributes(c, false)?;
    Ok(Some(key))
}

/// REFERENCES of a column, if it is next, behind the name of the constraint.
pub(super) fn column_foreign_key(
    c: &mut Cursor<'_>,
    name: Option<String>,
    column: &str,
) -> Result<Option<NewForeignKey>> {
    if !c.accept("references") {
        return Ok(None);
    }
    let mut key = references(c, name, vec![column.to_owned()])?;
    key.attributes = attributes(c, true)?;
    Ok(Some(key))
}

/// What follows REFERENCES, up to the attributes.
fn references(
    c: &mut Cursor<'_>,
    name: Option<String>,
    columns: Vec<String>,
) -> Result<NewForeignKey> {
    let parent = c.qualified_name()?;
    let parent_columns = names(c)?;
    let mut key = NewForeignKey {
        name,
        columns,
        parent,
        parent_columns,
        full: false,
        on_delete: KeyAction::NoAction,
        set_columns: Vec::new(),
        on_update: KeyAction::NoAction,
        attributes: Attributes::default(),
    };
    let at = c.position();
    if c.accept("match") {
        key.full = c.accept("full");
        if !key.full && c.accept("partial") {
            let message = "MATCH PARTIAL not yet implemented";
            return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message).at(at));
        }
        if !key.full {
            c.expect("simple")?;
        }
    }
    let (mut deletes, mut updates) = (false, false);
    loop {
        let at = c.position();
        if !c.accept("on") {
            break;
        }
        if !deletes && c.accept("delete") {
            deletes = true;
            (key.on_delete, key.set_columns) = action(c)?;
        } else if !updates && c.accept("update") {
            updates = true;
            let (found, set_columns) = action(c)?;
            if !set_columns.is_empty() {
                let what = if found == KeyAction::SetNull { "SET NULL" } else { "SET DEFAULT" };
                let message =
                    format!("a column list with {what} is only supported for ON DELETE actions");
                return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message).at(at));
            }
            key.on_update = found;
        } else {
            return Err(c.error());
        }
    }
    Ok(key)
}

/// The names of columns in parentheses, if they are next. PERIOD is refused.
fn names(c: &mut Cursor<'_>) -> Result<Option<Vec<String>>> {
    if !c.accept_token(&Token::LParen) {
        return Ok(None);
    }
    let mut names = Vec::new();
    loop {
        let mut ahead = c.clone();
        if ahead.accept("period") && !matches!(ahead.peek(), Some(Token::RParen | Token::Comma)) {
            return Err(SqlError::unsupported("a FOREIGN KEY constraint with PERIOD"));
        }
        names.push(c.name()?);
        if c.accept_token(&Token::RParen) {
            return Ok(Some(names));
        }
        c.expect_token(&Token::Comma)?;
    }
}

fn action(c: &mut Cursor<'_>) -> Result<(KeyAction, Vec<String>)> {
    for (words, action) in [
        (&["no", "action"][..], KeyAction::NoAction),
        (&["restrict"][..], KeyAction::Restrict),
        (&["cascade"][..], KeyAction::Cascade),
    ] {
        if c.accept_all(words) {
            return Ok((action, Vec::new()));
        }
    }
    c.expect("set")?;
    let action = match c.accept("null") {
        true => KeyAction::SetNull,
        false => {
            c.expect("default")?;
            KeyAction::SetDefault
        }
    };
    Ok((action, names(c)?.unwrap_or_default()))
}

/// What follows a constraint, of a table or of a column.
pub(super) fn attributes(c: &mut Cursor<'_>, of_column: bool) -> Result<Attributes> {
    /// The words, and those that they contradict.
    const ALL: [(&[&str], u8, u8); 8] = [
        (&["not", "deferrable"], 0, 1),
        (&["deferrable"], 1, 0),
        (&["initially", "immediate"], 2, 3),
        (&["initially", "deferred"], 3, 2),
        (&["not", "valid"], 4, u8::MAX),
        (&["not", "enforced"], 5, 6),
        (&["enforced"], 6, 5),
        (&["no", "inherit"], 7, u8::MAX),
    ];
    let mut set = Vec::new();
    loop {
        let at = c.position();
        // NOT VALID is for constraints of tables alone.
        let known = |number: u8| !(of_column && number == 4);
        let next = ALL.iter().find(|(words, number, _)| known(*number) && c.accept_all(words));
        let Some((_, number, other)) = next else { break };
        let syntax = |message: &str| SqlError::new(state::SYNTAX_ERROR, message).at(at);
        set.push(*number);
        if set.contains(&0) && set.contains(&3) {
            return Err(syntax("constraint declared INITIALLY DEFERRED must be DEFERRABLE"));
        }
        if set.contains(other) {
            return Err(syntax(match (of_column, number) {
                (true, 0 | 1) => "multiple DEFERRABLE/NOT DEFERRABLE clauses not allowed",
                (true, 2 | 3) => "multiple INITIALLY IMMEDIATE/DEFERRED clauses not allowed",
                (true, _) => "multiple ENFORCED/NOT ENFORCED clauses not allowed",
                (false, _) => "conflicting constraint properties",
            }));
        }
    }
    if set.contains(&7) {
        return Err(SqlError::unsupported("NO INHERIT of this constraint"));
    }
    let deferred = set.contains(&3);
    Ok(Attributes {
        deferrable: deferred || set.contains(&1),
        deferred,
        not_valid: set.contains(&4),
        not_enforced: set.contains(&5),
    })
}
