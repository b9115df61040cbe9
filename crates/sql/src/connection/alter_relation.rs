//! ALTER TABLE, ALTER INDEX and ALTER SEQUENCE: names of constraints and indexes, owners, schemas,
//! replica identity, clustering; NOT NULL by its name.

use super::alter_columns::{VIRTUAL_NOT_NULL, column_of};
use super::state::Connection;
use crate::error::{Result, SqlError, state};
use crate::parse::{NewReplicaIdentity, QualifiedName, RoleName};
use forebay_engine::{NotNull, Oid, ReplicaIdentity, Table, TableIndex};
use std::sync::Arc;

fn refused(sqlstate: &'static str, message: String) -> SqlError {
    SqlError::new(sqlstate, message)
}

impl Connection {
    /// OWNER TO of a table.
    pub(super) fn table_owner(&mut self, table: Oid, owner: &RoleName) -> Result<()> {
        let (table, owner) = (self.table_now(table)?, self.named(owner));
        self.host.call(|session| session.set_table_owner(&table, &owner))
    }

    /// REPLICA IDENTITY.
    pub(super) fn replica_identity(
        &mut self,
        table: Oid,
        identity: &NewReplicaIdentity,
    ) -> Result<()> {
        let table = self.table_now(table)?;
        let identity = match identity {
            NewReplicaIdentity::Default => ReplicaIdentity::Default,
            NewReplicaIdentity::Full => ReplicaIdentity::Full,
            NewReplicaIdentity::Nothing => ReplicaIdentity::Nothing,
            NewReplicaIdentity::Index(name) => {
                let index = self.index_of(&table, name)?;
                check_identity(&table, &index)?;
                ReplicaIdentity::Index(index.oid)
            }
        };
        self.host.call(|session| session.set_replica_identity(&table, identity))
    }

    /// CLUSTER ON, SET WITHOUT CLUSTER.
    pub(super) fn cluster_on(&mut self, table: Oid, index: Option<&str>) -> Result<()> {
        let table = self.table_now(table)?;
        let index = match index {
            None => None,
            Some(name) => {
                let index = self.index_of(&table, name)?;
                if !index.valid {
                    let message = format!("cannot cluster on invalid index \"{name}\"");
                    return Err(refused(state::FEATURE_NOT_SUPPORTED, message));
                }
                if let Some(why) = &index.unknown {
                    let message = format!("cannot cluster on index \"{name}\": {why}");
                    return Err(refused(state::FEATURE_NOT_SUPPORTED, message));
                }
                Some(index.oid)
            }
        };
        self.host.call(|session| session.mark_clustered(&table, index))
    }

    /// An index of a table, by its name.
    fn index_of(&mut self, table: &Table, name: &str) -> Result<Arc<TableIndex>> {
        let found = self.named_relation(Some(&table.schema), name)?;
        let Some(relation) = found else {
            let message = format!("index \"{name}\" for table \"{}\" does not exist", table.name);
            return Err(refused(state::UNDEFINED_OBJECT, message));
        };
        if !matches!(relation.kind, b'i' | b'I') {
            let message = format!("\"{name}\" is not an index");
            return Err(refused(state::WRONG_OBJECT_TYPE, message));
        }
        let index = table.indexes.iter().find(|index| index.oid == relation.oid);
        index.cloned().ok_or_else(|| {
            let message = format!("\"{name}\" is not an index for table \"{}\"", table.name);
            refused(state::WRONG_OBJECT_TYPE, message)
        })
    }

    /// ADD NOT NULL.
    pub(super) fn add_not_null(
        &mut self,
        table: Oid,
        column: &str,
        (name, valid): (Option<&str>, bool),
    ) -> Result<()> {
        let table = self.table_now(table)?;
        let found = column_of(&table, column)?;
        let number = found.attnum;
        if found.generated == b'v' {
            return Err(SqlError::unsupported(VIRTUAL_NOT_NULL));
        }
        let known = self.host.call(|session| session.not_null_of(&table, number))?;
        let Some(NotNull { name: known, validated, .. }) = known else {
            let how = (name, valid);
            return self.host.call(|session| session.add_not_null(&table, number, how));
        };
        let relation = &table.name;
        if valid && !validated {
            let message =
                format!("incompatible NOT VALID constraint \"{known}\" on relation \"{relation}\"");
            let hint = "You might need to validate it using ALTER TABLE ... VALIDATE CONSTRAINT.";
            let error = SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message);
            return Err(error.hint(hint));
        }
        match name {
            Some(name) if name != known => {
                let message = format!(
                    "cannot create not-null constraint \"{name}\" on column \"{column}\" of table \
                     \"{relation}\""
                );
                let detail = format!(
                    "A not-null constraint named \"{known}\" already exists for this column."
                );
                let error = SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message);
                Err(error.detail(detail))
            }
            _ => Ok(()),
        }
    }

    /// Notes that no row has a NULL in a column, whose constraint did not look at all rows yet.
    /// Whether there is such a constraint of that name, or without a name of any.
    pub(super) fn validate_not_null(
        &mut self,
        table: &Arc<Table>,
        name: Option<&str>,
        columns: impl Iterator<Item = i16>,
    ) -> Result<bool> {
        for number in columns {
            let found = self.host.call(|session| session.not_null_of(table, number))?;
            let Some(NotNull { oid, name: own, validated }) = found else { continue };
            if name.is_some_and(|name| name != own) {
                continue;
            }
            if !validated {
                self.host.call(|session| session.check_no_nulls(table, number))?;
                self.host.call(|session| session.validate_constraint(table, oid))?;
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// SET SCHEMA of a table or a sequence.
    pub(super) fn move_table(&mut self, name: &QualifiedName, schema: &str) -> Result<()> {
        let found = self.sequence_to_change(name, forebay_engine::LockMode::AccessExclusive)?;
        if let Some(relation) = found.filter(|relation| relation.kind == b'S') {
            return self.host.call(|session| session.set_sequence_schema(relation.oid, schema));
        }
        let table = self.table_to_index(name, forebay_engine::LockMode::AccessExclusive)?;
        self.check_not_in_use("ALTER TABLE", table.oid, &table.name)?;
        self.host.call(|session| session.set_table_schema(&table, schema))
    }
}

/// Refuses an index that does not identify rows.
fn check_identity(table: &Table, index: &TableIndex) -> Result<()> {
    let name = &index.name;
    if !index.unique {
        let message = format!("cannot use non-unique index \"{name}\" as replica identity");
        return Err(refused(state::WRONG_OBJECT_TYPE, message));
    }
    if !index.immediate {
        let message = format!("cannot use non-immediate index \"{name}\" as replica identity");
        return Err(refused(state::WRONG_OBJECT_TYPE, message));
    }
    if let Some(why) = &index.unknown {
        let message = format!("cannot use index \"{name}\" as replica identity: {why}");
        return Err(refused(state::FEATURE_NOT_SUPPORTED, message));
    }
    if !index.valid {
        let message = format!("cannot use invalid index \"{name}\" as replica identity");
        return Err(refused(state::WRONG_OBJECT_TYPE, message));
    }
    for place in index.key_columns() {
        let column = table.columns.get(place).filter(|column| !column.not_null);
        if let Some(column) = column {
            let message = format!(
                "index \"{name}\" cannot be used as replica identity because column \"{}\" is \
                 nullable",
                column.name
            );
            return Err(refused(state::WRONG_OBJECT_TYPE, message));
        }
    }
    Ok(())
}
