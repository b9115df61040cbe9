//! Constraints of tables, by their names.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_types::{Datum, Oid};

use crate::error::CatalogError;
use crate::reader::{Reader, Rows};
use crate::row::Row;
use crate::schema::{PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX};

/// Index of conindid in pg_constraint.
const INDEX: usize = PG_CONSTRAINT.place("conindid");

impl Reader<'_> {
    /// The index of a table's constraint, or 0 if that has none. None: there is no such constraint.
    pub fn constraint_index(
        &mut self,
        table: Oid,
        name: &str,
    ) -> Result<Option<Oid>, CatalogError> {
        // It belongs to a table, not to a type.
        let key = [Datum::Oid(table), Datum::Oid(0), Datum::text(name)];
        let of_name = Rows::Of((&PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX, &key));
        let mut found = None;
        self.read(of_name, INDEX + 1, &mut |_, row, _| {
            found = Some(Row(row, PG_CONSTRAINT.name).oid(INDEX)?);
            Ok(false)
        })?;
        Ok(found)
    }
}
