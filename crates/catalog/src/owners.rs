//! Which files of a database belong to relations, and which directories to databases and
//! tablespaces; and which are surely left of one that is gone. For the end of a recovery.
//!
//! All versions of the catalogs' rows are read, those that nobody sees among them:
//!
//! | What became of a version | Says of the file that it names |
//! |---|---|
//! | it is the row | somebody owns it |
//! | its transaction made the row and did not commit, or the row was deleted | it is left |
//! | it is an older version, or one that did not come to be | the same, if the row has another file |
//!
//! A page of a catalog that is lost takes owners with it. So a file is not left because nobody owns
//! it, but only because a version says so that is the last one of its row, or whose row is there.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::HashSet;
use std::hash::Hash;

use forebay_access::heap::{VersionFate, Visibility};
use forebay_aio as aio;
use forebay_format::ids::INVALID_OID;
use forebay_format::{HeapTuple, RelFileLocator};
use forebay_storage::Backend;
use forebay_types::{Datum, Encoding, Oid};

use crate::collations::Collations;
use crate::database::Database;
use crate::databases::Databases;
use crate::error::CatalogError;
use crate::reader::decode;
use crate::row::Row;
use crate::schema::{CatalogTable, PG_CLASS, PG_DATABASE, PG_TABLESPACE};
use crate::table::Table;

/// pg_class.relpersistence, which follows all other columns that are read here.
const PERSISTENCE: usize = PG_CLASS.place("relpersistence");

/// What the catalogs say of files, or of directories by OID.
#[derive(Debug)]
pub struct Owners<T> {
    /// Files or directories that a row names.
    pub owned: HashSet<T>,
    /// Files or directories whose row is gone.
    pub left: HashSet<T>,
}

/// What a version of a row names, and what became of it.
type Named<T> = (Oid, T, VersionFate);

impl<T: Copy + Eq + Hash> Owners<T> {
    fn of(named: &[Named<T>]) -> Owners<T> {
        let live = || named.iter().filter(|(.., fate)| *fate == VersionFate::Live);
        let owned: HashSet<T> = live().map(|(_, what, _)| *what).collect();
        let rows: HashSet<Oid> = live().map(|(oid, ..)| *oid).collect();
        let is_left = |(oid, what, fate): &&Named<T>| {
            let says_so = match fate {
                VersionFate::Live => false,
                VersionFate::NeverInserted | VersionFate::Deleted => true,
                VersionFate::NeverUpdated | VersionFate::Replaced => rows.contains(oid),
            };
            says_so && !owned.contains(what)
        };
        let left = named.iter().filter(is_left).map(|(_, what, _)| *what).collect();
        Owners { owned, left }
    }
}

impl Databases {
    /// The files of a database by its catalogs, which need not be understood any further: nobody
    /// enters it.
    pub fn file_owners(
        &self,
        backend: &mut Backend,
        place: (Oid, Oid),
    ) -> Result<Owners<RelFileLocator>, CatalogError> {
        let database = self.unentered(&mut backend.io, place)?;
        let mut named = Vec::new();
        database.each_version(backend, (&PG_CLASS, PERSISTENCE + 1), &mut |row, fate| {
            let (oid, file, tablespace) = (row.oid(0)?, row.oid(7)?, row.oid(8)?);
            let (shared, persistence) = (row.bool(15)?, row.char(PERSISTENCE)?);
            // Files of temporary tables have other names, and shared catalogs a map.
            if persistence != b't' && !shared {
                let locator = database.maps.locator(oid, shared, file, tablespace);
                named.extend(locator.filter(|file| file.rel != 0).map(|file| (oid, file, fate)));
            }
            Ok(())
        })?;
        // Whatever their rows say.
        let mapped = database.maps.local_files();
        named.extend(mapped.map(|file| (INVALID_OID, file, VersionFate::Live)));
        Ok(Owners::of(&named))
    }

    /// The files of the shared catalogs. All of them are in the map.
    pub fn shared_files(&self) -> HashSet<RelFileLocator> {
        self.none().maps.shared_files().collect()
    }

    /// The databases.
    pub fn database_owners(&self, backend: &mut Backend) -> Result<Owners<Oid>, CatalogError> {
        self.oid_owners(backend, &PG_DATABASE)
    }

    /// The tablespaces.
    pub fn tablespace_owners(&self, backend: &mut Backend) -> Result<Owners<Oid>, CatalogError> {
        self.oid_owners(backend, &PG_TABLESPACE)
    }

    fn oid_owners(
        &self,
        backend: &mut Backend,
        catalog: &'static CatalogTable,
    ) -> Result<Owners<Oid>, CatalogError> {
        let mut named = Vec::new();
        self.none().each_version(backend, (catalog, 1), &mut |row, fate| {
            named.push((row.oid(0)?, row.oid(0)?, fate));
            Ok(())
        })?;
        Ok(Owners::of(&named))
    }

    fn unentered(
        &self,
        io: &mut aio::IoBackend,
        place: (Oid, Oid),
    ) -> Result<Database, CatalogError> {
        let maps = self.none().maps.of_database(io, self.dir(), place)?;
        Ok(Database::new(maps, self.shared(), (Encoding::SqlAscii, Collations::of_none())))
    }
}

impl Database {
    /// Shows the first columns of each version of a mapped catalog's rows.
    fn each_version(
        &self,
        backend: &mut Backend,
        (catalog, columns): (&'static CatalogTable, usize),
        show: &mut dyn FnMut(&Row<'_, '_>, VersionFate) -> Result<(), CatalogError>,
    ) -> Result<(), CatalogError> {
        let snapshot = self.xacts.snapshot(&self.transaction());
        let mut visibility = Visibility::new(snapshot, self.heaps.outcomes.clone());
        let file = self.maps.locator(catalog.oid, catalog.shared, 0, 0);
        let file = file.ok_or_else(|| crate::maps::unmapped(catalog.name))?;
        let table = Table::of_catalog(catalog, file, self.encoding)?;
        let mut each = |tuple: HeapTuple<'_>, fate| {
            let values: Vec<Datum<'_>> = decode(&table, columns, tuple)?;
            show(&Row(&values, catalog.name), fate)
        };
        self.heap(&table).each_version(backend, &mut visibility, &mut each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use VersionFate::{Deleted, Live, NeverInserted, NeverUpdated, Replaced};

    #[test]
    fn a_file_is_left_only_if_a_version_says_so() {
        for (named, owned, left) in [
            (&[][..], &[][..], &[][..]),
            (&[(1, 10, Live)], &[10], &[]),
            // A table that was cut off, and one that was dropped.
            (&[(1, 10, NeverInserted)], &[], &[10]),
            (&[(1, 10, Deleted)], &[], &[10]),
            // A table that was renamed, and then dropped.
            (&[(1, 10, Replaced), (1, 10, Deleted)], &[], &[10]),
            // Renamed: the older version names the same file.
            (&[(1, 10, Replaced), (1, 10, Live)], &[10], &[]),
            (&[(1, 10, Live), (1, 10, NeverUpdated)], &[10], &[]),
            // Truncated, and truncated by a transaction that was cut off.
            (&[(1, 10, Replaced), (1, 11, Live)], &[11], &[10]),
            (&[(1, 10, Live), (1, 11, NeverUpdated)], &[10], &[11]),
            // The page with the newest version is lost.
            (&[(1, 10, Replaced)], &[], &[]),
            (&[(1, 10, NeverUpdated)], &[], &[]),
            // The number was used again.
            (&[(1, 10, Deleted), (2, 10, Live)], &[10], &[]),
        ] {
            let found = Owners::<u32>::of(named);
            let sorted = |set: &HashSet<u32>| {
                let mut all: Vec<u32> = set.iter().copied().collect();
                all.sort_unstable();
                all
            };
            assert_eq!((sorted(&found.owned), sorted(&found.left)), (owned.into(), left.into()));
        }
    }
}
