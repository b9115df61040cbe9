//! The files that say where the mapped catalogs are.

use std::path::Path;

use forebay_aio as aio;
use forebay_format::RelFileLocator;
use forebay_format::relmap::RelMap;
use forebay_types::Oid;

use crate::error::CatalogError;
use crate::schema::{CatalogTable, PG_ATTRIBUTE, PG_CLASS, POSTGRES_DB};

/// Name of the files that say where the mapped catalogs are.
pub const MAP_FILE: &str = "pg_filenode.map";

/// The contents of the two `pg_filenode.map` files: of the shared catalogs, and of the database.
#[derive(Debug)]
pub struct RelationMaps {
    shared: RelMap,
    local: RelMap,
}

impl RelationMaps {
    /// Reads the maps of a data directory.
    pub fn read(io: &mut aio::IoBackend, dir: &Path) -> Result<RelationMaps, CatalogError> {
        let shared = read_map(io, &dir.join("global").join(MAP_FILE))?;
        let local = read_map(io, &dir.join("base").join(POSTGRES_DB.to_string()).join(MAP_FILE))?;
        let maps = RelationMaps { shared, local };
        // Without these no table can be found. Recovery must not begin before that is known.
        maps.local(&PG_CLASS)?;
        maps.local(&PG_ATTRIBUTE)?;
        Ok(maps)
    }

    /// The file of a shared catalog, if the cluster has that catalog.
    pub(crate) fn shared(&self, catalog: &CatalogTable) -> Option<RelFileLocator> {
        self.shared.get(catalog.oid).map(RelFileLocator::shared)
    }

    /// The file of a catalog of the database that every database has.
    pub(crate) fn local(&self, catalog: &CatalogTable) -> Result<RelFileLocator, CatalogError> {
        let filenode = self.local.get(catalog.oid).ok_or_else(|| unmapped(catalog.name))?;
        Ok(RelFileLocator::in_default(POSTGRES_DB, filenode))
    }

    /// The file of a relation, from what its pg_class row says.
    pub(crate) fn locator(
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

/// A relation without a file of its own is not in the map either.
pub(crate) fn unmapped(name: &str) -> CatalogError {
    CatalogError::corrupt(format!("could not find relation mapping for relation \"{name}\""))
}

fn read_map(io: &mut aio::IoBackend, path: &Path) -> Result<RelMap, CatalogError> {
    let bytes = io.read_file(path).map_err(|error| {
        if !error.is_not_found() {
            return error.into();
        }
        CatalogError::refused(
            "58P01",
            format!("could not open file \"{}\": No such file or directory", path.display()),
        )
    })?;
    RelMap::decode(&bytes).map_err(|error| {
        CatalogError::corrupt(format!(
            "relation mapping file \"{}\" contains invalid data: {error}",
            path.display()
        ))
    })
}
