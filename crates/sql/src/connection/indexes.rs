//! CREATE INDEX, DROP INDEX, REINDEX, and the keys of tables.

use super::lock::is_view;
use super::objects::cascades;
use super::sink::{CommandTag, RowSink};
use super::state::Connection;
use super::truncate::in_use;
use crate::analyze::{Names, collation_for};
use crate::error::{Result, SqlError, state};
use crate::parse::{
    CreateIndex, DropStatement, KeyColumn, NewIndex, NewKey, QualifiedName, Reindex, Source,
};
use crate::plan::{AnalyzedKey, Catalog, SystemColumn};
use forebay_engine::{
    Column, ColumnStorage, ConstraintKind, EngineError, IndexDef, IndexKey, LockMode, Table,
    compression_code, index_parameters, storage_code, wrong_kind,
};
use forebay_types::{Oid, SqlType, oids, type_info};
use std::sync::Arc;

/// Most columns of an index.
const MOST_COLUMNS: usize = 32;

/// The operator classes of B-trees besides those that are their types' default.
const OTHER_CLASSES: &[&str] = &[
    "array_ops",
    "bit_ops",
    "bpchar_pattern_ops",
    "cidr_ops",
    "enum_ops",
    "inet_ops",
    "jsonb_ops",
    "macaddr_ops",
    "macaddr8_ops",
    "money_ops",
    "multirange_ops",
    "oidvector_ops",
    "range_ops",
    "record_image_ops",
    "record_ops",
    "text_pattern_ops",
    "tsquery_ops",
    "tsvector_ops",
    "varbit_ops",
    "varchar_ops",
    "varchar_pattern_ops",
    "xid8_ops",
];

/// The access methods besides B-trees.
const OTHER_METHODS: &[&str] = &["brin", "gin", "gist", "hash", "heap", "spgist"];

fn done(tag: &str) -> Result<CommandTag> {
    Ok(CommandTag(tag.to_owned()))
}

impl Connection {
    /// Runs CREATE INDEX.
    pub(super) fn create_index(
        &mut self,
        create: &CreateIndex,
        source: &Source,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        self.check_writable("CREATE INDEX")?;
        if create.concurrently {
            self.refuse_in_block("CREATE INDEX CONCURRENTLY")?;
        }
        let mode = match create.concurrently {
            true => LockMode::ShareUpdateExclusive,
            false => LockMode::Share,
        };
        self.refuse_sequence(&create.table, "cannot create index on")?;
        let table = self.table_to_index(&create.table, mode)?;
        self.check_not_in_use("CREATE INDEX", table.oid, &table.name)?;
        let keys = self.analyzed_keys(&create.index.keys, &table, source)?;
        let names = self.host.names();
        let mut def = definition(&create.index, &create.method, (&table, &keys), names)?;
        def.unique = create.unique;
        def.predicate = self.predicate(create, &table, source)?;
        def.tablespace = self.tablespace_named(create.index.tablespace.as_deref())?;
        if create.if_not_exists
            && let Some(name) = &def.name
            && self.relation_exists(&table.schema, name)?
        {
            let message = format!("relation \"{name}\" already exists, skipping");
            sink.notice(&SqlError::notice(state::DUPLICATE_TABLE, message))?;
            return done("CREATE INDEX");
        }
        if create.concurrently && !table.is_temporary() {
            self.end_implicit()?;
            self.host.call(|session| session.create_index_concurrently(&table, &def))?;
            return done("CREATE INDEX");
        }
        // Nobody else uses a temporary table.
        let table = match create.concurrently {
            true => self.table_to_index(&create.table, LockMode::Share)?,
            false => table,
        };
        self.host.call(|session| session.create_index(&table, &def))?;
        done("CREATE INDEX")
    }

    /// The tablespace of a new index, if it is named.
    fn tablespace_named(&mut self, name: Option<&str>) -> Result<Option<Oid>> {
        name.map(|name| self.host.call(|session| session.tablespace_to_use(name))).transpose()
    }

    /// Refuses what cannot be done with a sequence.
    pub(super) fn refuse_sequence(&mut self, name: &QualifiedName, what: &str) -> Result<()> {
        // An error of the look-up is for whoever opens the table.
        match self.host.table(name.schema.as_deref(), &name.name) {
            Ok(Some(table)) if table.kind == b'S' => {
                let message = format!("{what} relation \"{}\"", table.name);
                Err(EngineError::from(wrong_kind(table.kind, message)).into())
            }
            _ => Ok(()),
        }
    }

    /// The table that is to get an index, locked.
    pub(super) fn table_to_index(
        &mut self,
        name: &QualifiedName,
        mode: LockMode,
    ) -> Result<Arc<Table>> {
        let found = self.host.open_table(name.schema.as_deref(), &name.name, mode);
        if is_view(name) && !matches!(found, Ok(Some(_))) {
            let message = format!("cannot create index on relation \"{}\"", name.name);
            let detail = "This operation is not supported for views.";
            return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message).detail(detail));
        }
        let Some(table) = found? else { return self.no_table(name).and_then(Err) };
        table.check_alterable(&table.name).map_err(EngineError::from)?;
        Ok(table)
    }

    /// Whether there is a relation of any kind with that name.
    fn relation_exists(&mut self, schema: &str, name: &str) -> Result<bool> {
        match self.host.table(Some(schema), name) {
            Ok(found) => Ok(found.is_some()),
            // It is an index, or another relation that is no table.
            Err(error) if error.sqlstate == state::WRONG_OBJECT_TYPE => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Runs DROP INDEX.
    pub(super) fn drop_indexes(
        &mut self,
        drop: &DropStatement,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        self.check_writable("DROP INDEX")?;
        if drop.concurrently {
            self.check_droppable_concurrently(drop)?;
        }
        let mut dropped: Vec<&QualifiedName> = Vec::new();
        for name in &drop.names {
            let again = |other: &&QualifiedName| other.display() == name.display();
            if dropped.iter().any(again) {
                continue;
            }
            match self.drop_index(name, drop.concurrently) {
                Ok(()) => dropped.push(name),
                Err(error) if drop.if_exists && is_absent(&error) => {
                    let message = format!("{}, skipping", error.message);
                    sink.notice(&SqlError::notice(state::SUCCESSFUL_COMPLETION, message))?;
                }
                Err(error) => return Err(error),
            }
        }
        done("DROP INDEX")
    }

    fn check_droppable_concurrently(&self, drop: &DropStatement) -> Result<()> {
        self.refuse_in_block("DROP INDEX CONCURRENTLY")?;
        let what = match (drop.names.len(), drop.cascade) {
            (1, false) => return Ok(()),
            (1, true) => "CASCADE",
            _ => "dropping multiple objects",
        };
        let message = format!("DROP INDEX CONCURRENTLY does not support {what}");
        Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message))
    }

    fn drop_index(&mut self, name: &QualifiedName, concurrently: bool) -> Result<()> {
        let schema = name.schema.as_deref();
        self.check_index_not_in_use("DROP INDEX", &name.name)?;
        if schema.is_some() {
            let missing = self.no_table(name)?;
            if missing.sqlstate == state::INVALID_SCHEMA_NAME {
                return Err(missing);
            }
        }
        let temporary = self.host.session()?.has_temporary(schema, &name.name);
        let done = if concurrently && !temporary {
            self.end_implicit()?;
            self.host.call(|session| session.drop_index_concurrently(schema, &name.name))
        } else {
            self.host.call(|session| session.drop_index(schema, &name.name))
        };
        done.map_err(|error| match error.sqlstate {
            state::WRONG_OBJECT_TYPE => error.hint("Use DROP TABLE to remove a table."),
            _ => error,
        })
    }

    /// Refuses what cannot be done to an index through which a portal of the session reads.
    pub(super) fn check_index_not_in_use(&self, command: &str, name: &str) -> Result<()> {
        if self.portals.read_through(name) { Err(in_use(command, name)) } else { Ok(()) }
    }

    /// Runs REINDEX.
    pub(super) fn reindex(
        &mut self,
        reindex: &Reindex,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        self.check_writable("REINDEX")?;
        let Reindex { of_table, concurrently, name } = reindex;
        if *concurrently {
            self.refuse_in_block("REINDEX CONCURRENTLY")?;
        }
        // Nobody else uses a temporary table.
        let schema = name.schema.as_deref();
        let concurrently = *concurrently && !self.host.session()?.has_temporary(schema, &name.name);
        match of_table {
            true => self.reindex_table(name, concurrently, sink)?,
            false => self.reindex_index(name, concurrently)?,
        }
        done("REINDEX")
    }

    fn reindex_index(&mut self, name: &QualifiedName, concurrently: bool) -> Result<()> {
        let schema = name.schema.as_deref();
        let rebuilt = if concurrently {
            self.end_implicit()?;
            self.host.call(|session| session.reindex_index_concurrently(schema, &name.name))
        } else {
            self.check_index_not_in_use("REINDEX INDEX", &name.name)?;
            self.host.call(|session| session.reindex_index(schema, &name.name))
        };
        if rebuilt.as_ref().is_err_and(|error| error.sqlstate == state::UNDEFINED_OBJECT) {
            self.ensure_transaction()?;
            return self.no_table(name).and_then(Err);
        }
        rebuilt
    }

    fn reindex_table(
        &mut self,
        name: &QualifiedName,
        concurrently: bool,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        let mode = match concurrently {
            true => LockMode::ShareUpdateExclusive,
            false => LockMode::AccessExclusive,
        };
        let table = match self.host.open_table(name.schema.as_deref(), &name.name, mode) {
            Ok(Some(table)) if table.kind == b'S' => {
                let message = format!("\"{}\" is not a table or materialized view", name.name);
                return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message));
            }
            Ok(Some(table)) => table,
            Ok(None) => return self.no_table(name).and_then(Err),
            Err(error) if error.sqlstate == state::WRONG_OBJECT_TYPE => {
                let message = format!("\"{}\" is not a table or materialized view", name.name);
                return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message));
            }
            Err(error) => return Err(error),
        };
        let any = if concurrently {
            self.end_implicit()?;
            self.host.call(|session| session.reindex_table_concurrently(&table))?
        } else {
            for index in &table.indexes {
                self.check_index_not_in_use("REINDEX INDEX", &index.name)?;
            }
            self.host.call(|session| session.reindex_table(&table))?
        };
        if !any {
            let what =
                if concurrently { "that can be reindexed concurrently" } else { "to reindex" };
            let message = format!("table \"{}\" has no indexes {what}", table.name);
            sink.notice(&SqlError::notice(state::SUCCESSFUL_COMPLETION, message))?;
        }
        Ok(())
    }

    /// SET STORAGE or SET COMPRESSION of a column.
    pub(super) fn change_storage(
        &mut self,
        table: &Arc<Table>,
        column: &str,
        compression: bool,
        name: &str,
    ) -> Result<()> {
        let found = table.columns.iter().find(|found| !found.dropped && found.name == column);
        let found = found.ok_or_else(|| {
            let message =
                format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
            SqlError::new(state::UNDEFINED_COLUMN, message)
        })?;
        let (number, ty) = (found.attnum, found.type_oid);
        let change = if compression {
            compression_code(ty, name).map(ColumnStorage::Compression)
        } else {
            storage_code(ty, name).map(ColumnStorage::Storage)
        };
        let change = change.map_err(EngineError::from)?;
        // An index may have been added to it.
        let now = self.host.table_by_oid(table.oid)?;
        let now = now.ok_or_else(|| SqlError::new(state::INTERNAL_ERROR, "the table is gone"))?;
        self.host.call(|session| session.change_column_storage(&now, number, change))
    }

    pub(super) fn drop_constraint(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        (if_exists, cascade): (bool, bool),
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        let now = self.table_now(table.oid)?;
        match self.host.call(|session| session.drop_constraint(&now, name, cascade)) {
            Err(error) if if_exists && error.sqlstate == state::UNDEFINED_OBJECT => {
                let message = format!("{}, skipping", error.message);
                sink.notice(&SqlError::notice(state::SUCCESSFUL_COMPLETION, message))
            }
            Err(error) => Err(error),
            Ok(dropped) => cascades(sink, &dropped),
        }
    }

    /// Adds a key to a table, as it is now.
    pub(super) fn add_key(&mut self, table: &Arc<Table>, key: &NewKey) -> Result<()> {
        let table = self.table_now(table.oid)?;
        let mut def = key_definition(key, &table, self.host.names())?;
        def.tablespace = self.tablespace_named(key.index.tablespace.as_deref())?;
        self.host.call(|session| session.create_index(&table, &def)).map(drop)
    }

    /// Adds a key that is an index which the table has.
    pub(super) fn use_index(
        &mut self,
        table: &Arc<Table>,
        key: &NewKey,
        index: &str,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        let table = self.table_now(table.oid)?;
        let found = self.host.call(|session| session.index_to_constrain(&table, index));
        // As in PostgreSQL, with the place, unless it is a relation of another kind.
        let index = found.map_err(|error| match error.sqlstate {
            state::WRONG_OBJECT_TYPE if error.detail.is_none() => error,
            _ => error.at(key.position),
        })?;
        let name = key.index.name.as_deref().unwrap_or(&index.name);
        if *name != index.name {
            let message = format!(
                "ALTER TABLE / ADD CONSTRAINT USING INDEX will rename index \"{}\" to \"{name}\"",
                index.name
            );
            sink.notice(&SqlError::notice(state::SUCCESSFUL_COMPLETION, message))?;
        }
        let what = (name, constraint_kind(key));
        self.host.call(|session| session.constrain_index(&table, &index, what))
    }

    /// A table after earlier parts of the statement.
    pub(super) fn table_now(&mut self, oid: Oid) -> Result<Arc<Table>> {
        let gone = || SqlError::new(state::INTERNAL_ERROR, "the table is gone");
        self.host.table_by_oid(oid)?.ok_or_else(gone)
    }

    /// Adds the keys of CREATE TABLE to the new table.
    pub(super) fn add_keys(&mut self, oid: Oid, keys: &[NewKey]) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let table = self.table_now(oid)?;
        for key in distinct_keys(keys) {
            self.add_key(&table, &key)?;
        }
        Ok(())
    }
}

/// Whether a name means nothing, or its schema.
fn is_absent(error: &SqlError) -> bool {
    matches!(error.sqlstate, state::UNDEFINED_OBJECT | state::INVALID_SCHEMA_NAME)
}

/// Refuses keys that PostgreSQL refuses before it makes the table.
pub(super) fn check_keys(keys: &[NewKey], table: &str, columns: &[String]) -> Result<()> {
    let mut primary = false;
    for key in keys {
        if key.primary && std::mem::replace(&mut primary, true) {
            let message = format!("multiple primary keys for table \"{table}\" are not allowed");
            return Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message).at(key.position));
        }
        check_key(key, key.position, |name| columns.iter().any(|column| column == name))?;
    }
    Ok(())
}

fn check_key(key: &NewKey, position: u32, known: impl Fn(&str) -> bool) -> Result<()> {
    let columns = &key.index.keys;
    for (n, column) in columns.iter().enumerate() {
        let name = &column.name;
        if !known(name) && SystemColumn::named(name).is_none() {
            let message = format!("column \"{name}\" named in key does not exist");
            return Err(SqlError::new(state::UNDEFINED_COLUMN, message).at(position));
        }
        if columns.iter().take(n).any(|before| before.name == *name) {
            let kind = if key.primary { "primary key" } else { "unique" };
            let message = format!("column \"{name}\" appears twice in {kind} constraint");
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message).at(position));
        }
    }
    let mut included = key.index.included.iter();
    match included.find(|c| !known(&c.name) && SystemColumn::named(&c.name).is_none()) {
        Some(column) => {
            let message = format!("column \"{}\" named in key does not exist", column.name);
            Err(SqlError::new(state::UNDEFINED_COLUMN, message).at(position))
        }
        None => Ok(()),
    }
}

/// The keys to make: the primary key first, and of those that say the same only one.
pub(super) fn distinct_keys(keys: &[NewKey]) -> Vec<NewKey> {
    let primary = keys.iter().filter(|key| key.primary);
    let mut distinct: Vec<NewKey> = Vec::with_capacity(keys.len());
    for key in primary.chain(keys.iter().filter(|key| !key.primary)) {
        let same = |other: &&mut NewKey| {
            let (a, b) = (&key.index, &other.index);
            let parts = a.keys == b.keys && a.included == b.included;
            parts && a.parameters == b.parameters && a.nulls_not_distinct == b.nulls_not_distinct
        };
        match distinct.iter_mut().find(same) {
            Some(other) => {
                let name = &mut other.index.name;
                *name = name.take().or_else(|| key.index.name.clone());
            }
            None => distinct.push(key.clone()),
        }
    }
    distinct
}

fn key_definition(key: &NewKey, table: &Table, names: &mut dyn Names) -> Result<IndexDef> {
    // As in PostgreSQL, ALTER TABLE does not say where it is.
    check_key(key, 0, |name| table.column(name).is_some())?;
    let def = definition(&key.index, "btree", (table, &[]), names)?;
    let (deferrable, deferred) = (key.deferrable, key.deferred);
    Ok(IndexDef {
        unique: true,
        constraint: Some(constraint_kind(key)),
        deferrable,
        deferred,
        ..def
    })
}

fn constraint_kind(key: &NewKey) -> ConstraintKind {
    if key.primary { ConstraintKind::Primary } else { ConstraintKind::Unique }
}

/// What an index is to be, from its text.
fn definition(
    index: &NewIndex,
    method: &str,
    (table, analyzed): (&Table, &[Option<AnalyzedKey>]),
    names: &mut dyn Names,
) -> Result<IndexDef> {
    // The caller finds the tablespace.
    let NewIndex { name, keys, included, nulls_not_distinct, parameters, tablespace: _ } = index;
    if included.iter().any(|column| column.collation.is_some()) {
        return Err(invalid("including column does not support a collation"));
    }
    if keys.len() + included.len() > MOST_COLUMNS {
        let message = format!("cannot use more than {MOST_COLUMNS} columns in an index");
        return Err(SqlError::new("54011", message));
    }
    if OTHER_METHODS.contains(&method) {
        return Err(SqlError::unsupported(format!("an index of access method {method}")));
    }
    if method != "btree" {
        let message = format!("access method \"{method}\" does not exist");
        return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
    }
    let (fill_factor, deduplicate) = index_parameters(parameters).map_err(EngineError::from)?;
    let mut def = IndexDef {
        name: name.clone(),
        nulls_not_distinct: *nulls_not_distinct,
        fill_factor,
        deduplicate,
        ..IndexDef::default()
    };
    let mut analyzed = analyzed.iter();
    for column in keys {
        let analyzed = analyzed.next().and_then(Option::as_ref);
        def.keys.push(key_of(column, (table, analyzed), names)?);
        if let Some(AnalyzedKey::Expression(expression)) = analyzed {
            def.expressions.push(expression.clone());
        }
    }
    for column in included {
        let found = column_of(&column.name, table)?;
        if column.opclass.is_some() {
            return Err(invalid("including column does not support an operator class"));
        }
        if column.descending.is_some() {
            return Err(invalid("including column does not support ASC/DESC options"));
        }
        if column.nulls_first.is_some() {
            return Err(invalid("including column does not support NULLS FIRST/LAST options"));
        }
        def.included.push(found.attnum);
    }
    Ok(def)
}

fn invalid(message: &str) -> SqlError {
    SqlError::new("42P17", message)
}

fn column_of<'t>(name: &str, table: &'t Table) -> Result<&'t Column> {
    if let Some((_, column)) = table.column(name) {
        return Ok(column);
    }
    if SystemColumn::named(name).is_some() {
        let message = "index creation on system columns is not supported";
        return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
    }
    let message = format!("column \"{name}\" does not exist");
    Err(SqlError::new(state::UNDEFINED_COLUMN, message))
}

fn key_of(
    key: &KeyColumn,
    (table, analyzed): (&Table, Option<&AnalyzedKey>),
    names: &mut dyn Names,
) -> Result<IndexKey> {
    let (attnum, type_oid, own) = match analyzed {
        None => {
            let column = column_of(&key.name, table)?;
            (column.attnum, column.type_oid, column.collation)
        }
        Some(AnalyzedKey::Column { number, collation }) => {
            let column = table.columns.iter().find(|column| column.attnum == *number);
            (*number, column.map_or(0, |column| column.type_oid), *collation)
        }
        Some(AnalyzedKey::Expression(expr)) => (0, expr.type_oid, expr.collation),
    };
    let collation = match &key.collation {
        None => own,
        Some(QualifiedName { schema, name, .. }) => {
            collation_for(names, (schema.as_deref(), name), type_oid, 0)?
        }
    };
    if collation == 0 && names.ty(type_oid)?.collation != 0 {
        let message = "could not determine which collation to use for index expression";
        let hint = "Use the COLLATE clause to set the collation explicitly.";
        return Err(SqlError::new("42P22", message).hint(hint));
    }
    if let Some(class) = &key.opclass {
        check_class(class, type_oid)?;
    }
    let descending = key.descending.unwrap_or(false);
    let nulls_first = key.nulls_first.unwrap_or(descending);
    let collation = Some(collation);
    Ok(IndexKey { attnum, collation, opclass: None, descending, nulls_first })
}

/// The name of the default operator class of a type's B-trees.
fn default_class(ty: Oid) -> Option<String> {
    match ty {
        oids::TEXT | oids::VARCHAR => Some("text_ops".to_owned()),
        _ => type_info(ty).map(|t| format!("{}_ops", t.name)),
    }
}

/// Refuses an operator class that is not the type's default.
fn check_class(class: &QualifiedName, ty: Oid) -> Result<()> {
    let name = class.name.as_str();
    if default_class(ty).as_deref() == Some(name) {
        return Ok(());
    }
    let of_type = name.strip_suffix("_ops").and_then(forebay_types::type_by_name);
    let is_text = matches!(ty, oids::TEXT | oids::VARCHAR);
    if is_text && matches!(name, "varchar_ops" | "text_pattern_ops" | "varchar_pattern_ops") {
        return Err(SqlError::unsupported(format!("operator class \"{name}\"")));
    }
    if of_type.is_some() || OTHER_CLASSES.contains(&name) {
        let ty = SqlType::of(ty).sql_name();
        let message = format!("operator class \"{name}\" does not accept data type {ty}");
        return Err(SqlError::new(state::DATATYPE_MISMATCH, message));
    }
    let message = format!(
        "operator class \"{}\" does not exist for access method \"btree\"",
        class.display()
    );
    Err(SqlError::new(state::UNDEFINED_OBJECT, message))
}
