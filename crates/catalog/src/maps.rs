//! The files that say where the mapped catalogs are.

use std::path::Path;
use std::sync::Arc;

use forebay_aio as aio;
use forebay_format::relmap::RelMap;
use forebay_format::{RelFileLocator, database_path};
use forebay_types::Oid;

use crate::error::CatalogError;
use crate::schema::{CatalogTable, PG_ATTRIBUTE, PG_CLASS};

/// Name of the files that say where the mapped catalogs are.
pub const MAP_FILE: &str = "pg_filenode.map";

/// The contents of `pg_filenode.map` files: of the shared catalogs, and of a database.
#[derive(Debug)]
pub struct RelationMaps {
    shared: Arc<RelMap>,
    local: Option<LocalMap>,
}

/// The map of a database.
#[derive(Debug)]
struct LocalMap {
    database: Oid,
    /// Where its relations are that have no tablespace of their own.
    tablespace: Oid,
    map: RelMap,
}

impl RelationMaps {
    /// Reads the map of the shared catalogs.
    pub fn read_shared(io: &mut aio::IoBackend, dir: &Path) -> Result<RelationMaps, CatalogError> {
        let shared = read_map(io, &dir.join("global").join(MAP_FILE))?;
        Ok(RelationMaps { shared: Arc::new(shared), local: None })
    }

    /// Fails if a database that has a map has a damaged one. A crash may have cut off a copy of a
    /// database file by file, and left one that is empty or unwritten: that is for who enters it.
    pub fn check_all(io: &mut aio::IoBackend, dir: &Path) -> Result<(), CatalogError> {
        let maps = RelationMaps::read_shared(io, dir)?;
        let names = Arc::clone(io.aio().namespace());
        for folder in forebay_storage::database_dirs(names.as_ref(), dir)? {
            let file = folder.join(MAP_FILE);
            if names.exists(&file)? {
                if is_unwritten(&io.read_file(&file)?) {
                    continue;
                }
                let map = read_map(io, &file)?;
                let local = Some(LocalMap { database: 0, tablespace: 0, map });
                let maps = RelationMaps { shared: Arc::clone(&maps.shared), local };
                maps.local(&PG_CLASS)?;
                maps.local(&PG_ATTRIBUTE)?;
            }
        }
        Ok(())
    }

    /// Reads the map of a database, whose default tablespace this is, beside that of the shared
    /// catalogs.
    pub fn of_database(
        &self,
        io: &mut aio::IoBackend,
        dir: &Path,
        (database, tablespace): (Oid, Oid),
    ) -> Result<RelationMaps, CatalogError> {
        let folder = database_path(tablespace, database);
        let map = read_map(io, &dir.join(folder).join(MAP_FILE))?;
        let local = Some(LocalMap { database, tablespace, map });
        let maps = RelationMaps { shared: Arc::clone(&self.shared), local };
        // Without these no table can be found.
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
        self.locator(catalog.oid, false, 0, 0).ok_or_else(|| unmapped(catalog.name))
    }

    /// The files of all shared catalogs.
    pub(crate) fn shared_files(&self) -> impl Iterator<Item = RelFileLocator> {
        self.shared.mappings().iter().map(|(_, file)| RelFileLocator::shared(*file))
    }

    /// The files of the database's catalogs that are in its map.
    pub(crate) fn local_files(&self) -> impl Iterator<Item = RelFileLocator> {
        self.local.iter().flat_map(|LocalMap { database, tablespace, map }| {
            let (spc, db) = (*tablespace, *database);
            map.mappings().iter().map(move |&(_, rel)| RelFileLocator { spc, db, rel })
        })
    }

    /// The map of the database.
    pub(crate) fn local_map(&self) -> Option<&RelMap> {
        self.local.as_ref().map(|local| &local.map)
    }

    /// The database, and its default tablespace; 0 if it is none.
    pub(crate) fn place(&self) -> (Oid, Oid) {
        self.local.as_ref().map_or((0, 0), |local| (local.database, local.tablespace))
    }

    /// The file of a relation, from what its pg_class row says.
    pub(crate) fn locator(
        &self,
        oid: Oid,
        shared: bool,
        filenode: Oid,
        tablespace: Oid,
    ) -> Option<RelFileLocator> {
        if shared {
            let filenode = if filenode == 0 { self.shared.get(oid)? } else { filenode };
            return Some(RelFileLocator::shared(filenode));
        }
        let local = self.local.as_ref()?;
        let rel = if filenode == 0 { local.map.get(oid)? } else { filenode };
        let spc = if tablespace == 0 { local.tablespace } else { tablespace };
        Some(RelFileLocator { spc, db: local.database, rel })
    }
}

/// A relation without a file of its own is not in the map either.
pub(crate) fn unmapped(name: &str) -> CatalogError {
    CatalogError::corrupt(format!("could not find relation mapping for relation \"{name}\""))
}

/// Whether these are the bytes of a file that was made, and then not written.
fn is_unwritten(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
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
