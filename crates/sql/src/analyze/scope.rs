//! Names an expression may use: the columns of the FROM item.

use super::system::SystemColumn;
use super::typed::Typed;
use crate::column::ColumnDesc;
use crate::error::{Result, SqlError, state};
use forebay_engine::Table;
use forebay_engine::nodes::Var;
use forebay_types::{Oid, SqlType};
use std::sync::Arc;

/// The name of the row proposed for insertion, in ON CONFLICT DO UPDATE.
pub const EXCLUDED: &str = "excluded";

/// A column that can be named.
#[derive(Clone, Debug)]
pub struct ScopeColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: SqlType,
    /// Its type modifier.
    pub typmod: i32,
    /// Its collation, 0 if it has none.
    pub collation: Oid,
    /// Its attribute number, 0 if it belongs to no table, negative for a system column.
    pub attnum: i16,
    /// Its index in the row.
    pub index: usize,
}

impl ScopeColumn {
    /// A column of a subquery.
    pub fn of_desc(desc: &ColumnDesc, index: usize) -> ScopeColumn {
        let (name, ty, typmod) = (desc.name.clone(), desc.ty, desc.typmod);
        ScopeColumn { name, ty, typmod, collation: desc.collation, attnum: 0, index }
    }

    /// The column in a version of the row: 0 the first, 1 the other one.
    pub fn var(&self, version: usize) -> Var {
        let place = i16::try_from(self.index + 1).unwrap_or(i16::MAX);
        let number = if self.attnum < 0 { self.attnum } else { place };
        let var = Var::column(number, self.ty.oid(), self.typmod, self.collation);
        let varno = 1 + i32::from(version > 0);
        Var { varno, varnosyn: varno.unsigned_abs(), ..var }
    }
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
    /// The system columns, which `*` leaves out.
    pub system: Vec<ScopeColumn>,
    /// The columns that are generated when they are read, by number, and what of (None: that is
    /// stored out of line).
    pub generated: Vec<(i16, Option<Arc<str>>)>,
    /// RETURNING: the names of two versions of the row, and where each begins in the row at hand.
    /// Names without a qualifier mean the first one.
    pub versions: Vec<(String, usize)>,
    /// The other version is [`EXCLUDED`], a relation of its own: names without a qualifier are
    /// ambiguous, and it has no system columns.
    pub excluded: bool,
    /// The statement has [`EXCLUDED`], but not here.
    pub excluded_elsewhere: bool,
}

impl Scope {
    /// The columns of a table as names.
    pub fn of_table(table: &Table) -> Scope {
        let mut scope =
            Scope { alias: Some(table.name.clone()), table_oid: table.oid, ..Scope::default() };
        for (index, column) in table.columns.iter().enumerate().filter(|(_, c)| !c.dropped) {
            let ty = SqlType::of(column.type_oid);
            let (name, typmod, attnum) = (column.name.clone(), column.typmod, column.attnum);
            let collation = column.collation;
            scope.columns.push(ScopeColumn { name, ty, typmod, collation, attnum, index });
            if column.generated == b'v' {
                scope.generated.push((attnum, column.default.clone()));
            }
        }
        for (index, column) in (table.columns.len()..).zip(SystemColumn::ALL) {
            let (name, ty, attnum) = (column.name().to_owned(), column.sql_type(), column.attnum());
            let (typmod, collation) = (-1, 0);
            scope.system.push(ScopeColumn { name, ty, typmod, collation, attnum, index });
        }
        scope
    }

    /// Adds a column that belongs to no table.
    pub fn push(&mut self, name: String, ty: SqlType, typmod: i32) {
        self.push_collated(name, ty, typmod, ty.info().collation);
    }

    /// The same for a column with a collation.
    pub fn push_collated(&mut self, name: String, ty: SqlType, typmod: i32, collation: Oid) {
        let index = self.columns.len();
        self.columns.push(ScopeColumn { name, ty, typmod, collation, attnum: 0, index });
    }

    /// Gives the FROM item an alias, which hides its own name.
    pub fn rename(&mut self, alias: String) {
        let own = self.alias.replace(alias);
        self.hidden = own.filter(|own| self.alias.as_ref() != Some(own));
    }

    /// A column by its name alone.
    pub fn column(&self, name: &str, position: u32) -> Result<Typed> {
        if let Some(found) = self.find(name) {
            if self.excluded && found.attnum > 0 {
                let message = format!("column reference \"{name}\" is ambiguous");
                return Err(SqlError::new("42702", message).at(position));
            }
            return Ok(Typed::new(found.var(0), position));
        }
        if self.version(name).is_some() {
            return Err(SqlError::unsupported("a whole-row reference").at(position));
        }
        Err(self.unknown_column(name, position))
    }

    /// The error of a name without a qualifier that no column has.
    pub fn unknown_column(&self, name: &str, position: u32) -> SqlError {
        let error =
            SqlError::new(state::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"));
        self.with_hint(error, None, name).at(position)
    }

    /// The column with this name.
    pub fn find(&self, name: &str) -> Option<&ScopeColumn> {
        self.columns.iter().chain(&self.system).find(|c| c.name == name)
    }

    /// The column at an index of the row, in whichever version of it.
    pub fn at(&self, index: usize) -> Option<&ScopeColumn> {
        let begins = self.versions.iter().map(|(_, begin)| *begin);
        let begin = begins.filter(|begin| *begin <= index).max().unwrap_or(0);
        self.columns.iter().chain(&self.system).find(|c| c.index + begin == index)
    }

    /// Which version of the row begins at an index.
    fn version_of(&self, begin: usize) -> usize {
        usize::from(begin > 0)
    }

    /// The index in the row of a column in one of its versions. None: it is no column here.
    pub fn index_of(&self, var: &Var) -> Option<usize> {
        let begins = self.versions.iter().map(|(_, begin)| *begin);
        let begin = match var.varno {
            1 => 0,
            2 => begins.max()?,
            _ => return None,
        };
        let index = match usize::try_from(var.varattno) {
            Ok(number) => number.checked_sub(1)?,
            Err(_) => self.system.iter().find(|c| i32::from(c.attnum) == var.varattno)?.index,
        };
        Some(begin + index)
    }

    /// Where the columns that a table's name qualifies begin in the row.
    fn version(&self, table: &str) -> Option<usize> {
        if self.alias.as_deref() == Some(table) {
            return Some(0);
        }
        self.versions.iter().find(|(name, _)| name == table).map(|(_, begin)| *begin)
    }

    /// A column by the table's name (or alias) and its own.
    pub fn qualified(&self, table: &str, name: &str, position: u32) -> Result<Typed> {
        let begin = self.table(table, position)?;
        let unseen = |found: &&ScopeColumn| self.excluded && begin > 0 && found.attnum < 0;
        match self.find(name).filter(|found| !unseen(found)) {
            Some(found) => Ok(Typed::new(found.var(self.version_of(begin)), position)),
            None => {
                let error = SqlError::new(
                    state::UNDEFINED_COLUMN,
                    format!("column {table}.{name} does not exist"),
                );
                Err(self.with_hint(error, Some(table), name).at(position))
            }
        }
    }

    /// Where the columns of `table` begin in the row, if it is what columns here are qualified
    /// with.
    pub fn table(&self, table: &str, position: u32) -> Result<usize> {
        if self.excluded && table == EXCLUDED && self.alias.as_deref() == Some(table) {
            let message = format!("table reference \"{table}\" is ambiguous");
            return Err(SqlError::new("42P09", message).at(position));
        }
        if let Some(begin) = self.version(table) {
            return Ok(begin);
        }
        if self.excluded_elsewhere && table == EXCLUDED {
            let message = format!("invalid reference to FROM-clause entry for table \"{table}\"");
            let detail = format!(
                "There is an entry for table \"{table}\", but it cannot be referenced from this \
                 part of the query."
            );
            return Err(SqlError::new(state::UNDEFINED_TABLE, message).detail(detail).at(position));
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
    fn with_hint(&self, error: SqlError, table: Option<&str>, name: &str) -> SqlError {
        const MAX_DISTANCE: usize = 3;
        const MEANT: &str = "Perhaps you meant to reference the column";
        let Some(alias) = &self.alias else { return error };
        let distance = |c: &&ScopeColumn| strsim::levenshtein(&c.name, name);
        let most = MAX_DISTANCE.min(name.chars().count() / 2);
        let near = |c: &&ScopeColumn| c.name.len() < 64 && distance(c) <= most;
        let mut best: Vec<&ScopeColumn> = self.columns.iter().filter(near).collect();
        let least = best.iter().map(distance).min();
        best.retain(|c| Some(distance(c)) == least);
        let tables: &[&str] = match table {
            _ if !self.excluded => &[alias],
            Some(table) => &[table],
            None => &[alias, EXCLUDED],
        };
        let each = tables.iter().flat_map(|table| best.iter().map(move |c| (table, &c.name)));
        match each.collect::<Vec<_>>().as_slice() {
            [(table, one)] => error.hint(format!("{MEANT} \"{table}.{one}\".")),
            [(table, one), (second, two)] => {
                error.hint(format!("{MEANT} \"{table}.{one}\" or the column \"{second}.{two}\"."))
            }
            _ => error,
        }
    }
}
