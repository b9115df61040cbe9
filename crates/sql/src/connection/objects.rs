//! Running statements about databases, schemas, tablespaces, and comments.

use super::sink::{CommandTag, RowSink};
use super::state::Connection;
use crate::error::{Result, SqlError, state};
use crate::parse::{GivenOption, ObjectStatement, RoleName};
use forebay_engine::{CommentOn, CopyStrategy, NewDatabase};
use forebay_types::Datum;

pub(super) fn tag(text: &str) -> Result<CommandTag> {
    Ok(CommandTag(text.to_owned()))
}

impl Connection {
    /// Runs such a statement.
    pub(super) fn object_statement(
        &mut self,
        statement: &ObjectStatement,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        use ObjectStatement as S;
        match statement {
            S::CreateDatabase(..)
            | S::DropDatabase { .. }
            | S::AlterDatabase(..)
            | S::RefreshDatabaseVersion(_)
            | S::RenameDatabase(..)
            | S::DatabaseOwner(..) => self.database_statement(statement, sink),
            S::CreateSchema { .. }
            | S::RenameSchema(..)
            | S::SchemaOwner(..)
            | S::DropSchemas { .. } => self.schema_statement(statement, sink),
            S::CreateTablespace { .. }
            | S::DropTablespace { .. }
            | S::RenameTablespace(..)
            | S::TablespaceOwner(..) => self.tablespace_statement(statement, sink),
            S::Collation(statement) => self.collation_statement(statement, sink),
            S::Comment(on, text) => {
                self.check_writable("COMMENT")?;
                match self.host.call(|session| session.comment(on, text.as_deref())) {
                    // A dump may name the database that it was taken from.
                    Err(error)
                        if error.sqlstate == "3D000" && matches!(on, CommentOn::Database(_)) =>
                    {
                        sink.notice(&SqlError::warning("3D000", error.message.clone()))?;
                    }
                    done => done?,
                }
                tag("COMMENT")
            }
            _ => self.role_statement(statement, sink),
        }
    }

    /// A role's name that is used while the session is.
    pub(super) fn named(&self, role: &RoleName) -> String {
        match role {
            RoleName::Name(name) => name.clone(),
            RoleName::Current => self.host.current_user().to_owned(),
            RoleName::SessionUser => self.host.session_user().to_owned(),
        }
    }

    fn database_statement(
        &mut self,
        statement: &ObjectStatement,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        match statement {
            ObjectStatement::CreateDatabase(name, options) => {
                self.check_writable("CREATE DATABASE")?;
                self.refuse_in_block("CREATE DATABASE")?;
                let new = self.new_database(name, options, sink)?;
                self.host.call(|session| session.create_database(&new))?;
                tag("CREATE DATABASE")
            }
            ObjectStatement::DropDatabase { name, if_exists, force } => {
                self.check_writable("DROP DATABASE")?;
                self.refuse_in_block("DROP DATABASE")?;
                let dropped =
                    self.host.call(|session| session.drop_database(name, *if_exists, *force))?;
                if !dropped {
                    skipping(sink, &format!("database \"{name}\" does not exist"))?;
                }
                tag("DROP DATABASE")
            }
            ObjectStatement::AlterDatabase(name, options) => {
                self.check_writable("ALTER DATABASE")?;
                let changes = database_changes(options)?;
                self.host.call(|session| session.alter_database(name, &changes))?;
                tag("ALTER DATABASE")
            }
            ObjectStatement::RefreshDatabaseVersion(name) => {
                self.check_writable("ALTER DATABASE")?;
                let versions = self.host.call(|session| session.refresh_database_version(name))?;
                let message = match versions {
                    (Some(before), Some(now)) if before != now => {
                        format!("changing version from {before} to {now}")
                    }
                    _ => "version has not changed".to_owned(),
                };
                sink.notice(&SqlError::notice(state::SUCCESSFUL_COMPLETION, message))?;
                tag("ALTER DATABASE")
            }
            ObjectStatement::RenameDatabase(name, to) => {
                self.check_writable("ALTER DATABASE")?;
                self.host.call(|session| session.rename_database(name, to))?;
                tag("ALTER DATABASE")
            }
            ObjectStatement::DatabaseOwner(name, owner) => {
                self.check_writable("ALTER DATABASE")?;
                let owner = self.named(owner);
                let owner = self.host.call(|session| session.role_to_own(&owner))?;
                let changes = [("datdba", Datum::Oid(owner))];
                self.host.call(|session| session.alter_database(name, &changes))?;
                tag("ALTER DATABASE")
            }
            _ => Err(SqlError::new(state::INTERNAL_ERROR, "this is no statement of a database")),
        }
    }

    /// What CREATE DATABASE asks for.
    fn new_database(
        &mut self,
        name: &str,
        options: &[GivenOption],
        sink: &mut dyn RowSink,
    ) -> Result<NewDatabase> {
        let mut new = NewDatabase { name: name.to_owned(), ..NewDatabase::default() };
        for GivenOption { name, value, position } in options {
            let refused = || {
                let what = name.to_uppercase();
                Err(SqlError::unsupported(format!("CREATE DATABASE ... {what}")))
            };
            let Some(value) = value.as_deref() else { continue };
            match name.as_str() {
                "template" => new.template = Some(value.to_owned()),
                "owner" => {
                    let role = self.host.call(|session| session.role_to_own(value))?;
                    new.owner = Some(role);
                }
                "encoding" => new.encoding = Some(encoding(value)?),
                "locale" => new.both_locales = Some(value.to_owned()),
                "lc_collate" => new.collate = Some(value.to_owned()),
                "lc_ctype" => new.ctype = Some(value.to_owned()),
                "builtin_locale" => new.builtin_locale = Some(value.to_owned()),
                "icu_locale" => new.icu_locale = Some(value.to_owned()),
                "collation_version" => new.collation_version = Some(value.to_owned()),
                "locale_provider" => new.provider = Some(provider(value)?),
                "icu_rules" => return refused(),
                "is_template" => new.is_template = boolean(name, value)?,
                "allow_connections" => new.allows_connections = Some(boolean(name, value)?),
                "connection_limit" => new.connection_limit = Some(number(name, value)?),
                "oid" => new.oid = Some(number(name, value)?),
                "tablespace" => {
                    let oid = self.host.call(|session| session.tablespace_named(value))?;
                    new.tablespace = Some(oid);
                }
                "strategy" => new.strategy = strategy(value)?,
                "location" => {
                    let message = "LOCATION is not supported anymore";
                    let warning = SqlError::warning(state::FEATURE_NOT_SUPPORTED, message);
                    let hint = "Consider using tablespaces instead.";
                    sink.notice(&warning.hint(hint).at(*position))?;
                }
                _ => return Err(unknown_option(name, *position)),
            }
        }
        Ok(new)
    }

    fn schema_statement(
        &mut self,
        statement: &ObjectStatement,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        match statement {
            ObjectStatement::CreateSchema { name, owner, if_not_exists } => {
                self.check_writable("CREATE SCHEMA")?;
                let owner = owner.as_ref().map(|owner| self.named(owner));
                let name = name.as_ref().or(owner.as_ref()).cloned().unwrap_or_default();
                let made = self.host.call(|session| {
                    session.create_schema(&name, owner.as_deref(), *if_not_exists)
                })?;
                if !made {
                    let message = format!("schema \"{name}\" already exists, skipping");
                    sink.notice(&SqlError::notice("42P06", message))?;
                }
                tag("CREATE SCHEMA")
            }
            ObjectStatement::RenameSchema(name, to) => {
                self.check_writable("ALTER SCHEMA")?;
                self.host.call(|session| session.rename_schema(name, to))?;
                tag("ALTER SCHEMA")
            }
            ObjectStatement::SchemaOwner(name, owner) => {
                self.check_writable("ALTER SCHEMA")?;
                let owner = self.named(owner);
                self.host.call(|session| session.set_schema_owner(name, &owner))?;
                tag("ALTER SCHEMA")
            }
            ObjectStatement::DropSchemas { names, if_exists, cascade } => {
                self.check_writable("DROP SCHEMA")?;
                let mut found = Vec::with_capacity(names.len());
                for name in names {
                    if *if_exists && !self.host.call(|session| session.schema_exists(name))? {
                        skipping(sink, &format!("schema \"{name}\" does not exist"))?;
                        continue;
                    }
                    found.push(name.clone());
                }
                let told = self.host.call(|session| session.drop_schemas(&found, *cascade))?;
                cascades(sink, &told)?;
                tag("DROP SCHEMA")
            }
            _ => Err(SqlError::new(state::INTERNAL_ERROR, "this is no statement of a schema")),
        }
    }

    fn tablespace_statement(
        &mut self,
        statement: &ObjectStatement,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        match statement {
            ObjectStatement::CreateTablespace { name, owner, location } => {
                self.check_writable("CREATE TABLESPACE")?;
                self.refuse_in_block("CREATE TABLESPACE")?;
                if location.is_empty()
                    && self.host.show("allow_in_place_tablespaces")?.value != "on"
                {
                    let message = "tablespace location must be an absolute path";
                    return Err(SqlError::new("42P17", message));
                }
                let owner = owner.as_ref().map(|owner| self.named(owner));
                self.host
                    .call(|session| session.create_tablespace(name, owner.as_deref(), location))?;
                tag("CREATE TABLESPACE")
            }
            ObjectStatement::DropTablespace { name, if_exists } => {
                self.check_writable("DROP TABLESPACE")?;
                self.refuse_in_block("DROP TABLESPACE")?;
                match self.host.call(|session| session.drop_tablespace(name)) {
                    Err(error) if *if_exists && error.sqlstate == "42704" => {
                        skipping(sink, &format!("tablespace \"{name}\" does not exist"))?;
                    }
                    dropped => dropped?,
                }
                tag("DROP TABLESPACE")
            }
            ObjectStatement::RenameTablespace(name, to) => {
                self.check_writable("ALTER TABLESPACE")?;
                self.host.call(|session| session.rename_tablespace(name, to))?;
                tag("ALTER TABLESPACE")
            }
            ObjectStatement::TablespaceOwner(name, owner) => {
                self.check_writable("ALTER TABLESPACE")?;
                let owner = self.named(owner);
                self.host.call(|session| session.set_tablespace_owner(name, &owner))?;
                tag("ALTER TABLESPACE")
            }
            _ => Err(SqlError::new(state::INTERNAL_ERROR, "this is no statement of a tablespace")),
        }
    }
}

pub(super) fn skipping(sink: &mut dyn RowSink, what: &str) -> Result<()> {
    let message = format!("{what}, skipping");
    sink.notice(&SqlError::notice(state::SUCCESSFUL_COMPLETION, message))
}

/// Tells what a DROP ... CASCADE has taken along.
pub(super) fn cascades(sink: &mut dyn RowSink, told: &[String]) -> Result<()> {
    const MOST: usize = 100;
    let notice = |message: String| SqlError::notice(state::SUCCESSFUL_COMPLETION, message);
    match told {
        [] => Ok(()),
        [one] => sink.notice(&notice(format!("drop cascades to {one}"))),
        all => {
            let lines = all.iter().take(MOST).map(|what| format!("drop cascades to {what}"));
            let mut detail = lines.collect::<Vec<_>>().join("\n");
            if all.len() > MOST {
                let rest = all.len() - MOST;
                let objects = if rest == 1 { "object" } else { "objects" };
                detail = format!("{detail}\nand {rest} other {objects} (see server log for list)");
            }
            let message = format!("drop cascades to {} other objects", all.len());
            sink.notice(&notice(message).detail(detail))
        }
    }
}

/// The values in pg_database that options of ALTER DATABASE set.
fn database_changes(options: &[GivenOption]) -> Result<Vec<(&'static str, Datum<'static>)>> {
    let mut changes = Vec::new();
    for GivenOption { name, value, position } in options {
        let given = value.as_deref();
        let flag = |default| given.map_or(Ok(default), |value| boolean(name, value));
        changes.push(match name.as_str() {
            "is_template" => ("datistemplate", Datum::Bool(flag(false)?)),
            "allow_connections" => ("datallowconn", Datum::Bool(flag(true)?)),
            "connection_limit" => {
                let limit = given.map_or(Ok(-1), |value| number(name, value))?;
                ("datconnlimit", Datum::Int4(limit))
            }
            "tablespace" => return Err(SqlError::unsupported("ALTER DATABASE ... SET TABLESPACE")),
            _ => return Err(unknown_option(name, *position)),
        });
    }
    Ok(changes)
}

fn unknown_option(name: &str, position: u32) -> SqlError {
    SqlError::new(state::SYNTAX_ERROR, format!("option \"{name}\" not recognized")).at(position)
}

fn boolean(name: &str, value: &str) -> Result<bool> {
    match value.to_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => {
            let message = format!("{name} requires a Boolean value");
            Err(SqlError::new(state::SYNTAX_ERROR, message))
        }
    }
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| {
        let message = format!("{name} requires an integer value");
        SqlError::new(state::SYNTAX_ERROR, message)
    })
}

/// pg_enc's number of an encoding that can be served.
fn encoding(name: &str) -> Result<i32> {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    match plain.as_str() {
        "utf8" | "unicode" | "6" => Ok(6),
        "sqlascii" | "0" => Ok(0),
        _ => Err(SqlError::unsupported(format!("encoding \"{name}\""))),
    }
}

fn provider(name: &str) -> Result<u8> {
    match name.to_lowercase().as_str() {
        "builtin" => Ok(b'b'),
        "icu" => Ok(b'i'),
        "libc" => Ok(b'c'),
        _ => {
            let message = format!("unrecognized locale provider: {name}");
            Err(SqlError::new("42P17", message))
        }
    }
}

fn strategy(name: &str) -> Result<CopyStrategy> {
    match name.to_lowercase().as_str() {
        "wal_log" => Ok(CopyStrategy::WalLog),
        "file_copy" => Ok(CopyStrategy::FileCopy),
        _ => {
            let message = format!("invalid create database strategy \"{name}\"");
            let error = SqlError::new(state::INVALID_PARAMETER_VALUE, message);
            Err(error.hint("Valid strategies are \"wal_log\" and \"file_copy\"."))
        }
    }
}
