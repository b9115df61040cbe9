//! Arguments of functions, as the planner has cast them.

use crate::error::{Result, SqlError, state};
use forebay_types::{Datum, ValueError};

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
        // The output of a subquery is the relation's name.
        Some(Datum::Text(_)) => {
            Err(SqlError::unsupported("a regclass that comes out of a subquery"))
        }
        _ => Err(wrong_argument(args, i)),
    }
}
