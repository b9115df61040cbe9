//! Rows of the catalogs that come with a relation: its types, its index, its constraints.

use forebay_types::{Datum, Oid, oids};

use crate::arrays::array_of;

pub(crate) fn int2s(type_oid: Oid, values: &[i16]) -> Datum<'static> {
    array_of(type_oid, oids::INT2, values.iter().map(|value| value.to_le_bytes().to_vec()))
}

pub(crate) fn oid_vector(values: &[Oid]) -> Datum<'static> {
    let stored = values.iter().map(|value| value.to_le_bytes().to_vec());
    array_of(oids::OIDVECTOR, oids::OID, stored)
}

/// A table's type: its rows' type, or the array of them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TableType {
    /// Of a table, with its array type.
    Row { table: Oid, array: Oid },
    /// Of rows of this type.
    Array { of: Oid },
}

/// A table type's pg_type row.
pub(crate) fn table_type(
    oid: Oid,
    name: &str,
    (namespace, owner): (Oid, Oid),
    of: TableType,
) -> Vec<Datum<'_>> {
    /// array_subscript_handler and array_typanalyze
    const SUBSCRIPT_ARRAY: Oid = 6179;
    const ANALYZE_ARRAY: Oid = 3816;
    let (kind, category, table, element, array) = match of {
        TableType::Row { table, array } => (b'c', b'C', table, 0, array),
        TableType::Array { of } => (b'b', b'A', 0, of, 0),
    };
    // record_in, record_out, record_recv, record_send; or those of arrays.
    let (io, subscript, analyze) = match of {
        TableType::Row { .. } => ([2290, 2291, 2402, 2403], 0, 0),
        TableType::Array { .. } => ([750, 751, 2400, 2401], SUBSCRIPT_ARRAY, ANALYZE_ARRAY),
    };
    let [input, output, receive, send] = io;
    vec![
        Datum::Oid(oid),
        Datum::text(name),
        Datum::Oid(namespace),
        Datum::Oid(owner),
        Datum::Int2(-1),    // typlen
        Datum::Bool(false), // typbyval
        Datum::Char(kind),
        Datum::Char(category),
        Datum::Bool(false), // typispreferred
        Datum::Bool(true),  // typisdefined
        Datum::Char(b','),
        Datum::Oid(table),
        Datum::Oid(subscript),
        Datum::Oid(element),
        Datum::Oid(array),
        Datum::Oid(input),
        Datum::Oid(output),
        Datum::Oid(receive),
        Datum::Oid(send),
        Datum::Oid(0), // typmodin
        Datum::Oid(0), // typmodout
        Datum::Oid(analyze),
        Datum::Char(b'd'),  // typalign
        Datum::Char(b'x'),  // typstorage
        Datum::Bool(false), // typnotnull
        Datum::Oid(0),      // typbasetype
        Datum::Int4(-1),    // typtypmod
        Datum::Int4(0),     // typndims
        Datum::Oid(0),      // typcollation
        Datum::Null,        // typdefaultbin
        Datum::Null,        // typdefault
        Datum::Null,        // typacl
    ]
}

/// The values in which pg_index rows differ.
#[derive(Debug, Clone)]
pub(crate) struct IndexRowValues {
    pub(crate) oid: Oid,
    pub(crate) table: Oid,
    pub(crate) unique: bool,
    pub(crate) nulls_not_distinct: bool,
    pub(crate) primary: bool,
    /// Whether uniqueness is checked at once.
    pub(crate) immediate: bool,
    /// Whether it is used from the start.
    pub(crate) usable: bool,
    pub(crate) columns: Vec<i16>,
    pub(crate) collations: Vec<Oid>,
    pub(crate) classes: Vec<Oid>,
    pub(crate) options: Vec<i16>,
    /// indexprs
    pub(crate) expressions: Option<Datum<'static>>,
    /// indpred
    pub(crate) predicate: Option<Datum<'static>>,
}

impl IndexRowValues {
    /// The row's columns.
    pub(crate) fn datums(&self) -> Vec<Datum<'static>> {
        let text = |tree: &Option<Datum<'static>>| tree.clone().unwrap_or(Datum::Null);
        let count = |len: usize| Datum::Int2(i16::try_from(len).expect("at most 32 columns"));
        vec![
            Datum::Oid(self.oid),
            Datum::Oid(self.table),
            count(self.columns.len()),
            count(self.classes.len()),
            Datum::Bool(self.unique),
            Datum::Bool(self.nulls_not_distinct),
            Datum::Bool(self.primary),
            Datum::Bool(false), // indisexclusion
            Datum::Bool(self.immediate),
            Datum::Bool(false),       // indisclustered
            Datum::Bool(self.usable), // indisvalid
            Datum::Bool(false),       // indcheckxmin
            Datum::Bool(self.usable), // indisready
            Datum::Bool(true),        // indislive
            Datum::Bool(false),       // indisreplident
            int2s(oids::INT2VECTOR, &self.columns),
            oid_vector(&self.collations),
            oid_vector(&self.classes),
            int2s(oids::INT2VECTOR, &self.options),
            text(&self.expressions),
            text(&self.predicate),
        ]
    }
}

/// The values in which pg_constraint rows differ.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConstraintRow<'a> {
    pub(crate) oid: Oid,
    pub(crate) name: &'a str,
    pub(crate) namespace: Oid,
    /// p: primary key, u: unique, n: not null
    pub(crate) kind: u8,
    pub(crate) table: Oid,
    /// Its index, or 0.
    pub(crate) index: Oid,
    pub(crate) columns: &'a [i16],
}

impl<'a> ConstraintRow<'a> {
    /// The row's columns.
    pub(crate) fn datums(&self) -> Vec<Datum<'a>> {
        vec![
            Datum::Oid(self.oid),
            Datum::text(self.name),
            Datum::Oid(self.namespace),
            Datum::Char(self.kind),
            Datum::Bool(false), // condeferrable
            Datum::Bool(false), // condeferred
            Datum::Bool(true),  // conenforced
            Datum::Bool(true),  // convalidated
            Datum::Oid(self.table),
            Datum::Oid(0), // contypid
            Datum::Oid(self.index),
            Datum::Oid(0),                  // conparentid
            Datum::Oid(0),                  // confrelid
            Datum::Char(b' '),              // confupdtype
            Datum::Char(b' '),              // confdeltype
            Datum::Char(b' '),              // confmatchtype
            Datum::Bool(true),              // conislocal
            Datum::Int2(0),                 // coninhcount
            Datum::Bool(self.kind != b'n'), // connoinherit
            Datum::Bool(false),             // conperiod
            int2s(oids::INT2_ARRAY, self.columns),
            Datum::Null, // confkey
            Datum::Null, // conpfeqop
            Datum::Null, // conppeqop
            Datum::Null, // conffeqop
            Datum::Null, // confdelsetcols
            Datum::Null, // conexclop
            Datum::Null, // conbin
        ]
    }
}
