//! STORAGE and COMPRESSION of columns: the letters of pg_attribute for their names.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid, type_info};

use crate::catalog_oids::ATTRIBUTES;
use crate::database::Database;
use crate::error::CatalogError;
use crate::schema::{PG_ATTRIBUTE, PG_ATTRIBUTE_RELID_ATTNUM_INDEX};
use crate::table::Table;
use crate::writer::Writer;

/// How the long values of a column will be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnStorage {
    /// attstorage
    Storage(u8),
    /// attcompression
    Compression(u8),
}

/// pg_attribute.attstorage for the name of a storage, in a column of a type.
pub fn storage_code(type_oid: Oid, name: &str) -> Result<u8, CatalogError> {
    let (of_type, type_name) = type_info(type_oid).map_or((b'p', ""), |t| (t.storage, t.sql_name));
    let code = match name.to_ascii_lowercase().as_str() {
        "plain" => b'p',
        "external" => b'e',
        "extended" => b'x',
        "main" => b'm',
        "default" => of_type,
        _ => {
            return Err(CatalogError::refused("22023", format!("invalid storage type \"{name}\"")));
        }
    };
    if code != b'p' && of_type == b'p' {
        let message = format!("column data type {type_name} can only have storage PLAIN");
        return Err(CatalogError::refused("0A000", message));
    }
    Ok(code)
}

/// pg_attribute.attcompression for the name of a method, in a column of a type. 0: the default.
pub fn compression_code(type_oid: Oid, name: &str) -> Result<u8, CatalogError> {
    if name == "default" {
        return Ok(0);
    }
    let (of_type, type_name) = type_info(type_oid).map_or((b'p', ""), |t| (t.storage, t.sql_name));
    if of_type == b'p' {
        let message = format!("column data type {type_name} does not support compression");
        return Err(CatalogError::refused("0A000", message));
    }
    match name {
        "pglz" => Ok(b'p'),
        "lz4" => Ok(b'l'),
        _ => {
            let message = format!("invalid compression method \"{name}\"");
            Err(CatalogError::refused("22023", message))
        }
    }
}

/// Stores how the values of a column, by its number, will be stored. What is stored stays as it is.
/// As PostgreSQL does, this changes the indexes that have the column too.
pub fn change_column_storage(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (table, number): (&Table, i16),
    change: ColumnStorage,
) -> Result<(), CatalogError> {
    let (place, code) = match change {
        ColumnStorage::Storage(code) => (PG_ATTRIBUTE.place("attstorage"), code),
        ColumnStorage::Compression(code) => (PG_ATTRIBUTE.place("attcompression"), code),
    };
    let mut attributes = vec![(table.oid, number)];
    for index in &table.indexes {
        let own = (1..).zip(&index.columns).find(|(_, of)| **of == number);
        attributes.extend(own.map(|(n, _)| (index.oid, n)));
    }
    let mut writer = Writer::begin(database, backend, tx)?;
    for (relation, number) in attributes {
        let key = [Datum::Oid(relation), Datum::Int2(number)];
        let found = writer.rows((&PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &key), usize::MAX)?.pop();
        let Some(mut found) = found else {
            let message = format!("pg_attribute has no row of column {number} of {relation}");
            return Err(CatalogError::corrupt(message));
        };
        if let Some(value) = found.values.get_mut(place) {
            *value = Datum::Char(code);
        }
        writer.update(ATTRIBUTES, found.tid, &found.values)?;
    }
    writer.next_command()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::oids;

    #[test]
    fn names_are_those_of_postgresql() {
        let storage = |ty, name| storage_code(ty, name).map_err(|error| error.to_string());
        for (name, code) in [
            ("plain", b'p'),
            ("EXTERNAL", b'e'),
            ("Extended", b'x'),
            ("main", b'm'),
            ("default", b'x'),
        ] {
            assert_eq!(storage(oids::TEXT, name), Ok(code));
        }
        assert_eq!(storage(oids::INT4, "default"), Ok(b'p'));
        let only = Err("column data type integer can only have storage PLAIN".to_owned());
        assert_eq!(storage(oids::INT4, "main"), only);
        assert_eq!(storage(oids::TEXT, "big"), Err("invalid storage type \"big\"".to_owned()));
        let method = |ty, name| compression_code(ty, name).map_err(|error| error.to_string());
        assert_eq!(
            ["pglz", "lz4", "default"].map(|name| method(oids::TEXT, name)),
            [b'p', b'l', 0].map(Ok)
        );
        assert_eq!(method(oids::INT4, "default"), Ok(0));
        let none = Err("column data type integer does not support compression".to_owned());
        assert_eq!(method(oids::INT4, "pglz"), none);
        let unknown = Err("invalid compression method \"zstd\"".to_owned());
        assert_eq!(method(oids::TEXT, "zstd"), unknown);
    }
}
