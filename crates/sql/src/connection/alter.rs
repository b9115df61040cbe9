//! ALTER TABLE: its actions, one kind after the other.

use super::alter_columns::Pass;
use super::alter_files::check_files;
use super::parameters::alter_mode;
use super::sink::{CommandTag, RowSink};
use super::state::Connection;
use crate::error::{Result, SqlError, state};
use crate::parse::{AlterAction, AlterTable, QualifiedName, RenameAction, Source};
use crate::plan::Catalog;
use forebay_engine::LockMode;

fn done(tag: &str) -> Result<CommandTag> {
    Ok(CommandTag(tag.to_owned()))
}

/// Whether an action changes what rows are, or what holds for them: tables that inherit would
/// follow.
fn changes_rows(action: &AlterAction) -> bool {
    !matches!(
        action,
        AlterAction::Parameters { .. }
            | AlterAction::Owner(_)
            | AlterAction::ReplicaIdentity(_)
            | AlterAction::Cluster(_)
            | AlterAction::ColumnStorage { .. }
            | AlterAction::WithoutOids
            | AlterAction::Logged(_)
            | AlterAction::Tablespace(_)
    )
}

impl Connection {
    /// Runs ALTER TABLE. As in PostgreSQL, what is dropped is dropped first.
    pub(super) fn alter_table(
        &mut self,
        alter: &AlterTable,
        source: &Source,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        if alter.of_index {
            return self.alter_index(alter, sink);
        }
        self.check_writable("ALTER TABLE")?;
        let QualifiedName { schema, name, .. } = &alter.table;
        if alter.if_exists && self.host.table(schema.as_deref(), name)?.is_none() {
            let message = format!("relation \"{name}\" does not exist, skipping");
            sink.notice(&SqlError::notice(state::SUCCESSFUL_COMPLETION, message))?;
            return done("ALTER TABLE");
        }
        match alter.actions.as_slice() {
            [AlterAction::Rename(rename)] => return self.alter_name(&alter.table, rename),
            [AlterAction::Schema(schema)] => {
                self.move_table(&alter.table, schema)?;
                return done("ALTER TABLE");
            }
            _ => {}
        }
        check_files(&alter.actions)?;
        self.refuse_sequence(&alter.table, "this ALTER TABLE action cannot be performed on")?;
        let table = self.table_to_index(&alter.table, alter_mode(alter))?;
        self.check_not_in_use("ALTER TABLE", table.oid, &table.name)?;
        if alter.actions.iter().any(changes_rows) {
            self.host.call(|session| session.check_alone(&table))?;
        }
        for action in &alter.actions {
            if let AlterAction::DropConstraint { name, if_exists, cascade } = action {
                self.drop_constraint(&table, name, (*if_exists, *cascade), sink)?;
            }
        }
        let of = (table.oid, alter.actions.as_slice());
        for pass in [Pass::Drop, Pass::Type, Pass::Add, Pass::Expression, Pass::NotNull] {
            self.alter_pass(pass, of, source, sink)?;
        }
        let keys = || {
            alter.actions.iter().filter_map(|action| match action {
                AlterAction::AddKey(key) => Some(key),
                _ => None,
            })
        };
        for key in keys() {
            if let Some(index) = &key.existing {
                self.use_index(&table, key, index, sink)?;
            }
        }
        for key in keys().filter(|key| key.existing.is_none()) {
            self.add_key(&table, key)?;
        }
        self.alter_pass(Pass::Conditions, of, source, sink)?;
        for action in &alter.actions {
            if let AlterAction::AddForeignKey(key) = action {
                self.add_foreign_key(table.oid, key, false)?;
            }
        }
        for action in &alter.actions {
            if let AlterAction::ColumnStorage { column, compression, name } = action {
                self.change_storage(&table, column, *compression, name)?;
            }
        }
        self.change_parameters(&table, &alter.actions)?;
        self.alter_pass(Pass::Misc, of, source, sink)?;
        self.alter_files(of)?;
        done("ALTER TABLE")
    }

    /// RENAME of a table, a sequence, or a column of a table.
    fn alter_name(&mut self, name: &QualifiedName, rename: &RenameAction) -> Result<CommandTag> {
        let found = self.sequence_to_change(name, LockMode::AccessExclusive)?;
        match (found, rename) {
            (Some(relation), RenameAction::Table(to)) if relation.kind == b'S' => {
                self.host.call(|session| session.rename_sequence(relation.oid, to))?;
            }
            (Some(relation), RenameAction::Table(to)) if relation.kind == b'i' => {
                let of = (name.schema.as_deref(), name.name.as_str());
                self.host.call(|session| session.rename_index(of, to))?;
            }
            _ => {
                let table = self.table_to_index(name, LockMode::AccessExclusive)?;
                self.check_not_in_use("ALTER TABLE", table.oid, &table.name)?;
                if !matches!(rename, RenameAction::Table(_)) {
                    self.host.call(|session| session.check_alone(&table))?;
                }
                self.rename(&table, rename)?;
            }
        }
        done("ALTER TABLE")
    }
}
