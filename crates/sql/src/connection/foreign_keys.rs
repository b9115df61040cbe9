//! FOREIGN KEY of CREATE TABLE and ALTER TABLE.

use super::state::Connection;
use crate::error::{Result, SqlError, state};
use crate::parse::NewForeignKey;
use crate::plan::{Catalog, SystemColumn};
use forebay_engine::{ForeignKey, ForeignKeyDef, LockMode, Oid, Table};
use std::sync::Arc;

/// Most columns of a foreign key.
const MOST_COLUMNS: usize = 32;

impl Connection {
    /// Adds a foreign key to a table. With `new` the table was just made, and has no rows.
    pub(super) fn add_foreign_key(
        &mut self,
        child: Oid,
        key: &NewForeignKey,
        new: bool,
    ) -> Result<()> {
        let parent = self.parent_of(key)?;
        let child = self.table_now(child)?;
        let parent = if parent.oid == child.oid { Arc::clone(&child) } else { parent };
        check_persistence(&child, &parent)?;
        let columns = numbers(&child, &key.columns)?;
        let set_columns = numbers(&child, &key.set_columns)?;
        let parent_columns = key.parent_columns.as_ref();
        let parent_columns = parent_columns.map(|names| numbers(&parent, names)).transpose()?;
        let attributes = key.attributes;
        let def = ForeignKeyDef {
            name: key.name.clone(),
            columns,
            parent_columns,
            full: key.full,
            on_delete: key.on_delete,
            on_update: key.on_update,
            set_columns,
            deferrable: attributes.deferrable,
            deferred: attributes.deferred,
            enforced: !attributes.not_enforced,
            validated: !attributes.not_enforced && (new || !attributes.not_valid),
        };
        let oid = self.host.call(|session| session.add_foreign_key((&child, &parent), &def))?;
        if new || !def.validated {
            return Ok(());
        }
        let made = self.host.call(|session| {
            session.see_own_changes()?;
            session.foreign_key(oid)
        })?;
        let made = made.ok_or_else(|| SqlError::new(state::INTERNAL_ERROR, "the key is gone"))?;
        self.check_all_children(&made)
    }

    /// The table that is referred to, locked.
    fn parent_of(&mut self, key: &NewForeignKey) -> Result<Arc<Table>> {
        let name = &key.parent;
        let schema = name.schema.as_deref();
        let found = self.host.open_table(schema, &name.name, LockMode::ShareRowExclusive);
        let no_table = || {
            let message = format!("referenced relation \"{}\" is not a table", name.name);
            SqlError::new(state::WRONG_OBJECT_TYPE, message)
        };
        let table = match found {
            Ok(Some(table)) => table,
            Ok(None) => return self.no_table(name).and_then(Err),
            Err(error) if error.sqlstate == state::WRONG_OBJECT_TYPE => return Err(no_table()),
            Err(error) => return Err(error),
        };
        if table.kind != b'r' {
            return Err(no_table());
        }
        if table.is_catalog() {
            let message = format!("permission denied: \"{}\" is a system catalog", table.name);
            return Err(SqlError::new(state::INSUFFICIENT_PRIVILEGE, message));
        }
        if self.host.session()?.is_emptied_at_commit(table.oid) {
            let what = "a foreign key to a temporary table with ON COMMIT DELETE ROWS or DROP";
            return Err(SqlError::unsupported(what));
        }
        Ok(table)
    }

    /// VALIDATE CONSTRAINT of a foreign key. False: it is none.
    pub(super) fn validate_foreign_key(&mut self, table: &Arc<Table>, name: &str) -> Result<bool> {
        let keys = self.host.call(|session| session.foreign_keys_of(table))?;
        let Some(key) = keys.iter().flatten().find(|key| key.name == name) else {
            return Ok(false);
        };
        if !key.enforced {
            let message = "cannot validate NOT ENFORCED constraint";
            return Err(SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        if key.validated {
            return Ok(true);
        }
        let ForeignKey { oid, parent, .. } = *key;
        self.host.call(|session| session.lock_table_by_oid(parent, LockMode::RowShare))?;
        self.check_all_children(key)?;
        self.host.call(|session| session.validate_constraint(table, oid))?;
        Ok(true)
    }
}

/// A table may refer to tables that live as long as itself.
fn check_persistence(child: &Table, parent: &Table) -> Result<()> {
    let message = match (child.place().persistence, parent.place().persistence) {
        (b't', b't') | (b'u', b'p' | b'u') | (b'p', b'p') => return Ok(()),
        (b't', _) => "constraints on temporary tables may reference only temporary tables",
        (b'u', _) => {
            "constraints on unlogged tables may reference only permanent or unlogged tables"
        }
        _ => "constraints on permanent tables may reference only permanent tables",
    };
    Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message))
}

/// The numbers of columns.
fn numbers(table: &Table, names: &[String]) -> Result<Vec<i16>> {
    if names.len() > MOST_COLUMNS {
        let message = format!("cannot have more than {MOST_COLUMNS} keys in a foreign key");
        return Err(SqlError::new("54011", message));
    }
    let number = |name: &String| match table.column(name) {
        Some((_, column)) => Ok(column.attnum),
        None if SystemColumn::named(name).is_some() => {
            let message = "system columns cannot be used in foreign keys";
            Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message))
        }
        None => {
            let message =
                format!("column \"{name}\" referenced in foreign key constraint does not exist");
            Err(SqlError::new(state::UNDEFINED_COLUMN, message))
        }
    };
    names.iter().map(number).collect()
}
