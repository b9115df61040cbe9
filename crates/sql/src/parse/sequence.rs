//! CREATE, ALTER and DROP SEQUENCE, parsed by hand.

use super::cursor::{Cursor, QualifiedName};
use super::drop::DropStatement;
use super::role_name::{RoleName, role};
use super::type_name::type_name;
use crate::error::{Result, SqlError, state};
use forebay_engine::{SequenceOptions, SequencePersistence};
use forebay_types::{Datum, SqlType, text_in, type_by_name};
use sqlparser::tokenizer::Token;

/// OWNED BY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedBy {
    /// NONE
    Nothing,
    /// A column.
    Column {
        /// The table.
        table: QualifiedName,
        /// The column.
        column: String,
    },
}

/// What CREATE and ALTER SEQUENCE, and an identity column, say of a sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceClauses {
    /// The options.
    pub options: SequenceOptions,
    /// OWNED BY, if it was given.
    pub owned_by: Option<OwnedBy>,
}

/// CREATE SEQUENCE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateSequence {
    /// The sequence.
    pub name: QualifiedName,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// TEMPORARY, UNLOGGED.
    pub persistence: SequencePersistence,
    /// Its clauses.
    pub clauses: SequenceClauses,
}

/// What ALTER SEQUENCE does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SequenceAction {
    /// Changes options.
    Options(SequenceClauses),
    /// RENAME TO
    Rename(String),
    /// SET LOGGED, SET UNLOGGED
    SetLogged(bool),
    /// OWNER TO
    Owner(RoleName),
    /// SET SCHEMA
    Schema(String),
}

/// ALTER SEQUENCE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterSequence {
    /// The sequence.
    pub name: QualifiedName,
    /// IF EXISTS.
    pub if_exists: bool,
    /// What is done.
    pub action: SequenceAction,
}

/// The persistence that words before SEQUENCE give, which are taken with it. None: what is created
/// is something else.
pub(super) fn accept_create(c: &mut Cursor<'_>) -> Option<SequencePersistence> {
    let mut ahead = c.clone();
    let persistence = if ahead.accept("unlogged") {
        SequencePersistence::Unlogged
    } else {
        let _ = ahead.accept("local") || ahead.accept("global");
        match ahead.accept("temporary") || ahead.accept("temp") {
            true => SequencePersistence::Temporary,
            false => SequencePersistence::Permanent,
        }
    };
    if !ahead.accept("sequence") {
        return None;
    }
    *c = ahead;
    Some(persistence)
}

/// CREATE SEQUENCE, behind these words.
pub(super) fn create(
    c: &mut Cursor<'_>,
    persistence: SequencePersistence,
) -> Result<CreateSequence> {
    let if_not_exists = c.accept_all(&["if", "not", "exists"]);
    let name = c.qualified_name()?;
    let clauses = clauses(c)?;
    c.expect_end()?;
    Ok(CreateSequence { name, if_not_exists, persistence, clauses })
}

/// ALTER SEQUENCE, behind these words.
pub(super) fn alter(c: &mut Cursor<'_>) -> Result<AlterSequence> {
    let if_exists = c.accept_all(&["if", "exists"]);
    let name = c.qualified_name()?;
    let action = if c.accept_all(&["rename", "to"]) {
        SequenceAction::Rename(c.name()?)
    } else if c.accept_all(&["set", "logged"]) {
        SequenceAction::SetLogged(true)
    } else if c.accept_all(&["set", "unlogged"]) {
        SequenceAction::SetLogged(false)
    } else if c.accept_all(&["owner", "to"]) {
        SequenceAction::Owner(role(c)?)
    } else if c.accept_all(&["set", "schema"]) {
        SequenceAction::Schema(c.name()?)
    } else if c.at_end() {
        return Err(c.error());
    } else {
        SequenceAction::Options(clauses(c)?)
    };
    c.expect_end()?;
    Ok(AlterSequence { name, if_exists, action })
}

/// DROP SEQUENCE, behind these words.
pub(super) fn parse_drop(c: &mut Cursor<'_>) -> Result<DropStatement> {
    let if_exists = c.accept_all(&["if", "exists"]);
    let mut names = vec![c.qualified_name()?];
    while c.accept_token(&Token::Comma) {
        names.push(c.qualified_name()?);
    }
    let cascade = c.accept("cascade");
    let _ = cascade || c.accept("restrict");
    c.expect_end()?;
    Ok(DropStatement { names, if_exists, concurrently: false, cascade })
}

/// The clauses up to the end, or to a closing parenthesis.
pub(super) fn clauses(c: &mut Cursor<'_>) -> Result<SequenceClauses> {
    let mut clauses = SequenceClauses::default();
    while !c.at_end() && c.peek() != Some(&Token::RParen) {
        clause(c, &mut clauses)?;
    }
    Ok(clauses)
}

/// Stores what a clause says, which must not have been said before.
fn once<T>(slot: &mut Option<T>, value: T, position: u32) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => {
            let message = "conflicting or redundant options";
            Err(SqlError::new(state::SYNTAX_ERROR, message).at(position))
        }
    }
}

/// One clause.
pub(super) fn clause(c: &mut Cursor<'_>, clauses: &mut SequenceClauses) -> Result<()> {
    let SequenceClauses { options, owned_by } = clauses;
    let at = c.position();
    if c.accept("as") {
        let ty = type_name(c)?;
        let known = type_by_name(&ty.name).filter(|_| !ty.array);
        let unknown = || {
            let message = format!("type \"{}\" does not exist", ty.display());
            SqlError::new(state::UNDEFINED_OBJECT, message).at(ty.position)
        };
        let oid = known.ok_or_else(unknown)?.oid;
        return once(&mut options.type_oid, oid, at);
    }
    if c.accept("increment") {
        c.accept("by");
        return once(&mut options.increment, number(c)?, at);
    }
    if c.accept("minvalue") {
        return once(&mut options.min, Some(number(c)?), at);
    }
    if c.accept("maxvalue") {
        return once(&mut options.max, Some(number(c)?), at);
    }
    if c.accept("start") {
        c.accept("with");
        return once(&mut options.start, number(c)?, at);
    }
    if c.accept("restart") {
        let given = c.accept("with") || is_number(c);
        return once(&mut options.restart, given.then(|| number(c)).transpose()?, at);
    }
    if c.accept("cache") {
        return once(&mut options.cache, number(c)?, at);
    }
    if c.accept("cycle") {
        return once(&mut options.cycle, true, at);
    }
    if c.accept_all(&["owned", "by"]) {
        return once(owned_by, owner(c)?, at);
    }
    if c.accept_all(&["sequence", "name"]) {
        let message = "invalid sequence option SEQUENCE NAME";
        return Err(SqlError::new(state::SYNTAX_ERROR, message).at(at));
    }
    for word in ["logged", "unlogged"] {
        if c.accept(word) {
            let message = format!("option \"{word}\" not recognized");
            return Err(SqlError::new(state::INTERNAL_ERROR, message));
        }
    }
    if c.accept("no") {
        if c.accept("minvalue") {
            return once(&mut options.min, None, at);
        }
        if c.accept("maxvalue") {
            return once(&mut options.max, None, at);
        }
        if c.accept("cycle") {
            return once(&mut options.cycle, false, at);
        }
    }
    Err(c.error())
}

fn is_number(c: &Cursor<'_>) -> bool {
    matches!(c.peek(), Some(Token::Number(..) | Token::Plus | Token::Minus))
}

/// A number, as PostgreSQL reads a bigint.
fn number(c: &mut Cursor<'_>) -> Result<i64> {
    let digits = c.accept_number().ok_or_else(|| c.error())?;
    match text_in(&digits, SqlType::Int8)? {
        Datum::Int8(number) => Ok(number),
        _ => Err(c.error()),
    }
}

/// What owns the sequence: NONE, or a table and a column.
fn owner(c: &mut Cursor<'_>) -> Result<OwnedBy> {
    let position = c.position();
    if c.accept("none") {
        return Ok(OwnedBy::Nothing);
    }
    let mut names = vec![c.name()?];
    while c.accept_token(&Token::Period) {
        names.push(c.name()?);
    }
    let column = names.pop().unwrap_or_default();
    let (schema, name) = match (names.pop(), names.pop()) {
        (Some(name), schema) if names.is_empty() => (schema, name),
        (Some(_), _) => {
            let message = "cross-database references are not implemented";
            return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message).at(position));
        }
        (None, _) if column == "none" => return Ok(OwnedBy::Nothing),
        (None, _) => {
            let hint = "Specify OWNED BY table.column or OWNED BY NONE.";
            return Err(SqlError::new(state::SYNTAX_ERROR, "invalid OWNED BY option").hint(hint));
        }
    };
    Ok(OwnedBy::Column { table: QualifiedName { schema, name, position }, column })
}
