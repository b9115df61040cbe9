//! Comparisons with several values: IN, ANY and ALL of arrays, and comparisons of rows.

use super::bind::Binder;
use super::coerce::{self, Context};
use super::expr::{Comparison, Expr, Typed};
use super::function::FunctionCall;
use super::index_read::all_of;
use super::place;
use super::resolve::{self, Choice, OperatorKind};
use super::update::is_row;
use crate::error::{Result, SqlError, state};
use forebay_types::{Datum, SqlType, array_elements};
use sqlparser::ast::{self, BinaryOperator};

/// The array operand of ANY or ALL.
enum Operand {
    /// ARRAY[...], of values of one type.
    Listed(Vec<Expr>, SqlType),
    /// Another expression.
    Other(Typed),
}

impl Binder<'_> {
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
        let mut items = vec![self.bind(e)?];
        for item in list {
            items.push(self.bind(item)?);
        }
        // PostgreSQL makes an array of the list if it has a common type with the operand, or else a
        // chain of comparisons: then each item resolves its own operator.
        if items.len() > 2 && coerce::common_type(&items, "IN").is_ok() {
            let (mut list, element) = coerce::coerce_all(items, "IN", self.params)?;
            resolve::check_computed("IN", element, position)?;
            let expr = Box::new(list.remove(0));
            let expr = Expr::InList { expr, list, element, negated };
            return Ok(Typed::new(expr, SqlType::Bool, position));
        }
        let operand = items.remove(0);
        if items.len() == 1
            && let Some(item) = items.pop()
        {
            let comparison = if negated { Comparison::Ne } else { Comparison::Eq };
            let expr = self.compared(comparison, operand, item, e)?;
            return Ok(Typed::new(expr, SqlType::Bool, position));
        }
        let mut chain = Vec::new();
        for item in items {
            let operand = self.copy(&operand)?;
            chain.push(self.compared(Comparison::Eq, operand, item, e)?);
        }
        Ok(Typed::new(any_of(chain, negated), SqlType::Bool, position))
    }

    fn rows_in_list(
        &mut self,
        row: &[&ast::Expr],
        list: &[ast::Expr],
        negated: bool,
        position: u32,
    ) -> Result<Typed> {
        let mut chain = Vec::new();
        for item in list {
            let Some(other) = self.row_of(item)? else {
                let at = self.position(item);
                return Err(SqlError::unsupported("a row beside another value").at(at));
            };
            chain.push(self.rows_compared(Comparison::Eq, "=", row, &other, position)?);
        }
        Ok(Typed::new(any_of(chain, negated), SqlType::Bool, position))
    }

    /// `= ANY` and `<> ALL` of an array.
    pub(super) fn array_test(
        &mut self,
        (left, right): (&ast::Expr, &ast::Expr),
        operator: &BinaryOperator,
        all: bool,
        position: u32,
    ) -> Result<Typed> {
        let at = self.source.operator_after(place::end(left));
        let comparison = match (operator, all) {
            (BinaryOperator::Eq, false) => Comparison::Eq,
            (BinaryOperator::NotEq, true) => Comparison::Ne,
            _ => {
                let word = if all { "ALL" } else { "ANY" };
                return Err(SqlError::unsupported(format!("{operator} {word} of an array")).at(at));
            }
        };
        let value = self.bind(left)?;
        let operand = self.array_operand(right)?;
        let element = match &operand {
            Operand::Listed(_, element) => *element,
            Operand::Other(array) if array.ty == SqlType::Unknown => SqlType::Unknown,
            Operand::Other(array) => array.ty.element().ok_or_else(|| {
                let message = "op ANY/ALL (array) requires array on right side";
                SqlError::new(state::WRONG_OBJECT_TYPE, message).at(at)
            })?,
        };
        let (value, common) = self.array_operator(comparison, value, element, left)?;
        let (expr, negated) = (Box::new(value), all);
        let expr = match operand {
            Operand::Listed(list, element) => {
                let mut cast = Vec::with_capacity(list.len());
                for item in list {
                    let item = Typed::new(item, element, 0);
                    cast.push(self.operand(item, common)?);
                }
                Expr::InList { expr, list: cast, element, negated }
            }
            Operand::Other(array) => self.of_array(expr, array, common, negated)?,
        };
        Ok(Typed::new(expr, SqlType::Bool, position))
    }

    /// The operator for a value and the elements of an array: the value, and their common type.
    fn array_operator(
        &mut self,
        comparison: Comparison,
        value: Typed,
        element: SqlType,
        left: &ast::Expr,
    ) -> Result<(Expr, SqlType)> {
        let name = if comparison == Comparison::Eq { "=" } else { "<>" };
        for ty in [value.ty, element] {
            let at = self.source.operator_after(place::end(left));
            resolve::check_computed(format_args!("operator {name}"), ty, at)?;
        }
        let kind = OperatorKind::Compare(comparison);
        let Choice::One(found) = resolve::operator(kind, value.ty, element) else {
            let other = Typed::new(Expr::Const(Datum::Null), element, 0);
            return Err(self.no_operator(&value, name, &other, left));
        };
        let common = found.common;
        Ok((self.operand(value, common)?, common))
    }

    fn array_operand(&mut self, e: &ast::Expr) -> Result<Operand> {
        match e {
            ast::Expr::Nested(inner) => self.array_operand(inner),
            ast::Expr::Array(array) => {
                let (list, element) = self.array_constructor(array, self.position(e))?;
                Ok(Operand::Listed(list, element))
            }
            ast::Expr::Cast { kind, expr, data_type, format: None } => match &**expr {
                // The cast says which type the elements have.
                ast::Expr::Array(array)
                    if matches!(kind, ast::CastKind::Cast | ast::CastKind::DoubleColon) =>
                {
                    let position = self.position(e);
                    let to = super::types::type_of_ast(self.catalog, data_type, position)?;
                    let Some(element) = to.element() else {
                        return Ok(Operand::Other(self.bind(e)?));
                    };
                    let mut list = Vec::with_capacity(array.elem.len());
                    for item in &array.elem {
                        let item = self.bind(item)?;
                        list.push(self.explicit(item, element, position)?.expr);
                    }
                    Ok(Operand::Listed(list, element))
                }
                _ => Ok(Operand::Other(self.bind(e)?)),
            },
            _ => Ok(Operand::Other(self.bind(e)?)),
        }
    }

    fn array_constructor(
        &mut self,
        array: &ast::Array,
        position: u32,
    ) -> Result<(Vec<Expr>, SqlType)> {
        let mut items = Vec::with_capacity(array.elem.len());
        for item in &array.elem {
            items.push(self.bind(item)?);
        }
        if items.is_empty() {
            let hint = "Explicitly cast to the desired type, for example ARRAY[]::integer[].";
            let message = "cannot determine type of empty array";
            let error = SqlError::new(state::INDETERMINATE_DATATYPE, message);
            return Err(error.hint(hint).at(position));
        }
        coerce::coerce_all(items, "ARRAY", self.params)
    }

    /// A test of a value against the elements of an array; both have a common type.
    fn of_array(
        &mut self,
        expr: Box<Expr>,
        array: Typed,
        common: SqlType,
        negated: bool,
    ) -> Result<Expr> {
        let (declared, position) = (array.ty, array.position);
        let ty = match declared {
            SqlType::Unknown => common.array().ok_or_else(|| {
                SqlError::unsupported(format!("an array of type {common}")).at(position)
            })?,
            known => known,
        };
        let element = ty.element().unwrap_or(common);
        // What it is compared as. Arrays are kept as texts, which read as well as the common type,
        // but for those of real: as double precision they are other numbers.
        let read = if element == SqlType::Float4 { element } else { common };
        let array = coerce::coerce(array, ty, Context::Implicit, self.params)?;
        let array = array.map(|array| array.expr).ok_or_else(|| {
            SqlError::new(state::INTERNAL_ERROR, "an array of another type").at(position)
        })?;
        Ok(match array {
            Expr::Const(Datum::Text(text)) => {
                let mut list = Vec::new();
                for value in array_elements(&text, read)? {
                    list.push(match value {
                        Datum::Float4(value) if common == SqlType::Float8 => {
                            Expr::Const(Datum::Float8(value.into()))
                        }
                        value => Expr::Const(value),
                    });
                }
                Expr::InList { expr, list, element, negated }
            }
            array => {
                Expr::InArray { expr, array: Box::new(array), elements: (read, common), negated }
            }
        })
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

    /// A comparison of rows, if both operands are rows.
    pub(super) fn row_comparison(
        &mut self,
        (left, right): (&ast::Expr, &ast::Expr),
        operator: &BinaryOperator,
        position: u32,
    ) -> Result<Option<Typed>> {
        let comparison = match operator {
            BinaryOperator::Eq => Comparison::Eq,
            BinaryOperator::NotEq => Comparison::Ne,
            BinaryOperator::Lt => Comparison::Lt,
            BinaryOperator::LtEq => Comparison::Le,
            BinaryOperator::Gt => Comparison::Gt,
            BinaryOperator::GtEq => Comparison::Ge,
            _ => return Ok(None),
        };
        let rows = (self.row_of(left)?, self.row_of(right)?);
        if let (None, None) = rows {
            return Ok(None);
        }
        let between = (place::end(left), place::start(right));
        let at = self.source.operator_between(&operator.to_string(), between.0, between.1);
        let name = super::deparse::sign(comparison);
        let (Some(a), Some(b)) = rows else {
            let record = || Typed::new(Expr::Const(Datum::Null), SqlType::Record, position);
            let (a, b) = match rows.0 {
                Some(_) => (record(), self.bind(right)?),
                None => (self.bind(left)?, record()),
            };
            return Err(self.no_operator(&a, name, &b, left).at(at));
        };
        let expr = self.rows_compared(comparison, name, &a, &b, at)?;
        Ok(Some(Typed::new(expr, SqlType::Bool, position)))
    }

    fn rows_compared(
        &mut self,
        comparison: Comparison,
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
        let mut pairs = Vec::with_capacity(a.len());
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for e in a {
            left.push(self.bind(e)?);
        }
        for e in b {
            right.push(self.bind(e)?);
        }
        for ((e, a), b) in a.iter().zip(left).zip(right) {
            let kind = OperatorKind::Compare(comparison);
            let pair = self.operands(kind, name, a, b, e).map_err(|error| error.at(at))?;
            pairs.push(*pair.0);
        }
        let each = |pair| Expr::Compare(comparison, Box::new(pair));
        Ok(match comparison {
            _ if pairs.len() == 1 => each(pairs.remove(0)),
            Comparison::Eq => {
                all_of(pairs.into_iter().map(each).collect()).expect("rows have columns")
            }
            Comparison::Ne => Expr::Or(pairs.into_iter().map(each).collect()),
            _ => Expr::CompareRows(comparison, pairs),
        })
    }
}

fn any_of(mut chain: Vec<Expr>, negated: bool) -> Expr {
    let any = if chain.len() == 1 { chain.remove(0) } else { Expr::Or(chain) };
    if negated { Expr::Not(Box::new(any)) } else { any }
}
