//! Arrays.

use super::Area;
use super::arguments::{array, int, text, wrong_argument};
use crate::error::{Result, SqlError};
use forebay_types::functions::arrays as f;
use forebay_types::{Array, Datum, Oid, oids};

pub(super) const TABLE: Area = &[
    (748, |_, args, _| Ok(number(f::ndims(array(args, 0)?)?))),
    (747, |_, args, _| Ok(f::dims(array(args, 0)?)?.map_or(Datum::Null, Datum::string))),
    (2091, |_, args, _| Ok(number(f::lower(array(args, 0)?, int(args, 1)?)?))),
    (2092, |_, args, _| Ok(number(f::upper(array(args, 0)?, int(args, 1)?)?))),
    (2176, |_, args, _| Ok(number(f::length(array(args, 0)?, int(args, 1)?)?))),
    (3179, |_, args, _| Ok(Datum::Int4(f::cardinality(array(args, 0)?)?))),
    (378, |function, args, _| {
        let whole = or_empty(args, 0, function.result)?;
        let value = args.get(1).unwrap_or(&Datum::Null);
        Ok(Datum::Array(f::append(&whole, value)?))
    }),
    (379, |function, args, _| {
        let whole = or_empty(args, 1, function.result)?;
        let value = args.first().unwrap_or(&Datum::Null);
        Ok(Datum::Array(f::prepend(value, &whole)?))
    }),
    (383, |_, args, _| match args {
        // NULL adds nothing.
        [Datum::Null, other] | [other, Datum::Null] => Ok(other.clone()),
        _ => Ok(Datum::Array(f::cat(array(args, 0)?, array(args, 1)?)?)),
    }),
    (3277, |_, args, _| position(args, i32::MIN)),
    (3278, |_, args, _| match args {
        [Datum::Null, ..] => Ok(Datum::Null),
        [_, _, Datum::Null] => Err(SqlError::new("22004", "initial position must not be null")),
        _ => position(args, int(args, 2)?),
    }),
    (3279, |_, args, _| match args {
        [Datum::Null, _] => Ok(Datum::Null),
        [_, value] => {
            let found = f::positions(array(args, 0)?, value)?;
            let found: Vec<Datum<'_>> = found.into_iter().map(Datum::Int4).collect();
            Ok(Datum::Array(Array::list(oids::INT4, &found)?))
        }
        _ => Err(wrong_argument(args, 0)),
    }),
    (3167, |_, args, _| match args {
        [Datum::Null, _] => Ok(Datum::Null),
        [_, value] => Ok(Datum::Array(f::remove(array(args, 0)?, value)?)),
        _ => Err(wrong_argument(args, 0)),
    }),
    (3168, |_, args, _| match args {
        [Datum::Null, ..] => Ok(Datum::Null),
        [_, from, to] => Ok(Datum::Array(f::replace(array(args, 0)?, from, to)?)),
        _ => Err(wrong_argument(args, 0)),
    }),
    (2748, |_, args, _| Ok(Datum::Bool(f::contains(array(args, 0)?, array(args, 1)?)?))),
    (2749, |_, args, _| Ok(Datum::Bool(f::contains(array(args, 1)?, array(args, 0)?)?))),
    (2747, |_, args, _| Ok(Datum::Bool(f::overlaps(array(args, 0)?, array(args, 1)?)?))),
    (395, |_, args, host| {
        Ok(Datum::string(f::to_string(array(args, 0)?, text(args, 1)?, None, &host.style)?))
    }),
    (384, |_, args, host| match args {
        [Datum::Null, ..] | [_, Datum::Null, _] => Ok(Datum::Null),
        [_, _, null] => {
            let whole = array(args, 0)?;
            Ok(Datum::string(f::to_string(whole, text(args, 1)?, null.as_str(), &host.style)?))
        }
        _ => Err(wrong_argument(args, 0)),
    }),
    (394, |_, args, _| split(args)),
    (376, |_, args, _| split(args)),
    (6172, |_, args, _| Ok(Datum::Array(f::trim(array(args, 0)?, int(args, 1)?)?))),
    (6381, |_, args, _| Ok(Datum::Array(f::reverse(array(args, 0)?)?))),
];

fn number<'a>(n: Option<i32>) -> Datum<'a> {
    n.map_or(Datum::Null, Datum::Int4)
}

/// An array, or the empty one of a type of arrays for NULL.
fn or_empty<'v>(args: &'v [Datum<'_>], i: usize, ty: Oid) -> Result<Array<'v>> {
    match args.get(i) {
        Some(Datum::Null) => {
            let element = forebay_types::type_info(ty).map_or(0, |info| info.elem);
            Ok(Array::empty(element))
        }
        _ => Ok(array(args, i)?.reborrow()),
    }
}

fn position<'a>(args: &[Datum<'_>], start: i32) -> Result<Datum<'a>> {
    match args {
        [Datum::Null, ..] => Ok(Datum::Null),
        [_, value, ..] => Ok(number(f::position(array(args, 0)?, value, start)?)),
        _ => Err(wrong_argument(args, 0)),
    }
}

/// string_to_array(text, delimiter, null)
fn split<'a>(args: &[Datum<'_>]) -> Result<Datum<'a>> {
    let whole = match args.first() {
        Some(Datum::Text(whole)) => whole,
        _ => return Ok(Datum::Null),
    };
    let word = |i: usize| args.get(i).and_then(Datum::as_str);
    Ok(Datum::Array(f::of_string(whole, word(1), word(2))?))
}
