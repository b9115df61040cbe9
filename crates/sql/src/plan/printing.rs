//! Stored expressions as SQL, to be analyzed anew once the types of their columns have changed.

use super::reading::stored_expr;
use crate::analyze::Names;
use crate::error::{Result, SqlError, state};
use forebay_engine::Table;
use forebay_engine::nodes::{self, Call, Const, NodeError, QualifiedName, Style, deparse};
use forebay_types::{Oid, SqlType, format_type, to_text};
use std::sync::Arc;

/// pg_catalog
const PG_CATALOG: Oid = 11;

/// The text of an expression over the rows of a table; `what` it is, for errors.
pub fn printed(
    names: &mut dyn Names,
    table: &Table,
    tree: Option<&Arc<str>>,
    what: &str,
) -> Result<String> {
    let expr = stored_expr(tree, what)?;
    let mut printing = Printing { names, table, failed: None };
    let text = deparse(&expr, Style::NORMAL, &mut printing);
    match (text, printing.failed) {
        (Err(_), Some(error)) => Err(error),
        (Err(error), None) => {
            Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, format!("{what}: {error}")))
        }
        (Ok(text), _) => Ok(text),
    }
}

/// What printing asks of the catalogs.
struct Printing<'a> {
    names: &'a mut dyn Names,
    table: &'a Table,
    /// Why a look-up has failed.
    failed: Option<SqlError>,
}

type Printed<T> = std::result::Result<T, NodeError>;

impl Printing<'_> {
    /// The result of a look-up. An error is kept for whoever asked for the text.
    fn found<T>(&mut self, what: &'static str, oid: Oid, found: Result<Option<T>>) -> Printed<T> {
        match found {
            Ok(Some(found)) => Ok(found),
            Ok(None) => Err(NodeError::Missing { what, oid }),
            Err(error) => {
                self.failed = Some(error);
                Err(NodeError::Missing { what, oid })
            }
        }
    }

    /// A name that is found without a schema: that of an object of pg_catalog.
    fn plain(&mut self, namespace: Oid, name: &str) -> Printed<QualifiedName> {
        if namespace == PG_CATALOG {
            return Ok(QualifiedName { schema: None, name: name.to_owned() });
        }
        let what = format!("analyzing an expression anew that uses \"{name}\"");
        self.failed = Some(SqlError::unsupported(what));
        Err(NodeError::Missing { what: "schema", oid: namespace })
    }
}

impl nodes::Names for Printing<'_> {
    fn function(&mut self, call: Call<'_>) -> Printed<QualifiedName> {
        let row = self.names.proc_by_oid(call.funcid);
        let row = self.found("function", call.funcid, row)?;
        self.plain(row.namespace, &row.name)
    }

    fn operator(&mut self, opno: Oid, _: Oid, _: Oid) -> Printed<QualifiedName> {
        let row = self.names.operator_by_oid(opno);
        let row = self.found("operator", opno, row)?;
        self.plain(row.namespace, &row.name)
    }

    fn type_name(&mut self, ty: Oid, typmod: i32) -> Printed<String> {
        Ok(format_type(ty, Some(typmod)).into_owned())
    }

    fn type_collation(&mut self, ty: Oid) -> Printed<Oid> {
        let row = self.names.type_by_oid(ty);
        Ok(self.found("type", ty, row)?.collation)
    }

    fn element_type(&mut self, ty: Oid) -> Printed<Oid> {
        let element = self.names.element_of(ty);
        let element = element.map(|element| Some(element.unwrap_or(ty)));
        self.found("type", ty, element)
    }

    fn fields(&mut self, _: Oid) -> Printed<Option<Vec<Option<String>>>> {
        Ok(None)
    }

    fn collation(&mut self, collation: Oid) -> Printed<QualifiedName> {
        let row = self.names.collation_by_oid(collation);
        let row = self.found("collation", collation, row)?;
        self.plain(row.namespace, &row.name)
    }

    fn relation(&mut self, relation: Oid) -> Printed<QualifiedName> {
        Err(NodeError::Missing { what: "relation", oid: relation })
    }

    fn operator_class(&mut self, class: Oid, _: Oid) -> Printed<Option<QualifiedName>> {
        Err(NodeError::Missing { what: "operator class", oid: class })
    }

    fn table(&mut self) -> Printed<String> {
        Ok(self.table.name.clone())
    }

    fn column(&mut self, attno: i32) -> Printed<String> {
        let mut columns = self.table.columns.iter();
        let column = columns.find(|column| i32::from(column.attnum) == attno);
        let missing = NodeError::Missing { what: "column", oid: attno.unsigned_abs() };
        column.map(|column| column.name.clone()).ok_or(missing)
    }

    fn output(&mut self, value: &Const) -> Printed<String> {
        Ok(to_text(&value.constvalue, SqlType::of(value.consttype))?)
    }
}
