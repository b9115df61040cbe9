//! Expressions that tables keep: analyzed for the catalogs, by PostgreSQL's rules for each kind.

use super::lower::lower;
use super::planner::Planner;
use super::rules::nextval;
use crate::analyze::{
    Context, Names, ParamTypes, Scope, Typed, assign_collations, coerce_to_type, start, type_name,
};
use crate::error::{Result, SqlError, state};
use forebay_engine::StoredExpr;
use forebay_engine::nodes::{Expr, type_of};
use forebay_types::Oid;
use sqlparser::ast;

/// A column of which an expression is to be the value.
#[derive(Clone, Copy, Debug)]
pub struct StoredColumn<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its type.
    pub type_oid: Oid,
    /// The type's modifier.
    pub typmod: i32,
}

impl Planner<'_> {
    /// A column's default. It reads no column. None: it is NULL, which needs none.
    pub fn stored_default(
        &mut self,
        e: &ast::Expr,
        column: StoredColumn<'_>,
        scope: &Scope,
    ) -> Result<Option<StoredExpr>> {
        let position = self.source.position(start(e));
        let refused = |position| {
            let message = "cannot use column reference in DEFAULT expression";
            SqlError::new(state::FEATURE_NOT_SUPPORTED, message).at(position)
        };
        let bound = match self.bound(e, scope, "DEFAULT expressions") {
            Err(error) if error.sqlstate == state::UNDEFINED_COLUMN => {
                return Err(refused(error.position.unwrap_or(position)));
            }
            bound => bound?,
        };
        if any(&bound.expr, &mut |node| matches!(node, Expr::Var(_))) {
            return Err(refused(position));
        }
        let value = value_of(self.catalog.names(), bound, column, "default expression")?;
        match value {
            Expr::Const(value) if value.constvalue.is_null() => Ok(None),
            value => {
                self.check_executable(&value, scope)?;
                Ok(Some(StoredExpr::new(&value)))
            }
        }
    }

    /// What a column is generated of: other columns that are not generated, by functions that give
    /// the same result each time.
    pub fn stored_generation(
        &mut self,
        e: &ast::Expr,
        column: StoredColumn<'_>,
        (scope, generated): (&Scope, &[i16]),
    ) -> Result<StoredExpr> {
        let position = self.source.position(start(e));
        let bound = self.bound(e, scope, "column generation expressions")?;
        let refuse = |code, message: String| SqlError::new(code, message).at(position);
        let mut wrong = None;
        any(&bound.expr, &mut |node| {
            let Expr::Var(var) = node else { return false };
            let number = i16::try_from(var.varattno).unwrap_or(0);
            if number <= 0 {
                let message = "cannot use system column in column generation expression";
                wrong = Some(refuse("42P10", message.to_owned()));
            } else if generated.contains(&number) {
                let name = scope.columns.iter().find(|c| c.attnum == number);
                let name = name.map_or("", |column| column.name.as_str());
                let message = format!(
                    "cannot use generated column \"{name}\" in column generation expression"
                );
                let detail = "A generated column cannot reference another generated column.";
                wrong = Some(refuse("42P17", message).detail(detail));
            }
            wrong.is_some()
        });
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        if changes(self.catalog.names(), &bound.expr)? {
            return Err(SqlError::new("42P17", "generation expression is not immutable"));
        }
        let value = value_of(self.catalog.names(), bound, column, "generation expression")?;
        self.check_executable(&value, scope)?;
        Ok(StoredExpr::new(&value))
    }

    /// Refuses an expression that rows of the table could not be given.
    fn check_executable(&mut self, expr: &Expr, scope: &Scope) -> Result<()> {
        lower(expr, scope, self.catalog).map(drop)
    }

    /// The condition of a check.
    pub fn stored_check(&mut self, e: &ast::Expr, scope: &Scope) -> Result<StoredExpr> {
        let position = self.source.position(start(e));
        let mut params = ParamTypes::default();
        let mut planner =
            Planner { source: self.source, catalog: &mut *self.catalog, params: &mut params };
        let mut condition = planner.binder(scope, "check constraints").condition(e, "CHECK")?;
        let system = any(&condition, &mut |node| match node {
            Expr::Var(var) => var.varattno <= 0,
            _ => false,
        });
        if system {
            let message = "a system column in a check constraint is not supported";
            return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message).at(position));
        }
        assign_collations(self.catalog.names(), &mut condition)?;
        self.check_executable(&condition, scope)?;
        Ok(StoredExpr::new(&condition))
    }

    fn bound(&mut self, e: &ast::Expr, scope: &Scope, clause: &'static str) -> Result<Typed> {
        let mut params = ParamTypes::default();
        let mut planner =
            Planner { source: self.source, catalog: &mut *self.catalog, params: &mut params };
        planner.binder(scope, clause).bind(e)
    }
}

/// The default of a column that takes the values of a sequence.
pub fn nextval_default(
    names: &mut dyn Names,
    sequence: Oid,
    column: StoredColumn<'_>,
) -> Result<StoredExpr> {
    let value = Typed::new(nextval(sequence), 0);
    value_of(names, value, column, "default expression").map(|value| StoredExpr::new(&value))
}

/// A value as one of a column.
fn value_of(
    names: &mut dyn Names,
    value: Typed,
    column: StoredColumn<'_>,
    what: &str,
) -> Result<Expr> {
    let StoredColumn { name, type_oid, typmod } = column;
    let from = value.ty();
    let to = (type_oid, typmod);
    let params = &mut ParamTypes::default();
    let Some(mut cast) = coerce_to_type(names, params, value, to, Context::Assignment)? else {
        let message = format!(
            "column \"{name}\" is of type {} but {what} is of type {}",
            type_name(names, type_oid)?,
            type_name(names, from)?
        );
        let hint = "You will need to rewrite or cast the expression.";
        return Err(SqlError::new(state::DATATYPE_MISMATCH, message).hint(hint));
    };
    assign_collations(names, &mut cast.expr)?;
    Ok(cast.expr)
}

/// Whether a test holds for an expression or one below it.
pub(super) fn any(expr: &Expr, test: &mut dyn FnMut(&Expr) -> bool) -> bool {
    if test(expr) {
        return true;
    }
    let mut found = false;
    expr.visit_children(&mut |child| found = found || any(child, test));
    found
}

/// Whether an expression may give another result for the same values.
pub(super) fn changes(names: &mut dyn Names, expr: &Expr) -> Result<bool> {
    has_function(names, expr, |volatility| volatility != b'i', true)
}

/// Whether an expression may have another value each time, within a statement.
pub fn may_vary(names: &mut dyn Names, expr: &Expr) -> Result<bool> {
    has_function(names, expr, |volatility| volatility == b'v', false)
}

/// Whether an expression calls a function of such a volatility. `stable`: values of the session and
/// the statement count too.
fn has_function(
    names: &mut dyn Names,
    expr: &Expr,
    counts: impl Fn(u8) -> bool,
    stable: bool,
) -> Result<bool> {
    let (mut functions, mut casts) = (Vec::new(), Vec::new());
    let session = any(expr, &mut |node| {
        match node {
            Expr::Func(call) => functions.push(call.funcid),
            Expr::Op(call) => functions.push(call.opfuncid),
            Expr::Distinct(call) => functions.push(call.opfuncid),
            Expr::NullIf(call) => functions.push(call.opfuncid),
            Expr::ScalarArrayOp(call) => functions.push(call.opfuncid),
            Expr::CoerceViaIo(cast) => casts.push((type_of(&cast.arg), cast.resulttype)),
            Expr::SqlValue(_) => return stable,
            Expr::NextValue(_) => return true,
            _ => {}
        }
        false
    });
    if session {
        return Ok(true);
    }
    for (from, to) in casts {
        functions.extend([names.ty(from)?.output, names.ty(to)?.input]);
    }
    for function in functions {
        if let Some(row) = names.proc_by_oid(function)?
            && counts(row.volatility)
        {
            return Ok(true);
        }
    }
    Ok(false)
}
