//! Query strings to statements.
//!
//! - `statement.rs`: parsed statements
//! - `source.rs`: the text and positions in it; `escapes.rs`: escapes in its strings
//! - `cursor.rs`: tokens of one statement
//! - `depth.rs`: how deep its tree may become
//! - `size.rs`: how much memory its tokens and tree may take
//! - `parser.rs`: sqlparser over tokens, its errors as PostgreSQL's; `queries.rs`: over statements
//! - `extras.rs`: what PostgreSQL has and sqlparser does not know
//! - `watched.rs`: the dialect that sqlparser asks, which can make it stop
//! - `transaction.rs`: transactions, savepoints, LOCK TABLE
//! - `setting.rs`: a setting with its value
//! - `utility.rs`: SET and SHOW, and other small statements, parsed by hand
//! - `create_table.rs`: CREATE TABLE; `table.rs`: its elements, DROP TABLE; `table_as.rs`:
//!   CREATE TABLE AS, SELECT INTO; `like.rs`: LIKE; `column.rs`: constraints of columns, CHECK;
//!   `options.rs`: storage parameters; `type_name.rs`: types
//! - `drop.rs`: what is dropped; `refuse.rs`: what is refused by its name
//! - `foreign_key.rs`: FOREIGN KEY, and what may follow a constraint
//! - `index.rs`: CREATE INDEX, REINDEX, and the keys of tables; `alter.rs`,
//!   `alter_column.rs`: ALTER TABLE; `alter_action.rs`: what it does
//! - `objects.rs`: databases, schemas, roles, tablespaces, comments; `collations.rs`: collations;
//!   `role_name.rs`: roles; `role_options.rs`: their options, GRANT and REVOKE of them
//! - `copy.rs`: COPY
//! - `explain.rs`: EXPLAIN
//! - `vacuum.rs`: VACUUM, ANALYZE
//! - `portals.rs`: DECLARE, FETCH, MOVE and CLOSE
//! - `truncate.rs`: TRUNCATE; `sequence.rs`: CREATE, ALTER and DROP SEQUENCE
//!
//! SELECT, VALUES, INSERT, UPDATE and DELETE go through sqlparser, which accepts much that
//! PostgreSQL rejects: the planner takes its tree apart completely, and refuses what it does not
//! know.

mod alter;
mod alter_action;
mod alter_column;
mod collations;
mod column;
mod copy;
mod create_table;
pub mod cursor;
mod depth;
mod drop;
mod escapes;
mod explain;
mod extras;
mod foreign_key;
mod index;
mod like;
mod objects;
mod options;
mod parser;
mod portals;
mod queries;
mod refuse;
mod role_name;
mod role_options;
mod sequence;
mod setting;
mod size;
pub mod source;
mod statement;
mod table;
mod table_as;
mod transaction;
mod truncate;
mod type_name;
mod utility;
mod vacuum;
mod watched;

pub use alter::AlterTable;
pub use alter_action::{AlterAction, NewReplicaIdentity, RenameAction};
pub use collations::{CollationOption, CollationStatement, redundant};
pub use column::{CheckClause, ColumnValues};
pub use copy::{CopyOption, CopySource, CopyStatement, CopyTarget, OptionValue};
pub use cursor::QualifiedName;
pub(crate) use depth::too_complex;
pub use drop::DropStatement;
pub use extras::{ConflictTarget, Extras, Overriding, VersionNames};
pub use foreign_key::NewForeignKey;
pub use index::{CreateIndex, KeyColumn, NewIndex, NewKey, Reindex};
pub use like::{LikeClause, LikeOptions};
pub use objects::{GivenOption, ObjectStatement};
pub use portals::{Declare, Direction, Fetch};
pub use role_name::RoleName;
pub use role_options::{GrantedRoles, RoleOption};
pub use sequence::{AlterSequence, CreateSequence, OwnedBy, SequenceAction, SequenceClauses};
pub use size::estimated_memory;
pub use source::Source;
pub use statement::{
    Explain, Kind, LockTables, Modes, ShowTarget, Statement, TransactionStatement, Truncate,
};
pub use table::{CreateTable, NewColumn, NewTableColumn};
pub use table_as::CreateTableAs;
pub use type_name::{TypeName, interval_fields};
pub use vacuum::Vacuum;

use crate::error::{Result, SqlError, state};
use cursor::Cursor;
use forebay_engine::Interrupt;
use forebay_types::Encoding;
use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::sync::Arc;

/// Parses a query string of any number of statements, in a database with an encoding; an interrupt
/// ends it.
pub fn parse_script(
    text: &str,
    encoding: Encoding,
    interrupt: Option<&Interrupt>,
) -> Result<Vec<Statement>> {
    if text.contains('\0') {
        let encoding = encoding.name();
        let message = format!("invalid byte sequence for encoding \"{encoding}\": 0x00");
        return Err(SqlError::new(state::CHARACTER_NOT_IN_REPERTOIRE, message));
    }
    size::check(text, size::MOST)?;
    let source = Arc::new(Source::new(text, encoding, interrupt.cloned()));
    let tokens = source.tokenize()?;
    let mut statements = Vec::new();
    let mut rest = tokens.as_slice();
    while !rest.is_empty() {
        let at = rest.iter().position(|t| t.token == Token::SemiColon);
        let (statement, end) = match at {
            Some(at) => (rest.get(..at).unwrap_or_default(), rest.get(at)),
            None => (rest, None),
        };
        if !statement.is_empty() {
            depth::check(statement)?;
            source.check_interrupt()?;
            let kind = Arc::new(parse_statement(statement, end, &source)?);
            statements.push(Statement { kind, source: Arc::clone(&source) });
        }
        rest = rest.get(statement.len() + 1..).unwrap_or_default();
    }
    Ok(statements)
}

/// Parses an expression that the server has printed, with the text that its places are in.
pub fn parse_expression(text: &str) -> Result<(ast::Expr, Source)> {
    let source = Source::printed(text);
    let tokens = source.tokenize()?;
    depth::check(&tokens)?;
    let expr = parser::expression(&tokens, None, &source)?;
    Ok((expr, source))
}

/// Parses a type's name.
pub fn type_of_text(text: &str) -> Result<TypeName> {
    let source = Source::printed(text);
    let tokens = source.tokenize()?;
    let mut cursor = Cursor::new(&tokens, None, &source);
    let name = type_name::type_name(&mut cursor)?;
    cursor.expect_end()?;
    Ok(name)
}

/// Parses a column of CREATE TABLE that the server has printed.
pub fn new_column_of(text: &str) -> Result<NewColumn> {
    let source = Source::printed(text);
    let tokens = source.tokenize()?;
    let mut cursor = Cursor::new(&tokens, None, &source);
    let new = table::new_column(&mut cursor, "")?;
    cursor.expect_end()?;
    Ok(new.column)
}

fn parse_statement(
    tokens: &[TokenWithSpan],
    end: Option<&TokenWithSpan>,
    source: &Source,
) -> Result<Kind> {
    let mut cursor = Cursor::new(tokens, end, source);
    let Some(first) = cursor.peek_word() else {
        if cursor.peek() == Some(&Token::LParen) {
            return parse_query_or_change(tokens, end, source);
        }
        return Err(cursor.error());
    };
    if let Some(statement) = objects::parse(&first, Cursor::new(tokens, end, source))? {
        return Ok(Kind::Object(Box::new(statement)));
    }
    match first.as_str() {
        "select" | "values" | "with" | "table" | "insert" | "update" => {
            parse_query_or_change(tokens, end, source)
        }
        "delete" => {
            // sqlparser looks for several tables first.
            cursor.advance();
            cursor.expect("from")?;
            parse_query_or_change(tokens, end, source)
        }
        "vacuum" => vacuum::parse(&mut cursor).map(Kind::Vacuum),
        "analyze" | "analyse" => vacuum::parse_analyze(&mut cursor).map(Kind::Vacuum),
        "copy" => copy::parse(&mut cursor, source).map(|c| Kind::Copy(Box::new(c))),
        "create" => {
            cursor.advance();
            parse_create(&mut cursor)
        }
        "drop" => {
            cursor.advance();
            parse_drop(&mut cursor)
        }
        "alter" => {
            cursor.advance();
            if cursor.accept("sequence") {
                let altered = sequence::alter(&mut cursor)?;
                return Ok(Kind::AlterSequence(Box::new(altered)));
            }
            alter::parse(&mut cursor).map(Kind::AlterTable)
        }
        "reindex" => index::parse_reindex(&mut cursor).map(Kind::Reindex),
        "declare" => portals::declare(&mut cursor, source).map(|d| Kind::Declare(Box::new(d))),
        "fetch" | "move" => portals::fetch(&mut cursor, first == "move").map(Kind::Fetch),
        "close" => portals::close(&mut cursor).map(Kind::Close),
        "explain" => {
            let explained = explain::parse(&mut cursor, source, |c, source| {
                let (rest, end) = c.rest();
                parse_statement(rest, end, source)
            })?;
            Ok(Kind::Explain(Box::new(explained)))
        }
        "truncate" => truncate::parse(&mut cursor).map(Kind::Truncate),
        _ => utility::parse(&first, &mut cursor),
    }
}

/// What is behind CREATE.
fn parse_create(c: &mut Cursor<'_>) -> Result<Kind> {
    if let Some(persistence) = sequence::accept_create(c) {
        return Ok(Kind::CreateSequence(Box::new(sequence::create(c, persistence)?)));
    }
    match c.peek_word().as_deref() {
        Some("index" | "unique") => index::parse_create(c).map(|i| Kind::CreateIndex(Box::new(i))),
        _ => create_table::create_table(c),
    }
}

/// What is behind DROP.
fn parse_drop(c: &mut Cursor<'_>) -> Result<Kind> {
    if c.accept("sequence") {
        return sequence::parse_drop(c).map(Kind::DropSequence);
    }
    let (index, drop) = table::parse_drop(c)?;
    Ok(if index { Kind::DropIndex(drop) } else { Kind::DropTable(drop) })
}

fn parse_query_or_change(
    tokens: &[TokenWithSpan],
    end: Option<&TokenWithSpan>,
    source: &Source,
) -> Result<Kind> {
    let (statement, extras) = queries::with_parser(tokens, end, source, |p| p.parse_statement())?;
    match statement {
        ast::Statement::Query(mut query) => {
            let into = table_as::select_into(&mut query, |at| source.position(at))?;
            let Some(create) = into else { return Ok(Kind::Query(query)) };
            let (names, with_data) = (Vec::new(), true);
            let made = CreateTableAs { create, names, query, with_data, into: true };
            Ok(Kind::CreateTableAs(Box::new(made)))
        }
        ast::Statement::Insert(insert) => Ok(Kind::Insert(Box::new(insert), extras)),
        ast::Statement::Update(update) => Ok(Kind::Update(Box::new(update), extras)),
        ast::Statement::Delete(delete) => Ok(Kind::Delete(Box::new(delete), extras)),
        // It is not printed: it may be deep.
        _ => {
            let first = Cursor::new(tokens, end, source).peek_word().unwrap_or_default();
            Err(SqlError::unsupported(first.to_uppercase()))
        }
    }
}
