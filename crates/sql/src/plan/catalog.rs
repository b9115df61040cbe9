//! What the planner needs from outside: what names mean, and the values of constants.

use super::expr::{Builtin, Expr};
use crate::analyze::Names;
use crate::error::Result;
use crate::settings::PlanSettings;
use forebay_collation::Collation;
use forebay_engine::{LockMode, Table, TableIndex};
use forebay_types::{Datum, Oid};
use std::sync::Arc;

/// The catalogs as the planner sees them. The executor's host implements it.
pub trait Catalog: Names {
    /// The catalogs as analysis sees them.
    fn names(&mut self) -> &mut dyn Names;

    /// The code of a function by its OID. None: it is not supported.
    fn builtin(&self, function: Oid) -> Option<Builtin>;

    /// A collation by its OID.
    fn collation(&mut self, oid: Oid) -> Result<Arc<Collation>>;

    /// The table of that name, without a lock.
    fn table(&mut self, schema: Option<&str>, name: &str) -> Result<Option<Arc<Table>>>;

    /// The table of that name, locked: while its lock is held the name keeps its meaning.
    fn open_table(
        &mut self,
        schema: Option<&str>,
        name: &str,
        mode: LockMode,
    ) -> Result<Option<Arc<Table>>>;

    /// The sequence that a column of a table owns.
    fn owned_sequence(&mut self, table: Oid, column: i16) -> Result<Option<Oid>>;

    /// The value of an expression that reads no row and no parameter.
    fn constant(&mut self, e: &Expr) -> Result<Datum<'static>>;

    /// The index of a table's constraint, or 0 if that has none. None: there is no such constraint.
    fn constraint_index(&mut self, table: &Table, name: &str) -> Result<Option<u32>>;

    /// Whether the statement may read a table through an index.
    fn can_use_index(&mut self, index: &TableIndex) -> Result<bool>;

    /// Finds what is known of the values of a locked table's columns.
    fn find_statistics(&mut self, table: &Table) -> Result<()>;

    /// Blocks of a table that is locked.
    fn table_blocks(&mut self, table: &Table) -> Result<u32>;

    /// Blocks of an index of a table that is locked.
    fn index_blocks(&mut self, table: &Table, index: &TableIndex) -> Result<u32>;

    /// What statements are planned by.
    fn planning(&self) -> PlanSettings;
}
