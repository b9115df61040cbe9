//! The planner's context, and the relations that names mean.

use super::catalog::Catalog;
use super::expr::Expr;
use super::lower::lower;
use crate::analyze::{Binder, ParamTypes, Scope, Typed, assign_collations};
use crate::error::{Result, SqlError, state};
use crate::parse::{QualifiedName, Source};
use crate::views::View;
use forebay_engine::{LockMode, Table, nodes};
use sqlparser::ast;
use std::sync::Arc;

/// A relation that a name means.
pub enum Relation {
    /// A table.
    Table(Arc<Table>),
    /// A view.
    View(View),
}

/// What planning works with.
pub struct Planner<'a> {
    /// The query string.
    pub source: &'a Source,
    /// What names mean.
    pub catalog: &'a mut dyn Catalog,
    /// Parameters.
    pub params: &'a mut ParamTypes,
}

impl Planner<'_> {
    pub(super) fn binder<'b>(&'b mut self, scope: &'b Scope, clause: &'static str) -> Binder<'b> {
        let Planner { source, catalog, params } = self;
        let names = catalog.names();
        Binder { source, scope, params, aggregates: None, clause, names, depth: 0 }
    }

    /// An analyzed expression as it is evaluated.
    pub(super) fn lower(&mut self, typed: &Typed, scope: &Scope) -> Result<Expr> {
        let expr = self.collated(typed.expr.clone())?;
        lower(&expr, scope, self.catalog).map_err(|e| e.at(typed.position))
    }

    /// An expression whose parts have their collations.
    pub(super) fn collated(&mut self, mut expr: nodes::Expr) -> Result<nodes::Expr> {
        let assigned = assign_collations(self.catalog.names(), &mut expr);
        assigned.map(|()| expr).map_err(|mut error| {
            // The parser keeps where the collation's name is; COLLATE is before it.
            if let Some(name) = error.position() {
                error.set_position(self.source.token_before(name));
            }
            error
        })
    }

    /// Binds an expression that sees no columns.
    pub fn bind_constant(&mut self, e: &ast::Expr, clause: &'static str) -> Result<Typed> {
        self.binder(&Scope::default(), clause).bind(e)
    }

    /// The relation of that name, or PostgreSQL's error. A table is locked, so that what is planned
    /// is what will be there.
    pub fn relation(&mut self, name: &QualifiedName, mode: LockMode) -> Result<Relation> {
        if let Some(view) = View::by_name(&name.name)
            && match name.schema.as_deref() {
                Some(schema) => schema == view.schema(),
                // A temporary table of that name comes first.
                None => self.catalog.table(Some("pg_temp"), &name.name)?.is_none(),
            }
        {
            return Ok(Relation::View(view));
        }
        let found = self.catalog.open_table(name.schema.as_deref(), &name.name, mode);
        // As in PostgreSQL, a deadlock points at the name, and a cancel does not.
        let canceled = |e: &SqlError| e.sqlstate == state::QUERY_CANCELED;
        let found = found.map_err(|e| if canceled(&e) { e } else { e.at(name.position) })?;
        found.map(Relation::Table).ok_or_else(|| {
            let message = format!("relation \"{}\" does not exist", name.display());
            SqlError::new(state::UNDEFINED_TABLE, message).at(name.position)
        })
    }
}
