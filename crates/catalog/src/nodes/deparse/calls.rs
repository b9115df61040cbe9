//! Functions, operators, CASE, subscripts and rows.

use super::super::error::{NodeError, Result};
use super::super::expr::{CaseExpr, Expr, FuncExpr, RowCompareExpr, RowExpr, SubscriptingRef};
use super::super::facts::{length_coercion, type_of};
use super::super::kinds::CoercionForm;
use super::super::names::Call;
use super::constants::Label;
use super::printer::Printer;
use crate::identifier::quoted;

/// By how much the lines of CASE are indented.
const CASE_INDENT: i32 = 4;

/// The arguments of an operator or a construct that has two.
pub(super) fn two(args: &[Expr]) -> Result<(&Expr, &Expr)> {
    match args {
        [first, second] => Ok((first, second)),
        _ => Err(NodeError::Arguments),
    }
}

/// The first argument of a node that has one at least.
pub(super) fn first(args: &[Expr]) -> Result<&Expr> {
    args.first().ok_or_else(|| NodeError::Arguments)
}

impl Printer<'_> {
    /// An operator's name, as expressions write it.
    pub(super) fn operator(&mut self, opno: u32, left: u32, right: u32) -> Result<()> {
        let found = self.names.operator(opno, left, right)?;
        match found.schema {
            Some(schema) => {
                self.push(&format!("OPERATOR({}.{})", quoted(&schema), found.name));
            }
            None => self.push(&found.name),
        }
        Ok(())
    }

    /// An operator with its arguments.
    pub(super) fn operation(&mut self, opno: u32, args: &[Expr], node: &Expr) -> Result<()> {
        self.parenthesis('(');
        if let [arg] = args {
            self.operator(opno, 0, type_of(arg))?;
            self.push(" ");
            self.argument(arg, true, node)?;
        } else {
            let (left, right) = two(args)?;
            self.argument(left, true, node)?;
            self.push(" ");
            self.operator(opno, type_of(left), type_of(right))?;
            self.push(" ");
            self.argument(right, true, node)?;
        }
        self.parenthesis(')');
        Ok(())
    }

    /// A function's call, or the cast that it stands for.
    pub(super) fn call(&mut self, call: &FuncExpr, implicit: bool, node: &Expr) -> Result<()> {
        match call.funcformat {
            CoercionForm::ImplicitCast if !implicit => {
                self.argument(first(&call.args)?, false, node)
            }
            CoercionForm::ImplicitCast | CoercionForm::ExplicitCast => {
                let typmod = length_coercion(call).unwrap_or(-1);
                self.coercion(first(&call.args)?, call.funcresulttype, typmod, node)
            }
            CoercionForm::SqlSyntax if self.sql_syntax(call, node)? => Ok(()),
            CoercionForm::SqlSyntax | CoercionForm::ExplicitCall => self.plain_call(call),
        }
    }

    /// name(argument, ...)
    fn plain_call(&mut self, call: &FuncExpr) -> Result<()> {
        let types: Vec<u32> = call.args.iter().map(type_of).collect();
        let named = call.args.iter().filter_map(|arg| match arg {
            Expr::NamedArg(named) => Some(named.name.as_str()),
            _ => None,
        });
        let names: Vec<&str> = named.collect();
        let variadic = call.funcvariadic;
        let call_seen = Call { funcid: call.funcid, types: &types, names: &names, variadic };
        let name = self.names.function(call_seen)?.to_string();
        self.push(&name);
        self.push("(");
        for (n, arg) in call.args.iter().enumerate() {
            if n > 0 {
                self.push(", ");
            }
            if variadic && n + 1 == call.args.len() {
                self.push("VARIADIC ");
            }
            self.expr(arg, true)?;
        }
        self.push(")");
        Ok(())
    }

    /// CASE ... END
    pub(super) fn case(&mut self, case: &CaseExpr) -> Result<()> {
        self.keyword("CASE", 0, CASE_INDENT);
        if let Some(arg) = &case.arg {
            self.push(" ");
            self.expr(arg, true)?;
        }
        for when in &case.args {
            self.next_line("WHEN ", 0);
            let condition = match &*when.expr {
                // The condition compares the tested value: only the other one is written.
                Expr::Op(op) if case.arg.is_some() => match op.args.as_slice() {
                    [left, right] if matches!(stripped(left), Expr::CaseTest(_)) => right,
                    _ => &when.expr,
                },
                condition => condition,
            };
            self.expr(condition, false)?;
            self.push(" THEN ");
            self.expr(&when.result, true)?;
        }
        self.next_line("ELSE ", 0);
        if let Some(result) = &case.defresult {
            self.expr(result, true)?;
        }
        self.next_line("END", -CASE_INDENT);
        Ok(())
    }

    /// A keyword on a line of its own, or after a space.
    fn next_line(&mut self, keyword: &str, before: i32) {
        if !self.style.lines {
            self.push(" ");
        }
        self.keyword(keyword, before, 0);
    }

    /// container\[subscript\]
    pub(super) fn subscripts(&mut self, node: &SubscriptingRef, implicit: bool) -> Result<()> {
        if node.refassgnexpr.is_some() {
            return Err(NodeError::Unsupported { what: "an assignment to an element".to_owned() });
        }
        let wrapped = !matches!(&*node.refexpr, Expr::Var(_) | Expr::FieldSelect(_));
        if wrapped {
            self.push("(");
        }
        self.expr(&node.refexpr, implicit)?;
        if wrapped {
            self.push(")");
        }
        let mut lower = node.reflowerindexpr.iter();
        for upper in &node.refupperindexpr {
            self.push("[");
            if let Some(lower) = lower.next() {
                self.bound(lower.as_deref())?;
                self.push(":");
            }
            self.bound(upper.as_deref())?;
            self.push("]");
        }
        Ok(())
    }

    /// A subscript, or nothing for a bound that is left out.
    fn bound(&mut self, bound: Option<&Expr>) -> Result<()> {
        bound.map_or(Ok(()), |bound| self.expr(bound, false))
    }

    /// ROW(...). A row of a named type has NULL for columns that were added since.
    pub(super) fn row(&mut self, row: &RowExpr) -> Result<()> {
        let fields = match row.row_typeid {
            forebay_types::oids::RECORD => None,
            named => self.names.fields(named)?,
        };
        self.push("ROW(");
        let mut separator = "";
        let dropped = |n: usize| {
            let fields = fields.as_ref();
            fields.is_some_and(|fields| fields.get(n).is_some_and(Option::is_none))
        };
        for (_, arg) in row.args.iter().enumerate().filter(|(n, _)| !dropped(*n)) {
            self.push(separator);
            self.in_row(arg)?;
            separator = ", ";
        }
        let added = fields.iter().flatten().skip(row.args.len()).flatten();
        for _ in added {
            self.push(separator);
            self.push("NULL");
            separator = ", ";
        }
        self.push(")");
        match row.row_format {
            CoercionForm::ExplicitCast => self.cast(row.row_typeid, -1),
            _ => Ok(()),
        }
    }

    /// The comparison of two rows.
    pub(super) fn row_comparison(&mut self, node: &RowCompareExpr) -> Result<()> {
        let opno = *node.opnos.first().ok_or_else(|| NodeError::Arguments)?;
        let types = (type_of(first(&node.largs)?), type_of(first(&node.rargs)?));
        self.push("(ROW(");
        self.in_rows(&node.largs)?;
        self.push(") ");
        self.operator(opno, types.0, types.1)?;
        self.push(" ROW(");
        self.in_rows(&node.rargs)?;
        self.push("))");
        Ok(())
    }

    fn in_rows(&mut self, args: &[Expr]) -> Result<()> {
        for (n, arg) in args.iter().enumerate() {
            if n > 0 {
                self.push(", ");
            }
            self.in_row(arg)?;
        }
        Ok(())
    }

    /// A value in a row. A whole row gets a cast, since it would become its columns without.
    fn in_row(&mut self, arg: &Expr) -> Result<()> {
        self.expr(arg, true)?;
        match arg {
            Expr::Var(var) if var.varattno == 0 => self.cast(var.vartype, -1),
            _ => Ok(()),
        }
    }

    /// A constant of type text whose content is a keyword of the syntax.
    pub(super) fn word(&mut self, expr: &Expr) -> Result<()> {
        match expr {
            Expr::Const(constant) if constant.constvalue.as_str().is_some() => {
                let text = constant.constvalue.as_str().unwrap_or_default().to_owned();
                self.push(&text);
                Ok(())
            }
            Expr::Const(constant) => self.constant(constant, Label::IfNeeded),
            _ => Err(NodeError::Arguments),
        }
    }
}

/// The expression without conversions that are not written.
fn stripped(expr: &Expr) -> &Expr {
    let arg = match expr {
        Expr::Func(node) if matches!(node.funcformat, CoercionForm::ImplicitCast) => {
            node.args.first()
        }
        Expr::RelabelType(node) => implicit(node.relabelformat).then_some(&*node.arg),
        Expr::CoerceViaIo(node) => implicit(node.coerceformat).then_some(&*node.arg),
        Expr::ArrayCoerce(node) => implicit(node.coerceformat).then_some(&*node.arg),
        Expr::ConvertRowtype(node) => implicit(node.convertformat).then_some(&*node.arg),
        Expr::CoerceToDomain(node) => implicit(node.coercionformat).then_some(&*node.arg),
        _ => None,
    };
    arg.map_or(expr, stripped)
}

fn implicit(form: CoercionForm) -> bool {
    matches!(form, CoercionForm::ImplicitCast)
}
