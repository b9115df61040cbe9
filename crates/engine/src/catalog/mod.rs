//! PostgreSQL's catalogs as heap tables.
//!
//! - `schema`: layouts of the catalogs
//! - `rows`: what the engine knows, as rows
//! - `cache`: tables found, remembered for all sessions
//! - `bootstrap`: the rows a new database has
//! - `reader`: finding tables by scanning the catalogs
//! - `database`: whether the database is one that is understood
//! - `limits`: what of a table made by PostgreSQL is not understood
//! - `ddl`: creating and dropping tables
//!
//! The catalogs are the truth, read with a snapshot like any table. pg_class, pg_attribute, pg_type
//! and pg_database are found through the two pg_filenode.map files, everything else through
//! pg_class.

pub(crate) mod bootstrap;
pub(crate) mod cache;
pub(crate) mod database;
pub(crate) mod ddl;
pub(crate) mod limits;
pub(crate) mod reader;
pub(crate) mod rows;
pub(crate) mod schema;

use std::path::Path;

use forebay_format::RelFileLocator;
use forebay_format::relmap::RelMap;

use crate::disk::Disk;
use crate::error::EngineError;
use crate::table::{Column, Limits, Table};
use crate::types::codec::Repr;
use crate::types::{Oid, layout_of};
use bootstrap::{PG_CATALOG, POSTGRES_DB};
use cache::CatalogCache;
use schema::{CatalogTable, PG_ATTRIBUTE, PG_CLASS};

/// The file that tells where the mapped catalogs are.
pub(crate) const MAP_FILE: &str = "pg_filenode.map";

/// The way into the catalogs of the one database.
#[derive(Debug)]
pub(crate) struct Catalogs {
    pub(crate) cache: CatalogCache,
    shared: RelMap,
    local: RelMap,
    /// The two that everything else is found through.
    class: Table,
    attribute: Table,
}

impl Catalogs {
    /// Reads the maps of a data directory.
    pub(crate) fn open(disk: &mut Disk<'_>, dir: &Path) -> Result<Catalogs, EngineError> {
        let shared = read_map(disk, &dir.join("global").join(MAP_FILE))?;
        let local = read_map(disk, &dir.join("base").join(POSTGRES_DB.to_string()).join(MAP_FILE))?;
        let mapped = |catalog: &CatalogTable| catalog_table(catalog, mapped_file(catalog, &local)?);
        let (class, attribute) = (mapped(&PG_CLASS)?, mapped(&PG_ATTRIBUTE)?);
        Ok(Catalogs { cache: CatalogCache::default(), shared, local, class, attribute })
    }

    /// The file of a relation, from what its pg_class row says.
    fn locator(
        &self,
        oid: Oid,
        shared: bool,
        filenode: Oid,
        tablespace: Oid,
    ) -> Option<RelFileLocator> {
        let filenode = match filenode {
            0 if shared => self.shared.get(oid)?,
            0 => self.local.get(oid)?,
            filenode => filenode,
        };
        Some(match (shared, tablespace) {
            (true, _) => RelFileLocator::shared(filenode),
            (false, 0) => RelFileLocator::in_default(POSTGRES_DB, filenode),
            (false, spc) => RelFileLocator { spc, db: POSTGRES_DB, rel: filenode },
        })
    }
}

fn read_map(disk: &mut Disk<'_>, path: &Path) -> Result<RelMap, EngineError> {
    let bytes = disk.read(path)?.ok_or_else(|| {
        EngineError::statement(
            "58P01",
            format!("could not open file \"{}\": No such file or directory", path.display()),
        )
    })?;
    RelMap::decode(&bytes).map_err(|error| {
        EngineError::corrupt(format!(
            "relation mapping file \"{}\" contains invalid data: {error}",
            path.display()
        ))
    })
}

/// Where a map says that a catalog of the database is.
fn mapped_file(catalog: &CatalogTable, map: &RelMap) -> Result<RelFileLocator, EngineError> {
    let filenode = map.get(catalog.oid).ok_or_else(|| {
        EngineError::corrupt(format!(
            "could not find relation mapping for relation \"{}\"",
            catalog.name
        ))
    })?;
    Ok(RelFileLocator::in_default(POSTGRES_DB, filenode))
}

/// A catalog as its fixed layout has it, for finding the others.
fn catalog_table(catalog: &CatalogTable, locator: RelFileLocator) -> Result<Table, EngineError> {
    let mut columns = Vec::with_capacity(catalog.columns.len());
    for (attnum, column) in (1..).zip(catalog.columns) {
        columns.push(Column {
            name: column.name.to_owned(),
            type_oid: column.type_oid,
            typmod: -1,
            not_null: column.not_null,
            attnum,
            dropped: false,
            has_default: false,
            always_identity: false,
            missing: None,
            layout: layout_of(column.type_oid)?,
            repr: Repr::of(column.type_oid),
        });
    }
    Ok(Table {
        oid: catalog.oid,
        name: catalog.name.to_owned(),
        namespace: PG_CATALOG,
        schema: "pg_catalog".to_owned(),
        kind: b'r',
        temp: None,
        layouts: columns.iter().map(|c| c.layout).collect(),
        columns,
        limits: Limits::default(),
        locator,
    })
}
