//! The rows of a new database.

use forebay_types::{Datum, all_types};

use crate::error::CatalogError;
use crate::rows::{self, ClassRow, OldestIds};
use crate::schema::{
    CATALOGS, CatalogTable, PG_ATTRIBUTE, PG_CATALOG, PG_CLASS, PG_DATABASE, PG_NAMESPACE,
    PG_TOAST, PG_TYPE, POSTGRES_DB, PUBLIC,
};

/// A catalog with its initial rows.
pub type Contents = (&'static CatalogTable, Vec<Vec<Datum<'static>>>);

/// Every catalog with its initial rows. Rows that come later have no older ids than `oldest`.
pub fn contents(oldest: OldestIds) -> Result<Vec<Contents>, CatalogError> {
    let mut attributes = Vec::new();
    for catalog in CATALOGS {
        attributes.extend(rows::catalog_attributes(catalog)?.iter().map(|row| row.datums()));
    }
    let namespaces = vec![
        rows::namespace_datums(PG_CATALOG, "pg_catalog", rows::OWNER),
        rows::namespace_datums(PG_TOAST, "pg_toast", rows::OWNER),
        rows::namespace_datums(PUBLIC, "public", rows::DATABASE_OWNER),
    ];
    Ok(vec![
        (&PG_TYPE, all_types().iter().map(|t| rows::type_datums(t, PG_CATALOG)).collect()),
        (&PG_ATTRIBUTE, attributes),
        (&PG_CLASS, CATALOGS.iter().map(|c| class_row(c, oldest).datums()).collect()),
        (&PG_DATABASE, vec![rows::database_datums(POSTGRES_DB, "postgres", oldest)]),
        (&PG_NAMESPACE, namespaces),
    ])
}

fn class_row(catalog: &CatalogTable, oldest: OldestIds) -> ClassRow<'static> {
    ClassRow {
        oid: catalog.oid,
        name: catalog.name,
        namespace: PG_CATALOG,
        row_type: catalog.row_type,
        filenode: if catalog.mapped { 0 } else { catalog.oid },
        tablespace: if catalog.shared { forebay_format::ids::GLOBAL_TABLESPACE } else { 0 },
        shared: catalog.shared,
        persistence: b'p',
        columns: i16::try_from(catalog.columns.len()).expect("a catalog has few columns"),
        replica_identity: b'n',
        oldest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::Repr;

    #[test]
    fn every_row_has_its_catalog_s_columns() {
        for (catalog, rows) in contents(OldestIds { xid: 3, multi: 1 }).expect("contents") {
            assert!(!rows.is_empty());
            for row in rows {
                assert_eq!(row.len(), catalog.columns.len(), "{}", catalog.name);
                for (value, column) in row.iter().zip(catalog.columns) {
                    assert!(
                        Repr::of(column.type_oid).accepts(value),
                        "{}.{}",
                        catalog.name,
                        column.name
                    );
                    assert!(
                        !(column.not_null && value.is_null()),
                        "{}.{}",
                        catalog.name,
                        column.name
                    );
                }
            }
        }
    }
}
