//! CREATE TABLE and DROP TABLE, parsed by hand. What PostgreSQL knows and this server does not is
//! refused by name.

use super::column::{
    CheckClause, ColumnClauses, ColumnValues, column_clauses, serial, table_check,
};
use super::cursor::{Cursor, QualifiedName};
use super::drop::DropStatement;
use super::foreign_key::{NewForeignKey, table_foreign_key};
use super::index::{NewKey, table_key};
use super::like::{LikeClause, like};
use super::options::storage_parameters;
use super::refuse::refuse;
use super::type_name::{TypeName, type_name};
use crate::error::{Result, SqlError, state};
use forebay_engine::{OnCommit, StorageParameter};
use sqlparser::tokenizer::Token;

/// A column of CREATE TABLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: TypeName,
    /// Its type is serial, or one of its kind.
    pub serial: bool,
    /// NOT NULL was given.
    pub not_null: bool,
    /// The name of that constraint.
    pub not_null_name: Option<String>,
    /// DEFAULT and GENERATED.
    pub values: ColumnValues,
    /// REFERENCES.
    pub foreign_keys: Vec<NewForeignKey>,
    /// STORAGE, if it was given.
    pub storage: Option<String>,
    /// COMPRESSION, if it was given.
    pub compression: Option<String>,
    /// COLLATE, if it was given.
    pub collation: Option<QualifiedName>,
}

/// A column with the constraints that it brings to its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTableColumn {
    /// The column.
    pub column: NewColumn,
    /// PRIMARY KEY and UNIQUE.
    pub keys: Vec<NewKey>,
    /// CHECK.
    pub checks: Vec<CheckClause>,
}

/// A column that is added to a table.
pub(super) fn new_column(c: &mut Cursor<'_>, table: &str) -> Result<NewTableColumn> {
    let (mut keys, mut checks) = (Vec::new(), Vec::new());
    let column = column(c, table, &mut keys, &mut checks)?;
    Ok(NewTableColumn { column, keys, checks })
}

/// CREATE TABLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTable {
    /// The table.
    pub name: QualifiedName,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The columns.
    pub columns: Vec<NewColumn>,
    /// PRIMARY KEY and UNIQUE, in the order in which they were written.
    pub keys: Vec<NewKey>,
    /// Its checks, in the order in which they were written.
    pub checks: Vec<CheckClause>,
    /// LIKE, in the order in which they were written.
    pub likes: Vec<LikeClause>,
    /// FOREIGN KEY of the table, without those of its columns.
    pub foreign_keys: Vec<NewForeignKey>,
    /// WITH (...)
    pub parameters: Vec<StorageParameter>,
    /// TEMPORARY was given.
    pub temporary: bool,
    /// UNLOGGED was given.
    pub unlogged: bool,
    /// GLOBAL was given, which PostgreSQL warns of, here.
    pub global: Option<u32>,
    /// ON COMMIT, if it was given.
    pub on_commit: Option<OnCommit>,
    /// TABLESPACE.
    pub tablespace: Option<String>,
}

/// Columns of a table, as in PostgreSQL.
const MAX_COLUMNS: usize = 1600;

impl CreateTable {
    /// A table without columns.
    pub(super) fn named(name: QualifiedName, temporary: bool) -> CreateTable {
        CreateTable {
            name,
            if_not_exists: false,
            columns: Vec::new(),
            foreign_keys: Vec::new(),
            keys: Vec::new(),
            checks: Vec::new(),
            likes: Vec::new(),
            parameters: Vec::new(),
            temporary,
            unlogged: false,
            global: None,
            on_commit: None,
            tablespace: None,
        }
    }
}

/// The elements of a table that has none yet, and its options.
pub(super) fn with_elements(c: &mut Cursor<'_>, create: CreateTable) -> Result<CreateTable> {
    c.expect_token(&Token::LParen)?;
    let Elements { columns, keys, checks, likes, foreign_keys } = elements(c, &create.name.name)?;
    let create = table_options(c, create)?;
    c.expect_end()?;
    Ok(CreateTable { columns, keys, checks, likes, foreign_keys, ..create })
}

/// What a table is made of.
#[derive(Default)]
struct Elements {
    columns: Vec<NewColumn>,
    keys: Vec<NewKey>,
    checks: Vec<CheckClause>,
    likes: Vec<LikeClause>,
    foreign_keys: Vec<NewForeignKey>,
}

/// The columns and constraints of a table, up to the closing parenthesis.
fn elements(c: &mut Cursor<'_>, table: &str) -> Result<Elements> {
    let mut elements = Elements::default();
    if c.accept_token(&Token::RParen) {
        return Ok(elements);
    }
    loop {
        let Elements { columns, keys, checks, likes, foreign_keys } = &mut elements;
        let (check, other) = (table_check(c)?, like(c, columns.len())?);
        let foreign_key = table_foreign_key(c)?;
        let is_check = check.is_some() || other.is_some() || foreign_key.is_some();
        checks.extend(check);
        likes.extend(other);
        foreign_keys.extend(foreign_key);
        match if is_check { None } else { table_key(c)? } {
            None if is_check => {}
            Some(NewKey { existing: Some(_), position, .. }) => {
                let message = "cannot use an existing index in CREATE TABLE";
                return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message).at(position));
            }
            Some(key) => keys.push(key),
            None => {
                let column = column(c, table, keys, checks)?;
                if columns.iter().any(|other| other.name == column.name) {
                    let message = format!("column \"{}\" specified more than once", column.name);
                    return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
                }
                columns.push(column);
            }
        }
        if columns.len() > MAX_COLUMNS {
            let message = format!("tables can have at most {MAX_COLUMNS} columns");
            return Err(SqlError::new(state::TOO_MANY_COLUMNS, message));
        }
        if c.accept_token(&Token::RParen) {
            return Ok(elements);
        }
        c.expect_token(&Token::Comma)?;
    }
}

/// What may follow the column list.
pub(super) fn table_options(c: &mut Cursor<'_>, create: CreateTable) -> Result<CreateTable> {
    refuse_options(c)?;
    let mut parameters = Vec::new();
    if c.accept("with") {
        c.expect_token(&Token::LParen)?;
        parameters = storage_parameters(c)?;
    } else if c.accept("without") {
        c.expect("oids")?;
    }
    let on_commit = if c.accept_all(&["on", "commit"]) { Some(on_commit(c)?) } else { None };
    let tablespace = if c.accept("tablespace") { Some(c.name()?) } else { None };
    refuse_options(c)?;
    Ok(CreateTable { parameters, on_commit, tablespace, ..create })
}

/// Refuses what may follow the column list and is not supported.
fn refuse_options(c: &mut Cursor<'_>) -> Result<()> {
    c.accept_all(&["using", "heap"]);
    for (word, what) in [
        ("inherits", "table inheritance"),
        ("partition", "table partitioning"),
        ("using", "a table access method other than heap"),
    ] {
        if c.peek_word().as_deref() == Some(word) {
            return Err(SqlError::unsupported(what));
        }
    }
    Ok(())
}

fn on_commit(c: &mut Cursor<'_>) -> Result<OnCommit> {
    for (words, what) in [
        (&["preserve", "rows"][..], OnCommit::PreserveRows),
        (&["delete", "rows"][..], OnCommit::DeleteRows),
        (&["drop"][..], OnCommit::Drop),
    ] {
        if c.accept_all(words) {
            return Ok(what);
        }
    }
    Err(c.error())
}

fn column(
    c: &mut Cursor<'_>,
    table: &str,
    keys: &mut Vec<NewKey>,
    checks: &mut Vec<CheckClause>,
) -> Result<NewColumn> {
    table_constraint(c)?;
    let name = c.name()?;
    let position = c.position();
    let serial = serial(c);
    let ty = match serial {
        Some(2) => TypeName::built_in("int2", None),
        Some(4) => TypeName::built_in("int4", None),
        Some(_) => TypeName::built_in("int8", None),
        None => type_name(c)?,
    };
    if serial.is_some() && c.peek() == Some(&Token::LBracket) {
        let message = "array of serial is not implemented";
        return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message).at(position));
    }
    let serial = serial.is_some();
    let [storage, compression] = [storage_word(c, "storage")?, storage_word(c, "compression")?];
    let clauses = column_clauses(c, (&name, table, serial), keys, checks)?;
    let ColumnClauses { values, not_null, not_null_name, foreign_keys, collation, .. } = clauses;
    Ok(NewColumn {
        name,
        ty,
        serial,
        not_null,
        not_null_name,
        values,
        foreign_keys,
        storage,
        compression,
        collation,
    })
}

/// STORAGE or COMPRESSION with its name, if it is next.
fn storage_word(c: &mut Cursor<'_>, word: &str) -> Result<Option<String>> {
    if c.accept(word) { storage_name(c).map(Some) } else { Ok(None) }
}

/// The name of a storage or of a compression method.
pub(super) fn storage_name(c: &mut Cursor<'_>) -> Result<String> {
    if c.accept("default") { Ok("default".to_owned()) } else { c.name() }
}

/// Refuses constraints of the table.
fn table_constraint(c: &mut Cursor<'_>) -> Result<()> {
    refuse(c, |word| match word {
        "exclude" => Some("an EXCLUDE constraint"),
        _ => None,
    })
}

/// DROP TABLE or DROP INDEX, behind DROP, and whether it is an index's.
pub(super) fn parse_drop(c: &mut Cursor<'_>) -> Result<(bool, DropStatement)> {
    let index = c.accept("index");
    if !index && !c.accept("table") {
        return Err(unsupported_object("DROP", c));
    }
    let concurrently = index && c.accept("concurrently");
    let if_exists = c.accept_all(&["if", "exists"]);
    let mut names = vec![c.qualified_name()?];
    while c.accept_token(&Token::Comma) {
        names.push(c.qualified_name()?);
    }
    let cascade = c.accept("cascade");
    let _ = cascade || c.accept("restrict");
    c.expect_end()?;
    Ok((index, DropStatement { names, if_exists, concurrently, cascade }))
}

/// CREATE or DROP of something else.
pub(super) fn unsupported_object(verb: &str, c: &Cursor<'_>) -> SqlError {
    const OBJECTS: &[&str] = &[
        "access",
        "aggregate",
        "cast",
        "collation",
        "constraint",
        "conversion",
        "database",
        "default",
        "domain",
        "event",
        "extension",
        "foreign",
        "function",
        "group",
        "language",
        "materialized",
        "operator",
        "or",
        "owned",
        "policy",
        "procedure",
        "procedural",
        "publication",
        "recursive",
        "role",
        "routine",
        "rule",
        "schema",
        "server",
        "statistics",
        "subscription",
        "tablespace",
        "text",
        "transform",
        "trigger",
        "trusted",
        "type",
        "user",
        "view",
    ];
    match c.peek_word() {
        Some(word) if OBJECTS.contains(&word.as_str()) => {
            SqlError::unsupported(format!("{verb} {}", word.to_uppercase()))
        }
        _ => c.error(),
    }
}
