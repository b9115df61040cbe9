//! Rows of pg_class and pg_attribute, as far as the engine uses them.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fmt::Display;

use forebay_access::toast::{Storage, ToastColumn};
use forebay_format::varlena::Method;
use forebay_format::{Align, AttrLayout, HeapTuple, ItemPointer};
use forebay_types::{Datum, Oid, Repr};

use crate::error::CatalogError;
use crate::figures::Figures;
use crate::layout::layout_of;
use crate::limits::{Attribute, ClassTraits};
use crate::options::StorageOptions;
use crate::row::{Row, value_at};
use crate::schema::PG_CLASS;
use crate::table::Column;

/// Number of columns of pg_class up to relispartition.
pub(crate) const CLASS_COLUMNS: usize = PG_CLASS.place("relispartition") + 1;
/// Index of reloptions in pg_class.
const OPTIONS: usize = PG_CLASS.place("reloptions");

/// The part of a relation's pg_class row that the engine uses.
#[derive(Clone, Debug)]
pub struct Class {
    pub(crate) tid: ItemPointer,
    /// pg_class.oid
    pub oid: Oid,
    /// pg_class.relname
    pub name: String,
    /// pg_class.relnamespace
    pub namespace: Oid,
    /// pg_class.relowner
    pub owner: Oid,
    pub(crate) filenode: Oid,
    pub(crate) tablespace: Oid,
    pub(crate) toast: Oid,
    pub(crate) indexed: bool,
    pub(crate) shared: bool,
    pub(crate) persistence: u8,
    /// pg_class.relnatts
    pub(crate) columns: i16,
    /// pg_class.relkind
    pub kind: u8,
    pub(crate) options: StorageOptions,
    /// Whether reloptions is not NULL.
    pub(crate) has_options: bool,
    pub(crate) figures: Figures,
    pub(crate) traits: ClassTraits,
}

impl Class {
    /// Reads a row of pg_class, by its first [`CLASS_COLUMNS`] values.
    pub(crate) fn read(
        tid: ItemPointer,
        row: &[Datum<'_>],
        tuple: HeapTuple<'_>,
    ) -> Result<Class, CatalogError> {
        let class = Row(row, PG_CLASS.name);
        let options = value_at(tuple, &PG_CLASS, OPTIONS)?;
        Ok(Class {
            tid,
            oid: class.oid(0)?,
            name: class.name(1)?.to_owned(),
            namespace: class.oid(2)?,
            owner: class.oid(5)?,
            filenode: class.oid(7)?,
            tablespace: class.oid(8)?,
            figures: Figures {
                pages: class.int4(9)?,
                rows: class.float4(10)?,
                all_visible: class.int4(11)?,
            },
            toast: class.oid(13)?,
            indexed: class.bool(14)?,
            shared: class.bool(15)?,
            persistence: class.char(16)?,
            kind: class.char(17)?,
            columns: class.int2(18)?,
            has_options: options.is_some(),
            options: options.map(StorageOptions::read).transpose()?.unwrap_or_default(),
            traits: ClassTraits {
                access_method: class.oid(6)?,
                unlogged: class.char(16)? == b'u',
                checks: class.int2(19)? > 0,
                rules: class.bool(20)?,
                triggers: class.bool(21)?,
                children: class.bool(22)?,
                populated: class.bool(25)?,
                partition: class.bool(27)?,
                typed: class.oid(4)? != 0,
            },
        })
    }

    /// Whether it has rows to scan: tables, TOAST tables and materialized views do.
    pub(crate) fn is_table(&self) -> bool {
        matches!(self.kind, b'r' | b't' | b'm')
    }

    /// Whether all databases share it.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Whether it is a session's temporary relation.
    pub(crate) fn is_temporary(&self) -> bool {
        self.persistence == b't'
    }

    /// Orders its columns by number. There must be as many as pg_class says.
    pub(crate) fn in_order(
        &self,
        mut columns: Vec<Attribute>,
    ) -> Result<Vec<Attribute>, CatalogError> {
        columns.sort_by_key(|a| a.column.attnum);
        let numbers = columns.iter().map(|a| a.column.attnum);
        if numbers.eq(1..=self.columns) {
            return Ok(columns);
        }
        let (found, said) = (columns.len(), self.columns);
        Err(self.corrupt(format!("pg_attribute has {found} columns, and pg_class {said}")))
    }

    /// The name that was found of its namespace.
    pub(crate) fn in_namespace(&self, name: Option<String>) -> Result<String, CatalogError> {
        let missing = || format!("there is no namespace with OID {}", self.namespace);
        name.ok_or_else(|| self.corrupt(missing()))
    }

    fn corrupt(&self, what: impl Display) -> CatalogError {
        let Class { name, oid, .. } = self;
        CatalogError::corrupt(format!("catalog rows of relation \"{name}\" ({oid}): {what}"))
    }
}

impl Attribute {
    pub(crate) fn read(row: &Row<'_, '_>) -> Result<Attribute, CatalogError> {
        let toast = toast_column(row.char(9)?, row.char(10)?)?;
        Ok(Attribute {
            column: Column { compression: toast.in_indexes(), ..column(row)? },
            has_missing: row.bool(13)?,
            toast,
        })
    }
}

/// attstorage and attcompression.
fn toast_column(storage: u8, compression: u8) -> Result<ToastColumn, CatalogError> {
    let bad = |what: &str| CatalogError::corrupt(format!("pg_attribute has a column with {what}"));
    let storage = Storage::from_code(storage).ok_or_else(|| bad("an unknown storage"))?;
    let method = match compression {
        0 => None,
        code => Some(Method::from_code(code).ok_or_else(|| bad("an unknown compression method"))?),
    };
    Ok(ToastColumn { storage, method })
}

fn column(row: &Row<'_, '_>) -> Result<Column, CatalogError> {
    let bad = |what: &str| CatalogError::corrupt(format!("pg_attribute has a column with {what}"));
    let align = Align::from_code(row.char(8)?).ok_or_else(|| bad("an unknown alignment"))?;
    let type_oid = row.oid(2)?;
    let layout =
        AttrLayout { len: row.int2(3)?, align, by_val: row.bool(7)?, plain: row.char(9)? == b'p' };
    let repr = Repr::of(type_oid);
    if !matches!(repr, Repr::Carried(_)) {
        let expected = layout_of(type_oid)?;
        if (expected.len, expected.align) != (layout.len, layout.align) {
            return Err(bad("a length or an alignment that is not its type's"));
        }
    }
    Ok(Column {
        name: row.name(1)?.to_owned(),
        type_oid,
        typmod: row.int4(5)?,
        collation: row.oid(19)?,
        not_null: row.bool(11)?,
        attnum: row.int2(4)?,
        dropped: row.bool(16)?,
        has_default: row.bool(12)? || row.char(14)? != 0,
        always_identity: row.char(14)? == b'a',
        is_identity: row.char(14)? != 0,
        generated: row.char(15)?,
        default: None,
        missing: None,
        compression: None,
        layout,
        repr,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(columns: i16) -> Class {
        Class {
            owner: 10,
            tid: ItemPointer { block: 0, offset: 1 },
            oid: 16384,
            name: "t".to_owned(),
            namespace: 2200,
            filenode: 16384,
            tablespace: 0,
            toast: 0,
            indexed: false,
            shared: false,
            persistence: b'p',
            columns,
            kind: b'r',
            figures: Figures::UNKNOWN,
            has_options: false,
            options: StorageOptions::default(),
            traits: ClassTraits {
                access_method: 2,
                unlogged: false,
                checks: false,
                rules: false,
                triggers: false,
                children: false,
                populated: true,
                partition: false,
                typed: false,
            },
        }
    }

    fn columns(numbers: &[i16]) -> Vec<Attribute> {
        let column = |attnum: &i16| Attribute {
            column: Column {
                name: format!("c{attnum}"),
                type_oid: 23,
                typmod: -1,
                collation: 0,
                not_null: false,
                attnum: *attnum,
                dropped: false,
                has_default: false,
                always_identity: false,
                is_identity: false,
                generated: 0,
                default: None,
                missing: None,
                compression: None,
                layout: AttrLayout::INT4,
                repr: Repr::Int4,
            },
            has_missing: false,
            toast: ToastColumn { storage: Storage::Plain, method: None },
        };
        numbers.iter().map(column).collect()
    }

    fn refusal<T>(result: Result<T, CatalogError>) -> String {
        let error = result.map(drop).expect_err("the catalogs contradict each other");
        assert_eq!(error.sqlstate(), "XX001");
        error.to_string()
    }

    #[test]
    fn columns_are_as_many_as_pg_class_says() {
        for (said, numbers) in [(3, &[1, 2][..]), (1, &[1, 2]), (2, &[1, 3]), (2, &[1, 1])] {
            let message = format!(
                "catalog rows of relation \"t\" (16384): pg_attribute has {} columns, and pg_class \
                 {said}",
                numbers.len()
            );
            assert_eq!(refusal(class(said).in_order(columns(numbers))), message);
        }
        class(0).in_order(Vec::new()).expect("a table without columns");
    }

    #[test]
    fn a_namespace_that_is_missing_is_refused() {
        let message = "catalog rows of relation \"t\" (16384): there is no namespace with OID 2200";
        assert_eq!(refusal(class(1).in_namespace(None)), message);
    }
}
