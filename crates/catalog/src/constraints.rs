//! Constraints of tables, by their names.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_types::{Datum, Oid};

use crate::error::CatalogError;
use crate::reader::{Reader, Rows};
use crate::row::Row;
use crate::schema::{PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX};

/// Indexes of columns of pg_constraint.
const KIND: usize = PG_CONSTRAINT.place("contype");
const INDEX: usize = PG_CONSTRAINT.place("conindid");
const COLUMNS: usize = PG_CONSTRAINT.place("conkey");

/// A constraint of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constraint {
    /// pg_constraint.oid
    pub oid: Oid,
    /// p: primary key, u: unique, n: not null, c: check, f: foreign key
    pub kind: u8,
    /// Its index, or 0.
    pub index: Oid,
    /// The number of its first column, if it has any.
    pub column: Option<i16>,
}

impl Reader<'_> {
    /// A constraint of a table, by its name.
    pub fn constraint(
        &mut self,
        table: Oid,
        name: &str,
    ) -> Result<Option<Constraint>, CatalogError> {
        // It belongs to a table, not to a type.
        let key = [Datum::Oid(table), Datum::Oid(0), Datum::text(name)];
        let of_name = Rows::Of((&PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX, &key));
        let mut found = None;
        self.read(of_name, COLUMNS + 1, &mut |_, row, _| {
            let row = Row(row, PG_CONSTRAINT.name);
            let (oid, kind, index) = (row.oid(0)?, row.char(KIND)?, row.oid(INDEX)?);
            let columns = row.vector::<2>(COLUMNS);
            let column = columns.ok().and_then(|mut all| all.next()).map(i16::from_le_bytes);
            found = Some(Constraint { oid, kind, index, column });
            Ok(false)
        })?;
        Ok(found)
    }
}
