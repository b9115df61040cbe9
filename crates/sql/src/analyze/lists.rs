//! Comparisons with several values: IN, ANY and ALL of arrays, and comparisons of rows.

use super::bind::Binder;
use super::candidates::Types;
use super::common::{all_fit, select, to_common};
use super::function::{FunctionCall, is_row};
use super::generic;
use super::lookups::Names;
use super::place;
use super::type_names::type_name;
use super::typed::{Typed, logic};
use crate::error::{Result, SqlError, state};
use forebay_engine::nodes::{
    BoolExprType, CoercionForm, CompareType, Expr, Location, RowCompareExpr, RowExpr,
    ScalarArrayOpExpr,
};
use forebay_types::{Oid, oids};
use sqlparser::ast::{self, BinaryOperator};

/// The access method btree.
const BTREE: Oid = 403;

impl Binder<'_> {
    #[inline(never)]
    pub(super) fn in_list(
        &mut self,
        e: &ast::Expr,
        list: &[ast::Expr],
        negated: bool,
        position: u32,
    ) -> Result<Typed> {
        if let Some(row) = self.row_of(e)? {
            return self.rows_in_list(&row, list, negated, position);
        }
        let operand = self.bind(e)?;
        let (mut fixed, mut rest) = (Vec::new(), Vec::new());
        for item in list {
            let item = self.bind(item)?;
            if has_columns(&item.expr) { rest.push(item) } else { fixed.push(item) }
        }
        let mut tests = Vec::new();
        // PostgreSQL makes an array of the values that have a common type with the operand, or else
        // a chain of comparisons: then each item resolves its own operator.
        let mut ty = None;
        if fixed.len() > 1 {
            let again = self.copy(&operand)?;
            fixed.insert(0, again);
            if let Ok(common) = select(self.names, &fixed)?
                && common != oids::RECORD
                && self.names.array_of(common)?.is_some()
                && all_fit(self.names, &fixed, common)?
            {
                ty = Some(common);
            }
            fixed.remove(0);
        }
        let (name, kind) = match negated {
            false => ("=", BoolExprType::Or),
            true => ("<>", BoolExprType::And),
        };
        if let Some(ty) = ty {
            let mut elements = Vec::with_capacity(fixed.len());
            for item in fixed.drain(..) {
                elements.push(to_common(self.names, self.params, item, ty, "IN")?);
            }
            let array = Typed::new(self.array_node(elements, ty)?, position);
            let again = self.copy(&operand)?;
            tests.push(self.scalar_array((again, e), array, name, !negated, position)?);
        }
        for item in fixed.into_iter().chain(rest) {
            let again = self.copy(&operand)?;
            let test = self.operation(name, again, item, e)?;
            tests.push(self.boolean(Typed::new(test, position), "IN")?);
        }
        let expr = match tests.len() {
            1 => tests.remove(0),
            _ => logic(kind, tests),
        };
        Ok(Typed::new(expr, position))
    }

    #[inline(never)]
    fn rows_in_list(
        &mut self,
        row: &[&ast::Expr],
        list: &[ast::Expr],
        negated: bool,
        position: u32,
    ) -> Result<Typed> {
        let (name, kind) = match negated {
            false => ("=", BoolExprType::Or),
            true => ("<>", BoolExprType::And),
        };
        let mut chain = Vec::new();
        for item in list {
            let Some(other) = self.row_of(item)? else {
                let at = self.position(item);
                return Err(SqlError::unsupported("a row beside another value").at(at));
            };
            chain.push(self.rows_compared(name, row, &other, position)?);
        }
        let expr = if chain.len() == 1 { chain.remove(0) } else { logic(kind, chain) };
        Ok(Typed::new(expr, position))
    }

    /// ANY and ALL of an array.
    #[inline(never)]
    pub(super) fn array_test(
        &mut self,
        (left, right): (&ast::Expr, &ast::Expr),
        operator: &BinaryOperator,
        all: bool,
        position: u32,
    ) -> Result<Typed> {
        if matches!(right, ast::Expr::Subquery(_)) {
            return Err(SqlError::unsupported("a subquery in an expression").at(position));
        }
        let name = match operator {
            BinaryOperator::NotEq => "<>".to_owned(),
            other => other.to_string(),
        };
        let value = self.bind(left)?;
        let array = self.bind(right)?;
        let expr = self.scalar_array((value, left), array, &name, !all, position)?;
        Ok(Typed::new(expr, position))
    }

    /// A test of a value against the elements of an array.
    #[inline(never)]
    fn scalar_array(
        &mut self,
        (value, left): (Typed, &ast::Expr),
        array: Typed,
        name: &str,
        any: bool,
        position: u32,
    ) -> Result<Expr> {
        let at = self.operator_behind(left);
        let refuse =
            |message: &str| Err(SqlError::new(state::WRONG_OBJECT_TYPE, message.to_owned()).at(at));
        let (value_type, array_type) = (value.ty(), array.ty());
        let element = match array_type {
            oids::UNKNOWN => oids::UNKNOWN,
            ty => match self.names.element_of(ty)? {
                Some(element) => element,
                None => return refuse("op ANY/ALL (array) requires array on right side"),
            },
        };
        let operator = self.find_operator(name, (value_type, element), left)?;
        let mut declared = Types::from_slice(&[operator.left, operator.right]);
        let mut result = operator.result;
        generic::resolve(self.names, &[value_type, element], &mut declared, &mut result)?;
        if result != oids::BOOL {
            return refuse("op ANY/ALL (array) requires operator to yield boolean");
        }
        let [left_type, right_type] = declared[..] else {
            return refuse("op ANY/ALL (array) requires operator with two operands");
        };
        let Some(declared_array) = self.names.array_of(right_type)? else {
            let ty = type_name(self.names, right_type)?;
            let message = format!("could not find array type for data type {ty}");
            return Err(SqlError::new(state::UNDEFINED_OBJECT, message).at(at));
        };
        let args = vec![
            self.argument(value, left_type)?,
            self.argument(Typed::new(array.expr, array.position.max(position)), declared_array)?,
        ];
        Ok(Expr::ScalarArrayOp(ScalarArrayOpExpr {
            opno: operator.oid,
            opfuncid: operator.code,
            hashfuncid: 0,
            negfuncid: 0,
            use_or: any,
            inputcollid: 0,
            args,
            location: Location::UNKNOWN,
        }))
    }

    /// The columns of a row constructor.
    pub(super) fn row_of<'e>(&self, e: &'e ast::Expr) -> Result<Option<Vec<&'e ast::Expr>>> {
        Ok(match e {
            ast::Expr::Tuple(list) => Some(list.iter().collect()),
            ast::Expr::Function(f) if is_row(f) => {
                let call = FunctionCall::new(f, self.position(e))?;
                let plain = !call.star && !call.distinct && call.filter.is_none();
                plain.then_some(call.args)
            }
            _ => None,
        })
    }

    /// ROW(...) as a value.
    #[inline(never)]
    pub(super) fn row(&mut self, e: &ast::Expr, position: u32) -> Result<Typed> {
        let mut args = Vec::new();
        for column in self.row_of(e)?.unwrap_or_default() {
            args.push(self.bind(column)?);
        }
        Ok(self.row_node(args, position))
    }

    pub(super) fn row_node(&mut self, args: Vec<Typed>, position: u32) -> Typed {
        let row = RowExpr {
            args: args.into_iter().map(|arg| arg.expr).collect(),
            row_typeid: oids::RECORD,
            row_format: CoercionForm::ImplicitCast,
            colnames: Vec::new(),
            location: Location::UNKNOWN,
        };
        Typed::new(row, position)
    }

    /// A comparison of rows, if both operands are rows.
    #[inline(never)]
    pub(super) fn row_comparison(
        &mut self,
        (left, right): (&ast::Expr, &ast::Expr),
        operator: &BinaryOperator,
        position: u32,
    ) -> Result<Option<Typed>> {
        let name = match operator {
            BinaryOperator::Eq => "=",
            BinaryOperator::NotEq => "<>",
            BinaryOperator::Lt => "<",
            BinaryOperator::LtEq => "<=",
            BinaryOperator::Gt => ">",
            BinaryOperator::GtEq => ">=",
            _ => return Ok(None),
        };
        let (Some(a), Some(b)) = (self.row_of(left)?, self.row_of(right)?) else {
            return Ok(None);
        };
        let between = (place::end(left), place::start(right));
        let at = self.source.operator_between(&operator.to_string(), between.0, between.1);
        let expr = self.rows_compared(name, &a, &b, at)?;
        Ok(Some(Typed::new(expr, position)))
    }

    #[inline(never)]
    fn rows_compared(
        &mut self,
        name: &str,
        a: &[&ast::Expr],
        b: &[&ast::Expr],
        at: u32,
    ) -> Result<Expr> {
        let fails = |sqlstate, message| Err(SqlError::new(sqlstate, message).at(at));
        if a.len() != b.len() {
            return fails(state::SYNTAX_ERROR, "unequal number of entries in row expressions");
        }
        if a.is_empty() {
            return fails(state::FEATURE_NOT_SUPPORTED, "cannot compare rows of zero length");
        }
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for e in a {
            left.push(self.bind(e)?);
        }
        for e in b {
            right.push(self.bind(e)?);
        }
        let (mut tests, mut operators) = (Vec::new(), Vec::new());
        for ((e, a), b) in a.iter().zip(left).zip(right) {
            let found = self.find_operator(name, (a.ty(), b.ty()), e).map_err(|e| e.at(at))?;
            let test = self.operator_expr(&found, vec![a, b]).map_err(|e| e.at(at))?;
            if test.opresulttype != oids::BOOL {
                let ty = type_name(self.names, test.opresulttype)?;
                let message =
                    format!("row comparison operator must yield type boolean, not type {ty}");
                return Err(SqlError::new(state::DATATYPE_MISMATCH, message).at(at));
            }
            operators.push(found.oid);
            tests.push(test);
        }
        if tests.len() == 1 {
            return Ok(Expr::Op(tests.remove(0)));
        }
        let cmptype = match name {
            "=" | "<>" => {
                let kind = if name == "=" { BoolExprType::And } else { BoolExprType::Or };
                return Ok(logic(kind, tests.into_iter().map(Expr::Op).collect()));
            }
            "<" => CompareType::Lt,
            "<=" => CompareType::Le,
            ">=" => CompareType::Ge,
            _ => CompareType::Gt,
        };
        let opfamilies = self.families_of(name, &operators, cmptype, at)?;
        let (mut largs, mut rargs) = (Vec::new(), Vec::new());
        for mut test in tests {
            rargs.extend(test.args.pop());
            largs.extend(test.args.pop());
        }
        let inputcollids = vec![0; operators.len()];
        Ok(Expr::RowCompare(RowCompareExpr {
            cmptype,
            opnos: operators,
            opfamilies,
            inputcollids,
            largs,
            rargs,
        }))
    }

    /// The operator families of btree in which operators order rows.
    fn families_of(
        &mut self,
        name: &str,
        operators: &[Oid],
        cmptype: CompareType,
        at: u32,
    ) -> Result<Vec<Oid>> {
        let mut opfamilies = Vec::with_capacity(operators.len());
        for operator in operators {
            let members = self.names.family_members(*operator)?;
            let member = members
                .iter()
                .find(|m| m.method == BTREE && i32::from(m.strategy) == cmptype.number());
            let Some(member) = member else {
                let message =
                    format!("could not determine interpretation of row comparison operator {name}");
                let hint = "Row comparison operators must be associated with btree operator \
                            families.";
                let error = SqlError::new(state::FEATURE_NOT_SUPPORTED, message);
                return Err(error.hint(hint).at(at));
            };
            opfamilies.push(member.family);
        }
        Ok(opfamilies)
    }
}

/// Whether an expression reads a column.
fn has_columns(expr: &Expr) -> bool {
    let mut found = matches!(expr, Expr::Var(_));
    expr.visit_children(&mut |child| found = found || has_columns(child));
    found
}

/// Whether a type has an order: a default operator class of btree.
pub fn is_ordered(names: &mut dyn Names, ty: Oid) -> Result<bool> {
    let base = names.base_type(ty)?;
    let row = names.ty(base)?;
    if row.is_array() {
        return is_ordered(names, row.elem);
    }
    let classes = names.operator_classes(BTREE)?;
    let defaults = classes.iter().filter(|class| class.is_default);
    for class in defaults {
        if class.input == base {
            return Ok(true);
        }
    }
    for class in classes.iter().filter(|class| class.is_default) {
        if super::pathway::is_binary_coercible(names, base, class.input)? {
            return Ok(true);
        }
    }
    Ok(false)
}
