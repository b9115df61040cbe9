//! sqlparser's expressions to typed ones. Unsupported kinds are refused by name.

use super::coerce::{coerce, coerce_to_type};
use super::common::coerce_all;
use super::context::Context;
use super::function::FunctionCall;
use super::ident::{ident_name, reserved_word};
use super::literal::{number, signed_number};
use super::lookups::Names;
use super::params::ParamTypes;
use super::place;
use super::scope::Scope;
use super::type_names::type_name;
use super::typed::{self, Typed, boolean, logic, unknown};
use super::types::{NamedType, type_of_ast};
use crate::error::{Result, SqlError, state};
use crate::parse::cursor::is_reserved;
use crate::parse::{Source, too_complex};
use forebay_engine::nodes::{
    BoolExprType, CaseExpr, CaseTestExpr, CaseWhen, CollateExpr, Expr, Location, collation_of,
    typmod_of,
};
use forebay_engine::syscache::ProcRow;
use forebay_types::{Datum, Oid, oids};
use sqlparser::ast::{self, BinaryOperator, Spanned, UnaryOperator, Value};
use std::sync::Arc;

/// An aggregate call.
#[derive(Clone, Debug)]
pub struct Aggregated {
    /// The aggregate.
    pub function: Arc<ProcRow>,
    /// Its arguments.
    pub args: Vec<Expr>,
    /// FILTER.
    pub filter: Option<Expr>,
    /// The type of its result.
    pub result: Oid,
}

/// Aggregates of a query, each once.
#[derive(Clone, Debug, Default)]
pub struct AggregateArgs {
    /// The calls.
    pub calls: Vec<Aggregated>,
    /// Columns named outside of aggregates, by their index in the row, and where.
    pub bare_columns: Vec<(usize, u32)>,
}

impl AggregateArgs {
    /// Adds a call, or finds it; its index.
    pub(super) fn add(&mut self, call: Aggregated) -> usize {
        let same = |other: &Aggregated| {
            let filters = match (&other.filter, &call.filter) {
                (None, None) => true,
                (Some(a), Some(b)) => a.same(b),
                _ => false,
            };
            filters
                && other.function.oid == call.function.oid
                && other.args.len() == call.args.len()
                && other.args.iter().zip(&call.args).all(|(a, b)| a.same(b))
        };
        match self.calls.iter().position(same) {
            Some(i) => i,
            None => {
                self.calls.push(call);
                self.calls.len() - 1
            }
        }
    }
}

/// What binding an expression needs.
pub struct Binder<'a> {
    /// The query string.
    pub source: &'a Source,
    /// Names in view.
    pub scope: &'a Scope,
    /// Parameters.
    pub params: &'a mut ParamTypes,
    /// Aggregates found so far; None where they are not allowed.
    pub aggregates: Option<&'a mut AggregateArgs>,
    /// The clause, for the message when an aggregate is not allowed.
    pub clause: &'static str,
    /// What names mean.
    pub names: &'a mut dyn Names,
    /// Expressions around the one that is bound.
    pub depth: usize,
}

/// Most levels of nested expressions: binding, evaluating and dropping them is recursive. So that
/// the stack holds them, what is called on the way down is not inlined into one large frame.
const MAX_DEPTH: usize = 1000;

impl Binder<'_> {
    /// The position where an expression starts.
    pub fn position(&self, e: &ast::Expr) -> u32 {
        self.source.position(place::start(e))
    }

    /// Binds an expression.
    pub fn bind(&mut self, e: &ast::Expr) -> Result<Typed> {
        self.names.step()?;
        if self.depth >= MAX_DEPTH {
            return Err(too_complex());
        }
        let levels = levels(e);
        self.depth += levels;
        let bound = match e {
            ast::Expr::BinaryOp { left, op, right } if !is_logic(op) => {
                let position = self.position(e);
                self.binary(left, op, right, position)
            }
            _ => self.bind_one(e),
        };
        self.depth -= levels;
        bound
    }

    /// Copies a bound expression that is needed twice.
    pub(super) fn copy(&mut self, bound: &Typed) -> Result<Typed> {
        Ok(Typed::new(self.params.copy(&bound.expr)?, bound.position))
    }

    #[inline(never)]
    fn bind_one(&mut self, e: &ast::Expr) -> Result<Typed> {
        let position = self.position(e);
        match e {
            ast::Expr::Identifier(ident) => self.identifier(ident, position),
            ast::Expr::CompoundIdentifier(parts) => {
                let column = self.compound(parts, position)?;
                Ok(self.note(column))
            }
            ast::Expr::Value(v) => self.literal(&v.value, position),
            ast::Expr::Nested(inner) => self.bind(inner),
            ast::Expr::BinaryOp { op, .. } => self.logic(e, op, position),
            ast::Expr::UnaryOp { op, expr } => self.unary(op, expr, position),
            ast::Expr::Cast { kind, expr, data_type, format: None, .. }
                if matches!(kind, ast::CastKind::Cast | ast::CastKind::DoubleColon) =>
            {
                self.cast(expr, data_type, position, *kind == ast::CastKind::DoubleColon)
            }
            ast::Expr::TypedString(ast::TypedString {
                data_type,
                value,
                uses_odbc_syntax: false,
            }) => {
                let at = self.source.position(value.span.start);
                let text = self.literal(&value.value, at)?;
                let to = type_of_ast(self.names, data_type, position)?;
                self.explicit(text, to, position)
            }
            ast::Expr::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref(), position)
            }
            ast::Expr::Collate { expr, collation } => self.collate(expr, collation, position),
            ast::Expr::Function(f) => self.function(f, position),
            ast::Expr::Array(array) => self.array(array, position),
            ast::Expr::CompoundFieldAccess { root, access_chain } => {
                self.subscripts(root, access_chain, position)
            }
            _ => self.bind_test(e, position),
        }
    }

    #[inline(never)]
    fn identifier(&mut self, ident: &ast::Ident, position: u32) -> Result<Typed> {
        let name = ident_name(ident);
        if ident.quote_style.is_none()
            && let Some(value) = self.value_function(&name, None, position)?
        {
            return Ok(value);
        }
        let column = self.scope.column(&name, position).map_err(|error| {
            // The parser tries a word that it could not go on with as a name.
            let reserved = ident.quote_style.is_none() && is_reserved(&name);
            if reserved { reserved_word(&ident.value, position) } else { error }
        })?;
        Ok(self.note(column))
    }

    /// Remembers where a column was named outside of an aggregate.
    fn note(&mut self, column: Typed) -> Typed {
        if let (Some(aggregates), Expr::Var(var)) = (&mut self.aggregates, &column.expr)
            && let Some(index) = self.scope.index_of(var)
        {
            aggregates.bare_columns.push((index, column.position));
        }
        column
    }

    /// Binds a condition: it must be boolean.
    pub fn condition(&mut self, e: &ast::Expr, what: &str) -> Result<Expr> {
        let typed = self.bind(e)?;
        self.boolean(typed, what)
    }

    #[inline(never)]
    pub(super) fn boolean(&mut self, value: Typed, what: &str) -> Result<Expr> {
        let (ty, position) = (value.ty(), value.position);
        let context = Context::Implicit;
        match coerce(self.names, self.params, value, oids::BOOL, context)? {
            Some(v) => Ok(v.expr),
            None => {
                let ty = type_name(self.names, ty)?;
                let message = format!("argument of {what} must be type boolean, not type {ty}");
                Err(SqlError::new(state::DATATYPE_MISMATCH, message).at(position))
            }
        }
    }

    /// COLLATE.
    #[inline(never)]
    fn collate(
        &mut self,
        e: &ast::Expr,
        collation: &ast::ObjectName,
        position: u32,
    ) -> Result<Typed> {
        let value = self.bind(e)?;
        let ty = value.ty();
        let at = self.source.operator_after(place::end(e));
        if ty != oids::UNKNOWN && self.names.ty(ty)?.collation == 0 {
            let ty = type_name(self.names, ty)?;
            let message = format!("collations are not supported by type {ty}");
            return Err(SqlError::new(state::DATATYPE_MISMATCH, message).at(at));
        }
        let row = self.find_collation(collation, at)?;
        let name = self.source.position(collation.span().start);
        let location = Location(i32::try_from(name).unwrap_or(-1));
        let expr = CollateExpr { arg: Box::new(value.expr), coll_oid: row.oid, location };
        Ok(Typed::new(expr, position))
    }

    #[inline(never)]
    fn compound(&self, parts: &[ast::Ident], position: u32) -> Result<Typed> {
        let names: Vec<String> = parts.iter().map(ident_name).collect();
        match names.as_slice() {
            [table, column] => self.scope.qualified(table, column, position),
            [_, table, column] => self.scope.qualified(table, column, position),
            _ => Err(SqlError::unsupported("a name of so many parts").at(position)),
        }
    }

    #[inline(never)]
    fn literal(&mut self, v: &Value, position: u32) -> Result<Typed> {
        let expr = match v {
            Value::Null => unknown(Datum::Null),
            Value::Boolean(b) => boolean(Some(*b)),
            Value::Number(text, _) => return number(text, position),
            Value::SingleQuotedString(s)
            | Value::EscapedStringLiteral(s)
            | Value::UnicodeStringLiteral(s) => unknown(Datum::string(s.clone())),
            Value::DollarQuotedString(s) => unknown(Datum::string(s.value.clone())),
            Value::SingleQuotedByteStringLiteral(bits) => {
                return self.bit_string(&format!("b{bits}"), position);
            }
            Value::HexStringLiteral(bits) => {
                return self.bit_string(&format!("x{bits}"), position);
            }
            Value::Placeholder(name) => return self.parameter(name, position),
            _ => return Err(SqlError::unsupported("this kind of literal").at(position)),
        };
        Ok(Typed::new(expr, position))
    }

    /// B'...' and X'...'
    fn bit_string(&mut self, text: &str, position: u32) -> Result<Typed> {
        let text = Typed::new(unknown(Datum::string(text.to_owned())), position);
        self.explicit(text, NamedType { oid: oids::BIT, typmod: -1 }, position)
    }

    #[inline(never)]
    fn parameter(&mut self, name: &str, position: u32) -> Result<Typed> {
        let number: Option<usize> = name.strip_prefix('$').and_then(|n| n.parse().ok());
        match number {
            Some(n @ 1..=65535) if self.params.allowed => {
                let mut param = self.params.get(n - 1);
                param.paramcollid = self.names.ty(param.paramtype)?.collation;
                Ok(Typed::new(param, position))
            }
            Some(n) => {
                let message = format!("there is no parameter ${n}");
                Err(SqlError::new(state::UNDEFINED_PARAMETER, message).at(position))
            }
            None => {
                let message = format!("syntax error at or near \"{name}\"");
                Err(SqlError::new(state::SYNTAX_ERROR, message).at(position))
            }
        }
    }

    #[inline(never)]
    fn unary(&mut self, op: &UnaryOperator, e: &ast::Expr, position: u32) -> Result<Typed> {
        if *op == UnaryOperator::Not {
            let operand = self.condition(e, "NOT")?;
            return Ok(Typed::new(typed::not(operand), position));
        }
        // A minus before a number belongs to it, as in PostgreSQL's grammar.
        if *op == UnaryOperator::Minus
            && let Some(text) = signed_number(e)
        {
            let text = text.strip_prefix('-').map_or_else(|| format!("-{text}"), str::to_owned);
            return number(&text, position);
        }
        let operand = self.bind(e)?;
        let expr = self.prefix_operation(&op.to_string(), operand, e)?;
        Ok(Typed::new(expr, position))
    }

    #[inline(never)]
    fn binary(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        position: u32,
    ) -> Result<Typed> {
        if let Some(rows) = self.row_comparison((left, right), op, position)? {
            return Ok(rows);
        }
        let (a, b) = (self.bind(left)?, self.bind(right)?);
        self.applied((left, a), op, (right, b), position)
    }

    /// An operator over bound operands.
    #[inline(never)]
    fn applied(
        &mut self,
        (left, a): (&ast::Expr, Typed),
        op: &BinaryOperator,
        (right, b): (&ast::Expr, Typed),
        position: u32,
    ) -> Result<Typed> {
        let written = op.to_string();
        let name = match op {
            BinaryOperator::PGCustomBinaryOperator(parts) => match parts.as_slice() {
                [schema, name] if schema.eq_ignore_ascii_case("pg_catalog") => name.clone(),
                [name] => name.clone(),
                _ => {
                    let at = self.source.operator_after(place::end(left));
                    return Err(SqlError::unsupported(format!("operator {op}")).at(at));
                }
            },
            BinaryOperator::NotEq => "<>".to_owned(),
            _ => written.clone(),
        };
        let expr = self.operation(&name, a, b, left).map_err(|mut e| {
            if matches!(e.sqlstate, state::UNDEFINED_FUNCTION | state::AMBIGUOUS_FUNCTION) {
                let between = (place::end(left), place::start(right));
                e.set_position(self.source.operator_between(&written, between.0, between.1));
            }
            e
        })?;
        Ok(Typed::new(expr, position))
    }

    /// A chain of AND or of OR: a list, however long, and not one level for each operator.
    #[inline(never)]
    fn logic(&mut self, e: &ast::Expr, chain: &BinaryOperator, position: u32) -> Result<Typed> {
        let and = *chain == BinaryOperator::And;
        let (what, kind) = if and { ("AND", BoolExprType::And) } else { ("OR", BoolExprType::Or) };
        let mut operands = Vec::new();
        let mut rest = e;
        while let ast::Expr::BinaryOp { left, op, right } = rest
            && op == chain
        {
            operands.push(&**right);
            rest = left;
        }
        let mut list = match self.condition(rest, what)? {
            Expr::Bool(inner) if inner.boolop == kind => inner.args,
            other => vec![other],
        };
        for operand in operands.into_iter().rev() {
            list.push(self.condition(operand, what)?);
        }
        Ok(Typed::new(logic(kind, list), position))
    }

    /// Gives a value whose type is still unknown the type text.
    #[inline(never)]
    pub fn settle(&mut self, value: Typed) -> Result<Typed> {
        if !value.is_unknown() {
            return Ok(value);
        }
        let position = value.position;
        let text = coerce(self.names, self.params, value, oids::TEXT, Context::Implicit)?;
        text.ok_or_else(|| SqlError::unsupported("this value").at(position))
    }

    #[inline(never)]
    fn cast(
        &mut self,
        e: &ast::Expr,
        to: &ast::DataType,
        position: u32,
        infix: bool,
    ) -> Result<Typed> {
        let to_type = type_of_ast(self.names, to, position)?;
        // The cast says which type the elements of an array have.
        let value = match unnested(e) {
            ast::Expr::Array(array) if self.names.element_of(to_type.oid)?.is_some() => {
                self.array_of_type(array, to_type.oid, position)?
            }
            _ => self.bind(e)?,
        };
        // Finding the position of `::` is slow, so it is done for errors only.
        self.explicit(value, to_type, if infix { 0 } else { position }).map_err(|error| {
            if infix { error.at(self.source.cast_after(place::end(e), casts_of(e))) } else { error }
        })
    }

    #[inline(never)]
    pub(super) fn explicit(&mut self, value: Typed, to: NamedType, at: u32) -> Result<Typed> {
        let from = value.ty();
        let with = (to.oid, to.typmod);
        let cast = coerce_to_type(self.names, self.params, value, with, Context::Explicit)?;
        match cast {
            Some(cast) => Ok(cast),
            None => {
                let (from, to) = (type_name(self.names, from)?, type_name(self.names, to.oid)?);
                let message = format!("cannot cast type {from} to {to}");
                Err(SqlError::new(state::CANNOT_COERCE, message).at(at))
            }
        }
    }

    #[inline(never)]
    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
        position: u32,
    ) -> Result<Typed> {
        let tested = match operand {
            None => None,
            Some(e) => {
                let tested = self.bind(e)?;
                Some(self.settle(tested)?)
            }
        };
        let mut tests = Vec::new();
        let mut results = Vec::new();
        for ast::CaseWhen { condition, result } in conditions {
            let when = match (&tested, operand) {
                (Some(tested), Some(e)) => {
                    let test = CaseTestExpr {
                        type_id: tested.ty(),
                        type_mod: typmod_of(&tested.expr),
                        collation: collation_of(&tested.expr),
                    };
                    let test = Typed::new(Expr::CaseTest(test), tested.position);
                    let value = self.bind(condition)?;
                    let compared = self.operation("=", test, value, e)?;
                    self.boolean(Typed::new(compared, position), "CASE/WHEN")?
                }
                _ => self.condition(condition, "CASE/WHEN")?,
            };
            tests.push(when);
            results.push(self.bind(result)?);
        }
        // PostgreSQL looks at ELSE first when it chooses the type.
        let otherwise = match otherwise {
            Some(e) => self.bind(e)?,
            None => Typed::new(unknown(Datum::Null), 0),
        };
        results.insert(0, otherwise);
        let (exprs, ty) = coerce_all(self.names, self.params, results, "CASE")?;
        let mut exprs = exprs.into_iter();
        let defresult = exprs.next().map(Box::new);
        let when = |(expr, result)| CaseWhen {
            expr: Box::new(expr),
            result: Box::new(result),
            location: Location::UNKNOWN,
        };
        let case = CaseExpr {
            casetype: ty,
            casecollid: 0,
            arg: tested.map(|tested| Box::new(tested.expr)),
            args: tests.into_iter().zip(exprs).map(when).collect(),
            defresult,
            location: Location::UNKNOWN,
        };
        Ok(Typed::new(case, position))
    }

    /// The call that a function's name without parentheses is, or with a precision.
    #[inline(never)]
    pub(super) fn value_call(
        &mut self,
        call: &FunctionCall<'_>,
        position: u32,
    ) -> Result<Option<Typed>> {
        if !call.is_plain() || !call.named.is_empty() || call.star {
            return Ok(None);
        }
        match call.args.as_slice() {
            [] if call.bare => self.value_function(&call.name, None, position),
            [ast::Expr::Value(v)] => match &v.value {
                Value::Number(digits, _) => match digits.parse::<i32>() {
                    Ok(precision) => self.value_function(&call.name, Some(precision), position),
                    Err(_) => Ok(None),
                },
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }
}

fn is_logic(op: &BinaryOperator) -> bool {
    matches!(op, BinaryOperator::And | BinaryOperator::Or)
}

/// As how many levels an expression counts: what binds operators and casts takes less of the stack
/// than what binds the rest.
fn levels(e: &ast::Expr) -> usize {
    match e {
        ast::Expr::Nested(_)
        | ast::Expr::BinaryOp { .. }
        | ast::Expr::UnaryOp { .. }
        | ast::Expr::Cast { .. } => 1,
        _ => 3,
    }
}

/// How many casts by `::` an operand of another one is.
fn casts_of(mut e: &ast::Expr) -> usize {
    let mut casts = 0;
    loop {
        match e {
            ast::Expr::Nested(inner) => e = inner,
            ast::Expr::Cast { kind: ast::CastKind::DoubleColon, expr, .. } => {
                casts += 1;
                e = expr;
            }
            _ => return casts,
        }
    }
}

/// What parentheses enclose.
fn unnested(mut e: &ast::Expr) -> &ast::Expr {
    while let ast::Expr::Nested(inner) = e {
        e = inner;
    }
    e
}
