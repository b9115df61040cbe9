//! Relations as a whole: owners, schemas, names of constraints and indexes, replica identity.

use std::sync::Arc;

use forebay_catalog::ddl;
use forebay_catalog::{self as catalog, NotNull, Reader, ReplicaIdentity, Table};
use forebay_format::ids::FIRST_UNPINNED_OID;
use forebay_txn::locks::{LockMode, LockTag};
use forebay_types::Oid;

use super::path::no_schema;
use super::state::Session;
use crate::core::InDatabase;
use crate::error::EngineError;

impl Session {
    /// Refuses a table that the transaction has not locked to change it.
    pub(super) fn check_altered(&self, table: &Table) -> Result<(), EngineError> {
        self.check_own_to("alter", table)?;
        self.check_locked(table, LockMode::AccessExclusive)
    }

    /// Refuses a table whose columns and constraints are not its own to change: one that others
    /// inherit from or that inherits, whose rows are values of columns, or that has a type.
    pub fn check_alone(&mut self, table: &Table) -> Result<(), EngineError> {
        table.check_own_columns()?;
        self.call(|session, core| {
            let (tx, backend) = session.changing()?;
            Ok(catalog::check_alone(&core.database, backend, tx, table)?)
        })
    }

    /// Locks a name in a namespace, to the end of the transaction.
    fn lock_name(
        &mut self,
        core: &InDatabase,
        namespace: Oid,
        name: &str,
    ) -> Result<(), EngineError> {
        let tag = ddl::name_lock(core.database.oid, namespace, name);
        self.lock(core, tag, LockMode::AccessExclusive)
    }

    /// Renames a constraint of a table, with its index. 42704 if there is none of that name, 42710
    /// or 42P07 if the new one is taken.
    pub fn rename_constraint(
        &mut self,
        table: &Table,
        name: &str,
        to: &str,
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            session.check_altered(table)?;
            session.lock_name(core, table.namespace, to)?;
            let (tx, backend) = session.changing()?;
            let names = (name, to);
            Ok(catalog::rename_constraint(&core.database, backend, tx, table, names)?)
        })
    }

    /// Renames an index, and the constraint that it is of. 42704 if there is none of that name.
    pub fn rename_index(
        &mut self,
        (schema, name): (Option<&str>, &str),
        to: &str,
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            let mode = LockMode::ShareUpdateExclusive;
            let (table, index, _) = session.lock_index(core, (schema, name), mode)?;
            table.check_alterable(name)?;
            session.lock_name(core, table.namespace, to)?;
            let (tx, backend) = session.changing()?;
            catalog::rename_index(&core.database, backend, tx, (index, to), &table)?;
            session.note_temp_renamed(index, to);
            Ok(())
        })
    }

    /// What lets a column refuse NULL.
    pub fn not_null_of(
        &mut self,
        table: &Table,
        column: i16,
    ) -> Result<Option<NotNull>, EngineError> {
        self.call(|session, core| {
            let snapshot = core.xacts.snapshot(&session.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut session.backend, snapshot);
            Ok(reader.not_null(table.oid, column)?)
        })
    }

    /// Lets a column refuse NULL, by a constraint with a name. 23502 if a row has one; `valid`
    /// false: rows that are there are not looked at.
    pub fn add_not_null(
        &mut self,
        table: &Arc<Table>,
        column: i16,
        (name, valid): (Option<&str>, bool),
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            session.check_altered(table)?;
            let found = table.columns.iter().find(|found| found.attnum == column);
            let found = found.ok_or_else(|| EngineError::internal("the column is gone"))?;
            if valid {
                session.refuse_nulls(core, table, &[column])?;
            }
            let (tx, backend) = session.changing()?;
            let of = (&**table, column, found.name.as_str());
            let how = (name, valid);
            Ok(catalog::add_named_not_null(&core.database, backend, tx, of, how)?)
        })
    }

    /// Fails (23502) if a row has a NULL in a column.
    pub fn check_no_nulls(&mut self, table: &Arc<Table>, column: i16) -> Result<(), EngineError> {
        self.call(|session, core| session.refuse_nulls(core, table, &[column]))
    }

    /// Gives a table another owner, a role by its name.
    pub fn set_table_owner(&mut self, table: &Table, owner: &str) -> Result<(), EngineError> {
        self.call(|session, core| {
            session.check_altered(table)?;
            session.own_relation(core, table.oid, owner)
        })
    }

    /// The same for a sequence. 0A000 if it belongs to a column.
    pub fn set_sequence_role(&mut self, oid: Oid, owner: &str) -> Result<(), EngineError> {
        self.call(|session, core| {
            let info = session.lock_sequence(core, oid, LockMode::AccessExclusive)?;
            let message = format!("cannot change owner of sequence \"{}\"", info.name);
            session.refuse_owned_sequence(core, (oid, &info.name), message)?;
            session.own_relation(core, oid, owner)
        })
    }

    fn own_relation(
        &mut self,
        core: &InDatabase,
        oid: Oid,
        owner: &str,
    ) -> Result<(), EngineError> {
        core.database.check_event_triggers()?;
        let owner = self.owner_named(core, owner)?;
        let (tx, backend) = self.changing()?;
        Ok(catalog::set_relation_owner(&core.database, backend, tx, (oid, owner))?)
    }

    fn refuse_owned_sequence(
        &mut self,
        core: &InDatabase,
        (oid, name): (Oid, &str),
        message: String,
    ) -> Result<(), EngineError> {
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        let Some(owner) = reader.sequence_owner(oid)? else { return Ok(()) };
        let table = reader.class(owner.table)?.map(|class| class.name).unwrap_or_default();
        let detail = format!("Sequence \"{name}\" is linked to table \"{table}\".");
        Err(EngineError::statement("0A000", message).with_detail(detail))
    }

    /// Moves a table into another schema, with its indexes and the sequences of its columns.
    pub fn set_table_schema(&mut self, table: &Table, schema: &str) -> Result<(), EngineError> {
        self.call(|session, core| {
            session.check_altered(table)?;
            let of = (table.oid, table.namespace, table.name.as_str());
            session.move_relation(core, of, schema, table.is_temporary())
        })
    }

    /// The same for a sequence. 0A000 if it belongs to a column.
    pub fn set_sequence_schema(&mut self, oid: Oid, schema: &str) -> Result<(), EngineError> {
        self.call(|session, core| {
            let info = session.lock_sequence(core, oid, LockMode::AccessExclusive)?;
            let message = "cannot move an owned sequence into another schema".to_owned();
            session.refuse_owned_sequence(core, (oid, &info.name), message)?;
            let of = (oid, info.namespace, info.name.as_str());
            session.move_relation(core, of, schema, info.is_temporary())
        })
    }

    fn move_relation(
        &mut self,
        core: &InDatabase,
        (oid, from, name): (Oid, Oid, &str),
        schema: &str,
        temporary: bool,
    ) -> Result<(), EngineError> {
        core.database.check_event_triggers()?;
        let to = self.namespace(core, schema)?.ok_or_else(|| no_schema(schema))?;
        if to == from {
            return Ok(());
        }
        if temporary || schema.starts_with("pg_temp") || schema.starts_with("pg_toast_temp") {
            let message = "cannot move objects into or out of temporary schemas";
            return Err(EngineError::statement("0A000", message));
        }
        if schema == "pg_toast" {
            let message = "cannot move objects into or out of TOAST schema";
            return Err(EngineError::statement("0A000", message));
        }
        if to < FIRST_UNPINNED_OID && schema != "public" {
            let message = format!("permission denied for schema {schema}");
            return Err(EngineError::statement("42501", message));
        }
        // Nobody drops the schema meanwhile.
        if self.namespace_for_new(core, Some(schema))? != to {
            return Err(no_schema(schema));
        }
        self.lock_name(core, to, name)?;
        let (tx, backend) = self.changing()?;
        let followers = catalog::followers(&core.database, backend, tx, oid)?;
        for (relation, name) in followers {
            let tag = LockTag::Relation { database: core.database.oid, relation };
            self.lock(core, tag, LockMode::AccessExclusive)?;
            self.lock_name(core, to, &name)?;
        }
        let (tx, backend) = self.changing()?;
        Ok(catalog::set_relation_schema(&core.database, backend, tx, oid, (to, schema))?)
    }

    /// Changes how the changes of a table's rows are logged for subscribers.
    pub fn set_replica_identity(
        &mut self,
        table: &Table,
        identity: ReplicaIdentity,
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            session.check_altered(table)?;
            let (tx, backend) = session.changing()?;
            Ok(catalog::set_replica_identity(&core.database, backend, tx, table, identity)?)
        })
    }

    /// Notes by which index CLUSTER orders a table's rows. None: by none.
    pub fn mark_clustered(&mut self, table: &Table, index: Option<Oid>) -> Result<(), EngineError> {
        self.call(|session, core| {
            session.check_own_to("alter", table)?;
            session.check_locked(table, LockMode::ShareUpdateExclusive)?;
            let (tx, backend) = session.changing()?;
            Ok(catalog::mark_clustered(&core.database, backend, tx, table, index)?)
        })
    }
}
