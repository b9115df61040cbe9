//! Functions of arrays.

use crate::array::text::too_many_dimensions;
use crate::array::value::{Dims, check_bounds, count_of, too_large};
use crate::array::{Array, Dim, MAX_DIMENSIONS, Shape};
use crate::compare::compare_as;
use crate::datum::Datum;
use crate::error::{Result, ValueError};
use crate::input::text_in_as;
use crate::oid::Oid;
use crate::output::text_out_as;
use crate::packed::pack_key_as;
use crate::sqltype::SqlType;
use crate::style::TextStyle;

/// `array_ndims(array)`: None of an empty one.
pub fn ndims(array: &Array<'_>) -> Result<Option<i32>> {
    let dims = array.shape()?.dims.len();
    Ok((dims > 0).then_some(dims as i32))
}

/// `array_dims(array)`
pub fn dims(array: &Array<'_>) -> Result<Option<String>> {
    let shape = array.shape()?;
    let text = |dim: &Dim| format!("[{}:{}]", dim.lower, upper_of(dim));
    let all: String = shape.dims.iter().map(text).collect();
    Ok((!shape.dims.is_empty()).then_some(all))
}

fn upper_of(dim: &Dim) -> i32 {
    dim.lower.wrapping_add(dim.len).wrapping_sub(1)
}

fn dim(array: &Array<'_>, n: i32) -> Result<Option<Dim>> {
    let at = usize::try_from(i64::from(n) - 1).ok();
    Ok(at.and_then(|at| array.shape().ok()?.dims.get(at).copied()))
}

/// `array_lower(array, dimension)`
pub fn lower(array: &Array<'_>, n: i32) -> Result<Option<i32>> {
    Ok(dim(array, n)?.map(|dim| dim.lower))
}

/// `array_upper(array, dimension)`
pub fn upper(array: &Array<'_>, n: i32) -> Result<Option<i32>> {
    Ok(dim(array, n)?.map(|dim| upper_of(&dim)))
}

/// `array_length(array, dimension)`
pub fn length(array: &Array<'_>, n: i32) -> Result<Option<i32>> {
    Ok(dim(array, n)?.map(|dim| dim.len))
}

/// `cardinality(array)`
pub fn cardinality(array: &Array<'_>) -> Result<i32> {
    Ok(array.shape()?.count as i32)
}

/// The number of an element in storage order. None: there is no such element.
fn place(dims: &[Dim], subscripts: &[i32]) -> Option<usize> {
    if dims.is_empty() || dims.len() != subscripts.len() {
        return None;
    }
    let mut at = 0;
    for (dim, subscript) in dims.iter().zip(subscripts) {
        let n = i64::from(*subscript) - i64::from(dim.lower);
        if !(0..i64::from(dim.len)).contains(&n) {
            return None;
        }
        at = at * dim.len as usize + n as usize;
    }
    Some(at)
}

/// `array[n]...`: NULL, if there is no such element.
pub fn element<'a>(array: &'a Array<'_>, subscripts: &[i32]) -> Result<Datum<'a>> {
    let shape = array.shape()?;
    match place(&shape.dims, subscripts) {
        Some(at) => shape.values()?.nth(at).unwrap_or(Ok(Datum::Null)),
        None => Ok(Datum::Null),
    }
}

/// `array[from:to]...`, with a bound left out where there is None. Dimensions without bounds are
/// whole, and each begins at 1 in the result.
pub fn slice(array: &Array<'_>, bounds: &[(Option<i32>, Option<i32>)]) -> Result<Array<'static>> {
    let shape = array.shape()?;
    let element = shape.element;
    if bounds.len() > shape.dims.len() || shape.dims.is_empty() {
        return Ok(Array::empty(element));
    }
    let mut ranges: Vec<(i32, i32)> = Vec::new();
    for (n, dim) in shape.dims.iter().enumerate() {
        let (from, to) = bounds.get(n).copied().unwrap_or_default();
        let from = from.unwrap_or(dim.lower).max(dim.lower);
        let to = to.unwrap_or(upper_of(dim)).min(upper_of(dim));
        if from > to {
            return Ok(Array::empty(element));
        }
        ranges.push((from, to));
    }
    let items = shape.values()?.collect::<Result<Vec<_>>>()?;
    let dims: Dims = ranges.iter().map(|(from, to)| Dim { len: to - from + 1, lower: 1 }).collect();
    let count = count_of(&dims)?;
    let mut chosen = Vec::with_capacity(count);
    let mut subscripts: Vec<i32> = ranges.iter().map(|(from, _)| *from).collect();
    for _ in 0..count {
        let at = place(&shape.dims, &subscripts).expect("within the dimensions");
        chosen.push(items[at].reborrow());
        // The last subscript changes first.
        for (subscript, (from, to)) in subscripts.iter_mut().zip(&ranges).rev() {
            if *subscript < *to {
                *subscript += 1;
                break;
            }
            *subscript = *from;
        }
    }
    Array::of(element, &dims, &chosen)
}

/// The array with another element at a place: `UPDATE ... SET array[n] = value`. An array of one
/// dimension grows at either end, with NULLs between.
pub fn set_element(
    array: &Array<'_>,
    subscripts: &[i32],
    value: &Datum<'_>,
) -> Result<Array<'static>> {
    let shape = array.shape()?;
    let wrong = || ValueError::new("2202E", "wrong number of array subscripts");
    if subscripts.len() > MAX_DIMENSIONS {
        return Err(too_many_dimensions());
    }
    if shape.dims.is_empty() {
        let dims: Dims = subscripts.iter().map(|n| Dim { len: 1, lower: *n }).collect();
        dims.iter().try_for_each(|dim| check_bounds(*dim))?;
        return Array::of(shape.element, &dims, std::slice::from_ref(value));
    }
    if subscripts.len() != shape.dims.len() {
        return Err(wrong());
    }
    let mut items = shape.values()?.collect::<Result<Vec<_>>>()?;
    if let Some(at) = place(&shape.dims, subscripts) {
        items[at] = value.reborrow();
        return Array::of(shape.element, &shape.dims, &items);
    }
    let ([dim], [n]) = (shape.dims.as_slice(), subscripts) else {
        return Err(ValueError::new("2202E", "array subscript out of range"));
    };
    let first = i64::from(dim.lower).min(i64::from(*n));
    let last = (i64::from(dim.lower) + i64::from(dim.len) - 1).max(i64::from(*n));
    let len = i32::try_from(last - first + 1).map_err(|_| too_large())?;
    let grown = Dim { len, lower: first as i32 };
    count_of(&[grown])?;
    let mut all = vec![Datum::Null; len as usize];
    let shift = (i64::from(dim.lower) - first) as usize;
    for (at, item) in items.into_iter().enumerate() {
        all[shift + at] = item;
    }
    all[(i64::from(*n) - first) as usize] = value.reborrow();
    Array::of(shape.element, &[grown], &all)
}

/// The one dimension of an array that gets or loses elements; that of an empty one begins at 1.
fn single(shape: &Shape<'_>) -> Result<Dim> {
    match shape.dims.as_slice() {
        [] => Ok(Dim { len: 0, lower: 1 }),
        [dim] => Ok(*dim),
        _ => Err(ValueError::new("22000", "argument must be empty or one-dimensional array")),
    }
}

/// `array_append(array, element)`
pub fn append(array: &Array<'_>, value: &Datum<'_>) -> Result<Array<'static>> {
    let shape = array.shape()?;
    let dim = single(&shape)?;
    let mut items = shape.values()?.collect::<Result<Vec<_>>>()?;
    items.push(value.reborrow());
    let len = dim.len.checked_add(1).ok_or_else(too_large)?;
    if dim.lower.checked_add(len).is_none() {
        return Err(ValueError::new("22003", "integer out of range"));
    }
    Array::of(shape.element, &[Dim { len, ..dim }], &items)
}

/// `array_prepend(element, array)`
pub fn prepend(value: &Datum<'_>, array: &Array<'_>) -> Result<Array<'static>> {
    let shape = array.shape()?;
    let dim = single(&shape)?;
    let mut items = vec![value.reborrow()];
    for item in shape.values()? {
        items.push(item?);
    }
    let len = dim.len.checked_add(1).ok_or_else(too_large)?;
    Array::of(shape.element, &[Dim { len, ..dim }], &items)
}

/// `array_cat(a, b)`
pub fn cat(a: &Array<'_>, b: &Array<'_>) -> Result<Array<'static>> {
    let (x, y) = (a.shape()?, b.shape()?);
    let incompatible = |detail: &str| {
        let error = ValueError::new("2202E", "cannot concatenate incompatible arrays");
        Err(error.with_detail(detail))
    };
    if x.element != y.element {
        return incompatible(
            "Arrays with differing element types are not compatible for concatenation.",
        );
    }
    if x.dims.is_empty() {
        return Ok(b.clone().into_owned());
    }
    if y.dims.is_empty() {
        return Ok(a.clone().into_owned());
    }
    let (m, n) = (x.dims.len(), y.dims.len());
    let differ = "Arrays with differing element dimensions are not compatible for concatenation.";
    let differing = "Arrays with differing dimensions are not compatible for concatenation.";
    let mut dims: Dims;
    if m == n {
        if x.dims[1..] != y.dims[1..] {
            return incompatible(differ);
        }
        dims = x.dims.clone();
        dims[0].len = dims[0].len.checked_add(y.dims[0].len).ok_or_else(too_large)?;
    } else if n + 1 == m {
        if x.dims[1..] != y.dims[..] {
            return incompatible(differing);
        }
        dims = x.dims.clone();
        dims[0].len = dims[0].len.checked_add(1).ok_or_else(too_large)?;
    } else if m + 1 == n {
        if y.dims[1..] != x.dims[..] {
            return incompatible(differing);
        }
        dims = y.dims.clone();
        dims[0].len = dims[0].len.checked_add(1).ok_or_else(too_large)?;
    } else {
        return incompatible(&format!(
            "Arrays of {m} and {n} dimensions are not compatible for concatenation."
        ));
    }
    let items = x.values()?.chain(y.values()?).collect::<Result<Vec<_>>>()?;
    Array::of(x.element, &dims, &items)
}

/// Whether two elements are the same: NULLs are.
fn same(a: &Datum<'_>, b: &Datum<'_>, ty: SqlType) -> Result<bool> {
    match (a.is_null(), b.is_null()) {
        (false, false) => Ok(compare_as(a, b, ty)?.is_eq()),
        (a, b) => Ok(a == b),
    }
}

/// `array_positions(array, element)`: the subscripts.
pub fn positions(array: &Array<'_>, value: &Datum<'_>) -> Result<Vec<i32>> {
    let shape = array.shape()?;
    let dim = match shape.dims.as_slice() {
        [] => return Ok(Vec::new()),
        [dim] => *dim,
        _ => {
            let message = "searching for elements in multidimensional arrays is not supported";
            return Err(ValueError::new("0A000", message));
        }
    };
    let ty = SqlType::of(shape.element);
    let mut found = Vec::new();
    for (n, item) in shape.values()?.enumerate() {
        if same(&item?, value, ty)? {
            found.push(dim.lower + n as i32);
        }
    }
    Ok(found)
}

/// `array_position(array, element [, start])`
pub fn position(array: &Array<'_>, value: &Datum<'_>, start: i32) -> Result<Option<i32>> {
    Ok(positions(array, value)?.into_iter().find(|n| *n >= start))
}

/// `array_remove(array, element)`
pub fn remove(array: &Array<'_>, value: &Datum<'_>) -> Result<Array<'static>> {
    let shape = array.shape()?;
    let ty = SqlType::of(shape.element);
    if shape.dims.len() > 1 {
        let message = "removing elements from multidimensional arrays is not supported";
        return Err(ValueError::new("0A000", message));
    }
    let mut kept = Vec::new();
    for item in shape.values()? {
        let item = item?;
        if !same(&item, value, ty)? {
            kept.push(item);
        }
    }
    if kept.len() == shape.count {
        return Ok(array.clone().into_owned());
    }
    let lower = shape.dims.first().map_or(1, |dim| dim.lower);
    let dim = (!kept.is_empty()).then_some(Dim { len: kept.len() as i32, lower });
    Array::of(shape.element, dim.as_slice(), &kept)
}

/// `array_replace(array, from, to)`
pub fn replace(array: &Array<'_>, from: &Datum<'_>, to: &Datum<'_>) -> Result<Array<'static>> {
    let shape = array.shape()?;
    let ty = SqlType::of(shape.element);
    let mut items = Vec::with_capacity(shape.count);
    for item in shape.values()? {
        let item = item?;
        items.push(if same(&item, from, ty)? { to.reborrow() } else { item });
    }
    Array::of(shape.element, &shape.dims, &items)
}

/// The keys of the elements that are not NULL, and whether any is NULL.
fn keys(array: &Array<'_>) -> Result<(std::collections::HashSet<Vec<u8>>, bool)> {
    let shape = array.shape()?;
    let ty = SqlType::of(shape.element);
    let (mut found, mut nulls) = (std::collections::HashSet::new(), false);
    for item in shape.values()? {
        let item = item?;
        if item.is_null() {
            nulls = true;
            continue;
        }
        let mut key = Vec::new();
        pack_key_as(&item, ty, &mut key)?;
        found.insert(key);
    }
    Ok((found, nulls))
}

/// The error of two arrays of different types.
fn check_elements(a: &Array<'_>, b: &Array<'_>) -> Result<()> {
    if a.element()? == b.element()? {
        return Ok(());
    }
    Err(ValueError::new("42804", "cannot compare arrays of different element types"))
}

/// `a @> b`: a NULL is contained nowhere.
pub fn contains(a: &Array<'_>, b: &Array<'_>) -> Result<bool> {
    check_elements(a, b)?;
    let ((all, _), (wanted, nulls)) = (keys(a)?, keys(b)?);
    Ok(!nulls && wanted.is_subset(&all))
}

/// `a && b`
pub fn overlaps(a: &Array<'_>, b: &Array<'_>) -> Result<bool> {
    check_elements(a, b)?;
    let ((a, _), (b, _)) = (keys(a)?, keys(b)?);
    Ok(!a.is_disjoint(&b))
}

/// `array_to_string(array, delimiter [, null])`
pub fn to_string(
    array: &Array<'_>,
    delimiter: &str,
    null: Option<&str>,
    style: &TextStyle<'_>,
) -> Result<String> {
    let shape = array.shape()?;
    let ty = SqlType::of(shape.element);
    let (mut out, mut first) = (Vec::new(), true);
    for item in shape.values()? {
        let item = item?;
        if item.is_null() && null.is_none() {
            continue;
        }
        if !std::mem::take(&mut first) {
            out.extend_from_slice(delimiter.as_bytes());
        }
        match null {
            Some(null) if item.is_null() => out.extend_from_slice(null.as_bytes()),
            _ => text_out_as(&item, ty, style, &mut out)?,
        }
    }
    Ok(String::from_utf8(out).expect("output functions write UTF-8"))
}

/// `string_to_array(text, delimiter [, null])`: its texts, None for NULL. Without a delimiter each
/// character is one.
pub fn split<'a>(
    text: &'a str,
    delimiter: Option<&str>,
    null: Option<&str>,
) -> Vec<Option<&'a str>> {
    let part = |part: &'a str| (null != Some(part)).then_some(part);
    if text.is_empty() {
        return Vec::new();
    }
    match delimiter {
        None => text.split("").filter(|c| !c.is_empty()).map(part).collect(),
        Some("") => vec![part(text)],
        Some(delimiter) => text.split(delimiter).map(part).collect(),
    }
}

/// `string_to_array` as an array of texts.
pub fn of_string(
    text: &str,
    delimiter: Option<&str>,
    null: Option<&str>,
) -> Result<Array<'static>> {
    let parts = split(text, delimiter, null).into_iter();
    let items: Vec<Datum<'_>> = parts.map(|part| part.map_or(Datum::Null, Datum::text)).collect();
    Array::list(SqlType::Text.oid(), &items)
}

/// `array_fill(value, lengths, lower bounds)`
pub fn fill(
    element: Oid,
    value: &Datum<'_>,
    lens: &[i32],
    lowers: Option<&[i32]>,
) -> Result<Array<'static>> {
    if lens.len() > MAX_DIMENSIONS {
        return Err(too_many_dimensions());
    }
    let lowers = lowers.map_or_else(|| vec![1; lens.len()], <[i32]>::to_vec);
    if lowers.len() != lens.len() {
        let error = ValueError::new("2202E", "wrong number of array subscripts");
        return Err(error.with_detail("Low bound array has different size than dimensions array."));
    }
    let both = lens.iter().zip(&lowers);
    let dims: Dims = both.map(|(len, lower)| Dim { len: *len, lower: *lower }).collect();
    match count_of(&dims)? {
        0 => Ok(Array::empty(element)),
        count => Array::of(element, &dims, &vec![value.reborrow(); count]),
    }
}

/// `trim_array(array, n)`: without its last elements.
pub fn trim(array: &Array<'_>, n: i32) -> Result<Array<'static>> {
    let len = array.shape()?.dims.first().map_or(0, |dim| dim.len);
    if n < 0 || n > len {
        let message = format!("number of elements to trim must be between 0 and {len}");
        return Err(ValueError::new("2202E", message));
    }
    let upper = array.shape()?.dims.first().map(|dim| upper_of(dim) - n);
    slice(array, &[(None, upper)])
}

/// `array_reverse(array)`, along its first dimension.
pub fn reverse(array: &Array<'_>) -> Result<Array<'static>> {
    let shape = array.shape()?;
    let items = shape.values()?.collect::<Result<Vec<_>>>()?;
    let first = shape.dims.first().map_or(1, |dim| dim.len.max(1) as usize);
    let size = (items.len() / first).max(1);
    let turned: Vec<Datum<'_>> = items.chunks(size).rev().flatten().map(Datum::reborrow).collect();
    Array::of(shape.element, &shape.dims, &turned)
}

/// Casts the elements of an array to another type through their texts.
pub fn cast_by_text(
    array: &Array<'_>,
    to: SqlType,
    typmod: i32,
    style: &TextStyle<'_>,
) -> Result<Array<'static>> {
    let shape = array.shape()?;
    let from = SqlType::of(shape.element);
    let mut items = Vec::with_capacity(shape.count);
    for item in shape.values()? {
        let item = item?;
        items.push(if item.is_null() {
            Datum::Null
        } else {
            let text = crate::output::to_text_as(&item, from, style)?;
            text_in_as(&text, to, typmod, style)?.into_owned()
        });
    }
    Array::of(to.oid(), &shape.dims, &items)
}
