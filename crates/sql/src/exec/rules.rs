//! New rows: their generated columns are computed, and their checks tested.

use super::eval::{Params, eval};
use super::host::Host;
use super::loader::failing_row;
use crate::error::{ColumnName, Result, SqlError, state};
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
    let stored = live_columns(table).map(|column| column.not_null && column.generated != b'v');
    if values.iter().zip(stored).any(|(value, not_null)| value.is_null() && not_null) {
        return Ok(values);
    }
    for (place, expr) in &rules.not_null {
        if eval(expr, &read, params, host)?.is_null() {
            return Err(null_value(table, *place, &read, host)?);
        }
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

/// The error of a row with a NULL in a column that is generated when it is read.
fn null_value(table: &Table, place: usize, row: &[Datum<'_>], host: &mut Host) -> Result<SqlError> {
    let (row, relation) = (whole(table, row, host)?, &table.name);
    let column = live_columns(table).nth(place).map_or("", |column| column.name.as_str());
    let message = format!(
        "null value in column \"{column}\" of relation \"{relation}\" violates not-null constraint"
    );
    let error = SqlError::new(state::NOT_NULL_VIOLATION, message);
    Ok(error.detail(failing_row(table, &row)?).column(ColumnName {
        schema: table.schema.clone(),
        table: relation.clone(),
        column: column.to_owned(),
    }))
}

/// A row with the values that are elsewhere.
fn whole<'v>(table: &Table, row: &'v [Datum<'v>], host: &mut Host) -> Result<Vec<Datum<'v>>> {
    let mut row: Vec<Datum<'v>> = row.iter().map(Datum::reborrow).collect();
    for (value, column) in row.iter_mut().zip(live_columns(table)) {
        if matches!(value, Datum::Toasted(_)) {
            *value = host.fetch_value(value, column.repr, Part::Whole)?;
        }
    }
    Ok(row)
}

fn violated(table: &Table, check: &str, row: &[Datum<'_>], host: &mut Host) -> Result<SqlError> {
    let row = whole(table, row, host)?;
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
