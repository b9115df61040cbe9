//! Objects of the database, by their rows in the catalogs, and what depends on what.
//!
//! pg_depend has no rows of objects on which everything depends: those that initdb makes are
//! pinned.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::ids::FIRST_UNPINNED_OID;
use forebay_types::{Datum, Oid};

use crate::catalog_oids::{CLASSES, COLLATIONS, DEPENDENCIES, NAMESPACES};
use crate::error::CatalogError;
use crate::lookup::Key;
use crate::row::Row;
use crate::schema::{
    DEFAULT_COLLATION, PG_DEPEND, PG_DEPEND_DEPENDER_INDEX, PG_DEPEND_REFERENCE_INDEX,
    PG_DESCRIPTION_O_C_O_INDEX, PG_SHDEPEND_DEPENDER_INDEX, PUBLIC,
};
use crate::stored_expr::StoredExpr;
use crate::writer::Writer;

/// An object, or a column of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Object {
    /// The catalog that has its row.
    pub(crate) class: Oid,
    pub(crate) oid: Oid,
    /// A column's number, or 0.
    pub(crate) column: i16,
}

/// How an object depends on another (pg_depend.deptype).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependency {
    /// The other cannot be dropped without it being said that this one goes too.
    Normal,
    /// It goes with the other.
    Auto,
    /// It is a part of the other.
    Internal,
}

impl Object {
    pub(crate) const fn new(class: Oid, oid: Oid) -> Object {
        Object { class, oid, column: 0 }
    }

    /// A relation.
    pub(crate) const fn relation(oid: Oid) -> Object {
        Object::new(CLASSES, oid)
    }

    /// A column of a relation.
    pub(crate) const fn column(relation: Oid, number: i16) -> Object {
        Object { class: CLASSES, oid: relation, column: number }
    }

    /// The first columns of the indexes that lead to notes about it.
    fn key(self) -> [Datum<'static>; 2] {
        [Datum::Oid(self.class), Datum::Oid(self.oid)]
    }

    fn is_pinned(self) -> bool {
        self.oid < FIRST_UNPINNED_OID && (self.class, self.oid) != (NAMESPACES, PUBLIC)
    }
}

impl Dependency {
    fn code(self) -> u8 {
        match self {
            Dependency::Normal => b'n',
            Dependency::Auto => b'a',
            Dependency::Internal => b'i',
        }
    }
}

/// A row of pg_depend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Depends {
    pub(crate) object: Object,
    pub(crate) on: Object,
    pub(crate) code: u8,
}

impl Depends {
    /// Reads a row of pg_depend.
    pub(crate) fn read(row: &Row<'_, '_>) -> Result<Depends, CatalogError> {
        let object = |at| {
            let column = i16::try_from(row.int4(at + 2)?).unwrap_or(0);
            Ok::<_, CatalogError>(Object { class: row.oid(at)?, oid: row.oid(at + 1)?, column })
        };
        Ok(Depends { object: object(0)?, on: object(3)?, code: row.char(6)? })
    }
}

impl Writer<'_> {
    /// Notes that an object depends on another.
    pub(crate) fn depend(
        &mut self,
        object: Object,
        on: Object,
        how: Dependency,
    ) -> Result<(), CatalogError> {
        if on.is_pinned() {
            return Ok(());
        }
        let row = [
            Datum::Oid(object.class),
            Datum::Oid(object.oid),
            Datum::Int4(object.column.into()),
            Datum::Oid(on.class),
            Datum::Oid(on.oid),
            Datum::Int4(on.column.into()),
            Datum::Char(how.code()),
        ];
        self.insert(DEPENDENCIES, &row)
    }

    /// Notes that an object depends on a collation, unless that is the database's or none.
    pub(crate) fn depend_on_collation(
        &mut self,
        object: Object,
        collation: Oid,
    ) -> Result<(), CatalogError> {
        match collation {
            0 | DEFAULT_COLLATION => Ok(()),
            oid => self.depend(object, Object::new(COLLATIONS, oid), Dependency::Normal),
        }
    }

    /// Notes on which collations an object or a column depends now, and no longer on others.
    pub(crate) fn change_collations(
        &mut self,
        object: Object,
        collations: &[Oid],
    ) -> Result<(), CatalogError> {
        let [class, oid] = object.key();
        let key = [class, oid, Datum::Int4(object.column.into())];
        for found in self.rows((&PG_DEPEND_DEPENDER_INDEX, &key), 7)? {
            if Depends::read(&Row(&found.values, PG_DEPEND.name))?.on.class == COLLATIONS {
                self.delete(DEPENDENCIES, &found)?;
            }
        }
        self.depend_on_collations(object, collations)
    }

    /// Notes that an object depends on some collations.
    pub(crate) fn depend_on_collations(
        &mut self,
        object: Object,
        collations: &[Oid],
    ) -> Result<(), CatalogError> {
        for (n, collation) in collations.iter().enumerate() {
            if !collations.iter().take(n).any(|before| before == collation) {
                self.depend_on_collation(object, *collation)?;
            }
        }
        Ok(())
    }

    /// Notes that an object depends on what an expression over the rows of a table refers to.
    pub(crate) fn depend_on_expr(
        &mut self,
        object: Object,
        (expr, table): (&StoredExpr, Oid),
    ) -> Result<(), CatalogError> {
        for column in &expr.columns {
            self.depend(object, Object::column(table, *column), Dependency::Normal)?;
        }
        expr.references.iter().try_for_each(|(class, oid)| {
            self.depend(object, Object::new(*class, *oid), Dependency::Normal)
        })
    }

    /// What depends on an object, or on columns of it.
    pub(crate) fn dependents(&mut self, on: Object) -> Result<Vec<Depends>, CatalogError> {
        self.dependencies((&PG_DEPEND_REFERENCE_INDEX, &on.key()))
    }

    /// What an object depends on.
    pub(crate) fn references(&mut self, object: Object) -> Result<Vec<Depends>, CatalogError> {
        self.dependencies((&PG_DEPEND_DEPENDER_INDEX, &object.key()))
    }

    fn dependencies(&mut self, key: Key<'_>) -> Result<Vec<Depends>, CatalogError> {
        let found = self.rows(key, 7)?;
        found.iter().map(|found| Depends::read(&Row(&found.values, PG_DEPEND.name))).collect()
    }

    /// Deletes what other catalogs have about an object: what it depends on, comments.
    pub(crate) fn delete_notes(&mut self, object: Object) -> Result<(), CatalogError> {
        let [class, oid] = object.key();
        self.delete_all((&PG_DEPEND_DEPENDER_INDEX, &object.key()), 7)?;
        self.delete_all((&PG_DESCRIPTION_O_C_O_INDEX, &[oid.clone(), class.clone()]), 3)?;
        let key = [Datum::Oid(self.database.oid), class, oid];
        self.delete_all((&PG_SHDEPEND_DEPENDER_INDEX, &key), 3)
    }

    /// The same of a column alone.
    pub(crate) fn delete_column_notes(&mut self, column: Object) -> Result<(), CatalogError> {
        let [class, oid] = column.key();
        let number = Datum::Int4(column.column.into());
        let depends = [class.clone(), oid.clone(), number.clone()];
        self.delete_all((&PG_DEPEND_DEPENDER_INDEX, &depends), 7)?;
        self.delete_all((&PG_DESCRIPTION_O_C_O_INDEX, &[oid, class, number]), 3)
    }
}
