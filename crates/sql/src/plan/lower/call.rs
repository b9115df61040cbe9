//! Functions and operators: forms of their own, or calls of the functions' table.

use super::super::expr::Builtin;
use super::super::expr::{Comparison, Expr, Function};
use super::fast::{Fast, form};
use super::{Lowering, cast_if_needed};
use crate::analyze::type_name;
use crate::error::{Result, SqlError, state};
use forebay_collation::Collation;
use forebay_engine::nodes::{self, FuncExpr, NullIfExpr, OpExpr, type_of};
use forebay_types::{Datum, Oid, SqlType, oids};
use smallvec::SmallVec;
use std::sync::Arc;

/// pg_typeof
const PG_TYPEOF: Oid = 1619;
/// like_escape(text, text)
const LIKE_ESCAPE: Oid = 1637;

/// Types of arguments.
type Types = SmallVec<[Oid; 4]>;

fn types_of(args: &[nodes::Expr]) -> Types {
    args.iter().map(type_of).collect()
}

impl Lowering<'_> {
    #[inline(never)]
    pub(super) fn function(&mut self, node: &FuncExpr) -> Result<Expr> {
        let types = types_of(&node.args);
        if node.funcid == PG_TYPEOF {
            return Ok(Expr::Const(Datum::Oid(types.first().copied().unwrap_or(oids::UNKNOWN))));
        }
        if let Some(fast) = form(node.funcid) {
            return self.fast(fast, &node.args, (node.funcresulttype, node.inputcollid));
        }
        let Some(builtin) = self.catalog.builtin(node.funcid) else {
            let name = self.catalog.names().proc(node.funcid)?.name.to_string();
            let mut shown = Vec::new();
            for ty in types {
                shown.push(type_name(self.catalog.names(), ty)?);
            }
            let what = format!("function {name}({})", shown.join(", "));
            return Err(SqlError::unsupported(what));
        };
        let args = self.all(&node.args)?;
        let collation = self.collation_of_call(node.funcid, node.inputcollid)?;
        let result = (node.funcresulttype, node.funcvariadic);
        self.made(builtin, node.funcid, (args, types), result, collation)
    }

    #[inline(never)]
    pub(super) fn operator(&mut self, node: &OpExpr) -> Result<Expr> {
        if let Some(fast) = form(node.opfuncid) {
            return self.fast(fast, &node.args, (node.opresulttype, node.inputcollid));
        }
        let types = types_of(&node.args);
        let Some(builtin) = self.catalog.builtin(node.opfuncid) else {
            return Err(self.no_operator(node.opno, &types)?);
        };
        let args = self.all(&node.args)?;
        self.made(builtin, node.opfuncid, (args, types), (node.opresulttype, false), None)
    }

    /// The refusal of an operator whose function there is not.
    #[inline(never)]
    pub(super) fn no_operator(&mut self, operator: Oid, types: &[Oid]) -> Result<SqlError> {
        let name = self.catalog.names().operator(operator)?.name.to_string();
        let mut shown = Vec::new();
        for ty in types {
            shown.push(type_name(self.catalog.names(), *ty)?);
        }
        shown.dedup();
        Ok(SqlError::unsupported(format!("operator {name} of type {}", shown.join(" and "))))
    }

    /// A call of a function of the table, with its arguments' types.
    pub(super) fn call_of(
        &mut self,
        builtin: Builtin,
        function: Oid,
        args: Vec<Expr>,
        types: &[Oid],
    ) -> Result<Expr> {
        let result = self.catalog.names().proc(function)?.result;
        self.made(builtin, function, (args, Types::from_slice(types)), (result, false), None)
    }

    #[inline(never)]
    fn made(
        &mut self,
        builtin: Builtin,
        function: Oid,
        (args, types): (Vec<Expr>, Types),
        (result, variadic): (Oid, bool),
        collation: Option<Arc<Collation>>,
    ) -> Result<Expr> {
        let row = self.catalog.names().proc(function)?;
        let function = Function { row, builtin, args: types, result, variadic, collation };
        Ok(Expr::Call(Arc::new(function), args))
    }

    /// A form of its own.
    fn fast(
        &mut self,
        fast: Fast,
        args: &[nodes::Expr],
        (result, collation): (Oid, Oid),
    ) -> Result<Expr> {
        if let Fast::Like { negated, ignore_case } = fast {
            let folded_by = ignore_case.then(|| self.folding(collation)).transpose()?;
            self.check_like(collation)?;
            return self.like(args, negated, folded_by);
        }
        let order = match fast {
            Fast::Compare(_, common) => self.order_of(common, collation)?,
            _ => None,
        };
        let lowered = self.all(args)?;
        let made = of_operands(fast, lowered, &types_of(args), result)?;
        Ok(match (made, order) {
            (Expr::Compare(comparison, pair), Some(collation))
                if !matches!(comparison, Comparison::Eq | Comparison::Ne) =>
            {
                Expr::Collated(comparison, collation, pair)
            }
            (made, _) => made,
        })
    }

    #[inline(never)]
    fn like(
        &mut self,
        args: &[nodes::Expr],
        negated: bool,
        folded_by: Option<Arc<Collation>>,
    ) -> Result<Expr> {
        let [text, pattern] = args else { return Err(wrong_arguments()) };
        let (pattern, escape) = match pattern {
            nodes::Expr::Func(call) if call.funcid == LIKE_ESCAPE => match call.args.as_slice() {
                [pattern, nodes::Expr::Const(escape)] => match &escape.constvalue {
                    Datum::Text(escape) => (pattern, escape.chars().next()),
                    _ => return Ok(Expr::Const(Datum::Null)),
                },
                _ => return Err(SqlError::unsupported("ESCAPE of an expression")),
            },
            pattern => (pattern, Some('\\')),
        };
        let operands = Box::new((self.lower(text)?, self.lower(pattern)?));
        Ok(Expr::Like { operands, escape, negated, folded_by })
    }

    /// Two operands cast to the type in which they are compared, or computed with.
    pub(super) fn compared(&mut self, common: Oid, args: &[nodes::Expr]) -> Result<(Expr, Expr)> {
        let [a, b] = args else { return Err(wrong_arguments()) };
        Ok((self.comparable(common, a)?, self.comparable(common, b)?))
    }

    fn comparable(&mut self, common: Oid, arg: &nodes::Expr) -> Result<Expr> {
        let from = type_of(arg);
        let arg = self.lower(arg)?;
        Ok(as_common(common, from, arg))
    }

    /// The operands of a test for equality. Refused if it has no form of its own.
    #[inline(never)]
    pub(super) fn equal_operands(
        &mut self,
        (function, collation): (Oid, Oid),
        args: &[nodes::Expr],
    ) -> Result<(Expr, Expr)> {
        match form(function) {
            Some(Fast::Compare(_, common)) => {
                self.order_of(common, collation)?;
                self.compared(common, args)
            }
            _ => {
                let name = self.catalog.names().proc(function)?.name.to_string();
                Err(SqlError::unsupported(format!("a test by function {name}")))
            }
        }
    }

    /// NULLIF: the first operand as it is, unless it is equal.
    #[inline(never)]
    pub(super) fn null_if(&mut self, node: &NullIfExpr) -> Result<Expr> {
        let (a, b) = self.equal_operands((node.opfuncid, node.inputcollid), &node.args)?;
        let Some(first) = node.args.first() else { return Err(wrong_arguments()) };
        let own = self.lower(first)?;
        if own == a {
            return Ok(Expr::NullIf(Box::new((a, b))));
        }
        let equal = Expr::Compare(Comparison::Eq, Box::new((a, b)));
        let whens = vec![(equal, Expr::Const(Datum::Null))];
        Ok(Expr::Case { whens, otherwise: Some(Box::new(own)) })
    }
}

/// The form of its own of what has these operands, of these types.
#[inline(never)]
fn of_operands(fast: Fast, operands: Vec<Expr>, types: &[Oid], result: Oid) -> Result<Expr> {
    let mut operands = operands.into_iter().zip(types.iter().copied());
    let mut next = || operands.next().ok_or_else(wrong_arguments);
    Ok(match fast {
        Fast::Compare(comparison, common) => {
            let ((a, of_a), (b, of_b)) = (next()?, next()?);
            let pair = (as_common(common, of_a, a), as_common(common, of_b, b));
            Expr::Compare(comparison, Box::new(pair))
        }
        Fast::Arith(arithmetic, common) => {
            let ((a, of_a), (b, of_b)) = (next()?, next()?);
            let pair = (as_common(common, of_a, a), as_common(common, of_b, b));
            Expr::Arith(arithmetic, Box::new(pair))
        }
        Fast::Concat => Expr::Concat(Box::new((next()?.0, next()?.0))),
        Fast::Negate => Expr::Negate(Box::new(next()?.0)),
        Fast::Same => next()?.0,
        Fast::Cast => {
            let (operand, from) = next()?;
            Expr::Cast { expr: Box::new(operand), from: SqlType::of(from), to: SqlType::of(result) }
        }
        Fast::Like { .. } => return Err(wrong_arguments()),
    })
}

/// A value in the representation in which it is compared. Trailing blanks of bpchar do not count.
pub(super) fn as_common(common: Oid, from: Oid, value: Expr) -> Expr {
    match common {
        oids::ANYARRAY => value,
        oids::BPCHAR => {
            let (from, to) = (SqlType::Bpchar, SqlType::Text);
            Expr::Cast { expr: Box::new(value), from, to }
        }
        common => cast_if_needed(value, from, common),
    }
}

pub(super) fn wrong_arguments() -> SqlError {
    SqlError::new(state::INTERNAL_ERROR, "an operator has another number of operands")
}
