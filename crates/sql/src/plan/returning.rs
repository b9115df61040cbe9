//! RETURNING of INSERT, UPDATE and DELETE.
//!
//! Its expressions see two versions of a row, each with the table's columns and its system columns:
//! first the version that names without a qualifier mean, then the other one. Of a row that was
//! inserted or deleted, the other one is NULL.

use super::expr::Expr;
use super::fold::fold_all;
use super::planner::Planner;
use crate::analyze::Scope;
use crate::analyze::SystemColumn;
use crate::column::ColumnDesc;
use crate::error::{Result, SqlError};
use crate::parse::VersionNames;
use forebay_engine::Table;
use sqlparser::ast;

/// A version of a row that is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Before the change.
    Old,
    /// After it.
    New,
}

/// How many columns a version has.
pub fn version_width(table: &Table) -> usize {
    table.columns.len() + SystemColumn::ALL.len()
}

impl Planner<'_> {
    /// Binds RETURNING, if there is one: expressions and their columns. `first`: what names without
    /// a qualifier mean.
    pub(super) fn returning(
        &mut self,
        items: Option<&[ast::SelectItem]>,
        table: &Table,
        mut scope: Scope,
        first: Version,
        names: &VersionNames,
    ) -> Result<Option<(Vec<Expr>, Vec<ColumnDesc>)>> {
        let Some(items) = items else { return Ok(None) };
        scope.versions = versions(&scope, version_width(table), first, names)?;
        let (mut exprs, columns) = self.returning_list(items, &scope)?;
        fold_all(&mut exprs, self.catalog)?;
        Ok(Some((exprs, columns)))
    }
}

/// The names of the versions: those of RETURNING WITH, or `old` and `new`, unless they mean
/// something else.
fn versions(
    scope: &Scope,
    width: usize,
    first: Version,
    names: &VersionNames,
) -> Result<Vec<(String, usize)>> {
    let both = [(&names.old, "old", Version::Old), (&names.new, "new", Version::New)];
    let mut versions: Vec<(String, usize)> = Vec::new();
    let taken = |versions: &[(String, usize)], name: &str| {
        scope.alias.as_deref() == Some(name) || versions.iter().any(|(other, _)| other == name)
    };
    let begin = |version| if version == first { 0 } else { width };
    for (given, _, version) in both {
        let Some((name, position)) = given else { continue };
        if taken(&versions, name) {
            let message = format!("table name \"{name}\" specified more than once");
            return Err(SqlError::new("42712", message).at(*position));
        }
        versions.push((name.clone(), begin(version)));
    }
    for (given, usual, version) in both {
        if given.is_none() && !taken(&versions, usual) {
            versions.push((usual.to_owned(), begin(version)));
        }
    }
    Ok(versions)
}
