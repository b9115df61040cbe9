//! Which relations have files, and which locks keep these files in place.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::HashMap;

use forebay_format::RelFileLocator;
use forebay_types::Oid;

use crate::error::CatalogError;
use crate::reader::{Reader, Rows};
use crate::row::Row;
use crate::schema::{PG_CLASS, PG_INDEX};

/// A relation with files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationFiles {
    /// pg_class.oid
    pub oid: Oid,
    /// Its files.
    pub locator: RelFileLocator,
    /// The relations to lock, in this order, so that the files stay: for an index its table, for a
    /// TOAST table the table that it is of; and the relation itself, last.
    pub locks: Vec<Oid>,
}

impl Reader<'_> {
    /// The relations of a database with files that all sessions may use, the shared ones among
    /// them.
    pub fn relations_with_files(&mut self) -> Result<Vec<RelationFiles>, CatalogError> {
        let mut classes = self.classes(Rows::All(&PG_CLASS))?;
        classes.retain(|class| !class.is_temporary());
        let mut above: HashMap<Oid, Oid> =
            classes.iter().filter(|c| c.toast != 0).map(|c| (c.toast, c.oid)).collect();
        self.read(Rows::All(&PG_INDEX), 2, &mut |_, row, _| {
            let row = Row(row, PG_INDEX.name);
            above.insert(row.oid(0)?, row.oid(1)?);
            Ok(true)
        })?;
        let mut found = Vec::with_capacity(classes.len());
        for class in classes.iter().filter(|class| b"rtmiS".contains(&class.kind)) {
            let table = above.get(&class.oid).copied();
            let main = table.and_then(|table| above.get(&table).copied());
            let locks = main.into_iter().chain(table).chain([class.oid]).collect();
            found.push(RelationFiles { oid: class.oid, locator: self.locator(class)?, locks });
        }
        Ok(found)
    }

    /// The files that a relation has now. None: it is gone.
    pub fn files_of(&mut self, oid: Oid) -> Result<Option<RelFileLocator>, CatalogError> {
        self.class(oid)?.map(|class| self.locator(&class)).transpose()
    }
}
