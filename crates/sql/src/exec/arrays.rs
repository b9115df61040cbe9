//! Arrays: their making, elements and slices, and tests of elements.

use super::cast::cast;
use super::eval::{Params, Results, Values, eval, eval_all};
use super::host::Host;
use crate::error::{Result, SqlError, state};
use crate::plan::Expr;
use forebay_types::{Array, Datum, Dim, SqlType};

/// Evaluates one of the expressions of arrays.
pub(super) fn eval_arrays<'a>(
    e: &'a Expr,
    row: Values<'a>,
    params: Params<'a>,
    host: &mut Host,
) -> Result<Datum<'a>> {
    match e {
        Expr::Array { elements, element, nested } => {
            let items = eval_all(elements, row, params, host)?;
            if *nested { nested_array(&items, *element) } else { list(&items, *element) }
        }
        Expr::MapArray { array, element, to } => match array_of(eval(array, row, params, host)?)? {
            None => Ok(Datum::Null),
            Some(array) => mapped(&array, element, *to, host),
        },
        Expr::AnyOf { value, array, test, any, .. } => {
            let value = eval(value, row, params, host)?;
            match array_of(eval(array, row, params, host)?)? {
                None => Ok(Datum::Null),
                Some(array) => any_of(&value, &array, test, *any, host),
            }
        }
        Expr::Subscript { array, upper, lower, slice, .. } => {
            let Some(array) = array_of(eval(array, row, params, host)?)? else {
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
            if *slice { sliced(&array, &lower, &upper) } else { element_at(&array, &upper) }
        }
        _ => Err(SqlError::new(state::INTERNAL_ERROR, "this is no expression of arrays")),
    }
}

/// The array that a value is; None if it is NULL.
fn array_of(value: Datum<'_>) -> Result<Option<Array<'_>>> {
    match value {
        Datum::Null => Ok(None),
        Datum::Array(array) => Ok(Some(array)),
        _ => Err(SqlError::new(state::INTERNAL_ERROR, "an array is no array")),
    }
}

fn list<'a>(items: &[Datum<'_>], element: SqlType) -> Result<Datum<'a>> {
    Ok(Datum::Array(Array::list(element.oid(), items)?))
}

/// One array of several, which have the same dimensions: they become one dimension more.
fn nested_array<'a>(rows: &Results<'_>, element: SqlType) -> Result<Datum<'a>> {
    let differ = || {
        let message = "multidimensional arrays must have array expressions with matching \
                       dimensions";
        SqlError::new("2202E", message)
    };
    let (mut inner, mut items): (Option<Vec<Dim>>, Vec<Datum<'_>>) = (None, Vec::new());
    let mut empty = 0;
    for row in rows {
        let array = match row {
            // NULL counts as an empty array.
            Datum::Null => {
                empty += 1;
                continue;
            }
            Datum::Array(array) => array,
            _ => return Err(SqlError::new(state::INTERNAL_ERROR, "an array is no array")),
        };
        let shape = array.shape()?;
        if shape.dims.is_empty() {
            empty += 1;
            continue;
        }
        match &inner {
            None => inner = Some(shape.dims.to_vec()),
            Some(dims) if dims[..] == shape.dims[..] => {}
            Some(_) => return Err(differ()),
        }
        for item in array.items()? {
            items.push(item.into_owned());
        }
    }
    let Some(inner) = inner else { return Ok(Datum::Array(Array::empty(element.oid()))) };
    if empty > 0 {
        return Err(differ());
    }
    let len = i32::try_from(rows.len()).unwrap_or(i32::MAX);
    let dims: Vec<Dim> = [Dim { len, lower: 1 }].into_iter().chain(inner).collect();
    Ok(Datum::Array(Array::of(element.oid(), &dims, &items)?))
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

/// An element; NULL if there is none with these subscripts.
fn element_at<'a>(array: &Array<'_>, subscripts: &[Option<i32>]) -> Result<Datum<'a>> {
    let shape = array.shape()?;
    if shape.dims.len() != subscripts.len() {
        return Ok(Datum::Null);
    }
    let mut place = 0_usize;
    for (dim, subscript) in shape.dims.iter().zip(subscripts) {
        let offset = subscript.and_then(|n| n.checked_sub(dim.lower));
        let Some(offset) = offset.filter(|n| (0..dim.len).contains(n)) else {
            return Ok(Datum::Null);
        };
        place =
            place * usize::try_from(dim.len).unwrap_or(0) + usize::try_from(offset).unwrap_or(0);
    }
    match shape.values()?.nth(place) {
        Some(value) => Ok(value?.into_owned()),
        None => Ok(Datum::Null),
    }
}

/// A part of an array, whose subscripts begin at 1.
fn sliced<'a>(
    array: &Array<'_>,
    lower: &[Option<i32>],
    upper: &[Option<i32>],
) -> Result<Datum<'a>> {
    let shape = array.shape()?;
    let empty = || Ok(Datum::Array(Array::empty(shape.element)));
    if shape.dims.len() < upper.len() || shape.dims.is_empty() {
        return empty();
    }
    let mut ranges = Vec::with_capacity(shape.dims.len());
    for (n, dim) in shape.dims.iter().enumerate() {
        let last = dim.lower.saturating_add(dim.len - 1);
        let bound = |list: &[Option<i32>]| list.get(n).copied().flatten();
        let first = bound(lower).map_or(dim.lower, |n| n.max(dim.lower));
        let end = bound(upper).map_or(last, |n| n.min(last));
        if first > end {
            return empty();
        }
        ranges.push((first - dim.lower, end - dim.lower));
    }
    let inside = |mut place: usize| {
        for (dim, (first, end)) in shape.dims.iter().zip(&ranges).rev() {
            let len = usize::try_from(dim.len).unwrap_or(1).max(1);
            let at = i32::try_from(place % len).unwrap_or(i32::MAX);
            if at < *first || at > *end {
                return false;
            }
            place /= len;
        }
        true
    };
    let mut items = Vec::new();
    for (place, item) in shape.values()?.enumerate() {
        if inside(place) {
            items.push(item?);
        }
    }
    let dims: Vec<Dim> =
        ranges.iter().map(|(first, end)| Dim { len: end - first + 1, lower: 1 }).collect();
    Ok(Datum::Array(Array::of(shape.element, &dims, &items)?))
}

/// The elements of an array, cast from one type to another. None: it is NULL.
pub(super) fn elements(
    array: &Datum<'_>,
    (from, to): (SqlType, SqlType),
) -> Result<Option<Vec<Datum<'static>>>> {
    let array = match array {
        Datum::Null => return Ok(None),
        Datum::Array(array) => array,
        _ => return Err(SqlError::new(state::INTERNAL_ERROR, "an array is no array")),
    };
    let items = array.items()?.into_iter().map(Datum::into_owned);
    let same = from == to;
    items
        .map(|value| if same { Ok(value) } else { cast(value, from, to) })
        .collect::<Result<_>>()
        .map(Some)
}
