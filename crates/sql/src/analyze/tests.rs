//! Expressions that are true, false or unknown.

use super::bind::Binder;
use super::context::Context;
use super::place;
use super::typed::{Typed, call, logic, not};
use crate::error::{Result, SqlError};
use forebay_engine::nodes::{
    BoolExprType, BoolTestType, BooleanTest, CoercionForm, Expr, Location, NullTest, NullTestType,
};
use forebay_types::{Datum, Oid, oids};
use sqlparser::ast;

/// like_escape(text, text)
const LIKE_ESCAPE: u32 = 1637;

impl Binder<'_> {
    /// Binds what is true, false or unknown.
    #[inline(never)]
    pub(super) fn bind_test(&mut self, e: &ast::Expr, position: u32) -> Result<Typed> {
        use BoolTestType as B;
        match e {
            ast::Expr::IsNull(x) => self.null_test(x, position, NullTestType::IsNull),
            ast::Expr::IsNotNull(x) => self.null_test(x, position, NullTestType::IsNotNull),
            ast::Expr::IsTrue(x) => self.bool_test(x, position, "IS TRUE", B::IsTrue),
            ast::Expr::IsNotTrue(x) => self.bool_test(x, position, "IS NOT TRUE", B::IsNotTrue),
            ast::Expr::IsFalse(x) => self.bool_test(x, position, "IS FALSE", B::IsFalse),
            ast::Expr::IsNotFalse(x) => self.bool_test(x, position, "IS NOT FALSE", B::IsNotFalse),
            ast::Expr::IsUnknown(x) => self.bool_test(x, position, "IS UNKNOWN", B::IsUnknown),
            ast::Expr::IsNotUnknown(x) => {
                self.bool_test(x, position, "IS NOT UNKNOWN", B::IsNotUnknown)
            }
            ast::Expr::IsDistinctFrom(a, b) => self.distinct(a, b, false, position),
            ast::Expr::IsNotDistinctFrom(a, b) => self.distinct(a, b, true, position),
            ast::Expr::InList { expr, list, negated } => {
                self.in_list(expr, list, *negated, position)
            }
            ast::Expr::AnyOp { left, compare_op, right, is_some: _ } => {
                self.array_test((left, right), compare_op, false, position)
            }
            ast::Expr::AllOp { left, compare_op, right } => {
                self.array_test((left, right), compare_op, true, position)
            }
            ast::Expr::Between { expr, negated, low, high } => {
                self.between(expr, *negated, low, high, position)
            }
            ast::Expr::Like { negated, any: false, expr, pattern, escape_char } => {
                let name = if *negated { "!~~" } else { "~~" };
                self.like((expr, pattern), escape_char.as_deref(), name, position)
            }
            ast::Expr::ILike { negated, any: false, expr, pattern, escape_char } => {
                let name = if *negated { "!~~*" } else { "~~*" };
                self.like((expr, pattern), escape_char.as_deref(), name, position)
            }
            _ => self.bind_syntax(e, position),
        }
    }

    #[inline(never)]
    fn null_test(&mut self, e: &ast::Expr, position: u32, test: NullTestType) -> Result<Typed> {
        let operand = self.bind(e)?;
        let argisrow = self.is_row(operand.ty())?;
        let test = NullTest {
            arg: Box::new(operand.expr),
            nulltesttype: test,
            argisrow,
            location: Location::UNKNOWN,
        };
        Ok(Typed::new(test, position))
    }

    /// Whether values of a type are rows, of which a test for NULL looks at each field.
    fn is_row(&mut self, ty: Oid) -> Result<bool> {
        let base = self.names.base_type(ty)?;
        Ok(base == oids::RECORD || self.names.ty(base)?.kind == b'c')
    }

    #[inline(never)]
    fn bool_test(
        &mut self,
        e: &ast::Expr,
        position: u32,
        what: &str,
        test: BoolTestType,
    ) -> Result<Typed> {
        let arg = Box::new(self.condition(e, what)?);
        let test = BooleanTest { arg, booltesttype: test, location: Location::UNKNOWN };
        Ok(Typed::new(test, position))
    }

    #[inline(never)]
    fn distinct(
        &mut self,
        a: &ast::Expr,
        b: &ast::Expr,
        negated: bool,
        position: u32,
    ) -> Result<Typed> {
        let (left, right) = (self.bind(a)?, self.bind(b)?);
        let distinct = self.distinction(left, right, a)?;
        Ok(Typed::new(if negated { not(distinct) } else { distinct }, position))
    }

    #[inline(never)]
    fn between(
        &mut self,
        e: &ast::Expr,
        negated: bool,
        low: &ast::Expr,
        high: &ast::Expr,
        position: u32,
    ) -> Result<Typed> {
        let (mut value, low) = (self.bind(e)?, self.bind(low)?);
        let again = self.copy(&value)?;
        let (below, above, kind) = match negated {
            false => (">=", "<=", BoolExprType::And),
            true => ("<", ">", BoolExprType::Or),
        };
        let first = self.operation(below, again, low, e)?;
        // The first comparison may have told the types of parameters.
        self.params.settle(&mut value.expr);
        let high = self.bind(high)?;
        let second = self.operation(above, value, high, e)?;
        let first = self.boolean(Typed::new(first, position), "BETWEEN")?;
        let second = self.boolean(Typed::new(second, position), "BETWEEN")?;
        Ok(Typed::new(logic(kind, vec![first, second]), position))
    }

    #[inline(never)]
    fn like(
        &mut self,
        (e, pattern): (&ast::Expr, &ast::Expr),
        escape: Option<&ast::Expr>,
        name: &str,
        position: u32,
    ) -> Result<Typed> {
        let (value, mut pattern) = (self.bind(e)?, self.bind(pattern)?);
        if let Some(escape) = escape {
            let escape = self.bind(escape)?;
            let mut args = Vec::new();
            for arg in [pattern, escape] {
                let at = arg.position;
                let text =
                    super::coerce(self.names, self.params, arg, oids::TEXT, Context::Implicit)?;
                let Some(text) = text else {
                    let what = "ESCAPE of a value that is no text";
                    return Err(SqlError::unsupported(what).at(at));
                };
                args.push(text.expr);
            }
            check_escape(&args)?;
            let form = CoercionForm::ExplicitCall;
            pattern = Typed::new(call(LIKE_ESCAPE, oids::TEXT, form, args), position);
        }
        let matched = self.operation(name, value, pattern, e)?;
        Ok(Typed::new(matched, position))
    }

    /// The position of the operator behind an expression.
    pub(super) fn operator_behind(&self, e: &ast::Expr) -> u32 {
        self.source.operator_after(place::end(e))
    }
}

/// Refuses an escape string of several characters, as soon as it is known.
fn check_escape(args: &[Expr]) -> Result<()> {
    match args.get(1) {
        Some(Expr::Const(escape)) => match &escape.constvalue {
            Datum::Text(text) if text.chars().count() > 1 => {
                let error = SqlError::new("22025", "invalid escape string");
                Err(error.hint("Escape string must be empty or one character."))
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}
