//! ALTER TABLE and ALTER INDEX: storage parameters are set and reset.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid};

use crate::catalog_oids::CLASSES;
use crate::database::Database;
use crate::error::CatalogError;
use crate::options::{
    StorageParameter, changed_texts, index_parameters, of_table, stored, texts_of,
};
use crate::schema::{BTREE_AM, PG_CLASS, PG_CLASS_OID_INDEX};
use crate::table::Table;
use crate::writer::Writer;

/// Parameters that are set, or of which only the names count: they are reset.
#[derive(Clone, Copy, Debug)]
pub struct ChangedParameters<'a> {
    /// The parameters.
    pub given: &'a [StorageParameter],
    /// RESET
    pub reset: bool,
}

impl ChangedParameters<'_> {
    /// The texts to be added, if they are as `check` has them.
    fn texts(
        &self,
        check: impl FnOnce(&[StorageParameter]) -> Result<Vec<String>, CatalogError>,
    ) -> Result<Vec<String>, CatalogError> {
        if !self.reset {
            return check(self.given);
        }
        match self.given.iter().any(|parameter| parameter.value.is_some()) {
            true => {
                Err(CatalogError::refused("42601", "RESET must not include values for parameters"))
            }
            false => Ok(Vec::new()),
        }
    }

    /// Whether the parameter in a stored text is changed, that of a TOAST table or of another
    /// relation.
    fn names(&self, text: &str, toast: bool) -> bool {
        let name = text.split_once('=').map_or(text, |(name, _)| name);
        let namespace = toast.then_some("toast");
        let same = |of: &StorageParameter| of.name == name && of.namespace.as_deref() == namespace;
        self.given.iter().any(same)
    }

    /// Changes the row of a relation. As in PostgreSQL, what stays comes first.
    fn apply(
        &self,
        writer: &mut Writer<'_>,
        (relation, toast): (Oid, bool),
        new: Vec<String>,
    ) -> Result<(), CatalogError> {
        let mut found = writer.row(&PG_CLASS_OID_INDEX, relation)?;
        let lost = || CatalogError::corrupt(format!("pg_class has no reloptions of {relation}"));
        let value = found.values.get_mut(PG_CLASS.place("reloptions")).ok_or_else(lost)?;
        let mut texts = texts_of(value)?;
        texts.retain(|text| !self.names(text, toast));
        texts.extend(new);
        *value = stored(&texts);
        writer.update(CLASSES, found.tid, &found.values)?;
        Ok(())
    }
}

/// Changes parameters of a table and, if it has one, of its TOAST table. Without one, what is said
/// of it means nothing, as in PostgreSQL.
pub fn change_table_parameters(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    table: &Table,
    change: ChangedParameters<'_>,
) -> Result<(), CatalogError> {
    let has_toast = table.toasting.relation.is_some();
    let texts = change.texts(|given| changed_texts(given, has_toast))?;
    let mut writer = Writer::begin(database, backend, tx)?;
    change.apply(&mut writer, (table.oid, false), of_table(&texts, false))?;
    if let Some(toast) = table.toasting.relation {
        change.apply(&mut writer, (toast, true), of_table(&texts, true))?;
    }
    writer.next_command()
}

/// Changes parameters of a B-tree index of a table. 0A000 for an index of another kind.
pub fn change_index_parameters(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    table: &Table,
    (index, name): (Oid, &str),
    change: ChangedParameters<'_>,
) -> Result<(), CatalogError> {
    table.check_alterable(name)?;
    let mut writer = Writer::begin(database, backend, tx)?;
    let class = writer.row(&PG_CLASS_OID_INDEX, index)?;
    let method = class.values.get(PG_CLASS.place("relam"));
    if !matches!(method, Some(Datum::Oid(BTREE_AM))) {
        let message = format!("cannot alter index \"{name}\": its access method is not supported");
        return Err(CatalogError::refused("0A000", message));
    }
    let texts = change.texts(|given| {
        index_parameters(given)?;
        let text = |parameter: &StorageParameter| {
            format!("{}={}", parameter.name, parameter.value.as_deref().unwrap_or("true"))
        };
        Ok(given.iter().map(text).collect())
    })?;
    change.apply(&mut writer, (index, false), texts)?;
    writer.next_command()
}
