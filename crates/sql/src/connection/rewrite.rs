//! ALTER TABLE: rows read, and written anew.

use super::state::Connection;
use crate::error::{ColumnName, Result, SqlError, state};
use crate::exec::{Host, Loader, Row, RowStore, complete, eval};
use crate::parse::Source;
use crate::plan::{ParamTypes, Planner, RowRules, live_columns};
use forebay_engine::{Column, ObjectName, Oid, Part, Table};
use forebay_types::Datum;
use std::sync::Arc;

/// What makes of the values of a row's live columns those that are written.
pub(super) type NewRow<'a> =
    &'a mut dyn FnMut(&[Datum<'static>], &mut Host) -> Result<Vec<Datum<'static>>>;

impl Connection {
    /// Writes all rows of a table anew, into new files: the table as it was when they were written,
    /// and what makes new rows of them. Generated columns are computed, NOT NULL and checks hold
    /// afterwards; then the indexes are built.
    pub(super) fn rewrite_rows(
        &mut self,
        old: &Arc<Table>,
        source: &Source,
        new_row: NewRow<'_>,
    ) -> Result<()> {
        let mut rows = RowStore::new(&self.host);
        each_row(&mut self.host, old, &mut |row, host| {
            let values = new_row(row, host)?;
            rows.push(Row { values: &values, ctid: None }, host)
        })?;
        rows.finish(&mut self.host)?;
        let now = self.table_now(old.oid)?;
        self.host.call(|session| session.ensure_toast_table(&now))?;
        let now = self.table_now(old.oid)?;
        self.host.call(|session| session.empty_to_rewrite(&now))?;
        let table = self.table_now(old.oid)?;
        self.write_rows(&table, rows, source)?;
        self.host.call(|session| session.rebuild_indexes(&table, |_| true))
    }

    fn write_rows(
        &mut self,
        table: &Arc<Table>,
        mut rows: RowStore,
        source: &Source,
    ) -> Result<()> {
        let mut params = ParamTypes::default();
        let mut planner = Planner { source, catalog: &mut self.host, params: &mut params };
        let rules = planner.row_rules(table)?;
        // Its indexes are built when all rows are there.
        let mut bare = Table::clone(table);
        bare.indexes.clear();
        let mut loader = Loader::rewriting(&Arc::new(bare));
        let mut index = 0;
        while let Some(row) = rows.get(index, &mut self.host)? {
            let values: Vec<Datum<'static>> =
                row.values.iter().map(|value| value.clone().into_owned()).collect();
            index += 1;
            match &rules {
                Some(rules) => loader.push(&checked(rules, table, &values, &mut self.host)?)?,
                None => {
                    refuse_nulls(table, &values)?;
                    loader.push(&values)?;
                }
            }
            if loader.is_full() {
                loader.flush(&mut self.host)?;
            }
        }
        loader.flush(&mut self.host)
    }

    /// Tests a check, by its name, for all rows. 23514 if one breaks it.
    pub(super) fn test_rows(&mut self, table: Oid, name: &str, source: &Source) -> Result<()> {
        let table = self.table_now(table)?;
        let mut params = ParamTypes::default();
        let mut planner = Planner { source, catalog: &mut self.host, params: &mut params };
        let rules = planner.row_rules(&table)?;
        let check = rules.as_ref().and_then(|rules| {
            rules.checks.iter().find(|(check, _)| check == name).map(|(_, check)| check)
        });
        let Some(check) = check else { return Ok(()) };
        each_row(&mut self.host, &table, &mut |row, host| match eval(check, row, &[], host)? {
            Datum::Bool(false) => Err(violated(&table, name)),
            _ => Ok(()),
        })
    }
}

/// The values of a row with its generated ones.
fn checked<'v>(
    rules: &RowRules,
    table: &Table,
    row: &'v [Datum<'v>],
    host: &mut Host,
) -> Result<Vec<Datum<'v>>> {
    let generated = RowRules {
        generated: rules.generated.clone(),
        reads: rules.reads.clone(),
        ..RowRules::default()
    };
    let values = complete(&generated, table, row, &[], host)?;
    refuse_nulls(table, &values)?;
    for (place, expr) in &rules.not_null {
        if eval(expr, &values, &[], host)?.is_null()
            && let Some(column) = live_columns(table).nth(*place)
        {
            return Err(contains_null(table, &column.name));
        }
    }
    // Rows that are there need not hold a check that is not validated.
    let not_valid = |name: &String| table.checks.iter().any(|c| c.name == *name && !c.validated);
    for (name, check) in rules.checks.iter().filter(|(name, _)| !not_valid(name)) {
        if matches!(eval(check, &values, &[], host)?, Datum::Bool(false)) {
            return Err(violated(table, name));
        }
    }
    Ok(values)
}

/// Refuses a row with a NULL that a column refuses.
fn refuse_nulls(table: &Table, values: &[Datum<'_>]) -> Result<()> {
    let mut columns = values.iter().zip(live_columns(table));
    let refuses = |column: &Column| column.not_null && column.generated != b'v';
    match columns.find(|(value, column)| value.is_null() && refuses(column)) {
        Some((_, column)) => Err(contains_null(table, &column.name)),
        None => Ok(()),
    }
}

fn contains_null(table: &Table, column: &str) -> SqlError {
    let relation = &table.name;
    let message = format!("column \"{column}\" of relation \"{relation}\" contains null values");
    SqlError::new(state::NOT_NULL_VIOLATION, message).column(ColumnName {
        schema: table.schema.clone(),
        table: relation.clone(),
        column: column.to_owned(),
    })
}

fn violated(table: &Table, check: &str) -> SqlError {
    let relation = &table.name;
    let message =
        format!("check constraint \"{check}\" of relation \"{relation}\" is violated by some row");
    SqlError::new("23514", message).about(ObjectName {
        schema: table.schema.clone(),
        table: relation.clone(),
        constraint: check.to_owned(),
    })
}

/// Shows the values of the live columns of each row, none of them stored elsewhere.
fn each_row(
    host: &mut Host,
    table: &Arc<Table>,
    row: &mut dyn FnMut(&[Datum<'static>], &mut Host) -> Result<()>,
) -> Result<()> {
    let mut scan = host.call(|session| {
        session.see_own_changes()?;
        session.scan(table)
    })?;
    loop {
        let values = host.call(|session| -> Result<_> {
            let Some(found) = scan.next(session)? else { return Ok(None) };
            let values: Vec<Datum<'static>> =
                found.decode()?.into_iter().map(Datum::into_owned).collect();
            Ok(Some(values))
        })?;
        let Some(values) = values else { return Ok(()) };
        let mut live = Vec::with_capacity(values.len());
        for (value, column) in values.into_iter().zip(&table.columns).filter(|(_, c)| !c.dropped) {
            live.push(match value {
                Datum::Toasted(_) => host.fetch_value(&value, column.repr, Part::Whole)?,
                value => value,
            });
        }
        row(&live, host)?;
    }
}
