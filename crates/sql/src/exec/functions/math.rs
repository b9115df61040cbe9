//! Functions of numbers.

use super::Area;
use super::arguments::{int, wrong_argument};
use crate::error::{Result, SqlError};
use crate::exec::cast::out_of_range;
use forebay_types::{Datum, Numeric, SqlType};

pub(super) const TABLE: Area = &[
    (1394, |_, args, _| abs(args)),
    (1395, |_, args, _| abs(args)),
    (1396, |_, args, _| abs(args)),
    (1397, |_, args, _| abs(args)),
    (1398, |_, args, _| abs(args)),
    (1705, |_, args, _| abs(args)),
    (1711, |_, args, _| towards(args, false)), // ceil
    (2167, |_, args, _| towards(args, false)),
    (1712, |_, args, _| towards(args, true)), // floor
    (2308, |_, args, _| float(args, f64::ceil)),
    (2320, |_, args, _| float(args, f64::ceil)),
    (2309, |_, args, _| float(args, f64::floor)),
    (1342, |_, args, _| float(args, f64::round_ties_even)),
    (1343, |_, args, _| float(args, f64::trunc)),
    (1344, |_, args, _| match args.first() {
        Some(Datum::Float8(v)) if *v < 0.0 => {
            Err(SqlError::new("2201F", "cannot take square root of a negative number"))
        }
        _ => float(args, f64::sqrt),
    }),
    (1708, |_, args, _| Ok(Datum::numeric(number(args, 0)?.round(0)))),
    (1707, |_, args, _| Ok(Datum::numeric(number(args, 0)?.round_to(int(args, 1)?)?))),
];

/// An argument of type numeric.
pub(super) fn number<'v>(args: &'v [Datum<'_>], i: usize) -> Result<&'v Numeric> {
    match args.get(i) {
        Some(Datum::Numeric(number)) => Ok(number),
        _ => Err(wrong_argument(args, i)),
    }
}

fn float<'a>(args: &[Datum<'_>], f: fn(f64) -> f64) -> Result<Datum<'a>> {
    match args.first() {
        Some(Datum::Float8(v)) => Ok(Datum::Float8(f(*v))),
        _ => Err(wrong_argument(args, 0)),
    }
}

fn fits<'a>(result: Option<Datum<'a>>, ty: SqlType) -> Result<Datum<'a>> {
    result.ok_or_else(|| out_of_range(ty))
}

fn abs<'a>(args: &[Datum<'a>]) -> Result<Datum<'a>> {
    match args.first() {
        Some(Datum::Int2(v)) => fits(v.checked_abs().map(Datum::Int2), SqlType::Int2),
        Some(Datum::Int4(v)) => fits(v.checked_abs().map(Datum::Int4), SqlType::Int4),
        Some(Datum::Int8(v)) => fits(v.checked_abs().map(Datum::Int8), SqlType::Int8),
        Some(Datum::Float4(v)) => Ok(Datum::Float4(v.abs())),
        Some(Datum::Float8(v)) => Ok(Datum::Float8(v.abs())),
        Some(Datum::Numeric(v)) => Ok(Datum::numeric(v.abs())),
        _ => Err(wrong_argument(args, 0)),
    }
}

/// ceil, or floor, of a numeric.
fn towards<'a>(args: &[Datum<'_>], floor: bool) -> Result<Datum<'a>> {
    let value = number(args, 0)?;
    let Numeric::Finite { .. } = value else { return Ok(Datum::numeric(value.clone())) };
    let nearest = value.round(0);
    let one = Numeric::from_int(1);
    Ok(Datum::numeric(match floor {
        false if nearest < *value => nearest.add(&one)?,
        true if nearest > *value => nearest.sub(&one)?,
        _ => nearest,
    }))
}
