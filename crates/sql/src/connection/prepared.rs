//! Planning statements, and planning them again when a table has changed.

use super::state::Connection;
use super::statement::{Plan, Prepared};
use super::utility::text_column;
use crate::column::ColumnDesc;
use crate::error::{Result, SqlError, state};
use crate::parse::{Kind, Source, Statement};
use crate::plan::{Catalog, Node, ParamTypes, Planner, SelectPlan};
use forebay_engine::{LockMode, Table, TableIndex};
use sqlparser::ast;
use std::sync::Arc;

impl Connection {
    /// Plans a statement, with its tables locked. `types`: the parameters' types as far as known,
    /// or None where there can be none.
    pub(super) fn prepare(
        &mut self,
        statement: Statement,
        types: Option<&[u32]>,
    ) -> Result<Prepared> {
        let mut params = match types {
            Some(types) => ParamTypes::new(types),
            None => ParamTypes::default(),
        };
        self.host.note_named_rows();
        let plan = self.plan(&statement, &mut params);
        let (named_rows, plan) = (self.host.take_named_rows(), plan?);
        let columns = match &plan {
            Plan::Declare(_) => None,
            Plan::Utility => self.utility_columns(&statement.kind)?,
            plan => plan.columns().map(<[ColumnDesc]>::to_vec),
        };
        let (params, statement) = (params.finish()?, Some(statement));
        Ok(Prepared { params, statement, plan, columns, named_rows })
    }

    pub(super) fn plan(&mut self, statement: &Statement, params: &mut ParamTypes) -> Result<Plan> {
        let mut planner = Planner { source: &statement.source, catalog: &mut self.host, params };
        Ok(match &*statement.kind {
            Kind::Query(query) => Plan::Select(Arc::new(planner.query(query)?)),
            Kind::Insert(insert, extras) => Plan::Change(Arc::new(planner.insert(insert, extras)?)),
            Kind::Update(update, extras) => Plan::Change(Arc::new(planner.update(update, extras)?)),
            Kind::Delete(delete, extras) => Plan::Change(Arc::new(planner.delete(delete, extras)?)),
            Kind::Declare(declare) => Plan::Declare(Arc::new(planner.cursor(declare)?)),
            _ => Plan::Utility,
        })
    }

    /// Plans the query of COPY (query) TO.
    pub(super) fn plan_query(
        &mut self,
        query: &ast::Query,
        source: &Source,
    ) -> Result<Arc<SelectPlan>> {
        let mut params = ParamTypes::default();
        let mut planner = Planner { source, catalog: &mut self.host, params: &mut params };
        Ok(Arc::new(planner.query(query)?))
    }

    /// Locks the tables of a prepared statement's plan, and plans again if one of them is not what
    /// it was. The plan that is then good until the transaction ends.
    pub(super) fn lock_plan(&mut self, prepared: &Prepared) -> Result<Plan> {
        let Some(statement) = &prepared.statement else { return Ok(Plan::Utility) };
        if self.lock_tables(&prepared.plan)? && self.host.mean_the_same(&prepared.named_rows) {
            return Ok(prepared.plan.clone());
        }
        let oids: Vec<u32> = prepared.params.iter().map(|t| t.oid()).collect();
        let plan = self.plan(statement, &mut ParamTypes::new(&oids))?;
        if let (Some(new), Some(old)) = (plan.columns(), &prepared.columns)
            && new.iter().map(|c| (&c.name, c.ty)).ne(old.iter().map(|c| (&c.name, c.ty)))
        {
            let message = "cached plan must not change result type";
            return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
        }
        Ok(plan)
    }

    /// Locks the tables of a plan; false if one is no longer the one that was planned for.
    pub(super) fn lock_tables(&mut self, plan: &Plan) -> Result<bool> {
        match plan {
            Plan::Select(select) | Plan::Declare(select) => self.lock_all(&select.root),
            Plan::Change(change) => self.lock_all(&change.root),
            Plan::Utility => Ok(true),
        }
    }

    fn lock_all(&mut self, root: &Node) -> Result<bool> {
        for (schema, table, mode) in root.tables() {
            if !self.lock_one(schema, table, mode)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Locks a table by name; false if the name means another now or none, or it has other columns,
    /// indexes or statistics, or another file.
    fn lock_one(&mut self, schema: Option<&str>, table: &Table, mode: LockMode) -> Result<bool> {
        let Some(now) = self.host.open_table(schema, &table.name, mode)? else { return Ok(false) };
        if std::ptr::eq(&*now, table) {
            return Ok(true);
        }
        let same = now.oid == table.oid && now.locator == table.locator;
        // CREATE and DROP INDEX CONCURRENTLY change what an index is used for, not its file.
        let state = |index: &Arc<TableIndex>| {
            let usable = (index.valid, index.ready, index.check_xmin);
            (index.name.clone(), index.locator, usable, index.immediate, index.figures)
        };
        let same = same
            && now.columns == table.columns
            && now.indexes.iter().map(state).eq(table.indexes.iter().map(state))
            && now.checks == table.checks
            && now.triggers == table.triggers
            && now.key_columns == table.key_columns
            && now.toasting == table.toasting
            && now.fill_factor == table.fill_factor
            && now.parallel_workers == table.parallel_workers
            && now.figures == table.figures;
        let Some(statistics) = table.statistics.get().filter(|_| same) else { return Ok(same) };
        self.host.find_statistics(&now)?;
        Ok(now.statistics.get() == Some(statistics))
    }

    /// The columns of a utility statement that returns rows.
    fn utility_columns(&mut self, kind: &Kind) -> Result<Option<Vec<ColumnDesc>>> {
        match kind {
            Kind::Show(target) => self.show_columns(target).map(Some),
            Kind::Explain(_) => Ok(Some(vec![text_column("QUERY PLAN")])),
            Kind::Fetch(fetch) => Ok(self.fetched_columns(fetch)),
            _ => Ok(None),
        }
    }
}
