//! Each kind of node.

use super::super::error::{NodeError, Result};
use super::super::expr::{Expr, FieldSelect, NullTest, SqlValueFunction, Var};
use super::super::facts::type_of;
use super::super::kinds::{
    BoolExprType, BoolTestType, CoercionForm, MinMaxOp, NullTestType, ParamKind, SqlValueFunctionOp,
};
use super::calls::{first, two};
use super::constants::Label;
use super::printer::Printer;
use crate::identifier::quoted;

impl Printer<'_> {
    /// An expression, in one term. With `implicit`, a conversion at its top is written even if the
    /// user did not write it: an argument of a function needs it to be found again.
    pub(super) fn expr(&mut self, expr: &Expr, implicit: bool) -> Result<()> {
        let hidden = |form| matches!(form, CoercionForm::ImplicitCast) && !implicit;
        match expr {
            Expr::Var(var) => self.variable(var),
            Expr::Const(constant) => self.constant(constant, Label::IfNeeded),
            Expr::Param(param) if param.paramkind == ParamKind::Extern => {
                self.push(&format!("${}", param.paramid));
                Ok(())
            }
            Expr::Func(call) => self.call(call, implicit, expr),
            Expr::NamedArg(named) => {
                self.push(&format!("{} => ", quoted(&named.name)));
                self.expr(&named.arg, implicit)
            }
            Expr::Op(op) => self.operation(op.opno, &op.args, expr),
            Expr::SubscriptingRef(node) => self.subscripts(node, implicit),
            Expr::FieldSelect(field) => self.field(field),
            Expr::RelabelType(node) if hidden(node.relabelformat) => {
                self.argument(&node.arg, false, expr)
            }
            Expr::RelabelType(node) => {
                self.coercion(&node.arg, node.resulttype, node.resulttypmod, expr)
            }
            Expr::CoerceViaIo(node) if hidden(node.coerceformat) => {
                self.argument(&node.arg, false, expr)
            }
            Expr::CoerceViaIo(node) => self.coercion(&node.arg, node.resulttype, -1, expr),
            Expr::ArrayCoerce(node) if hidden(node.coerceformat) => {
                self.argument(&node.arg, false, expr)
            }
            Expr::ArrayCoerce(node) => {
                self.coercion(&node.arg, node.resulttype, node.resulttypmod, expr)
            }
            Expr::ConvertRowtype(node) if hidden(node.convertformat) => {
                self.argument(&node.arg, false, expr)
            }
            Expr::ConvertRowtype(node) => self.coercion(&node.arg, node.resulttype, -1, expr),
            Expr::CoerceToDomain(node) if hidden(node.coercionformat) => {
                self.expr(&node.arg, false)
            }
            Expr::CoerceToDomain(node) => {
                self.coercion(&node.arg, node.resulttype, node.resulttypmod, expr)
            }
            Expr::Collate(node) => {
                self.parenthesis('(');
                self.argument(&node.arg, implicit, expr)?;
                self.collate(node.coll_oid)?;
                self.parenthesis(')');
                Ok(())
            }
            Expr::Case(case) => self.case(case),
            Expr::Row(row) => self.row(row),
            Expr::RowCompare(node) => self.row_comparison(node),
            Expr::Returning(node) => self.expr(&node.retexpr, implicit),
            _ => self.condition_or_construct(expr),
        }
    }

    /// Conditions, and constructs that look like functions or are a word.
    fn condition_or_construct(&mut self, expr: &Expr) -> Result<()> {
        match expr {
            Expr::Distinct(op) => {
                let (left, right) = two(&op.args)?;
                self.parenthesis('(');
                self.argument(left, true, expr)?;
                self.push(" IS DISTINCT FROM ");
                self.argument(right, true, expr)?;
                self.parenthesis(')');
                Ok(())
            }
            Expr::ScalarArrayOp(op) => {
                let (value, array) = two(&op.args)?;
                let element = self.names.element_type(type_of(array))?;
                self.parenthesis('(');
                self.argument(value, true, expr)?;
                self.push(" ");
                self.operator(op.opno, type_of(value), element)?;
                self.push(if op.use_or { " ANY (" } else { " ALL (" });
                self.argument(array, true, expr)?;
                self.push(")");
                self.parenthesis(')');
                Ok(())
            }
            Expr::Bool(node) => self.boolean(node.boolop, &node.args, expr),
            Expr::NullTest(node) => self.null_test(node, expr),
            Expr::BooleanTest(node) => {
                self.parenthesis('(');
                self.argument(&node.arg, false, expr)?;
                self.push(boolean_test(node.booltesttype));
                self.parenthesis(')');
                Ok(())
            }
            Expr::NullIf(op) => self.like_a_call("NULLIF(", &op.args),
            Expr::Coalesce(node) => self.like_a_call("COALESCE(", &node.args),
            Expr::MinMax(node) => {
                let greatest = node.op == MinMaxOp::Greatest;
                self.like_a_call(if greatest { "GREATEST(" } else { "LEAST(" }, &node.args)
            }
            Expr::Array(array) => {
                self.push("ARRAY[");
                self.list(&array.elements, true)?;
                self.push("]");
                // Elements say which type the array has.
                if array.elements.is_empty() { self.cast(array.array_typeid, -1) } else { Ok(()) }
            }
            Expr::SqlValue(node) => {
                self.sql_value(node);
                Ok(())
            }
            Expr::NextValue(node) => {
                let name = self.names.relation(node.seqid)?.to_string();
                self.push("nextval(");
                self.literal(&name);
                self.push(")");
                Ok(())
            }
            Expr::CoerceToDomainValue(_) => self.keyword_alone("VALUE"),
            Expr::SetToDefault(_) => self.keyword_alone("DEFAULT"),
            Expr::CaseTest(_) => self.keyword_alone("CASE_TEST_EXPR"),
            _ => Err(NodeError::Unsupported { what: "an internal parameter".to_owned() }),
        }
    }

    fn keyword_alone(&mut self, keyword: &str) -> Result<()> {
        self.push(keyword);
        Ok(())
    }

    fn like_a_call(&mut self, begin: &str, args: &[Expr]) -> Result<()> {
        self.push(begin);
        self.list(args, true)?;
        self.push(")");
        Ok(())
    }

    /// Expressions with commas between them.
    pub(super) fn list(&mut self, exprs: &[Expr], implicit: bool) -> Result<()> {
        for (n, expr) in exprs.iter().enumerate() {
            if n > 0 {
                self.push(", ");
            }
            self.expr(expr, implicit)?;
        }
        Ok(())
    }

    /// A column, or the whole row.
    fn variable(&mut self, var: &Var) -> Result<()> {
        if var.varattno == 0 {
            let table = self.names.table()?;
            self.push(&format!("{}.*", quoted(&table)));
        } else {
            let column = self.names.column(var.varattno)?;
            self.push(&quoted(&column));
        }
        Ok(())
    }

    /// (value).field
    fn field(&mut self, field: &FieldSelect) -> Result<()> {
        let wrapped = !matches!(&*field.arg, Expr::SubscriptingRef(_) | Expr::FieldSelect(_));
        if wrapped {
            self.push("(");
        }
        self.expr(&field.arg, true)?;
        if wrapped {
            self.push(")");
        }
        let number = u32::try_from(field.fieldnum).unwrap_or_default();
        let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        let name = match &*field.arg {
            // A row that was made of a whole-row column knows its fields' names.
            Expr::Row(row) => place.and_then(|n| row.colnames.get(n)).map(|name| name.0.clone()),
            _ => None,
        };
        let name = match name {
            Some(name) => name,
            None => {
                let fields = self.names.fields(type_of(&field.arg))?.unwrap_or_default();
                let found = place.and_then(|n| fields.get(n)).cloned().flatten();
                found.ok_or(NodeError::Missing { what: "field", oid: number })?
            }
        };
        self.push(&format!(".{}", quoted(&name)));
        Ok(())
    }

    fn boolean(&mut self, op: BoolExprType, args: &[Expr], node: &Expr) -> Result<()> {
        self.parenthesis('(');
        match op {
            BoolExprType::Not => {
                self.push("NOT ");
                self.argument(first(args)?, false, node)?;
            }
            BoolExprType::And | BoolExprType::Or => {
                let between = if op == BoolExprType::And { " AND " } else { " OR " };
                for (n, arg) in args.iter().enumerate() {
                    if n > 0 {
                        self.push(between);
                    }
                    self.argument(arg, false, node)?;
                }
            }
        }
        self.parenthesis(')');
        Ok(())
    }

    fn null_test(&mut self, test: &NullTest, node: &Expr) -> Result<()> {
        // IS NULL of a row would test its fields.
        let of_row = !test.argisrow && self.names.fields(type_of(&test.arg))?.is_some();
        self.parenthesis('(');
        self.argument(&test.arg, true, node)?;
        self.push(match (test.nulltesttype, of_row) {
            (NullTestType::IsNull, false) => " IS NULL",
            (NullTestType::IsNotNull, false) => " IS NOT NULL",
            (NullTestType::IsNull, true) => " IS NOT DISTINCT FROM NULL",
            (NullTestType::IsNotNull, true) => " IS DISTINCT FROM NULL",
        });
        self.parenthesis(')');
        Ok(())
    }

    fn sql_value(&mut self, node: &SqlValueFunction) {
        let (name, has_precision) = match node.op {
            SqlValueFunctionOp::CurrentDate => ("CURRENT_DATE", false),
            SqlValueFunctionOp::CurrentTime => ("CURRENT_TIME", false),
            SqlValueFunctionOp::CurrentTimeN => ("CURRENT_TIME", true),
            SqlValueFunctionOp::CurrentTimestamp => ("CURRENT_TIMESTAMP", false),
            SqlValueFunctionOp::CurrentTimestampN => ("CURRENT_TIMESTAMP", true),
            SqlValueFunctionOp::Localtime => ("LOCALTIME", false),
            SqlValueFunctionOp::LocaltimeN => ("LOCALTIME", true),
            SqlValueFunctionOp::Localtimestamp => ("LOCALTIMESTAMP", false),
            SqlValueFunctionOp::LocaltimestampN => ("LOCALTIMESTAMP", true),
            SqlValueFunctionOp::CurrentRole => ("CURRENT_ROLE", false),
            SqlValueFunctionOp::CurrentUser => ("CURRENT_USER", false),
            SqlValueFunctionOp::User => ("USER", false),
            SqlValueFunctionOp::SessionUser => ("SESSION_USER", false),
            SqlValueFunctionOp::CurrentCatalog => ("CURRENT_CATALOG", false),
            SqlValueFunctionOp::CurrentSchema => ("CURRENT_SCHEMA", false),
        };
        self.push(name);
        if has_precision {
            self.push(&format!("({})", node.typmod));
        }
    }
}

fn boolean_test(test: BoolTestType) -> &'static str {
    match test {
        BoolTestType::IsTrue => " IS TRUE",
        BoolTestType::IsNotTrue => " IS NOT TRUE",
        BoolTestType::IsFalse => " IS FALSE",
        BoolTestType::IsNotFalse => " IS NOT FALSE",
        BoolTestType::IsUnknown => " IS UNKNOWN",
        BoolTestType::IsNotUnknown => " IS NOT UNKNOWN",
    }
}
