//! Names an expression may use: the columns of the FROM item.

use super::expr::{Expr, Typed};
use crate::error::{Result, SqlError, state};
use forebay_types::SqlType;

/// A column that can be named.
#[derive(Clone, Debug)]
pub struct ScopeColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: SqlType,
    /// Its type modifier.
    pub typmod: i32,
    /// Its attribute number, 0 if it belongs to no table.
    pub attnum: i16,
    /// Its index in the row.
    pub index: usize,
}

/// The FROM item in view; empty without FROM.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The name columns may be qualified with.
    pub alias: Option<String>,
    /// The table's own name, if the alias hides it.
    pub hidden: Option<String>,
    /// OID of the table, or 0.
    pub table_oid: u32,
    /// The columns.
    pub columns: Vec<ScopeColumn>,
}

const SYSTEM_COLUMNS: &[&str] = &["ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"];

impl Scope {
    /// A column by its name alone.
    pub fn column(&self, name: &str, position: u32) -> Result<Typed> {
        if let Some(found) = self.find(name) {
            return Ok(Typed::new(Expr::Column(found.index), found.ty, position));
        }
        if self.table_oid != 0 && SYSTEM_COLUMNS.contains(&name) {
            return Err(SqlError::unsupported(format!("system column \"{name}\"")).at(position));
        }
        if self.alias.as_deref() == Some(name) {
            return Err(SqlError::unsupported("a whole-row reference").at(position));
        }
        let error =
            SqlError::new(state::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"));
        Err(self.with_hint(error, name).at(position))
    }

    /// The column with this name.
    pub fn find(&self, name: &str) -> Option<&ScopeColumn> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// A column by the table's name (or alias) and its own.
    pub fn qualified(&self, table: &str, name: &str, position: u32) -> Result<Typed> {
        self.check_table(table, position)?;
        match self.find(name) {
            Some(found) => Ok(Typed::new(Expr::Column(found.index), found.ty, position)),
            None if SYSTEM_COLUMNS.contains(&name) => {
                Err(SqlError::unsupported(format!("system column \"{name}\"")).at(position))
            }
            None => {
                let error = SqlError::new(
                    state::UNDEFINED_COLUMN,
                    format!("column {table}.{name} does not exist"),
                );
                Err(self.with_hint(error, name).at(position))
            }
        }
    }

    /// Is `table` what columns here are qualified with?
    pub fn check_table(&self, table: &str, position: u32) -> Result<()> {
        if self.alias.as_deref() == Some(table) {
            return Ok(());
        }
        if self.hidden.as_deref() == Some(table) {
            let message = format!("invalid reference to FROM-clause entry for table \"{table}\"");
            let alias = self.alias.as_deref().unwrap_or_default();
            let hint = format!("Perhaps you meant to reference the table alias \"{alias}\".");
            return Err(SqlError::new(state::UNDEFINED_TABLE, message).hint(hint).at(position));
        }
        let message = format!("missing FROM-clause entry for table \"{table}\"");
        Err(SqlError::new(state::UNDEFINED_TABLE, message).at(position))
    }

    /// Adds the hint PostgreSQL gives when some column's name is close.
    fn with_hint(&self, error: SqlError, name: &str) -> SqlError {
        const MAX_DISTANCE: usize = 3;
        const MEANT: &str = "Perhaps you meant to reference the column";
        let Some(alias) = &self.alias else { return error };
        let near = |c: &&ScopeColumn| {
            let distance = edit_distance(&c.name, name);
            distance <= MAX_DISTANCE && distance <= c.name.chars().count() / 2 && c.name.len() < 64
        };
        let mut best: Vec<&ScopeColumn> = self.columns.iter().filter(near).collect();
        best.sort_by_key(|c| edit_distance(&c.name, name));
        let first = best.first().map(|c| edit_distance(&c.name, name));
        best.retain(|c| Some(edit_distance(&c.name, name)) == first);
        match best.as_slice() {
            [one] => error.hint(format!("{MEANT} \"{alias}.{}\".", one.name)),
            [one, two] => error.hint(format!(
                "{MEANT} \"{alias}.{}\" or the column \"{alias}.{}\".",
                one.name, two.name
            )),
            _ => error,
        }
    }
}

/// Levenshtein's distance.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut previous = i;
        let mut left = i + 1;
        for (cell, cb) in row.iter_mut().skip(1).zip(&b) {
            let above = *cell;
            left = (above + 1).min(left + 1).min(previous + usize::from(ca != *cb));
            previous = above;
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}
