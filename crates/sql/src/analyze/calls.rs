//! Calls of functions and aggregates: PostgreSQL's func_get_detail.

use super::arguments::{Given, candidates, fill};
use super::bind::{Aggregated, Binder};
use super::candidates::{Candidate, Choice, Types, choose};
use super::collate::common_collation;
use super::common::coerce_all;
use super::context::Context;
use super::function::FunctionCall;
use super::pathway::{ANY, Pathway, pathway};
use super::type_names::type_name;
use super::typed::{Typed, aggregate, call};
use super::types::NamedType;
use crate::error::{Result, SqlError, state};
use forebay_engine::nodes::{
    CoalesceExpr, CoercionForm, Expr, FuncExpr, Location, MinMaxExpr, MinMaxOp,
};
use forebay_engine::syscache::ProcRow;
use forebay_types::{Oid, oids};
use sqlparser::ast;
use std::sync::Arc;

/// Hint when functions fit equally well.
pub const NOT_UNIQUE: &str =
    "Could not choose a best candidate function. You might need to add explicit type casts.";
/// Hint when no function fits.
pub const NO_FUNCTION: &str = "No function matches the given name and argument types. You \
                                      might need to add explicit type casts.";

/// Arguments of a call, as in PostgreSQL.
const MAX_ARGUMENTS: usize = 100;

/// The clause of a function that is an item of FROM.
pub const IN_FROM: &str = "functions in FROM";

/// What a call turned out to be.
enum Detail {
    /// A function, an aggregate, or anything else that pg_proc has.
    Function(Given),
    /// A cast to the type of that name.
    Cast(Oid),
}

impl Binder<'_> {
    /// A call in FROM.
    #[inline(never)]
    pub fn call_in_from(&mut self, call: &FunctionCall<'_>, position: u32) -> Result<Typed> {
        let args = self.bind_all(call)?;
        let names: Vec<&str> = call.named.iter().map(|(name, _)| name.as_str()).collect();
        let form = CoercionForm::ExplicitCall;
        self.call_bound((call.schema.as_deref(), &call.name), args, &names, form, position)
    }

    /// A call with bound arguments.
    pub(super) fn call_form(
        &mut self,
        schema: Option<&str>,
        name: &str,
        args: Vec<Typed>,
        form: CoercionForm,
        position: u32,
    ) -> Result<Typed> {
        self.call_bound((schema, name), args, &[], form, position)
    }

    #[inline(never)]
    fn call_bound(
        &mut self,
        name: (Option<&str>, &str),
        args: Vec<Typed>,
        named: &[&str],
        form: CoercionForm,
        position: u32,
    ) -> Result<Typed> {
        match self.detail(name, &args, named, position)? {
            Detail::Cast(to) => self.cast_by_name(args, to, position),
            Detail::Function(given) if given.row.kind == b'a' => {
                let message = format!("aggregate function {} is not allowed here", name.1);
                Err(SqlError::new(state::GROUPING_ERROR, message).at(position))
            }
            Detail::Function(given) => self.function_expr(given, args, form, position),
        }
    }

    /// text(x) and its like: a cast in the form of a call.
    fn cast_by_name(&mut self, mut args: Vec<Typed>, to: Oid, position: u32) -> Result<Typed> {
        let Some(arg) = args.pop() else {
            return Err(SqlError::unsupported("a cast of nothing").at(position));
        };
        let mut cast = self.explicit(arg, NamedType { oid: to, typmod: -1 }, position)?;
        match &mut cast.expr {
            Expr::RelabelType(node) => node.relabelformat = CoercionForm::ExplicitCall,
            Expr::CoerceViaIo(node) => node.coerceformat = CoercionForm::ExplicitCall,
            _ => {}
        }
        Ok(Typed { position, ..cast })
    }

    /// Finds what a call means.
    #[inline(never)]
    fn detail(
        &mut self,
        (schema, name): (Option<&str>, &str),
        args: &[Typed],
        named: &[&str],
        position: u32,
    ) -> Result<Detail> {
        let actual: Types = args.iter().map(Typed::ty).collect();
        let all = candidates(self.names, schema, name, actual.len(), named)
            .map_err(|e| e.at(position))?;
        if let Some(exact) = all.iter().find(|given| given.args == actual) {
            return Ok(Detail::Function(exact.clone()));
        }
        if let ([from], []) = (actual.as_slice(), named)
            && let Some(to) = self.cast_target(schema, name, *from)?
        {
            return Ok(Detail::Cast(to));
        }
        let numbered = all
            .iter()
            .enumerate()
            .map(|(n, given)| Candidate { row: Arc::new(n), args: given.args.clone() });
        let numbered = numbered.collect();
        let problem = match choose(self.names, numbered, &actual)? {
            Choice::One(found) => match all.into_iter().nth(*found.row) {
                Some(given) => return Ok(Detail::Function(given)),
                None => (state::UNDEFINED_FUNCTION, "does not exist", NO_FUNCTION),
            },
            Choice::None => (state::UNDEFINED_FUNCTION, "does not exist", NO_FUNCTION),
            Choice::Ambiguous => (state::AMBIGUOUS_FUNCTION, "is not unique", NOT_UNIQUE),
        };
        let first = actual.len() - named.len();
        let mut shown = Vec::new();
        for (n, ty) in actual.iter().enumerate() {
            let ty = type_name(self.names, *ty)?;
            shown.push(match n.checked_sub(first).and_then(|n| named.get(n)) {
                Some(name) => format!("{name} => {ty}"),
                None => ty,
            });
        }
        let schema = schema.map_or_else(String::new, |schema| format!("{schema}."));
        let (sqlstate, what, hint) = problem;
        let message = format!("function {schema}{name}({}) {what}", shown.join(", "));
        Err(SqlError::new(sqlstate, message).hint(hint).at(position))
    }

    /// The type to which a call with one argument casts it, if it is no function's name.
    fn cast_target(&mut self, schema: Option<&str>, name: &str, from: Oid) -> Result<Option<Oid>> {
        for namespace in self.names.namespaces(schema)? {
            let Some(ty) = self.names.type_named(namespace, name)? else { continue };
            let is_cast = ty.defined
                && (from == oids::UNKNOWN
                    || match pathway(self.names, from, ty.oid, Context::Explicit)? {
                        Pathway::Relabel => true,
                        Pathway::Text => {
                            let row = self.names.ty(from)?;
                            let of_row = row.oid == oids::RECORD || row.kind == b'c';
                            !(of_row && ty.category == b'S')
                        }
                        _ => false,
                    });
            return Ok(is_cast.then_some(ty.oid));
        }
        Ok(None)
    }

    /// The expression of a function's call.
    #[inline(never)]
    fn function_expr(
        &mut self,
        given: Given,
        args: Vec<Typed>,
        form: CoercionForm,
        position: u32,
    ) -> Result<Typed> {
        let row = &given.row;
        match row.kind {
            b'w' => return Err(SqlError::unsupported("a window function").at(position)),
            b'p' => {
                let message = format!("{} is a procedure", row.name);
                let error = SqlError::new(state::WRONG_OBJECT_TYPE, message);
                return Err(error.hint("To call a procedure, use CALL.").at(position));
            }
            _ => {}
        }
        if row.returns_set && self.clause != IN_FROM {
            let what = "a set-returning function outside of FROM";
            return Err(SqlError::unsupported(what).at(position));
        }
        let row = Arc::clone(row);
        let (args, result, variadic) = self.arguments(given, args).map_err(|e| e.at(position))?;
        let expr = FuncExpr {
            funcretset: row.returns_set,
            funcvariadic: variadic,
            ..call(row.oid, result, form, args)
        };
        Ok(Typed::new(expr, position))
    }

    /// The arguments of a call in their order, cast, with defaults and the array of the variadic
    /// ones: also the type of the result, and whether there is such an array.
    #[inline(never)]
    fn arguments(&mut self, given: Given, args: Vec<Typed>) -> Result<(Vec<Expr>, Oid, bool)> {
        let mut result = given.row.result;
        let mut declared = given.args.clone();
        let variadic = given.variadic;
        let mut exprs = self.fitted(args, &mut declared, &mut result)?;
        let (row, collects) = (Arc::clone(&given.row), variadic > 0 && given.row.variadic != ANY);
        exprs = fill(self.names, given, exprs)?;
        if collects {
            let rest = exprs.split_off(exprs.len().saturating_sub(variadic));
            let element = declared.last().copied().unwrap_or(row.variadic);
            exprs.push(self.array_node(rest, element)?);
        }
        Ok((exprs, result, collects))
    }

    #[inline(never)]
    pub(super) fn function(&mut self, f: &ast::Function, position: u32) -> Result<Typed> {
        let call = FunctionCall::new(f, position)?;
        if let Some(value) = self.value_call(&call, position)? {
            return Ok(value);
        }
        let name = call.name.as_str();
        // These are no functions to PostgreSQL, but expressions of their own.
        let plain = call.is_plain() && call.named.is_empty() && !call.args.is_empty();
        if plain && matches!(name, "coalesce" | "greatest" | "least" | "nullif") {
            let args = self.bind_all(&call)?;
            return self.special(name, args, position);
        }
        if plain && super::is_row(f) {
            let args = self.bind_all(&call)?;
            return Ok(self.row_node(args, position));
        }
        if call.args.len() + call.named.len() > MAX_ARGUMENTS {
            let message = format!("cannot pass more than {MAX_ARGUMENTS} arguments to a function");
            return Err(SqlError::new(state::TOO_MANY_ARGUMENTS, message).at(position));
        }
        if self.may_be_aggregate(&call)? {
            return self.aggregate(&call, position);
        }
        let marked = match &call {
            call if call.star => Some("(*)"),
            call if call.distinct => Some("DISTINCT"),
            call if call.filter.is_some() => Some("FILTER"),
            _ => None,
        };
        if let Some(mark) = marked {
            self.bind_all(&call)?;
            let specified = if mark == "(*)" { format!("{name}(*)") } else { mark.to_owned() };
            let message = format!("{specified} specified, but {name} is not an aggregate function");
            return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message).at(position));
        }
        self.call_in_from(&call, position)
    }

    /// Functions with rules of their own.
    #[inline(never)]
    fn special(&mut self, name: &str, mut args: Vec<Typed>, position: u32) -> Result<Typed> {
        if name == "nullif" {
            return match (args.pop(), args.pop(), args.is_empty()) {
                (Some(b), Some(a), true) => Ok(Typed::new(self.null_if(a, b, position)?, position)),
                _ => {
                    Err(SqlError::new(state::SYNTAX_ERROR, "NULLIF needs two arguments")
                        .at(position))
                }
            };
        }
        let (args, ty) = coerce_all(self.names, self.params, args, &name.to_uppercase())?;
        let location = Location::UNKNOWN;
        let expr = match name {
            "coalesce" => {
                Expr::Coalesce(CoalesceExpr { coalescetype: ty, coalescecollid: 0, args, location })
            }
            _ => {
                let op = if name == "greatest" { MinMaxOp::Greatest } else { MinMaxOp::Least };
                let (minmaxtype, minmaxcollid, inputcollid) = (ty, 0, 0);
                self.check_ordered(ty, position)?;
                Expr::MinMax(MinMaxExpr {
                    minmaxtype,
                    minmaxcollid,
                    inputcollid,
                    op,
                    args,
                    location,
                })
            }
        };
        Ok(Typed::new(expr, position))
    }

    /// Refuses a type whose values have no order.
    fn check_ordered(&mut self, ty: Oid, position: u32) -> Result<()> {
        if super::lists::is_ordered(self.names, ty)? {
            return Ok(());
        }
        let name = type_name(self.names, ty)?;
        let message = format!("could not identify a comparison function for type {name}");
        Err(SqlError::new(state::UNDEFINED_FUNCTION, message).at(position))
    }

    /// Whether an aggregate has the name of a call.
    fn may_be_aggregate(&mut self, call: &FunctionCall<'_>) -> Result<bool> {
        let path = self.names.namespaces(call.schema.as_deref())?;
        let named = self.names.procs_named(&call.name)?;
        Ok(named.iter().any(|row| row.kind == b'a' && path.contains(&row.namespace)))
    }

    #[inline(never)]
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
        let result = made.and_then(|made| {
            let ty = made.result;
            let collation = common_collation(self.names, &mut made.args.clone(), ty)?;
            Ok(Typed::new(aggregate(aggregates.add(made), ty, collation), position))
        });
        self.aggregates = Some(aggregates);
        result
    }

    fn aggregate_call(&mut self, call: &FunctionCall<'_>, position: u32) -> Result<Aggregated> {
        if call.distinct {
            return Err(SqlError::unsupported(format!("{}(DISTINCT ...)", call.name)).at(position));
        }
        let args = self.bind_all(call)?;
        let filter = call.filter.map(|f| self.condition(f, "FILTER")).transpose()?;
        if args.is_empty() && !call.star && call.name == "count" {
            let message = "count(*) must be used to call a parameterless aggregate function";
            return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message).at(position));
        }
        let names: Vec<&str> = call.named.iter().map(|(name, _)| name.as_str()).collect();
        let name = (call.schema.as_deref(), call.name.as_str());
        let given = match self.detail(name, &args, &names, position)? {
            Detail::Function(given) if given.row.kind == b'a' => given,
            _ => {
                return Err(
                    SqlError::unsupported(format!("this call of {}", call.name)).at(position)
                );
            }
        };
        let function: Arc<ProcRow> = Arc::clone(&given.row);
        let (args, result, _) = self.arguments(given, args).map_err(|e| e.at(position))?;
        Ok(Aggregated { function, args, filter, result })
    }
}
