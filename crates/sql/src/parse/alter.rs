//! ALTER TABLE and ALTER INDEX, parsed by hand. `alter_column.rs` has what is done to a column.

use super::alter_action::{AlterAction, NewReplicaIdentity, RenameAction};
use super::alter_column::alter_column;
use super::column::table_check;
use super::cursor::{Cursor, QualifiedName};
use super::foreign_key::table_foreign_key;
use super::index::table_key;
use super::options::storage_parameters;
use super::role_name::role;
use super::table::new_column;
use crate::error::{Result, SqlError, state};
use sqlparser::tokenizer::Token;

/// ALTER TABLE or ALTER INDEX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterTable {
    /// Whether it is ALTER INDEX.
    pub of_index: bool,
    /// The table or index.
    pub table: QualifiedName,
    /// IF EXISTS.
    pub if_exists: bool,
    /// What is done.
    pub actions: Vec<AlterAction>,
}

/// ALTER TABLE or ALTER INDEX, behind ALTER.
pub(super) fn parse(c: &mut Cursor<'_>) -> Result<AlterTable> {
    let of_index = c.accept("index");
    if !of_index && !c.accept("table") {
        return match c.peek_word() {
            Some(word) => Err(SqlError::unsupported(format!("ALTER {}", word.to_uppercase()))),
            None => Err(c.error()),
        };
    }
    if c.accept_all(&["all", "in", "tablespace"]) {
        let what = if of_index { "ALTER INDEX" } else { "ALTER TABLE" };
        return Err(SqlError::unsupported(format!("{what} ALL IN TABLESPACE")));
    }
    let if_exists = c.accept_all(&["if", "exists"]);
    if !of_index {
        c.accept("only");
    }
    let table = c.qualified_name()?;
    if !of_index {
        c.accept_token(&Token::Mul);
    }
    let mut actions = Vec::new();
    let alone = match c.peek_word().as_deref() {
        Some("rename") => {
            c.advance();
            Some(AlterAction::Rename(rename(c, of_index)?))
        }
        Some("set") if !of_index && c.accept_all(&["set", "schema"]) => {
            Some(AlterAction::Schema(c.name()?))
        }
        _ => None,
    };
    if let Some(action) = alone {
        actions.push(action);
        c.expect_end()?;
        return Ok(AlterTable { of_index, table, if_exists, actions });
    }
    loop {
        let statement = if of_index { "ALTER INDEX" } else { "ALTER TABLE" };
        let whole = match tablespace(c)? {
            None if !of_index => of_whole_table(c)?,
            found => found,
        };
        actions.push(match whole.map_or_else(|| parameters(c, statement), |w| Ok(Some(w)))? {
            Some(parameters) => parameters,
            None if of_index => return Err(not_supported(c, statement)),
            None => action(c, &table.name)?,
        });
        if !c.accept_token(&Token::Comma) {
            break;
        }
    }
    c.expect_end()?;
    Ok(AlterTable { of_index, table, if_exists, actions })
}

/// SET TABLESPACE, if it is next.
fn tablespace(c: &mut Cursor<'_>) -> Result<Option<AlterAction>> {
    let is_next = c.accept_all(&["set", "tablespace"]);
    is_next.then(|| c.name().map(AlterAction::Tablespace)).transpose()
}

/// What changes the table as a whole. None: it is another action.
fn of_whole_table(c: &mut Cursor<'_>) -> Result<Option<AlterAction>> {
    if c.accept_all(&["owner", "to"]) {
        return Ok(Some(AlterAction::Owner(role(c)?)));
    }
    if c.accept_all(&["replica", "identity"]) {
        return replica_identity(c).map(|identity| Some(AlterAction::ReplicaIdentity(identity)));
    }
    if c.accept_all(&["cluster", "on"]) {
        return Ok(Some(AlterAction::Cluster(Some(c.name()?))));
    }
    if c.accept_all(&["set", "without", "cluster"]) {
        return Ok(Some(AlterAction::Cluster(None)));
    }
    for (word, logged) in [("logged", true), ("unlogged", false)] {
        if c.accept_all(&["set", word]) {
            return Ok(Some(AlterAction::Logged(logged)));
        }
    }
    if c.accept_all(&["set", "without", "oids"]) {
        return Ok(Some(AlterAction::WithoutOids));
    }
    for (words, what) in [
        (&["set", "access", "method"][..], "SET ACCESS METHOD"),
        (&["alter", "constraint"], "ALTER CONSTRAINT"),
    ] {
        if c.accept_all(words) {
            return Err(SqlError::unsupported(format!("ALTER TABLE ... {what}")));
        }
    }
    Ok(None)
}

fn replica_identity(c: &mut Cursor<'_>) -> Result<NewReplicaIdentity> {
    for (word, identity) in [
        ("default", NewReplicaIdentity::Default),
        ("full", NewReplicaIdentity::Full),
        ("nothing", NewReplicaIdentity::Nothing),
    ] {
        if c.accept(word) {
            return Ok(identity);
        }
    }
    c.expect("using")?;
    c.expect("index")?;
    Ok(NewReplicaIdentity::Index(c.name()?))
}

/// SET or RESET of storage parameters. None: it is another action.
fn parameters(c: &mut Cursor<'_>, statement: &str) -> Result<Option<AlterAction>> {
    for (word, reset) in [("set", false), ("reset", true)] {
        if c.accept(word) {
            if !c.accept_token(&Token::LParen) {
                let what = format!("{statement} ... {}", word.to_uppercase());
                return Err(SqlError::unsupported(what));
            }
            return Ok(Some(AlterAction::Parameters { given: storage_parameters(c)?, reset }));
        }
    }
    Ok(None)
}

fn not_supported(c: &Cursor<'_>, statement: &str) -> SqlError {
    match c.peek_word() {
        Some(word) => SqlError::unsupported(format!("{statement} ... {}", word.to_uppercase())),
        None => c.error(),
    }
}

/// What follows RENAME.
fn rename(c: &mut Cursor<'_>, of_index: bool) -> Result<RenameAction> {
    if c.accept("to") {
        return Ok(RenameAction::Table(c.name()?));
    }
    if of_index {
        return Err(c.error());
    }
    if c.accept("constraint") {
        let name = c.name()?;
        c.expect("to")?;
        return Ok(RenameAction::Constraint { name, to: c.name()? });
    }
    c.accept("column");
    let column = c.name()?;
    c.expect("to")?;
    Ok(RenameAction::Column { column, to: c.name()? })
}

/// What follows ADD.
fn add(c: &mut Cursor<'_>, table: &str) -> Result<AlterAction> {
    if let Some(check) = table_check(c)? {
        return Ok(AlterAction::AddCheck(check));
    }
    if let Some(not_null) = add_not_null(c)? {
        return Ok(not_null);
    }
    if let Some(key) = table_foreign_key(c)? {
        return Ok(AlterAction::AddForeignKey(key));
    }
    if let Some(key) = table_key(c)? {
        return Ok(AlterAction::AddKey(key));
    }
    if c.peek_word().as_deref() == Some("exclude") {
        return Err(SqlError::unsupported("an EXCLUDE constraint"));
    }
    c.accept("column");
    let if_not_exists = c.accept_all(&["if", "not", "exists"]);
    Ok(AlterAction::AddColumn { column: Box::new(new_column(c, table)?), if_not_exists })
}

/// NOT NULL of a column, perhaps with a name, if it is next.
fn add_not_null(c: &mut Cursor<'_>) -> Result<Option<AlterAction>> {
    let mut ahead = c.clone();
    let name = if ahead.accept("constraint") { Some(ahead.name()?) } else { None };
    if !ahead.accept_all(&["not", "null"]) {
        return Ok(None);
    }
    *c = ahead;
    let (column, mut valid) = (c.name()?, true);
    loop {
        let position = c.position();
        if c.accept_all(&["not", "valid"]) {
            valid = false;
        } else if c.accept_all(&["no", "inherit"]) {
            return Err(SqlError::unsupported("NOT NULL NO INHERIT").at(position));
        } else if c.accept("deferrable") || c.accept_all(&["initially", "deferred"]) {
            let message = "NOT NULL constraints cannot be marked DEFERRABLE";
            return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message).at(position));
        } else if c.accept_all(&["not", "enforced"]) {
            let message = "NOT NULL constraints cannot be marked NOT ENFORCED";
            return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message).at(position));
        } else if !c.accept_all(&["not", "deferrable"])
            && !c.accept_all(&["initially", "immediate"])
        {
            return Ok(Some(AlterAction::AddNotNull { name, column, valid }));
        }
    }
}

fn action(c: &mut Cursor<'_>, table: &str) -> Result<AlterAction> {
    if c.accept("add") {
        return add(c, table);
    }
    if c.accept_all(&["validate", "constraint"]) {
        return Ok(AlterAction::Validate(c.name()?));
    }
    if c.accept_all(&["drop", "constraint"]) {
        let if_exists = c.accept_all(&["if", "exists"]);
        let name = c.name()?;
        let cascade = c.accept("cascade");
        let _ = cascade || c.accept("restrict");
        return Ok(AlterAction::DropConstraint { name, if_exists, cascade });
    }
    if c.accept("drop") {
        c.accept("column");
        let if_exists = c.accept_all(&["if", "exists"]);
        let column = c.name()?;
        let cascade = c.accept("cascade");
        let _ = cascade || c.accept("restrict");
        return Ok(AlterAction::DropColumn { column, if_exists, cascade });
    }
    if c.accept("alter") {
        if c.peek_word().as_deref() == Some("constraint") {
            return Err(SqlError::unsupported("ALTER TABLE ... ALTER CONSTRAINT"));
        }
        c.accept("column");
        return alter_column(c);
    }
    Err(not_supported(c, "ALTER TABLE"))
}
