//! Constraints of tables, by their names.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_types::{Datum, Oid};

use crate::error::CatalogError;
use crate::reader::{Reader, Rows};
use crate::row::Row;
use crate::schema::{PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX};
use crate::table::{Column, Table};
use crate::writer::Writer;

/// Indexes of columns of pg_constraint.
const KIND: usize = PG_CONSTRAINT.place("contype");
const INDEX: usize = PG_CONSTRAINT.place("conindid");
const COLUMNS: usize = PG_CONSTRAINT.place("conkey");
const IS_VALIDATED: usize = PG_CONSTRAINT.place("convalidated");
const NO_INHERIT: usize = PG_CONSTRAINT.place("connoinherit");

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

impl Reader<'_> {
    /// The name of the constraint that lets a column of a table refuse NULL.
    pub fn not_null_constraint(
        &mut self,
        table: Oid,
        number: i16,
    ) -> Result<Option<String>, CatalogError> {
        let key = [Datum::Oid(table), Datum::Oid(0)];
        let of_table = Rows::Of((&PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX, &key));
        let mut found = None;
        self.read(of_table, COLUMNS + 1, &mut |_, row, _| {
            let row = Row(row, PG_CONSTRAINT.name);
            if row.char(KIND)? == b'n' {
                let mut columns = row.vector::<2>(COLUMNS)?.map(i16::from_le_bytes);
                if columns.next() == Some(number) {
                    found = Some(row.name(1)?.to_owned());
                }
            }
            Ok(found.is_none())
        })?;
        Ok(found)
    }
}

/// Refuses a primary key over a column whose NOT NULL constraint does not hold for each row, or not
/// for child tables. Here no such constraint is made.
pub(crate) fn check_not_null(
    writer: &mut Writer<'_>,
    table: &Table,
    column: &Column,
    using_index: bool,
) -> Result<(), CatalogError> {
    let key = [Datum::Oid(table.oid), Datum::Oid(0)];
    let of_table = (&PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX, &key[..]);
    for found in writer.rows(of_table, COLUMNS + 1)? {
        let row = Row(&found.values, PG_CONSTRAINT.name);
        let mut columns = row.vector::<2>(COLUMNS).into_iter().flatten().map(i16::from_le_bytes);
        if row.char(KIND)? != b'n' || columns.next() != Some(column.attnum) {
            continue;
        }
        let name = row.text(1)?.unwrap_or_default();
        let (marked, of_index, hint) = if row.bool(NO_INHERIT)? {
            (
                "NO INHERIT",
                "cannot change NO INHERIT status of NOT NULL constraint",
                "You might need to make the existing constraint inheritable using \
                 ALTER TABLE ... ALTER CONSTRAINT ... INHERIT.",
            )
        } else if !row.bool(IS_VALIDATED)? {
            (
                "NOT VALID",
                "incompatible NOT VALID constraint",
                "You might need to validate it using ALTER TABLE ... VALIDATE CONSTRAINT.",
            )
        } else {
            continue;
        };
        let (column, table) = (&column.name, &table.name);
        let refused = |message| CatalogError::refused("55000", message).with_hint(hint);
        return Err(match using_index {
            true => refused(format!("{of_index} \"{name}\" on relation \"{table}\"")),
            false => refused(format!("cannot create primary key on column \"{column}\""))
                .with_detail(format!(
                    "The constraint \"{name}\" on column \"{column}\" of table \"{table}\", \
                     marked {marked}, is incompatible with a primary key."
                )),
        });
    }
    Ok(())
}
