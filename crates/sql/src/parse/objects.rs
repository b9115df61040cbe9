//! CREATE, ALTER and DROP of databases, schemas, roles and tablespaces; GRANT and REVOKE of roles;
//! COMMENT ON.

use super::collations::{self, CollationStatement};
use super::cursor::{Cursor, QualifiedName};
use super::role_name::{RoleName, no_new_name, role, role_id, roles};
use super::role_options::{GrantedRoles, RoleOption, grant, role_options};
use super::setting::{setting, setting_name};
use crate::error::{Result, SqlError, state};
use forebay_engine::{CommentOn, MemberOptions, SettingChange};
use sqlparser::tokenizer::Token;

/// An option as it was written: its name, its value (None: DEFAULT), its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenOption {
    /// Its name, in lower case.
    pub name: String,
    /// Its value.
    pub value: Option<String>,
    /// Where it stands.
    pub position: u32,
}

/// A statement about an object that is no table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectStatement {
    /// CREATE DATABASE
    CreateDatabase(String, Vec<GivenOption>),
    /// DROP DATABASE
    DropDatabase {
        /// Its name.
        name: String,
        /// IF EXISTS
        if_exists: bool,
        /// WITH (FORCE)
        force: bool,
    },
    /// ALTER DATABASE ... WITH options
    AlterDatabase(String, Vec<GivenOption>),
    /// ALTER DATABASE ... REFRESH COLLATION VERSION
    RefreshDatabaseVersion(String),
    /// ALTER DATABASE ... RENAME TO
    RenameDatabase(String, String),
    /// ALTER DATABASE ... OWNER TO
    DatabaseOwner(String, RoleName),
    /// CREATE SCHEMA
    CreateSchema {
        /// Its name; None: its owner's.
        name: Option<String>,
        /// AUTHORIZATION
        owner: Option<RoleName>,
        /// IF NOT EXISTS
        if_not_exists: bool,
    },
    /// ALTER SCHEMA ... RENAME TO
    RenameSchema(String, String),
    /// ALTER SCHEMA ... OWNER TO
    SchemaOwner(String, RoleName),
    /// DROP SCHEMA
    DropSchemas {
        /// Their names.
        names: Vec<String>,
        /// IF EXISTS
        if_exists: bool,
        /// CASCADE
        cascade: bool,
    },
    /// CREATE ROLE, USER, GROUP
    CreateRole {
        /// Its name.
        name: String,
        /// What it can do.
        options: Vec<RoleOption>,
    },
    /// ALTER ROLE ... options
    AlterRole(RoleName, Vec<RoleOption>),
    /// ALTER ROLE ... RENAME TO
    RenameRole(String, String),
    /// DROP ROLE
    DropRoles {
        /// Their names.
        names: Vec<RoleName>,
        /// IF EXISTS
        if_exists: bool,
    },
    /// ALTER ROLE or ALTER DATABASE ... SET or RESET: the database, the role, the change. None of a
    /// SET FROM CURRENT: as it is now.
    StoredSetting(Option<String>, Option<RoleName>, SettingChange),
    /// GRANT role TO role; of REVOKE role FROM role, whether CASCADE is given.
    GrantRoles(GrantedRoles, Option<bool>),
    /// CREATE TABLESPACE
    CreateTablespace {
        /// Its name.
        name: String,
        /// OWNER
        owner: Option<RoleName>,
        /// LOCATION
        location: String,
    },
    /// DROP TABLESPACE
    DropTablespace {
        /// Its name.
        name: String,
        /// IF EXISTS
        if_exists: bool,
    },
    /// ALTER TABLESPACE ... RENAME TO
    RenameTablespace(String, String),
    /// ALTER TABLESPACE ... OWNER TO
    TablespaceOwner(String, RoleName),
    /// REASSIGN OWNED
    ReassignOwned(Vec<RoleName>, RoleName),
    /// DROP OWNED, and CASCADE.
    DropOwned(Vec<RoleName>, bool),
    /// CREATE, ALTER and DROP COLLATION
    Collation(CollationStatement),
    /// COMMENT ON; None: NULL.
    Comment(CommentOn, Option<String>),
}

/// A statement about one of these objects. None: it is about another one.
pub(super) fn parse(first: &str, mut c: Cursor<'_>) -> Result<Option<ObjectStatement>> {
    const FIRST: [&str; 7] = ["create", "drop", "alter", "comment", "grant", "revoke", "reassign"];
    if !FIRST.contains(&first) {
        return Ok(None);
    }
    c.advance();
    match first {
        "create" => create(&mut c),
        "drop" => drop(&mut c),
        "alter" => alter(&mut c),
        "comment" => comment(&mut c).map(Some),
        "reassign" => reassign(&mut c).map(Some),
        _ => {
            let (granted, revoked) = grant(&mut c, first == "revoke")?;
            Ok(Some(ObjectStatement::GrantRoles(granted, revoked)))
        }
    }
}

/// CREATE of one of these objects. None: it is another one.
fn create(c: &mut Cursor<'_>) -> Result<Option<ObjectStatement>> {
    let statement = match c.peek_word().as_deref() {
        Some("database") => {
            c.advance();
            let name = c.name()?;
            c.accept("with");
            ObjectStatement::CreateDatabase(name, options(c)?)
        }
        Some("schema") => create_schema(c)?,
        Some("collation") => ObjectStatement::Collation(collations::create(c)?),
        Some(word @ ("role" | "user" | "group")) => {
            let user = word == "user";
            c.advance();
            if c.peek_word().as_deref() == Some("mapping") {
                return Err(SqlError::unsupported("CREATE USER MAPPING"));
            }
            let name = role_id(c)?;
            c.accept("with");
            let mut options = role_options(c, true)?;
            if user && !options.iter().any(|o| matches!(o, RoleOption::Flag("rolcanlogin", _))) {
                options.push(RoleOption::Flag("rolcanlogin", true));
            }
            ObjectStatement::CreateRole { name, options }
        }
        Some("tablespace") => {
            c.advance();
            let name = c.name()?;
            let owner = if c.accept("owner") { Some(role(c)?) } else { None };
            c.expect("location")?;
            let location = c.string()?;
            if c.accept("with") {
                return Err(SqlError::unsupported("CREATE TABLESPACE ... WITH"));
            }
            ObjectStatement::CreateTablespace { name, owner, location }
        }
        _ => return Ok(None),
    };
    c.expect_end()?;
    Ok(Some(statement))
}

fn create_schema(c: &mut Cursor<'_>) -> Result<ObjectStatement> {
    c.advance();
    let if_not_exists = c.accept_all(&["if", "not", "exists"]);
    let name =
        if c.peek_word().as_deref() == Some("authorization") { None } else { Some(c.name()?) };
    let owner = if c.accept("authorization") { Some(role(c)?) } else { None };
    if !c.at_end() {
        return match c.peek_word().as_deref() {
            Some("create" | "grant") => Err(SqlError::unsupported("CREATE SCHEMA with elements")),
            _ => Err(c.error()),
        };
    }
    Ok(ObjectStatement::CreateSchema { name, owner, if_not_exists })
}

/// DROP of one of these objects. None: it is another one.
fn drop(c: &mut Cursor<'_>) -> Result<Option<ObjectStatement>> {
    let word = c.peek_word().unwrap_or_default();
    const KNOWN: [&str; 8] =
        ["owned", "collation", "database", "schema", "role", "user", "group", "tablespace"];
    if !KNOWN.contains(&word.as_str()) {
        return Ok(None);
    }
    c.advance();
    if word == "owned" {
        return drop_owned(c).map(Some);
    }
    if word == "user" && c.peek_word().as_deref() == Some("mapping") {
        return Err(SqlError::unsupported("DROP USER MAPPING"));
    }
    let if_exists = c.accept_all(&["if", "exists"]);
    let statement = match word.as_str() {
        "database" => {
            let (name, mut force) = (c.name()?, false);
            c.accept("with");
            if c.accept_token(&Token::LParen) {
                loop {
                    c.expect("force")?;
                    force = true;
                    if !c.accept_token(&Token::Comma) {
                        break;
                    }
                }
                c.expect_token(&Token::RParen)?;
            }
            ObjectStatement::DropDatabase { name, if_exists, force }
        }
        "tablespace" => ObjectStatement::DropTablespace { name: c.name()?, if_exists },
        "collation" => ObjectStatement::Collation(collations::drop(c, if_exists)?),
        "schema" => {
            let names = names(c)?;
            let cascade = c.accept("cascade");
            let _ = cascade || c.accept("restrict");
            ObjectStatement::DropSchemas { names, if_exists, cascade }
        }
        _ => ObjectStatement::DropRoles { names: roles(c)?, if_exists },
    };
    c.expect_end()?;
    Ok(Some(statement))
}

/// What follows DROP OWNED.
fn drop_owned(c: &mut Cursor<'_>) -> Result<ObjectStatement> {
    c.expect("by")?;
    let roles = roles(c)?;
    let cascade = c.accept("cascade");
    let _ = cascade || c.accept("restrict");
    c.expect_end()?;
    Ok(ObjectStatement::DropOwned(roles, cascade))
}

/// What follows REASSIGN.
fn reassign(c: &mut Cursor<'_>) -> Result<ObjectStatement> {
    c.expect("owned")?;
    c.expect("by")?;
    let from = roles(c)?;
    c.expect("to")?;
    let to = role(c)?;
    c.expect_end()?;
    Ok(ObjectStatement::ReassignOwned(from, to))
}

/// ALTER of one of these objects, behind the word. None: it is another one.
fn alter(c: &mut Cursor<'_>) -> Result<Option<ObjectStatement>> {
    let word = c.peek_word().unwrap_or_default();
    let statement = match word.as_str() {
        "collation" => ObjectStatement::Collation(collations::alter(c)?),
        "database" => alter_database(c)?,
        "schema" | "tablespace" => {
            c.advance();
            let name = c.name()?;
            let schema = word == "schema";
            if c.accept_all(&["rename", "to"]) {
                let to = c.name()?;
                match schema {
                    true => ObjectStatement::RenameSchema(name, to),
                    false => ObjectStatement::RenameTablespace(name, to),
                }
            } else if c.accept_all(&["owner", "to"]) {
                let owner = role(c)?;
                match schema {
                    true => ObjectStatement::SchemaOwner(name, owner),
                    false => ObjectStatement::TablespaceOwner(name, owner),
                }
            } else if !schema && matches!(c.peek_word().as_deref(), Some("set" | "reset")) {
                return Err(SqlError::unsupported("ALTER TABLESPACE ... SET"));
            } else {
                return Err(c.error());
            }
        }
        "role" | "user" => alter_role(c)?,
        "group" => {
            c.advance();
            let name = c.name()?;
            let add = c.accept("add");
            if !add {
                c.expect("drop")?;
            }
            c.expect("user")?;
            let granted = GrantedRoles {
                roles: vec![name],
                members: roles(c)?,
                options: MemberOptions::default(),
                grantor: None,
            };
            match add {
                true => ObjectStatement::GrantRoles(granted, None),
                false => ObjectStatement::GrantRoles(granted, Some(false)),
            }
        }
        _ => return Ok(None),
    };
    c.expect_end()?;
    Ok(Some(statement))
}

fn alter_database(c: &mut Cursor<'_>) -> Result<ObjectStatement> {
    c.advance();
    let name = c.name()?;
    if c.accept_all(&["rename", "to"]) {
        return Ok(ObjectStatement::RenameDatabase(name, c.name()?));
    }
    if c.accept_all(&["owner", "to"]) {
        return Ok(ObjectStatement::DatabaseOwner(name, role(c)?));
    }
    if c.accept_all(&["refresh", "collation", "version"]) {
        return Ok(ObjectStatement::RefreshDatabaseVersion(name));
    }
    if c.peek_word().as_deref() == Some("set") && c.word_behind().as_deref() == Some("tablespace") {
        return Err(SqlError::unsupported("ALTER DATABASE ... SET TABLESPACE"));
    }
    if let Some(change) = stored_setting(c)? {
        return Ok(ObjectStatement::StoredSetting(Some(name), None, change));
    }
    c.accept("with");
    Ok(ObjectStatement::AlterDatabase(name, options(c)?))
}

fn alter_role(c: &mut Cursor<'_>) -> Result<ObjectStatement> {
    c.advance();
    if c.accept("all") {
        let database = in_database(c)?;
        let change = stored_setting(c)?.ok_or_else(|| c.error())?;
        return Ok(ObjectStatement::StoredSetting(database, None, change));
    }
    let (position, word) = (c.position(), c.peek_word().unwrap_or_default());
    let of = role(c)?;
    if c.accept_all(&["rename", "to"]) {
        return match of {
            RoleName::Name(name) => Ok(ObjectStatement::RenameRole(name, role_id(c)?)),
            RoleName::Current | RoleName::SessionUser => Err(no_new_name(&word).at(position)),
        };
    }
    let database = in_database(c)?;
    if let Some(change) = stored_setting(c)? {
        return Ok(ObjectStatement::StoredSetting(database, Some(of), change));
    }
    if database.is_some() {
        return Err(c.error());
    }
    c.accept("with");
    Ok(ObjectStatement::AlterRole(of, role_options(c, false)?))
}

fn in_database(c: &mut Cursor<'_>) -> Result<Option<String>> {
    if c.accept_all(&["in", "database"]) { c.name().map(Some) } else { Ok(None) }
}

/// SET or RESET of a setting that is stored. None: neither is next.
fn stored_setting(c: &mut Cursor<'_>) -> Result<Option<SettingChange>> {
    if c.accept("reset") {
        if c.accept("all") {
            return Ok(Some(SettingChange::ResetAll));
        }
        return Ok(Some(SettingChange::Reset(setting_name(c)?)));
    }
    if !c.accept("set") {
        return Ok(None);
    }
    let (name, value) = setting(c)?;
    Ok(Some(match value {
        Some(value) => SettingChange::Set(name, value),
        None => SettingChange::Reset(name),
    }))
}

/// Options of CREATE and ALTER DATABASE: `name [=] value`.
fn options(c: &mut Cursor<'_>) -> Result<Vec<GivenOption>> {
    let mut given: Vec<GivenOption> = Vec::new();
    while !c.at_end() {
        let position = c.position();
        let name = if c.accept_all(&["connection", "limit"]) {
            "connection_limit".to_owned()
        } else {
            match c.peek_word() {
                Some(word) => {
                    c.advance();
                    word
                }
                None => return Err(c.error()),
            }
        };
        c.accept_token(&Token::Eq);
        let value = if c.accept("default") {
            None
        } else if let Some(text) = c.accept_string().or_else(|| c.accept_number()) {
            Some(text)
        } else {
            match c.peek_word() {
                Some(word) if matches!(word.as_str(), "true" | "false" | "on") => {
                    c.advance();
                    Some(word)
                }
                _ => Some(c.name()?),
            }
        };
        if given.iter().any(|known| known.name == name) {
            let message = "conflicting or redundant options";
            return Err(SqlError::new(state::SYNTAX_ERROR, message).at(position));
        }
        given.push(GivenOption { name, value, position });
    }
    Ok(given)
}

fn names(c: &mut Cursor<'_>) -> Result<Vec<String>> {
    let mut found = vec![c.name()?];
    while c.accept_token(&Token::Comma) {
        found.push(c.name()?);
    }
    Ok(found)
}

/// COMMENT ON.
fn comment(c: &mut Cursor<'_>) -> Result<ObjectStatement> {
    c.expect("on")?;
    let word = c.peek_word().unwrap_or_default();
    c.advance();
    let on = match word.as_str() {
        "table" | "index" | "sequence" => {
            let QualifiedName { schema, name, .. } = c.qualified_name()?;
            let kind = match word.as_str() {
                "table" => b'r',
                "index" => b'i',
                _ => b'S',
            };
            CommentOn::Relation(schema, name, kind)
        }
        "column" => {
            let (first, second) = (c.name()?, dotted(c)?);
            match (second, dotted(c)?) {
                (Some(table), Some(column)) => CommentOn::Column(Some(first), table, column),
                (Some(column), None) => CommentOn::Column(None, first, column),
                _ => {
                    let message = "column name must be qualified";
                    return Err(SqlError::new(state::SYNTAX_ERROR, message));
                }
            }
        }
        "schema" => CommentOn::Schema(c.name()?),
        "database" => CommentOn::Database(c.name()?),
        "role" => CommentOn::Role(c.name()?),
        "tablespace" => CommentOn::Tablespace(c.name()?),
        other => {
            return Err(SqlError::unsupported(format!("COMMENT ON {}", other.to_uppercase())));
        }
    };
    c.expect("is")?;
    let text = if c.accept("null") { None } else { Some(c.string()?) };
    c.expect_end()?;
    Ok(ObjectStatement::Comment(on, text))
}

fn dotted(c: &mut Cursor<'_>) -> Result<Option<String>> {
    if c.accept_token(&Token::Period) { c.name().map(Some) } else { Ok(None) }
}
