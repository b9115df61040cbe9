//! ALTER TABLE and ALTER INDEX, parsed by hand: keys are added and dropped, the storage of columns
//! and storage parameters are changed.

use super::column::{CheckClause, default_expr, table_check};
use super::cursor::{Cursor, QualifiedName};
use super::foreign_key::{NewForeignKey, table_foreign_key};
use super::index::{NewKey, table_key};
use super::options::storage_parameters;
use super::table::{NewTableColumn, new_column, storage_name};
use crate::error::{Result, SqlError};
use forebay_engine::StorageParameter;
use sqlparser::ast;
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

/// What RENAME renames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenameAction {
    /// The table.
    Table(String),
    /// A column.
    Column {
        /// Its name.
        column: String,
        /// Its new name.
        to: String,
    },
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
        /// CASCADE.
        cascade: bool,
    },
    /// ADD FOREIGN KEY.
    AddForeignKey(NewForeignKey),
    /// ADD COLUMN.
    AddColumn {
        /// The column.
        column: Box<NewTableColumn>,
        /// IF NOT EXISTS.
        if_not_exists: bool,
    },
    /// DROP COLUMN.
    DropColumn {
        /// The column.
        column: String,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// ADD CHECK.
    AddCheck(CheckClause),
    /// VALIDATE CONSTRAINT.
    Validate(String),
    /// ALTER COLUMN ... SET DEFAULT; None: DROP DEFAULT.
    SetDefault {
        /// The column.
        column: String,
        /// The default.
        default: Option<ast::Expr>,
    },
    /// ALTER COLUMN ... SET NOT NULL or DROP NOT NULL.
    SetNotNull {
        /// The column.
        column: String,
        /// SET.
        on: bool,
    },
    /// RENAME, which is alone.
    Rename(RenameAction),
    /// SET or RESET of storage parameters.
    Parameters {
        /// The parameters.
        given: Vec<StorageParameter>,
        /// RESET.
        reset: bool,
    },
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
    let if_exists = c.accept_all(&["if", "exists"]);
    if !of_index {
        c.accept("only");
    }
    let table = c.qualified_name()?;
    if !of_index {
        c.accept_token(&Token::Mul);
    }
    let mut actions = Vec::new();
    if !of_index && c.accept("rename") {
        actions.push(AlterAction::Rename(rename(c)?));
        c.expect_end()?;
        return Ok(AlterTable { of_index, table, if_exists, actions });
    }
    loop {
        let statement = if of_index { "ALTER INDEX" } else { "ALTER TABLE" };
        actions.push(match parameters(c, statement)? {
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
fn rename(c: &mut Cursor<'_>) -> Result<RenameAction> {
    if c.accept("to") {
        return Ok(RenameAction::Table(c.name()?));
    }
    if c.accept("constraint") {
        return Err(SqlError::unsupported("ALTER TABLE ... RENAME CONSTRAINT"));
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
    if let Some(key) = table_foreign_key(c)? {
        return Ok(AlterAction::AddForeignKey(key));
    }
    if let Some(key) = table_key(c)? {
        return Ok(AlterAction::AddKey(key));
    }
    for (word, what) in
        [("exclude", "an EXCLUDE constraint"), ("not", "ALTER TABLE ... ADD NOT NULL")]
    {
        if c.peek_word().as_deref() == Some(word) {
            return Err(SqlError::unsupported(what));
        }
    }
    c.accept("column");
    let if_not_exists = c.accept_all(&["if", "not", "exists"]);
    Ok(AlterAction::AddColumn { column: Box::new(new_column(c, table)?), if_not_exists })
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
        if c.accept("cascade") {
            return Err(SqlError::unsupported("ALTER TABLE ... DROP COLUMN ... CASCADE"));
        }
        c.accept("restrict");
        return Ok(AlterAction::DropColumn { column, if_exists });
    }
    if c.accept("alter") {
        if c.peek_word().as_deref() == Some("constraint") {
            return Err(SqlError::unsupported("ALTER TABLE ... ALTER CONSTRAINT"));
        }
        c.accept("column");
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
        return Err(SqlError::unsupported("this form of ALTER TABLE ... ALTER COLUMN"));
    }
    Err(not_supported(c, "ALTER TABLE"))
}
