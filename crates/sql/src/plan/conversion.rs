//! ALTER COLUMN ... TYPE: how the values that are there become values of the new type.

use super::expr::Expr;
use super::fold::fold;
use super::lower::lower;
use super::planner::Planner;
use super::reading::stored_expr;
use super::rules::Live;
use crate::analyze::{
    Context, ParamTypes, Scope, Typed, assign_collations, coerce_to_type, type_name,
};
use crate::error::{Result, SqlError, state};
use forebay_engine::nodes::{self, CoercionForm, typmod_of};
use forebay_engine::{Column, StoredExpr, Table};
use forebay_types::{Oid, format_type};
use sqlparser::ast;

/// A column's change of type.
#[derive(Debug)]
pub struct Conversion {
    /// What makes a new value of a row.
    pub value: Expr,
    /// Whether a stored value is another one afterwards.
    pub rewrites: bool,
    /// Its default, or what it is generated of, as one of the new type.
    pub default: Option<StoredExpr>,
}

impl Planner<'_> {
    /// How a column of a table gets another type, by USING or by an assignment cast.
    pub fn conversion(
        &mut self,
        table: &Table,
        column: &Column,
        (ty, typmod): (Oid, i32),
        using: Option<&ast::Expr>,
    ) -> Result<Conversion> {
        let scope = Scope::of_table(table);
        let name = &column.name;
        let from = match using {
            Some(e) => {
                let mut params = ParamTypes::default();
                let mut planner = Planner {
                    source: self.source,
                    catalog: &mut *self.catalog,
                    params: &mut params,
                };
                planner.binder(&scope, "transform expressions").bind(e)?
            }
            None => scope.column(name, 0)?,
        };
        let names = self.catalog.names();
        let params = &mut ParamTypes::default();
        let cast = coerce_to_type(names, params, from, (ty, typmod), Context::Assignment)?;
        let Some(mut cast) = cast else {
            let target = type_name(names, ty)?;
            let (message, hint) = match using {
                Some(_) => (
                    format!(
                        "result of USING clause for column \"{name}\" cannot be cast \
                         automatically to type {target}"
                    ),
                    Some("You might need to add an explicit cast.".to_owned()),
                ),
                None => {
                    let quoted = forebay_engine::quoted(name);
                    let target_with = format_type(ty, Some(typmod));
                    let hint =
                        format!("You might need to specify \"USING {quoted}::{target_with}\".");
                    (
                        format!("column \"{name}\" cannot be cast automatically to type {target}"),
                        (column.generated == 0).then_some(hint),
                    )
                }
            };
            let error = SqlError::new(state::DATATYPE_MISMATCH, message);
            return Err(error.explained(None::<String>, hint));
        };
        assign_collations(names, &mut cast.expr)?;
        let rewrites = column.generated != b'v' && rewrites(&cast.expr, column.attnum);
        let mut value = lower(&cast.expr, &Live(table), self.catalog)?;
        fold(&mut value, self.catalog)?;
        let default = self.converted_default(column, (ty, typmod))?;
        Ok(Conversion { value, rewrites, default })
    }

    fn converted_default(&mut self, column: &Column, to: (Oid, i32)) -> Result<Option<StoredExpr>> {
        if column.is_identity || !column.has_default {
            return Ok(None);
        }
        let what = match column.generated {
            0 => "default",
            _ => "generation expression",
        };
        let expr = stored_expr(column.default.as_ref(), &format!("the {what} of a column"))?;
        let value = Typed::new(without_implicit_casts(expr), 0);
        let names = self.catalog.names();
        let params = &mut ParamTypes::default();
        let Some(cast) = coerce_to_type(names, params, value, to, Context::Assignment)? else {
            let message = format!(
                "{what} for column \"{}\" cannot be cast automatically to type {}",
                column.name,
                type_name(names, to.0)?
            );
            return Err(SqlError::new(state::DATATYPE_MISMATCH, message));
        };
        // As in PostgreSQL, a cast that is put around it has no collation.
        Ok(Some(StoredExpr::new(&cast.expr)))
    }
}

/// An expression without the casts around it that nobody wrote.
fn without_implicit_casts(expr: nodes::Expr) -> nodes::Expr {
    match expr {
        nodes::Expr::Func(mut call)
            if call.funcformat == CoercionForm::ImplicitCast && !call.args.is_empty() =>
        {
            without_implicit_casts(call.args.swap_remove(0))
        }
        nodes::Expr::RelabelType(cast) if cast.relabelformat == CoercionForm::ImplicitCast => {
            without_implicit_casts(*cast.arg)
        }
        nodes::Expr::CoerceViaIo(cast) if cast.coerceformat == CoercionForm::ImplicitCast => {
            without_implicit_casts(*cast.arg)
        }
        nodes::Expr::ArrayCoerce(cast) if cast.coerceformat == CoercionForm::ImplicitCast => {
            without_implicit_casts(*cast.arg)
        }
        other => other,
    }
}

/// Whether a stored value is another one under the new type. As in PostgreSQL not if it is only
/// relabelled, or if a modifier that allows more takes the place of another.
fn rewrites(expr: &nodes::Expr, column: i16) -> bool {
    match expr {
        nodes::Expr::Var(var) => var.varattno != i32::from(column),
        nodes::Expr::RelabelType(cast) => rewrites(&cast.arg, column),
        nodes::Expr::Func(call) => match &call.args[..] {
            [value, nodes::Expr::Const(to), ..] if grows(call.funcid, typmod_of(value), to) => {
                rewrites(value, column)
            }
            _ => true,
        },
        _ => true,
    }
}

/// Whether a cast to a modifier leaves values of another one as they are.
fn grows(function: Oid, from: i32, to: &nodes::Const) -> bool {
    const VARCHAR: Oid = 669;
    const VARBIT: Oid = 1687;
    const NUMERIC: Oid = 1703;
    /// timestamp, timestamptz, time, timetz
    const TIMES: [Oid; 4] = [1961, 1967, 1968, 1969];
    /// Most digits of a fraction of a second.
    const MOST_DIGITS: i32 = 6;
    let forebay_types::Datum::Int4(to) = to.constvalue else { return false };
    match function {
        VARCHAR | VARBIT => to < 0 || from >= 0 && from <= to,
        NUMERIC => {
            let parts = |typmod: i32| ((typmod - 4) >> 16 & 0xffff, (typmod - 4) & 0x7ff);
            let ((before, scale), (precision, new_scale)) = (parts(from), parts(to));
            to < 4 || from >= 4 && scale == new_scale && precision >= before
        }
        function if TIMES.contains(&function) => {
            !(0..MOST_DIGITS).contains(&to) || from >= 0 && to >= from
        }
        _ => false,
    }
}
