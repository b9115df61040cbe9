//! Comments: pg_description, and pg_shdescription for what all databases share.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid};

use crate::catalog_oids::{DESCRIPTIONS, SHARED_DESCRIPTIONS};
use crate::database::Database;
use crate::error::CatalogError;
use crate::reader::{Reader, Rows};
use crate::row::Row;
use crate::schema::{CATALOGS, PG_DESCRIPTION_O_C_O_INDEX, PG_SHDESCRIPTION_O_C_INDEX};
use crate::writer::Writer;

/// What a comment is about: a row of a catalog, and a column's number or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commented {
    /// The catalog.
    pub class: Oid,
    /// The row.
    pub oid: Oid,
    /// The column of a relation.
    pub column: i16,
}

/// The OID of a catalog, by its name.
pub fn catalog_named(name: &str) -> Option<Oid> {
    CATALOGS.iter().find(|catalog| catalog.name == name).map(|catalog| catalog.oid)
}

fn is_shared(class: Oid) -> bool {
    CATALOGS.iter().any(|catalog| catalog.oid == class && catalog.shared)
}

impl Reader<'_> {
    /// The comment on a row of a catalog, or (without a catalog) on one with that OID, and on a
    /// column of a relation.
    pub fn description(
        &mut self,
        (class, oid, column): (Option<Oid>, Oid, i32),
    ) -> Result<Option<String>, CatalogError> {
        let mut key = vec![Datum::Oid(oid)];
        key.extend(class.map(Datum::Oid));
        let (index, place) = match class.is_some_and(is_shared) {
            true => (&PG_SHDESCRIPTION_O_C_INDEX, 2),
            false => (&PG_DESCRIPTION_O_C_O_INDEX, 3),
        };
        let mut found = None;
        self.read(Rows::Of((index, &key)), place + 1, &mut |_, row, _| {
            let row = Row(row, index.of.name);
            if place == 2 || row.int4(2)? == column {
                found = row.text(place)?.map(str::to_owned);
            }
            Ok(found.is_none())
        })?;
        Ok(found)
    }
}

/// Writes a comment in place of the one that is there. None, or an empty text: removes it.
pub fn comment(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    on: Commented,
    text: Option<&str>,
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let Commented { class, oid, column } = on;
    let text = text.filter(|text| !text.is_empty());
    let shared = is_shared(class);
    let mut key = vec![Datum::Oid(oid), Datum::Oid(class)];
    let (catalog, found) = if shared {
        (SHARED_DESCRIPTIONS, writer.rows((&PG_SHDESCRIPTION_O_C_INDEX, &key), 2)?)
    } else {
        key.push(Datum::Int4(column.into()));
        (DESCRIPTIONS, writer.rows((&PG_DESCRIPTION_O_C_O_INDEX, &key), 3)?)
    };
    let row = text.map(|text| [key.clone(), vec![Datum::text(text)]].concat());
    match (found.into_iter().next(), row) {
        (Some(found), Some(row)) => writer.update(catalog, found.tid, &row)?,
        (Some(found), None) => writer.delete(catalog, &found)?,
        (None, Some(row)) => writer.insert(catalog, &row)?,
        (None, None) => {}
    }
    writer.next_command()
}
