//! The databases of a cluster that were entered since it was opened.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::sync::{Mutex, RwLock};
use forebay_storage::Backend;
use forebay_types::{Encoding, Oid};

use crate::cluster_rows::DatabaseRow;
use crate::collations::Collations;
use crate::database::{Database, Shared};
use crate::error::CatalogError;
use crate::maps::RelationMaps;
use crate::open_collations::collations_of;
use crate::reader::Reader;

/// The databases of a cluster.
#[derive(Debug)]
pub struct Databases {
    dir: PathBuf,
    shared: Shared,
    /// No database: the shared catalogs alone.
    none: Arc<Database>,
    open: RwLock<HashMap<Oid, Arc<Database>>>,
    /// Held while a database is opened, or forgotten.
    opening: Mutex<()>,
}

impl Databases {
    /// The databases of a data directory, none of them open. Reads where the shared catalogs are.
    pub fn new(
        backend: &mut Backend,
        dir: &Path,
        shared: Shared,
    ) -> Result<Databases, CatalogError> {
        let maps = RelationMaps::read_shared(&mut backend.io, dir)?;
        // Names in the shared catalogs are in the encodings of the databases where they were given.
        // Read as bytes, each of them can be read.
        let texts = (Encoding::SqlAscii, Collations::of_none());
        let none = Arc::new(Database::new(maps, &shared, texts));
        let dir = dir.to_path_buf();
        Ok(Databases { dir, shared, none, open: RwLock::default(), opening: Mutex::default() })
    }

    /// What can read the shared catalogs, and nothing else.
    pub fn none(&self) -> &Arc<Database> {
        &self.none
    }

    /// The data directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// What all databases share.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// A reader of the shared catalogs, which sees what is committed now. Its texts are those of
    /// SQL_ASCII: each byte is a character.
    pub fn shared_reader<'a>(&'a self, backend: &'a mut Backend) -> Reader<'a> {
        let snapshot = self.shared.xacts.snapshot(&self.none.transaction());
        Reader::new(&self.none, backend, snapshot)
    }

    /// A database. It is opened if nobody has entered it before; then
    /// what sessions of an earlier start have left there is removed.
    pub fn open(
        &self,
        backend: &mut Backend,
        row: &DatabaseRow,
    ) -> Result<Arc<Database>, CatalogError> {
        let place = (row.oid, row.tablespace);
        let known = |databases: &Databases| {
            let open = databases.open.read();
            open.get(&place.0).filter(|database| database.tablespace == place.1).cloned()
        };
        if let Some(database) = known(self) {
            return Ok(database);
        }
        let _one = self.opening.lock();
        if let Some(database) = known(self) {
            return Ok(database);
        }
        let texts = (row.known_encoding()?, collations_of(row)?);
        let maps = self.none.maps.of_database(&mut backend.io, &self.dir, place)?;
        let database = Arc::new(Database::new(maps, &self.shared, texts));
        let snapshot = self.shared.xacts.snapshot(&database.transaction());
        let mut reader = Reader::new(&database, backend, snapshot);
        let _ = database.has_event_triggers.set(reader.has_event_triggers()?);
        let _ = database.default_privileges.set(reader.default_privileges()?);
        database.drop_stale_temporary(backend)?;
        self.open.write().insert(place.0, Arc::clone(&database));
        Ok(database)
    }

    /// Forgets a database that was dropped or moved, and all that is known of its relations.
    pub fn forget(&self, oid: Oid) {
        let _one = self.opening.lock();
        self.open.write().remove(&oid);
        self.shared.heaps.spaces.forget_database(oid);
        self.shared.trees.forget_database(oid);
    }
}
