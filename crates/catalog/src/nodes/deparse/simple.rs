//! Which expressions need no parentheses inside another one.

use super::super::error::Result;
use super::super::expr::{Expr, OpExpr};
use super::super::facts::type_of;
use super::super::kinds::{BoolExprType, CoercionForm};
use super::printer::Printer;

impl Printer<'_> {
    /// An argument of `parent`, in parentheses if it needs them there. In the style that always
    /// has parentheses, whoever prints the argument's node has put them.
    pub(super) fn argument(&mut self, expr: &Expr, implicit: bool, parent: &Expr) -> Result<()> {
        let wrapped = self.style.pretty && !self.is_simple(expr, parent)?;
        if wrapped {
            self.push("(");
        }
        self.expr(expr, implicit)?;
        if wrapped {
            self.push(")");
        }
        Ok(())
    }

    /// Whether an expression reads right inside `parent` without parentheses.
    fn is_simple(&mut self, expr: &Expr, parent: &Expr) -> Result<bool> {
        Ok(match expr {
            Expr::Var(_)
            | Expr::Const(_)
            | Expr::Param(_)
            | Expr::CoerceToDomainValue(_)
            | Expr::SetToDefault(_)
            | Expr::SubscriptingRef(_)
            | Expr::Array(_)
            | Expr::Row(_)
            | Expr::Coalesce(_)
            | Expr::MinMax(_)
            | Expr::SqlValue(_)
            | Expr::NextValue(_)
            | Expr::NullIf(_)
            | Expr::Func(_)
            | Expr::Case(_) => true,
            Expr::FieldSelect(_) => !matches!(parent, Expr::FieldSelect(_)),
            Expr::CoerceToDomain(node) => self.is_simple(&node.arg, expr)?,
            Expr::RelabelType(node) => self.is_simple(&node.arg, expr)?,
            Expr::CoerceViaIo(node) => self.is_simple(&node.arg, expr)?,
            Expr::ArrayCoerce(node) => self.is_simple(&node.arg, expr)?,
            Expr::ConvertRowtype(node) => self.is_simple(&node.arg, expr)?,
            Expr::Returning(node) => self.is_simple(&node.retexpr, expr)?,
            Expr::Op(node) => match parent {
                Expr::Op(outer) => self.binds_tighter(node, outer, expr)?,
                _ => separates(parent) || matches!(parent, Expr::Bool(_)),
            },
            Expr::NullTest(_) | Expr::BooleanTest(_) | Expr::Distinct(_) => {
                separates(parent) || matches!(parent, Expr::Bool(_))
            }
            Expr::Bool(node) => match parent {
                Expr::Bool(outer) => match node.boolop {
                    BoolExprType::Not | BoolExprType::And => outer.boolop != BoolExprType::Not,
                    BoolExprType::Or => outer.boolop == BoolExprType::Or,
                },
                _ => separates(parent),
            },
            Expr::NamedArg(_)
            | Expr::ScalarArrayOp(_)
            | Expr::Collate(_)
            | Expr::CaseTest(_)
            | Expr::RowCompare(_) => false,
        })
    }

    /// Whether an arithmetic operator inside another one is applied first anyway.
    fn binds_tighter(&mut self, inner: &OpExpr, outer: &OpExpr, expr: &Expr) -> Result<bool> {
        let Some(inner) = self.arithmetic(inner)? else { return Ok(false) };
        let Some(outer_precedence) = self.arithmetic(outer)? else { return Ok(false) };
        // Equal ones are applied from left to right.
        let is_left = outer.args.first().is_some_and(|first| std::ptr::eq(first, expr));
        Ok(inner > outer_precedence || (inner == outer_precedence && is_left))
    }

    /// The precedence of an arithmetic operator with two arguments.
    fn arithmetic(&mut self, op: &OpExpr) -> Result<Option<u8>> {
        let [left, right] = op.args.as_slice() else { return Ok(None) };
        let name = self.names.operator(op.opno, type_of(left), type_of(right))?;
        Ok(match (name.schema, name.name.as_str()) {
            (None, "+" | "-") => Some(1),
            (None, "*" | "/" | "%") => Some(2),
            _ => None,
        })
    }
}

/// Whether an expression puts its arguments into brackets, or between keywords or commas.
fn separates(parent: &Expr) -> bool {
    match parent {
        Expr::Func(call) => matches!(call.funcformat, CoercionForm::ExplicitCall),
        Expr::SubscriptingRef(_)
        | Expr::Array(_)
        | Expr::Row(_)
        | Expr::Coalesce(_)
        | Expr::MinMax(_)
        | Expr::NullIf(_)
        | Expr::Case(_) => true,
        _ => false,
    }
}
