//! Which relations are locked before something is dropped.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::Oid;

use crate::catalog_oids::{CLASSES, CONSTRAINTS, DEFAULTS, NAMESPACES, TRIGGERS};
use crate::database::Database;
use crate::dropping::targets_of;
use crate::error::CatalogError;
use crate::objects::Object;
use crate::row::Row;
use crate::schema::{
    self, PG_ATTRDEF_OID_INDEX, PG_CONSTRAINT_OID_INDEX, PG_TOAST, PG_TRIGGER_OID_INDEX,
};
use crate::writer::Writer;

/// An object that a statement is about to drop.
#[derive(Clone, Copy, Debug)]
pub enum Going {
    /// A table or a sequence.
    Relation(Oid),
    /// A column of a table, by its number.
    Column(Oid, i16),
    /// A constraint of a table.
    Constraint(Oid),
    /// A schema.
    Schema(Oid),
    /// A row of another catalog: the catalog's OID, and the row's.
    Row(Oid, Oid),
}

/// The relations that go with it, and those with constraints, triggers and defaults that go: they
/// are locked before.
pub fn relations_to_lock(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    going: Going,
) -> Result<Vec<Oid>, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let objects = match going {
        Going::Relation(oid) => vec![Object::relation(oid)],
        Going::Constraint(oid) => vec![Object::new(CONSTRAINTS, oid)],
        Going::Schema(oid) => vec![Object::new(NAMESPACES, oid)],
        Going::Row(class, oid) => vec![Object::new(class, oid)],
        Going::Column(table, number) => {
            let found = writer.dependents(Object::column(table, number))?;
            let of_column = found.iter().filter(|depends| depends.on.column == number);
            let whole = of_column.map(|depends| Object { column: 0, ..depends.object });
            whole.filter(|object| *object != Object::relation(table)).collect()
        }
    };
    let mut relations = Vec::new();
    for target in targets_of(&mut writer, &objects)? {
        relations.extend(relations_of(&mut writer, target.object)?);
    }
    relations.retain(|oid| *oid != 0);
    relations.sort_unstable();
    relations.dedup();
    Ok(relations)
}

/// The relations whose locks an object needs to be dropped; 0: none.
fn relations_of(writer: &mut Writer<'_>, object: Object) -> Result<[Oid; 2], CatalogError> {
    let Object { class, oid, .. } = object;
    let (index, [first, second]) = match class {
        CONSTRAINTS => {
            let place = |name| schema::PG_CONSTRAINT.place(name);
            (&PG_CONSTRAINT_OID_INDEX, [place("conrelid"), place("confrelid")])
        }
        TRIGGERS => (&PG_TRIGGER_OID_INDEX, [1, 1]),
        DEFAULTS => (&PG_ATTRDEF_OID_INDEX, [1, 1]),
        CLASSES => {
            // The lock of a table is that of its indexes and of its TOAST table.
            let Some(class) = writer.reader().class(oid)? else { return Ok([0, 0]) };
            let of = match class.kind {
                b't' => 0,
                b'i' | b'I' if class.namespace == PG_TOAST => 0,
                b'i' | b'I' => writer.reader().table_of_index(&class)?.unwrap_or(0),
                _ => oid,
            };
            return Ok([of, 0]);
        }
        _ => return Ok([0, 0]),
    };
    let found = writer.row(index, oid)?;
    let row = Row(&found.values, index.of.name);
    Ok([row.oid(first)?, row.oid(second)?])
}
