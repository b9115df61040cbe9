//! What the planner needs from outside: what names mean, and the values of constants.

use super::expr::Expr;
use super::resolve::{self, FunctionDef};
use crate::error::Result;
use forebay_engine::{LockMode, Table};
use forebay_types::{Datum, SqlType};
use std::sync::Arc;

/// The catalogs as the planner sees them. The executor's host implements it.
pub trait Catalog {
    /// The table of that name, without a lock.
    fn table(&mut self, schema: Option<&str>, name: &str) -> Result<Option<Arc<Table>>>;

    /// The table of that name, locked: while its lock is held the name keeps its meaning.
    fn open_table(
        &mut self,
        schema: Option<&str>,
        name: &str,
        mode: LockMode,
    ) -> Result<Option<Arc<Table>>>;

    /// The value of an expression that reads no row and no parameter.
    fn constant(&mut self, e: &Expr) -> Result<Datum<'static>>;

    /// A step of planning, or a row that needs no call of the engine; every 256th tests for a
    /// cancel.
    fn step(&self) -> Result<()>;

    /// The type of that name (pg_type.typname).
    fn type_named(&self, name: &str) -> Option<SqlType> {
        SqlType::ALL.iter().copied().find(|ty| ty.typname() == name)
    }

    /// The functions of that name.
    fn functions(&self, name: &str) -> Vec<&'static FunctionDef> {
        resolve::built_in(name)
    }
}
