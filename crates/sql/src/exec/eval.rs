//! Evaluation of expressions over a row.

use super::arrays;
use super::cast::{cast, float_overflow, float_underflow, out_of_range};
use super::host::Host;
use super::like::like;
use crate::error::{Result, SqlError, state};
use crate::plan::{Arithmetic, Comparison, Expr, Function, RowCollations, ValueOrder};
use forebay_collation::Collation;
use forebay_types::{Array, Datum, SqlType, compare, compare_by};
use std::cmp::Ordering;

/// A row as expressions see it.
pub(super) type Values<'a> = &'a [Datum<'a>];

/// Values of a statement's parameters.
pub(super) type Params<'p> = &'p [Datum<'static>];

/// The values of several expressions.
pub(super) type Results<'a> = smallvec::SmallVec<[Datum<'a>; 12]>;

/// Evaluates a list of expressions.
pub(super) fn eval_all<'a>(
    list: &'a [Expr],
    row: Values<'a>,
    params: &'a [Datum<'static>],
    host: &mut Host,
) -> Result<Results<'a>> {
    list.iter().map(|e| eval(e, row, params, host)).collect()
}

/// A value that the plan says is there.
fn get<'a>(values: Values<'a>, index: usize, what: &str) -> Result<Datum<'a>> {
    let missing =
        || SqlError::new(state::INTERNAL_ERROR, format!("there is no {what} number {}", index + 1));
    values.get(index).map(Datum::reborrow).ok_or_else(missing)
}

fn division_by_zero() -> SqlError {
    SqlError::new(state::DIVISION_BY_ZERO, "division by zero")
}

/// Does a comparison hold for an ordering?
fn holds(op: Comparison, order: Ordering) -> bool {
    match op {
        Comparison::Eq => order == Ordering::Equal,
        Comparison::Ne => order != Ordering::Equal,
        Comparison::Lt => order == Ordering::Less,
        Comparison::Le => order != Ordering::Greater,
        Comparison::Gt => order == Ordering::Greater,
        Comparison::Ge => order != Ordering::Less,
    }
}

/// The value of an expression that need not be computed.
#[inline]
fn value_there<'a>(
    e: &'a Expr,
    row: Values<'a>,
    params: &'a [Datum<'static>],
) -> Option<&'a Datum<'a>> {
    match e {
        Expr::Column(i) => row.get(*i),
        Expr::Const(v) => Some(v),
        Expr::Param(i) => params.get(*i),
        _ => None,
    }
}

/// The value of a comparison.
#[inline]
fn compared(op: Comparison, a: &Datum<'_>, b: &Datum<'_>) -> Result<Datum<'static>> {
    if a.is_null() || b.is_null() {
        return Ok(Datum::Null);
    }
    Ok(Datum::Bool(holds(op, compare(a, b)?)))
}

/// The order of two values, with texts by a collation; None: by their bytes.
fn ordered(a: &Datum<'_>, b: &Datum<'_>, collation: Option<&Collation>) -> Result<Ordering> {
    Ok(match collation {
        None => compare(a, b)?,
        Some(by) => compare_by(a, b, SqlType::Text, &|a, b| by.compare(a, b))?,
    })
}

/// Is a condition true (not false, not NULL)?
pub(super) fn is_true(
    e: &Expr,
    row: Values<'_>,
    params: &[Datum<'static>],
    host: &mut Host,
) -> Result<bool> {
    Ok(matches!(eval(e, row, params, host)?, Datum::Bool(true)))
}

/// Evaluates an expression.
pub fn eval<'a>(
    e: &'a Expr,
    row: Values<'a>,
    params: &'a [Datum<'static>],
    host: &mut Host,
) -> Result<Datum<'a>> {
    match e {
        Expr::Column(i) => get(row, *i, "column"),
        Expr::Const(v) => Ok(v.reborrow()),
        Expr::Param(i) => get(params, *i, "parameter"),
        Expr::Compare(op, pair) => {
            let there = (value_there(&pair.0, row, params), value_there(&pair.1, row, params));
            if let (Some(a), Some(b)) = there {
                return compared(*op, a, b);
            }
            let (a, b) = (eval(&pair.0, row, params, host)?, eval(&pair.1, row, params, host)?);
            compared(*op, &a, &b)
        }
        Expr::Collated(op, collation, pair) => {
            let (a, b) = (eval(&pair.0, row, params, host)?, eval(&pair.1, row, params, host)?);
            if a.is_null() || b.is_null() {
                return Ok(Datum::Null);
            }
            Ok(Datum::Bool(holds(*op, ordered(&a, &b, Some(collation))?)))
        }
        Expr::And(list) => connective(list, false, row, params, host),
        Expr::Or(list) => connective(list, true, row, params, host),
        Expr::Not(x) => Ok(match eval(x, row, params, host)? {
            Datum::Bool(v) => Datum::Bool(!v),
            other => return null_of(&other, &other),
        }),
        Expr::IsNull(x) => Ok(Datum::Bool(eval(x, row, params, host)?.is_null())),
        Expr::IsNotNull(x) => Ok(Datum::Bool(!eval(x, row, params, host)?.is_null())),
        Expr::IsBool { expr, value, negated } => {
            let same = matches!(eval(expr, row, params, host)?, Datum::Bool(v) if v == *value);
            Ok(Datum::Bool(same != *negated))
        }
        Expr::IsDistinct { operands, negated } => {
            let (a, b) =
                (eval(&operands.0, row, params, host)?, eval(&operands.1, row, params, host)?);
            let same = match (a.is_null(), b.is_null()) {
                (true, true) => true,
                (false, false) => compare(&a, &b)?.is_eq(),
                _ => false,
            };
            Ok(Datum::Bool(same == *negated))
        }
        Expr::Arith(op, pair) => {
            let (a, b) = (eval(&pair.0, row, params, host)?, eval(&pair.1, row, params, host)?);
            arithmetic(*op, a, b)
        }
        Expr::Negate(x) => negate(eval(x, row, params, host)?),
        Expr::Cast { expr, from, to } => {
            let value = eval(expr, row, params, host)?;
            cast(value, *from, *to, &host.style)
        }
        _ => eval_rare(e, row, params, host),
    }
}

/// Evaluates the kinds of expressions that are rarer.
fn eval_rare<'a>(
    e: &'a Expr,
    row: Values<'a>,
    params: &'a [Datum<'static>],
    host: &mut Host,
) -> Result<Datum<'a>> {
    match e {
        Expr::Concat(pair) => {
            let (a, b) = (eval(&pair.0, row, params, host)?, eval(&pair.1, row, params, host)?);
            match (a, b) {
                (Datum::Text(a), Datum::Text(b)) => super::functions::text::join(a, &b),
                (a, b) => null_of(&a, &b),
            }
        }
        Expr::Like { operands, escape, negated, folded_by } => {
            let (a, b) =
                (eval(&operands.0, row, params, host)?, eval(&operands.1, row, params, host)?);
            matched(&a, &b, *escape, folded_by.as_deref(), *negated)
        }
        Expr::InList { expr, list, negated, .. } => {
            let value = eval(expr, row, params, host)?;
            in_list(value, list.iter(), *negated, |item| eval(item, row, params, host))
        }
        Expr::InArray { expr, array, elements: of, negated } => {
            let value = eval(expr, row, params, host)?;
            let array = eval(array, row, params, host)?;
            let list = arrays::elements(&array, *of, &host.style)?;
            list.map_or(Ok(Datum::Null), |list| in_list(value, list.into_iter(), *negated, Ok))
        }
        Expr::CompareRows(op, pairs, collations) => {
            rows_compared(*op, (pairs, collations), row, params, host)
        }
        Expr::Case { whens, otherwise } => {
            for (when, then) in whens {
                if is_true(when, row, params, host)? {
                    return eval(then, row, params, host);
                }
            }
            otherwise.as_ref().map_or(Ok(Datum::Null), |e| eval(e, row, params, host))
        }
        Expr::Coalesce(list) => {
            for item in list {
                let value = eval(item, row, params, host)?;
                if !value.is_null() {
                    return Ok(value);
                }
            }
            Ok(Datum::Null)
        }
        Expr::NullIf(pair) => {
            let (a, b) = (eval(&pair.0, row, params, host)?, eval(&pair.1, row, params, host)?);
            let same = !a.is_null() && !b.is_null() && compare(&a, &b)?.is_eq();
            Ok(if same { Datum::Null } else { a })
        }
        Expr::Extreme { list, greatest, order } => {
            extreme(list, (*greatest, order), row, params, host)
        }
        Expr::Call(function, args) => call(function, args, row, params, host),
        Expr::Value(op, digits) => super::functions::value(*op, *digits, host),
        Expr::AnyOf { .. }
        | Expr::Array { .. }
        | Expr::MapArray { .. }
        | Expr::Subscript { .. } => eval_arrays(e, row, params, host),
        // The planner has replaced aggregates by columns.
        _ => Err(SqlError::new(state::INTERNAL_ERROR, "an aggregate was not planned")),
    }
}

/// LIKE and ILIKE.
fn matched<'a>(
    text: &Datum<'_>,
    pattern: &Datum<'_>,
    escape: Option<char>,
    folded_by: Option<&Collation>,
    negated: bool,
) -> Result<Datum<'a>> {
    let (Datum::Text(text), Datum::Text(pattern)) = (text, pattern) else {
        return null_of(text, pattern);
    };
    let matched = match folded_by {
        Some(by) => like(&by.lower(text), &by.lower(pattern), escape)?,
        None => like(text, pattern, escape)?,
    };
    Ok(Datum::Bool(matched != negated))
}

/// Evaluates one of the expressions of arrays.
fn eval_arrays<'a>(
    e: &'a Expr,
    row: Values<'a>,
    params: &'a [Datum<'static>],
    host: &mut Host,
) -> Result<Datum<'a>> {
    match e {
        Expr::Array { elements, element, nested } => {
            let items = eval_all(elements, row, params, host)?;
            if *nested {
                arrays::nested_array(&items, *element)
            } else {
                arrays::list(&items, *element)
            }
        }
        Expr::MapArray { array, element, to } => {
            match arrays::array_of(eval(array, row, params, host)?)? {
                None => Ok(Datum::Null),
                Some(array) => mapped(&array, element, *to, host),
            }
        }
        Expr::AnyOf { value, array, test, any, .. } => {
            let value = eval(value, row, params, host)?;
            match arrays::array_of(eval(array, row, params, host)?)? {
                None => Ok(Datum::Null),
                Some(array) => any_of(&value, &array, test, *any, host),
            }
        }
        Expr::Subscript { array, upper, lower, slice, .. } => {
            let Some(array) = arrays::array_of(eval(array, row, params, host)?)? else {
                return Ok(Datum::Null);
            };
            let mut bounds = |list: &'a [Option<Expr>]| -> Result<Option<Vec<Option<i32>>>> {
                let mut bounds = Vec::with_capacity(list.len());
                for bound in list {
                    bounds.push(match bound {
                        None => None,
                        Some(e) => match eval(e, row, params, host)? {
                            Datum::Int4(n) => Some(n),
                            _ => return Ok(None),
                        },
                    });
                }
                Ok(Some(bounds))
            };
            let (Some(upper), Some(lower)) = (bounds(upper)?, bounds(lower)?) else {
                return Ok(Datum::Null);
            };
            if *slice {
                arrays::sliced(&array, &lower, &upper)
            } else {
                arrays::element_at(&array, &upper)
            }
        }
        _ => Err(SqlError::new(state::INTERNAL_ERROR, "this is no expression of arrays")),
    }
}

/// An array with each element converted.
fn mapped<'a>(
    array: &Array<'_>,
    element: &Expr,
    to: SqlType,
    host: &mut Host,
) -> Result<Datum<'a>> {
    let dims = array.shape()?.dims;
    let mut items = Vec::new();
    for item in array.items()? {
        let row = [item];
        items.push(eval(element, &row, &[], host)?.into_owned());
    }
    Ok(Datum::Array(Array::of(to.oid(), &dims, &items)?))
}

/// Whether a test holds for any element, or for all.
fn any_of<'a>(
    value: &Datum<'_>,
    array: &Array<'_>,
    test: &Expr,
    any: bool,
    host: &mut Host,
) -> Result<Datum<'a>> {
    let mut unknown = false;
    for item in array.items()? {
        let row = [value.reborrow(), item];
        match eval(test, &row, &[], host)? {
            Datum::Bool(found) if found == any => return Ok(Datum::Bool(any)),
            Datum::Bool(_) => {}
            _ => unknown = true,
        }
    }
    Ok(if unknown { Datum::Null } else { Datum::Bool(!any) })
}

/// A function's value: NULL, if an argument is and the function does not take it.
fn call<'a>(
    function: &Function,
    args: &'a [Expr],
    row: Values<'a>,
    params: &'a [Datum<'static>],
    host: &mut Host,
) -> Result<Datum<'a>> {
    let mut values: smallvec::SmallVec<[Datum<'a>; 3]> = smallvec::SmallVec::new();
    for arg in args {
        let value = eval(arg, row, params, host)?;
        if value.is_null() && function.row.strict {
            return Ok(Datum::Null);
        }
        values.push(value);
    }
    if matches!(values.first(), Some(Datum::Toasted(_))) {
        return super::parts::call(function, &mut values, host);
    }
    // Whoever computes with these may take seconds, and many such calls can make up one row.
    if values.iter().any(is_long) {
        host.check_cancel()?;
    }
    super::functions::call(function, &values, host)
}

/// Whether a value is so long that a function of it takes noticeable time.
fn is_long(value: &Datum<'_>) -> bool {
    const LONG: usize = 1 << 20;
    match value {
        Datum::Text(text) => text.len() >= LONG,
        Datum::Bytes(bytes) => bytes.len() >= LONG,
        _ => false,
    }
}

/// What an operator gives for operands that it has no rule for: NULL if one is NULL. Anything else
/// is the planner's mistake.
fn null_of<'a>(a: &Datum<'_>, b: &Datum<'_>) -> Result<Datum<'a>> {
    if a.is_null() || b.is_null() {
        return Ok(Datum::Null);
    }
    Err(SqlError::new(state::INTERNAL_ERROR, "operands of different types"))
}

/// The first columns that differ decide.
fn rows_compared<'a>(
    op: Comparison,
    (pairs, collations): (&'a [(Expr, Expr)], &RowCollations),
    row: Values<'a>,
    params: &'a [Datum<'static>],
    host: &mut Host,
) -> Result<Datum<'a>> {
    for ((a, b), collation) in pairs.iter().zip(collations) {
        let (a, b) = (eval(a, row, params, host)?, eval(b, row, params, host)?);
        if a.is_null() || b.is_null() {
            return Ok(Datum::Null);
        }
        let order = ordered(&a, &b, collation.as_deref())?;
        if order.is_ne() {
            return Ok(Datum::Bool(holds(op, order)));
        }
    }
    Ok(Datum::Bool(holds(op, Ordering::Equal)))
}

/// IN: NULL if the value is not found and the list has NULL. With no values to compare with, the
/// value does not matter.
fn in_list<'a, T>(
    value: Datum<'a>,
    list: impl Iterator<Item = T>,
    negated: bool,
    mut eval: impl FnMut(T) -> Result<Datum<'a>>,
) -> Result<Datum<'a>> {
    let mut unknown = false;
    for item in list {
        if value.is_null() {
            return Ok(Datum::Null);
        }
        let item = eval(item)?;
        if item.is_null() {
            unknown = true;
        } else if compare(&value, &item)?.is_eq() {
            return Ok(Datum::Bool(!negated));
        }
    }
    Ok(if unknown { Datum::Null } else { Datum::Bool(negated) })
}

/// GREATEST and LEAST, which leave NULLs out.
fn extreme<'a>(
    list: &'a [Expr],
    (greatest, order): (bool, &ValueOrder),
    row: Values<'a>,
    params: &'a [Datum<'static>],
    host: &mut Host,
) -> Result<Datum<'a>> {
    let wanted = if greatest { Ordering::Greater } else { Ordering::Less };
    let mut best = Datum::Null;
    for item in list {
        let value = eval(item, row, params, host)?;
        if !value.is_null() && (best.is_null() || order.compare(&value, &best)? == wanted) {
            best = value;
        }
    }
    Ok(best)
}

/// AND (`decisive` false) and OR (`decisive` true) of three-valued logic.
fn connective<'a>(
    list: &'a [Expr],
    decisive: bool,
    row: Values<'a>,
    params: &'a [Datum<'static>],
    host: &mut Host,
) -> Result<Datum<'a>> {
    let mut unknown = false;
    for item in list {
        match eval(item, row, params, host)? {
            Datum::Bool(v) if v == decisive => return Ok(Datum::Bool(decisive)),
            Datum::Bool(_) => {}
            other => {
                null_of(&other, &other)?;
                unknown = true;
            }
        }
    }
    Ok(if unknown { Datum::Null } else { Datum::Bool(!decisive) })
}

macro_rules! integer_arithmetic {
    ($op:expr, $a:expr, $b:expr, $make:path, $ty:expr) => {{
        let (a, b) = ($a, $b);
        let result = match $op {
            Arithmetic::Add => a.checked_add(b),
            Arithmetic::Sub => a.checked_sub(b),
            Arithmetic::Mul => a.checked_mul(b),
            Arithmetic::Div | Arithmetic::Rem if b == 0 => return Err(division_by_zero()),
            Arithmetic::Div => a.checked_div(b),
            Arithmetic::Rem => Some(a.wrapping_rem(b)),
        };
        result.map($make).ok_or_else(|| out_of_range($ty))
    }};
}

fn arithmetic<'a>(op: Arithmetic, a: Datum<'a>, b: Datum<'a>) -> Result<Datum<'a>> {
    match (a, b) {
        (Datum::Int4(a), Datum::Int4(b)) => {
            integer_arithmetic!(op, a, b, Datum::Int4, SqlType::Int4)
        }
        (Datum::Int8(a), Datum::Int8(b)) => {
            integer_arithmetic!(op, a, b, Datum::Int8, SqlType::Int8)
        }
        (Datum::Int2(a), Datum::Int2(b)) => {
            integer_arithmetic!(op, a, b, Datum::Int2, SqlType::Int2)
        }
        (Datum::Float8(a), Datum::Float8(b)) => float_arithmetic(op, a, b).map(Datum::Float8),
        (Datum::Float4(a), Datum::Float4(b)) => {
            let result = match op {
                Arithmetic::Add => a + b,
                Arithmetic::Sub => a - b,
                Arithmetic::Mul => a * b,
                Arithmetic::Div if b == 0.0 && !a.is_nan() => return Err(division_by_zero()),
                Arithmetic::Div => a / b,
                Arithmetic::Rem => a % b,
            };
            check_float(op, f64::from(a), f64::from(b), f64::from(result))?;
            Ok(Datum::Float4(result))
        }
        (Datum::Numeric(a), Datum::Numeric(b)) => {
            let result = match op {
                Arithmetic::Add => a.add(&b),
                Arithmetic::Sub => a.sub(&b),
                Arithmetic::Mul => a.mul(&b),
                Arithmetic::Div => a.div(&b),
                Arithmetic::Rem => a.rem(&b),
            };
            Ok(Datum::numeric(result?))
        }
        (a, b) => null_of(&a, &b),
    }
}

fn float_arithmetic(op: Arithmetic, a: f64, b: f64) -> Result<f64> {
    let result = match op {
        Arithmetic::Add => a + b,
        Arithmetic::Sub => a - b,
        Arithmetic::Mul => a * b,
        Arithmetic::Div if b == 0.0 && !a.is_nan() => return Err(division_by_zero()),
        Arithmetic::Div => a / b,
        Arithmetic::Rem => a % b,
    };
    check_float(op, a, b, result)?;
    Ok(result)
}

/// Refuses overflow and underflow: results that finite operands must not give.
fn check_float(op: Arithmetic, a: f64, b: f64, result: f64) -> Result<()> {
    if result.is_infinite() && a.is_finite() && b.is_finite() {
        return Err(float_overflow());
    }
    let shrinks = match op {
        Arithmetic::Mul => a != 0.0 && b != 0.0,
        Arithmetic::Div => a != 0.0 && !b.is_infinite(),
        _ => false,
    };
    if result == 0.0 && shrinks { Err(float_underflow()) } else { Ok(()) }
}

fn negate(value: Datum<'_>) -> Result<Datum<'_>> {
    match value {
        Datum::Int2(v) => {
            v.checked_neg().map(Datum::Int2).ok_or_else(|| out_of_range(SqlType::Int2))
        }
        Datum::Int4(v) => {
            v.checked_neg().map(Datum::Int4).ok_or_else(|| out_of_range(SqlType::Int4))
        }
        Datum::Int8(v) => {
            v.checked_neg().map(Datum::Int8).ok_or_else(|| out_of_range(SqlType::Int8))
        }
        Datum::Float4(v) => Ok(Datum::Float4(-v)),
        Datum::Float8(v) => Ok(Datum::Float8(-v)),
        Datum::Numeric(v) => Ok(Datum::numeric(v.neg())),
        other => Ok(other),
    }
}
