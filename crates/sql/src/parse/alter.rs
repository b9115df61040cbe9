//! ALTER TABLE, parsed by hand: keys are added and dropped, the storage of columns is changed.

use super::cursor::{Cursor, QualifiedName};
use super::index::{NewKey, table_key};
use super::table::storage_name;
use crate::error::{Result, SqlError};
use sqlparser::tokenizer::Token;

/// ALTER TABLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterTable {
    /// The table.
    pub table: QualifiedName,
    /// IF EXISTS.
    pub if_exists: bool,
    /// What is done.
    pub actions: Vec<AlterAction>,
}

/// An action of ALTER TABLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlterAction {
    /// ADD PRIMARY KEY, ADD UNIQUE.
    AddKey(NewKey),
    /// ALTER COLUMN ... SET STORAGE, SET COMPRESSION.
    ColumnStorage {
        /// The column.
        column: String,
        /// Whether COMPRESSION is set.
        compression: bool,
        /// The name of the storage or of the method.
        name: String,
    },
    /// DROP CONSTRAINT.
    DropConstraint {
        /// Its name.
        name: String,
        /// IF EXISTS.
        if_exists: bool,
    },
}

pub(super) fn parse(c: &mut Cursor<'_>) -> Result<AlterTable> {
    c.advance();
    if !c.accept("table") {
        return match c.peek_word() {
            Some(word) => Err(SqlError::unsupported(format!("ALTER {}", word.to_uppercase()))),
            None => Err(c.error()),
        };
    }
    let if_exists = c.accept_all(&["if", "exists"]);
    c.accept("only");
    let table = c.qualified_name()?;
    c.accept_token(&Token::Mul);
    let mut actions = Vec::new();
    loop {
        actions.push(action(c)?);
        if !c.accept_token(&Token::Comma) {
            break;
        }
    }
    c.expect_end()?;
    Ok(AlterTable { table, if_exists, actions })
}

fn action(c: &mut Cursor<'_>) -> Result<AlterAction> {
    if c.accept("add") {
        return match table_key(c)? {
            Some(key) => Ok(AlterAction::AddKey(key)),
            None => Err(SqlError::unsupported("this form of ALTER TABLE ... ADD")),
        };
    }
    if c.accept_all(&["drop", "constraint"]) {
        let if_exists = c.accept_all(&["if", "exists"]);
        let name = c.name()?;
        // Nothing depends on a key: there are no foreign keys.
        let _ = c.accept("cascade") || c.accept("restrict");
        return Ok(AlterAction::DropConstraint { name, if_exists });
    }
    if c.accept("alter") {
        c.accept("column");
        let column = c.name()?;
        for (word, compression) in [("storage", false), ("compression", true)] {
            if c.accept_all(&["set", word]) {
                let name = storage_name(c)?;
                return Ok(AlterAction::ColumnStorage { column, compression, name });
            }
        }
        return Err(SqlError::unsupported("this form of ALTER TABLE ... ALTER COLUMN"));
    }
    match c.peek_word() {
        Some(word) => {
            Err(SqlError::unsupported(format!("ALTER TABLE ... {}", word.to_uppercase())))
        }
        None => Err(c.error()),
    }
}
