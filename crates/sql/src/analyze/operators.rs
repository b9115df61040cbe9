//! Operators: which one a name and the types of operands mean, and its expression.

use super::bind::Binder;
use super::candidates::{Candidate, Choice, Types, choose};
use super::coerce::coerced;
use super::context::Context;
use super::generic;
use super::lookups::Names;
use super::place;
use super::type_names::type_name;
use super::typed::Typed;
use crate::error::{Result, SqlError, state};
use forebay_engine::nodes::{
    CoercionForm, DistinctExpr, Expr, Location, NullIfExpr, OpExpr, type_of,
};
use forebay_engine::syscache::OperatorRow;
use forebay_types::{Oid, oids};
use sqlparser::ast;
use std::sync::Arc;

const NO_OPERATOR: &str = "No operator matches the given name and argument types. You might need \
                           to add explicit type casts.";
const NO_UNARY: &str = "No operator matches the given name and argument type. You might need to \
                        add an explicit type cast.";
const NOT_UNIQUE: &str =
    "Could not choose a best candidate operator. You might need to add explicit type casts.";

/// The operators of a name that the search path finds, those of earlier namespaces in front.
fn visible(names: &mut dyn Names, name: &str) -> Result<Vec<Arc<OperatorRow>>> {
    let path = names.search_path()?;
    let all = names.operators_named(name)?;
    let mut found: Vec<(usize, Arc<OperatorRow>)> = Vec::new();
    for row in all.iter() {
        let Some(place) = path.iter().position(|of| *of == row.namespace) else { continue };
        let same = |(_, other): &(usize, Arc<OperatorRow>)| {
            (other.left, other.right) == (row.left, row.right)
        };
        match found.iter_mut().find(|each| same(each)) {
            Some(other) if other.0 > place => *other = (place, Arc::clone(row)),
            Some(_) => {}
            None => found.push((place, Arc::clone(row))),
        }
    }
    Ok(found.into_iter().map(|(_, row)| row).collect())
}

/// Chooses the operator of a name for two operands.
fn binary(names: &mut dyn Names, name: &str, left: Oid, right: Oid) -> Result<Choice<OperatorRow>> {
    let all = visible(names, name)?;
    let exact = |l: Oid, r: Oid| {
        all.iter().find(|row| row.kind == b'b' && (row.left, row.right) == (l, r)).cloned()
    };
    let found = match (left, right) {
        (oids::UNKNOWN, oids::UNKNOWN) => None,
        (oids::UNKNOWN, known) | (known, oids::UNKNOWN) => match exact(known, known) {
            Some(row) => Some(row),
            None => {
                let base = names.base_type(known)?;
                if base == known { None } else { exact(base, base) }
            }
        },
        _ => exact(left, right),
    };
    if let Some(row) = found {
        let args = Types::from_slice(&[row.left, row.right]);
        return Ok(Choice::One(Candidate { row, args }));
    }
    let candidates = all.into_iter().filter(|row| row.kind == b'b').map(|row| {
        let args = Types::from_slice(&[row.left, row.right]);
        Candidate { row, args }
    });
    let candidates = candidates.collect();
    choose(names, candidates, &[left, right])
}

/// Chooses the operator of a name for one operand behind it.
fn prefix(names: &mut dyn Names, name: &str, operand: Oid) -> Result<Choice<OperatorRow>> {
    let all = visible(names, name)?;
    let candidates: Vec<Candidate<OperatorRow>> = all
        .into_iter()
        .filter(|row| row.kind == b'l')
        .map(|row| Candidate { args: Types::from_slice(&[row.right]), row })
        .collect();
    match candidates.iter().find(|candidate| candidate.row.right == operand) {
        Some(exact) => Ok(Choice::One(exact.clone())),
        None => choose(names, candidates, &[operand]),
    }
}

impl Binder<'_> {
    /// The operator for two operands.
    #[inline(never)]
    pub(super) fn find_operator(
        &mut self,
        name: &str,
        (a, b): (Oid, Oid),
        left: &ast::Expr,
    ) -> Result<Arc<OperatorRow>> {
        match binary(self.names, name, a, b)? {
            Choice::One(found) => Ok(found.row),
            Choice::None => Err(self.no_operator(a, name, b, left)?),
            Choice::Ambiguous => {
                let at = self.source.operator_after(place::end(left));
                let (a, b) = (type_name(self.names, a)?, type_name(self.names, b)?);
                let message = format!("operator is not unique: {a} {name} {b}");
                let error = SqlError::new(state::AMBIGUOUS_FUNCTION, message);
                Err(error.hint(NOT_UNIQUE).at(at))
            }
        }
    }

    /// An operator over two operands.
    #[inline(never)]
    pub(super) fn operation(
        &mut self,
        name: &str,
        a: Typed,
        b: Typed,
        left: &ast::Expr,
    ) -> Result<Expr> {
        let operator = self.find_operator(name, (a.ty(), b.ty()), left)?;
        self.operator_expr(&operator, vec![a, b]).map(Expr::Op)
    }

    /// The expression of an operator, its operands cast.
    #[inline(never)]
    pub(super) fn operator_expr(
        &mut self,
        operator: &OperatorRow,
        operands: Vec<Typed>,
    ) -> Result<OpExpr> {
        let mut declared = match operator.left {
            0 => Types::from_slice(&[operator.right]),
            left => Types::from_slice(&[left, operator.right]),
        };
        let mut result = operator.result;
        let args = self.fitted(operands, &mut declared, &mut result)?;
        Ok(OpExpr {
            opno: operator.oid,
            opfuncid: operator.code,
            opresulttype: result,
            opretset: false,
            opcollid: 0,
            inputcollid: 0,
            args,
            location: Location::UNKNOWN,
        })
    }

    /// Arguments cast to what is declared, once polymorphic types are found.
    pub(super) fn fitted(
        &mut self,
        args: Vec<Typed>,
        declared: &mut [Oid],
        result: &mut Oid,
    ) -> Result<Vec<Expr>> {
        let actual: Types = args.iter().map(Typed::ty).collect();
        generic::resolve(self.names, &actual, declared, result)?;
        let mut exprs = Vec::with_capacity(args.len());
        for (arg, to) in args.into_iter().zip(declared.iter()) {
            exprs.push(self.argument(arg, *to)?);
        }
        Ok(exprs)
    }

    /// An argument cast to the type that is declared; there is such a cast.
    pub(super) fn argument(&mut self, value: Typed, to: Oid) -> Result<Expr> {
        let with = (Context::Implicit, CoercionForm::ImplicitCast);
        coerced(self.names, self.params, value.expr, (to, -1), with, value.position)
    }

    /// An operator with one operand behind it.
    #[inline(never)]
    pub(super) fn prefix_operation(
        &mut self,
        name: &str,
        operand: Typed,
        e: &ast::Expr,
    ) -> Result<Expr> {
        let ty = operand.ty();
        let refuse = |binder: &mut Self, sqlstate, what: &str, hint: &str| {
            let at = binder.source.sign_before(place::start(e));
            let ty = type_name(binder.names, ty)?;
            let error = SqlError::new(sqlstate, format!("operator {what}: {name} {ty}"));
            Err(error.hint(hint).at(at))
        };
        match prefix(self.names, name, ty)? {
            Choice::One(found) => Ok(Expr::Op(self.operator_expr(&found.row, vec![operand])?)),
            Choice::None => refuse(self, state::UNDEFINED_FUNCTION, "does not exist", NO_UNARY),
            Choice::Ambiguous => {
                let state = state::AMBIGUOUS_FUNCTION;
                refuse(self, state, "is not unique", NOT_UNIQUE)
            }
        }
    }

    /// The error of operands for which there is no operator.
    pub(super) fn no_operator(
        &mut self,
        a: Oid,
        name: &str,
        b: Oid,
        left: &ast::Expr,
    ) -> Result<SqlError> {
        let (a, b) = (type_name(self.names, a)?, type_name(self.names, b)?);
        let message = format!("operator does not exist: {a} {name} {b}");
        let at = self.source.operator_after(place::end(left));
        Ok(SqlError::new(state::UNDEFINED_FUNCTION, message).hint(NO_OPERATOR).at(at))
    }

    /// Whether two values differ, NULL being a value.
    #[inline(never)]
    pub(super) fn distinction(&mut self, a: Typed, b: Typed, left: &ast::Expr) -> Result<Expr> {
        let operator = self.find_operator("=", (a.ty(), b.ty()), left)?;
        let OpExpr {
            opno,
            opfuncid,
            opresulttype,
            opretset,
            opcollid,
            inputcollid,
            args,
            location,
        } = self.operator_expr(&operator, vec![a, b])?;
        self.check_boolean(opresulttype, "IS DISTINCT FROM", left)?;
        Ok(Expr::Distinct(DistinctExpr {
            opno,
            opfuncid,
            opresulttype,
            opretset,
            opcollid,
            inputcollid,
            args,
            location,
        }))
    }

    fn check_boolean(&mut self, result: Oid, what: &str, left: &ast::Expr) -> Result<()> {
        if result == oids::BOOL {
            return Ok(());
        }
        let message = format!("{what} requires = operator to yield boolean");
        let at = self.source.operator_after(place::end(left));
        Err(SqlError::new(state::DATATYPE_MISMATCH, message).at(at))
    }

    /// NULLIF.
    #[inline(never)]
    pub(super) fn null_if(&mut self, a: Typed, b: Typed, position: u32) -> Result<Expr> {
        let (x, y) = (a.ty(), b.ty());
        let operator = match binary(self.names, "=", x, y)? {
            Choice::One(found) => found.row,
            Choice::Ambiguous | Choice::None => {
                let (x, y) = (type_name(self.names, x)?, type_name(self.names, y)?);
                let message = format!("operator does not exist: {x} = {y}");
                let error = SqlError::new(state::UNDEFINED_FUNCTION, message);
                return Err(error.hint(NO_OPERATOR).at(position));
            }
        };
        let OpExpr { opno, opfuncid, opretset, opcollid, inputcollid, args, location, .. } =
            self.operator_expr(&operator, vec![a, b])?;
        let opresulttype = args.first().map_or(oids::UNKNOWN, type_of);
        Ok(Expr::NullIf(NullIfExpr {
            opno,
            opfuncid,
            opresulttype,
            opretset,
            opcollid,
            inputcollid,
            args,
            location,
        }))
    }
}
