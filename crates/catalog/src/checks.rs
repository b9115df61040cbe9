//! CHECK constraints: pg_constraint.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid, oids};

use crate::catalog_oids::{CLASSES, CONSTRAINTS};
use crate::database::Database;
use crate::error::CatalogError;
use crate::object_rows::{ConstraintRow, int2s};
use crate::objects::{Dependency, Object};
use crate::reader::{Reader, Rows};
use crate::row::{Row, value_at};
use crate::row_changes::set;
use crate::schema::{
    PG_CLASS, PG_CLASS_OID_INDEX, PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX,
    PG_CONSTRAINT_OID_INDEX,
};
use crate::stored_expr::{Check, CheckDef, stored_tree, tree_text};
use crate::table::Table;
use crate::writer::Writer;

/// Indexes of columns of pg_constraint.
const KIND: usize = PG_CONSTRAINT.place("contype");
const ENFORCED: usize = PG_CONSTRAINT.place("conenforced");
const VALIDATED: usize = PG_CONSTRAINT.place("convalidated");
const NO_INHERIT: usize = PG_CONSTRAINT.place("connoinherit");
const COLUMNS: usize = PG_CONSTRAINT.place("conkey");
const TREE: usize = PG_CONSTRAINT.place("conbin");

impl Reader<'_> {
    /// The checks of a table, in the order in which PostgreSQL applies them: by name.
    pub(crate) fn checks(&mut self, table: Oid) -> Result<Vec<Check>, CatalogError> {
        let (mut found, key) = (Vec::new(), [Datum::Oid(table), Datum::Oid(0)]);
        let of_table = Rows::Of((&PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX, &key));
        let encoding = self.database().encoding;
        self.read(of_table, NO_INHERIT + 1, &mut |_, row, tuple| {
            let row = Row(row, PG_CONSTRAINT.name);
            if row.char(KIND)? != b'c' {
                return Ok(true);
            }
            let missing = || CatalogError::corrupt("a check in pg_constraint has no condition");
            let tree = value_at(tuple, &PG_CONSTRAINT, TREE)?.ok_or_else(missing)?;
            found.push(Check {
                oid: row.oid(0)?,
                name: row.name(1)?.to_owned(),
                tree: tree_text(tree, encoding)?,
                enforced: row.bool(ENFORCED)?,
                validated: row.bool(VALIDATED)?,
                no_inherit: row.bool(NO_INHERIT)?,
            });
            Ok(true)
        })?;
        found.sort_by(|a: &Check, b| a.name.cmp(&b.name));
        Ok(found)
    }
}

/// The table that gets checks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedTable<'a> {
    pub(crate) oid: Oid,
    pub(crate) name: &'a str,
    pub(crate) namespace: Oid,
}

impl CheckedTable<'_> {
    pub(crate) fn of(table: &Table) -> CheckedTable<'_> {
        CheckedTable { oid: table.oid, name: &table.name, namespace: table.namespace }
    }
}

/// Inserts a check. `column`: the name of the only column that it reads. Returns its name.
pub(crate) fn insert_check(
    writer: &mut Writer<'_>,
    table: CheckedTable<'_>,
    def: &CheckDef,
    column: Option<&str>,
) -> Result<String, CatalogError> {
    let CheckedTable { oid: relation, name: table_name, namespace } = table;
    let name = match &def.name {
        Some(name) => {
            let key = [Datum::Oid(relation), Datum::Oid(0), Datum::text(name)];
            if writer.has((&PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX, &key))? {
                let message =
                    format!("constraint \"{name}\" for relation \"{table_name}\" already exists");
                return Err(CatalogError::refused("42710", message));
            }
            name.clone()
        }
        None => writer.choose_constraint_name(namespace, (table_name, column), "check")?,
    };
    let oid = writer.new_oid()?;
    let columns: Vec<i16> =
        def.condition.columns.iter().copied().filter(|column| *column > 0).collect();
    let row = ConstraintRow {
        oid,
        name: &name,
        namespace,
        kind: b'c',
        table: relation,
        index: 0,
        columns: &columns,
    };
    let mut row = row.datums();
    for (place, value) in [
        (ENFORCED, Datum::Bool(def.enforced)),
        (VALIDATED, Datum::Bool(def.validated)),
        (NO_INHERIT, Datum::Bool(def.no_inherit)),
        (TREE, stored_tree(&def.condition.tree, writer.database.encoding)?),
        (COLUMNS, if columns.is_empty() { Datum::Null } else { int2s(oids::INT2_ARRAY, &columns) }),
    ] {
        if let Some(slot) = row.get_mut(place) {
            *slot = value;
        }
    }
    writer.insert(CONSTRAINTS, &row)?;
    let object = Object::new(CONSTRAINTS, oid);
    if columns.is_empty() {
        writer.depend(object, Object::relation(relation), Dependency::Auto)?;
    }
    for column in &columns {
        writer.depend(object, Object::column(relation, *column), Dependency::Auto)?;
    }
    writer.depend_on_expr(object, (&def.condition, relation))?;
    writer.next_command()?;
    Ok(name)
}

/// Adds a check to a table, which the caller has locked. Returns its name.
pub fn add_check(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    table: &Table,
    def: &CheckDef,
) -> Result<String, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let of = CheckedTable::of(table);
    let column = match &def.condition.columns[..] {
        [number] => table.columns.iter().find(|column| column.attnum == *number),
        _ => None,
    };
    let name = insert_check(&mut writer, of, def, column.map(|column| column.name.as_str()))?;
    count_checks(&mut writer, table.oid, 1)?;
    Ok(name)
}

/// Changes the number of checks that pg_class tells of.
pub(crate) fn count_checks(
    writer: &mut Writer<'_>,
    table: Oid,
    more: i16,
) -> Result<(), CatalogError> {
    let mut found = writer.row(&PG_CLASS_OID_INDEX, table)?;
    let now = Row(&found.values, PG_CLASS.name).int2(PG_CLASS.place("relchecks"))?;
    let count = now.checked_add(more).filter(|count| *count >= 0);
    let count = count.ok_or_else(|| CatalogError::corrupt("relchecks is damaged"))?;
    set(&mut found.values, "relchecks", Datum::Int2(count));
    writer.update(CLASSES, found.tid, &found.values)?;
    writer.next_command()
}

/// Notes that all rows of a table, which the caller has locked, hold a constraint.
pub fn validate_constraint(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    constraint: Oid,
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let mut found = writer.row(&PG_CONSTRAINT_OID_INDEX, constraint)?;
    if let Some(value) = found.values.get_mut(VALIDATED) {
        *value = Datum::Bool(true);
    }
    writer.update(CONSTRAINTS, found.tid, &found.values)?;
    writer.next_command()
}
