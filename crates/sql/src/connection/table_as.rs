//! Running CREATE TABLE AS and SELECT INTO.

use super::sink::{CommandTag, RowSink};
use super::state::Connection;
use super::table_columns::TableParts;
use crate::analyze::type_name;
use crate::column::ColumnDesc;
use crate::error::{Result, SqlError, state};
use crate::exec::{Cursor, Flow, Loader};
use crate::parse::{CreateTableAs, Source};
use crate::plan::{Catalog, ParamTypes, Planner, SelectPlan};
use forebay_engine::{ColumnDef, Oid, Part};
use forebay_types::{Datum, Repr, SqlType};
use std::sync::Arc;

impl Connection {
    /// Runs CREATE TABLE AS.
    pub(super) fn create_table_as(
        &mut self,
        made: &CreateTableAs,
        source: &Source,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        let what = if made.into { "SELECT INTO" } else { "CREATE TABLE AS" };
        self.check_writable(what)?;
        let mut params = ParamTypes::default();
        let mut planner = Planner { source, catalog: &mut self.host, params: &mut params };
        let plan = planner.subquery(&made.query)?;
        self.check_changes(&plan.root)?;
        let place = self.place_of_new(&made.create, sink)?;
        let Some(temporary) = place else { return Ok(CommandTag("CREATE TABLE AS".to_owned())) };
        let columns = self.columns_of_query(&plan, &made.names)?;
        let (checks, sequences) = (Vec::new(), Vec::new());
        let parts = TableParts { columns, checks, sequences };
        let oid = self.make_table(&made.create, temporary, parts)?;
        if !made.with_data {
            return Ok(CommandTag("CREATE TABLE AS".to_owned()));
        }
        let rows = self.fill_from_query(oid, &plan)?;
        Ok(CommandTag(format!("SELECT {rows}")))
    }

    /// The columns of the table, named as far as names are given.
    fn columns_of_query(&mut self, plan: &SelectPlan, names: &[String]) -> Result<Vec<ColumnDef>> {
        if names.len() > plan.columns.len() {
            let message = "too many column names were specified";
            return Err(SqlError::new(state::SYNTAX_ERROR, message));
        }
        let given = names.iter().map(Some).chain(std::iter::repeat(None));
        let mut columns = Vec::with_capacity(plan.columns.len());
        for (column, given) in plan.columns.iter().zip(given) {
            let name = given.unwrap_or(&column.name);
            columns.push(self.column_of_query(column, name)?);
        }
        Ok(columns)
    }

    fn column_of_query(&mut self, column: &ColumnDesc, name: &str) -> Result<ColumnDef> {
        let oid = column.type_oid();
        let names = self.host.names();
        if names.ty(oid)?.kind == b'p' {
            let ty = type_name(names, oid)?;
            let message = format!("column \"{name}\" has pseudo-type {ty}");
            return Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message));
        }
        if column.collation == 0 && names.ty(oid)?.collation != 0 {
            let ty = type_name(names, oid)?;
            let message =
                format!("no collation was derived for column \"{name}\" with collatable type {ty}");
            let hint = "Use the COLLATE clause to set the collation explicitly.";
            return Err(SqlError::new("42P22", message).hint(hint));
        }
        if SqlType::from_oid(oid).is_none() {
            let ty = type_name(names, oid)?;
            return Err(SqlError::unsupported(format!("a column of type {ty}")));
        }
        let collation = Some(column.collation);
        Ok(ColumnDef { typmod: column.typmod, collation, ..ColumnDef::new(name, oid) })
    }

    fn fill_from_query(&mut self, oid: Oid, plan: &SelectPlan) -> Result<u64> {
        let table = self.table_now(oid)?;
        let reprs: Vec<Repr> = table.columns.iter().map(|column| column.repr).collect();
        let mut loader = Loader::new(&table);
        self.show_cursors(&plan.root, None);
        let mut cursor = Cursor::new(&plan.root, Arc::from([]));
        cursor.run(&mut self.host, &mut |row, host| {
            let mut values: Vec<Datum<'static>> = Vec::with_capacity(reprs.len());
            for (value, repr) in row.values.iter().zip(&reprs) {
                values.push(match value {
                    // Its chunks are another table's.
                    Datum::Toasted(_) => host.fetch_value(value, *repr, Part::Whole)?,
                    value => value.clone().into_owned(),
                });
            }
            loader.push(&values)?;
            if loader.is_full() {
                loader.flush(host)?;
            }
            Ok(Flow::Continue)
        })?;
        loader.flush(&mut self.host)?;
        Ok(loader.inserted())
    }
}
