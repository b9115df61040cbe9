//! What holds for the rows of a table: defaults, generated columns and checks, from the node trees
//! in the catalogs.

use super::assign::{assigned, live_columns};
use super::expr::Expr;
use super::fold::fold;
use super::lower::{Columns, Flat, lower, virtual_tree};
use super::planner::Planner;
use super::reading::stored_expr;
use super::tree::RowRules;
use crate::analyze::Typed;
use crate::error::{Result, SqlError, state};
use forebay_engine::nodes::{self, CoercionForm, Const, FuncExpr, Location, Var};
use forebay_engine::{Column, ColumnDef, Table};
use forebay_types::{Datum, Oid, oids};
use std::sync::Arc;

/// nextval(regclass)
const NEXTVAL: Oid = 1574;

/// The live columns of a table, each at its place among them.
pub(super) struct Live<'t>(pub(super) &'t Table);

impl Columns for Live<'_> {
    fn index_of(&self, var: &Var) -> Option<usize> {
        let number = i16::try_from(var.varattno).ok()?;
        live_columns(self.0).position(|column| column.attnum == number && var.varno == 1)
    }

    fn generated(&self, var: &Var) -> Option<Option<Arc<str>>> {
        virtual_tree(self.0, var)
    }
}

/// nextval of a sequence.
pub(super) fn nextval(sequence: Oid) -> nodes::Expr {
    let sequence = nodes::Expr::Const(Const {
        consttype: oids::REGCLASS,
        consttypmod: -1,
        constcollid: 0,
        constlen: 4,
        constbyval: true,
        constvalue: Datum::Oid(sequence),
        location: Location::UNKNOWN,
    });
    nodes::Expr::Func(FuncExpr {
        funcid: NEXTVAL,
        funcresulttype: oids::INT8,
        funcretset: false,
        funcvariadic: false,
        funcformat: CoercionForm::ExplicitCall,
        funccollid: 0,
        inputcollid: 0,
        args: vec![sequence],
        location: Location::UNKNOWN,
    })
}

impl Planner<'_> {
    /// The value of a column in rows that are given none.
    pub fn default_of(&mut self, table: &Table, column: &Column) -> Result<Expr> {
        // A generated column's value is computed of the others.
        if !column.has_default || column.generated != 0 {
            return Ok(Expr::Const(Datum::Null));
        }
        if column.is_identity {
            let found = self.catalog.owned_sequence(table.oid, column.attnum)?;
            let sequence = found.ok_or_else(|| {
                let message = format!("no owned sequence found for column \"{}\"", column.name);
                SqlError::new(state::INTERNAL_ERROR, message)
            })?;
            return assigned(self, column, Typed::new(nextval(sequence), 0), &Flat);
        }
        let (name, of) = (&column.name, &table.name);
        let what = format!("the default of column \"{name}\" of relation \"{of}\"");
        let expr = stored_expr(column.default.as_ref(), &what)?;
        let mut value = lower(&expr, &Live(table), self.catalog)?;
        fold(&mut value, self.catalog)?;
        Ok(value)
    }

    /// The value of the default of a column that is added. It varies by no row.
    pub fn value_of_default(&mut self, def: &ColumnDef) -> Result<Expr> {
        let Some(default) = &def.default else { return Ok(Expr::Const(Datum::Null)) };
        let what = format!("the default of column \"{}\"", def.name);
        lower(&stored_expr(Some(&default.tree), &what)?, &Flat, self.catalog)
    }

    /// What is computed and checked of each new row. None: nothing.
    pub fn row_rules(&mut self, table: &Table) -> Result<Option<Arc<RowRules>>> {
        let of = &table.name;
        let mut rules = RowRules::default();
        for (place, column) in live_columns(table).enumerate().filter(|(_, c)| c.generated != 0) {
            let what = format!("generated column \"{}\" of relation \"{of}\"", column.name);
            let expr = stored_expr(column.default.as_ref(), &what)?;
            let value = lower(&expr, &Live(table), self.catalog)?;
            if column.generated == b's' {
                rules.generated.push((place, value));
            } else if column.not_null {
                rules.not_null.push((place, value));
            }
        }
        for check in table.checks.iter().filter(|check| check.enforced) {
            let what = format!("check \"{}\" of relation \"{of}\"", check.name);
            let expr = stored_expr(check.tree.as_ref(), &what)?;
            rules.checks.push((check.name.clone(), lower(&expr, &Live(table), self.catalog)?));
        }
        let RowRules { generated, not_null, checks, reads } = &mut rules;
        let columns = generated.iter_mut().chain(not_null).map(|(_, e)| e);
        let all = columns.chain(checks.iter_mut().map(|(_, e)| e));
        for expr in all {
            fold(expr, self.catalog)?;
            expr.mark_columns(reads);
        }
        let RowRules { generated, not_null, checks, .. } = &rules;
        let none = generated.is_empty() && not_null.is_empty() && checks.is_empty();
        Ok((!none).then(|| Arc::new(rules)))
    }
}
