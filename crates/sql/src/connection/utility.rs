//! Running utility statements: tables, settings, CHECKPOINT and others.

use super::lock::PG_TEMP;
use super::objects::cascades;
use super::sequences::wrong_kind_to_drop;
use super::sink::{CommandTag, RowSink};
use super::state::Connection;
use super::table_columns::{ColumnSequence, TableParts};
use crate::column::ColumnDesc;
use crate::error::{Result, SqlError, state};
use crate::exec::{Host, Row, RowStore};
use crate::parse::{CreateTable, DropStatement, Kind, QualifiedName, ShowTarget, Source};
use crate::plan::Catalog;
use crate::settings::SetScope;
use crate::views::View;
use forebay_engine::{
    EngineError, Oid, SequencePersistence, Session, Table, TableFiles, storage_texts,
};
use forebay_types::{Datum, SqlType};
use std::sync::Arc;

fn tag(text: &str) -> Result<CommandTag> {
    Ok(CommandTag(text.to_owned()))
}

pub(super) fn text_column(name: &str) -> ColumnDesc {
    let (ty, collation) = (SqlType::Text, SqlType::Text.info().collation);
    ColumnDesc { name: name.to_owned(), table_oid: 0, attnum: 0, ty, typmod: -1, collation }
}

/// DROP TABLE of an index.
fn no_table_but_index(error: SqlError, name: &str) -> SqlError {
    if error.sqlstate != state::WRONG_OBJECT_TYPE {
        return error;
    }
    let message = format!("\"{name}\" is not a table");
    let hint = "Use DROP INDEX to remove an index.";
    SqlError::new(state::WRONG_OBJECT_TYPE, message).hint(hint)
}

impl Connection {
    /// Runs a small statement.
    pub(super) fn run_small(
        &mut self,
        kind: &Kind,
        source: &Source,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        match kind {
            Kind::CreateTable(create) => self.create_table(create, source, sink),
            Kind::CreateTableAs(made) => self.create_table_as(made, source, sink),
            Kind::DropTable(drop) => self.drop_tables(drop, sink),
            Kind::CreateIndex(create) => self.create_index(create, source, sink),
            Kind::DropIndex(drop) => self.drop_indexes(drop, sink),
            Kind::Reindex(reindex) => self.reindex(reindex, sink),
            Kind::AlterTable(alter) => self.alter_table(alter, source, sink),
            Kind::Transaction(t) => self.transaction_statement(t, sink),
            Kind::Checkpoint => {
                self.host.call(Session::checkpoint)?;
                tag("CHECKPOINT")
            }
            Kind::Set { name, value, scope } => {
                if *scope == SetScope::Local {
                    self.warn_outside_block("SET LOCAL", sink)?;
                }
                self.set_setting(name, value.as_deref(), *scope)
            }
            Kind::SetTransaction { modes, session } => {
                self.set_transaction(*modes, *session, sink).and_then(|()| tag("SET"))
            }
            Kind::SetConstraints { names, deferred } => {
                self.set_constraints(names.as_deref(), *deferred, sink)
            }
            Kind::Reset(Some(name)) => {
                self.host.set(name, None, SetScope::Session)?;
                tag("RESET")
            }
            Kind::Reset(None) => {
                self.host.settings.reset_all()?;
                tag("RESET")
            }
            Kind::Discard(what) => self.discard(what),
            Kind::Deallocate(Some(name)) => match self.prepared.remove(name) {
                Some(_) => tag("DEALLOCATE"),
                None => Err(super::extended::no_statement(name)),
            },
            Kind::Deallocate(None) => {
                self.prepared.clear();
                tag("DEALLOCATE ALL")
            }
            Kind::Lock(lock) => self.lock_tables_for(lock),
            Kind::Vacuum(vacuum) => self.vacuum(vacuum, sink),
            Kind::Fetch(fetch) => self.move_cursor(fetch, sink),
            Kind::Close(name) => self.close_cursor(name.as_deref()),
            Kind::Truncate(truncate) => self.truncate(truncate, sink),
            Kind::CreateSequence(create) => self.create_sequence(create, sink),
            Kind::AlterSequence(alter) => self.alter_sequence(alter, sink),
            Kind::DropSequence(drop) => self.drop_sequences(drop, sink),
            Kind::Object(statement) => self.object_statement(statement, sink),
            Kind::Query(_)
            | Kind::Insert(..)
            | Kind::Update(..)
            | Kind::Delete(..)
            | Kind::Copy(_)
            | Kind::Declare(_)
            | Kind::Explain(_)
            | Kind::Show(_) => {
                Err(SqlError::new(state::INTERNAL_ERROR, "this is no small statement"))
            }
        }
    }

    fn set_setting(
        &mut self,
        name: &str,
        value: Option<&str>,
        scope: SetScope,
    ) -> Result<CommandTag> {
        self.check_tablespace_setting(name, value)?;
        self.host.set(name, value, scope)?;
        tag("SET")
    }

    fn discard(&mut self, what: &'static str) -> Result<CommandTag> {
        if what == "DISCARD ALL" {
            self.refuse_in_block("DISCARD ALL")?;
            self.portals.clear();
            self.prepared.clear();
            self.host.settings.reset_all()?;
            self.host.set("session_authorization", None, SetScope::Session)?;
            self.host.call_if_any(Session::advisory_unlock_all)?;
        }
        if matches!(what, "DISCARD ALL" | "DISCARD SEQUENCES")
            && let Some(session) = self.host.session_if_any()
        {
            session.discard_sequences();
        }
        if matches!(what, "DISCARD ALL" | "DISCARD TEMP")
            && let Ok(session) = self.host.session()
        {
            for (oid, name) in session.temp_tables() {
                self.check_not_in_use("DROP TABLE", oid, name)?;
            }
            self.host.call(Session::discard_temp)?;
        }
        tag(what)
    }

    fn create_table(
        &mut self,
        create: &CreateTable,
        source: &Source,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        self.check_writable("CREATE TABLE")?;
        let place = self.place_of_new(create, sink)?;
        let Some(temporary) = place else { return tag("CREATE TABLE") };
        let (create, likes) = self.expand_like(create)?;
        let schema = create.name.schema.as_deref();
        let persistence = match (temporary, create.unlogged) {
            (true, _) => SequencePersistence::Temporary,
            (_, true) => SequencePersistence::Unlogged,
            _ => SequencePersistence::Permanent,
        };
        let mut parts = self.table_parts(&create, (schema, persistence), source)?;
        self.take_expressions(&mut parts, &likes)?;
        let oid = self.make_table(&create, temporary, parts)?;
        self.add_keys(oid, &create.keys)?;
        self.follow_like(oid, &likes)?;
        let of_columns = create.columns.iter().flat_map(|column| &column.foreign_keys);
        for key in of_columns.chain(&create.foreign_keys) {
            self.add_foreign_key(oid, key, true)?;
        }
        tag("CREATE TABLE")
    }

    /// Where a new table goes: whether it is temporary. None: there is a relation of its name, and
    /// that is no error.
    pub(super) fn place_of_new(
        &mut self,
        create: &CreateTable,
        sink: &mut dyn RowSink,
    ) -> Result<Option<bool>> {
        let QualifiedName { schema, name, position } = &create.name;
        if let Some(at) = create.global {
            let message = "GLOBAL is deprecated in temporary table creation";
            sink.notice(&SqlError::warning(state::WARNING, message).at(at))?;
        }
        let temporary = create.temporary || schema.as_deref() == Some(PG_TEMP);
        if temporary && create.unlogged {
            let message = "only temporary relations may be created in temporary schemas";
            return Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message).at(*position));
        }
        if create.on_commit.is_some() && !temporary {
            let message = "ON COMMIT can only be used on temporary tables";
            return Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message));
        }
        if let Some(other) = schema.as_deref().filter(|s| temporary && *s != PG_TEMP) {
            let (sqlstate, message) = if self.host.call(|session| session.schema_exists(other))? {
                let message = "cannot create temporary relation in non-temporary schema";
                (state::INVALID_TABLE_DEFINITION, message.to_owned())
            } else {
                (state::INVALID_SCHEMA_NAME, format!("schema \"{other}\" does not exist"))
            };
            return Err(SqlError::new(sqlstate, message).at(*position));
        }
        if schema.as_deref() == Some("pg_catalog") {
            let message = format!("permission denied to create \"pg_catalog.{name}\"");
            let detail = "System catalog modifications are currently disallowed.";
            return Err(SqlError::new("42501", message).detail(detail));
        }
        // Without a schema the new table goes into the first of the search path, whatever
        // pg_catalog holds.
        let first = self.host.call(Session::creation_schema)?.map(|entry| entry.name.to_string());
        let target = match (temporary, schema) {
            (true, _) => Some(PG_TEMP),
            (false, Some(schema)) => Some(schema.as_str()),
            (false, None) => first.as_deref(),
        };
        if create.if_not_exists && target.is_some() && self.host.table(target, name)?.is_some() {
            let message = format!("relation \"{name}\" already exists, skipping");
            sink.notice(&SqlError::notice(state::DUPLICATE_TABLE, message))?;
            return Ok(None);
        }
        Ok(Some(temporary))
    }

    /// Makes a table of its parts. Returns its OID.
    pub(super) fn make_table(
        &mut self,
        create: &CreateTable,
        temporary: bool,
        parts: TableParts,
    ) -> Result<Oid> {
        let QualifiedName { schema, name, .. } = &create.name;
        let TableParts { columns, checks, sequences } = parts;
        let options = storage_texts(&create.parameters).map_err(EngineError::from)?;
        let on_commit = create.on_commit.unwrap_or_default();
        let (schema, parts) = (schema.as_deref(), (&columns[..], &checks[..]));
        let oid = self.host.call(|session| {
            let given = create.tablespace.as_deref();
            let tablespace = given.map(|name| session.tablespace_to_use(name)).transpose()?;
            if temporary {
                let how = (on_commit, tablespace);
                return session.create_temp_table_full(name, parts, &options, how);
            }
            let files = TableFiles { unlogged: create.unlogged, tablespace };
            session.create_table_full(schema, name, parts, &options, files)
        })?;
        for ColumnSequence { sequence, column, identity } in sequences {
            self.host.call(|session| session.attach_sequence(sequence, (oid, column), identity))?;
        }
        Ok(oid)
    }

    fn drop_tables(&mut self, drop: &DropStatement, sink: &mut dyn RowSink) -> Result<CommandTag> {
        self.check_writable("DROP TABLE")?;
        let mut tables: Vec<Arc<Table>> = Vec::with_capacity(drop.names.len());
        for name in &drop.names {
            let found = self.lock_exclusively(name);
            let found = found.map_err(|error| no_table_but_index(error, &name.name))?;
            let Some(table) = found else {
                let system = name.schema.as_deref().is_none_or(|s| s == "pg_catalog");
                if system && View::by_name(&name.name).is_some() {
                    let message = format!("\"{}\" is not a table", name.name);
                    let hint = "Use DROP VIEW to remove a view.";
                    return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message).hint(hint));
                }
                let message = format!("table \"{}\" does not exist", name.name);
                if !drop.if_exists {
                    return Err(SqlError::new(state::UNDEFINED_TABLE, message));
                }
                sink.notice(&SqlError::notice(
                    state::SUCCESSFUL_COMPLETION,
                    format!("{message}, skipping"),
                ))?;
                continue;
            };
            if table.kind == b'S' {
                return Err(wrong_kind_to_drop(table.kind, &table.name, "a table"));
            }
            self.check_not_in_use("DROP TABLE", table.oid, &table.name)?;
            if !tables.iter().any(|other| other.oid == table.oid) {
                tables.push(table);
            }
        }
        if !tables.is_empty() {
            let dropped = self.host.call(|session| session.drop_tables(&tables, drop.cascade))?;
            cascades(sink, &dropped)?;
        }
        tag("DROP TABLE")
    }

    /// The columns of SHOW.
    pub(super) fn show_columns(&mut self, target: &ShowTarget) -> Result<Vec<ColumnDesc>> {
        match target {
            ShowTarget::All => Ok(["name", "setting", "description"].map(text_column).to_vec()),
            ShowTarget::One(name) => Ok(vec![text_column(&self.host.show(name)?.name)]),
        }
    }

    /// The rows of SHOW.
    pub(super) fn show(&mut self, target: &ShowTarget) -> Result<RowStore> {
        let mut rows = RowStore::new(&self.host);
        let mut add =
            |values: &[Datum<'_>], host: &mut Host| rows.push(Row { values, ctid: None }, host);
        match target {
            ShowTarget::One(name) => {
                let value = Datum::string(self.host.show(name)?.value);
                add(&[value], &mut self.host)?;
            }
            ShowTarget::All => {
                for row in self.host.all_settings() {
                    let values = [row.name, row.shown, row.short_desc].map(Datum::string);
                    add(&values, &mut self.host)?;
                }
            }
        }
        Ok(rows)
    }
}
