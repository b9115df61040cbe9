//! Arrays: their making, elements and slices.

use super::cast::cast;
use crate::error::{Result, SqlError, state};
use forebay_types::{Array, Datum, Dim, SqlType, TextStyle};

/// The array that a value is; None if it is NULL.
pub(super) fn array_of(value: Datum<'_>) -> Result<Option<Array<'_>>> {
    match value {
        Datum::Null => Ok(None),
        Datum::Array(array) => Ok(Some(array)),
        _ => Err(SqlError::new(state::INTERNAL_ERROR, "an array is no array")),
    }
}

/// A list of elements as an array.
pub(super) fn list<'a>(items: &[Datum<'_>], element: SqlType) -> Result<Datum<'a>> {
    Ok(Datum::Array(Array::list(element.oid(), items)?))
}

/// One array of several, which have the same dimensions: they become one dimension more.
pub(super) fn nested_array<'a>(rows: &[Datum<'_>], element: SqlType) -> Result<Datum<'a>> {
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

/// An element; NULL if there is none with these subscripts.
pub(super) fn element_at<'a>(array: &Array<'_>, subscripts: &[Option<i32>]) -> Result<Datum<'a>> {
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
pub(super) fn sliced<'a>(
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
    style: &TextStyle<'_>,
) -> Result<Option<Vec<Datum<'static>>>> {
    let array = match array {
        Datum::Null => return Ok(None),
        Datum::Array(array) => array,
        _ => return Err(SqlError::new(state::INTERNAL_ERROR, "an array is no array")),
    };
    let items = array.items()?.into_iter().map(Datum::into_owned);
    let same = from == to;
    items
        .map(|value| if same { Ok(value) } else { cast(value, from, to, style) })
        .collect::<Result<_>>()
        .map(Some)
}
