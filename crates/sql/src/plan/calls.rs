//! Calls of functions and aggregates.

use super::aggregate::{AggregateCall, choose, is_aggregate};
use super::bind::Binder;
use super::coerce;
use super::expr::{Expr, Function, Typed};
use super::function::FunctionCall;
use super::resolve::{self, Choice, FunctionDef};
use crate::error::{Result, SqlError, state};
use forebay_types::{Datum, SqlType};
use sqlparser::ast;

/// Hint when functions fit equally well.
pub(super) const NOT_UNIQUE: &str =
    "Could not choose a best candidate function. You might need to add explicit type casts.";
/// Hint when no function fits.
pub(super) const NO_FUNCTION: &str = "No function matches the given name and argument types. You \
                                      might need to add explicit type casts.";

/// Arguments of a call, as in PostgreSQL.
const MAX_ARGUMENTS: usize = 100;

/// The clause of a function that is an item of FROM.
pub(super) const IN_FROM: &str = "functions in FROM";

impl Binder<'_> {
    /// A call in FROM.
    pub fn call_by_name(&mut self, call: &FunctionCall<'_>, position: u32) -> Result<Typed> {
        self.call(&call.name, &call.args, position)
    }

    pub(super) fn call(&mut self, name: &str, args: &[&ast::Expr], position: u32) -> Result<Typed> {
        let mut bound = Vec::with_capacity(args.len());
        for arg in args {
            bound.push(self.bind(arg)?);
        }
        self.call_bound(name, bound, position)
    }

    pub(super) fn call_bound(
        &mut self,
        name: &str,
        args: Vec<Typed>,
        position: u32,
    ) -> Result<Typed> {
        let types: Vec<SqlType> = args.iter().map(|a| a.ty).collect();
        let shown = || {
            let types: Vec<&str> = types.iter().map(|t| t.sql_name()).collect();
            format!("{name}({})", types.join(", "))
        };
        match resolve::function(&self.catalog.functions(name), &types) {
            Choice::One(FunctionDef { function: Function::Rows(function), .. })
                if function.is_set() && self.clause != IN_FROM =>
            {
                Err(SqlError::unsupported("a set-returning function outside of FROM").at(position))
            }
            Choice::One(found) => {
                let mut exprs = Vec::with_capacity(args.len());
                for (arg, to) in args.into_iter().zip(found.args) {
                    exprs.push(self.operand(arg, *to)?);
                }
                Ok(Typed::new(Expr::Call(found.function, exprs), found.result, position))
            }
            Choice::None => {
                let message = format!("function {} does not exist", shown());
                Err(SqlError::new(state::UNDEFINED_FUNCTION, message)
                    .hint(NO_FUNCTION)
                    .at(position))
            }
            Choice::Ambiguous => {
                let message = format!("function {} is not unique", shown());
                Err(SqlError::new(state::AMBIGUOUS_FUNCTION, message).hint(NOT_UNIQUE).at(position))
            }
        }
    }

    pub(super) fn function(&mut self, f: &ast::Function, position: u32) -> Result<Typed> {
        let call = FunctionCall::new(f, position)?;
        let name = call.name.as_str();
        // These are no functions to PostgreSQL, but expressions of their own.
        let expression = matches!(name, "coalesce" | "greatest" | "least" | "nullif");
        if call.args.len() > MAX_ARGUMENTS && !expression {
            let message = format!("cannot pass more than {MAX_ARGUMENTS} arguments to a function");
            return Err(SqlError::new(state::TOO_MANY_ARGUMENTS, message).at(position));
        }
        if is_aggregate(name) {
            return self.aggregate(&call, position);
        }
        if call.distinct || call.filter.is_some() || call.star {
            return Err(SqlError::unsupported(format!("this call of {name}")).at(position));
        }
        match name {
            "coalesce" | "greatest" | "least" | "nullif" | "pg_typeof" | "concat" => {
                let mut args = Vec::with_capacity(call.args.len());
                for arg in &call.args {
                    args.push(self.bind(arg)?);
                }
                self.special(name, args, position)
            }
            "generate_series" | "verify_heapam" => {
                Err(SqlError::unsupported("a set-returning function outside of FROM").at(position))
            }
            _ => self.call(name, &call.args, position),
        }
    }

    /// Functions with rules of their own.
    fn special(&mut self, name: &str, mut args: Vec<Typed>, position: u32) -> Result<Typed> {
        match name {
            "nullif" => {
                match (args.pop(), args.pop(), args.is_empty()) {
                    (Some(b), Some(a), true) => {
                        let (a, b) = if a.ty == SqlType::Unknown && b.ty == SqlType::Unknown {
                            (self.settle(a)?, self.settle(b)?)
                        } else {
                            (a, b)
                        };
                        let (exprs, ty) = coerce::coerce_all(vec![a, b], "NULLIF", self.params)?;
                        resolve::check_computed("NULLIF", ty, position)?;
                        let mut exprs = exprs.into_iter();
                        match (exprs.next(), exprs.next()) {
                            (Some(a), Some(b)) => {
                                Ok(Typed::new(Expr::NullIf(Box::new((a, b))), ty, position))
                            }
                            _ => Err(SqlError::unsupported("NULLIF without operands")),
                        }
                    }
                    _ => Err(SqlError::new(state::SYNTAX_ERROR, "NULLIF needs two arguments")
                        .at(position)),
                }
            }
            "pg_typeof" if args.len() == 1 => {
                let name = args.first().map_or("unknown", |a| a.ty.sql_name());
                Ok(Typed::new(Expr::Const(Datum::text(name)), SqlType::Regtype, position))
            }
            "concat" => {
                let mut parts = Vec::new();
                for arg in args {
                    let text = match arg.ty {
                        // By the output function, not by the cast.
                        SqlType::Bool => Expr::Case {
                            whens: vec![
                                (self.params.copy(&arg.expr)?, Expr::Const(Datum::text("t"))),
                                (Expr::Not(Box::new(arg.expr)), Expr::Const(Datum::text("f"))),
                            ],
                            otherwise: None,
                        },
                        _ => self.operand(arg, SqlType::Text)?,
                    };
                    parts.push(text);
                }
                Ok(Typed::new(Expr::Call(Function::Concat, parts), SqlType::Text, position))
            }
            _ if args.is_empty() => self.call_bound(name, args, position),
            _ => {
                let what = name.to_uppercase();
                let (list, ty) = coerce::coerce_all(args, &what, self.params)?;
                if name != "coalesce" {
                    resolve::check_computed(what, ty, position)?;
                }
                let expr = match name {
                    "coalesce" => Expr::Coalesce(list),
                    "greatest" => Expr::Extreme { list, greatest: true },
                    "least" => Expr::Extreme { list, greatest: false },
                    _ => return Err(SqlError::unsupported(name).at(position)),
                };
                Ok(Typed::new(expr, ty, position))
            }
        }
    }

    fn aggregate(&mut self, call: &FunctionCall<'_>, position: u32) -> Result<Typed> {
        // Arguments must not contain aggregates, so the list is taken away while they are bound.
        let Some(aggregates) = self.aggregates.take() else {
            let message = match self.clause {
                "aggregate" => "aggregate function calls cannot be nested".to_owned(),
                clause => format!("aggregate functions are not allowed in {clause}"),
            };
            return Err(SqlError::new(state::GROUPING_ERROR, message).at(position));
        };
        let clause = std::mem::replace(&mut self.clause, "aggregate");
        let made = self.aggregate_call(call, position);
        self.clause = clause;
        let result = made.map(|made| {
            let ty = made.result;
            Typed::new(Expr::Aggregate(aggregates.add(made)), ty, position)
        });
        self.aggregates = Some(aggregates);
        result
    }

    fn aggregate_call(&mut self, call: &FunctionCall<'_>, position: u32) -> Result<AggregateCall> {
        if call.distinct {
            return Err(SqlError::unsupported(format!("{}(DISTINCT ...)", call.name)).at(position));
        }
        let mut args = Vec::new();
        for arg in &call.args {
            args.push(self.bind(arg)?);
        }
        let filter = call.filter.map(|f| self.condition(f, "FILTER")).transpose()?;
        if args.is_empty() && !call.star && call.name == "count" {
            let message = "count(*) must be used to call a parameterless aggregate function";
            return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message).at(position));
        }
        if call.star && call.name != "count" {
            let message = format!("function {}() does not exist", call.name);
            return Err(SqlError::new(state::UNDEFINED_FUNCTION, message)
                .hint(NO_FUNCTION)
                .at(position));
        }
        let types: Vec<&str> = args.iter().map(|a| a.ty.sql_name()).collect();
        let shown = format!("{}({})", call.name, types.join(", "));
        let made = match (args.pop(), args.is_empty()) {
            (None, _) if call.star => AggregateCall::count_star(),
            (Some(arg), true) => {
                let arg = if call.name == "count" { self.settle(arg)? } else { arg };
                if call.name != "count" {
                    resolve::check_computed(&call.name, arg.ty, position)?;
                }
                match choose(&call.name, arg.ty) {
                    Ok(chosen) => {
                        let expr = self.operand(arg, chosen.argument)?;
                        AggregateCall {
                            kind: chosen.kind,
                            arg: Some(expr),
                            filter: None,
                            result: chosen.result,
                        }
                    }
                    Err(ambiguous) => return Err(no_aggregate(&shown, ambiguous).at(position)),
                }
            }
            _ => return Err(no_aggregate(&shown, false).at(position)),
        };
        Ok(AggregateCall { filter, ..made })
    }
}

fn no_aggregate(shown: &str, ambiguous: bool) -> SqlError {
    if ambiguous {
        SqlError::new(state::AMBIGUOUS_FUNCTION, format!("function {shown} is not unique"))
            .hint(NOT_UNIQUE)
    } else {
        SqlError::new(state::UNDEFINED_FUNCTION, format!("function {shown} does not exist"))
            .hint(NO_FUNCTION)
    }
}
