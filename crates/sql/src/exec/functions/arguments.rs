//! Arguments of functions, as the planner has cast them.

use crate::error::{Result, SqlError, state};
use forebay_types::{Array, Datum, Inet, Interval, ValueError};

/// The error of an argument that is not of the type the planner chose.
pub(in crate::exec) fn wrong_argument(args: &[Datum<'_>], i: usize) -> SqlError {
    if let Some(Datum::Carried(ty, _)) = args.get(i) {
        return ValueError::carried("an argument", *ty).into();
    }
    let message = format!("argument {} of a function is {:?}", i + 1, args.get(i));
    SqlError::new(state::INTERNAL_ERROR, message)
}

/// The text of an argument.
pub(in crate::exec) fn text<'v>(args: &'v [Datum<'_>], i: usize) -> Result<&'v str> {
    args.get(i).and_then(Datum::as_str).ok_or_else(|| wrong_argument(args, i))
}

pub(in crate::exec) fn int(args: &[Datum<'_>], i: usize) -> Result<i32> {
    match args.get(i) {
        Some(Datum::Int4(v)) => Ok(*v),
        _ => Err(wrong_argument(args, i)),
    }
}

pub(in crate::exec) fn oid(args: &[Datum<'_>], i: usize) -> Result<u32> {
    match args.get(i) {
        Some(Datum::Oid(v)) => Ok(*v),
        _ => Err(wrong_argument(args, i)),
    }
}

pub(in crate::exec) fn int8(args: &[Datum<'_>], i: usize) -> Result<i64> {
    match args.get(i) {
        Some(Datum::Int8(v)) => Ok(*v),
        _ => Err(wrong_argument(args, i)),
    }
}

pub(in crate::exec) fn float8(args: &[Datum<'_>], i: usize) -> Result<f64> {
    match args.get(i) {
        Some(Datum::Float8(v)) => Ok(*v),
        _ => Err(wrong_argument(args, i)),
    }
}

pub(in crate::exec) fn interval<'v>(args: &'v [Datum<'_>], i: usize) -> Result<&'v Interval> {
    match args.get(i) {
        Some(Datum::Interval(interval)) => Ok(interval),
        _ => Err(wrong_argument(args, i)),
    }
}

pub(in crate::exec) fn array<'v, 'a>(args: &'v [Datum<'a>], i: usize) -> Result<&'v Array<'a>> {
    match args.get(i) {
        Some(Datum::Array(array)) => Ok(array),
        _ => Err(wrong_argument(args, i)),
    }
}

pub(in crate::exec) fn bytes<'v>(args: &'v [Datum<'_>], i: usize) -> Result<&'v [u8]> {
    match args.get(i) {
        Some(Datum::Bytes(bytes)) => Ok(bytes),
        _ => Err(wrong_argument(args, i)),
    }
}

/// A bit string: its length, and its bytes.
pub(in crate::exec) fn bits<'v>(args: &'v [Datum<'_>], i: usize) -> Result<(u32, &'v [u8])> {
    match args.get(i) {
        Some(Datum::Bits(len, bytes)) => Ok((*len, bytes)),
        _ => Err(wrong_argument(args, i)),
    }
}

pub(in crate::exec) fn inet<'v>(args: &'v [Datum<'_>], i: usize) -> Result<&'v Inet> {
    match args.get(i) {
        Some(Datum::Inet(inet)) => Ok(inet),
        _ => Err(wrong_argument(args, i)),
    }
}
