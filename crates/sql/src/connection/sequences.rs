//! CREATE, ALTER and DROP SEQUENCE; TRUNCATE ... RESTART IDENTITY.

use super::lock::PG_TEMP;
use super::objects::cascades;
use super::sink::{CommandTag, RowSink};
use super::state::Connection;
use crate::error::{Result, SqlError, state};
use crate::parse::{
    AlterSequence, CreateSequence, DropStatement, OwnedBy, QualifiedName, SequenceAction,
    SequenceClauses,
};
use crate::plan::Catalog;
use forebay_engine::{
    EngineError, LockMode, NamedRelation, SequencePersistence, Session, Table, wrong_kind,
};
use std::sync::Arc;

fn done(tag: &str) -> Result<CommandTag> {
    Ok(CommandTag(tag.to_owned()))
}

/// The refusal of a relation that is not of the kind that a statement drops.
pub(super) fn wrong_kind_to_drop(kind: u8, name: &str, wanted: &str) -> SqlError {
    let what = match kind {
        b'r' | b'p' => "TABLE",
        b'i' | b'I' => "INDEX",
        b'S' => "SEQUENCE",
        b'v' => "VIEW",
        b'm' => "MATERIALIZED VIEW",
        b'f' => "FOREIGN TABLE",
        _ => "TYPE",
    };
    let article = if what.starts_with('I') { "an" } else { "a" };
    let message = format!("\"{name}\" is not {wanted}");
    let hint = format!("Use DROP {what} to remove {article} {}.", what.to_lowercase());
    SqlError::new(state::WRONG_OBJECT_TYPE, message).hint(hint)
}

impl Connection {
    /// Runs CREATE SEQUENCE.
    pub(super) fn create_sequence(
        &mut self,
        create: &CreateSequence,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        self.check_writable("CREATE SEQUENCE")?;
        let CreateSequence { name, if_not_exists, clauses, .. } = create;
        let persistence = self.new_persistence(name, create.persistence)?;
        let QualifiedName { schema, name, .. } = name;
        let temporary = persistence == SequencePersistence::Temporary;
        let first = self.host.call(Session::creation_schema)?.map(|entry| entry.name.to_string());
        let target = if temporary { Some(PG_TEMP) } else { schema.as_deref().or(first.as_deref()) };
        if *if_not_exists && target.is_some() && self.named_relation(target, name)?.is_some() {
            let message = format!("relation \"{name}\" already exists, skipping");
            sink.notice(&SqlError::notice(state::DUPLICATE_TABLE, message))?;
            return done("CREATE SEQUENCE");
        }
        let oid = self.host.call(|session| {
            session.create_sequence(schema.as_deref(), name, &clauses.options, persistence)
        })?;
        self.own_sequence(oid, clauses)?;
        done("CREATE SEQUENCE")
    }

    /// The persistence of a new relation, by its schema: pg_temp makes it temporary.
    fn new_persistence(
        &mut self,
        name: &QualifiedName,
        given: SequencePersistence,
    ) -> Result<SequencePersistence> {
        let other = match name.schema.as_deref() {
            Some(PG_TEMP) => return Ok(SequencePersistence::Temporary),
            Some(other) if given == SequencePersistence::Temporary => other,
            _ => return Ok(given),
        };
        Err(if self.host.call(|session| session.schema_exists(other))? {
            let message = "cannot create temporary relation in non-temporary schema";
            SqlError::new(state::INVALID_TABLE_DEFINITION, message)
        } else {
            let message = format!("schema \"{other}\" does not exist");
            SqlError::new(state::INVALID_SCHEMA_NAME, message)
        })
    }

    /// Does what OWNED BY says.
    fn own_sequence(&mut self, oid: u32, clauses: &SequenceClauses) -> Result<()> {
        match &clauses.owned_by {
            None => Ok(()),
            Some(OwnedBy::Nothing) => {
                self.host.call(|session| session.set_sequence_owner(oid, None))
            }
            Some(OwnedBy::Column { table, column }) => {
                let (table, number) = self.owning_column(table, column)?;
                self.host.call(|session| session.set_sequence_owner(oid, Some((&table, number))))
            }
        }
    }

    /// The column that is to own a sequence, and its table, locked.
    fn owning_column(&mut self, name: &QualifiedName, column: &str) -> Result<(Arc<Table>, i16)> {
        let schema = name.schema.as_deref();
        let table = self.host.open_table(schema, &name.name, LockMode::AccessShare)?;
        let Some(table) = table else { return self.no_table(name).and_then(Err) };
        if table.kind != b'r' {
            let message = format!("sequence cannot be owned by relation \"{}\"", table.name);
            return Err(EngineError::from(wrong_kind(table.kind, message)).into());
        }
        let found = table.column(column).map(|(_, column)| column.attnum);
        let number = found.ok_or_else(|| {
            let message =
                format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
            SqlError::new(state::UNDEFINED_COLUMN, message)
        })?;
        Ok((table, number))
    }

    /// The relation of a name, of any kind.
    pub(super) fn named_relation(
        &mut self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<NamedRelation>> {
        self.host.call(|session| session.relation_named(schema, name))
    }

    /// The same, locked if it is a sequence: others that wait for it find what it has become.
    pub(super) fn sequence_to_change(
        &mut self,
        name: &QualifiedName,
        mode: LockMode,
    ) -> Result<Option<NamedRelation>> {
        let QualifiedName { schema, name, .. } = name;
        self.host.call(|session| session.lock_sequence_named(schema.as_deref(), name, mode))
    }

    /// Runs ALTER SEQUENCE.
    pub(super) fn alter_sequence(
        &mut self,
        alter: &AlterSequence,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        self.check_writable("ALTER SEQUENCE")?;
        let AlterSequence { name, if_exists, action } = alter;
        let mode = match action {
            SequenceAction::Options(_) => LockMode::ShareRowExclusive,
            _ => LockMode::AccessExclusive,
        };
        let Some(relation) = self.sequence_to_change(name, mode)? else {
            if !if_exists {
                return self.no_table(name).and_then(Err);
            }
            let message = format!("relation \"{}\" does not exist, skipping", name.name);
            sink.notice(&SqlError::notice(state::SUCCESSFUL_COMPLETION, message))?;
            return done("ALTER SEQUENCE");
        };
        if relation.kind != b'S' {
            let message = match action {
                SequenceAction::Options(_) => format!("cannot open relation \"{}\"", relation.name),
                _ => {
                    let message = format!("\"{}\" is not a sequence", relation.name);
                    return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message));
                }
            };
            return Err(EngineError::from(wrong_kind(relation.kind, message)).into());
        }
        let oid = relation.oid;
        self.check_not_in_use("ALTER SEQUENCE", oid, &relation.name)?;
        match action {
            SequenceAction::Options(clauses) => {
                if !clauses.options.is_empty() {
                    let options = &clauses.options;
                    self.host.call(|session| session.alter_sequence(oid, options))?;
                }
                self.own_sequence(oid, clauses)?;
            }
            SequenceAction::Rename(to) => {
                self.host.call(|session| session.rename_sequence(oid, to))?;
            }
            SequenceAction::SetLogged(logged) => {
                self.host.call(|session| session.set_sequence_logged(oid, *logged))?;
            }
            SequenceAction::Owner(owner) => {
                let owner = self.named(owner);
                self.host.call(|session| session.set_sequence_role(oid, &owner))?;
            }
            SequenceAction::Schema(schema) => {
                self.host.call(|session| session.set_sequence_schema(oid, schema))?;
            }
        }
        done("ALTER SEQUENCE")
    }

    /// Runs DROP SEQUENCE.
    pub(super) fn drop_sequences(
        &mut self,
        drop: &DropStatement,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        self.check_writable("DROP SEQUENCE")?;
        let mut found: Vec<NamedRelation> = Vec::with_capacity(drop.names.len());
        for name in &drop.names {
            match self.sequence_to_change(name, LockMode::AccessExclusive)? {
                Some(relation) if relation.kind != b'S' => {
                    return Err(wrong_kind_to_drop(relation.kind, &relation.name, "a sequence"));
                }
                Some(relation) if found.contains(&relation) => {}
                Some(relation) => found.push(relation),
                None => {
                    let message = format!("sequence \"{}\" does not exist", name.name);
                    if !drop.if_exists {
                        return Err(SqlError::new(state::UNDEFINED_TABLE, message));
                    }
                    let message = format!("{message}, skipping");
                    sink.notice(&SqlError::notice(state::SUCCESSFUL_COMPLETION, message))?;
                }
            }
        }
        let mut told = Vec::new();
        for relation in found {
            self.check_not_in_use("DROP SEQUENCE", relation.oid, &relation.name)?;
            let of = (relation.oid, drop.cascade);
            told.extend(self.host.call(|session| session.drop_sequence(of.0, of.1))?);
        }
        cascades(sink, &told)?;
        done("DROP SEQUENCE")
    }
}
