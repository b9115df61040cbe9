//! New rows: their generated columns are computed, and their checks tested.

use super::eval::{Params, eval};
use super::host::Host;
use super::loader::failing_row;
use crate::error::{Result, SqlError};
use crate::plan::{RowRules, live_columns};
use forebay_engine::{ObjectName, Part, Table};
use forebay_types::Datum;

/// A new row, given by the values of its live columns, with its generated ones.
///
/// # Errors
/// 23514 if it breaks a check. As in PostgreSQL NOT NULL comes first: a row that breaks it is not
/// tested here, and refused when it is inserted.
pub fn complete<'v>(
    rules: &RowRules,
    table: &Table,
    row: &'v [Datum<'v>],
    params: Params<'_>,
    host: &mut Host,
) -> Result<Vec<Datum<'v>>> {
    let mut values: Vec<Datum<'v>> = row.iter().map(Datum::reborrow).collect();
    // As it is stored, a value may be elsewhere: it is fetched to be read, and stays as it is.
    let mut read = fetched(rules, table, row, host)?;
    for (place, expr) in &rules.generated {
        let value = eval(expr, &read, params, host)?.into_owned();
        for row in [&mut values, &mut read] {
            if let Some(slot) = row.get_mut(*place) {
                *slot = value.clone();
            }
        }
    }
    if values.iter().zip(live_columns(table)).any(|(value, c)| value.is_null() && c.not_null) {
        return Ok(values);
    }
    for (name, check) in &rules.checks {
        if matches!(eval(check, &read, params, host)?, Datum::Bool(false)) {
            return Err(violated(table, name, &read, host)?);
        }
    }
    Ok(values)
}

/// The values that rules read are fetched.
fn fetched<'v>(
    rules: &RowRules,
    table: &Table,
    row: &'v [Datum<'v>],
    host: &mut Host,
) -> Result<Vec<Datum<'v>>> {
    let mut values: Vec<Datum<'v>> = row.iter().map(Datum::reborrow).collect();
    for ((value, column), read) in values.iter_mut().zip(live_columns(table)).zip(&rules.reads) {
        if *read && matches!(value, Datum::Toasted(_)) {
            *value = host.fetch_value(value, column.repr, Part::Whole)?;
        }
    }
    Ok(values)
}

fn violated(table: &Table, check: &str, row: &[Datum<'_>], host: &mut Host) -> Result<SqlError> {
    let mut row: Vec<Datum<'_>> = row.iter().map(Datum::reborrow).collect();
    for (value, column) in row.iter_mut().zip(live_columns(table)) {
        if matches!(value, Datum::Toasted(_)) {
            *value = host.fetch_value(value, column.repr, Part::Whole)?;
        }
    }
    let relation = &table.name;
    let message =
        format!("new row for relation \"{relation}\" violates check constraint \"{check}\"");
    let object = ObjectName {
        schema: table.schema.clone(),
        table: relation.clone(),
        constraint: check.to_owned(),
    };
    Ok(SqlError::new("23514", message).detail(failing_row(table, &row)?).about(object))
}
