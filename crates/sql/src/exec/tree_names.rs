//! Names of objects in the texts of stored trees, from the catalogs.
//!
//! A function or an operator is named with its schema if the search path does not lead to it, or
//! leads to another one first that takes the same types.

use crate::analyze::{Names as Analysis, type_name};
use crate::error::SqlError;
use forebay_engine::Column;
use forebay_engine::nodes::{Call, Const, Names, NodeError, QualifiedName};
use forebay_types::{Datum, Oid, SqlType, format_type, oids, to_text, type_info};

/// The access method of B-trees.
const BTREE: Oid = 403;

/// What the names are asked of.
pub(super) trait TreeSource {
    /// The catalogs.
    fn analysis(&mut self) -> &mut dyn Analysis;

    /// A relation's schema and name, and whether the name alone leads to it.
    fn relation_name(&mut self, oid: Oid) -> Result<Option<(String, String, bool)>, SqlError>;
}

/// The catalogs, and the table over whose rows a tree is.
pub(super) struct TreeNames<'a> {
    source: &'a mut dyn TreeSource,
    table: &'a str,
    columns: &'a [Column],
    /// What a look-up failed with.
    failed: Option<SqlError>,
}

type Result<T, E = NodeError> = std::result::Result<T, E>;

impl<'a> TreeNames<'a> {
    pub(super) fn new(
        source: &'a mut dyn TreeSource,
        table: &'a str,
        columns: &'a [Column],
    ) -> TreeNames<'a> {
        TreeNames { source, table, columns, failed: None }
    }

    /// The error of a tree that could not be printed.
    pub(super) fn error(&mut self, error: NodeError) -> SqlError {
        self.failed.take().unwrap_or_else(|| SqlError::from(error))
    }

    /// The result of a look-up. Its error is kept: a [`NodeError`] has no place for it.
    fn look_up<T>(
        &mut self,
        ask: impl FnOnce(&mut dyn TreeSource) -> Result<T, SqlError>,
    ) -> Result<T> {
        ask(self.source).map_err(|error| {
            let what = error.message.clone();
            self.failed = Some(error);
            NodeError::Unsupported { what }
        })
    }

    fn known<T>(
        &mut self,
        (what, oid): (&'static str, Oid),
        ask: impl FnOnce(&mut dyn Analysis) -> Result<Option<T>, SqlError>,
    ) -> Result<T> {
        self.look_up(|source| ask(source.analysis()))?.ok_or(NodeError::Missing { what, oid })
    }

    /// A name, with its schema if that is needed.
    fn qualified(&mut self, namespace: Oid, name: &str, bare: bool) -> Result<QualifiedName> {
        let name = name.to_owned();
        if bare {
            return Ok(QualifiedName { schema: None, name });
        }
        let schema = self.look_up(|source| source.analysis().namespace_name(namespace))?;
        let missing = NodeError::Missing { what: "schema", oid: namespace };
        Ok(QualifiedName { schema: Some(schema.ok_or(missing)?), name })
    }

    /// The place of a namespace in the search path.
    fn place(&mut self, namespace: Oid) -> Result<Option<usize>> {
        let path = self.look_up(|source| source.analysis().search_path())?;
        Ok(path.iter().position(|of| *of == namespace))
    }

    /// Whether a name leads to an object in a namespace, and to none of these others first.
    fn is_first(&mut self, own: Oid, others: impl Iterator<Item = Oid>) -> Result<bool> {
        let Some(place) = self.place(own)? else { return Ok(false) };
        for other in others {
            if self.place(other)?.is_some_and(|other| other < place) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Names for TreeNames<'_> {
    fn function(&mut self, call: Call<'_>) -> Result<QualifiedName> {
        let oid = call.funcid;
        let row = self.known(("function", oid), |names| names.proc_by_oid(oid))?;
        let all = self.look_up(|source| source.analysis().procs_named(&row.name))?;
        let same = all.iter().filter(|other| other.oid != oid && other.args == row.args);
        let bare = self.is_first(row.namespace, same.map(|other| other.namespace))?;
        self.qualified(row.namespace, &row.name, bare)
    }

    fn operator(&mut self, opno: Oid, left: Oid, right: Oid) -> Result<QualifiedName> {
        let row = self.known(("operator", opno), |names| names.operator_by_oid(opno))?;
        let all = self.look_up(|source| source.analysis().operators_named(&row.name))?;
        let taken = [(row.left, row.right), (left, right)];
        let same = all.iter().filter(|other| other.oid != opno);
        let same = same.filter(|other| taken.contains(&(other.left, other.right)));
        let bare = self.is_first(row.namespace, same.map(|other| other.namespace))?;
        self.qualified(row.namespace, &row.name, bare)
    }

    fn type_name(&mut self, ty: Oid, typmod: i32) -> Result<String> {
        match type_info(ty) {
            Some(_) => Ok(format_type(ty, Some(typmod)).into_owned()),
            None => self.look_up(|source| type_name(source.analysis(), ty)),
        }
    }

    fn type_collation(&mut self, ty: Oid) -> Result<Oid> {
        Ok(self.known(("type", ty), |names| names.type_by_oid(ty))?.collation)
    }

    fn element_type(&mut self, ty: Oid) -> Result<Oid> {
        let element = self.look_up(|source| source.analysis().element_of(ty))?;
        Ok(element.unwrap_or(ty))
    }

    fn fields(&mut self, ty: Oid) -> Result<Option<Vec<Option<String>>>> {
        let row = self.known(("type", ty), |names| names.type_by_oid(ty))?;
        match row.kind {
            b'c' => Err(NodeError::Unsupported { what: format!("composite type {}", row.name) }),
            _ => Ok(None),
        }
    }

    fn collation(&mut self, collation: Oid) -> Result<QualifiedName> {
        let found = |names: &mut dyn Analysis| names.collation_by_oid(collation);
        let row = self.known(("collation", collation), found)?;
        let all = self.look_up(|source| source.analysis().collations_named(&row.name))?;
        let same = all.iter().filter(|other| other.oid != collation);
        let bare = self.is_first(row.namespace, same.map(|other| other.namespace))?;
        self.qualified(row.namespace, &row.name, bare)
    }

    fn relation(&mut self, relation: Oid) -> Result<QualifiedName> {
        let found = self.look_up(|source| source.relation_name(relation))?;
        let (schema, name, bare) =
            found.ok_or(NodeError::Missing { what: "relation", oid: relation })?;
        Ok(QualifiedName { schema: (!bare).then_some(schema), name })
    }

    fn operator_class(&mut self, class: Oid, ty: Oid) -> Result<Option<QualifiedName>> {
        let all = self.look_up(|source| source.analysis().operator_classes(BTREE))?;
        let row = all.iter().find(|row| row.oid == class);
        let row = row.ok_or(NodeError::Missing { what: "operator class", oid: class })?;
        let is_array = ty != 0 && self.element_type(ty)? != ty;
        let own_default = all.iter().any(|other| other.is_default && other.input == ty);
        let fits = match row.input {
            input if input == ty => true,
            oids::TEXT => ty == oids::VARCHAR,
            oids::ANYARRAY => is_array,
            // Other types that share a class have none of their own.
            _ => ty != 0 && !own_default,
        };
        if row.is_default && fits {
            return Ok(None);
        }
        let bare = self.place(row.namespace)?.is_some();
        self.qualified(row.namespace, &row.name, bare).map(Some)
    }

    fn table(&mut self) -> Result<String> {
        Ok(self.table.to_owned())
    }

    fn column(&mut self, attno: i32) -> Result<String> {
        let number = i16::try_from(attno).unwrap_or(0);
        let found = self.columns.iter().find(|column| column.attnum == number && !column.dropped);
        let missing = NodeError::Missing { what: "column", oid: attno.unsigned_abs() };
        found.map(|column| column.name.clone()).ok_or(missing)
    }

    fn output(&mut self, value: &Const) -> Result<String> {
        if let (oids::REGCLASS, Datum::Oid(relation)) = (value.consttype, &value.constvalue) {
            return Ok(self.relation(*relation)?.to_string());
        }
        match SqlType::from_oid(value.consttype) {
            Some(ty) => Ok(to_text(&value.constvalue, ty)?),
            None => {
                let name = self.type_name(value.consttype, -1)?;
                Err(NodeError::Unsupported { what: format!("a value of type {name}") })
            }
        }
    }
}
